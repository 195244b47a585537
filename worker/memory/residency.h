/* SPDX-License-Identifier: MIT
 *
 * Which pieces of the session's objects are on the device, and their moves: the worker's half of
 * docs/memory.md, whose numbered rules are named in the code. gdevd says how much; we say which.
 *
 * A piece (struct piece, memory.h) that commands can use as it is, is RESIDENT or MAPPED. All others are
 * counted in absent_bytes; while that is 0 (and nobody is suspended) none of this is looked at.
 *
 *   RESIDENT -> LEAVING -> WRITING -> WRITTEN -> GOING -> SWAPPED, or FRESH if nothing was ever there
 *      ^___________|__________|__________|                   |
 *      |     wanted back: not a byte moves, and it can be    |
 *      |     used at once, also while it is being copied     |
 *      |_________________ LOADING ___________________________|
 *                           |______-> MAPPED (used from host memory: the session alone is too large)
 *
 * Moves are commands on queues of their own, so that both directions and the session's own work overlap. They
 * use the copy engines under the session's grants, as its copies do. What is brought in is charged to the session;
 * what makes room for another is that one's, and gdevd is told how long it took.
 * What may block (slots, mapping, unmapping) is done by three jobs: write, drop, load. A piece that a job or
 * a move has is pinned by its range's pin.
 */
#ifndef GDEV_WORKER_RESIDENCY_H
#define GDEV_WORKER_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/control.h"
#include "worker/control.h"
#include "worker/direct.h"
#include "worker/memory/memory.h"
#include "worker/service.h"
#include "worker/stream.h"

struct device_copy;
struct device_fill;

/* Some work of which there is at most one at a time. */
struct single_job {
	struct job job;
	bool running;
};

struct residency {
	uint64_t absent_bytes;
	bool suspended;      /* commands wait for RESUME */
	bool resuming;       /* paused launches go on when everything is there */
	uint64_t launches;   /* ever submitted */
	uint64_t copies;     /* that named device memory */
	uint64_t since_ns;   /* commands wait for memory; 0: none do */
	uint64_t loaded_ns;  /* they have waited, in all */
	struct list exports; /* SHARED_EXPORT commands, likewise */
	struct list waiting; /* streams whose first command waits for pieces, or for RESUME */

	/* Bringing in. */
	struct list wanted; /* pieces, FRESH or SWAPPED, the first first */
	uint64_t wanted_bytes;
	struct list loading; /* LOADING, and not with the load job yet */
	unsigned loads;      /* pieces that are LOADING */
	bool asking;         /* gdevd, for device memory */
	struct control_request request;
	uint64_t asked_ns; /* when; 0: nobody traces */
	bool patiently; /* it was told that there is something that cannot be used from the host */
	bool said_why;  /* and that this is so is in the log */
	int load_error; /* the next command that needs it has it */
	struct single_job load;

	/* Making room. One EVICT at a time. */
	struct list leaving;  /* LEAVING */
	struct list prepared; /* LEAVING, and have a slot */
	struct list writing, written;
	bool evicting, begun;
	bool ready; /* no command in flight can reach what is leaving */
	int failed;
	struct single_job trim;
	struct control_evict order;
	uint64_t ordered_ns; /* when it came; 0: nobody traces */
	bool ordered;        /* and it was not said yet how it was carried out, */
	struct control_evict
		next; /* after which this one comes, of a gdevd that is new, or of our own, */
	bool waits;   /* if there is one */
	uint64_t given_bytes, prepared_bytes, moving_bytes;
	uint64_t promised_bytes; /* of swap space, for what has not left yet */
	uint64_t copied_ns;      /* by the copy engine, for the order */
	unsigned going;          /* pieces that are WRITING or GOING */
	bool kept;               /* something that was to leave was wanted back */
	bool gave_nothing;       /* the last order of our own */
	bool eases;              /* gdevd waits for EASED, */
	uint64_t after;          /* which is said when no command up to this one is in flight */
	bool stopped;            /* direct copies, until the order has been carried out */
	struct direct_stop stop;
	uint64_t draining_ns; /* since when it waits for commands in flight; 0: it does not, */
	uint64_t sequence;    /* up to this one */
	unsigned let_go;      /* orders in a row for which launches were held in vain */
	struct single_job write, drop;

	struct device_queue *out, *in;   /* made when first needed */
	struct list moves_out, moves_in; /* commands that wait for a grant */

	/* Whether `a` has more right to be on the device than `b`, when not all of a session fits (rule 9). */
	bool (*prefers)(const struct range *a, const struct range *b);
};

void residency_init(struct core *core);
void residency_finish(struct core *core);

/* All with the lock. */

/* Whether there is anything to look at before a command passes. */
static inline bool residency_settled(const struct residency *residency)
{
	return !residency->absent_bytes && !residency->suspended;
}

/* Whether the command, which has been prepared, may go to the device as far as memory is concerned. If
 * not, its stream is where it waits, or the command is being served from host swap. */
bool residency_admits(struct core *core, struct stream *stream, struct command *command);
/* A launch, copy, write or fill goes to the device: what it writes is not FRESH any more. */
void residency_note(struct core *core, struct command *command);
/* The new object's pieces, if it begins in host swap. */
void residency_add(struct core *core, struct range *range);
/* The object's chunks are to be handed to others: it stays on the device. False: it is not there yet, and
 * comes. */
bool residency_keep(struct core *core, struct range *range);
/* The range is being freed: what moves comes to rest; what is queued is forgotten. */
void residency_forget(struct core *core, struct range *range);
/* The range's pieces are gone; what they were charged is returned. */
void residency_release(struct core *core, struct range *range);
/* From gdevd. */
void residency_evict(struct core *core, const struct control_evict *order);
/* A command is done, or was paused: does nobody reach any more what is leaving? */
void evict_drained(struct core *core);
/* The session has nothing more to do, or has given compute back: gdevd may wait for that. */
void evict_eased(struct core *core);
/* Whether launches, which would want back all that is leaving, wait until it has left (EVICT_LIMIT). */
static inline bool evict_holds_launches(const struct residency *residency)
{
	return residency->evicting && residency->order.flags & EVICT_LIMIT;
}
/* The session's own order, of which gdevd knows nothing: evict_for_array(). */
static inline bool evict_is_own(const struct control_evict *order)
{
	return !order->header.type;
}
/* A launch is held. If its stream has nothing on the device, evict_tick() lets it go after a while. */
void evict_hold_launch(struct core *core);
uint64_t evict_tick(struct core *core, uint64_t now_ns);
/* For EVICTED: what was not given is in use, if `kept`, and EASED follows; else it stays. */
enum evict_rest evict_rest(struct core *core, bool kept);
/* Unlocked, in a job: so much host swap that is used in memory is to be in the file instead (EVICT_MOVE). */
void evict_to_file(struct core *core, uint64_t bytes);
/* Whether no command up to this one reaches what is not listed any more. */
bool evict_is_drained(const struct core *core, uint64_t sequence);
/* Compute is ours again: grants_resume() when all that paused launches can reach is there. */
void residency_resume(struct core *core);
/* Says how gdevd's order was carried out. `flags`: EVICT_RETIRE. */
void residency_say_evicted(struct core *core, int status, bool retired);
/* gdevd is gone: nobody gives us more, and nobody waits for what leaves. */
void residency_lost(struct core *core);
/* Whether nothing of the session is on the device but modules, and nothing is on its way. */
bool residency_is_quiet(struct core *core);
/* Whether the session waits for its own pieces: it is not idle then. */
bool residency_busy(const struct residency *residency);

/* A grant has come or changed, or a move is done: submits those that wait, as far as they may go. */
void residency_submit_moves(struct core *core, uint32_t which);
/* Whether moves wait for that grant. */
bool residency_moves_wait(struct residency *residency, uint32_t which);
/* The command is done, after so much device time. True: the time is not this session's. */
bool residency_copied(struct core *core, const struct command *command, uint64_t used_ns);

/* ---- between residency.c, load.c, evict.c and serve.c ---- */

/* Starts the job unless it runs; it says itself, with the lock, that it does not any more. */
void residency_start(struct core *core, struct single_job *single, void (*run)(struct job *job));
/* A move between a piece and its slot; `moved` is called with the lock. -ENOMEM. */
int residency_move(struct core *core, struct piece *piece, bool out,
	void (*moved)(struct core *core, struct command *command));
/* The same on another queue; command->owner is `owner`. */
int residency_move_on(struct core *core, struct device_queue *queue, struct piece *piece, bool out,
	void (*moved)(struct core *core, struct command *command), void *owner);
/* Unlocked: makes the queue for moves. */
int residency_queue(struct core *core, bool out);
bool residency_is_written(const struct core *core, const struct piece *piece);
/* The piece can be used again as it is. */
void residency_arrived(struct core *core, struct piece *piece, enum piece_state state);
/* Something has come to rest: those that wait look again. */
void residency_wake(struct core *core);
/* A piece is in swap now, and can be wanted again. */
void residency_gone(struct core *core);
/* A piece that leaves is wanted back. True: it is there. */
bool evict_rescue(struct core *core, struct piece *piece);
void evict_rescue_all(struct core *core);
/* Nobody has room for an array of ours: other memory of the session leaves for it, and is used from the host then. Launches wait
 * until it has left, and ask again. False: there is none. */
bool evict_for_array(struct core *core, uint64_t bytes);
/* Begins to carry out gdevd's order, unless something is being brought in just now. */
void evict_begin(struct core *core);
/* The session's objects, those that should be on the device first. malloc'ed. */
struct range **residency_order(struct core *core, size_t *count);
/* Brings in what is wanted, as far as there is memory; asks for more. */
void residency_pump(struct core *core);
void residency_want(struct core *core, struct piece *piece);
void residency_want_all(struct core *core);
/* transfer.c: bytes from the first to the last that a copy writes and reads, a fill writes. */
void device_copy_spans(const struct device_copy *copy, uint64_t *to, uint64_t *from);
uint64_t device_fill_span(const struct device_fill *fill);
/* serve.c: executes the command in its piece's slot. */
void swap_serve(
	struct core *core, struct stream *stream, struct command *command, struct piece *piece);
/* The command has been served. */
void swap_served(struct core *core, struct command *command);

#endif

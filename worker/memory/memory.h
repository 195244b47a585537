/* SPDX-License-Identifier: MIT
 *
 * What is where in the session's address space, and paying for it.
 *
 * A range is an object: staging memory, page-locked memory that the client has added, device memory
 * (made of chunks), an attached shared segment, a module's variable, or an array, in whose memory only the device
 * knows its way (worker/texture.c). Ranges do not overlap. A
 * command may only touch bytes of one range that is ready. What is on the device keeps a range alive:
 * it stops being found at once, and goes when the commands in flight at that moment are done.
 *
 * Paying. gdevd counts device memory by session; we have asked for `charged` bytes and use `used` of
 * them. The difference, some chunks' worth, lets most allocations and frees go without a message.
 * kept_bytes of chunks wait for reuse within this session. Invariant, once things settle:
 * used_bytes + kept_bytes <= charged_bytes.
 */
#ifndef GDEV_WORKER_MEMORY_H
#define GDEV_WORKER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/peer.h"
#include "worker/control.h"
#include "worker/service.h"

#define MEMORY_SLACK_BYTES (64ull << 20)
/* Each costs the worker a mapping or two, of which a process has 65530. */
#define HOST_RANGES_MAX 16384

enum range_kind {
	RANGE_STAGING,
	RANGE_HOST,
	RANGE_DEVICE,
	RANGE_SHARED,
	RANGE_VARIABLE,
	RANGE_ARRAY,
};

/* Where the bytes of a chunk's worth of an object are: docs/memory.md, residency.h. */
enum piece_state {
	PIECE_RESIDENT, /* on the device */
	PIECE_LEAVING,  /* on the device, unlisted: waits to be written out */
	PIECE_WRITING,  /* on the device, being written out */
	PIECE_WRITTEN,  /* on the device and in its slot (or never written): waits to be unmapped */
	PIECE_GOING,    /* being unmapped */
	PIECE_FRESH,    /* nowhere: nothing was ever put there */
	PIECE_SWAPPED,  /* in its slot */
	PIECE_LOADING,  /* being brought in, or mapped from its slot */
	PIECE_MAPPED,   /* in its slot, and commands use it there */
};

struct piece {
	struct list link; /* of a list of struct residency */
	struct range *range;
	struct device_chunk *chunk; /* RESIDENT to GOING */
	struct swap_slot *slot;     /* SWAPPED, MAPPED, and while it moves */
	uint64_t offset, bytes;     /* in the range */
	uint8_t state;              /* enum piece_state */
	bool written;               /* something was put there by a copy, a fill, or from swap */
	bool to_be_mapped;          /* LOADING: from its slot, not brought in */
	bool copied;     /* RESIDENT: was wanted back while it was WRITING, and is read yet */
	bool uncharged;  /* LEAVING: host swap for it has not been charged with the order */
	unsigned served; /* commands that work in its slot */
};

struct range {
	uint64_t address, bytes;
	enum range_kind kind;
	bool ready;              /* false: being made, or being taken apart */
	bool read_only;          /* for commands of this session */
	bool mapped;             /* the client has it mapped, for good */
	bool lent;               /* and until it is told otherwise: direct.h */
	bool exporting;          /* its chunks are being handed to gdevd */
	unsigned pins;           /* jobs that touch it without the lock */
	struct command *freeing; /* waits for the pins to go */
	struct piece *pieces;    /* DEVICE, SHARED; ARRAY: one, if its memory can leave */
	size_t piece_count;
	uint64_t launches;          /* DEVICE, ARRAY: of the session, when it was made */
	bool stays;                 /* DEVICE: what has its chunks is not only us */
	uint64_t copied_at;         /* DEVICE, ARRAY: when a copy last named it; counts copies */
	struct shared *shared;      /* SHARED: shm.c */
	struct device_array *array; /* ARRAY: once it is made, */
	uint64_t array_bytes; /* for which so much device memory has been charged, if it stays */
};

/* Whether its pieces leave and come back by themselves. */
static inline bool range_swaps(const struct range *range)
{
	return range->kind == RANGE_DEVICE || (range->kind == RANGE_ARRAY && range->piece_count);
}

/* A wish for device memory. */
struct charge {
	struct list link;
	uint64_t bytes;
	bool swappable;   /* host swap will do */
	bool for_turn;    /* it is to be brought in, in the session's turn of the device */
	uint8_t refusals; /* by the driver, of what was charged */
	bool swapped;     /* and it is host swap that has been charged */
	/* With the lock. 0: `bytes` are ours now; -ENOMEM. */
	void (*decided)(struct core *core, struct charge *charge, int status);
};

/* A chunk that waits for reuse. */
struct kept_chunk {
	struct list link;
	struct device_chunk *chunk;
	uint64_t bytes;
};

/* Addresses of another session of the client. */
struct peer_range {
	uint64_t base, bytes;
};

struct memory {
	struct peer_range peers[PEER_RANGES_MAX];
	unsigned peer_count;
	struct range **ranges; /* by address */
	size_t range_count, range_capacity;
	uint64_t charged_bytes, used_bytes, kept_bytes;
	size_t host_ranges;      /* page-locked memory: at most HOST_RANGES_MAX, */
	uint64_t host_bytes;     /* and with the images that were sent config.host_bytes */
	uint64_t limit_bytes;    /* of the virtual GPU */
	struct list kept;        /* struct kept_chunk */
	struct list charges;     /* undecided, oldest first */
	struct list holds;       /* shared memory that is held without a range: shm.c */
	struct list shared;      /* struct shared: shm.h */
	unsigned shared_away;    /* that are not HERE or MAPPED, */
	unsigned shared_leaving; /* and LEAVING */
	bool carrying;           /* shared_carry(): without a client, a job has the address space */
	bool asking;             /* gdevd has been asked on behalf of the first of them */
	bool behind; /* the first has to wait until gdevd has answered residency.request */
	struct control_request request; /* while asking */
	/* Host swap: what our objects have been charged, all of it in use. */
	uint64_t swap_bytes;
	struct job trim_job, tell_job;
	bool trimming, telling;
	uint64_t slack_since_ns; /* when slack last changed; 0: there is none */
};

void memory_init(struct core *core);
void memory_finish(struct core *core);

/* All with the lock. */

/* The range that contains [address, address + bytes), when it is ready. NULL: none does. */
struct range *memory_find(struct core *core, uint64_t address, uint64_t bytes);
/* A new range, not ready. -EINVAL: outside of the arena, and, for host and shared memory, of those of the client's other
 * sessions; -EEXIST: not free; -ENOMEM. */
int memory_insert(struct core *core, enum range_kind kind, uint64_t address, uint64_t bytes,
	struct range **range);
/* Whether the arena of another session of the client can be added, which is reserved before that. -EEXIST: it has been;
 * -EINVAL, -ENOSPC: proto/peer.h. */
int memory_check_peer(struct core *core, uint64_t base, uint64_t bytes);
void memory_add_peer(struct core *core, uint64_t base, uint64_t bytes);
/* Takes it out of the map and frees it: chunks and mappings are the caller's to undo before. */
void memory_remove(struct core *core, struct range *range);

void memory_alloc(struct command *command);
/* Pays for command->range, and runs `job` on the command then, unlocked; or takes the range out, and answers. */
void memory_pay(struct command *command, uint64_t bytes, void (*job)(struct job *job));
/* Of device, page-locked and shared memory: stops the range from being found, waits for what may touch it,
 * then runs `job` on the command, unlocked, with command->range. */
void memory_retire(struct command *command, struct range *range, void (*job)(struct job *job));
void memory_free(struct command *command);
void memory_pin(struct range *range);
void memory_unpin(struct core *core, struct range *range);

/* Ours now, and what came with the message. */
void memory_charged(
	struct core *core, const struct control_charged *charged, int *fds, size_t fd_count);
/* Tells gdevd, if it is anything. */
void memory_return(struct core *core, struct control_return message);
/* Asks for bytes; calls charge->decided, perhaps before it returns. */
void memory_charge(struct core *core, struct charge *charge);
void memory_uncharge(struct core *core, uint64_t bytes);
/* gdevd asks a warm worker what the driver has free. */
void memory_tell_free(struct core *core);
/* Device memory that we have been charged and do not use goes back, up to `bytes`; how much did. */
uint64_t memory_give_slack(struct core *core, uint64_t bytes);
/* Bytes that were used go back at once. */
void memory_vacate(struct core *core, uint64_t bytes);
/* The same, as the driver has refused them. So does what we have been charged beside them: it may not be there, either. */
void memory_return_refused(struct core *core, uint64_t bytes);
/* Host swap is not needed any more. */
void memory_uncharge_swap(struct core *core, uint64_t bytes);
/* The memory now belongs to something else that has paid: both what we use and what we have been charged
 * shrink. */
void memory_hand_over(struct core *core, uint64_t bytes);
/* The other way round. */
void memory_take_over(struct core *core, uint64_t bytes);
/* Looks again at the wishes that wait. */
void memory_reconsider(struct core *core);
/* Gives slack back when nothing has been allocated or freed for a while. Returns when to look again, or
 * UINT64_MAX. */
uint64_t memory_tick(struct core *core, uint64_t now_ns);

/* The piece at an address of the range. */
struct piece *memory_piece(const struct range *range, uint64_t address);

/* Unlocked. Pieces with chunks, or without (FRESH). */
int memory_make_pieces(
	struct core *core, uint64_t bytes, uint64_t chunk_bytes, bool fresh, struct range *range);
/* The piece's chunk, one of those that are kept or a new one. */
int memory_make_chunk(struct core *core, struct piece *piece);
int memory_map_pieces(struct core *core, struct range *range);
void memory_unmap_pieces(struct core *core, struct range *range, size_t count);
void memory_drop_pieces(struct core *core, struct range *range);
/* The driver has no memory for what was charged: others than gdevd's workers use the device. True: gdevd is asked once more,
 * and `decided` will be called again. False: it was asked often enough, or cannot do anything; the charge stands. */
bool memory_refused(struct core *core, struct charge *charge);
/* Destroys chunks that are kept, down to `limit` and to what is paid for. */
void memory_trim(struct core *core, uint64_t limit);
/* Lets the device use host memory of ours, where it has to be told of it; and not any more. */
int memory_register(struct core *core, uint64_t address, uint64_t bytes);
void memory_unregister(struct core *core, uint64_t address, uint64_t bytes);
/* Maps a file's memory at an address that is reserved, and registers it. With an error the reservation is back. */
int memory_map_host(struct core *core, uint64_t address, uint64_t bytes, int fd, uint64_t offset);
void memory_unmap_host(struct core *core, uint64_t address, uint64_t bytes);
/* Puts the arena's reservation back over a mapping of host memory. */
void memory_reserve_again(uint64_t address, uint64_t bytes);

#endif

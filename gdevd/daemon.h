/* SPDX-License-Identifier: MIT
 *
 * What gdevd knows: its devices, virtual GPUs, workers, and sessions, and what its files do for each
 * other. Everything here belongs to the daemon's one thread; there are no locks.
 *
 * Who refers to whom: a device has virtual GPUs and workers, and everything that its sessions contend for: memory,
 * arbiters, turns. A session has one worker and one virtual GPU, both of one device; a worker at most one session. A
 * session may have a client connection (after a restart of gdevd it has none). A session is ended in two
 * steps: session_end() unpublishes it (no list, key, grant or watch names it any more) and records it
 * in the history; its worker then leaves by itself, or is killed, and returns its memory when it is
 * gone.
 */
#ifndef GDEV_GDEVD_DAEMON_H
#define GDEV_GDEVD_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/paths.h"
#include "gdevd/cache.h"
#include "gdevd/config.h"
#include "gdevd/connection.h"
#include "gdevd/deadlines.h"
#include "gdevd/ledger.h"
#include "gdevd/memory/freeing.h"
#include "gdevd/memory/memory.h"
#include "gdevd/memory/residency.h"
#include "gdevd/memory/retire.h"
#include "gdevd/memory/shm.h"
#include "gdevd/memory/strangers.h"
#include "gdevd/memory/swap.h"
#include "gdevd/sched/sched.h"
#include "gdevd/usage.h"
#include "gdevd/users.h"
#include "gdevd/worker_cgroup.h"
#include "proto/control.h"

#define HISTORY_SESSIONS 64
#define PROGRAM_NAME_MAX 32

/* A virtual GPU, or the part that one device has of a virtual GPU of any device: that has one on each, with the same
 * `config`, and a session is of one part. */
struct vgpu {
	struct list link;      /* daemon.vgpus */
	struct list by_device; /* device.vgpus */
	struct daemon *daemon;
	struct device *device;
	struct config_vgpu *config; /* in config.vgpus; vgpus.c changes it */
	struct memory_account memory;
	struct memory_account swap[SWAP_POOLS]; /* that its objects take */
	struct shm shm;                         /* keys are per virtual GPU */
	struct sched_group groups[RESOURCES];
	struct usage usage[RESOURCES];
	unsigned sessions;
};

#define FAILURES_ALLOWED 3 /* with as many the device fails; it is tried again by itself */

/* The pool of a device's workers. */
struct workers {
	struct list all; /* struct worker.by_device, oldest first */
	unsigned total, starting, warm, carrying;
	/* So many clients waited at once lately. The pool is larger by twice that. */
	unsigned missed;
	struct deadline retire, retry;
	unsigned failures; /* starts that failed in a row, until a worker is ready */
	uint64_t ready_ns; /* when the last one was ready */
	bool backing_off;  /* until `retry` */
	bool hopeless;     /* clients are told so, until a worker is ready */
	char why[80];      /* the last one failed; "": it did not */
	bool adjusting;    /* workers_adjust() does not nest */
};

/* A physical GPU. Its facts come with the first worker that is ready. */
struct device {
	struct list link; /* daemon.devices */
	struct daemon *daemon;
	const struct config_served_device *served; /* in config.served */
	char name[64];
	uint8_t uuid[16];
	int32_t properties[DEVICE_PROPERTIES];
	char folder[64];      /* of sysfs; "": it is on no bus, or not known */
	char processors[128]; /* that are near to it, or that it uses, as the kernel writes lists */
	int node;             /* of these; -1: nobody knows */
	bool known;
	struct device_timing timing;
	uint32_t traits;         /* enum device_trait */
	uint32_t peers;          /* as in READY */
	uint64_t overhead_bytes; /* what a context holds of it: the last one's that was opened */
	bool drained;            /* takes no new sessions; drain.c writes it */
	unsigned losses;         /* sessions that it failed under, */
	uint64_t lost_ns;        /* and when the warm workers were replaced for it */
	struct list vgpus;       /* struct vgpu.by_device */
	struct workers workers;
	struct list lacking; /* struct worker.lacking */
	struct memory_account memory;
	struct strangers strangers;
	struct residency residency;
	struct retire retire;
	struct sched sched[RESOURCES];
	struct usage usage[RESOURCES];
	uint64_t last_holder[RESOURCES]; /* session id */
	struct deadline grants;          /* the arbiters' soonest */
	struct deadline gone;            /* nobody has left compute lately: session.left_ns */
	bool turn_begins;                /* of a session: grants.c */
	struct turning {
		int fd; /* -1: none */
		struct turns *page;
		/* The word that is in `next`, unless the holder has taken it. */
		uint64_t said[RESOURCES];
		uint64_t preferred; /* the session of the word `preferred`; 0: none */
		uint32_t turn;      /* the last number */
	} turning;
};

enum worker_state {
	WORKER_STARTING, /* not READY yet */
	WORKER_WARM,
	WORKER_CARRYING,  /* copies shared memory out, and is warm again then */
	WORKER_ATTACHING, /* has a session that its client does not know yet */
	WORKER_SERVING,
	WORKER_LEAVING, /* no session any more; its memory is still charged */
};

/* The descriptors of READY that a client gets, in WELCOME's order. */
enum { WORKER_FD_SEGMENT, WORKER_FD_STAGING, WORKER_FD_WAKE, WORKER_FD_CLIENT_WAKE, WORKER_FDS };

struct worker {
	struct list link;      /* daemon.workers */
	struct list by_device; /* device.workers.all */
	struct daemon *daemon;
	struct device *device;
	enum worker_state state;
	pid_t pid;
	struct worker_start *start;    /* its process is being started; NULL: it is not any more */
	bool child;                    /* and its process has not been reaped, */
	bool killed;                   /* which we have killed */
	struct connection *connection; /* NULL: gone */
	int fds[WORKER_FDS];           /* until WELCOME */
	int trace_fd;                  /* of the trace segment; -1: it has none */
	struct worker_page *page;
	struct memory_account memory, swap[SWAP_POOLS];
	struct worker_swap swapping;
	struct worker_residency residency;
	struct worker_retire retire;
	/* device.lacking, while `lacks` waits for warm workers to go, or to say what strangers have */
	struct list lacking;
	struct control_allocate lacks;
	bool refused;     /* by the driver, what gdevd has charged: strangers.h */
	bool owes_answer; /* to MEMORY (there) */
	struct session *session;
	struct shm_segment *carries; /* CARRYING; NULL: that is gone */
	bool restored;               /* served its session before this gdevd started */
	/* Of a restored one: when its process began, as the ledger has it; 0: not known. */
	uint64_t started;
	struct deadline deadline; /* of its start, of its end, or of an answer */
	uint64_t since_ns;        /* of the state */
	uint64_t staging_bytes;
	char why[80]; /* it will have failed to start */
	char device_name[64];
	uint8_t device_uuid[16];
};

/* A session and a resource: what it asked for, and has. Where one arbiter has all resources (SDQ),
 * used_ns is that of all, in the arbiter's. */
struct session_grant {
	bool asked, held;
	bool again;          /* asked for it before it gave it back */
	uint64_t granted_ns; /* when, */
	uint64_t page_ns;    /* and what the worker page said then */
	uint64_t told_ns;    /* when it was told to leave; 0: not yet */
	uint64_t used_ns;    /* of what was given back already */
	/* How long it had waited for memory by then, as the worker page said. */
	uint64_t loading_ns;
};

enum rank_source { RANK_OF_PROCESS, RANK_OF_THREAD, RANK_OF_OPENER, RANK_LENT };

/* A session's rank within its virtual GPU, for all its entities, as nice values have it: -20 comes first, 19 last. gdevd
 * fills it in, from what the kernel says of the client: nothing that a client or a worker sends is taken for it. */
struct rank {
	int nice; /* that counts: the better of the next two */
	int own;  /* the kernel's nice value */
	int lent; /* of sessions that wait for this one; 19: none */
	/* Whose `own` is: the client's process's, or that of its thread that asked last. */
	enum rank_source from;
};

/* How a session goes to another device (moving.c). */
struct session_move {
	enum {
		MOVE_NONE,
		MOVE_LEAVING, /* what it has on its device leaves that */
		MOVE_TOLD,    /* gdevd has it on the other one; its worker has not answered yet */
	} state;
	bool ordered;      /* to leave, and nobody has looked yet what came of that */
	bool suspended;    /* by an administrator: it stays so */
	bool onward;       /* TOLD: the device that it goes to was drained meanwhile */
	uint64_t again_ns; /* LEAVING: when it is ordered to */
	uint64_t until_ns; /* it is tried no more; TOLD: its worker is killed */
	struct vgpu *from; /* TOLD; NULL: that is deleted */
	uint32_t count;    /* to how many devices it went */
	char why[80];      /* it stays, as it was found the last time; "": nothing kept it */
};

struct session {
	struct list link; /* daemon.sessions */
	struct daemon *daemon;
	struct device *device; /* its virtual GPU's and its worker's */
	uint64_t id;
	struct vgpu *vgpu;
	struct worker *worker;
	struct client *client; /* NULL: not connected to this gdevd */
	struct user *user;
	pid_t pid;
	uint64_t process_started; /* the client's, as the kernel has it; 0: not known */
	uid_t uid;
	gid_t gid;
	struct groups groups;
	uint64_t ledger_place; /* 0: none */
	char program[PROGRAM_NAME_MAX];
	uint64_t started_ns;
	uint64_t arena_base, arena_bytes, features;
	uint64_t trace; /* the token with which its client asked to be traced; 0: it did not */
	uint32_t version;
	bool turns;       /* its worker has the page */
	uint64_t left_ns; /* when it last had nothing more for compute */
	struct sched_entity entities[RESOURCES];
	struct session_grant grants[RESOURCES];
	struct usage usage[RESOURCES];
	struct rank rank;
	struct session_move move;
	/* events.c: struct event_pair, with those for which this one waits, and those that wait for this one. */
	struct list waits_for, waited_for;
	unsigned watch_count;        /* that this one asked for */
	bool events_reached;         /* all that it shared, at its end */
	bool left;                   /* its worker said that it ends as it should */
	struct list shm_attachments; /* shm.h */
	unsigned shm_parked;         /* requests that wait */
	struct list cache_requests;  /* struct cache_request, of which there are: */
	unsigned cache_request_count;
};

/* Sessions that ended before all events that they shared were reached, as a ring. */
struct unreached {
	uint64_t sessions[1024];
	size_t count; /* ever */
};

#define PLACED 256

/* Where a process was placed. */
struct placed {
	pid_t pid;
	uid_t uid;
	uint64_t process_started;
	struct vgpu *vgpu; /* NULL: it is gone */
};

/* A session that ended. */
struct ended {
	uint64_t id;
	pid_t pid;
	uid_t uid;
	char program[PROGRAM_NAME_MAX], vgpu[CONTROL_NAME_MAX], reason[48];
	uint64_t wall_ns, peak_bytes;
	struct worker_page page;
};

struct daemon {
	uv_loop_t loop;
	struct config config;
	bool private, stopping;
	bool visited; /* by anybody, ever */
	char runtime_dir[PATHS_MAX], state_dir[PATHS_MAX], config_path[PATHS_MAX];
	char made_path[PATHS_MAX]; /* of the virtual GPUs that were made at run time */
	int lock;                  /* of the runtime directory */
	int ids;                   /* file of the ids that were given out */
	uint64_t next_id, ids_end;
	struct ledgers { /* for the next gdevd */
		struct ledger sessions, segments, attachments;
	} ledgers;
	struct deadlines deadlines;
	struct list devices;
	struct list vgpus; /* the parts of one are in the order of their devices */
	struct {
		struct placed last[PLACED]; /* a ring */
		uint64_t count;             /* ever */
	} placed;
	struct list workers; /* of all devices */
	struct worker_program {
		char path[PATHS_MAX]; /* of gdev-worker */
		uid_t uid;            /* what workers become when we are root; else -1 */
		gid_t gid;
		char warning[384];     /* of that user, for who looks; "": all is well */
		unsigned starting_max; /* of a device, at once */
	} program;
	struct worker_cgroups cgroups;
	struct deadline sweep; /* of the groups of workers that are gone */
	struct swap swap;
	struct list freeing; /* struct freeing */
	struct list sessions;
	unsigned session_count;
	struct list segments; /* of shared memory, of all virtual GPUs */
	struct users users;
	struct list graphs;  /* struct graph */
	struct list clients; /* connections of clients and of administrators: client.c */
	struct list waiting; /* those that wait for a worker, longest first */
	struct cache cache;
	struct list watches_unclaimed; /* events.c */
	struct deadline restored, unclaimed, lonely;
	struct deadline moving; /* some session is */
	uv_idle_t eager;        /* grants.c: the loop does not sleep, */
	uint64_t eager_until_ns;
	struct measure {
		struct deadline tick;
		struct usage_clock clock;
		uint64_t seen_ns;   /* used_ns and waited_ns of all resources at the last tick */
		uint64_t active_ns; /* when that last changed, or somebody looked */
	} measure;
	struct unreached unreached;
	struct ended history[HISTORY_SESSIONS];
	/* Ever. The newest is history[(ended_count - 1) % HISTORY_SESSIONS]. */
	uint64_t ended_count;
};

/* daemon.c */
/* An empty daemon with the default configuration, and its loop. */
int daemon_init(struct daemon *daemon);
void daemon_stop(struct daemon *daemon);
/* A client, a session or a connection is gone: a private daemon may leave. */
void daemon_maybe_leave(struct daemon *daemon);
/* A number that names a session or a segment, and, until 2^32 - 1 were given out, has named nothing before, also across
 * restarts; after that, nothing that there is. */
uint32_t daemon_new_id(struct daemon *daemon);

/* devices.c */
/* Makes the devices of the configuration. */
int devices_init(struct daemon *daemon);
void devices_finish(struct daemon *daemon);
struct device *device_first(const struct daemon *daemon);
/* NULL: no device has the name. */
struct device *device_find(const struct daemon *daemon, const char *name);
/* The device's place among those that are served: below CONFIG_DEVICES_MAX. */
unsigned device_index(const struct device *device);
/* Whether the device's workers do not start. */
bool device_is_failing(const struct device *device);
/* Whether a worker takes so long to start that the device may hang. */
bool device_is_slow(const struct device *device);
/* Of all devices. */
unsigned devices_count_workers(const struct daemon *daemon);
unsigned device_count_sessions(const struct device *device);

/* drain.c: a device that takes no new sessions. */
enum drain { DRAIN_NOT, DRAIN, DRAIN_AND_MOVE };
/* Clients that wait for the device go elsewhere, or are told. `note` (CONFIG_ERROR_MAX bytes) says what will not last.
 * -ENOMEM. DRAIN_AND_MOVE: -ENODEV: there is no device that its sessions could go to; -EAGAIN: the models of
 * some are not known yet. */
int device_drain(struct device *device, enum drain how, char *note);
/* Tells a client that its device is drained. */
void device_refuse_drained(struct client *client);

/* moving.c: sessions go from a drained device to another one of its model. */
void moving_init(struct daemon *daemon);
/* All sessions of the device are to go; session.move says what becomes of each. */
void moving_begin(struct device *device);
/* MOVED. Negative: malformed. */
int moving_answered(struct session *session, const struct control_header *header);
/* The device that takes what cannot be on a drained one; NULL: there is none of its model. */
struct device *moving_find_stand_in(const struct device *device);
/* As residency_suspend() and residency_resume(), which they are for a session that does not move. One that moves is suspended,
 * or goes on, when that is over. */
int moving_suspend(struct session *session);
int moving_resume(struct session *session);
/* The virtual GPU is going. */
void moving_forget(const struct vgpu *vgpu);

/* locate.c */
/* Finds out where the device is, which is known now. */
void device_locate(struct device *device);
/* Whether the device was on the bus, and is there no longer. */
bool device_is_gone(const struct device *device);

/* placing.c */
/* A client of a virtual GPU of any device belongs from now on to the part on which its session begins. */
void client_place(struct client *client);
/* The best of several devices for a session of `config`, a virtual GPU of any device (NULL: for one of another), whose
 * process runs near to `node` (-1: nobody knows). NULL: no device takes sessions. */
struct device *placing_choose(
	struct device *const *devices, unsigned count, const struct config_vgpu *config, int node);
/* The part is going. */
void placing_forget(const struct vgpu *vgpu);

/* server.c: sockets that are listened on. */
int server_start(struct daemon *daemon);
/* The socket of a virtual GPU that is new, that has another owner or mode, that is going. */
int server_vgpu_add(struct vgpu *vgpu);
int server_vgpu_change(const struct vgpu *vgpu, const struct config_vgpu *config);
void server_vgpu_remove(const struct vgpu *vgpu);
void server_stop(void);

/* client.c: connections from clients and administrators. */
struct client {
	struct list link;
	struct daemon *daemon;
	struct connection *connection;
	struct vgpu *vgpu;       /* NULL: of control.sock */
	struct session *session; /* NULL: none yet */
	struct control_hello hello;
	uint64_t process_started; /* the process that connected; 0: not known */
	uint32_t serial, version;
	struct list waiting;     /* daemon.waiting: for a worker, or `describing` */
	uint64_t passed;         /* the round in which it was its turn for a worker last */
	bool describing;         /* for what the device is, which the first worker says */
	struct graph *graph;     /* that it has published; NULL: none */
	struct opening *opening; /* of a graph, that is not answered; likewise */
	bool tracing; /* wants to read traces: of the sessions with the token `trace`, or of all */
	uint64_t trace;
	unsigned refusals, tries;
	struct deadline deadline;
	int peer; /* the client's end of the peer socket, between ATTACH and WELCOME; -1 */
};

/* Takes the descriptor over. `vgpu` NULL: an administrator. */
void client_accept(struct daemon *daemon, int fd, struct vgpu *vgpu);
void client_destroy(struct client *client);
void client_refuse(struct client *client, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Gives it a warm worker, or lets it wait for one. */
void client_wait(struct client *client);
/* The device is known: clients that asked what it is are told. */
void clients_describe(struct device *device);
/* Whose turn it is among those that wait for a worker: users take turns. NULL: none waits. */
struct client *client_waiting(struct device *device);
void client_waits_no_more(struct client *client);
/* How many wait, for a worker or for room for its context: of a virtual GPU, or (NULL) of all. */
unsigned client_waiting_count(const struct device *device, const struct vgpu *vgpu);
/* The device takes no sessions any more: those that wait for it go elsewhere, or are told. */
void clients_wait_anew(struct device *device);
/* There may be room for contexts: those that wait for it go on. */
void clients_serve(struct device *device);

/* graphs.c: graphs that processes have published under a name. */
#define GRAPH_OPENERS 64

struct graph {
	struct list link;      /* daemon.graphs */
	struct client *client; /* that has published it: its user's */
	char name[48];
	uint64_t session; /* of the owner's, in which it runs; that may be gone */
	gid_t group;
	unsigned mode;
	/* struct opening, oldest first: the owner has been told of it, and has not answered. */
	struct list openings;
	unsigned pending; /* so many */
	uint64_t opened;  /* ever */
	/* Processes that have opened it, and of which the owner may say that it works for them. */
	struct opener {
		pid_t pid;
		uid_t uid;
		uint64_t started; /* process_started(); 0: nobody */
		int nice;         /* when we last looked */
	} openers[GRAPH_OPENERS];
};

/* A client that opens a graph: one at a time. */
struct opening {
	struct list link;
	struct opener opener;
	struct client *client; /* NULL: it is gone */
	struct user *user;     /* its; the socket is counted to it */
	uint32_t serial;
	int socket; /* its end */
};

/* Requests on control.sock. Negative: malformed. */
int graph_publish(struct client *client, const struct control_graph *message);
int graph_open(struct client *client, const struct control_graph *message);
int graph_joined(struct client *client, int status);
void graph_client_finish(struct client *client);
/* Of a process that has opened a graph of that session's process, and may have ended; NULL: it has not. */
struct opener *graph_opener(
	const struct daemon *daemon, const struct session *session, pid_t process);
/* NULL: it is gone. */
const struct session *graph_session(const struct daemon *daemon, const struct graph *graph);

/* session.c */
/* The client's HELLO is in order and `worker` is warm: ATTACH, unless others are leaving to make room for the
 * context: then the client waits on. */
void session_begin(struct client *client, struct worker *worker);
void session_attached(struct session *session, int status);
/* swap_file: the descriptor that came as one; NULL: none did. */
int session_restore(struct worker *worker, const struct control_attach *message, int *swap_file);
/* Tells the next gdevd what is known of it, as it is now. */
void session_write_down(struct session *session);
/* In the ledger of sessions: workers that are no more are forgotten; where a session is. 0: there is none. Whose a
 * worker is, or `other` if nobody knows. */
void sessions_forget_gone(struct daemon *daemon);
/* Workers that have not registered with this gdevd are killed: what they hold is in nobody's account. */
void sessions_end_unclaimed(struct daemon *daemon);
uid_t session_uid_of_worker(const struct daemon *daemon, pid_t worker, uid_t other);
uint64_t session_place(const struct daemon *daemon, uint64_t id);
/* Which file a worker that registers may bring as its swap file. */
void session_file_of_worker(const struct worker *worker, struct porter_limits *limits);
/* Its client's connection is closed. The worker sees that by itself, and says BYE. */
void session_client_left(struct session *session);
void session_end(struct session *session, const char *reason);
struct session *session_find(struct daemon *daemon, uint64_t id);
bool session_is_of_process_of(const struct session *session, const struct session *other);

/* workers.c */
int workers_init(struct daemon *daemon, const char *path);
/* What workers become; says what is wrong with the configured user. */
int workers_choose_user(struct daemon *daemon);
void workers_init_device(struct device *device);
/* Spawns or retires: called whenever the numbers change. */
void workers_adjust(struct device *device);
struct worker *workers_take_warm(struct device *device);
/* A child of gdevd's has ended. */
void workers_reap(struct daemon *daemon);
void workers_stop(struct daemon *daemon);
void workers_finish(struct daemon *daemon);
/* Whether the process is a worker, or of the workers' user: then it may not be a client. */
bool workers_include(const struct daemon *daemon, pid_t pid, uid_t uid);
/* A connection to workers.sock; takes the descriptor over. */
void worker_accept(struct daemon *daemon, int fd);
/* The worker belongs to `device` from now on: gdevd knows now whom it serves. */
void worker_move(struct worker *worker, struct device *device);
/* The worker has no session any more. It gets a while to leave, and is killed then. */
void worker_leave(struct worker *worker);
/* The worker has sent READY (dispatch.c), and may be given to a client. */
void worker_ready(struct worker *worker);
/* The addresses of the client's arena are in use in the worker, which may be given to another client. */
void worker_rejoin(struct worker *worker);
/* A warm worker is given a segment to carry (shm_carry.c); and is warm again, or not needed any more. */
void worker_carry(struct worker *worker);
void worker_carried(struct worker *worker);
/* The worker says that it cannot start. */
void worker_cannot(struct worker *worker, const char *why);
/* Kills the worker at once: what it says makes no sense, or it is late. */
void worker_kill(struct worker *worker, const char *why);
/* Whether it is on its way out: what it holds comes, and is waited for. A worker that takes long is killed, and not
 * waited for any more if even that takes long. */
bool worker_is_going(const struct worker *worker);
/* The device failed under this worker: what the warm ones hold of it is worth nothing either. */
void workers_device_lost(struct worker *worker);
const char *worker_state_name(enum worker_state state);

/* Says BYE to a warm one. */
void worker_send_away(struct worker *worker);

/* relief.c: warm workers make room for sessions, which wait for them and for workers that are going. */
/* How many are to be kept warm, by the memory that there is. */
unsigned relief_pool_size(const struct device *device);
/* What the warm ones hold. */
uint64_t relief_pool_bytes(const struct device *device);
/* There is no memory for what the worker asks: true if there will be some soon; then the request is taken
 * up again by residency_allocate(). */
bool relief_wait(struct worker *worker, const struct control_allocate *message);
/* The request is taken up again by relief_serve(). */
void relief_hold(struct worker *worker, const struct control_allocate *message);
/* Memory has come back. */
void relief_serve(struct device *device);

/* dispatch.c: what workers say. */
/* As struct connection_ops says. */
int worker_message(struct connection *connection, const struct control_header *message, int *fds,
	size_t fd_count);
bool worker_brings(struct connection *connection, const struct control_header *begin,
	struct porter_limits *limits);
bool worker_message_waits(struct connection *connection, const struct control_header *begin);

/* grants.c */
int grants_init(struct device *device);
/* After grants_init(), and before it is in daemon.vgpus: grants_configure() follows. */
void grants_vgpu_init(struct vgpu *vgpu);
/* The virtual GPU has no sessions any more. */
void grants_vgpu_finish(struct vgpu *vgpu);
/* The device's timing is known. */
void grants_know_device(struct device *device);
/* Something of the configuration has changed: shares, priorities, policies, settings, the quantum. */
void grants_configure(struct device *device);
void grants_session_init(struct session *session);
/* The session's process is known: the session joins the gang of the other sessions of that process. */
void grants_session_join(struct session *session);
void grants_session_finish(struct session *session);
/* The session gives up what it holds and waits for, and belongs to `vgpu`, of another device, from now on. */
void grants_session_move(struct session *session, struct vgpu *vgpu);
int grants_acquire(struct session *session, const struct control_header *header);
int grants_release(struct session *session, const struct control_header *header);
/* Another session used so much of a resource for this session's sake, which pays. */
void grants_charge(struct session *session, unsigned resource, uint64_t used_ns);
/* A session lacks memory in its turn. Other sessions of its process, which compute together with it, leave the device to
 * it: each may have the memory that the other lacks. */
void grants_part(struct device *device);
void grants_renice(struct session *session, int nice);
/* What a session for which nobody waits reads in its page while it has the resource. */
enum worker_revoke grants_unwaited_word(const struct session *session, unsigned resource);
/* The arbiter of a resource: which of groups and entities counts. */
unsigned grants_queue(const struct daemon *daemon, unsigned resource);
/* What a session has used of a resource since it was granted, as its worker says. */
uint64_t grants_running_ns(const struct session *session, unsigned resource, uint64_t now_ns);

/* turns.c: from holder to holder without a message. */
int turns_init(struct device *device);
void turns_finish(struct device *device);
/* Names the session for which the holder of compute begins nothing more as soon as that session's worker says that it has
 * come; NULL: there is none. */
void turns_prefer(struct device *device, const struct session *session);
/* Whether the session is named so. It is not any more afterwards. */
bool turns_was_preferred(const struct session *session);
/* As sched_ops.name. If `next` is NULL, or a session that cannot be named, none is. */
bool turns_name(struct device *device, unsigned resource, const struct session *holder,
	struct session *next);

/* nice.c: whose nice value counts. */
void nice_session_init(struct session *session);
/* Asks the kernel. */
void nice_refresh(struct session *session);
/* `lender` waits for `session`, which counts as the better of the two; nobody waits any more; and
 * nice_apply() tells the arbiters. */
void nice_lend(const struct session *lender, struct session *session);
void nice_return(struct session *session);
void nice_apply(struct session *session);
/* Follows what has changed of all sessions. */
void nice_tick(struct daemon *daemon);

/* measure.c: samples of what is used. */
void measure_init(struct daemon *daemon);
/* Something happens: sampling goes on, or begins. */
void measure_wake(struct daemon *daemon);
/* Brings `windows` and the longest times of all usages up to date, for somebody who looks. */
void measure_look(struct daemon *daemon);
struct usage_counters measure_session(
	const struct session *session, unsigned resource, uint64_t now_ns);
struct usage_counters measure_vgpu(const struct vgpu *vgpu, unsigned resource, uint64_t now_ns);
/* What sessions of a gang have used at the same time counts once. */
struct usage_counters measure_device(struct device *device, unsigned resource, uint64_t now_ns);

/* vgpus.c: virtual GPUs come, change and go. Those that can fail say why in `error`, which has
 * CONFIG_ERROR_MAX bytes. */
/* Of a virtual GPU of any device, its first part, which has the socket. */
struct vgpu *vgpu_find(struct daemon *daemon, const char *name);
struct vgpu *vgpu_find_part(struct daemon *daemon, const char *name, const char *device);
/* As vgpu_find_part(), and makes the part if the virtual GPU is there, and a session of it is to go to that device. NULL:
 * there is no memory, too. */
struct vgpu *vgpu_get_part(struct daemon *daemon, const char *name, const char *device);
/* What its programs are told of its device. */
void vgpu_properties(const struct vgpu *vgpu, int32_t properties[DEVICE_PROPERTIES]);
/* Whether it is gdevN, the default virtual GPU of a device. */
bool vgpu_is_default(const struct vgpu *vgpu);
/* Where new sessions of a virtual GPU of one device begin: on its device, or, if that is drained, on the stand-in. */
struct vgpu *vgpu_where_begins(struct vgpu *vgpu);
/* Deletes the parts on devices that only stood in, and are not used any more. */
void vgpus_prune(struct daemon *daemon);
/* Makes the virtual GPUs of the configuration. */
int vgpus_init(struct daemon *daemon);
void vgpus_finish(struct daemon *daemon);
/* Takes `config` over on success. */
int vgpu_create(struct daemon *daemon, struct config_vgpu *config, char *error);
/* The virtual GPU is from now on as `config` says, which has its name. */
int vgpu_change(struct vgpu *vgpu, const struct config_vgpu *config, char *error);
/* -EBUSY: it has sessions, and they are not to be ended (`force`). */
int vgpu_delete(struct vgpu *vgpu, bool force, char *error);
/* Writes down what was made at run time. If that fails, `note` (CONFIG_ERROR_MAX bytes) says that it will not last. */
void vgpus_save_made(const struct daemon *daemon, char *note);

/* events.c */
/* Calls nice_lend() for all sessions that wait for another. */
void events_lend_nice(struct daemon *daemon);
void events_session_finish(struct session *session);
/* The session is gone, and has not reached all events that it shared: whoever waits for one is told that it is lost. */
void events_remember_unreached(struct daemon *daemon, uint64_t session);
void events_session_restored(struct session *session);
void events_give_up_unclaimed(struct daemon *daemon);
int events_watch(struct session *session, const struct control_header *header);
int events_done(struct session *session, const struct control_header *header);

/* trace.c */
int trace_request(struct client *client, const struct control_trace *message);
void trace_client_finish(struct client *client);
/* Is served, from now on; its worker has a trace segment or not. */
void trace_session_begin(struct session *session);
void trace_session_finish(struct session *session);

/* metrics.c: for Prometheus. */
/* A connection to metrics.sock, or over TCP; takes the descriptor over. */
void metrics_accept(struct daemon *daemon, int fd);
void metrics_stop(void);

/* As they are called in answers and metrics. */
extern const char *const resource_names[RESOURCES];

/* admin.c: answers one request; never fails but by saying so to the peer. */
void admin_request(
	struct daemon *daemon, struct connection *connection, const struct control_header *message);

#endif

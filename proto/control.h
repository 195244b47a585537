/* SPDX-License-Identifier: MIT
 *
 * Control messages: what clients and workers say to gdevd, and gdevd to them. One message is one
 * SOCK_SEQPACKET packet: a header and the fixed struct of its type (and, where it says so, bytes after
 * it). Requests carry a serial that the answer repeats. gdevd and workers drop a peer that sends a
 * message which is malformed; they never trust one.
 *
 * Sockets of gdevd, in its runtime directory:
 *   NAME.sock     one a virtual GPU; its owner, group and mode are the right to use that virtual GPU
 *   control.sock  CONTROL_ADMIN: status and configuration; what a peer may do is decided by its
 *                 uid (any user may look, root and gdevd's own user may change). CONTROL_TRACE, and
 *                 CONTROL_GRAPH_PUBLISH and _OPEN
 *   metrics.sock  HTTP, a stream: GET /metrics for Prometheus
 *   workers.sock  workers that lost their gdevd register again here (mode 0600, the workers' uid)
 *
 * Changelog
 *   1  first version
 */
#ifndef GDEV_PROTO_CONTROL_H
#define GDEV_PROTO_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/device.h"
#include "proto/properties.h"
#include "proto/timing.h"

#define CONTROL_VERSION 1
#define CONTROL_BYTES_MAX (64u << 10)
#define CONTROL_NAME_MAX 32 /* of a virtual GPU, NUL included: [a-z0-9_-], first a letter */
#define CONTROL_TEXT_MAX 256
#define CONTROL_AMOUNT_MAX                                                                         \
	(1ull << 50) /* of bytes, in messages about memory: far from where sums wrap */

/* X(name, value, struct, fixed: 1 when nothing may follow the struct) */
#define CONTROLS(X)                                                                                \
	/* client -> gdevd, and back */                                                            \
	X(CONTROL_HELLO, 1, struct control_hello, 1)                                               \
	X(CONTROL_WELCOME, 2, struct control_welcome, 1)                                           \
	X(CONTROL_REFUSED, 3, struct control_refused, 1)                                           \
	X(CONTROL_ADMIN, 4, struct control_header, 0)                                              \
	X(CONTROL_ADMIN_REPLY, 5, struct control_header, 0)                                        \
	X(CONTROL_DESCRIBE, 6, struct control_header, 1)                                           \
	X(CONTROL_DESCRIPTION, 7, struct control_description, 1)                                   \
	/* worker <-> gdevd */                                                                     \
	X(CONTROL_READY, 32, struct control_ready, 1)                                              \
	X(CONTROL_ATTACH, 33, struct control_attach, 1)                                            \
	X(CONTROL_ATTACHED, 34, struct control_header, 1)                                          \
	X(CONTROL_REGISTER, 35, struct control_attach, 1)                                          \
	X(CONTROL_BYE, 36, struct control_header, 1)                                               \
	X(CONTROL_MOVE, 100, struct control_move, 1)                                               \
	X(CONTROL_MOVED, 101, struct control_header, 1)                                            \
	X(CONTROL_MEMORY, 66, struct control_header, 1)                                            \
	X(CONTROL_MEMORY_REPLY, 67, struct control_memory, 1)                                      \
	X(CONTROL_ALLOCATE, 68, struct control_allocate, 1)                                        \
	X(CONTROL_ROOM, 69, struct control_room, 1)                                                \
	X(CONTROL_SLOT, 52, struct control_slot, 1)                                                \
	X(CONTROL_CHARGED, 53, struct control_charged, 1)                                          \
	X(CONTROL_RETURN, 54, struct control_return, 1)                                            \
	X(CONTROL_ACQUIRE, 44, struct control_grant, 1)                                            \
	X(CONTROL_GRANT, 45, struct control_grant, 1)                                              \
	X(CONTROL_REVOKE, 46, struct control_grant, 1)                                             \
	X(CONTROL_RELEASE, 47, struct control_grant, 1)                                            \
	X(CONTROL_PREPARE, 60, struct control_grant, 1)                                            \
	X(CONTROL_EVICT, 48, struct control_evict, 1)                                              \
	X(CONTROL_EVICTED, 55, struct control_evicted, 1)                                          \
	X(CONTROL_EASED, 61, struct control_header, 1)                                             \
	X(CONTROL_SHM, 50, struct control_shm, 1)                                                  \
	X(CONTROL_SHM_REPLY, 51, struct control_shm, 1)                                            \
	X(CONTROL_CACHE_GET, 56, struct control_cache, 1)                                          \
	X(CONTROL_CACHE_PUT, 57, struct control_cache, 1)                                          \
	X(CONTROL_CACHE_COMMIT, 58, struct control_cache, 1)                                       \
	X(CONTROL_CACHE_REPLY, 59, struct control_cache, 1)                                        \
	X(CONTROL_EVENT_WATCH, 64, struct control_event, 1)                                        \
	X(CONTROL_EVENT_DONE, 65, struct control_event, 1)                                         \
	/* `gdev trace` <-> gdevd */                                                               \
	X(CONTROL_TRACE, 80, struct control_trace, 1)                                              \
	X(CONTROL_TRACE_REPLY, 81, struct control_header, 1)                                       \
	X(CONTROL_TRACE_BEGIN, 82, struct control_traced, 1)                                       \
	X(CONTROL_TRACE_END, 83, struct control_traced, 1)                                         \
	/* processes that have or open a named graph <-> gdevd */                                  \
	X(CONTROL_GRAPH_PUBLISH, 84, struct control_graph, 1)                                      \
	X(CONTROL_GRAPH_OPEN, 85, struct control_graph, 1)                                         \
	X(CONTROL_GRAPH_REPLY, 86, struct control_graph, 1)                                        \
	X(CONTROL_GRAPH_JOIN, 87, struct control_graph, 1)                                         \
	X(CONTROL_GRAPH_JOINED, 88, struct control_header, 1)

enum control_type {
#define CONTROL_ENUM(name, value, type, fixed) name = value,
	CONTROLS(CONTROL_ENUM)
#undef CONTROL_ENUM
};

struct control_header {
	uint32_t length; /* of the whole message */
	uint16_t type;
	uint16_t version; /* CONTROL_VERSION; 0 in HELLO */
	uint32_t serial;  /* 0: no answer expected, or none asked for */
	int32_t status; /* answers: 0, what the type says, or an error, CONTROL_STATUS_MIN at least */
};
#define CONTROL_STATUS_MIN (-4095)

/* ADMIN is followed by a JSON object {"command": …}; ADMIN_REPLY by JSON. An answer that is longer than
 * a message comes in several: status 1 in each of them but the last. Status is negative when the command
 * failed; the JSON then has a sentence in "error". */
#define CONTROL_ADMIN_BYTES_MAX 8192 /* of the JSON in a request */

/* Asks for a session. The client has reserved the arena already. */
struct control_hello {
	struct control_header header;
	uint32_t version_min, version_max; /* of session.h and record.h */
	uint64_t features;                 /* what the client knows, enum control_feature */
	uint64_t arena_base, arena_bytes;  /* multiples of ARENA_ALIGN */
	uint64_t trace; /* a token: a reader that TRACEs with it wants this session; 0: none */
	uint64_t reserved[3]; /* 0 */
};

enum control_feature {
	FEATURE_DEVICE_MAP = 1, /* PEER_DEVICE_MAP works */
	FEATURE_TUNING = 2,     /* WELCOME has the fields from inline_bytes on */
	FEATURE_TRACE = 4,      /* the last descriptor of WELCOME is the trace segment (trace.h) */
	FEATURE_PREEMPT = 8,    /* HELLO: a wish; ATTACH: kernels leave the device between blocks */
	FEATURE_LOOPS = 16,     /* with FEATURE_PREEMPT: and in the middle of a block */
};

/* Descriptors, in this order: session segment, staging memory, eventfd that wakes the worker, eventfd that wakes the
 * client, peer socket, and with FEATURE_TRACE the trace segment. The connection is kept as long as the session lives;
 * gdevd going away does not end the session. Refused with REFUSED: -EADDRINUSE: choose another arena. A client without
 * FEATURE_TUNING gets CONTROL_WELCOME_UNTUNED_BYTES of it. */
struct control_welcome {
	struct control_header header;
	uint32_t version, reserved;
	uint64_t features; /* both sides know them */
	uint64_t
		session; /* names it in gdevd's answers and logs; 1 to 2^32 - 1, used again after all others */
	uint64_t staging_bytes;
	char vgpu[CONTROL_NAME_MAX];
	char device_name[64];
	uint8_t device_uuid[16];
	uint64_t memory_bytes; /* of the virtual GPU */
	/* What is best for copies on this device, as gdev.conf says; 0: the library's default. */
	uint32_t inline_bytes; /* up to here host memory rides in the record */
	uint32_t chunk_bytes;  /* of two-stage copies */
	uint32_t copy_threads; /* that share a large copy */
	uint32_t peers;        /* as in READY */
};

#define CONTROL_WELCOME_UNTUNED_BYTES 168

/* DESCRIBE: what the virtual GPU is, without a session; answered when gdevd knows its device, or with REFUSED. */
struct control_description {
	struct control_header header;
	char vgpu[CONTROL_NAME_MAX];
	char device_name[64];
	uint8_t device_uuid[16];
	uint64_t memory_bytes; /* of the virtual GPU */
	uint32_t peers;        /* as in READY */
	uint32_t reserved;
	int32_t properties[DEVICE_PROPERTIES];
};

struct control_refused {
	struct control_header header; /* status says why */
	char text[CONTROL_TEXT_MAX];  /* a sentence that says what to do */
};

/* A warm worker. Descriptors: session segment, staging memory, eventfd to the worker, eventfd to the
 * client, worker page, and (a worker that can be traced) trace segment. */
struct control_ready {
	struct control_header header;
	uint64_t staging_bytes;
	uint64_t overhead_bytes; /* device memory that an idle context takes */
	uint64_t memory_bytes;   /* of the device */
	char device_name[64];
	uint8_t device_uuid[16];
	struct device_timing timing;
	uint32_t traits; /* enum device_trait */
	uint32_t peers; /* devices with this number, if it is not 0, can map one another's memory */
	int32_t properties[DEVICE_PROPERTIES];
};

enum device_trait {
	DEVICE_PAUSES = 1,       /* launches can be stopped between blocks */
	DEVICE_CLIENTS_COPY = 2, /* clients copy themselves, which their worker sees later */
	DEVICE_HOST_MEMORY = 4,  /* its memory is the machine's */
};

/* Host memory, or the session's swap file, whose descriptor goes with every message that charges some of it. */
enum swap_pool { SWAP_MEMORY, SWAP_FILE, SWAP_POOLS };

/* ATTACH: gdevd hands a client to a warm worker. Descriptors: the worker's end of the peer socket, and (it may be
 * missing) the page with struct turns. Answered by ATTACHED (-EADDRINUSE: the arena is not free in the worker).
 *
 * REGISTER: a worker tells a restarted gdevd which session it serves. Descriptors: the worker page, the trace segment, and
 * the swap file if the session was given one. The worker holds no grants then, and asks again for what it was waiting for. It attaches itself to its
 * shared segments again with CONTROL_SHM: ATTACH with bytes, which a session that attaches anew leaves 0, and flags that
 * say whether the worker has the chunks or the host copy. Status 1: gdevd knows the segment, but does not have its
 * contents: BACK them. */
struct control_attach {
	struct control_header header;
	uint64_t session;
	int32_t pid;
	uint32_t uid, gid;
	uint32_t moves; /* REGISTER: to how many devices it was moved */
	char vgpu[CONTROL_NAME_MAX];
	uint64_t arena_base, arena_bytes;
	uint64_t features;
	uint32_t version;
	uint32_t time_limit_ms;      /* of a launch on the device; 0: none */
	uint64_t memory_limit_bytes; /* what the virtual GPU has */
	uint64_t held_bytes;         /* REGISTER: device memory it holds */
	uint64_t held_swap_bytes[SWAP_POOLS];
	uint32_t compute_capability; /* that the device is to have, times ten; 0: its own */
	uint32_t reserved;
};

/* MOVE: the session goes to another device of the same model. It is suspended (EVICT_SUSPEND), its context was given back
 * (EVICT_RETIRE), and it stays suspended until EVICT_RESUME: then the context is made on the new device. A descriptor of
 * that one's struct turns comes along if ATTACH brought one, and the device has it. The worker gives up all grants without
 * RELEASE, and says MOVED, status 0 or why it stays where it is. What it says of grants before MOVED is of the device
 * before, and means nothing any more. */
struct control_move {
	struct control_header header;
	char device[CONTROL_NAME_MAX]; /* as --device says it */
	char vgpu[CONTROL_NAME_MAX];
	uint64_t memory_limit_bytes; /* what the virtual GPU has */
	uint32_t time_limit_ms;      /* as in ATTACH */
	uint32_t reserved;
};

/* Every byte of an object is charged, to device memory or to host swap (docs/memory.md). A worker asks before it uses
 * either: ALLOCATE, ROOM and SLOT are answered with CHARGED, at once or when there is some. One ALLOCATE or ROOM of a
 * worker waits for others to make room at a time: the next that would have to is answered with -EBUSY. */

/* What room on the device is for. It says for which others gdevd lets the worker wait. */
enum room_purpose {
	/* For what the session needs in its turn of the device: it holds compute. Answered with as many of the bytes as
	 * there are; -ENOMEM: nobody gives any soon, and the worker uses host memory instead. */
	ROOM_FOR_TURN,
	/* The same for what cannot be used from host memory: -ENOMEM only when there is nobody left to wait for. */
	ROOM_FOR_TURN_ALONE,
	/* For what stays on the device: needs no turn. As many of the bytes as there are; -ENOMEM as for _ALONE. */
	ROOM_TO_STAY,
	/* For a context that was given back: all of it, whenever that is. */
	ROOM_FOR_CONTEXT,
};

/* Memory for a new object: device memory of what is free, with slack_bytes more if those are free, too. If device_bytes
 * are not free: host swap, if swap_bytes is not 0; else others have to make room, as for ROOM. -ENOMEM. */
struct control_allocate {
	struct control_header header;
	uint64_t device_bytes, slack_bytes;
	uint64_t swap_bytes; /* of the whole object; 0: it may not begin its life in swap */
	uint32_t purpose;    /* enum room_purpose */
	uint32_t reserved;
};

/* Device memory for what is to be brought in, for which others may have to leave. */
struct control_room {
	struct control_header header;
	uint64_t bytes;
	uint32_t purpose; /* enum room_purpose */
	uint32_t reserved;
};

/* Host swap for one slot, instead of some that the worker was charged before and gives back afterwards. */
enum slot_place {
	SLOT_ANYWHERE,  /* neither pool has room for it of what was charged; answered at once */
	SLOT_IN_MEMORY, /* where it can be mapped; answered when others had time to give some */
	SLOT_IN_FILE,   /* answered at once */
};

struct control_slot {
	struct control_header header;
	uint64_t bytes;
	uint32_t place; /* enum slot_place */
	uint32_t reserved;
};

/* What was charged; with an error: nothing. */
struct control_charged {
	struct control_header header;
	uint64_t device_bytes;
	uint64_t swap_bytes[SWAP_POOLS];
	uint64_t limit_bytes; /* of device memory: the virtual GPU's */
};

/* What the worker gives back. No answer. Status -ENOMEM: it was charged device memory, and the driver has none: others than
 * gdevd's workers use the device, too. gdevd finds out how much they have (MEMORY) before it answers the worker's next
 * ALLOCATE. */
struct control_return {
	struct control_header header;
	uint64_t device_bytes;
	uint64_t swap_bytes[SWAP_POOLS];
};

/* The answer to MEMORY: to a worker, of the virtual GPU, for its client; of a warm worker, which gdevd asks, of the device, as
 * the driver says. */
struct control_memory {
	struct control_header header;
	uint64_t free_bytes, total_bytes;
};

/* EVICT: gdevd wants `bytes` of device memory back from a worker, or, with flags, something else; `swapped` bytes of
 * swap space have been charged to it for that. The worker gives back with RETURN as chunks leave, and what it does not
 * need of the swap space; it says EVICTED (same serial) when it is done: it has given so much, or what the rest is. status:
 * what was in the way. EVICT of 0 bytes without flags only asks, and is answered at once with REST_IN_USE. */
struct control_evict {
	struct control_header header;
	uint64_t bytes, swapped;
	uint32_t flags; /* enum evict_flags */
	uint32_t reserved;
};

struct control_evicted {
	struct control_header header;
	uint64_t
		copied_ns; /* the copy engine worked for it, which is charged to the session that the room is for */
	uint32_t retired; /* 1: EVICT_RETIRE, and the context is gone */
	uint32_t rest;    /* enum evict_rest: what was asked for and not given */
};

enum evict_rest {
	REST_STAYS, /* cannot leave */
	REST_IN_USE, /* the session's commands use it, or have the device: the worker says EASED when they do not */
};

enum evict_flags {
	EVICT_SUSPEND = 1, /* all of it; commands wait from now on until RESUME */
	EVICT_RESUME = 2,  /* bytes is 0; EVICTED when everything is back that has room */
	EVICT_GRANTED = 4, /* the session that the room is for holds the copy engine, and waits */
	/* All of it, and the context if nothing is going on: the next command has it made again. What it was charged is
	 * returned before EVICTED; if it is kept, worker_page.kept_by may say why. */
	EVICT_RETIRE = 8,
	EVICT_SLOTS =
		16, /* no device memory: so many bytes of host swap that it keeps and does not use */
	EVICT_FILE = 32, /* what was charged is of the swap file, whose descriptor goes with it */
	/* With SLOTS: and if it does not keep so many, of those that its objects use as many as it can have in its
	 * file, for which it asks (SLOT_IN_FILE). */
	EVICT_MOVE = 64,
	/* The virtual GPU has more than its limit. The session gives although it has the device: its launches wait until the
	 * order has been carried out. */
	EVICT_LIMIT = 128,
};

/* A worker uses a resource only while it holds a grant. ACQUIRE asks; GRANT gives it for at least
 * `quantum_ns` and until REVOKE; then the worker drains what is on the device and says RELEASE with the
 * device time it used. While nobody else wants the resource, nobody revokes, and nothing is sent.
 * PREPARE: the holder was told to leave, and this worker may be next: it should look for GRANT without
 * sleeping for `quantum_ns`, since to be woken takes longer than all else of a handover. With a `turn`, also
 * for that number in struct turns. */
struct control_grant {
	struct control_header header;
	uint32_t resource; /* enum device_resource */
	uint32_t wants;    /* RELEASE: 1 when more work waits: counts as ACQUIRE */
	uint64_t quantum_ns;
	union {
		uint64_t used_ns;
		uint64_t turn; /* PREPARE; 0: none */
	};
};

enum control_shm_command {
	SHM_COMMAND_GET =
		1, /* key, size, bytes, flags -> id, size, bytes; status 1: created, BACK it now */
	/* id, first chunk, chunk bytes, chunks in all: descriptors of chunks from that one on, all of one size,
	 * FD_PASS_MAX at most a message */
	SHM_COMMAND_BACK,
	SHM_COMMAND_ATTACH, /* id, flags, first chunk -> descriptors from that chunk on, and how many in all */
	SHM_COMMAND_DETACH, /* id; no answer */
	SHM_COMMAND_STAT,
	SHM_COMMAND_SET,    /* id, mode */
	SHM_COMMAND_REMOVE, /* id: gone when the last attachment is */
	SHM_COMMAND_HOLD,   /* id, token: one attachment more, without the chunks */
	/* Leaving the device, and coming back. The first four are orders of gdevd. */
	SHM_COMMAND_LEAVE, /* id: keep commands from it. Said back when none reaches it; status: see below */
	SHM_COMMAND_WRITE, /* id, descriptor: copy it there. Said back when that is done; status */
	SHM_COMMAND_DROP, /* id, descriptor: it is there now; drop the chunks. Said back when they are */
	SHM_COMMAND_STAY, /* id: it does not leave after all, or has been brought in: no host copy is valid */
	SHM_COMMAND_RESTORE, /* id, first chunk: a worker needs it */
	SHM_COMMAND_MAP, /* id: the worker that was to bring it in uses it where it is, or, status: cannot */
	SHM_COMMAND_MOVE, /* id: it would use it, if it were not in a file -> descriptor in memory, to copy it to */
	SHM_COMMAND_CARRY, /* id: it may only read, and has been charged for what is to be brought in -> as RESTORE: 0 */
	SHM_COMMAND_LOSE, /* an order of gdevd; id: the worker whose memory it was has died; DETACH it */
	SHM_COMMAND_PUBLISH, /* id, token: other processes of the user may find it, too */
	SHM_COMMAND_FETCH =
		40, /* an order of gdevd; id: bring it in, as a command that names it does; no answer */
};

/* The creator has been charged the memory (ALLOCATE). BACK moves that charge to the segment, which keeps it as long as it
 * lives. ATTACH of a segment that is not whole yet is answered when it is. gdevd checks the permission against the
 * session's uid and gid, as System V shared memory does.
 *
 * A transient segment (GET with CONTROL_SHM_TRANSIENT and the key IPC_PRIVATE) lives as long as it is attached; its creator
 * is attached from the start. The answer to GET names its token, a random number: without the token no session finds it. With
 * it those of a process do of which a session has it attached; and, once such a session has said PUBLISH, all of the user
 * whose device can import it, on whatever virtual GPU.
 *
 * A segment leaves the device as a whole (docs/memory.md):
 *   LEAVE    to each session that has attached it, which says LEAVE back. Status 1: it has the chunks, 0: it has none, or
 *            what keeps the segment there.
 *   WRITE    to one session that has the chunks. If none has, to a worker without a session, which asks for them with
 *            RESTORE.
 *   DROP     to all, when it is written. They keep the descriptor of the host copy, for a gdevd that is restarted. A
 *            session that has dropped it already takes the descriptor as its host copy; with CONTROL_SHM_MAPPED, as one
 *            that is used.
 * And it comes back:
 *   ATTACH   of a segment that is not on the device is answered with CONTROL_SHM_HOST, and the host copy if it is valid.
 *   RESTORE  is answered when it is known where the segment is. Status 0: descriptors as for ATTACH. 1: only in the host
 *            copy, which comes along: the asker is charged device memory, brings it in and says BACK, or says MAP; -EAGAIN
 *            is the answer to these if another session is to do it by now, as it took so long. 2: it is used in the host
 *            copy, for good. 3: as 1, but there is no room: MAP. With CONTROL_SHM_PAID the asker is of another virtual GPU
 *            than the segment, which pays: nothing is charged to the asker, then or when it could not bring it in.
 *   BACK     with CONTROL_SHM_HOST, to a restarted gdevd: the descriptor is the host copy.
 *   MOVE     from a session that was to bring the segment in and has no room for it, where the host copy is in a file that
 *            the device cannot use. Answered when there is room in memory, with a descriptor: the asker copies the segment
 *            there, maps it, says MAP (or, status: it could not), and uses it when that has been answered. Until then the
 *            host copy is the file.
 *
 * Sessions that may only read get descriptors that can only be read, and bring nothing in or out: the answer to RESTORE has
 * CONTROL_SHM_READER then. The worker of such a session is charged device memory, says CARRY, and waits. A worker without a
 * session is told to CARRY, with the host copy: it gives gdevd the chunks with BACK, and says CARRY back. -EAGAIN: no worker
 * could. */
#define CONTROL_TOKEN_BYTES 16
#define CONTROL_SHM_TRANSIENT 0x40000000u     /* flags beside those of shmget(2) */
#define CONTROL_SHM_HOST 0x20000000u          /* it is not on the device */
#define CONTROL_SHM_MAPPED 0x10000000u        /* with _HOST: and used where it is */
#define CONTROL_SHM_READER 0x08000000u        /* with _HOST: the descriptor can only be read */
#define CONTROL_SHM_TRUST_READERS 0x04000000u /* of GET, and of `mode`: GDEV_SHM_TRUST_READERS */
#define CONTROL_SHM_PAID 0x02000000u /* RESTORE, 1: the segment pays for what is brought in */

struct control_shm {
	struct control_header header;
	uint32_t command; /* enum control_shm_command */
	int32_t key;
	uint32_t id, flags;
	uint64_t size;               /* what the creator asked for */
	uint64_t bytes, chunk_bytes; /* what that takes; of the chunks that go with this message */
	uint32_t first_chunk, chunks;
	uint32_t uid, gid, mode, attached;
	uint8_t token[CONTROL_TOKEN_BYTES]; /* of a transient segment; zeros */
};

/* Compiled code on disk, per uid of the client. GET: the answer has a descriptor to read. PUT: the answer has one of
 * memory of that size, to write it to (status -EDQUOT, -EAGAIN: none); COMMIT stores it, instead of what had the key. */
struct control_cache {
	struct control_header header;
	uint8_t key[CODE_KEY_BYTES];
	uint64_t bytes;
};

/* Events between sessions. WATCH: a worker asks gdevd, and gdevd the worker that serves `session`, to
 * say when timelines[timeline] reaches `value`. DONE goes the same way back; -EAGAIN: that worker watches as much as it can. */
struct control_event {
	struct control_header header;
	uint64_t session, value;
	uint32_t timeline, reserved;
};

/* TRACE, on control.sock: the sender wants to read the trace segments of sessions of its own user (root: of
 * any) whose clients said `token` in HELLO; token 0: of all. Answered by TRACE_REPLY (-EALREADY: it does
 * already; -EUSERS: too many connections of its user do), and then by a TRACE_BEGIN for each such session that is there or begins later, with a descriptor
 * to read, and a TRACE_END when one has ended. A session is traced as long as a connection that
 * wants it is open. */
struct control_trace {
	struct control_header header;
	uint64_t token;
	uint64_t reserved; /* 0 */
};

struct control_traced {
	struct control_header header;
	uint64_t session;
	int32_t pid;
	uint32_t uid;
	char vgpu[CONTROL_NAME_MAX];
	char program[32];
	char device[CONTROL_NAME_MAX]; /* that its virtual GPU is of */
};

/* Graphs with a name, on control.sock. PUBLISH: the graph `name` of the sender's user is there from now on, as long as the
 * connection; `session` is one of the sender's, `group` its own or a supplementary one. REPLY: status: -EEXIST, -EDQUOT,
 * -EALREADY (the connection has one), -ENOENT (no such session), -EPERM (not its group), -EINVAL (the name).
 *
 * OPEN: the sender wants to reach the process that has published the graph `name` of user `uid`. REPLY: status 0, and a
 * descriptor: one end of a socket (graph.h), whose other end that process got with JOIN. It has said JOINED: status 0, or -EUSERS,
 * which is the REPLY's then: it has too many. Until it does, the sender waits, and sends no second OPEN; GRAPH_PENDING_MAX do: -EAGAIN
 * beyond. -EAGAIN also: gdevd has no descriptor or memory left for it now. -ENOENT: there is none; -EACCES; -ESRCH: the process that has connected is not there any more. From then on gdevd has no
 * part in what the two say. */
struct control_graph {
	struct control_header header;
	char name[48];    /* GRAPH_NAME_MAX; NUL included: [A-Za-z0-9_.-], first no dot */
	uint64_t session; /* PUBLISH */
	uint32_t uid;     /* OPEN: of the owner; REPLY: likewise; JOIN: of the process that comes */
	uint32_t group;   /* PUBLISH */
	uint32_t
		mode; /* PUBLISH: permission bits as of a file; JOIN: which of them apply: enum graph_class */
	int32_t pid;       /* REPLY, JOIN: of the other process */
	uint64_t reserved; /* 0 */
};

enum graph_class {
	GRAPH_CLASS_OWNER = 6,
	GRAPH_CLASS_GROUP = 3,
	GRAPH_CLASS_OTHERS = 0
}; /* shifts of the mode */

#define GRAPH_PENDING_MAX 16

/* A word of worker_page.revoke. gdevd stores it, and then sends REVOKE so that a sleeping worker looks
 * at it; before it sends GRANT it stores REVOKE_NONE, or what else the new holder is to know from its first command on. A
 * REVOKE for what the worker no longer holds means nothing. */
enum worker_revoke {
	REVOKE_NONE,
	REVOKE_NOW, /* drain what is on the device and RELEASE, at the next command boundary */
	REVOKE_WHEN_IDLE, /* others wait: as NOW once nothing has been queued for about 100 us; until
			   * then the quantum goes on */
	/* Nobody waits, but a session that ranks above this one has been here lately: no more is put on the device than
	 * if somebody waited. */
	REVOKE_MAY_COME = 4,
};

/* How gdevd starts a worker:
 *   gdev-worker --control-fd N --device NAME --device-memory BYTES --threads N
 *               --workers-socket PATH --host-memory BYTES [--user UID --group GID] [--context BYTES]
 * Descriptor N is the worker's end of the control socket. BYTES or N threads of 0: the device's default.
 * --context: of the software GPU, what a context is said to take of its memory.
 * --host-memory: how much page-locked memory a client may add; 0: half of the machine's.
 * PATH is where the worker registers again when gdevd went away. --user and --group (when gdevd is
 * root): what the worker becomes before it says READY. Standard error is gdevd's; GDEV_LOG is inherited.
 * A worker that has not been attached exits at the end of file of its control socket, and BYE from
 * gdevd (no answer) tells it to exit; BYE from a worker says that its session ended: status 0 as it should,
 * else why not; or, before READY, why it cannot start. */

/* Worker page: a sealed memfd of the worker's, mapped by gdevd for as long as the worker lives. */
struct worker_page {
	/* Worker. gdevd reads it when asked for status. */
	uint64_t launches, compute_ns;
	uint64_t to_device_bytes, to_device_ns;
	uint64_t from_device_bytes, from_device_ns;
	uint64_t device_bytes;
	uint64_t streams_busy;
	_Alignas(64) uint32_t revoke[RESOURCES]; /* gdevd; enum worker_revoke */
	/* Worker. */
	_Alignas(64) uint64_t longest_ns[RESOURCES]; /* of one command, ever */
	uint32_t thread; /* of the client that submitted last, as session_header.thread says: gdevd
			  * asks the kernel for its nice value when it is one of the client's */
	uint32_t end;    /* bits of enum worker_end, stored before BYE is said */
	/* Objects in host swap, and those of them that commands use from there; ever moved. */
	uint64_t swapped_bytes, mapped_bytes, swap_out_bytes, swap_in_bytes;
	/* Since when commands wait for memory (CLOCK_MONOTONIC; 0: none do), and how long they ever did. */
	uint64_t loading_since_ns, loading_ns;
	/* When there was work last (CLOCK_MONOTONIC, coarse): a record was read, or the streams have become empty. */
	uint64_t active_ns;
	uint32_t context; /* enum worker_context */
	uint32_t
		kept_by; /* enum worker_keeper: why the context was not given back when it was last to be */
	/* How often it was given back, and how long its being made again has taken in all. */
	uint64_t retirements, reopening_ns;
	uint64_t swap_kept_bytes; /* host swap that it was charged, and keeps without using it */
	uint64_t rescued_bytes;   /* that were to leave, and were wanted back before they had */
};

/* How a session ended. */
enum worker_end {
	WORKER_END_CUT_OFF =
		1, /* its client was killed, or called _exit: it did not say that it leaves */
	WORKER_END_UNREACHED = 2, /* events that it shared are not reached, and will not be */
};

enum worker_context {
	WORKER_CONTEXT_OPEN,
	WORKER_CONTEXT_RETIRED, /* given back, and nobody has needed it since */
	WORKER_CONTEXT_WANTED,  /* being made again, or waiting for room */
	WORKER_CONTEXT_LOST,    /* it could not be made again: the session ends */
};

/* What keeps a context on the device: it could not be had again as it was. */
enum worker_keeper {
	KEPT_BY_NOTHING,
	KEPT_BY_SHARING, /* memory that other sessions have, too */
	KEPT_BY_MAPPING, /* memory that the program has mapped for good (gmap) */
	KEPT_BY_VARIABLES, /* addresses of a module's variables, which the program has or which lie in memory */
	KEPT_BY_HEAP,     /* kernels that allocate memory */
	KEPT_BY_IMAGE,    /* a module of which nobody can tell what variables it has */
	KEPT_BY_DEVICE,   /* a backend that cannot */
	KEPT_BY_TEXTURES, /* arrays, textures and surfaces, whose handles the program has */
};

/* From holder to holder without a message: a page of gdevd's that all workers map.
 *   1. gdevd gives the session that is next a number, with PREPARE. No number comes twice (in 2^32).
 *   2. Before it tells the holder to leave, gdevd names the next one: it stores TURN_NEXT of the holder's session and of
 *      that number in `next`. It changes its mind with a compare and swap.
 *   3. When the holder's window has drained, or is about to, the holder takes the word (compare and swap with 0, if the
 *      word is its own session's) and stores the number in `turn`.
 *   4. The session that finds its number in `turn` has the grant, and gives it back only when gdevd says so.
 *   5. The holder says RELEASE as ever. gdevd sees that the word is gone, and says GRANT to the new holder.
 *
 * And that a session has come which the holder of compute is to leave for, before gdevd has woken up for it:
 *   1. With a grant gdevd stores in `preferred` TURN_NEXT of a session that outranks the holder and has left not long ago,
 *      if there is one.
 *   2. When that session wants compute, its worker stores the same word in `came`, and says ACQUIRE.
 *   3. A holder that sees the word begins nothing more, until gdevd has taken it away, or for WAKE_NS: once in a hold.
 * What a worker writes here can make another start too soon, as the worker itself could. gdevd's time-out holds for the
 * session that it gave the grant. */
struct turns {
	struct {
		_Alignas(64) uint64_t next; /* 0: nobody is named */
		_Alignas(64) uint32_t turn;
	} resources[RESOURCES];
	_Alignas(64) uint64_t preferred; /* 0: nobody */
	_Alignas(64) uint64_t came;
};

/* Of `next` the holder's session and the number of the next one; of `preferred` and `came` a session and a number. */
#define TURN_NEXT(session, turn) ((uint64_t)(session) << 32 | (uint32_t)(turn))

_Static_assert(sizeof(struct control_header) == 16, "ABI");
_Static_assert(sizeof(struct control_hello) == 80, "ABI");
_Static_assert(sizeof(struct control_welcome) == 184, "ABI");
_Static_assert(
	offsetof(struct control_welcome, inline_bytes) == CONTROL_WELCOME_UNTUNED_BYTES, "ABI");
_Static_assert(sizeof(struct control_refused) == 272, "ABI");
_Static_assert(sizeof(struct control_description) == 784, "ABI");
_Static_assert(sizeof(struct control_ready) == 832, "ABI");
_Static_assert(sizeof(struct control_attach) == 144, "ABI");
_Static_assert(sizeof(struct control_move) == 96, "ABI");
_Static_assert(sizeof(struct control_allocate) == 48, "ABI");
_Static_assert(sizeof(struct control_room) == 32, "ABI");
_Static_assert(sizeof(struct control_slot) == 32, "ABI");
_Static_assert(sizeof(struct control_charged) == 48, "ABI");
_Static_assert(sizeof(struct control_return) == 40, "ABI");
_Static_assert(sizeof(struct control_memory) == 32, "ABI");
_Static_assert(sizeof(struct control_evict) == 40, "ABI");
_Static_assert(sizeof(struct control_evicted) == 32, "ABI");
_Static_assert(sizeof(struct control_grant) == 40, "ABI");
_Static_assert(sizeof(struct turns) == 512, "ABI");
_Static_assert(sizeof(struct control_shm) == 96, "ABI");
_Static_assert(sizeof(struct control_cache) == 40, "ABI");
_Static_assert(sizeof(struct control_event) == 40, "ABI");
_Static_assert(sizeof(struct control_trace) == 32, "ABI");
_Static_assert(sizeof(struct control_traced) == 128, "ABI");
_Static_assert(sizeof(struct control_graph) == 96, "ABI");
_Static_assert(offsetof(struct worker_page, longest_ns) == 128, "ABI");
_Static_assert(offsetof(struct worker_page, swapped_bytes) == 160, "ABI");
_Static_assert(sizeof(struct worker_page) == 256, "ABI");

#endif

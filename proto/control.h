/* SPDX-License-Identifier: MIT
 *
 * Control messages: what clients and workers say to gdevd, and gdevd to them. One message is one
 * SOCK_SEQPACKET packet: a header and the fixed struct of its type (and, where it says so, bytes after
 * it). Requests carry a serial that the answer repeats. gdevd and workers drop a peer that sends a
 * message which is malformed; they never trust one.
 *
 * Sockets of gdevd, in its runtime directory:
 *   NAME.sock     one a virtual GPU; its owner, group and mode are the right to use that virtual GPU
 *   control.sock  CONTROL_ADMIN: status and configuration; who may do what is decided by the
 *                 peer's uid (any user may look, root and gdevd's own user may change). CONTROL_TRACE
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

#define CONTROL_VERSION 1
#define CONTROL_BYTES_MAX (64u << 10)
#define CONTROL_NAME_MAX 32 /* of a virtual GPU, NUL included: [a-z0-9_-], first a letter */
#define CONTROL_TEXT_MAX 256

/* X(name, value, struct, fixed: 1 when nothing may follow the struct) */
#define CONTROLS(X)                                                                                \
	/* client -> gdevd, and back */                                                            \
	X(CONTROL_HELLO, 1, struct control_hello, 1)                                               \
	X(CONTROL_WELCOME, 2, struct control_welcome, 1)                                           \
	X(CONTROL_REFUSED, 3, struct control_refused, 1)                                           \
	X(CONTROL_ADMIN, 4, struct control_header, 0)                                              \
	X(CONTROL_ADMIN_REPLY, 5, struct control_header, 0)                                        \
	/* worker <-> gdevd */                                                                     \
	X(CONTROL_READY, 32, struct control_ready, 1)                                              \
	X(CONTROL_ATTACH, 33, struct control_attach, 1)                                            \
	X(CONTROL_ATTACHED, 34, struct control_header, 1)                                          \
	X(CONTROL_REGISTER, 35, struct control_attach, 1)                                          \
	X(CONTROL_BYE, 36, struct control_header, 1)                                               \
	X(CONTROL_MEMORY, 40, struct control_memory, 1)                                            \
	X(CONTROL_MEMORY_REPLY, 41, struct control_memory, 1)                                      \
	X(CONTROL_RESIDENT, 42, struct control_memory, 1)                                          \
	X(CONTROL_SWAP, 43, struct control_memory, 1)                                              \
	X(CONTROL_ACQUIRE, 44, struct control_grant, 1)                                            \
	X(CONTROL_GRANT, 45, struct control_grant, 1)                                              \
	X(CONTROL_REVOKE, 46, struct control_grant, 1)                                             \
	X(CONTROL_RELEASE, 47, struct control_grant, 1)                                            \
	X(CONTROL_PREPARE, 60, struct control_grant, 1)                                            \
	X(CONTROL_EVICT, 48, struct control_evict, 1)                                              \
	X(CONTROL_EVICTED, 49, struct control_evict, 1)                                            \
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
	X(CONTROL_TRACE_END, 83, struct control_traced, 1)

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

/* Asks for a session. The client has reserved the arena already. */
struct control_hello {
	struct control_header header;
	uint32_t version_min, version_max; /* of session.h and record.h */
	uint64_t features;                 /* what the client knows, enum control_feature */
	uint64_t arena_base, arena_bytes;  /* multiples of ARENA_ALIGN */
	uint64_t trace;       /* a token: whoever TRACEs with it wants this session; 0: none */
	uint64_t reserved[3]; /* 0 */
};

enum control_feature {
	FEATURE_DEVICE_MAP = 1, /* PEER_DEVICE_MAP works */
	FEATURE_TUNING = 2,     /* WELCOME has the fields from inline_bytes on */
	FEATURE_TRACE = 4,      /* the last descriptor of WELCOME is the trace segment (trace.h) */
};

/* Descriptors, in this order: session segment, staging memory, eventfd that wakes the worker, eventfd that wakes the
 * client, peer socket, and with FEATURE_TRACE the trace segment. The connection is kept as long as the session lives;
 * gdevd going away does not end the session. Refused with REFUSED: -EADDRINUSE: choose another arena. A client without
 * FEATURE_TUNING gets CONTROL_WELCOME_UNTUNED_BYTES of it. */
struct control_welcome {
	struct control_header header;
	uint32_t version, reserved;
	uint64_t features; /* both sides know them */
	uint64_t session;  /* names it in gdevd's answers and logs; 1 to 2^32 - 1, not used again */
	uint64_t staging_bytes;
	char vgpu[CONTROL_NAME_MAX];
	char device_name[64];
	uint8_t device_uuid[16];
	uint64_t memory_bytes; /* of the virtual GPU */
	/* What is best for copies on this device, as gdev.conf says; 0: the library's default. */
	uint32_t inline_bytes; /* up to here host memory rides in the record */
	uint32_t chunk_bytes;  /* of two-stage copies */
	uint32_t copy_threads; /* that share a large copy */
	uint32_t reserved2;
};

#define CONTROL_WELCOME_UNTUNED_BYTES 168

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
};

/* ATTACH: gdevd hands a client to a warm worker; descriptors: the worker's end of the peer socket, and (it may be
 * missing) the page with struct turns. Answered by ATTACHED (-EADDRINUSE: the arena is not free in the worker).
 * REGISTER: a worker tells a restarted gdevd whom it serves; descriptors: the worker page, and the trace segment if
 * there is one. It holds no grants then, and asks again for what it was waiting for. It attaches itself to shared
 * memory again with CONTROL_SHM: ATTACH with id, key, bytes, chunk_bytes, uid, gid and mode as it knows them; status 1:
 * gdevd did not know the segment, BACK it: then it is attached. */
struct control_attach {
	struct control_header header;
	uint64_t session;
	int32_t pid;
	uint32_t uid, gid, reserved;
	char vgpu[CONTROL_NAME_MAX];
	uint64_t arena_base, arena_bytes;
	uint64_t features;
	uint32_t version;
	uint32_t time_limit_ms;      /* of a launch on the device; 0: none */
	uint64_t memory_limit_bytes; /* what the virtual GPU has */
	uint64_t held_bytes;         /* REGISTER: device memory it holds */
};

/* Every byte of an object is charged to device memory or to host swap (docs/memory.md).
 * MEMORY: device memory, before it is taken (bytes > 0; answered: all of it, or -ENOMEM) and after it is
 * given back (bytes < 0; no answer). 0 asks only.
 * RESIDENT: device memory for what is to be brought in (while the worker holds compute; free_bytes is 0), or
 * for what stays on the device (1), for which others may have to leave: answered, when there is
 * some, with as many of the bytes as there are now. -ENOMEM: nobody has any to give. For a context that was given
 * back (2): answered with all of it, whenever that is. For what is to be brought in and cannot be used from host memory
 * (3): as 0, but -ENOMEM only when there is nobody left to wait for.
 * SWAP: as MEMORY, for swap space. In the answer, and in what a worker gives back, free_bytes is 0 for host memory, 1
 * for the swap file, whose descriptor goes with the answer. With serial 0, bytes > 0 are held already. When it asks,
 * total_bytes says what for: enum swap_wish.
 * All answers are MEMORY_REPLY, with what the virtual GPU has. */
struct control_memory {
	struct control_header header;
	int64_t bytes;
	uint64_t free_bytes, total_bytes;
};

enum swap_wish {
	SWAP_WISH_OBJECT, /* an object is to begin its life in swap */
	/* The next are instead of what the worker gives back afterwards: */
	SWAP_WISH_SLOT, /* one slot, as neither pool has room for it of what was charged; answered at once */
	SWAP_WISH_MEMORY, /* one that can be mapped: in host memory; answered when others had time to give some */
	SWAP_WISH_FILE, /* one in the file; answered at once */
};

/* EVICT: gdevd wants `bytes` of device memory back from a worker, or, with flags, something else; `swapped` bytes of
 * swap space have been charged to it for that. The worker gives back with MEMORY as chunks leave, and with SWAP what it
 * does not need of the swap space; it says EVICTED (same serial) when it is done: `bytes` that it gave, of which
 * `swapped` are in swap now. `copied_us`: how long the copy engine worked for it, which is charged to whom the room is
 * for. status: what was in the way. */
struct control_evict {
	struct control_header header;
	uint64_t bytes, swapped;
	uint32_t flags, copied_us; /* EVICT: enum evict_flags; EVICTED */
};

enum evict_flags {
	EVICT_SUSPEND = 1, /* all of it; commands wait from now on until RESUME */
	EVICT_RESUME = 2,  /* bytes is 0; EVICTED when everything is back that has room */
	EVICT_GRANTED = 4, /* whom the room is for holds the copy engine, and waits */
	/* All of it, and the context if nothing is going on: the next command has it made again. In EVICTED: it is
	 * gone (what it was charged was returned with MEMORY). Else worker_page.kept_by may say why not. */
	EVICT_RETIRE = 8,
	EVICT_SLOTS =
		16, /* no device memory: so many bytes of host swap that it keeps and does not use */
	EVICT_FILE = 32, /* what was charged is of the swap file, whose descriptor goes with it */
	/* With SLOTS: and if it does not keep so many, of those that its objects use as many as it can have in its
	 * file, for which it asks (SWAP_WISH_FILE). */
	EVICT_MOVE = 64,
};

enum control_resource {
	RESOURCE_COMPUTE,
	RESOURCE_COPY_TO_DEVICE,
	RESOURCE_COPY_FROM_DEVICE,
	RESOURCES,
};

/* A worker uses a resource only while it holds a grant. ACQUIRE asks; GRANT gives it for at least
 * `quantum_ns` and until REVOKE; then the worker drains what is on the device and says RELEASE with the
 * device time it used. While nobody else wants the resource, nobody revokes, and nothing is sent.
 * PREPARE: the holder was told to leave, and this worker may be next: it should look for GRANT without
 * sleeping for `quantum_ns`, since to be woken takes longer than all else of a handover. With a `turn`, also
 * for that number in struct turns. A worker that has asked for nothing is to look for what its client asks, which is
 * expected to come. */
struct control_grant {
	struct control_header header;
	uint32_t resource; /* enum control_resource */
	uint32_t wants;    /* RELEASE: 1 when more work waits: counts as ACQUIRE */
	uint64_t quantum_ns;
	union {
		uint64_t used_ns;
		uint64_t turn; /* PREPARE; 0: none */
	};
};

enum control_shm_command {
	SHM_COMMAND_GET = 1, /* key, bytes, flags -> id, bytes; status 1: created, BACK it now */
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
};

/* The creator has taken the memory with CONTROL_MEMORY; BACK moves that charge to the segment, which keeps
 * it as long as it lives. ATTACH of a segment that is not whole yet is answered when it is.
 * Permission is checked by gdevd against the session's uid and gid, as System V shared memory does.
 *
 * A transient segment (GET with CONTROL_SHM_TRANSIENT and the key IPC_PRIVATE) lives as long as it is
 * attached; its creator is attached from the start. The answer to GET names its token, a random number; who
 * does not know the token finds no such segment.
 *
 * A segment leaves the device as a whole (docs/memory.md). Each session that has attached it is told to LEAVE, and
 * says LEAVE back with status 1: it has the chunks, 0: it has none, or what keeps it there. One of those that have
 * them is told to WRITE; when it has, all are told to DROP, and keep the descriptor of the host copy, for a
 * gdevd that is restarted. If none has them, a worker without a session is told to WRITE; it asks for them with
 * RESTORE. ATTACH of a segment that is not on the device is answered with CONTROL_SHM_HOST, and the host copy if it is
 * valid. RESTORE is answered when it is known where it is: status 0: descriptors as for ATTACH; 1: nowhere but in
 * the host copy, which comes along: the asker charges device memory, brings it in and says BACK, or MAP; 2: it is used
 * there, for good. BACK with CONTROL_SHM_HOST, to a restarted gdevd: the descriptor is the host copy.
 *
 * Where the device cannot use files, one who was to bring in what is in a file, and has no room for it, says MOVE. It is
 * answered when there is room in memory, with a descriptor: the asker copies the segment there, maps it, says MAP (or,
 * status: could not) and uses it when that has been answered. Until then the host copy is the file. Who is told to DROP
 * what it has dropped already takes the descriptor as the host copy, with CONTROL_SHM_MAPPED one that is used. */
#define CONTROL_TOKEN_BYTES 16
#define CONTROL_SHM_TRANSIENT 0x40000000u /* flags beside those of shmget(2) */
#define CONTROL_SHM_HOST 0x20000000u      /* it is not on the device */
#define CONTROL_SHM_MAPPED 0x10000000u    /* with _HOST: and used where it is */

struct control_shm {
	struct control_header header;
	uint32_t command; /* enum control_shm_command */
	int32_t key;
	uint32_t id, flags;
	uint64_t bytes, chunk_bytes; /* chunk_bytes: of the chunks that go with this message */
	uint32_t first_chunk, chunks;
	uint32_t uid, gid, mode, attached;
	uint8_t token[CONTROL_TOKEN_BYTES]; /* of a transient segment; zeros */
};

/* Compiled code on disk, per uid of the client. GET: the answer has a descriptor to read. PUT: the
 * answer has a descriptor to write (status -EEXIST, -ENOSPC, -EDQUOT: none); COMMIT publishes it. */
struct control_cache {
	struct control_header header;
	uint8_t key[16];
	uint64_t bytes;
};

/* Events between sessions. WATCH: a worker asks gdevd, and gdevd the worker that serves `session`, to
 * say when timelines[timeline] reaches `value`. DONE goes the same way back. */
struct control_event {
	struct control_header header;
	uint64_t session, value;
	uint32_t timeline, reserved;
};

/* TRACE, on control.sock: the sender wants to read the trace segments of sessions of its own user (root: of
 * any) whose clients said `token` in HELLO; token 0: of all. Answered by TRACE_REPLY (-EALREADY: it does
 * already), and then by a TRACE_BEGIN for each such session that is there or begins later, with a descriptor
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
};

/* A word of worker_page.revoke. gdevd stores it, and then sends REVOKE so that a sleeping worker looks
 * at it; before it sends GRANT it stores REVOKE_NONE, or what else the new holder is to know from its first command on. A
 * REVOKE for what the worker no longer holds means nothing. */
enum worker_revoke {
	REVOKE_NONE,
	REVOKE_NOW, /* drain what is on the device and RELEASE, at the next command boundary */
	REVOKE_WHEN_IDLE, /* others wait: as NOW once nothing has been queued for about 100 us; until
			   * then the quantum goes on */
	REVOKE_SOON, /* who goes before this one wakes up, and is expected to ask: nothing more is put on the
		      * device until the word changes, which it does within a millisecond */
	REVOKE_MAY_COME, /* nobody waits, but one that goes before this one has been here lately: no more
			  * is put on the device than if somebody waited */
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
 * else why not. */

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
	uint32_t reserved;
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
	KEPT_BY_HEAP,   /* kernels that allocate memory */
	KEPT_BY_IMAGE,  /* a module of which nobody can tell what variables it has */
	KEPT_BY_DEVICE, /* a backend that cannot */
};

/* From holder to holder without a message: a page of gdevd's that all workers map. gdevd, before it tells the holder to
 * leave, names the one that follows: it stores TURN_NEXT of the holder's session and of a number that it gave the other
 * with PREPARE. The holder, when its window has drained or is about to, takes the word (compare and swap with 0, if it
 * is its own session's) and stores the number in `turn`; who finds its number there has the grant, and leaves it only
 * when gdevd says so. The holder says RELEASE as ever, and gdevd, which sees that the word is gone, says GRANT to the
 * new one. gdevd changes its mind with another compare and swap. No number comes twice (in 2^32). What a worker writes
 * here can make another start too soon, as it could itself: gdevd's time-out holds for whom it gave the grant. */
struct turns {
	struct {
		_Alignas(64) uint64_t next; /* 0: nobody is named */
		_Alignas(64) uint32_t turn;
	} resources[RESOURCES];
};

#define TURN_NEXT(session, turn) ((uint64_t)(session) << 32 | (uint32_t)(turn))

_Static_assert(sizeof(struct control_header) == 16, "ABI");
_Static_assert(sizeof(struct control_hello) == 80, "ABI");
_Static_assert(sizeof(struct control_welcome) == 184, "ABI");
_Static_assert(
	offsetof(struct control_welcome, inline_bytes) == CONTROL_WELCOME_UNTUNED_BYTES, "ABI");
_Static_assert(sizeof(struct control_refused) == 272, "ABI");
_Static_assert(sizeof(struct control_ready) == 120, "ABI");
_Static_assert(sizeof(struct control_attach) == 120, "ABI");
_Static_assert(sizeof(struct control_memory) == 40, "ABI");
_Static_assert(sizeof(struct control_evict) == 40, "ABI");
_Static_assert(sizeof(struct control_grant) == 40, "ABI");
_Static_assert(sizeof(struct turns) == 384, "ABI");
_Static_assert(sizeof(struct control_shm) == 88, "ABI");
_Static_assert(sizeof(struct control_cache) == 40, "ABI");
_Static_assert(sizeof(struct control_event) == 40, "ABI");
_Static_assert(sizeof(struct control_trace) == 32, "ABI");
_Static_assert(sizeof(struct control_traced) == 96, "ABI");
_Static_assert(offsetof(struct worker_page, longest_ns) == 128, "ABI");
_Static_assert(offsetof(struct worker_page, swapped_bytes) == 160, "ABI");
_Static_assert(sizeof(struct worker_page) == 256, "ABI");

#endif

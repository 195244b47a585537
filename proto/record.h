/* SPDX-License-Identifier: MIT
 *
 * Records: the primitives of Gdev as they travel in a session's ring.
 *
 * A record is a header, the fixed fields of its opcode, and its tail (parameters, bytes, attributes).
 * It is 8-byte aligned, contiguous, and at most RECORD_BYTES_MAX long. RECORD_PAD fills the end of the
 * ring; only its first eight bytes need to be there. Two classes:
 *   immediate  executed in ring order; `timeline` is the index of a reply slot, which the worker
 *              fills before it completes the timeline. May be answered out of order.
 *   stream     queued on the stream whose index is `timeline`, executed after the commands before it
 *              on that stream; has no reply. Its failure is asynchronous: the stream's or the
 *              session's error.
 * In both, timelines[timeline].completed becomes `value` when the record is done; the client counts
 * the values of a timeline up by one.
 *
 * The worker copies a record out of the ring once, and validates and executes the copy.
 */
#ifndef GDEV_PROTO_RECORD_H
#define GDEV_PROTO_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/texture.h"

#define RECORD_BYTES_MAX 65536u
#define RECORD_PARAM_BYTES_MAX 32768u
#define RECORD_NAME_MAX 4096u /* bytes of a kernel's or variable's name, NUL included */

/* X(name, value, class, fixed-part struct) */
#define RECORDS(X)                                                                                 \
	X(RECORD_PAD, 0, IMMEDIATE, struct record_header)                                          \
	/* memory */                                                                               \
	X(RECORD_MEMORY_ALLOC, 1, IMMEDIATE, struct record_memory)                                 \
	X(RECORD_MEMORY_FREE, 2, IMMEDIATE, struct record_memory)                                  \
	X(RECORD_COPY, 3, STREAM, struct record_copy)                                              \
	X(RECORD_WRITE, 4, STREAM, struct record_write)                                            \
	X(RECORD_FILL, 5, STREAM, struct record_fill)                                              \
	X(RECORD_ARRAY_CREATE, 6, IMMEDIATE, struct record_array)                                  \
	X(RECORD_TEXTURE_CREATE, 7, IMMEDIATE, struct record_texture)                              \
	X(RECORD_TEXTURE_DESTROY, 8, IMMEDIATE, struct record_texture_destroy)                     \
	/* code */                                                                                 \
	X(RECORD_MODULE_LOAD, 16, IMMEDIATE, struct record_module_load)                            \
	X(RECORD_MODULE_UNLOAD, 17, IMMEDIATE, struct record_handle)                               \
	X(RECORD_FUNCTION_GET, 18, IMMEDIATE, struct record_lookup)                                \
	X(RECORD_GLOBAL_GET, 19, IMMEDIATE, struct record_lookup)                                  \
	X(RECORD_LAUNCH, 20, STREAM, struct record_launch)                                         \
	X(RECORD_MODULE_PLACE, 21, IMMEDIATE, struct record_module_place)                          \
	X(RECORD_REFERENCE_SET, 22, IMMEDIATE, struct record_reference)                            \
	X(RECORD_CLUSTERS, 24, IMMEDIATE, struct record_launch)                                    \
	X(RECORD_TENSOR_MAP, 25, IMMEDIATE, struct record_tensor_map)                              \
	/* graphs that the device is given as a whole */                                           \
	X(RECORD_GRAPH_BEGIN, 26, IMMEDIATE, struct record_graph)                                  \
	X(RECORD_GRAPH_NODE, 27, IMMEDIATE, struct record_graph_node)                              \
	X(RECORD_GRAPH_END, 28, IMMEDIATE, struct record_graph)                                    \
	X(RECORD_GRAPH_DESTROY, 29, IMMEDIATE, struct record_handle)                               \
	X(RECORD_GRAPH_LAUNCH, 30, STREAM, struct record_graph_launch)                             \
	/* streams and events */                                                                   \
	X(RECORD_STREAM_CREATE, 32, IMMEDIATE, struct record_stream)                               \
	X(RECORD_STREAM_DESTROY, 33, IMMEDIATE, struct record_stream)                              \
	X(RECORD_WAIT, 34, STREAM, struct record_wait)                                             \
	X(RECORD_STAMP, 35, STREAM, struct record_stamp)                                           \
	X(RECORD_EVENT_SHARE, 36, IMMEDIATE, struct record_event)                                  \
	X(RECORD_EVENT_WAIT, 37, STREAM, struct record_event)                                      \
	/* shared device memory */                                                                 \
	X(RECORD_SHM_GET, 48, IMMEDIATE, struct record_shm)                                        \
	X(RECORD_SHM_ATTACH, 49, IMMEDIATE, struct record_shm)                                     \
	X(RECORD_SHM_DETACH, 50, IMMEDIATE, struct record_shm)                                     \
	X(RECORD_SHM_CONTROL, 51, IMMEDIATE, struct record_shm)                                    \
	/* device memory shared by token */                                                        \
	X(RECORD_SHARED_CREATE, 52, IMMEDIATE, struct record_shared)                               \
	X(RECORD_SHARED_EXPORT, 53, IMMEDIATE, struct record_shared)                               \
	X(RECORD_SHARED_HOLD, 54, IMMEDIATE, struct record_shared)                                 \
	X(RECORD_SHARED_DROP, 55, IMMEDIATE, struct record_shared)                                 \
	X(RECORD_SHARED_MAP, 56, IMMEDIATE, struct record_shared)                                  \
	X(RECORD_SHARED_PUBLISH, 57, IMMEDIATE, struct record_shared)                              \
	/* the rest */                                                                             \
	X(RECORD_QUERY, 64, IMMEDIATE, struct record_query)                                        \
	X(RECORD_TUNE, 65, IMMEDIATE, struct record_query)                                         \
	X(RECORD_CHECK, 66, IMMEDIATE, struct record_check)

enum record_opcode {
#define RECORD_ENUM(name, value, class, type) name = value,
	RECORDS(RECORD_ENUM)
#undef RECORD_ENUM
		RECORD_OPCODE_END = 128,
};

struct record_header {
	uint16_t opcode;
	uint8_t version; /* of this opcode's layout; 0 */
	uint8_t flags;   /* enum record_flags */
	uint32_t length; /* bytes, header and tail included, a multiple of 8 */
	uint32_t timeline;
	uint32_t reserved; /* 0 */
	uint64_t value;
};

enum record_flags {
	/* Stream class: every record after this one in the ring, on whatever stream, waits for it. (A
	 * small copy that was complete for its caller when it was only queued.) */
	RECORD_FENCE = 1,
	/* LAUNCH: the next launch of this stream follows at once (a program's graph): the device may be given them
	 * together. A hint: nothing waits for long for what does not come. */
	RECORD_MORE = 2,
};

/* Tail of a record that takes attributes: a list of these, each padded to 8 bytes. */
struct record_attribute {
	uint16_t type; /* enum record_attribute_type */
	uint16_t
		required; /* 1: the record fails when the worker does not know `type`; 0: it is skipped */
	uint32_t length; /* bytes of payload that follow */
};

enum record_attribute_type {
	RECORD_ATTRIBUTE_COOPERATIVE = 1, /* u32 */
	RECORD_ATTRIBUTE_CLUSTER = 2,     /* u32[3], u32 0 */
	RECORD_ATTRIBUTE_PRIORITY = 3,    /* i32 */
};

/* MEMORY_ALLOC: a device memory object of `bytes` at `address`; both multiples of ARENA_ALIGN.
 * MEMORY_FREE: the object at `address` (page-locked memory and arrays too); waits for commands in flight.
 * Reply: status only. -ENOMEM: the virtual GPU has no more. */
struct record_memory {
	struct record_header header;
	uint64_t address, bytes;
};

/* Copies width x height x depth bytes between any two ranges of the arena (or of a module's
 * variables); pitches and slices in bytes, such that no row or plane is over another. height = depth = 1 for a plain
 * copy. */
struct record_copy {
	struct record_header header;
	uint64_t destination, source;
	uint64_t width, height, depth;
	uint64_t destination_pitch, source_pitch;
	uint64_t destination_slice, source_slice;
};

/* Writes `bytes` bytes, which follow, to `destination`. */
struct record_write {
	struct record_header header;
	uint64_t destination, bytes;
};

/* Fills height rows of `width` elements of `element_bytes` (1, 2, 4) with `value`. */
struct record_fill {
	struct record_header header;
	uint64_t destination, width, height, pitch;
	uint32_t element_bytes, value;
};

/* An array of a device with PROPERTY_DRIVER_TEXTURES. Only the device knows how it lies in its memory; copies name its
 * elements by addresses in [address, address + bytes), where they are as array_layout() has them and where no kernel finds
 * anything. Both are multiples of ARENA_ALIGN, `bytes` the least such that is enough. MEMORY_FREE ends it. Reply: status
 * only. -ENOMEM; -ENOTSUP: the device makes no such array. */
struct record_array {
	struct record_header header;
	uint64_t address, bytes;
	struct array_shape shape;
};

/* A texture or surface object of such a device. Reply: struct reply_texture. -EINVAL: there is no such array, or the device
 * takes no such object. Memory that it names is not checked: what a kernel does with the object is as what it does with a
 * pointer. An object whose array ends is of no use any more.
 * TEXTURE_DESTROY waits for commands in flight. -GDEV_E_INVALID_HANDLE. */
struct record_texture {
	struct record_header header;
	struct texture_words words;
};

struct record_texture_destroy {
	struct record_header header;
	uint64_t handle;
	uint32_t surface, reserved; /* 1: a surface object's */
};

/* Loads the image that was sent with PEER_IMAGE (number; image is 0), or the one at `image` in the arena (number is 0), which
 * is copied: for small ones. JIT messages are written to `log` (0: none wanted).
 * Reply: struct reply_module. */
struct record_module_load {
	struct record_header header;
	uint64_t image, image_bytes;
	uint64_t log, log_bytes;
	uint64_t number;
};

/* Moves the module's variables, with their initial values, to page-locked memory of the session, which the
 * client frees after the module. For modules whose reply_module says so; before their first launch. */
struct record_module_place {
	struct record_header header;
	uint32_t module, reserved;
	uint64_t address; /* a multiple of 4096 */
};

/* A texture or surface reference of a module, of a device with PROPERTY_DRIVER_TEXTURES, is bound to what `words` say, for the
 * launches that come; or with bind 0 only looked for, words.surface saying what it is. Name, NUL-terminated, follows. Reply:
 * status only. -GDEV_E_SYMBOL_NOT_FOUND; -EINVAL as for RECORD_TEXTURE_CREATE; -ENOTSUP: the device has none. */
struct record_reference {
	struct record_header header;
	uint32_t module, name_bytes;
	uint32_t bind, reserved;
	struct texture_words words;
};

struct record_handle {
	struct record_header header;
	uint32_t handle, reserved;
};

/* Name, NUL-terminated, follows. Replies: struct reply_function, struct reply_global. */
struct record_lookup {
	struct record_header header;
	uint32_t module, name_bytes;
};

/* Parameters follow (param_bytes, padded to 8), then attributes to the record's end.
 * CLUSTERS: how many clusters of such a launch the device holds at once; without RECORD_ATTRIBUTE_CLUSTER, of how
 * many blocks the largest cluster is. Reply: struct reply_clusters. */
struct record_launch {
	struct record_header header;
	uint32_t function;
	uint32_t grid[3], block[3];
	uint32_t shared_bytes; /* dynamic */
	uint32_t param_bytes;
	uint32_t reserved;
};

/* A graph is written down as BEGIN, its nodes, and END, and then launched as a whole. BEGIN: `graph` 0 makes a new one; else
 * it gets other nodes, and is as it was until END. from_device 1: kernels may launch it; handle: by which, if the device
 * leaves that to us: no living graph of the session has it. The replies are struct reply_graph; BEGIN's has no handle.
 * NODE: follows `dependencies` earlier nodes, whose numbers, from 0 and 4 bytes each, come behind the record, padded to 8; and
 * then what it does: a whole record LAUNCH, COPY or FILL, of whose header only opcode and length count. What a COPY or FILL
 * names is device memory, page-locked memory or variables.
 * END: -ENOTSUP: the device takes no such graph; -EBUSY: launches of it are not done.
 * DESTROY: what is in flight goes on. */
#define RECORD_GRAPH_NODES_MAX (1u << 20)
#define RECORD_GRAPH_BYTES_MAX (256u << 20) /* of all nodes of a graph */

struct record_graph {
	struct record_header header;
	uint32_t graph, from_device;
	uint64_t handle;
};

struct record_graph_node {
	struct record_header header;
	uint32_t graph, dependencies;
};

/* upload 1: no launch; when it is done kernels may launch the graph, as it is now. A launch does that, too. */
struct record_graph_launch {
	struct record_header header;
	uint32_t graph, upload;
};

#define RECORD_TENSOR_RANK 5
#define TENSOR_MAP_BYTES 128

enum tensor_map_mode {
	TENSOR_MAP_TILED,
	TENSOR_MAP_IM2COL,
	TENSOR_MAP_MOVED, /* what a map says, at another address */
};

/* How a tensor lies in memory, for the device's bulk copies: the device's own form of it is the reply,
 * TENSOR_MAP_BYTES. The words are as in cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col; what a mode does not
 * have is 0. TENSOR_MAP_MOVED has an address alone, and behind the record the map. */
struct record_tensor_map {
	struct record_header header;
	uint32_t mode, data_type, rank, interleave, swizzle, l2_promotion, fill, reserved;
	uint64_t address;
	uint64_t dimensions[RECORD_TENSOR_RANK],
		strides[RECORD_TENSOR_RANK]; /* strides: rank - 1 */
	uint32_t box[RECORD_TENSOR_RANK], element_strides[RECORD_TENSOR_RANK];
	int32_t lower[RECORD_TENSOR_RANK - 2], upper[RECORD_TENSOR_RANK - 2];
	uint32_t channels, pixels;
};

/* `stream` is the index of the timeline that becomes (stops being) a stream. */
struct record_stream {
	struct record_header header;
	uint32_t stream;
	int32_t priority; /* as CUDA's: lower is more urgent */
	/* CREATE: its launches run on these of the device's multiprocessors alone; a count of 0: on all.
	 * -ENOTSUP: the device has no parts; -EINVAL: this is none (PROPERTY_PART_STEP). */
	uint32_t first_multiprocessor, multiprocessors;
};

/* Waits until timelines[awaited].completed >= awaited_value. `awaited` 0: until
 * header.host_completed >= awaited_value. */
struct record_wait {
	struct record_header header;
	uint32_t awaited, reserved;
	uint64_t awaited_value;
};

/* Writes the time to stamps[stamp]. */
struct record_stamp {
	struct record_header header;
	uint32_t stamp, reserved;
};

/* EVENT_SHARE: makes (stream, value) known to other sessions; the reply is a struct reply_event with
 * the id (event = 0 in the request). EVENT_WAIT: waits for an event that another session shared. It
 * ends with -GDEV_E_SESSION_LOST, which does not harm the session, when that session is gone. */
struct record_event {
	struct record_header header;
	uint64_t event;
	uint32_t stream, reserved;
	uint64_t stream_value;
};

/* As shmget, shmat, shmdt and shmctl. Which fields count, by opcode:
 *   GET      key, bytes, flags (IPC_CREAT, IPC_EXCL, mode); reply_shm
 *   ATTACH   id, address, flags (SHM_RDONLY); reply_shm
 *   DETACH   address
 *   CONTROL  id, command (IPC_STAT, IPC_SET with flags = mode, IPC_RMID); reply_shm */
struct record_shm {
	struct record_header header;
	int32_t key;
	uint32_t id;
	uint64_t address, bytes;
	uint32_t flags, command;
};

#define RECORD_TOKEN_BYTES 16

/* Shared memory that lives as long as some session holds or maps it, found by an unguessable token: by sessions of the
 * same process, and, once it is published, by those of all processes of the user. Which fields count, by opcode; all but
 * DROP are answered with a reply_shared:
 *   CREATE   bytes: zeroed memory, which the session then holds
 *   EXPORT   address: the device memory object there is shared from now on, where it is; until MEMORY_FREE
 *   HOLD     id, token: the session holds it (once more)
 *   DROP     id: once less; -EINVAL: it does not hold it
 *   MAP      id, token, address, flags (SHM_RDONLY): as SHM_ATTACH; until SHM_DETACH
 *   PUBLISH  id, token: from now on other processes find it, too; -EINVAL: the session does not have it */
struct record_shared {
	struct record_header header;
	uint32_t id, flags;
	uint64_t address, bytes;
	uint8_t token[RECORD_TOKEN_BYTES];
};

struct record_query {
	struct record_header header;
	uint32_t type, reserved; /* enum record_query_type */
	uint64_t argument;
};

enum record_query_type {
	QUERY_MEMORY = 1,     /* reply_memory */
	QUERY_PROPERTIES = 2, /* int32_t[DEVICE_PROPERTIES], properties.h */
	QUERY_OCCUPANCY =
		3,       /* argument: function | block threads << 32; then dynamic shared bytes in
			       * `reserved`; reply_occupancy */
	QUERY_USAGE = 4, /* reply_usage */
	QUERY_FUNCTION_NAME = 5, /* argument: module | index << 32; the name, NUL-terminated.
				  * -GDEV_E_SYMBOL_NOT_FOUND: the module has no more */
	TUNE_SPIN_NS = 64,       /* how long the worker looks at an empty ring before it sleeps */
	TUNE_WINDOW_NS = 65,     /* how much estimated work it keeps on the device */
	TUNE_STACK_BYTES =
		66, /* of a thread of a kernel; -ENOSYS: the device does not say how much */
	TUNE_HEAP_BYTES = 67, /* of kernels' malloc; the same */
};

/* Checked kernels (docs/check.md). Which fields count, by operation:
 *   BEGIN   argument: bits of enum device_check; before there are modules. -ENOTSUP: the device cannot
 *   ADD     address, bytes: kernels may access these; argument 1: they have values already. Added again, with argument 1:
 *           from now on they have
 *   REMOVE  address: what was added there they may access no more
 *   REPORT  argument: which, from 0; reply_check. -ENOENT: so many were not found yet */
struct record_check {
	struct record_header header;
	uint32_t operation, argument;
	uint64_t address, bytes;
};

enum record_check_operation {
	RECORD_CHECK_BEGIN = 1,
	RECORD_CHECK_ADD,
	RECORD_CHECK_REMOVE,
	RECORD_CHECK_REPORT,
};

/* ---- payloads of replies ---- */

struct reply_module {
	uint32_t module;
	uint32_t wants_text;   /* 1: as PTX it could do more here (ops->module_wants_text) */
	uint64_t device_bytes; /* what code and variables take on the device */
	uint64_t
		variable_bytes; /* not 0: some are managed, and so much memory should be given them all */
};

struct reply_param {
	uint32_t offset, size;
};

#define REPLY_PARAMS_MAX 1000

enum reply_function_flags {
	REPLY_FUNCTION_NEEDS_CLUSTER = 1,   /* every launch has to say one */
	REPLY_FUNCTION_LAUNCHES_GRAPHS = 2, /* it, or another kernel of its module */
};

struct reply_function {
	uint32_t function;
	uint32_t param_count, param_bytes;
	uint32_t max_threads, shared_bytes, const_bytes, local_bytes, registers;
	uint32_t ptx_version, binary_version; /* 90, 90 */
	uint32_t max_dynamic_shared_bytes;
	uint8_t cluster[3];          /* that every launch has to have; zeros: none */
	uint8_t flags;               /* enum reply_function_flags */
	struct reply_param params[]; /* param_count, at most REPLY_PARAMS_MAX */
};

struct reply_global {
	uint64_t address, bytes;
	uint32_t managed, reserved; /* 1: declared so */
};

struct reply_graph {
	uint32_t graph, reserved;
	uint64_t handle; /* by which kernels launch it */
};

struct reply_event {
	uint64_t event;
};

struct reply_shm {
	uint32_t id, owner_uid, owner_gid, mode;
	uint64_t bytes;
	uint32_t attached, reserved;
};

struct reply_shared {
	uint32_t id, reserved;
	uint64_t bytes;
	uint8_t token[RECORD_TOKEN_BYTES];
};

struct reply_memory {
	uint64_t free_bytes, total_bytes; /* of the virtual GPU */
};

struct reply_occupancy {
	uint32_t blocks, reserved; /* a multiprocessor */
};

struct reply_clusters {
	uint32_t count, reserved;
};

struct reply_texture {
	uint64_t handle; /* which kernels take */
};

#define RECORD_CHECK_REPORTS 100 /* of a session, at most */

struct reply_check {
	uint64_t count;  /* how often it was found so far */
	char text[1016]; /* lines, NUL-terminated */
};

struct reply_usage {
	uint64_t launches, compute_ns, to_device_bytes, from_device_bytes, device_bytes;
};

_Static_assert(sizeof(struct record_header) == 24, "ABI");
_Static_assert(sizeof(struct record_attribute) == 8, "ABI");
_Static_assert(sizeof(struct record_memory) == 40, "ABI");
_Static_assert(sizeof(struct record_copy) == 96, "ABI");
_Static_assert(sizeof(struct record_write) == 40, "ABI");
_Static_assert(sizeof(struct record_fill) == 64, "ABI");
_Static_assert(sizeof(struct record_array) == 72, "ABI");
_Static_assert(sizeof(struct record_texture) == 168, "ABI");
_Static_assert(sizeof(struct record_texture_destroy) == 40, "ABI");
_Static_assert(sizeof(struct record_module_load) == 64, "ABI");
_Static_assert(sizeof(struct record_module_place) == 40, "ABI");
_Static_assert(sizeof(struct record_reference) == 184, "ABI");
_Static_assert(sizeof(struct record_handle) == 32, "ABI");
_Static_assert(sizeof(struct record_lookup) == 32, "ABI");
_Static_assert(sizeof(struct record_launch) == 64, "ABI");
_Static_assert(sizeof(struct record_graph) == 40, "ABI");
_Static_assert(sizeof(struct record_graph_node) == 32, "ABI");
_Static_assert(sizeof(struct record_graph_launch) == 32, "ABI");
_Static_assert(sizeof(struct record_tensor_map) == 216, "ABI");
_Static_assert(sizeof(struct record_stream) == 40, "ABI");
_Static_assert(sizeof(struct record_wait) == 40, "ABI");
_Static_assert(sizeof(struct record_stamp) == 32, "ABI");
_Static_assert(sizeof(struct record_event) == 48, "ABI");
_Static_assert(sizeof(struct record_shm) == 56, "ABI");
_Static_assert(sizeof(struct record_shared) == 64, "ABI");
_Static_assert(sizeof(struct record_query) == 40, "ABI");
_Static_assert(sizeof(struct record_check) == 48, "ABI");
_Static_assert(sizeof(struct reply_function) == 48, "ABI");
_Static_assert(sizeof(struct reply_check) == 1024, "ABI");

#endif

/* SPDX-License-Identifier: MIT
 *
 * Sessions: the whole of gdev as C calls. The Gdev API (gdev.h) and the CUDA Driver API stand on it; use
 * it directly to write another interface on top of gdev.
 *
 * A session is what one process has on one virtual GPU: an address arena, memory, code, and streams,
 * served by a worker process of its own. Opening the same virtual GPU again in one process gives the same
 * session and counts, except those that are opened for one user alone (gdev_session_open_own).
 *
 * Conventions. Calls return 0 or a negative code (gdev/error.h); a new object comes back through the last
 * parameter, which is untouched on failure. Every call may be made from any thread at any time, except
 * that destroying (closing, unloading) an object is the last call on it. Sizes are bytes, times are
 * nanoseconds of CLOCK_MONOTONIC. Addresses are those of the device, which for device memory, page-locked
 * memory and shared memory are also those of the process.
 *
 * Asynchronous failure. A command that fails after its call returned leaves its error in its stream, or,
 * when it broke the address space (an illegal address, a trap), in the session: from then on every call
 * on the session returns that error. After the worker is gone it is -GDEV_E_SESSION_LOST, unless the
 * session had such an error before (-GDEV_E_LAUNCH_TIMEOUT ends the worker, for one). In a forked
 * child every session of the parent is lost; opening a new one works.
 */
#ifndef GDEV_SESSION_H
#define GDEV_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <gdev/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct gdev_session;
struct gdev_stream;
struct gdev_event;
struct gdev_module;
struct gdev_function;

/* ---- virtual GPUs and sessions ---- */

#define GDEV_NAME_MAX 32

/* The virtual GPUs that this process sees: those that $GDEV_VGPU lists (comma-separated), else gdev0,
 * gdev1, … as far as their sockets exist. */
int gdev_vgpu_count(void);
/* -ENODEV when `index` is beyond them. */
int gdev_vgpu_name(int index, char name[GDEV_NAME_MAX]);

/* `vgpu` NULL: the first one that this process sees. -GDEV_E_NO_DAEMON: nobody listens; -EACCES: the
 * virtual GPU is not for this user; -ENODEV: no such virtual GPU. */
int gdev_session_open(const char *vgpu, struct gdev_session **session);
/* A session of its own: one that no other open gives, and that takes no other of the process with it when it fails. Errors as
 * gdev_session_open(). */
int gdev_session_open_own(const char *vgpu, struct gdev_session **session);
/* As one more gdev_session_open() of a session that is open: to be closed, too. Also of one that has failed. */
void gdev_session_ref(struct gdev_session *session);
/* Gives one open back; the last one ends the session and frees all that it has. NULL is fine. */
void gdev_session_close(struct gdev_session *session);

struct gdev_description {
	char vgpu[GDEV_NAME_MAX];
	char device_name[64];
	uint8_t device_uuid[16];
	uint64_t memory_bytes; /* of the virtual GPU */
	uint64_t session;      /* its number in gdevd's answers and logs */
	uint64_t arena_base, arena_bytes;
	uint32_t
		peers; /* virtual GPUs with this number, if it is not 0, can reach one another's memory */
	uint32_t apart; /* 1: in a virtual machine. Nothing is shared with other sessions */
};

#define GDEV_PROPERTIES 160

/* What a virtual GPU and its device are, without a session: `session` and the arena are 0. `properties`: by the index of
 * CUDA's attributes; 0 for what the device does not know. Errors as gdev_session_open; it may wait for gdevd to know its
 * device. */
int gdev_vgpu_describe(const char *vgpu, struct gdev_description *description,
	int32_t properties[GDEV_PROPERTIES]);

/* Valid as long as the session. */
const struct gdev_description *gdev_session_description(const struct gdev_session *session);

/* 0, or what broke the session; then *fault_address (if not NULL) is where, if that is known. */
int gdev_session_error(struct gdev_session *session, uint64_t *fault_address);
#define GDEV_WHY_BYTES 512
/* What the device said of the last kernel that it could not compile as it was launched; "": nothing. */
void gdev_session_why(struct gdev_session *session, char why[GDEV_WHY_BYTES]);

/* Waits until everything submitted so far is done, and prints what kernels printed. Returns the session's
 * error, or the first error that a stream had and nobody has seen. */
int gdev_session_sync(struct gdev_session *session);
/* Whether so much is on its way to the worker that submitting more may soon have to wait until it has taken some: less than a
 * quarter of the room is free. */
bool gdev_session_is_full(struct gdev_session *session);
/* From here on what the calling thread submits counts as that process's, which has opened a named graph of this one's (docs/ptask.md):
 * its nice value is the session's, but if it is another user's only where that is the more patient. 0: as the thread's own again.
 * Returns what was set before. */
int32_t gdev_submit_for(int32_t process);
/* Whether this process reaches device memory by itself, and may so copy to and from it without the worker. */
bool gdev_session_copies(struct gdev_session *session);
/* Prints on stdout what kernels have printed so far. */
void gdev_session_flush(struct gdev_session *session);

/* The device's properties by the index of CUDA's attributes; 0 for what the device does not know. */
int gdev_session_property(struct gdev_session *session, unsigned index, int32_t *value);

enum gdev_query {
	GDEV_QUERY_LAUNCHES,
	GDEV_QUERY_COMPUTE_NS,
	GDEV_QUERY_TO_DEVICE_BYTES,
	GDEV_QUERY_FROM_DEVICE_BYTES,
	GDEV_QUERY_DEVICE_BYTES, /* device memory that the session holds */
	GDEV_QUERY_CHUNK_BYTES,  /* of two-stage copies; see GDEV_TUNE_CHUNK_BYTES */
	GDEV_QUERY_INLINE_BYTES, /* see GDEV_TUNE_INLINE_BYTES */
	GDEV_QUERY_COPY_THREADS, /* see GDEV_TUNE_COPY_THREADS */
};

/* What the session has used so far. */
int gdev_session_query(struct gdev_session *session, enum gdev_query what, uint64_t *value);

enum gdev_tune {
	GDEV_TUNE_SPIN_NS, /* how long a waiting thread spins before it sleeps; a tenth or twice that, when its waits take longer */
	GDEV_TUNE_INLINE_BYTES, /* up to here host memory rides in the record */
	GDEV_TUNE_CHUNK_BYTES, /* a two-stage copy is split into these; at most a quarter of the staging */
	GDEV_TUNE_WORKER_SPIN_NS, /* how long the worker looks for records before it sleeps */
	GDEV_TUNE_WINDOW_NS,      /* how much estimated work the worker keeps on the device */
	GDEV_TUNE_COPY_THREADS,   /* 1 to 12: how many threads share a large copy */
	GDEV_TUNE_STACK_BYTES, /* of a thread of a kernel; -ENOSYS: the device does not say how much */
	GDEV_TUNE_HEAP_BYTES, /* of kernels' malloc; -ENOSYS as well */
	GDEV_TUNE_TOUCH_NS,   /* how long a touch of managed memory waits while nothing goes on */
};

int gdev_session_tune(struct gdev_session *session, enum gdev_tune what, uint64_t value);

/* ---- memory ---- */

enum gdev_memory_kind {
	GDEV_MEMORY_UNKNOWN = 0, /* no memory of the session: the process's own */
	GDEV_MEMORY_DEVICE,
	GDEV_MEMORY_HOST,     /* page-locked */
	GDEV_MEMORY_VARIABLE, /* of a module; known once gdev_module_global has named it */
	GDEV_MEMORY_SHARED,   /* attached by gdev_shm_attach */
	GDEV_MEMORY_MANAGED,  /* of gdev_managed_alloc */
};

struct gdev_range {
	enum gdev_memory_kind kind;
	uint64_t base, bytes; /* of the allocation */
	bool mapped;          /* the process may read and write it */
	uint64_t id;          /* never reused */
};

/* Device memory, 512-byte aligned; contents undefined. bytes > 0. -ENOMEM. */
int gdev_memory_alloc(struct gdev_session *session, uint64_t bytes, uint64_t *address);
/* Device memory or page-locked memory, by its first address. Waits for all commands submitted before.
 * -EINVAL: not such an address. */
int gdev_memory_free(struct gdev_session *session, uint64_t address);
/* One more owner: gdev_memory_free must be called once more. */
int gdev_memory_ref(struct gdev_session *session, uint64_t address);

/* Page-locked memory, page aligned, zeroed; the device uses it at the same address. Freed by
 * gdev_memory_free. */
int gdev_host_alloc(struct gdev_session *session, uint64_t bytes, void **pointer);

/* What `address` belongs to. Never fails for an address; kind says what it is. */
void gdev_memory_lookup(struct gdev_session *session, uint64_t address, struct gdev_range *range);

/* Of the virtual GPU. */
int gdev_memory_info(struct gdev_session *session, uint64_t *free_bytes, uint64_t *total_bytes);

/* Lets the process read and write device memory, at its address. Stays until it is freed. -ENOTSUP: not
 * on this device. */
int gdev_memory_map(struct gdev_session *session, uint64_t address, uint64_t bytes, void **pointer);
/* Reads a file straight into device memory, as preadv2(2) reads `bytes` at `offset` into memory of the process: no copy
 * lies between. At most 4 MiB at once. Who needs this session's memory, or its turn at copying, waits for the read for 100 ms
 * at most, and what comes later is lost; so RWF_NOWAIT belongs into `flags` unless the file is in memory. It is in no order with
 * commands: the caller knows that none uses this memory meanwhile. The bytes read; or -errno: -EINVAL: `offset` is negative;
 * -EAGAIN: not without waiting, or this file does not know RWF_NOWAIT;
 * -ENOTSUP: the process cannot reach the memory, or not now, or it took too long: read into memory of the process, and copy.
 * In a virtual machine the pages that the guest's kernel has of a regular file are copied by the host, and `flags` are not supported.
 * Any thread. */
int64_t gdev_memory_read(struct gdev_session *session, uint64_t address, uint64_t bytes, int fd,
	uint64_t offset, int flags);
/* The other way: writes a file straight from device memory, as pwritev2(2) does. After -ENOTSUP the file may have other bytes
 * there, and is written again. */
int64_t gdev_memory_write(struct gdev_session *session, uint64_t address, uint64_t bytes, int fd,
	uint64_t offset, int flags);

enum {
	GDEV_REVOKED = 1, /* others wait for compute, or a kernel comes to its limit of time */
	GDEV_AWAITED = 2, /* not that; threads of this process sleep for the session */
};

/* Who would have it sooner if a kernel left that can end soon, and be launched again; 0: nobody. -ENOTSUP in a virtual machine, where
 * nobody says so. Any thread. */
int gdev_session_revoked(struct gdev_session *session);

/* ---- managed memory ----
 *
 * Device memory that the process touches at the same addresses, without mapping it, in turn with the device: where it is
 * touched, its pages of 2 MiB come to the process as soon as all commands of the session that were submitted before are done;
 * before a launch, and before a command that names them, they go to the device. Who touches memory that a command under
 * way waits for is told so after a minute without progress, by a segmentation fault; so is who touches memory that could not be
 * copied. A host function is not held up by its own stream; what it has touched is open to all threads until it returns.
 *
 * A touch is a SIGSEGV that the library takes before the program's own handler, which gets all others. Threads that touch
 * managed memory do not block that signal, and an alternate stack that they have for it is of 16 KiB at least. The kernel
 * does not touch: a system call that is given closed pages fails with EFAULT, unless gdev_managed_open() was
 * called. `gdev run` has that done for read, write, recv and send with their likes, fread and fwrite. */

/* bytes > 0; zeros, when the memory has not been used before. Takes as much device memory as page-locked memory. Freed by
 * gdev_memory_free(). -ENOMEM. */
int gdev_managed_alloc(struct gdev_session *session, uint64_t bytes, uint64_t *address);
/* Has the managed memory among the bytes go to the device now. */
int gdev_managed_prefetch(struct gdev_session *session, uint64_t address, uint64_t bytes);
/* As a touch of all of it, which is any memory of the process: until the next launch system calls may read it and, with
 * `write`, write it. -EDEADLK: after a minute. */
int gdev_managed_open(const void *from, size_t bytes, bool write);

/* ---- streams, fences, events ---- */

/* Commands of one stream run in order. Lower priority is more urgent (-5 to 0). */
int gdev_stream_create(struct gdev_session *session, int priority, struct gdev_stream **stream);
/* Some of the device's multiprocessors; a count of 0: all. first and count are multiples of the device's step (property 157,
 * which is 0 where there are no parts), but for a part that ends with the device. */
struct gdev_part {
	uint32_t first, count;
};
/* As gdev_stream_create(); kernels of the stream run on these multiprocessors alone. -ENOTSUP: the device has no parts;
 * -EINVAL: this is none. */
int gdev_stream_create_on(struct gdev_session *session, int priority, struct gdev_part part,
	struct gdev_stream **stream);
/* Does not wait: work in the stream still completes. NULL is fine. */
void gdev_stream_destroy(struct gdev_stream *stream);

/* A point in a stream. One with value 0 is always reached. Stays valid after the stream is gone. */
struct gdev_fence {
	uint32_t timeline, reserved;
	uint64_t value;
};

/* The point after everything submitted so far. */
void gdev_stream_fence(struct gdev_stream *stream, struct gdev_fence *fence);
/* 0 when everything submitted is done; -GDEV_E_NOT_READY; or the stream's error, once. */
int gdev_stream_query(struct gdev_stream *stream);
int gdev_stream_sync(struct gdev_stream *stream);
/* -GDEV_E_NOT_READY when CLOCK_MONOTONIC passes deadline_ns first. */
int gdev_stream_sync_until(struct gdev_stream *stream, uint64_t deadline_ns);
/* The error of a command that is over, once, as gdev_stream_query(), but without asking whether others are; 0: none so
 * far. */
int gdev_stream_error(struct gdev_stream *stream);
/* What the device has needed for the stream's commands that are done. */
uint64_t gdev_stream_device_ns(struct gdev_stream *stream);
/* The stream has an error from here on: what it should do next cannot even be sent. Seen once, as that of a command. */
void gdev_stream_fail(struct gdev_stream *stream, int error);
/* Later commands of `stream` wait for the fence. */
int gdev_stream_wait(struct gdev_stream *stream, const struct gdev_fence *fence);

/* 0 or -GDEV_E_NOT_READY, or the session's error. */
int gdev_fence_query(struct gdev_session *session, const struct gdev_fence *fence);
int gdev_fence_wait(struct gdev_session *session, const struct gdev_fence *fence);
/* -GDEV_E_NOT_READY when CLOCK_MONOTONIC passes deadline_ns first. */
int gdev_fence_wait_until(
	struct gdev_session *session, const struct gdev_fence *fence, uint64_t deadline_ns);

/* timing: gdev_event_elapsed will be asked. An event never recorded is complete. */
int gdev_event_create(struct gdev_session *session, bool timing, struct gdev_event **event);
void gdev_event_destroy(struct gdev_event *event);
int gdev_event_record(struct gdev_event *event, struct gdev_stream *stream);
int gdev_event_query(struct gdev_event *event);
int gdev_event_sync(struct gdev_event *event);
int gdev_stream_wait_event(struct gdev_stream *stream, struct gdev_event *event);
/* Time between two recorded events. -EINVAL: not recorded, or no timing; -GDEV_E_NOT_READY. */
int gdev_event_elapsed(struct gdev_event *start, struct gdev_event *end, int64_t *ns);
/* Makes what the event recorded last known to other sessions, as a number that they wait for. */
int gdev_event_share(struct gdev_event *event, uint64_t *id);
int gdev_stream_wait_shared(struct gdev_stream *stream, uint64_t id);

/* Runs `function` on a thread of the library when the commands before it are done; the commands after it
 * wait. It must not call gdev. When the session has failed it is called all the same, with the error. */
int gdev_stream_call(
	struct gdev_stream *stream, void (*function)(void *argument, int error), void *argument);

/* ---- copies and fills ---- */

enum gdev_side {
	GDEV_SIDE_ANY = 0, /* found out from the address */
	GDEV_SIDE_HOST,
	GDEV_SIDE_DEVICE,
};

/* width x height x depth bytes; height and depth are at least 1; pitches (bytes from row to row) and
 * slices (from plane to plane) count only where there is more than one. */
struct gdev_copy {
	uint64_t destination, source;
	enum gdev_side destination_side, source_side;
	uint64_t width, height, depth;
	uint64_t destination_pitch, source_pitch;
	uint64_t destination_slice, source_slice;
};

/* Both sides may be memory of the session or any memory of the process. When it returns, host memory may
 * be used again; a copy into device memory may still be under way, but every command submitted later, on
 * any stream, sees it done. -EINVAL: the device side is no memory of the session. */
int gdev_copy(struct gdev_stream *stream, const struct gdev_copy *copy);
/* Host memory may be used again when the stream gets there if it is page-locked, and on return if not. */
int gdev_copy_async(struct gdev_stream *stream, const struct gdev_copy *copy);

/* A copy of `bytes` in one piece. */
static inline struct gdev_copy gdev_copy_linear(
	uint64_t destination, uint64_t source, uint64_t bytes)
{
	struct gdev_copy copy = {.destination = destination, .source = source, .width = bytes};

	copy.height = copy.depth = 1;
	return copy;
}

struct gdev_fill {
	uint64_t destination;
	uint64_t width, height, pitch; /* elements, rows, bytes */
	uint32_t element_bytes, value; /* 1, 2 or 4 */
};

int gdev_fill_async(struct gdev_stream *stream, const struct gdev_fill *fill);

/* ---- code ---- */

/* PTX text, a fat binary, or whatever code the device takes. What the compiler says goes to `log`
 * (NUL-terminated, cut when full; may be NULL/0). */
int gdev_module_load(struct gdev_session *session, const void *image, size_t bytes, char *log,
	size_t log_bytes, struct gdev_module **module);

/* A copy of an image for later, which costs no other copy when it is loaded for the first time. Loaded by one thread at a
 * time; destroy takes NULL, and leaves the modules that were loaded. */
struct gdev_image;
int gdev_image_create(const void *bytes, size_t length, struct gdev_image **image);
void gdev_image_destroy(struct gdev_image *image);
/* Of one that was created. */
const void *gdev_image_bytes(const struct gdev_image *image);
/* The same of parts, one behind the other. Unless `copied` they are copied when the image is loaded, and not before: until
 * destroy the caller keeps what they point to. */
int gdev_image_gather(
	const struct iovec *parts, size_t count, bool copied, struct gdev_image **image);
/* As gdev_module_load. */
int gdev_module_load_image(struct gdev_session *session, struct gdev_image *image, char *log,
	size_t log_bytes, struct gdev_module **module);

/* Waits for all commands submitted before. NULL is fine. */
void gdev_module_unload(struct gdev_module *module);
/* -GDEV_E_SYMBOL_NOT_FOUND. The function lives as long as its module; asked again, it is the same. */
int gdev_module_function(
	struct gdev_module *module, const char *name, struct gdev_function **function);
#define GDEV_FUNCTION_NAME_MAX 4097
/* The names of the module's functions, index from 0. -GDEV_E_SYMBOL_NOT_FOUND: it has no more. */
int gdev_module_function_name(
	struct gdev_module *module, uint32_t index, char name[GDEV_FUNCTION_NAME_MAX]);
int gdev_module_global(
	struct gdev_module *module, const char *name, uint64_t *address, uint64_t *bytes);
/* Whether it is machine code, and does what works here only for code that is loaded as PTX. */
bool gdev_module_wants_text(const struct gdev_module *module);
/* The page-locked memory where the module's variables are if some are managed: the process reads and writes
 * them there. False: none are, or this device cannot. It is the module's. */
bool gdev_module_managed(struct gdev_module *module, uint64_t *address, uint64_t *bytes);
/* Whether it is declared as managed, and reached. False: no such variable. */
bool gdev_module_global_is_managed(struct gdev_module *module, const char *name);

struct gdev_param {
	uint32_t offset, size;
};

struct gdev_function_info {
	const char *name;
	uint32_t param_count, param_bytes;
	const struct gdev_param *params;
	uint32_t max_threads, shared_bytes, const_bytes, local_bytes, registers;
	uint32_t ptx_version, binary_version; /* 90: 9.0 */
	uint32_t max_dynamic_shared_bytes;
	uint32_t cluster[3];  /* that it is compiled for; zeros: none */
	bool needs_cluster;   /* a launch must say one */
	bool launches_graphs; /* it, or another kernel of its module */
};

const struct gdev_function_info *gdev_function_info(const struct gdev_function *function);
/* Blocks that one multiprocessor holds at once. */
int gdev_function_occupancy(struct gdev_function *function, uint32_t block_threads,
	uint32_t dynamic_shared_bytes, uint32_t *blocks);

struct gdev_launch {
	struct gdev_function *function;
	uint32_t grid[3], block[3];
	uint32_t shared_bytes; /* dynamic */
	/* Either the parameters as the kernel sees them, of which those beyond `param_bytes` are 0, or a pointer to each.
	 * Copied. */
	const void *params;
	uint32_t param_bytes;
	void *const *arguments;
	bool cooperative;
	uint32_t cluster[3]; /* zeros: none */
	bool more; /* another launch on the stream follows at once: they may go to the device together */
};

/* Returns as soon as the launch is written down. -GDEV_E_INVALID_LAUNCH: beyond a limit of the device, or more threads a
 * block than the kernel was compiled for; -GDEV_E_OUT_OF_RESOURCES: more than it has registers for. */
int gdev_launch_async(struct gdev_stream *stream, const struct gdev_launch *launch);
/* How many clusters of such a launch the device holds at once; when it has no cluster, of how many blocks the
 * largest is. Parameters do not matter. -ENOTSUP: the device has no clusters. */
int gdev_launch_clusters(const struct gdev_launch *launch, uint32_t *count);

/* Graphs that the device has as a whole; one thread at a time has one. from_device: kernels may launch it. handle: by which,
 * if the device leaves that to the caller: no other such graph of the session has it. begin with *graph NULL makes a new
 * one; else the graph gets other nodes, and is as it was until end.
 * A node comes after `count` others, by their numbers from 0. Kernels are as in gdev_launch_async; both sides of a copy, and
 * what is filled, are memory of the session: else -EINVAL.
 * end: *handle is what kernels call it. -ENOTSUP: the device takes no such graph. When any of them fails, begin again, or
 * destroy. */
struct gdev_device_graph;
int gdev_device_graph_begin(struct gdev_session *session, bool from_device, uint64_t handle,
	struct gdev_device_graph **graph);
int gdev_device_graph_launch(struct gdev_device_graph *graph, const struct gdev_launch *launch,
	const uint32_t *after, uint32_t count);
int gdev_device_graph_copy(struct gdev_device_graph *graph, const struct gdev_copy *copy,
	const uint32_t *after, uint32_t count);
int gdev_device_graph_fill(struct gdev_device_graph *graph, const struct gdev_fill *fill,
	const uint32_t *after, uint32_t count);
/* No launch of it by the session is under way. */
int gdev_device_graph_end(struct gdev_device_graph *graph, uint64_t *handle);
/* Launches it, or, with `upload`, lets only kernels launch it, as it is now; a launch does that, too. */
int gdev_device_graph_launch_async(
	struct gdev_stream *stream, struct gdev_device_graph *graph, bool upload);
/* What is under way goes on. gone: so is the session. */
void gdev_device_graph_destroy(struct gdev_device_graph *graph, bool gone);

enum gdev_tensor_mode { GDEV_TENSOR_TILED, GDEV_TENSOR_IM2COL };
#define GDEV_TENSOR_RANK 5
#define GDEV_TENSOR_MAP_BYTES 128

/* How a tensor lies in memory; in the words of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col. */
struct gdev_tensor {
	enum gdev_tensor_mode mode;
	uint32_t data_type, rank, interleave, swizzle, l2_promotion, fill;
	uint64_t address;
	uint64_t dimensions[GDEV_TENSOR_RANK], strides[GDEV_TENSOR_RANK]; /* bytes; rank - 1 */
	uint32_t box[GDEV_TENSOR_RANK], element_strides[GDEV_TENSOR_RANK];
	int32_t lower[GDEV_TENSOR_RANK - 2], upper[GDEV_TENSOR_RANK - 2];
	uint32_t channels, pixels;
};

/* The device's own form of it, for a kernel's bulk copies. -ENOTSUP: the device has none. */
int gdev_tensor_map(struct gdev_session *session, const struct gdev_tensor *tensor,
	uint8_t map[GDEV_TENSOR_MAP_BYTES]);
/* The same tensor at another address. -EINVAL: those bytes are no map, or it can be at no such address. */
int gdev_tensor_map_move(
	struct gdev_session *session, uint64_t address, uint8_t map[GDEV_TENSOR_MAP_BYTES]);

/* Arrays, textures and surfaces of a device that makes them (PROPERTY_DRIVER_TEXTURES), for gdev's CUDA library: what the
 * structures say is in proto/texture.h. An array has addresses, which only copies may name; gdev_memory_free ends it. A
 * texture or surface is a number that kernels take. Any thread may call them. -ENOTSUP: the device does not make that.
 * texture_destroy waits for all commands submitted before. */
struct array_shape;
struct texture_words;
int gdev_array_create(
	struct gdev_session *session, const struct array_shape *shape, uint64_t *address);
int gdev_texture_create(
	struct gdev_session *session, const struct texture_words *words, uint64_t *handle);
int gdev_texture_destroy(struct gdev_session *session, uint64_t handle, bool surface);
/* Binds a module's texture or surface reference, for launches that come, or, without bind, only looks for it. All commands
 * before are done. -GDEV_E_SYMBOL_NOT_FOUND. */
int gdev_reference_set(
	struct gdev_module *module, const char *name, const struct texture_words *words, bool bind);

/* ---- shared device memory: shmget, shmat, shmdt, shmctl ---- */

struct gdev_shm_info {
	uint32_t id, uid, gid, mode;
	uint64_t bytes;
	uint32_t attached;
};

/* Of the flags of a segment that is made, and of its mode. A session that may only read a segment cannot write into it
 * by any means, where the device can keep it from that; on devices that cannot, as NVIDIA's, it may not attach the
 * segment at all, unless its owner trusts those who may read it not to write (docs/security.md). */
#define GDEV_SHM_TRUST_READERS 0x04000000

/* key IPC_PRIVATE or a number; flags IPC_CREAT, IPC_EXCL, GDEV_SHM_TRUST_READERS and a mode. */
int gdev_shm_get(
	struct gdev_session *session, int32_t key, uint64_t bytes, int flags, uint32_t *id);
/* As the first Gdev's gshmget and cuShmGet, whose programs create with flags 0: where no segment has the key, one is
 * made that is its user's alone. With bytes 0 it is looked for. */
int gdev_shm_get_or_make(
	struct gdev_session *session, int32_t key, uint64_t bytes, int flags, uint32_t *id);
/* flags SHM_RDONLY. */
int gdev_shm_attach(struct gdev_session *session, uint32_t id, int flags, uint64_t *address);
/* Waits for all commands submitted before. */
int gdev_shm_detach(struct gdev_session *session, uint64_t address);
/* command IPC_STAT (fills *info), IPC_SET (takes info->mode), IPC_RMID (info may be NULL). */
int gdev_shm_control(
	struct gdev_session *session, uint32_t id, int command, struct gdev_shm_info *info);

/* ---- tracing ---- */

/* What a thread of this process does, for the timeline of `gdev trace`: the interfaces on top of gdev note
 * their calls so, and a program may note parts of its own. While nobody traces, a span costs a look at a word.
 *     uint64_t begin_ns = gdev_traced() ? gdev_trace_begin() : 0;
 *     …
 *     if (begin_ns)
 *         gdev_trace_end("name", begin_ns, status); */
extern const uint32_t *gdev_trace_word; /* belongs to gdev_traced() */

static inline bool gdev_traced(void)
{
	return __atomic_load_n(
		__atomic_load_n(&gdev_trace_word, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* The time. The first command that the thread sends from here on is the one that an arrow leads to. */
uint64_t gdev_trace_begin(void);
/* `name` must never change: it is known by its address. Spans of a thread nest or follow each other. */
void gdev_trace_end(const char *name, uint64_t begin_ns, int status);

/* ---- device memory shared by token: what CUDA's IPC and virtual memory calls stand on ----
 *
 * Memory that lives as long as some session holds it or has it mapped. Other sessions of the process reach it by its token,
 * and, once it is published, those of all processes of the user that are told it. What is in here may be passed on as
 * bytes. */

#define GDEV_TOKEN_BYTES 16

struct gdev_shared {
	uint32_t id, reserved;
	uint64_t bytes;
	uint8_t token[GDEV_TOKEN_BYTES]; /* unguessable */
};

/* Zeroed memory, `bytes` rounded up to 2 MiB, held once, mapped nowhere. */
int gdev_shared_create(struct gdev_session *session, uint64_t bytes, struct gdev_shared *shared);
/* Makes the object that contains the allocation at `address` shareable, where it is: all of the
 * object, of which the allocation begins at *offset. It lives until gdev_memory_free and the last mapping's
 * end. -EINVAL: not an allocation of gdev_memory_alloc. */
int gdev_shared_export(struct gdev_session *session, uint64_t address, struct gdev_shared *shared,
	uint64_t *offset);
/* From now on sessions of other processes of the user find it by its id and token, too, on every virtual GPU whose device
 * can import it. Until then only sessions of the processes that have it do. -EINVAL: the session does not have it. */
int gdev_shared_publish(struct gdev_session *session, const struct gdev_shared *shared);
/* Once more, also what another session has made: id and token count, bytes is filled in. -EINVAL: it does
 * not exist, or no longer, or is not published; -EACCES: it is another user's; -EAGAIN: it is on another device than the
 * session, is not there, and was not brought in within two seconds, for which the call waits. */
int gdev_shared_hold(struct gdev_session *session, struct gdev_shared *shared);
/* Once less. */
int gdev_shared_drop(struct gdev_session *session, const struct gdev_shared *shared);
/* Maps all of it: at *address, which is reserved, or anywhere when that is 0. Of it the `bytes` from
 * `offset` on are then an allocation of kind GDEV_MEMORY_SHARED at *address. flags: SHM_RDONLY. Ends with
 * gdev_shm_detach(*address). */
int gdev_shared_map(struct gdev_session *session, const struct gdev_shared *shared, uint64_t offset,
	uint64_t bytes, int flags, uint64_t *address);

/* ---- peers: sessions of one process ----
 *
 * Sessions of a process have addresses that do not overlap, so an address names the same memory for each of them that can
 * reach it. `owner` is the session that has the memory, or the stream of the fence. */

/* Whether commands of `session` can reach device memory of `owner`. */
bool gdev_peer_can(const struct gdev_session *session, const struct gdev_session *owner);
/* From here on commands of `session` may name the allocation of `owner` that contains `address`, device memory or
 * page-locked memory, at its address, and all that is in one object with it. That ends when it is unmapped; when the owner
 * frees it, which waits for what `session` has submitted; and, for device memory, when the owner's worker dies. flags:
 * SHM_RDONLY, for device memory that does not share its object with other allocations: kernels of `session` may not write
 * there. Mapped already: 0; with another right it is mapped anew, after the commands of `session` before. -ENOTSUP: the devices do not reach each other, or the memory cannot be shared; -EINVAL: no such allocation;
 * -ENOSPC, -EADDRINUSE: the worker of `session` knows too many sessions, or has something at the owner's addresses. */
int gdev_peer_map(
	struct gdev_session *session, struct gdev_session *owner, uint64_t address, int flags);
/* As gdev_peer_map(), and gdev_peer_unmap() waits until as many calls of gdev_peer_release() have been made: a command that
 * is submitted between them finds the allocation. After an error there is nothing to release. flags: SHM_RDONLY, if it only
 * reads; else -EACCES, where the allocation is mapped for reading alone. */
int gdev_peer_hold(
	struct gdev_session *session, struct gdev_session *owner, uint64_t address, int flags);
void gdev_peer_release(struct gdev_session *session, struct gdev_session *owner, uint64_t address);
/* Waits for all commands of `session` submitted before. An allocation that shares its object with others stays mapped,
 * because the others may be in use: 0. Mapped not any more: 0. */
int gdev_peer_unmap(struct gdev_session *session, struct gdev_session *owner, uint64_t address);
/* Later commands of `stream` wait for a fence of a stream of `owner`. */
int gdev_stream_wait_peer(
	struct gdev_stream *stream, struct gdev_session *owner, const struct gdev_fence *fence);

/* Addresses of the arena in which nothing is. bytes and alignment: multiples of 2 MiB. */
int gdev_address_reserve(
	struct gdev_session *session, uint64_t bytes, uint64_t alignment, uint64_t *address);
/* Exactly what was reserved, with nothing mapped there any more. */
void gdev_address_free(struct gdev_session *session, uint64_t address, uint64_t bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

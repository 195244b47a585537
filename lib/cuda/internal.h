/* SPDX-License-Identifier: MIT
 *
 * What the files of libcuda.so.1 know of each other. The public contracts are CUDA's.
 *
 * Handles are pointers to objects of type-stable memory (handle.c): whether one is alive can always be
 * looked up, also when the program passes garbage. As in CUDA, destroying an object while another thread
 * uses it is the program's mistake.
 *
 * Locks, in the order in which they may be taken: a library's > an executable graph's > a context's or a module's >
 * those of the whole process, below.
 */
#ifndef GDEV_CUDA_INTERNAL_H
#define GDEV_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "gdev/session.h"
#include "lib/cuda/exports.h"

#define DRIVER_VERSION 13000
#define DEVICES_MAX 16
#define CONTEXTS_MAX 256 /* pushed on one thread */

/* Ends a CUDA call with the result of one that failed. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
		if (result_ != CUDA_SUCCESS)                                                       \
			return result_;                                                            \
	} while (0)
/* As TRY, for a call of gdev; with what could not be done, as result_of. */
#define TRY_GDEV(call, ...) TRY(result_of(call, __VA_ARGS__))

/* ---- errors, and why (errors.c, calls.c) ----
 *
 * Every error begins as one of these two, with a sentence (as for printf) that says the reason: GDEV_LOG writes it
 * behind the call. `scripts/test style` refuses an error of CUDA that is named in any other way. What has not failed, or
 * is not logged, pays nothing for it. */

#define fail(result, ...)                                                                          \
	({                                                                                         \
		CUresult failed_ = (result);                                                       \
		if (calls_logged)                                                                  \
			calls_explain(failed_, __VA_ARGS__);                                       \
		failed_;                                                                           \
	})
#define no_memory() fail(CUDA_ERROR_OUT_OF_MEMORY, "the process itself has no memory left")
/* For a call of gdev, which gives 0 or an error: the sentence says what could not be done, and that of gdev's error
 * follows it. */
#define result_of(call, ...)                                                                       \
	({                                                                                         \
		int error_ = (call);                                                               \
		error_ < 0 ? failed_in_gdev(error_, __VA_ARGS__) : CUDA_SUCCESS;                   \
	})
CUresult failed_in_gdev(int error, const char *format, ...)
	__attribute__((cold, format(printf, 2, 3)));
/* The one table of gdev's errors and CUDA's. */
CUresult cuda_result(int gdev_error);

/* ---- handles (handle.c) ---- */

enum handle_type {
	HANDLE_CONTEXT,
	HANDLE_MODULE,
	HANDLE_FUNCTION,
	HANDLE_LIBRARY,
	HANDLE_KERNEL,
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_LINK,
	HANDLE_MEMORY,
	HANDLE_GRAPH,
	HANDLE_NODE,
	HANDLE_EXEC,
	HANDLE_OBJECT,
	HANDLE_POOL,
	HANDLE_LOG_CALLBACK,
	HANDLE_ARRAY,
	HANDLE_LEVELS,
	HANDLE_TEXREF,
	HANDLE_SURFREF,
	HANDLE_GREEN,
	HANDLE_RESOURCES,
	HANDLE_TYPES,
};

/* Zeroed memory for an object of `size` bytes, which is the same for all objects of a type; NULL: none is
 * left. Every object starts with a word that belongs to handle.c. */
void *handle_create(enum handle_type type, size_t size);
void handle_destroy(enum handle_type type, void *handle);

#define HANDLE_REGION_BYTES (256ull << 20) /* of addresses, not of memory */
#define HANDLE_ALIVE 0x67640000u           /* | type: the first word of a living object */

/* Of each type. `size` is set before `base`, which is set once. */
extern struct handle_region {
	_Atomic uintptr_t base; /* 0: there has been no object */
	size_t size;            /* of an object: a power of two */
} handle_regions[HANDLE_TYPES];

/* Whether `handle` is a living object of that type; any value may be asked about. */
static inline bool handle_is(enum handle_type type, const void *handle)
{
	const struct handle_region *region = &handle_regions[type];
	uintptr_t base = atomic_load_explicit(&region->base, memory_order_acquire);
	uintptr_t offset = (uintptr_t)handle - base;

	if (!base || offset >= HANDLE_REGION_BYTES || offset & (region->size - 1))
		return false;
	return atomic_load_explicit((const _Atomic uint32_t *)handle, memory_order_acquire) ==
	       (HANDLE_ALIVE | type);
}

/* ---- locks of the whole process (locks.c) ----
 *
 * Nothing that waits happens under one of them: no message, no work of a stream, no file, no compiling, no function of
 * the program. For a thread that waits would keep all others from that, on every device, and from fork(), which takes
 * them all. A slow step looks up and marks under the lock, does its work without, and publishes under the lock what has
 * become of it. In the order in which a thread may take several: */
enum process_lock {
	LOCK_ADDRESSES, /* vmm.c */
	LOCK_DEVICES,   /* what changes of struct device */
	LOCK_CONTEXTS,
	LOCK_LIBRARIES,
	LOCK_IPC,
	LOCK_CAPTURES,
	LOCK_VALUES, /* memops.c */
	LOCK_POOLS,
	LOCK_ACCESSES, /* peer_access.c */
	LOCK_GRAPH_MEMORY,
	LOCK_ALLOCATIONS, /* memory.c */
	LOCK_TENSORS,
	LOCK_HANDLES,
	LOCK_EXECS,
	LOCK_LOGS,
	PROCESS_LOCKS,
};

extern pthread_mutex_t process_locks[PROCESS_LOCKS];

/* ---- initialisation (init.c) ---- */

extern atomic_bool is_initialised; /* init.c writes it */
CUresult not_initialised(void);
/* CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked child. */
static inline CUresult initialised(void)
{
	return atomic_load_explicit(&is_initialised, memory_order_acquire) ? CUDA_SUCCESS
									   : not_initialised();
}
/* After a fork. */
void init_forget(void);

/* ---- devices (device.c) ---- */

struct device {
	char vgpu[GDEV_NAME_MAX];
	int number; /* among all virtual GPUs, also those that CUDA_VISIBLE_DEVICES hides */
	atomic_bool described; /* the next two are constant from then on */
	struct gdev_description description;
	int32_t properties[GDEV_PROPERTIES];

	/* Under LOCK_DEVICES. */
	struct gdev_session *session; /* of the first context, kept for the next ones; or NULL */
	struct gdev_stream
		*lane;     /* of that session, for peer.c; NULL: there is none, or it is in use */
	CUcontext primary; /* created at the first need, never destroyed */
	unsigned primary_flags, primary_refs;
	bool primary_changes; /* a thread makes it active, or ends it: others that do wait for that */
};

CUresult devices_init(void);
/* After a fork: nothing of the parent's sessions is left. */
void devices_forget(void);
int devices_count(void);
/* CUDA_ERROR_INVALID_DEVICE. */
CUresult device_find(CUdevice device, struct device **found);
/* A usable session, which the caller closes. */
CUresult device_open_session(CUdevice device, struct gdev_session **session);
/* How many devices have, or had, a session. */
int devices_used(void);
/* Of the virtual GPU with this number among all, which the description describes. */
void vgpu_uuid(int number, const struct gdev_description *description, CUuuid *uuid);
/* Of so many virtual GPUs those that the process sees, in its order (visible.c). */
int visible_devices(int total, int chosen[DEVICES_MAX]);
CUresult device_description(CUdevice device, struct gdev_description *description);
CUresult device_attribute(CUdevice device, CUdevice_attribute attribute, int *value);
/* Of the card's own (proto/properties.h). */
CUresult device_property(CUdevice device, unsigned property, uint32_t *value);

/* ---- contexts (context.c) ---- */

/* The nodes of a capture that nothing of a stream follows yet. */
struct ends {
	CUgraphNode *nodes; /* malloc'ed */
	size_t count;
};

struct CUstream_st {
	uint32_t handle_word;
	CUcontext context;
	CUgreenCtx green; /* on whose part of the multiprocessors its kernels run, or NULL */
	bool detached;    /* the green context is gone: it can do no more */
	struct list link; /* of the context's streams */
	struct gdev_stream *stream;
	unsigned flags;
	int priority;
	unsigned long long id;
	bool is_default; /* legacy, per thread, or a graph's: not destroyed by the program */
	_Atomic uint64_t legacy_seen; /* what of the legacy stream this one has waited for */
	_Atomic uint64_t seen_by_legacy;
	struct gate *gate;        /* for waits for values (memops.c), or NULL */
	struct capture *capture;  /* NULL: the stream does what it is given */
	struct list capture_link; /* of the capture's streams */
	struct ends ends;
	CUlaunchAttributeValue window, policy, domain, domain_map; /* hints: kept, and given back */
};

#define STORAGE_SLOTS 16

/* Per-context storage of the runtime (runtime_tables.c). */
struct storage {
	void *key, *value;
	void (*destroy)(CUcontext context, void *key, void *value);
};

struct CUctx_st {
	uint32_t handle_word;
	struct list link; /* of all contexts */
	CUgreenCtx
		green; /* that it is the view of: it has no more than its handle, number and session; else NULL */
	CUdevice device;
	bool primary;
	_Atomic unsigned flags;
	unsigned long long id;
	struct gdev_session *session;      /* NULL: a primary context that is not active */
	struct CUstream_st *legacy;        /* the default stream */
	_Atomic unsigned blocking_streams; /* that the default stream synchronises with */
	_Atomic unsigned capturing, capturing_blocking; /* streams */
	_Atomic unsigned attached;                      /* times, besides its creation */

	pthread_mutex_t lock; /* guards the rest */
	struct list streams, modules, events;
	struct list greens;         /* struct CUgreenCtx_st */
	struct gdev_stream *joint;  /* waits for all streams (cuCtxRecordEvent), or NULL */
	struct gdev_stream *writer; /* of textures (texture.c), or NULL */
	struct list textures;       /* struct texture_object (texture_made.c) */
	struct gdev_fence awaited;  /* what every stream has to wait for (cuCtxWaitEvent) */
	size_t limits[CU_LIMIT_MAX];
	CUfunc_cache cache_config;
	CUsharedconfig shared_config;
	struct storage storage[STORAGE_SLOTS];
};

/* green.c */
struct CUgreenCtx_st {
	uint32_t handle_word;
	struct list link; /* of the primary context's, as long as it has a stream */
	CUcontext primary, view;
	struct gdev_part part;
	struct CUstream_st *stream; /* the default one; NULL: the primary context was ended */
	/* As a context's, with the primary context's lock. */
	struct gdev_stream *joint;
	struct gdev_fence awaited;
};

/* The current context of the thread, usable: CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_NOT_INITIALIZED,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED, or the error that broke it. */
CUresult current_context(CUcontext *context);
/* As given, or the current one for NULL. Of a green context's view it is the primary context, here and above; … */
CUresult context_or_current(CUcontext given, CUcontext *context);
/* … and this says, too, of which green context: NULL of none. */
CUresult context_and_green(CUcontext given, CUcontext *context, CUgreenCtx *green);
CUresult current_and_green(CUcontext *context, CUgreenCtx *green);
CUresult context_view_create(CUgreenCtx green, CUcontext *view);
void context_view_destroy(CUcontext view);
/* The context ends, and with it its green contexts. */
void greens_leave_context(CUcontext context);
CUresult primary_handle(CUdevice device, CUcontext *context);
void contexts_forget(void);
/* The current context as it is; NULL: there is none. */
CUcontext context_top(void);
/* context_state.c */
void context_reset_limits(CUcontext context);
/* Waits for all streams of the context. */
CUresult context_synchronise(CUcontext context);
/* runtime_tables.c. Destroys what the runtime stored in it. */
void storage_clear(CUcontext context);

/* ---- streams (stream.c) ---- */

/* What the handle means on this thread, ordered with the default stream, so that the next command may be
 * sent: NULL and CU_STREAM_LEGACY are the current context's default stream. A stream that captures is
 * refused, and so is the default stream while one captures that it would have to wait for. */
CUresult stream_enter(CUstream handle, CUstream *stream);
/* The same for what can be captured: the caller looks at stream->capture. */
CUresult stream_record(CUstream handle, CUstream *stream);
/* … for a caller that knows what is current (current_and_green). */
CUresult stream_record_in(CUstream handle, CUcontext context, CUgreenCtx green, CUstream *stream);
/* The same without the order: for queries. */
CUresult stream_resolve(CUstream handle, CUstream *stream);
/* In the green context, or with NULL on all multiprocessors. */
CUresult stream_create(CUcontext context, CUgreenCtx green, unsigned flags, int priority,
	bool is_default, CUstream *stream);
/* The default stream that it would synchronise with, itself perhaps. */
CUstream stream_legacy(CUstream stream);
void stream_release(CUstream stream);
/* Runs a host function in the stream. */
CUresult stream_call(CUstream stream, CUhostFn function, void *argument);

/* ---- events (event.c) ---- */

struct CUevent_st {
	uint32_t handle_word;
	struct list link; /* of the context's events */
	CUcontext context;
	unsigned flags;
	struct gdev_event *event;
	atomic_bool recorded;
	unsigned long long capture_id; /* where it was recorded last, or 0 */
	struct ends ends;              /* there */
	struct event_page *page;       /* shared with other processes (event_ipc.c), or NULL */
	int page_fd;
	struct gdev_stream *watcher; /* waits for what other processes recorded, or NULL */
	uint64_t watched;
};

void event_release(CUevent event);
/* Later commands of the session's stream wait for what the event, of whatever device, recorded last. */
CUresult event_await(CUevent event, struct gdev_session *session, struct gdev_stream *stream);
CUresult event_create(CUcontext context, unsigned flags, CUevent *event);

/* events of several processes (event_ipc.c) */

CUresult event_page_create(CUevent event);
void event_page_release(CUevent event);
/* After a record of this process. */
CUresult event_page_publish(CUevent event);
/* Whether the last record is another process's; then it is the stream or the caller that waits for it. */
bool event_is_foreign(CUevent event);
CUresult event_wait_foreign(CUevent event, CUstream stream);
CUresult event_look_foreign(CUevent event, bool wait);

/* ---- capture (capture.c) ---- */

void captures_forget(void);
void ends_clear(struct ends *ends);
/* Makes the stream's capture, or all of the context's, invalid; returns `result`. */
CUresult capture_refuse(CUstream stream, CUresult result);
CUresult capture_refuse_all(CUcontext context, CUresult result);
void capture_stream_gone(CUstream stream);
/* A command of a stream that captures, as a node. */
CUresult capture_kernel(CUstream stream, CUfunction function, const CUlaunchConfig *config,
	void **params, void **extra);
CUresult capture_copy(CUstream stream, const struct gdev_copy *copy);
CUresult capture_fill(CUstream stream, const struct gdev_fill *fill);
CUresult capture_host(CUstream stream, CUhostFn function, void *argument);
CUresult capture_memops(
	CUstream stream, const CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags);
CUresult capture_alloc(CUstream stream, size_t bytes, CUdeviceptr *pointer);
CUresult capture_free(CUstream stream, CUdeviceptr pointer);
CUresult capture_event_record(CUstream stream, CUevent event, bool external);
CUresult capture_event_wait(CUstream stream, CUevent event, bool external);
/* Whether the event was recorded last in a capture that goes on. */
bool capture_has_event(CUevent event);
/* A call that asks whether such an event is complete makes the capture invalid. */
CUresult capture_event_look(CUevent event);

/* ---- values in memory (memops.c) ---- */

#define MEMOPS_MAX 256

void memops_forget(void);
void memops_leave_session(struct gdev_session *session);
void gate_release(struct gate *gate);
CUresult memops_check(const CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags);
CUresult memops_run(CUstream stream, const CUstreamBatchMemOpParams *ops, unsigned count);

/* ---- memory (memory.c) ---- */

enum allocation_kind {
	ALLOCATION_DEVICE,
	ALLOCATION_HOST,
	ALLOCATION_MANAGED,
	ALLOCATION_GRAPH,    /* of a launched graph (graph_memory.c) */
	ALLOCATION_IMPORTED, /* of another process's pool (pool_ipc.c) */
	/* Not for cuMemFree: */
	ALLOCATION_SHARED,    /* cuShmAt */
	ALLOCATION_IPC,       /* cuIpcOpenMemHandle */
	ALLOCATION_VARIABLES, /* of a module that has managed ones */
	ALLOCATION_ARRAY,     /* CUarray */
	ALLOCATION_LEVELS,    /* CUmipmappedArray */
	ALLOCATION_TEXTURE,   /* struct texture_object */
};

/* What the program said about managed memory (managed.c). */
struct advice {
	bool read_mostly;
	uint32_t accessed_by; /* bit 31: the host */
	CUmemLocation preferred, prefetched;
};

struct allocation {
	struct allocation *next; /* of its bucket */
	uint64_t base, bytes;
	CUcontext context;
	struct gdev_session *session;
	enum allocation_kind kind;
	unsigned flags;
	CUmemoryPool pool; /* or NULL */
	void *object;      /* that the memory is of, and ends with it: for the last three kinds */
	struct advice advice;
};

/* Frees all that the context allocated. */
void memory_release_context(CUcontext context);
/* What `address` is in the current context's session; false: unknown. */
bool memory_find(uint64_t address, struct gdev_range *range, struct allocation *allocation);
/* The same, and what it is in those of other devices. */
bool memory_find_anywhere(
	uint64_t address, struct gdev_range *range, struct allocation *allocation);
CUresult memory_remember(CUcontext context, uint64_t base, uint64_t bytes,
	enum allocation_kind kind, unsigned flags);
CUresult memory_remember_object(
	CUcontext context, uint64_t base, uint64_t bytes, enum allocation_kind kind, void *object);
CUresult memory_free_object(uint64_t base);
CUresult memory_remember_pooled(
	CUcontext context, uint64_t base, uint64_t bytes, CUmemoryPool pool);
/* Device memory of the current context. */
CUresult memory_alloc(size_t bytes, enum allocation_kind kind, CUdeviceptr *pointer);
/* Managed memory, or a module's managed variables. */
bool memory_is_managed(const struct allocation *allocation);
/* The allocation that begins there. */
bool memory_find_base(uint64_t base, struct allocation *allocation);
/* Keeps the advice, if the allocation is still there. */
void memory_advise(const struct allocation *allocation);
/* A copy, malloc'ed, of the allocations of the context; NULL: of all. */
CUresult memory_list(CUcontext context, struct allocation **list, size_t *count);
/* False: there is no such allocation. */
bool memory_forget(uint64_t base, struct allocation *allocation);

/* ---- memory between processes (ipc.c), memory and addresses apart (vmm.c) ---- */

/* What 64 bytes say of an allocation that may leave the process; `magic`: how. */
CUresult ipc_describe(const struct gdev_range *range, const struct allocation *allocation,
	uint32_t magic, void *bytes);
/* The memory of such bytes that another process made; closed by the kind of allocation that it is here. */
CUresult ipc_open(CUcontext context, const void *bytes, uint32_t magic, enum allocation_kind kind,
	CUdeviceptr *pointer);
CUresult ipc_close(CUcontext context, CUdeviceptr pointer, enum allocation_kind kind);
/* Closes what the context has opened. */
void ipc_release_context(CUcontext context);
/* After a fork. */
void ipc_forget(void);
void vmm_forget(void);
/* A sealed file that stands for something that leaves the process; *fd is the caller's. */
CUresult shareable_write(const void *contents, size_t bytes, int *fd);
/* The device that is the virtual GPU of that name in this process; if it does not have that one, the device that is
 * current, or the first. */
CUdevice shareable_device(const char vgpu[GDEV_NAME_MAX]);

/* ---- memory pools (pool.c, pool_ipc.c) ---- */

CUresult pool_check(CUmemoryPool pool);
CUdevice pool_device(CUmemoryPool pool);
/* Whether its memory may leave the process; whether it stands for another process's. */
bool pool_is_shareable(CUmemoryPool pool);
bool pool_is_imported(CUmemoryPool pool);
CUresult pool_import(CUdevice device, CUmemoryPool *created);

void pools_forget(void);
/* An allocation of a pool was freed, not to the pool. */
void pool_gone(const struct allocation *allocation);
/* All commands of the context are done. */
void pools_synchronised(CUcontext context);
void pools_leave_context(CUcontext context);
void pools_leave_stream(struct gdev_stream *stream);

/* ---- memory of graphs (graph_memory.c) ---- */

void graph_memory_forget(void);
void graph_memory_leave_context(CUcontext context);
/* Frees what a launch of a graph has allocated: behind what is on the stream, or now for NULL. */
CUresult graph_memory_free(uint64_t base, CUstream stream);

/* ---- copies (copy.c) ---- */

/* On the stream that the handle means, or into its capture. */
CUresult copy_submit(const struct gdev_copy *copy, CUstream handle, bool sync);
CUresult copy_linear(CUdeviceptr destination, enum gdev_side destination_side, CUdeviceptr source,
	enum gdev_side source_side, size_t bytes, CUstream stream, bool sync);
/* Of any memory of any device. The stream is in order, and does not capture. */
CUresult copy_send(CUstream stream, const struct gdev_copy *copy, bool sync);
/* Of what gdev says to the copy. */
CUresult copy_result(const struct gdev_copy *copy, int error);
CUresult fill_result(const struct gdev_fill *fill, int error);
/* What a description means. */
CUresult copy_shape(const CUDA_MEMCPY3D *copy, struct gdev_copy *shape);
CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, bool sync);
CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, bool sync);
CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, bool sync);
CUresult copy_peer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
	CUcontext source_context, size_t bytes, CUstream stream, bool sync);
CUresult fill(CUdeviceptr destination, size_t pitch, uint32_t value, unsigned element_bytes,
	size_t width, size_t height, CUstream stream, bool sync);

/* ---- arrays and textures (array.c, array_copy.c, texture_ref.c) ---- */

/* Where a copy of so many bytes begins in an array, by column (in bytes), row and plane. */
CUresult array_place(CUarray array, size_t x, size_t y, size_t z, const struct gdev_copy *copy,
	uint64_t *address, uint64_t *pitch, uint64_t *slice);
/* Bytes of an array in the order of its elements, to or from memory. */
CUresult array_to_memory(CUdeviceptr destination, enum gdev_side side, CUarray source,
	size_t offset, size_t bytes, CUstream stream, bool sync);
CUresult array_from_memory(CUarray destination, size_t offset, CUdeviceptr source,
	enum gdev_side side, size_t bytes, CUstream stream, bool sync);
CUresult array_to_array(CUarray destination, size_t offset, CUarray source, size_t source_offset,
	size_t bytes, CUstream stream);
void references_release(CUmodule module);

/* ---- memory of several devices in one call (peer.c) ---- */

/* What of any device's memory the address is in; that of `mine` goes first. False: of none, or there is one device. */
bool peer_find(uint64_t address, struct gdev_session *mine, struct gdev_range *range);
/* As copy_send, *across: if memory of another device than the stream's is part of it; otherwise nothing is done. */
CUresult peer_copy(CUstream stream, const struct gdev_copy *copy, bool sync, bool *across);
CUresult peer_fill(CUstream stream, const struct gdev_fill *fill, bool sync, bool *across);

/* The sessions of all devices, referenced. */
unsigned peer_sessions(struct gdev_session *sessions[DEVICES_MAX]);

/* ---- access to memory of other devices (peer_access.c) ---- */

void accesses_forget(void);
/* Who has access to the context's memory has it to what begins there, too. */
CUresult access_new_memory(CUcontext context, uint64_t base);
/* Page-locked or managed memory, which every device can use. */
void access_new_host_memory(CUcontext context, uint64_t base);
/* Whether the device can be let reach memory of the other; itself it is not said to reach. */
CUresult access_reaches(CUdevice device, CUdevice peer, bool *reached);
/* CUDA_ERROR_INVALID_DEVICE: it cannot. */
CUresult access_check(CUdevice device, CUdevice owner);
/* atomics.c: whether both sides see the other's atomic operations as atomic. */
CUresult atomics_with_host(CUdevice device, bool *are_native);
CUresult atomics_between(CUdevice source, CUdevice destination, bool *are_native);
static inline bool access_is_right(CUmemAccess_flags flags)
{
	return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
	       flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* What each device may do with some memory. */
struct access_rights {
	CUmemAccess_flags of[DEVICES_MAX];
};

/* The devices that have a right to it may use what `owner` has at the address; and one may not any more. */
CUresult access_set(
	const struct access_rights *rights, struct gdev_session *owner, uint64_t address);
CUresult access_revoke(CUdevice device, struct gdev_session *owner, uint64_t address);
/* A context that becomes active, and one that ends. */
void access_new_context(CUcontext context);
void access_leave_context(CUcontext context);

/* ---- tensor maps (tensor.c) ---- */

void tensors_forget(void);

/* ---- code (module.c, library.c, function.c, image.c) ---- */

struct image {
	const void *begin; /* a fat binary's wrapper points elsewhere */
	size_t bytes;
	const void *const *
		units; /* what is linked in it, unlinked (nvcc -rdc): fat binaries, NULL ends them; or NULL */
	/* What is loaded; NULL: all of it, which the program keeps. */
	struct gdev_image *kept;
	void *thin; /* where the parts are that `kept` refers to, or NULL */
};

struct CUmod_st {
	uint32_t handle_word;
	struct list link; /* of the context's modules */
	CUcontext context;
	struct gdev_module *module;
	CUlibrary library;    /* or NULL */
	pthread_mutex_t lock; /* guards functions and references */
	struct list functions;
	struct list references; /* CUtexref and CUsurfref (texture_ref.c) */
};

#define LEGACY_PARAM_BYTES 4096

/* State of the calls of CUDA 4.0 and before. */
struct legacy_launch {
	unsigned block[3], shared_bytes, param_bytes;
	uint8_t params[LEGACY_PARAM_BYTES];
};

struct CUfunc_st {
	uint32_t handle_word;
	struct list link; /* of the module's functions */
	CUmodule module;
	struct gdev_function *function;
	_Atomic int max_dynamic_shared, carveout;
	_Atomic int cluster[3]; /* that the program wants of every launch; zeros: none */
	_Atomic int large_clusters, cluster_policy;
	struct legacy_launch *legacy; /* or NULL; under the module's lock */
};

struct CUlib_st {
	uint32_t handle_word;
	struct list link;
	struct image image;
	struct list
		modules; /* struct library_module: one a context that uses it; under LOCK_LIBRARIES */
	pthread_mutex_t
		lock; /* guards the rest; not held while it is loaded, which takes seconds */
	pthread_cond_t loaded; /* one of `loading` has gone */
	struct list kernels;
	struct list loading; /* struct loading: a context in which a thread is loading it */
};

/* A kernel in the context where it was used last. Immutable; freed with the kernel. */
struct binding {
	struct binding *next;
	unsigned long long context_id;
	CUfunction function;
};

struct CUkern_st {
	uint32_t handle_word;
	struct list link; /* of the library's kernels */
	CUlibrary library;
	char *name;
	_Atomic(struct binding *) bindings; /* newest first */
	_Atomic int max_dynamic_shared;     /* set before any function exists; -1: not */
};

/* Where an image begins, and how long it is. */
CUresult image_find(const void *given, struct image *image);
/* Keeps the image for later, of a fat binary without the machine code that no device of this process can run: an image goes
 * through the worker, and libraries carry code for eight architectures. `preserved`: the program keeps its bytes as long, and
 * none is copied. */
CUresult image_keep(struct image *image, bool preserved);
void image_finish(struct image *image);
/* An image of its units, for the device to link. `memory` is malloc'ed; free() it after the image. */
CUresult image_of_units(const struct image *image, struct image *made, void **memory);
/* A whole file and a NUL after it, malloc'ed; bytes counts the NUL. */
CUresult file_read(const char *path, void **contents, size_t *bytes);

CUresult module_load(CUcontext context, const struct image *image, unsigned option_count,
	CUjit_option *options, void **values, CUmodule *module);
void module_release(CUmodule module);
/* How many functions it has. */
CUresult module_count(CUmodule module, unsigned *count);
CUresult module_function(CUmodule module, const char *name, CUfunction *function);
/* A function, or a kernel that is passed as one, in the current context. */
CUresult function_resolve(CUfunction handle, CUfunction *function);
/* The kernel in the current context. */
CUresult kernel_function(CUkernel kernel, CUfunction *function);
/* What came of preparing a launch, which is passed on. Code that gdev does not support fails before there is a launch, and
 * many a program asks for the errors of its work alone: it is told so too, by the default stream. Calls that only ask
 * something do not do this. */
CUresult before_launch(CUcontext context, CUresult result);
CUresult function_attribute(CUfunction function, CUfunction_attribute attribute, int *value);
CUresult function_set_attribute(CUfunction function, CUfunction_attribute attribute, int value);
/* The context goes away: its modules do, and with them what libraries have there. */
void libraries_leave_context(CUcontext context);
/* After a fork. */
void libraries_forget(void);

/* ---- launches (launch.c) ---- */

#define PORTABLE_CLUSTER 8 /* blocks of a cluster that every device with clusters takes */

/* All but the parameters. */
CUresult launch_read(CUfunction function, const CUlaunchConfig *config, struct gdev_launch *launch);
/* The same with its parameters, and checked as a launch is; extra: where they are, as long as the launch. */
CUresult launch_read_whole(CUfunction function, const CUlaunchConfig *config, void **extra,
	struct gdev_launch *launch);

enum launch_how {
	LAUNCH_COOPERATIVE = 1,
	LAUNCH_MORE = 2, /* the next follows at once */
};

CUresult launch(CUfunction function, const CUlaunchConfig *config, void **params, void **extra,
	unsigned how);

/* ---- the log of calls (calls.c) ---- */

enum call_argument_kind {
	CALL_NUMBER,
	CALL_POINTER,
	CALL_TEXT,
	CALL_RESULT_32, /* the value points to it, after a success */
	CALL_RESULT_64,
};

struct call_argument {
	const char *name; /* NULL: there are no more */
	enum call_argument_kind kind;
	uint64_t value;
};

#define CALLS_REASON 240 /* bytes of a sentence; more is cut */

extern bool calls_logged; /* constant once the library is loaded, as */
extern bool calls_timed;
/* Around what is to be counted under a name, which stays: when it begins, and when it is over. */
static inline uint64_t calls_begin(void)
{
	return calls_timed ? clock_now_ns() : 0;
}
void calls_end(const char *name, uint64_t begin_ns);
/* Notes why this thread's call fails. */
void calls_explain(CUresult result, const char *format, ...)
	__attribute__((cold, format(printf, 2, 3)));
/* `arguments`: NULL when they are not known. */
void calls_say(const char *function, CUresult result, const struct call_argument *arguments);

/* ---- the table of functions (generated from functions.def) ---- */

struct cuda_function {
	const char *name; /* as cuGetProcAddress is asked */
	unsigned version; /* of the API, in which this variant came */
	unsigned mode;    /* 0, or CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
	void *address;
};

extern const struct cuda_function cuda_functions[];
extern const size_t cuda_function_count;
/* Called by functions that have no implementation. */
CUresult not_there(const char *symbol);
/* Refuses a part of a function that is there otherwise. */
CUresult not_supported(const char *name);
/* A message for people: on the log, and to the callbacks of cuLogsRegisterCallback (logs.c). */
void logs_say(CUlogLevel level, const char *function, const char *text);

#endif

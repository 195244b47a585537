/* SPDX-License-Identifier: MIT
 *
 * The device interface: what a worker needs of a device. One backend is one folder (null, cpu, cuda)
 * and one line in registry.c; a backend may be a plugin that is opened at run time. device/null is the
 * one to read first.
 *
 * Objects. A device is opened once in a worker. A space is the address space of one session: chunks of
 * physical memory are mapped into its ranges of addresses, the session's own arena and those of its client's other
 * sessions. Modules and functions belong to a space. A queue executes
 * commands in the order of submission; different queues overlap.
 *
 * Threads. Every operation may be called from any thread, also concurrently, except that an object's
 * destroy is the last call on it. Nothing here blocks on a command, unless it says so. A backend calls
 * the worker back (struct device_host, command->done) without holding a lock that any operation takes.
 * Brief are submit, follow, pause, presence, keeps, rehome, chunk_host_fd, overhead_bytes, module_bytes and
 * module_managed_bytes: the worker calls them with its lock held. They take microseconds, whatever other
 * operations are doing just then.
 *
 * Errors are 0 or negative: -errno, or -GDEV_E_* of gdev/error.h.
 */
#ifndef GDEV_DEVICE_OPS_H
#define GDEV_DEVICE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/device.h"
#include "proto/properties.h"
#include "proto/record.h"
#include "proto/texture.h"
#include "proto/timing.h"

#define DEVICE_RANGES_MAX                                                                          \
	17 /* of a space: the session's own, and those of its client's others (proto/peer.h) */

struct device;
struct device_space;
struct device_chunk;
struct device_array;
struct device_graph;
struct device_module;
struct device_function;
struct device_queue;
struct device_ops;

struct device_info {
	char name[64];
	uint8_t uuid[16];
	/* Devices whose memory a chunk_import of one another takes have the same number, on one machine. 0: none does. */
	uint32_t peers;
	uint64_t memory_bytes;
	int32_t properties[DEVICE_PROPERTIES];
};

/* What the owner of a device gives it. The functions may be called from any thread. */
struct device_host {
	void *owner;
	/* Required when ops->work is there: work() has something to do for one more thread. */
	void (*kick)(void *owner);
	/* Required. Bytes that a kernel printed. */
	void (*print)(void *owner, const char *bytes, size_t length);
	/* Optional. Compiled code by content hash. load: 0 and the bytes as they were stored, malloc'ed, or -ENOENT.
	 * May block. */
	int (*cache_load)(
		void *owner, const uint8_t key[CODE_KEY_BYTES], void **bytes, size_t *length);
	void (*cache_store)(
		void *owner, const uint8_t key[CODE_KEY_BYTES], const void *bytes, size_t length);
	/* Required when ops->pause is there: the compute unit has come to its pause. */
	void (*quiet)(void *owner);
	/* Optional. Why a command fails, in a sentence, before it is done: for the program that asked for it. */
	void (*explain)(void *owner, const char *sentence);
};

struct device_config {
	unsigned index;        /* among the backend's devices */
	uint64_t memory_bytes; /* software GPU: how much it has; 0: the backend's default */
	unsigned threads;      /* software GPU: pool width; 0: one a processor */
	uint64_t
		context_bytes; /* software GPU: what it says to take of its memory, as hardware does */
};

enum device_command_kind {
	DEVICE_LAUNCH,
	DEVICE_COPY,
	DEVICE_FILL,
	DEVICE_OWN, /* none of the worker's: the backend's own */
};

/* Sums since the device was opened. */
struct device_presence {
	uint64_t spent_ns; /* the device's threads were at commands, or were wanted there */
	uint64_t lost_ns;  /* … of that, had no processor; never more */
};

struct device_launch {
	struct device_function *function;
	uint32_t grid[3], block[3], cluster[3]; /* cluster: zeros when there is none */
	uint32_t shared_bytes;                  /* dynamic */
	bool cooperative;
	const void *params; /* param_bytes; stays valid until done */
	uint32_t param_bytes;
	bool more; /* a hint: the queue's next launch follows at once */
	/* Not NULL: the launch is of this graph, and what is above says nothing. upload: it only makes the graph ready to be
	 * launched by kernels. */
	struct device_graph *graph;
	bool upload;
};

/* width x height x depth bytes; validated by the worker to lie in memory of the session. */
struct device_copy {
	enum copy_direction direction;
	uint64_t destination, source;
	uint64_t width, height, depth;
	uint64_t destination_pitch, source_pitch, destination_slice, source_slice;
};

struct device_fill {
	uint64_t destination, width, height, pitch; /* width in elements */
	uint32_t element_bytes, value;
};

/* Owned by the worker, and lent to the device from submit until `done` is called, once, from any
 * thread. Then started_ns and finished_ns (CLOCK_MONOTONIC) and busy_ns (time on the unit) are set.
 * The worker may look at started_ns before: it is only written by device_command_start(). */
struct device_command {
	enum device_command_kind kind;
	union {
		struct device_launch launch;
		struct device_copy copy;
		struct device_fill fill;
	};
	/* error: -GDEV_E_ILLEGAL_ADDRESS (then fault_address is set), _TRAP, _ASSERT, … mean that the
	 * space is broken: everything submitted later fails with -GDEV_E_SESSION_LOST. Other errors (no
	 * memory to compile, invalid launch) harm this command alone. */
	void (*done)(struct device_command *command, int error);
	uint64_t started_ns, finished_ns, busy_ns, fault_address;
	bool timed; /* the time is asked for at which what is before it in its queue has ended: it goes apart from that */
	bool more_done; /* `done` of another is called next, on the same thread: what is to be done with all can wait */
	/* The device's, while it has the command. */
	struct device_command *next;
	struct device_queue *queue;
	int error;
};

/* Of a graph: what it does, after the nodes of these numbers, which come before it. */
struct device_node {
	enum device_command_kind kind; /* LAUNCH, COPY, FILL */
	union {
		struct device_launch launch;
		struct device_copy copy;
		struct device_fill fill;
	};
	const uint32_t *dependencies;
	uint32_t dependency_count;
};

static inline void device_command_start(struct device_command *command, uint64_t now_ns)
{
	__atomic_store_n(&command->started_ns, now_ns, __ATOMIC_RELAXED);
}

struct device_function_info {
	uint32_t param_count, param_bytes; /* params[] by function_param */
	uint32_t max_threads, shared_bytes, const_bytes, local_bytes, registers;
	uint32_t max_dynamic_shared_bytes;
	uint32_t ptx_version, binary_version;
	uint32_t cluster[3];  /* that it is compiled for; zeros: none */
	bool needs_cluster;   /* a launch must say one */
	bool launches_graphs; /* it, or another kernel of its module */
};

/* Where the compiler's messages go; either may be NULL/0. NUL-terminated, cut when full. */
struct device_log {
	char *text;
	size_t size;
};

/* Something in an image that would fail when it is loaded or launched. */
struct device_finding {
	const char *kernel; /* NULL: it is in none */
	uint32_t line;      /* of the PTX */
	const char *text;   /* a sentence */
};

struct device_images {
	unsigned images;  /* PTX texts, fat binaries with something in them, GPU programs */
	unsigned ptx;     /* of which so many have PTX */
	unsigned refused; /* of which so many cannot be loaded */
	unsigned kernels; /* in those that can */
	unsigned unfit;   /* of which so many cannot be launched */
	bool brief;       /* kernels are so many that they were only read, not tried */
};

enum device_limit {
	DEVICE_LIMIT_STACK, /* bytes of a thread of a kernel, as CUDA counts them */
	DEVICE_LIMIT_HEAP,  /* bytes that kernels may have allocated */
};

struct device_ops {
	const char *name; /* "null", "cpu", "cuda" */

	/* Required. */
	struct device_timing timing;

	/* The driver's library opens files and calls ioctl as it works: the sandbox must let it. */
	bool opens_files;

	/* Device memory is the machine's: who touches a page of a chunk first pays for it there. */
	bool is_host_memory;

	/* started_ns of a launch is stored when it begins, and is 0 before. */
	bool tells_start;

	/* 0: the worker decides. Long copies go to the device in pieces of so many bytes, one after the
	 * other; and so much staging memory keeps two-stage copies at the speed of the bus. */
	uint64_t piece_bytes, staging_bytes;

	/* Required. Describes up to `capacity` devices and returns how many there are; 0 when the backend
	 * has none here. Cheap; opens nothing that lasts. */
	int (*probe)(
		const struct device_config *config, struct device_info *infos, size_t capacity);

	/* Required. `host` is kept, not copied. */
	int (*open)(const struct device_config *config, const struct device_host *host,
		struct device **device);
	void (*close)(struct device *device);

	/* Required. Device memory that an open device takes in this process before any allocation. */
	uint64_t (*overhead_bytes)(struct device *device);
	/* Optional, of a device that others than gdevd's workers may use. What is free of its memory. May block. */
	int (*free_bytes)(struct device *device, uint64_t *bytes);

	/* Required. A space without addresses. */
	int (*space_create)(struct device *device, struct device_space **space);
	/* Optional, of a device that can pass for others: modules of this space are for one of that compute capability, times ten.
	 * It is called once, before there are modules. */
	int (*capability)(struct device_space *space, unsigned capability);
	/* Required. Gives the space a range of addresses more, at most DEVICE_RANGES_MAX: reserves it in this process
	 * (PROT_NONE; the worker maps host memory into it) and on the device, until the space is destroyed. One call at a time
	 * on a space. -EADDRINUSE: the range is not free here; -ENOSPC: the space has as many as it may. */
	int (*space_reserve)(struct device_space *space, uint64_t base, uint64_t bytes);
	/* All queues and modules are destroyed, all chunks unmapped before. */
	void (*space_destroy)(struct device_space *space);

	/* 0: DEVICE_CHUNK_MIN. Else a chunk may also be any multiple of so many bytes that is less than that. */
	uint64_t grain_bytes;

	/* Required. Physical memory, with no bytes of another session in it. bytes: a power of two within
	 * DEVICE_CHUNK_MIN and _MAX, or what grain_bytes allows. */
	int (*chunk_create)(struct device *device, uint64_t bytes, struct device_chunk **chunk);
	void (*chunk_destroy)(struct device_chunk *chunk); /* unmapped everywhere in this process */
	/* Required. A descriptor that another worker's chunk_import accepts; the caller's. Each import is
	 * another chunk for the same memory, which lives as long as one of them; the descriptor that was
	 * imported stays the caller's. -EINVAL: it is no such memory of `bytes` bytes. */
	int (*chunk_export)(struct device_chunk *chunk, int *fd);
	int (*chunk_import)(
		struct device *device, int fd, uint64_t bytes, struct device_chunk **chunk);

	/* Required. Maps a whole chunk at `address`, a multiple of DEVICE_CHUNK_MIN, in one of the space's ranges. The worker knows that
	 * no command in flight can reach what it unmaps; if one does, it is an illegal address. */
	int (*map)(struct device_space *space, uint64_t address, struct device_chunk *chunk,
		bool read_only);
	void (*unmap)(struct device_space *space, uint64_t address, struct device_chunk *chunk);

	/* Optional. Host memory in a range of the space, mapped there by the worker, that commands will use. It begins and ends at
	 * multiples of DEVICE_CHUNK_MIN; a command may reach over several such ranges, and chunks, that follow each
	 * other. -EINVAL: the device cannot be given such pages (of a file, for instance). Copies to and from them are right
	 * all the same, and slower. */
	int (*host_register)(struct device_space *space, uint64_t address, uint64_t bytes);
	void (*host_unregister)(struct device_space *space, uint64_t address, uint64_t bytes);

	/* Optional: a descriptor of the chunk's memory that a client can mmap (PEER_DEVICE_MAP). */
	int (*chunk_host_fd)(struct device_chunk *chunk, int *fd);

	/* Required. May block. `image` (PTX text, or a fat binary from its header on: a wrapper's pointers
	 * are another process's) does not change and stays until the module is unloaded, with 64 zeros behind. */
	int (*module_load)(struct device_space *space, const void *image, size_t length,
		struct device_log *log, struct device_module **module);
	/* Optional. The second half of loading: takes the memory of variables, which has been paid for. May block.
	 * Whether it succeeds or not, the module is unloaded later. */
	int (*module_open)(struct device_module *module, struct device_log *log);
	void (*module_unload)(struct device_module *module);
	/* Required. Device memory that the module's variables will take, or, when it is open, take. */
	uint64_t (*module_bytes)(struct device_module *module);
	/* Optional. The memory of a module that is not open yet was refused: gives up what it can do without. May block.
	 * -ENOENT: that is nothing. */
	int (*module_lighten)(struct device_module *module);
	/* Optional, both. How many bytes the module's managed variables take, which the client reads and writes, too (on the
	 * software GPU all of its variables, if some are managed); else 0. place: from here on they lie at `address` in host
	 * memory of the arena, a multiple of 4096, with their initial values. May block. -EINVAL: it has none, or is in use. */
	uint64_t (*module_managed_bytes)(struct device_module *module);
	int (*module_place)(struct device_module *module, uint64_t address);
	/* Optional. Whether its machine code does what works only if the module is loaded as PTX: it sets conditions of
	 * graphs. */
	bool (*module_wants_text)(struct device_module *module);
	/* -GDEV_E_SYMBOL_NOT_FOUND. A function lives as long as its module. */
	int (*function_get)(
		struct device_module *module, const char *name, struct device_function **function);
	/* Optional. The name of the module's function number `index`, NUL-terminated.
	 * -GDEV_E_SYMBOL_NOT_FOUND: there are no more; -ERANGE: it is longer than `size`. */
	int (*function_name)(struct device_module *module, unsigned index, char *name, size_t size);
	void (*function_info)(struct device_function *function, struct device_function_info *info);
	void (*function_param)(struct device_function *function, unsigned index, uint32_t *offset,
		uint32_t *bytes);
	/* Blocks a multiprocessor can hold at once. */
	uint32_t (*function_occupancy)(
		struct device_function *function, uint32_t block_threads, uint32_t shared_bytes);
	/* Optional. How many clusters of such a launch (its grid does not matter) the device holds at once;
	 * when it has none, of how many blocks the largest cluster is. */
	int (*function_clusters)(struct device_function *function,
		const struct device_launch *launch, uint32_t *count);
	/* Optional. The device's form of what the record says. Nothing in it is checked: what a kernel does
	 * with it is as what it does with a pointer. With TENSOR_MAP_MOVED `map` has the program's bytes, which may be anything,
	 * and is changed; -EINVAL: it is no map, or can be at no such address. */
	int (*tensor_map)(struct device *device, const struct record_tensor_map *wanted,
		uint8_t map[TENSOR_MAP_BYTES]);
	int (*global_get)(
		struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes);
	/* Optional. Whether the variable, which is there, is managed. */
	bool (*global_is_managed)(struct device_module *module, const char *name);

	/* Optional. Looks at an image without a device: whether all of it could be run. `image` is as for
	 * module_load, or several fat binaries one behind the other, which are images of their own. Calls
	 * `found` for each thing that could not, some dozens an image at most; in brief one an image. */
	void (*image_check)(const void *image, size_t length, struct device_images *images,
		void (*found)(void *owner, const struct device_finding *finding), void *owner);

	/* Optional, all four: kernels of the space are checked (docs/check.md). begin: once, before it has modules, checks: bits of
	 * enum device_check. add, remove: memory that kernels may access, to the byte; defined: it has values already,
	 * or, if it was added before, from now on.
	 * report: what was found, from 0 on. -ENOENT: no more so far. Brief. */
	int (*check_begin)(struct device_space *space, uint32_t checks);
	int (*check_add)(struct device_space *space, uint64_t base, uint64_t bytes, bool defined);
	void (*check_remove)(struct device_space *space, uint64_t base);
	int (*check_report)(struct device_space *space, uint32_t index, struct reply_check *report);

	/* Required. Lower priority is more urgent; a hint. */
	int (*queue_create)(struct device_space *space, int priority, struct device_queue **queue);
	void (*queue_destroy)(struct device_queue *queue); /* empty */
	/* Optional. The queue's launches run on `count` of the device's multiprocessors alone, from `first` on. Once, before it has
	 * commands; when it fails, the queue is only to be destroyed. May block. -ENOTSUP, -EINVAL: see PROPERTY_PART_STEP. */
	int (*queue_bind)(struct device_queue *queue, uint32_t first, uint32_t count);

	/* Required. Never fails: what is wrong with the command comes to done(), which is not called from
	 * inside submit(). Commands of a queue are done in their order. Brief: it may hand to the driver what
	 * waits (some 3 us a command), but what takes longer is for a thread of the device's own. */
	void (*submit)(struct device_queue *queue, struct device_command *command);
	/* Optional. What is submitted to `queue` from here on begins when all is done that `awaited` has, another queue of the
	 * space with something in flight. Whose done() is called first is open. Brief. False: it cannot be told to; nothing has
	 * changed. */
	bool (*follow)(struct device_queue *queue, struct device_queue *awaited);

	/* Optional, all six: arrays, textures and surfaces that the device makes. What array_layout() says of the shape is
	 * true. array_bytes: the most that the array takes of the device's memory, and no less than its layout; pure.
	 * array_create: from `address` on, where the space has nothing mapped and array_layout() has the elements, copies
	 * name them; a copy that names other bytes there fails by itself, with -EINVAL, unless it is one row from `address` on of
	 * all that there is, up to a multiple of DEVICE_CHUNK_MIN. May block. -ENOTSUP: no such array is
	 * made here. `chunk`: its memory, array_bytes() of it, which is mapped at `address`; NULL: it is the array's for good. Once
	 * it is unmapped it may be destroyed, and another of array_chunk() be mapped in its place: the array and the objects that are
	 * made of it stay, but nothing may use them meanwhile, and what was in the array is gone.
	 * array_destroy: no chunk is mapped that can be unmapped, no command in flight names it; objects that are made of it are of no
	 * use any more.
	 * texture_create: the number that kernels take. -EINVAL: no such array, or not what the device takes.
	 * texture_destroy: no command in flight can reach it. -GDEV_E_INVALID_HANDLE. */
	uint64_t (*array_bytes)(const struct array_shape *shape);
	int (*array_create)(struct device_space *space, uint64_t address,
		const struct array_shape *shape, struct device_array **array,
		struct device_chunk **chunk);
	int (*array_chunk)(struct device_array *array, struct device_chunk **chunk);
	void (*array_destroy)(struct device_array *array);
	int (*texture_create)(
		struct device_space *space, const struct texture_words *words, uint64_t *handle);
	int (*texture_destroy)(struct device_space *space, uint64_t handle, bool surface);
	/* Optional. Binds a module's texture or surface reference, for launches that come, or only looks for it. Nothing of the
	 * module is in flight. -GDEV_E_SYMBOL_NOT_FOUND, -ENOTSUP, and as texture_create. */
	int (*reference_set)(struct device_module *module, const char *name,
		const struct texture_words *words, bool bind);

	/* Optional, both: graphs that are launched as a whole, by a command or by kernels. graph_set: *graph NULL: a new one; else it
	 * gets other nodes, and no command of the queues is a launch of it meanwhile. *handle: by which kernels launch it, if
	 * from_device says that they may; the one that is given, or another that the device chooses, always the same. Nothing that
	 * is given is needed when it returns, and functions live until the graph has other nodes or is destroyed, and no launch from
	 * before is in flight. May block. -ENOTSUP; when it fails the graph is as it was.
	 * graph_destroy: no command is a launch of it. */
	int (*graph_set)(struct device_space *space, struct device_graph **graph, bool from_device,
		const struct device_node *nodes, uint32_t count, uint64_t *handle);
	void (*graph_destroy)(struct device_graph *graph);

	/* Optional. From the next launch on. Any thread. */
	void (*limit)(struct device_space *space, enum device_limit which, uint64_t bytes);

	/* Optional: launches of this space are to leave the device between blocks, from here on: pause() may be called. It
	 * is called once, before there are modules and queues. Without it, and with pause(), they can at any time. loops: and in
	 * the middle of a block, at barriers in loops. */
	int (*preempt)(struct device_space *space, bool loops);
	/* Optional: preemption at block boundaries. pause: the compute unit begins no more blocks of launches
	 * and fills, and no more of them, until it is called with false; copies go on. True: none of their
	 * blocks is running. False: host->quiet is called once when that is so, unless it was told to go on
	 * before. A block that does not end, and does not leave, never lets it be so. */
	bool (*pause)(struct device *device, bool pause);

	/* Optional. Lends the calling thread to the device, to execute or to look for completions: it does
	 * a bounded piece (a command, or a slice of a long one) and returns true, or returns false at
	 * once when there is nothing to do for one more thread. Only a kernel that does not end keeps the
	 * thread longer. After true the caller comes again before it sleeps: the device does not kick for
	 * what that thread will find. A kick from inside work() asks for one more thread; one from inside
	 * submit() for any, the submitting one included. Kicks that nobody has answered yet may be merged. */
	bool (*work)(struct device *device);
	/* Optional, with work(): what the machine gave the unit. Of the time that commands were on it, only the
	 * part that is not lost is device time. What a command adds is there before its done() is called; what
	 * a pause has stopped, before it is quiet. */
	void (*presence)(
		struct device *device, enum device_resource unit, struct device_presence *presence);
	/* Optional, all three: what the device takes by itself (overhead_bytes) is given back for as long as a space
	 * is not used. When retire() is called all chunks are destroyed, queues are empty, and nothing else is going
	 * on; until revive() has succeeded nothing is called but destroys, host_unregister(), rehome() and close(). Queues,
	 * modules (with what their variables hold), functions, registered host memory and the reserved ranges are the
	 * same before and after. Both block, and when they fail all is as before. keeps: whether retire() would
	 * fail now, because something could not be had again as it was: enum worker_keeper. */
	uint32_t (*keeps)(struct device_space *space);
	int (*retire)(struct device_space *space);
	int (*revive)(struct device_space *space);
	/* Optional, with these: between retire() and revive(), another of the backend's devices, of the same model, which
	 * revive() opens. Brief. When it fails all is as before. */
	int (*rehome)(struct device_space *space, unsigned index);

	/* Optional, instead of work(): looks for completions without blocking, and calls done() for them.
	 * True when there were any. Nobody kicks: as long as commands are in flight, somebody comes again
	 * soon. One thread at a time. */
	bool (*poll)(struct device *device);
};

/* registry.c. Loads the plugin libgdev-NAME.so when the backend is not built in. NULL: no such
 * backend, or it cannot be loaded here (said in the log). */
const struct device_ops *device_ops_find(const char *name);
/* The backend for devices called "cpu", "cuda:0", …: splits the name. -EINVAL, -ENODEV. */
int device_parse(const char *device, const struct device_ops **ops, unsigned *index);

#endif

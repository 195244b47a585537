/* SPDX-License-Identifier: MIT
 *
 * The software GPU, inside: what its files share. It has no threads of its own: threads lend
 * themselves with work(), take one bounded piece, and leave.
 *
 * Units. The compute unit executes launches and fills, the two copy engines copies. The first command
 * of each queue is runnable; the queue then stands in the list of the unit that executes it. A launch
 * is a job of blocks: the thread that starts it measures, and invites others when what remains is
 * worth waking them. An engine executes one slice of one copy at a time, and puts the queue back
 * behind the others.
 *
 * A pause stops the compute unit between blocks: threads leave their jobs, which keep their places, and
 * what has not begun waits. Copies do not notice.
 *
 * Locks. device->lock guards everything here that does not say otherwise, and is held for no longer
 * than a look and a list operation: nothing that runs a program's code, calls the host, allocates
 * much or compiles happens under it. space->heap_lock is never held together with it.
 *
 * A queue is held by the worker, until queue_destroy, and by the threads that execute its first
 * command, counted in queue->job.running for jobs, else the one that took it from its unit's list. A
 * queue destroyed from within done() is freed by the thread that called done().
 */
#ifndef GDEV_DEVICE_CPU_CPU_H
#define GDEV_DEVICE_CPU_CPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "device/cpu/ptx/ptx.h"
#include "device/memfd.h"
#include "device/ops.h"
#include "proto/control.h"

#define CPU_THREADS_MAX 256
#define SHARED_BYTES_MAX (227u << 10) /* a block's, static and dynamic */
#define CLUSTER_MAX 16                /* blocks of a cluster */
#define SCRATCH_ALIGN 1024            /* of what compiled code works with */
#define CPU_TARGET 90                 /* compute capability, times ten */

#define CPU_NO_MEMORY                                                                              \
	"the worker may not have the memory that this takes: worker_memory in gdev.conf(5) is its limit"

/* A place on the compute unit: each thread that runs blocks has one. Its scratch is its holder's alone. */
struct cpu_slot {
	struct list free; /* in device->slots_free when nobody has it */
	struct ptx_scratch scratch;
	size_t shared_bytes, locals_bytes, saved_bytes; /* what scratch has room for */
	struct check_state *checking;                   /* NULL: has run nothing that is checked */
	struct cluster *cluster;                        /* NULL: has run no clusters */
};

/* See presence.c. */
struct cpu_presence {
	_Atomic uint64_t spent_ns, lost_ns;
};

/* Threads at jobs, and those that are wanted there and have not come. */
struct cpu_absence {
	unsigned there, threads; /* so many each, */
	uint64_t at_ns;          /* counted until then; */
	uint64_t since_ns;       /* at least one is missing without a break, */
	uint64_t grace_ns;       /* which is no loss for so long */
	uint64_t
		part_ns; /* the time in which somebody was wanted, each moment divided among them */
};

struct device {
	const struct device_host *host; /* constant, as are the next four */
	unsigned threads;
	struct cpu_slot *slots;
	uint64_t context_bytes;
	int dump[PTX_FORMS]; /* files, dump.c; -1: none */
	atomic_bool retired; /* nobody may use it */

	pthread_mutex_t lock; /* guards what follows */
	struct list slots_free;
	struct list runnable[RESOURCES]; /* struct device_queue.place; the most urgent first */
	struct list jobs; /* queues whose first command is a job with blocks to take */
	bool engine_busy[RESOURCES];
	unsigned running;   /* threads that run blocks */
	atomic_bool paused; /* nobody begins blocks; written with the lock */
	bool tell_quiet;    /* the host wants to know when nobody runs blocks */
	bool kicked;        /* since work() was last entered: somebody will come */
	unsigned turn;
	uint64_t grids; /* launches so far */
	struct cpu_absence absence;
	struct cpu_presence presence[RESOURCES]; /* without the lock */
};

struct checking;
struct check_state;

struct device_space {
	struct device *device;
	struct checking *checking; /* NULL: not checked; set before there are modules and queues */
	unsigned
		capability; /* that was asked for, times ten; 0: none. Set before there are modules */
	struct memfd_ranges ranges;
	atomic_bool broken;           /* a command faulted: what is not done fails */
	_Atomic uint64_t stack_bytes; /* of a kernel's thread, as CUDA counts (compute.c) */
	pthread_mutex_t
		heap_lock; /* guards what follows, and what kernels launch (children.c, graph.c) */
	void *heap;        /* tsearch() tree of what kernels have allocated */
	void *graphs;      /* … of graphs that kernels launch, by handle */
	uint64_t heap_bytes, heap_limit;
};

/* Compute capability, times ten. */
static inline unsigned cpu_capability(const struct device_space *space)
{
	return space->capability ? space->capability : CPU_TARGET;
}

/* ---- modules (module.c) ---- */

enum shape_state { SHAPE_NEW, SHAPE_COMPILING, SHAPE_READY, SHAPE_FAILED };

/* A kernel's code for one block shape. */
struct cpu_shape {
	struct cpu_shape *next;
	uint32_t block[3];
	enum shape_state state;
	int error;                   /* FAILED: for good */
	const struct ptx_code *code; /* READY */
	struct list waiting;         /* COMPILING: queues that need it */
	double ns_per_block;         /* of the last launch; 0: none yet */
};

struct device_function {
	struct device_module *module;
	const struct ptx_kernel *kernel;
	struct cpu_shape *shapes; /* device->lock; grows at its front */
};

struct device_module {
	struct device_space *space;
	_Atomic unsigned uses; /* it is loaded; graphs that have kernels of it */
	bool launches_graphs;  /* kernels of it */
	struct ptx_module *ptx;
	void *globals;        /* where variables are: `own`, or host memory of the arena */
	void *own;            /* the module's own block; kept, as launches may still use it */
	size_t globals_bytes; /* of `own` */
	struct device_function *functions; /* one a kernel */
};

/* ---- kernels for people to read (dump.c) ---- */

void cpu_dump_open(struct device *device);
void cpu_dump_close(struct device *device);
/* Whether all that is compiled is written. */
static inline bool cpu_dumps(const struct device *device)
{
	return device->dump[0] >= 0;
}
void cpu_dump_module(const struct device *device, const char *text, size_t length);
void cpu_dump_kernel(const struct device_function *function, const uint32_t block[3]);

/* check.c */
void cpu_image_check(const void *image, size_t length, struct device_images *images,
	void (*found)(void *owner, const struct device_finding *finding), void *owner);

int cpu_module_load(struct device_space *space, const void *image, size_t length,
	struct device_log *log, struct device_module **module);
int cpu_module_open(struct device_module *module, struct device_log *log);
void cpu_module_unload(struct device_module *module);
void cpu_module_put(struct device_module *module);
uint64_t cpu_module_bytes(struct device_module *module);
uint64_t cpu_module_managed_bytes(struct device_module *module);
int cpu_module_place(struct device_module *module, uint64_t address);
int cpu_function_get(
	struct device_module *module, const char *name, struct device_function **function);
int cpu_function_name(struct device_module *module, unsigned index, char *name, size_t size);
void cpu_function_info(struct device_function *function, struct device_function_info *info);
void cpu_function_param(
	struct device_function *function, unsigned index, uint32_t *offset, uint32_t *bytes);
uint32_t cpu_function_occupancy(
	struct device_function *function, uint32_t block_threads, uint32_t shared_bytes);
int cpu_global_get(
	struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes);
bool cpu_global_is_managed(struct device_module *module, const char *name);

/* The entry for a block shape, a new one when there is none. Lock held. NULL: out of memory. */
struct cpu_shape *cpu_shape_get(struct device_function *function, const uint32_t block[3]);
/* Loads the code from the cache or compiles it. No lock held. */
int cpu_shape_build(
	struct device_function *function, const uint32_t block[3], const struct ptx_code **code);

/* ---- launches and fills (compute.c) ---- */

struct cpu_job;
/* Runs [first, end) of a job's blocks, under a fault guard. */
typedef void (*cpu_job_run)(
	struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end);

/* What a queue's first command is while it is on the compute unit. */
struct cpu_job {
	cpu_job_run run;
	struct device_command *command;
	uint64_t count;        /* blocks, or clusters */
	_Atomic uint64_t next; /* the first that nobody has taken; at least count: none left */
	_Atomic uint64_t blocks_done, ns_done;
	atomic_int error; /* the first */
	_Atomic uint64_t fault_address;
	double ns_guess;   /* a block, before any is done; 0: no idea */
	unsigned running;  /* lock; threads at it */
	uint64_t ended_ns; /* lock; when the last of its pieces so far was done */
	struct cpu_shape *shape;
	const struct ptx_code *code;
	struct ptx_launch launch;
	uint64_t check_from; /* checked: the tick at which it began */
	struct device_space *space;
	bool together;         /* a cooperative launch of several blocks: all run at once */
	uint64_t workspace[1]; /* its barrier; see struct ptx_launch */
	void *params;          /* grows, kept from launch to launch */
	size_t params_size;
	/* children.c */
	struct cpu_child *child; /* that this is the job of; NULL: the command's own launch is */
	struct list prepared, launched, tails, waiting;
	unsigned children; /* in these lists */
	/* graph.c */
	struct graph_run
		*run_of; /* whose node the child is, or has been launched by; NULL: no graph's */
	struct list runs, runs_all;
};

/* Checks a launch against the limits, on so many slots: 0, -GDEV_E_INVALID_LAUNCH, -GDEV_E_OUT_OF_RESOURCES, -ENOTSUP. */
int cpu_launch_check(const struct device_launch *launch, unsigned slots);
/* Make a job of a command. `shape` is READY. */
int cpu_job_launch(struct cpu_job *job, struct device_command *command, struct cpu_shape *shape);
/* The launch that the command is at: its own, or one of a kernel or graph of it (children.c). */
const struct device_launch *cpu_job_launched(
	const struct cpu_job *job, const struct device_command *command);
void cpu_job_fill(struct cpu_job *job, struct device_command *command);
/* A job of nothing. */
void cpu_job_empty(struct cpu_job *job, struct device_command *command);
void cpu_fill_elements(
	uint64_t destination, uint64_t count, uint32_t element_bytes, uint32_t value);
/* Runs a piece of the job; false when no blocks were left, or in a pause. Sets the time at its end. No lock held. */
bool cpu_job_piece(struct cpu_job *job, struct cpu_slot *slot, unsigned threads, uint64_t *now_ns);
/* Whether blocks are left for a thread besides those that are at it. Lock held. */
bool cpu_job_open(const struct cpu_job *job);
/* Nobody has taken anything of it, and its first piece will be short. */
bool cpu_job_begins_short(const struct cpu_job *job);
double cpu_job_ns_per_block(const struct cpu_job *job);
/* How long all that nobody has taken yet takes one thread, about; a long time when nothing is known. */
double cpu_job_left_ns(const struct cpu_job *job);
/* How many threads it is worth: those that would be at it if they could. */
unsigned cpu_job_wants(const struct cpu_job *job);
/* Of what the pieces took, so much was no work. */
void cpu_job_lost(struct cpu_job *job, uint64_t lost_ns);
void cpu_slot_finish(struct cpu_slot *slot);

/* ---- clusters (cluster.c) ---- */

/* That the launch names, or else its kernel. Returns whether there is one; zeros: none. */
bool cpu_cluster_shape(const struct device_launch *launch, uint32_t shape[3]);
/* 0, -GDEV_E_INVALID_LAUNCH, -ENOTSUP. */
int cpu_cluster_check(const struct device_launch *launch);
/* Blocks of a cluster; 1: none. */
unsigned cpu_cluster_blocks(const struct ptx_launch *launch);
int cpu_function_clusters(
	struct device_function *function, const struct device_launch *launch, uint32_t *count);
/* So many of these bytes lie in a slot for each block of a cluster. Programs align addresses in shared memory themselves, by 1024
 * at most: what one block finds so must lie at the same place of the others. */
static inline uint64_t cpu_cluster_part(uint64_t bytes)
{
	return (bytes + SCRATCH_ALIGN - 1) & ~(uint64_t)(SCRATCH_ALIGN - 1);
}
/* Stacks for the blocks. */
int cpu_cluster_prepare(struct cpu_slot *slot, unsigned blocks);
void cpu_cluster_finish(struct cpu_slot *slot);
/* A job's clusters [first, end). */
void cpu_cluster_run(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end);
void cpu_cluster_meet(const struct ptx_launch *launch, void *memory);
void cpu_cluster_give_way(const struct ptx_launch *launch, void *memory);

/* All blocks of a cooperative launch at once, each on a thread of its own (together.c). No lock held. */
void cpu_job_together(struct cpu_job *job, struct cpu_slot *slot);
void cpu_job_fail(struct cpu_job *job, int error, uint64_t address);
int cpu_slot_prepare(struct cpu_slot *slot, struct cpu_job *job);
/* Runs blocks under a fault guard; the first error becomes the job's. */
void cpu_job_run_blocks(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end);

/* ---- what the machine gives (presence.c): of the calling thread, no lock held ---- */

/* A thread at a piece of work. */
struct cpu_stay {
	uint64_t from_ns, to_ns, lost_ns; /* lost: had no processor */
	uint64_t part_ns; /* of the device's time: its part where others were there too */
};

/* It got the lock only then. */
void cpu_presence_late(struct cpu_stay *stay, uint64_t left_ns);
/* When part_ns is known. */
void cpu_presence_count(
	struct device *device, enum device_resource unit, const struct cpu_stay *stay);
/* Lock held: the threads that are wanted at the jobs, or those that are there, have just changed. */
void cpu_absence_count(struct device *device, uint64_t now_ns);
void cpu_presence(
	struct device *device, enum device_resource unit, struct device_presence *presence);

/* ---- copies (copy.c) ---- */

/* How far a copy is, in rows. */
struct cpu_copy {
	struct device_copy shape;  /* made as flat as it goes */
	uint64_t row, offset;      /* the next byte */
	struct checking *checking; /* to be told what was written; or NULL */
};

void cpu_copy_start(
	struct device_space *space, struct cpu_copy *copy, const struct device_copy *command);
/* How long a slice takes, about. */
double cpu_copy_slice_ns(const struct cpu_copy *copy);
/* Copies a slice. 0 when more remains, 1 when done, or an error. */
int cpu_copy_slice(struct cpu_copy *copy, uint64_t *fault_address);

/* ---- queues and units (queue.c) ---- */

enum queue_state {
	QUEUE_IDLE,   /* no commands */
	QUEUE_LISTED, /* in its unit's list, or in a shape's */
	QUEUE_TAKEN,  /* a thread or more have its first command */
};

struct device_queue {
	struct device_space *space;
	int priority;
	unsigned first_slot,
		slot_count; /* where its launches and fills run; constant when it has commands */
	struct list place;  /* in a list of the device or of a shape */
	struct device_command *first, *last;
	enum queue_state state;
	bool started; /* the first command has begun */
	bool destroyed;
	struct cpu_job job;
	struct cpu_copy copy;
};

int cpu_queue_create(struct device_space *space, int priority, struct device_queue **queue);
int cpu_queue_bind(struct device_queue *queue, uint32_t first, uint32_t count);
void cpu_queue_destroy(struct device_queue *queue);
void cpu_submit(struct device_queue *queue, struct device_command *command);
bool cpu_work(struct device *device);
bool cpu_pause(struct device *device, bool pause);

/* ---- kernels that launch kernels (children.c) ---- */

/* What runs as part of another command: launched by a kernel of it, or a node of a graph. */
struct cpu_child {
	struct list place;
	uint32_t magic;
	bool tail;
	bool kept; /* a graph's, and not freed when it has run */
	enum device_command_kind kind;
	union {
		struct device_launch launch; /* its parameters are params */
		struct device_copy copy;
		struct device_fill fill;
	};
	_Alignas(16) unsigned char params[];
};

struct cpu_child *cpu_child_alloc(size_t param_bytes);
void cpu_children_init(struct cpu_job *job);
/* When all blocks of the job have ended: whether something follows, which is the job's then. */
bool cpu_children_next(struct cpu_job *job);
/* When its command ends. */
void cpu_children_finish(struct cpu_job *job);
void *cpu_child_prepare(const struct ptx_launch *launch, uint64_t address, const uint32_t grid[3],
	const uint32_t block[3], uint32_t shared_bytes);
uint32_t cpu_child_launch(const struct ptx_launch *launch, void *params, uint64_t stream);
uint32_t cpu_device_call(
	const struct ptx_launch *launch, uint32_t call, const uint64_t *arguments, void *memory);
/* Whether the job is at a copy or a fill; makes a job of it. */
bool cpu_child_moves(struct cpu_job *job, struct device_command *command);
/* Bytes, which may be moved in several threads. */
void cpu_job_units(
	struct cpu_job *job, struct device_command *command, cpu_job_run run, uint64_t units);

/* ---- graphs that are launched as a whole (graph.c) ---- */

int cpu_graph_set(struct device_space *space, struct device_graph **graph, bool from_device,
	const struct device_node *nodes, uint32_t count, uint64_t *handle);
void cpu_graph_destroy(struct device_graph *graph);
/* The job's command launches a graph: 0, the first node is the job's child, or there is none: nothing is to be done. Lock held. */
int cpu_graph_begin(struct cpu_job *job, struct device_command *command);
/* As cpu_children_next: when the node has ended, and all that its kernel has launched. */
bool cpu_graph_next(struct cpu_job *job);
void cpu_graph_finish(struct cpu_job *job);
/* A kernel launches one: an error of CUDA. */
uint32_t cpu_graph_launch(const struct ptx_launch *launch, uint64_t handle, uint64_t stream);
/* What the kernel of the job finds as the graph that it is of; 0: none that kernels launch. */
uint64_t cpu_graph_current(const struct cpu_job *job);

/* ---- what compiled code calls (runtime.c) ---- */

/* Ends the kernel that calls, and says why. */
__attribute__((noreturn)) void cpu_end_with(
	const struct ptx_launch *launch, int error, const char *sentence);

extern const struct ptx_runtime cpu_runtime;
void cpu_heap_finish(struct device_space *space);
/* Down to where functions that call themselves may use the calling thread's stack. */
uint64_t cpu_stack_end(uint64_t bytes);

/* ---- properties.c ---- */

int cpu_probe(const struct device_config *config, struct device_info *infos, size_t capacity);
unsigned cpu_thread_count(const struct device_config *config);

#endif

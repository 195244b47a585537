/* SPDX-License-Identifier: MIT
 *
 * Inside the NVIDIA backend: its objects, and which file does what with them.
 *
 * Threads. The issuer (one thread at a time) hands commands to the driver; the poller (one thread at a time)
 * finds out which are done. Between them a queue's commands in flight are a ring of one writer and one
 * reader; members say whose they are.
 *
 * Locks. preempt->lock guards what waits behind launches that may be stopped; issuer->lock guards what is to be issued and by which thread; poll_lock the poller's list of queues;
 * device->lock the free completion words; module->lock a module's functions; batches->lock the graphs; space->lock the
 * lists of what is to be made again. preempt->lock is taken before the others. None is held while done() is called. While the driver is: poll_lock, to be told of
 * errors and for a mark; module->lock, for what a function is allowed; batches->lock, to change or make a graph (submitting
 * does not wait for it); space->lock, while the context is given back or made again, when nobody submits.
 */
#ifndef GDEV_DEVICE_CUDA_H
#define GDEV_DEVICE_CUDA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "device/cuda/driver.h"
#include "device/ops.h"

#define CACHE_LINE 64
#define COMPLETION_WORDS 4096
#define START_WORD 0 /* of them: how many starts the device has come to */

#define BURST_NS (6 * NS_PER_US) /* commands that follow each other faster are a burst */

/* What hands commands to the driver: the thread that submits, as long as it has one now and then; in a burst, as soon
 * as it is awake, a thread of its own, so that reading records and issuing commands overlap. */
struct issuer {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	/* Of the thread that issues: the queue with commands that are not marked, and so cannot be done. */
	struct device_queue *unmarked;
	bool issuing;   /* somebody does: what is submitted meanwhile waits in the list */
	bool gathering; /* likewise, until the poller has given back all that it has found done */
	bool asleep;    /* the thread waits for `wake` */
	bool stopping;
	struct device_command *first, **last; /* to be issued, oldest first */
	/* From this link on the list waits for the rest of a row of launches. NULL: nothing waits. */
	struct device_command **held;
	uint64_t held_ns;      /* when the last of that came */
	atomic_bool holds;     /* there is such a rest; a hint */
	atomic_bool pending;   /* there are some to issue; a hint, to look at without the lock */
	uint64_t submitted_ns; /* when the last one was */
	unsigned burst;        /* how many have followed each other fast */
};

struct device {
	const struct driver *driver;
	const struct device_host *host;
	CUdevice ordinal;
	unsigned capability; /* 90: compute capability 9.0 */
	CUcontext context;
	atomic_uint number; /* of the contexts that this process has had; 0: there is none now */
	uint64_t overhead_bytes;
	bool lazy;       /* the driver loads a kernel's code when the kernel is asked for */
	bool one_by_one; /* launches never go several at a time: GDEV_CUDA_BATCH=0, to compare */
	bool pins_arrays; /* GDEV_CUDA_DEFERRED=0, to compare, or the driver has no deferred mapping */
	atomic_bool remaps; /* an array has lost its memory and had it again, without an error */
	struct batches *batches; /* of the context; NULL: none */

	_Alignas(CACHE_LINE) struct issuer issuer;

	/* The issuer's, in a line of the cache that the poller does not write. */
	_Alignas(CACHE_LINE) uint64_t issued; /* commands ever */
	uint64_t issued_ns;                   /* when the last was */

	/* The poller's, likewise. */
	_Alignas(CACHE_LINE) pthread_mutex_t poll_lock;
	struct list busy;                 /* queues with commands in flight */
	uint64_t unit_free_ns[RESOURCES]; /* when what has used it last was done */
	_Atomic uint64_t completed;       /* commands ever */
	/* When the device came to what was issued first after a pause, which is not when it was issued: the
	 * hardware may be another context's until then. */
	uint64_t started;    /* how many starts it knows of, */
	uint64_t started_ns; /* and when the last one was */
	uint64_t polled_ns;  /* when it looked last */

	/* What the issuer gives to the poller. */
	_Alignas(CACHE_LINE) struct device_queue *_Atomic newly_busy; /* queues */
	_Atomic uint64_t starts; /* how many starts it has asked to be told of */

	/* Page-locked words that the device writes: one a queue, how many of its commands are done. NULL without a
	 * context; changed with poll_lock. */
	_Atomic uint64_t *words;
	CUdeviceptr words_address;
	pthread_mutex_t lock;
	uint64_t words_before[COMPLETION_WORDS]; /* when the context was given back */
	uint32_t free_words[COMPLETION_WORDS], free_word_count;
	struct list parts; /* part.c */

	int print_pipe; /* what the driver prints for kernels */
	uint32_t multiprocessors;
	uint32_t most_shared; /* bytes of a block, if it asks for them */
	struct preempt *
		preempt; /* NULL: kernels do not leave between blocks. Set once, before there are modules. */
};

struct device_space {
	struct device *device;
	struct {
		uint64_t base, bytes;
	} ranges[DEVICE_RANGES_MAX];
	_Atomic unsigned range_count; /* ranges are added by one thread at a time */
	atomic_int error;             /* what broke it: 0 or negative */
	atomic_bool prints;           /* some module calls printf */

	/* What belongs to a context, to be made again in another. The lock guards the lists. */
	pthread_mutex_t lock;
	struct list queues;     /* struct device_queue.space_link */
	struct list modules;    /* struct device_module.link, oldest first */
	struct list registered; /* struct registration */

	/* array.c's, with the lock too, and how many there are, which is looked at without it. While there are any, the
	 * context is kept. `making` comes before the lock: no array ends while an object is made, perhaps of it. */
	pthread_mutex_t making;
	struct list arrays, textures;
	atomic_uint array_count, texture_count;
};

static inline int space_error(const struct device_space *space)
{
	return atomic_load_explicit(&space->error, memory_order_relaxed);
}

/* The first error stays. */
static inline void space_break(struct device_space *space, int error)
{
	int none = 0;

	atomic_compare_exchange_strong(&space->error, &none, error);
}

/* Host memory that the device may use. */
struct registration {
	struct list link;
	uint64_t address, bytes;
	bool done;
};

struct device_chunk {
	struct device *device;
	CUmemGenericAllocationHandle handle;
	uint64_t bytes;
	int fd; /* what it was imported from, which is what it is exported as; -1: it was created here */
	struct device_array *array; /* whose memory it is to be; NULL: it is for addresses */
};

#define QUEUE_COMMANDS 4096 /* in flight; a power of two */

struct device_queue {
	struct device_space *space;
	atomic_uint references; /* its owner's, and of each struct follow */
	CUstream stream;        /* NULL: there is no context */
	uint32_t word;
	int priority;
	uint32_t part_first, part_count; /* multiprocessors; 0: all */
	struct part *part;               /* that the stream is of, or NULL */
	struct list space_link;          /* space->queues */
	/* preempt.c's: commands that are not done, oldest first, and a place among the queues that have some; what asks the device
	 * how many blocks have begun. */
	struct list tickets, waiting_link;
	struct device_command tell;
	CUdeviceptr tell_params[2];
	bool telling;

	/* The nth ever issued is at n % QUEUE_COMMANDS. */
	_Alignas(CACHE_LINE) struct device_command *flight[QUEUE_COMMANDS];

	/* The issuer's. Only what is marked is the poller's to know of: a line of the cache goes over once a
	 * batch, not once a command. */
	_Alignas(CACHE_LINE) uint64_t issued; /* commands ever */
	uint64_t room_until; /* no more than that may be issued, by the `completed` it saw last */
	_Alignas(CACHE_LINE) _Atomic uint64_t
		marked;                   /* of them, those that the device will report */
	atomic_bool behind;               /* more has been issued, to be marked by the poller */
	atomic_bool listed;               /* in device->newly_busy or device->busy */
	struct device_queue *next_listed; /* in device->newly_busy */

	/* The poller's. */
	_Alignas(CACHE_LINE) _Atomic uint64_t completed; /* commands ever */
	_Atomic uint64_t pace_ns; /* what a command takes, rather too much; 0: unknown */
	struct list link;         /* of device->busy */
	uint64_t seen;            /* how many it knew to be marked */
	uint64_t progress_ns;     /* when it last moved, or was asked for errors */
};

/* Among what is to be issued: what comes behind it in its queue waits for all that the other one has. */
struct follow {
	struct device_command command; /* DEVICE_OWN */
	struct device_queue *awaited;
};

/* What became of an attempt to issue something. If it is not ISSUE_DONE, nothing has been issued. */
enum issued {
	ISSUE_DONE,
	ISSUE_REFUSED,
	ISSUE_TAKES_LONG, /* and was to be brief */
};

struct device_function {
	struct device_module *module;
	CUfunction handle;
	struct list link;        /* module->functions */
	bool launched;           /* once; by the one thread that issues */
	uint32_t dynamic_limit;  /* dynamic shared memory allowed so far; module->lock */
	uint32_t large_clusters; /* allowed; module->lock */
	/* preempt.c: the one that leaves between blocks. Of that one: where its hidden parameter is; the threads that a block of it
	 * may have, fewer than the first's if it needs more registers, and the dynamic shared memory; and, with preempt->lock, how
	 * many of its blocks the device holds in a launch of that shape. */
	struct device_function *second; /* atomic; NULL: there is none */
	struct device_function
		*third; /* the same of the one that leaves in the middle of a block */
	const struct preempt_kernel *made; /* of the third: how it was made */
	uint32_t hidden_offset, max_threads, max_shared, wave;
	uint64_t wave_shape;
	char name[];
};

/* What lives in a module as long as that does. */
struct variable {
	char *name;
	size_t bytes; /* 0: not in the program that the driver chose */
	void *saved;  /* its contents, while there is no context */
};

/* managed.c's, of a module. */
struct managed {
	bool any;                           /* its image may have some */
	struct managed_variable *variables; /* of the machine code */
	size_t count;
	uint64_t bytes, address; /* of all together; where they are, 0: nowhere yet */
};

struct device_module {
	struct list link; /* space->modules */
	struct device_space *space;
	CUmodule handle;
	/* As it was loaded: the caller's, or what was unpacked or compiled of it. NULL: it is unpacked again when it is needed. */
	const void *image;
	size_t image_length;
	void *unpacked;    /* NULL: the image is the caller's */
	bool chosen;       /* … and what fatbin_choose() gave, as it was */
	const void *whole; /* the caller's */
	size_t whole_length;
	struct preempt_module *rewritten; /* of `image`: NULL when it goes as it is */
	bool open;                        /* the driver has loaded it */
	bool prints;                      /* a kernel of it may call printf */
	bool launches;                    /* … launch kernels */
	bool bound;                       /* a reference of it was bound; atomic */
	bool conditions;                  /* a kernel of it sets conditions of graphs, */
	bool defines_conditions;          /* by a function of ours */
	struct managed managed;
	struct variable *variables;
	size_t variable_count;
	uint32_t keeper;      /* enum worker_keeper; space->lock */
	pthread_mutex_t lock; /* functions, dynamic_limit, large_clusters */
	struct list functions;
	uint64_t bytes;          /* of the device, when it is open */
	uint64_t most_bytes;     /* that its image can take */
	uint64_t variable_bytes; /* … of which its variables are known to */
	bool unknown;            /* whether there is memory of a kind that is not known */
};

/* context.c. Makes the device's context the calling thread's. */
const struct driver *device_enter(struct device *device);
/* Makes it, with the words. */
int context_open(struct device *device);
void context_close(struct device *device);
bool context_is_open(struct device *device);
uint32_t cuda_keeps(struct device_space *space);
int cuda_retire(struct device_space *space);
int cuda_revive(struct device_space *space);
int cuda_rehome(struct device_space *space, unsigned index);

/* device.c. A step of the first use of something, which began then, is over: a line of the log at level debug, for
 * scripts/hardware, which adds them up. */
void device_spent(const char *step, uint64_t begin_ns);
/* 90: compute capability 9.0. */
unsigned device_capability(const struct driver *driver, CUdevice ordinal);

/* variables.c. Finds in its image the module's variables, what is in the way of saving them (keeper), and how much of
 * the device it can take (most_bytes). -ENOMEM. */
int variables_list(struct device_module *module, const void *image, size_t length);
void variables_free(struct device_module *module);

/* managed.c. Finds the managed variables of machine code, and has the driver not know of them. -ENOTSUP: it cannot be. */
int managed_find(struct device_module *module, char *code, size_t length);
void managed_forget(struct device_module *module);
/* From here on the code, which managed_find() has seen, has its variables at `address`, with their values. -EINVAL: it has
 * none, or they have a place. */
int managed_place(struct device_module *module, char *code, size_t length, uint64_t address);
/* False: it is none that has a place. */
bool managed_global(
	struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes);
bool cuda_global_is_managed(struct device_module *module, const char *name);
uint64_t cuda_module_managed_bytes(struct device_module *module);

/* condition.c. Whether a function of that name sets conditions of graphs; whether PTX, which a NUL ends, calls it. */
bool condition_is_set_by(const char *name);
bool condition_is_set_in(const char *text);
/* The text, malloc'ed, with a function that sets the condition that a handle of gdev's names. */
int conditions_define(const char *text, char **defined, size_t *length);

/* footprint.c */
uint64_t footprint_bytes(const struct device *device);

/* memory.c */
int cuda_space_create(struct device *device, struct device_space **space);
int cuda_space_reserve(struct device_space *space, uint64_t base, uint64_t bytes);
void cuda_space_destroy(struct device_space *space);
int cuda_chunk_create(struct device *device, uint64_t bytes, struct device_chunk **chunk);
void cuda_chunk_destroy(struct device_chunk *chunk);
int cuda_chunk_export(struct device_chunk *chunk, int *fd);
int cuda_chunk_import(struct device *device, int fd, uint64_t bytes, struct device_chunk **chunk);
/* Physical memory, for an array or (NULL) for addresses. */
int chunk_create(struct device *device, uint64_t bytes, struct device_array *array,
	struct device_chunk **chunk);
int cuda_map(
	struct device_space *space, uint64_t address, struct device_chunk *chunk, bool read_only);
void cuda_unmap(struct device_space *space, uint64_t address, struct device_chunk *chunk);
int host_register(struct device *device, uint64_t address, uint64_t bytes);
int cuda_host_register(struct device_space *space, uint64_t address, uint64_t bytes);
void cuda_host_unregister(struct device_space *space, uint64_t address, uint64_t bytes);

/* array.c */
uint64_t cuda_array_bytes(const struct array_shape *shape);
int cuda_array_create(struct device_space *space, uint64_t address, const struct array_shape *shape,
	struct device_array **array, struct device_chunk **chunk);
int cuda_array_chunk(struct device_array *array, struct device_chunk **chunk);
void cuda_array_destroy(struct device_array *array);
/* Whether the memory of no array leaves. */
bool arrays_are_pinned(const struct driver *driver, CUdevice ordinal);
/* Whole chunks, for the array that they are made for. */
int array_map(struct device_chunk *chunk);
void array_unmap(struct device_chunk *chunk);
int cuda_texture_create(
	struct device_space *space, const struct texture_words *words, uint64_t *handle);
int cuda_texture_destroy(struct device_space *space, uint64_t handle, bool surface);
/* Those that are left. */
void textures_finish(struct device_space *space);
/* What the driver is to read. With space->making. -EINVAL: no such array. */
int texture_resource(struct device_space *space, const struct texture_words *words,
	CUDA_RESOURCE_DESC *resource);

/* reference.c */
int cuda_reference_set(struct device_module *module, const char *name,
	const struct texture_words *words, bool bind);
/* Whether a side of the copy names elements of an array. */
bool array_is_copied(struct device_space *space, const struct device_copy *copy);
/* Issues such a copy, in as many calls as it takes. False: it is none. */
bool array_copy(struct device_space *space, CUstream stream, const struct device_copy *copy,
	CUresult *result);

/* jit.c. PTX (NUL-terminated), with machine code that it is linked with (NULL: none), to malloc'ed machine code for this
 * device, when `cached` from the cache if it is there. What the compiler says goes to `log`. */
struct jit_source {
	const char *ptx;
	const void *runtime;
	size_t runtime_bytes;
};

CUresult jit_link(const struct driver *driver, const struct jit_source *source,
	struct device_log *log, void **code, size_t *bytes);
/* By the driver's loader: what it says counts. */
CUresult jit_load(
	const struct driver *driver, const char *ptx, struct device_log *log, CUmodule *module);
CUresult jit_compile(struct device *device, const struct jit_source *source, bool cached,
	struct device_log *log, void **code, size_t *bytes);

/* module.c */
int cuda_module_load(struct device_space *space, const void *image, size_t length,
	struct device_log *log, struct device_module **module);
int cuda_module_open(struct device_module *module, struct device_log *log);
void cuda_module_unload(struct device_module *module);
/* From its image, into a new context, with its functions. */
int module_load_again(struct device_module *module);
int cuda_module_place(struct device_module *module, uint64_t address);
bool cuda_module_wants_text(struct device_module *module);
uint64_t cuda_module_bytes(struct device_module *module);
int cuda_module_lighten(struct device_module *module);
int cuda_function_get(
	struct device_module *module, const char *name, struct device_function **function);
int cuda_function_name(struct device_module *module, unsigned index, char *name, size_t size);
void cuda_function_info(struct device_function *function, struct device_function_info *info);
void cuda_function_param(
	struct device_function *function, unsigned index, uint32_t *offset, uint32_t *bytes);
uint32_t cuda_function_occupancy(
	struct device_function *function, uint32_t block_threads, uint32_t shared_bytes);
int cuda_global_get(
	struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes);
int cuda_function_clusters(
	struct device_function *function, const struct device_launch *launch, uint32_t *count);
int cuda_tensor_map(struct device *device, const struct record_tensor_map *wanted,
	uint8_t map[TENSOR_MAP_BYTES]);
/* A launch as the driver wants it, which is then told to let its function have what it asks for. */
struct launch_config {
	CUlaunchConfig config; /* points to attributes */
	CUlaunchAttribute attributes[2];
};
CUresult cuda_launch_config(
	const struct device_launch *launch, struct launch_config *config, CUstream stream);

/* batch.c */
#define BATCH_SMALL 4
#define BATCH_LARGE 16
#define BATCH_MAX 64
struct batch {
	struct device_command *commands[BATCH_MAX];
	unsigned count;
	bool row; /* launches of which the client said that they belong together */
};
/* With the context. Without graphs, which is no failure, launches go one by one. */
void batches_open(struct device *device);
void batches_close(struct device *device);
/* Has the driver take the device memory that graphs will ever need, which it keeps. */
void batches_take_memory(struct device *device);
/* What of the chain can go as one; false: not even the first few. */
bool batch_gather(struct device_command *first, struct batch *batch);
/* The issuer's. False: they are to go one by one. */
enum issued batch_launch(struct device_queue *queue, const struct batch *batch, bool brief);
/* Nothing is on the queue any more. */
void batches_leave_queue(struct device_queue *queue);
/* No graph has the module's functions from here on; those under way come to their end. */
void batches_leave_module(struct device_module *module);

/* command.c. On the stream, in the context. False: it would take long, and is to be brief. */
bool command_issue(struct device_space *space, CUstream stream,
	const struct device_command *command, bool brief, CUresult *result);

/* issue.c */
int issuer_start(struct device *device);
void issuer_stop(struct device *device);
void cuda_submit(struct device_queue *queue, struct device_command *command);
bool cuda_follow(struct device_queue *queue, struct device_queue *awaited);
void issuer_submit(struct device_queue *queue, struct device_command *command);
/* The poller's. The rest of a row of launches that has not come is waited for no more. */
void issuer_end_hold(struct device *device);
/* A mark behind what has waited for one, now that the device has reached the one before. Not if somebody issues: that
 * one sees to it, or the poller comes again. */
void issuer_mark_behind(struct device *device, struct device_queue *queue);
/* What follows several commands that are done at once is issued at once: as one, perhaps (batch.c). Only while the device
 * has more to do; and where launches are shorter than issuing them, the issuing thread begins with the first. */
void issuer_gather(struct device *device);
void issuer_issue_gathered(struct device *device);

/* preempt.c */
int cuda_preempt(struct device_space *space, bool loops);
/* How much memory a module is to have for blocks that leave in the middle; 0: none do. */
uint64_t preempt_kept_bytes(const struct device *device);
bool cuda_pause(struct device *device, bool pause);
void preempt_submit(struct device_queue *queue, struct device_command *command);
/* With the context. Nothing is done where kernels do not leave between blocks. */
int preempt_context_open(struct device *device);
void preempt_context_close(struct device *device);
void preempt_destroy(struct device *device);

/* queue.c */
int cuda_queue_create(struct device_space *space, int priority, struct device_queue **queue);
void queue_put(struct device_queue *queue);
void cuda_queue_destroy(struct device_queue *queue);
/* part.c. Its stream, in the context that there is: when it is made, when it is bound, and in each context anew. */
int queue_open_stream(struct device_queue *queue);
void queue_close_stream(struct device_queue *queue);
int cuda_queue_bind(struct device_queue *queue, uint32_t first, uint32_t count);
/* How many multiprocessors parts are multiples of; 0: the driver makes none. */
uint32_t part_step(const struct driver *driver, CUdevice ordinal);
/* The poller is to look at it. */
void queue_list(struct device_queue *queue);
/* The poller looks at it no more, until something is on it again. Now nothing is. */
void queue_unlist(struct device_queue *queue);
bool cuda_poll(struct device *device);

/* print.c. Catches what the driver writes to standard output for kernels that print. */
int print_catch(struct device *device);
void print_release(struct device *device);
/* Hands on what has been printed. The caller knows that the printing kernels are done. */
void print_flush(struct device *device);

#endif

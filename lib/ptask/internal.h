/* SPDX-License-Identifier: MIT
 *
 * What the files of libgdev-ptask know of each other. The public contracts are in gdev/ptask.h, the design in
 * docs/ptask.md.
 *
 * Locks. graph->lock guards everything of a graph but what says otherwise; functions with a graph's object as their first
 * parameter are called with it held, unless they say that they take it. It is not held while a thread waits for the device
 * or runs a callback; it is held while a datablock of the program's memory is copied to the device for an invocation.
 * graph->notice_lock is a leaf.
 */
#ifndef GDEV_LIB_PTASK_INTERNAL_H
#define GDEV_LIB_PTASK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "gdev/ptask.h"

#define BYTES_MAX (1ull << 47)
#define NAME_MAX_BYTES 48
#define CAPACITY_DEFAULT 8

/* ---- lanes (lane.c): streams of the graph ----
 *
 * Each device has LANES_A_DEVICE of them. Lanes of all devices are counted through, so that a point names its device. */

#define DEVICES_MAX GDEV_GRAPH_DEVICES_MAX
#define LANES_A_DEVICE (1 + GDEV_GRAPH_LANES_MAX)
#define LANES_MAX (DEVICES_MAX * LANES_A_DEVICE)
#define LANE_IN 0    /* of a device: copies to it; ptasks have the others, */
#define LANE_FIRST 1 /* from this one on */

static inline unsigned device_of(unsigned lane)
{
	return lane / LANES_A_DEVICE;
}

static inline unsigned lane_in(unsigned device)
{
	return device * LANES_A_DEVICE + LANE_IN;
}

/* A command of a lane, by the number of its stream's timeline. Value 0: none. */
struct point {
	unsigned lane;
	uint64_t value;
};

struct lane {
	struct gdev_stream *stream; /* NULL: not needed yet */
	struct gdev_stream *notify; /* waits for its points, to tell the host; likewise */
	uint32_t timeline;
	uint64_t seen[LANES_MAX]; /* of each lane: this one waits for that already */
	uint64_t launched;        /* its last kernel */
};

int lane_create(struct gdev_graph *graph, unsigned lane);
/* The lane that all ptasks of the first device have; LANE_IN: they have several. */
unsigned lane_of_all(const struct gdev_graph *graph);
/* In which lane of that device contents come that a ptask of `lane` takes. In its own: then it need not wait for another's,
 * which takes some 10 us on an NVIDIA GPU. But large contents come beside a kernel, and not behind it; and where this process
 * copies to the device's memory itself, it would have to wait for the lane. */
unsigned lane_to_bring(struct gdev_graph *graph, unsigned lane, uint64_t bytes);
/* The lane of the device in which the ptask is invoked next. */
unsigned lane_to_invoke(struct gdev_ptask *ptask, unsigned device);
/* Later commands of the lane come after the point. */
int lane_follow(struct gdev_graph *graph, unsigned lane, struct point point);
/* The last command that was sent. */
struct point lane_end(const struct gdev_graph *graph, unsigned lane);
struct gdev_fence point_fence(const struct gdev_graph *graph, struct point point);
/* Whether it is reached; false, too, when the session has failed. */
bool point_reached(struct gdev_graph *graph, struct point point);
/* The error of a command that is over, as that of the graph from here on; 0: there was none. */
int lanes_error(struct gdev_graph *graph);

/* ---- device memory (buffer.c) ---- */

#define BUFFER_CLASSES (4 * 40)

/* Memory of a device, of a size class. Its user follows `used` before it writes there. */
struct buffer {
	struct list link; /* of its class, when free: the longest unused last */
	uint64_t address;
	unsigned device, class;   /* class: or BUFFER_GATHERED */
	uint64_t used[LANES_MAX]; /* of each lane: the last command that uses it */
};

#define BUFFER_GATHERED BUFFER_CLASSES

struct buffer_class {
	struct list free;
	unsigned free_count;
};

struct device;

void buffers_init(struct device *device);
void buffers_finish(struct device *device);
/* On the lane's device, for its commands, which wait for those that have used it. */
int buffer_take(struct gdev_graph *graph, uint64_t bytes, unsigned lane, struct buffer **buffer);
void buffer_give(struct gdev_graph *graph, struct buffer *buffer);
/* gather.c: buffers of small contents that the program writes, on the graph's one device; with the lock. The datablock has one,
 * and host memory of its own, where the caller writes the contents. False: there is none. */
bool gather_take(struct gdev_datablock *block);
/* They are there. */
void gather_written(struct gdev_datablock *block);
/* Sends them in the lane, with all that are there and are not sent. They may have been sent, or be changed by the program: then it does
 * nothing. */
int gather_send(struct gdev_datablock *block, unsigned lane);
/* The program changes them: it is not sent with others. */
void gather_hold(struct gdev_datablock *block);
/* Its host memory stays when the device is closed. -ENOMEM: it is as it was. */
int gather_leave(struct gdev_datablock *block);
void gather_give(struct device *device, struct buffer *buffer);
void gather_finish(struct device *device);
/* The lane's later commands come after all that have used it. */
int used_follow(struct gdev_graph *graph, unsigned lane, const uint64_t used[LANES_MAX]);

/* ---- templates and datablocks (template.c, block.c) ---- */

struct gdev_template {
	struct list link;
	struct gdev_graph *graph;
	char name[NAME_MAX_BYTES];
	struct gdev_shape shape;
	uint64_t bytes; /* the most that a datablock has */
	uint32_t
		id; /* for the owner, if that is another process (contribute.c); 0: none. So below */
	struct gdev_template
		*here; /* in this process's own session (bridge.c); NULL: none. So below */
};

/* For whom something is done (proxy.c): how urgent that one is, and the process, if it is another one. */
struct whom {
	int proxy;
	int32_t process; /* 0: this one */
};

/* Contents never change once they are complete: what a function changes in place is a new datablock that takes the buffer
 * over. */
struct gdev_datablock {
	struct list link; /* of the graph's */
	struct gdev_graph *graph;
	struct gdev_template *tmpl;
	atomic_uint refs;
	uint64_t id; /* never reused */
	uint64_t bytes, records;
	bool pushed; /* the program cannot change it any more */
	bool made;   /* by a function: it is on a device */
	struct whom whom;

	/* The buffer map: where the contents are. A view that is there stays until the datablock is gone. */
	void *host;        /* NULL: not there */
	bool host_current; /* has the contents */
	bool wrapped;      /* is the program's */
	void (*release)(void *argument);
	void *argument;
	struct view {
		struct buffer *buffer; /* NULL: not there */
		bool current;
		struct point written; /* the command after which it has them */
	} views[DEVICES_MAX];

	/* Of a graph that another process owns (remote.c). */
	uint32_t slot; /* its id for the owner; REMOTE_NO_SLOT */
	int32_t brought; /* what the owner said when it was asked for the contents; 1: nothing yet; 0: nobody has asked */
	bool dropped;    /* the program has no reference any more, and the owner hears of it */
	uint64_t offset; /* where it is in its memory; GRAPH_NOWHERE */
	struct gdev_channel *channel; /* that gave it */
};

/* As gdev_template_open(). */
int template_create(struct gdev_graph *graph, const char *name, const struct gdev_shape *shape,
	struct gdev_template **created);
/* Elements of a datablock; a template's are bytes / stride. */
uint64_t shape_elements(const struct gdev_shape *shape);
/* Whether a datablock of it can have so many bytes. */
bool template_allows(const struct gdev_template *tmpl, uint64_t bytes);
/* Whether datablocks of one fit where the other is asked for; NULL fits everywhere. */
bool template_fits(const struct gdev_template *from, const struct gdev_template *to);

int block_create(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	struct gdev_datablock **block);
/* The program has no reference; the graph's lock is held. */
void block_put(struct gdev_datablock *block);
/* When there are no others left. */
void blocks_free_spare(struct gdev_graph *graph);
/* Contents on the lane's device, for its next command, which the caller notes by block_used(). */
int block_on_device(struct gdev_datablock *block, unsigned lane);
/* By a command of the device itself. */
void block_used(struct gdev_datablock *block, struct point point);
/* The lane's last command brings them to its device. */
void block_sent(struct gdev_datablock *block, unsigned lane);
/* A device that has the contents; -1: none does. */
int block_device(const struct gdev_datablock *block);
/* After which command one does, if any. */
struct point block_written(const struct gdev_datablock *block);
/* Whether they can come to the device without the host. */
bool block_reaches(const struct gdev_datablock *block, unsigned device);
/* Whether contents are, or can be, in host memory without waiting for the device. */
bool block_complete(struct gdev_datablock *block);
/* Takes the lock. Contents in host memory; waits for the device. */
int block_to_host(struct gdev_datablock *block);

/* ---- ptasks, ports, channels (build.c) ---- */

/* Who has opened a ptask or a channel. Of several of one name the least of these counts: nobody takes a name from the owner. */
enum opener {
	BY_OWNER,
	BY_USER,
	BY_STRANGER,
	OPENERS
}; /* USER: another process of the owner's user */

/* A variable of a module that ports are bound to. */
struct variable {
	struct list link;
	const struct gdev_module *module;
	char *name;
	uint64_t address, bytes;
	uint64_t holds; /* the datablock that was copied there last */
	struct point written;
	uint64_t used[LANES_MAX];
};

struct gdev_graph_module {
	struct list link;
	struct gdev_graph *graph;
	struct gdev_module *on[DEVICES_MAX]; /* NULL: there is no code for the device in it */
	uint32_t id;
	struct gdev_graph_module *here;
};

struct gdev_port {
	struct list link; /* of the ptask's inputs or outputs */
	struct gdev_ptask *ptask;
	char name[NAME_MAX_BYTES];
	enum gdev_port_kind kind;
	enum gdev_binding binding;
	struct gdev_template *tmpl;
	struct gdev_param parameter;
	struct gdev_param count; /* size 0: none */
	struct variable *variables[DEVICES_MAX];
	struct gdev_port *in_out, *size;
	bool changed_in_place;        /* an input that an output names as in_out */
	struct gdev_channel *channel; /* of an input */
	struct list channels;         /* of an output */
	struct gdev_datablock *block; /* Occupied */
	uint32_t id;
	struct gdev_port *here;
};

struct gdev_channel {
	struct list link, from_link;
	struct gdev_graph *graph;
	struct gdev_port *from, *to;
	char name[NAME_MAX_BYTES];
	struct gdev_template *tmpl;
	unsigned capacity, first, count;
	struct gdev_datablock **queue;
	struct feed *feed; /* a descriptor is the other end; NULL: the program, or a port */
	unsigned mode;     /* for other processes */
	bool keep;
	enum opener opener;
	unsigned pushers, pullers; /* other processes' ends (requests.c) */
	struct remote_end *
		remote; /* of a graph that another process owns; NULL: not opened for pushing or pulling */
	uint32_t id;
	bool outer; /* of such a graph: it has a port at one end alone */
	unsigned
		waiters; /* threads that wait for a datablock of it, in schedules that look at priorities, */
	struct whom waiter; /* and the most urgent since nobody did */
	bool owed;          /* `from` has a datablock for it, for which it has no room */
	bool ended;         /* nothing more comes in */
	bool broken;        /* nobody takes anything out any more */
};

struct gdev_ptask {
	struct list link;
	/* Of graph->work: something of it has changed; of graph->hosts: the host is to see to it; of graph->ready: it waits for a
	 * device. */
	struct list work;
	struct gdev_graph *graph;
	char name[NAME_MAX_BYTES];
	struct list inputs, outputs;
	unsigned input_count, output_count;

	gdev_callback *callback; /* NULL: a function */
	void *argument;
	struct gdev_function *functions[DEVICES_MAX]; /* NULL: there is none for the device */
	bool fits[DEVICES_MAX];                       /* the device can run it (run.c) */
	struct gdev_graph_module *module;
	const struct gdev_function_info *info; /* of a function; NULL: there is none here */
	uint8_t *params;                       /* with the arguments that never change */
	uint8_t *bound;                        /* of each parameter: it has a port or an argument */
	bool grid_set, block_set;
	uint32_t grid[3], threads[3], shared_bytes;

	unsigned lane;         /* of whichever device */
	bool lane_given;       /* to one that it feeds */
	unsigned feeds;        /* channels from ptasks that have no lane yet */
	struct point last;     /* its last invocation */
	bool calling;          /* the host sees to it just now */
	bool waits_for_host;   /* in graph->hosts */
	bool waits_for_device; /* in graph->ready */
	bool staged; /* the host brings all its inputs: devices do not reach one another */
	bool ended;
	int priority, proxy;
	bool awaited; /* somebody waits for what comes of it, as of the last look (proxy.c), */
	struct whom awaiter; /* the most urgent of them */
	uint64_t ready_ns;   /* since when it waits for a device */
	double average_wait_ms, average_run_ms;
	uint64_t moved;
	uint64_t mark;            /* of the last search that came here, */
	struct gdev_ptask *below; /* and what a search looks at next */
	uint64_t invocations, skipped;
	uint32_t index; /* in the list, when somebody looks (look.c) */

	int32_t process; /* that has contributed it; 0: the owner */
	enum opener opener;
	struct elsewhere *
		elsewhere; /* it runs in that process's own session (elsewhere.c); NULL: it does not */
	bool draft;        /* of a part that is not complete (parts.c) */
	uint32_t id;
	struct gdev_ptask *here;
};

/* Without a function: it runs in the session of another process. */
int ptask_open_elsewhere(struct gdev_graph *graph, const char *name, struct gdev_ptask **ptask);
/* Whether a ptask here takes what comes into the channel, or gives it. */
bool port_is_here(const struct gdev_port *port);
/* As the calls of gdev/ptask.h, with the lock, and in a graph that may be built. */
int ptask_open(struct gdev_graph *graph, const char *name, struct gdev_graph_module *module,
	const char *function, struct gdev_ptask **ptask);
int ptask_set_argument(
	struct gdev_ptask *ptask, unsigned parameter, const void *value, uint64_t bytes);
int ptask_set_geometry(struct gdev_ptask *ptask, const uint32_t grid[3], const uint32_t block[3],
	uint32_t shared_bytes);
int port_open(
	struct gdev_ptask *ptask, const struct gdev_port_options *options, struct gdev_port **port);
int port_count(struct gdev_port *port, unsigned parameter);
/* -ENOENT, -ENOTUNIQ. */
int port_named(struct gdev_graph *graph, const char *name, struct gdev_port **port);
void ptask_describe(struct gdev_ptask *ptask, struct gdev_ptask_info *info);
/* -EBUSY: it runs. */
int graph_may_build(struct gdev_graph *graph);
/* run.c: what gdev_graph_run() checks of one that is a function, but for its channels. */
int ptask_check(struct gdev_ptask *ptask);
/* Text for gdev_graph_why(); returns `error`. */
__attribute__((format(printf, 3, 4))) int graph_complain(
	struct gdev_graph *graph, int error, const char *format, ...);
void copy_name(char to[NAME_MAX_BYTES], const char *name, const char *otherwise);
void ptask_free(struct gdev_ptask *ptask);
enum gdev_ptask_state ptask_state(struct gdev_ptask *ptask);
/* As gdev_channel_open(). */
int channel_open(struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to,
	const struct gdev_channel_options *options, struct gdev_channel **channel);
void channel_free(struct gdev_channel *channel);
/* As if it had not been opened. */
void channel_close(struct gdev_channel *channel);

/* ---- flow (flow.c): states, and what follows from what ---- */

/* Something of the ptask has changed. */
void ptask_touch(struct gdev_ptask *ptask);
/* Does all that can be done without waiting. */
void graph_flow(struct gdev_graph *graph);
/* The ptask's outputs are in its ports; its inputs are used up. */
void ptask_consume(struct gdev_ptask *ptask);
void ptask_end(struct gdev_ptask *ptask);
/* Datablocks at its ports. */
void ptask_drop_all(struct gdev_ptask *ptask);
/* The first error of a graph is its error. */
void graph_fail(struct gdev_graph *graph, int error, const struct gdev_ptask *ptask);
void channel_put(struct gdev_channel *channel, struct gdev_datablock *block);
struct gdev_datablock *channel_take(struct gdev_channel *channel);
void channel_drop_all(struct gdev_channel *channel);

/* invoke.c: a function whose inputs are there is sent to the device, or skipped. What the host reads is in host memory. */
void ptask_invoke(struct gdev_ptask *ptask, unsigned device);

/* schedule.c: ptasks that wait for a device (5.1). */

/* Whether any ptask waits for one: on one device first-available needs no queue. */
bool schedule_queues(const struct gdev_graph *graph);
void schedule_add(struct gdev_ptask *ptask);
/* Sends one of those that wait to a device, if there is one for it; else we shall be told when to look again. */
bool schedule_next(struct gdev_graph *graph);

/* proxy.c: for whom ptasks work (5.1). */

/* Whether anybody asks: the schedule, or gdevd, which ranks what is done for other processes. */
bool proxies_count(const struct gdev_graph *graph);
/* By the kernel: the calling thread; the first thread of a process, which is as urgent as it was if it is gone. */
struct whom whom_calls(void);
struct whom whom_is(int32_t process, int was);
struct whom more_urgent(struct whom one, struct whom two);
void block_pushed_by(struct gdev_datablock *block, struct whom whom);
/* A thread waits for a datablock of the channel, until channel_await_no_more(). */
void channel_await(struct gdev_channel *channel, struct whom whom);
void channel_await_no_more(struct gdev_channel *channel);
/* What is in the ptask's output ports is for whom its inputs are. */
void ptask_hand_on(struct gdev_ptask *ptask);
/* With what the program has set. */
int ptask_proxy(struct gdev_ptask *ptask);
/* What is submitted from here on is for whom the ptask works. Returns what gdev_submit_for() then takes. */
int32_t ptask_submits(struct gdev_ptask *ptask);

/* flow.c: the host is to see to the ptask. */
void ptask_needs_host(struct gdev_ptask *ptask);
bool is_read_by_host(const struct gdev_port *port);

/* ---- the host's part (host.c) ---- */

/* Sees to one ptask that waits for the host, if it can be done without waiting; gives the lock up meanwhile. */
bool host_serve(struct gdev_graph *graph);
/* Ends the thread, and waits for notices. Takes the lock. */
void host_stop(struct gdev_graph *graph);
/* There is a thread, unless the graph is manual, that looks again when a notice comes. */
void host_start(struct gdev_graph *graph);
/* Whoever runs callbacks has something to do. */
void host_wake(struct gdev_graph *graph);
/* The descriptor, or the graph's thread, is told when the point is reached. */
void host_notice(struct gdev_graph *graph, struct point point, bool program);

/* ---- channels from and to descriptors (feed.c) ---- */

struct feed;

/* Reads and writes what can be without waiting; gives the lock up meanwhile. Whether there was anything. */
bool feeds_serve(struct gdev_graph *graph);
void feed_free(struct feed *feed);

/* ---- the timeline of `gdev trace` (spans.c) ---- */

/* Of what the calling thread does from here on, until span_end(); 0: nobody traces. */
static inline uint64_t span_begin(void)
{
	return gdev_traced() ? gdev_trace_begin() : 0;
}

/* `what` is a literal. */
void span_end(uint64_t begin_ns, const char *what, const char *name, int status);

/* ---- graphs that other processes open ----
 *
 * publish.c: the name, at gdevd, and who comes. members.c: the processes that have come; requests.c: what they ask; look.c: what
 * they are told of the graph. All of it is done on the graph's thread, or by gdev_graph_advance(). */

struct publication;

/* landing.c: nothing is on its way any more. */
void landings_finish(struct device *device);

/* The graph has a name for others from now on. */
int publish(struct gdev_graph *graph, const struct gdev_graph_options *options);
/* What has come is seen to; gives the lock up meanwhile. Whether there was anything. */
bool members_serve(struct gdev_graph *graph);
/* From now on members say so when they ask for something. False: one has by now. */
bool members_sleep(struct gdev_graph *graph);
/* Whether there may be something new at the descriptors of publish.c. */
void members_knock(struct gdev_graph *graph, bool some);
/* The thread has done something that may have taken long: the next turn looks at all of them, and tells members of all. */
void members_waited(struct gdev_graph *graph);
/* What members see may have changed. */
void members_wake(struct gdev_graph *graph);
/* Nobody comes any more, and all leave. Takes the lock. */
void publish_stop(struct gdev_graph *graph);
/* Readable when something has come; -1: the graph has no name. */
int members_descriptor(const struct gdev_graph *graph);
/* After all datablocks are gone. */
void publish_free(struct gdev_graph *graph);
/* parts.c: parts of members that are not complete go, as if they had never been. */
void parts_drop_drafts(struct gdev_graph *graph);
/* Of those of one name: counts one, and whether there was another that counts more, or as much. Then -ENOENT, -ENOTUNIQ, or 0. */
bool found_before(unsigned counts[OPENERS], enum opener opener);
int found_one(const unsigned counts[OPENERS]);
/* The channel of a name (gdev_channel_find()). */
int channel_named(struct gdev_graph *graph, const char *name, struct gdev_channel **channel);

/* remote.c, attach.c, traffic.c: graphs that another process owns. Each takes the lock. */
struct remote;
#define REMOTE_NO_SLOT UINT32_MAX

void remote_close(struct gdev_graph *graph);
/* After all datablocks are gone. */
void remote_free(struct gdev_graph *graph);
/* A datablock is being freed; with the lock. */
void remote_forget(struct gdev_datablock *block);
int remote_descriptor(const struct gdev_graph *graph);
int remote_push(struct gdev_channel *channel, struct gdev_datablock *block, uint64_t deadline_ns);
int remote_pull(struct gdev_channel *channel, bool bytes, uint64_t deadline_ns,
	struct gdev_datablock **block);
int remote_end(struct gdev_channel *channel);
int remote_find(struct gdev_graph *graph, const char *name, uint64_t deadline_ns,
	struct gdev_channel **channel);
int remote_create(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	struct gdev_datablock **block);
/* contribute.c: what this process opens in such a graph; as the calls of gdev/ptask.h. */
int remote_load(struct gdev_graph *graph, const void *image, size_t bytes, char *log,
	size_t log_bytes, struct gdev_graph_module **module);
int remote_template_open(struct gdev_graph *graph, const char *name, const struct gdev_shape *shape,
	struct gdev_template **tmpl);
int remote_ptask_open(struct gdev_graph *graph, const char *name, struct gdev_graph_module *module,
	const char *function, struct gdev_ptask **ptask);
int remote_set_argument(
	struct gdev_ptask *ptask, unsigned parameter, const void *value, size_t bytes);
int remote_set_geometry(struct gdev_ptask *ptask, const uint32_t grid[3], const uint32_t block[3],
	uint32_t shared_bytes);
int remote_set_priority(struct gdev_ptask *ptask, int priority, int proxy);
int remote_ptask_query(struct gdev_ptask *ptask, struct gdev_ptask_info *info);
int remote_port_open(
	struct gdev_ptask *ptask, const struct gdev_port_options *options, struct gdev_port **port);
int remote_port_count(struct gdev_port *port, unsigned parameter);
int remote_port_find(
	struct gdev_graph *graph, const char *name, uint64_t deadline_ns, struct gdev_port **port);
int remote_channel_open(struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to,
	const struct gdev_channel_options *options, struct gdev_channel **channel);
int remote_run(struct gdev_graph *graph);
/* What it knows of all that; the graph is being freed. */
void remote_forget_parts(struct gdev_graph *graph);
/* Its contents, in this process. */
int remote_map(struct gdev_datablock *block, bool write, void **data);
void remote_put(struct gdev_datablock *block);

/* ---- graphs (graph.c) ---- */

/* A call of the host thread of libgdev when a point is reached. */
struct notice {
	struct gdev_graph *graph;
	bool armed;   /* notice_lock */
	bool program; /* tells the program, too */
};

#define AHEAD                                                                                      \
	4 /* invocations that a device has at once, where ptasks queue: one runs, and others are behind it */

struct device {
	struct gdev_graph *graph;
	struct gdev_session *session;
	unsigned multiprocessors;
	bool direct; /* this process may copy to its memory by itself */
	double strength;
	struct gdev_stream *out; /* copies from it */
	uint8_t *landing;        /* page-locked memory for small ones, for members (landing.c), */
	uint64_t landings;       /* and which parts of it are in use */
	struct buffer_class classes[BUFFER_CLASSES];
	struct gather *gather; /* NULL: small contents go alone, as yet */
	bool ungathered;       /* and for ever, as memory for it was asked for already */
	struct invocation {
		struct gdev_ptask *ptask;
		struct point point;
		uint64_t began_ns;
	} ahead[AHEAD]; /* oldest first */
	unsigned ahead_count;
	uint64_t ended_ns; /* when one was last seen to have ended */
};

struct gdev_graph {
	char name[NAME_MAX_BYTES];
	unsigned forks; /* in the process that it belongs to */
	struct device *devices;
	unsigned device_count, lane_count, lanes_wanted;
	unsigned lanes_used;  /* no lane from here on has a stream */
	unsigned ptask_lanes; /* that ptasks have of each device */
	bool adapts, narrow;  /* all ptasks are in the first of these, now (lane.c) */
	unsigned unlooked;    /* invocations since the last look at what they take, */
	uint64_t looked_ns;   /* and what all had taken by then */
	enum gdev_schedule schedule;
	bool manual;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* for those that wait in calls */
	struct list modules, templates, ptasks, channels, variables, blocks, feeds;
	struct list spare; /* datablocks that are gone, for the next ones */
	unsigned spare_count;
	uint64_t next_id;
	bool running, terminated, closed;
	bool waits_changed; /* who waits for what (proxy.c) */
	int error;
	char why[GDEV_WHY_BYTES];
	char *aside; /* where words go instead, while a member's call is served (parts.c); NULL: nowhere else */

	struct list work, hosts, ready;
	double average_run_ms; /* of all ptasks: what is expected of one that has not run */
	struct lane *lanes;

	pthread_t thread;
	bool threaded, stopping, asleep;
	bool serving;           /* a thread runs callbacks */
	unsigned members_turns; /* in a row in which members asked for something (host.c) */
	bool advancing;         /* gdev_graph_advance() looks at everything by itself */
	bool woken;             /* there is something new for whoever serves, and is awake */
	int wake, descriptor;   /* eventfds: for the thread, for the program */
	int watch;              /* epoll: descriptors that are not ready; -1: there are none */
	int manual_poll;        /* epoll: `descriptor` and `watch`; -1: not manual */
	bool refused;           /* a call has returned -EAGAIN, and nothing has changed since */
	pthread_mutex_t notice_lock;
	pthread_cond_t noticed;
	struct notice notices[LANES_MAX];

	unsigned mode;                   /* permission bits for other processes */
	struct publication *publication; /* other processes open it; NULL: none do */
	struct remote *remote;           /* another process owns it; NULL: this one does */
};

static inline struct gdev_session *session_of(const struct gdev_graph *graph, unsigned lane)
{
	return graph->devices[device_of(lane)].session;
}

/* Loads it on each device. Takes the lock. */
int graph_load(struct gdev_graph *graph, struct gdev_image *image, char *log, size_t log_bytes,
	struct gdev_graph_module **module);
/* Nothing of it is used. It is unloaded without the lock. */
void graph_unload(struct gdev_graph *graph, struct gdev_graph_module *module);
/* No sessions, nothing in it. NULL: no memory. */
struct gdev_graph *graph_create(const struct gdev_graph_options *options);
/* One that has no datablocks, and nothing of which is under way. */
void graph_free(struct gdev_graph *graph);
/* Why no call works, else 0. */
int graph_error(const struct gdev_graph *graph);
/* Takes the lock; why no call works, else 0: that the graph is another process's is one reason. After an error the lock is
 * not held. */
int graph_enter(struct gdev_graph *graph);
/* Gives the lock back. */
void graph_leave(struct gdev_graph *graph);
/* What calls may wait for has changed. */
void graph_changed(struct gdev_graph *graph);
/* Waits, with the lock, until something has changed. -EAGAIN, -ETIMEDOUT, or why no call works any more. */
int graph_wait(struct gdev_graph *graph, uint64_t deadline_ns);
/* As graph_leave(), after something has gone: frees a closed graph that has no datablocks any more. */
void graph_release(struct gdev_graph *graph);
/* Not of a parent of this process. Without the lock. */
bool graph_is_ours(const struct gdev_graph *graph);

#endif

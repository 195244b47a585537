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

/* ---- lanes (lane.c): streams of the graph ---- */

#define LANES_MAX 9
#define LANE_IN 0 /* copies to the device; ptasks have the others */

/* A command of a lane, by the number of its stream's timeline. Value 0: none. */
struct point {
	unsigned lane;
	uint64_t value;
};

struct lane {
	struct gdev_stream *stream; /* NULL: not needed yet */
	uint32_t timeline;
	uint64_t seen[LANES_MAX]; /* of each lane: this one waits for that already */
};

int lane_create(struct gdev_graph *graph, unsigned lane);
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

/* Device memory of a size class. Its user follows `used` before it writes there. */
struct buffer {
	struct list link; /* of its class, when free: the longest unused first */
	uint64_t address;
	unsigned class;
	uint64_t used[LANES_MAX]; /* of each lane: the last command that uses it */
};

struct buffer_class {
	struct list free;
	unsigned free_count;
};

void buffers_init(struct gdev_graph *graph);
void buffers_finish(struct gdev_graph *graph);
/* For commands of the lane, which waits for those that have used it. */
int buffer_take(struct gdev_graph *graph, uint64_t bytes, unsigned lane, struct buffer **buffer);
void buffer_give(struct gdev_graph *graph, struct buffer *buffer);
/* The lane's later commands come after all that have used it. */
int used_follow(struct gdev_graph *graph, unsigned lane, const uint64_t used[LANES_MAX]);

/* ---- templates and datablocks (template.c, block.c) ---- */

struct gdev_template {
	struct list link;
	struct gdev_graph *graph;
	char name[NAME_MAX_BYTES];
	struct gdev_shape shape;
	uint64_t bytes; /* the most that a datablock has */
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

	/* The buffer map: where the contents are. A view that is there stays until the datablock is gone. */
	void *host;        /* NULL: not there */
	bool host_current; /* has the contents */
	bool wrapped;      /* is the program's */
	void (*release)(void *argument);
	void *argument;
	struct buffer *device; /* NULL: not there */
	bool device_current;
	struct point written; /* the command after which `device` has them */
};

/* Elements of a datablock; a template's are bytes / stride. */
uint64_t shape_elements(const struct gdev_shape *shape);
/* Whether datablocks of one fit where the other is asked for; NULL fits everywhere. */
bool template_fits(const struct gdev_template *from, const struct gdev_template *to);

int block_create(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	struct gdev_datablock **block);
/* The program has no reference; the graph's lock is held. */
void block_put(struct gdev_datablock *block);
/* Contents on the device, for the lane's next command, which the caller notes by block_used(). */
int block_on_device(struct gdev_datablock *block, unsigned lane);
void block_used(struct gdev_datablock *block, struct point point);
/* Whether contents are, or can be, in host memory without waiting for the device. */
bool block_complete(struct gdev_datablock *block);
/* Takes the lock. Contents in host memory; waits for the device. */
int block_to_host(struct gdev_datablock *block);

/* ---- ptasks, ports, channels (build.c) ---- */

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
	struct gdev_module *module;
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
	struct variable *variable;
	struct gdev_port *in_out, *size;
	bool changed_in_place;        /* an input that an output names as in_out */
	struct gdev_channel *channel; /* of an input */
	struct list channels;         /* of an output */
	struct gdev_datablock *block; /* Occupied */
};

struct gdev_channel {
	struct list link, from_link;
	struct gdev_graph *graph;
	struct gdev_port *from, *to;
	char name[NAME_MAX_BYTES];
	struct gdev_template *tmpl;
	unsigned capacity, first, count;
	struct gdev_datablock **queue;
	bool owed;   /* `from` has a datablock for it, for which it has no room */
	bool ended;  /* nothing more comes in */
	bool broken; /* nobody takes anything out any more */
};

struct gdev_ptask {
	struct list link;
	struct list
		work; /* of graph->work: something of it has changed; or of graph->hosts: the host is to see to it */
	struct gdev_graph *graph;
	char name[NAME_MAX_BYTES];
	struct list inputs, outputs;
	unsigned input_count, output_count;

	gdev_callback *callback; /* NULL: a function */
	void *argument;
	struct gdev_function *function;
	struct gdev_module *module;
	const struct gdev_function_info *info;
	uint8_t *params; /* with the arguments that never change */
	uint8_t *bound;  /* of each parameter: it has a port or an argument */
	bool grid_set, block_set;
	uint32_t grid[3], threads[3], shared_bytes;

	unsigned lane;
	bool lane_given;     /* to one that it feeds */
	unsigned feeds;      /* channels from ptasks that have no lane yet */
	struct point last;   /* its last invocation */
	bool calling;        /* the host sees to it just now */
	bool waits_for_host; /* in graph->hosts */
	bool ended;
	uint64_t mark;            /* of the last search that came here, */
	struct gdev_ptask *below; /* and what it looks at next */
	uint64_t invocations, skipped;
};

/* Text for gdev_graph_why(); returns `error`. */
__attribute__((format(printf, 3, 4))) int graph_complain(
	struct gdev_graph *graph, int error, const char *format, ...);
void copy_name(char to[NAME_MAX_BYTES], const char *name, const char *otherwise);
void ptask_free(struct gdev_ptask *ptask);
void channel_free(struct gdev_channel *channel);

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
void ptask_invoke(struct gdev_ptask *ptask);
bool is_read_by_host(const struct gdev_port *port);

/* ---- the host's part (host.c) ---- */

/* Sees to one ptask that waits for the host, if it can be done without waiting; gives the lock up meanwhile. */
bool host_serve(struct gdev_graph *graph);
/* Ends the thread, and waits for notices. Takes the lock. */
void host_stop(struct gdev_graph *graph);
/* Whoever runs callbacks has something to do. */
void host_wake(struct gdev_graph *graph);
/* The descriptor, or the graph's thread, is told when the point is reached. */
void host_notice(struct gdev_graph *graph, struct point point, bool program);

/* ---- graphs (graph.c) ---- */

/* A call of the host thread of libgdev when a point is reached. */
struct notice {
	struct gdev_graph *graph;
	bool armed;   /* notice_lock */
	bool program; /* tells the program, too */
};

struct gdev_graph {
	char name[NAME_MAX_BYTES];
	pid_t process;
	struct gdev_session *session;
	bool manual;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* for those that wait in calls */
	struct list modules, templates, ptasks, channels, variables, blocks;
	uint64_t next_id;
	bool running, terminated, closed;
	int error;
	char why[GDEV_WHY_BYTES];

	struct list work, hosts;

	struct lane lanes[LANES_MAX];
	struct gdev_stream *out;    /* copies from the device */
	struct gdev_stream *notify; /* waits for points, to tell the host */
	struct buffer_class classes[BUFFER_CLASSES];

	pthread_t thread;
	bool threaded, stopping, asleep;
	bool serving;         /* a thread runs callbacks */
	int wake, descriptor; /* eventfds: for the thread, for the program */
	bool refused;         /* a call has returned -EAGAIN, and nothing has changed since */
	pthread_mutex_t notice_lock;
	pthread_cond_t noticed;
	struct notice notices[LANES_MAX];
};

/* Takes the lock; why no call works, else 0. After an error the lock is not held. */
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

/* SPDX-License-Identifier: MIT
 *
 * PTask: dataflow graphs as objects of the system, after "PTask: Operating System Abstractions To Manage GPUs as Compute
 * Devices" (SOSP 2011); sections are cited. A program states what flows where, and writes no copy.
 *
 * A graph has ptasks: functions of a module, which run on the device, and callbacks, which run in the process. A ptask has
 * ports; channels connect ports; datablocks flow through channels; templates say what datablocks look like. When each input
 * port of a ptask has a datablock, the ptask is invoked, and each of its output ports gets a new one. docs/ptask.md says
 * how it works.
 *
 * Conventions. Calls return 0 or a negative code (gdev/error.h); a new object comes back through the last parameter, which
 * is untouched on failure. Every call may be made from any thread at any time, except that gdev_graph_close() is the last
 * call on a graph, and gdev_datablock_put() the last one of a reference. Ptasks, ports, channels, templates and modules
 * belong to their graph, and end with it. Names are for messages, are copied, and may be NULL. Sizes are bytes.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC. 0: the call does not wait, and returns -EAGAIN; GDEV_FOREVER: it waits
 * without a limit. When the deadline passes first the call returns -ETIMEDOUT.
 *
 * Failure. When a kernel, a copy or a callback fails, its graph has failed: each call on it returns that error from then on,
 * and gdev_graph_why() names the ptask if that is known. Other graphs do not notice, unless they are in the same session
 * (gdev_graph_options.session). In a forked child every call on a graph of the parent returns -GDEV_E_SESSION_LOST.
 */
#ifndef GDEV_PTASK_H
#define GDEV_PTASK_H

#include <gdev/session.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct gdev_graph;
struct gdev_graph_module;
struct gdev_ptask;
struct gdev_port;
struct gdev_channel;
struct gdev_template;
struct gdev_datablock;

#define GDEV_FOREVER UINT64_MAX

/* ---- graphs ---- */

#define GDEV_GRAPH_DEVICES_MAX 8
#define GDEV_GRAPH_LANES_MAX 8

/* Which of the ptasks that are ready goes to which device (5.1). Where ptasks queue, a device has four invocations at most. */
enum gdev_schedule {
	GDEV_SCHEDULE_FIRST_AVAILABLE, /* on one device: nothing queues; on several: as FIFO */
	GDEV_SCHEDULE_FIFO, /* the one that has waited longest, on the strongest device that can run it and is available */
	GDEV_SCHEDULE_PRIORITY, /* the one of the highest effective priority (Figure 9), likewise */
	/* Likewise, on the device where most of its input is; if that is not available, on another only when its effective
	 * priority is high, or it has waited for long. */
	GDEV_SCHEDULE_DATA_AWARE,
};

struct gdev_graph_options {
	const char *name;
	const char *vgpu; /* where it runs; NULL: the first virtual GPU that the process sees */
	/* Or where, on several devices: vgpu_count names, 1 to GDEV_GRAPH_DEVICES_MAX; each gets a session. */
	const char *const *vgpus;
	unsigned vgpu_count;
	enum gdev_schedule schedule;
	/* Not NULL: the graph runs in this session, whose program keeps it open, and fails with it. NULL: the graph has a
	 * session, and so a worker, of its own. */
	struct gdev_session *session;
	/* No thread runs callbacks, and whatever else waits for the device: the program calls gdev_graph_advance(). */
	bool manual;
	/* How many independent ptasks a device may have under way at a time, up to GDEV_GRAPH_LANES_MAX; 0: one for every
	 * two multiprocessors, but on an NVIDIA GPU one alone as long as kernels are short. A kernel that waits for a callback, or for what another ptask does, needs 2 or more: with
	 * fewer they may stand behind it. */
	unsigned lanes;
	/* Not 0: other processes open the graph by `name`, 1 to 47 of [A-Za-z0-9_.-] of which the first is no dot, until it is
	 * closed. These are permission bits as of a file that is this user's, and of `group` (0: the process's own group): who
	 * may read it looks and pulls, who may write it pushes. The process serves the others on the graph's thread, or, if it
	 * is `manual`, by gdev_graph_advance(). */
	unsigned mode;
	uint32_t group;
	/* For datablocks on their way from, and to, each other process; it is taken as it is used. 0: 256 MiB. */
	uint64_t member_bytes;
};

/* `options` NULL: all zero. Errors as gdev_session_open(); -EINVAL: options that do not fit together. With a mode, also:
 * -EEXIST: the user has a graph of that name; -EDQUOT: or 256 others; -EPERM: `group` is none of the process's groups. */
int gdev_graph_open(const struct gdev_graph_options *options, struct gdev_graph **graph);
/* Terminates the graph, waits for what is on the device and for the callback that runs, and frees the graph, except
 * datablocks to which the program has references: these can only be put. NULL is fine. */
void gdev_graph_close(struct gdev_graph *graph);

/* Opens the graph of another process, or of this one, by its name: `NAME` of this user, `USER/NAME` of another, who is named or
 * a uid. Until the deadline it waits for the graph to be there. -ENOENT: it is not (deadline 0); -ETIMEDOUT; -EACCES: its
 * mode says no; -GDEV_E_NO_DAEMON; -EAGAIN: gdevd may be there soon (deadline 0); -EUSERS: too many processes have it open;
 * -GDEV_E_SESSION_LOST: its process has ended just now.
 *
 * What can be done with it: gdev_channel_find(), and push, pull and end what that gives; datablocks of such channels' templates;
 * gdev_graph_why(), gdev_graph_descriptor(), gdev_graph_close(); and a part of it. Everything else (callbacks, channels from and to
 * descriptors, gdev_datablock_wrap(), gdev_graph_terminate()) returns -EPERM. Datablocks are in
 * memory that both processes map: none is copied on its way, except where a device or another user's program is to have it.
 *
 * A part. A process of the owner's user that may write the graph (of others: gdev_graph_attach_own()) opens modules, templates, ptasks, ports and channels in it, before
 * it runs, by the same calls, with the same errors; -EACCES: the mode says no; -EPERM: it is another user's; -EDQUOT: 1,024
 * objects a process and 8,192 a graph (of other users 128 and 2,048), 256 MiB of code; -EFBIG: an image of more than 64 MiB. Its code runs in the graph's session,
 * on its account. gdev_port_find() names ports of others. gdev_graph_run() says that the part is complete: until then nobody
 * else sees it, and it goes when this process does, or when the owner runs the graph (-ECANCELED from then on). A complete
 * part belongs to the graph, and stays when this process goes. What it opens a channel's one end of, it pushes into or pulls from,
 * from when the graph runs.
 *
 * Ends. When this process closes the graph, or dies, its ends of channels are closed as those of pipes are: a channel
 * from which the last process that pushed is gone ends; one from which the last that pulled is gone drops what comes.
 * (gdev_channel_options.keep: neither.) When the process that owns the graph is gone, calls return -GDEV_E_SESSION_LOST. When it
 * lives and does not answer, calls return -ETIMEDOUT at their deadline, and after 30 s at the latest, but for gdev_graph_load().
 * Attaching, finding, and the first push or pull at an end of this process's part always ask the owner, and with deadline 0 wait
 * for its answer as those without a deadline do. */
int gdev_graph_attach(const char *name, uint64_t deadline_ns, struct gdev_graph **graph);

/* The same, and the ptasks of this process's part run in a session of its own, on that virtual GPU (NULL: the first one that it
 * sees), on its account; so any user's process that may write the graph contributes. Errors also as gdev_graph_open(). What flows to
 * and from its ptasks goes through the memory that both processes map, and over the device's bus; a thread of this process carries
 * it. If its session fails, its part ends as if the process had died, and calls return that error. A channel from another's port:
 * -EACCES: the mode does not let this process read the graph. Its input ports have templates. */
int gdev_graph_attach_own(
	const char *name, const char *vgpu, uint64_t deadline_ns, struct gdev_graph **graph);

/* The graph is complete, and begins: pushed datablocks flow. Nothing can be opened in it any more. In an attached graph: the part of
 * this process is. Checks, and says by
 * gdev_graph_why() with both ends named:
 * -ELOOP: a cycle; -EPIPE: a port without a channel; -EINVAL: a parameter of a function that has no port and no argument,
 * a ptask whose iteration space is not known;
 * -GDEV_E_INVALID_LAUNCH: a ptask whose block is more than any device that has code for it holds. Once. */
int gdev_graph_run(struct gdev_graph *graph);
/* Drops all datablocks that are in the graph. From here on calls on it return -ECANCELED, also those that wait now; those that
 * wait for the device, when that is done. What is on the device already completes. */
int gdev_graph_terminate(struct gdev_graph *graph);

/* What the last construction or gdev_graph_run() that failed, or the failure of the graph, was; "": there is none. */
void gdev_graph_why(struct gdev_graph *graph, char why[GDEV_WHY_BYTES]);

/* Readable when gdev_graph_advance() has something to do, or a call with deadline 0 may have another answer than -EAGAIN
 * since it returned that. The graph's; not to be read. Every thread may poll it. */
int gdev_graph_descriptor(struct gdev_graph *graph);
/* Does what can be done now without waiting for the device; runs callbacks. Of what other processes ask without end it does a
 * part, and the descriptor stays readable. For graphs that are `manual`; -EINVAL in others. */
int gdev_graph_advance(struct gdev_graph *graph);

/* PTX or other code, as gdev_module_load(). Its ptasks run on those of the graph's devices that it has code for; errors: none is. */
int gdev_graph_load(struct gdev_graph *graph, const void *image, size_t bytes, char *log,
	size_t log_bytes, struct gdev_graph_module **module);

/* ---- templates (4.1.1) ---- */

enum gdev_layout {
	GDEV_LAYOUT_FIXED, /* an array of elements: each datablock has all of them */
	GDEV_LAYOUT_RECORDS, /* up to so many elements, or records of any size: a datablock says how many it has */
	GDEV_LAYOUT_OPAQUE, /* bytes: up to so many */
};

struct gdev_shape {
	enum gdev_layout layout;
	uint64_t stride; /* of an element; GDEV_LAYOUT_OPAQUE: 1 */
	uint64_t count
		[3]; /* elements in x, y and z; a 0 in y or z is 1. RECORDS and OPAQUE: in x alone, the most */
};

/* -EINVAL: no elements, or more bytes than 2^47. */
int gdev_template_open(struct gdev_graph *graph, const char *name, const struct gdev_shape *shape,
	struct gdev_template **tmpl);

/* ---- ptasks ---- */

/* A function of a module. -GDEV_E_SYMBOL_NOT_FOUND. */
int gdev_ptask_open(struct gdev_graph *graph, const char *name, struct gdev_graph_module *module,
	const char *function, struct gdev_ptask **ptask);

/* A port's datablock, as a callback sees it. */
struct gdev_view {
	void *data;       /* of an input: only to be read; valid until the callback returns */
	uint64_t bytes;   /* of an output: as many as there is room for */
	uint64_t records; /* elements; of an output that is not FIXED the callback may lower it */
};

/* `inputs` and `outputs` in the order in which the ports were opened. Callbacks of a graph run one at a time, on the
 * graph's thread, with all signals blocked, or on that of gdev_graph_advance(). They may call gdev, but wait for their own
 * graph only without end if another thread pushes or pulls what they wait for. Returns 0; 1: an end, there are no outputs
 * and will be none; a negative code: the graph has failed with it. */
typedef int gdev_callback(
	void *argument, const struct gdev_view *inputs, struct gdev_view *outputs);

/* A ptask of the host. Without input ports it is a source: it runs whenever its output ports are free, until it returns
 * 1. */
int gdev_ptask_open_host(struct gdev_graph *graph, const char *name, gdev_callback *callback,
	void *argument, struct gdev_ptask **ptask);

/* The value of a parameter of the function in every invocation. `bytes` is the parameter's size. -EINVAL; -EEXIST: it has
 * a port. */
int gdev_ptask_set_argument(
	struct gdev_ptask *ptask, unsigned parameter, const void *value, size_t bytes);
/* The iteration space by hand. Otherwise there is a thread for each element of the first output port's datablock (of the
 * first global input port's if there is no output), in blocks of 256, 16 x 16 or 8 x 8 x 4 threads: a kernel looks whether
 * its thread is beyond the last element. `grid` NULL: only the shape of blocks is set, and what is inferred is the grid. -EINVAL: a 0. */
int gdev_ptask_set_geometry(struct gdev_ptask *ptask, const uint32_t grid[3],
	const uint32_t block[3], uint32_t shared_bytes);

/* At any time; both are 0 at first, higher is more urgent. To `proxy` comes what the kernel says of those for whom the ptask
 * works: the most urgent of the nice values, negated, of the threads (of other processes: of these) that pushed what it consumes
 * and that wait in a pull for what comes of it. */
int gdev_ptask_set_priority(struct gdev_ptask *ptask, int priority, int proxy);

enum gdev_ptask_state {
	GDEV_PTASK_WAITING,   /* for inputs */
	GDEV_PTASK_QUEUED,    /* has its inputs, and waits for the device, or for the host */
	GDEV_PTASK_EXECUTING, /* an invocation is on the device, or a callback runs */
	GDEV_PTASK_COMPLETED, /* has outputs for which channels have no room */
};

struct gdev_ptask_info {
	enum gdev_ptask_state state;
	bool ended; /* there will be no invocation any more */
	uint64_t invocations, skipped;
	uint64_t moved; /* invocations for which data went from one device to another */
};

/* (4.2) */
int gdev_ptask_query(struct gdev_ptask *ptask, struct gdev_ptask_info *info);

/* ---- ports ---- */

enum gdev_port_kind {
	GDEV_PORT_INPUT,
	GDEV_PORT_STICKY, /* an input that keeps its datablock until the next one comes */
	GDEV_PORT_OUTPUT, /* to one channel or several */
};

/* What of the function a port is. Ports of callbacks are GDEV_BIND_GLOBAL. */
enum gdev_binding {
	GDEV_BIND_GLOBAL, /* a parameter, which is the address of the datablock in device memory */
	GDEV_BIND_SCALAR, /* a parameter, whose value the datablock is; an input */
	GDEV_BIND_CONSTANT, /* a variable of the module, into which the datablock is copied; an input */
	GDEV_BIND_META, /* none: the number of records (uint64_t) of output ports that name this one; an input */
	GDEV_BIND_PREDICATE, /* none: an invocation is skipped when all bytes are 0; an input */
};

struct gdev_port_options {
	const char *name;
	enum gdev_port_kind kind;
	enum gdev_binding binding;
	unsigned parameter;   /* its index; GLOBAL and SCALAR */
	const char *variable; /* CONSTANT */
	/* What it takes or makes. An output has one, unless it has `in_out`; NULL for an input: whatever comes. */
	struct gdev_template *tmpl;
	/* An output: it gives on the datablock of this input port (GLOBAL) of the ptask, which the function has changed in
	 * place, and has its parameter. A skipped invocation gives it on as it is. What others still read is copied
	 * first. */
	struct gdev_port *in_out;
	/* An output, RECORDS: the META port that says how many records the next datablock has (4.1.2). */
	struct gdev_port *size;
};

/* -EEXIST: the parameter or variable has a port already; -EINVAL: it does not exist, has another size, or options do not
 * fit together; gdev_graph_why() says what. */
int gdev_port_open(
	struct gdev_ptask *ptask, const struct gdev_port_options *options, struct gdev_port **port);
/* A parameter of 4 or 8 bytes is the number of records of the datablock at the port, in each invocation. -EEXIST:
 * it is bound, or the port has another. */
int gdev_port_count(struct gdev_port *port, unsigned parameter);

/* The port PTASK.PORT, of this process or of another one's complete part, for gdev_channel_open(). Waits until it is there. -ENOENT:
 * it is not (deadline 0); -ENOTUNIQ: several; -EBUSY: the graph runs. */
int gdev_port_find(
	struct gdev_graph *graph, const char *name, uint64_t deadline_ns, struct gdev_port **port);

/* ---- channels ---- */

struct gdev_channel_options {
	const char *name;
	unsigned capacity;          /* datablocks that it holds; 0: 8 */
	struct gdev_template *tmpl; /* NULL: that of a port at its ends */
	unsigned mode; /* for other processes, within that of the graph; 0: as the graph's */
	bool keep;     /* it goes on when the last other process has closed its end */
};

/* From an output port to an input port, in order. `from` NULL: the program pushes; `to` NULL: the program pulls. -EEXIST: the
 * input port has a channel; -EPROTOTYPE: templates differ; -ELOOP: it makes a cycle; -EINVAL. gdev_graph_why() names both
 * ends. */
int gdev_channel_open(struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to,
	const struct gdev_channel_options *options, struct gdev_channel **channel);

/* A channel whose source, or destination, is a file, a pipe, a stream socket or a device. `fd` stays the caller's, who may
 * close it, and whose other users do not notice. Datablocks are read one after the other: whole ones for a FIXED template, else what is there,
 * up to the template. The end of the file ends the channel; if it is within a datablock, or an element, the graph fails with
 * -EBADMSG. A reader that goes away breaks the channel: what comes is dropped. When a sink's channel has ended and is
 * written, our descriptor is closed. Other errors of reading and writing fail the graph. The program does not push or pull
 * here. -EINVAL, also for sockets of datagrams; -EBADF: not open for that; errors as gdev_channel_open(), and as fstat() and open(). */
int gdev_channel_open_source(struct gdev_graph *graph, int fd, struct gdev_port *to,
	const struct gdev_channel_options *options, struct gdev_channel **channel);
int gdev_channel_open_sink(struct gdev_graph *graph, struct gdev_port *from, int fd,
	const struct gdev_channel_options *options, struct gdev_channel **channel);

/* The channel of that name, or the one at the port PTASK.PORT, of which the other end is the program's: for pushing or
 * pulling, as it is. Waits until the graph runs. -ENOENT; -ENOTUNIQ: several; -EACCES: the mode says no; -EMFILE: the process
 * has opened 64. In an attached graph the channel is open from here on, until gdev_channel_end(). */
int gdev_channel_find(struct gdev_graph *graph, const char *name, uint64_t deadline_ns,
	struct gdev_channel **channel);
/* What it takes, or gives. The graph's. */
struct gdev_template *gdev_channel_template(struct gdev_channel *channel);

/* Waits until the channel has room; another process has as many datablocks again on their way there. The datablock cannot be changed any more; it may be pushed into several channels. The
 * program keeps its reference. -EPROTOTYPE: it is not what the channel takes; -EPIPE: after gdev_channel_end();
 * -EINVAL: not a channel that the program pushes into. */
int gdev_push(struct gdev_channel *channel, struct gdev_datablock *block, uint64_t deadline_ns);
/* The same, and the program's reference goes with the datablock: a ptask that changes it in place need not copy it, if nobody
 * else has it. After an error the program has its reference still. 0: the datablock is in the channel; that the graph has
 * failed, the next call says. */
int gdev_push_give(
	struct gdev_channel *channel, struct gdev_datablock *block, uint64_t deadline_ns);
/* Waits until a datablock is there, and complete. Its reference is the caller's. -ENODATA: there will be none any more.
 * Threads that pull from one channel get the datablocks in turn. */
int gdev_pull(struct gdev_channel *channel, uint64_t deadline_ns, struct gdev_datablock **block);
/* The program pushes no more, or, in an attached graph, pulls no more. When nobody pushes any more: a ptask ends when one of its input channels (but a sticky port's) has ended and is empty, and
 * so do the channels that it feeds. */
int gdev_channel_end(struct gdev_channel *channel);

/* A new datablock with these bytes, pushed. */
int gdev_push_bytes(
	struct gdev_channel *channel, const void *data, uint64_t bytes, uint64_t deadline_ns);
/* The bytes of the next datablock, up to `room`; *bytes (may be NULL): how many it has. A datablock that is not here by the
 * deadline stays in the channel. */
int gdev_pull_bytes(struct gdev_channel *channel, void *data, uint64_t room, uint64_t deadline_ns,
	uint64_t *bytes);

/* ---- datablocks (4.1.1) ----
 *
 * A datablock is in host memory, in device memory, or in both, wherever it was asked for, and is copied when, and only when,
 * somebody needs it where it is not. */

/* With room for `records` elements: all for GDEV_LAYOUT_FIXED (0 will do); contents undefined. */
int gdev_datablock_create(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	struct gdev_datablock **block);
/* Made of memory of the program, which must not change until `release` (may be NULL) is called with it, when the
 * datablock is gone or the memory is no longer needed; it may be called from any call on the graph, and must call none. */
int gdev_datablock_wrap(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	void *memory, void (*release)(void *argument), void *argument,
	struct gdev_datablock **block);
/* Host memory, where the contents are, until the datablock is gone; `write`: the caller changes them. Waits until they are
 * complete. -EPERM: to be changed, and pushed already. */
int gdev_datablock_map(struct gdev_datablock *block, bool write, void **data);
/* Copies between the datablock and memory of the program, with no step between. Errors as map; -EINVAL: beyond its end. */
int gdev_datablock_write(
	struct gdev_datablock *block, uint64_t offset, const void *data, uint64_t bytes);
int gdev_datablock_read(struct gdev_datablock *block, uint64_t offset, void *data, uint64_t bytes);
uint64_t gdev_datablock_bytes(const struct gdev_datablock *block);
uint64_t gdev_datablock_records(const struct gdev_datablock *block);
void gdev_datablock_ref(struct gdev_datablock *block);
/* NULL is fine. The last one frees it. */
void gdev_datablock_put(struct gdev_datablock *block);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

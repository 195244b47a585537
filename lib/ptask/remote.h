/* SPDX-License-Identifier: MIT
 *
 * What remote.c, attach.c, contribute.c and traffic.c share: a graph that another process owns, as a member of it sees it (proto/graph.h). The graph's lock
 * guards all of it, but asking over the socket, which has a lock of its own.
 */
#ifndef GDEV_LIB_PTASK_REMOTE_H
#define GDEV_LIB_PTASK_REMOTE_H

#include "lib/ptask/bell.h"
#include "lib/ptask/internal.h"
#include "lib/ptask/pool.h"
#include "proto/graph.h"

struct remote {
	struct bridge *
		bridge; /* to a session of this process's (bridge.c); NULL: its part runs in the owner's */
	pthread_mutex_t asking; /* before the graph's; one request on the socket at a time */
	int socket, bell;       /* bell.h */
	int poll;               /* epoll: the graph's descriptor, the bell, the socket */
	struct graph_segment *segment;
	uint8_t *ours, *theirs; /* memory that this process writes, and that the owner writes */
	uint64_t ours_bytes, theirs_bytes;
	struct pool pool; /* of `ours` */
	uint32_t requests_tail, answers_head, waiting, changes, woken_for;
	uint64_t
		answer_ns; /* so long an owner that lives may take to answer; then calls return -ETIMEDOUT */
	uint32_t serial; /* of the last request on the socket */
	struct graph_message
		unanswered; /* that request, if its call gave up before the answer came; serial 0: none */
	struct gdev_channel
		*unanswered_for; /* whose end it asks for; NULL: that of a channel to be made */
	bool polling;            /* a thread waits for the owner, and others for it */
	struct gdev_datablock *known[2 * GRAPH_IDS];
	/* Ids to be dropped, when there is room for requests. */
	uint16_t due[2 * GRAPH_IDS];
	unsigned due_count;
	unsigned held, wanted; /* datablocks that were pulled, and are to be */
	struct gdev_channel *ends[GRAPH_ENDS_MAX];
	unsigned end_count;
};

/* A process that pulls one datablock after the other has asked for some more ahead: for four times what the channel holds, as
 * far as they take a small part of the memory, but for so many at least and at most. The next ones are on their way then while it takes
 * those that have come. */
#define PULLS_AHEAD_LEAST 8
#define PULLS_AHEAD 32
#define PULLS_PART 16

/* A deadline that has passed: -ETIMEDOUT, and the program's descriptor says nothing of it. */
#define AT_ONCE 1

/* Of a channel. Its queue has what was pulled, and that the program has not taken. */
struct remote_end {
	uint32_t index;
	bool pushes;
	unsigned window;        /* datablocks that may be on their way into the channel */
	uint32_t pushed;        /* ever */
	unsigned wanted, ahead; /* datablocks that are asked for, and that may be */
	bool over, closed;
	bool wants;  /* the program has looked at contents that came from here */
	bool pulled; /* before */
	struct graph_message
		unclaimed; /* the request that made the channel, whose call gave up; serial 0: the program has it */
};

/* attach.c */
/* Until when a call waits for an owner that lives: till its deadline, but not for ever. A deadline of 0 lets the owner answer. */
uint64_t remote_answer_by(const struct remote *remote, uint64_t deadline_ns);
/* Takes remote->asking when no request is unanswered any more. -ETIMEDOUT, or why no call works: then it is not taken. */
int remote_begin_asking(struct gdev_graph *graph, uint64_t deadline_ns);
/* With it: one request, and its answer in its place: the answer's status. `text` (NULL: none comes) has GRAPH_BUILD_TEXT_MAX
 * bytes. *count: room for descriptors, and what came, also with an error. An answer with more of them stays where it is. */
int remote_talk(struct remote *remote, struct graph_message *message, char *text, int *fds,
	size_t *count, uint64_t deadline_ns);
/* The rest without it. */
/* Of a graph that another process owns, without an end. With the graph's lock. */
int remote_make_channel(struct gdev_graph *graph, const char *name, struct gdev_channel **channel);
/* For a port of this process's part: the nth channel there. -EAGAIN: the graph does not run yet; -ENOENT: there are no more. */
int remote_find_at_port(const struct gdev_port *port, uint32_t nth, struct gdev_channel **channel);
/* Opens the end of a channel of which there is none yet, for pushing or pulling. -EAGAIN: the graph does not run yet.
 * With the graph's lock, which is given up meanwhile. */
int remote_open_end(struct gdev_channel *channel, uint64_t deadline_ns);

/* remote.c: the rings. With the graph's lock. */
/* What has been answered; whether there was anything. */
bool remote_drain(struct gdev_graph *graph);
/* As graph_wait(). */
int remote_wait(struct gdev_graph *graph, uint64_t deadline_ns);
/* For a thread that polls the bell and the socket itself: from here on the bell rings. -EAGAIN: nothing has changed. */
int remote_listen(struct gdev_graph *graph);
/* Waits for room, and asks. */
int remote_ask(struct gdev_graph *graph, struct graph_request request, uint64_t deadline_ns);
/* One that the owner has, too; without waiting for anybody: one in which descriptors lie stays open, as who closes them waits for
 * their files. -1 is fine. */
void remote_close_socket(int socket);
/* 0, or why no call works. */
int remote_error(struct gdev_graph *graph);
/* The owner is gone, or breaks a rule. */
void remote_lose(struct gdev_graph *graph, int error);

#endif

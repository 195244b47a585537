/* SPDX-License-Identifier: MIT
 *
 * The name of a graph. A connection to gdevd has it registered, as long as it is open, and brings those who open the graph.
 * When gdevd goes away, the graph goes on, and its name is registered again with the next one, for which a timer looks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "base/fd.h"
#include "lib/ptask/control.h"
#include "lib/ptask/forks.h"
#include "lib/ptask/members.h"
#include "proto/check.h"

#define AGAIN_NS 200000000
#define JOINS_A_TURN 16

/* ---- doors ---- */

int door_open(struct publication *publication, struct door *door)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = door};
	int error = forks_note(door->fd);

	if (error)
		return error;
	return epoll_ctl(publication->doors, EPOLL_CTL_ADD, door->fd, &event) ? -errno : 0;
}

void door_leave(struct publication *publication, struct door *door)
{
	epoll_ctl(publication->doors, EPOLL_CTL_DEL, door->fd, NULL);
	forks_forget(door->fd);
	door->fd = -1;
}

/* The other side may keep open what it is, and so among those that are watched. */
void door_close(struct publication *publication, struct door *door)
{
	int fd = door->fd;

	if (fd < 0)
		return;
	door_leave(publication, door);
	close(fd);
}

/* ---- gdevd ---- */

/* Registers the name with the gdevd that has the graph's session. */
static int register_name(struct gdev_graph *graph)
{
	struct publication *publication = graph->publication;
	struct control_graph request =
				     {
					     .session = publication->session,
					     .group = publication->group,
					     .mode = graph->mode,
				     },
			     answer;
	int error, fd;

	strcpy(request.name, graph->name);
	fd = control_request(CONTROL_GRAPH_PUBLISH, &request, &answer, NULL, 0);
	if (fd < 0)
		return fd;
	publication->gdevd.fd = fd;
	error = door_open(publication, &publication->gdevd);
	if (error)
		door_close(publication, &publication->gdevd);
	return error;
}

static void look_again(struct publication *publication)
{
	static const struct itimerspec every = {{0, AGAIN_NS}, {0, AGAIN_NS}};

	door_close(publication, &publication->gdevd);
	publication->again.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (publication->again.fd < 0 || timerfd_settime(publication->again.fd, 0, &every, NULL) ||
		door_open(publication, &publication->again))
		door_close(
			publication, &publication->again); /* the name is gone; the graph is not */
}

static void try_again(struct gdev_graph *graph)
{
	struct publication *publication = graph->publication;
	uint64_t count;

	if (read(publication->again.fd, &count, sizeof count) > 0 && !register_name(graph))
		door_close(publication, &publication->again);
}

/* One process that opens the graph. -EAGAIN: there is none. */
static int receive_one(struct gdev_graph *graph, int gdevd)
{
	struct control_header joined = {
		.length = sizeof joined, .type = CONTROL_GRAPH_JOINED, .version = CONTROL_VERSION};
	struct control_graph message;
	size_t count = 1;
	int fd = -1;
	ssize_t length = fd_receive(gdevd, &message, sizeof message, &fd, &count);

	if (length < 0)
		return (int)length;
	if (!length || control_check(&message, (size_t)length) ||
		message.header.type != CONTROL_GRAPH_JOIN || count != 1) {
		fd_close_all(&fd, count);
		return -EPROTO;
	}
	joined.status = member_create(graph, fd, message.uid, message.pid, message.mode);
	return fd_send(gdevd, &joined, sizeof joined, NULL, 0);
}

static void receive_members(struct gdev_graph *graph)
{
	int error = 0;

	for (unsigned i = 0; i < JOINS_A_TURN && !error; i++)
		error = receive_one(graph, graph->publication->gdevd.fd);
	if (error && error != -EAGAIN)
		look_again(graph->publication);
}

/* ---- what has come ---- */

static void enter(struct gdev_graph *graph, struct door *door)
{
	if (door->fd < 0)
		return; /* by one before it */
	switch (door->kind) {
	case DOOR_GDEVD:
		receive_members(graph);
		break;
	case DOOR_AGAIN:
		try_again(graph);
		break;
	case DOOR_SOCKET:
		member_heard(door->member);
		break;
	case DOOR_BELL:
		member_rang(door->member);
		break;
	}
}

void members_knock(struct gdev_graph *graph, bool some)
{
	if (graph->publication)
		graph->publication->knocked |= some;
}

void members_waited(struct gdev_graph *graph)
{
	if (graph->publication)
		graph->publication->turns = TURNS_AWAKE - 1;
}

/* A thread that has slept knows whether anything has come; one that is awake for long looks now and then. */
bool doors_serve(struct gdev_graph *graph)
{
	struct publication *publication = graph->publication;
	struct epoll_event events[16];
	int count;

	if (!publication->knocked && publication->turns % TURNS_AWAKE)
		return false;
	count = epoll_wait(publication->doors, events, array_length(events), 0);
	publication->knocked = count == array_length(events);
	for (int i = 0; i < count; i++)
		enter(graph, events[i].data.ptr);
	return publication->knocked;
}

/* ---- life ---- */

static struct publication *publication_create(
	struct gdev_graph *graph, const struct gdev_graph_options *options)
{
	struct publication *publication = calloc(1, sizeof *publication);

	if (!publication)
		return NULL;
	publication->gdevd = (struct door){DOOR_GDEVD, -1, NULL};
	publication->again = (struct door){DOOR_AGAIN, -1, NULL};
	publication->session = gdev_session_description(graph->devices[0].session)->session;
	publication->user = geteuid();
	publication->group = options->group ? options->group : getegid();
	publication->member_bytes = options->member_bytes ? options->member_bytes : MEMBER_BYTES;
	list_init(&publication->members);
	publication->doors = epoll_create1(EPOLL_CLOEXEC);
	return publication;
}

int publish(struct gdev_graph *graph, const struct gdev_graph_options *options)
{
	struct epoll_event event = {.events = EPOLLIN};
	int error;

	if (options->member_bytes > MEMBER_BYTES_MAX || strlen(options->name) >= GRAPH_NAME_MAX)
		return -EINVAL;
	graph->mode = options->mode & 0777;
	graph->publication = publication_create(graph, options);
	if (!graph->publication)
		return -ENOMEM;
	if (graph->publication->doors < 0 ||
		(graph->manual && epoll_ctl(graph->manual_poll, EPOLL_CTL_ADD,
					  graph->publication->doors, &event)))
		return -errno;
	error = register_name(graph);
	if (!error) {
		pthread_mutex_lock(&graph->lock);
		host_start(graph);
		graph_leave(graph);
	}
	return error;
}

int members_descriptor(const struct gdev_graph *graph)
{
	return graph->publication ? graph->publication->doors : -1;
}

void publish_stop(struct gdev_graph *graph)
{
	struct publication *publication = graph->publication;
	struct member *member;

	if (!publication)
		return;
	pthread_mutex_lock(&graph->lock);
	door_close(publication, &publication->gdevd);
	door_close(publication, &publication->again);
	members_tell_error(graph);
	list_for_each (member, &publication->members, link) {
		member_leave(member);
		member_drop_pending(member);
	}
	graph_leave(graph);
}

void publish_free(struct gdev_graph *graph)
{
	struct publication *publication = graph->publication;
	struct member *member, *next;

	if (!publication)
		return;
	list_for_each_safe (member, next, &publication->members, link)
		member_free(member);
	door_close(publication, &publication->gdevd);
	door_close(publication, &publication->again);
	if (publication->doors >= 0)
		close(publication->doors);
	free(publication);
}

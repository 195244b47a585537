/* SPDX-License-Identifier: MIT
 *
 * Feeds: channels whose other end is a descriptor, a file, a pipe or a socket (section 4). The host's part reads into the
 * memory of a datablock, and writes from it: nothing is copied through the program. It never blocks on a descriptor: pipes are
 * opened a second time, without blocking, so that whoever else has them does not notice.
 *
 * Being told. What is not ready is watched once by graph->watch, an epoll instance, which the graph's thread polls; in a manual
 * graph it is part of the descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/ptask/internal.h"

struct feed {
	struct list link;
	struct gdev_channel *channel;
	int fd; /* -1: it has ended */
	bool socket, regular, watched;
	struct gdev_datablock *block; /* being read or written */
	uint64_t done;                /* bytes of it */
};

/* ---- opening ---- */

static bool is_stream(int fd)
{
	socklen_t bytes = sizeof(int);
	int type;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) && type == SOCK_STREAM;
}

/* A descriptor of our own, which does not block, except on a disk. What a pipe's descriptor may not do, its second one may
 * not either. */
static int own_descriptor(struct feed *feed, int fd, bool reads)
{
	char path[32];
	struct stat status;
	int access = fcntl(fd, F_GETFL) & O_ACCMODE;

	if (fstat(fd, &status))
		return -errno;
	if (access == (reads ? O_WRONLY : O_RDONLY))
		return -EBADF;
	if (S_ISSOCK(status.st_mode) && !is_stream(fd)) /* datagrams would be cut, unseen */
		return -EINVAL;
	feed->socket = S_ISSOCK(status.st_mode);
	feed->regular = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	feed->fd = feed->socket || feed->regular
			   ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
			   : open(path, (reads ? O_RDONLY : O_WRONLY) | O_NONBLOCK | O_CLOEXEC);
	return feed->fd < 0 ? -errno : 0;
}

static int watch_create(struct gdev_graph *graph)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (graph->watch >= 0)
		return 0;
	graph->watch = epoll_create1(EPOLL_CLOEXEC);
	if (graph->watch < 0)
		return -errno;
	return graph->manual && epoll_ctl(graph->manual_poll, EPOLL_CTL_ADD, graph->watch, &event)
		       ? -errno
		       : 0;
}

static int attach(struct gdev_channel *channel, int fd, bool reads)
{
	struct feed *feed = calloc(1, sizeof *feed);
	int error = -ENOMEM;

	if (feed) {
		feed->fd = -1;
		error = own_descriptor(feed, fd, reads);
	}
	if (!error)
		error = watch_create(channel->graph);
	if (error) {
		if (feed && feed->fd >= 0)
			close(feed->fd);
		free(feed);
		return error;
	}
	feed->channel = channel;
	channel->feed = feed;
	list_append(&channel->graph->feeds, &feed->link);
	return 0;
}

static int open_feed(struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to, int fd,
	const struct gdev_channel_options *options, struct gdev_channel **opened)
{
	struct gdev_channel *channel;
	int error = graph_enter(graph);

	if (error)
		return error;
	error = channel_open(graph, from, to, options, &channel);
	if (error) {
		graph_leave(graph);
		return error;
	}
	error = attach(channel, fd, to != NULL);
	if (error) {
		graph_complain(
			graph, error, "channel %s: its descriptor cannot be used", channel->name);
		channel_close(channel);
	} else {
		*opened = channel;
	}
	graph_leave(graph);
	return error;
}

int gdev_channel_open_source(struct gdev_graph *graph, int fd, struct gdev_port *to,
	const struct gdev_channel_options *options, struct gdev_channel **channel)
{
	return to ? open_feed(graph, NULL, to, fd, options, channel) : -EINVAL;
}

int gdev_channel_open_sink(struct gdev_graph *graph, struct gdev_port *from, int fd,
	const struct gdev_channel_options *options, struct gdev_channel **channel)
{
	return from ? open_feed(graph, from, NULL, fd, options, channel) : -EINVAL;
}

/* ---- ends ---- */

static void feed_end(struct feed *feed)
{
	if (feed->block)
		block_put(steal_pointer(&feed->block));
	if (feed->fd >= 0)
		close(steal_fd(&feed->fd));
}

void feed_free(struct feed *feed)
{
	if (!feed)
		return;
	feed_end(feed);
	list_remove(&feed->link);
	free(feed);
}

static void end_source(struct feed *feed)
{
	struct gdev_channel *channel = feed->channel;

	if (feed->done)
		graph_fail(channel->graph, -EBADMSG, channel->to->ptask);
	channel->ended = true;
	ptask_touch(channel->to->ptask);
	feed_end(feed);
}

/* Whoever read it is gone: as a pipe's writer we drop what comes. */
static void break_sink(struct feed *feed)
{
	feed->channel->broken = true;
	channel_drop_all(feed->channel);
	ptask_touch(feed->channel->from->ptask);
	feed_end(feed);
}

/* ---- reading and writing, without the lock ---- */

static ssize_t read_some(const struct feed *feed, void *to, uint64_t bytes)
{
	ssize_t count =
		feed->socket ? recv(feed->fd, to, bytes, MSG_DONTWAIT) : read(feed->fd, to, bytes);

	return count < 0 ? -errno : count;
}

/* Without the signal of a broken pipe, which may be the program's own thread's in a manual graph. */
static ssize_t write_some(const struct feed *feed, const void *from, uint64_t bytes)
{
	const struct timespec now = {0};
	sigset_t pipe_signal, before;
	ssize_t count;

	if (feed->socket) {
		count = send(feed->fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
		return count < 0 ? -errno : count;
	}
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
	count = write(feed->fd, from, bytes);
	count = count < 0 ? -errno : count;
	if (count == -EPIPE && !sigismember(&before, SIGPIPE))
		sigtimedwait(&pipe_signal, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return count;
}

/* ---- steps ---- */

static void watch(struct feed *feed)
{
	struct gdev_graph *graph = feed->channel->graph;
	struct epoll_event event = {
		.events = (feed->channel->to ? EPOLLIN : EPOLLOUT) | EPOLLONESHOT};

	if (epoll_ctl(
		    graph->watch, feed->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, feed->fd, &event))
		graph_fail(graph, -errno, NULL);
	feed->watched = true;
}

/* What a call has given. Whether anything has come of it. */
static bool note_result(struct feed *feed, ssize_t result)
{
	if (result > 0)
		feed->done += (uint64_t)result;
	if (result == -EAGAIN)
		watch(feed);
	else if (!feed->channel->to && (result == -EPIPE || result == -ECONNRESET))
		break_sink(feed);
	else if (result < 0 && result != -EINTR)
		graph_fail(feed->channel->graph, (int)result, NULL);
	return result > 0 || result == -EINTR || feed->fd < 0;
}

static bool is_whole(const struct feed *feed)
{
	const struct gdev_template *tmpl = feed->block->tmpl;

	return feed->done == tmpl->bytes ||
	       (tmpl->shape.layout != GDEV_LAYOUT_FIXED && feed->done &&
		       feed->done % tmpl->shape.stride == 0);
}

static int start_block(struct feed *feed)
{
	struct gdev_template *tmpl = feed->channel->tmpl;
	int error = block_create(
		feed->channel->graph, tmpl, shape_elements(&tmpl->shape), &feed->block);

	feed->done = 0;
	if (error)
		return error;
	feed->block->host = malloc(tmpl->bytes);
	return feed->block->host ? 0 : -ENOMEM;
}

static void give_block(struct feed *feed)
{
	struct gdev_datablock *block = feed->block;

	block->bytes = feed->done;
	block->records = feed->done / block->tmpl->shape.stride;
	block->host_current = block->pushed = true;
	feed->done = 0;
	channel_put(feed->channel, block);
	block_put(steal_pointer(&feed->block));
}

static bool step_source(struct feed *feed)
{
	struct gdev_channel *channel = feed->channel;
	struct gdev_graph *graph = channel->graph;
	ssize_t result;
	int error = 0;

	if (channel->broken) {
		feed_end(feed);
		return false;
	}
	if (channel->count == channel->capacity)
		return false;
	if (!feed->block)
		error = start_block(feed);
	if (error) {
		graph_fail(graph, error, channel->to->ptask);
		return false;
	}
	graph_leave(graph);
	result = read_some(feed, (char *)feed->block->host + feed->done,
		feed->block->tmpl->bytes - feed->done);
	pthread_mutex_lock(&graph->lock);
	if (!result) {
		end_source(feed);
		return true;
	}
	if (!note_result(feed, result))
		return false;
	if (is_whole(feed))
		give_block(feed);
	return true;
}

/* Whether the next datablock is there, and complete. */
static bool next_block(struct feed *feed)
{
	struct gdev_channel *channel = feed->channel;
	struct gdev_datablock *block;

	if (!channel->count) {
		if (channel->ended)
			feed_end(feed);
		return false;
	}
	block = channel->queue[channel->first];
	if (!block_complete(block)) {
		host_notice(channel->graph, block_written(block), false);
		return false;
	}
	feed->block = channel_take(channel);
	feed->done = 0;
	return true;
}

static bool step_sink(struct feed *feed)
{
	struct gdev_graph *graph = feed->channel->graph;
	ssize_t result = 0;
	int error;

	if (!feed->block && !next_block(feed))
		return false;
	graph_leave(graph);
	error = block_to_host(feed->block);
	if (!error && feed->block->bytes)
		result = write_some(feed, (char *)feed->block->host + feed->done,
			feed->block->bytes - feed->done);
	pthread_mutex_lock(&graph->lock);
	if (error)
		graph_fail(graph, error, NULL);
	if (error || (result && !note_result(feed, result)))
		return false;
	if (feed->block && feed->done == feed->block->bytes)
		block_put(steal_pointer(&feed->block));
	return true;
}

bool feeds_serve(struct gdev_graph *graph)
{
	struct epoll_event ignored[8];
	struct feed *feed;
	bool some = false;

	if (list_empty(&graph->feeds) || graph->serving || !graph->running)
		return false;
	while (epoll_wait(graph->watch, ignored, array_length(ignored), 0) > 0)
		; /* each is watched once, and all are looked at */
	graph->serving = true;
	list_for_each (feed, &graph->feeds, link)
		if (feed->fd >= 0 && !graph->error && !graph->terminated)
			some |= feed->channel->to ? step_source(feed) : step_sink(feed);
	graph->serving = false;
	if (!list_empty(&graph->work)) /* also when a sink took a datablock, and could not write */
		graph_flow(graph);
	return some;
}

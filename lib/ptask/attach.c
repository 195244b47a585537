/* SPDX-License-Identifier: MIT
 *
 * Opening a graph that another process owns, and its channels, by name: gdevd brings the two together, and the owner says what
 * memory they share (proto/graph.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "lib/ptask/bridge.h"
#include "lib/ptask/control.h"
#include "lib/ptask/forks.h"
#include "lib/ptask/remote.h"

#define PAUSE_NS (10 * NS_PER_MS)
#define ANSWER_NS (30 * NS_PER_S) /* of an owner that lives: its thread may be in a callback */
enum { JOIN_BELL = GRAPH_REGIONS, JOIN_FDS };

/* ---- names ---- */

/* A name of a user, or a uid. -ENOENT. */
static int find_user(const char *name, uint32_t *uid)
{
	struct passwd entry, *found = NULL;
	char text[4096], *end;
	unsigned long number = strtoul(name, &end, 10);

	if (*name >= '0' && *name <= '9' && !*end && number < UINT32_MAX) {
		*uid = (uint32_t)number;
		return 0;
	}
	if (getpwnam_r(name, &entry, text, sizeof text, &found) || !found)
		return -ENOENT;
	*uid = found->pw_uid;
	return 0;
}

static int parse_name(const char *name, struct control_graph *request)
{
	const char *slash = strchr(name, '/'), *last = slash ? slash + 1 : name;
	char user[256];

	if (!*last || strlen(last) >= sizeof request->name)
		return -EINVAL;
	strcpy(request->name, last);
	request->uid = geteuid();
	if (!slash)
		return 0;
	if ((size_t)(slash - name) >= sizeof user)
		return -EINVAL;
	snprintf(user, sizeof user, "%.*s", (int)(slash - name), name);
	return find_user(user, &request->uid);
}

/* Whether there is time to try again, after a pause. */
static bool pause_until(uint64_t deadline_ns)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	return clock_now_ns() < deadline_ns && (nanosleep(&pause, NULL) || true);
}

/* The socket to the owner, or why there is none. */
static int reach_owner(struct control_graph *request, uint64_t deadline_ns)
{
	struct control_graph answer;
	int owner = -1, connection;

	do
		connection =
			control_request(CONTROL_GRAPH_OPEN, request, &answer, &owner, deadline_ns);
	while ((connection == -ENOENT || connection == -EAGAIN) && pause_until(deadline_ns));
	if ((connection == -ENOENT || connection == -EAGAIN) && deadline_ns)
		return -ETIMEDOUT;
	if (connection < 0)
		return connection;
	close(connection);
	return owner;
}

/* ---- the socket ---- */

uint64_t remote_answer_by(const struct remote *remote, uint64_t deadline_ns)
{
	uint64_t latest_ns = clock_now_ns() + remote->answer_ns;

	return deadline_ns ? min_of(deadline_ns, latest_ns) : latest_ns;
}

/* Whether it comes. Owners that live answer in time, but for code that they load. */
static bool wait_for_answer(
	const struct remote *remote, const struct graph_message *message, uint64_t deadline_ns)
{
	bool loads = message->type == GRAPH_BUILD && message->build.what == GRAPH_BUILD_MODULE;
	bool waits = loads && deadline_ns == GDEV_FOREVER;

	return fd_readable_by(
		remote->socket, waits ? GDEV_FOREVER : remote_answer_by(remote, deadline_ns));
}

/* Whether the answer is as long as it says. */
static bool is_whole(const struct graph_message *answer, size_t length, bool text)
{
	if (!text)
		return length == sizeof *answer;
	return answer->build.text_bytes < GRAPH_BUILD_TEXT_MAX &&
	       length == offsetof(struct graph_built, text) + answer->build.text_bytes;
}

/* An answer; what has more descriptors than there is room for stays in the socket. Those that came are the caller's, and the
 * message, which goes, had others of the same files: that it goes is waited for by nobody. */
static ssize_t receive(struct remote *remote, struct graph_built *answer, int *fds, size_t *count)
{
	bool more = false;
	ssize_t length = fd_peek_copies(remote->socket, answer, sizeof *answer, fds, count, &more);

	if (more)
		return -GDEV_E_PROTOCOL;
	if (length <= 0)
		return -GDEV_E_SESSION_LOST;
	recv(remote->socket, answer, sizeof *answer, MSG_DONTWAIT);
	return length < (ssize_t)sizeof answer->message ? -GDEV_E_PROTOCOL : length;
}

/* The answer takes the request's place. If it does not come in time it is waited for before the next request is sent. */
static int hear(struct remote *remote, struct graph_message *message, char *text, int *fds,
	size_t *count, uint64_t deadline_ns)
{
	autofree struct graph_built *answer = calloc(1, sizeof *answer);
	size_t room = *count;
	ssize_t length;

	*count = 0;
	if (!answer || !wait_for_answer(remote, message, deadline_ns)) {
		remote->unanswered = *message;
		return answer ? -ETIMEDOUT : -ENOMEM;
	}
	remote->unanswered.serial = 0;
	*count = room;
	length = receive(remote, answer, fds, count);
	if (length < 0)
		return (int)length;
	if (answer->message.serial != message->serial || answer->message.type != message->type ||
		answer->message.status > 0 ||
		!is_whole(&answer->message, (size_t)length, message->type == GRAPH_BUILD))
		return -GDEV_E_PROTOCOL;
	*message = answer->message;
	if (text)
		snprintf(text, GRAPH_BUILD_TEXT_MAX, "%.*s", (int)message->build.text_bytes,
			answer->text);
	return message->status;
}

int remote_talk(struct remote *remote, struct graph_message *message, char *text, int *fds,
	size_t *count, uint64_t deadline_ns)
{
	message->serial = ++remote->serial;
	if (!fd_send(remote->socket, message, sizeof *message, NULL, 0))
		return hear(remote, message, text, fds, count, deadline_ns);
	*count = 0;
	return -GDEV_E_SESSION_LOST;
}

/* ---- joining ---- */

static int map_region(
	const struct graph_region *region, const int *fds, int protection, void *memory)
{
	uint64_t size;
	void *got;

	if (region->descriptor >= GRAPH_REGIONS ||
		fd_shared_memory_size(fds[region->descriptor], &size) || !region->bytes ||
		region->bytes > size || region->offset > size - region->bytes ||
		region->offset % (uint64_t)getpagesize())
		return -GDEV_E_PROTOCOL;
	got = mmap(NULL, region->bytes, protection, MAP_SHARED | MAP_NORESERVE,
		fds[region->descriptor], (off_t)region->offset);
	if (got == MAP_FAILED)
		return -errno;
	madvise(got, region->bytes, MADV_DONTFORK);
	*(void **)memory = got;
	return 0;
}

static int map_regions(struct remote *remote, struct graph_region *regions, const int *fds)
{
	const int both = PROT_READ | PROT_WRITE;
	int error = regions[GRAPH_REGION_SEGMENT].bytes < sizeof *remote->segment ? -GDEV_E_PROTOCOL
										  : 0;

	regions[GRAPH_REGION_SEGMENT].bytes = sizeof *remote->segment;
	if (!error)
		error = map_region(&regions[GRAPH_REGION_SEGMENT], fds, both, &remote->segment);
	if (!error)
		error = map_region(&regions[GRAPH_REGION_MEMBER], fds, both, &remote->ours);
	if (error)
		return error;
	remote->ours_bytes = regions[GRAPH_REGION_MEMBER].bytes;
	error = map_region(&regions[GRAPH_REGION_OWNER], fds, PROT_READ, &remote->theirs);
	if (error)
		return error;
	remote->theirs_bytes = regions[GRAPH_REGION_OWNER].bytes;
	return pool_init(&remote->pool, remote->ours_bytes);
}

static int watch(struct remote *remote, int descriptor)
{
	const int fds[] = {descriptor, remote->bell, remote->socket};

	remote->poll = epoll_create1(EPOLL_CLOEXEC);
	if (remote->poll < 0)
		return -errno;
	for (unsigned i = 0; i < array_length(fds); i++) {
		/* Of the socket its end alone: answers are read by those who ask. */
		struct epoll_event event = {.events = i < 2 ? EPOLLIN : EPOLLRDHUP};
		if (epoll_ctl(remote->poll, EPOLL_CTL_ADD, fds[i], &event))
			return -errno;
	}
	return 0;
}

static bool is_local_socket(int fd)
{
	int domain = AF_UNSPEC;
	socklen_t size = sizeof domain;

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_UNIX;
}

/* What an owner sends that is neither memory nor a socket stays open: who closes it may wait for as long as the owner likes. */
static void close_received(int fd)
{
	if (fd >= 0 && is_local_socket(fd))
		remote_close_socket(fd);
	else if (fd >= 0 && fcntl(fd, F_GET_SEALS) >= 0)
		close(fd);
}

static int join(struct gdev_graph *graph, uint64_t deadline_ns)
{
	struct remote *remote = graph->remote;
	struct graph_message message = {.type = GRAPH_JOIN, .version = GRAPH_VERSION};
	int fds[JOIN_FDS];
	size_t count = JOIN_FDS;
	int error = remote_talk(remote, &message, NULL, fds, &count, deadline_ns);

	if (!error && (count != JOIN_FDS || !is_local_socket(fds[JOIN_BELL])))
		error = -GDEV_E_PROTOCOL;
	if (!error)
		error = map_regions(remote, message.regions, fds);
	if (!error) {
		remote->bell = steal_fd(&fds[JOIN_BELL]);
		error = watch(remote, graph->descriptor);
	}
	for (size_t i = 0; i < count; i++)
		close_received(fds[i]);
	return error;
}

static struct gdev_graph *create(const char *name, int socket)
{
	struct gdev_graph *graph = graph_create(&(struct gdev_graph_options){.name = name});
	struct remote *remote = calloc(1, sizeof *remote);

	if (!graph || !remote || forks_note(socket)) {
		free(remote);
		if (graph)
			graph_free(graph);
		remote_close_socket(socket);
		return NULL;
	}
	pthread_mutex_init(&remote->asking, NULL);
	list_init(&remote->pool.free);
	remote->socket = socket;
	remote->bell = remote->poll = -1;
	remote->answer_ns = ANSWER_NS;
	graph->remote = remote;
	return graph;
}

int gdev_graph_attach(const char *name, uint64_t deadline_ns, struct gdev_graph **attached)
{
	struct control_graph request = {0};
	struct gdev_graph *graph;
	int error = name ? parse_name(name, &request) : -EINVAL, owner;

	if (error)
		return error;
	owner = reach_owner(&request, deadline_ns);
	if (owner < 0)
		return owner;
	graph = create(request.name, owner);
	if (!graph)
		return -ENOMEM;
	error = join(graph, deadline_ns);
	if (error)
		graph_free(graph);
	else
		*attached = graph;
	return error;
}

int gdev_graph_attach_own(
	const char *name, const char *vgpu, uint64_t deadline_ns, struct gdev_graph **attached)
{
	struct gdev_graph *graph;
	int error = gdev_graph_attach(name, deadline_ns, &graph);

	if (error)
		return error;
	error = bridge_create(graph, vgpu, &graph->remote->bridge);
	if (error)
		gdev_graph_close(graph);
	else
		*attached = graph;
	return error;
}

/* ---- channels ---- */

static unsigned pulls_ahead(const struct remote *remote, const struct graph_message *found)
{
	uint64_t room = remote->theirs_bytes / PULLS_PART / max_of(found->find.bytes, (uint64_t)1);
	uint64_t ahead = min_of(room, 4ull * found->find.capacity);

	return (unsigned)min_of(max_of(ahead, (uint64_t)PULLS_AHEAD_LEAST), (uint64_t)PULLS_AHEAD);
}

/* For pushing or pulling, as the owner says. */
static int add_end(struct gdev_channel *channel, const struct graph_message *found)
{
	struct remote *remote = channel->graph->remote;
	struct remote_end *end;

	if (found->find.end != remote->end_count || remote->end_count == GRAPH_ENDS_MAX ||
		found->find.pushes > 1 || !channel->tmpl ||
		channel->tmpl->bytes != found->find.bytes)
		return -GDEV_E_PROTOCOL;
	end = calloc(1, sizeof *end);
	if (!end)
		return -ENOMEM;
	*end = (struct remote_end){.index = found->find.end,
		.pushes = found->find.pushes,
		.window = min_of(found->find.capacity, (uint32_t)GRAPH_REQUESTS),
		.ahead = pulls_ahead(remote, found)};
	channel->remote = end;
	remote->ends[remote->end_count++] = channel;
	return 0;
}

int remote_make_channel(struct gdev_graph *graph, const char *name, struct gdev_channel **made)
{
	struct gdev_channel *channel = calloc(1, sizeof *channel);

	if (!channel)
		return -ENOMEM;
	channel->queue = calloc(PULLS_AHEAD, sizeof(struct gdev_datablock *));
	if (!channel->queue) {
		free(channel);
		return -ENOMEM;
	}
	copy_name(channel->name, name, "channel");
	channel->graph = graph;
	channel->capacity = PULLS_AHEAD;
	list_append(&graph->channels, &channel->link);
	*made = channel;
	return 0;
}

static int make_found(
	struct gdev_graph *graph, const struct graph_message *found, struct gdev_channel **made)
{
	const struct gdev_shape shape = {.layout = found->find.layout,
		.stride = found->find.stride,
		.count = {found->find.count[0], found->find.count[1], found->find.count[2]}};
	struct gdev_channel *channel;
	int error = remote_make_channel(graph, found->find.name, &channel);

	if (error)
		return error;
	error = template_create(graph, NULL, &shape, &channel->tmpl);
	if (!error)
		error = add_end(channel, found);
	if (error)
		channel_free(channel);
	else
		*made = channel;
	return error;
}

/* The owner has opened an end, of *channel, or, if that is NULL, of a channel that is made; or it says why not. An end that the
 * owner has and this process does not have ends all. */
static int take_end(struct gdev_graph *graph, int error, struct graph_message *found,
	struct gdev_channel **channel)
{
	found->find.name[sizeof found->find.name - 1] = '\0';
	pthread_mutex_lock(&graph->lock);
	if (error == -GDEV_E_SESSION_LOST || error == -GDEV_E_PROTOCOL)
		remote_lose(graph, error);
	error = remote_error(graph) ? remote_error(graph) : error;
	if (!error) {
		error = *channel ? add_end(*channel, found) : make_found(graph, found, channel);
		if (error)
			remote_lose(graph, error);
	}
	pthread_mutex_unlock(&graph->lock);
	return error;
}

/* What a call has asked for that gave up. What it was refused, the next one is. */
static int take_late(struct gdev_graph *graph, int error, struct graph_message *request,
	struct graph_message *answer)
{
	struct remote *remote = graph->remote;
	struct gdev_channel *channel = remote->unanswered_for;
	bool made = request->type == GRAPH_FIND && !error;

	if (made && !take_end(graph, error, answer, &channel) && !remote->unanswered_for)
		channel->remote->unclaimed = *request;
	pthread_mutex_lock(&graph->lock);
	if (request->type == GRAPH_BUILD && request->build.bytes)
		pool_give(&remote->pool, request->build.offset, request->build.bytes);
	if (error == -GDEV_E_SESSION_LOST || error == -GDEV_E_PROTOCOL)
		remote_lose(graph, error);
	error = remote_error(graph);
	pthread_mutex_unlock(&graph->lock);
	return error;
}

/* The answer to the last request, if its call gave up before that came. */
static int hear_late(struct gdev_graph *graph, uint64_t deadline_ns)
{
	struct remote *remote = graph->remote;
	struct graph_message request = remote->unanswered, answer = request;
	size_t none = 0;
	int error;

	if (!request.serial)
		return 0;
	error = hear(remote, &answer, NULL, NULL, &none, deadline_ns);
	return remote->unanswered.serial ? error : take_late(graph, error, &request, &answer);
}

int remote_begin_asking(struct gdev_graph *graph, uint64_t deadline_ns)
{
	pthread_mutex_t *asking = &graph->remote->asking;
	const struct timespec until = {
		(time_t)(deadline_ns / NS_PER_S), (long)(deadline_ns % NS_PER_S)};
	int error = deadline_ns && deadline_ns != GDEV_FOREVER
			    ? pthread_mutex_clocklock(asking, CLOCK_MONOTONIC, &until)
			    : pthread_mutex_lock(asking);

	if (error)
		return -error;
	error = hear_late(graph, deadline_ns);
	if (error)
		pthread_mutex_unlock(asking);
	return error;
}

static bool asks_for_the_same(const struct graph_message *one, const struct graph_message *two)
{
	return one->find.object == two->find.object && one->find.nth == two->find.nth &&
	       !strcmp(one->find.name, two->find.name);
}

/* One that was found for a call that gave up; NULL. With remote->asking. */
static struct gdev_channel *claim(struct remote *remote, const struct graph_message *request)
{
	for (unsigned i = 0; i < remote->end_count; i++) {
		struct graph_message *unclaimed = &remote->ends[i]->remote->unclaimed;

		if (!unclaimed->serial || !asks_for_the_same(unclaimed, request))
			continue;
		unclaimed->serial = 0;
		return remote->ends[i];
	}
	return NULL;
}

/* Asks for an end: of *channel, or, if that is NULL, as the message says. */
static int find_once(struct gdev_graph *graph, struct graph_message message,
	struct gdev_channel **channel, uint64_t deadline_ns)
{
	struct remote *remote = graph->remote;
	size_t none = 0;
	int error;

	deadline_ns = remote_answer_by(remote, deadline_ns); /* of all that is waited for */
	error = remote_begin_asking(graph, deadline_ns);
	if (error)
		return error;
	message.type = GRAPH_FIND;
	if (!*channel)
		*channel = claim(remote, &message);
	if (!*channel ||
		!(*channel)->remote) { /* else it, or another thread's call, was there first */
		error = remote_talk(remote, &message, NULL, NULL, &none, deadline_ns);
		remote->unanswered_for = *channel;
		error = take_end(graph, error, &message, channel);
	}
	pthread_mutex_unlock(&remote->asking);
	return error;
}

/* Until it runs. */
static int find(struct gdev_graph *graph, const char *name, uint64_t deadline_ns,
	struct gdev_channel **channel)
{
	struct graph_message message = {.find.object = *channel ? (*channel)->id : 0};
	int error;

	snprintf(message.find.name, sizeof message.find.name, "%s", name);
	do
		error = find_once(graph, message, channel, deadline_ns);
	while (error == -EAGAIN && deadline_ns && pause_until(deadline_ns));
	return error == -EAGAIN && deadline_ns ? -ETIMEDOUT : error;
}

int remote_find(struct gdev_graph *graph, const char *name, uint64_t deadline_ns,
	struct gdev_channel **found)
{
	struct gdev_channel *channel = NULL;
	int error;

	if (!graph_is_ours(graph))
		return -GDEV_E_SESSION_LOST;
	if (strlen(name) >= 2 * (size_t)GRAPH_NAME_MAX)
		return -ENOENT;
	error = find(graph, name, deadline_ns, &channel);
	if (!error)
		*found = channel;
	return error;
}

int remote_find_at_port(const struct gdev_port *port, uint32_t nth, struct gdev_channel **found)
{
	struct graph_message message = {.find.object = port->id, .find.nth = nth};
	struct gdev_channel *channel = NULL;
	int error = find_once(port->ptask->graph, message, &channel, GDEV_FOREVER);

	if (!error)
		*found = channel;
	return error;
}

int remote_open_end(struct gdev_channel *channel, uint64_t deadline_ns)
{
	struct gdev_graph *graph = channel->graph;
	int error;

	if (channel->remote)
		return 0;
	if (!channel->outer)
		return graph_complain(
			graph, -EINVAL, "channel %s: ptasks are at both its ends", channel->name);
	pthread_mutex_unlock(&graph->lock);
	error = find(graph, "", deadline_ns, &channel);
	pthread_mutex_lock(&graph->lock);
	return error ? error : remote_error(graph);
}

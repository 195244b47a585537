/* SPDX-License-Identifier: MIT
 *
 * The owner of a named graph, and a member that says whatever the input says: on its socket, in the ring, in the words of the
 * segment, and in the memory of its datablocks. The graph is a callback between two channels, and needs no device. Whatever the
 * member does, when it has gone nothing of it may be left but the graph.
 *
 * Input: operations of a byte that says what, and what it needs behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/ptask/members.h"
#include "proto/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define MEMBER_MEMORY (64u << 10)
#define RECORDS 16

enum { FDS = GRAPH_REGIONS + 2 };

enum operation { REQUEST, FAIR, MESSAGE, TAIL, HEAD, MEMORY, OPERATIONS };

struct input {
	const uint8_t *bytes;
	size_t left;
};

struct world {
	struct gdev_graph *graph;
	int socket;
	struct graph_segment *segment;
	uint8_t *memory;
};

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void take(struct input *input, void *to, size_t bytes)
{
	size_t count = min_of(bytes, input->left);

	memset(to, 0, bytes);
	memcpy(to, input->bytes, count);
	input->bytes += count;
	input->left -= count;
}

static int copy(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	outputs[0].records = min_of(inputs[0].records, outputs[0].records);
	memcpy(outputs[0].data, inputs[0].data, outputs[0].records * sizeof(uint32_t));
	return 0;
}

static void publish_by_hand(struct gdev_graph *graph)
{
	struct publication *publication = calloc(1, sizeof *publication);

	require(publication, "no memory");
	publication->doors = epoll_create1(EPOLL_CLOEXEC);
	publication->gdevd = (struct door){DOOR_GDEVD, -1, NULL};
	publication->again = (struct door){DOOR_AGAIN, -1, NULL};
	publication->user = geteuid();
	publication->member_bytes = MEMBER_MEMORY;
	list_init(&publication->members);
	graph->publication = publication;
	graph->mode = 0666;
}

static struct gdev_graph *open_graph(void)
{
	struct gdev_graph_options options = {.name = "fuzz", .manual = true};
	struct gdev_shape shape = {.layout = GDEV_LAYOUT_RECORDS, .stride = 4, .count = {RECORDS}};
	struct gdev_channel_options in = {.name = "in", .capacity = 4},
				    out = {.name = "out", .capacity = 4};
	struct gdev_port_options from = {.kind = GDEV_PORT_INPUT}, to = {.kind = GDEV_PORT_OUTPUT};
	struct gdev_graph *graph = graph_create(&options);
	struct gdev_port *ports[2];
	struct gdev_channel *channel;
	struct gdev_ptask *ptask;

	require(graph, "no memory");
	publish_by_hand(graph);
	require(!gdev_template_open(graph, NULL, &shape, &from.tmpl), "template");
	to.tmpl = from.tmpl;
	require(!gdev_ptask_open_host(graph, "copy", copy, NULL, &ptask), "ptask");
	require(!gdev_port_open(ptask, &from, &ports[0]), "port");
	require(!gdev_port_open(ptask, &to, &ports[1]), "port");
	require(!gdev_channel_open(graph, NULL, ports[0], &in, &channel), "channel");
	require(!gdev_channel_open(graph, ports[1], NULL, &out, &channel), "channel");
	require(!gdev_graph_run(graph), "run");
	return graph;
}

/* The member says something, and hears the answer. */
static ssize_t talk(struct world *world, struct graph_message *message, int *fds, size_t *count)
{
	static struct graph_look answer;
	ssize_t length;

	send(world->socket, message, sizeof *message, MSG_NOSIGNAL);
	gdev_graph_advance(world->graph);
	length = fd_receive(world->socket, &answer, sizeof answer, fds, count);
	*message = answer.message;
	return length;
}

static void *map(int fd, size_t bytes)
{
	void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	require(got != MAP_FAILED, "mmap");
	return got;
}

static void join(struct world *world, uint8_t user)
{
	struct graph_message message = {.type = GRAPH_JOIN, .version = GRAPH_VERSION};
	int pair[2], fds[FDS];
	size_t count = FDS;

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
		"socketpair");
	pthread_mutex_lock(&world->graph->lock);
	member_create(world->graph, pair[0], user & 1 ? 54321 : geteuid(), 1, GRAPH_CLASS_OTHERS);
	pthread_mutex_unlock(&world->graph->lock);
	world->socket = pair[1];
	require(talk(world, &message, fds, &count) > 0 && !message.status && count == FDS, "join");
	world->segment = map(fds[GRAPH_REGION_SEGMENT], sizeof *world->segment);
	world->memory = map(fds[GRAPH_REGION_MEMBER], MEMBER_MEMORY);
	fd_close_all(fds, count);
	for (unsigned i = 0; i < 2; i++) {
		message = (struct graph_message){.type = GRAPH_FIND};
		strcpy(message.find.name, i ? "out" : "in");
		count = 0;
		require(talk(world, &message, NULL, &count) > 0 && !message.status, "find");
	}
}

static void request(struct world *world, const struct graph_request *asked)
{
	uint32_t tail = world->segment->requests_tail;

	world->segment->requests[tail % GRAPH_REQUESTS] = *asked;
	__atomic_store_n(&world->segment->requests_tail, tail + 1, __ATOMIC_RELEASE);
	gdev_graph_advance(world->graph);
}

/* Likely to be in order. */
static struct graph_request fair(struct input *input)
{
	uint8_t bytes[4];

	take(input, bytes, sizeof bytes);
	return (struct graph_request){
		.type = (uint16_t)(1 + bytes[0] % 5),
		.flags = bytes[1] % 8,
		.end = bytes[0] % 5 + 1 == GRAPH_PULL || bytes[3] & 128,
		.id = bytes[2] % 8 + (bytes[0] & 128 ? GRAPH_IDS : 0),
		.offset = bytes[2] % 8 * 1024,
		.bytes = bytes[3] % (RECORDS + 2) * 4,
	};
}

static void operate(struct world *world, struct input *input)
{
	struct graph_message message;
	struct graph_request asked;
	uint32_t word;
	size_t none = 0;
	uint8_t what;

	take(input, &what, 1);
	switch (what % OPERATIONS) {
	case REQUEST:
		take(input, &asked, sizeof asked);
		request(world, &asked);
		break;
	case FAIR:
		asked = fair(input);
		request(world, &asked);
		break;
	case MESSAGE:
		take(input, &message, sizeof message);
		talk(world, &message, NULL, &none);
		break;
	case TAIL:
		take(input, &word, sizeof word);
		world->segment->requests_tail = word;
		gdev_graph_advance(world->graph);
		break;
	case HEAD:
		take(input, &word, sizeof word);
		world->segment->answers_head = what & 128 ? world->segment->answers_tail : word;
		world->segment->waiting = word;
		break;
	case MEMORY:
		take(input, world->memory, 64);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct input input = {bytes, length};
	struct world world = {.graph = open_graph()};
	uint8_t user;

	take(&input, &user, 1);
	join(&world, user);
	while (input.left)
		operate(&world, &input);
	close(world.socket);
	for (unsigned i = 0; i < 8; i++)
		gdev_graph_advance(world.graph);
	require(list_empty(&world.graph->publication->members), "a member is left");
	require(list_empty(&world.graph->blocks), "a datablock is left");
	munmap(world.segment, sizeof *world.segment);
	munmap(world.memory, MEMBER_MEMORY);
	gdev_graph_close(world.graph);
	return 0;
}

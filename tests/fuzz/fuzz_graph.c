/* SPDX-License-Identifier: MIT
 *
 * The owner of a named graph, and a member that says whatever the input says: on its socket, in the ring, in the words of the
 * segment, and in the memory of its datablocks. The graph is a callback between two channels, and needs no device; or it does not
 * run, and the member builds in it, on a device that takes any code. Whatever the member does, when it has gone nothing of it may
 * be left but the graph, and what it has completed of that.
 *
 * Input: a byte that says which graph and whose member, then operations of a byte that says what, and what it needs behind it.
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

enum { FDS = GRAPH_REGIONS + 1 };

enum operation { REQUEST, FAIR, MESSAGE, TAIL, HEAD, MEMORY, BUILD, FIND, RUN, OPERATIONS };
enum { STRANGER = 1, BUILDS = 2 }; /* bits of the first byte */

struct input {
	const uint8_t *bytes;
	size_t left;
};

struct world {
	struct gdev_graph *graph;
	int socket, bell;
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

/* ---- a device that takes any code: instead of libgdev's calls ---- */

static const struct gdev_param parameters[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};
static const struct gdev_function_info function_info = {.name = "function",
	.param_count = 4,
	.param_bytes = 24,
	.params = parameters,
	.max_threads = 1024};
static char module_of_all, function_of_all;

int gdev_module_load_image(struct gdev_session *session, struct gdev_image *image, char *log,
	size_t log_bytes, struct gdev_module **module)
{
	snprintf(log, log_bytes, "what a compiler says");
	if (*(const char *)gdev_image_bytes(image) == 'x')
		return -GDEV_E_INVALID_IMAGE;
	*module = (struct gdev_module *)&module_of_all;
	return 0;
}

void gdev_module_unload(struct gdev_module *module)
{
}

int gdev_module_function(
	struct gdev_module *module, const char *name, struct gdev_function **function)
{
	*function = (struct gdev_function *)&function_of_all;
	return *name == 'x' ? -GDEV_E_SYMBOL_NOT_FOUND : 0;
}

const struct gdev_function_info *gdev_function_info(const struct gdev_function *function)
{
	return &function_info;
}

int gdev_module_global(
	struct gdev_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
	*address = *bytes = 4096;
	return *name == 'x' ? -GDEV_E_SYMBOL_NOT_FOUND : 0;
}

static char stream_of_all; /* of which no command is sent */

int gdev_stream_create(struct gdev_session *session, int priority, struct gdev_stream **stream)
{
	*stream = (struct gdev_stream *)&stream_of_all;
	return 0;
}

int gdev_stream_create_on(struct gdev_session *session, int priority, struct gdev_part part,
	struct gdev_stream **stream)
{
	return gdev_stream_create(session, priority, stream);
}

void gdev_stream_destroy(struct gdev_stream *stream)
{
}

int gdev_stream_sync(struct gdev_stream *stream)
{
	return 0;
}

int gdev_stream_error(struct gdev_stream *stream)
{
	return 0;
}

void gdev_stream_fence(struct gdev_stream *stream, struct gdev_fence *fence)
{
	*fence = (struct gdev_fence){0};
}

bool gdev_session_is_full(struct gdev_session *session)
{
	return false;
}

int gdev_session_error(struct gdev_session *session, uint64_t *fault_address)
{
	return 0;
}

/* ---- the graph ---- */

static void add_device(struct gdev_graph *graph)
{
	graph->devices = calloc(1, sizeof *graph->devices);
	graph->lanes = calloc(LANES_A_DEVICE, sizeof *graph->lanes);
	require(graph->devices && graph->lanes, "no memory");
	graph->device_count = 1;
	graph->lane_count = LANES_A_DEVICE;
	graph->devices[0].graph = graph;
	buffers_init(&graph->devices[0]);
}

static struct gdev_graph *open_graph(bool runs)
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
	if (runs)
		require(!gdev_graph_run(graph), "run");
	else
		add_device(graph);
	return graph;
}

/* The member says something, and hears the answer. */
static ssize_t talk(struct world *world, struct graph_message *message, int *fds, size_t *count)
{
	static union {
		struct graph_message message;
		struct graph_look look;
		struct graph_built built;
	} answer;
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

static void find_ends(struct world *world)
{
	struct graph_message message;
	size_t none;

	for (unsigned i = 0; i < 2; i++) {
		message = (struct graph_message){.type = GRAPH_FIND};
		strcpy(message.find.name, i ? "out" : "in");
		none = 0;
		require(talk(world, &message, NULL, &none) > 0 && !message.status, "find");
	}
}

static void join(struct world *world, uint8_t first)
{
	struct graph_message message = {.type = GRAPH_JOIN, .version = GRAPH_VERSION};
	int pair[2], fds[FDS];
	size_t count = FDS;

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
		"socketpair");
	pthread_mutex_lock(&world->graph->lock);
	member_create(
		world->graph, pair[0], first & STRANGER ? 54321 : geteuid(), 1, GRAPH_CLASS_OTHERS);
	pthread_mutex_unlock(&world->graph->lock);
	world->socket = pair[1];
	require(talk(world, &message, fds, &count) > 0 && !message.status && count == FDS, "join");
	world->segment = map(fds[GRAPH_REGION_SEGMENT], sizeof *world->segment);
	world->memory = map(fds[GRAPH_REGION_MEMBER], MEMBER_MEMORY);
	world->bell = fds[GRAPH_REGIONS]; /* who closes it leaves */
	fd_close_all(fds, GRAPH_REGIONS);
	if (!(first & BUILDS))
		find_ends(world);
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

/* Likely to be in order, too. */
static void build(struct world *world, struct input *input)
{
	static const char *const names[] = {"", "a", "b", "copy.input", "copy.output", "a.input"};
	struct graph_message message = {.type = GRAPH_BUILD};
	struct graph_build *asked = &message.build;
	uint8_t bytes[8];
	size_t none = 0;

	take(input, bytes, sizeof bytes);
	asked->what = bytes[0] % 14;
	strcpy(asked->name, names[bytes[1] % array_length(names)]);
	asked->bytes = bytes[2] & 128 ? bytes[2] & 15 : (bytes[2] & 1) * 4 + 4;
	asked->module = asked->ptask = asked->port = bytes[3] & 15;
	asked->tmpl = bytes[4] & 15;
	asked->from = asked->in_out = bytes[5] & 15;
	asked->to = asked->size = bytes[6] & 15;
	asked->kind = bytes[7] & 3;
	asked->binding = bytes[7] >> 2 & 7;
	asked->parameter = bytes[7] >> 5;
	asked->stride = asked->count[0] = asked->block[0] = asked->block[1] = asked->block[2] =
		bytes[4] >> 4;
	asked->layout = bytes[5] >> 4 & 3;
	if (asked->what == GRAPH_BUILD_PORT && asked->kind == GDEV_PORT_INPUT)
		asked->in_out = asked->size = 0;
	talk(world, &message, NULL, &none);
}

/* An end of a channel: by name, or at a port of its part. */
static void find(struct world *world, struct input *input)
{
	struct graph_message message = {.type = GRAPH_FIND};
	uint8_t bytes[2];
	size_t none = 0;

	take(input, bytes, sizeof bytes);
	message.find.object = bytes[0] & 15;
	message.find.nth = bytes[0] >> 4 & 1;
	strcpy(message.find.name, bytes[1] & 1 ? "in" : "out");
	talk(world, &message, NULL, &none);
}

/* The owner runs the graph, if nothing of it needs a device. */
static void run(struct world *world)
{
	struct gdev_ptask *ptask;

	list_for_each (ptask, &world->graph->ptasks, link)
		if (ptask->info && !ptask->draft)
			return;
	gdev_graph_run(world->graph);
	gdev_graph_advance(world->graph);
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
	case BUILD:
		build(world, input);
		break;
	case FIND:
		find(world, input);
		break;
	case RUN:
		run(world);
		break;
	}
}

/* The owner's program takes what has come out for it. */
static void take_all(struct gdev_graph *graph)
{
	struct gdev_datablock *block;
	struct gdev_channel *channel;

	list_for_each (channel, &graph->channels, link)
		while (!channel->to && !gdev_pull(channel, 0, &block))
			gdev_datablock_put(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct input input = {bytes, length};
	struct world world = {0};
	struct gdev_ptask *ptask;
	uint8_t first;

	take(&input, &first, 1);
	world.graph = open_graph(!(first & BUILDS));
	join(&world, first);
	while (input.left)
		operate(&world, &input);
	close(world.socket);
	close(world.bell);
	for (unsigned i = 0; i < 8; i++) {
		gdev_graph_advance(world.graph);
		take_all(world.graph);
	}
	require(list_empty(&world.graph->publication->members), "a member is left");
	require(list_empty(&world.graph->blocks), "a datablock is left");
	list_for_each (ptask, &world.graph->ptasks, link)
		require(!ptask->draft, "a ptask is left that was not complete");
	munmap(world.segment, sizeof *world.segment);
	munmap(world.memory, MEMBER_MEMORY);
	gdev_graph_close(world.graph);
	return 0;
}

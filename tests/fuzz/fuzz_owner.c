/* SPDX-License-Identifier: MIT
 *
 * A process that has opened a graph of another, whose owner says whatever the input says: on its socket, in the ring, in the
 * words of the segment, and in the descriptors that it sends. The process opens channels, pushes, pulls, looks at contents, and
 * builds. Whatever the owner does, each call returns, and nothing is left when the graph is closed. Of calls that wait
 * without a limit the owner answers, or is gone.
 *
 * Input: a byte of enum bits, then operations of a byte that says what, and what it needs behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/ptask/control.h"
#include "lib/ptask/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int __wrap_control_request(uint16_t type, struct control_graph *request,
	struct control_graph *answer, int *got, uint64_t deadline_ns);

#define MEMORY (64u << 10)
#define RECORDS 16
#define FDS (GRAPH_REGIONS + 1)
#define KEPT 16 /* of each kind of object: the last ones */

enum operation {
	ANSWER,
	FAIR,
	WORDS,
	FIND,
	BUILD,
	PUSH,
	PULL,
	GIVE_ON,
	READ,
	PUT,
	END,
	OPERATIONS
};
enum bits { WILD = 1, CLOSES_FIRST = 2 }; /* its JOIN is the input's; datablocks are put at last */

struct input {
	const uint8_t *bytes;
	size_t left;
};

static struct world {
	struct input input;
	uint8_t first;
	int socket, bell;
	struct graph_segment *segment; /* where the process has it */
	struct gdev_graph *graph;
	struct gdev_template *tmpl;
	struct gdev_graph_module *module;
	struct gdev_ptask *ptask;
	struct gdev_port *ports[2];
	struct gdev_channel *channels[KEPT];
	struct gdev_datablock *blocks[KEPT];
	unsigned channel_count, block_count; /* ever */
} world;

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void take(void *to, size_t bytes)
{
	size_t count = min_of(bytes, world.input.left);

	memset(to, 0, bytes);
	memcpy(to, world.input.bytes, count);
	world.input.bytes += count;
	world.input.left -= count;
}

static uint8_t take_byte(void)
{
	uint8_t byte;

	take(&byte, 1);
	return byte;
}

/* ---- what the owner says on its socket ---- */

/* So that nobody waits for an answer. */
static void say_no_more(void)
{
	shutdown(world.socket, SHUT_WR);
}

static void die(void)
{
	shutdown(world.socket, SHUT_RDWR);
}

static void say(const void *message, size_t length, const int *fds, size_t count)
{
	char heard[4096];

	while (recv(world.socket, heard, sizeof heard, MSG_DONTWAIT) > 0)
		;
	if (fd_send(world.socket, message, length, fds, count))
		say_no_more();
}

/* The next request is answered so, with `text_bytes` of the input; a wild answer is the last one. */
static void answer(struct graph_message *message, bool text, bool wild)
{
	static struct graph_built built;
	size_t length = sizeof *message;

	message->serial = world.graph->remote->serial + 1;
	built.message = *message;
	if (wild)
		take(&built.message, sizeof built.message);
	if (text) {
		built.message.build.text_bytes = take_byte();
		take(built.text, built.message.build.text_bytes);
		length = offsetof(struct graph_built, text[built.message.build.text_bytes]);
	}
	say(&built, length, NULL, 0);
	if (wild)
		say_no_more();
}

/* ---- joining: instead of gdevd ---- */

static int make_descriptor(uint8_t what, uint64_t bytes)
{
	int fd;

	switch (what % 4) {
	case 1:
		bytes = what;
		break;
	case 2:
		fd = memfd_create("bare", MFD_CLOEXEC);
		require(fd >= 0, "memfd");
		return fd;
	case 3:
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* files stay open */
		require(fd >= 0, "socket");
		return fd;
	}
	fd = fd_shared_memory("fuzz", bytes);
	require(fd >= 0, "memory");
	return fd;
}

static void let_join(void)
{
	struct graph_message message = {.type = GRAPH_JOIN, .serial = 1};
	bool wild = world.first & WILD;
	int fds[FDS];
	size_t count = wild ? take_byte() % (FDS + 1) : FDS;

	for (unsigned i = 0; i < GRAPH_REGIONS; i++) {
		message.regions[i] = (struct graph_region){
			i, 0, 0, i == GRAPH_REGION_SEGMENT ? sizeof *world.segment : MEMORY};
		fds[i] = make_descriptor(wild ? take_byte() : 0, message.regions[i].bytes);
	}
	world.bell = bell_create(&fds[GRAPH_REGIONS]);
	require(world.bell >= 0, "bell");
	if (wild)
		take(&message, sizeof message);
	say(&message, sizeof message, fds, count);
	if (wild)
		say_no_more();
	fd_close_all(fds, FDS);
}

int __wrap_control_request(uint16_t type, struct control_graph *request,
	struct control_graph *reply, int *got, uint64_t deadline_ns)
{
	int pair[2];

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
		"socketpair");
	world.socket = pair[0];
	*got = pair[1];
	let_join();
	return dup(pair[1]); /* the connection to gdevd, which is closed */
}

/* ---- what the owner says in the memory ---- */

static void put_answer(const struct graph_answer *said)
{
	uint32_t tail = world.segment->answers_tail;

	world.segment->answers[tail % GRAPH_ANSWERS] = *said;
	__atomic_store_n(&world.segment->answers_tail, tail + 1, __ATOMIC_RELEASE);
	bell_ring(world.bell);
}

/* Likely to be in order. */
static void put_fair(void)
{
	uint8_t bytes[4];

	take(bytes, sizeof bytes);
	put_answer(&(struct graph_answer){
		.type = 1 + bytes[0] % 3,
		.end = bytes[0] / 4 % 4,
		.id = bytes[1] % 8 + (bytes[0] % 3 ? GRAPH_IDS : 0),
		.status = bytes[3] == 255 ? -1 : 0,
		.offset = bytes[2] & 128 ? GRAPH_NOWHERE : bytes[2] * 512ull,
		.bytes = bytes[3] % (RECORDS + 2) * 4,
	});
}

static void put_words(void)
{
	struct graph_segment *segment = world.segment;
	uint8_t what = take_byte(), end = take_byte() % GRAPH_ENDS_MAX;
	uint32_t word;

	take(&word, sizeof word);
	if (what & 1)
		segment->answers_tail = word;
	if (what & 2)
		segment->requests_head = what & 128 ? segment->requests_tail : word;
	if (what & 4)
		segment->ends[end].taken = word;
	if (what & 8)
		segment->ends[end].state = word;
	if (what & 16)
		segment->asleep = segment->changes = word;
	if (what & 32) {
		memset(segment->why, 'x', sizeof segment->why);
		segment->error = (int32_t)word;
	}
}

/* Nobody waits for ever: the owner takes what it is asked, or is gone. */
static void be_fair_or_die(bool fair)
{
	world.segment->requests_head = world.segment->requests_tail;
	if (!fair || world.graph->remote->due_count >= GRAPH_REQUESTS)
		die();
}

/* ---- what the process does ---- */

static void keep_channel(struct gdev_channel *channel)
{
	world.channels[world.channel_count++ % KEPT] = channel;
}

static void keep_block(struct gdev_datablock *block)
{
	struct gdev_datablock **place = &world.blocks[world.block_count++ % KEPT];

	gdev_datablock_put(*place);
	*place = block;
}

/* How the owner answers FIND. */
static void answer_find(void)
{
	struct graph_message message = {.type = GRAPH_FIND};
	uint8_t what = take_byte(), shape = take_byte();

	message.status = what & 1 ? -(int32_t)(what >> 3) : 0;
	message.find.end = world.graph->remote->end_count + (shape == 255);
	message.find.pushes = what >> 1 & 1;
	message.find.capacity = shape & 15;
	message.find.layout = shape >> 4 & 3;
	message.find.stride = 4;
	message.find.count[0] = RECORDS;
	message.find.count[1] = message.find.count[2] = 1;
	message.find.bytes = (shape >> 6 & 1) + 4 * RECORDS;
	memset(message.find.name, 'x', sizeof message.find.name);
	answer(&message, false, what & 4);
}

static void find(void)
{
	struct gdev_channel *channel;

	answer_find();
	if (!gdev_channel_find(world.graph, "name", 0, &channel))
		keep_channel(channel);
}

/* A channel; its end may have to be found first. NULL: there is none. */
static struct gdev_channel *choose_channel(void)
{
	unsigned count = min_of(world.channel_count, (unsigned)KEPT);
	struct gdev_channel *channel = count ? world.channels[take_byte() % count] : NULL;

	if (channel && !channel->remote && channel->outer)
		answer_find();
	return channel;
}

static struct gdev_datablock *choose_block(void)
{
	return world.blocks[take_byte() % KEPT];
}

static void push(void)
{
	static const uint8_t contents[4 * RECORDS];
	struct gdev_channel *channel = choose_channel();

	if (channel && gdev_channel_template(channel))
		gdev_push_bytes(channel, contents, 4ull * (take_byte() % (RECORDS + 1)), 0);
}

static void pull(void)
{
	struct gdev_channel *channel = choose_channel();
	struct gdev_datablock *block;

	if (channel && !gdev_pull(channel, 0, &block))
		keep_block(block);
}

static void give_on(void)
{
	struct gdev_channel *channel = choose_channel();
	struct gdev_datablock *block = choose_block();

	if (channel && block)
		gdev_push(channel, block, 0);
}

static void read_block(void)
{
	struct gdev_datablock *block = choose_block();
	uint8_t what = take_byte();
	const volatile uint8_t *bytes;
	void *data;

	if (!block)
		return;
	if (what & 1)
		put_answer(&(struct graph_answer){
			.type = GRAPH_BROUGHT, .id = block->slot, .offset = what * 64ull});
	be_fair_or_die(what & 1);
	if (gdev_datablock_map(block, false, &data) || !block->bytes)
		return;
	bytes = data;
	(void)bytes[0];
	(void)bytes[block->bytes - 1];
}

static void end(void)
{
	struct gdev_channel *channel = choose_channel();

	if (!channel)
		return;
	say_no_more();
	be_fair_or_die(true);
	gdev_channel_end(channel);
}

/* How the owner answers BUILD. */
static void answer_build(void)
{
	struct graph_message message = {.type = GRAPH_BUILD};
	uint8_t what = take_byte();

	message.status = what & 1 ? -(int32_t)(what >> 3) : 0;
	message.build.id = what >> 2 & 15;
	message.build.stride = what & 2 ? 4 : what >> 4;
	message.build.count[0] = RECORDS;
	message.build.layout = what >> 6;
	message.build.state = message.build.ended = what >> 4;
	answer(&message, true, what == 253);
}

static void build(void)
{
	static const uint32_t one[3] = {1, 1, 1};
	struct gdev_shape shape = {.layout = GDEV_LAYOUT_RECORDS, .stride = 4, .count = {RECORDS}};
	struct gdev_port_options options = {.tmpl = world.tmpl};
	struct gdev_ptask_info info;
	struct gdev_channel *channel;
	uint8_t what = take_byte();
	char log[64];

	answer_build();
	options.kind = what >> 4 & 1 ? GDEV_PORT_OUTPUT : GDEV_PORT_INPUT;
	switch (what % 12) {
	case 0:
		gdev_template_open(world.graph, "t", &shape, &world.tmpl);
		break;
	case 1:
		gdev_graph_load(world.graph, "code", 4, log, sizeof log, &world.module);
		break;
	case 2:
		if (world.module)
			gdev_ptask_open(world.graph, "p", world.module, "f", &world.ptask);
		break;
	case 3:
		if (world.ptask)
			gdev_port_open(world.ptask, &options, &world.ports[what >> 4 & 1]);
		break;
	case 4:
		if (!gdev_channel_open(world.graph, world.ports[1],
			    what & 32 ? world.ports[0] : NULL, NULL, &channel))
			keep_channel(channel);
		break;
	case 5:
		if (!gdev_channel_open(world.graph, NULL, world.ports[0], NULL, &channel))
			keep_channel(channel);
		break;
	case 6:
		gdev_port_find(world.graph, "a.b", 0, &world.ports[what >> 4 & 1]);
		break;
	case 7:
		if (world.ptask && !gdev_ptask_query(world.ptask, &info))
			require(info.state <= GDEV_PTASK_COMPLETED, "a state that is none");
		break;
	case 8:
		if (world.ptask)
			gdev_ptask_set_geometry(world.ptask, one, one, 0);
		break;
	case 9:
		if (world.ptask)
			gdev_ptask_set_argument(world.ptask, 0, one, 4);
		break;
	case 10:
		if (world.ports[0])
			gdev_port_count(world.ports[0], 1);
		break;
	case 11:
		gdev_graph_run(world.graph);
		break;
	}
}

static void operate(void)
{
	struct graph_answer said;

	switch (take_byte() % OPERATIONS) {
	case ANSWER:
		take(&said, sizeof said);
		put_answer(&said);
		break;
	case FAIR:
		put_fair();
		break;
	case WORDS:
		put_words();
		break;
	case FIND:
		find();
		break;
	case BUILD:
		build();
		break;
	case PUSH:
		push();
		break;
	case PULL:
		pull();
		break;
	case GIVE_ON:
		give_on();
		break;
	case READ:
		read_block();
		break;
	case PUT:
		keep_block(NULL);
		break;
	case END:
		end();
		break;
	}
}

static void put_all(void)
{
	for (unsigned i = 0; i < KEPT; i++)
		gdev_datablock_put(world.blocks[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char why[GDEV_WHY_BYTES];
	int before = dup(0), after;

	close(before);
	world = (struct world){.input = {bytes, length}};
	world.first = take_byte();
	if (!gdev_graph_attach("fuzz", 0, &world.graph)) {
		world.segment = world.graph->remote->segment;
		while (world.input.left)
			operate();
		gdev_graph_why(world.graph, why);
		require(memchr(why, 0, sizeof why), "words without an end");
		if (!(world.first & CLOSES_FIRST))
			put_all();
		gdev_graph_close(world.graph);
		if (world.first & CLOSES_FIRST)
			put_all();
	}
	close(world.socket);
	close(world.bell);
	after = dup(0);
	close(after);
	require(before == after, "a descriptor is left");
	return 0;
}

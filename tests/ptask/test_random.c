/* SPDX-License-Identifier: MIT
 *
 * Random graphs, against the same computed here: functions with one and two inputs, in place, callbacks, outputs in several
 * channels, several rounds under way at once; in each schedule, on one device and on two. A failure names the seed.
 */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#define NODES 24
#define SOURCES 5
#define ROUNDS 12
#define AHEAD_ROUNDS 3
#define GRAPHS 6

enum kind { ADD, SCALE, INCREMENT, NEGATE, KINDS };

struct node {
	enum kind kind;
	int inputs[2]; /* nodes; a source is -1 - its number */
	int factor;
	struct gdev_port *out;
	struct gdev_channel *pull; /* NULL: only other nodes take it */
	bool taken;
};

static struct node nodes[NODES];
static struct gdev_channel *pushes[SOURCES][2 * NODES];
static unsigned push_count[SOURCES];
static uint64_t random_state;

static unsigned pick(unsigned below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(random_state >> 33) % below;
}

static int negate(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	for (int i = 0; i < N; i++)
		((int *)outputs[0].data)[i] = -((const int *)inputs[0].data)[i];
	return 0;
}

static void connect(struct fixture *f, int from, struct gdev_port *to)
{
	struct gdev_channel *made =
		narrow_channel(f, from < 0 ? NULL : nodes[from].out, to, AHEAD_ROUNDS);

	if (from < 0)
		pushes[-1 - from][push_count[-1 - from]++] = made;
	else
		nodes[from].taken = true;
}

static void add_node(struct fixture *f, int index)
{
	static const char *const functions[] = {
		[ADD] = "add", [SCALE] = "scale", [INCREMENT] = "increment"};
	struct node *node = &nodes[index];
	struct gdev_ptask *ptask;
	struct gdev_port *in[2];

	*node = (struct node){.kind = (enum kind)pick(KINDS), .factor = (int)pick(5) - 2};
	for (int i = 0; i < 2; i++)
		node->inputs[i] = (int)pick((unsigned)index + SOURCES) - SOURCES;
	if (node->kind == NEGATE)
		good(f->graph, gdev_ptask_open_host(f->graph, "negate", negate, NULL, &ptask));
	else
		ptask = function(f, functions[node->kind]);
	if (node->kind != INCREMENT)
		node->out = output(ptask, f->ints, 0);
	in[0] = input(ptask, f->ints, node->kind == INCREMENT ? 0 : 1);
	if (node->kind == INCREMENT)
		node->out = port(ptask,
			(struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = in[0]});
	connect(f, node->inputs[0], in[0]);
	if (node->kind == ADD) {
		in[1] = input(ptask, f->ints, 2);
		connect(f, node->inputs[1], in[1]);
	}
	if (node->kind == SCALE)
		argument(ptask, 2, (unsigned)node->factor);
	if (node->kind != NEGATE)
		argument(ptask, node->kind == INCREMENT ? 1 : 3, N);
}

static int value_of(int from, int round, int i)
{
	const struct node *node = &nodes[from < 0 ? 0 : from];

	if (from < 0)
		return 1000 * -from + 10 * round + i;
	int a = value_of(node->inputs[0], round, i);
	switch (node->kind) {
	case ADD:
		return a + value_of(node->inputs[1], round, i);
	case SCALE:
		return a * node->factor;
	case INCREMENT:
		return a + 1;
	default:
		return -a;
	}
}

static void push_round(struct fixture *f, int round)
{
	for (int s = 0; s < SOURCES; s++) {
		struct gdev_datablock *block;
		int values[N];
		for (int i = 0; i < N; i++)
			values[i] = value_of(-1 - s, round, i);
		good(f->graph, gdev_datablock_create(f->graph, f->ints, 0, &block));
		good(f->graph, gdev_datablock_write(block, 0, values, sizeof values));
		for (unsigned i = 0; i < push_count[s]; i++)
			good(f->graph, gdev_push(pushes[s][i], block, GDEV_FOREVER));
		gdev_datablock_put(block);
	}
}

static void pull_round(struct fixture *f, int round, uint64_t seed)
{
	for (int n = 0; n < NODES; n++) {
		int values[N];
		if (!nodes[n].pull)
			continue;
		good(f->graph,
			gdev_pull_bytes(nodes[n].pull, values, sizeof values, GDEV_FOREVER, NULL));
		for (int i = 0; i < N; i += 97)
			if (values[i] != value_of(n, round, i))
				fail_msg("seed %llu, round %d, node %d: value %d is %d, not %d",
					(unsigned long long)seed, round, n, i, values[i],
					value_of(n, round, i));
	}
}

static void run_random(const struct gdev_graph_options *wanted, uint64_t seed)
{
	struct gdev_graph_options options = wanted ? *wanted : (struct gdev_graph_options){0};
	struct fixture *f;

	options.lanes = 1 + seed % GDEV_GRAPH_LANES_MAX;
	f = fixture_open(&options);
	random_state = seed;
	memset(push_count, 0, sizeof push_count);
	for (int n = 0; n < NODES; n++)
		add_node(f, n);
	for (int n = 0; n < NODES; n++)
		if (!nodes[n].taken || !pick(3))
			nodes[n].pull = narrow_channel(f, nodes[n].out, NULL, AHEAD_ROUNDS);
	good(f->graph, gdev_graph_run(f->graph));
	for (int round = 0; round < ROUNDS + AHEAD_ROUNDS; round++) {
		if (round < ROUNDS)
			push_round(f, round);
		if (round >= AHEAD_ROUNDS)
			pull_round(f, round - AHEAD_ROUNDS, seed);
	}
	fixture_teardown((void **)&f);
}

static void test_one_device(void **state)
{
	for (unsigned i = 0; i < GRAPHS; i++)
		for (unsigned schedule = 0; schedule <= GDEV_SCHEDULE_DATA_AWARE; schedule++)
			run_random(
				&(struct gdev_graph_options){
					.schedule = (enum gdev_schedule)schedule},
				100 * i + schedule);
}

static void test_two_devices(void **state)
{
	char names[2][GDEV_NAME_MAX];
	const char *const two[] = {names[0], names[1]};

	assert_int_equal(gdev_vgpu_name(0, names[0]) || gdev_vgpu_name(1, names[1]), 0);
	for (unsigned i = 0; i < GRAPHS; i++)
		for (unsigned schedule = 0; schedule <= GDEV_SCHEDULE_DATA_AWARE; schedule++)
			run_random(&(struct gdev_graph_options){.vgpus = two,
					   .vgpu_count = 2,
					   .schedule = (enum gdev_schedule)schedule},
				1000 + 100 * i + schedule);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_device),
		cmocka_unit_test(test_two_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Small contents that the program writes, and that go to the device together (lib/ptask/gather.c): that they do, and that what is
 * in them is right whatever the program does with them in between. They go alone where the process copies to the device by itself.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/ptask/internal.h"

#define BLOCKS 8
#define MANY 80 /* more than can be gathered at a time */

struct scalers {
	struct fixture *f;
	struct gdev_channel *in[BLOCKS], *out[BLOCKS];
	int values[N];
};

static void open_scalers(struct scalers *s)
{
	s->f = fixture_open(&(struct gdev_graph_options){.lanes = 1});
	for (int i = 0; i < BLOCKS; i++) {
		struct scaler a = scaler(s->f, 2);
		s->in[i] = narrow_channel(s->f, NULL, a.in, MANY);
		s->out[i] = narrow_channel(s->f, a.out, NULL, MANY);
	}
	good(s->f->graph, gdev_graph_run(s->f->graph));
}

static void close_scalers(struct scalers *s)
{
	fixture_teardown((void **)&s->f);
}

static struct gdev_datablock *create(struct scalers *s)
{
	struct gdev_datablock *block;

	good(s->f->graph, gdev_datablock_create(s->f->graph, s->f->ints, 0, &block));
	return block;
}

static struct gdev_datablock *written(struct scalers *s, int first)
{
	struct gdev_datablock *block = create(s);

	for (int i = 0; i < N; i++)
		s->values[i] = first + i;
	good(s->f->graph, gdev_datablock_write(block, 0, s->values, sizeof s->values));
	return block;
}

static void push(struct scalers *s, int number, struct gdev_datablock *block)
{
	good(s->f->graph, gdev_push_give(s->in[number], block, GDEV_FOREVER));
}

/* Commands that the graph has sent. */
static uint64_t commands(const struct gdev_graph *graph)
{
	struct gdev_fence fence;
	uint64_t sum = 0;

	for (unsigned i = 0; i < graph->lanes_used; i++)
		if (graph->lanes[i].stream) {
			gdev_stream_fence(graph->lanes[i].stream, &fence);
			sum += fence.value;
		}
	return sum;
}

static uint64_t commands_of_a_round(struct scalers *s, bool together)
{
	uint64_t before = commands(s->f->graph);
	struct gdev_datablock *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = written(s, i);
		if (!together)
			push(s, i, blocks[i]);
	}
	for (int i = 0; i < BLOCKS && together; i++)
		push(s, i, blocks[i]);
	for (int i = 0; i < BLOCKS; i++)
		pull_ints(s->f, s->out[i], 2 * i, 2);
	return commands(s->f->graph) - before;
}

/* What is written before the first is needed goes in one copy. */
static void test_together(void **state)
{
	struct scalers s;

	open_scalers(&s);
	commands_of_a_round(&s, true);
	if (s.f->graph->devices[0].direct) {
		close_scalers(&s);
		skip();
	}
	assert_int_equal(
		commands_of_a_round(&s, true) + BLOCKS - 1, commands_of_a_round(&s, false));
	close_scalers(&s);
}

static void test_more_than_there_is_room_for(void **state)
{
	struct gdev_datablock *blocks[MANY];
	struct scalers s;

	open_scalers(&s);
	for (int turn = 0; turn < 5; turn++) {
		for (int i = 0; i < MANY; i++)
			blocks[i] = written(&s, turn + i);
		for (int i = MANY - 1; i >= 0; i--)
			push(&s, i % BLOCKS, blocks[i]);
		for (int i = MANY - 1; i >= 0; i--)
			pull_ints(s.f, s.out[i % BLOCKS], 2 * (turn + i), 2);
	}
	close_scalers(&s);
}

/* Changed before and after others have taken it along, in parts, or dropped. */
static void test_changed(void **state)
{
	struct gdev_datablock *before, *after, *parts, *dropped;
	struct scalers s;
	int *words, part[10];

	open_scalers(&s);
	for (int turn = 0; turn < 50; turn++) {
		before = written(&s, 1000);
		after = written(&s, 2000);
		parts = written(&s, 3000);
		dropped = written(&s, 4000);
		good(s.f->graph, gdev_datablock_map(before, true, (void **)&words));
		if (turn % 2)
			gdev_datablock_put(dropped);
		push(&s, 0, written(&s, turn)); /* what is there goes with it */
		for (int i = 0; i < N; i++)
			words[i] = 7 * turn + i;
		good(s.f->graph, gdev_datablock_map(after, true, (void **)&words));
		for (int i = 0; i < N; i++)
			words[i] = 9 * turn + i;
		for (int at = 0; at < N; at += 10) {
			for (int i = 0; i < 10; i++)
				part[i] = 11 * turn + at + i;
			good(s.f->graph,
				gdev_datablock_write(parts, 4ul * (unsigned)at, part, sizeof part));
		}
		push(&s, 1, parts);
		push(&s, 2, after);
		push(&s, 3, before);
		if (turn % 2 == 0)
			push(&s, 4, dropped);
		pull_ints(s.f, s.out[0], 2 * turn, 2);
		pull_ints(s.f, s.out[1], 22 * turn, 2);
		pull_ints(s.f, s.out[2], 18 * turn, 2);
		pull_ints(s.f, s.out[3], 14 * turn, 2);
		if (turn % 2 == 0)
			pull_ints(s.f, s.out[4], 8000, 2);
	}
	close_scalers(&s);
}

/* The program has what it wrote as long as it has the datablock, also when the graph is over. */
static void test_read(void **state)
{
	struct gdev_datablock *kept;
	struct scalers s;
	int words[N];

	open_scalers(&s);
	kept = written(&s, 5);
	good(s.f->graph, gdev_push(s.in[0], kept, GDEV_FOREVER));
	for (int turn = 0; turn < 3 * MANY; turn++) {
		push(&s, 1, written(&s, turn));
		pull_ints(s.f, s.out[1], 2 * turn, 2);
	}
	pull_ints(s.f, s.out[0], 10, 2);
	good(s.f->graph, gdev_datablock_read(kept, 0, words, sizeof words));
	for (int i = 0; i < N; i++)
		assert_int_equal(words[i], 5 + i);
	gdev_graph_close(s.f->graph);
	gdev_datablock_put(kept);
	free(s.f);
}

/* What the program has mapped stays where it is until the datablock is gone, whatever becomes of the graph. */
static void test_mapped(void **state)
{
	struct gdev_datablock *read, *changed;
	struct scalers s;
	int *seen, *words;

	open_scalers(&s);
	read = written(&s, 5);
	changed = written(&s, 6);
	good(s.f->graph, gdev_datablock_map(read, false, (void **)&seen));
	good(s.f->graph, gdev_push(s.in[0], read, GDEV_FOREVER));
	good(s.f->graph, gdev_datablock_map(changed, true, (void **)&words));
	words[0] = 1000;
	good(s.f->graph, gdev_push(s.in[1], changed, GDEV_FOREVER));
	for (int turn = 0; turn < MANY; turn++) {
		push(&s, 2, written(&s, turn));
		pull_ints(s.f, s.out[2], 2 * turn, 2);
	}
	pull_ints(s.f, s.out[0], 10, 2);
	gdev_graph_close(s.f->graph);
	assert_int_equal(words[0], 1000);
	for (int i = 0; i < N; i++) {
		assert_int_equal(seen[i], 5 + i);
		assert_true(!i || words[i] == 6 + i);
	}
	gdev_datablock_put(read);
	gdev_datablock_put(changed);
	free(s.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_more_than_there_is_room_for),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

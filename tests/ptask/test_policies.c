/* SPDX-License-Identifier: MIT
 *
 * Policies as tables: who waits, what is available, and who goes where.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/ptask/policy.h"

#define STAYS (-1)
#define BUSY ((struct place){.strength = 1, .ahead = 4})
#define FREE(how_strong, to_do)                                                                    \
	((struct place){.available = true, .strength = (how_strong), .ahead = (to_do)})

struct row {
	const char *what;
	struct candidate candidates[3];
	unsigned candidate_count;
	struct place places[2];
	unsigned place_count;
	int candidate, place; /* that are chosen; STAYS: none */
};

static void check(const struct policy *policy, const struct row *rows, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct row *row = &rows[i];
		struct choice choice = {99, 99};
		bool goes = policy->choose(row->candidates, row->candidate_count, row->places,
			row->place_count, &choice);
		if (goes != (row->candidate != STAYS) ||
			(goes && ((int)choice.candidate != row->candidate ||
					 (int)choice.place != row->place)))
			fail_msg("%s, %s: candidate %d on %d, not %d on %d", policy->name,
				row->what, goes ? (int)choice.candidate : STAYS, (int)choice.place,
				row->candidate, row->place);
	}
}

static void test_fifo(void **state)
{
	static const struct row rows[] = {
		{"the first one goes", {{.wait_ms = 2}, {.wait_ms = 1, .priority = 9}}, 2,
			{FREE(1, 0)}, 1, 0, 0},
		{"to the strongest", {{0}}, 1, {FREE(1, 0), FREE(2, 3)}, 2, 0, 1},
		{"that is available", {{0}}, 1, {FREE(1, 0), {.strength = 2}}, 2, 0, 0},
		{"and of equals to the one with least to do", {{0}}, 1, {FREE(1, 3), FREE(1, 1)}, 2,
			0, 1},
		{"wherever its data is", {{.bytes_on = {100, 0}}}, 1, {FREE(1, 3), FREE(2, 0)}, 2,
			0, 1},
		{"of those that can run it", {{.unfit = {false, true}}}, 1,
			{FREE(1, 3), FREE(2, 0)}, 2, 0, 0},
		{"the next one, if no such one is available", {{.unfit = {true}}, {.wait_ms = 1}},
			2, {FREE(1, 0), BUSY}, 2, 1, 0},
		{"none, if that has none either", {{.unfit = {true}}, {.unfit = {true}}}, 2,
			{FREE(1, 0), BUSY}, 2, STAYS, 0},
	};

	check(&policy_fifo, rows, sizeof rows / sizeof *rows);
}

static void test_priority(void **state)
{
	static const struct row rows[] = {
		{"equals go in their order", {{0}, {0}}, 2, {FREE(1, 0)}, 1, 0, 0},
		{"static priority", {{.priority = 1}, {.priority = 5}}, 2, {FREE(1, 0)}, 1, 1, 0},
		{"proxy priority", {{0}, {.proxy = 3}}, 2, {FREE(1, 0)}, 1, 1, 0},
		{"short runs go first", {{.average_run_ms = 9}, {.average_run_ms = 1}}, 2,
			{FREE(1, 0)}, 1, 1, 0},
		{"usually long waits go first", {{0}, {.average_wait_ms = 9}}, 2, {FREE(1, 0)}, 1,
			1, 0},
		{"a long wait beats a priority", {{.wait_ms = 30}, {.priority = 10, .wait_ms = 1}},
			2, {FREE(1, 0)}, 1, 0, 0},
		{"a short one does not", {{.wait_ms = 5}, {.priority = 10, .wait_ms = 1}}, 2,
			{FREE(1, 0)}, 1, 1, 0},
		{"what can run nowhere now lets others go", {{.priority = 9, .unfit = {true}}, {0}},
			2, {FREE(1, 0), BUSY}, 2, 1, 0},
	};

	check(&policy_priority, rows, sizeof rows / sizeof *rows);
}

static void test_data_aware(void **state)
{
	static const struct row rows[] = {
		{"where most of its input is", {{.bytes_on = {1, 2}}}, 1, {FREE(9, 0), FREE(1, 3)},
			2, 0, 1},
		{"the strongest if it is nowhere", {{0}}, 1, {FREE(9, 2), FREE(1, 0)}, 2, 0, 0},
		{"it waits for that", {{.wait_ms = 900, .bytes_on = {0, 2}}}, 1, {FREE(1, 0), BUSY},
			2, STAYS, 0},
		{"and others go meanwhile",
			{{.wait_ms = 20, .bytes_on = {0, 2}}, {.bytes_on = {2, 0}}}, 2,
			{FREE(1, 0), BUSY}, 2, 1, 0},
		{"until it has waited for long", {{.wait_ms = 1000, .bytes_on = {0, 2}}}, 1,
			{FREE(1, 0), BUSY}, 2, 0, 0},
		{"not of what cannot run it", {{.bytes_on = {9, 0}, .unfit = {true}}}, 1,
			{FREE(9, 0), FREE(1, 0)}, 2, 0, 1},
		{"however long it waits", {{.wait_ms = 9000, .bytes_on = {0, 2}, .unfit = {true}}},
			1, {FREE(1, 0), BUSY}, 2, STAYS, 0},
		{"or has priority", {{.priority = 1000, .bytes_on = {0, 2}}}, 1, {FREE(1, 0), BUSY},
			2, 0, 0},
	};

	check(&policy_data_aware, rows, sizeof rows / sizeof *rows);
}

/* As many as there can be, in order. */
static void test_order(void **state)
{
	struct candidate candidates[CANDIDATES_MAX] = {0};
	unsigned order[CANDIDATES_MAX];

	for (int i = 0; i < CANDIDATES_MAX; i++)
		candidates[i].priority = i * 37 % CANDIDATES_MAX;
	order_by_priority(candidates, CANDIDATES_MAX, order);
	for (int i = 0; i < CANDIDATES_MAX; i++)
		assert_int_equal(candidates[order[i]].priority, CANDIDATES_MAX - 1 - i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_data_aware),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

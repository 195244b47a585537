/* SPDX-License-Identifier: MIT
 *
 * The arbiter and its policies, as tables of (time, event, what must follow). Times are milliseconds of
 * a fake clock; the quantum is 5. Without more words all entities are in one group, under FIFO.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gdevd/sched/sched.h"

#define MS 1000000ull
#define ENTITIES 4

enum event { END, ACQUIRE, RELEASE, RELEASE_WANTS, REMOVE, TICK, SHARE, STRICT, HAND, CHARGE };
enum { A, B, C, D };

struct step {
	double at_ms;
	enum event event;
	int entity; /* or, for SHARE, its group */
	const char *
		expected; /* "+B": B is granted; "?B": asked to leave when idle; "-B": told to leave */
	double value;     /* RELEASE, CHARGE: ms used, 0 is one; SHARE: percent */
};

/* Who plays, and how. */
struct game {
	const char *policy, *members; /* NULL: fifo */
	unsigned groups[ENTITIES];    /* of each entity */
	unsigned shares[ENTITIES];    /* of each group; 0: 100 */
	int priorities[ENTITIES], nices[ENTITIES];
	bool strict[ENTITIES];
	const char *setting; /* of the groups' policy */
	int64_t value;
	bool prepares; /* "!B": B may be next */
	bool names;    /* ">B": the holder hands over to B (HAND: it has), ">.": to nobody */
};

static struct sched sched;
static struct sched_group groups[ENTITIES];
static struct sched_entity entities[ENTITIES];
static char happened[64];
static bool handed;

static void note(char what, const struct sched_entity *entity)
{
	char text[3] = {what, (char)('A' + (entity - entities)), '\0'};

	assert_true(strlen(happened) + sizeof text < sizeof happened);
	strcat(happened, text);
}

static void on_grant(struct sched *s, struct sched_entity *entity)
{
	handed = false;
	note('+', entity);
}

static void on_revoke(struct sched *s, struct sched_entity *entity, enum worker_revoke how)
{
	note(how == REVOKE_NOW ? '-' : '?', entity);
}

static void on_prepare(struct sched *s, struct sched_entity *entity)
{
	note('!', entity);
}

static bool on_name(struct sched *s, struct sched_entity *entity)
{
	if (handed)
		return false;
	if (entity)
		note('>', entity);
	else
		strcat(happened, ">.");
	return true;
}

static const struct sched_ops ops = {.grant = on_grant, .revoke = on_revoke};
static const struct sched_ops ops_that_prepare = {
	.grant = on_grant,
	.revoke = on_revoke,
	.prepare = on_prepare,
};

static const struct sched_ops ops_that_name = {
	.grant = on_grant,
	.revoke = on_revoke,
	.prepare = on_prepare,
	.name = on_name,
};

static void set_up(const struct game *game)
{
	const struct sched_ops *actions = game->names      ? &ops_that_name
					  : game->prepares ? &ops_that_prepare
							   : &ops;
	const char *members = game->members ? game->members : "fifo";

	sched_init(&sched, sched_policy_find(game->policy ? game->policy : "fifo"), actions, 5 * MS,
		0);
	handed = false;
	if (game->setting)
		assert_int_equal(sched_queue_set(&sched.groups, game->setting, game->value), 0);
	for (unsigned i = 0; i < ENTITIES; i++)
		sched_group_add(&sched, &groups[i], sched_policy_find(members),
			game->shares[i] ? game->shares[i] : 100, game->priorities[i],
			game->strict[i], 0);
	for (unsigned i = 0; i < ENTITIES; i++)
		sched_entity_add(&groups[game->groups[i]], &entities[i]);
}

static void happen(const struct game *game, const struct step *step)
{
	struct sched_entity *entity = &entities[step->entity];
	uint64_t now_ns = (uint64_t)(step->at_ms * MS + 0.5);
	uint64_t used_ns = step->value > 0 ? (uint64_t)(step->value * MS) : MS;

	happened[0] = '\0';
	switch (step->event) {
	case ACQUIRE:
		sched_acquire(entity, game->nices[step->entity], now_ns);
		break;
	case RELEASE:
	case RELEASE_WANTS:
		sched_release(entity, used_ns, step->event == RELEASE_WANTS, now_ns);
		break;
	case HAND:
		handed = true;
		break;
	case REMOVE:
		sched_entity_remove(entity, now_ns);
		break;
	case CHARGE:
		sched_charge(entity, used_ns, now_ns);
		break;
	case STRICT:
		sched_group_change(&groups[step->entity], (unsigned)step->value, 0, true, now_ns);
		break;
	case SHARE:
		sched_group_change(&groups[step->entity], (unsigned)step->value, 0, false, now_ns);
		break;
	default:
		sched_tick(&sched, now_ns);
	}
}

static void play_game(const struct game *game, const struct step *step)
{
	set_up(game);
	for (; step->event != END; step++) {
		happen(game, step);
		if (strcmp(happened, step->expected))
			fail_msg("at %g ms: \"%s\" instead of \"%s\"", step->at_ms, happened,
				step->expected);
	}
}

static void play(const struct step *step)
{
	play_game(&(struct game){0}, step);
}

/* ---- the arbiter ---- */

static void who_waits_may_prepare_when_the_holder_is_told_to_leave(void **state)
{
	/* A group of two, and two more groups. */
	const struct game game = {.prepares = true, .groups = {0, 0, 1, 2}};

	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, "?A"},
				 {2, ACQUIRE, C, ""},
				 {6, TICK, 0, "-A!B!C"},
				 {7, RELEASE, A, "+C?C"},
				 {8, RELEASE, C, "+B"},
				 {9, RELEASE, B, ""},
				 {0},
			 });
}

static void the_holder_hands_over_itself(void **state)
{
	play_game(&(struct game){.names = true, .groups = {0, 1, 2, 3}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "?A"},
			{2, ACQUIRE, C, ""},
			{6, TICK, 0,
				">B-A"}, /* named before it is told, and nobody else prepares */
			{7, HAND, 0, ""},
			{8, RELEASE_WANTS, A, "+B?B"},
			{14, TICK, 0, ">C-B"},
			{15, RELEASE, B, ">.+C?C"}, /* it did not */
			{16, RELEASE, C, "+A"},
			{0},
		});
}

static void who_is_named_changes_as_others_come_and_go(void **state)
{
	const struct game game = {.policy = "priority",
		.names = true,
		.groups = {0, 1, 2, 3},
		.priorities = {0, 1, 2, 0}};

	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, ">B-A"},
				 {2, ACQUIRE, C, ">C"},
				 {3, REMOVE, C, ">.>B"},
				 {4, HAND, 0, ""},
				 {5, ACQUIRE, D, ""},
				 {6, REMOVE, A, "+B?B"}, /* it died when it had handed over */
				 {0},
			 });
	/* Who was handed the device is gone before the one that handed it. */
	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, ">B-A"},
				 {2, ACQUIRE, D, ""},
				 {3, HAND, 0, ""},
				 {4, REMOVE, B, ""},
				 {0},
			 });
}

static void one_that_says_it_handed_over_and_stays_is_overdue(void **state)
{
	play_game(&(struct game){.names = true, .groups = {0, 1, 2, 3}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "?A"},
			{6, TICK, 0, ">B-A"},
			{7, HAND, 0, ""},
			{106, TICK, 0, "+B"},
			{107, RELEASE_WANTS, A, "?B"},
			{0},
		});
}

static void the_next_within_a_group_is_named_when_its_turn_is_over(void **state)
{
	/* Two in a group, and a group beside it. */
	const struct game game = {.policy = "fair",
		.members = "fair",
		.names = true,
		.groups = {0, 0, 1, 1},
		.shares = {50, 50}};

	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, "?A"},
				 {6, TICK, 0, ">B-A"},
				 {7, RELEASE_WANTS, A, ">.+B?B"},
				 {0},
			 });
}

static void sole_user_is_left_alone(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{3, ACQUIRE, A, ""},
		{1000, TICK, A, ""},
		{2000, RELEASE, A, ""},
		{2001, ACQUIRE, A, "+A"},
		{0},
	});
	assert_int_equal(sched_next_ns(&sched), UINT64_MAX);
}

static void holder_keeps_its_quantum(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{2, ACQUIRE, C, ""},
		{4, TICK, A, ""},
		{5, TICK, A, "-A"},
		{6, TICK, A, ""},
		{7, RELEASE_WANTS, A, "+B?B"},
		{12, TICK, A, "-B"},
		{13, RELEASE, B, "+C?C"},
		{0},
	});
}

static void late_comer_revokes_an_old_grant_at_once(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{50, ACQUIRE, B, "-A"},
		{51, RELEASE, A, "+B"},
		{0},
	});
}

static void idle_holder_leaves_early(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{2, RELEASE, A, "+B"},
		{3, ACQUIRE, A, "?B"},
		{0},
	});
}

static void first_come_is_first_served(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, D, "+D"},
		{1, ACQUIRE, C, "?D"},
		{1, ACQUIRE, A, ""},
		{1, ACQUIRE, B, ""},
		{2, RELEASE_WANTS, D, "+C?C"},
		{3, RELEASE, C, "+A?A"},
		{4, RELEASE, A, "+B?B"},
		{5, RELEASE, B, "+D"},
		{0},
	});
}

static void overdue_holder_is_passed_over(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{5, TICK, A, "-A"},
		{104, TICK, A, ""},
		{105, TICK, A, "+B"},
		/* What it asks for while overdue waits until it has left. */
		{106, ACQUIRE, A, ""},
		{120, TICK, A, ""},
		{200, RELEASE, A, "-B"},
		{201, RELEASE, B, "+A"},
		{0},
	});
	assert_int_equal(entities[A].node.used_ns, MS);
}

static void overdue_holder_that_leaves_for_good_is_forgotten(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{6, ACQUIRE, B, "-A"},
		{106, TICK, A, "+B"},
		{107, RELEASE, A, ""},
		{108, RELEASE, B, ""},
		{0},
	});
}

static void dead_holder_makes_room(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{1, ACQUIRE, C, ""},
		{2, REMOVE, B, ""},
		{3, REMOVE, A, "+C"},
		{4, REMOVE, C, ""},
		{5, REMOVE, C, ""},
		{0},
	});
	assert_true(list_empty(&sched.groups.waiting));
}

static void dead_waiter_stops_the_clock(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{2, REMOVE, B, ""},
		{50, TICK, A, ""},
		{60, ACQUIRE, C, "-A"},
		{0},
	});
}

static void release_of_what_is_not_held_only_charges(void **state)
{
	play((const struct step[]){
		{0, RELEASE, A, ""},
		{1, ACQUIRE, B, "+B"},
		{2, RELEASE, A, ""},
		{3, RELEASE_WANTS, A, "?B"},
		{0},
	});
	assert_int_equal(entities[A].node.used_ns, 2 * MS); /* it did not exist for longer */
}

static void next_time_is_the_end_of_the_quantum_and_then_overdue(void **state)
{
	play((const struct step[]){{2, ACQUIRE, A, "+A"}, {3, ACQUIRE, B, "?A"}, {0}});
	assert_int_equal(sched_next_ns(&sched), 7 * MS);
	sched_tick(&sched, 8 * MS);
	assert_int_equal(sched_next_ns(&sched), 108 * MS);
	sched_tick(&sched, 108 * MS);
	assert_int_equal(sched_next_ns(&sched), UINT64_MAX);
}

static void one_setting_is_found_by_its_name(void **state)
{
	play_game(&(struct game){.policy = "band", .setting = "wait_us", .value = 700},
		(const struct step[]){{0}});
	assert_int_equal(sched.groups.settings[1], 700);
	assert_int_equal(sched_queue_set(&sched.groups, "nonsense", 1), -2 /* ENOENT */);
}

static void groups_take_turns_however_many_contexts_they_have(void **state)
{
	play_game(&(struct game){.groups = {0, 0, 0, 1}}, (const struct step[]){
								  {0, ACQUIRE, A, "+A"},
								  {1, ACQUIRE, B, "?A"},
								  {1, ACQUIRE, C, ""},
								  {1, ACQUIRE, D, ""},
								  {5, TICK, 0, "-A"},
								  {6, RELEASE_WANTS, A, "+D?D"},
								  {11, TICK, 0, "-D"},
								  {12, RELEASE_WANTS, D, "+B?B"},
								  {17, TICK, 0, "-B"},
								  {18, RELEASE_WANTS, B, "+D?D"},
								  {0},
							  });
}

static void strict_group_gets_no_more_than_its_share_of_an_idle_device(void **state)
{
	play_game(&(struct game){.shares = {25}, .strict = {true}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{5, TICK, 0, "-A"},
			/* It had 5 ms, used 7, and earns a quarter: half a quantum is there in 18. */
			{7, RELEASE_WANTS, A, "", 7},
			{7.1, TICK, 0, ""},
			{24.9, TICK, 0, ""},
			{25.1, TICK, 0, "+A"},
			{0},
		});
}

static void what_was_used_before_a_group_became_strict_is_not_held_against_it(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1000, STRICT, A, "-A", 20},
		{1001, RELEASE_WANTS, A, "+A", 1001},
		{1006.2, TICK, A, "-A"},
		{1007, RELEASE_WANTS, A, "", 6},
		{0},
	});
}

static void others_are_served_while_a_strict_group_waits_for_its_allowance(void **state)
{
	play_game(&(struct game){.groups = {0, 1}, .shares = {25, 25}, .strict = {true}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{5, TICK, 0, "-A"},
			{9, RELEASE_WANTS, A, "", 9},
			{9, ACQUIRE, B, "+B"},
			{20, TICK, 0, ""},
			{60, TICK, 0, "-B"},
			{61, RELEASE, B, "+A"},
			{0},
		});
}

static void use_of_an_idle_device_is_not_held_against_anyone(void **state)
{
	play_game(&(struct game){.policy = "fair", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{10000, ACQUIRE, B, "-A"}, /* it has had a turn */
			{10001, RELEASE_WANTS, A, "+B?B", 10001},
			{10005, TICK, 0, ""},
			{10006, TICK, 0, "-B"},
			{10006, RELEASE_WANTS, B, "+A?A", 5},
			{0},
		});
}

/* ---- policies ---- */

static void null_lets_everyone_at_once(void **state)
{
	play_game(&(struct game){.policy = "null", .groups = {0, 0, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "+B"},
			{2, ACQUIRE, C, "+C"},
			{200, TICK, 0, ""},
			{201, RELEASE_WANTS, A, "+A"},
			{202, RELEASE, B, ""},
			{203, REMOVE, C, ""},
			{0},
		});
	assert_int_equal(sched_next_ns(&sched), UINT64_MAX);
}

static void priority_takes_the_device_from_the_lower_and_waits_for_equals(void **state)
{
	play_game(
		&(struct game){.policy = "priority", .groups = {0, 1, 2}, .priorities = {0, 0, 7}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "?A"},
			{2, ACQUIRE, C, "-A"},
			{3, RELEASE_WANTS, A, "+C?C"},
			/* Not because of its quantum: those who wait are lower. */
			{30, TICK, 0, ""},
			{31, RELEASE, C, "+B?B"},
			{36, TICK, 0, "-B"},
			{0},
		});
}

static void priority_counts_the_nice_value_too(void **state)
{
	play_game(&(struct game){.policy = "priority", .groups = {0, 1}, .nices = {5, 0}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "-A"},
			{0},
		});
}

static void priority_rescues_who_starves_for_a_quantum(void **state)
{
	play_game(&(struct game){.policy = "priority", .groups = {0, 1}, .priorities = {1, 0}},
		(const struct step[]){
			{1000, ACQUIRE, A, "+A"},
			{1001, ACQUIRE, B, "?A"},
			{1500, TICK, 0, ""},
			{1501, TICK, 0, "-A"},
			{1502, RELEASE_WANTS, A, "+B?B"},
			{1506, TICK, 0, ""},
			{1507, TICK, 0, "-B"},
			{1508, RELEASE_WANTS, B, "+A?A"},
			{1520, TICK, 0, ""},
			{0},
		});
}

static void credit_keeps_the_first_until_its_credit_is_gone(void **state)
{
	/* Half of each period of 30 ms is earned: at 30 both have 15. */
	play_game(&(struct game){.policy = "credit", .groups = {0, 1}, .shares = {50, 50, 1, 1}},
		(const struct step[]){
			{30, ACQUIRE, A, "+A"},
			{31, ACQUIRE, B, "?A"},
			{35, TICK, 0, "-A"},
			{36, RELEASE_WANTS, A, "+A?A", 6},
			{41, TICK, 0, "-A"},
			{43, RELEASE_WANTS, A, "+A?A", 7},
			{48, TICK, 0, "-A"},
			/* 18 used. */
			{48, RELEASE_WANTS, A, "+B?B", 5},
			{0},
		});
}

static void band_waits_for_short_ones_before_it_serves_who_is_over_its_bandwidth(void **state)
{
	play_game(&(struct game){.policy = "band", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1000, ACQUIRE, B, "-A"},
			/* Its utilization is looked at when the next period begins, at 1020. */
			{1001, RELEASE_WANTS, A, "+A?A", 1001},
			{1006, TICK, 0, "-A"},
			{1031, RELEASE_WANTS, A, "+B?B", 30},
			/* A is over its bandwidth: for half a millisecond B may come back. */
			{1031.5, RELEASE, B, "", 0.5},
			{1031.8, ACQUIRE, B, "+B?B"},
			{1032.3, RELEASE, B, "", 0.5},
			{1032.7, TICK, 0, ""},
			/* It did not. */
			{1032.8, TICK, 0, "+A"},
			{0},
		});
}

static void band_keeps_who_is_out_of_credit_but_within_its_bandwidth(void **state)
{
	play_game(&(struct game){.policy = "band", .groups = {0, 1}, .shares = {50, 50, 1, 1}},
		(const struct step[]){
			{61, ACQUIRE, A, "+A"},
			{95, ACQUIRE, B, "-A"},
			/* 35 used, and no credit: but 0 of the last period's time. */
			{96, RELEASE_WANTS, A, "+A?A", 35},
			{101, TICK, 0, "-A"},
			{121, RELEASE_WANTS, A, "+A?A", 25}, /* 35 of 120 */
			{126, TICK, 0, "-A"},
			{155, RELEASE_WANTS, A, "+A?A", 34}, /* 60 of 150 */
			{160, TICK, 0, "-A"},
			{185, RELEASE_WANTS, A, "+B?B", 5}, /* 94 of 180 */
			{0},
		});
	play_game(&(struct game){.policy = "credit", .groups = {0, 1}, .shares = {50, 50, 1, 1}},
		(const struct step[]){
			{61, ACQUIRE, A, "+A"},
			{95, ACQUIRE, B, "-A"},
			{96, RELEASE_WANTS, A, "+B?B", 35},
			{0},
		});
}

static void band_waits_for_nobody_before_the_same_one_goes_on(void **state)
{
	play_game(&(struct game){.policy = "band", .groups = {0, 1}, .shares = {50, 50, 1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1001, RELEASE_WANTS, A, "+A", 1001},
			/* Over its bandwidth by now. */
			{1050, RELEASE_WANTS, A, "+A", 49},
			{0},
		});
}

static void band_gives_the_device_to_whoever_comes_while_it_waits(void **state)
{
	play_game(&(struct game){.policy = "band", .groups = {0, 1, 2}, .shares = {50, 25, 25, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1000, ACQUIRE, B, "-A"},
			{1001, RELEASE_WANTS, A, "+A?A", 1001},
			{1006, TICK, 0, "-A"},
			{1031, RELEASE_WANTS, A, "+B?B", 30},
			{1031.5, RELEASE, B, "", 0.5},
			/* Not one of the two. */
			{1031.7, ACQUIRE, C, "+C?C"},
			{0},
		});
}

static void token_keeps_away_who_has_overdrawn_its_budget(void **state)
{
	play_game(&(struct game){.policy = "token", .groups = {0, 1}, .shares = {90, 10}},
		(const struct step[]){
			{100, ACQUIRE, B, "+B"},
			{100, ACQUIRE, A, "?B"},
			{110, RELEASE_WANTS, B, "+A?A", 10},
			{120, TICK, 0, "-A"},
			{120, RELEASE_WANTS, A, "+A?A", 10},
			{0},
		});
}

static void effective_priority_prefers_the_short_and_those_who_waited(void **state)
{
	play_game(&(struct game){.policy = "effective", .groups = {0, 1, 2}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{8, TICK, 0, "-A"},
			{8, RELEASE, A, "+B", 8},
			{8, ACQUIRE, C, "?B"},
			{9, ACQUIRE, A, ""},
			{10, RELEASE, B, "+C?C", 1},
			{10, ACQUIRE, B, ""},
			/* B came after A, but A's kernels are longer. */
			{10.5, RELEASE, C, "+B?B"},
			{40, RELEASE_WANTS, B, "+A?A"},
			{0},
		});
}

static void fair_gives_turns_by_weight(void **state)
{
	play_game(&(struct game){.policy = "fair", .groups = {0, 1}, .shares = {20, 80}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{5, TICK, 0, "-A"},
			{5, RELEASE_WANTS, A, "+B?B", 5},
			/* It catches up with A: four times as long. */
			{24, TICK, 0, ""},
			{25, TICK, 0, "-B"},
			{25, RELEASE_WANTS, B, "+A?A", 20},
			{0},
		});
}

static void fair_carries_an_overrun_into_the_next_turns(void **state)
{
	play_game(&(struct game){.policy = "fair", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{5, TICK, 0, "-A"},
			{30, RELEASE_WANTS, A, "+B?B", 30},
			{59, TICK, 0, ""},
			{60, TICK, 0, "-B"},
			{60, RELEASE_WANTS, B, "+A?A", 30},
			{0},
		});
}

static void fair_keeps_the_device_free_for_one_that_is_owed_and_will_be_back(void **state)
{
	play_game(&(struct game){.policy = "fair", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			/* A is known to pause for 0.2 ms after each 2 ms. */
			{0, ACQUIRE, A, "+A"},
			{2, RELEASE, A, "", 2},
			{2.2, ACQUIRE, A, "+A"},
			{4.2, RELEASE, A, "", 2},
			{4.4, ACQUIRE, A, "+A"},
			{5, ACQUIRE, B, "?A"},
			{6.4, RELEASE, A, "+B", 2},
			{6.6, ACQUIRE, A, "?B"},
			{11.6, TICK, 0, "-B"},
			{36.6, RELEASE_WANTS, B, "+A?A", 30},
			/* B has had 30 ms, and waits for those of A that are short. */
			{38.6, RELEASE, A, "", 2},
			{38.8, ACQUIRE, A, "+A?A"},
			{40.8, RELEASE, A, "", 2},
			/* A does not come. */
			{41.5, TICK, 0, "+B"},
			{0},
		});
}

static void fair_lets_a_higher_priority_in_at_once_unless_it_is_ahead(void **state)
{
	play_game(&(struct game){.policy = "fair",
			  .groups = {0, 1},
			  .shares = {50, 50},
			  .priorities = {0, 3}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "-A"},
			{2, RELEASE_WANTS, A, "+B?B", 2},
			{32, RELEASE, B, "+A", 30},
			{33, ACQUIRE, B, "?A"},
			{34, TICK, 0, ""},
			{0},
		});
}

static void fair_follows_a_share_that_changes(void **state)
{
	play_game(&(struct game){.policy = "fair", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{5, TICK, 0, "-A"},
			{5, RELEASE_WANTS, A, "+B?B", 5},
			{6, SHARE, 1, "", 90},
			{6, SHARE, 0, "", 10},
			{10, TICK, 0, ""},
			{0},
		});
	/* Not at 10: what A is ahead is worth more of B's time now. */
	assert_in_range(sched_next_ns(&sched), 20 * MS, 60 * MS);
}

static void fair_charges_what_others_did_for_ones_sake(void **state)
{
	play_game(&(struct game){.policy = "fair", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{1, CHARGE, B, "", 12},
			/* A's turn lasts until it has had as much. */
			{11, TICK, 0, ""},
			{12, TICK, 0, "-A"},
			{12, RELEASE_WANTS, A, "+B?B", 12},
			{0},
		});
	/* The same for one that comes later. */
	play_game(&(struct game){.policy = "fair", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, CHARGE, B, "", 12},
			{2, ACQUIRE, B, "?A"},
			{13, TICK, 0, ""},
			{14, TICK, 0, "-A"},
			{0},
		});
}

static void what_is_done_for_ones_sake_counts_against_a_strict_share(void **state)
{
	play_game(&(struct game){.groups = {0, 1}, .shares = {10, 90}, .strict = {true}},
		(const struct step[]){
			{0, CHARGE, A, "", 20},
			{1, ACQUIRE, A, ""},
			{170, TICK, 0, ""},
			{180, TICK, 0, "+A"},
			{0},
		});
}

static void fair_members_share_by_their_nice_values(void **state)
{
	play_game(&(struct game){.members = "fair", .nices = {0, 5}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{5, TICK, 0, "-A"},
			{5, RELEASE_WANTS, A, "+B?B", 5},
			{10, TICK, 0, "-B"},
			{10, RELEASE_WANTS, B, "+A?A", 5},
			/* 1024 to 335 */
			{20.1, TICK, 0, ""},
			{20.3, TICK, 0, "-A"},
			{0},
		});
}

static void unknown_policy_is_none(void **state)
{
	assert_null(sched_policy_find("lottery"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_may_prepare_when_the_holder_is_told_to_leave),
		cmocka_unit_test(the_holder_hands_over_itself),
		cmocka_unit_test(who_is_named_changes_as_others_come_and_go),
		cmocka_unit_test(one_that_says_it_handed_over_and_stays_is_overdue),
		cmocka_unit_test(the_next_within_a_group_is_named_when_its_turn_is_over),
		cmocka_unit_test(sole_user_is_left_alone),
		cmocka_unit_test(holder_keeps_its_quantum),
		cmocka_unit_test(late_comer_revokes_an_old_grant_at_once),
		cmocka_unit_test(idle_holder_leaves_early),
		cmocka_unit_test(first_come_is_first_served),
		cmocka_unit_test(overdue_holder_is_passed_over),
		cmocka_unit_test(overdue_holder_that_leaves_for_good_is_forgotten),
		cmocka_unit_test(dead_holder_makes_room),
		cmocka_unit_test(dead_waiter_stops_the_clock),
		cmocka_unit_test(release_of_what_is_not_held_only_charges),
		cmocka_unit_test(next_time_is_the_end_of_the_quantum_and_then_overdue),
		cmocka_unit_test(one_setting_is_found_by_its_name),
		cmocka_unit_test(groups_take_turns_however_many_contexts_they_have),
		cmocka_unit_test(strict_group_gets_no_more_than_its_share_of_an_idle_device),
		cmocka_unit_test(what_was_used_before_a_group_became_strict_is_not_held_against_it),
		cmocka_unit_test(others_are_served_while_a_strict_group_waits_for_its_allowance),
		cmocka_unit_test(use_of_an_idle_device_is_not_held_against_anyone),
		cmocka_unit_test(null_lets_everyone_at_once),
		cmocka_unit_test(priority_takes_the_device_from_the_lower_and_waits_for_equals),
		cmocka_unit_test(priority_counts_the_nice_value_too),
		cmocka_unit_test(priority_rescues_who_starves_for_a_quantum),
		cmocka_unit_test(credit_keeps_the_first_until_its_credit_is_gone),
		cmocka_unit_test(
			band_waits_for_short_ones_before_it_serves_who_is_over_its_bandwidth),
		cmocka_unit_test(band_keeps_who_is_out_of_credit_but_within_its_bandwidth),
		cmocka_unit_test(band_waits_for_nobody_before_the_same_one_goes_on),
		cmocka_unit_test(band_gives_the_device_to_whoever_comes_while_it_waits),
		cmocka_unit_test(fair_charges_what_others_did_for_ones_sake),
		cmocka_unit_test(what_is_done_for_ones_sake_counts_against_a_strict_share),
		cmocka_unit_test(token_keeps_away_who_has_overdrawn_its_budget),
		cmocka_unit_test(effective_priority_prefers_the_short_and_those_who_waited),
		cmocka_unit_test(fair_gives_turns_by_weight),
		cmocka_unit_test(fair_carries_an_overrun_into_the_next_turns),
		cmocka_unit_test(fair_keeps_the_device_free_for_one_that_is_owed_and_will_be_back),
		cmocka_unit_test(fair_lets_a_higher_priority_in_at_once_unless_it_is_ahead),
		cmocka_unit_test(fair_follows_a_share_that_changes),
		cmocka_unit_test(fair_members_share_by_their_nice_values),
		cmocka_unit_test(unknown_policy_is_none),
	};

	return cmocka_run_group_tests_name("policies", tests, NULL, NULL);
}

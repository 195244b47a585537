/* SPDX-License-Identifier: MIT
 *
 * See game.h.
 */
#include "game.h"

#include <stdio.h>
#include <string.h>

struct sched sched;
struct sched_entity entities[ENTITIES];
static struct sched_group groups[ENTITIES];
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
	for (unsigned i = 0; i < ENTITIES; i++)
		for (unsigned k = 0; k < i; k++)
			if (game->gangs[i] && game->gangs[k] == game->gangs[i]) {
				sched_entity_join(&entities[i], &entities[k]);
				break;
			}
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
	case KEEP:
		sched_keep(entity, used_ns);
		break;
	case PART:
		sched_part(&sched);
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

void play_game(const struct game *game, const struct step *step)
{
	set_up(game);
	for (; step->event != END; step++) {
		happen(game, step);
		if (strcmp(happened, step->expected))
			fail_msg("at %g ms: \"%s\" instead of \"%s\"", step->at_ms, happened,
				step->expected);
	}
}

void play(const struct step *step)
{
	play_game(&(struct game){0}, step);
}

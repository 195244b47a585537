/* SPDX-License-Identifier: MIT
 *
 * The arbiter, played as tables of (time, event, what must follow). Times are milliseconds of a fake clock;
 * the quantum is 5. Without more words all entities are in one group, under FIFO.
 */
#ifndef TESTS_SCHED_GAME_H
#define TESTS_SCHED_GAME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gdevd/sched/sched.h"

#define MS 1000000ull
#define ENTITIES 4

enum event {
	END,
	ACQUIRE,
	RELEASE,
	RELEASE_WANTS,
	REMOVE,
	TICK,
	SHARE,
	STRICT,
	HAND,
	CHARGE,
	KEEP,
	PART
};
enum { A, B, C, D };

struct step {
	double at_ms;
	enum event event;
	int entity; /* or, for SHARE, its group */
	const char *
		expected; /* "+B": B is granted; "?B": asked to leave when idle; "-B": told to leave */
	double value;     /* RELEASE, CHARGE: ms used, 0 is one; SHARE: percent; KEEP: until then */
};

/* Who plays, and how. */
struct game {
	const char *policy, *members; /* NULL: fifo */
	unsigned groups[ENTITIES];    /* of each entity */
	unsigned shares[ENTITIES];    /* of each group; 0: 100 */
	int priorities[ENTITIES], nices[ENTITIES];
	bool strict[ENTITIES];
	unsigned gangs[ENTITIES]; /* of each entity; 0: none */
	const char *setting;      /* of the groups' policy */
	int64_t value;
	bool prepares; /* "!B": B may be next */
	bool names;    /* ">B": the holder hands over to B (HAND: it has), ">.": to nobody */
};

/* Of the last game. */
extern struct sched sched;
extern struct sched_entity entities[ENTITIES];

/* Plays until END; fails where something else follows than is expected. */
void play_game(const struct game *game, const struct step *step);
void play(const struct step *step); /* the game without more words */

#endif

/* SPDX-License-Identifier: MIT
 *
 * Where sessions of a virtual GPU of any device begin: a table of devices and choices, and a thousand sessions that
 * come to eight devices, compute, hold memory and go, in simulated time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gdevd/placement.h"

#define GIB (1ull << 30)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- a table ---- */

/* Of 64 GiB: how many are in use, and so on. */
struct state {
	double load;
	unsigned sessions, used_gib;
	int node;
	bool failing, closed;
};

static const struct {
	const char *what;
	int node, chosen;
	struct state devices[3];
} choices[] = {
	{"of equal devices the first", 0, 0, {{0}, {0}, {0}}},
	{"least load", 0, 1, {{.load = .9}, {.load = .2}, {.load = .5}}},
	{"load before the number of sessions", 0, 1,
		{{.load = 1, .sessions = 1}, {.sessions = 9}, {.load = 1}}},
	{"a little load is none", 0, 2, {{.sessions = 2}, {.sessions = 1}, {.load = .1}}},
	{"fewest sessions", 0, 2, {{.sessions = 2}, {.sessions = 3}, {.sessions = 1}}},
	{"near the client", 1, 2, {{0}, {0}, {.node = 1}}},
	{"fewer sessions before near", 1, 1, {{.sessions = 1}, {0}, {.node = 1, .sessions = 1}}},
	{"a client that runs nobody knows where is near to nothing", PLACEMENT_NO_NODE, 0,
		{{0}, {.node = PLACEMENT_NO_NODE}, {0}}},
	{"most memory at last", 0, 1, {{.used_gib = 16}, {.used_gib = 4}, {.used_gib = 14}}},
	{"one with room before an idle one without", 0, 0,
		{{.load = 1}, {.used_gib = 56}, {.used_gib = 63}}},
	{"one that works before one that fails", 0, 2,
		{{.failing = true}, {.failing = true}, {.load = 1}}},
	{"one that fails if no other is open", 0, 1,
		{{.closed = true}, {.failing = true}, {.closed = true}}},
	{"none if all are closed", 0, -1, {{.closed = true}, {.closed = true}, {.closed = true}}},
};

static struct placement_device see(const struct state *state)
{
	return (struct placement_device){
		.closed = state->closed,
		.failing = state->failing,
		.memory_bytes = 64 * GIB,
		.free_bytes = (64 - state->used_gib) * GIB,
		.context_bytes = GIB,
		.load = state->load,
		.sessions = state->sessions,
		.node = state->node,
	};
}

static void the_table_holds(void **state)
{
	for (size_t i = 0; i < COUNT(choices); i++) {
		const struct placement_client client = {.node = choices[i].node};
		struct placement_device seen[3];
		int chosen;

		for (unsigned k = 0; k < 3; k++)
			seen[k] = see(&choices[i].devices[k]);
		chosen = placement_choose(&placement_room, &client, seen, 3);
		if (chosen != choices[i].chosen)
			fail_msg("%s: device %d was chosen instead of %d", choices[i].what, chosen,
				choices[i].chosen);
	}
}

/* ---- a simulation ---- */

#define DEVICES 8
#define SESSIONS 1000
#define MEMORY_BYTES (64 * GIB)
#define STEP_S 0.1

struct session {
	double begins_s, ends_s, load; /* the part of a device that it would use alone */
	uint64_t bytes;
	int node, device;
};

/* A device's sessions use what they would alone, or equal parts of all that there is. */
static struct placement_device devices[DEVICES];
static struct session sessions[SESSIONS];

struct outcome {
	double spread; /* between the most and the least demand of a device, averaged over time */
	double lost; /* the part of all demand that its device could not serve, and another could */
	unsigned
		short_of_memory; /* sessions whose memory their device did not have, and another did */
	unsigned near;
};

static double random_part(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(*seed >> 11) / (double)(1ull << 53);
}

static void make_sessions(void)
{
	uint64_t seed = 1;

	for (unsigned i = 0; i < SESSIONS; i++) {
		struct session *session = &sessions[i];

		session->begins_s = i * .5 + random_part(&seed) * .5;
		session->ends_s = session->begins_s + 2 + 16 * random_part(&seed);
		session->load = random_part(&seed) < .5 ? .1 : .5 * random_part(&seed);
		session->bytes = (uint64_t)(random_part(&seed) * 24 * (double)GIB);
		session->node = random_part(&seed) < .5;
	}
}

static double demands[DEVICES];

/* What the devices are at that time; a session's load is seen a second after it began. */
static void look(double now_s)
{
	memset(demands, 0, sizeof demands);
	for (unsigned i = 0; i < DEVICES; i++)
		devices[i] = (struct placement_device){.memory_bytes = MEMORY_BYTES,
			.free_bytes = MEMORY_BYTES,
			.context_bytes = GIB / 2,
			.node = i >= DEVICES / 2};
	for (unsigned i = 0; i < SESSIONS; i++) {
		const struct session *session = &sessions[i];
		struct placement_device *device;

		if (session->device < 0 || session->ends_s <= now_s)
			continue;
		device = &devices[session->device];
		demands[session->device] += session->load;
		if (session->begins_s + 1 <= now_s)
			device->load += session->load;
		device->sessions++;
		device->free_bytes -=
			session->bytes < device->free_bytes ? session->bytes : device->free_bytes;
	}
	for (unsigned i = 0; i < DEVICES; i++)
		devices[i].load = devices[i].load > 1 ? 1 : devices[i].load;
}

static void begin(
	struct session *session, const struct placement *placement, struct outcome *outcome)
{
	const struct placement_client client = {.node = session->node};
	uint64_t most_free = 0;

	look(session->begins_s);
	session->device = placement_choose(placement, &client, devices, DEVICES);
	for (unsigned i = 0; i < DEVICES; i++)
		if (devices[i].free_bytes > most_free)
			most_free = devices[i].free_bytes;
	outcome->near += devices[session->device].node == session->node;
	outcome->short_of_memory +=
		devices[session->device].free_bytes < session->bytes && most_free >= session->bytes;
}

static void weigh(double now_s, struct outcome *outcome, double *demand, double *unserved)
{
	double least = 1e9, most = 0, over = 0, idle = 0;

	look(now_s);
	for (unsigned i = 0; i < DEVICES; i++) {
		least = demands[i] < least ? demands[i] : least;
		most = demands[i] > most ? demands[i] : most;
		over += demands[i] > 1 ? demands[i] - 1 : 0;
		idle += demands[i] < 1 ? 1 - demands[i] : 0;
		*demand += demands[i];
	}
	*unserved += over < idle ? over : idle;
	outcome->spread += most - least;
}

static struct outcome simulate(const struct placement *placement)
{
	struct outcome outcome = {0};
	double now_s = 0, demand = 0, unserved = 0;
	unsigned steps = 0, next = 0;

	make_sessions();
	for (unsigned i = 0; i < SESSIONS; i++)
		sessions[i].device = -1;
	for (; next < SESSIONS; now_s += STEP_S, steps++) {
		for (; next < SESSIONS && sessions[next].begins_s <= now_s; next++)
			begin(&sessions[next], placement, &outcome);
		weigh(now_s, &outcome, &demand, &unserved);
	}
	outcome.spread /= steps;
	outcome.lost = unserved / demand;
	return outcome;
}

/* Takes no look at the devices. */
static bool any_better(const struct placement_client *client, const struct placement_device *one,
	const struct placement_device *other)
{
	static uint64_t seed = 7;

	return random_part(&seed) < .5;
}

static bool fewer_sessions(const struct placement_client *client,
	const struct placement_device *one, const struct placement_device *other)
{
	return one->sessions < other->sessions;
}

static void a_thousand_sessions_have_room_and_even_load(void **state)
{
	const struct placement any = {.better = any_better}, fewer = {.better = fewer_sessions};
	struct outcome room = simulate(&placement_room), blind = simulate(&any);
	struct outcome count = simulate(&fewer);

	assert_true(room.lost <= .01 && room.lost < blind.lost / 10);
	assert_true(room.lost <= count.lost);
	assert_true(room.spread < blind.spread / 2);
	assert_true(room.short_of_memory < blind.short_of_memory / 10);
	assert_true(room.near > count.near);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_holds),
		cmocka_unit_test(a_thousand_sessions_have_room_and_even_load),
	};

	return cmocka_run_group_tests_name("sched placement", tests, NULL, NULL);
}

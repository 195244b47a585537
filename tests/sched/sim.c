/* SPDX-License-Identifier: MIT
 *
 * See sim.h. Each worker is a small state machine as worker/grants.c is; what the arbiter does goes
 * through the same calls as gdevd/grants.c makes.
 */
#include "sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define WINDOW_NS NS_PER_MS
#define WINDOW_KERNELS 2
#define CONTENDED_WINDOWS 1.5
#define IDLE_NS (100 * NS_PER_US)
#define SLICE_NS (2 * NS_PER_MS)
#define MAY_COME_NS NS_PER_S
#define TURN_NS (2 * NS_PER_US) /* until the next one sees that it is its turn */
#define SKIP_NS (2 * NS_PER_S)
#define FINE_NS (10 * NS_PER_MS)    /* windows consist of these */
#define EFFECT_NS (100 * NS_PER_MS) /* new shares are to be seen in a window of so long */
#define KERNELS 1024                /* of a context on the device at once, at most */

enum event_kind {
	EVENT_START,   /* a context begins, or comes back from its pause */
	EVENT_KERNEL,  /* the device has finished one */
	EVENT_ACQUIRE, /* messages, as they arrive */
	EVENT_RELEASE,
	EVENT_GRANT,
	EVENT_REVOKE,
	EVENT_IDLE, /* a worker looks whether it has been idle */
	EVENT_TICK,
	EVENT_CHANGE,
};

struct event {
	uint64_t at_ns, order;
	enum event_kind kind;
	unsigned who;
	uint64_t value;
	bool flag;
};

enum grant_state { GRANT_NONE, GRANT_ASKED, GRANT_HELD, GRANT_DRAINING };

struct context {
	const struct sim_context *setup;
	struct sched_entity entity;
	enum grant_state grant;
	enum worker_revoke word;
	bool awake;
	unsigned to_launch;        /* of its batch */
	unsigned unfinished;       /* of its batch */
	uint64_t kernels[KERNELS]; /* on the device */
	unsigned first, count;
	uint64_t in_flight_ns;
	uint64_t used_ns, idle_since_ns;
	uint64_t wants_since_ns; /* for its next kernel to start; 0: it does not wait */
	uint64_t busy_ns;
	uint64_t sleeps_at_ns;
	uint64_t left_ns; /* when it released the device, and did not want it again; 0: never */
};

struct waits {
	float *ms;
	size_t count, room;
};

struct sim {
	const struct sim_scenario *scenario;
	uint64_t now_ns, end_ns, order, random;
	struct event *heap;
	size_t heap_count, heap_room;
	struct sched sched;
	struct sched_group groups[SIM_GROUPS];
	struct context contexts[SIM_CONTEXTS];
	uint64_t tick_ns;
	/* the device */
	int running, resident; /* contexts; -1: none */
	uint64_t kernel_begin_ns, kernel_end_ns, slice_ns;
	uint64_t switches;
	int named; /* whom the holder hands over to (struct turns); -1: nobody */
	/* what is measured */
	uint64_t *fine[SIM_GROUPS]; /* busy ns in every FINE_NS */
	size_t fines;
	struct waits waits[SIM_GROUPS];
};

static double uniform(struct sim *sim)
{
	sim->random ^= sim->random << 13;
	sim->random ^= sim->random >> 7;
	sim->random ^= sim->random << 17;
	return (double)(sim->random >> 11) / 9007199254740992.0;
}

static uint64_t draw_ns(struct sim *sim, const struct sim_lengths *lengths)
{
	double us = lengths->us;

	if (lengths->other > 0 && uniform(sim) < lengths->other)
		us = lengths->other_us;
	if (lengths->random)
		us *= -log(1 - uniform(sim));
	return us < 1 ? NS_PER_US : (uint64_t)(us * NS_PER_US);
}

static double mean_ns(const struct sim_lengths *lengths)
{
	return (lengths->us * (1 - lengths->other) + lengths->other_us * lengths->other) *
	       NS_PER_US;
}

/* ---- events ---- */

static bool sooner(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void post(struct sim *sim, uint64_t at_ns, enum event_kind kind, unsigned who,
	uint64_t value, bool flag)
{
	size_t i = sim->heap_count++;

	if (i == sim->heap_room) {
		sim->heap_room = sim->heap_room ? 2 * sim->heap_room : 64;
		sim->heap = realloc(sim->heap, sim->heap_room * sizeof *sim->heap);
	}
	struct event event = {at_ns, sim->order++, kind, who, value, flag};
	for (; i && sooner(&event, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim->heap[i] = sim->heap[(i - 1) / 2];
	sim->heap[i] = event;
}

static struct event take(struct sim *sim)
{
	struct event first = sim->heap[0], last = sim->heap[--sim->heap_count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < sim->heap_count) {
		if (child + 1 < sim->heap_count && sooner(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!sooner(&sim->heap[child], &last))
			break;
		sim->heap[i] = sim->heap[child];
		i = child;
	}
	sim->heap[i] = last;
	return first;
}

static uint64_t message_ns(const struct sim *sim)
{
	return sim->now_ns + (uint64_t)(sim->scenario->message_us * NS_PER_US);
}

static void tick_at(struct sim *sim)
{
	uint64_t next_ns = sched_next_ns(&sim->sched);

	if (next_ns < sim->now_ns)
		next_ns = sim->now_ns;
	if (next_ns != UINT64_MAX && (next_ns < sim->tick_ns || sim->tick_ns < sim->now_ns)) {
		sim->tick_ns = next_ns;
		post(sim, next_ns, EVENT_TICK, 0, 0, false);
	}
}

/* ---- the device ---- */

static void count_busy(struct sim *sim, unsigned who, uint64_t from_ns, uint64_t to_ns)
{
	struct context *context = &sim->contexts[who];
	unsigned group = context->setup->group;

	context->busy_ns += to_ns - from_ns;
	while (from_ns < to_ns) {
		uint64_t next_ns = (from_ns / FINE_NS + 1) * FINE_NS;
		uint64_t end_ns = next_ns < to_ns ? next_ns : to_ns;

		if (from_ns / FINE_NS < sim->fines)
			sim->fine[group][from_ns / FINE_NS] += end_ns - from_ns;
		from_ns = end_ns;
	}
}

static void count_wait(struct sim *sim, unsigned group, uint64_t wait_ns)
{
	struct waits *waits = &sim->waits[group];

	if (sim->now_ns < SKIP_NS)
		return;
	if (waits->count == waits->room) {
		waits->room = waits->room ? 2 * waits->room : 1024;
		waits->ms = realloc(waits->ms, waits->room * sizeof *waits->ms);
	}
	waits->ms[waits->count++] = (float)((double)wait_ns / NS_PER_MS);
}

static void device_next(struct sim *sim)
{
	int count = (int)sim->scenario->context_count, next = sim->resident;
	struct context *context;

	if (sim->running >= 0)
		return;
	if (next < 0 || !sim->contexts[next].count || sim->now_ns - sim->slice_ns >= SLICE_NS) {
		for (int i = 1; i <= count; i++) {
			int candidate = (sim->resident + i + count) % count;
			if (sim->contexts[candidate].count) {
				next = candidate;
				break;
			}
		}
	}
	if (next < 0 || !sim->contexts[next].count)
		return;
	context = &sim->contexts[next];
	sim->kernel_begin_ns = sim->now_ns;
	if (next != sim->resident) {
		sim->kernel_begin_ns += (uint64_t)(sim->scenario->switch_us * NS_PER_US);
		sim->slice_ns = sim->kernel_begin_ns;
		sim->switches++;
	}
	sim->running = sim->resident = next;
	sim->kernel_end_ns = sim->kernel_begin_ns + context->kernels[context->first];
	if (context->wants_since_ns) {
		count_wait(
			sim, context->setup->group, sim->kernel_begin_ns - context->wants_since_ns);
		context->wants_since_ns = 0;
	}
	post(sim, sim->kernel_end_ns, EVENT_KERNEL, (unsigned)next, 0, false);
}

/* ---- workers ---- */

static bool has_work(const struct context *context)
{
	return context->awake && (!context->setup->batch || context->to_launch);
}

static void release(struct sim *sim, unsigned who)
{
	struct context *context = &sim->contexts[who];
	bool wants = has_work(context);

	if (sim->named >= 0)
		post(sim, sim->now_ns + TURN_NS, EVENT_GRANT, (unsigned)sim->named,
			REVOKE_WHEN_IDLE, false);
	sim->named = -1;
	post(sim, message_ns(sim), EVENT_RELEASE, who, context->setup->lies ? 0 : context->used_ns,
		wants);
	context->used_ns = 0;
	context->grant = wants ? GRANT_ASKED : GRANT_NONE;
	if (wants && !context->wants_since_ns)
		context->wants_since_ns = sim->now_ns;
}

/* As worker/grants.c says; a device that changes context for nothing pauses, too. */
static bool window_is_open(const struct sim *sim, const struct context *context, double estimate_ns)
{
	double then_ns = (double)context->in_flight_ns + estimate_ns;

	if (!context->count || then_ns <= (double)WINDOW_NS)
		return context->count < KERNELS;
	if (context->word != REVOKE_NONE && sim->scenario->switch_us > 0 &&
		then_ns > CONTENDED_WINDOWS * (double)WINDOW_NS)
		return false;
	return context->count < WINDOW_KERNELS;
}

static void submit(struct sim *sim, struct context *context)
{
	double estimate_ns = mean_ns(&context->setup->kernels);

	while (has_work(context) && window_is_open(sim, context, estimate_ns)) {
		uint64_t length_ns = draw_ns(sim, &context->setup->kernels);
		context->kernels[(context->first + context->count++) % KERNELS] = length_ns;
		context->in_flight_ns += (uint64_t)estimate_ns;
		if (context->setup->batch)
			context->to_launch--;
	}
	device_next(sim);
}

/* Does whatever the worker may do now. */
static void work(struct sim *sim, unsigned who)
{
	struct context *context = &sim->contexts[who];

	if (has_work(context) && !context->count && !context->wants_since_ns)
		context->wants_since_ns = sim->now_ns;
	if (context->grant == GRANT_NONE && has_work(context)) {
		context->grant = GRANT_ASKED;
		post(sim, message_ns(sim), EVENT_ACQUIRE, who, 0, false);
	}
	if (context->grant == GRANT_HELD && context->word == REVOKE_NOW)
		context->grant = GRANT_DRAINING;
	if (context->grant == GRANT_HELD)
		submit(sim, context);
	if (context->grant == GRANT_DRAINING && !context->count)
		release(sim, who);
	if (context->grant == GRANT_HELD && context->word == REVOKE_WHEN_IDLE && !context->count &&
		!has_work(context)) {
		if (sim->now_ns >= context->idle_since_ns + IDLE_NS)
			release(sim, who);
		else
			post(sim, context->idle_since_ns + IDLE_NS, EVENT_IDLE, who, 0, false);
	}
}

static void begin_batch(struct sim *sim, unsigned who)
{
	struct context *context = &sim->contexts[who];

	context->to_launch = context->unfinished = context->setup->batch;
	work(sim, who);
}

static void sleep_if_due(struct sim *sim, struct context *context, unsigned who)
{
	const struct sim_context *setup = context->setup;

	if (setup->on_ms <= 0 || !context->awake || sim->now_ns < context->sleeps_at_ns)
		return;
	context->awake = false;
	post(sim, sim->now_ns + (uint64_t)(setup->off_ms * NS_PER_MS), EVENT_START, who, 0, false);
}

static void kernel_done(struct sim *sim, unsigned who)
{
	struct context *context = &sim->contexts[who];
	uint64_t length_ns = sim->kernel_end_ns - sim->kernel_begin_ns;
	struct sim_lengths pause = {context->setup->pause_us, .random = context->setup->varied};

	count_busy(sim, who, sim->kernel_begin_ns, sim->kernel_end_ns);
	sim->running = -1;
	context->first = (context->first + 1) % KERNELS;
	context->count--;
	context->in_flight_ns -= (uint64_t)mean_ns(&context->setup->kernels);
	context->used_ns += length_ns;
	context->idle_since_ns = sim->now_ns;
	if (context->setup->batch && --context->unfinished == 0) {
		sleep_if_due(sim, context, who);
		if (context->awake)
			post(sim, sim->now_ns + draw_ns(sim, &pause), EVENT_START, who, 0, false);
	} else if (!context->setup->batch) {
		sleep_if_due(sim, context, who);
	}
	work(sim, who);
	device_next(sim);
}

static void start(struct sim *sim, unsigned who)
{
	struct context *context = &sim->contexts[who];

	if (!context->awake) {
		context->awake = true;
		context->sleeps_at_ns = sim->now_ns + (uint64_t)(context->setup->on_ms * NS_PER_MS);
	}
	if (context->setup->batch)
		begin_batch(sim, who);
	else
		work(sim, who);
}

/* ---- the arbiter ---- */

static struct sim *sim_of(struct sched *sched)
{
	return container_of(sched, struct sim, sched);
}

static unsigned context_of(struct sim *sim, struct sched_entity *entity)
{
	return (unsigned)(container_of(entity, struct context, entity) - sim->contexts);
}

/* As gdevd/grants.c says. */
static bool may_come(const struct sim *sim, const struct sched_entity *holder)
{
	for (unsigned i = 0; i < sim->scenario->context_count; i++) {
		const struct context *context = &sim->contexts[i];

		if (context->left_ns && sim->now_ns < context->left_ns + MAY_COME_NS &&
			sched_outranks(&context->entity, holder))
			return true;
	}
	return false;
}

static void on_grant(struct sched *sched, struct sched_entity *entity)
{
	struct sim *sim = sim_of(sched);
	enum worker_revoke word = sched_is_contended(sched) ? REVOKE_WHEN_IDLE
				  : may_come(sim, entity)   ? REVOKE_MAY_COME
							    : REVOKE_NONE;

	post(sim, message_ns(sim), EVENT_GRANT, context_of(sim, entity), word, false);
}

static void on_revoke(struct sched *sched, struct sched_entity *entity, enum worker_revoke how)
{
	struct sim *sim = sim_of(sched);

	post(sim, message_ns(sim), EVENT_REVOKE, context_of(sim, entity), how, false);
}

static bool on_name(struct sched *sched, struct sched_entity *entity)
{
	struct sim *sim = sim_of(sched);
	bool handed = sched->named && sim->named < 0;

	if (!handed)
		sim->named = entity ? (int)context_of(sim, entity) : -1;
	return !handed;
}

/* What a worker's page says, and what may be on the device. */
static uint64_t on_used(struct sched *sched, struct sched_entity *holder, uint64_t now_ns)
{
	struct sim *sim = sim_of(sched);
	const struct context *context = &sim->contexts[context_of(sim, holder)];

	return context->setup->lies ? 0 : context->used_ns + context->in_flight_ns;
}

static const struct sched_ops ops = {.grant = on_grant, .revoke = on_revoke, .used_ns = on_used};
static const struct sched_ops turns_ops = {
	.grant = on_grant, .revoke = on_revoke, .name = on_name, .used_ns = on_used};

static void happen(struct sim *sim, const struct event *event)
{
	struct context *context = &sim->contexts[event->who];
	const struct sim_group *group = &sim->scenario->groups[event->who % SIM_GROUPS];

	switch (event->kind) {
	case EVENT_START:
		start(sim, event->who);
		break;
	case EVENT_KERNEL:
		kernel_done(sim, event->who);
		break;
	case EVENT_ACQUIRE:
		sched_acquire(&context->entity, context->setup->nice, sim->now_ns);
		break;
	case EVENT_RELEASE:
		context->left_ns = event->flag ? 0 : sim->now_ns;
		sched_release(&context->entity, event->value, event->flag, sim->now_ns);
		break;
	case EVENT_GRANT:
		if (context->grant != GRANT_ASKED) /* it has it already */
			break;
		context->grant = GRANT_HELD;
		context->word = (enum worker_revoke)event->value;
		context->idle_since_ns = sim->now_ns;
		work(sim, event->who);
		break;
	case EVENT_REVOKE:
		context->word = (enum worker_revoke)event->value;
		work(sim, event->who);
		break;
	case EVENT_IDLE:
		work(sim, event->who);
		break;
	case EVENT_TICK:
		sched_tick(&sim->sched, sim->now_ns);
		break;
	case EVENT_CHANGE:
		sched_group_change(&sim->groups[event->who], group->changed_pct, group->priority,
			group->strict, sim->now_ns);
		break;
	}
	tick_at(sim);
}

static void settings_apply(struct sched_queue *queue, const struct sim_setting *settings)
{
	for (; settings && settings->name; settings++)
		sched_queue_set(queue, settings->name, settings->value);
}

static void sim_init(struct sim *sim, const struct sim_scenario *scenario,
	const struct sched_policy *policy, const struct sim_setting *settings, uint64_t seed)
{
	memset(sim, 0, sizeof *sim);
	sim->scenario = scenario;
	sim->random = seed * 0x9e3779b97f4a7c15ull + 1;
	sim->now_ns = NS_PER_MS; /* 0 means "not yet" here and there */
	sim->end_ns = (uint64_t)(scenario->seconds * NS_PER_S);
	sim->tick_ns = UINT64_MAX;
	sim->running = sim->resident = sim->named = -1;
	sim->fines = sim->end_ns / FINE_NS;
	sched_init(&sim->sched, policy, scenario->turns ? &turns_ops : &ops,
		(uint64_t)(scenario->quantum_ms * NS_PER_MS),
		(uint64_t)((scenario->switch_us +
				   (scenario->turns ? 0 : 2 * scenario->message_us)) *
			   NS_PER_US));
	settings_apply(&sim->sched.groups, settings);
	for (unsigned i = 0; i < scenario->group_count; i++) {
		const struct sim_group *group = &scenario->groups[i];
		const struct sched_policy *inner = group->policy ? sched_policy_find(group->policy)
								 : sched_policy_members(policy);
		sched_group_add(&sim->sched, &sim->groups[i], inner, group->share_pct,
			group->priority, group->strict, sim->now_ns);
		settings_apply(&sim->groups[i].members, settings);
		sim->fine[i] = calloc(sim->fines + 1, sizeof *sim->fine[i]);
		if (group->change_s > 0)
			post(sim, (uint64_t)(group->change_s * NS_PER_S), EVENT_CHANGE, i, 0,
				false);
	}
	for (unsigned i = 0; i < scenario->context_count; i++) {
		struct context *context = &sim->contexts[i];
		context->setup = &scenario->contexts[i];
		sched_entity_add(&sim->groups[context->setup->group], &context->entity);
		/* Not all at the same instant. */
		post(sim, sim->now_ns + (uint64_t)(context->setup->start_s * NS_PER_S) + 1000 * i,
			EVENT_START, i, 0, false);
	}
}

/* ---- results ---- */

/* What each group should have: its share, or its demand when that is less, the rest shared again. */
static void expect(
	const struct sim_scenario *scenario, const double *demand, double at_s, double *expected)
{
	bool settled[SIM_GROUPS] = {false};
	double left = 1, sum = 0;
	bool again = true;

	while (again) {
		double weights = 0, room = left;
		again = false;
		for (unsigned i = 0; i < scenario->group_count; i++) {
			const struct sim_group *group = &scenario->groups[i];
			if (!settled[i])
				weights += group->change_s > 0 && at_s > group->change_s
						   ? group->changed_pct
						   : group->share_pct;
		}
		for (unsigned i = 0; i < scenario->group_count; i++) {
			const struct sim_group *group = &scenario->groups[i];
			double weight = group->change_s > 0 && at_s > group->change_s
						? group->changed_pct
						: group->share_pct;
			if (settled[i])
				continue;
			expected[i] = room * weight / weights;
			if (expected[i] >= demand[i]) {
				expected[i] = demand[i];
				left -= demand[i];
				settled[i] = again = true;
			}
		}
	}
	for (unsigned i = 0; i < scenario->group_count; i++)
		sum += expected[i];
	for (unsigned i = 0; i < scenario->group_count && sum > 0; i++)
		expected[i] /= sum;
}

static bool disturbed(const struct sim_scenario *scenario, double from_s, double to_s)
{
	for (unsigned i = 0; i < scenario->context_count; i++)
		if (scenario->contexts[i].start_s > 0 &&
			scenario->contexts[i].start_s >= from_s - 1 &&
			scenario->contexts[i].start_s < to_s)
			return true;
	for (unsigned i = 0; i < scenario->group_count; i++)
		if (scenario->groups[i].change_s > 0 &&
			scenario->groups[i].change_s >= from_s - 1 &&
			scenario->groups[i].change_s < to_s)
			return true;
	return false;
}

/* The worst difference, over the groups, between what they had of the fine windows and should have had;
 * adds all of them to *sum. */
static double window_error(
	const struct sim *sim, size_t from, size_t count, const double *demand, double *sum)
{
	const struct sim_scenario *scenario = sim->scenario;
	double busy[SIM_GROUPS] = {0}, wanted[SIM_GROUPS], expected[SIM_GROUPS] = {0}, total = 0,
	       worst = 0;
	double at_s = (double)(from * FINE_NS) / NS_PER_S;

	for (unsigned i = 0; i < scenario->group_count; i++) {
		wanted[i] = 0;
		for (size_t j = 0; j < count; j++)
			busy[i] += (double)sim->fine[i][from + j];
		total += busy[i];
	}
	for (unsigned i = 0; i < scenario->context_count; i++)
		if (scenario->contexts[i].start_s <= at_s)
			wanted[scenario->contexts[i].group] += demand[i];
	expect(scenario, wanted, at_s, expected);
	for (unsigned i = 0; i < scenario->group_count; i++) {
		double error = total > 0 ? fabs(busy[i] / total - expected[i]) * 100 : 0;
		*sum += error;
		if (error > worst)
			worst = error;
	}
	return worst;
}

static void measure_errors(const struct sim *sim, const double *demand, struct sim_result *result)
{
	const struct sim_scenario *scenario = sim->scenario;
	double window_s = scenario->window_s > 0 ? scenario->window_s : 1, sum = 0;
	size_t count = (size_t)(window_s * NS_PER_S / FINE_NS), windows = 0;

	for (size_t at = SKIP_NS / FINE_NS; at + count <= sim->fines; at += count) {
		double from_s = (double)(at * FINE_NS) / NS_PER_S, worst;
		if (disturbed(scenario, from_s, from_s + window_s))
			continue;
		worst = window_error(sim, at, count, demand, &sum);
		if (worst > result->error_worst_pct)
			result->error_worst_pct = worst;
		windows++;
	}
	if (windows)
		result->error_avg_pct = sum / (double)(windows * scenario->group_count);
}

/* Whether the groups whose shares changed are nearer to the new ones than to the old, in a window. */
static bool shows_change(const struct sim *sim, size_t from, size_t count)
{
	const struct sim_scenario *scenario = sim->scenario;
	double busy[SIM_GROUPS] = {0}, total = 0, old_sum = 0, new_sum = 0;

	for (unsigned i = 0; i < scenario->group_count; i++) {
		const struct sim_group *group = &scenario->groups[i];

		for (size_t j = 0; j < count; j++)
			busy[i] += (double)sim->fine[i][from + j];
		total += busy[i];
		old_sum += group->share_pct;
		new_sum += group->change_s > 0 ? group->changed_pct : group->share_pct;
	}
	for (unsigned i = 0; i < scenario->group_count && total > 0; i++) {
		const struct sim_group *group = &scenario->groups[i];
		double before = group->share_pct / old_sum, after = group->changed_pct / new_sum;

		if (group->change_s > 0 && fabs(busy[i] / total - after) > fabs(before - after) / 2)
			return false;
	}
	return true;
}

static void measure_effect(const struct sim *sim, double change_s, struct sim_result *result)
{
	size_t count = EFFECT_NS / FINE_NS, first = (size_t)ceil(change_s * NS_PER_S / FINE_NS);
	size_t from = first;

	while (from + count < sim->fines && !shows_change(sim, from, count))
		from++;
	result->effect_ms = (double)((from - first) * FINE_NS + EFFECT_NS) / NS_PER_MS;
}

static void measure_change(const struct sim *sim, const double *demand, struct sim_result *result)
{
	double change_s = 0, ignored = 0;
	size_t from, count = NS_PER_S / FINE_NS;

	result->after_change_pct = -1;
	for (unsigned i = 0; i < sim->scenario->group_count; i++)
		if (sim->scenario->groups[i].change_s > 0)
			change_s = sim->scenario->groups[i].change_s;
	from = (size_t)((change_s * NS_PER_S + EFFECT_NS) / FINE_NS);
	if (change_s > 0 && from + count <= sim->fines)
		result->after_change_pct = window_error(sim, from, count, demand, &ignored);
	if (change_s > 0)
		measure_effect(sim, change_s, result);
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void measure_waits(struct sim *sim, struct sim_result *result)
{
	for (unsigned i = 0; i < sim->scenario->group_count; i++) {
		struct waits *waits = &sim->waits[i];
		if (!waits->count)
			continue;
		qsort(waits->ms, waits->count, sizeof *waits->ms, compare);
		result->wait_p99_ms[i] = waits->ms[(waits->count - 1) * 99 / 100];
		result->wait_worst_ms[i] = waits->ms[waits->count - 1];
	}
}

static void simulate(struct sim *sim)
{
	while (sim->heap_count && sim->heap[0].at_ns < sim->end_ns) {
		struct event event = take(sim);
		sim->now_ns = event.at_ns;
		happen(sim, &event);
	}
}

static void sim_finish(struct sim *sim)
{
	for (unsigned i = 0; i < sim->scenario->group_count; i++) {
		free(sim->fine[i]);
		free(sim->waits[i].ms);
	}
	free(sim->heap);
	free(sim);
}

/* What the context does when it is alone on the device: part of the time. */
static double alone(const struct sim_scenario *scenario, unsigned which, uint64_t seed)
{
	struct sim_scenario single = {.name = scenario->name,
		.message_us = scenario->message_us,
		.quantum_ms = scenario->quantum_ms,
		.seconds = 2,
		.group_count = 1,
		.context_count = 1};
	struct sim *sim;
	double busy;

	single.groups[0].share_pct = 100;
	single.contexts[0] = scenario->contexts[which];
	single.contexts[0].group = 0;
	single.contexts[0].start_s = 0;
	if (!single.contexts[0].batch && single.contexts[0].on_ms <= 0)
		return 1;
	sim = malloc(sizeof *sim);
	sim_init(sim, &single, sched_policy_find("fifo"), NULL, seed);
	simulate(sim);
	busy = (double)sim->contexts[0].busy_ns / (double)sim->end_ns;
	sim_finish(sim);
	return busy;
}

void sim_run(const struct sim_scenario *scenario, const struct sched_policy *policy,
	const struct sim_setting *settings, uint64_t seed, struct sim_result *result)
{
	struct sim *sim = malloc(sizeof *sim);
	double demand[SIM_CONTEXTS];

	memset(result, 0, sizeof *result);
	sim_init(sim, scenario, policy, settings, seed);
	simulate(sim);
	for (unsigned i = 0; i < scenario->context_count; i++) {
		const struct context *context = &sim->contexts[i];
		double part = (double)context->busy_ns / (double)sim->end_ns;
		demand[i] = alone(scenario, i, seed);
		result->throughput += part / demand[i];
		result->busy_pct += 100 * part;
		result->busy_group_pct[context->setup->group] += 100 * part;
	}
	result->switches_per_s = (double)sim->switches / scenario->seconds;
	measure_errors(sim, demand, result);
	measure_change(sim, demand, result);
	measure_waits(sim, result);
	sim_finish(sim);
}

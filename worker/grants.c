/* SPDX-License-Identifier: MIT
 *
 * See grants.h. gdevd decides; this obeys, and keeps the window.
 */
#include "worker/grants.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/usage.h"

#define WINDOW_COMMANDS 2
#define ROW_WINDOWS 2         /* a row of launches is not cut as long as it is in so many */
#define CONTENDED_PERCENT 150 /* of a window, while others wait */
/* While a session that ranks higher may come back: as much as this goes to the device at once, … */
#define NARROW_NS (100 * NS_PER_US)
#define LEAD_NS (20 * NS_PER_US) /* … and more so long before it is done with what it has, */
/* … unless that is so long that the device may as well be idle until the next command comes, 10 us later. */
#define LONG_NS (400 * NS_PER_US)
#define IDLE_LOADED_NS (20 * NS_PER_MS) /* at most, when memory has been brought in */
/* A little more than gdevd waits for a holder (SCHED_OVERDUE_NS). */
#define GIVE_UP_NS (110 * NS_PER_MS)

void grants_init(struct core *core)
{
	for (int i = 0; i < RESOURCES; i++)
		list_init(&core->grants.resources[i].blocked);
}

static void say_grant(
	struct core *core, uint16_t type, uint32_t which, uint64_t used_ns, uint32_t wants)
{
	struct control_grant message = {
		.header = {sizeof message, type, CONTROL_VERSION, 0, 0},
		.resource = which,
		.wants = wants,
		.used_ns = used_ns,
	};

	control_send(core, &message, NULL, 0);
}

static void ask_for_grant(struct core *core, uint32_t which)
{
	core->grants.resources[which].state = GRANT_ASKED;
	if (which == RESOURCE_COMPUTE)
		turn_herald(core);
	say_grant(core, CONTROL_ACQUIRE, which, 0, 0);
}

static uint32_t revoke_word(struct core *core, uint32_t which)
{
	return __atomic_load_n(&core->page->revoke[which], __ATOMIC_RELAXED);
}

bool grant_lasts(struct core *core, enum device_resource which)
{
	return !control_connected(core) || (core->grants.resources[which].state == GRANT_HELD &&
						   revoke_word(core, which) != REVOKE_NOW);
}

/* True also before gdevd has said so: the session that handed its turn over to us was told to leave because others
 * wait. */
bool grant_is_contended(struct core *core, enum device_resource which)
{
	return revoke_word(core, which) != REVOKE_NONE || core->grants.resources[which].handed;
}

bool grant_is_uncontended(struct core *core, enum device_resource which)
{
	return !control_connected(core) ||
	       (grant_lasts(core, which) && !grant_is_contended(core, which));
}

/* Nothing is on the device, and the client copies nothing itself. As long as it may, it can begin at any time. */
static bool is_unused(struct core *core, uint32_t which)
{
	return !core->grants.resources[which].in_flight && direct_is_out(core, which);
}

/* How long the session may be without work before it gives the resource back. What was brought in for this turn would
 * have to be brought in again for the next: keeping the device through a pause costs less, as long as the pause is
 * shorter than that (docs/memory.md, rule 8). It is the same with what a copy has brought into the caches: a client
 * that was woken by the end of its first copy may need 0.2 ms to be there, if it slept through another's turn. */
static uint64_t patience_ns(const struct core *core, uint32_t which)
{
	uint64_t loaded_ns = core->residency.loaded_ns - core->grants.loaded_before_ns;
	uint64_t idle_ns = core->ops->timing.idle_ns[which != RESOURCE_COMPUTE];

	if (which == RESOURCE_COMPUTE)
		return max_of(idle_ns, min_of(loaded_ns, IDLE_LOADED_NS));
	return idle_ns;
}

static bool is_idle(struct core *core, uint32_t which)
{
	if (which == RESOURCE_COMPUTE && residency_busy(&core->residency))
		return false;
	return is_unused(core, which) && list_empty(&core->grants.resources[which].blocked) &&
	       !residency_moves_wait(&core->residency, which);
}

/* wants: more work waits for the resource. Commands that wait for memory count: they will need compute. */
static void release_grant(struct core *core, uint32_t which, bool wants)
{
	struct resource *resource = &core->grants.resources[which];

	wants |= which == RESOURCE_COMPUTE && residency_busy(&core->residency);
	wants |= residency_moves_wait(&core->residency, which);
	turn_hand_over(core, which);
	direct_count(core);
	trace_grant_over(core, which);
	say_grant(core, CONTROL_RELEASE, which, resource->used_ns, wants);
	resource->used_ns = 0;
	resource->handed = false;
	resource->state = wants ? GRANT_ASKED : GRANT_NONE;
	direct_update(core);
	evict_drained(core); /* what is paused reaches nothing */
}

bool grants_can_pause(const struct core *core)
{
	return core->ops->pause && (!core->ops->preempt || core->preempts);
}

static bool can_pause(struct core *core, uint32_t which)
{
	return which == RESOURCE_COMPUTE && grants_can_pause(core);
}

/* A copy within the device is not paused, and may stand behind a launch: it comes to its end only if that does. */
static bool may_pause_now(struct core *core, uint32_t which)
{
	return can_pause(core, which) && !core->grants.resources[which].copies;
}

/* Gives compute back with launches in flight, as soon as none of their blocks runs. */
static void pause_compute(struct core *core, struct resource *resource)
{
	resource->paused = true;
	if (!core->ops->pause(core->device, true))
		return; /* grants_take_quiet() */
	usage_charge(core, RESOURCE_COMPUTE, busy_pause(core, RESOURCE_COMPUTE));
	resource->paused_ns = clock_now_ns();
	release_grant(core, RESOURCE_COMPUTE, true);
}

/* The pause is no part of the time that launches have run. */
static void resume_compute(struct core *core, struct resource *resource)
{
	uint64_t now_ns = clock_now_ns(), passed_ns = now_ns - resource->paused_ns;
	struct command *command;

	if (!resource->paused)
		return;
	if (!residency_settled(&core->residency)) {
		residency_resume(core); /* calls again */
		return;
	}
	if (resource->paused_ns) {
		list_for_each (command, &core->streams.flight, flight_link)
			if (command->resource == RESOURCE_COMPUTE &&
				__atomic_load_n(&command->device.started_ns, __ATOMIC_RELAXED))
				__atomic_add_fetch(
					&command->device.started_ns, passed_ns, __ATOMIC_RELAXED);
		resource->busy.floor_ns = now_ns;
		resource->paused_ns = 0;
	}
	resource->paused = false;
	core->ops->pause(core->device, false);
}

bool grants_are_paused(const struct core *core)
{
	return core->grants.resources[RESOURCE_COMPUTE].paused_ns != 0;
}

void grants_resume(struct core *core)
{
	struct resource *resource = &core->grants.resources[RESOURCE_COMPUTE];

	if (resource->state == GRANT_HELD || !control_connected(core))
		resume_compute(core, resource);
}

void grants_quiet(void *owner)
{
	struct core *core = owner;

	__atomic_store_n(&core->grants.quiet, true, __ATOMIC_SEQ_CST);
	if (!pthread_mutex_trylock(&core->lock))
		core_unlock(core);
}

static void begin_draining(struct core *core, uint32_t which)
{
	core->grants.resources[which].state = GRANT_DRAINING;
	core->grants.resources[which].drains_since_ns = clock_now_ns();
	direct_update(core);
}

/* When to give compute up, UINT64_MAX: not. What is on the device may wait for what is kept from it: the session does not come
 * to leave, and a stream that has nothing on the device is kept out, or the pause keeps a launch of one stream from its
 * begin while that of another runs. One kernel may poll what the other one is to write. */
static uint64_t give_up_ns(const struct core *core, uint32_t which)
{
	const struct resource *resource = &core->grants.resources[which];
	const struct stream *stream;

	if (which != RESOURCE_COMPUTE || resource->state != GRANT_DRAINING)
		return UINT64_MAX;
	if (resource->paused && resource->streams > 1)
		return resource->drains_since_ns + GIVE_UP_NS;
	list_for_each (stream, &resource->blocked, link)
		if (!stream->on_device[which])
			return resource->drains_since_ns + GIVE_UP_NS;
	return UINT64_MAX;
}

/* Gives the resource back with commands on the device, to be given another turn, in which the others go. gdevd has passed over
 * the session anyway. */
static void give_up(struct core *core, uint32_t which)
{
	usage_charge(core, which, busy_pause(core, which));
	release_grant(core, which, true);
}

void grant_obey_word(struct core *core, uint32_t which)
{
	struct resource *resource = &core->grants.resources[which];
	uint32_t revoke = revoke_word(core, which);

	if (resource->state == GRANT_HELD && revoke == REVOKE_NOW)
		begin_draining(core, which);
	else
		direct_update(core);
	if (resource->state == GRANT_HELD && revoke == REVOKE_WHEN_IDLE &&
		(is_idle(core, which) || !direct_is_out(core, which)))
		service_timer(core, clock_now_ns() + patience_ns(core, which));
	if (resource->state != GRANT_DRAINING)
		return;
	if (is_unused(core, which)) {
		release_grant(core, which, !list_empty(&resource->blocked));
		return;
	}
	if (clock_now_ns() >= give_up_ns(core, which)) {
		give_up(core, which);
		return;
	}
	if (may_pause_now(core, which))
		pause_compute(core, resource);
	if (resource->state != GRANT_DRAINING)
		return;
	service_timer(core, give_up_ns(core, which));
	/* What does not leave may be about to be done. */
	turn_plan(core, which);
}

void grants_look(struct core *core)
{
	if (revoke_word(core, RESOURCE_COMPUTE) != REVOKE_NOW)
		return;
	core_lock(core);
	grant_obey_word(core, RESOURCE_COMPUTE);
	core_unlock(core);
}

void grants_look_ahead(struct core *core)
{
	uint64_t at_ns = __atomic_load_n(&core->grants.more_at_ns, __ATOMIC_RELAXED);

	if (!at_ns || clock_now_ns() < at_ns)
		return;
	__atomic_store_n(&core->grants.more_at_ns, 0, __ATOMIC_RELAXED);
	core_lock(core);
	core_unlock(core); /* lets streams go on */
}

bool grants_take_quiet(struct core *core)
{
	if (!__atomic_exchange_n(&core->grants.quiet, false, __ATOMIC_ACQUIRE))
		return false;
	grant_obey_word(core, RESOURCE_COMPUTE);
	return true;
}

/* Whether the device is about to be done with what it has. If not, the poller sees to it that blocked streams look again
 * when it is (grants_look_ahead()). */
static bool is_nearly_done(struct core *core, uint32_t which)
{
	const struct command *oldest =
		list_first(&core->streams.flight, struct command, flight_link);
	uint64_t now_ns = clock_now_ns(), due_ns = grant_due_ns(core, which);

	if (core->grants.resources[which].in_flight_ns > LONG_NS)
		return false;
	if (oldest && !__atomic_load_n(&oldest->device.started_ns, __ATOMIC_RELAXED))
		due_ns = now_ns + core->grants.resources[which].in_flight_ns;
	if (due_ns <= now_ns + LEAD_NS)
		return true;
	__atomic_store_n(&core->grants.more_at_ns, due_ns - LEAD_NS, __ATOMIC_RELAXED);
	return false;
}

/* Where a session that ranks higher may come at any moment, and would have to wait for all that is on the device. */
static bool is_narrow(struct core *core, uint32_t which)
{
	return which == RESOURCE_COMPUTE && core->ops->timing.look_ns &&
	       revoke_word(core, which) == REVOKE_MAY_COME;
}

static bool window_is_open(
	struct core *core, uint32_t which, const struct stream *stream, uint64_t estimate_ns)
{
	const struct resource *resource = &core->grants.resources[which];
	uint64_t window_ns = __atomic_load_n(&core->window_ns, __ATOMIC_RELAXED);
	uint64_t then_ns = resource->in_flight_ns + estimate_ns;

	if (which == RESOURCE_COMPUTE && turn_yields(core))
		return false;
	if (resource->in_flight && then_ns > NARROW_NS && is_narrow(core, which))
		return resource->in_flight < WINDOW_COMMANDS && is_nearly_done(core, which);
	if (!resource->in_flight || then_ns <= window_ns)
		return true;
	if (stream && stream->row && !grant_is_contended(core, which) &&
		then_ns <= ROW_WINDOWS * window_ns)
		return true;
	/* Where kernels have to be rewritten to leave, there may be some that could not be. */
	if (grant_is_contended(core, which) && (!can_pause(core, which) || core->ops->preempt) &&
		then_ns > window_ns / 100 * CONTENDED_PERCENT)
		return false;
	if (stream && !stream->on_device[which])
		return resource->streams < WINDOW_COMMANDS;
	return resource->in_flight < WINDOW_COMMANDS;
}

bool grant_admits(struct core *core, enum device_resource which, const struct stream *stream,
	uint64_t estimate_ns)
{
	struct resource *resource = &core->grants.resources[which];

	if (!control_connected(core))
		return window_is_open(core, which, stream, estimate_ns);
	if (resource->state == GRANT_HELD && revoke_word(core, which) == REVOKE_NOW) {
		begin_draining(core, which);
		if (is_unused(core, which)) /* this one wants it, and is about to be blocked */
			release_grant(core, which, true);
		else
			grant_obey_word(core, which);
	}
	if (resource->state == GRANT_NONE)
		ask_for_grant(core, which);
	if (which == RESOURCE_COMPUTE && resource->state == GRANT_DRAINING && stream &&
		!stream->on_device[which])
		service_timer(core, resource->drains_since_ns + GIVE_UP_NS);
	return resource->state == GRANT_HELD && window_is_open(core, which, stream, estimate_ns);
}

/* What waits on the device keeps the grant, and room of the window. It does so only while nobody else wants the device, and for
 * what is short: to see the end of that takes 10 us. */
bool grant_may_follow(struct core *core)
{
	if (__atomic_load_n(&core->grants.estimate_ns, __ATOMIC_RELAXED) > LONG_NS)
		return false;
	for (uint32_t i = 0; i < RESOURCES; i++)
		if (i == RESOURCE_COMPUTE || core->grants.resources[i].in_flight)
			if (!grant_is_uncontended(core, i))
				return false;
	return true;
}

void grant_submitted(struct core *core, struct command *command)
{
	struct resource *resource = &core->grants.resources[command->resource];

	resource->in_flight++;
	resource->streams += !command->stream || !command->stream->on_device[command->resource]++;
	resource->copies += command->device.kind == DEVICE_COPY;
	__atomic_add_fetch(&core->grants.in_flight, 1, __ATOMIC_RELAXED);
	resource->in_flight_ns += command->estimate_ns;
	resource->doubt_ns += command->doubt_ns;
	__atomic_store_n(&core->grants.estimate_ns, core->grants.estimate_ns + command->estimate_ns,
		__ATOMIC_RELAXED);
}

uint64_t grant_finished(struct core *core, struct command *command)
{
	struct resource *resource = &core->grants.resources[command->resource];
	uint64_t used_ns = busy_add(core, command);

	if (residency_copied(core, command, used_ns))
		resource->used_ns -= used_ns;

	resource->in_flight--;
	resource->streams -= !command->stream || !--command->stream->on_device[command->resource];
	resource->copies -= command->device.kind == DEVICE_COPY;
	__atomic_sub_fetch(&core->grants.in_flight, 1, __ATOMIC_RELAXED);
	resource->in_flight_ns -= command->estimate_ns;
	resource->doubt_ns -= command->doubt_ns;
	__atomic_store_n(&core->grants.estimate_ns, core->grants.estimate_ns - command->estimate_ns,
		__ATOMIC_RELAXED);
	if (!resource->in_flight) {
		busy_end(&resource->busy);
		resource->idle_since_ns = command->device.finished_ns;
	}
	if (revoke_word(core, command->resource) != REVOKE_NONE)
		grant_obey_word(core, command->resource);
	return used_ns;
}

/* When what is on the device should be done. It began when it was issued, or when what was there before was done. */
uint64_t grant_due_ns(struct core *core, enum device_resource which)
{
	const struct resource *resource = &core->grants.resources[which];
	const struct command *oldest =
		list_first(&core->streams.flight, struct command, flight_link);

	if (!oldest || !resource->in_flight)
		return 0;
	return max_of(busy_ended_ns(&resource->busy),
		       __atomic_load_n(&oldest->device.started_ns, __ATOMIC_RELAXED)) +
	       resource->in_flight_ns;
}

static void begin_hold(struct core *core, uint32_t which, bool handed)
{
	struct resource *resource = &core->grants.resources[which];

	resource->state = GRANT_HELD;
	resource->handed = handed;
	turn_announced(core, which, 0);
	resource->idle_since_ns = resource->held_since_ns = clock_now_ns();
	if (which == RESOURCE_COMPUTE) {
		core->grants.loaded_before_ns = core->residency.loaded_ns;
		core->grants.yields_until_ns = 0;
	}
	trace_grant_given(core, which);
	resume_compute(core, resource);
	residency_submit_moves(core, which);
	/* The commands that asked for the grant may be gone by now. */
	grant_obey_word(core, which);
}

void grant_given(struct core *core, uint32_t which)
{
	struct resource *resource = &core->grants.resources[which];

	if (resource->state == GRANT_ASKED) {
		begin_hold(core, which, false);
	} else if (resource->handed) { /* from now on the word says whether others wait */
		resource->handed = false;
		grant_obey_word(core, which);
	}
}

void grant_handed(struct core *core, uint32_t which)
{
	if (core->grants.resources[which].state == GRANT_ASKED)
		begin_hold(core, which, true);
}

void grants_lost(struct core *core)
{
	for (uint32_t i = 0; i < RESOURCES; i++) {
		trace_grant_over(core, i);
		turn_announced(core, i, 0);
		core->grants.resources[i].state = GRANT_NONE;
		core->grants.resources[i].handed = false;
		resume_compute(core, &core->grants.resources[i]);
		residency_submit_moves(core, i);
	}
	direct_update(core);
}

void grants_registered(struct core *core)
{
	for (uint32_t i = 0; i < RESOURCES; i++) {
		struct resource *resource = &core->grants.resources[i];
		resource->state = GRANT_NONE;
		if (!is_idle(core, i))
			ask_for_grant(core, i);
	}
	direct_update(core);
}

void grants_direct_progress(struct core *core)
{
	for (uint32_t i = 0; i < RESOURCES; i++)
		if (revoke_word(core, i) != REVOKE_NONE)
			grant_obey_word(core, i);
}

/* Gives it back, unless the client has just begun something. */
static void leave_idle(struct core *core, uint32_t which)
{
	struct resource *resource = &core->grants.resources[which];

	begin_draining(core, which);
	if (is_unused(core, which)) {
		release_grant(core, which, false);
		if (which == RESOURCE_COMPUTE)
			__atomic_store_n(&core->grants.left, true, __ATOMIC_RELAXED);
		return;
	}
	resource->state = GRANT_HELD;
	direct_update(core);
}

/* When to look at one again that others wait for. */
static uint64_t look_at_idle(struct core *core, uint32_t which, uint64_t now_ns)
{
	const struct resource *resource = &core->grants.resources[which];
	uint64_t again_ns = which == RESOURCE_COMPUTE ? 0 : direct_look(core, which, now_ns);
	uint64_t idle_ns;

	if (again_ns)
		return again_ns;
	if (!is_idle(core, which))
		return UINT64_MAX; /* what ends says so */
	idle_ns = resource->idle_since_ns + patience_ns(core, which);
	if (now_ns < idle_ns)
		return idle_ns;
	leave_idle(core, which);
	return resource->state == GRANT_HELD ? now_ns + DIRECT_LOOK_NS : UINT64_MAX;
}

uint64_t grants_tick(struct core *core, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < RESOURCES; i++)
		if (core->grants.resources[i].state == GRANT_HELD &&
			revoke_word(core, i) == REVOKE_WHEN_IDLE)
			next = min_of(next, look_at_idle(core, i, now_ns));
		else if (now_ns >= give_up_ns(core, i))
			give_up(core, i);
		else
			next = min_of(next, give_up_ns(core, i));
	return next;
}

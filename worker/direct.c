/* SPDX-License-Identifier: MIT
 *
 * See direct.h.
 */
#include "worker/direct.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/core.h"
#include "worker/usage.h"

#define LOOK_AGAIN_NS (200 * NS_PER_MS) /* after the client was last seen to copy */
#define LEAST_PART 8 /* of the time in which it was seen to copy while others waited, it pays for */
#define LOOK_PART 8  /* of the time that it has been at it passes until the next look */

void direct_init(struct core *core)
{
	list_init(&core->direct.stopping);
	core->direct.counted_at_ns = clock_now_ns();
}

static enum session_leave leave_for(struct core *core, enum copy_direction direction)
{
	uint32_t which = copy_resource(direction);

	if (!core->attached || !core->ops->chunk_host_fd || core->direct.stops ||
		!grant_lasts(core, which))
		return SESSION_BY_RECORD;
	return grant_is_uncontended(core, which) ? SESSION_DIRECT : SESSION_DIRECT_CONTENDED;
}

void direct_update(struct core *core)
{
	struct session_header *header = &core->segment->header;

	__atomic_store_n(&header->revoked,
		core->grants.resources[RESOURCE_COMPUTE].state == GRANT_DRAINING ||
			core->limit.is_near,
		__ATOMIC_RELAXED);
	header->direct_possible = core->ops->chunk_host_fd != NULL;
	for (int i = 0; i < SESSION_DIRECTIONS; i++)
		__atomic_store_n(&header->direct_allowed[i], leave_for(core, i), __ATOMIC_RELAXED);
	/* Pairs with the client's: it sees that it may not, or we see that it does. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static bool is_out(struct core *core, enum copy_direction direction)
{
	return !__atomic_load_n(&core->segment->header.direct_copying[direction], __ATOMIC_ACQUIRE);
}

bool direct_is_out(struct core *core, enum device_resource which)
{
	return which == RESOURCE_COMPUTE || is_out(core, copy_direction_of(which));
}

/* ---- the account ---- */

/* By how much a word has grown that the client counts up. The client may write anything there. */
static uint64_t growth(const uint64_t *word, uint64_t *seen, uint64_t most)
{
	uint64_t now = __atomic_load_n(word, __ATOMIC_RELAXED), before = *seen;

	*seen = now;
	return now > before ? min_of(now - before, most) : 0;
}

/* What the client pays now, when it says that it has used so much more. */
static uint64_t charge_client(struct direct_bill *bill, uint64_t said_ns)
{
	uint64_t before_ns = bill->charged_ns;

	bill->said_ns += said_ns;
	bill->charged_ns = max_of(bill->said_ns, bill->least_ns);
	return bill->charged_ns - before_ns;
}

void direct_count(struct core *core)
{
	const struct session_header *header = &core->segment->header;
	struct direct *direct = &core->direct;
	uint64_t now_ns = clock_now_ns();
	bool any = false;

	for (int i = 0; i < SESSION_DIRECTIONS; i++) {
		struct resource *resource = &core->grants.resources[copy_resource(i)];
		uint64_t bytes = growth(&header->direct_bytes[i], &direct->bytes[i], UINT64_MAX);
		uint64_t ns;

		direct->uncounted_ns[i] += now_ns - direct->counted_at_ns;
		ns = growth(&header->direct_ns[i], &direct->ns[i], direct->uncounted_ns[i]);
		direct->uncounted_ns[i] -= ns;
		ns = charge_client(&direct->bills[i], ns);
		if (!bytes && !ns)
			continue;
		any = true;
		resource->used_ns += ns;
		if (bytes) /* and not for what it pays at least */
			resource->idle_since_ns = now_ns;
		usage_copied(core, copy_resource(i), bytes, ns);
	}
	direct->counted_at_ns = now_ns;
	direct->look_again_ns = any ? now_ns + LOOK_AGAIN_NS : 0;
	if (any)
		service_timer(core, direct->look_again_ns);
}

uint64_t direct_look(struct core *core, enum device_resource which, uint64_t now_ns)
{
	enum copy_direction direction = copy_direction_of(which);
	struct resource *resource = &core->grants.resources[which];
	struct direct_bill *bill = &core->direct.bills[direction];
	uint64_t bytes = core->direct.bytes[direction];
	bool copies = !is_out(core, direction);

	if (!core->ops->chunk_host_fd)
		return 0;
	direct_count(core);
	if (bill->looked_at_ns < resource->held_since_ns)
		*bill = (struct direct_bill){
			.looked_at_ns = resource->held_since_ns,
			.busy_since_ns = now_ns,
			.pause_ns = DIRECT_LOOK_NS,
		};
	if (copies || core->direct.bytes[direction] != bytes) {
		bill->least_ns += min_of(now_ns - bill->looked_at_ns, bill->pause_ns) / LEAST_PART;
		resource->idle_since_ns = now_ns;
	} else {
		bill->busy_since_ns = now_ns;
	}
	bill->looked_at_ns = now_ns;
	bill->pause_ns = max_of(DIRECT_LOOK_NS, (now_ns - bill->busy_since_ns) / LOOK_PART);
	return copies ? now_ns + bill->pause_ns : 0;
}

/* ---- stopping ---- */

static bool all_out(struct core *core)
{
	return is_out(core, COPY_TO_DEVICE) && is_out(core, COPY_FROM_DEVICE);
}

static void end_stops(struct core *core, uint64_t now_ns)
{
	struct direct_stop *stop, *next;
	bool out = all_out(core);

	list_for_each_safe (stop, next, &core->direct.stopping, link) {
		if (!out && now_ns < stop->deadline_ns)
			continue;
		list_remove(&stop->link);
		if (!out)
			direct_moved(core); /* so late a copy finds out, and is made again */
		stop->stopped(core, stop);
	}
}

void direct_stop(struct core *core, struct direct_stop *stop)
{
	core->direct.stops++;
	direct_update(core);
	if (all_out(core)) {
		list_init(&stop->link);
		stop->stopped(core, stop);
		return;
	}
	stop->deadline_ns = clock_now_ns() + DIRECT_STOP_NS;
	list_append(&core->direct.stopping, &stop->link);
	service_timer(core, stop->deadline_ns);
}

void direct_moved(struct core *core)
{
	__atomic_store_n(&core->segment->header.direct_generation, ++core->direct.generation,
		__ATOMIC_SEQ_CST);
}

void direct_resume(struct core *core)
{
	core->direct.stops--;
	direct_update(core);
}

void direct_progress(struct core *core)
{
	direct_count(core);
	end_stops(core, clock_now_ns());
	grants_direct_progress(core);
}

uint64_t direct_tick(struct core *core, uint64_t now_ns)
{
	struct direct_stop *stop;
	uint64_t next = UINT64_MAX;

	if (core->direct.look_again_ns && now_ns >= core->direct.look_again_ns)
		direct_count(core);
	end_stops(core, now_ns);
	list_for_each (stop, &core->direct.stopping, link)
		next = min_of(next, stop->deadline_ns);
	if (core->direct.look_again_ns)
		next = min_of(next, core->direct.look_again_ns);
	return next;
}

/* SPDX-License-Identifier: MIT
 *
 * See limit.h.
 */
#include "worker/limit.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"

#define LOOKS 8 /* in the time of a limit: it is noticed at most so much late */

static uint64_t next_look(const struct core *core, uint64_t now_ns)
{
	return now_ns + max_of(core->limit.limit_ns / LOOKS, NS_PER_MS);
}

static void say_near(struct core *core, bool is_near)
{
	if (core->limit.is_near == is_near)
		return;
	core->limit.is_near = is_near;
	direct_update(core);
}

void limit_submitted(struct core *core, const struct command *command)
{
	struct limit *limit = &core->limit;

	if (!limit->limit_ns || command->device.kind != DEVICE_LAUNCH)
		return;
	/* While others are on the device the next look says which of them is. */
	if (list_first(&core->streams.flight, struct command, flight_link) == command)
		say_near(core, false);
	if (limit->armed)
		return;
	limit->armed = true;
	service_timer(core, next_look(core, clock_now_ns()));
}

/* Since when the launch has been running, as far as one knows; 0: not yet. */
static uint64_t running_since(
	struct core *core, const struct command *launch, bool oldest, uint64_t now_ns)
{
	struct limit *limit = &core->limit;

	if (core->ops->tells_start)
		return __atomic_load_n(&launch->device.started_ns, __ATOMIC_RELAXED);
	if (!oldest) /* it may wait behind the others */
		return 0;
	if (limit->sequence != launch->sequence) {
		limit->sequence = launch->sequence;
		limit->since_ns = now_ns;
	}
	return limit->since_ns;
}

static void end_overlong(struct core *core)
{
	log_error(
		"session %llu of process %d: a kernel runs longer than the %llu ms that virtual GPU "
		"\"%.*s\" allows",
		(unsigned long long)core->session.session, (int)core->session.pid,
		(unsigned long long)(core->limit.limit_ns / NS_PER_MS), CONTROL_NAME_MAX,
		core->session.vgpu);
	core_abandon(core, -GDEV_E_LAUNCH_TIMEOUT);
}

uint64_t limit_tick(struct core *core, uint64_t now_ns)
{
	struct limit *limit = &core->limit;
	struct command *command;
	bool any = false, is_near = false;

	if (!limit->armed || core->ended)
		return UINT64_MAX;
	if (core->grants.resources[RESOURCE_COMPUTE].paused_ns)
		return next_look(core, now_ns);
	list_for_each (command, &core->streams.flight, flight_link) {
		uint64_t since_ns;
		if (command->device.kind != DEVICE_LAUNCH)
			continue;
		since_ns = running_since(core, command, !any, now_ns);
		any = true;
		if (!since_ns || now_ns <= since_ns)
			continue;
		if (now_ns - since_ns > limit->limit_ns) {
			end_overlong(core);
			return UINT64_MAX;
		}
		is_near |= now_ns - since_ns > limit->limit_ns / 2;
	}
	say_near(core, is_near);
	limit->armed = any;
	return any ? next_look(core, now_ns) : UINT64_MAX;
}

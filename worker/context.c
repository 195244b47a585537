/* SPDX-License-Identifier: MIT
 *
 * See context.h.
 */
#include "worker/context.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/core.h"
#include "worker/usage.h"

#define SETTLE_NS (20 * NS_PER_MS) /* jobs that are about to end get so long for it */
#define SETTLE_PAUSE_US 50
#define RETRY_NS (100 * NS_PER_MS) /* others than gdev have the memory: it is tried again, */
#define TRIES_MAX 300              /* so often */

static void set_state(struct core *core, enum context_state state)
{
	static const uint32_t said[] = {
		[CONTEXT_RETIRED] = WORKER_CONTEXT_RETIRED,
		[CONTEXT_ASKING] = WORKER_CONTEXT_WANTED,
		[CONTEXT_OPENING] = WORKER_CONTEXT_WANTED,
	};

	__atomic_store_n(&core->context.state, state, __ATOMIC_SEQ_CST);
	__atomic_store_n(&core->page->context, said[state], __ATOMIC_RELAXED);
}

static void set_wanted(struct core *core, bool wanted)
{
	__atomic_store_n(&core->context.wanted, wanted, __ATOMIC_RELAXED);
}

void context_init(struct core *core)
{
	core->context.bytes = core->ops->overhead_bytes(core->device);
}

bool context_is_closed(const struct core *core)
{
	return __atomic_load_n(&core->context.state, __ATOMIC_SEQ_CST) > CONTEXT_LEAVING;
}

bool context_may_be_wanted(const struct core *core)
{
	return context_is_closed(core) && !__atomic_load_n(&core->context.wanted, __ATOMIC_RELAXED);
}

static uint64_t whole_bytes(const struct context *context)
{
	return context->bytes + context->module_bytes;
}

uint64_t context_held_bytes(const struct core *core)
{
	const struct context *context = &core->context;

	return context->state == CONTEXT_RETIRED ? 0 : whole_bytes(context);
}

/* ---- giving it back ---- */

static uint32_t find_keeper(struct core *core)
{
	const struct memory *memory = &core->memory;

	if (!core->ops->retire || !core->attached)
		return KEPT_BY_DEVICE;
	if (!list_empty(&memory->shared) || !list_empty(&memory->holds))
		return KEPT_BY_SHARING;
	for (size_t i = 0; i < memory->range_count; i++) {
		const struct range *range = memory->ranges[i];
		if (range->kind == RANGE_SHARED || range->stays)
			return KEPT_BY_SHARING;
		if (range->mapped)
			return KEPT_BY_MAPPING;
	}
	return core->ops->keeps(core->space);
}

/* Commands of a suspended session wait; those of another are being worked at. */
static bool is_idle(struct core *core)
{
	return core->attached && !core->error &&
	       (core->residency.suspended || (!core->streams.busy && !ring_has_records(core)));
}

bool context_begin_retiring(struct core *core)
{
	uint32_t keeper = find_keeper(core);

	__atomic_store_n(&core->page->kept_by, keeper, __ATOMIC_RELAXED);
	if (keeper || !is_idle(core) || core->context.state != CONTEXT_OPEN)
		return false;
	set_state(core, CONTEXT_LEAVING);
	return true;
}

/* Whether the calling job alone is about to do something. Whatever a record has begun is a job, a wish for memory, or a
 * question to gdevd. */
static bool is_quiet(struct core *core)
{
	const struct control_request *request;

	list_for_each (request, &core->control.requests, link)
		if (!request->lasting) /* a stream's wait for another session's event */
			return false;
	return is_idle(core) && list_empty(&core->streams.flight) && residency_is_quiet(core) &&
	       service_jobs(core) == 1 && list_empty(&core->memory.charges) && !core->context.users;
}

/* With the lock, which it lets go meanwhile. */
static bool wait_until_quiet(struct core *core)
{
	uint64_t end_ns = clock_now_ns() + SETTLE_NS;

	while (core->context.state == CONTEXT_LEAVING && !is_quiet(core)) {
		if (clock_now_ns() >= end_ns)
			return false;
		core_unlock(core);
		usleep(SETTLE_PAUSE_US);
		core_lock(core);
	}
	return core->context.state == CONTEXT_LEAVING && !find_keeper(core);
}

static void context_reopened(struct core *core)
{
	struct context *context = &core->context;

	set_state(core, CONTEXT_OPEN);
	set_wanted(core, false);
	usage_set(&core->page->active_ns, clock_coarse_ns());
	residency_wake(core);
	if (context->peer_waits)
		service_rewatch(core, core->peer_fd, false);
	context->peer_waits = false;
}

/* The objects have left by now, so what is still charged is for modules, which go with the context. */
static void context_retired(struct core *core)
{
	struct context *context = &core->context;

	context->module_bytes = core->memory.used_bytes;
	memory_hand_over(core, context->module_bytes);
	memory_return(core, (struct control_return){.device_bytes = whole_bytes(context)});
	usage_add(&core->page->retirements, 1);
	set_state(core, CONTEXT_RETIRED);
	residency_say_evicted(core, 0, true);
	if (context->wanted)
		context_want(core);
}

static void close_job(struct job *job)
{
	struct context *context = container_of(job, struct context, job);
	struct core *core = container_of(context, struct core, context);
	int error = -EBUSY;

	memory_trim(core, 0);
	core_lock(core);
	memory_give_slack(core, UINT64_MAX);
	if (wait_until_quiet(core)) {
		set_state(core, CONTEXT_CLOSING);
		core_unlock(core);
		error = core->ops->retire(core->space);
		core_lock(core);
	}
	if (!error) {
		context_retired(core);
	} else {
		if (error != -EBUSY)
			log_warning("session %llu keeps its context: %s",
				(unsigned long long)core->session.session, gdev_strerror(error));
		context_reopened(core);
		residency_say_evicted(core, 0, false);
	}
	core_unlock(core);
	service_wake(core);
}

bool context_left(struct core *core, bool failed)
{
	if (core->context.state != CONTEXT_LEAVING)
		return false;
	if (failed) {
		set_state(core, CONTEXT_OPEN);
		return false;
	}
	service_job(core, LANE_ORDERS, &core->context.job, close_job);
	return true;
}

/* ---- having it again ---- */

static void try_again_later(struct core *core)
{
	struct context *context = &core->context;

	set_state(core, CONTEXT_RETIRED);
	context->retry_at_ns = clock_now_ns() + RETRY_NS;
	service_timer(core, context->retry_at_ns);
}

static void open_job(struct job *job)
{
	struct context *context = container_of(job, struct context, job);
	struct core *core = container_of(context, struct core, context);
	int error = core->ops->revive(core->space);

	core_lock(core);
	if (!error) {
		context->tries = 0;
		memory_take_over(core, context->module_bytes);
		context->module_bytes = 0;
		usage_add(&core->page->reopening_ns, clock_now_ns() - context->since_ns);
		context_reopened(core);
	} else if (error == -ENOMEM && ++context->tries < TRIES_MAX) {
		memory_return(core, (struct control_return){.device_bytes = whole_bytes(context)});
		try_again_later(core);
	} else {
		log_error("session %llu: its context cannot be made again: %s",
			(unsigned long long)core->session.session, gdev_strerror(error));
		__atomic_store_n(&core->page->context, WORKER_CONTEXT_LOST, __ATOMIC_RELAXED);
		core_abandon(core, error);
	}
	core_unlock(core);
	service_wake(core);
}

static void open_now(struct core *core)
{
	set_state(core, CONTEXT_OPENING);
	service_job(core, LANE_LOADING, &core->context.job, open_job);
}

/* Without gdevd nobody counts; the next one is told what we hold. */
static void room_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	if (!status || status == -ENOTCONN)
		open_now(core);
	else
		try_again_later(core);
}

static void ask_for_context(struct core *core)
{
	struct context *context = &core->context;

	context->request.message.room = (struct control_room){
		.header = {sizeof(struct control_room), CONTROL_ROOM, CONTROL_VERSION, 0, 0},
		.bytes = whole_bytes(context),
		.purpose = ROOM_FOR_CONTEXT,
	};
	context->request.expected = CONTROL_CHARGED;
	context->request.answered = room_answered;
	control_ask(core, &context->request);
}

void context_want(struct core *core)
{
	struct context *context = &core->context;

	set_wanted(core, true);
	if (context->state != CONTEXT_RETIRED || core->residency.suspended || core->ended)
		return;
	if (!context->tries)
		context->since_ns = clock_now_ns();
	context->retry_at_ns = 0;
	set_state(core, CONTEXT_ASKING);
	if (whole_bytes(context) && control_connected(core))
		ask_for_context(core);
	else
		open_now(core);
}

bool context_use(struct core *core)
{
	struct context *context = &core->context;

	if (context->state == CONTEXT_LEAVING && !core->residency.suspended)
		set_state(core, CONTEXT_OPEN);
	else if (context_is_closed(core) && !context->retry_at_ns)
		context_want(core);
	return !context_is_closed(core);
}

bool context_enter_peer(struct core *core, bool gone)
{
	bool open = gone || context_use(core);

	core->context.users += open;
	core->context.peer_waits |= !open;
	return open;
}

void context_leave_peer(struct core *core)
{
	core->context.users--;
}

uint64_t context_tick(struct core *core, uint64_t now_ns)
{
	struct context *context = &core->context;

	if (!context->retry_at_ns)
		return UINT64_MAX;
	if (now_ns < context->retry_at_ns)
		return context->retry_at_ns;
	context_want(core);
	return UINT64_MAX;
}

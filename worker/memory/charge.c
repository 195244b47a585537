/* SPDX-License-Identifier: MIT
 *
 * Paying for device memory: see memory.h. With the core's lock. While there is no gdevd we go by what the
 * virtual GPU had when we last heard of it; the next gdevd learns what we hold when we register.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/core.h"
#include "worker/memory/memory.h"
#include "worker/memory/residency.h"
#include "worker/usage.h"

#define SLACK_NS (200 * NS_PER_MS) /* unused for so long, slack goes back */
#define SLACK_STEP (8ull << 20)    /* asked for in addition, when little is asked for */
/* How often gdevd is asked once more for what the driver has refused. Each time others may have taken what left. */
#define REFUSALS_MAX 8

static uint64_t slack_of(const struct memory *memory)
{
	return memory->charged_bytes - memory->used_bytes;
}

static void note_change(struct core *core)
{
	struct memory *memory = &core->memory;
	uint64_t now_ns = clock_now_ns();

	usage_set(&core->page->device_bytes, memory->charged_bytes);
	memory->slack_since_ns = slack_of(memory) ? now_ns : 0;
	if (memory->slack_since_ns)
		service_timer(core, now_ns + SLACK_NS);
}

static void give_back(struct core *core, uint64_t bytes)
{
	core->memory.charged_bytes -= bytes;
	memory_return(core, (struct control_return){.device_bytes = bytes});
}

void memory_return(struct core *core, struct control_return message)
{
	message.header =
		(struct control_header){sizeof message, CONTROL_RETURN, CONTROL_VERSION, 0, 0};
	if (message.device_bytes || message.swap_bytes[SWAP_MEMORY] ||
		message.swap_bytes[SWAP_FILE])
		control_send(core, &message, NULL, 0);
}

void memory_charged(
	struct core *core, const struct control_charged *charged, int *fds, size_t fd_count)
{
	core->memory.limit_bytes = charged->limit_bytes;
	core->memory.charged_bytes += charged->device_bytes;
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		core->swap.charged[i] += charged->swap_bytes[i];
	if (fd_count)
		swap_take_file(core, &fds[0]);
	usage_set(&core->page->device_bytes, core->memory.charged_bytes);
}

static void decide_charge(struct core *core, struct charge *charge, int status)
{
	list_remove(&charge->link);
	if (!status) {
		core->memory.used_bytes += charge->bytes;
		note_change(core);
	}
	charge->decided(core, charge, status);
}

/* The object begins its life in host swap. */
static void begin_in_swap(struct core *core, struct charge *charge)
{
	list_remove(&charge->link);
	charge->swapped = true;
	core->memory.swap_bytes += charge->bytes;
	usage_set(&core->page->swapped_bytes, core->memory.swap_bytes);
	charge->decided(core, charge, 0);
}

static void allocate_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	const struct control_charged *charged = (const void *)reply;
	struct memory *memory = &core->memory;
	struct charge *charge = list_first(&memory->charges, struct charge, link);

	memory->asking = false;
	if (charged)
		memory_charged(core, charged, fds, fd_count);
	if (!status && !charged->device_bytes)
		begin_in_swap(core, charge);
	else if (status == -EBUSY) /* others are to make room for residency.request first */
		memory->behind = true;
	else if (status && status != -ENOTCONN && charge->bytes > slack_of(memory))
		decide_charge(core, charge, status);
	note_change(core);
	memory_reconsider(core);
	residency_pump(core);
}

/* Asks for what the oldest wish lacks, and a little more if little is lacking. */
static void ask_for_memory(struct core *core, const struct charge *charge)
{
	struct memory *memory = &core->memory;
	uint64_t bytes = charge->bytes - slack_of(memory);

	memory->asking = true;
	memory->request.message.allocate = (struct control_allocate){
		.header = {sizeof(struct control_allocate), CONTROL_ALLOCATE, CONTROL_VERSION, 0,
			0},
		.device_bytes = bytes,
		.slack_bytes = SLACK_STEP - min_of(bytes, SLACK_STEP),
		.swap_bytes = charge->swappable ? charge->bytes : 0,
		.purpose = charge->for_turn ? ROOM_FOR_TURN : ROOM_TO_STAY,
	};
	memory->request.expected = CONTROL_CHARGED;
	memory->request.answered = allocate_answered;
	memory->request.lasting = false;
	control_ask(core, &memory->request);
}

/* Without gdevd: what we were allowed when it went is still ours to use. */
static void decide_alone(struct core *core, struct charge *charge)
{
	struct memory *memory = &core->memory;
	uint64_t need = memory->used_bytes + charge->bytes;

	if (charge->bytes > memory->limit_bytes || need > memory->limit_bytes) {
		decide_charge(core, charge, -ENOMEM);
		return;
	}
	memory->charged_bytes = max_of(memory->charged_bytes, need);
	decide_charge(core, charge, 0);
}

void memory_reconsider(struct core *core)
{
	struct memory *memory = &core->memory;
	struct charge *charge;

	memory->behind &= core->residency.asking;
	while (!memory->asking && !memory->behind &&
		(charge = list_first(&memory->charges, struct charge, link))) {
		if (charge->bytes <= slack_of(memory))
			decide_charge(core, charge, 0);
		else if (!control_connected(core))
			decide_alone(core, charge);
		else
			ask_for_memory(core, charge);
	}
}

void memory_charge(struct core *core, struct charge *charge)
{
	list_append(&core->memory.charges, &charge->link);
	memory_reconsider(core);
}

void memory_uncharge(struct core *core, uint64_t bytes)
{
	struct memory *memory = &core->memory;

	memory->used_bytes -= bytes;
	if (slack_of(memory) > MEMORY_SLACK_BYTES)
		give_back(core, slack_of(memory) - MEMORY_SLACK_BYTES);
	note_change(core);
	memory_reconsider(core);
}

void memory_return_refused(struct core *core, uint64_t bytes)
{
	struct memory *memory = &core->memory;
	uint64_t slack = slack_of(memory) - min_of(slack_of(memory), memory->kept_bytes);
	struct control_return message = {
		.header = {sizeof message, CONTROL_RETURN, CONTROL_VERSION, 0, -ENOMEM},
		.device_bytes = bytes + slack,
	};

	memory->used_bytes -= bytes;
	memory->charged_bytes -= bytes + slack;
	control_send(core, &message, NULL, 0);
	note_change(core);
}

bool memory_refused(struct core *core, struct charge *charge)
{
	bool again;

	if (!core->ops->free_bytes)
		return false;
	memory_trim(core, 0);
	core_lock(core);
	again = control_connected(core) && charge->refusals++ < REFUSALS_MAX;
	if (again) {
		memory_return_refused(core, charge->bytes);
		memory_charge(core, charge);
	}
	core_unlock(core);
	return again;
}

static void tell_job(struct job *job)
{
	struct memory *memory = container_of(job, struct memory, tell_job);
	struct core *core = container_of(memory, struct core, memory);
	struct control_memory message = {
		.header = {sizeof message, CONTROL_MEMORY_REPLY, CONTROL_VERSION, 0, -EOPNOTSUPP},
		.total_bytes = core->device_info.memory_bytes,
	};

	if (core->ops->free_bytes)
		message.header.status = core->ops->free_bytes(core->device, &message.free_bytes);
	core_lock(core);
	memory->telling = false;
	control_send(core, &message, NULL, 0);
	core_unlock(core);
}

void memory_tell_free(struct core *core)
{
	struct memory *memory = &core->memory;

	if (!memory->telling)
		service_job(core, LANE_CALLS, &memory->tell_job, tell_job);
	memory->telling = true;
}

void memory_hand_over(struct core *core, uint64_t bytes)
{
	core->memory.used_bytes -= bytes;
	core->memory.charged_bytes -= bytes;
	note_change(core);
}

void memory_take_over(struct core *core, uint64_t bytes)
{
	core->memory.used_bytes += bytes;
	core->memory.charged_bytes += bytes;
	note_change(core);
}

uint64_t memory_give_slack(struct core *core, uint64_t bytes)
{
	const struct memory *memory = &core->memory;
	uint64_t slack = slack_of(memory) - min_of(slack_of(memory), memory->kept_bytes);

	bytes = min_of(bytes, slack);
	give_back(core, bytes);
	note_change(core);
	return bytes;
}

void memory_vacate(struct core *core, uint64_t bytes)
{
	core->memory.used_bytes -= bytes;
	give_back(core, bytes);
	note_change(core);
}

void memory_uncharge_swap(struct core *core, uint64_t bytes)
{
	core->memory.swap_bytes -= bytes;
	usage_set(&core->page->swapped_bytes, core->memory.swap_bytes);
	swap_settle(core);
}

static void trim_job(struct job *job)
{
	struct memory *memory = container_of(job, struct memory, trim_job);
	struct core *core = container_of(memory, struct core, memory);

	memory_trim(core, 0);
	if (clock_now_ns() >= core->swap.trim_at_ns) /* slots for what may leave again are kept */
		swap_trim(core, memory->used_bytes);
	core_lock(core);
	memory->trimming = false;
	memory_give_slack(core, UINT64_MAX);
	core_unlock(core);
}

uint64_t memory_tick(struct core *core, uint64_t now_ns)
{
	struct memory *memory = &core->memory;
	uint64_t since_ns = memory->slack_since_ns;
	uint64_t due_ns = since_ns ? since_ns + SLACK_NS : core->swap.trim_at_ns;

	if (memory->trimming || (!since_ns && core->swap.free_bytes <= memory->used_bytes))
		return UINT64_MAX;
	if (now_ns < due_ns)
		return due_ns;
	memory->trimming = true;
	service_job(core, LANE_CALLS, &memory->trim_job, trim_job);
	return UINT64_MAX;
}

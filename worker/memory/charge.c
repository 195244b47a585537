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

static struct control_memory change_of(uint16_t type, int64_t bytes)
{
	return (struct control_memory){
		.header = {sizeof(struct control_memory), type, CONTROL_VERSION, 0, 0},
		.bytes = bytes,
	};
}

static void give_back(struct core *core, uint64_t bytes)
{
	struct control_memory message;

	if (!bytes)
		return;
	core->memory.charged_bytes -= bytes;
	message = change_of(CONTROL_MEMORY, -(int64_t)bytes);
	control_send(core, &message, NULL, 0);
}

static void note_limit(struct core *core, const struct control_header *reply)
{
	if (reply)
		core->memory.limit_bytes = ((const struct control_memory *)reply)->total_bytes;
}

static void answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	note_limit(core, reply);
	memory_decided(core, status);
}

static void ask_for(struct core *core, uint16_t type, uint64_t bytes,
	__typeof__(((struct control_request *)0)->answered) answered_with)
{
	struct memory *memory = &core->memory;
	struct control_memory message;

	memory->asking = true;
	memory->asked_bytes = bytes;
	message = change_of(type, (int64_t)bytes);
	message.free_bytes = type == CONTROL_RESIDENT &&
			     !list_first(&memory->charges, struct charge, link)->for_turn;
	memory->request.message.memory = message;
	memory->request.expected = CONTROL_MEMORY_REPLY;
	memory->request.answered = answered_with;
	memory->request.lasting = false;
	control_ask(core, &memory->request);
}

/* Asks for what the oldest wish lacks, and a little more if little is asked for. */
static void ask(struct core *core, const struct charge *charge, bool more)
{
	uint64_t bytes = charge->bytes - slack_of(&core->memory);

	if (more && bytes < SLACK_STEP)
		bytes = SLACK_STEP;
	ask_for(core, CONTROL_MEMORY, bytes, answered);
}

static void decide(struct core *core, struct charge *charge, int status)
{
	list_remove(&charge->link);
	if (!status) {
		core->memory.used_bytes += charge->bytes;
		note_change(core);
	}
	charge->decided(core, charge, status);
}

static void swap_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct memory *memory = &core->memory;
	struct charge *charge = list_first(&memory->charges, struct charge, link);

	note_limit(core, reply);
	memory->asking = false;
	if (status != -ENOTCONN) {
		list_remove(&charge->link);
		charge->swapped = !status;
		memory->swap_bytes += status ? 0 : charge->bytes;
		if (!status && ((const struct control_memory *)reply)->free_bytes == SWAP_FILE) {
			swap_charged(core, SWAP_FILE, charge->bytes);
			if (fd_count)
				swap_take_file(core, &fds[0]);
		} else if (!status) {
			swap_charged(core, SWAP_MEMORY, charge->bytes);
		}
		usage_set(&core->page->swapped_bytes, memory->swap_bytes);
		charge->decided(core, charge, status);
	}
	memory_reconsider(core);
}

/* Others make room, piece by piece, until there is enough. */
static void room_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct memory *memory = &core->memory;
	struct charge *charge = list_first(&memory->charges, struct charge, link);

	note_limit(core, reply);
	memory->asking = false;
	if (!status)
		memory->charged_bytes += (uint64_t)((const struct control_memory *)reply)->bytes;
	else if (status != -ENOTCONN && charge->bytes > slack_of(memory))
		decide(core, charge, status);
	note_change(core);
	memory_reconsider(core);
	residency_pump(core);
}

/* There is not so much free. What may be swapped begins its life in host swap; for the rest others
 * have to leave. */
static void ask_otherwise(struct core *core, struct charge *charge)
{
	if (charge->swappable)
		ask_for(core, CONTROL_SWAP, charge->bytes, swap_answered);
	else if (core->residency.asking)
		core->memory.behind = true; /* RESIDENT is asked once at a time */
	else
		ask_for(core, CONTROL_RESIDENT, charge->bytes - slack_of(&core->memory),
			room_answered);
}

/* Without gdevd: what we were allowed when it went is still ours to use. */
static void decide_alone(struct core *core, struct charge *charge)
{
	struct memory *memory = &core->memory;
	uint64_t need = memory->used_bytes + charge->bytes;

	if (charge->bytes > memory->limit_bytes || need > memory->limit_bytes) {
		decide(core, charge, -ENOMEM);
		return;
	}
	memory->charged_bytes = max_of(memory->charged_bytes, need);
	decide(core, charge, 0);
}

void memory_reconsider(struct core *core)
{
	struct memory *memory = &core->memory;
	struct charge *charge;

	memory->behind &= core->residency.asking;
	while (!memory->asking && !memory->behind &&
		(charge = list_first(&memory->charges, struct charge, link))) {
		if (charge->bytes <= slack_of(memory))
			decide(core, charge, 0);
		else if (!control_connected(core))
			decide_alone(core, charge);
		else
			ask(core, charge, true);
	}
}

void memory_decided(struct core *core, int status)
{
	struct memory *memory = &core->memory;
	struct charge *charge = list_first(&memory->charges, struct charge, link);
	uint64_t asked = memory->asked_bytes;

	memory->asking = false;
	if (!status) {
		memory->charged_bytes += asked;
	} else if (status != -ENOTCONN && charge) {
		if (charge->bytes > slack_of(memory) && asked > charge->bytes - slack_of(memory))
			ask(core, charge, false); /* it may have been too much to ask */
		else if (charge->bytes > slack_of(memory))
			ask_otherwise(core, charge);
	}
	note_change(core);
	memory_reconsider(core);
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
	if (slack_of(memory) > MEMORY_SLACK_BYTES) {
		give_back(core, slack_of(memory) - MEMORY_SLACK_BYTES);
	}
	note_change(core);
	memory_reconsider(core);
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

void memory_register(struct core *core)
{
	struct control_memory message;

	for (enum swap_pool pool = SWAP_MEMORY; pool < SWAP_POOLS; pool++) {
		message = change_of(CONTROL_SWAP, (int64_t)core->swap.charged[pool]);
		message.free_bytes = pool;
		if (message.bytes)
			control_send(core, &message, NULL, 0);
	}
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

	if (memory->trimming)
		return UINT64_MAX;
	if (!memory->slack_since_ns) {
		if (core->swap.free_bytes <= memory->used_bytes)
			return UINT64_MAX;
		if (now_ns < core->swap.trim_at_ns)
			return core->swap.trim_at_ns;
		memory->trimming = true;
		service_job(core, &memory->trim_job, trim_job);
		return UINT64_MAX;
	}
	if (now_ns < memory->slack_since_ns + SLACK_NS)
		return memory->slack_since_ns + SLACK_NS;
	memory->trimming = true;
	service_job(core, &memory->trim_job, trim_job);
	return UINT64_MAX;
}

/* SPDX-License-Identifier: MIT
 *
 * See event.h.
 */
#include "worker/event.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"

#define TOKEN_BITS 16
#define SESSION_SHIFT 32
#define LOCAL_MASK 0xffffffffu /* place and token */

/* gdevd wants to know when this is reached. */
struct watch {
	struct list link;
	struct control_event message;
	uint32_t timeline;
	uint64_t value;
};

/* We want to know from gdevd. */
struct event_wait {
	struct control_request request;
	struct command *command; /* NULL: it is gone */
};

void events_init(struct core *core)
{
	list_init(&core->events.watches);
	core->events.token = (uint32_t)clock_now_ns();
}

void events_finish(struct core *core)
{
	struct control_request *request, *next;
	struct watch *watch, *after;

	list_for_each_safe (watch, after, &core->events.watches, link)
		free(watch);
	list_for_each_safe (request, next, &core->control.requests, link) {
		if (request->expected != CONTROL_EVENT_DONE)
			continue;
		list_remove(&request->link);
		free(container_of(request, struct event_wait, request));
	}
	free(core->events.shares);
}

/* ---- sharing ---- */

static bool share_is_reached(const struct core *core, const struct event_share *share)
{
	return core->streams.completed[share->timeline] >= share->value;
}

bool events_all_reached(const struct core *core)
{
	const struct event_share *shares = core->events.shares;

	for (uint32_t i = 0; shares && i < EVENT_SHARES_MAX; i++)
		if (!share_is_reached(core, &shares[i]))
			return false;
	return true;
}

static struct event_share *free_place(struct core *core)
{
	struct events *events = &core->events;

	if (!events->shares)
		events->shares = calloc(EVENT_SHARES_MAX, sizeof *events->shares);
	for (uint32_t i = 0; events->shares && i < EVENT_SHARES_MAX; i++) {
		struct event_share *share = &events->shares[events->next_share];
		events->next_share = (events->next_share + 1) % EVENT_SHARES_MAX;
		if (share_is_reached(core, share))
			return share;
	}
	return NULL;
}

void event_share(struct command *command)
{
	const struct record_event *record = command->request.event;
	struct core *core = command->core;
	struct event_share *share = NULL;
	struct reply_event reply;
	int error = -EINVAL;

	if (record->stream >= SESSION_REPLIES && record->stream < SESSION_TIMELINES &&
		!record->event && !record->reserved &&
		record->stream_value <= core->streams.posted[record->stream]) {
		share = free_place(core);
		error = share ? 0 : -ENOSPC;
	}
	if (error) {
		command_answer(command, error, NULL, 0);
		return;
	}
	core->events.token = core->events.token * 1103515245 + 12345;
	share->timeline = record->stream;
	share->value = record->stream_value;
	share->token = core->events.token >> 8 & ((1u << TOKEN_BITS) - 1);
	reply.event = core->session.session << SESSION_SHIFT |
		      (uint64_t)(share - core->events.shares) << TOKEN_BITS | share->token;
	command_answer(command, 0, &reply, sizeof reply);
}

/* NULL: long reached, or never there. */
static struct event_share *find_share(struct core *core, uint64_t local)
{
	uint64_t place = local >> TOKEN_BITS;
	struct event_share *share;

	if (!core->events.shares || place >= EVENT_SHARES_MAX)
		return NULL;
	share = &core->events.shares[place];
	return share->token == (local & ((1u << TOKEN_BITS) - 1)) ? share : NULL;
}

/* ---- waiting ---- */

static void watch_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct event_wait *wait = container_of(request, struct event_wait, request);
	struct command *command = wait->command;

	if (command) {
		command->wait = NULL;
		command->satisfied = true;
		command->error = status;
		stream_ready(core, command->stream);
	}
	free(wait);
}

void event_abandon(struct command *command)
{
	command->wait->command = NULL;
	command->wait = NULL;
}

static bool ask_gdevd_to_watch(struct core *core, struct command *command, uint64_t event)
{
	struct event_wait *wait = calloc(1, sizeof *wait);

	if (!wait) {
		command->error = -ENOMEM;
		return true;
	}
	wait->command = command;
	wait->request.message.event = (struct control_event){
		.header = {sizeof(struct control_event), CONTROL_EVENT_WATCH, CONTROL_VERSION, 0,
			0},
		.session = event >> SESSION_SHIFT,
		.value = event & LOCAL_MASK,
	};
	wait->request.expected = CONTROL_EVENT_DONE;
	wait->request.answered = watch_answered;
	wait->request.lasting = true;
	command->wait = wait;
	control_ask(core, &wait->request);
	return false;
}

/* An event of this session: its own timeline says it. */
static bool own_passes(struct core *core, struct command *command, uint64_t event)
{
	struct event_share *share = find_share(core, event & LOCAL_MASK);
	struct watch *watch;

	if (!share || share_is_reached(core, share))
		return true;
	if (command->watching)
		return false;
	watch = calloc(1, sizeof *watch);
	if (!watch) {
		command->error = -ENOMEM;
		return true;
	}
	watch->timeline = share->timeline;
	watch->value = share->value;
	list_append(&core->events.watches, &watch->link);
	command->watching = true;
	return false;
}

bool event_passes(struct core *core, struct command *command)
{
	uint64_t event = command->request.event->event;

	if (command->satisfied)
		return true;
	if (command->wait)
		return false;
	if (event >> SESSION_SHIFT == core->session.session)
		return own_passes(core, command, event);
	return ask_gdevd_to_watch(core, command, event);
}

/* ---- being watched ---- */

static void tell_watch_done(struct core *core, const struct control_event *watch, int status)
{
	struct control_event done = *watch;

	done.header.type = CONTROL_EVENT_DONE;
	done.header.status = status;
	control_send(core, &done, NULL, 0);
}

void event_watch(struct core *core, const struct control_event *message)
{
	struct event_share *share = find_share(core, message->value);
	struct watch *watch = NULL;

	if (!share || share_is_reached(core, share)) {
		tell_watch_done(core, message, 0);
		return;
	}
	if (core->events.watch_count < EVENT_WATCHES_MAX)
		watch = calloc(1, sizeof *watch);
	if (!watch) {
		tell_watch_done(core, message, -EAGAIN);
		return;
	}
	watch->message = *message;
	watch->timeline = share->timeline;
	watch->value = share->value;
	list_append(&core->events.watches, &watch->link);
	core->events.watch_count++;
}

static void ready_waits(struct core *core)
{
	for (int i = SESSION_REPLIES; i < SESSION_TIMELINES; i++) {
		struct stream *stream = core->streams.by_timeline[i];
		struct command *first =
			stream ? list_first(&stream->queued, struct command, link) : NULL;
		if (first && first->request.header->opcode == RECORD_EVENT_WAIT && !first->wait)
			stream_ready(core, stream);
	}
}

void events_progress(struct core *core, uint32_t timeline)
{
	struct watch *watch, *next;

	list_for_each_safe (watch, next, &core->events.watches, link) {
		if (watch->timeline != timeline || core->streams.completed[timeline] < watch->value)
			continue;
		if (watch->message.header.type == CONTROL_EVENT_WATCH) {
			tell_watch_done(core, &watch->message, 0);
			core->events.watch_count--;
		} else {
			ready_waits(core);
		}
		list_remove(&watch->link);
		free(watch);
	}
}

void events_lost(struct core *core)
{
	struct watch *watch, *next;

	list_for_each_safe (watch, next, &core->events.watches, link) {
		if (watch->message.header.type != CONTROL_EVENT_WATCH)
			continue;
		core->events.watch_count--;
		list_remove(&watch->link);
		free(watch);
	}
}

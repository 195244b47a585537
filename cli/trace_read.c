/* SPDX-License-Identifier: MIT
 *
 * From the rings of traced sessions to events of our own. The segments are other processes' memory, and they may
 * write anything there at any time: what is looked at has been copied before, and what is an index is checked.
 */
#include "cli/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#define EVENTS_MAX (8u << 20) /* of all sessions: half a gigabyte */
#define HEAD_MAX                                                                                   \
	(1ull << 52) /* nobody writes as many; what sessions lost adds up to a number of JSON's */

void trace_set_init(struct trace_set *set)
{
	*set = (struct trace_set){.since_ns = clock_now_ns()};
	list_init(&set->sessions);
}

static void let_go(struct traced *traced)
{
	if (traced->segment)
		munmap((void *)traced->segment, sizeof *traced->segment);
	traced->segment = NULL;
}

void trace_set_finish(struct trace_set *set)
{
	struct traced *traced, *next;

	list_for_each_safe (traced, next, &set->sessions, link) {
		let_go(traced);
		for (int side = 0; side < SIDES; side++) {
			free(traced->events[side]);
			free(traced->names[side]);
		}
		free(traced);
	}
	list_init(&set->sessions);
}

/* gdevd vouches for its size, and we look. */
static int map_segment(int fd, const struct trace_segment **segment)
{
	uint64_t bytes;
	void *mapped;

	if (fd_shared_memory_size(fd, &bytes) || bytes < sizeof **segment)
		return -EPROTO;
	mapped = mmap(NULL, sizeof **segment, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	*segment = mapped;
	return 0;
}

static bool is_ours(const struct trace_segment *segment)
{
	struct trace_header header = segment->header;

	return header.magic == TRACE_MAGIC && header.version == TRACE_VERSION &&
	       header.event_bytes == sizeof(struct trace_event) &&
	       header.event_count == TRACE_EVENTS && header.name_bytes == TRACE_NAMES_BYTES;
}

static const struct trace_side *side_of(const struct traced *traced, int side)
{
	return side == SIDE_CLIENT ? &traced->segment->client : &traced->segment->worker;
}

int trace_set_add(struct trace_set *set, const struct control_traced *message, int fd)
{
	struct traced *traced = calloc(1, sizeof *traced);
	int error = traced ? map_segment(fd, &traced->segment) : -ENOMEM;

	close(fd);
	if (!error && !is_ours(traced->segment)) {
		let_go(traced);
		error = -EPROTO;
	}
	if (error) {
		free(traced);
		return error;
	}
	traced->session = message->session;
	traced->pid = message->pid;
	traced->uid = message->uid;
	memcpy(traced->vgpu, message->vgpu, sizeof traced->vgpu - 1);
	memcpy(traced->program, message->program, sizeof traced->program - 1);
	memcpy(traced->device, message->device, sizeof traced->device - 1);
	/* What has been overwritten already was written for somebody who traced before us. */
	for (int side = 0; side < SIDES; side++) {
		uint64_t head = __atomic_load_n(&side_of(traced, side)->head, __ATOMIC_ACQUIRE);
		traced->seen[side] = head - min_of(head, TRACE_EVENTS);
	}
	list_append(&set->sessions, &traced->link);
	return 0;
}

/* ---- events ---- */

static bool grow(struct traced *traced, int side)
{
	size_t capacity = traced->capacity[side] ? 2 * traced->capacity[side] : 1024;
	struct trace_event *events =
		realloc(traced->events[side], capacity * sizeof *traced->events[side]);

	if (!events)
		return false;
	traced->events[side] = events;
	traced->capacity[side] = capacity;
	return true;
}

static bool makes_sense(const struct trace_event *event, uint64_t now_ns)
{
	bool open = event->kind == TRACE_GRANT && !event->end_ns; /* held, and no end yet */

	if (event->kind < TRACE_CALL || event->kind > TRACE_SWAP || event->amount > INT64_MAX ||
		event->status == INT32_MIN)
		return false;
	if (event->queued_ns > now_ns || event->begin_ns > now_ns || event->end_ns > now_ns)
		return false;
	return open || event->begin_ns <= event->end_ns;
}

static void take(struct trace_set *set, struct traced *traced, int side,
	const struct trace_event *event, uint64_t now_ns)
{
	if (!makes_sense(event, now_ns)) {
		set->damaged++;
	} else if (event->end_ns && event->end_ns < set->since_ns) {
		return;
	} else if (set->count >= EVENTS_MAX ||
		   (traced->count[side] == traced->capacity[side] && !grow(traced, side))) {
		set->dropped++;
	} else {
		traced->events[side][traced->count[side]++] = *event;
		set->count++;
	}
}

/* Copies a few events, and keeps those that nobody has overwritten meanwhile. */
static void read_side(struct trace_set *set, struct traced *traced, int side)
{
	const struct trace_side *shared = side_of(traced, side);
	uint64_t head = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);
	uint64_t *seen = &traced->seen[side];

	if (head < *seen || head > HEAD_MAX) /* a lie: it only grows, and not that far */
		return;
	if (head - *seen > TRACE_EVENTS) {
		set->dropped += head - *seen - TRACE_EVENTS;
		*seen = head - TRACE_EVENTS;
	}
	while (*seen < head) {
		struct trace_event copies[64];
		uint64_t count = min_of(head - *seen, (uint64_t)array_length(copies));
		uint64_t head_now, now_ns;

		for (uint64_t i = 0; i < count; i++)
			memcpy(&copies[i], &shared->events[(*seen + i) % TRACE_EVENTS],
				sizeof copies[i]);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		head_now = __atomic_load_n(&shared->head, __ATOMIC_RELAXED);
		now_ns = clock_now_ns();
		for (uint64_t i = 0; i < count; i++, ++*seen) {
			if (head_now - *seen < TRACE_EVENTS)
				take(set, traced, side, &copies[i], now_ns);
			else
				set->dropped++;
		}
	}
}

static void read_names(struct traced *traced, int side)
{
	const struct trace_side *shared = side_of(traced, side);
	uint32_t bytes = __atomic_load_n(&shared->names_bytes, __ATOMIC_ACQUIRE);

	traced->names[side] = calloc(1, TRACE_NAMES_BYTES + 1);
	if (traced->names[side])
		memcpy(traced->names[side], shared->names, min_of(bytes, TRACE_NAMES_BYTES));
}

static void read_all(struct trace_set *set, struct traced *traced)
{
	for (int side = 0; side < SIDES && traced->segment; side++)
		read_side(set, traced, side);
}

void trace_set_read(struct trace_set *set)
{
	struct traced *traced;

	list_for_each (traced, &set->sessions, link)
		read_all(set, traced);
}

static void end(struct trace_set *set, struct traced *traced)
{
	if (!traced->segment)
		return;
	read_all(set, traced);
	for (int side = 0; side < SIDES; side++)
		read_names(traced, side);
	let_go(traced);
}

void trace_set_end(struct trace_set *set, uint64_t session)
{
	struct traced *traced;

	list_for_each (traced, &set->sessions, link)
		if (traced->session == session)
			end(set, traced);
}

void trace_set_end_all(struct trace_set *set)
{
	struct traced *traced;

	list_for_each (traced, &set->sessions, link)
		end(set, traced);
}

const char *trace_event_name(
	const struct traced *traced, enum trace_writing_side side, const struct trace_event *event)
{
	return traced->names[side] && event->name < TRACE_NAMES_BYTES
		       ? traced->names[side] + event->name
		       : "";
}

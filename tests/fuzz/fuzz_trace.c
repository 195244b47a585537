/* SPDX-License-Identifier: MIT
 *
 * Trace segments as `gdev trace` reads them, also as root: whatever their writers wrote, it gives a timeline that a
 * reader of JSON takes. Input: 32 bytes of counts, then events for both sides in turn; what is left is names.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define EVENTS_MAX 64 /* of an input */

static struct trace_segment *segment;
static int segment_fd;

static void segment_create(void)
{
	segment_fd = fd_shared_memory("fuzz", sizeof *segment);
	segment = mmap(NULL, sizeof *segment, PROT_READ | PROT_WRITE, MAP_SHARED, segment_fd, 0);
	if (segment == MAP_FAILED)
		abort();
	segment->header = (struct trace_header){TRACE_MAGIC, TRACE_VERSION,
		sizeof(struct trace_event), TRACE_EVENTS, TRACE_NAMES_BYTES, 0, 1};
}

/* Times that are not in the future, as most of an honest writer's are. */
static void make_likely(struct trace_event *event, uint64_t now_ns)
{
	event->begin_ns %= now_ns;
	event->end_ns %= now_ns;
	event->queued_ns %= now_ns;
}

static void fill(const uint8_t *bytes, size_t length)
{
	struct trace_side *sides[] = {&segment->client, &segment->worker};
	struct {
		uint64_t skipped[2];
		uint32_t names[2];
		uint8_t likely, reserved[7];
	} counts = {0};
	uint64_t written[2] = {0}, now_ns = clock_now_ns();

	memcpy(&counts, bytes, min_of(length, sizeof counts));
	bytes += min_of(length, sizeof counts);
	length -= min_of(length, sizeof counts);
	for (int i = 0; i < EVENTS_MAX && length >= sizeof(struct trace_event); i++) {
		uint64_t at = counts.skipped[i % 2] + written[i % 2]++;
		struct trace_event *event = &sides[i % 2]->events[at % TRACE_EVENTS];
		memcpy(event, bytes, sizeof *event);
		if (counts.likely & 1)
			make_likely(event, now_ns);
		bytes += sizeof *event;
		length -= sizeof *event;
	}
	for (int side = 0; side < 2; side++) {
		sides[side]->head = counts.skipped[side] + written[side];
		sides[side]->names_bytes = counts.names[side];
		memcpy(sides[side]->names, bytes, min_of(length, 256ul));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const struct control_traced message = {.session = 7, .pid = 1, .program = "\"\n\xff"};
	autofree char *text = NULL;
	struct trace_set set;
	size_t size;
	FILE *file;
	json_t *json;

	if (!segment)
		segment_create();
	segment->client.head = segment->worker.head = 0;
	trace_set_init(&set);
	set.since_ns = 1;
	if (trace_set_add(&set, &message, dup(segment_fd)))
		abort();
	fill(bytes, length);
	file = open_memstream(&text, &size);
	trace_set_end_all(&set);
	if (trace_write_json(&set, file))
		abort();
	fclose(file);
	json = json_loads(text, 0, NULL);
	if (!json)
		abort();
	json_decref(json);
	trace_set_finish(&set);
	return 0;
}

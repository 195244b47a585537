/* SPDX-License-Identifier: MIT
 *
 * A trace as Perfetto's JSON (Chrome's trace event format): microseconds of CLOCK_MONOTONIC. Tracks:
 *   a process each session's client is in: a thread each of its threads (calls), and two each stream: what the
 *     device does, and above it what the stream waits for, from when its first command could have begun; and some for
 *     the moves of its memory to and from host swap
 *   a process each device, and each virtual GPU of it: who holds the grant for compute, for copies to it, and from it
 * An arrow leads from a call to the first command that it caused.
 *
 * Slices of a track must not overlap: a stream's commands are sorted, and one begins when the one before has ended.
 * None is empty: an arrow ends at the slice that its time is in.
 */
#include "cli/trace.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"
#include "proto/session.h"

#define FIRST_TRACK (1u << 30) /* beyond all ids of processes and threads */
#define WAIT_NS_MIN NS_PER_US  /* shorter waits are not shown */
#define OWNERS_MAX 128

struct writer {
	FILE *file;
	bool any; /* something has been written */
	uint32_t next_track;
	uint64_t next_arrow;
	uint64_t end_ns; /* of the trace */
	struct trace_set *set;
	char *(*demangle)(const char *, char *, size_t *, int *); /* or NULL */
	char owners
		[OWNERS_MAX]
		[96]; /* of tracks of grants: devices and virtual GPUs, as they are called there */
	unsigned owner_count;
};

/* ---- JSON ---- */

static void write_string(FILE *file, const char *text)
{
	putc('"', file);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(file, "\\%c", *c);
		else if (*c < ' ' || *c > '~')
			fprintf(file, "\\u%04x", *c); /* not UTF-8 for sure, so byte by byte */
		else
			putc(*c, file);
	}
	putc('"', file);
}

static void write_time(FILE *file, const char *key, uint64_t ns)
{
	fprintf(file, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void open_event(struct writer *writer, const char *phase, uint32_t process, uint32_t track)
{
	fprintf(writer->file, "%s\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", writer->any ? "," : "",
		phase, process, track);
	writer->any = true;
}

static void open_slice(struct writer *writer, uint32_t process, uint32_t track,
	const char *category, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
	open_event(writer, "X", process, track);
	write_time(writer->file, "ts", begin_ns);
	write_time(writer->file, "dur", end_ns - begin_ns);
	fprintf(writer->file, ",\"cat\":\"%s\",\"name\":", category);
	write_string(writer->file, name);
	fputs(",\"args\":{", writer->file);
}

static void close_slice(struct writer *writer)
{
	fputs("}}", writer->file);
}

static void name_track(struct writer *writer, uint32_t process, uint32_t track, const char *kind,
	const char *name, unsigned order)
{
	open_event(writer, "M", process, track);
	fprintf(writer->file, ",\"name\":\"%s_name\",\"args\":{\"name\":", kind);
	write_string(writer->file, name);
	close_slice(writer);
	open_event(writer, "M", process, track);
	fprintf(writer->file, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%u", kind,
		order);
	close_slice(writer);
}

/* ---- names ---- */

/* The C++ library that the LLVM of the software GPU needs is a demangler too. */
static void find_demangler(struct writer *writer)
{
	void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);

	if (library)
		*(void **)&writer->demangle = dlsym(library, "__cxa_demangle");
}

/* malloc'ed. The demangler is not given what another user may have made up. */
static char *kernel_name(
	const struct writer *writer, const struct traced *traced, const struct trace_event *event)
{
	const char *name = trace_event_name(traced, SIDE_WORKER, event);
	char *plain = NULL;

	if (writer->demangle && traced->uid == getuid() && !strncmp(name, "_Z", 2))
		plain = writer->demangle(name, NULL, NULL, NULL);
	return plain ? plain : strdup(*name ? name : "kernel");
}

static const char *copy_name(uint32_t direction)
{
	static const char *const names[] = {
		[COPY_TO_DEVICE] = "copy to device",
		[COPY_FROM_DEVICE] = "copy from device",
		[COPY_WITHIN] = "copy within device",
	};

	return direction < array_length(names) ? names[direction] : "copy";
}

/* ---- commands ---- */

static bool is_command(const struct trace_event *event)
{
	return event->kind == TRACE_LAUNCH || event->kind == TRACE_COPY ||
	       event->kind == TRACE_FILL || event->kind == TRACE_WAIT;
}

/* Steps of a row are one after another. */
static const struct {
	const char *name, *row;
} swap_steps[TRACE_SWAPS] = {
	[TRACE_SWAP_ORDER] = {"make room for others", "memory: orders to leave"},
	[TRACE_SWAP_SLOT] = {"get host swap", "memory: host swap"},
	[TRACE_SWAP_OUT] = {"copy to host swap", "memory: copies to host swap"},
	[TRACE_SWAP_UNMAP] = {"unmap", "memory: what leaves"},
	[TRACE_SWAP_RELEASE] = {"give back", "memory: what leaves"},
	[TRACE_SWAP_ROOM] = {"wait for room", "memory: room"},
	[TRACE_SWAP_MAKE] = {"make", "memory: what comes"},
	[TRACE_SWAP_MAP] = {"map", "memory: what comes"},
	[TRACE_SWAP_IN] = {"copy from host swap", "memory: copies from host swap"},
	[TRACE_SWAP_TO_FILE] = {"move to the swap file", "memory: moves to the swap file"},
	[TRACE_SWAP_TO_MEMORY] = {"move to memory", "memory: moves to memory"},
};

static bool is_swap(const struct trace_event *event)
{
	return event->kind == TRACE_SWAP && event->detail < TRACE_SWAPS;
}

/* What memory management did first, row by row. */
static int by_row(const struct trace_event *a, const struct trace_event *b)
{
	if (is_swap(a) != is_swap(b))
		return is_swap(a) ? -1 : 1;
	if (is_swap(a) && strcmp(swap_steps[a->detail].row, swap_steps[b->detail].row))
		return a->detail < b->detail ? -1 : 1;
	return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* Commands first, stream by stream. */
static int by_stream(const void *left, const void *right)
{
	const struct trace_event *a = left, *b = right;

	if (is_command(a) != is_command(b))
		return is_command(a) ? -1 : 1;
	if (!is_command(a))
		return by_row(a, b);
	if (a->timeline != b->timeline)
		return a->timeline < b->timeline ? -1 : 1;
	return (a->value > b->value) - (a->value < b->value);
}

/* By thread; the outer call before the inner one. */
static int by_thread(const void *left, const void *right)
{
	const struct trace_event *a = left, *b = right;

	if (a->detail != b->detail)
		return a->detail < b->detail ? -1 : 1;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

static void write_status(struct writer *writer, const struct trace_event *event, const char *comma)
{
	if (event->status < 0) {
		fprintf(writer->file, "%s\"error\":", comma);
		write_string(writer->file, gdev_strerror(event->status));
	}
}

static void write_execution(struct writer *writer, const struct traced *traced, uint32_t track,
	const struct trace_event *event)
{
	uint32_t process = (uint32_t)traced->pid;
	autofree char *name = NULL;

	if (event->kind == TRACE_LAUNCH) {
		name = kernel_name(writer, traced, event);
		open_slice(writer, process, track, "kernel", name ? name : "kernel",
			event->begin_ns, event->end_ns);
		fprintf(writer->file, "\"blocks\":%" PRIu64 ",\"threads_per_block\":%u",
			event->amount, event->detail);
	} else {
		open_slice(writer, process, track, event->kind == TRACE_COPY ? "copy" : "fill",
			event->kind == TRACE_COPY ? copy_name(event->detail) : "fill",
			event->begin_ns, event->end_ns);
		fprintf(writer->file, "\"bytes\":%" PRIu64, event->amount);
	}
	if (event->queued_ns && event->queued_ns <= event->begin_ns)
		write_time(writer->file, "queued_us", event->begin_ns - event->queued_ns);
	write_status(writer, event, ",");
	close_slice(writer);
}

static void write_wait(struct writer *writer, const struct traced *traced, uint32_t track,
	const char *name, uint64_t from_ns, uint64_t to_ns)
{
	if (to_ns < from_ns + WAIT_NS_MIN)
		return;
	open_slice(writer, (uint32_t)traced->pid, track, "wait", name, from_ns, to_ns);
	close_slice(writer);
}

/* One stream's, in order; returns how many there are. *track is its execution's, *track + 1 its waits'. */
static size_t write_stream(struct writer *writer, const struct traced *traced, uint32_t track,
	struct trace_event *events, size_t count)
{
	uint32_t timeline = events->timeline;
	uint64_t end_ns = 0; /* of the command before */
	size_t i;

	for (i = 0; i < count && is_command(&events[i]) && events[i].timeline == timeline; i++) {
		struct trace_event *event = &events[i];
		uint64_t ready_ns = max_of(event->queued_ns, end_ns);

		if (event->kind == TRACE_WAIT) {
			write_wait(writer, traced, track + 1, "waits for another stream", ready_ns,
				event->end_ns);
			end_ns = max_of(end_ns, event->end_ns);
			continue;
		}
		if (!event->begin_ns) /* it never got to the device */
			event->begin_ns = event->end_ns = ready_ns;
		event->begin_ns = max_of(event->begin_ns, end_ns);
		event->end_ns = max_of(event->end_ns, event->begin_ns + 1);
		if (event->queued_ns)
			write_wait(writer, traced, track + 1, "waits for the device", ready_ns,
				event->begin_ns);
		write_execution(writer, traced, track, event);
		end_ns = event->end_ns;
	}
	return i;
}

static void name_stream(
	struct writer *writer, const struct traced *traced, uint32_t timeline, uint32_t track)
{
	unsigned stream = timeline > SESSION_REPLIES ? timeline - SESSION_REPLIES : 0;
	char name[80];

	snprintf(name, sizeof name, "stream %u on %s", stream, traced->vgpu);
	name_track(writer, (uint32_t)traced->pid, track, "thread", name, track);
	snprintf(name, sizeof name, "stream %u: waiting", stream);
	name_track(writer, (uint32_t)traced->pid, track + 1, "thread", name, track + 1);
}

static void write_swap(struct writer *writer, const struct traced *traced, uint32_t track,
	const struct trace_event *event, uint64_t begin_ns, uint64_t end_ns)
{
	open_slice(writer, (uint32_t)traced->pid, track, "memory", swap_steps[event->detail].name,
		begin_ns, end_ns);
	fprintf(writer->file, "\"bytes\":%" PRIu64, event->amount);
	if (event->value)
		fprintf(writer->file, ",\"address\":\"0x%" PRIx64 "\"", event->value);
	if (event->queued_ns && event->queued_ns <= event->begin_ns)
		write_time(writer->file, "queued_us", event->begin_ns - event->queued_ns);
	write_status(writer, event, ",");
	close_slice(writer);
}

/* `events` begin with the steps of memory management, in rows. */
static void write_swaps(struct writer *writer, const struct traced *traced,
	const struct trace_event *events, size_t count)
{
	const char *row = NULL;
	uint64_t end_ns = 0;

	for (size_t i = 0; i < count && is_swap(&events[i]); i++) {
		uint64_t begin_ns;
		if (!row || strcmp(row, swap_steps[events[i].detail].row)) {
			uint32_t track = ++writer->next_track;
			row = swap_steps[events[i].detail].row;
			name_track(writer, (uint32_t)traced->pid, track, "thread", row, track);
			end_ns = 0;
		}
		begin_ns = max_of(events[i].begin_ns, end_ns);
		end_ns = max_of(events[i].end_ns, begin_ns + 1);
		write_swap(writer, traced, writer->next_track, &events[i], begin_ns, end_ns);
	}
	writer->next_track++;
}

/* Remembers the tracks in the events' `session`, which commands do not need. */
static void write_commands(struct writer *writer, struct traced *traced)
{
	struct trace_event *events = traced->events[SIDE_WORKER];
	size_t count = traced->count[SIDE_WORKER], i = 0;

	if (!count) /* and no array, perhaps */
		return;
	qsort(events, count, sizeof *events, by_stream);
	while (i < count && is_command(&events[i])) {
		uint32_t track = writer->next_track;
		size_t of_stream = write_stream(writer, traced, track, &events[i], count - i);

		name_stream(writer, traced, events[i].timeline, track);
		for (size_t end = i + of_stream; i < end; i++)
			events[i].session = track;
		writer->next_track += 2;
	}
	write_swaps(writer, traced, events + i, count - i);
}

/* ---- calls ---- */

/* The command that (session, timeline, value) names, if it was on the device. */
static const struct trace_event *find_command(
	struct trace_set *set, const struct traced *caller, const struct trace_event *call)
{
	const struct trace_event key = {
		.kind = TRACE_LAUNCH, .timeline = call->timeline, .value = call->value};
	const struct trace_event *found;
	struct traced *traced;

	list_for_each (traced, &set->sessions, link) {
		if (traced->session != call->session || traced->pid != caller->pid ||
			!traced->count[SIDE_WORKER])
			continue;
		found = bsearch(&key, traced->events[SIDE_WORKER], traced->count[SIDE_WORKER],
			sizeof key, by_stream);
		return found && found->kind != TRACE_WAIT ? found : NULL;
	}
	return NULL;
}

static void write_arrow(struct writer *writer, const struct traced *traced,
	const struct trace_event *call, uint32_t thread)
{
	const struct trace_event *command =
		call->value ? find_command(writer->set, traced, call) : NULL;

	if (!command)
		return;
	open_event(writer, "s", (uint32_t)traced->pid, thread);
	write_time(writer->file, "ts", call->begin_ns);
	fprintf(writer->file, ",\"cat\":\"command\",\"name\":\"command\",\"id\":%" PRIu64 "}",
		writer->next_arrow);
	open_event(writer, "f", (uint32_t)traced->pid, command->session);
	write_time(writer->file, "ts", command->begin_ns);
	fprintf(writer->file,
		",\"bp\":\"e\",\"cat\":\"command\",\"name\":\"command\",\"id\":%" PRIu64 "}",
		writer->next_arrow++);
}

static void name_thread(struct writer *writer, const struct traced *traced, uint32_t thread)
{
	char name[32];

	snprintf(name, sizeof name, thread == (uint32_t)traced->pid ? "main thread" : "thread %u",
		thread);
	name_track(writer, (uint32_t)traced->pid, thread, "thread", name, 0);
}

static void write_call(struct writer *writer, const struct traced *traced, uint32_t thread,
	const struct trace_event *event)
{
	if (event->kind == TRACE_CALL) {
		const char *name = trace_event_name(traced, SIDE_CLIENT, event);

		open_slice(writer, (uint32_t)traced->pid, thread, "call", *name ? name : "call",
			event->begin_ns, event->end_ns);
		if (event->status)
			fprintf(writer->file, "\"result\":%d", event->status);
		close_slice(writer);
		write_arrow(writer, traced, event, thread);
	} else if (event->kind == TRACE_COPY) { /* the client copied itself */
		open_slice(writer, (uint32_t)traced->pid, thread, "copy",
			copy_name((uint32_t)event->status), event->begin_ns, event->end_ns);
		fprintf(writer->file, "\"bytes\":%" PRIu64, event->amount);
		close_slice(writer);
	}
}

static void write_calls(struct writer *writer, struct traced *traced)
{
	struct trace_event *events = traced->events[SIDE_CLIENT];
	uint32_t thread = 0;

	if (traced->count[SIDE_CLIENT])
		qsort(events, traced->count[SIDE_CLIENT], sizeof *events, by_thread);
	for (size_t i = 0; i < traced->count[SIDE_CLIENT]; i++) {
		uint32_t track = events[i].detail % FIRST_TRACK;

		if (track != thread)
			name_thread(writer, traced, track);
		thread = track;
		write_call(writer, traced, track, &events[i]);
	}
}

/* ---- devices and virtual GPUs ---- */

struct holding {
	unsigned owner, resource;
	bool of_device;
	uint64_t begin_ns, end_ns; /* end 0: given, and as far as this event knows not given back */
	const struct traced *traced;
};

static int by_resource(const void *left, const void *right)
{
	const struct holding *a = left, *b = right;

	if (a->owner != b->owner)
		return a->owner < b->owner ? -1 : 1;
	if (a->resource != b->resource)
		return a->resource < b->resource ? -1 : 1;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return (a->end_ns < b->end_ns) -
	       (a->end_ns > b->end_ns); /* the one that knows more first */
}

/* OWNERS_MAX when there are too many. */
static unsigned owner_index(struct writer *writer, const char *owner)
{
	unsigned i;

	for (i = 0; i < writer->owner_count; i++)
		if (!strcmp(writer->owners[i], owner))
			return i;
	if (i < OWNERS_MAX)
		strcpy(writer->owners[writer->owner_count++], owner);
	return i;
}

/* Of a session those of its device or of its virtual GPU; returns how many. */
static size_t collect_of(struct writer *writer, const struct traced *traced, bool of_device,
	struct holding *holdings)
{
	char owner[sizeof writer->owners[0]];
	size_t count = 0;
	unsigned index;

	if (of_device)
		snprintf(owner, sizeof owner, "device %s", traced->device);
	else /* one of any device has a part on each */
		snprintf(owner, sizeof owner, "virtual GPU %s of %s", traced->vgpu, traced->device);
	index = owner_index(writer, owner);
	for (size_t i = 0; i < traced->count[SIDE_WORKER] && index < OWNERS_MAX; i++) {
		const struct trace_event *event = &traced->events[SIDE_WORKER][i];
		if (event->kind == TRACE_GRANT && event->detail < RESOURCES)
			holdings[count++] = (struct holding){index, event->detail, of_device,
				event->begin_ns, event->end_ns, traced};
	}
	return count;
}

static size_t collect(struct writer *writer, struct holding *holdings)
{
	const struct traced *traced;
	size_t count = 0;

	list_for_each (traced, &writer->set->sessions, link)
		for (int of_device = 0; of_device < 2; of_device++)
			count += collect_of(writer, traced, of_device, holdings + count);
	qsort(holdings, count, sizeof *holdings, by_resource);
	return count;
}

static void write_holding(struct writer *writer, const struct holding *holding, uint32_t process,
	uint64_t begin_ns, uint64_t end_ns)
{
	const struct traced *traced = holding->traced;
	char name[112];

	if (holding->of_device)
		snprintf(name, sizeof name, "%s: %s (%d)", traced->vgpu, traced->program,
			traced->pid);
	else
		snprintf(name, sizeof name, "%s (%d)", traced->program, traced->pid);
	open_slice(
		writer, process, process + 1 + holding->resource, "grant", name, begin_ns, end_ns);
	close_slice(writer);
}

/* One resource of one owner; returns how many there are. An overtaken holder ends where the next begins. */
static size_t write_resource(
	struct writer *writer, const struct holding *holdings, size_t count, uint32_t process)
{
	uint64_t end_ns = 0;
	size_t i;

	for (i = 0; i < count && holdings[i].owner == holdings->owner &&
		    holdings[i].resource == holdings->resource;
		i++) {
		const struct holding *holding = &holdings[i];
		uint64_t begin_ns = max_of(holding->begin_ns, end_ns);

		if (!holding->end_ns && i && holdings[i - 1].begin_ns == holding->begin_ns &&
			holdings[i - 1].traced == holding->traced)
			continue; /* said again when it was over */
		end_ns = max_of(holding->end_ns ? holding->end_ns : writer->end_ns, begin_ns);
		if (end_ns > begin_ns ||
			!holding->of_device) /* of a gang that is granted together, the first */
			write_holding(writer, holding, process, begin_ns, end_ns);
	}
	return i;
}

static void write_owners(struct writer *writer)
{
	static const char *const resources[RESOURCES] = {
		"compute", "copies to the device", "copies from the device"};
	struct holding *holdings = calloc(2 * writer->set->count + 1, sizeof *holdings);
	size_t count = holdings ? collect(writer, holdings) : 0;
	unsigned named = UINT32_MAX;
	uint32_t process = 0;

	for (size_t i = 0; i < count;) {
		const struct holding *first = &holdings[i];

		if (first->owner != named) {
			process = writer->next_track;
			writer->next_track += 1 + RESOURCES;
			name_track(writer, process, process, "process",
				writer->owners[first->owner], 0);
			named = first->owner;
		}
		name_track(writer, process, process + 1 + first->resource, "thread",
			resources[first->resource], first->resource);
		i += write_resource(writer, first, count - i, process);
	}
	free(holdings);
}

/* ---- the whole ---- */

static uint64_t last_ns(const struct trace_set *set)
{
	const struct traced *traced;
	uint64_t last = set->since_ns;

	list_for_each (traced, &set->sessions, link)
		for (int side = 0; side < SIDES; side++)
			for (size_t i = 0; i < traced->count[side]; i++)
				last = max_of(last, traced->events[side][i].end_ns);
	return last;
}

static void name_process(struct writer *writer, const struct traced *traced)
{
	char name[96];

	snprintf(name, sizeof name, "%s", traced->program);
	name_track(writer, (uint32_t)traced->pid, (uint32_t)traced->pid, "process", name, 1);
}

int trace_write_json(struct trace_set *set, FILE *file)
{
	struct writer writer = {
		.file = file, .set = set, .next_track = FIRST_TRACK, .end_ns = last_ns(set)};
	struct traced *traced;

	find_demangler(&writer);
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", file);
	write_owners(&writer);
	list_for_each (traced, &set->sessions, link) {
		name_process(&writer, traced);
		write_commands(&writer, traced);
	}
	list_for_each (traced, &set->sessions, link)
		write_calls(&writer, traced);
	fprintf(file,
		"\n],\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\",\"program\":\"gdev " GDEV_VERSION
		"\",\"lost_events\":%" PRIu64 ",\"damaged_events\":%" PRIu64 "}}\n",
		set->dropped, set->damaged);
	return fflush(file) || ferror(file) ? -EIO : 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Metrics for Prometheus: the figures of `gdev top` in the text exposition format, as the answer to
 * GET /metrics on metrics.sock and, where the configuration names one, on an address of this machine.
 *
 * The least of HTTP that this takes: one request a connection, of a bounded size, within a bounded time, from
 * a bounded number of peers, in turn with what their users ask otherwise; the answer, and the end. A scraper needs no
 * more, and a library would bring its own event loop or threads.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define SCRAPES_MAX 16
#define SCRAPES_A_USER 4
#define REQUEST_BYTES_MAX 4096
#define REQUEST_TIME_NS (5 * NS_PER_S)

struct scrape {
	struct list link;
	struct user *user;
	struct errand turn; /* the request is there, and waits to be answered */
	struct deadline deadline;
	uv_pipe_t stream; /* of either family: to libuv it is a stream */
	uv_write_t write;
	char request[REQUEST_BYTES_MAX];
	size_t length;
	bool nothing; /* was there when it was to be read */
	char *answer;
};

static struct list scrapes = {&scrapes, &scrapes};
static unsigned scrape_count;

/* ---- what is said ---- */

enum family {
	USED,
	WAITED,
	GRANTS,
	OVERDUE,
	LONGEST_OVER,
	LONGEST,
	SHARE,
	USED_RATIO,
	EXPECTED_RATIO,
	HANDOVERS,
	LOST,
	FAMILIES,
};

/* What is said of one device, virtual GPU or session: a line in each family of that kind. */
struct row {
	char labels[256]; /* without the resource */
	double values[RESOURCES][FAMILIES];
	uint64_t memory_bytes, memory_limit_bytes, swapped_bytes, filed_bytes;
};

struct rows {
	const char *kind; /* "device", "vgpu", "session" */
	struct row *rows;
	size_t count;
};

static double seconds(uint64_t ns)
{
	return (double)ns / (double)NS_PER_S;
}

#define ONLY_DEVICE 1 /* has the figure */
#define NOT_DEVICE 2

static const struct {
	const char *name, *type, *help;
	int whose;
} families[FAMILIES] = {
	[USED] = {"used_seconds_total", "counter", "Device time used.", 0},
	[WAITED] = {"waited_seconds_total", "counter", "Time waited for the resource.", 0},
	[GRANTS] = {"grants_total", "counter", "How often the resource was given.", 0},
	[OVERDUE] = {"overdue_total", "counter", "Holds that were passed over as they did not end.",
		0},
	[LONGEST_OVER] = {"longest_over_seconds", "gauge", "Longest stay after the order to leave.",
		0},
	[LONGEST] = {"longest_command_seconds", "gauge", "Longest command.", 0},
	[SHARE] = {"share_ratio", "gauge", "Share as it counts now.", NOT_DEVICE},
	[USED_RATIO] = {"used_ratio", "gauge", "Part of the last ten seconds used.", 0},
	[EXPECTED_RATIO] = {"expected_ratio", "gauge",
		"Part of the last ten seconds that it should have used.", NOT_DEVICE},
	[HANDOVERS] = {"handovers_total", "counter", "Grants to another session than the last.",
		ONLY_DEVICE},
	[LOST] = {"lost_seconds_total", "counter",
		"Time in which somebody waited and nobody used it.", ONLY_DEVICE},
};

/* What begins a family: gdev_KIND_NAME. */
static void print_head(
	FILE *file, const char *kind, const char *name, const char *type, const char *help)
{
	fprintf(file, "# HELP gdev_%s_%s %s\n# TYPE gdev_%s_%s %s\n", kind, name, help, kind, name,
		type);
}

static void print_family(FILE *file, const struct rows *rows, size_t family)
{
	const char *name = families[family].name;
	bool device = !strcmp(rows->kind, "device");

	if (families[family].whose == (device ? NOT_DEVICE : ONLY_DEVICE) || !rows->count)
		return;
	print_head(file, rows->kind, name, families[family].type, families[family].help);
	for (size_t i = 0; i < rows->count; i++)
		for (unsigned r = 0; r < RESOURCES; r++)
			fprintf(file, "gdev_%s_%s{%s,resource=\"%s\"} %.15g\n", rows->kind, name,
				rows->rows[i].labels, resource_names[r],
				rows->rows[i].values[r][family]);
}

static void print_bytes(
	FILE *file, const struct rows *rows, const char *name, const char *help, size_t offset)
{
	if (!rows->count)
		return;
	print_head(file, rows->kind, name, "gauge", help);
	for (size_t i = 0; i < rows->count; i++) {
		uint64_t bytes = *(const uint64_t *)((const char *)&rows->rows[i] + offset);
		if (bytes != UINT64_MAX) /* no limit that anybody knows */
			fprintf(file, "gdev_%s_%s{%s} %llu\n", rows->kind, name,
				rows->rows[i].labels, (unsigned long long)bytes);
	}
}

/* A name as the value of a label. */
static void escape_label(char *to, size_t size, const char *from)
{
	size_t at = 0;

	for (; *from && at + 2 < size; from++) {
		if (*from == '"' || *from == '\\')
			to[at++] = '\\';
		to[at++] = *from;
	}
	to[at] = '\0';
}

/* `share`: of those that have one. */
static void fill_usage(
	double *values, const struct usage *usage, struct usage_counters counters, double share)
{
	values[USED] = seconds(counters.used_ns);
	values[WAITED] = seconds(counters.waited_ns);
	values[GRANTS] = (double)usage->grants;
	values[OVERDUE] = (double)usage->overdue;
	values[LONGEST_OVER] = seconds(usage->longest_over_ns);
	values[LONGEST] = seconds(usage->longest_ns);
	values[SHARE] = share;
	values[USED_RATIO] = usage->windows[USAGE_TEN_SECONDS].used;
	values[EXPECTED_RATIO] = usage->windows[USAGE_TEN_SECONDS].expected;
	values[HANDOVERS] = (double)usage->handovers;
	values[LOST] = seconds(usage->lost_ns);
}

static void fill_device(struct device *device, struct row *row, uint64_t now_ns)
{
	snprintf(row->labels, sizeof row->labels, "device=\"%s\"", device->served->name);
	row->memory_bytes = device->memory.used_bytes;
	row->memory_limit_bytes = device->memory.limit_bytes;
	row->swapped_bytes = device->daemon->swap.pools[SWAP_MEMORY].used_bytes;
	row->filed_bytes = device->daemon->swap.pools[SWAP_FILE].used_bytes;
	for (unsigned i = 0; i < RESOURCES; i++)
		fill_usage(row->values[i], &device->usage[i], measure_device(device, i, now_ns), 0);
}

static void fill_vgpu(const struct vgpu *vgpu, struct row *row, uint64_t now_ns)
{
	snprintf(row->labels, sizeof row->labels, "device=\"%s\",vgpu=\"%s\"",
		vgpu->device->served->name, vgpu->config->name);
	row->memory_bytes = vgpu->memory.used_bytes;
	row->memory_limit_bytes = memory_total(&vgpu->memory);
	row->filed_bytes = vgpu->swap[SWAP_FILE].used_bytes;
	row->swapped_bytes = swap_used_by(vgpu) - row->filed_bytes;
	for (unsigned i = 0; i < RESOURCES; i++) {
		unsigned queue = grants_queue(vgpu->daemon, i);
		fill_usage(row->values[i], &vgpu->usage[i], measure_vgpu(vgpu, i, now_ns),
			sched_fraction(
				&vgpu->device->sched[queue].groups, &vgpu->groups[queue].node));
	}
}

static void fill_session(const struct session *session, struct row *row, uint64_t now_ns)
{
	char program[2 * PROGRAM_NAME_MAX];

	escape_label(program, sizeof program, session->program);
	snprintf(row->labels, sizeof row->labels,
		"device=\"%s\",vgpu=\"%s\",session=\"%llu\",pid=\"%d\",uid=\"%u\",program=\"%s\"",
		session->device->served->name, session->vgpu->config->name,
		(unsigned long long)session->id, (int)session->pid, (unsigned)session->uid,
		program);
	row->memory_bytes = session->worker->memory.used_bytes;
	row->memory_limit_bytes = memory_total(&session->vgpu->memory);
	row->filed_bytes = session->worker->swap[SWAP_FILE].used_bytes;
	row->swapped_bytes = swap_used(session->worker) - row->filed_bytes;
	for (unsigned i = 0; i < RESOURCES; i++) {
		unsigned queue = grants_queue(session->daemon, i);
		fill_usage(row->values[i], &session->usage[i], measure_session(session, i, now_ns),
			sched_fraction(&session->vgpu->groups[queue].members,
				&session->entities[queue].node));
	}
}

/* One more, of zeros. NULL: no memory. */
static struct row *add_row(struct rows *rows)
{
	struct row *more = realloc(rows->rows, (rows->count + 1) * sizeof *more);

	if (!more)
		return NULL;
	rows->rows = more;
	more += rows->count++;
	memset(more, 0, sizeof *more);
	return more;
}

/* Prints the rows, and frees them. */
static void print_rows(FILE *file, struct rows *rows)
{
	for (size_t family = 0; family < array_length(families); family++)
		print_family(file, rows, family);
	print_bytes(file, rows, "memory_bytes", "Device memory held.",
		offsetof(struct row, memory_bytes));
	print_bytes(file, rows, "memory_limit_bytes", "Device memory that may be held.",
		offsetof(struct row, memory_limit_bytes));
	print_bytes(file, rows, "swapped_bytes", "Device memory that host memory keeps.",
		offsetof(struct row, swapped_bytes));
	print_bytes(file, rows, "file_swapped_bytes", "Device memory that swap files keep.",
		offsetof(struct row, filed_bytes));
	free(rows->rows);
}

static void print_states(FILE *file, const struct daemon *daemon)
{
	static const struct {
		const char *name, *type, *help;
	} states[] = {
		{"up", "gauge", "1: it works; 0: it fails, or has not been opened yet."},
		{"drained", "gauge", "1: it takes no new sessions."},
		{"sessions", "gauge", "Sessions."},
		{"losses_total", "counter", "Sessions that it failed under."},
	};
	const struct device *device;

	for (size_t i = 0; i < array_length(states); i++) {
		print_head(file, "device", states[i].name, states[i].type, states[i].help);
		list_for_each (device, &daemon->devices, link) {
			const unsigned values[] = {device->known && !device_is_failing(device),
				device->drained, device_count_sessions(device), device->losses};
			fprintf(file, "gdev_device_%s{device=\"%s\"} %u\n", states[i].name,
				device->served->name, values[i]);
		}
	}
}

static void print_devices(FILE *file, const struct daemon *daemon, uint64_t now_ns)
{
	struct rows rows = {.kind = "device"};
	struct device *device;
	struct row *row;

	list_for_each (device, &daemon->devices, link)
		if ((row = add_row(&rows)))
			fill_device(device, row, now_ns);
	print_rows(file, &rows);
	print_states(file, daemon);
}

static void print_vgpus(FILE *file, struct daemon *daemon, uint64_t now_ns)
{
	struct rows rows = {.kind = "vgpu"};
	const struct vgpu *vgpu;
	struct row *row;

	list_for_each (vgpu, &daemon->vgpus, link)
		if ((row = add_row(&rows)))
			fill_vgpu(vgpu, row, now_ns);
	print_rows(file, &rows);
	print_head(file, "vgpu", "sessions", "gauge", "Sessions.");
	list_for_each (vgpu, &daemon->vgpus, link)
		fprintf(file, "gdev_vgpu_sessions{device=\"%s\",vgpu=\"%s\"} %u\n",
			vgpu->device->served->name, vgpu->config->name, vgpu->sessions);
}

static void print_contexts(FILE *file, struct daemon *daemon)
{
	static const struct {
		const char *name, *type, *help;
	} contexts[] = {
		{"context_held", "gauge",
			"1: the session's context is on the device; 0: it was given back."},
		{"retirements_total", "counter", "How often its context was given back."},
		{"reopening_seconds_total", "counter", "How long commands waited for a context."},
	};
	const struct session *session;

	for (size_t i = 0; i < array_length(contexts) && daemon->session_count; i++) {
		print_head(file, "session", contexts[i].name, contexts[i].type, contexts[i].help);
		list_for_each (session, &daemon->sessions, link) {
			const struct worker *worker = session->worker;
			if (worker->state != WORKER_SERVING)
				continue;
			const double values[] = {!retire_is_retired(worker),
				(double)worker->page->retirements,
				seconds(worker->page->reopening_ns)};
			fprintf(file,
				"gdev_session_%s{device=\"%s\",vgpu=\"%s\",session=\"%llu\"} %.9g\n",
				contexts[i].name, session->device->served->name,
				session->vgpu->config->name, (unsigned long long)session->id,
				values[i]);
		}
	}
}

static void print_sessions(FILE *file, struct daemon *daemon, uint64_t now_ns)
{
	struct rows rows = {.kind = "session"};
	const struct session *session;
	struct row *row;

	list_for_each (session, &daemon->sessions, link)
		if (session->worker->state == WORKER_SERVING && (row = add_row(&rows)))
			fill_session(session, row, now_ns);
	print_rows(file, &rows);
	print_contexts(file, daemon);
}

/* The whole text, to be freed; NULL: no memory. */
static char *metrics_text(struct daemon *daemon)
{
	uint64_t now_ns;
	size_t length;
	char *text = NULL;
	FILE *file = open_memstream(&text, &length);

	if (!file)
		return NULL;
	measure_look(daemon);
	now_ns = clock_now_ns();
	print_devices(file, daemon, now_ns);
	print_vgpus(file, daemon, now_ns);
	print_sessions(file, daemon, now_ns);
	fclose(file);
	return text;
}

/* ---- HTTP ---- */

static void on_close(uv_handle_t *handle)
{
	struct scrape *scrape = handle->data;

	free(scrape->answer);
	free(scrape);
}

static void scrape_end(struct scrape *scrape)
{
	int fd = -1;

	if (list_empty(&scrape->link))
		return;
	uv_fileno((uv_handle_t *)&scrape->stream, &fd);
	if (fd >= 0 && porters_outlive(scrape->user, fd)) {
		uv_read_stop((uv_stream_t *)&scrape->stream);
		deadline_set(scrape->user->users->deadlines, &scrape->deadline,
			clock_now_ns() + REQUEST_TIME_NS);
		return;
	}
	list_remove(&scrape->link);
	scrape_count--;
	scrape->user->scrapes--;
	errand_cancel(&scrape->turn);
	deadline_cancel(&scrape->deadline);
	user_put(scrape->user);
	uv_close((uv_handle_t *)&scrape->stream, on_close);
}

static void on_late(struct deadline *deadline, uint64_t now_ns)
{
	scrape_end(container_of(deadline, struct scrape, deadline));
}

static void on_written(uv_write_t *write, int status)
{
	scrape_end(container_of(write, struct scrape, write));
}

static void answer_scrape(struct scrape *scrape, const char *status, const char *text)
{
	uv_buf_t buffer;

	uv_read_stop((uv_stream_t *)&scrape->stream);
	if (asprintf(&scrape->answer,
		    "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
		    "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
		    status, strlen(text), text) < 0) {
		scrape->answer = NULL;
		scrape_end(scrape);
		return;
	}
	buffer = uv_buf_init(scrape->answer, (unsigned)strlen(scrape->answer));
	if (uv_write(&scrape->write, (uv_stream_t *)&scrape->stream, &buffer, 1, on_written))
		scrape_end(scrape);
}

/* A whole request is there, and it is its turn. */
static void on_turn(struct errand *turn)
{
	struct scrape *scrape = container_of(turn, struct scrape, turn);
	autofree char *text = NULL;

	if (strncmp(scrape->request, "GET ", 4)) {
		answer_scrape(scrape, "405 Method Not Allowed", "only GET /metrics\n");
		return;
	}
	if (strncmp(scrape->request + 4, "/metrics ", 9)) {
		answer_scrape(scrape, "404 Not Found", "there is /metrics\n");
		return;
	}
	text = metrics_text(scrape->stream.loop->data);
	if (text)
		answer_scrape(scrape, "200 OK", text);
	else
		answer_scrape(scrape, "500 Internal Server Error", "gdevd is out of memory\n");
}

/* Room for exactly what is there now, if no descriptors come with it: reading would release those here. */
static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
	struct scrape *scrape = handle->data;
	size_t room = sizeof scrape->request - 1 - scrape->length;
	char *to = scrape->request + scrape->length;
	bool descriptors = false;
	ssize_t there = -EBADF;
	int fd;

	if (!uv_fileno(handle, &fd) && room)
		there = fd_peek(fd, to, room, &descriptors);
	scrape->nothing = there == -EAGAIN;
	/* 0: the end of file. */
	*buffer = uv_buf_init(to, there < 0 || descriptors ? 0 : (unsigned)max_of(there, 1));
}

static bool is_full(const struct scrape *scrape)
{
	return scrape->length == sizeof scrape->request - 1;
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
	struct scrape *scrape = stream->data;

	if (length == UV_ENOBUFS && scrape->nothing)
		return;
	if (length < 0) {
		/* UV_ENOBUFS: there was no room for it, or none was given. */
		if (length == UV_ENOBUFS && is_full(scrape))
			answer_scrape(scrape, "431 Request Header Fields Too Large", "too long\n");
		else
			scrape_end(scrape);
		return;
	}
	scrape->length += (size_t)length;
	scrape->request[scrape->length] = '\0';
	if (!strstr(scrape->request, "\r\n\r\n") && !strstr(scrape->request, "\n\n"))
		return;
	uv_read_stop(stream);
	errand_add(&scrape->turn, scrape->user, ERRAND_ASK);
}

/* Over TCP nobody knows: all of those count as one. */
static uid_t user_of(int fd)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t length = sizeof peer;

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
	return peer.uid;
}

void metrics_accept(struct daemon *daemon, int fd)
{
	struct user *user = user_get(&daemon->users, user_of(fd));
	bool too_many = scrape_count >= SCRAPES_MAX || (user && user->scrapes >= SCRAPES_A_USER);
	struct scrape *scrape = user && !too_many ? calloc(1, sizeof *scrape) : NULL;

	if (!scrape) {
		user ? porters_close(user, fd) : porters_close_of_peer(&daemon->users, fd);
		user_put(user);
		return;
	}
	scrape->user = user;
	user->scrapes++;
	errand_init(&scrape->turn, on_turn);
	deadline_init(&scrape->deadline, on_late);
	list_append(&scrapes, &scrape->link);
	scrape_count++;
	daemon->loop.data = daemon;
	uv_pipe_init(&daemon->loop, &scrape->stream, 0);
	scrape->stream.data = scrape;
	if (uv_pipe_open(&scrape->stream, fd)) {
		porters_close(user, fd);
		scrape_end(scrape);
		return;
	}
	deadline_set(&daemon->deadlines, &scrape->deadline, clock_now_ns() + REQUEST_TIME_NS);
	if (uv_read_start((uv_stream_t *)&scrape->stream, give_buffer, on_read))
		scrape_end(scrape);
}

void metrics_stop(void)
{
	struct scrape *scrape, *after;

	list_for_each_safe (scrape, after, &scrapes, link)
		scrape_end(scrape);
}

/* SPDX-License-Identifier: MIT
 *
 * Waits that could become deadlocks: `waits CASE`, a case a test. Exit status 0: it did not, and every
 * result was right. Whoever runs it sets the time limit. Needs two virtual GPUs, gdev0 and second.
 */
#include <gdev/session.h>

#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char ptx[] = ".version 6.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".visible .entry increment(.param .u64 at)\n"
			  "{\n"
			  "	.reg .u64 %a;\n"
			  "	.reg .u32 %v;\n"
			  "	ld.param.u64 %a, [at];\n"
			  "	ld.global.u32 %v, [%a];\n"
			  "	add.u32 %v, %v, 1;\n"
			  "	st.global.u32 [%a], %v;\n"
			  "	ret;\n"
			  "}\n";

/* A session with one counter in device memory and a kernel that adds one to it. */
struct side {
	struct gdev_session *session;
	struct gdev_stream *stream;
	struct gdev_module *module;
	struct gdev_function *increment;
	uint64_t counter;
};

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "waits: cannot %s: %s\n", what, gdev_strerror(error));
	exit(1);
}

static void expect(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "waits: expected that %s\n", what);
	exit(1);
}

static void side_open(struct side *side, const char *vgpu)
{
	struct gdev_fill zero = {.width = 1, .height = 1, .pitch = 4, .element_bytes = 4};

	must(gdev_session_open(vgpu, &side->session), "open a session");
	must(gdev_stream_create(side->session, 0, &side->stream), "create a stream");
	must(gdev_module_load(side->session, ptx, sizeof(ptx), NULL, 0, &side->module),
		"load the kernel");
	must(gdev_module_function(side->module, "increment", &side->increment), "find the kernel");
	must(gdev_memory_alloc(side->session, 4, &side->counter), "allocate");
	zero.destination = side->counter;
	must(gdev_fill_async(side->stream, &zero), "clear the counter");
}

static void side_close(struct side *side)
{
	gdev_module_unload(side->module);
	gdev_stream_destroy(side->stream);
	gdev_session_close(side->session);
}

static void increment_on(struct side *side, struct gdev_stream *stream, unsigned times)
{
	struct gdev_launch launch = {.function = side->increment,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.params = &side->counter,
		.param_bytes = sizeof(side->counter)};

	while (times--)
		must(gdev_launch_async(stream, &launch), "launch");
}

static uint32_t counter_of(struct side *side)
{
	uint32_t value = 0;
	struct gdev_copy copy = gdev_copy_linear((uintptr_t)&value, side->counter, sizeof(value));

	copy.destination_side = GDEV_SIDE_HOST;
	must(gdev_copy(side->stream, &copy), "read the counter");
	return value;
}

/* A host function that returns when it is released. */
static sem_t reached, released;

static void block(void *unused, int error)
{
	sem_post(&reached);
	while (sem_wait(&released))
		;
}

static void share(struct side *side, uint64_t *id)
{
	struct gdev_event *event;

	must(gdev_event_create(side->session, false, &event), "create an event");
	must(gdev_event_record(event, side->stream), "record it");
	must(gdev_event_share(event, id), "share it");
	gdev_event_destroy(event);
}

/* A waits for B, B for the host; a third stream of A's goes on meanwhile. */
static int case_across(void)
{
	struct side a, b;
	struct gdev_stream *other;
	uint64_t id;

	side_open(&a, "gdev0");
	side_open(&b, "second");
	must(gdev_stream_create(a.session, 0, &other), "create a stream");
	must(gdev_stream_sync(a.stream), "wait");
	must(gdev_stream_call(b.stream, block, NULL), "call a host function");
	increment_on(&b, b.stream, 100);
	share(&b, &id);
	must(gdev_stream_wait_shared(a.stream, id), "wait for the other session");
	increment_on(&a, a.stream, 100);

	sem_wait(&reached);
	increment_on(&a, other, 10);
	must(gdev_stream_sync(other), "wait for a stream that nothing holds up");
	expect(gdev_stream_query(a.stream) == -GDEV_E_NOT_READY, "A still waits for B");
	sem_post(&released);
	must(gdev_stream_sync(a.stream), "wait for A");
	must(gdev_stream_sync(b.stream), "wait for B");
	expect(counter_of(&a) == 110 && counter_of(&b) == 100, "every launch ran once");
	gdev_stream_destroy(other);
	side_close(&a);
	side_close(&b);
	return 0;
}

/* Each waits for the other's last step before it takes its next one, as a pipeline does. */
static int case_ping_pong(void)
{
	struct side a, b;
	uint64_t id;

	side_open(&a, "gdev0");
	side_open(&b, "second");
	for (int i = 0; i < 100; i++) {
		increment_on(&a, a.stream, 1);
		share(&a, &id);
		must(gdev_stream_wait_shared(b.stream, id), "let B wait for A");
		increment_on(&b, b.stream, 1);
		share(&b, &id);
		must(gdev_stream_wait_shared(a.stream, id), "let A wait for B");
	}
	must(gdev_stream_sync(a.stream), "wait for A");
	must(gdev_stream_sync(b.stream), "wait for B");
	expect(counter_of(&a) == 100 && counter_of(&b) == 100, "every launch ran once");
	side_close(&a);
	side_close(&b);
	return 0;
}

/* A waits for an event of a process that dies before it comes. */
static int case_dead(void)
{
	struct side a, b;
	int pipes[2];
	uint64_t id;
	pid_t child;

	expect(pipe(pipes) == 0, "there is a pipe");
	child = fork();
	if (child == 0) {
		side_open(&b, "second");
		must(gdev_stream_call(b.stream, block, NULL), "call a host function");
		share(&b, &id);
		expect(write(pipes[1], &id, sizeof(id)) == sizeof(id), "the parent listens");
		for (;;)
			pause();
	}
	close(pipes[1]);
	expect(read(pipes[0], &id, sizeof(id)) == sizeof(id), "the child shares an event");
	side_open(&a, "gdev0");
	must(gdev_stream_wait_shared(a.stream, id), "wait for the child");
	increment_on(&a, a.stream, 1);
	usleep(100000);
	expect(gdev_stream_query(a.stream) == -GDEV_E_NOT_READY, "A waits for the child");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	expect(gdev_stream_sync(a.stream) == -GDEV_E_SESSION_LOST, "the wait ends with an error");
	expect(gdev_session_error(a.session, NULL) == 0, "the session is well");
	increment_on(&a, a.stream, 1);
	must(gdev_stream_sync(a.stream), "go on");
	side_close(&a);
	return 0;
}

/* A host function blocks while more is queued behind it than the ring holds. */
static int case_host_function(void)
{
	enum { MANY = 20000 };
	struct side a;
	struct gdev_stream *other;

	side_open(&a, "gdev0");
	must(gdev_stream_create(a.session, 0, &other), "create a stream");
	must(gdev_stream_sync(a.stream), "wait");
	must(gdev_stream_call(a.stream, block, NULL), "call a host function");
	increment_on(&a, a.stream, MANY);
	sem_wait(&reached);
	for (int i = 0; i < 100; i++) {
		increment_on(&a, other, 1);
		must(gdev_stream_sync(other), "wait for a stream that nothing holds up");
	}
	expect(gdev_stream_query(a.stream) == -GDEV_E_NOT_READY, "the first stream is held up");
	sem_post(&released);
	must(gdev_stream_sync(a.stream), "wait for the first stream");
	expect(counter_of(&a) == MANY + 100, "every launch ran once");
	gdev_stream_destroy(other);
	side_close(&a);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} cases[] = {
		{"across", case_across},
		{"ping-pong", case_ping_pong},
		{"dead", case_dead},
		{"host-function", case_host_function},
	};

	sem_init(&reached, 0, 0);
	sem_init(&released, 0, 0);
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	fprintf(stderr, "Usage: waits across|ping-pong|dead|host-function\n");
	return 2;
}

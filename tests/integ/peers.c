/* SPDX-License-Identifier: MIT
 *
 * Two sessions of one process that reach each other's memory: `peers CASE`, a case a test. Exit status 0: every result was
 * right. Needs two virtual GPUs, whose devices reach each other.
 */
#include <gdev/session.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 256
#define LARGE_WORDS (10u << 20) /* 40 MiB: several chunks */
#define MIB (1ull << 20)

/* step(to, from, words): to[i] = 3 * from[i] + i. */
static const char ptx[] =
	".version 6.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry step(.param .u64 to, .param .u64 from, .param .u32 words)\n"
	"{\n"
	"	.reg .u64 %t, %f, %o;\n"
	"	.reg .u32 %v, %i, %b, %n, %c;\n"
	"	.reg .pred %p;\n"
	"	ld.param.u64 %t, [to];\n"
	"	ld.param.u64 %f, [from];\n"
	"	ld.param.u32 %n, [words];\n"
	"	mov.u32 %b, %ctaid.x;\n"
	"	mov.u32 %c, %ntid.x;\n"
	"	mov.u32 %i, %tid.x;\n"
	"	mad.lo.u32 %i, %b, %c, %i;\n"
	"	setp.ge.u32 %p, %i, %n;\n"
	"	@%p bra done;\n"
	"	mul.wide.u32 %o, %i, 4;\n"
	"	add.u64 %t, %t, %o;\n"
	"	add.u64 %f, %f, %o;\n"
	"	ld.global.u32 %v, [%f];\n"
	"	mad.lo.u32 %v, %v, 3, %i;\n"
	"	st.global.u32 [%t], %v;\n"
	"done:\n"
	"	ret;\n"
	"}\n"
	/* play(at, mine, rounds): waits until *at is `mine`, makes it one more, then for two more than that, … */
	".visible .entry play(.param .u64 at, .param .u32 mine, .param .u32 rounds)\n"
	"{\n"
	"	.reg .u64 %a;\n"
	"	.reg .u32 %m, %n, %v;\n"
	"	.reg .pred %p;\n"
	"	ld.param.u64 %a, [at];\n"
	"	ld.param.u32 %m, [mine];\n"
	"	ld.param.u32 %n, [rounds];\n"
	"again:\n"
	"	ld.volatile.global.u32 %v, [%a];\n"
	"	setp.ne.u32 %p, %v, %m;\n"
	"	@%p bra again;\n"
	"	add.u32 %v, %v, 1;\n"
	"	st.volatile.global.u32 [%a], %v;\n"
	"	add.u32 %m, %m, 2;\n"
	"	sub.u32 %n, %n, 1;\n"
	"	setp.ne.u32 %p, %n, 0;\n"
	"	@%p bra again;\n"
	"	ret;\n"
	"}\n";

struct side {
	struct gdev_session *session;
	struct gdev_stream *stream;
	struct gdev_module *module;
	struct gdev_function *step, *play;
};

static struct side a, b;
static char vgpus[2][GDEV_NAME_MAX]; /* of a, of b */

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "peers: cannot %s: %s\n", what, gdev_strerror(error));
	exit(1);
}

static void expect(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "peers: expected that %s\n", what);
	exit(1);
}

static void side_open(struct side *side, const char *vgpu)
{
	must(gdev_session_open(vgpu, &side->session), "open a session");
	must(gdev_stream_create(side->session, 0, &side->stream), "create a stream");
	must(gdev_module_load(side->session, ptx, sizeof ptx, NULL, 0, &side->module),
		"load the kernel");
	must(gdev_module_function(side->module, "step", &side->step), "find the kernel");
	must(gdev_module_function(side->module, "play", &side->play), "find the kernel");
}

static void side_close(struct side *side)
{
	gdev_module_unload(side->module);
	gdev_stream_destroy(side->stream);
	gdev_session_close(side->session);
}

static uint64_t alloc(const struct side *side, uint64_t bytes)
{
	uint64_t address;

	must(gdev_memory_alloc(side->session, bytes, &address), "allocate");
	return address;
}

static void fill(const struct side *side, uint64_t at, uint32_t value, uint32_t words)
{
	struct gdev_fill fill = {.destination = at,
		.width = words,
		.height = 1,
		.pitch = words * 4ull,
		.element_bytes = 4,
		.value = value};

	must(gdev_fill_async(side->stream, &fill), "fill");
}

static void step(const struct side *side, uint64_t to, uint64_t from, uint32_t words)
{
	void *arguments[] = {&to, &from, &words};
	struct gdev_launch launch = {.function = side->step,
		.grid = {(words + THREADS - 1) / THREADS, 1, 1},
		.block = {THREADS, 1, 1},
		.arguments = arguments};

	must(gdev_launch_async(side->stream, &launch), "launch");
}

static int copy(const struct side *side, uint64_t to, uint64_t from, uint64_t bytes)
{
	struct gdev_copy copy = gdev_copy_linear(to, from, bytes);

	return gdev_copy(side->stream, &copy);
}

/* Whether each word is `steps` steps from `value`. */
static void check(const struct side *side, uint64_t at, uint32_t value, unsigned steps,
	uint32_t words, const char *what)
{
	uint32_t *got = malloc(words * 4ull);

	must(copy(side, (uint64_t)got, at, words * 4ull), "copy");
	for (uint32_t i = 0; i < words; i++) {
		uint32_t wanted = value;
		for (unsigned k = 0; k < steps; k++)
			wanted = 3 * wanted + i;
		if (got[i] == wanted)
			continue;
		fprintf(stderr, "peers: %s: word %u is %u and not %u\n", what, i, got[i], wanted);
		exit(1);
	}
	free(got);
}

static void map(const struct side *side, const struct side *owner, uint64_t address)
{
	must(gdev_peer_map(side->session, owner->session, address, 0), "map another's memory");
}

static void after(const struct side *side, const struct side *owner)
{
	struct gdev_fence fence;

	gdev_stream_fence(owner->stream, &fence);
	must(gdev_stream_wait_peer(side->stream, owner->session, &fence),
		"wait for another's fence");
}

/* Kernels, fills and copies of either side, on memory of either. */
static void reach(uint32_t words)
{
	uint64_t of_a = alloc(&a, words * 4ull), of_b = alloc(&b, words * 4ull);
	struct gdev_range range;

	expect(copy(&b, of_b, of_a, 4) == -EINVAL, "nothing is reached that was not mapped");
	fill(&a, of_a, 7, words);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, of_a);
	map(&b, &a, of_a + words);
	map(&a, &b, of_b);
	gdev_memory_lookup(b.session, of_a, &range);
	expect(range.kind == GDEV_MEMORY_SHARED && range.base <= of_a &&
			of_a + words * 4ull <= range.base + range.bytes,
		"the session knows what it has mapped");
	expect(gdev_memory_free(b.session, range.base) == -EINVAL, "only the owner frees it");
	expect(gdev_shm_detach(b.session, range.base) == -EINVAL, "it is no segment");

	step(&b, of_b, of_a, words); /* reads there, writes here */
	after(&a, &b);
	step(&a, of_a, of_b, words);
	after(&b, &a);
	step(&b, of_a, of_a, words);
	after(&a, &b);
	check(&a, of_a, 7, 3, words, "kernels of both");
	check(&b, of_a, 7, 3, words, "seen from the other");
	fill(&b, of_a, 9, words);
	must(gdev_stream_sync(b.stream), "finish");
	check(&a, of_a, 9, 0, words, "a fill of the other's");
	must(copy(&b, of_b, of_a, words * 4ull), "copy");
	step(&b, of_b, of_b, words);
	must(gdev_stream_sync(b.stream), "finish");
	must(copy(&a, of_a, of_b, words * 4ull), "copy");
	check(&a, of_a, 9, 1, words, "copies of both");

	must(gdev_peer_unmap(b.session, a.session, of_a), "unmap");
	must(gdev_peer_unmap(b.session, a.session, of_a), "unmap again");
	expect(copy(&b, of_b, of_a, 4) == (words < LARGE_WORDS ? 0 : -EINVAL),
		"it is not reached any more, but what shares an object is");
	must(gdev_stream_sync(b.stream), "finish");
	check(&a, of_a, 9, 1, words, "still the owner's");
	map(&b, &a, of_a);
	check(&b, of_a, 9, 1, words, "mapped once more");
	must(gdev_memory_free(a.session, of_a), "free");
	must(gdev_memory_free(b.session, of_b), "free");
}

static void case_small(void)
{
	reach(300);
}

static void case_large(void)
{
	reach(LARGE_WORDS);
}

/* How many descriptors of page-locked memory the process has. */
static int count_files(void)
{
	char path[32], target[64];
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t length = readlink(path, target, sizeof target - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		count += strstr(target, "gdev-host") != NULL;
	}
	return count;
}

static void check_child(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(count_files());
	expect(waitpid(child, &status, 0) == child && !status, "a child has none of the memory");
}

/* Words that the process, and kernels of both sides, read and write. */
static void case_host(void)
{
	const uint32_t words = 600000; /* no block of a larger object */
	uint32_t *pinned;
	uint64_t of_b = alloc(&b, words * 4ull);
	struct gdev_range range;

	must(gdev_host_alloc(a.session, words * 4ull, (void **)&pinned), "allocate");
	for (uint32_t i = 0; i < words; i++)
		pinned[i] = 5;
	map(&b, &a, (uint64_t)pinned);
	gdev_memory_lookup(b.session, (uint64_t)pinned, &range);
	expect(range.kind == GDEV_MEMORY_HOST && range.mapped, "it is page-locked memory");
	step(&b, of_b, (uint64_t)pinned, words);
	step(&b, (uint64_t)pinned, of_b, words);
	after(&a, &b);
	step(&a, (uint64_t)pinned, (uint64_t)pinned, words);
	must(gdev_stream_sync(a.stream), "finish");
	for (uint32_t i = 0; i < words; i++)
		expect(pinned[i] == 3 * (3 * (3 * 5 + i) + i) + i, "all see the same words");
	expect(count_files() == 1, "the memory's descriptor is kept");
	check_child();
	must(gdev_memory_free(a.session, (uint64_t)pinned), "free");
	expect(count_files() == 0, "it goes with the memory");
	expect(gdev_memory_free(b.session, (uint64_t)pinned) == -EINVAL, "it is gone");
}

/* Freed memory is gone from both, and what is there next has nothing to do with it. */
static void case_freed(void)
{
	const uint32_t words = 1u << 20;
	uint64_t of_b = alloc(&b, words * 4ull), freed = 0, again = 0;
	struct gdev_range range;

	for (int i = 0; i < 20; i++) {
		freed = alloc(&a, words * 4ull);
		fill(&a, freed, (uint32_t)i, words);
		must(gdev_stream_sync(a.stream), "finish");
		map(&b, &a, freed);
		check(&b, freed, (uint32_t)i, 0, words, "new memory");
		must(gdev_memory_free(a.session, freed), "free");
	}
	gdev_memory_lookup(b.session, freed, &range);
	expect(range.kind == GDEV_MEMORY_UNKNOWN, "freed memory is not known");
	again = alloc(&a, words * 4ull);
	expect(again == freed, "addresses are used again");
	expect(copy(&b, of_b, again, 4) == -EINVAL, "new memory is not mapped");
	step(&b, of_b, again, words);
	expect(gdev_stream_sync(b.stream) == -GDEV_E_ILLEGAL_ADDRESS, "no kernel reaches it");
	must(gdev_session_error(a.session, NULL), "use the owner's session");
	fill(&a, again, 3, words);
	check(&a, again, 3, 0, words, "the owner's");
}

/* A counter that both sides add to in turn. */
static void case_turns(void)
{
	uint64_t at = alloc(&a, 4);

	fill(&a, at, 1, 1);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, at);
	for (int i = 0; i < 6; i++) {
		after(&b, &a);
		step(&b, at, at, 1);
		after(&a, &b);
		step(&a, at, at, 1);
	}
	check(&a, at, 531441, 0, 1, "twelve times");
}

/* "ready" is said, and what comes next waits for a line: something is done from outside meanwhile. */
static void await_line(void)
{
	printf("ready\n");
	fflush(stdout);
	expect(getchar() == '\n', "somebody says when");
}

static void use(const struct side *side)
{
	uint64_t at = alloc(side, 4000);

	fill(side, at, 2, 1000);
	step(side, at, at, 1000);
	check(side, at, 2, 1, 1000, "the session that is left");
	must(gdev_memory_free(side->session, at), "free");
}

static void case_owner_dies(void)
{
	uint64_t of_a = alloc(&a, 40 * MIB), of_b = alloc(&b, 4000), more;

	fill(&a, of_a, 4, 1000);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, of_a);
	map(&a, &b, of_b);
	await_line();
	use(&b);
	expect(gdev_memory_alloc(a.session, 4, &more) == -GDEV_E_SESSION_LOST,
		"the owner's session is lost");
	expect(gdev_peer_map(b.session, a.session, of_a, 0) == -GDEV_E_SESSION_LOST,
		"nothing more of it is mapped");
	must(gdev_peer_unmap(b.session, a.session, of_a), "unmap");
	must(gdev_memory_free(b.session, of_b), "free what the other had");
	side_close(&a);
	use(&b);
	side_open(&a, vgpus[0]);
	of_a = alloc(&a, 4000);
	fill(&a, of_a, 4, 1000);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, of_a);
	check(&b, of_a, 4, 0, 1000, "the next session's");
}

/* What a command names that was the memory of a worker that is gone is an illegal address. */
static void case_owner_lost(void)
{
	uint64_t of_a = alloc(&a, 40 * MIB);
	uint32_t word;
	int error;

	fill(&a, of_a, 4, 1000);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, of_a);
	await_line();
	use(&b);
	do /* until gdevd's order has come */
		error = copy(&b, (uint64_t)&word, of_a, sizeof word);
	while (!error);
	expect(error == -GDEV_E_ILLEGAL_ADDRESS, "it is an illegal address");
}

/* Another gdevd comes meanwhile. */
static void case_restart(void)
{
	const uint32_t words = 1u << 20;
	uint64_t of_a = alloc(&a, words * 4ull), more;

	fill(&a, of_a, 4, words);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, of_a);
	await_line();
	step(&b, of_a, of_a, words);
	after(&a, &b);
	step(&a, of_a, of_a, words);
	check(&a, of_a, 4, 2, words, "memory from before");
	more = alloc(&a, words * 4ull);
	fill(&a, more, 6, words);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, more);
	check(&b, more, 6, 0, words, "memory from after");
	must(gdev_memory_free(a.session, of_a), "free");
	must(gdev_memory_free(a.session, more), "free");
}

/* Others need more than there is beside what both have: all of it is right. */
static void case_pressure(void)
{
	enum { MORE = 6 };
	const uint32_t words = 8u << 20; /* 32 MiB */
	uint64_t of_a = alloc(&a, words * 4ull), of_b = alloc(&b, words * 4ull);
	uint64_t more_a[MORE], more_b[MORE];

	fill(&a, of_a, 1, words);
	fill(&b, of_b, 2, words);
	must(gdev_stream_sync(a.stream), "finish");
	must(gdev_stream_sync(b.stream), "finish");
	map(&b, &a, of_a);
	map(&a, &b, of_b);
	for (uint32_t i = 0; i < MORE; i++) {
		more_a[i] = alloc(&a, words * 4ull);
		more_b[i] = alloc(&b, words * 4ull);
		fill(&a, more_a[i], 10 + i, words);
		fill(&b, more_b[i], 20 + i, words);
		step(&a, of_a, of_a, words);
		after(&b, &a);
		step(&b, of_a, of_a, words);
		after(&a, &b);
		step(&b, of_b, of_b, words);
		after(&a, &b);
	}
	check(&b, of_a, 1, 2 * MORE, words, "the owner's, from the other");
	check(&a, of_b, 2, MORE, words, "the other's");
	for (uint32_t i = 0; i < MORE; i++) {
		check(&a, more_a[i], 10 + i, 0, words, "what had to leave");
		check(&b, more_b[i], 20 + i, 0, words, "what had to leave");
	}
	check(&a, of_a, 1, 2 * MORE, words, "the owner's");
}

static void play(const struct side *side, uint64_t at, uint32_t mine, uint32_t rounds)
{
	void *arguments[] = {&at, &mine, &rounds};
	struct gdev_launch launch = {.function = side->play,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.arguments = arguments};

	must(gdev_launch_async(side->stream, &launch), "launch");
}

/* Kernels of both wait for each other. */
static void case_play(void)
{
	const uint32_t rounds = 50;
	uint64_t ball = alloc(&a, 4);

	fill(&a, ball, 0, 1);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, ball);
	for (uint32_t i = 0; i < 3; i++) {
		play(&a, ball, 2 * rounds * i, rounds);
		play(&b, ball, 2 * rounds * i + 1, rounds);
		must(gdev_stream_sync(a.stream), "finish");
		must(gdev_stream_sync(b.stream), "finish");
	}
	check(&b, ball, 6 * rounds, 0, 1, "what both have counted");
}

/* The device has no room for what two such programs have. */
static void case_leaving(void)
{
	const uint32_t words = 9u << 20; /* 36 MiB */
	uint64_t of_a = alloc(&a, words * 4ull);

	fill(&a, of_a, 1, words);
	must(gdev_stream_sync(a.stream), "finish");
	map(&b, &a, of_a);
	for (unsigned i = 1; i <= 5; i++) {
		await_line();
		step(&b, of_a, of_a, words);
		after(&a, &b);
		step(&a, of_a, of_a, words);
		after(&b, &a);
		step(&b, of_a, of_a, words);
		must(gdev_stream_sync(b.stream), "finish");
		check(i % 2 ? &a : &b, of_a, 1, 3 * i, words, "what both have");
	}
}

/* In a child, which has the token alone. */
static void be_a_stranger(const struct gdev_shared *shared, uint64_t offset, uint64_t at,
	const struct gdev_session *parents, const int published[2], const int refused[2])
{
	struct side own, same;
	uint64_t there = 0;
	char byte = 'r';

	side_open(&own, vgpus[1]);
	side_open(&same, vgpus[0]);
	expect(gdev_shared_hold(own.session, &(struct gdev_shared){.id = shared->id}) == -EINVAL,
		"a stranger does not find it by its number");
	for (int i = 0; i < 2; i++) {
		struct gdev_session *session = i ? same.session : own.session;
		struct gdev_shared found = *shared;
		expect(gdev_shared_hold(session, &found) == -EINVAL,
			"nor by its token, on whatever virtual GPU");
		expect(gdev_shared_publish(session, shared) == -EINVAL,
			"nor hands it out by itself");
	}
	expect(gdev_peer_map(own.session, (struct gdev_session *)parents, at, 0) ==
			-GDEV_E_SESSION_LOST,
		"a child has nothing of its parent's sessions");
	expect(write(refused[1], &byte, 1) == 1 && read(published[0], &byte, 1) == 1,
		"the parent publishes it");
	must(gdev_shared_map(own.session, shared, offset, 4000, 0, &there), "map it then");
	check(&own, there, 5, 0, 1000, "what the parent has written");
	step(&own, there, there, 1000);
	must(gdev_stream_sync(own.stream), "finish");
	must(gdev_shm_detach(own.session, there), "unmap it");
	side_close(&own);
	side_close(&same);
}

/* Another process of the user has the token, and reaches the memory only when it has been published; then over any virtual
 * GPU. */
static void case_stranger(void)
{
	struct gdev_shared shared, held;
	uint64_t at = alloc(&a, 4000), offset;
	int status, published[2], refused[2];
	char byte;
	pid_t child;

	fill(&a, at, 5, 1000);
	must(gdev_stream_sync(a.stream), "finish");
	must(gdev_shared_export(a.session, at, &shared, &offset), "export");
	held = shared;
	must(gdev_shared_hold(b.session, &held), "hold in the same process");
	must(gdev_shared_drop(b.session, &held), "let go");
	expect(!pipe(published) && !pipe(refused), "there are pipes");
	child = fork();
	if (!child) {
		be_a_stranger(&shared, offset, at, a.session, published, refused);
		_exit(0);
	}
	close(refused[1]);
	expect(read(refused[0], &byte, 1) == 1, "the child is right so far");
	must(gdev_shared_publish(a.session, &shared), "publish");
	expect(write(published[1], &byte, 1) == 1, "the child hears of it");
	expect(waitpid(child, &status, 0) == child && !status, "the child is right");
	check(&a, at, 5, 1, 1000, "what the child has written");
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"small", case_small},
	{"large", case_large},
	{"host", case_host},
	{"freed", case_freed},
	{"turns", case_turns},
	{"owner-dies", case_owner_dies},
	{"owner-lost", case_owner_lost},
	{"restart", case_restart},
	{"pressure", case_pressure},
	{"leaving", case_leaving},
	{"play", case_play},
	{"stranger", case_stranger},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (argc != 2 || strcmp(argv[1], cases[i].name))
			continue;
		for (int side = 0; side < 2; side++)
			must(gdev_vgpu_name(side, vgpus[side]), "find two virtual GPUs");
		side_open(&a, vgpus[0]);
		side_open(&b, vgpus[1]);
		expect(gdev_peer_can(a.session, b.session), "the devices reach each other");
		cases[i].run();
		side_close(&a);
		side_close(&b);
		return 0;
	}
	fprintf(stderr, "usage: peers CASE\n");
	return 2;
}

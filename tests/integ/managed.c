/* SPDX-License-Identifier: MIT
 *
 * Managed memory that the process and the device have in turn (gdev_managed_alloc): `managed CASE`. Exits 0, or says
 * what was not as it had to be. Runs over every device, also over those that could map their memory.
 */
#include <gdev/session.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE (2u << 20)
#define WORDS (PAGE / sizeof(uint32_t))

/* `add` adds to so many words; `gate` ends when the word is not 0. */
static const char ptx[] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry add(.param .u64 at, .param .u32 words, .param .u32 more)\n"
	"{\n"
	"	.reg .pred %p; .reg .u32 %r<5>; .reg .u64 %d<3>;\n"
	"	ld.param.u64 %d0, [at]; ld.param.u32 %r0, [words]; ld.param.u32 %r1, [more];\n"
	"	mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	"	mad.lo.u32 %r2, %r2, %r3, %r4;\n"
	"	setp.ge.u32 %p, %r2, %r0;\n"
	"	@%p bra done;\n"
	"	mul.wide.u32 %d1, %r2, 4;\n"
	"	add.u64 %d2, %d0, %d1;\n"
	"	ld.global.u32 %r3, [%d2]; add.u32 %r3, %r3, %r1; st.global.u32 [%d2], %r3;\n"
	"done:	ret;\n"
	"}\n"
	".visible .entry gate(.param .u64 at)\n"
	"{\n"
	"	.reg .pred %p; .reg .u32 %r0; .reg .u64 %d0;\n"
	"	ld.param.u64 %d0, [at];\n"
	"again:	ld.volatile.global.u32 %r0, [%d0];\n"
	"	setp.eq.u32 %p, %r0, 0;\n"
	"	@%p bra again;\n"
	"	ret;\n"
	"}\n";

static struct gdev_session *session;
static struct gdev_stream *stream, *other;
static struct gdev_function *add, *gate;

static void check(int error, int line, const char *call)
{
	if (!error)
		return;
	printf("line %d: %s: %s\n", line, call, gdev_strerror(error));
	exit(1);
}

#define CHECK(call) check(call, __LINE__, #call)
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("line %d: not so: %s\n", __LINE__, #condition);                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static volatile uint32_t *managed(uint64_t bytes)
{
	uint64_t address;

	CHECK(gdev_managed_alloc(session, bytes, &address));
	return (volatile uint32_t *)address;
}

static void give_back(volatile uint32_t *words)
{
	CHECK(gdev_memory_free(session, (uint64_t)words));
}

static void launch_add(
	struct gdev_stream *on, volatile uint32_t *words, uint32_t count, uint32_t more)
{
	void *arguments[] = {&words, &count, &more};
	struct gdev_launch launch = {.function = add,
		.grid = {(count + 255) / 256, 1, 1},
		.block = {256, 1, 1},
		.arguments = arguments};

	CHECK(gdev_launch_async(on, &launch));
}

static void launch_gate(struct gdev_stream *on, const uint32_t *flag)
{
	void *arguments[] = {&flag};
	struct gdev_launch launch = {
		.function = gate, .grid = {1, 1, 1}, .block = {1, 1, 1}, .arguments = arguments};

	CHECK(gdev_launch_async(on, &launch));
}

static uint32_t *make_flag(void)
{
	void *flag;

	CHECK(gdev_host_alloc(session, sizeof(uint32_t), &flag));
	return flag;
}

static void *open_later(void *flag)
{
	nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
	__atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Bytes of managed memory that have been copied to the device, and from it. */
static uint64_t moved(enum gdev_query way)
{
	uint64_t bytes;

	CHECK(gdev_session_sync(session));
	CHECK(gdev_session_query(session, way, &bytes));
	return bytes;
}

/* Both sides find what the other has written, and only what the other may have written is copied. */
static void turns(void)
{
	volatile uint32_t *words = managed(4 * PAGE);
	uint64_t there = moved(GDEV_QUERY_TO_DEVICE_BYTES);
	uint64_t back = moved(GDEV_QUERY_FROM_DEVICE_BYTES);
	uint32_t sum = 0;

	launch_add(stream, words + WORDS, 10, 5); /* nothing is copied for it: nobody has written */
	REQUIRE(words[WORDS] == 5 && words[WORDS + 10] == 0);
	REQUIRE(words[0] == 0); /* the first page */
	REQUIRE(moved(GDEV_QUERY_TO_DEVICE_BYTES) == there);
	REQUIRE(moved(GDEV_QUERY_FROM_DEVICE_BYTES) == back + 2 * PAGE);
	launch_add(stream, words, 1, 1); /* two pages have been read, none has been written */
	REQUIRE(moved(GDEV_QUERY_TO_DEVICE_BYTES) == there);
	words[WORDS + 3] += 1;
	for (int round = 0; round < 3; round++)
		launch_add(stream, words + WORDS, 10, 1);
	REQUIRE(moved(GDEV_QUERY_TO_DEVICE_BYTES) == there + PAGE); /* and the others not again */
	REQUIRE(words[WORDS + 3] == 9 && words[WORDS + 4] == 8 && words[0] == 1);
	for (uint32_t i = 0; i < 4 * WORDS; i++)
		words[i] = i;
	launch_add(stream, words, 4 * WORDS, 7);
	for (uint32_t i = 0; i < 4 * WORDS; i++)
		sum += words[i] != i + 7;
	REQUIRE(!sum);
	give_back(words);
}

enum { AHEAD = 30 }; /* pages that are touched one after the other until others are copied ahead */

/* Each page's first word is its number and 1 more. Those behind the first AHEAD are on their way when it returns. */
static volatile uint32_t *read_ahead(void)
{
	volatile uint32_t *words = managed(64 * PAGE);

	for (uint32_t page = 0; page < 64; page++)
		launch_add(stream, words + page * WORDS, 1, page + 1);
	for (uint32_t page = 0; page < AHEAD; page++)
		REQUIRE(words[page * WORDS] == page + 1);
	return words;
}

/* What is copied ahead of its touch is what it was when it is touched. */
static void ahead(void)
{
	volatile uint32_t *words = read_ahead();
	uint32_t changed = 40, written = AHEAD + 20, five = 5;
	struct gdev_copy copy;

	launch_add(stream, words + AHEAD * WORDS, 1, 100);
	launch_add(stream, words + changed * WORDS, 1, 100);
	REQUIRE(words[AHEAD * WORDS] == AHEAD + 101);
	REQUIRE(words[changed * WORDS] == changed + 101);
	/* Now the next 16 are on their way; the program writes into the middle of them first. */
	words[written * WORDS] = 7;
	for (uint32_t page = AHEAD + 16; page < 64; page++)
		REQUIRE(words[page * WORDS] == (page == written ? 7 : page + 1));
	launch_add(stream, words + written * WORDS, 1, 1);
	REQUIRE(words[written * WORDS] == 8);
	give_back(words);

	words = read_ahead(); /* a copy over some of the pages that are open, and then a kernel */
	copy = gdev_copy_linear((uint64_t)words, (uint64_t)&five, sizeof five);
	CHECK(gdev_copy(stream, &copy));
	launch_add(other, words + AHEAD * WORDS, 1, 100);
	REQUIRE(words[AHEAD * WORDS] == AHEAD + 101 && words[0] == 5);
	give_back(words);

	give_back(read_ahead());
	words = managed(64 * PAGE);
	for (uint32_t page = 0; page < 64; page++)
		REQUIRE(words[page * WORDS] == 0);
	give_back(words);
}

/* How many bytes of the mapping at `address` are in large pages of shared memory, by the kernel's account. */
static uint64_t in_large_pages(const volatile void *address)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	uint64_t from, to, kib, bytes = 0;
	bool there = false;
	char line[512];

	REQUIRE(file);
	while (fgets(line, sizeof line, file))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2)
			there = (uint64_t)address >= from && (uint64_t)address < to;
		else if (there && sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1)
			bytes = kib << 10;
	fclose(file);
	return bytes;
}

/* Whether the kernel makes a large page of a file in memory when it is asked to. */
static bool has_large_pages(void)
{
	int file = memfd_create("large", 0);
	char *room = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *page = room + (-(uintptr_t)room & (PAGE - 1));
	bool has;

	REQUIRE(file >= 0 && !ftruncate(file, PAGE) && room != MAP_FAILED);
	REQUIRE(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == page);
	page[0] = 1;
	has = !madvise(page, PAGE, 25 /* MADV_COLLAPSE */);
	munmap(room, 2 * PAGE);
	close(file);
	return has;
}

/* Both sides have the pages two times, and what the other has written. */
static volatile uint32_t *take_turns(void)
{
	volatile uint32_t *words = managed(4 * PAGE);

	for (uint32_t round = 1; round <= 2; round++) {
		for (uint32_t i = 0; i < 4 * WORDS; i += 512)
			words[i]++;
		launch_add(stream, words, 4 * WORDS, 10);
		for (uint32_t i = 0; i < 4 * WORDS; i += 512)
			REQUIRE(words[i] == 11 * round && words[i + 1] == 10 * round);
	}
	return words;
}

/* Pages are large while the process has them where the kernel has large ones, of which it may run out; without them it is
 * right as well. */
static void large(void)
{
	time_t end = time(NULL) + 60;
	volatile uint32_t *words;
	uint64_t found;

	do {
		words = take_turns();
		found = in_large_pages(words);
		give_back(words);
		REQUIRE(found == 4 * PAGE || time(NULL) < end);
	} while (found != 4 * PAGE && has_large_pages());
	if (found != 4 * PAGE)
		printf("# the kernel has no large pages for files\n");
	REQUIRE(!prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	give_back(take_turns());
}

/* The process writes what neither side has used. */
static void fresh(void)
{
	volatile uint32_t *words = managed(2 * PAGE), *small = managed(40), *next = managed(40);

	REQUIRE(words[WORDS + 5] == 0 && small[0] == 0);
	small[0] = 1;
	next[0] = 2;
	launch_add(stream, small, 10, 10);
	launch_add(other, next, 10, 20);
	REQUIRE(small[0] == 11 && next[0] == 22 && small[1] == 10);
	give_back(small);
	next[1] = 3; /* of the page that the other was on, too */
	REQUIRE(next[0] == 22 && next[1] == 3);
	give_back(next);
	give_back(words);
	for (int i = 0; i < 20; i++) {
		words = managed(3 * PAGE);
		words[2 * WORDS] = 4;
		launch_add(stream, words + 2 * WORDS, 1, 1);
		REQUIRE(words[2 * WORDS] == 5 && words[0] == 0);
		give_back(words);
	}
}

/* A touch while a kernel runs waits for it. */
static void waits(void)
{
	volatile uint32_t *words = managed(PAGE);
	uint32_t *flag = make_flag();
	pthread_t opener;

	words[0] = 1;
	launch_gate(stream, flag);
	launch_add(stream, words, 1, 41);
	pthread_create(&opener, NULL, open_later, flag);
	REQUIRE(words[0] == 42);
	REQUIRE(__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 1);
	pthread_join(opener, NULL);
	*flag = 0;
	launch_gate(stream, flag);
	words = managed(2 * PAGE);
	words[0] = 9; /* what came after the launch is not its */
	*flag = 1;
}

static sigjmp_buf out;
static volatile sig_atomic_t faults, passed;
static struct sigaction before;
static volatile int *volatile nowhere = (volatile int *)64;

static void leave(int signal, siginfo_t *info, void *context)
{
	faults++;
	siglongjmp(out, 1);
}

/* Leaves what it does not know to whoever was there before, as handlers do; the second time it leaves as well. */
static void pass(int signal, siginfo_t *info, void *context)
{
	if (passed++ % 2)
		leave(signal, info, context);
	before.sa_sigaction(signal, info, context);
}

static void watch(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &action, &before);
}

/* One that the kernel waits for is told so. */
static void deadlock(void)
{
	volatile uint32_t *words = managed(PAGE);
	uint32_t *flag = make_flag();

	watch(leave);
	CHECK(gdev_session_tune(session, GDEV_TUNE_TOUCH_NS, 200000000));
	launch_gate(stream, flag);
	if (!sigsetjmp(out, 1)) {
		words[0] = 1;
		*flag = 1;
	}
	REQUIRE(faults == 1 && *flag == 0);
	*flag = 1;
	CHECK(gdev_stream_sync(stream));
	words[0] = 2;
	REQUIRE(words[0] == 2 && faults == 1);
}

static void fault_somewhere(void)
{
	static int expected;

	for (int i = 0; i < 4; i++) {
		expected = faults + 1;
		if (!sigsetjmp(out, 1))
			*nowhere = 1;
		REQUIRE(faults == expected);
	}
}

/* Nor is a jump to managed memory a touch, open or not. */
static void jump(volatile uint32_t *words)
{
#ifdef __x86_64__
	int expected = faults + 1;

	if (!sigsetjmp(out, 1))
		((void (*)(void))(uintptr_t)words)();
	REQUIRE(faults == expected);
#endif
}

/* Other faults are the program's, whichever handler came first, and a handler of its own keeps no page closed. */
static void handlers(void)
{
	volatile uint32_t *words;

	watch(leave);
	words = managed(PAGE);
	fault_somewhere();
	words[0] = 1;
	watch(pass);
	launch_add(stream, words, 1, 1);
	REQUIRE(words[0] == 2 && !passed);
	fault_somewhere(); /* ours, the latest, ours, the first; or ours and the latest */
	REQUIRE(passed == 4);
	launch_add(stream, words, 1, 1);
	REQUIRE(words[0] == 3 && faults == 8);
	watch(leave);
	launch_add(stream, words, 1, 1);
	jump(words);
	words[0]++;
	jump(words);
	REQUIRE(words[0] == 5);
}

/* A program without a handler dies of its faults, as it does without managed memory. */
static void dies(void)
{
	volatile uint32_t *words = managed(PAGE);
	int status;

	words[0] = 1;
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();
		if (!child) {
			if (i == 0)
				words[0] = 2; /* the child has none of it */
			else if (i == 1)
				*nowhere = 1;
			else
				kill(getpid(), SIGSEGV);
			_exit(0);
		}
		REQUIRE(waitpid(child, &status, 0) == child);
		REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	}
	launch_add(stream, words, 1, 1);
	REQUIRE(words[0] == 2);
}

/* System calls that are given pages of the device fail, and do not once the pages have been opened. */
static void calls(void)
{
	volatile uint32_t *words = managed(2 * PAGE);
	char text[8] = "abcdefg";
	int pipes[2];

	REQUIRE(!pipe(pipes));
	words[WORDS] = 7;
	launch_add(stream, words, 1, 1);
	REQUIRE(syscall(SYS_write, pipes[1], words + WORDS, 4) < 0 && errno == EFAULT);
	CHECK(gdev_managed_open((void *)(words + WORDS - 1), 8, false));
	REQUIRE(syscall(SYS_write, pipes[1], words + WORDS, 4) == 4);
	REQUIRE(read(pipes[0], text, 4) == 4 && !memcmp(text, &(uint32_t){7}, 4));
	REQUIRE(write(pipes[1], text, sizeof text) == sizeof text);
	REQUIRE(syscall(SYS_read, pipes[0], words, 8) < 0 &&
		errno == EFAULT); /* open for reading */
	CHECK(gdev_managed_open((void *)words, 8, true));
	REQUIRE(syscall(SYS_read, pipes[0], words, 8) == 8);
	launch_add(stream, words, 1, 1);
	REQUIRE(words[0] == 8 && words[1] == 'e' + ('f' << 8) + ('g' << 16));
	CHECK(gdev_managed_open(text, sizeof text, true)); /* any memory */
}

#define FILE_BYTES (PAGE + 8192)

/* Has the device take the memory before the call, which gets it all. */
#define CALL(call, expected)                                                                       \
	do {                                                                                       \
		launch_add(stream, words, 1, 0);                                                   \
		REQUIRE((size_t)(call) == (size_t)(expected));                                     \
	} while (0)

/* `gdev run` has the calls of the C library open what they are given; of two pages each. */
static void run(void)
{
	volatile uint32_t *words = managed(2 * PAGE);
	char *bytes = (char *)words;
	struct iovec vector[] = {{bytes, 4096}, {bytes + PAGE, 4096}};
	struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
	FILE *file = tmpfile();
	int fd = fileno(file), sockets[2];

	REQUIRE(!socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets));
	for (uint32_t i = 0; i < FILE_BYTES; i++)
		bytes[i] = (char)(i / PAGE + i);
	CALL(fwrite(bytes, 1, FILE_BYTES, file), FILE_BYTES);
	rewind(file);
	memset(bytes, 0, FILE_BYTES);
	CALL(fread(bytes, 1, FILE_BYTES, file), FILE_BYTES);
	CALL(pwrite(fd, bytes, FILE_BYTES, 4096), FILE_BYTES);
	memset(bytes, 0, FILE_BYTES);
	CALL(pread(fd, bytes, FILE_BYTES, 4096), FILE_BYTES);
	lseek(fd, 0, SEEK_SET);
	CALL(write(fd, bytes, FILE_BYTES), FILE_BYTES);
	CALL(pwritev(fd, vector, 2, 0), 8192);
	lseek(fd, 0, SEEK_SET);
	CALL(writev(fd, vector, 2), 8192);
	lseek(fd, 0, SEEK_SET);
	CALL(read(fd, bytes, FILE_BYTES), FILE_BYTES);
	CALL(preadv(fd, vector, 2, 0), 8192);
	lseek(fd, 0, SEEK_SET);
	CALL(readv(fd, vector, 2), 8192);
	CALL(send(sockets[0], bytes + PAGE, 4096, 0), 4096);
	CALL(recv(sockets[1], bytes + PAGE, 4096, 0), 4096);
	CALL(sendto(sockets[0], bytes, 4096, 0, NULL, 0), 4096);
	CALL(recvfrom(sockets[1], bytes, 4096, 0, NULL, NULL), 4096);
	CALL(sendmsg(sockets[0], &message, 0), 8192);
	CALL(recvmsg(sockets[1], &message, 0), 8192);
	for (int i = 0; i < 4096; i++)
		REQUIRE(bytes[i] == (char)i && bytes[PAGE + i] == (char)(i + 1));
}

static int wakeup[2];

static void write_wakeup(int signal)
{
	char byte;

	if (write(wakeup[1], "", 1) != 1 || read(wakeup[0], &byte, 1) != 1)
		abort();
}

/* Handlers of signals write, whatever they interrupt. */
static void signals(void)
{
	struct itimerval often = {{0, 100}, {0, 100}}, never = {0};
	volatile uint32_t *words = managed(4 * PAGE);

	REQUIRE(!pipe(wakeup));
	signal(SIGALRM, write_wakeup);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int round = 0; round < 60; round++) {
		for (int page = 0; page < 4; page++)
			words[page * WORDS]++;
		launch_add(stream, words, 1, 1);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	REQUIRE(words[0] == 120 && words[WORDS] == 60);
}

static void touch_in_function(void *argument, int error)
{
	volatile uint32_t *words = argument;

	if (!error)
		words[0] = words[0] * 2;
}

/* A host function touches between two kernels, of which the later one is sent before. */
static void functions(void)
{
	volatile uint32_t *words = managed(PAGE);
	struct gdev_fence fence;

	words[0] = 1;
	for (int i = 0; i < 20; i++) {
		words[0] = 1;
		launch_add(stream, words, 1, 2);
		CHECK(gdev_stream_call(stream, touch_in_function, (void *)words));
		launch_add(stream, words, 1, 4);
		gdev_stream_fence(stream, &fence);
		CHECK(gdev_stream_wait(other, &fence));
		launch_add(other, words, 1, 10);   /* whose end waits for the function */
		CHECK(gdev_session_sync(session)); /* the function may have it open */
		REQUIRE(words[0] == 20);
	}
}

/* Copies and fills name it, parameters lie in it, and a copy between the process's own memory and it is one. */
static void commands(void)
{
	volatile uint32_t *words = managed(2 * PAGE);
	uint32_t got[2], *param = (uint32_t *)(words + WORDS);
	struct gdev_fill fill = {(uint64_t)words, 16, 1, 0, 4, 3};
	struct gdev_copy copy;
	struct gdev_launch launch = {.function = add, .grid = {1, 1, 1}, .block = {32, 1, 1}};

	words[0] = 8;
	words[20] = 6;
	CHECK(gdev_fill_async(stream, &fill));
	words[1]++;
	copy = gdev_copy_linear((uint64_t)(words + 2), (uint64_t)(words + 20), 4);
	CHECK(gdev_copy_async(stream, &copy));
	REQUIRE(words[0] == 3 && words[1] == 4 && words[2] == 6 && words[20] == 6);
	words[3] = 9;
	copy = gdev_copy_linear((uint64_t)got, (uint64_t)(words + 2), 8);
	CHECK(gdev_copy(stream, &copy));
	REQUIRE(got[0] == 6 && got[1] == 9);
	copy = gdev_copy_linear((uint64_t)(words + 4), (uint64_t)got, 8);
	CHECK(gdev_copy(stream, &copy));
	REQUIRE(words[4] == 6 && words[5] == 9);
	launch_add(stream, words, 1, 1); /* so that what follows is on the device */
	memcpy(param, &(uint64_t){(uint64_t)words}, 8);
	param[2] = 2;
	param[3] = 5;
	launch.arguments = (void *[]){param, param + 2, param + 3};
	CHECK(gdev_launch_async(stream, &launch));
	launch.arguments = NULL;
	launch.params = param;
	launch.param_bytes = 16;
	CHECK(gdev_launch_async(stream, &launch));
	REQUIRE(words[0] == 14 && words[1] == 14);
}

#define THREADS 4
#define ROUNDS 60

static void *touch_own(void *argument)
{
	volatile uint32_t *word = argument;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t value = *word;
		*word = value + 1;
	}
	return NULL;
}

/* Threads touch words of their own while another one launches; nothing is lost, though they are of the same pages. */
static void threads(void)
{
	volatile uint32_t *words = managed(2 * PAGE);
	pthread_t toucher[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&toucher[i], NULL, touch_own, (void *)(words + i * WORDS / 2));
	for (int i = 0; i < ROUNDS; i++)
		launch_add(i % 2 ? stream : other, words + 8, 64, 1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(toucher[i], NULL);
	for (int i = 0; i < THREADS; i++)
		REQUIRE(words[i * WORDS / 2] == ROUNDS);
	CHECK(gdev_session_sync(session));
	REQUIRE(words[8] + words[71] == 2 * ROUNDS);
}

static void *touch_on_small_stack(void *argument)
{
	char *stack =
		mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t small = {.ss_sp = stack + 4096, .ss_size = 16384};

	mprotect(stack, 4096, PROT_NONE);
	sigaltstack(&small, NULL);
	touch_own(argument);
	return NULL;
}

/* An alternate stack of 16 KiB is enough; and after the session has failed touches find what there was. */
static void stacks(void)
{
	volatile uint32_t *words = managed(PAGE);
	pthread_t thread;

	launch_add(stream, words, 1, 1);
	pthread_create(&thread, NULL, touch_on_small_stack, (void *)words);
	pthread_join(thread, NULL);
	REQUIRE(words[0] == ROUNDS + 1);
	launch_add(stream, words, 1, 1);
	launch_add(stream, (volatile uint32_t *)4096, 1, 1);
	REQUIRE(gdev_session_sync(session) != 0);
	REQUIRE(words[0] == ROUNDS + 1 || words[0] == ROUNDS + 2);
}

/* The copy back fails, once: the page stays closed, because what the process has is not what the device had. */
static void lost(void)
{
	volatile uint32_t *words = managed(PAGE);

	watch(leave);
	launch_add(stream, words, 1, 7);
	for (int i = 0; i < 2; i++)
		if (!sigsetjmp(out, 1))
			REQUIRE(words[0] == 7);
	REQUIRE(faults == 2);
	REQUIRE(gdev_session_sync(session) != 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"turns", turns}, {"large", large}, {"fresh", fresh}, {"waits", waits},
	{"deadlock", deadlock}, {"handlers", handlers}, {"dies", dies}, {"calls", calls},
	{"run", run}, {"signals", signals}, {"functions", functions}, {"commands", commands},
	{"threads", threads}, {"stacks", stacks}, {"ahead", ahead}, {"lost", lost}};

int main(int argc, char **argv)
{
	struct gdev_module *module;

	setvbuf(stdout, NULL, _IONBF, 0);
	CHECK(gdev_session_open(NULL, &session));
	CHECK(gdev_stream_create(session, 0, &stream));
	CHECK(gdev_stream_create(session, 0, &other));
	CHECK(gdev_module_load(session, ptx, sizeof ptx, NULL, 0, &module));
	CHECK(gdev_module_function(module, "add", &add));
	CHECK(gdev_module_function(module, "gate", &gate));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (argc == 2 && !strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			gdev_session_close(session);
			return 0;
		}
	printf("no case\n");
	return 1;
}

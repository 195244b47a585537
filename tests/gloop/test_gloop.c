/* SPDX-License-Identifier: MIT
 *
 * Kernels with event loops (kernels.cu), and the host event loop that serves them; each in both modes and suspended
 * at every boundary of callbacks.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <cuda.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gdev/gloop.h"
#include "gdev/gloop_rpc.h"

extern const char kernels_ptx[];
#define assert_success(call) assert_int_equal((call), CUDA_SUCCESS)

static CUcontext context;
static CUmodule module;
static char folder[] = "/tmp/gdev-gloop-XXXXXX";

/* The two modes, something between, and a suspension before each callback but a launch's first. */
static const struct gloop_options modes[] = {
	{.poll_us = 0},
	{.poll_us = GLOOP_POLL},
	{.poll_us = 200},
	{.poll_us = 0, .slice_us = 1},
	{.poll_us = GLOOP_POLL, .slice_us = 1},
	{.poll_us = 0, .page_bytes = 64},
};
#define MODES (sizeof(modes) / sizeof(*modes))

static int setup(void **state)
{
	char log[2000] = "";
	CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof(log)};
	CUdevice device;

	assert_success(cuInit(0));
	assert_success(cuDeviceGet(&device, 0));
	assert_success(cuDevicePrimaryCtxRetain(&context, device));
	assert_success(cuCtxSetCurrent(context));
	if (cuModuleLoadDataEx(&module, kernels_ptx, 2, names, values) != CUDA_SUCCESS)
		fail_msg("%s", log);
	assert_non_null(mkdtemp(folder));
	return 0;
}

static int teardown(void **state)
{
	rmdir(folder);
	return cuModuleUnload(module) != CUDA_SUCCESS;
}

static int run(const char *name, unsigned blocks, unsigned threads,
	const struct gloop_options *options, struct gloop_report *report, void **parameters)
{
	struct gloop_shape shape = {.grid = {blocks}, .block = {threads}};
	struct gloop_report unseen;
	CUfunction kernel;
	int error;

	report = report ? report : &unseen;
	assert_success(cuModuleGetFunction(&kernel, module, name));
	error = gloop_run(kernel, &shape, parameters, options, report);
	if (error == -EIO)
		print_message("# CUDA: %d\n", report->cuda);
	return error;
}
#define parameters(...) ((void *[]){NULL, __VA_ARGS__})

static CUdeviceptr device_bytes(size_t bytes, const void *contents)
{
	CUdeviceptr memory;

	assert_success(cuMemAlloc(&memory, bytes));
	assert_success(
		contents ? cuMemcpyHtoD(memory, contents, bytes) : cuMemsetD8(memory, 0, bytes));
	return memory;
}

static void take_bytes(void *to, CUdeviceptr from, size_t bytes)
{
	assert_success(cuMemcpyDtoH(to, from, bytes));
	assert_success(cuMemFree(from));
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* ---- tasks ---- */

enum { COUNT_BLOCKS = 5, COUNT_THREADS = 64, COUNT = COUNT_BLOCKS * COUNT_THREADS };

static void check_count(
	const struct gloop_options *options, unsigned steps, struct gloop_report *report)
{
	CUdeviceptr counts = device_bytes(COUNT * sizeof(unsigned), NULL);
	unsigned got[COUNT];

	assert_int_equal(run("count", COUNT_BLOCKS, COUNT_THREADS, options, report,
				 parameters(&counts, &steps)),
		0);
	take_bytes(got, counts, sizeof(got));
	for (unsigned i = 0; i < COUNT; i++)
		assert_int_equal(got[i], steps);
	assert_int_equal(report->callbacks, COUNT_BLOCKS * steps);
	assert_int_equal(report->requests, 0);
}

static void test_tasks_run_in_every_thread(void **state)
{
	struct gloop_report report;

	for (unsigned i = 0; i < MODES; i++)
		check_count(&modes[i], 100, &report);
	check_count(NULL, 0, &report);
	assert_int_equal(report.launches, 1);
}

static void test_a_block_goes_on_where_it_was_suspended(void **state)
{
	struct gloop_options often = {.slice_us = 1}, never = {.slice_us = 60000000};
	struct gloop_report report;

	check_count(&never, 1000, &report);
	assert_int_equal(report.launches, 1);
	check_count(&often, 1000, &report);
	assert_true(report.launches > 50);
}

static void test_64_callbacks_wait_and_no_more(void **state)
{
	for (unsigned count = 63; count <= 65; count++) {
		unsigned steps = 7, sums[2 * 3];
		CUdeviceptr memory = device_bytes(sizeof(sums), NULL);
		int error = run("chains", 3, 32, NULL, NULL, parameters(&memory, &count, &steps));

		take_bytes(sums, memory, sizeof(sums));
		assert_int_equal(error, count > GLOOP_SLOTS ? -ENOBUFS : 0);
		for (unsigned block = 0; !error && block < 3; block++) {
			assert_int_equal(sums[2 * block], steps * count * (count - 1) / 2);
			assert_int_equal(sums[2 * block + 1], GLOOP_SLOTS - count);
		}
	}
}

static void test_a_kernel_without_a_loop_is_an_error(void **state)
{
	assert_int_equal(run("nothing", 2, 32, NULL, NULL, NULL), -EPROTO);
}

static void test_options_that_make_no_sense_are_errors(void **state)
{
	static const int pipe_ends[] = {0, -1};
	int appended = open(path_of("appended"), O_RDWR | O_CREAT | O_APPEND, 0600);
	int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	const struct gloop_options wrong[] = {
		{.page_bytes = 65},
		{.page_bytes = 2 << 20},
		{.descriptors = pipe_ends + 1, .descriptor_count = 1},
		{.descriptors = pipe_ends, .descriptor_count = 1025},
		{.descriptors = &appended, .descriptor_count = 1},
		{.descriptors = &datagrams, .descriptor_count = 1},
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(run("nothing", 1, 32, &wrong[i], NULL, NULL), -EINVAL);
	assert_int_equal(run("nothing", 1, 4096, NULL, NULL, NULL), -EIO); /* no such block */
	close(appended);
	close(datagrams);
	unlink(path_of("appended"));
}

/* ---- files ---- */

#define FILE_BYTES 300001

static unsigned long long make_file(const char *path)
{
	unsigned char *bytes = malloc(FILE_BYTES);
	unsigned long long sum = 0;
	unsigned x = 1;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (unsigned i = 0; i < FILE_BYTES; i++) {
		x = x * 1664525u + 1013904223u;
		bytes[i] = (unsigned char)(x >> 24);
		sum += bytes[i] * (i % 251 + 1ull);
	}
	assert_int_equal(write(fd, bytes, FILE_BYTES), FILE_BYTES);
	close(fd);
	free(bytes);
	return sum;
}

/* What the blocks made of it, and in *last what the last call of the first block gave. */
static unsigned long long sum_file(
	const char *path, unsigned blocks, const struct gloop_options *options, long long *last)
{
	size_t page = options->page_bytes ? options->page_bytes : GLOOP_PAGE_BYTES;
	unsigned length = (unsigned)strlen(path);
	CUdeviceptr name = device_bytes(length, path), scratch = device_bytes(blocks * page, NULL);
	CUdeviceptr sums = device_bytes(blocks * 2 * sizeof(unsigned long long), NULL);
	unsigned long long got[2 * 8], sum = 0;

	assert_int_equal(run("sum_file", blocks, 64, options, NULL,
				 parameters(&name, &length, &scratch, &sums)),
		0);
	take_bytes(got, sums, blocks * 2 * sizeof(unsigned long long));
	for (unsigned block = 0; block < blocks; block++)
		sum += got[2 * block];
	*last = (long long)got[1];
	cuMemFree(name);
	cuMemFree(scratch);
	return sum;
}

static void test_blocks_read_a_file(void **state)
{
	const char *path = path_of("data");
	unsigned long long sum = make_file(path);
	long long last;

	for (unsigned i = 0; i < MODES; i++) {
		assert_int_equal(sum_file(path, 3, &modes[i], &last), sum);
		assert_int_equal(last, 0);
	}
	unlink(path);
}

/* What is not in memory cannot be had without waiting. */
static void test_blocks_read_a_file_from_the_disk(void **state)
{
	const char *path = path_of("cold");
	unsigned long long sum = make_file(path);
	long long last;

	for (unsigned i = 0; i < MODES; i++) {
		int fd = open(path, O_RDWR);

		assert_int_equal(fdatasync(fd), 0);
		assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
		close(fd);
		assert_int_equal(sum_file(path, 3, &modes[i], &last), sum);
		assert_int_equal(last, 0);
	}
	unlink(path);
}

static atomic_bool has_a_reader;

static void *wait_for_a_reader(void *fifo)
{
	close(open(fifo, O_WRONLY));
	has_a_reader = true;
	return NULL;
}

static void test_only_regular_files_are_opened(void **state)
{
	const char *fifo = path_of("fifo");
	pthread_t writer;
	long long last;

	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(pthread_create(&writer, NULL, wait_for_a_reader, (void *)fifo), 0);
	usleep(100000);
	sum_file(fifo, 1, &modes[0], &last);
	assert_int_equal(last, -EINVAL);
	usleep(10000);
	assert_false(has_a_reader); /* it was not even opened to look at it */
	close(open(fifo, O_RDONLY | O_NONBLOCK));
	pthread_join(writer, NULL);
	unlink(fifo);
	sum_file("/dev/zero", 1, &modes[0], &last);
	assert_int_equal(last, -EINVAL);
	sum_file("/tmp", 1, &modes[0], &last);
	assert_int_equal(last, -EISDIR);
	sum_file("/nowhere/at/all", 1, &modes[0], &last);
	assert_int_equal(last, -ENOENT);
}

static void test_a_block_writes_a_file(void **state)
{
	static const char text[] = "what a kernel has to say";
	const char *path = path_of("written");
	unsigned length = (unsigned)strlen(path), bytes = sizeof(text);
	char got[64] = "";

	for (unsigned i = 0; i < MODES; i++) {
		CUdeviceptr name = device_bytes(length, path), source = device_bytes(bytes, text);
		CUdeviceptr back = device_bytes(bytes, NULL),
			    memory = device_bytes(5 * sizeof(long long), NULL);
		long long results[5];
		int fd;

		assert_int_equal(
			run("write_file", 1, 32, &modes[i], NULL,
				parameters(&name, &length, &source, &bytes, &back, &memory)),
			0);
		take_bytes(results, memory, sizeof(results));
		take_bytes(got, back, bytes);
		assert_int_equal(results[0], 0);
		assert_int_equal(results[1], bytes);
		assert_int_equal(results[2], 0);
		assert_int_equal(results[3], bytes / 2);
		assert_int_equal(results[4], 3 + bytes / 2);
		assert_memory_equal(got, text, bytes / 2);
		assert_int_equal(got[bytes / 2], 0);
		fd = open(path, O_RDONLY);
		assert_int_equal(read(fd, got, sizeof(got)), 3 + bytes / 2);
		assert_memory_equal(got, "\0\0\0", 3);
		assert_memory_equal(got + 3, text, bytes / 2);
		close(fd);
		cuMemFree(name);
		cuMemFree(source);
		assert_int_equal(unlink(path), 0);
	}
}

static void test_a_file_takes_more_requests_than_there_are_pages(void **state)
{
	enum { BLOCKS = 3, PIECES = 60, BYTES = 6000, ALL = BLOCKS * PIECES * BYTES };
	static char text[ALL], back[ALL], written[ALL];
	const char *path = path_of("many");
	unsigned count = PIECES;

	for (unsigned i = 0; i < ALL; i++)
		text[i] = (char)(i * 2654435761u >> 20);
	for (unsigned i = 0; i < MODES; i++) {
		unsigned bytes = modes[i].page_bytes ? modes[i].page_bytes : BYTES;
		size_t all = (size_t)BLOCKS * PIECES * bytes;
		CUdeviceptr from = device_bytes(all, text), to = device_bytes(all, NULL);
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		struct gloop_options options = modes[i];

		options.descriptors = &fd;
		options.descriptor_count = 1;
		options.confined = true;
		assert_int_equal(run("many", BLOCKS, 32, &options, NULL,
					 parameters(&from, &to, &count, &bytes)),
			0);
		take_bytes(back, to, all);
		cuMemFree(from);
		assert_memory_equal(back, text, all);
		assert_int_equal(pread(fd, written, ALL, 0), all);
		assert_memory_equal(written, text, all);
		close(fd);
	}
	unlink(path);
}

static void test_a_file_is_mapped(void **state)
{
	static const long long expected[] = {1, 0, -EINVAL, -EINVAL, -EBADF, 1};
	const char *path = path_of("mapped");
	int fd = (make_file(path), open(path, O_RDONLY));
	struct gloop_options options;
	unsigned char *contents = malloc(FILE_BYTES);
	unsigned long long bytes = FILE_BYTES - 100, sum = 0, got, free_before, free_after;
	size_t left, total;

	assert_int_equal(pread(fd, contents, FILE_BYTES, 0), FILE_BYTES);
	for (unsigned i = 0; i < bytes; i++)
		sum += contents[7 + i];
	for (unsigned i = 0; i < MODES; i++) {
		CUdeviceptr memory = device_bytes(sizeof(got), NULL);
		CUdeviceptr answers = device_bytes(sizeof(expected), NULL);
		long long results[sizeof(expected) / sizeof(*expected)];

		assert_success(cuMemGetInfo(&left, &total));
		free_before = left;
		options = modes[i];
		options.descriptors = &fd;
		options.descriptor_count = 1;
		assert_int_equal(run("map_file", 2, 64, &options, NULL,
					 parameters(&bytes, &memory, &answers)),
			0);
		assert_success(cuMemGetInfo(&left, &total));
		free_after = left;
		take_bytes(&got, memory, sizeof(got));
		take_bytes(results, answers, sizeof(results));
		for (unsigned k = 0; k < sizeof(expected) / sizeof(*expected); k++)
			assert_int_equal(results[k], expected[k]);
		assert_int_equal(got, sum);
		if (i)
			assert_int_equal(free_before, free_after);
	}
	free(contents);
	close(fd);
	unlink(path);
}

/* ---- memory ---- */

static void test_copy_engines_copy_for_blocks(void **state)
{
	enum { BLOCKS = 3, ALL = BLOCKS * FILE_BYTES };
	static char bytes[ALL], back[ALL];
	unsigned long long each = FILE_BYTES;
	char *between;

	assert_success(cuMemHostAlloc((void **)&between, ALL, 0));
	for (unsigned i = 0; i < ALL; i++)
		bytes[i] = (char)(i * 2654435761u >> 20);
	for (unsigned i = 0; i < MODES; i++) {
		CUdeviceptr from = device_bytes(ALL, bytes), to = device_bytes(ALL, NULL);
		CUdeviceptr memory = device_bytes(2 * BLOCKS * sizeof(long long), NULL);
		long long results[2 * BLOCKS];

		memset(between, 0, ALL);
		assert_int_equal(run("carry", BLOCKS, 32, &modes[i], NULL,
					 parameters(&from, &between, &to, &each, &memory)),
			0);
		take_bytes(back, to, ALL);
		take_bytes(results, memory, sizeof(results));
		for (unsigned k = 0; k < 2 * BLOCKS; k++)
			assert_int_equal(results[k], FILE_BYTES);
		assert_memory_equal(back, bytes, ALL);
		assert_memory_equal(between, bytes, ALL);
		cuMemFree(from);
	}
	cuMemFreeHost(between);
}

/* ---- time ---- */

static void test_a_timer_takes_its_time(void **state)
{
	unsigned long long ns = 30000000, times[3];

	for (unsigned i = 0; i < MODES; i++) {
		CUdeviceptr memory = device_bytes(sizeof(times), NULL);

		assert_int_equal(
			run("sleep_for", 3, 32, &modes[i], NULL, parameters(&memory, &ns)), 0);
		take_bytes(times, memory, sizeof(times));
		for (unsigned block = 0; block < 3; block++)
			assert_in_range(times[block], ns, 100 * ns);
	}
}

/* ---- sockets ---- */

enum { ECHO_BLOCKS = 2, ECHO_CONNECTIONS = 3, ECHO_BYTES = 100000 };

static int listener_at(struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(*address);

	*address = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)address, &length), 0);
	return fd;
}

/* Sends what the thread beside reads back. Returns NULL if all came back. */
static void *send_all(void *argument)
{
	int fd = *(int *)argument;

	for (unsigned at = 0; at < ECHO_BYTES;) {
		unsigned char bytes[1000];
		ssize_t n;

		for (unsigned i = 0; i < sizeof(bytes); i++)
			bytes[i] = (unsigned char)((at + i) % 253);
		n = send(fd, bytes, sizeof(bytes), 0);
		if (n < 0)
			return (void *)"send";
		at += (unsigned)n;
	}
	shutdown(fd, SHUT_WR);
	return NULL;
}

static void *talk(void *argument)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	void *failed = NULL;
	unsigned at = 0;
	pthread_t sender;

	if (connect(fd, argument, sizeof(struct sockaddr_in)) < 0)
		return (void *)"connect";
	pthread_create(&sender, NULL, send_all, &fd);
	for (;;) {
		unsigned char bytes[1000];
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			if (bytes[i] != (at + i) % 253)
				failed = (void *)"other bytes came back";
		at += (unsigned)n;
	}
	pthread_join(sender, NULL);
	close(fd);
	return at == ECHO_BYTES ? failed : (void *)"not all came back";
}

static void test_blocks_serve_connections(void **state)
{
	unsigned connections = ECHO_CONNECTIONS, counts[ECHO_BLOCKS], total = 0;

	for (unsigned i = 0; i < MODES - 1; i++) {
		CUdeviceptr scratch = device_bytes(ECHO_BLOCKS * ECHO_CONNECTIONS * 4096, NULL);
		CUdeviceptr bytes = device_bytes(sizeof(counts), NULL);
		pthread_t talkers[ECHO_BLOCKS * ECHO_CONNECTIONS];
		struct gloop_options options = modes[i];
		struct sockaddr_in address;
		int listener = listener_at(&address);

		options.descriptors = &listener;
		options.descriptor_count = 1;
		options.confined = true;
		for (unsigned t = 0; t < ECHO_BLOCKS * ECHO_CONNECTIONS; t++)
			pthread_create(&talkers[t], NULL, talk, &address);
		assert_int_equal(run("echo", ECHO_BLOCKS, 32, &options, NULL,
					 parameters(&scratch, &bytes, &connections)),
			0);
		for (unsigned t = 0; t < ECHO_BLOCKS * ECHO_CONNECTIONS; t++) {
			void *failed;

			pthread_join(talkers[t], &failed);
			assert_null(failed);
		}
		take_bytes(counts, bytes, sizeof(counts));
		for (unsigned block = total = 0; block < ECHO_BLOCKS; block++)
			total += counts[block];
		assert_int_equal(total, ECHO_BLOCKS * ECHO_CONNECTIONS * ECHO_BYTES);
		cuMemFree(scratch);
		assert_int_equal(fcntl(listener, F_GETFD) >= 0, 1); /* still ours */
		close(listener);
	}
}

static void test_blocks_talk_to_each_other(void **state)
{
	for (unsigned i = 0; i < MODES; i++) {
		static const long long expected[7] = {0, 0, 4, 4, 0, 4, 4};
		struct sockaddr_in address;
		unsigned short port;
		char texts[128] = "pong";
		CUdeviceptr scratch, memory = device_bytes(sizeof(expected), NULL);
		long long results[7];

		close(listener_at(&address)); /* a port that is free */
		port = ntohs(address.sin_port);
		memcpy(texts + 64, "ping", 4);
		scratch = device_bytes(sizeof(texts), texts);
		assert_int_equal(
			run("ping", 2, 32, &modes[i], NULL, parameters(&port, &scratch, &memory)),
			0);
		take_bytes(results, memory, sizeof(results));
		take_bytes(texts, scratch, sizeof(texts));
		for (unsigned k = 0; k < 7; k++)
			assert_int_equal(results[k], expected[k]);
		assert_memory_equal(texts + 32, "ping", 4);
		assert_memory_equal(texts + 64, "pong", 4);
	}
}

/* ---- what no honest kernel does ---- */

static long long ask(
	const struct gloop_rpc *wanted, const char *page, const struct gloop_options *options)
{
	CUdeviceptr rpc = device_bytes(sizeof(*wanted), wanted),
		    text = device_bytes(GLOOP_PAGE_BYTES, NULL);
	CUdeviceptr result = device_bytes(sizeof(long long), NULL);
	struct gloop_report report;
	long long answer;

	assert_success(cuMemcpyHtoD(text, page, strlen(page)));
	assert_int_equal(run("ask", 1, 32, options, &report, parameters(&rpc, &text, &result)), 0);
	assert_int_equal(report.requests, 1);
	take_bytes(&answer, result, sizeof(answer));
	cuMemFree(rpc);
	cuMemFree(text);
	return answer;
}

/* Descriptor 0 is a file of six bytes that may be read, 1 a socket that listens. */
static void test_senseless_requests_get_an_error(void **state)
{
	static const struct {
		struct gloop_rpc rpc;
		long long answer;
	} rows[] = {
		{{.op = 0}, -EINVAL},
		{{.op = GLOOP_UNMAP + 1}, -EINVAL},
		{{.op = GLOOP_UNMAP, .offset = 4096}, -EINVAL},
		{{.op = GLOOP_COPY, .offset = 1}, -EFAULT}, /* to nowhere */
		{{.op = UINT32_MAX}, -EINVAL},
		{{.op = GLOOP_READ, .fd = 2, .bytes = 1}, -EBADF},
		{{.op = GLOOP_READ, .fd = -1, .bytes = 1}, -EBADF},
		{{.op = GLOOP_READ, .fd = INT32_MIN, .bytes = 1}, -EBADF},
		{{.op = GLOOP_READ, .fd = INT32_MAX, .bytes = 1}, -EBADF},
		{{.op = GLOOP_READ, .fd = 1024, .bytes = 1}, -EBADF},
		{{.op = GLOOP_READ, .fd = 0, .bytes = 100}, 6},
		{{.op = GLOOP_READ, .fd = 0, .bytes = UINT64_MAX},
			6}, /* the device cuts it to a page */
		{{.op = GLOOP_READ, .fd = 0, .offset = 6, .bytes = 100}, 0},
		{{.op = GLOOP_READ, .fd = 0, .offset = 1ull << 60, .bytes = 100}, 0},
		{{.op = GLOOP_READ, .fd = 0, .offset = INT64_MAX, .bytes = 100}, -EINVAL},
		{{.op = GLOOP_READ, .fd = 0, .offset = UINT64_MAX, .bytes = 100}, -EINVAL},
		{{.op = GLOOP_READ, .fd = 1, .bytes = 1}, -EINVAL},
		{{.op = GLOOP_WRITE, .fd = 0, .bytes = 6}, -EBADF}, /* not for writing */
		{{.op = GLOOP_TRUNCATE, .fd = 0, .offset = 0}, -EINVAL},
		{{.op = GLOOP_RECEIVE, .fd = 0, .bytes = 6}, -EINVAL},
		{{.op = GLOOP_SEND, .fd = 1, .bytes = 6}, -EPIPE},
		{{.op = GLOOP_RECEIVE, .fd = 1, .bytes = 6}, -ENOTCONN},
		{{.op = GLOOP_ACCEPT, .fd = 0}, -EINVAL},
		{{.op = GLOOP_STAT, .fd = 1}, -EINVAL},
		{{.op = GLOOP_STAT, .fd = 0}, 6},
		{{.op = GLOOP_CLOSE, .fd = 5}, -EBADF},
		{{.op = GLOOP_CLOSE, .fd = 0}, 0},
		{{.op = GLOOP_OPEN, .bytes = 4, .flags = 0}, -EINVAL},
		{{.op = GLOOP_OPEN, .bytes = 4, .flags = 16 | GLOOP_FOR_READING}, -EINVAL},
		{{.op = GLOOP_OPEN, .bytes = 4, .flags = GLOOP_EMPTY | GLOOP_FOR_READING}, -EINVAL},
		{{.op = GLOOP_OPEN, .bytes = 0, .flags = GLOOP_FOR_READING}, -EINVAL},
		{{.op = GLOOP_OPEN, .bytes = 5, .flags = GLOOP_FOR_READING}, -EINVAL}, /* a NUL */
		{{.op = GLOOP_OPEN, .bytes = 5000, .flags = GLOOP_FOR_READING}, -EINVAL},
		{{.op = GLOOP_OPEN, .bytes = 4, .flags = GLOOP_FOR_READING}, -EISDIR},
	};
	const char *path = path_of("six");
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), descriptors[2];
	struct gloop_options options = {.descriptors = descriptors, .descriptor_count = 2};
	struct sockaddr_in address;
	char six[6];

	assert_int_equal(write(fd, "abcdef", 6), 6);
	descriptors[0] = open(path, O_RDONLY);
	descriptors[1] = listener_at(&address);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		long long answer = ask(&rows[i].rpc, "/tmp", &options);

		if (answer != rows[i].answer)
			fail_msg("row %u: %lld instead of %lld", i, answer, rows[i].answer);
	}
	assert_int_equal(pread(fd, six, 6, 0), 6);
	assert_memory_equal(six, "abcdef", 6);
	close(fd);
	close(descriptors[0]);
	close(descriptors[1]);
	unlink(path);
}

/* A kernel need not use gloop.cuh, which cuts what is longer than a page. */
static void test_a_request_for_more_than_a_page_is_refused(void **state)
{
	static const unsigned with_bytes[] = {
		GLOOP_OPEN, GLOOP_READ, GLOOP_WRITE, GLOOP_RECEIVE, GLOOP_SEND};
	static const uint64_t too_many[] = {
		GLOOP_PAGE_BYTES + 1, 1ull << 32, 1ull << 63, UINT64_MAX};
	const char *path = path_of("long");
	int fd = (make_file(path), open(path, O_RDWR));
	struct gloop_options options = {.descriptors = &fd, .descriptor_count = 1};

	for (unsigned i = 0; i < 5 * 4; i++) {
		struct gloop_rpc rpc = {.op = with_bytes[i / 4],
			.bytes = too_many[i % 4],
			.flags = GLOOP_FOR_READING};
		CUdeviceptr wanted = device_bytes(sizeof(rpc), &rpc);
		struct gloop_report report;

		assert_int_equal(run("forge", 1, 32, &options, &report, parameters(&wanted)), 0);
		assert_int_equal(report.requests, 1);
		assert_int_equal(report.refused, 1);
		cuMemFree(wanted);
	}
	close(fd);
	unlink(path);
}

/* Where a kernel names memory that is not its device's, or more than there is, the host puts nothing. */
static void test_a_file_goes_to_device_memory_alone(void **state)
{
	static char ours[2 * GLOOP_PAGE_BYTES];
	enum { BYTES = 2 * GLOOP_PAGE_BYTES };
	CUdeviceptr memory = device_bytes(BYTES, NULL);
	const uint64_t destinations[] = {(uint64_t)ours, memory + BYTES - 8, memory - 8, 64,
		UINT64_MAX - 8, memory + GLOOP_PAGE_BYTES};
	unsigned count = sizeof(destinations) / sizeof(*destinations);
	unsigned char back[BYTES], from_file[BYTES] = {0};
	const char *path = path_of("placed");
	int fd = (make_file(path), open(path, O_RDWR));
	struct gloop_options options = {.descriptors = &fd, .descriptor_count = 1};

	for (unsigned i = 0; i < count; i++) {
		struct gloop_rpc rpc = {.op = GLOOP_READ,
			.bytes = GLOOP_PAGE_BYTES,
			.destination = destinations[i]};
		CUdeviceptr wanted = device_bytes(sizeof(rpc), &rpc);
		struct gloop_report report;

		assert_int_equal(run("forge", 1, 32, &options, &report, parameters(&wanted)), 0);
		assert_int_equal(report.requests, 1);
		assert_int_equal(report.refused, 0);
		cuMemFree(wanted);
	}
	for (unsigned i = 0; i < sizeof(ours); i++)
		assert_int_equal(ours[i], 0);
	take_bytes(back, memory, BYTES);
	assert_int_equal(
		pread(fd, from_file + GLOOP_PAGE_BYTES, GLOOP_PAGE_BYTES, 0), GLOOP_PAGE_BYTES);
	assert_memory_equal(back, from_file, BYTES); /* the last one is right, and alone */
	close(fd);
	unlink(path);
}

static void test_copies_reach_the_contexts_memory_alone(void **state)
{
	static char ours[64] = "ours", copy[64];
	enum { BYTES = 4096 };
	CUdeviceptr memory = device_bytes(BYTES, NULL);
	const struct {
		uint64_t destination, source, bytes;
	} rows[] = {
		{memory, (uint64_t)ours, 64},
		{(uint64_t)copy, memory, 64},
		{(uint64_t)copy, (uint64_t)ours, 64},
		{memory, memory + BYTES - 8, 16},
		{memory + BYTES - 8, memory, 16},
		{memory - 8, memory, 16},
		{memory, memory, UINT64_MAX},
		{memory, memory, INT64_MAX},
		{0, memory, 8},
	};
	unsigned char back[BYTES];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gloop_rpc rpc = {.op = GLOOP_COPY,
			.destination = rows[i].destination,
			.source = rows[i].source,
			.offset = rows[i].bytes};
		CUdeviceptr wanted = device_bytes(sizeof(rpc), &rpc);
		struct gloop_report report;

		assert_int_equal(run("forge", 1, 32, NULL, &report, parameters(&wanted)), 0);
		assert_int_equal(report.requests, 1);
		cuMemFree(wanted);
	}
	take_bytes(back, memory, BYTES);
	for (unsigned i = 0; i < BYTES; i++)
		assert_int_equal(back[i], 0);
	assert_int_equal(copy[0], 0);
}

/* The host fetches what is written from device memory; of anything else the block has to give it the bytes. */
static void test_a_file_is_written_from_device_memory_alone(void **state)
{
	static char ours[2 * GLOOP_PAGE_BYTES] = "ours";
	enum { BYTES = 2 * GLOOP_PAGE_BYTES };
	CUdeviceptr memory = device_bytes(BYTES, NULL);
	const uint64_t sources[] = {(uint64_t)ours, memory + BYTES - 8, memory - 8, 64,
		UINT64_MAX - 8, memory + GLOOP_PAGE_BYTES};
	unsigned count = sizeof(sources) / sizeof(*sources);
	const char *path = path_of("sources");
	unsigned long long sum = make_file(path);
	int fd = open(path, O_RDWR);
	struct gloop_options options = {.descriptors = &fd, .descriptor_count = 1};
	char zeros[GLOOP_PAGE_BYTES] = {0}, got[GLOOP_PAGE_BYTES];
	long long last;

	for (unsigned i = 0; i < count; i++) {
		struct gloop_rpc rpc = {
			.op = GLOOP_WRITE, .bytes = GLOOP_PAGE_BYTES, .source = sources[i]};
		CUdeviceptr wanted = device_bytes(sizeof(rpc), &rpc);
		struct gloop_report report;

		assert_int_equal(sum_file(path, 1, &modes[0], &last), sum); /* still as it was */
		assert_int_equal(run("forge", 1, 32, &options, &report, parameters(&wanted)), 0);
		assert_int_equal(report.requests, i == count - 1); /* else it is to ask again */
		assert_int_equal(report.refused, 0);
		cuMemFree(wanted);
	}
	assert_int_equal(pread(fd, got, sizeof(got), 0), sizeof(got));
	assert_memory_equal(got, zeros, sizeof(got)); /* the last one is right */
	cuMemFree(memory);
	close(fd);
	unlink(path);
}

/* A page that is no page of the block's. */
static void test_a_page_that_is_not_there_is_refused(void **state)
{
	static const unsigned pages[] = {64, 1u << 16, UINT32_MAX};
	const char *path = path_of("page");
	int fd = (make_file(path), open(path, O_RDWR));
	struct gloop_options options = {.descriptors = &fd, .descriptor_count = 1};

	for (unsigned i = 0; i < 3; i++) {
		struct gloop_rpc rpc = {.op = GLOOP_READ, .bytes = 16, .page = pages[i]};
		CUdeviceptr wanted = device_bytes(sizeof(rpc), &rpc);
		struct gloop_report report;

		assert_int_equal(run("forge", 1, 32, &options, &report, parameters(&wanted)), 0);
		assert_int_equal(report.refused, 1);
		cuMemFree(wanted);
	}
	close(fd);
	unlink(path);
}

/* A size is no number of bytes in the page, and what is written stays where it is. */
static void test_what_brings_nothing_has_no_destination(void **state)
{
	static const unsigned operations[] = {GLOOP_STAT, GLOOP_WRITE};
	CUdeviceptr memory = device_bytes(FILE_BYTES, NULL);
	unsigned char *back = malloc(FILE_BYTES);
	const char *path = path_of("brings");
	int fd = (make_file(path), open(path, O_RDWR));
	struct gloop_options options = {
		.descriptors = &fd, .descriptor_count = 1, .confined = true};

	assert_success(cuMemsetD8(memory, 0x5a, FILE_BYTES));
	for (unsigned i = 0; i < 2; i++) {
		struct gloop_rpc rpc = {
			.op = operations[i], .bytes = GLOOP_PAGE_BYTES, .destination = memory};
		CUdeviceptr wanted = device_bytes(sizeof(rpc), &rpc);
		struct gloop_report report;

		assert_int_equal(run("forge", 1, 32, &options, &report, parameters(&wanted)), 0);
		assert_int_equal(report.requests, 1);
		assert_int_equal(report.refused, 0);
		cuMemFree(wanted);
	}
	take_bytes(back, memory, FILE_BYTES);
	for (unsigned i = 0; i < FILE_BYTES; i++)
		assert_int_equal(back[i], 0x5a);
	free(back);
	close(fd);
	unlink(path);
}

static void test_a_confined_kernel_opens_nothing(void **state)
{
	static const struct gloop_options confined = {.confined = true};
	static const unsigned outside[] = {GLOOP_OPEN, GLOOP_CONNECT, GLOOP_BIND};

	for (unsigned i = 0; i < 3; i++) {
		struct gloop_rpc rpc = {.op = outside[i], .bytes = 4, .flags = GLOOP_FOR_READING};

		assert_int_equal(ask(&rpc, "/tmp", &confined), -EPERM);
	}
}

/* Whatever is in the areas: the run ends, nothing is harmed, and the next one works. */
static void test_garbage_in_the_areas_harms_nobody(void **state)
{
	const char *path = path_of("safe");
	unsigned long long sum = make_file(path);
	int fd = open(path, O_RDONLY);
	long long last;

	for (unsigned seed = 0; seed < 24; seed++) {
		struct gloop_options options = modes[seed % 4];
		unsigned left = seed % 8;
		int error;

		options.descriptors = &fd;
		options.descriptor_count = 1;
		options.confined = true;
		if (left == GLOOP_YIELDED || left == GLOOP_WAITS) /* for ever, and by right */
			left = GLOOP_ENDED;
		error = run("scribble", 3, 32, &options, NULL, parameters(&seed, &left));
		assert_true(
			error == 0 || error == -EPROTO || error == -ENOBUFS || error == -EDEADLK);
	}
	close(fd);
	assert_int_equal(sum_file(path, 3, &modes[1], &last), sum);
	unlink(path);
}

/* As sandboxes do. */
static void forbid_io_uring(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		abort();
}

/* `test_gloop [no-io_uring]`: the tests of files, without it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tasks_run_in_every_thread),
		cmocka_unit_test(test_a_block_goes_on_where_it_was_suspended),
		cmocka_unit_test(test_64_callbacks_wait_and_no_more),
		cmocka_unit_test(test_a_kernel_without_a_loop_is_an_error),
		cmocka_unit_test(test_options_that_make_no_sense_are_errors),
		cmocka_unit_test(test_blocks_read_a_file),
		cmocka_unit_test(test_blocks_read_a_file_from_the_disk),
		cmocka_unit_test(test_only_regular_files_are_opened),
		cmocka_unit_test(test_a_block_writes_a_file),
		cmocka_unit_test(test_a_file_takes_more_requests_than_there_are_pages),
		cmocka_unit_test(test_a_file_is_mapped),
		cmocka_unit_test(test_copy_engines_copy_for_blocks),
		cmocka_unit_test(test_a_timer_takes_its_time),
		cmocka_unit_test(test_blocks_serve_connections),
		cmocka_unit_test(test_blocks_talk_to_each_other),
		cmocka_unit_test(test_senseless_requests_get_an_error),
		cmocka_unit_test(test_a_request_for_more_than_a_page_is_refused),
		cmocka_unit_test(test_a_file_goes_to_device_memory_alone),
		cmocka_unit_test(test_a_file_is_written_from_device_memory_alone),
		cmocka_unit_test(test_a_page_that_is_not_there_is_refused),
		cmocka_unit_test(test_copies_reach_the_contexts_memory_alone),
		cmocka_unit_test(test_what_brings_nothing_has_no_destination),
		cmocka_unit_test(test_a_confined_kernel_opens_nothing),
		cmocka_unit_test(test_garbage_in_the_areas_harms_nobody),
	};

	if (argc > 1) {
		forbid_io_uring();
		cmocka_set_test_filter("*file*");
	}
	return cmocka_run_group_tests_name("gloop", tests, setup, teardown);
}

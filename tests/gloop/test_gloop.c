/* SPDX-License-Identifier: MIT
 *
 * Kernels with event loops (kernels.cu), and the host event loop that serves them; each in both modes and suspended
 * at every boundary of callbacks.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- tasks ---- */

enum { COUNT_BLOCKS = 5, COUNT_THREADS = 64, COUNT = COUNT_BLOCKS * COUNT_THREADS };

static void check_count_by(const char *kernel, const struct gloop_options *options, unsigned steps,
	struct gloop_report *report)
{
	CUdeviceptr counts = device_bytes(COUNT * sizeof(unsigned), NULL);
	unsigned got[COUNT];

	assert_int_equal(run(kernel, COUNT_BLOCKS, COUNT_THREADS, options, report,
				 parameters(&counts, &steps)),
		0);
	take_bytes(got, counts, sizeof(got));
	for (unsigned i = 0; i < COUNT; i++)
		assert_int_equal(got[i], steps);
	assert_int_equal(report->callbacks, COUNT_BLOCKS * steps);
	assert_int_equal(report->requests, 0);
}

static void check_count(
	const struct gloop_options *options, unsigned steps, struct gloop_report *report)
{
	check_count_by("count", options, steps, report);
	check_count_by("count_in_own_code", options, steps, report);
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

static void test_a_callback_gets_all_that_it_captured(void **state)
{
	uint64_t words[GLOOP_CAPTURE_BYTES / 8 - 1];

	for (unsigned mode = 0; mode < MODES; mode++) {
		CUdeviceptr memory = device_bytes(sizeof(words), NULL);

		assert_int_equal(
			run("carry_much", 1, 32, &modes[mode], NULL, parameters(&memory)), 0);
		take_bytes(words, memory, sizeof(words));
		for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
			assert_int_equal(words[i], 100 * (i + 1));
	}
}

/* How long a launch lasts. */
static uint64_t launch_ns(uint32_t poll_us)
{
	struct gloop_options options = {.poll_us = poll_us};
	unsigned count[32], steps = 1000000;
	CUdeviceptr counts = device_bytes(sizeof(count), NULL);
	struct gloop_report report;

	assert_int_equal(run("count", 1, 32, &options, &report, parameters(&counts, &steps)), 0);
	take_bytes(count, counts, sizeof(count));
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(count[i], steps);
	assert_in_range(report.launches, 2, UINT32_MAX); /* else it was too short */
	return report.launched_ns / (report.launches - 1);
}

static void test_a_kernel_stays_while_nobody_waits(void **state)
{
	assert_in_range(launch_ns(GLOOP_POLL), 100000000, UINT64_MAX);
	assert_in_range(launch_ns(0), 100000000, UINT64_MAX);
}

static void *synchronize(void *over)
{
	CUcontext context;
	CUresult result = cuDevicePrimaryCtxRetain(&context, 0);

	if (result == CUDA_SUCCESS)
		result = cuCtxSetCurrent(context);
	while (result == CUDA_SUCCESS && !*(atomic_bool *)over)
		result = cuCtxSynchronize();
	cuDevicePrimaryCtxRelease(0);
	return (void *)(uintptr_t)result;
}

/* Ten milliseconds, and whatever a busy machine takes. */
static void test_a_kernel_stays_no_longer_than_its_program_waits(void **state)
{
	atomic_bool over = false;
	pthread_t thread;
	uint64_t ns = UINT64_MAX;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, synchronize, &over), 0);
	for (unsigned tries = 0; tries < 100 && ns > 50000000; tries++)
		ns = launch_ns(tries % 2 ? GLOOP_POLL : 0);
	over = true;
	pthread_join(thread, &result);
	assert_null(result);
	assert_in_range(ns, 10000000, 50000000);
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
	int reader;

	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(pthread_create(&writer, NULL, wait_for_a_reader, (void *)fifo), 0);
	usleep(100000);
	sum_file(fifo, 1, &modes[0], &last);
	assert_int_equal(last, -EINVAL);
	usleep(10000);
	assert_false(has_a_reader); /* it was not even opened to look at it */
	reader = open(fifo, O_RDONLY | O_NONBLOCK);
	pthread_join(writer, NULL);
	close(reader);
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

/* As long as no kernel is on the device when they are asked for. */
static void test_what_is_written_is_fetched_also_when_it_had_to_wait_for_a_page(void **state)
{
	enum { BLOCKS = 2, PIECES = 60, BYTES = 6000, ALL = BLOCKS * PIECES * BYTES };
	static char text[ALL], written[ALL];
	const char *path = path_of("fetched");
	unsigned count = PIECES, bytes = BYTES;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), sum;
	struct gloop_options options = {
		.slice_us = 60000000, .descriptors = &fd, .descriptor_count = 1};
	CUdeviceptr from, filled = device_bytes(sizeof(sum), NULL);

	for (unsigned i = 0; i < ALL; i++)
		text[i] = (char)(i * 2654435761u >> 20);
	from = device_bytes(ALL, text);
	assert_int_equal(run("write_many", BLOCKS, 32, &options, NULL,
				 parameters(&from, &filled, &count, &bytes)),
		0);
	take_bytes(&sum, filled, sizeof(sum));
	assert_int_equal(sum, 0);
	cuMemFree(from);
	assert_int_equal(pread(fd, written, ALL, 0), ALL);
	assert_memory_equal(written, text, ALL);
	close(fd);
	unlink(path);
}

enum { CROWD = 8 }; /* blocks that with the largest pages have as few as there can be */

static void test_of_reads_of_a_file_each_gets_a_page_in_its_turn(void **state)
{
	const char *path = path_of("crowd");
	int fd = (make_file(path), open(path, O_RDONLY));
	unsigned most = 200, counts[2 * CROWD];

	for (unsigned i = 0; i < MODES; i++) {
		CUdeviceptr scratch = device_bytes(128 * CROWD, NULL);
		CUdeviceptr memory = device_bytes(sizeof(counts), NULL);
		struct gloop_options options = modes[i];

		options.page_bytes = GLOOP_PAGE_MAX;
		options.descriptors = &fd;
		options.descriptor_count = 1;
		assert_int_equal(run("read_beside", CROWD, 32, &options, NULL,
					 parameters(&scratch, &memory, &most)),
			0);
		take_bytes(counts, memory, sizeof(counts));
		cuMemFree(scratch);
		for (unsigned block = 0; block < CROWD; block++) {
			assert_in_range(counts[2 * block], 1, most - 1);
			assert_int_equal(counts[2 * block + 1], 1);
		}
	}
	close(fd);
	unlink(path);
}

/* How many are answered in time is a matter of luck on a busy machine. */
static void check_answers(unsigned blocks, struct gloop_options *options)
{
	CUdeviceptr to = device_bytes(64, NULL);
	unsigned words[2], reads = 40;
	struct gloop_report report = {.launches = reads};

	for (unsigned tries = 0; tries < 100 && report.launches >= 30; tries++) {
		CUdeviceptr memory = device_bytes(sizeof(words), NULL);

		assert_int_equal(run("read_meanwhile", blocks, 32, options, &report,
					 parameters(&to, &memory, &reads)),
			0);
		take_bytes(words, memory, sizeof(words));
		assert_int_equal(words[0], 64);
	}
	assert_true(report.launches < 30);
	cuMemFree(to);
}

/* Also in blocking mode, while nobody waits for the device; and a block that has nothing to do, while another one works. */
static void test_a_kernel_that_works_is_answered_where_it_is(void **state)
{
	const char *path = path_of("meanwhile");
	int fd = (make_file(path), open(path, O_RDONLY));
	struct gloop_options options = {.descriptors = &fd, .descriptor_count = 1};

	for (unsigned i = 0; i < 4; i++) {
		options.poll_us = i % 2 ? GLOOP_POLL : 0;
		check_answers(1 + i / 2, &options);
	}
	close(fd);
	unlink(path);
}

/* The second time as where the process does not reach device memory, so that the host cannot fetch what is written as long as the
 * kernel is on the device. */
static void test_a_block_asks_twice_once_a_launch(void **state)
{
	const char *path = path_of("far");
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct gloop_options options = {.descriptors = &fd, .descriptor_count = 1};
	unsigned words[3], bytes = 6000, writes = 40;
	CUdeviceptr from = device_bytes(bytes, NULL);
	struct gloop_report report;

	for (unsigned i = 0; i < 2; i++) {
		CUdeviceptr memory = device_bytes(sizeof(words), NULL);

		not_found = i ? "cuGdevMem" : NULL;
		assert_int_equal(run("write_meanwhile", 1, 32, &options, &report,
					 parameters(&from, &bytes, &memory, &writes)),
			0);
		not_found = NULL;
		take_bytes(words, memory, sizeof(words));
		assert_int_equal(words[0], bytes);
		assert_in_range(words[2], writes, writes + report.launches);
	}
	cuMemFree(from);
	close(fd);
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
			assert_in_range(times[block], ns, 60000000000); /* it ends */
	}
}

/* ---- sockets ---- */

enum { ECHO_BLOCKS = 2, ECHO_CONNECTIONS = 3, ECHO_BYTES = 100000 };

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

enum { WAITING_BLOCKS = 5, WAITING = 60, FILES_MAX = 256 };

/* One after another, each until it is closed. Returns NULL if all were. */
static void *connect_often(void *address)
{
	for (unsigned i = 0; i < WAITING_BLOCKS * WAITING; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		char byte;

		if (connect(fd, address, sizeof(struct sockaddr_in)) < 0 || recv(fd, &byte, 1, 0))
			return (void *)"a connection was not accepted and closed";
		close(fd);
	}
	return NULL;
}

static void test_more_requests_wait_than_there_may_be_descriptors(void **state)
{
	unsigned count = WAITING, counts[WAITING_BLOCKS];
	struct rlimit before, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){FILES_MAX, before.rlim_max};
	for (unsigned i = 0; i < MODES; i++) {
		CUdeviceptr accepted = device_bytes(sizeof(counts), NULL);
		struct gloop_options options = modes[i];
		struct sockaddr_in address;
		int listener = listener_at(&address);
		int listeners[] = {listener, listener, listener};
		pthread_t thread;
		void *failed;

		options.descriptors = listeners;
		options.descriptor_count = 3;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		assert_int_equal(pthread_create(&thread, NULL, connect_often, &address), 0);
		assert_int_equal(run("accept_many", WAITING_BLOCKS, 32, &options, NULL,
					 parameters(&accepted, &count)),
			0);
		pthread_join(thread, &failed);
		assert_null(failed);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		take_bytes(counts, accepted, sizeof(counts));
		for (unsigned block = 0; block < WAITING_BLOCKS; block++)
			assert_int_equal(counts[block], WAITING);
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

/* Says "pong" when it has heard of the block, and "no" when that does not come: the kernel may have to be compiled first. */
static void *answer_once(void *argument)
{
	struct pollfd heard = {*(int *)argument, POLLIN, 0};
	const char *said = poll(&heard, 1, 120000) == 1 ? "pong" : "no";

	if (send(heard.fd, said, strlen(said), 0) < 0)
		abort();
	shutdown(heard.fd, SHUT_WR);
	return NULL;
}

static void test_a_block_that_waits_can_send(void **state)
{
	for (unsigned i = 0; i < MODES; i++) {
		CUdeviceptr scratch = device_bytes(256, NULL), answers = device_bytes(16, NULL);
		struct gloop_options options = modes[i];
		long long results[2];
		pthread_t thread;
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		options.page_bytes = GLOOP_PAGE_MAX;
		options.descriptors = &pair[0];
		options.descriptor_count = 1;
		assert_int_equal(pthread_create(&thread, NULL, answer_once, &pair[1]), 0);
		assert_int_equal(run("receive_and_send", CROWD, 32, &options, NULL,
					 parameters(&scratch, &answers)),
			0);
		pthread_join(thread, NULL);
		take_bytes(results, answers, sizeof(results));
		cuMemFree(scratch);
		assert_int_equal(results[0], 4);
		assert_int_equal(results[1], 4);
		close(pair[0]);
		close(pair[1]);
	}
}

/* Also where the host looks only between launches, of which each follows the other at once. */
static void test_a_block_that_works_hears_of_timers_and_sockets(void **state)
{
	for (unsigned i = 0; i < MODES; i++) {
		CUdeviceptr scratch = device_bytes(8, NULL), memory = device_bytes(8, NULL);
		struct gloop_options options = modes[i];
		unsigned long long ns = 1000000;
		unsigned words[2], most = 1 << 20;
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		options.descriptors = pair;
		options.descriptor_count = 2;
		assert_int_equal(run("hear_meanwhile", 1, 32, &options, NULL,
					 parameters(&scratch, &memory, &ns, &most)),
			0);
		take_bytes(words, memory, sizeof(words));
		cuMemFree(scratch);
		assert_int_equal(words[0], 4);
		assert_in_range(words[1], 1, most - 1);
		close(pair[0]);
		close(pair[1]);
	}
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
		cmocka_unit_test(test_a_callback_gets_all_that_it_captured),
		cmocka_unit_test(test_a_kernel_stays_while_nobody_waits),
		cmocka_unit_test(test_a_kernel_stays_no_longer_than_its_program_waits),
		cmocka_unit_test(test_64_callbacks_wait_and_no_more),
		cmocka_unit_test(test_a_kernel_without_a_loop_is_an_error),
		cmocka_unit_test(test_options_that_make_no_sense_are_errors),
		cmocka_unit_test(test_blocks_read_a_file),
		cmocka_unit_test(test_blocks_read_a_file_from_the_disk),
		cmocka_unit_test(test_only_regular_files_are_opened),
		cmocka_unit_test(test_a_block_writes_a_file),
		cmocka_unit_test(test_a_file_takes_more_requests_than_there_are_pages),
		cmocka_unit_test(
			test_what_is_written_is_fetched_also_when_it_had_to_wait_for_a_page),
		cmocka_unit_test(test_of_reads_of_a_file_each_gets_a_page_in_its_turn),
		cmocka_unit_test(test_a_kernel_that_works_is_answered_where_it_is),
		cmocka_unit_test(test_a_block_asks_twice_once_a_launch),
		cmocka_unit_test(test_a_file_is_mapped),
		cmocka_unit_test(test_copy_engines_copy_for_blocks),
		cmocka_unit_test(test_a_timer_takes_its_time),
		cmocka_unit_test(test_blocks_serve_connections),
		cmocka_unit_test(test_more_requests_wait_than_there_may_be_descriptors),
		cmocka_unit_test(test_blocks_talk_to_each_other),
		cmocka_unit_test(test_a_block_that_waits_can_send),
		cmocka_unit_test(test_a_block_that_works_hears_of_timers_and_sockets),
	};

	if (argc > 1) {
		forbid_io_uring();
		cmocka_set_test_filter("*file*");
	}
	return cmocka_run_group_tests_name("gloop", tests, gloop_setup, gloop_teardown);
}

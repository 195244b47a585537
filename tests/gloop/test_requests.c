/* SPDX-License-Identifier: MIT
 *
 * What no honest kernel asks for, and what the host event loop makes of it.
 */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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
		{{.op = GLOOP_MAP, .fd = 0}, -EINVAL}, /* of no bytes */
		{{.op = GLOOP_MAP, .fd = 1}, -EINVAL},
		{{.op = GLOOP_MAP, .fd = -1}, -EBADF},
		{{.op = GLOOP_BIND, .offset = 1ull << 48}, -EINVAL}, /* no address */
		{{.op = GLOOP_CONNECT, .offset = INT64_MAX / 2}, -EINVAL},
		{{.op = GLOOP_BIND, .offset = 0xc0000201ull << 16}, -EADDRNOTAVAIL}, /* of nobody */
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

static void look_past_the_end(int fd)
{
	static const struct {
		struct gloop_rpc rpc;
		long long answer;
	} rows[] = {
		{{.op = GLOOP_WRITE, .offset = 1ull << 62, .bytes = 6}, -EFBIG},
		{{.op = GLOOP_WRITE, .offset = INT64_MAX, .bytes = 6}, -EINVAL},
		{{.op = GLOOP_WRITE, .offset = UINT64_MAX, .bytes = 6}, -EINVAL},
		{{.op = GLOOP_TRUNCATE, .offset = UINT64_MAX}, -EINVAL},
		{{.op = GLOOP_TRUNCATE, .offset = 1ull << 62}, -EFBIG},
		{{.op = GLOOP_READ, .offset = 1ull << 62, .bytes = 6}, 0},
		{{.op = GLOOP_WRITE, .offset = 1 << 20, .bytes = 6}, -EFBIG}, /* the limit */
		{{.op = GLOOP_TRUNCATE, .offset = (1 << 20) + 1}, -EFBIG},
		{{.op = GLOOP_STAT}, FILE_BYTES},
	};
	struct gloop_options options = {.descriptor_count = 1, .descriptors = &fd};
	struct rlimit before, limit;

	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){1 << 20, before.rlim_max};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		long long answer;

		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		answer = ask(&rows[i].rpc, "text", &options);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		if (answer != rows[i].answer)
			fail_msg("row %u: %lld instead of %lld", i, answer, rows[i].answer);
	}
	close(fd);
}

/* The host event loop writes what is in memory itself, and has other files written. */
static void test_past_the_end_of_a_file_is_an_error_or_nothing(void **state)
{
	const char *path = path_of("end");

	look_past_the_end(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
	look_past_the_end(memfd_create("end", MFD_CLOEXEC));
	unlink(path);
}

/* The table ends, or what the process may have. */
static void test_a_kernel_that_opens_without_end_gets_an_error(void **state)
{
	const char *path = path_of("again");
	unsigned long long sum = make_file(path);
	unsigned length = (unsigned)strlen(path), most = 2000;
	CUdeviceptr name = device_bytes(length, path), counts = device_bytes(16, NULL);
	long long got[2], last;

	assert_int_equal(
		run("open_on", 1, 32, NULL, NULL, parameters(&name, &length, &counts, &most)), 0);
	take_bytes(got, counts, sizeof(got));
	assert_in_range(got[0], 100, 1024);
	assert_int_equal(got[1], -EMFILE);
	assert_int_equal(sum_file(path, 2, &modes[0], &last), sum);
	cuMemFree(name);
	unlink(path);
}

/* A descriptor that the kernel closes is no longer one, also for what it has asked before and has no page yet. */
static void test_a_closed_descriptor_is_none(void **state)
{
	const char *path = path_of("closed");
	int fd = (make_file(path), open(path, O_RDONLY));
	CUdeviceptr counts = device_bytes(24, NULL), memory = device_bytes(64 * 64, NULL);
	long long got[3];

	for (unsigned mode = 0; mode < MODES; mode++) {
		struct gloop_options options = modes[mode];

		options.descriptors = &fd;
		options.descriptor_count = 1;
		assert_success(cuMemsetD8(counts, 0, sizeof(got)));
		assert_int_equal(
			run("close_under", 1, 32, &options, NULL, parameters(&memory, &counts)), 0);
		assert_success(cuMemcpyDtoH(got, counts, sizeof(got)));
		assert_int_equal(got[0] + got[1], 60); /* all are answered: read, or refused */
		assert_int_equal(got[2], -EBADF);      /* the one that came after */
	}
	assert_int_equal(fcntl(fd, F_GETFD) >= 0, 1); /* the caller's is open */
	cuMemFree(counts);
	cuMemFree(memory);
	close(fd);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_senseless_requests_get_an_error),
		cmocka_unit_test(test_past_the_end_of_a_file_is_an_error_or_nothing),
		cmocka_unit_test(test_a_kernel_that_opens_without_end_gets_an_error),
		cmocka_unit_test(test_a_closed_descriptor_is_none),
		cmocka_unit_test(test_a_request_for_more_than_a_page_is_refused),
		cmocka_unit_test(test_a_file_goes_to_device_memory_alone),
		cmocka_unit_test(test_a_file_is_written_from_device_memory_alone),
		cmocka_unit_test(test_a_page_that_is_not_there_is_refused),
		cmocka_unit_test(test_copies_reach_the_contexts_memory_alone),
		cmocka_unit_test(test_what_brings_nothing_has_no_destination),
		cmocka_unit_test(test_a_confined_kernel_opens_nothing),
		cmocka_unit_test(test_garbage_in_the_areas_harms_nobody),
	};

	return cmocka_run_group_tests_name("gloop requests", tests, gloop_setup, gloop_teardown);
}

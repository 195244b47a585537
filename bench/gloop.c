/* SPDX-License-Identifier: MIT
 *
 * What kernels with event loops cost: `bench_gloop MIB`.
 *
 *   callback_us  a callback of one block of 128 threads, that does nothing; the baseline is a launch of an empty kernel
 *                that is waited for
 *   resume_us    leaving the device before such a callback and going on in another launch; likewise
 *   file_read    the time in which a kernel reads a file of MIB that is in the page cache into device memory, over that
 *                in which the host reads it into page-locked memory and copies it there, 4 MiB at a time
 *
 * And of the modes blocking, waiting (for 200 us before it leaves) and polling: a kernel of one block that sends back what a
 * thread of the program sends it every millisecond over a socket. The baseline is another thread that does.
 *
 *   modes.MODE.echo_us     from sending to having it back
 *   modes.MODE.cpu_pct     processor time of the program meanwhile, of one processor
 *   modes.MODE.device_pct  of the time, in which the kernel was launched; the baseline is 100
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gdev/gloop.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "device.h"

#define RUNS 9
#define CALLBACKS 20000u
#define SUSPENSIONS 500u
#define PAGE 65536u
#define PIECE (4u << 20)
#define ECHOES 300
#define ECHO_BYTES 64u
#define PAUSE_NS 1000000

extern const char kernels_ptx[];

static CUmodule module;
static bool leaves; /* kernels in blocking mode after each slice, as where libcuda is not gdev's */

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	bool hidden = leaves && !strcmp(name, "cuGdevStreamWait");

	*function = hidden ? NULL : dlsym(RTLD_NEXT, name);
	return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUfunction kernel(const char *name)
{
	CUfunction function;

	must(cuModuleGetFunction(&function, module, name), "find a kernel");
	return function;
}

static double run_ns(const char *name, unsigned blocks, const struct gloop_options *with,
	void **parameters, struct gloop_report *report)
{
	struct gloop_shape shape = {.grid = {blocks}, .block = {128}};
	uint64_t begin_ns = bench_now_ns();
	int error = gloop_run(kernel(name), &shape, parameters, with, report);

	bench_require(error, "run the kernel", strerror(-error));
	return (double)(bench_now_ns() - begin_ns);
}

/* Of one callback. */
static double steps_ns(unsigned count, uint32_t slice_us, uint64_t *launches)
{
	struct gloop_options with = {.slice_us = slice_us};
	struct gloop_report report;
	double ns;

	leaves = slice_us == 1;
	ns = run_ns("steps", 1, &with, (void *[]){NULL, &count}, &report);
	leaves = false;
	*launches = report.launches;
	return ns / count;
}

static void measure_callbacks(CUfunction empty)
{
	struct samples callback = {0}, resume = {0}, waited = {0};
	uint64_t launches;

	for (unsigned i = 0; i < RUNS; i++) {
		double straight = steps_ns(CALLBACKS, 60000000, &launches);
		double suspended = steps_ns(SUSPENSIONS, 1, &launches);

		samples_add(&callback, straight / 1e3);
		samples_add(&resume,
			(suspended - straight) * SUSPENSIONS / (double)(launches - 1) / 1e3);
		samples_add(&waited, wait_us(empty));
	}
	bench_report("gloop", "callback_us", "us", &callback, &waited);
	bench_report("gloop", "resume_us", "us", &resume, &waited);
}

static int make_file(const char *bytes, size_t length)
{
	int fd = memfd_create("bench_gloop", MFD_CLOEXEC);

	bench_require(
		fd < 0 || write(fd, bytes, length) != (ssize_t)length, "make a file", "no memory?");
	return fd;
}

static double host_ns(int fd, size_t length, CUdeviceptr memory, char *piece)
{
	uint64_t begin_ns = bench_now_ns();

	for (size_t at = 0; at < length; at += PIECE) {
		bench_require(pread(fd, piece, PIECE, (off_t)at) != PIECE, "read the file",
			"it is shorter");
		must(cuMemcpyHtoD(memory + at, piece, PIECE), "copy");
	}
	must(cuCtxSynchronize(), "wait");
	return (double)(bench_now_ns() - begin_ns);
}

static void measure_file(size_t length)
{
	struct samples kernels = {0}, host = {0};
	char *bytes = malloc(length), *back = malloc(length);
	struct gloop_options with = {.page_bytes = PAGE, .descriptor_count = 1, .confined = true};
	unsigned at_once = 4;
	CUdeviceptr memory;
	void *piece;
	int fd;

	length -= length % PIECE;
	bench_require(!bytes || !back, "begin", "no memory");
	for (size_t i = 0; i < length; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	fd = make_file(bytes, length);
	with.descriptors = &fd;
	must(cuMemAlloc(&memory, length), "allocate");
	must(cuMemHostAlloc(&piece, PIECE, 0), "allocate page-locked memory");
	for (unsigned i = 0; i < RUNS; i++) {
		samples_add(&host, host_ns(fd, length, memory, piece) / 1e6);
		must(cuMemsetD8(memory, 0, length), "clear");
		must(cuCtxSynchronize(), "wait");
		samples_add(&kernels,
			run_ns("read_file", 28, &with, (void *[]){NULL, &memory, &at_once}, NULL) /
				1e6);
		must(cuMemcpyDtoH(back, memory, length), "copy back");
		bench_require(
			memcmp(back, bytes, length) != 0, "read the file", "other bytes came");
	}
	bench_report("gloop", "file_read", "ms", &kernels, &host);
	close(fd);
}

/* ---- the modes ---- */

struct asking {
	int fd;
	struct samples echo_us, cpu_pct;
};

static double cpu_ns(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e9 +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e3;
}

static void move_all(int fd, char *bytes, bool sends)
{
	for (size_t at = 0; at < ECHO_BYTES;) {
		ssize_t n = sends ? send(fd, bytes + at, ECHO_BYTES - at, MSG_NOSIGNAL)
				  : recv(fd, bytes + at, ECHO_BYTES - at, 0);

		bench_require(n <= 0, "send and receive", "nobody answers");
		at += (size_t)n;
	}
}

/* The first answer, for which much may be made ready, does not count. */
static void *ask(void *argument)
{
	static const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct asking *asking = argument;
	char sent[ECHO_BYTES], back[ECHO_BYTES];
	uint64_t begin_ns = 0;
	double begin_cpu_ns = 0;

	for (unsigned i = 0; i <= ECHOES; i++) {
		uint64_t sent_ns = bench_now_ns();

		memset(sent, (int)i, sizeof(sent));
		move_all(asking->fd, sent, true);
		move_all(asking->fd, back, false);
		bench_require(memcmp(sent, back, sizeof(back)) != 0, "send and receive",
			"other bytes came back");
		if (i)
			samples_add(&asking->echo_us, (double)(bench_now_ns() - sent_ns) / 1e3);
		nanosleep(&pause, NULL);
		if (i)
			continue;
		begin_ns = bench_now_ns();
		begin_cpu_ns = cpu_ns();
	}
	samples_add(&asking->cpu_pct,
		(cpu_ns() - begin_cpu_ns) * 100 / (double)(bench_now_ns() - begin_ns));
	shutdown(asking->fd, SHUT_WR);
	return NULL;
}

/* Asks whoever serves `pair[1]` on this thread. */
static void begin_asking(struct asking *asking, int pair[2], pthread_t *thread)
{
	bench_require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "make a socket", strerror(errno));
	*asking = (struct asking){.fd = pair[0]};
	bench_require(pthread_create(thread, NULL, ask, asking), "start a thread", "no memory?");
}

static void end_asking(int pair[2], pthread_t thread)
{
	pthread_join(thread, NULL);
	close(pair[0]);
	close(pair[1]);
}

static void answer_on_host(struct asking *asking)
{
	char bytes[ECHO_BYTES];
	pthread_t thread;
	ssize_t n;
	int pair[2];

	begin_asking(asking, pair, &thread);
	while ((n = recv(pair[1], bytes, sizeof(bytes), 0)) > 0)
		bench_require(send(pair[1], bytes, (size_t)n, MSG_NOSIGNAL) != n, "answer",
			"nobody asks any more");
	end_asking(pair, thread);
}

static void report_mode(const char *mode, const char *metric, const char *unit,
	struct samples *value, struct samples *baseline)
{
	char name[64];

	snprintf(name, sizeof(name), "modes.%s.%s", mode, metric);
	bench_report("gloop", name, unit, value, baseline);
}

/* Returns how long it took. */
static double answer_on_device(
	struct asking *asking, uint32_t poll_us, CUdeviceptr message, struct gloop_report *report)
{
	struct gloop_options with = {.poll_us = poll_us, .descriptor_count = 1, .confined = true};
	unsigned bytes = ECHO_BYTES;
	pthread_t thread;
	int pair[2];
	double ns;

	begin_asking(asking, pair, &thread);
	with.descriptors = &pair[1];
	bench_require(fcntl(pair[1], F_SETFL, O_NONBLOCK) != 0, "use the socket", strerror(errno));
	ns = run_ns("answer", 1, &with, (void *[]){NULL, &message, &bytes}, report);
	end_asking(pair, thread);
	return ns;
}

static void measure_mode(const char *mode, uint32_t poll_us)
{
	static struct asking asking, host;
	struct samples device = {0}, whole = {0};
	struct gloop_report report;
	CUdeviceptr message;
	double ns;

	must(cuMemAlloc(&message, ECHO_BYTES), "allocate");
	answer_on_device(&asking, poll_us, message, &report); /* compiles it */
	answer_on_host(&host);
	ns = answer_on_device(&asking, poll_us, message, &report);
	must(cuMemFree(message), "free");
	samples_add(&device, (double)report.launched_ns * 100 / ns);
	samples_add(&whole, 100);
	report_mode(mode, "echo_us", "us", &asking.echo_us, &host.echo_us);
	report_mode(mode, "cpu_pct", "%", &asking.cpu_pct, &host.cpu_pct);
	report_mode(mode, "device_pct", "%", &device, &whole);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
	CUfunction empty = open_device();
	uint64_t launches;

	must(cuModuleLoadData(&module, kernels_ptx), "load the kernels");
	steps_ns(1, 0, &launches); /* compiles it */
	measure_callbacks(empty);
	measure_file(mib << 20);
	measure_mode("blocking", 0);
	measure_mode("waiting", 200);
	measure_mode("polling", GLOOP_POLL);
	return 0;
}

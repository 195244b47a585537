/* SPDX-License-Identifier: MIT
 *
 * What calls cost a program of a virtual machine, and the same program on the host: scripts/lib/machines.py has one of each,
 * asks them on standard input, and gets a line of JSON for each line that it writes. In a guest every answer has what the
 * session has counted meanwhile (struct vm_counts).
 *
 *   burst N NS            N launches, one every NS ns at most, and one wait
 *   alone N US            N launches, each waited for, with pauses of US us
 *   alloc BYTES N         N allocations: what one takes, as the median; so do the following
 *   free                  these are freed
 *   launch BYTES N        N launches that use matrices of BYTES, each waited for: what cuLaunchKernel takes
 *   copy WHERE BYTES N    copies of pageable memory, WHERE is `to` or `from`: N of the library, and N by the module alone; medians
 *   product HOW BYTES N   N products of matrices with copying and allocating, waited for as HOW says: busy, sleep, hybrid
 *   look US               how long the module and the library look before they sleep, US < 0: as they like
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device.h"
#include "gdev/session.h"
#include "proto/vm.h"

#define REST_US 3000 /* after which the proxy has counted, and sleeps */
#define ANSWER_BYTES 1024
#define ALLOCATIONS_MAX 64
#define ROWS 8 /* of a product whose launch alone is measured */

/* A thread a row of the product: as slow as it looks, and the same everywhere. */
static const char product_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry product(.param .u64 c, .param .u64 a, .param .u64 b, .param .u32 n)\n"
	"{\n"
	".reg .pred %p<3>;\n.reg .f32 %f<4>;\n.reg .u32 %r<12>;\n.reg .u64 %rd<16>;\n"
	"ld.param.u64 %rd1, [c];\nld.param.u64 %rd2, [a];\nld.param.u64 %rd3, [b];\n"
	"ld.param.u32 %r1, [n];\n"
	"mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"
	"mad.lo.u32 %r5, %r2, %r3, %r4;\n" /* column */
	"mov.u32 %r6, %ctaid.y;\n"         /* row */
	"setp.ge.u32 %p1, %r5, %r1;\n@%p1 bra END;\n"
	"mul.lo.u32 %r7, %r6, %r1;\n"
	"mul.wide.u32 %rd4, %r7, 4;\nadd.u64 %rd5, %rd2, %rd4;\n" /* the row of a */
	"mul.wide.u32 %rd6, %r5, 4;\nadd.u64 %rd7, %rd3, %rd6;\n" /* the column of b */
	"mul.wide.u32 %rd8, %r1, 4;\n"
	"mov.f32 %f1, 0f00000000;\nmov.u32 %r8, 0;\n"
	"LOOP:\n"
	"ld.global.f32 %f2, [%rd5];\nld.global.f32 %f3, [%rd7];\n"
	"fma.rn.f32 %f1, %f2, %f3, %f1;\n"
	"add.u64 %rd5, %rd5, 4;\nadd.u64 %rd7, %rd7, %rd8;\nadd.u32 %r8, %r8, 1;\n"
	"setp.lt.u32 %p2, %r8, %r1;\n@%p2 bra LOOP;\n"
	"add.u32 %r9, %r7, %r5;\nmul.wide.u32 %rd9, %r9, 4;\nadd.u64 %rd10, %rd1, %rd9;\n"
	"st.global.f32 [%rd10], %f1;\n"
	"END:\nret;\n"
	"}\n";

static struct {
	CUfunction empty, product;
	struct gdev_session *session; /* the context's */
	int module;                   /* the module's file, of that session; -1: not in a guest */
	uint64_t look_ns;             /* of the library, as it likes */
	CUdeviceptr memory[ALLOCATIONS_MAX];
	unsigned allocations;
} state;

static struct vm_counts counts(void)
{
	struct vm_counts found = {0};

	usleep(REST_US);
	if (state.module >= 0)
		ioctl(state.module, VM_IOCTL_COUNTS, &found);
	return found;
}

static int find_module(void)
{
	DIR *files = opendir("/proc/self/fd");
	struct dirent *file;
	int found = -1;

	while (files && (file = readdir(files))) {
		char path[64];
		ssize_t length = readlinkat(dirfd(files), file->d_name, path, sizeof(path) - 1);

		if (length < 0)
			continue;
		path[length] = '\0';
		if (!strncmp(path, "/dev/gdev", 9))
			found = atoi(file->d_name);
	}
	if (files)
		closedir(files);
	return found;
}

/* What was counted since; the end of an answer. */
static void answer(const char *measured, const struct vm_counts *before)
{
	struct vm_counts after = counts();

	printf("{%s", measured);
	if (state.module >= 0)
		printf(", \"doorbells\": %llu, \"interrupts\": %llu, \"asked_bytes\": %llu, \"copied_bytes\": %llu, "
		       "\"exec_us\": %.3f, \"bend_us\": %.3f",
			(unsigned long long)(after.doorbells - before->doorbells),
			(unsigned long long)(after.interrupts - before->interrupts),
			(unsigned long long)(after.bytes - before->bytes),
			(unsigned long long)(after.bytes_copied - before->bytes_copied),
			(double)(after.exec_ns - before->exec_ns) / 1e3,
			(double)(after.request_ns - before->request_ns -
				 (after.exec_ns - before->exec_ns)) /
				1e3);
	printf("}\n");
	fflush(stdout);
}

static double cpu_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double since_us(uint64_t start_ns)
{
	return (double)(bench_now_ns() - start_ns) / 1e3;
}

/* ---- launches ---- */

static void burst(unsigned n, unsigned every_ns)
{
	char measured[ANSWER_BYTES];
	struct vm_counts before = counts();
	uint64_t start = bench_now_ns();

	for (unsigned i = 0; i < n; i++) {
		while (every_ns && bench_now_ns() - start < (uint64_t)i * every_ns)
			;
		launch(state.empty);
	}
	must(cuCtxSynchronize(), "wait");
	snprintf(measured, sizeof(measured), "\"us\": %.1f", since_us(start));
	answer(measured, &before);
}

static void alone(unsigned n, unsigned pause_us)
{
	char measured[ANSWER_BYTES];
	struct vm_counts before = counts();
	double us = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t start = bench_now_ns();

		launch(state.empty);
		must(cuCtxSynchronize(), "wait");
		us += since_us(start);
		usleep(pause_us);
	}
	snprintf(measured, sizeof(measured), "\"us\": %.1f", us);
	answer(measured, &before);
}

/* ---- calls ---- */

static void allocate(size_t bytes, unsigned n)
{
	char measured[ANSWER_BYTES];
	struct vm_counts before = counts();
	static struct samples times;

	times.count = 0;
	while (state.allocations < n && state.allocations < ALLOCATIONS_MAX) {
		uint64_t start = bench_now_ns();

		must(cuMemAlloc(&state.memory[state.allocations++], bytes), "allocate");
		samples_add(&times, since_us(start));
	}
	snprintf(measured, sizeof(measured), "\"us\": %.3f", samples_median(&times));
	answer(measured, &before);
}

static void release(void)
{
	char measured[ANSWER_BYTES];
	struct vm_counts before = counts();
	static struct samples times;

	times.count = 0;
	while (state.allocations) {
		uint64_t start = bench_now_ns();

		must(cuMemFree(state.memory[--state.allocations]), "free");
		samples_add(&times, since_us(start));
	}
	snprintf(measured, sizeof(measured), "\"us\": %.3f", samples_median(&times));
	answer(measured, &before);
}

/* What the module does of a copy: the same without the library. */
static void copy_by_module(CUdeviceptr device, void *memory, size_t bytes, bool to_device)
{
	struct vm_copy copy = {.device = device,
		.host = (uint64_t)memory,
		.width = bytes,
		.rows = 1,
		.device_pitch = bytes,
		.host_pitch = bytes,
		.direction = to_device ? VM_TO_DEVICE : VM_FROM_DEVICE};

	if (state.module >= 0)
		bench_require(
			ioctl(state.module, VM_IOCTL_COPY, &copy), "copy", "the module does not");
}

static void copies(const char *where, size_t bytes, unsigned n)
{
	static struct samples whole, module;
	bool to_device = !strcmp(where, "to");
	char *memory = malloc(bytes), measured[ANSWER_BYTES];
	struct vm_counts before;
	CUdeviceptr device;
	uint64_t start;

	whole.count = module.count = 0;
	memset(memory, 1, bytes);
	must(cuMemAlloc(&device, bytes), "allocate");
	must(cuMemcpyHtoD(device, memory, bytes), "copy");
	before = counts();
	for (unsigned i = 0; i < n; i++) {
		start = bench_now_ns();
		must(to_device ? cuMemcpyHtoD(device, memory, bytes)
			       : cuMemcpyDtoH(memory, device, bytes),
			"copy");
		samples_add(&whole, since_us(start));
		start = bench_now_ns();
		copy_by_module(device, memory, bytes, to_device);
		samples_add(&module, since_us(start));
	}
	snprintf(measured, sizeof(measured), "\"us\": %.3f, \"module_us\": %.3f",
		samples_median(&whole), samples_median(&module));
	answer(measured, &before);
	must(cuMemFree(device), "free");
	free(memory);
}

/* ---- products of matrices ---- */

struct matrices {
	unsigned n; /* rows and columns */
	size_t bytes;
	float *host;
	CUdeviceptr a, b, c;
};

static void matrices_init(struct matrices *matrices, size_t bytes)
{
	matrices->n = 1;
	while ((size_t)(matrices->n + 1) * (matrices->n + 1) * sizeof(float) <= bytes)
		matrices->n++;
	matrices->bytes = (size_t)matrices->n * matrices->n * sizeof(float);
	matrices->host = malloc(matrices->bytes);
	for (size_t i = 0; i < matrices->bytes / sizeof(float); i++)
		matrices->host[i] = 1;
}

static void matrices_allocate(struct matrices *matrices)
{
	must(cuMemAlloc(&matrices->a, matrices->bytes), "allocate");
	must(cuMemAlloc(&matrices->b, matrices->bytes), "allocate");
	must(cuMemAlloc(&matrices->c, matrices->bytes), "allocate");
	must(cuMemcpyHtoD(matrices->a, matrices->host, matrices->bytes), "copy");
	must(cuMemcpyHtoD(matrices->b, matrices->host, matrices->bytes), "copy");
}

static void matrices_free(struct matrices *matrices)
{
	must(cuMemFree(matrices->a), "free");
	must(cuMemFree(matrices->b), "free");
	must(cuMemFree(matrices->c), "free");
}

/* The first rows of it. */
static void multiply(struct matrices *matrices, unsigned rows)
{
	void *parameters[] = {&matrices->c, &matrices->a, &matrices->b, &matrices->n};

	must(cuLaunchKernel(state.product, (matrices->n + 63) / 64,
		     rows < matrices->n ? rows : matrices->n, 1, 64, 1, 1, 0, NULL, parameters,
		     NULL),
		"launch");
}

static void check_product(const struct matrices *matrices, const float *result)
{
	for (size_t i = 0; i < matrices->bytes / sizeof(float); i++)
		bench_require(result[i] != (float)matrices->n, "multiply", "the product is wrong");
}

static void launches(size_t bytes, unsigned n)
{
	static struct samples times;
	char measured[ANSWER_BYTES];
	struct matrices matrices;
	struct vm_counts before;

	times.count = 0;
	matrices_init(&matrices, bytes);
	matrices_allocate(&matrices);
	before = counts();
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = bench_now_ns();

		multiply(&matrices, ROWS);
		samples_add(&times, since_us(start));
		must(cuCtxSynchronize(), "wait");
	}
	snprintf(measured, sizeof(measured), "\"us\": %.3f", samples_median(&times));
	answer(measured, &before);
	matrices_free(&matrices);
	free(matrices.host);
}

/* How long the module looks before it sleeps; it has a parameter for that. */
static void set_module(long us)
{
	int file = open("/sys/module/gdev/parameters/look_us", O_WRONLY | O_CLOEXEC);

	if (file < 0)
		return;
	dprintf(file, "%ld", us);
	close(file);
}

static void look(long us)
{
	set_module(us);
	gdev_session_tune(
		state.session, GDEV_TUNE_SPIN_NS, us < 0 ? state.look_ns : (uint64_t)us * 1000);
}

static void products(const char *how, size_t bytes, unsigned n)
{
	static struct samples times;
	char measured[ANSWER_BYTES];
	struct vm_counts before;
	struct matrices matrices;
	double used_us, total_us = 0;
	float *result;

	look(!strcmp(how, "busy") ? 10000000 : !strcmp(how, "sleep") ? 0 : -1);
	times.count = 0;
	matrices_init(&matrices, bytes);
	result = malloc(matrices.bytes);
	before = counts();
	used_us = cpu_us();
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = bench_now_ns();

		matrices_allocate(&matrices);
		multiply(&matrices, matrices.n);
		must(cuMemcpyDtoH(result, matrices.c, matrices.bytes), "copy");
		matrices_free(&matrices);
		samples_add(&times, since_us(start));
		total_us += since_us(start);
	}
	used_us = cpu_us() - used_us;
	snprintf(measured, sizeof(measured), "\"us\": %.1f, \"busy_pct\": %.1f",
		samples_median(&times), 100 * used_us / total_us);
	answer(measured, &before);
	look(-1);
	check_product(&matrices, result);
	free(result);
	free(matrices.host);
}

/* ---- */

static void obey(const char *line)
{
	char word[16] = "";
	unsigned long a, b;
	long us;

	if (sscanf(line, "burst %lu %lu", &a, &b) == 2)
		burst((unsigned)a, (unsigned)b);
	else if (sscanf(line, "alone %lu %lu", &a, &b) == 2)
		alone((unsigned)a, (unsigned)b);
	else if (sscanf(line, "alloc %lu %lu", &a, &b) == 2)
		allocate(a, (unsigned)b);
	else if (!strncmp(line, "free", 4))
		release();
	else if (sscanf(line, "launch %lu %lu", &a, &b) == 2)
		launches(a, (unsigned)b);
	else if (sscanf(line, "copy %15s %lu %lu", word, &a, &b) == 3)
		copies(word, a, (unsigned)b);
	else if (sscanf(line, "product %15s %lu %lu", word, &a, &b) == 3 && b)
		products(word, a, (unsigned)b);
	else if (sscanf(line, "look %ld", &us) == 1)
		look(us);
	else
		bench_require(1, "understand", line);
}

int main(void)
{
	CUmodule module;
	char line[128];

	state.empty = open_device();
	must(cuModuleLoadData(&module, product_ptx), "load");
	must(cuModuleGetFunction(&state.product, module, "product"), "find the kernel");
	bench_require(gdev_session_open(NULL, &state.session), "open the session", "gdev?");
	state.module = find_module();
	state.look_ns = 50000; /* as lib/libgdev has it for a device that does not say */
	launch(state.empty);
	must(cuCtxSynchronize(), "wait");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	gdev_session_close(state.session);
	return 0;
}

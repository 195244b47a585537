/* SPDX-License-Identifier: MIT
 *
 * See fixture.h.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern const char kernels_ptx[];

static CUcontext context;
static CUmodule module;
static char folder[] = "/tmp/gdev-gloop-XXXXXX";

const struct gloop_options modes[MODES] = {
	{.poll_us = 0},
	{.poll_us = GLOOP_POLL},
	{.poll_us = 200},
	{.poll_us = 0, .slice_us = 1},
	{.poll_us = GLOOP_POLL, .slice_us = 1},
	{.poll_us = 0, .page_bytes = 64},
};

int gloop_setup(void **state)
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

int gloop_teardown(void **state)
{
	rmdir(folder);
	return cuModuleUnload(module) != CUDA_SUCCESS;
}

const char *not_found;

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	bool hidden = not_found && !strncmp(name, not_found, strlen(not_found));

	*function = hidden ? NULL : dlsym(RTLD_NEXT, name);
	return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

int run(const char *name, unsigned blocks, unsigned threads, const struct gloop_options *options,
	struct gloop_report *report, void **parameters)
{
	struct gloop_shape shape = {.grid = {blocks}, .block = {threads}};
	struct gloop_report unseen;
	CUfunction kernel;
	int error;

	report = report ? report : &unseen;
	assert_success(cuModuleGetFunction(&kernel, module, name));
	if (options && options->slice_us == 1 && !options->poll_us)
		not_found = "cuGdevStreamWait";
	error = gloop_run(kernel, &shape, parameters, options, report);
	not_found = NULL;
	if (error == -EIO)
		print_message("# CUDA: %d\n", report->cuda);
	return error;
}

CUdeviceptr device_bytes(size_t bytes, const void *contents)
{
	CUdeviceptr memory;

	assert_success(cuMemAlloc(&memory, bytes));
	assert_success(
		contents ? cuMemcpyHtoD(memory, contents, bytes) : cuMemsetD8(memory, 0, bytes));
	return memory;
}

void take_bytes(void *to, CUdeviceptr from, size_t bytes)
{
	assert_success(cuMemcpyDtoH(to, from, bytes));
	assert_success(cuMemFree(from));
}

const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

unsigned long long make_file(const char *path)
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

unsigned long long sum_file(
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

int listener_at(struct sockaddr_in *address)
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

/* SPDX-License-Identifier: MIT
 *
 * The forms of the gestural interface on the CUDA Driver API, in one thread a process (Table 2):
 *   handcode  what xform makes stays on the device; images in and the filtered cloud out are the only copies
 *   modular   xform and filter are subroutines, which take and give host memory
 *   pipes     catusb | xform | filter | hidinput: each a process
 */
#include <cuda.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptask/gesture.h"

#define PIPE_BYTES (1 << 20)

static CUfunction xform, filter;
static CUdeviceptr images[CAMERAS], device_poses[CAMERAS], clouds[CAMERAS], result;

static void must(CUresult error, const char *what)
{
	const char *text = "unknown error";

	if (error)
		cuGetErrorString(error, &text);
	require(!error, what, text);
}

static void open_device(void)
{
	CUcontext context;
	CUmodule module;
	CUdevice first;

	must(cuInit(0), "open the device; run it under `gdev run`");
	must(cuDeviceGet(&first, 0), "find the device");
	must(cuDevicePrimaryCtxRetain(&context, first), "open the device");
	must(cuCtxSetCurrent(context), "use the device");
	must(cuModuleLoadData(&module, kernels_ptx), "load the kernels");
	must(cuModuleGetFunction(&xform, module, "xform"), "find a kernel");
	must(cuModuleGetFunction(&filter, module, "filter"), "find a kernel");
	for (unsigned i = 0; i < CAMERAS; i++) {
		must(cuMemAlloc(&images[i], image_bytes()), "allocate");
		must(cuMemAlloc(&clouds[i], cloud_bytes()), "allocate");
		must(cuMemAlloc(&device_poses[i], sizeof(struct pose)), "allocate");
		must(cuMemcpyHtoD(device_poses[i], &poses[i], sizeof(struct pose)), "copy");
	}
	must(cuMemAlloc(&result, cloud_bytes()), "allocate");
}

static void launch(CUfunction kernel, void **parameters)
{
	must(cuLaunchKernel(kernel, (unsigned)(width + 15) / 16, (unsigned)(height + 15) / 16, 1,
		     16, 16, 1, 0, NULL, parameters, NULL),
		"launch");
}

static void launch_xform(unsigned camera)
{
	launch(xform, (void *[]){&clouds[camera], &images[camera], &device_poses[camera], &width,
			      &height});
}

static void launch_filter(void)
{
	launch(filter, (void *[]){&result, &clouds[0], &clouds[1], &width, &height});
}

/* ---- hand-coded ---- */

void run_handcode(void)
{
	struct point *cloud = frame_alloc(cloud_bytes());
	struct event event;

	open_device();
	for (unsigned frame = 0; frame < frame_count; frame++) {
		for (unsigned i = 0; i < CAMERAS; i++)
			must(cuMemcpyHtoD(images[i], camera_image(i, frame), image_bytes()),
				"copy");
		for (unsigned i = 0; i < CAMERAS; i++)
			launch_xform(i);
		launch_filter();
		must(cuMemcpyDtoH(cloud, result, cloud_bytes()), "copy");
		hidinput(cloud, &event);
		deliver(frame, &event);
	}
	free(cloud);
}

/* ---- modular ---- */

static void do_xform(struct point *cloud, const uint16_t *image, unsigned camera)
{
	must(cuMemcpyHtoD(images[camera], image, image_bytes()), "copy");
	launch_xform(camera);
	must(cuMemcpyDtoH(cloud, clouds[camera], cloud_bytes()), "copy");
}

static void do_filter(struct point *out, struct point *const from[CAMERAS])
{
	for (unsigned i = 0; i < CAMERAS; i++)
		must(cuMemcpyHtoD(clouds[i], from[i], cloud_bytes()), "copy");
	launch_filter();
	must(cuMemcpyDtoH(out, result, cloud_bytes()), "copy");
}

static struct point *host_clouds[CAMERAS], *filtered;

static void allocate(void)
{
	for (unsigned i = 0; i < CAMERAS; i++)
		host_clouds[i] = frame_alloc(cloud_bytes());
	filtered = frame_alloc(cloud_bytes());
}

void run_modular(void)
{
	struct event event;

	allocate();
	open_device();
	for (unsigned frame = 0; frame < frame_count; frame++) {
		for (unsigned i = 0; i < CAMERAS; i++)
			do_xform(host_clouds[i], camera_image(i, frame), i);
		do_filter(filtered, host_clouds);
		hidinput(filtered, &event);
		deliver(frame, &event);
	}
}

/* ---- pipes ---- */

static void read_all(int from, void *memory, size_t bytes)
{
	for (ssize_t done; bytes; bytes -= (size_t)done, memory = (char *)memory + done) {
		done = read(from, memory, bytes);
		require(done > 0, "read a pipe", "its writer is gone");
	}
}

static void write_all(int to, const void *memory, size_t bytes)
{
	for (ssize_t done; bytes; bytes -= (size_t)done, memory = (const char *)memory + done) {
		done = write(to, memory, bytes);
		require(done > 0, "write a pipe", "its reader is gone");
	}
}

static void run_catusb(int from, int to)
{
	for (unsigned frame = 0; frame < frame_count; frame++)
		for (unsigned i = 0; i < CAMERAS; i++)
			write_all(to, camera_image(i, frame), image_bytes());
}

static void run_xform(int from, int to)
{
	uint16_t *image = frame_alloc(image_bytes());

	open_device();
	for (unsigned frame = 0; frame < frame_count; frame++)
		for (unsigned i = 0; i < CAMERAS; i++) {
			read_all(from, image, image_bytes());
			do_xform(host_clouds[i], image, i);
			write_all(to, host_clouds[i], cloud_bytes());
		}
	free(image);
}

static void run_filter(int from, int to)
{
	open_device();
	for (unsigned frame = 0; frame < frame_count; frame++) {
		for (unsigned i = 0; i < CAMERAS; i++)
			read_all(from, host_clouds[i], cloud_bytes());
		do_filter(filtered, host_clouds);
		write_all(to, filtered, cloud_bytes());
	}
}

/* Returns where to read what the program writes. */
static int start(void (*run)(int from, int to), int from)
{
	int ends[2];
	pid_t child;

	require(!pipe(ends), "make a pipe", "there are too many descriptors");
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
	child = fork();
	require(child >= 0, "start a process", "the system has none left");
	if (!child) {
		close(ends[0]);
		run(from, ends[1]);
		close(from);
		_exit(0);
	}
	also_counts(child);
	close(ends[1]);
	if (from >= 0)
		close(from);
	return ends[0];
}

void run_pipes(void)
{
	struct event event;
	int from;

	allocate();
	from = start(run_filter, start(run_xform, start(run_catusb, -1)));
	for (unsigned frame = 0; frame < frame_count; frame++) {
		read_all(from, filtered, cloud_bytes());
		hidinput(filtered, &event);
		deliver(frame, &event);
	}
	while (wait(NULL) > 0)
		;
}

/* SPDX-License-Identifier: MIT
 *
 * What a context takes of the device before any allocation. The driver tells only what all processes take
 * together; the vendor's management library tells it for each, where process numbers are the same for it
 * and for us.
 */
#include "device/cuda/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PROCESSES_MAX 512

/* nvmlProcessInfo_t, as nvmlDeviceGetComputeRunningProcesses_v3 fills it. */
struct process_info {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};

/* Absolute paths only, as for the driver's library. */
static void *open_management_library(void)
{
	static const char *const paths[] = {
		"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
		"/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1",
		"/usr/lib64/libnvidia-ml.so.1",
		"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
	};
	void *library = NULL;

	for (size_t i = 0; i < array_length(paths) && !library; i++)
		library = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static void uuid_text(const struct device *device, char text[64])
{
	CUuuid uuid = {0};
	const unsigned char *b = (const unsigned char *)&uuid;

	device->driver->cuDeviceGetUuid(&uuid, device->ordinal);
	snprintf(text, 64,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		b[14], b[15]);
}

/* Of this process; 0 when nobody tells. */
static uint64_t process_bytes(const struct device *device, void *library)
{
	int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
	int (*find)(const char *, void **) =
		(int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByUUID");
	int (*list)(void *, unsigned *, struct process_info *) = (int (*)(void *, unsigned *,
		struct process_info *))dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
	struct process_info processes[PROCESSES_MAX];
	unsigned count = PROCESSES_MAX;
	char uuid[64];
	void *handle;

	uuid_text(device, uuid);
	if (!init || !find || !list || init() || find(uuid, &handle) ||
		list(handle, &count, processes))
		return 0;
	for (unsigned i = 0; i < count; i++)
		if (processes[i].pid == (unsigned)getpid() && processes[i].used_bytes != ~0ull)
			return processes[i].used_bytes;
	return 0;
}

uint64_t footprint_bytes(const struct device *device)
{
	void *library = open_management_library();
	uint64_t bytes = library ? process_bytes(device, library) : 0;
	size_t free_bytes = 0, total_bytes = 0;

	if (library)
		dlclose(library);
	if (bytes)
		return bytes;
	device->driver->cuMemGetInfo(&free_bytes, &total_bytes);
	return total_bytes - free_bytes;
}

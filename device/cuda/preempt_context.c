/* SPDX-License-Identifier: MIT
 *
 * What kernels that leave the device have in its context, and for the session.
 */
#include "device/cuda/preempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define KEPT_BYTES (32u << 20) /* a module, whose account has them */

/* The counters, those of the blocks that have left, and the kernel that tells one of these. */
static const char counters_ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 8 .u64 gdev_counters[16384];\n"
	".visible .global .align 8 .u64 gdev_left[16384];\n"
	".visible .entry gdev_tell(.param .u64 left, .param .u64 told)\n{\n"
	"\t.reg .u64 %d<2>;\n\t.reg .u32 %r;\n"
	"\tld.param.u64 %d0, [left];\n"
	"\tld.param.u64 %d1, [told];\n"
	"\tld.volatile.global.u32 %r, [%d0];\n"
	"\tst.volatile.global.u32 [%d1], %r;\n"
	"\tret;\n}\n";

_Static_assert(COMPLETION_WORDS *COUNTER_BYTES == 16384 * sizeof(uint64_t), "as the text has it");

static CUresult load_counters(struct device *device, struct preempt *p)
{
	const struct driver *driver = device->driver;
	autofree void *code = NULL;
	size_t bytes;
	CUresult result = jit_link(driver, &(struct jit_source){counters_ptx}, NULL, &code, &bytes);

	if (!result)
		result = driver->cuModuleLoadDataEx(&p->module, code, 0, NULL, NULL);
	if (!result)
		result =
			driver->cuModuleGetGlobal(&p->counters, &bytes, p->module, "gdev_counters");
	if (!result)
		result = driver->cuModuleGetGlobal(&p->lefts, &bytes, p->module, "gdev_left");
	if (!result)
		result = driver->cuModuleGetFunction(&p->tell->handle, p->module, "gdev_tell");
	return result;
}

static CUresult make_context(struct device *device, struct preempt *p)
{
	const struct driver *driver = device->driver;
	CUresult result = load_counters(device, p);

	memset(p->counts, 0, sizeof p->counts);
	if (!result)
		result = driver->cuMemHostAlloc((void **)&p->told,
			COMPLETION_WORDS * sizeof *p->told,
			CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	if (!result)
		result = driver->cuMemHostGetDevicePointer(&p->told_address, p->told, 0);
	if (!result) /* it is to pass what waits in other streams, and has no channel in common with them */
		result = driver->cuStreamCreateWithPriority(&p->stream, CU_STREAM_NON_BLOCKING, -5);
	return result;
}

int preempt_context_open(struct device *device)
{
	struct preempt *p = device->preempt;
	CUresult result;

	if (!p)
		return 0;
	result = make_context(device, p);
	if (result)
		preempt_context_close(device);
	return driver_error(result);
}

void preempt_context_close(struct device *device)
{
	const struct driver *driver = device->driver;
	struct preempt *p = device->preempt;

	if (!p)
		return;
	if (p->stream)
		driver->cuStreamDestroy(steal_pointer(&p->stream));
	if (p->told)
		driver->cuMemFreeHost(steal_pointer(&p->told));
	if (p->module)
		driver->cuModuleUnload(steal_pointer(&p->module));
}

uint64_t preempt_kept_bytes(const struct device *device)
{
	return device->preempt && device->preempt->loops ? KEPT_BYTES : 0;
}

int cuda_preempt(struct device_space *space, bool loops)
{
	struct device *device = space->device;
	struct preempt *p;
	int error;

	if (device->preempt) { /* of a session that did not come to be */
		device->preempt->loops = loops;
		return 0;
	}
	p = calloc(1, sizeof *p + sizeof *p->tell);
	if (!p)
		return -ENOMEM;
	p->tell = (struct device_function *)(p + 1);
	pthread_mutex_init(&p->lock, NULL);
	list_init(&p->queues);
	list_init(&p->keepers);
	p->loops = loops;
	p->generation = 1;
	device->preempt = p;
	device_enter(device);
	error = preempt_context_open(device);
	if (error)
		preempt_destroy(device);
	return error;
}

void preempt_destroy(struct device *device)
{
	struct preempt *p = steal_pointer(&device->preempt);

	if (p)
		pthread_mutex_destroy(&p->lock);
	free(p);
}

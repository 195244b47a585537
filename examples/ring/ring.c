/* SPDX-License-Identifier: MIT
 *
 * RING: adds up the vectors of all devices, so that each has the sum (all-reduce). The vectors are in as many chunks as
 * there are devices. In each of the first steps a device gets a chunk from the device before it in the ring and adds its
 * own; then every device has one chunk of the sum. In as many steps more those go around. All links of the ring
 * are busy in every step, and each carries only twice the vector, however many devices there are.
 */
#include "common/harness.h"

#define BLOCK 256

struct member {
	int *values, *result;
	CUdeviceptr vector, came;
	CUevent done[2]; /* of a step, and of the one before */
};

static unsigned n, count, chunk;
static struct member members[DEVICES_MAX];

static void setup(void)
{
	n = options.size;
	count = device_count();
	chunk = (n + count - 1) / count;
	for (unsigned i = 0; i < count; i++) {
		struct member *member = &members[i];
		device_use(i);
		member->values = host_alloc(n * sizeof(int));
		member->result = host_alloc(n * sizeof(int));
		for (unsigned k = 0; k < n; k++)
			member->values[k] = (int)(random_next() >> 8);
		member->vector = device_alloc(n * sizeof(int));
		member->came = device_alloc(chunk * sizeof(int));
		for (unsigned k = 0; k < 2; k++)
			CHECK(cuEventCreate(&member->done[k], CU_EVENT_DISABLE_TIMING));
	}
}

static unsigned chunk_count(unsigned which)
{
	unsigned begin = which * chunk;

	return begin >= n ? 0 : n - begin < chunk ? n - begin : chunk;
}

/* Device i gets chunk `which` from the one before it, and adds it to its own or takes it as it is. */
static void pass(unsigned i, unsigned which, unsigned step, int add)
{
	unsigned before = (i + count - 1) % count, elements = chunk_count(which);
	CUdeviceptr here = members[i].vector + (size_t)which * chunk * sizeof(int);
	CUdeviceptr there = members[before].vector + (size_t)which * chunk * sizeof(int);

	device_use(i);
	if (step)
		CHECK(cuStreamWaitEvent(0, members[before].done[(step + 1) % 2], 0));
	if (elements) {
		CHECK(cuMemcpyPeerAsync(add ? members[i].came : here, device_context(i), there,
			device_context(before), elements * sizeof(int), 0));
		if (add)
			launch(device_kernel("add"),
				SHAPE((elements + BLOCK - 1) / BLOCK, 1, BLOCK, 1), &here,
				&members[i].came, &elements);
	}
	CHECK(cuEventRecord(members[i].done[step % 2], 0));
}

static void compute(void)
{
	for (unsigned i = 0; i < count; i++) {
		device_use(i);
		copy_to_device(members[i].vector, members[i].values, n * sizeof(int));
	}
	for (unsigned step = 0; step < 2 * (count - 1); step++)
		for (unsigned i = 0; i < count; i++)
			pass(i, (i + 2 * count - step - 1) % count, step, step < count - 1);
	for (unsigned i = 0; i < count; i++) {
		device_use(i);
		copy_from_device(members[i].result, members[i].vector, n * sizeof(int));
	}
}

static void check(void)
{
	int *sum = host_alloc(n * sizeof(int));

	for (unsigned k = 0; k < n; k++) {
		sum[k] = 0;
		for (unsigned i = 0; i < count; i++)
			sum[k] += members[i].values[k];
	}
	for (unsigned i = 0; i < count; i++)
		check_ints("a device's sum", members[i].result, sum, n);
}

const struct program program = {
	.name = "ring",
	.summary = "Adds up the vectors of all devices in a ring (all-reduce).",
	.size_means = "numbers in a vector",
	.size = 1 << 20,
	.size_max = 1 << 28,
	.setup = setup,
	.compute = compute,
	.check = check,
};

/* SPDX-License-Identifier: MIT
 *
 * STOREGPU: what a distributed storage system has a GPU do (StoreGPU, direct hashing): the MD5 of each block of 4 KiB of a
 * write, by which the system finds blocks that it has already. The host makes the name of the whole out of the blocks' digests.
 */
#include "common/harness.h"

#define MD5_FUNCTION static
#include "storegpu/md5.h"

#define BLOCK_WORDS 1024u
#define THREADS 64

static const unsigned constants[64] = MD5_CONSTANTS;
static const unsigned char shifts[4][4] = MD5_SHIFTS;
static unsigned n, block_words = BLOCK_WORDS;
static uint32_t *data, *digests;
static uint32_t name[4];
static CUdeviceptr device_data, device_digests;

static size_t data_bytes(void)
{
	return (size_t)n * BLOCK_WORDS * sizeof(*data);
}

static void setup(void)
{
	n = options.size;
	data = host_alloc(data_bytes());
	for (size_t i = 0; i < data_bytes() / sizeof(*data); i++)
		data[i] = random_next();
	digests = host_alloc((size_t)n * sizeof(name));
	device_data = device_alloc(data_bytes());
	device_digests = device_alloc((size_t)n * sizeof(name));
}

static void compute(void)
{
	copy_to_device(device_data, data, data_bytes());
	launch(device_kernel("storegpu"), SHAPE((n + THREADS - 1) / THREADS, 1, THREADS, 1),
		&device_digests, &device_data, &block_words, &n);
	copy_from_device(digests, device_digests, (size_t)n * sizeof(name));
	md5_block(name, digests, n * 4, constants, shifts);
}

static void check(void)
{
	uint32_t *want = host_alloc((size_t)n * sizeof(name));

	for (unsigned i = 0; i < n; i++)
		md5_block(want + 4 * i, data + (size_t)i * BLOCK_WORDS, BLOCK_WORDS, constants,
			shifts);
	check_ints("digests", (const int *)digests, (const int *)want, (size_t)n * 4);
}

const struct program program = {
	.name = "storegpu",
	.summary = "The MD5 of each block of 4 KiB of a file, as a storage system needs it.",
	.size_means = "blocks; a multiple of 4",
	.size = 4096,
	.size_max = 1 << 18,
	.multiple = 4,
	.setup = setup,
	.compute = compute,
	.check = check,
};

/* SPDX-License-Identifier: MIT
 *
 * What the software GPU says it is. It passes for a device of compute capability 9.0, so that PTX for
 * every target up to sm_90 is accepted; what it does not do is 0.
 */
#include "device/cpu/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proto/texture.h"

unsigned cpu_thread_count(const struct device_config *config)
{
	cpu_set_t set;
	unsigned count = config->threads;

	if (!count)
		count = sched_getaffinity(0, sizeof set, &set) ? 1 : (unsigned)CPU_COUNT(&set);
	return max_of(1u, min_of(count, (unsigned)CPU_THREADS_MAX));
}

static int32_t clock_khz(void)
{
	FILE *file = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");
	int32_t khz = 0;

	if (file) {
		if (fscanf(file, "%d", &khz) != 1)
			khz = 0;
		fclose(file);
	}
	return khz > 0 ? khz : 2000000;
}

static int32_t cache_bytes(void)
{
	long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);

	if (bytes <= 0)
		bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
	return bytes > 0 ? (int32_t)min_of(bytes, (long)INT32_MAX) : 1 << 20;
}

/* CUDA's attributes MAXIMUM_TEXTURE… and MAXIMUM_SURFACE…, as those of hardware of that compute capability. */
#define TEXTURE_LIMITS                                                                             \
	[21] = 131072, [22] = 131072, [23] = 65536, [24] = 16384, [25] = 16384, [26] = 16384,      \
	[27] = 32768, [28] = 32768, [29] = 2048, [42] = 32768, [43] = 2048, [45] = 32768,          \
	[46] = 32768, [47] = 16384, [48] = 16384, [49] = 16384, [52] = 32768, [53] = 32768,        \
	[54] = 2046, [55] = 32768, [56] = 131072, [57] = 65536, [58] = 16384, [59] = 16384,        \
	[60] = 16384, [61] = 32768, [62] = 2048, [63] = 32768, [64] = 32768, [65] = 2048,          \
	[66] = 32768, [67] = 32768, [68] = 2046, [69] = 268435456, [70] = 131072, [71] = 65000,    \
	[72] = 2097120, [73] = 32768, [74] = 32768, [77] = 32768

#define PEERS_CPU 2 /* memory is memfds, which every process can map */

int cpu_probe(const struct device_config *config, struct device_info *infos, size_t capacity)
{
	if (!capacity)
		return 1;
	infos[0] = (struct device_info){.name = "gdev software GPU",
		.uuid = "gdev-software-0",
		.peers = PEERS_CPU,
		.memory_bytes = config->memory_bytes ? config->memory_bytes : memfd_default_bytes(),
		.properties = {
			[PROPERTY_MAX_THREADS_PER_BLOCK] = 1024,
			[PROPERTY_MAX_BLOCK_X] = 1024,
			[PROPERTY_MAX_BLOCK_Y] = 1024,
			[PROPERTY_MAX_BLOCK_Z] = 64,
			[PROPERTY_MAX_GRID_X] = INT32_MAX,
			[PROPERTY_MAX_GRID_Y] = 65535,
			[PROPERTY_MAX_GRID_Z] = 65535,
			[PROPERTY_MAX_SHARED_BYTES_PER_BLOCK] = 48 << 10,
			[PROPERTY_CONSTANT_BYTES] = 64 << 10,
			[PROPERTY_WARP_SIZE] = 32,
			[PROPERTY_MAX_PITCH] = INT32_MAX,
			[PROPERTY_MAX_REGISTERS_PER_BLOCK] = 64 << 10,
			[PROPERTY_CLOCK_KHZ] = clock_khz(),
			[14] = 512, /* texture alignment */
			[15] = 1,   /* copies overlap kernels */
			[PROPERTY_MULTIPROCESSORS] = (int32_t)cpu_thread_count(config),
			[PROPERTY_PART_STEP] = 1,
			[19] = 1,   /* host memory can be mapped */
			[30] = 512, /* surface alignment */
			[PROPERTY_MEMORY_CLOCK_KHZ] = 1600000,
			[PROPERTY_MEMORY_BUS_BITS] = 128,
			[PROPERTY_L2_BYTES] = cache_bytes(),
			[PROPERTY_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
			[PROPERTY_COPY_ENGINES] = 2,
			[41] = 1,  /* unified addressing */
			[51] = 32, /* texture pitch alignment */
			[PROPERTY_COMPUTE_MAJOR] = CPU_TARGET / 10,
			[PROPERTY_COMPUTE_MINOR] = CPU_TARGET % 10,
			[78] = 1, /* stream priorities */
			[79] = 1, /* global memory is cached */
			[80] = 1, /* local memory is cached */
			[PROPERTY_MAX_SHARED_BYTES_PER_MULTIPROCESSOR] = 228 << 10,
			[PROPERTY_MAX_REGISTERS_PER_MULTIPROCESSOR] = 64 << 10,
			/* The device's memory is the program's, on the same processors; but not the program's own. */
			[PROPERTY_MANAGED_MEMORY] = 1,
			[PROPERTY_HOST_NATIVE_ATOMICS] = 1,
			[PROPERTY_CONCURRENT_MANAGED_ACCESS] = 1,
			[PROPERTY_DIRECT_MANAGED_ACCESS_FROM_HOST] = 1,
			[87] = 2, /* single to double precision speed */
			[PROPERTY_MAX_SHARED_BYTES_PER_BLOCK_OPTIN] = SHARED_BYTES_MAX,
			[PROPERTY_MAX_BLOCKS_PER_MULTIPROCESSOR] = 32,
			TEXTURE_LIMITS,
			[44] = 1, /* textures of two dimensions can be gathered from */
			[PROPERTY_PLAIN_TEXTURES] = TEXTURE_MAGIC,
			[95] = 1,        /* cooperative launches */
			[120] = 1,       /* clusters */
			[127] = 1,       /* tensor maps */
			[111] = 1 << 10, /* shared memory a block that the system keeps */
		}};
	return 1;
}

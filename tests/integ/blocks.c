/* SPDX-License-Identifier: MIT
 *
 * Launches kernels of which each block adds one to a word of its own, for a time, and says whether each block was there once a
 * launch: "blocks SECONDS BLOCK_US". Prints "busy" when the first has begun, and at the end how many launches there were. The
 * kernel is one that the driver made for tests knows, too.
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS 600
#define THREADS 1024

static const char tally_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry tally(.param .u64 at, .param .u32 us)\n{\n"
	".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
	"ld.param.u64 %d1, [at]; ld.param.u32 %r1, [us]; mov.u32 %r2, %tid.x;\n"
	"setp.ne.u32 %p1, %r2, 0; @%p1 ret;\n"
	"mov.u32 %r3, %ctaid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;\n"
	"red.global.add.u32 [%d1], 1;\n"
	"mov.u64 %d3, %globaltimer; mul.wide.u32 %d4, %r1, 1000; add.u64 %d4, %d4, %d3;\n"
	"L: mov.u64 %d3, %globaltimer; setp.lt.u64 %p2, %d3, %d4; @%p2 bra L;\nret;\n}\n";

int main(int argc, char **argv)
{
	CUfunction tally = begin_with(tally_ptx, "tally");
	uint32_t us = argc > 2 ? (uint32_t)atoi(argv[2]) : 1, words[BLOCKS], launches = 0;
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	CUdeviceptr at;
	void *params[] = {&at, &us};

	must(cuMemAlloc(&at, sizeof words), "allocate");
	must(cuMemsetD32(at, 0, BLOCKS), "clear");
	while (time(NULL) < end) {
		must(cuLaunchKernel(tally, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL),
			"launch");
		must(cuLaunchKernel(tally, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL),
			"launch another");
		if (!launches)
			puts("busy");
		fflush(stdout);
		launches += 2;
		must(cuCtxSynchronize(), "synchronise");
	}
	must(cuMemcpyDtoH(words, at, sizeof words), "copy");
	for (int i = 0; i < BLOCKS; i++)
		if (words[i] != launches) {
			printf("block %d was done %u times in %u launches\n", i, words[i],
				launches);
			return 1;
		}
	printf("%u\n", launches);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Launches kernels of which each block adds one to a word of its own, for a time, and says whether each block was there once a
 * launch: "blocks SECONDS BLOCK_US"; 0 SECONDS: until its standard input ends. Prints "busy" when the first has begun, and at
 * the end how many launches there were.
 * "blocks SECONDS ROUND_US ROUNDS": a few blocks, each of which adds one in so many rounds, from barrier to barrier. The
 * kernels are such as the driver made for tests knows, too.
 */
#include "program.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 600
#define THREADS 1024
#define FEW 2

static const char kernels_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry tally(.param .u64 at, .param .u32 us)\n{\n"
	".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
	"ld.param.u64 %d1, [at]; ld.param.u32 %r1, [us]; mov.u32 %r2, %tid.x;\n"
	"setp.ne.u32 %p1, %r2, 0; @%p1 ret;\n"
	"mov.u32 %r3, %ctaid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;\n"
	"red.global.add.u32 [%d1], 1;\n"
	"mov.u64 %d3, %globaltimer; mul.wide.u32 %d4, %r1, 1000; add.u64 %d4, %d4, %d3;\n"
	"L: mov.u64 %d3, %globaltimer; setp.lt.u64 %p2, %d3, %d4; @%p2 bra L;\nret;\n}\n"
	".visible .entry rounds(.param .u64 at, .param .u32 us, .param .u32 n)\n{\n"
	".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
	"ld.param.u64 %d1, [at]; ld.param.u32 %r1, [us]; ld.param.u32 %r4, [n]; mov.u32 %r2, %tid.x;\n"
	"setp.ne.u32 %p1, %r2, 0; mov.u32 %r3, %ctaid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;\n"
	"mul.wide.u32 %d5, %r1, 1000; mov.u32 %r5, 0;\n"
	"R: bar.sync 0; @%p1 bra E; red.global.add.u32 [%d1], 1;\n"
	"mov.u64 %d3, %globaltimer; add.u64 %d4, %d5, %d3;\n"
	"L: mov.u64 %d3, %globaltimer; setp.lt.u64 %p2, %d3, %d4; @%p2 bra L;\n"
	"E: add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r4; @%p3 bra R;\nret;\n}\n";

static int ordered_to_end(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

int main(int argc, char **argv)
{
	uint32_t us = argc > 2 ? (uint32_t)atoi(argv[2]) : 1, words[BLOCKS], launches = 0;
	uint32_t rounds = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
	CUfunction function = begin_with(kernels_ptx, argc > 3 ? "rounds" : "tally");
	unsigned blocks = argc > 3 ? FEW : BLOCKS;
	int seconds = argc > 1 ? atoi(argv[1]) : 1;
	time_t end = time(NULL) + seconds;
	CUdeviceptr at;
	void *params[] = {&at, &us, &rounds};

	must(cuMemAlloc(&at, sizeof words), "allocate");
	must(cuMemsetD32(at, 0, BLOCKS), "clear");
	do {
		must(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL),
			"launch");
		must(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL),
			"launch another");
		if (!launches)
			puts("busy");
		fflush(stdout);
		launches += 2;
		must(cuCtxSynchronize(), "synchronise");
	} while (seconds ? time(NULL) < end : !ordered_to_end());
	must(cuMemcpyDtoH(words, at, sizeof words), "copy");
	for (unsigned i = 0; i < blocks; i++)
		if (words[i] != launches * rounds) {
			printf("block %u was done %u times in %u launches\n", i, words[i],
				launches);
			return 1;
		}
	printf("%u\n", launches);
	return 0;
}

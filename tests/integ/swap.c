/* SPDX-License-Identifier: MIT
 *
 * A program that fills OBJECTS objects of MIB each, runs ROUNDS kernels over all of them, and looks whether
 * every word is right. `swap OBJECTS MIB ROUNDS [CASE]`; cases:
 *   wait    writes "ready" when the objects are filled, and goes on when it can read a line
 *   fill    fills with memset, a part of it twice, instead of copying
 *   late    copies back pieces that begin and end anywhere
 * Exit status 0: all was right; 2: out of memory.
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t first_value(uint32_t object, uint32_t word, const char *mode)
{
	if (strcmp(mode, "fill"))
		return word * 2654435761u + object;
	return word < 1000000 ? object + 1 : object + 7;
}

static void fill(CUdeviceptr at, uint32_t *words, uint32_t count, uint32_t object, const char *mode)
{
	if (strcmp(mode, "fill")) {
		for (uint32_t i = 0; i < count; i++)
			words[i] = first_value(object, i, mode);
		must(cuMemcpyHtoD(at, words, 4ul * count), "copy to the device");
		return;
	}
	must(cuMemsetD32(at, object + 7, count), "fill");
	must(cuMemsetD32(at, object + 1, 1000000), "fill a part");
}

static int check(CUdeviceptr at, uint32_t *words, uint32_t count, uint32_t object, unsigned rounds,
	const char *mode)
{
	uint32_t done = 0, step = strcmp(mode, "late") ? count : 1234567;

	while (done < count) {
		uint32_t some = count - done < step ? count - done : step;
		must(cuMemcpyDtoH(words + done, at + 4ul * done, 4ul * some), "copy back");
		done += some;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t expected = first_value(object, i, mode);
		for (unsigned r = 0; r < rounds; r++)
			expected = expected * 3 + i;
		if (words[i] == expected)
			continue;
		fprintf(stderr, "swap: object %u, word %u is %#x, not %#x\n", object, i, words[i],
			expected);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned objects = argc > 3 ? (unsigned)atoi(argv[1]) : 0;
	unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	uint32_t count = argc > 3 ? (uint32_t)atoi(argv[2]) << 18 : 0;
	const char *mode = argc > 4 ? argv[4] : "";
	CUdeviceptr at[64];
	CUfunction step;
	uint32_t *words = malloc(4ul * count);
	int bad = 0;

	if (!objects || objects > 64 || !count || !words)
		return 3;
	step = begin_with(step_ptx, "step");
	for (unsigned i = 0; i < objects; i++)
		must(cuMemAlloc(&at[i], 4ul * count), "allocate");
	for (unsigned i = 0; i < objects; i++)
		fill(at[i], words, count, i, mode);
	if (!strcmp(mode, "wait")) {
		char line[16];
		must(cuCtxSynchronize(), "wait");
		printf("ready\n");
		fflush(stdout);
		if (!fgets(line, sizeof line, stdin))
			return 3;
	}
	for (unsigned r = 0; r < rounds; r++) {
		for (unsigned i = 0; i < objects; i++)
			must(launch_step(step, at[i], count), "launch");
		must(cuCtxSynchronize(), "synchronize");
	}
	for (unsigned i = 0; i < objects; i++)
		bad |= check(at[i], words, count, i, rounds, mode);
	for (unsigned i = 0; i < objects; i++)
		must(cuMemFree(at[i]), "free");
	free(words);
	return bad;
}

/* SPDX-License-Identifier: MIT
 *
 * Loads an image from a file, and launches its kernel `attack` if it has one. Says what came of it, a word each; how it
 * ends is the test's to judge.
 */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>

static CUresult say(CUresult result, const char *what)
{
	const char *name = "?";

	cuGetErrorName(result, &name);
	printf("%s %s\n", what, name);
	fflush(stdout);
	return result;
}

static void *read_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *bytes;
	long length;

	if (!file || fseek(file, 0, SEEK_END))
		exit(2);
	length = ftell(file);
	bytes = calloc(1, (size_t)length + 64);
	rewind(file);
	if (!bytes || fread(bytes, 1, (size_t)length, file) != (size_t)length)
		exit(2);
	fclose(file);
	return bytes;
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUmodule module;
	CUfunction function;
	unsigned blocks = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	unsigned threads = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	CUdevice device;

	if (say(cuInit(0), "init") || say(cuDeviceGet(&device, 0), "device") ||
		say(cuCtxCreate(&context, NULL, 0, device), "open"))
		return 1;
	if (say(cuModuleLoadData(&module, read_file(argv[1])), "load"))
		return 0;
	if (cuModuleGetFunction(&function, module, "attack"))
		return 0;
	if (say(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, NULL, NULL),
		    "launch"))
		return 0;
	say(cuCtxSynchronize(), "run");
	return 0;
}

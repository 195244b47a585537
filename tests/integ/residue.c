/* SPDX-License-Identifier: MIT
 *
 * Whether memory shows what another session has left: `residue fill free|leave|kill MIB` writes a pattern
 * into that much device memory, through staging memory and into page-locked memory, and goes;
 * `residue scan MIB` looks for anything in its own, fresh memory, and says where. MIB 0: most of what is
 * free.
 */
#include <cuda.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN 0xfeedface
#define HOST_BYTES ((size_t)64 << 20)
#define OBJECTS_MAX 4096

/* counts[0] += words that are the pattern, counts[1] += words that are not 0 */
static const char ptx[] =
	".version 6.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry scan(.param .u64 at, .param .u64 words, .param .u64 counts,\n"
	"	.param .u32 pattern)\n"
	"{\n"
	"	.reg .u64 %a, %n, %c, %i, %s, %x, %w;\n"
	"	.reg .u32 %p, %v, %t, %b, %d, %g;\n"
	"	.reg .pred %q;\n"
	"	ld.param.u64 %a, [at];\n"
	"	ld.param.u64 %n, [words];\n"
	"	ld.param.u64 %c, [counts];\n"
	"	ld.param.u32 %p, [pattern];\n"
	"	mov.u32 %t, %tid.x;\n"
	"	mov.u32 %b, %ctaid.x;\n"
	"	mov.u32 %d, %ntid.x;\n"
	"	mov.u32 %g, %nctaid.x;\n"
	"	mul.wide.u32 %i, %b, %d;\n"
	"	cvt.u64.u32 %x, %t;\n"
	"	add.u64 %i, %i, %x;\n"
	"	mul.wide.u32 %s, %d, %g;\n"
	"next:\n"
	"	setp.ge.u64 %q, %i, %n;\n"
	"	@%q bra done;\n"
	"	shl.b64 %x, %i, 2;\n"
	"	add.u64 %x, %a, %x;\n"
	"	ld.global.u32 %v, [%x];\n"
	"	setp.ne.u32 %q, %v, %p;\n"
	"	@%q bra other;\n"
	"	atom.global.add.u64 %w, [%c], 1;\n"
	"other:\n"
	"	setp.eq.u32 %q, %v, 0;\n"
	"	@%q bra zero;\n"
	"	atom.global.add.u64 %w, [%c+8], 1;\n"
	"zero:\n"
	"	add.u64 %i, %i, %s;\n"
	"	bra next;\n"
	"done:\n"
	"	ret;\n"
	"}\n";

static CUdeviceptr objects[OBJECTS_MAX];
static size_t object_count, object_bytes = (size_t)64 << 20;

static void must(CUresult result, const char *what)
{
	const char *name = "?";

	if (!result)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "residue: cannot %s: %s\n", what, name);
	exit(2);
}

/* Objects of several sizes of chunks. */
static void allocate(size_t mib)
{
	size_t free_bytes, total, wanted = mib << 20;

	must(cuMemGetInfo(&free_bytes, &total), "ask for memory");
	if (!mib)
		wanted = free_bytes / 10 * 9;
	if (wanted < (size_t)4 << 30)
		object_bytes = (size_t)6 << 20;
	for (; object_count < OBJECTS_MAX && wanted >= object_bytes; wanted -= object_bytes) {
		must(cuMemAlloc(&objects[object_count], object_bytes), "allocate");
		object_count++;
	}
}

static void fill(const char *how, size_t mib)
{
	uint32_t *pageable = malloc(HOST_BYTES), *locked;

	allocate(mib);
	must(cuMemAllocHost((void **)&locked, HOST_BYTES), "allocate page-locked memory");
	for (size_t i = 0; i < HOST_BYTES / sizeof *locked; i++)
		pageable[i] = locked[i] = PATTERN;
	for (size_t i = 0; i < object_count; i++)
		must(cuMemsetD32(objects[i], PATTERN, object_bytes / 4), "fill");
	for (size_t i = 0; i < 4 && i < object_count; i++)
		must(cuMemcpyHtoD(objects[i], pageable, object_bytes), "copy");
	must(cuCtxSynchronize(), "wait");
	printf("filled %zu MiB\n", object_count * object_bytes >> 20);
	fflush(stdout);
	if (!strcmp(how, "kill"))
		raise(SIGKILL);
	for (size_t i = 0; !strcmp(how, "free") && i < object_count; i++)
		must(cuMemFree(objects[i]), "free");
	free(pageable);
}

static size_t words_that_are(uint32_t value, const uint32_t *words, size_t bytes)
{
	size_t count = 0;

	for (size_t i = 0; i < bytes / sizeof *words; i++)
		count += words[i] == value;
	return count;
}

/* What this process shares with its worker: staging memory. */
static size_t scan_mappings(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	size_t found = 0;
	char line[512], rights[8];

	while (fgets(line, sizeof line, maps))
		if (strstr(line, name) && sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 &&
			rights[0] == 'r')
			found += words_that_are(PATTERN, (const uint32_t *)from, to - from);
	fclose(maps);
	return found;
}

static int scan(size_t mib)
{
	size_t staging = scan_mappings("gdev-staging"), host;
	uint64_t words, counts[2] = {0}, seen[2];
	uint32_t *locked, pattern = PATTERN;
	CUdeviceptr object, result;
	CUmodule module;
	CUfunction kernel;
	void *params[] = {&object, &words, &result, &pattern};

	must(cuMemAllocHost((void **)&locked, HOST_BYTES), "allocate page-locked memory");
	host = words_that_are(PATTERN, locked, HOST_BYTES);
	allocate(mib);
	must(cuModuleLoadData(&module, ptx), "load");
	must(cuModuleGetFunction(&kernel, module, "scan"), "find the kernel");
	must(cuMemAlloc(&result, sizeof counts), "allocate");
	must(cuMemsetD32(result, 0, sizeof counts / 4), "clear");
	words = object_bytes / 4;
	for (size_t i = 0; i < object_count; i++) {
		object = objects[i];
		must(cuLaunchKernel(kernel, 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL), "launch");
	}
	must(cuMemcpyDtoH(counts, result, sizeof counts), "copy");
	/* The kernel finds what is there. */
	must(cuMemsetD32(object, PATTERN, words), "fill");
	must(cuLaunchKernel(kernel, 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL), "launch");
	must(cuMemcpyDtoH(seen, result, sizeof seen), "copy");
	if (seen[0] != counts[0] + words)
		must(CUDA_ERROR_UNKNOWN, "find what has just been written");
	printf("scanned %zu MiB: %llu words of the pattern, %llu not 0; in staging memory %zu, in "
	       "page-locked memory %zu\n",
		object_count * object_bytes >> 20, (unsigned long long)counts[0],
		(unsigned long long)counts[1], staging, host);
	return counts[0] || counts[1] || staging || host;
}

int main(int argc, char **argv)
{
	CUcontext context;

	if (argc < 3)
		return 2;
	must(cuInit(0), "cuInit");
	must(cuCtxCreate(&context, NULL, 0, 0), "create a context");
	if (!strcmp(argv[1], "scan"))
		return scan(strtoul(argv[2], NULL, 10));
	fill(argv[2], strtoul(argv[3], NULL, 10));
	return 0;
}

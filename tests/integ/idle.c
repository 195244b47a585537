/* SPDX-License-Identifier: MIT
 *
 * A program that pauses between rounds, in each of which it uses what it has made before: a stream, events, a module with
 * a variable, device and page-locked memory, and on the software GPU, where these are memory, too, a texture and a surface of an array. `idle ROUNDS [CASE]`; before each round it writes "ready" and reads a line. ROUNDS 0: until
 * its standard input ends.
 * Cases:
 *   race    pauses for up to MICROSECONDS (third argument) instead
 *   named   asks for its variable's address first
 *   shared  has a handle made, by which others could share its memory
 * Exit status 0: all was right; 2: out of memory.
 */
#include "program.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS (1u << 20)

/* count(): adds one to the variable. */
static const char count_ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
				".global .u32 counted;\n"
				".visible .entry count()\n{\n.reg .u32 %r<2>;\n"
				"ld.global.u32 %r1, [counted];\nadd.u32 %r1, %r1, 1;\n"
				"st.global.u32 [counted], %r1;\nret;\n}\n";

/* rise(texture, surface): each of 64 elements is one more than it was. */
static const char rise_ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
			       ".visible .entry rise(.param .u64 t, .param .u64 s)\n{\n"
			       ".reg .b64 %t, %s;\n.reg .b32 %x, %b, %r<4>;\n"
			       "ld.param.u64 %t, [t];\nld.param.u64 %s, [s];\nmov.u32 %x, %tid.x;\n"
			       "tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%x}];\n"
			       "add.u32 %r0, %r0, 1;\nshl.b32 %b, %x, 2;\n"
			       "sust.b.1d.b32.trap [%s, {%b}], %r0;\nret;\n}\n";

#define ELEMENTS 64

struct picture {
	CUarray array; /* NULL: the device's would keep the context */
	CUfunction rise;
	CUtexObject texture;
	CUsurfObject surface;
};

struct things {
	CUmodule module;
	CUfunction step, count;
	CUstream stream;
	CUevent begun, done;
	CUdeviceptr buffer;
	uint32_t *words; /* page-locked */
	struct picture picture;
};

static void expect(int right, const char *what, unsigned round)
{
	if (right)
		return;
	fprintf(stderr, "idle: round %u: %s is wrong\n", round, what);
	exit(1);
}

static void make_picture(struct picture *p)
{
	CUDA_ARRAY3D_DESCRIPTOR description = {
		ELEMENTS, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	uint32_t zeros[ELEMENTS] = {0};
	CUmodule module;
	int is_memory;

	must(cuDeviceGetAttribute(
		     &is_memory, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0),
		"ask the device");
	p->array = NULL;
	if (!is_memory)
		return;
	must(cuArray3DCreate(&p->array, &description), "make an array");
	must(cuMemcpyHtoA(p->array, 0, zeros, sizeof zeros), "clear the array");
	resource.res.array.hArray = p->array;
	must(cuTexObjectCreate(&p->texture, &resource, &sampling, NULL), "make a texture");
	must(cuSurfObjectCreate(&p->surface, &resource), "make a surface");
	must(cuModuleLoadData(&module, rise_ptx), "load the module of textures");
	must(cuModuleGetFunction(&p->rise, module, "rise"), "find rise");
}

static void use_picture(struct picture *p, unsigned round)
{
	void *params[] = {&p->texture, &p->surface};
	uint32_t elements[ELEMENTS];

	if (!p->array)
		return;
	must(cuLaunchKernel(p->rise, 1, 1, 1, ELEMENTS, 1, 1, 0, NULL, params, NULL), "launch");
	must(cuMemcpyAtoH(elements, p->array, 0, sizeof elements), "copy the array back");
	for (unsigned i = 0; i < ELEMENTS; i++)
		expect(elements[i] == round + 1, "an element of the array", round);
}

static void make(struct things *t, const char *mode)
{
	char handle[64];

	t->step = begin_with(step_ptx, "step");
	must(cuModuleLoadData(&t->module, count_ptx), "load the module");
	must(cuModuleGetFunction(&t->count, t->module, "count"), "find count");
	must(cuStreamCreate(&t->stream, CU_STREAM_NON_BLOCKING), "make a stream");
	must(cuEventCreate(&t->begun, 0), "make an event");
	must(cuEventCreate(&t->done, 0), "make an event");
	must(cuMemAlloc(&t->buffer, WORDS * 4ul), "allocate");
	must(cuMemAllocHost((void **)&t->words, WORDS * 4ul), "allocate page-locked memory");
	for (uint32_t i = 0; i < WORDS; i++)
		t->words[i] = i * 2654435761u;
	must(cuMemcpyHtoD(t->buffer, t->words, WORDS * 4ul), "copy to the device");
	make_picture(&t->picture);
	must(cuEventRecord(t->begun, t->stream), "record");
	must(cuStreamSynchronize(t->stream), "wait");
	if (!strcmp(mode, "shared"))
		must(cuIpcGetMemHandle((CUipcMemHandle *)handle, t->buffer), "make a handle");
}

static uint32_t counted(struct things *t)
{
	CUdeviceptr address;
	uint32_t value;
	size_t bytes;

	must(cuModuleGetGlobal(&address, &bytes, t->module, "counted"), "find the variable");
	must(cuMemcpyDtoH(&value, address, sizeof value), "read the variable");
	return value;
}

/* An event of the round before, work on a stream that was made long ago, and new memory. */
static void use(struct things *t, unsigned round)
{
	uint32_t words[] = {WORDS}, sample;
	void *params[] = {&t->buffer, words};
	CUdeviceptr more;
	float ms = -1;

	must(cuEventQuery(t->begun), "query");
	use_picture(&t->picture, round);
	must(cuLaunchKernel(t->count, 1, 1, 1, 1, 1, 1, 0, t->stream, NULL, NULL), "launch");
	must(cuLaunchKernel(t->step, WORDS / 256, 1, 1, 256, 1, 1, 0, t->stream, params, NULL),
		"launch");
	must(cuEventRecord(t->done, t->stream), "record");
	must(cuMemcpyDtoHAsync(t->words, t->buffer, WORDS * 4ul, t->stream), "copy back");
	must(cuMemAlloc(&more, 3 << 20), "allocate more");
	must(cuMemsetD32(more, round, 3 << 18), "fill");
	must(cuMemcpyDtoH(&sample, more + (2 << 20), sizeof sample), "copy back a word");
	expect(sample == round, "new memory", round);
	must(cuMemFree(more), "free");
	must(cuStreamSynchronize(t->stream), "wait");
	must(cuEventElapsedTime(&ms, t->begun, t->done), "elapsed time");
	expect(ms >= 0, "the time between events", round);
	must(cuEventRecord(t->begun, t->stream), "record");
	must(cuEventSynchronize(t->begun), "wait for the event");
	for (uint32_t i = 0; i < WORDS; i += 997) {
		uint32_t expected = i * 2654435761u;
		for (unsigned r = 0; r <= round; r++)
			expected = expected * 3 + i;
		expect(t->words[i] == expected, "a word", round);
	}
}

static int pause_for(const char *mode, unsigned most_us, int until_told)
{
	struct timespec pause = {.tv_nsec = (long)((unsigned)rand() % most_us) * 1000};
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[16];

	if (!strcmp(mode, "race"))
		return ppoll(&input, until_told, &pause, NULL);
	printf("ready\n");
	fflush(stdout);
	return fgets(line, sizeof line, stdin) ? 0 : -1;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1, round;
	const char *mode = argc > 2 ? argv[2] : "";
	struct things t;

	srand((unsigned)getpid());
	make(&t, mode);
	if (!strcmp(mode, "named"))
		expect(counted(&t) == 0, "the variable", 0);
	for (round = 0; !rounds || round < rounds; round++) {
		if (pause_for(mode, argc > 3 ? (unsigned)atoi(argv[3]) : 1000, !rounds)) {
			if (rounds)
				return 3;
			break;
		}
		use(&t, round);
	}
	expect(counted(&t) == round, "the variable", round);
	must(cuMemFree(t.buffer), "free");
	must(cuStreamDestroy(t.stream), "destroy the stream");
	return 0;
}

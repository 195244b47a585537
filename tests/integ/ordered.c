/* SPDX-License-Identifier: MIT
 *
 * A program whose streams wait for each other: `ordered SEED COMMANDS`. Each command is in a stream of its own choice, behind
 * what it depends on, and nothing else orders them: fills and steps of a word, and copies from one to another. Exit status 0:
 * the words are as if one had followed the other; 1: one is not.
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>

#define WORDS 6
#define STREAMS 6
#define APART 4096 /* bytes */
#define BATCH 100  /* commands; then the words are looked at */

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry step(.param .u64 at, .param .u32 words)\n{\n"
	".reg .b32 %r<2>; .reg .b64 %d<2>;\n"
	"ld.param.u64 %d1, [at]; ld.global.u32 %r1, [%d1]; mul.lo.u32 %r1, %r1, 3;\n"
	"st.global.u32 [%d1], %r1;\nret;\n}\n"
	".visible .entry spin(.param .u64 ns)\n{\n"
	".reg .pred %p<2>; .reg .b64 %d<4>;\n"
	"ld.param.u64 %d1, [ns]; mov.u64 %d2, %globaltimer; add.u64 %d1, %d1, %d2;\n"
	"L: mov.u64 %d3, %globaltimer; setp.lt.u64 %p1, %d3, %d1; @%p1 bra L;\nret;\n}\n";

static CUdeviceptr memory;
static CUfunction step, spin;
static CUstream streams[STREAMS];
static struct word {
	uint32_t value;        /* what it will be */
	CUevent written;       /* by the stream that it was in last; */
	CUevent read[STREAMS]; /* and since then by these */
	int writer, reads[STREAMS];
} words[WORDS];

static uint32_t pick(uint32_t below)
{
	return (uint32_t)random() % below;
}

static CUdeviceptr at(unsigned word)
{
	return memory + word * APART;
}

static void wait_for(int stream, int other, CUevent event)
{
	if (other != stream)
		must(cuStreamWaitEvent(streams[stream], event, 0), "wait");
}

static void begin_read(unsigned word, int stream)
{
	wait_for(stream, words[word].writer, words[word].written);
}

static void end_read(unsigned word, int stream)
{
	must(cuEventRecord(words[word].read[stream], streams[stream]), "record");
	words[word].reads[stream] = 1;
}

static void begin_write(unsigned word, int stream)
{
	begin_read(word, stream);
	for (int i = 0; i < STREAMS; i++) {
		if (words[word].reads[i])
			wait_for(stream, i, words[word].read[i]);
		words[word].reads[i] = 0;
	}
}

static void end_write(unsigned word, int stream)
{
	must(cuEventRecord(words[word].written, streams[stream]), "record");
	words[word].writer = stream;
}

static void delay(int stream)
{
	uint64_t ns = pick(50000);
	void *parameters[] = {&ns};

	must(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, streams[stream], parameters, NULL), "spin");
}

static void command(void)
{
	unsigned to = pick(WORDS), from = pick(WORDS);
	int stream = (int)pick(STREAMS);
	uint32_t one = 1, value = pick(1000) + 1;
	CUdeviceptr target = at(to);
	void *parameters[] = {&target, &one};

	begin_write(to, stream);
	if (!pick(3))
		delay(stream);
	switch (pick(4)) {
	case 0:
		must(cuMemsetD32Async(target, value, 1, streams[stream]), "fill");
		words[to].value = value;
		break;
	case 1:
		begin_read(from, stream);
		must(cuMemcpyDtoDAsync(target, at(from), 4, streams[stream]), "copy");
		words[to].value = words[from].value;
		if (from != to)
			end_read(from, stream);
		break;
	default:
		must(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, streams[stream], parameters, NULL),
			"step");
		words[to].value *= 3;
	}
	end_write(to, stream);
}

static int check(void)
{
	uint32_t found;

	must(cuCtxSynchronize(), "wait");
	for (unsigned i = 0; i < WORDS; i++) {
		must(cuMemcpyDtoH(&found, at(i), 4), "copy back");
		if (found == words[i].value)
			continue;
		fprintf(stderr, "ordered: word %u is %u, not %u\n", i, found, words[i].value);
		return 1;
	}
	return 0;
}

static void begin(void)
{
	CUmodule module;

	step = begin_with(ptx, "step");
	must(cuFuncGetModule(&module, step), "find the module");
	must(cuModuleGetFunction(&spin, module, "spin"), "find the kernel");
	must(cuMemAlloc(&memory, WORDS * APART), "allocate");
	must(cuMemsetD32(memory, 0, WORDS * APART / 4), "clear");
	for (unsigned i = 0; i < STREAMS; i++)
		must(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "make a stream");
	for (unsigned i = 0; i < WORDS; i++) {
		must(cuEventCreate(&words[i].written, CU_EVENT_DISABLE_TIMING), "make an event");
		for (unsigned k = 0; k < STREAMS; k++)
			must(cuEventCreate(&words[i].read[k], CU_EVENT_DISABLE_TIMING),
				"make an event");
	}
	must(cuCtxSynchronize(), "wait");
}

int main(int argc, char **argv)
{
	unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	int bad = 0;

	if (!count)
		return 3;
	srandom((unsigned)atoi(argv[1]));
	begin();
	for (unsigned i = 1; i <= count && !bad; i++) {
		command();
		if (i % BATCH == 0 || i == count)
			bad = check();
	}
	return bad;
}

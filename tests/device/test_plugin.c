/* SPDX-License-Identifier: MIT
 *
 * The software GPU as the worker has it: the plugin, with the compiler, running PTX.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "gdev/error.h"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
	".extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);\n"
	".global .align 4 .u32 answer = 42;\n"
	".global .align 1 .b8 format[10] = {98, 108, 111, 99, 107, 32, 37, 117, 10, 0};\n"
	".global .align 1 .b8 message[6] = {120, 32, 62, 32, 48, 0};\n"
	".global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};\n"
	".global .align 1 .b8 where[2] = {102, 0};\n"
	/* c[i] = a[i] + b[i] */
	".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n"
	"\t.reg .u32 %r<5>;\n\t.reg .u64 %d<8>;\n\t.reg .f32 %f<4>;\n"
	"\tld.param.u64 %d1, [a];\n\tld.param.u64 %d2, [b];\n\tld.param.u64 %d3, [c];\n"
	"\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %ntid.x;\n\tmov.u32 %r3, %tid.x;\n"
	"\tmad.lo.u32 %r4, %r1, %r2, %r3;\n\tmul.wide.u32 %d4, %r4, 4;\n"
	"\tadd.u64 %d5, %d1, %d4;\n\tadd.u64 %d6, %d2, %d4;\n\tadd.u64 %d7, %d3, %d4;\n"
	"\tld.global.f32 %f1, [%d5];\n\tld.global.f32 %f2, [%d6];\n\tadd.f32 %f3, %f1, %f2;\n"
	"\tst.global.f32 [%d7], %f3;\n\tret;\n}\n"
	/* *p += tid, atomically */
	".visible .entry sum(.param .u64 p)\n{\n\t.reg .u32 %r<3>;\n\t.reg .u64 %d<2>;\n"
	"\tld.param.u64 %d1, [p];\n\tmov.u32 %r1, %tid.x;\n"
	"\tatom.global.add.u32 %r2, [%d1], %r1;\n\tret;\n}\n"
	/* p[ctaid * ntid + tid] = ntid - 1 - tid, by way of shared memory and a barrier */
	".visible .entry reverse(.param .u64 p)\n{\n\t.reg .u32 %r<8>;\n\t.reg .u64 %d<4>;\n"
	"\t.shared .align 4 .b8 tile[4096];\n"
	"\tld.param.u64 %d1, [p];\n\tmov.u32 %r1, %tid.x;\n\tmov.u32 %r2, %ntid.x;\n"
	"\tmov.u32 %r3, tile;\n\tshl.b32 %r4, %r1, 2;\n\tadd.u32 %r4, %r3, %r4;\n"
	"\tst.shared.u32 [%r4], %r1;\n\tbar.sync 0;\n"
	"\tsub.u32 %r5, %r2, %r1;\n\tsub.u32 %r5, %r5, 1;\n\tshl.b32 %r5, %r5, 2;\n"
	"\tadd.u32 %r5, %r3, %r5;\n\tld.shared.u32 %r6, [%r5];\n"
	"\tmov.u32 %r7, %ctaid.x;\n\tmad.lo.u32 %r7, %r7, %r2, %r1;\n\tmul.wide.u32 %d2, %r7, 4;\n"
	"\tadd.u64 %d3, %d1, %d2;\n\tst.global.u32 [%d3], %r6;\n\tret;\n}\n"
	/* *p = value */
	".visible .entry store(.param .u64 p, .param .u32 value)\n{\n\t.reg .u32 %r<2>;\n\t.reg .u64 %d<2>;\n"
	"\tld.param.u64 %d1, [p];\n\tld.param.u32 %r1, [value];\n\tst.global.u32 [%d1], %r1;\n\tret;\n}\n"
	/* *p = answer++ */
	".visible .entry global(.param .u64 p)\n{\n\t.reg .u32 %r<3>;\n\t.reg .u64 %d<2>;\n"
	"\tld.param.u64 %d1, [p];\n\tld.global.u32 %r1, [answer];\n\tst.global.u32 [%d1], %r1;\n"
	"\tadd.u32 %r2, %r1, 1;\n\tst.global.u32 [answer], %r2;\n\tret;\n}\n"
	/* while (!*p) ; */
	".visible .entry wait(.param .u64 p)\n{\n\t.reg .u32 %r<2>;\n\t.reg .u64 %d<2>;\n\t.reg .pred %q;\n"
	"\tld.param.u64 %d1, [p];\nagain:\n\tld.volatile.global.u32 %r1, [%d1];\n"
	"\tsetp.eq.u32 %q, %r1, 0;\n\t@%q bra again;\n\tret;\n}\n"
	".visible .entry trap()\n{\n\ttrap;\n\tret;\n}\n"
	/* printf("block %u\n", ctaid) */
	".visible .entry print()\n{\n\t.local .align 8 .b8 args[8];\n\t.reg .u64 %d<4>;\n\t.reg .u32 %r<3>;\n"
	"\tmov.u32 %r1, %ctaid.x;\n\tmov.u64 %d1, args;\n\tcvta.local.u64 %d2, %d1;\n"
	"\tst.local.u32 [args], %r1;\n\tmov.u64 %d3, format;\n\tcvta.global.u64 %d3, %d3;\n"
	"\t{\n\t.param .b64 f;\n\tst.param.b64 [f], %d3;\n\t.param .b64 a;\n\tst.param.b64 [a], %d2;\n"
	"\t.param .b32 r;\n\tcall.uni (r), vprintf, (f, a);\n\tld.param.b32 %r2, [r];\n\t}\n\tret;\n}\n"
	".visible .entry check()\n{\n\t.reg .u64 %d<4>;\n"
	"\tmov.u64 %d1, message;\n\tcvta.global.u64 %d1, %d1;\n\tmov.u64 %d2, file;\n"
	"\tcvta.global.u64 %d2, %d2;\n\tmov.u64 %d3, where;\n\tcvta.global.u64 %d3, %d3;\n"
	"\t{\n\t.param .b64 m;\n\tst.param.b64 [m], %d1;\n\t.param .b64 f;\n\tst.param.b64 [f], %d2;\n"
	"\t.param .b32 l;\n\tst.param.b32 [l], 12;\n\t.param .b64 n;\n\tst.param.b64 [n], %d3;\n"
	"\t.param .b64 s;\n\tst.param.b64 [s], 1;\n\tcall.uni __assertfail, (m, f, l, n, s);\n\t}\n\tret;\n}\n";

static struct harness harness;
static struct device_module *module;
static struct device_queue *queue;
static struct device_chunk *memory; /* at harness.base, 2 MiB */

static void load(void)
{
	char text[4096] = "";
	struct device_log log = {text, sizeof text};
	int error = harness_module_load(&harness, ptx, sizeof ptx, &log, &module);

	if (error)
		fail_msg("%s", text);
}

static void with_device(void **state)
{
	void (*test)(void) = (void (*)(void)) * state;

	harness_start(&harness, device_ops_find("cpu"));
	load();
	queue = harness_queue(&harness);
	memory = harness_map(&harness, 0);
	test();
	harness_unmap(&harness, 0, memory);
	harness.ops->queue_destroy(queue);
	harness.ops->module_unload(module);
	harness_stop(&harness);
}

static struct submitted launch(
	const char *name, uint32_t grid, uint32_t block, const uint64_t *params)
{
	struct submitted s = {.command = {.kind = DEVICE_LAUNCH,
				      .launch = {.grid = {grid, 1, 1},
					      .block = {block, 1, 1},
					      .params = params,
					      .param_bytes = 24}}};

	assert_int_equal(harness.ops->function_get(module, name, &s.command.launch.function), 0);
	return s;
}

static int run(const char *name, uint32_t grid, uint32_t block, const uint64_t *params)
{
	struct submitted s = launch(name, grid, block, params);

	return harness_run(&harness, queue, &s);
}

static uint32_t word(uint64_t index)
{
	return ((uint32_t *)harness.base)[index];
}

static void kernels_compute(void)
{
	enum { COUNT = 1 << 16 };
	uint64_t params[3] = {harness.base, harness.base + 4 * COUNT, harness.base + 8 * COUNT};
	float *a = (float *)params[0], *b = (float *)params[1], *c = (float *)params[2];

	for (int i = 0; i < COUNT; i++) {
		a[i] = (float)i;
		b[i] = 0.5f * (float)i;
	}
	assert_int_equal(run("add", COUNT / 128, 128, params), 0);
	for (int i = 0; i < COUNT; i++)
		assert_true(c[i] == 1.5f * (float)i);
}

static void atomics_add_up_over_the_pool(void)
{
	uint64_t params[3] = {harness.base};

	assert_int_equal(run("sum", 2000, 100, params), 0);
	assert_int_equal(word(0), 2000 * 99 * 50);
}

static void barriers_order_shared_memory(void)
{
	uint64_t params[3] = {harness.base};

	for (uint32_t block = 1; block <= 1024; block *= 4) {
		assert_int_equal(run("reverse", 64, block, params), 0);
		for (uint32_t i = 0; i < 64 * block; i++)
			assert_int_equal(word(i), block - 1 - i % block);
	}
}

static void variables_keep_their_values(void)
{
	uint64_t params[3] = {harness.base}, address, bytes;

	assert_int_equal(harness.ops->global_get(module, "answer", &address, &bytes), 0);
	assert_int_equal(bytes, 4);
	assert_int_equal(*(uint32_t *)address, 42);
	assert_int_equal(run("global", 1, 1, params), 0);
	assert_int_equal(word(0), 42);
	assert_int_equal(run("global", 1, 1, params), 0);
	assert_int_equal(word(0), 43);
	assert_int_equal(*(uint32_t *)address, 44);
}

static void kernels_print(void)
{
	uint64_t params[3] = {0};

	assert_int_equal(run("print", 1, 2, params), 0);
	assert_string_equal(harness.printed, "block 0\nblock 0\n");
}

static void code_is_cached_and_checked(void)
{
	uint64_t params[3] = {harness.base};

	assert_int_equal(run("sum", 1, 4, params), 0);
	assert_int_equal(harness.cached, 1);
	for (int damaged = 0; damaged < 2; damaged++) {
		if (damaged)
			harness.cache[0].length /= 2;
		harness.ops->module_unload(module);
		load();
		assert_int_equal(run("sum", 1, 4, params), 0);
		assert_int_equal(harness.cache_hits, 1 + (size_t)damaged);
	}
	assert_int_equal(word(0), 3 * 6);
}

static void a_wild_store_is_an_illegal_address(void)
{
	uint64_t wild[3] = {harness.base + (100 << 20) + 40, 1};
	struct submitted s = launch("store", 1000, 32, wild);

	assert_int_equal(harness_run(&harness, queue, &s), -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(s.command.fault_address, wild[0]);
	wild[0] = harness.base;
	assert_int_equal(run("store", 1, 1, wild), -GDEV_E_SESSION_LOST);
}

static void traps_end_their_space(void)
{
	uint64_t params[3] = {0};

	assert_int_equal(run("trap", 8, 8, params), -GDEV_E_TRAP);
}

static void asserts_say_where(void)
{
	uint64_t params[3] = {0};

	assert_int_equal(run("check", 1, 1, params), -GDEV_E_ASSERT);
	assert_string_equal(harness.printed,
		"a.cu:12: f: block: [0,0,0], thread: [0,0,0] Assertion `x > 0` failed.\n");
}

static void a_kernel_waits_for_a_copy(void)
{
	struct device_queue *other = harness_queue(&harness);
	uint64_t params[3] = {harness.base + 256};
	struct submitted endless = launch("wait", 1, 1, params);
	struct submitted copy = {.command = {.kind = DEVICE_COPY,
					 .copy = {COPY_TO_DEVICE, harness.base + 256, harness.base,
						 4, 1, 1, 0, 0, 0, 0}}};

	*(uint32_t *)harness.base = 1;
	harness_submit(&harness, queue, &endless);
	assert_int_equal(harness_run(&harness, other, &copy), 0);
	assert_int_equal(harness_wait(&harness, &endless), 0);
	harness.ops->queue_destroy(other);
}

#define TEST(name)                                                                                 \
	{                                                                                          \
#name, with_device, NULL, NULL, (void *)name                                       \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kernels_compute),
		TEST(atomics_add_up_over_the_pool),
		TEST(barriers_order_shared_memory),
		TEST(variables_keep_their_values),
		TEST(kernels_print),
		TEST(code_is_cached_and_checked),
		TEST(a_wild_store_is_an_illegal_address),
		TEST(traps_end_their_space),
		TEST(asserts_say_where),
		TEST(a_kernel_waits_for_a_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

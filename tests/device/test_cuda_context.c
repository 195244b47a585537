/* SPDX-License-Identifier: MIT
 *
 * Contexts of device/cuda that are given back and made again, what keeps one, and modules: what they take of the device, and
 * what comes to the driver. Over the driver library that is made for tests, or on a GPU.
 */
#include "harness.h"

#include <elf.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gdev/error.h"
#include "proto/control.h"
#include "proto/fatbin.h"

static struct harness harness;

static int start(void **state)
{
	harness_start(&harness, device_ops_find("cuda"));
	return 0;
}

static int stop(void **state)
{
	harness_stop(&harness);
	return 0;
}

static int run_kernel(struct device_queue *queue, struct device_function *function)
{
	struct submitted s = {.command = {.kind = DEVICE_LAUNCH,
				      .launch = {.function = function,
					      .grid = {1, 1, 1},
					      .block = {1, 1, 1},
					      .params = "",
					      .param_bytes = 0}}};

	return harness_run(&harness, queue, &s);
}

static int context_count(void)
{
	return harness_ask_driver("fake_context_count");
}

/* What a program knows of, and what it has put there, is the same before and after. */
static void a_context_that_was_given_back_is_as_before(void **state)
{
	static const char image[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
				    ".global .u32 counted;\n"
				    ".visible .entry count()\n{\n.reg .u32 %r<2>;\n"
				    "ld.global.u32 %r1, [counted];\nadd.u32 %r1, %r1, 1;\n"
				    "st.global.u32 [counted], %r1;\nret;\n}\n";
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	struct device_module *module;
	struct device_function *function;
	struct device_chunk *chunk;
	uint64_t address = 0, bytes;

	assert_int_equal(harness_module_load(h, image, sizeof image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "count", &function), 0);
	assert_int_equal(h->ops->keeps(h->space), KEPT_BY_NOTHING);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(run_kernel(queue, function), 0);
		assert_int_equal(h->ops->retire(h->space), 0);
		assert_true(context_count() <= 0);
		assert_int_equal(h->ops->revive(h->space), 0);
		assert_true(context_count() != 0);
	}
	chunk = harness_map(h, 1); /* with page-locked memory, on a queue that was there before */
	harness_set_word(h, harness_address(h, 1), 77);
	assert_int_equal(harness_word(h, harness_address(h, 1)), 77);
	harness_unmap(h, 1, chunk);
	assert_int_equal(run_kernel(queue, function), 0);
	assert_int_equal(h->ops->global_get(module, "counted", &address, &bytes), 0);
	assert_int_equal(harness_word(h, address), 4);
	assert_int_equal(h->ops->keeps(h->space), KEPT_BY_VARIABLES);
	h->ops->queue_destroy(queue);
	h->ops->module_unload(module);
	assert_int_equal(h->ops->keeps(h->space), KEPT_BY_NOTHING);
}

/* … and on another device, where there is one; what is no such device leaves all as it was. */
static void a_context_is_made_on_the_device_that_is_chosen_meanwhile(void **state)
{
	struct harness *h = &harness;
	int devices = h->ops->probe(&(struct device_config){0}, (struct device_info[2]){0}, 2);
	struct device_queue *queue = harness_queue(h);
	struct device_chunk *chunk;

	for (int i = devices - 1; i >= 0; i--) {
		assert_int_equal(h->ops->retire(h->space), 0);
		assert_int_equal(h->ops->rehome(h->space, (unsigned)i), 0);
		assert_int_not_equal(h->ops->rehome(h->space, 99), 0);
		assert_int_equal(h->ops->revive(h->space), 0);
		chunk = harness_map(h, 1);
		harness_set_word(h, harness_address(h, 1), 77);
		assert_int_equal(harness_word(h, harness_address(h, 1)), 77);
		harness_unmap(h, 1, chunk);
	}
	h->ops->queue_destroy(queue);
}

/* Machine code as the vendor's compiler makes it, which the driver for tests reads behind the header: one section, which has
 * variables of so many bytes. */
static struct machine_code {
	Elf64_Ehdr header;
	char text[64];
	Elf64_Shdr sections[4];
	Elf64_Sym symbols[2];
	char names[64];
} machine_code;

static void make_machine_code(uint64_t bytes)
{
	static const char names[] = "\0.nv.global\0words";

	machine_code = (struct machine_code){
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_machine = 190,
			.e_shoff = offsetof(struct machine_code, sections),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 4,
			.e_shstrndx = 3},
		.text = "sm_90 .entry set",
		.sections = {{.sh_type = SHT_NULL},
			{.sh_name = 1, .sh_type = SHT_NOBITS, .sh_size = bytes},
			{.sh_type = SHT_SYMTAB,
				.sh_offset = offsetof(struct machine_code, symbols),
				.sh_size = sizeof machine_code.symbols,
				.sh_link = 3},
			{.sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct machine_code, names),
				.sh_size = sizeof machine_code.names}},
		.symbols = {{0}, {.st_name = 12, .st_shndx = 1, .st_size = bytes}},
	};
	memcpy(machine_code.names, names, sizeof names);
}

/* A fat binary is kept; what is unpacked of it is not. */
static void code_is_unpacked_again_for_the_next_context(void **state)
{
	static struct {
		struct fatbin_header header;
		struct fatbin_entry entry;
		struct machine_code code;
		char more[1 << 20], zeros[64];
	} image;
	struct harness *h = &harness;
	struct device_function *function;
	struct device_module *module;
	struct mallinfo2 before, after;

	if (harness_ask_driver("fake_context_count") < 0)
		skip(); /* a driver of hardware takes no such machine code */
	make_machine_code(16);
	image.header = (struct fatbin_header){FATBIN_MAGIC, FATBIN_VERSION, sizeof image.header,
		offsetof(__typeof__(image), zeros) - sizeof image.header};
	image.entry = (struct fatbin_entry){.kind = FATBIN_CODE,
		.version = 0x101,
		.header_bytes = sizeof image.entry,
		.payload_bytes = sizeof image.code + sizeof image.more,
		.sm = 90};
	image.code = machine_code;
	before = mallinfo2();
	assert_int_equal(
		harness_module_load(h, &image, offsetof(__typeof__(image), zeros), NULL, &module),
		0);
	after = mallinfo2();
	assert_in_range(after.uordblks + after.hblkhd, 0,
		before.uordblks + before.hblkhd + sizeof image.more / 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(h->ops->retire(h->space), 0);
		assert_int_equal(h->ops->revive(h->space), 0);
	}
	assert_int_equal(h->ops->function_get(module, "set", &function), 0);
	h->ops->module_unload(module);
}

/* A session may end meanwhile. */
static void what_is_left_of_a_context_that_was_given_back_is_destroyed(void **state)
{
	static const char image[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
				    ".visible .entry count() { ret; }\n";
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	struct device_module *module;

	assert_int_equal(harness_module_load(h, image, sizeof image, NULL, &module), 0);
	assert_int_equal(h->ops->retire(h->space), 0);
	h->ops->queue_destroy(queue);
	h->ops->module_unload(module);
}

static uint32_t keeper_of(const char *text)
{
	struct harness *h = &harness;
	struct device_module *module;
	uint32_t keeper;
	char image[512];

	snprintf(image, sizeof image, ".version 8.0\n.target sm_90\n.address_size 64\n%s\n", text);
	assert_int_equal(harness_module_load(h, image, strlen(image) + 1, NULL, &module), 0);
	keeper = h->ops->keeps(h->space);
	h->ops->module_unload(module);
	return keeper;
}

static void what_could_not_be_had_again_keeps_a_context(void **state)
{
	assert_int_equal(keeper_of(".visible .entry count() { ret; }"), KEPT_BY_NOTHING);
	assert_int_equal(
		keeper_of(
			".visible .global .align 4 .b8 a[8] = {1, 2, 3};\n.const .f32 b = 0f3F800000;"),
		KEPT_BY_NOTHING);
	assert_int_equal(
		keeper_of(".global .u32 a;\n.global .align 8 .u64 b[2] = {generic(a), 0};"),
		KEPT_BY_VARIABLES);
	assert_int_equal(
		keeper_of(".extern .func (.param .b64 r) malloc (.param .b64 n);"), KEPT_BY_HEAP);
}

/* The driver tells what all processes have taken together. */
static void what_others_take_while_a_module_is_loaded_is_not_its_own(void **state)
{
	static const char text[] = ".version 6.0\n.target sm_70\n.visible .entry set() { ret; }\n";
	struct device_module *module;

	if (harness_ask_driver("fake_share_next_load") != 1) {
		printf("# it asks the driver that is made for tests\n");
		skip();
	}
	assert_int_equal(harness_module_load(&harness, text, sizeof text, NULL, &module), 0);
	assert_in_range(harness.ops->module_bytes(module), 1, 2 << 20);
	harness.ops->module_unload(module);
}

/* How often a load asks the driver for what is free. `kind`: of the section, as long as the usual one's; NULL: that. */
static int questions_of_load(uint64_t variable_bytes, const char *kind)
{
	int before = harness_ask_driver("fake_memory_questions");
	struct device_module *module;

	make_machine_code(variable_bytes);
	if (kind)
		memcpy(machine_code.names + 1, kind, strlen(kind));
	assert_int_equal(
		harness_module_load(&harness, &machine_code, sizeof machine_code, NULL, &module),
		0);
	assert_true(kind || harness.ops->module_bytes(module) >= variable_bytes);
	harness.ops->module_unload(module);
	return harness_ask_driver("fake_memory_questions") - before;
}

/* On hardware the question takes longer than many a load. */
static void what_a_module_takes_is_measured_where_it_is_not_known(void **state)
{
	if (harness_ask_driver("fake_memory_questions") < 0) {
		printf("# it asks the driver that is made for tests\n");
		skip();
	}
	assert_int_equal(questions_of_load(16, NULL), 0);
	assert_int_equal(questions_of_load(4 << 20, NULL), 2);
	assert_int_equal(questions_of_load(16, ".nv.shared"), 0);
	assert_int_equal(questions_of_load(16, ".nv.unknow"), 2);
	setenv("FAKE_CUDA_EAGER", "1", 1);
	stop(state);
	start(state);
	unsetenv("FAKE_CUDA_EAGER");
	assert_int_equal(questions_of_load(16, NULL), 2);
}

/* Another may give back meanwhile what this one takes. */
static void a_module_has_its_variables_at_least(void **state)
{
	static const char text[] = ".version 6.0\n.target sm_70\n"
				   ".global .u32 words[1000000];\n"
				   ".visible .entry set() { ret; }\n";
	struct device_module *module;

	assert_int_equal(harness_module_load(&harness, text, sizeof text, NULL, &module), 0);
	assert_true(harness.ops->module_bytes(module) >= 4000000);
	harness.ops->module_unload(module);
}

/* An image with a program that the driver refuses, and one with more variables than that. */
static struct two_programs {
	struct fatbin_header header;
	struct fatbin_entry code;
	char elf[64];
	struct fatbin_entry text;
	char ptx[128];
} two_programs = {
	{FATBIN_MAGIC, FATBIN_VERSION, sizeof(struct fatbin_header),
		sizeof two_programs - sizeof(struct fatbin_header)},
	{.kind = FATBIN_CODE,
		.version = 0x101,
		.header_bytes = sizeof(struct fatbin_entry),
		.payload_bytes = sizeof two_programs.elf,
		.sm = 90},
	"\177ELF for another",
	{.kind = FATBIN_PTX,
		.version = 0x101,
		.header_bytes = sizeof(struct fatbin_entry),
		.payload_bytes = sizeof two_programs.ptx,
		.sm = 70},
	".version 6.0\n.target sm_70\n.global .b8 x[1073741824];\n",
};

static void what_the_driver_chooses_is_no_more_than_was_paid_for(void **state)
{
	struct device_module *module;
	int error;

	if (harness_ask_driver("fake_context_count") < 0) {
		printf("# it is the driver made for tests that refuses this\n");
		skip();
	}
	error = harness_module_load(
		&harness, (const char *)&two_programs, sizeof two_programs, NULL, &module);
	assert_int_equal(error, -GDEV_E_NO_BINARY);
}

static void a_fat_binary_that_was_cut_never_comes_to_the_driver(void **state)
{
	struct device_module *module;

	assert_int_equal(harness.ops->module_load(harness.space, &two_programs,
				 sizeof two_programs - 1, NULL, &module),
		-GDEV_E_INVALID_IMAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_context_that_was_given_back_is_as_before, start, stop),
		cmocka_unit_test_setup_teardown(
			a_context_is_made_on_the_device_that_is_chosen_meanwhile, start, stop),
		cmocka_unit_test_setup_teardown(
			code_is_unpacked_again_for_the_next_context, start, stop),
		cmocka_unit_test_setup_teardown(
			what_is_left_of_a_context_that_was_given_back_is_destroyed, start, stop),
		cmocka_unit_test_setup_teardown(
			what_could_not_be_had_again_keeps_a_context, start, stop),
		cmocka_unit_test_setup_teardown(
			what_others_take_while_a_module_is_loaded_is_not_its_own, start, stop),
		cmocka_unit_test_setup_teardown(
			what_a_module_takes_is_measured_where_it_is_not_known, start, stop),
		cmocka_unit_test_setup_teardown(a_module_has_its_variables_at_least, start, stop),
		cmocka_unit_test_setup_teardown(
			what_the_driver_chooses_is_no_more_than_was_paid_for, start, stop),
		cmocka_unit_test_setup_teardown(
			a_fat_binary_that_was_cut_never_comes_to_the_driver, start, stop),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

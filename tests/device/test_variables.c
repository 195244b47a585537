/* SPDX-License-Identifier: MIT
 *
 * Which variables the NVIDIA backend finds in machine code, and what it leaves alone. The images are made here: a
 * table of sections, of symbols, and of strings.
 */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "device/cuda/cuda.h"
#include "proto/control.h"

#define SECTIONS_MAX 10
#define SYMBOLS_MAX 8
#define RELOCATIONS_MAX 4

struct image {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTIONS_MAX];
	Elf64_Sym symbols[SYMBOLS_MAX];
	Elf64_Rela relocations[RELOCATIONS_MAX];
	uint64_t words[16]; /* what a section with contents has */
	char strings[512 + RECORD_NAME_MAX];
	size_t string_bytes;
};

enum { STRINGS = 1, SYMBOLS = 2 }; /* sections that all have */

static uint32_t add_string(struct image *image, const char *text)
{
	size_t at = image->string_bytes;

	strcpy(image->strings + at, text);
	image->string_bytes += strlen(text) + 1;
	return (uint32_t)at;
}

static unsigned add_section(struct image *image, const char *name, uint32_t type, uint64_t bytes)
{
	Elf64_Shdr *section = &image->sections[image->header.e_shnum];

	section->sh_name = add_string(image, name);
	section->sh_type = type;
	section->sh_size = bytes;
	return image->header.e_shnum++;
}

static void add_symbol(struct image *image, const char *name, unsigned section, uint64_t bytes)
{
	Elf64_Shdr *table = &image->sections[SYMBOLS];
	Elf64_Sym *symbol = &image->symbols[table->sh_size / sizeof *symbol];

	symbol->st_name = add_string(image, name);
	symbol->st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
	symbol->st_shndx = (uint16_t)section;
	symbol->st_size = bytes;
	table->sh_size += sizeof *symbol;
}

static void image_init(struct image *image)
{
	memset(image, 0, sizeof *image);
	memcpy(image->header.e_ident, ELFMAG, SELFMAG);
	image->header.e_ident[EI_CLASS] = ELFCLASS64;
	image->header.e_machine = 190;
	image->header.e_shoff = offsetof(struct image, sections);
	image->header.e_shentsize = sizeof(Elf64_Shdr);
	image->header.e_shstrndx = STRINGS;
	image->string_bytes = 1;
	add_section(image, "", SHT_NULL, 0);
	add_section(image, ".strtab", SHT_STRTAB, sizeof image->strings);
	image->sections[STRINGS].sh_offset = offsetof(struct image, strings);
	add_section(image, ".symtab", SHT_SYMTAB, 0);
	image->sections[SYMBOLS].sh_offset = offsetof(struct image, symbols);
	image->sections[SYMBOLS].sh_link = STRINGS;
	add_section(image, ".text.kernel", SHT_PROGBITS, 128);
}

/* What keeps the module; its variables, with a space behind each, in `names`. */
static uint32_t look(const void *image, size_t length, char *names)
{
	struct device_module module = {0};

	*names = '\0';
	assert_int_equal(variables_list(&module, image, length), 0);
	for (size_t i = 0; i < module.variable_count; i++)
		strcat(strcat(names, module.variables[i].name), " ");
	variables_free(&module);
	return module.keeper;
}

static void variables_are_found_in_the_sections_that_hold_them(void **state)
{
	struct image image;
	char names[256];

	image_init(&image);
	add_symbol(&image, "kernel", 3, 128);
	assert_int_equal(look(&image, sizeof image, names), KEPT_BY_NOTHING);
	assert_string_equal(names, "");
	add_symbol(&image, "zeroed", add_section(&image, ".nv.global", SHT_NOBITS, 8), 8);
	add_symbol(&image, "first", add_section(&image, ".nv.global.init", SHT_PROGBITS, 16), 4);
	add_symbol(&image, "second", 5, 12);
	add_symbol(&image, "constant", add_section(&image, ".nv.constant3", SHT_PROGBITS, 4), 4);
	assert_int_equal(look(&image, sizeof image, names), KEPT_BY_NOTHING);
	assert_string_equal(names, "zeroed first second constant ");
}

static uint64_t most(const void *image, size_t length)
{
	struct device_module module = {0};

	assert_int_equal(variables_list(&module, image, length), 0);
	variables_free(&module);
	return module.most_bytes;
}

static void a_module_takes_no_more_than_its_image_and_its_variables(void **state)
{
	static const char text[] =
		".version 8.0\n.target sm_90\n.global .align 4 .b8 table [ 1000 ] [3];\n";
	struct image image;

	image_init(&image);
	assert_int_equal(most(&image, sizeof image), sizeof image);
	add_symbol(
		&image, "zeroed", add_section(&image, ".nv.global", SHT_NOBITS, 1 << 30), 1 << 30);
	assert_int_equal(most(&image, sizeof image), sizeof image + (1ull << 30));
	add_section(&image, ".nv.global", SHT_NOBITS, UINT64_MAX - 8);
	assert_int_equal(most(&image, sizeof image), UINT64_MAX);
	assert_in_range(most(text, sizeof text), 3000, 200000);
	assert_int_equal(most("\1\2 nothing at all", 16), UINT64_MAX);
}

static bool launches(const void *image, size_t length)
{
	struct device_module module = {0};

	assert_int_equal(variables_list(&module, image, length), 0);
	variables_free(&module);
	return module.launches;
}

static void kernels_that_launch_kernels_are_found(void **state)
{
	static const char text[] = ".version 8.0\n.extern .func cudaLaunchDeviceV2();\n";
	struct image image;

	image_init(&image);
	add_symbol(&image, "__cudaCDP2GetParameterBufferV2", 3, 128);
	assert_false(launches(&image, sizeof image));
	add_symbol(&image, "__cudaCDP2LaunchDeviceV2", 3, 128);
	assert_true(launches(&image, sizeof image));
	image.sections[STRINGS].sh_size = UINT64_MAX; /* and no more is read than there is */
	assert_true(launches(&image, sizeof image));
	assert_true(launches(text, sizeof text));
}

static void what_cannot_be_saved_keeps_the_module(void **state)
{
	struct image image;
	char names[256];
	unsigned relocations;

	image_init(&image); /* without a name for it */
	add_section(&image, ".nv.global", SHT_NOBITS, 8);
	assert_int_equal(look(&image, sizeof image, names), KEPT_BY_IMAGE);

	image_init(&image); /* an address in it */
	add_symbol(&image, "pointer", add_section(&image, ".nv.global.init", SHT_PROGBITS, 8), 8);
	relocations = add_section(&image, ".rel.nv.global.init", SHT_REL, 16);
	image.sections[relocations].sh_info = 4;
	assert_int_equal(look(&image, sizeof image, names), KEPT_BY_VARIABLES);

	image_init(&image); /* relocations of code are nothing */
	relocations = add_section(&image, ".rel.text.kernel", SHT_REL, 16);
	image.sections[relocations].sh_info = 3;
	add_symbol(&image, "vprintf", 0, 0);
	assert_int_equal(look(&image, sizeof image, names), KEPT_BY_NOTHING);
	add_symbol(&image, "malloc", 0, 0);
	assert_int_equal(look(&image, sizeof image, names), KEPT_BY_HEAP);
}

static void what_makes_no_sense_keeps_the_module(void **state)
{
	struct image image;
	char names[256];

	image_init(&image);
	image.header.e_machine = EM_X86_64;
	assert_int_equal(look(&image, sizeof image, names), KEPT_BY_IMAGE);
	image_init(&image);
	image.header.e_shoff = UINT64_MAX - 10;
	assert_int_equal(look(&image, sizeof image, names), KEPT_BY_IMAGE);
	assert_int_equal(look("nothing at all", 14, names), KEPT_BY_IMAGE);
	/* However it is cut, nothing behind it is read: the sanitizer looks. */
	image_init(&image);
	add_symbol(&image, "zeroed", add_section(&image, ".nv.global", SHT_NOBITS, 8), 8);
	for (size_t length = SELFMAG; length < sizeof image; length += 3) {
		autofree void *cut = calloc(1, length + 1); /* a NUL follows an image */
		memcpy(cut, &image, length);
		look(cut, length, names);
	}
}

static void text_is_looked_into_as_well(void **state)
{
	static const char text[] =
		".version 8.0\n.target sm_90\n"
		".visible .global .align 4 .f32 shown[3] = {0f3F800000, 0d0, 1e3};\n"
		"\t.global .u32\thidden;\n.const .align 8 .b8 table[2] = {1, 2};\n"
		".entry k() { ld.global.u32 %r1, [hidden]; st.const.u32 [x], %r1; }\n";
	static const char pointer[] =
		".version 8.0\n.global .u32 a;\n.global .u64 p = generic(a);\n";
	char names[256];

	assert_int_equal(look(text, sizeof text, names), KEPT_BY_NOTHING);
	assert_string_equal(names, "shown hidden table ");
	assert_int_equal(look(pointer, sizeof pointer, names), KEPT_BY_VARIABLES);
}

/* Names of machine code may overlap: together they could be as long as the square of its length. */
static void names_that_nobody_can_ask_for_are_not_kept(void **state)
{
	static const char head[] = ".version 8.0\n.global .u32 ";
	char text[sizeof head + RECORD_NAME_MAX] = "", names[2 * RECORD_NAME_MAX];

	strcpy(text, head);
	memset(text + sizeof head - 1, 'x', RECORD_NAME_MAX);
	assert_int_equal(look(text, sizeof text, names), KEPT_BY_IMAGE);
	assert_string_equal(names, "");
	text[sizeof text - 2] = ';'; /* one character less, and as long as a record can say */
	assert_int_equal(look(text, sizeof text, names), KEPT_BY_NOTHING);
	assert_int_equal(strlen(names), RECORD_NAME_MAX);
}

/* As NVIDIA's assembler reads it. */
static void variables_are_counted_however_they_are_written(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{".global .b8 x[100];", 100},
		{".global/**/ .b8 x[100];", 100},
		{".global /* .global */ .b8 /*;*/ x/**/[/**/100/**/]/**/[2];", 200},
		{"/**/.global // x\n .b8 x[100];", 100},
		{".visible.global.b8 x[100];", 100},
		{"{.global\f.v4.f32 x[10]; }", 160},
		{".global .f16x2 x[10];", 40},
		{".global .b8 x[0x10], y [0b100] ,z[020U];", 36},
		{".global .b8 x[4] = {1, /*;*/ 2}, y[64];", 68},
		{".global .b8 x = 1, y[64];", 65},
		{".global .u32 x<10>;", 40},
		{".global .align 1048576 .b8 x, y;", 2 << 20},
		{".global .attribute(.managed, .unified(19, 95)) .align 4 .u32 x[2];", 8},
		{".const[2] .b8 x[100];", 100},
		{".global .u8 x[] = {1, 2};", 1},
		{".global .b8 x[512*1048576];", UINT64_MAX},
		{".global .b8 x[N];", UINT64_MAX},
		{".global .b8 x[4", UINT64_MAX},
		{".global .b8 x[4294967296][4294967296];", UINT64_MAX},
		{".global .v4 .v4 .v4 .v4 .v4 .v4 .v4 .v4 .v4 .v4 .v4 .b8 x;", 32},
		{"ld.global.u32 %r, [x]; ld.weak.global.u32 %r, [x]; .globals x[4];", 0},
		{".global /* no end", 0},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct device_module module = {0};
		char text[256] = ".version 8.0\n";
		strcat(text, cases[i].text);
		assert_int_equal(variables_list(&module, text, strlen(text) + 1), 0);
		if (module.variable_bytes != cases[i].bytes)
			fail_msg("%s: %llu", cases[i].text,
				(unsigned long long)module.variable_bytes);
		variables_free(&module);
	}
}

/* ---- managed variables ---- */

enum {
	CODE = 3,
	GLOBAL = 4,
	INITIAL = 5,
	CONSTANTS = 6,
	OF_CONSTANTS = 7,
	OF_CODE = 8
};                            /* sections */
enum { BIG, COUNTER, PLAIN }; /* symbols */

/* As the vendor's compiler makes it: addresses are in the constants, and in two instructions. */
static void managed_image(struct image *image)
{
	image_init(image);
	image->sections[CODE].sh_offset = offsetof(struct image, words) + 64;
	image->sections[CODE].sh_size = 64;
	add_symbol(image, "big", add_section(image, ".nv.global", SHT_NOBITS, 5000), 5000);
	add_symbol(image, "counter", add_section(image, ".nv.global.init", SHT_PROGBITS, 8), 4);
	add_symbol(image, "plain", INITIAL, 4);
	image->symbols[BIG].st_other = image->symbols[COUNTER].st_other = 4;
	image->symbols[PLAIN].st_value = 4;
	image->sections[INITIAL].sh_offset = offsetof(struct image, words) + 56;
	image->words[7] = 5;
	add_section(image, ".nv.constant4", SHT_PROGBITS, 24);
	image->sections[CONSTANTS].sh_offset = offsetof(struct image, words);
	add_section(image, ".rela.nv.constant4", SHT_RELA, 2 * sizeof(Elf64_Rela));
	image->sections[OF_CONSTANTS].sh_offset = offsetof(struct image, relocations);
	add_section(image, ".rela.text.kernel", SHT_RELA, 2 * sizeof(Elf64_Rela));
	image->sections[OF_CODE].sh_offset =
		offsetof(struct image, relocations) + 2 * sizeof(Elf64_Rela);
	for (int i = 0; i < 2; i++)
		image->sections[OF_CONSTANTS + i].sh_link = SYMBOLS;
	image->sections[OF_CONSTANTS].sh_info = CONSTANTS;
	image->sections[OF_CODE].sh_info = CODE;
	image->relocations[0] = (Elf64_Rela){8, ELF64_R_INFO(COUNTER, 2), 0};
	image->relocations[1] = (Elf64_Rela){16, ELF64_R_INFO(PLAIN, 2), 0};
	image->relocations[2] = (Elf64_Rela){0, ELF64_R_INFO(BIG, 56), 0x100};
	image->relocations[3] = (Elf64_Rela){16, ELF64_R_INFO(BIG, 57), 0x100};
}

static int find_managed(struct device_module *module, struct image *image)
{
	*module = (struct device_module){0};
	assert_int_equal(variables_list(module, image, sizeof *image), 0);
	assert_true(module->managed.any);
	return managed_find(module, (char *)image, sizeof *image);
}

static void finish_managed(struct device_module *module)
{
	managed_forget(module);
	variables_free(module);
}

static void managed_variables_lie_where_they_are_placed(void **state)
{
	autofree char *block = aligned_alloc(4096, 8192);
	uint64_t base = (uint64_t)(uintptr_t)block, address, bytes;
	uint32_t low, high, value;
	struct device_module module;
	struct image image;

	managed_image(&image);
	assert_int_equal(find_managed(&module, &image), 0);
	assert_int_equal(image.symbols[BIG].st_other | image.symbols[COUNTER].st_other, 0);
	assert_int_equal(module.variable_bytes, 5000 + 8); /* also of those that have values */
	assert_in_range(cuda_module_managed_bytes(&module), 5004, 8192);
	assert_false(managed_global(&module, "counter", &address, &bytes));
	assert_int_equal(managed_place(&module, (char *)&image, sizeof image, base), 0);
	assert_true(managed_global(&module, "counter", &address, &bytes));
	assert_int_equal(bytes, 4);
	assert_int_equal(image.words[1], address);
	memcpy(&value, (const void *)(uintptr_t)address, sizeof value);
	assert_int_equal(value, 5);
	assert_true(managed_global(&module, "big", &address, &bytes));
	memcpy(&low, (const char *)&image.words[8] + 4, sizeof low);
	memcpy(&high, (const char *)&image.words[10] + 4, sizeof high);
	assert_int_equal(low | (uint64_t)high << 32, address + 0x100);
	assert_int_equal(ELF64_R_TYPE(image.relocations[0].r_info), 0); /* the driver writes none */
	assert_int_equal(ELF64_R_TYPE(image.relocations[1].r_info), 2); /* … but the other's */
	assert_true(cuda_global_is_managed(&module, "big"));
	assert_false(cuda_global_is_managed(&module, "plain"));
	assert_int_equal(managed_place(&module, (char *)&image, sizeof image, base), -EINVAL);
	finish_managed(&module);
}

static void managed_variables_that_are_named_in_other_ways_are_refused(void **state)
{
	struct device_module module;
	struct image image;

	managed_image(&image);
	image.relocations[2].r_info = ELF64_R_INFO(BIG, 7); /* a type that is not known */
	assert_int_equal(find_managed(&module, &image), -ENOTSUP);
	finish_managed(&module);
	managed_image(&image);
	image.relocations[1].r_offset = UINT64_MAX - 4; /* another's: the driver's business */
	assert_int_equal(find_managed(&module, &image), 0);
	finish_managed(&module);
	image.symbols[BIG].st_other = 4;
	image.relocations[3].r_offset = UINT64_MAX - 4; /* nowhere */
	assert_int_equal(find_managed(&module, &image), -ENOTSUP);
	finish_managed(&module);
	managed_image(&image);
	image.symbols[PLAIN].st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION); /* all at once */
	assert_int_equal(find_managed(&module, &image), -ENOTSUP);
	finish_managed(&module);
	managed_image(&image);
	image.symbols[COUNTER].st_size = 9; /* more than the section has */
	assert_int_equal(find_managed(&module, &image), -ENOTSUP);
	finish_managed(&module);
	managed_image(&image);
	image.symbols[PLAIN].st_other = 4; /* two names of one */
	image.symbols[PLAIN].st_value = 2;
	assert_int_equal(find_managed(&module, &image), -ENOTSUP);
	finish_managed(&module);
	managed_image(&image);
	image.symbols[BIG].st_name = add_string(&image, ""); /* that no record can say */
	memset(image.strings + image.symbols[BIG].st_name, 'x', RECORD_NAME_MAX);
	assert_int_equal(find_managed(&module, &image), -ENOTSUP);
	finish_managed(&module);
}

/* The address of another variable, which only the driver knows. */
static void managed_variables_whose_values_the_driver_makes_are_refused(void **state)
{
	struct device_module module;
	struct image image;

	managed_image(&image);
	image.sections[OF_CONSTANTS].sh_info = INITIAL;
	image.relocations[0].r_info = ELF64_R_INFO(PLAIN, 2);
	image.relocations[0].r_offset = image.relocations[1].r_offset = 4; /* behind it */
	assert_int_equal(find_managed(&module, &image), 0);
	finish_managed(&module);
	image.symbols[BIG].st_other = image.symbols[COUNTER].st_other = 4;
	image.relocations[1].r_offset = 0;
	assert_int_equal(find_managed(&module, &image), -ENOTSUP);
	finish_managed(&module);
}

/* ---- conditions of graphs ---- */

static void code_that_sets_conditions_is_found(void **state)
{
	struct device_module module = {0};
	struct image image;

	image_init(&image);
	assert_int_equal(variables_list(&module, &image, sizeof image), 0);
	assert_false(module.conditions);
	variables_free(&module);
	add_symbol(&image, "cudaGraphSetConditional", 0, 0); /* the driver's */
	assert_int_equal(variables_list(&module, &image, sizeof image), 0);
	assert_true(module.conditions);
	variables_free(&module);
}

static void the_function_that_sets_conditions_is_defined_once(void **state)
{
	static const char declared[] =
		".version 8.4\n.extern .func other();\n"
		".extern .func cudaGraphSetConditional\n(\n.param .b64 a,\n"
		".param .b32 b\n)\n;\n.extern .func cudaGraphSetConditionalX(.param .b64 a);\n"
		".extern .func  cudaGraphSetConditional(.param .b64 a, .param .b32 b);\n"
		".entry k() { call cudaGraphSetConditional, (x, y); ret; }\n";
	struct device_module module = {0};
	autofree char *defined = NULL;
	const char *at;
	size_t length;

	assert_int_equal(variables_list(&module, declared, sizeof declared), 0);
	variables_free(&module);
	assert_true(module.conditions);
	assert_int_equal(conditions_define(declared, &defined, &length), 0);
	assert_int_equal(length, strlen(defined));
	at = strstr(defined, "\n.func cudaGraphSetConditional(");
	assert_non_null(at);
	assert_null(strstr(at + 1, "\n.func cudaGraphSetConditional("));
	assert_null(strstr(defined, ".extern .func cudaGraphSetConditional\n"));
	assert_null(strstr(defined, ".extern .func  cudaGraphSetConditional("));
	assert_non_null(strstr(defined, ".extern .func cudaGraphSetConditionalX("));
	assert_non_null(
		strstr(defined, ".entry k() { call cudaGraphSetConditional, (x, y); ret; }"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_are_found_in_the_sections_that_hold_them),
		cmocka_unit_test(a_module_takes_no_more_than_its_image_and_its_variables),
		cmocka_unit_test(kernels_that_launch_kernels_are_found),
		cmocka_unit_test(what_cannot_be_saved_keeps_the_module),
		cmocka_unit_test(what_makes_no_sense_keeps_the_module),
		cmocka_unit_test(text_is_looked_into_as_well),
		cmocka_unit_test(variables_are_counted_however_they_are_written),
		cmocka_unit_test(managed_variables_lie_where_they_are_placed),
		cmocka_unit_test(managed_variables_that_are_named_in_other_ways_are_refused),
		cmocka_unit_test(managed_variables_whose_values_the_driver_makes_are_refused),
		cmocka_unit_test(code_that_sets_conditions_is_found),
		cmocka_unit_test(the_function_that_sets_conditions_is_defined_once),
		cmocka_unit_test(names_that_nobody_can_ask_for_are_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

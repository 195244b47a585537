/* SPDX-License-Identifier: MIT
 *
 * What the doctor sees in a file, and that no file can do it harm: this test's own program, cut short and changed in
 * thousands of ways. (That nothing is read beyond a file, the address sanitizer says: each copy has its own memory.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cli/doctor.h"

#define ROUNDS 2000

static unsigned said[3];

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *topic, json_t *more,
	const char *advice, const char *format, ...)
{
	said[level]++;
	doctor->missing += level == DOCTOR_MISSING;
	json_decref(more);
}

static void image_check(const void *image, size_t length, struct device_images *images,
	void (*found)(void *owner, const struct device_finding *finding), void *owner)
{
	volatile uint8_t sum = 0;

	for (size_t i = 0; i < length; i++)
		sum += ((const uint8_t *)image)[i];
	*images = (struct device_images){1, 1, 1};
}

static const struct device_ops ops = {.image_check = image_check};

static struct bytes own_program(void)
{
	FILE *file = fopen("/proc/self/exe", "rb");
	uint8_t *bytes = malloc(64 << 20);
	size_t length = fread(bytes, 1, 64 << 20, file);

	fclose(file);
	assert_true(length > 4096);
	return (struct bytes){bytes, length};
}

/* Of a copy with memory of exactly its size. */
static void look_at(const void *bytes, size_t length)
{
	struct doctor doctor = {.device = "cpu", .ops = &ops};
	uint8_t *copy = malloc(length ? length : 1);

	memcpy(copy, bytes, length);
	memset(said, 0, sizeof said);
	doctor_file(&doctor, "file", (struct bytes){copy, length});
	free(copy);
}

static void look_at_text(const char *text)
{
	look_at(text, strlen(text));
}

/* This program has the doctor's table in it, and so looks like NVIDIA's runtime. */
static void a_program_that_asks_for_everything_is_not_said_to_need_it(void **state)
{
	struct bytes program = own_program();

	look_at(program.at, program.length);
	assert_int_equal(said[DOCTOR_MISSING], 0);
	assert_int_equal(said[DOCTOR_NOTE], 1);
	assert_true(said[DOCTOR_OK] >= 1);
	free((void *)program.at);
}

static void the_table_can_be_searched(void **state)
{
	for (size_t i = 1; i < doctor_function_count; i++)
		assert_true(strcmp(doctor_functions[i - 1].name, doctor_functions[i].name) < 0);
}

static void what_is_no_program_is_named(void **state)
{
	look_at_text("");
	assert_int_equal(said[DOCTOR_MISSING], 1);
	look_at_text("nothing that anybody knows");
	assert_int_equal(said[DOCTOR_MISSING], 1);
	look_at_text("\177ELF");
	assert_int_equal(said[DOCTOR_MISSING], 1);
	look_at_text("#!/bin/sh\n");
	assert_int_equal(said[DOCTOR_MISSING], 0);
	assert_int_equal(said[DOCTOR_NOTE], 1);
	look_at_text(".version 7.0\n.target sm_70\n");
	assert_int_equal(said[DOCTOR_OK], 1);
}

static void a_file_may_end_anywhere(void **state)
{
	struct bytes program = own_program();

	for (size_t length = 0; length < 256; length++)
		look_at(program.at, length);
	for (size_t cut = 1; cut < program.length; cut += cut < 8192 ? 61 : program.length / 200)
		look_at(program.at, program.length - cut);
	free((void *)program.at);
}

static void a_file_may_say_anything(void **state)
{
	struct bytes program = own_program();
	uint8_t *bytes = malloc(program.length);
	Elf64_Ehdr header;
	size_t sections;

	memcpy(&header, program.at, sizeof header);
	sections = (size_t)header.e_shnum * sizeof(Elf64_Shdr);
	srandom(1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		memcpy(bytes, program.at, program.length);
		for (unsigned i = 0; i < 8; i++) {
			size_t place = (size_t)random();
			size_t at = i % 2 ? header.e_shoff + place % sections
					  : place % (round % 2 ? sizeof header : program.length);
			static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff};
			bytes[at] = round % 3 ? odd[place % 5] : (uint8_t)random();
		}
		look_at(bytes, program.length);
	}
	free(bytes);
	free((void *)program.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_that_asks_for_everything_is_not_said_to_need_it),
		cmocka_unit_test(the_table_can_be_searched),
		cmocka_unit_test(what_is_no_program_is_named),
		cmocka_unit_test(a_file_may_end_anywhere),
		cmocka_unit_test(a_file_may_say_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

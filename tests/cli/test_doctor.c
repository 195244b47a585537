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
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cli/doctor.h"
#include "cli/library_cache.h"

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
	*images = (struct device_images){.images = 1, .ptx = 1, .kernels = 1};
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
	doctor_file(&doctor, "file", false, (struct bytes){copy, length});
	free(copy);
}

static void look_at_text(const char *text)
{
	look_at(text, strlen(text));
}

/* This program has the doctor's table in it, and so looks like NVIDIA's runtime; and words of PTX, as what links texts has. */
static void a_program_that_asks_for_everything_is_not_said_to_need_it(void **state)
{
	struct bytes program = own_program();

	look_at(program.at, program.length);
	assert_int_equal(said[DOCTOR_MISSING], 0);
	assert_int_equal(said[DOCTOR_NOTE], 2);
	assert_true(said[DOCTOR_OK] >= 1);
	free((void *)program.at);
}

static void the_table_can_be_searched(void **state)
{
	for (size_t i = 1; i < doctor_function_count; i++)
		assert_true(strcmp(doctor_functions[i - 1].name, doctor_functions[i].name) < 0);
}

static const struct doctor_function *function_of(const char *name)
{
	for (size_t i = 0; i < doctor_function_count; i++)
		if (!strcmp(doctor_functions[i].name, name))
			return &doctor_functions[i];
	fail_msg("%s is not known", name);
	return NULL;
}

static void a_symbol_is_of_one_version_and_a_name_of_any(void **state)
{
	assert_int_equal(function_of("cuCtxCreate")->asked, 1);
	assert_int_equal(function_of("cuCtxCreate")->linked, 0);
	assert_int_equal(function_of("cuCtxCreate_v2")->linked, 1);
	assert_int_equal(function_of("cuInit")->linked, 1);
	assert_int_equal(function_of("cuGraphicsUnregisterResource")->asked, 0);
	assert_int_equal(function_of("cuGraphicsUnregisterResource")->linked, 0);
}

/* ---- the dynamic linker's cache ---- */

struct cache {
	char before[24]; /* an older format */
	char magic[20];
	uint32_t count, string_bytes, reserved[5];
	struct {
		uint32_t kind, name, path, system;
		uint64_t hardware;
	} entries[2];
	char strings[64];
};

#if defined(__x86_64__)
#define KIND 0x0303
#else
#define KIND 0x0a03
#endif

static void cache_init(struct cache *cache)
{
	uint32_t strings = offsetof(struct cache, strings) - offsetof(struct cache, magic);

	*cache = (struct cache){.count = 2,
		.entries = {{3, strings, strings + 10, 0, 0}, {KIND, strings, strings + 21, 0, 0}}};
	memcpy(cache->magic, "glibc-ld.so.cache1.1", sizeof cache->magic);
	memcpy(cache->strings, "libx.so.1\0/32/lib.so\0/64/libx.so.1", 35);
}

static bool look_up(const void *cache, size_t length, const char *name, char path[64])
{
	char file[] = "/tmp/gdev-test-XXXXXX";
	int fd = mkstemp(file);
	bool found;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, cache, length), length);
	close(fd);
	found = library_cache_find(file, name, path, 64);
	unlink(file);
	return found;
}

static void libraries_are_found_in_the_linkers_cache(void **state)
{
	struct cache cache;
	char path[64];

	cache_init(&cache);
	assert_true(look_up(&cache, sizeof cache, "libx.so.1", path));
	assert_string_equal(path, "/64/libx.so.1");
	assert_false(look_up(&cache, sizeof cache, "liby.so.1", path));
	for (size_t length = 0; length < offsetof(struct cache, strings); length++)
		assert_false(look_up(&cache, length, "libx.so.1", path));
	cache.count = UINT32_MAX;
	assert_false(look_up(&cache, sizeof cache, "liby.so.1", path));
	cache.entries[1].name = UINT32_MAX - 1;
	assert_false(look_up(&cache, sizeof cache, "libx.so.1", path));
	assert_false(library_cache_find("/no/such/file", "libx.so.1", path, sizeof path));
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
	look_at_text(".version 7.0\n.target sm_70\n.entry f() { ret; }\n");
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
		cmocka_unit_test(a_symbol_is_of_one_version_and_a_name_of_any),
		cmocka_unit_test(libraries_are_found_in_the_linkers_cache),
		cmocka_unit_test(what_is_no_program_is_named),
		cmocka_unit_test(a_file_may_end_anywhere),
		cmocka_unit_test(a_file_may_say_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

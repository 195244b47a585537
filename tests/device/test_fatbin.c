/* SPDX-License-Identifier: MIT
 *
 * The fat binary decoder, well-formed and malformed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <lz4.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "device/fatbin.h"
#include "gdev/error.h"

enum packing { PLAIN, ZSTD, LZ4 };

struct image {
	uint8_t bytes[8192];
	size_t length;
};

static void put(struct image *image, size_t at, uint64_t value, size_t count)
{
	memcpy(image->bytes + at, &value, count);
}

static void image_init(struct image *image)
{
	memset(image, 0, sizeof *image);
	put(image, 0, 0xba55ed50, 4);
	put(image, 4, 1, 2);
	put(image, 6, 16, 2);
	image->length = 16;
}

static size_t pack(enum packing packing, const char *text, size_t length, uint8_t *out, size_t size)
{
	if (packing == ZSTD)
		return ZSTD_compress(out, size, text, length, 3);
	if (packing == LZ4)
		return (size_t)LZ4_compress_default(text, (char *)out, (int)length, (int)size);
	memcpy(out, text, length);
	return length;
}

static void image_add(
	struct image *image, unsigned kind, unsigned sm, enum packing packing, const char *text)
{
	size_t at = image->length, header = 80, length = strlen(text) + 1;
	size_t packed = pack(packing, text, length, image->bytes + at + header, 2048);
	size_t padded = (packed + 7) / 8 * 8;

	put(image, at, kind, 2);
	put(image, at + 4, header, 4);
	put(image, at + 8, padded, 8);
	put(image, at + 16, packing == PLAIN ? 0 : packed, 4);
	put(image, at + 28, sm, 4);
	put(image, at + 40, packing == ZSTD ? 0x8000 : packing == LZ4 ? 0x2000 : 0, 8);
	put(image, at + 56, packing == PLAIN ? 0 : length, 8);
	image->length += header + padded;
	put(image, 8, image->length - 16, 8);
}

static int decode(const void *bytes, size_t length, char **text)
{
	size_t text_length = 0;
	const char *why = NULL;
	int error = fatbin_ptx(bytes, length, 90, text, &text_length, &why);

	if (error)
		assert_non_null(why);
	else
		assert_int_equal(strlen(*text), text_length);
	return error;
}

static void expect_text(const void *bytes, size_t length, const char *expected)
{
	autofree char *text = NULL;

	assert_int_equal(decode(bytes, length, &text), 0);
	assert_string_equal(text, expected);
}

static void expect_error(const void *bytes, size_t length, int error)
{
	char *text = NULL;

	assert_int_equal(decode(bytes, length, &text), error);
}

static void text_with_and_without_a_nul_is_ptx(void **state)
{
	expect_text("// c\n.version 8.0\n", 18, "// c\n.version 8.0\n");
	expect_text(".version 8.0\n\0garbage", 21, ".version 8.0\n");
	expect_error("hello", 5, -GDEV_E_INVALID_IMAGE);
	expect_error("", 0, -GDEV_E_INVALID_IMAGE);
	expect_error("\0.version", 9, -GDEV_E_INVALID_IMAGE);
}

static void machine_code_alone_is_no_binary(void **state)
{
	struct image image;

	expect_error("\177ELF....", 8, -GDEV_E_NO_BINARY);
	image_init(&image);
	image_add(&image, 2, 90, PLAIN, "machine code");
	expect_error(image.bytes, image.length, -GDEV_E_NO_BINARY);
}

static void every_packing_is_read(void **state)
{
	static const char ptx[] =
		".version 8.0 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";
	struct image image;

	for (int packing = PLAIN; packing <= LZ4; packing++) {
		image_init(&image);
		image_add(&image, 2, 75, PLAIN, "machine code");
		image_add(&image, 1, 75, (enum packing)packing, ptx);
		expect_text(image.bytes, image.length, ptx);
	}
}

static void the_best_target_is_taken(void **state)
{
	struct image image;

	image_init(&image);
	image_add(&image, 1, 100, PLAIN, ".version 100");
	image_add(&image, 1, 70, ZSTD, ".version 70");
	image_add(&image, 1, 90, ZSTD, ".version 90");
	image_add(&image, 1, 80, PLAIN, ".version 80");
	expect_text(image.bytes, image.length, ".version 90");
	image_init(&image);
	image_add(&image, 1, 120, PLAIN, ".version 120");
	image_add(&image, 1, 100, PLAIN, ".version 100");
	expect_text(image.bytes, image.length, ".version 100");
}

static void an_empty_fat_binary_is_known(void **state)
{
	struct image image;

	image_init(&image);
	assert_true(fatbin_is_empty(image.bytes, image.length));
	assert_false(fatbin_is_empty(image.bytes, image.length - 1));
	expect_error(image.bytes, image.length, -GDEV_E_NO_BINARY);
	image_add(&image, 1, 75, PLAIN, ".version 75");
	assert_false(fatbin_is_empty(image.bytes, image.length));
}

static void fat_binaries_in_a_row_are_one(void **state)
{
	struct image first, second;

	image_init(&first);
	image_add(&first, 2, 90, PLAIN, "machine code");
	image_init(&second);
	image_add(&second, 1, 75, PLAIN, ".version 75");
	memcpy(first.bytes + first.length, second.bytes, second.length);
	expect_text(first.bytes, first.length + second.length, ".version 75");
}

static void wrappers_lead_to_what_is_in_the_image_only(void **state)
{
	struct image image;
	_Alignas(8) uint8_t wrapped[9000] = {0};
	uint64_t inside = (uint64_t)(uintptr_t)wrapped + 100, outside = 0x10;

	image_init(&image);
	image_add(&image, 1, 75, PLAIN, ".version 75");
	memcpy(wrapped, &(uint32_t){0x466243b1}, 4);
	memcpy(wrapped + 8, &outside, 8);
	expect_error(wrapped, 24, -GDEV_E_INVALID_IMAGE);
	memcpy(wrapped + 24, image.bytes, image.length);
	expect_text(wrapped, 24 + image.length, ".version 75");
	memset(wrapped + 24, 0, 76);
	memcpy(wrapped + 8, &inside, 8);
	memcpy(wrapped + 100, image.bytes, image.length);
	expect_text(wrapped, 100 + image.length, ".version 75");
}

/* What fatbin_choose() makes of an image, which it must not touch beyond its length. */
static int choose(const struct image *image, unsigned target, void **chosen, size_t *length)
{
	autofree uint8_t *exact = malloc(image->length);

	memcpy(exact, image->bytes, image->length);
	return fatbin_choose(exact, image->length, target, chosen, length);
}

static void expect_choice(const struct image *image, unsigned target, const char *expected)
{
	autofree void *chosen = NULL;
	size_t length;

	assert_int_equal(choose(image, target, &chosen, &length), 0);
	assert_string_equal(chosen, expected); /* a NUL follows */
	assert_int_equal(strnlen(chosen, length), strlen(expected));
}

static void a_device_gets_machine_code_of_its_architecture_else_ptx(void **state)
{
	struct image image;
	size_t length;
	void *chosen;

	for (int packing = PLAIN; packing <= LZ4; packing++) {
		image_init(&image);
		image_add(&image, 2, 75, (enum packing)packing, "code 75");
		image_add(&image, 2, 90, (enum packing)packing, "code 90");
		image_add(&image, 1, 80, (enum packing)packing, ".version 80");
		image_add(&image, 1, 75, (enum packing)packing, ".version 75");
		image_add(&image, 2, 120, (enum packing)packing, "code 120");
		expect_choice(&image, 75, "code 75");
		expect_choice(&image, 90, "code 90");
		expect_choice(&image, 103, ".version 80"); /* of another architecture, or too new */
		expect_choice(&image, 121, "code 120");
		assert_int_equal(choose(&image, 61, &chosen, &length), -ENOENT);
	}
	image.length = 16;
	assert_int_equal(choose(&image, 90, &chosen, &length), -ENOENT);
	image_init(&image);
	memcpy(image.bytes, ".version 80", 12);
	assert_int_equal(choose(&image, 90, &chosen, &length), -ENOENT); /* no fat binary */
}

static void machine_code_that_is_newer_than_the_ptx_is_known(void **state)
{
	struct image image;

	image_init(&image);
	image_add(&image, 2, 80, PLAIN, "code 80");
	image_add(&image, 1, 80, PLAIN, ".version 80");
	assert_false(fatbin_has_newer_code(image.bytes, image.length, 80));
	image_add(&image, 2, 86, PLAIN, "code 86");
	image_add(&image, 2, 80, PLAIN, "code 80 again");
	assert_true(fatbin_has_newer_code(image.bytes, image.length, 86));
	assert_true(fatbin_has_newer_code(image.bytes, image.length, 89));
	assert_false(fatbin_has_newer_code(image.bytes, image.length, 90));
	image_add(&image, 1, 90, PLAIN, ".version 90"); /* too new for 89 */
	assert_true(fatbin_has_newer_code(image.bytes, image.length, 89));
	image_init(&image);
	image_add(&image, 2, 90, PLAIN, "code 90");
	assert_true(fatbin_has_newer_code(image.bytes, image.length, 90));
	assert_false(fatbin_has_newer_code(".version 8.0", 13, 90));
}

static void among_several_the_driver_chooses(void **state)
{
	struct image image, expected;
	autofree void *chosen = NULL;
	size_t length;

	image_init(&image);
	image_add(&image, 2, 80, ZSTD, "code 80");
	image_add(&image, 2, 90, ZSTD, "code 90");
	image_add(&image, 1, 90, PLAIN, ".version 90");
	image_add(&image, 2, 90, ZSTD, "code 90a");
	image_init(&expected);
	image_add(&expected, 2, 90, ZSTD, "code 90");
	image_add(&expected, 2, 90, ZSTD, "code 90a");
	assert_int_equal(choose(&image, 90, &chosen, &length), 0);
	assert_int_equal(length, expected.length);
	assert_memory_equal(chosen, expected.bytes, length);
}

/* A compiler that is not told -maxrregcount makes kernels that do not fit. */
static void ptx_that_has_options_is_compiled_by_the_driver_which_reads_them(void **state)
{
	struct image image;
	autofree void *chosen = NULL;
	size_t length, entry = 16;

	image_init(&image);
	image_add(&image, 1, 75, ZSTD, ".version 75");
	put(&image, entry + 20, 64, 4);
	put(&image, entry + 64, 72, 4);
	expect_choice(&image, 90, ".version 75");
	put(&image, entry + 68, 8, 4);
	assert_int_equal(choose(&image, 90, &chosen, &length), 0);
	assert_int_equal(length, image.length);
	assert_memory_equal(chosen, image.bytes, length);
	put(&image, entry + 20, 73, 4); /* beyond the header */
	expect_choice(&image, 90, ".version 75");
}

/* Every byte of a good image set to every of some values, and every length: no read outside (the
 * sanitizers look), and an error or a text. */
static void damaged_images_are_survived(void **state)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	struct image image;
	size_t chosen_length;
	void *chosen;

	for (int packing = PLAIN; packing <= LZ4; packing++) {
		image_init(&image);
		image_add(&image, 2, 90, PLAIN, "machine code");
		image_add(&image, 1, 75, (enum packing)packing,
			".version 75 bbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
		for (size_t length = 0; length < image.length; length++) {
			autofree uint8_t *exact = malloc(length + !length);
			autofree char *text = NULL;
			memcpy(exact, image.bytes, length);
			decode(exact, length, &text);
		}
		for (size_t i = 0; i < image.length * array_length(values); i++) {
			autofree uint8_t *exact = malloc(image.length);
			autofree char *text = NULL;
			memcpy(exact, image.bytes, image.length);
			exact[i / array_length(values)] = values[i % array_length(values)];
			decode(exact, image.length, &text);
			if (!fatbin_choose(exact, image.length, 90, &chosen, &chosen_length))
				free(chosen);
		}
	}
}

/* Else each could unpack as much as one fat binary may. */
static void units_have_one_limit_together(void **state)
{
	struct image image, unit;
	uint8_t bytes[2 * sizeof unit.bytes] = {0};
	size_t length = 24, text_length;
	const char *why = NULL;
	char *text = NULL;

	image_init(&unit);
	image_add(&unit, 1, 80, LZ4, ".version 8.0\n.target sm_80\n.address_size 64\n");
	image = unit;
	put(&image, 16 + 56, 256u << 20, 8); /* what alone would be allowed */
	memcpy(bytes, (const uint32_t[]){0x466243b1, 2}, 8);
	memcpy(bytes + length, unit.bytes, unit.length);
	length += unit.length;
	memcpy(bytes + length, image.bytes, image.length);
	length += image.length;
	assert_int_equal(
		fatbin_ptx(bytes, length, 90, &text, &text_length, &why), -GDEV_E_INVALID_IMAGE);
	assert_non_null(strstr(why, "too long"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_with_and_without_a_nul_is_ptx),
		cmocka_unit_test(machine_code_alone_is_no_binary),
		cmocka_unit_test(every_packing_is_read),
		cmocka_unit_test(the_best_target_is_taken),
		cmocka_unit_test(an_empty_fat_binary_is_known),
		cmocka_unit_test(fat_binaries_in_a_row_are_one),
		cmocka_unit_test(wrappers_lead_to_what_is_in_the_image_only),
		cmocka_unit_test(a_device_gets_machine_code_of_its_architecture_else_ptx),
		cmocka_unit_test(ptx_that_has_options_is_compiled_by_the_driver_which_reads_them),
		cmocka_unit_test(machine_code_that_is_newer_than_the_ptx_is_known),
		cmocka_unit_test(among_several_the_driver_chooses),
		cmocka_unit_test(damaged_images_are_survived),
		cmocka_unit_test(units_have_one_limit_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

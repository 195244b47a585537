/* SPDX-License-Identifier: MIT
 *
 * Rewriting a section of a configuration: what is asked for changes, and nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cli/cli.h"

static const struct setting settings[] = {{"inline_bytes", "8192"}, {"copy_threads", "2"}};

#define NEW "inline_bytes = 8192\ncopy_threads = 2\n"

static void check(const char *before, const char *after)
{
	autofree char *text =
		rewrite_section(before, "device cpu", settings, array_length(settings));

	assert_non_null(text);
	assert_string_equal(text, after);
}

static void rewriting_a_section_keeps_the_rest(void **state)
{
	check("", "[device cpu]\n" NEW);
	check("# mine\n[gdevd]\nlog = debug ; why\n\n[vgpu a]\nmode = 0600",
		"# mine\n[gdevd]\nlog = debug ; why\n\n[vgpu a]\nmode = 0600\n\n[device cpu]\n" NEW);
	check("[device cpu]\n# note\ninline_bytes=1\nchunk_bytes = 1M\n  copy_threads : 3\n"
	      "[device cpu2]\ninline_bytes = 5\n",
		"[device cpu]\n" NEW "# note\nchunk_bytes = 1M\n[device cpu2]\ninline_bytes = 5\n");
}

static void keys_of_that_section_are_replaced_wherever_they_are(void **state)
{
	check("[device  cpu]\ninline_bytes_x = 1\ninline_bytes = 4\n 5\n # kept\n[gdevd]\n"
	      "[device cpu] ; again\ninline_bytes = 7\n#inline_bytes = 9\n",
		"[device  cpu]\n" NEW "inline_bytes_x = 1\n # kept\n[gdevd]\n"
		"[device cpu] ; again\n#inline_bytes = 9\n");
	check("[device cuda:0]\ninline_bytes = 1\n",
		"[device cuda:0]\ninline_bytes = 1\n\n[device cpu]\n" NEW);
}

static void rewriting_twice_is_rewriting_once(void **state)
{
	autofree char *once =
		rewrite_section("[gdevd]\nx = 1\n", "device cpu", settings, array_length(settings));

	check(once, once);
}

static void file_is_made_with_its_directories_and_keeps_its_mode(void **state)
{
	char directory[] = "/tmp/gdev-test-XXXXXX", path[64], text[128] = "", command[64];
	struct stat status;
	FILE *file;

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/a/b/gdev.conf", directory);
	assert_int_equal(rewrite_allowed(path), 0);
	assert_int_equal(rewrite_file(path, "device cpu", settings, array_length(settings)), 0);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(rewrite_file(path, "device cpu", settings, array_length(settings)), 0);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0640);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof text - 1, file) > 0);
	fclose(file);
	assert_string_equal(text, "[device cpu]\n" NEW);
	assert_true(rewrite_allowed("/dev/null/gdev.conf") < 0);
	snprintf(command, sizeof command, "rm -rf %s", directory);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rewriting_a_section_keeps_the_rest),
		cmocka_unit_test(keys_of_that_section_are_replaced_wherever_they_are),
		cmocka_unit_test(rewriting_twice_is_rewriting_once),
		cmocka_unit_test(file_is_made_with_its_directories_and_keeps_its_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

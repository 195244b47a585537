/* SPDX-License-Identifier: MIT
 *
 * The cache of compiled code: its bound, and what it must not follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "directory.h"
#include "gdevd/cache.h"

static void store(struct cache *cache, uint8_t number, size_t bytes)
{
	uint8_t key[CACHE_KEY_BYTES] = {number};
	struct cache_write *write;

	assert_int_equal(cache_put(cache, 1000, key, bytes, &write), 0);
	assert_int_equal(ftruncate(write->fd, (off_t)bytes), 0);
	assert_int_equal(cache_commit(cache, 1000, write), 0);
}

static bool stored(struct cache *cache, uint8_t number)
{
	uint8_t key[CACHE_KEY_BYTES] = {number};
	autoclose int fd = -1;
	uint64_t bytes;

	return cache_get(cache, 1000, key, &fd, &bytes) == 0;
}

static void path_of(uint8_t number, char path[256])
{
	int length = snprintf(path, 256, "%s/cache/1000/%02x", directory, number);

	memset(path + length, '0', 2 * (CACHE_KEY_BYTES - 1));
	path[length + 2 * (CACHE_KEY_BYTES - 1)] = '\0';
}

/* As if it had been used last at that time. */
static void used_at(uint8_t number, time_t seconds)
{
	const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
	char path[256];

	path_of(number, path);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void cache_keeps_its_bound_and_what_was_used_last(void **state)
{
	struct cache cache;

	assert_int_equal(cache_init(&cache, directory, 1000), 0);
	for (uint8_t i = 1; i <= 9; i++) {
		store(&cache, i, 100);
		used_at(i, 1000 + i);
	}
	assert_true(stored(&cache, 1)); /* used: 2 is the oldest now */
	store(&cache, 20, 200);
	assert_true(stored(&cache, 20));
	assert_true(stored(&cache, 1));
	assert_false(stored(&cache, 2));
	assert_true(stored(&cache, 9));
	cache_finish(&cache);
}

static void cache_counts_what_an_earlier_daemon_left(void **state)
{
	uint8_t key[CACHE_KEY_BYTES] = {77};
	struct cache cache;
	struct cache_write *write;

	assert_int_equal(cache_init(&cache, directory, 1000), 0);
	assert_int_equal(cache_put(&cache, 1000, key, 501, &write), -EDQUOT);
	for (uint8_t i = 30; i < 60; i++)
		store(&cache, i, 100);
	cache_finish(&cache);
	assert_int_equal(cache_init(&cache, directory, 500), 0);
	store(&cache, 90, 100);
	unsigned left = 0;
	for (unsigned i = 0; i < 256; i++)
		left += stored(&cache, (uint8_t)i);
	assert_in_range(left, 1, 5);
	cache_finish(&cache);
}

static void cache_follows_no_links(void **state)
{
	uint8_t key[CACHE_KEY_BYTES] = {200};
	char path[256];
	struct cache cache;

	assert_int_equal(cache_init(&cache, directory, 1000), 0);
	assert_false(stored(&cache, 200));
	path_of(200, path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_false(stored(&cache, 200));
	snprintf(path, sizeof path, "%s/cache/1001", directory);
	assert_int_equal(symlink("/etc", path), 0);
	autoclose int fd = -1;
	uint64_t bytes;
	assert_int_equal(cache_get(&cache, 1001, key, &fd, &bytes), -ENOENT);
	cache_finish(&cache);
}

static void broken_cache_answers_that_nothing_is_there(void **state)
{
	struct cache cache;

	assert_true(cache_init(&cache, "/proc/nonexistent", 1000) < 0);
	assert_false(stored(&cache, 1));
	cache_finish(&cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cache_keeps_its_bound_and_what_was_used_last,
			make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(
			cache_counts_what_an_earlier_daemon_left, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(
			cache_follows_no_links, make_directory, remove_directory),
		cmocka_unit_test(broken_cache_answers_that_nothing_is_there),
	};

	return cmocka_run_group_tests_name("gdevd cache", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * The cache of compiled code: its bound, what replaces what, and what it must not follow.
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
#include "base/fd.h"
#include "directory.h"
#include "gdevd/cache.h"

#define FILE_DISK_BYTES 8192 /* of a small file: a block, and one for its name and inode */

static uv_loop_t loop;
static struct cache cache;
static int last_status, last_fd;

static int start(uint64_t limit_bytes)
{
	return cache_init(&cache, &loop, directory, limit_bytes);
}

static void finish(void)
{
	cache_stop(&cache);
	uv_run(&loop, UV_RUN_DEFAULT);
	cache_finish(&cache);
}

static void done(struct cache_request *request)
{
	last_status = request->status;
	last_fd = request->what == CACHE_READ ? steal_fd(&request->fd) : -1;
}

static void store_text(uint8_t number, const void *text, size_t bytes)
{
	uint8_t key[CODE_KEY_BYTES] = {number};
	struct cache_request *request;

	assert_int_equal(cache_put(&cache, NULL, key, bytes, &request), 0);
	assert_int_equal(fd_write_at(request->fd, text, bytes, 0), 0);
	cache_submit(&cache, 1000, request, done);
	uv_run(&loop, UV_RUN_DEFAULT);
}

static void store(uint8_t number, size_t bytes)
{
	autofree void *text = calloc(1, bytes);

	store_text(number, text, bytes);
	assert_int_equal(last_status, 0);
}

/* The descriptor, the caller's, or -errno. */
static int get_of(uid_t uid, uint8_t number)
{
	uint8_t key[CODE_KEY_BYTES] = {number};
	struct cache_request *request;

	assert_int_equal(cache_get(NULL, key, &request), 0);
	cache_submit(&cache, uid, request, done);
	uv_run(&loop, UV_RUN_DEFAULT);
	return last_status ? last_status : last_fd;
}

static bool stored(uint8_t number)
{
	autoclose int fd = get_of(1000, number);

	return fd >= 0;
}

static void path_of(uint8_t number, char path[256])
{
	int length = snprintf(path, 256, "%s/cache/1000/%02x", directory, number);

	memset(path + length, '0', 2 * (CODE_KEY_BYTES - 1));
	path[length + 2 * (CODE_KEY_BYTES - 1)] = '\0';
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
	assert_int_equal(start(10 * FILE_DISK_BYTES), 0);
	for (uint8_t i = 1; i <= 9; i++) {
		store(i, 100);
		used_at(i, 1000 + i);
	}
	assert_true(stored(1)); /* used: 2 is the oldest now */
	store(20, FILE_DISK_BYTES);
	assert_true(stored(20));
	assert_true(stored(1));
	assert_false(stored(2));
	assert_true(stored(9));
	finish();
}

/* As du sees them, and a block for each file. */
static uint64_t disk_bytes(unsigned *files)
{
	char path[256];
	uint64_t bytes = 0;

	*files = 0;
	for (unsigned i = 0; i < 256; i++) {
		struct stat status;
		path_of((uint8_t)i, path);
		if (lstat(path, &status))
			continue;
		++*files;
		bytes += (uint64_t)status.st_blocks * 512 + 4096;
	}
	return bytes;
}

static void blocks_and_files_are_counted(void **state)
{
	unsigned files;

	assert_int_equal(start(64 * FILE_DISK_BYTES), 0);
	for (unsigned i = 0; i < 256; i++)
		store((uint8_t)i, 1); /* all together no more than a block */
	assert_in_range(disk_bytes(&files), 1, 64 * FILE_DISK_BYTES);
	assert_in_range(files, 1, 64);
	finish();
}

static void cache_counts_what_an_earlier_daemon_left(void **state)
{
	uint8_t key[CODE_KEY_BYTES] = {77};
	struct cache_request *request;
	unsigned left;

	assert_int_equal(start(40 * FILE_DISK_BYTES), 0);
	assert_int_equal(cache_put(&cache, NULL, key, 20 * FILE_DISK_BYTES + 1, &request), -EDQUOT);
	for (uint8_t i = 30; i < 60; i++)
		store(i, 100);
	finish();
	assert_int_equal(start(5 * FILE_DISK_BYTES), 0);
	store(90, 100);
	disk_bytes(&left);
	assert_in_range(left, 1, 5);
	finish();
}

static void what_is_stored_replaces_what_there_was(void **state)
{
	char path[256], text[8] = "";
	int file;

	assert_int_equal(start(10 * FILE_DISK_BYTES), 0);
	store_text(1, "first", 6);
	autoclose int before = get_of(1000, 1);
	path_of(1, path);
	file = open(path, O_WRONLY);
	assert_int_equal(pwrite(file, "damage", 6, 0), 6);
	close(file);
	for (unsigned i = 0; i < 100; i++) /* and it is counted once */
		store_text(1, "second", 7);
	store(2, 100);
	autoclose int after = get_of(1000, 1);
	assert_int_equal(pread(after, text, sizeof text, 0), 7);
	assert_string_equal(text, "second");
	assert_int_equal(
		pread(before, text, sizeof text, 0), 6); /* whoever reads it reads it whole */
	assert_string_equal(text, "damage");
	assert_true(stored(2));
	finish();
}

static void what_is_written_has_the_size_that_was_admitted(void **state)
{
	uint8_t key[CODE_KEY_BYTES] = {1};
	struct cache_request *request;

	assert_int_equal(start(10 * FILE_DISK_BYTES), 0);
	assert_int_equal(cache_put(&cache, NULL, key, 100, &request), 0);
	autoclose int worker = dup(request->fd);
	assert_true(pwrite(worker, "x", 1, 100) < 0);
	assert_true(ftruncate(worker, 1 << 20) < 0);
	assert_true(fallocate(worker, 0, 0, 1 << 20) < 0);
	cache_submit(&cache, 1000, request, done);
	uv_run(&loop, UV_RUN_DEFAULT);
	autoclose int fd = get_of(1000, 1);
	assert_int_equal(pwrite(worker, "late", 4, 0), 4);
	char text[4] = "";
	assert_int_equal(pread(fd, text, 4, 0), 4);
	assert_memory_equal(text, "\0\0\0\0", 4);
	finish();
}

static void cache_follows_no_links(void **state)
{
	char path[256];

	assert_int_equal(start(10 * FILE_DISK_BYTES), 0);
	assert_false(stored(200));
	path_of(200, path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_false(stored(200));
	snprintf(path, sizeof path, "%s/cache/1001", directory);
	assert_int_equal(symlink("/etc", path), 0);
	assert_int_equal(get_of(1001, 200), -ENOENT);
	finish();
}

static void broken_cache_answers_that_nothing_is_there(void **state)
{
	assert_true(cache_init(&cache, &loop, "/proc/nonexistent", 1000) < 0);
	assert_false(stored(1));
	finish();
}

static void what_is_queued_at_the_end_is_forgotten(void **state)
{
	assert_int_equal(start(10 * FILE_DISK_BYTES), 0);
	for (uint8_t i = 0; i < 10; i++) {
		uint8_t key[CODE_KEY_BYTES] = {i};
		struct cache_request *request;
		assert_int_equal(cache_put(&cache, NULL, key, 100, &request), 0);
		if (i % 2)
			cache_submit(&cache, 1000 + i % 4, request, done);
		else
			cache_drop(&cache, 1000, request);
	}
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
		TEST(cache_keeps_its_bound_and_what_was_used_last),
		TEST(blocks_and_files_are_counted),
		TEST(cache_counts_what_an_earlier_daemon_left),
		TEST(what_is_stored_replaces_what_there_was),
		TEST(what_is_written_has_the_size_that_was_admitted),
		TEST(cache_follows_no_links),
		TEST(what_is_queued_at_the_end_is_forgotten),
		cmocka_unit_test(broken_cache_answers_that_nothing_is_there),
	};

	uv_loop_init(&loop);
	return cmocka_run_group_tests_name("gdevd cache", tests, NULL, NULL);
}

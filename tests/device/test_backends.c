/* SPDX-License-Identifier: MIT
 *
 * What every device backend holds to (device/ops.h), run over each of them.
 */
#include "harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdev/error.h"
#include "proto/control.h"

extern const struct device_ops gdev_device_backend; /* the software GPU, linked in */

static struct harness harness;

static int start(void **state)
{
	harness_start(&harness, *state);
	return 0;
}

static int stop(void **state)
{
	harness_stop(&harness);
	return 0;
}

static uint8_t pattern(uint64_t i)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + 1);
}

static void describes_its_device(void **state)
{
	const struct device_ops *ops = *state;
	struct device_config config = {.memory_bytes = 64 << 20};
	struct device_info info;

	assert_true(ops->probe(&config, NULL, 0) > 0);
	assert_true(ops->probe(&config, &info, 1) > 0);
	assert_true(info.name[0]);
	if (strcmp(ops->name, "cuda"))
		assert_int_equal(info.memory_bytes, 64 << 20);
	else
		assert_true(info.memory_bytes > 64 << 20);
	assert_int_equal(info.properties[PROPERTY_WARP_SIZE], 32);
	assert_true(info.properties[PROPERTY_MULTIPROCESSORS] > 0);
}

static void memory_is_zeroed_and_keeps_its_bytes_over_a_remap(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *chunk = harness_map(h, 0);
	autofree uint8_t *bytes = malloc(DEVICE_CHUNK_MIN);

	harness_read(h, h->base, bytes, DEVICE_CHUNK_MIN);
	for (uint64_t i = 0; i < DEVICE_CHUNK_MIN; i++)
		assert_int_equal(bytes[i], 0);
	harness_set_word(h, harness_address(h, 0) + 12344, 99);
	h->ops->unmap(h->space, harness_address(h, 0), chunk);
	assert_int_equal(h->ops->map(h->space, harness_address(h, 3), chunk, false), 0);
	assert_int_equal(harness_word(h, harness_address(h, 3) + 12344), 99);
	harness_unmap(h, 3, chunk);
}

static void sizes_and_addresses_of_chunks_are_checked(void **state)
{
	struct harness *h = &harness;
	uint64_t grain = h->ops->grain_bytes ? h->ops->grain_bytes : DEVICE_CHUNK_MIN;
	struct device_chunk *chunk;

	assert_int_equal(h->ops->chunk_create(h->device, 0, &chunk), -EINVAL);
	assert_int_equal(h->ops->chunk_create(h->device, grain / 2, &chunk), -EINVAL);
	assert_int_equal(
		h->ops->chunk_create(h->device, DEVICE_CHUNK_MIN + grain / 2, &chunk), -EINVAL);
	assert_int_equal(h->ops->chunk_create(h->device, DEVICE_CHUNK_MAX * 2, &chunk), -EINVAL);
	assert_int_equal(h->ops->chunk_create(h->device, 3 << 20, &chunk), -EINVAL);
	assert_int_equal(h->ops->chunk_create(h->device, 4 << 20, &chunk), 0);
	assert_int_equal(h->ops->map(h->space, h->base + 4096, chunk, false), -EINVAL);
	assert_int_equal(h->ops->map(h->space, h->base - (4 << 20), chunk, false), -EINVAL);
	assert_int_equal(
		h->ops->map(h->space, h->base + HARNESS_BYTES - (2 << 20), chunk, false), -EINVAL);
	assert_int_equal(h->ops->map(h->space, h->base + HARNESS_BYTES, chunk, false), -EINVAL);
	h->ops->chunk_destroy(chunk);
}

static void a_space_has_several_ranges(void **state)
{
	struct harness *h = &harness;
	const uint64_t bytes = 64 << 20;
	uint64_t other = h->ops->poll && !getenv("GDEV_CUDA_DRIVER") ? h->base + HARNESS_BYTES * 8
								     : harness_free_range(bytes);
	struct device_chunk *chunk = harness_map(h, 0);

	assert_int_equal(h->ops->map(h->space, other, chunk, false), -EINVAL);
	assert_int_equal(h->ops->space_reserve(h->space, h->base, bytes), -EADDRINUSE);
	assert_int_equal(h->ops->space_reserve(h->space, other, bytes), 0);
	h->ops->unmap(h->space, harness_address(h, 0), chunk);
	assert_int_equal(h->ops->map(h->space, other + bytes - (1 << 20), chunk, false), -EINVAL);
	assert_int_equal(h->ops->map(h->space, other + (2 << 20), chunk, false), 0);
	harness_set_word(h, other + (2 << 20) + 8, 99);
	assert_int_equal(harness_word(h, other + (2 << 20) + 8), 99);
	h->ops->unmap(h->space, other + (2 << 20), chunk);
	h->ops->chunk_destroy(chunk);
}

static void chunks_may_be_as_small_as_the_grain(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *chunk;
	uint64_t grain = h->ops->grain_bytes;

	if (!grain) {
		print_message("# the device has no chunks below %llu MiB\n",
			(unsigned long long)(DEVICE_CHUNK_MIN >> 20));
		skip();
	}
	assert_int_equal(h->ops->chunk_create(h->device, 3 * grain, &chunk), 0);
	assert_int_equal(h->ops->map(h->space, h->base, chunk, false), 0);
	harness_set_word(h, h->base + 3 * grain - 4, 99);
	assert_int_equal(harness_word(h, h->base + 3 * grain - 4), 99);
	h->ops->unmap(h->space, h->base, chunk);
	h->ops->chunk_destroy(chunk);
}

/* The driver of a GPU does not tell how large what it imports is: then mapping it fails. */
static int import_and_map(struct harness *h, int fd, uint64_t bytes)
{
	struct device_chunk *chunk;
	int error = h->ops->chunk_import(h->device, fd, bytes, &chunk);

	if (error)
		return error;
	error = h->ops->map(h->space, harness_address(h, 8), chunk, false);
	if (!error)
		h->ops->unmap(h->space, harness_address(h, 8), chunk);
	h->ops->chunk_destroy(chunk);
	return error;
}

static void imports_are_the_same_memory_and_checked(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *chunk = harness_map(h, 0), *import;
	int fd, unsealed = memfd_create("unsealed", MFD_CLOEXEC);

	assert_int_equal(h->ops->chunk_export(chunk, &fd), 0);
	assert_int_equal(import_and_map(h, fd, 4 << 20), -EINVAL);
	assert_int_equal(ftruncate(unsealed, DEVICE_CHUNK_MIN), 0);
	assert_int_equal(import_and_map(h, unsealed, DEVICE_CHUNK_MIN), -EINVAL);
	assert_int_equal(h->ops->chunk_import(h->device, fd, DEVICE_CHUNK_MIN, &import), 0);
	close(fd);
	close(unsealed);
	assert_int_equal(h->ops->map(h->space, harness_address(h, 1), import, false), 0);
	harness_set_word(h, harness_address(h, 0), 0xabcdef01);
	harness_unmap(h, 0, chunk);
	assert_int_equal(harness_word(h, harness_address(h, 1)), 0xabcdef01);
	harness_unmap(h, 1, import);
}

/* Whoever has a segment hands it to the next gdevd, also if another made it. */
static void imports_can_be_exported(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *chunk = harness_map(h, 0), *import;
	int fd;

	assert_int_equal(h->ops->chunk_export(chunk, &fd), 0);
	assert_int_equal(h->ops->chunk_import(h->device, fd, DEVICE_CHUNK_MIN, &import), 0);
	close(fd);
	harness_set_word(h, harness_address(h, 0), 0x12345678);
	harness_unmap(h, 0, chunk);
	assert_int_equal(h->ops->chunk_export(import, &fd), 0);
	h->ops->chunk_destroy(import);
	assert_int_equal(h->ops->chunk_import(h->device, fd, DEVICE_CHUNK_MIN, &import), 0);
	close(fd);
	assert_int_equal(h->ops->map(h->space, harness_address(h, 1), import, false), 0);
	assert_int_equal(harness_word(h, harness_address(h, 1)), 0x12345678);
	harness_unmap(h, 1, import);
}

/* The other worker: imports what comes over the socket, checks and changes it. */
static int other_process(const struct device_ops *ops, int socket)
{
	struct harness *h = &harness;
	struct device_chunk *chunk;
	size_t count = 1;
	char byte;
	int fd;

	harness_start(h, ops);
	if (fd_receive(socket, &byte, 1, &fd, &count) != 1 || count != 1 ||
		ops->chunk_import(h->device, fd, DEVICE_CHUNK_MIN, &chunk) ||
		ops->map(h->space, harness_address(h, 5), chunk, false))
		return 1;
	if (harness_word(h, harness_address(h, 5) + 4000) != 4711)
		return 2;
	harness_set_word(h, harness_address(h, 5) + 4000, 1147);
	harness_unmap(h, 5, chunk);
	harness_stop(h);
	return 0;
}

/* A program of its own: a driver that is open does not survive a fork. */
static pid_t start_other(const struct device_ops *ops, int socket)
{
	char fd[16];
	pid_t child;

	snprintf(fd, sizeof fd, "%d", socket);
	fcntl(socket, F_SETFD, 0);
	child = fork();
	if (!child) {
		execl("/proc/self/exe", "test_backends", "--other", fd, ops->name, NULL);
		_exit(127);
	}
	return child;
}

static void exported_memory_is_shared_between_processes(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *chunk;
	int pair[2], fd, status;
	pid_t child;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	child = start_other(*state, pair[1]);
	harness_start(h, *state);
	chunk = harness_map(h, 0);
	harness_set_word(h, h->base + 4000, 4711);
	assert_int_equal(h->ops->chunk_export(chunk, &fd), 0);
	assert_int_equal(fd_send(pair[0], "", 1, &fd, 1), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(harness_word(h, h->base + 4000), 1147);
	close(fd);
	close(pair[0]);
	close(pair[1]);
	harness_unmap(h, 0, chunk);
	harness_stop(h);
}

static void the_program_can_map_device_memory(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *chunk;
	uint32_t *view;
	int fd;

	if (!h->ops->chunk_host_fd) {
		dprintf(h->out, "# the program cannot map this device's memory\n");
		skip();
		return;
	}
	chunk = harness_map(h, 0);
	assert_int_equal(h->ops->chunk_host_fd(chunk, &fd), 0);
	view = mmap(NULL, DEVICE_CHUNK_MIN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(view, MAP_FAILED);
	view[7] = 77;
	assert_int_equal(harness_word(h, h->base + 28), 77);
	munmap(view, DEVICE_CHUNK_MIN);
	close(fd);
	harness_unmap(h, 0, chunk);
}

/* ---- copies ---- */

struct copy_case {
	uint64_t source, destination, width, height, depth;
	uint64_t source_pitch, destination_pitch, source_slice, destination_slice;
};

static const struct copy_case copy_cases[] = {
	{0, 0, 1, 1, 1, 0, 0, 0, 0},
	{3, 5, 4097, 1, 1, 0, 0, 0, 0},
	{0, 0, 2 << 20, 1, 1, 0, 0, 0, 0},
	{1, 0, (2 << 20) - 1, 1, 1, 0, 0, 0, 0},
	{0, 0, 64, 16, 1, 64, 64, 0, 0},
	{7, 9, 100, 33, 1, 128, 256, 0, 0},
	{0, 0, 1, 20000, 1, 2, 3, 0, 0},
	{0, 0, 60000, 20, 1, 65536, 60001, 0, 0},
	{0, 0, 32, 8, 4, 32, 32, 256, 256},
	{0, 0, 32, 8, 4, 32, 32, 256, 512},
	{0, 0, 30, 8, 4, 32, 40, 512, 320},
	{0, 0, 100, 1, 5, 0, 0, 200, 300},
	{0, 0, 100, 1, 5, 0, 0, 100, 100},
	{5, 6, 30, 8, 4, 32, 40, 500, 333},
	{0, 0, 0, 5, 1, 8, 8, 0, 0},
	{0, 0, 5, 0, 1, 8, 8, 0, 0},
};

/* A side that is the host's is in harness.locked, which harness_read() and harness_write() use as well. */
static void check_copy(struct harness *h, struct device_queue *queue, const struct copy_case *c,
	enum copy_direction direction, const uint8_t *source)
{
	uint64_t from = direction == COPY_TO_DEVICE ? (uintptr_t)h->locked : harness_address(h, 0);
	uint64_t to = direction == COPY_FROM_DEVICE ? (uintptr_t)h->locked : harness_address(h, 1);
	struct submitted s = {
		.command = {.kind = DEVICE_COPY,
			.copy = {direction, to + c->destination, from + c->source, c->width,
				c->height, c->depth, c->destination_pitch, c->source_pitch,
				c->destination_slice, c->source_slice}}};
	autofree uint8_t *expected = calloc(1, DEVICE_CHUNK_MIN),
			 *got = calloc(1, DEVICE_CHUNK_MIN);

	for (uint64_t z = 0; z < c->depth; z++)
		for (uint64_t y = 0; y < c->height; y++)
			memcpy(expected + c->destination + z * c->destination_slice +
					y * c->destination_pitch,
				source + c->source + z * c->source_slice + y * c->source_pitch,
				c->width);
	harness_write(h, harness_address(h, 1), got, DEVICE_CHUNK_MIN);
	memset(h->locked, 0, DEVICE_CHUNK_MIN);
	if (direction == COPY_TO_DEVICE)
		memcpy(h->locked, source, DEVICE_CHUNK_MIN);
	assert_int_equal(harness_run(h, queue, &s), 0);
	if (direction == COPY_FROM_DEVICE)
		memcpy(got, h->locked, DEVICE_CHUNK_MIN);
	else
		harness_read(h, harness_address(h, 1), got, DEVICE_CHUNK_MIN);
	assert_memory_equal(got, expected, DEVICE_CHUNK_MIN);
}

static void copies_of_every_shape_and_direction_are_exact(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *a = harness_map(h, 0), *b = harness_map(h, 1);
	struct device_queue *queue = harness_queue(h);
	autofree uint8_t *source = malloc(DEVICE_CHUNK_MIN);

	for (uint64_t i = 0; i < DEVICE_CHUNK_MIN; i++)
		source[i] = pattern(i);
	harness_write(h, h->base, source, DEVICE_CHUNK_MIN);
	for (size_t i = 0; i < array_length(copy_cases); i++)
		for (int direction = COPY_TO_DEVICE; direction <= COPY_WITHIN; direction++)
			check_copy(
				h, queue, &copy_cases[i], (enum copy_direction)direction, source);
	h->ops->queue_destroy(queue);
	harness_unmap(h, 0, a);
	harness_unmap(h, 1, b);
}

static void fills_write_their_elements_and_nothing_else(void **state)
{
	static const struct device_fill cases[] = {
		{0, 1, 1, 0, 1, 0xa5},
		{3, 100001, 1, 0, 1, 0x111},
		{2, 1000, 1, 0, 2, 0x12345678},
		{4, 300000, 1, 0, 4, 0xdeadbeef},
		{0, 10, 20, 64, 1, 7},
		{8, 10, 100, 128, 4, 0x01020304},
		{0, 16, 1000, 64, 4, 9},
		{2, 3, 3, 10, 2, 0x5566},
		{0, 0, 5, 8, 1, 1},
		{0, 5, 0, 8, 1, 1},
	};
	struct harness *h = &harness;
	struct device_chunk *chunk = harness_map(h, 0);
	struct device_queue *queue = harness_queue(h);
	autofree uint8_t *expected = malloc(DEVICE_CHUNK_MIN), *got = malloc(DEVICE_CHUNK_MIN);

	for (size_t i = 0; i < array_length(cases); i++) {
		struct submitted s = {.command = {.kind = DEVICE_FILL, .fill = cases[i]}};
		const struct device_fill *f = &cases[i];

		memset(expected, 0x3c, DEVICE_CHUNK_MIN);
		harness_write(h, h->base, expected, DEVICE_CHUNK_MIN);
		for (uint64_t y = 0; y < f->height; y++)
			for (uint64_t x = 0; x < f->width; x++)
				memcpy(expected + f->destination + y * f->pitch +
						x * f->element_bytes,
					&f->value, f->element_bytes);
		s.command.fill.destination += h->base;
		assert_int_equal(harness_run(h, queue, &s), 0);
		harness_read(h, h->base, got, DEVICE_CHUNK_MIN);
		assert_memory_equal(got, expected, DEVICE_CHUNK_MIN);
	}
	h->ops->queue_destroy(queue);
	harness_unmap(h, 0, chunk);
}

/* ---- memory that lies in several places ---- */

static void register_host(struct harness *h, unsigned index)
{
	void *there = (void *)(uintptr_t)harness_address(h, index);

	assert_ptr_equal(mmap(there, DEVICE_CHUNK_MIN, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		there);
	if (h->ops->host_register)
		assert_int_equal(h->ops->host_register(
					 h->space, harness_address(h, index), DEVICE_CHUNK_MIN),
			0);
}

static void run_copy(struct harness *h, struct device_queue *queue, enum copy_direction direction,
	uint64_t to, uint64_t from, uint64_t width, uint64_t height, uint64_t pitch)
{
	struct submitted s = {
		.command = {.kind = DEVICE_COPY,
			.copy = {direction, to, from, width, height, 1, pitch, pitch, 0, 0}}};

	assert_int_equal(harness_run(h, queue, &s), 0);
}

/* Chunks at 0 and 3, and 4 to 7 for what is copied; page-locked memory at 1 and 2: 8 MiB without a gap. */
static void commands_reach_over_chunks_and_page_locked_memory(void **state)
{
	const uint64_t bytes = 4 * DEVICE_CHUNK_MIN - 2468, begin = 1234;
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	uint64_t from = h->base + begin, to = harness_address(h, 4) + begin;
	struct device_chunk *chunks[8] = {NULL};
	struct submitted fill = {
		.command = {.kind = DEVICE_FILL, .fill = {from, bytes / 4, 1, 0, 4, 0x01020304}}};
	autofree uint8_t *part = malloc(DEVICE_CHUNK_MIN);

	for (unsigned i = 0; i < 8; i++)
		if (i == 1 || i == 2)
			register_host(h, i);
		else
			chunks[i] = harness_map(h, i);
	fill.command.fill.destination &= ~3ull;
	assert_int_equal(harness_run(h, queue, &fill), 0);
	for (unsigned i = 1; i < 3; i++) { /* it is there in both, to the boundary between them */
		const uint32_t *words = (const uint32_t *)(uintptr_t)harness_address(h, i);
		assert_int_equal(words[0], 0x01020304);
		assert_int_equal(words[DEVICE_CHUNK_MIN / 4 - 1], 0x01020304);
	}
	for (unsigned i = 0; i < 4; i++) {
		for (uint64_t j = 0; j < DEVICE_CHUNK_MIN; j++)
			part[j] = pattern(i * DEVICE_CHUNK_MIN + j);
		harness_write(h, harness_address(h, i), part, DEVICE_CHUNK_MIN);
	}
	run_copy(h, queue, COPY_WITHIN, to, from, bytes, 1, 0);
	run_copy(h, queue, COPY_WITHIN, to + 700000, from + 700000, 600000, 12, 600011);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t first = i ? 0 : begin, end = DEVICE_CHUNK_MIN - (i == 3 ? 1234 : 0);
		harness_read(h, harness_address(h, 4 + i), part, DEVICE_CHUNK_MIN);
		for (uint64_t j = first; j < end; j++)
			if (part[j] != pattern(i * DEVICE_CHUNK_MIN + j))
				fail_msg("byte %llu of part %u", (unsigned long long)j, i);
	}
	/* To and from the host, over the boundary between the two. */
	memset(h->locked, 0x5a, DEVICE_CHUNK_MIN);
	run_copy(h, queue, COPY_TO_DEVICE, harness_address(h, 2) - 777777, (uintptr_t)h->locked,
		1500000, 1, 0);
	memset(h->locked, 0, DEVICE_CHUNK_MIN);
	run_copy(h, queue, COPY_FROM_DEVICE, (uintptr_t)h->locked, harness_address(h, 2) - 777777,
		1500000, 1, 0);
	for (unsigned i = 0; i < 1500000; i++)
		assert_int_equal(h->locked[i], 0x5a);
	h->ops->queue_destroy(queue);
	for (unsigned i = 0; i < 8; i++)
		if (chunks[i])
			harness_unmap(h, i, chunks[i]);
		else if (h->ops->host_unregister)
			h->ops->host_unregister(h->space, harness_address(h, i), DEVICE_CHUNK_MIN);
}

/* ---- queues ---- */

#define QUEUES 4
#define COMMANDS 64

static void commands_of_a_queue_are_done_in_order_and_once(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *chunk = harness_map(h, 0);
	struct device_queue *queues[QUEUES];
	static struct submitted s[QUEUES][COMMANDS];

	memset(s, 0, sizeof s);
	for (int q = 0; q < QUEUES; q++)
		queues[q] = harness_queue(h);
	for (int i = 0; i < COMMANDS; i++)
		for (int q = 0; q < QUEUES; q++) {
			/* Each command moves a number one cell on: only in order does it arrive. */
			uint64_t cell = h->base + (uint64_t)q * 65536 + (uint64_t)i * 8;
			s[q][i].command.kind = i ? DEVICE_COPY : DEVICE_FILL;
			if (i)
				s[q][i].command.copy =
					(struct device_copy){(enum copy_direction)(i % 3), cell,
						cell - 8, 4, 1, 1, 0, 0, 0, 0};
			else
				s[q][i].command.fill =
					(struct device_fill){cell, 1, 1, 0, 4, 1000u + (unsigned)q};
			harness_submit(h, queues[q], &s[q][i]);
		}
	for (int q = 0; q < QUEUES; q++) {
		assert_int_equal(harness_wait(h, &s[q][COMMANDS - 1]), 0);
		assert_int_equal(
			harness_word(h, h->base + (uint64_t)q * 65536 + (COMMANDS - 1) * 8),
			1000 + q);
		for (int i = 0; i < COMMANDS; i++) {
			const struct device_command *c = &s[q][i].command;
			assert_int_equal(s[q][i].done, 1);
			assert_int_equal(s[q][i].error, 0);
			assert_true(!i || s[q][i].order > s[q][i - 1].order);
			assert_true(c->started_ns && c->started_ns <= c->finished_ns);
			if (h->ops->poll) /* its commands are on the device together */
				continue;
			assert_true(!i || c->started_ns >= s[q][i - 1].command.finished_ns);
			assert_true(c->busy_ns <= c->finished_ns - c->started_ns);
		}
		h->ops->queue_destroy(queues[q]);
	}
	harness_unmap(h, 0, chunk);
}

static void an_empty_device_has_nothing_to_do(void **state)
{
	struct harness *h = &harness;

	if (h->ops->work)
		assert_false(h->ops->work(h->device));
	else
		assert_false(h->ops->poll(h->device));
}

static void any_function_name_and_module_are_null_s(void **state)
{
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	struct device_function *function;
	struct device_function_info info;
	struct device_module *module;
	struct submitted s = {.command = {.kind = DEVICE_LAUNCH}};
	uint64_t address, bytes;

	assert_int_equal(harness_module_load(h, "anything", 8, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "any", &function), 0);
	h->ops->function_info(function, &info);
	assert_int_equal(info.param_count, 0);
	assert_int_equal(
		h->ops->global_get(module, "any", &address, &bytes), -GDEV_E_SYMBOL_NOT_FOUND);
	s.command.launch =
		(struct device_launch){.function = function, .grid = {1, 1, 1}, .block = {1, 1, 1}};
	assert_int_equal(harness_run(h, queue, &s), 0);
	h->ops->queue_destroy(queue);
	h->ops->module_unload(module);
}

static void devices_are_found_by_name(void **state)
{
	const struct device_ops *ops = NULL;
	unsigned index = 77;

	assert_int_equal(device_parse("null", &ops, &index), 0);
	assert_string_equal(ops->name, "null");
	assert_int_equal(index, 0);
	assert_int_equal(device_parse("null:3", &ops, &index), 0);
	assert_int_equal(index, 3);
	assert_int_equal(device_parse("", &ops, &index), -EINVAL);
	assert_int_equal(device_parse("null:", &ops, &index), -EINVAL);
	assert_int_equal(device_parse("null:-1", &ops, &index), -EINVAL);
	assert_int_equal(device_parse("null:1x", &ops, &index), -EINVAL);
	assert_int_equal(device_parse("../x", &ops, &index), -EINVAL);
	assert_int_equal(device_parse("averyveryverylongname", &ops, &index), -EINVAL);
	assert_int_equal(device_parse("nosuch", &ops, &index), -ENODEV);
	assert_null(device_ops_find("nosuch"));
}

#define EACH(test, backend)                                                                        \
	{                                                                                          \
#test, test, start, stop, (void *)(backend)                                        \
	}

#define ALL(backend)                                                                               \
	{"describes_its_device", describes_its_device, NULL, NULL, (void *)(backend)},             \
		EACH(memory_is_zeroed_and_keeps_its_bytes_over_a_remap, backend),                  \
		EACH(sizes_and_addresses_of_chunks_are_checked, backend),                          \
		EACH(a_space_has_several_ranges, backend),                                         \
		EACH(chunks_may_be_as_small_as_the_grain, backend),                                \
		EACH(imports_are_the_same_memory_and_checked, backend),                            \
		EACH(imports_can_be_exported, backend),                                            \
		{"exported_memory_is_shared_between_processes",                                    \
			exported_memory_is_shared_between_processes, NULL, NULL,                   \
			(void *)(backend)},                                                        \
		EACH(the_program_can_map_device_memory, backend),                                  \
		EACH(copies_of_every_shape_and_direction_are_exact, backend),                      \
		EACH(fills_write_their_elements_and_nothing_else, backend),                        \
		EACH(commands_reach_over_chunks_and_page_locked_memory, backend),                  \
		EACH(commands_of_a_queue_are_done_in_order_and_once, backend),                     \
		EACH(an_empty_device_has_nothing_to_do, backend)

/* test_backends NAME: that one alone. --other FD NAME: see start_other(). */
int main(int argc, char **argv)
{
	const struct device_ops *null = device_ops_find("null"), *named = NULL;
	unsigned index;

	signal(SIGPIPE, SIG_IGN); /* standard output is a driver's meanwhile */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && device_parse(argv[argc - 1], &named, &index)) {
		fprintf(stderr, "there is no device %s\n", argv[argc - 1]);
		return 2;
	}
	if (argc == 4 && !strcmp(argv[1], "--other"))
		return other_process(named, atoi(argv[2]));
	const struct CMUnitTest wanted[] = {ALL(named)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_are_found_by_name),
		EACH(any_function_name_and_module_are_null_s, null),
		ALL(null),
		ALL(&gdev_device_backend),
	};

	return named ? cmocka_run_group_tests(wanted, NULL, NULL)
		     : cmocka_run_group_tests(tests, NULL, NULL);
}

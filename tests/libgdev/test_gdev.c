/* SPDX-License-Identifier: MIT
 *
 * The Gdev API end to end: under a gdevd, on the software GPU.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <gdev/gdev.h>
#include <gdev/session.h>

extern const char kernels_ptx[];

static struct gdev_handle *gpu;
static struct gdev_module *module;

static int setup(void **state)
{
	char log[4096];

	assert_int_equal(gopen(0, &gpu), 0);
	if (gmodule_load(gpu, kernels_ptx, strlen(kernels_ptx) + 1, log, sizeof log, &module))
		fail_msg("%s", log);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(gmodule_unload(gpu, module), 0);
	assert_int_equal(gclose(gpu), 0);
	return 0;
}

static struct gdev_function *function(const char *name)
{
	struct gdev_function *found;

	assert_int_equal(gmodule_function(gpu, module, name, &found), 0);
	return found;
}

static uint64_t words_alloc(struct gdev_handle *handle, uint32_t count)
{
	uint64_t address;

	assert_int_equal(gmalloc(handle, count * 4, &address), 0);
	assert_int_equal(gmemset(handle, address, 0, count * 4), 0);
	return address;
}

static uint32_t first_word(struct gdev_handle *handle, uint64_t address)
{
	uint32_t word;

	assert_int_equal(gmemcpy_from_device(handle, &word, address, 4), 0);
	return word;
}

static int add(uint64_t address, uint32_t count, uint32_t value, uint32_t *id)
{
	struct gdev_kernel kernel = {
		.function = function("add"),
		.grid = {(count + 255) / 256, 1, 1},
		.block = {256, 1, 1},
		.arguments = (void *[]){&address, &count, &value},
	};

	return glaunch(gpu, &kernel, id);
}

static void devices_are_counted_and_opened(void **state)
{
	struct gdev_handle *handle;
	int count;

	assert_int_equal(gdevice_count(&count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(gopen(count, &handle), -ENODEV);
	assert_int_equal(gopen_name("nobody", &handle), -ENODEV);
	assert_int_equal(gopen_name("../etc", &handle), -EINVAL);
	assert_int_equal(gopen_name(NULL, &handle), 0);
	assert_int_equal(gclose(handle), 0);
	assert_int_equal(gclose(NULL), 0);
}

static void a_kernel_computes_on_what_was_copied(void **state)
{
	enum { COUNT = 100000 };
	static uint32_t words[COUNT];
	uint64_t address = words_alloc(gpu, COUNT);
	uint32_t id;

	for (uint32_t i = 0; i < COUNT; i++)
		words[i] = i;
	assert_int_equal(gmemcpy_to_device(gpu, address, words, sizeof words), 0);
	assert_int_equal(add(address, COUNT, 7, &id), 0);
	assert_int_equal(gsync(gpu, id, GDEV_FOREVER), 0);
	assert_int_equal(gmemcpy_from_device(gpu, words, address, sizeof words), 0);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(words[i], i + 7);
	assert_int_equal(gfree(gpu, address), 0);
	assert_int_equal(gfree(gpu, address), -EINVAL);
}

static void parameters_may_come_as_one_buffer(void **state)
{
	uint64_t address = words_alloc(gpu, 256);
	struct {
		uint64_t a;
		uint32_t n, v;
	} params = {address, 256, 9};
	struct gdev_kernel kernel = {
		.function = function("add"),
		.grid = {1, 1, 1},
		.block = {256, 1, 1},
		.params = &params,
		.param_bytes = sizeof params,
	};

	assert_int_equal(glaunch(gpu, &kernel, NULL), 0);
	assert_int_equal(gbarrier(gpu), 0);
	assert_int_equal(first_word(gpu, address), 9);
	kernel.param_bytes = 8;
	assert_int_equal(glaunch(gpu, &kernel, NULL), -EINVAL);
	kernel.param_bytes = sizeof params;
	kernel.block[0] = 0;
	assert_int_equal(glaunch(gpu, &kernel, NULL), -GDEV_E_INVALID_LAUNCH);
	assert_int_equal(gfree(gpu, address), 0);
}

static void waiting_has_a_limit(void **state)
{
	volatile uint32_t *flag;
	uint64_t address;
	uint32_t id;

	assert_int_equal(gmalloc_dma(gpu, 4, (void **)&flag), 0);
	address = (uint64_t)flag;
	*flag = 0;
	struct gdev_kernel kernel = {
		.function = function("gate"),
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.arguments = (void *[]){&address},
	};
	assert_int_equal(glaunch(gpu, &kernel, &id), 0);
	assert_int_equal(gsync(gpu, id, 0), -GDEV_E_NOT_READY);
	assert_int_equal(gsync(gpu, id, 2000000), -GDEV_E_NOT_READY);
	*flag = 1;
	assert_int_equal(gsync(gpu, id, GDEV_FOREVER), 0);
	assert_int_equal(gfree_dma(gpu, (void *)flag), 0);
}

static void mapped_memory_is_the_devices(void **state)
{
	uint64_t address = words_alloc(gpu, 4096);
	uint32_t *words;
	int error = gmap(gpu, address, 16384, (void **)&words);

	if (error == -ENOTSUP) {
		printf("# the program cannot map this device's memory\n");
		skip();
	}
	assert_int_equal(error, 0);
	words[5] = 77;
	assert_int_equal(first_word(gpu, address + 20), 77);
	assert_int_equal(add(address, 4096, 1, NULL), 0);
	assert_int_equal(gbarrier(gpu), 0);
	assert_int_equal(words[5], 78);
	assert_int_equal(words[4095], 1);
	assert_int_equal(gunmap(gpu, words), 0);
	assert_int_equal(gmap(gpu, address, 1 << 30, (void **)&words), -EINVAL);
	assert_int_equal(gfree(gpu, address), 0);
}

static void asynchronous_copies_keep_their_order(void **state)
{
	uint64_t a = words_alloc(gpu, 1 << 20), b = words_alloc(gpu, 1 << 20);
	uint32_t *buffer, id;

	assert_int_equal(gmalloc_dma(gpu, 4 << 20, (void **)&buffer), 0);
	buffer[0] = 3;
	buffer[(1 << 20) - 1] = 4;
	assert_int_equal(gmemcpy_to_device_async(gpu, a, buffer, 4 << 20, NULL), 0);
	assert_int_equal(gmemcpy_async(gpu, b, a, 4 << 20, NULL), 0);
	assert_int_equal(add(b, 1 << 20, 10, NULL), 0);
	assert_int_equal(gmemcpy_from_device_async(gpu, buffer, b, 4 << 20, &id), 0);
	assert_int_equal(gsync(gpu, id, GDEV_FOREVER), 0);
	assert_int_equal(buffer[0], 13);
	assert_int_equal(buffer[(1 << 20) - 1], 14);
	assert_int_equal(gmemcpy(gpu, a, b, 16), 0);
	assert_int_equal(first_word(gpu, a), 13);
	assert_int_equal(gfree_dma(gpu, buffer), 0);
	assert_int_equal(gfree(gpu, a), 0);
	assert_int_equal(gfree(gpu, b), 0);
}

static void handles_share_memory_by_reference(void **state)
{
	uint64_t address = words_alloc(gpu, 256), same;
	struct gdev_handle *other;

	assert_int_equal(gopen(0, &other), 0);
	assert_int_equal(gref(gpu, address, 1024, other, &same), 0);
	assert_int_equal(gfree(gpu, address), 0);
	assert_int_equal(gmemset(other, same, 1, 1024), 0);
	assert_int_equal(first_word(other, same), 0x01010101);
	assert_int_equal(gunref(other, same), 0);
	assert_int_equal(gunref(other, same), -EINVAL);
	assert_int_equal(gclose(other), 0);
}

static void the_device_answers_queries(void **state)
{
	uint64_t total, available, launches, more, chunk;
	uint64_t address = words_alloc(gpu, 256);

	assert_int_equal(gquery(gpu, GQUERY_MEMORY_BYTES, &total), 0);
	assert_int_equal(gquery(gpu, GQUERY_MEMORY_FREE_BYTES, &available), 0);
	assert_true(available <= total);
	assert_int_equal(gquery(gpu, GQUERY_LAUNCHES, &launches), 0);
	assert_int_equal(add(address, 256, 1, NULL), 0);
	assert_int_equal(gbarrier(gpu), 0);
	assert_int_equal(gquery(gpu, GQUERY_LAUNCHES, &more), 0);
	assert_int_equal(more, launches + 1);
	assert_int_equal(gtune(gpu, GTUNE_CHUNK_BYTES, 65536), 0);
	assert_int_equal(gquery(gpu, GQUERY_CHUNK_BYTES, &chunk), 0);
	assert_int_equal(chunk, 65536);
	assert_int_equal(gtune(gpu, GTUNE_CHUNK_BYTES, 3), -EINVAL);
	assert_int_equal(gfree(gpu, address), 0);
}

/* ---- between processes ---- */

static int child_adds(uint32_t id)
{
	struct gdev_handle *mine;
	uint64_t address;
	uint32_t word;

	if (gopen(0, &mine) || gshmat(mine, id, 0, &address) ||
		gmemcpy_from_device(mine, &word, address + 4096, 4))
		return 1;
	word += 1;
	if (gmemcpy_to_device(mine, address + 4096, &word, 4) || gbarrier(mine) ||
		gshmdt(mine, address) || gclose(mine))
		return 2;
	return 0;
}

static void processes_share_device_memory(void **state)
{
	struct gdev_shm_info info;
	uint32_t id, same, word = 41;
	uint64_t address, late;
	int status;
	pid_t pid;

	assert_int_equal(gshmget(gpu, 4711, 4 << 20, IPC_CREAT | IPC_EXCL | 0600, &id), 0);
	assert_int_equal(gshmget(gpu, 4711, 4 << 20, IPC_CREAT | IPC_EXCL | 0600, &same), -EEXIST);
	assert_int_equal(gshmget(gpu, 4711, 0, 0, &same), 0);
	assert_int_equal(same, id);
	assert_int_equal(gshmat(gpu, id, 0, &address), 0);
	assert_int_equal(gmemcpy_to_device(gpu, address + 4096, &word, 4), 0);
	assert_int_equal(gbarrier(gpu), 0);
	pid = fork();
	if (pid == 0)
		_exit(child_adds(id));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(first_word(gpu, address + 4096), 42);
	assert_int_equal(gshmctl(gpu, id, IPC_STAT, &info), 0);
	assert_int_equal(info.attached, 1);
	assert_int_equal(info.bytes, 4 << 20);
	assert_int_equal(gshmctl(gpu, id, IPC_SET, NULL), -EINVAL);
	assert_int_equal(gshmctl(gpu, id, IPC_RMID, NULL), 0);
	assert_int_equal(first_word(gpu, address + 4096), 42);
	assert_int_equal(gshmdt(gpu, address), 0);
	assert_int_equal(gshmdt(gpu, address), -EINVAL);
	assert_int_not_equal(gshmat(gpu, id, 0, &late), 0);
}

static void segments_are_as_large_as_was_asked(void **state)
{
	uint32_t id, same, words[1024] = {7};
	struct gdev_shm_info info;
	uint64_t address;

	assert_int_equal(gshmget(gpu, 4712, 100, IPC_CREAT | 0600, &id), 0);
	assert_int_equal(gshmget(gpu, 4712, 100, 0, &same), 0);
	assert_int_equal(same, id);
	assert_int_equal(gshmget(gpu, 4712, 101, IPC_CREAT | 0600, &same), -EINVAL);
	assert_int_equal(gshmctl(gpu, id, IPC_STAT, &info), 0);
	assert_int_equal(info.bytes, 100);
	assert_int_equal(gshmat(gpu, id, 0, &address), 0);
	assert_int_equal(gmemcpy_to_device(gpu, address, words, 100), 0);
	assert_int_equal(gbarrier(gpu), 0);
	assert_int_equal(first_word(gpu, address), 7);
	assert_int_equal(gmemcpy_to_device(gpu, address, words, 101), -EINVAL);
	assert_int_equal(gshmctl(gpu, id, IPC_RMID, NULL), 0);
	assert_int_equal(gshmdt(gpu, address), 0);
}

static void small_segments_can_be_mapped(void **state)
{
	uint32_t id, *mapped, word = 7;
	uint64_t address;
	int error;

	assert_int_equal(gshmget(gpu, 4714, 100, IPC_CREAT | 0600, &id), 0);
	assert_int_equal(gshmat(gpu, id, 0, &address), 0);
	assert_int_equal(gshmctl(gpu, id, IPC_RMID, NULL), 0);
	assert_int_equal(gmemcpy_to_device(gpu, address, &word, 4), 0);
	error = gmap(gpu, address, 100, (void **)&mapped);
	if (error == -ENOTSUP) {
		printf("# the program cannot map this device's memory\n");
		skip();
	}
	assert_int_equal(error, 0);
	assert_int_equal(*mapped, 7);
	*mapped = 8;
	assert_int_equal(first_word(gpu, address), 8);
	assert_int_equal(gmap(gpu, address, 101, (void **)&mapped), -EINVAL);
	assert_int_equal(gshmdt(gpu, address), 0);
}

static void flags_0_make_what_is_not_there(void **state)
{
	struct gdev_shm_info info;
	uint32_t id, same;

	assert_int_equal(gshmget(gpu, 4713, 0, 0, &id), -ENOENT);
	assert_int_equal(gshmget(gpu, 4713, 4096, 0600, &id), -ENOENT);
	assert_int_equal(gshmget(gpu, 4713, 4096, 0, &id), 0);
	assert_int_equal(gshmget(gpu, 4713, 4096, 0, &same), 0);
	assert_int_equal(same, id);
	assert_int_equal(gshmctl(gpu, id, IPC_STAT, &info), 0);
	assert_int_equal(info.mode, 0600);
	assert_int_equal(gshmctl(gpu, id, IPC_RMID, NULL), 0);
}

/* Last: it leaves the session broken. */
static void a_stray_kernel_breaks_its_session(void **state)
{
	uint64_t address = 64;
	struct gdev_kernel kernel = {
		.function = function("stray"),
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.arguments = (void *[]){&address},
	};
	struct gdev_handle *other;

	assert_int_equal(glaunch(gpu, &kernel, NULL), 0);
	assert_int_equal(gbarrier(gpu), -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(gmalloc(gpu, 16, &address), -GDEV_E_ILLEGAL_ADDRESS);
	gclose(gpu);
	assert_int_equal(gopen(0, &other), 0);
	address = words_alloc(other, 16);
	assert_int_equal(first_word(other, address), 0);
	assert_int_equal(gclose(other), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(devices_are_counted_and_opened),
		TEST(a_kernel_computes_on_what_was_copied),
		TEST(parameters_may_come_as_one_buffer),
		TEST(waiting_has_a_limit),
		TEST(mapped_memory_is_the_devices),
		TEST(asynchronous_copies_keep_their_order),
		TEST(handles_share_memory_by_reference),
		TEST(the_device_answers_queries),
		TEST(processes_share_device_memory),
		TEST(segments_are_as_large_as_was_asked),
		TEST(small_segments_can_be_mapped),
		TEST(flags_0_make_what_is_not_there),
		cmocka_unit_test_setup(a_stray_kernel_breaks_its_session, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

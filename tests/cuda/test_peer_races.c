/* SPDX-License-Identifier: MIT
 *
 * Threads that begin and end accesses to memory of another device, beside others that use it (peer.py).
 */
#include <pthread.h>
#include <stdatomic.h>

#include "fixture.h"

#define ROUNDS 100
#define WORDS (1u << 19) /* an object of its own: an access that ends unmaps it */

static CUcontext owner, contexts[2]; /* of the first device; of the second */
static CUfunction adds[2];
static CUdeviceptr words;
static atomic_bool over;

static bool devices_reach(void)
{
	int can;

	assert_success(cuDeviceCanAccessPeer(&can, 1, 0));
	return can;
}

static int setup(void **state)
{
	CUmodule module;
	int count;

	assert_success(cuInit(0));
	assert_success(cuDeviceGetCount(&count));
	if (count < 2)
		exit(77);
	fixture_device = 1;
	for (int i = 0; i < 2; i++) {
		contexts[i] = fixture_context_create();
		assert_success(cuModuleLoadData(&module, kernels_ptx));
		assert_success(cuModuleGetFunction(&adds[i], module, "add"));
	}
	fixture_device = 0;
	owner = fixture_context_create();
	words = words_alloc(WORDS, 1);
	assert_success(cuCtxSynchronize());
	over = false;
	return 0;
}

static int teardown(void **state)
{
	assert_success(cuCtxSetCurrent(owner));
	assert_success(cuMemFree(words));
	assert_success(cuCtxDestroy(owner));
	for (int i = 0; i < 2; i++)
		assert_success(cuCtxDestroy(contexts[i]));
	return 0;
}

/* Begins and ends an access of the first context until somebody has seen enough. */
static void *toggle(void *argument)
{
	assert_success(cuCtxSetCurrent(contexts[0]));
	while (!over) {
		assert_success(cuCtxEnablePeerAccess(owner, 0));
		assert_success(cuCtxDisablePeerAccess(owner));
	}
	return NULL;
}

static void beside_toggling(void (*round)(uint32_t i))
{
	pthread_t thread;

	if (!devices_reach())
		skip();
	assert_int_equal(pthread_create(&thread, NULL, toggle, NULL), 0);
	assert_success(cuCtxSetCurrent(contexts[1]));
	for (uint32_t i = 0; i < ROUNDS; i++)
		round(i);
	over = true;
	pthread_join(thread, NULL);
}

static void copy_both_ways(uint32_t i)
{
	uint32_t there = i, back = 0;
	CUdeviceptr mine;

	assert_success(cuMemAlloc(&mine, sizeof there));
	assert_success(cuMemcpyHtoD(mine, &there, sizeof there));
	assert_success(cuMemcpyDtoDAsync(words, mine, sizeof there, CU_STREAM_PER_THREAD));
	assert_success(cuMemcpyDtoDAsync(mine, words, sizeof there, CU_STREAM_PER_THREAD));
	assert_success(cuMemsetD32Async(words + 4, i, 1, CU_STREAM_PER_THREAD));
	assert_success(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	assert_success(cuMemcpyDtoH(&back, mine, sizeof back));
	assert_int_equal(back, i);
	assert_success(cuMemcpyDtoH(&back, words + 4, sizeof back));
	assert_int_equal(back, i);
	assert_success(cuMemFree(mine));
}

/* A copy needs no access: one that ends meanwhile does not disturb it. */
static void test_copies_beside_an_access_that_ends(void **state)
{
	beside_toggling(copy_both_ways);
}

static void add_there(uint32_t i)
{
	uint32_t count = 1000, one = 1;
	void *arguments[] = {&words, &count, &one};

	assert_success(cuCtxEnablePeerAccess(owner, 0));
	assert_success(cuLaunchKernel(adds[1], 8, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
	assert_success(cuCtxSynchronize());
	assert_success(cuCtxDisablePeerAccess(owner));
}

/* The access of one context does not end with that of another context of its device. */
static void test_access_beside_one_that_ends(void **state)
{
	beside_toggling(add_there);
	assert_success(cuCtxSetCurrent(owner));
	words_check(words, 1000, 1 + ROUNDS);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* usage: test_peer_races [PATTERN]: the tests whose names match */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		test(test_copies_beside_an_access_that_ends),
		test(test_access_beside_one_that_ends),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

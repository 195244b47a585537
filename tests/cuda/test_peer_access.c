/* SPDX-License-Identifier: MIT
 *
 * Several devices in one program: kernels of one that use memory of another, and what ends that (peer.py).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "sides.h"

static void skip_unless_devices_reach(void)
{
	int can, value;

	assert_success(cuDeviceCanAccessPeer(&can, 1, 0));
	assert_success(
		cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 0));
	assert_int_equal(value, can);
	if (!can) {
		printf("# the devices do not reach each other's memory\n");
		skip();
	}
}

/* What one device computes in memory of the other is atomic to that where both compute in memory of the host. */
static void test_atomics_are_as_the_attribute_says(void **state)
{
	const CUatomicOperation add = CU_ATOMIC_OPERATION_INTEGER_ADD;
	int native, hosts;
	unsigned found;

	skip_unless_devices_reach();
	assert_success(cuDeviceGetP2PAttribute(
		&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 1, 0));
	assert_success(
		cuDeviceGetAttribute(&hosts, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0));
	assert_success(cuDeviceGetP2PAtomicCapabilities(&found, &add, 1, 1, 0));
	assert_int_equal(!!(found & CU_ATOMIC_CAPABILITY_SCALAR_32), native);
	if (!getenv("TEST_VENDOR"))
		assert_int_equal(native, hosts);
}

/* Memory that is there, memory that comes later, and a small part of either. */
static void test_access(void **state)
{
	CUdeviceptr before, later, large;

	skip_unless_devices_reach();
	use(0);
	before = words_alloc(1000, 1);
	large = words_alloc(1 << 20, 5);
	use(1);
	assert_success(cuCtxEnablePeerAccess(sides[0].context, 0));
	use(0);
	later = words_alloc(1000, 2);
	assert_success(cuCtxSynchronize());
	use(1);
	launch_add(1, before, 1000, 10);
	launch_add(1, later, 1000, 10);
	launch_add(1, large, 1 << 20, 10);
	assert_success(cuStreamSynchronize(sides[1].stream));
	use(0);
	launch_add(0, before, 1000, 100);
	assert_success(cuStreamSynchronize(sides[0].stream));
	words_check(before, 1000, 111);
	words_check(later, 1000, 12);
	words_check(large, 1 << 20, 15);
	assert_success(cuMemFree(before));
	assert_success(cuMemFree(later));
	assert_success(cuMemFree(large));
}

static void test_access_is_asked_for_once(void **state)
{
	skip_unless_devices_reach();
	use(1);
	assert_result(cuCtxDisablePeerAccess(sides[0].context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	assert_result(cuCtxEnablePeerAccess(sides[0].context, 1), CUDA_ERROR_INVALID_VALUE);
	assert_result(
		cuCtxEnablePeerAccess(sides[1].context, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	assert_success(cuCtxEnablePeerAccess(sides[0].context, 0));
	assert_result(
		cuCtxEnablePeerAccess(sides[0].context, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	use(0); /* the other way is another access */
	assert_result(cuCtxDisablePeerAccess(sides[1].context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	assert_success(cuCtxEnablePeerAccess(sides[1].context, 0));
	assert_success(cuCtxDisablePeerAccess(sides[1].context));
	use(1);
	assert_success(cuCtxDisablePeerAccess(sides[0].context));
	assert_result(cuCtxDisablePeerAccess(sides[0].context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	assert_success(cuCtxEnablePeerAccess(sides[0].context, 0));
}

/* Which has the memory of its device's primary context, also what comes later. */
static void test_access_to_a_green_context(void **state)
{
	CUdevResourceDesc description;
	CUcontext primary, view;
	CUdeviceptr words;
	CUdevResource all;
	CUgreenCtx green;

	if (getenv("TEST_VENDOR"))
		skip(); /* CUDA does not say whether it is another context for this */
	skip_unless_devices_reach();
	assert_success(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	assert_success(cuDevResourceGenerateDesc(&description, &all, 1));
	assert_success(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	assert_success(cuCtxFromGreenCtx(&view, green));
	assert_success(cuDevicePrimaryCtxRetain(&primary, 0));
	use(1);
	assert_success(cuCtxEnablePeerAccess(view, 0));
	assert_result(cuCtxEnablePeerAccess(primary, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	assert_success(cuCtxSetCurrent(view));
	words = words_alloc(1 << 20, 1);
	assert_success(cuCtxSynchronize());
	use(1);
	launch_add(1, words, 1 << 20, 10);
	assert_success(cuStreamSynchronize(sides[1].stream));
	assert_success(cuCtxSetCurrent(view));
	words_check(words, 1 << 20, 11);
	assert_success(cuMemFree(words));
	assert_success(cuGreenCtxDestroy(green));
	use(1);
	assert_success(cuCtxDisablePeerAccess(primary));
	assert_success(cuDevicePrimaryCtxRelease(0));
}

static void test_access_ends(void **state)
{
	CUdeviceptr words;

	skip_unless_devices_reach();
	use(0);
	words = words_alloc(1 << 20, 1);
	assert_success(cuCtxSynchronize());
	use(1);
	assert_success(cuCtxEnablePeerAccess(sides[0].context, 0));
	launch_add(1, words, 1 << 20, 1);
	assert_success(cuCtxDisablePeerAccess(sides[0].context));
	use(0);
	words_check(words, 1 << 20, 2);
	use(1);
	launch_add(1, words, 1 << 20, 1);
	assert_result(cuStreamSynchronize(sides[1].stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	use(0); /* the error is that of one device */
	words_check(words, 1 << 20, 2);
	assert_success(cuMemFree(words));
}

/* What the pool still grants is in one object with what the context does not any more. */
static void test_access_ends_for_one(void **state)
{
	CUmemAccessDesc access = {
		{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUdeviceptr pooled, plain;
	CUmemoryPool pool;

	skip_unless_devices_reach();
	use(0);
	assert_success(cuMemPoolCreate(&pool, &properties));
	assert_success(cuMemPoolSetAccess(pool, &access, 1));
	assert_success(cuMemAllocFromPoolAsync(&pooled, 4000, pool, sides[0].stream));
	assert_success(cuMemsetD32Async(pooled, 1, 1000, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	plain = words_alloc(1000, 1);
	assert_success(cuCtxSynchronize());
	for (int i = 0; i < 2; i++) {
		use(1);
		assert_success(cuCtxEnablePeerAccess(sides[0].context, 0));
		if (i) {
			access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
			assert_success(cuMemPoolSetAccess(pool, &access, 1));
		} else {
			assert_success(cuCtxDisablePeerAccess(sides[0].context));
		}
		launch_add(1, i ? plain : pooled, 1000, 10);
		assert_success(cuStreamSynchronize(sides[1].stream));
	}
	use(0);
	words_check(pooled, 1000, 11);
	words_check(plain, 1000, 11);
	assert_success(cuMemFree(plain));
	assert_success(cuMemFreeAsync(pooled, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	assert_success(cuMemPoolDestroy(pool));
}

/* However many contexts of one device have access, a context of another device has it, too. */
static void test_access_of_many(void **state)
{
	enum { MANY = 16 };
	CUcontext contexts[MANY], third;
	CUmodule module;
	CUfunction add;
	CUdeviceptr words;
	uint32_t count = 1000, value = 10;
	int devices;

	assert_success(cuDeviceGetCount(&devices));
	if (devices < 3) {
		printf("# there are %d devices, and it takes three\n", devices);
		skip();
	}
	for (int i = 0; i < MANY; i++) {
		assert_success(cuCtxCreate(&contexts[i], NULL, 0, 1));
		assert_success(cuCtxEnablePeerAccess(sides[0].context, 0));
	}
	assert_success(cuCtxCreate(&third, NULL, 0, 2));
	assert_success(cuCtxEnablePeerAccess(sides[0].context, 0));
	assert_success(cuModuleLoadData(&module, kernels_ptx));
	assert_success(cuModuleGetFunction(&add, module, "add"));
	use(0);
	assert_success(cuMemAlloc(&words, 4 << 20)); /* an object that nothing has mapped yet */
	assert_success(cuMemsetD32(words, 1, 1000));
	assert_success(cuCtxSynchronize());
	assert_success(cuCtxSetCurrent(third));
	assert_success(cuLaunchKernel(
		add, 8, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&words, &count, &value}, NULL));
	assert_success(cuCtxSynchronize());
	use(0);
	words_check(words, 1000, 11);
	assert_success(cuMemFree(words));
	assert_success(cuCtxDestroy(third));
	for (int i = 0; i < MANY; i++)
		assert_success(cuCtxDestroy(contexts[i]));
}

struct stall {
	CUdeviceptr words;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool ended, timed_out;
};

static void wait_for_end(void *argument)
{
	struct stall *stall = argument;
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&stall->lock);
	while (!stall->ended && !stall->timed_out)
		stall->timed_out = pthread_cond_timedwait(&stall->change, &stall->lock, &until);
	pthread_mutex_unlock(&stall->lock);
}

static void *free_words(void *argument)
{
	const struct stall *stall = argument;

	use(0);
	assert_success(cuMemFree(stall->words));
	return NULL;
}

/* Freeing memory waits for a stream of the other device, which waits for the program. Other memory can be mapped. */
static void test_freeing_holds_nobody_up(void **state)
{
	struct stall stall = {
		.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
	CUdeviceptr mine, other;
	pthread_t thread;
	unsigned type;

	skip_unless_devices_reach();
	use(0);
	stall.words = words_alloc(1 << 20, 1);
	other = words_alloc(1 << 20, 2);
	assert_success(cuCtxSynchronize());
	use(1);
	mine = words_alloc(1 << 20, 3);
	assert_success(cuMemcpyPeer(mine, sides[1].context, stall.words, sides[0].context, 4000));
	assert_success(cuCtxSynchronize());
	assert_success(cuLaunchHostFunc(sides[1].stream, wait_for_end, &stall));
	assert_int_equal(pthread_create(&thread, NULL, free_words, &stall), 0);
	while (!cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, stall.words))
		usleep(1000);
	usleep(100000); /* enough for it to wait, mostly */
	use(0);
	assert_success(cuMemcpyPeerAsync(
		other, sides[0].context, mine, sides[1].context, 4000, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	pthread_mutex_lock(&stall.lock);
	stall.ended = true;
	pthread_cond_broadcast(&stall.change);
	pthread_mutex_unlock(&stall.lock);
	pthread_join(thread, NULL);
	assert_false(stall.timed_out);
	words_check(other, 1000, 1);
	assert_success(cuMemFree(other));
	assert_success(cuMemFree(mine));
}

static void test_access_to_page_locked(void **state)
{
	uint32_t *early, *late;

	skip_unless_devices_reach();
	use(0);
	assert_success(cuMemHostAlloc((void **)&early, 4096, CU_MEMHOSTALLOC_PORTABLE));
	early[7] = 1;
	assert_success(cuCtxDestroy(sides[1].context)); /* one that is younger than the memory */
	fixture_device = 1;
	sides[1].context = fixture_context_create();
	assert_success(cuModuleLoadData(&sides[1].module, kernels_ptx));
	assert_success(cuModuleGetFunction(&sides[1].add, sides[1].module, "add"));
	assert_success(cuStreamCreate(&sides[1].stream, CU_STREAM_NON_BLOCKING));
	use(0);
	assert_success(cuMemHostAlloc((void **)&late, 4096, 0));
	late[7] = 2;
	use(1);
	launch_add(1, (CUdeviceptr)early, 8, 10);
	launch_add(1, (CUdeviceptr)late, 8, 10);
	assert_success(cuStreamSynchronize(sides[1].stream));
	assert_int_equal(early[7], 11);
	assert_int_equal(late[7], 12);
	assert_success(cuMemFreeHost(early));
	assert_success(cuMemFreeHost(late));
}

/* Pools name the devices that may use their memory: what is given out already, and what is later. */
static void test_access_to_pools(void **state)
{
	CUmemAccessDesc access = {
		{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUdeviceptr words[2];
	CUmemAccess_flags flags;
	CUmemoryPool pool;

	skip_unless_devices_reach();
	use(0);
	assert_success(cuMemPoolCreate(&pool, &properties));
	for (int i = 0; i < 2; i++) {
		assert_success(cuMemAllocFromPoolAsync(&words[i], 4000, pool, sides[0].stream));
		assert_success(cuMemsetD32Async(words[i], 1, 1000, sides[0].stream));
		if (!i)
			assert_success(cuMemPoolSetAccess(pool, &access, 1));
	}
	assert_success(cuMemPoolGetAccess(&flags, pool, &access.location));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	assert_success(cuStreamSynchronize(sides[0].stream));
	use(1);
	for (int i = 0; i < 2; i++)
		launch_add(1, words[i], 1000, 10);
	assert_success(cuStreamSynchronize(sides[1].stream));
	use(0);
	for (int i = 0; i < 2; i++) {
		words_check(words[i], 1000, 11);
		assert_success(cuMemFreeAsync(words[i], sides[0].stream));
	}
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	assert_success(cuMemPoolSetAccess(pool, &access, 1));
	assert_success(cuMemPoolGetAccess(&flags, pool, &access.location));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	assert_success(cuStreamSynchronize(sides[0].stream));
	assert_success(cuMemPoolDestroy(pool));
}

/* Memory that is mapped by a handle, for the device that has it and another, in whatever order they are named. */
static void test_access_to_handles(void **state)
{
	const size_t bytes = 2 << 20;
	CUmemAccessDesc access[2] = {
		{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle handle;
	unsigned long long flags;
	CUdeviceptr words;

	skip_unless_devices_reach();
	use(0);
	assert_success(cuMemAddressReserve(&words, bytes, 0, 0, 0));
	assert_success(cuMemCreate(&handle, bytes, &properties, 0));
	assert_success(cuMemMap(words, bytes, 0, handle, 0));
	assert_success(cuMemSetAccess(words, bytes, access, 2));
	assert_success(cuMemGetAccess(&flags, &access[0].location, words));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	assert_success(cuMemsetD32(words, 1, bytes / 4));
	assert_success(cuCtxSynchronize());
	use(1);
	launch_add(1, words, bytes / 4, 10);
	assert_success(cuStreamSynchronize(sides[1].stream));
	use(0);
	words_check(words, bytes / 4, 11);
	access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	assert_success(cuMemSetAccess(words, bytes, access, 1));
	assert_success(cuMemGetAccess(&flags, &access[0].location, words));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	words_check(words, bytes / 4, 11);
	assert_success(cuMemUnmap(words, bytes));
	assert_success(cuMemRelease(handle));
	assert_success(cuMemAddressFree(words, bytes));
}

/* Copies from `words` and to it, and a kernel that writes there, on the second device. */
static void copy_on_other_side(CUdeviceptr words, size_t bytes)
{
	CUdeviceptr mine;

	use(1);
	mine = words_alloc(bytes / 4, 3);
	assert_success(cuCtxSynchronize());
	assert_success(cuMemcpyDtoDAsync(mine, words, bytes, sides[1].stream));
	launch_add(1, mine, (uint32_t)(bytes / 4), 1);
	assert_success(cuMemcpyDtoDAsync(words, mine, bytes, sides[1].stream));
	assert_success(cuStreamSynchronize(sides[1].stream));
	assert_success(cuMemFree(mine));
}

static void write_on_other_side(CUdeviceptr words, size_t bytes, CUresult expected)
{
	use(1);
	launch_add(1, words, (uint32_t)(bytes / 4), 1);
	assert_result(cuStreamSynchronize(sides[1].stream), expected);
}

static void grant_pool(CUmemoryPool pool, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, flags};
	CUmemAccess_flags got;

	assert_success(cuMemPoolSetAccess(pool, &access, 1));
	assert_success(cuMemPoolGetAccess(&got, pool, &access.location));
	assert_int_equal(got, flags);
}

static CUmemoryPool make_pool(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;

	skip_unless_devices_reach();
	use(0);
	assert_success(cuMemPoolCreate(&pool, &properties));
	return pool;
}

static CUdeviceptr alloc_from_pool(CUmemoryPool pool, size_t bytes)
{
	CUdeviceptr words;

	use(0);
	assert_success(cuMemAllocFromPoolAsync(&words, bytes, pool, sides[0].stream));
	assert_success(cuMemsetD32Async(words, 1, bytes / 4, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	return words;
}

/* Who may only read a pool writes by copies, which need no right, and not by kernels. */
static void test_reading_of_pools(void **state)
{
	const size_t bytes = 4 << 20;
	CUmemoryPool pool = make_pool();
	CUdeviceptr early = alloc_from_pool(pool, bytes), late;
	CUmemAccessDesc wrong = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, (CUmemAccess_flags)2};

	assert_result(cuMemPoolSetAccess(pool, &wrong, 1), CUDA_ERROR_INVALID_VALUE);
	wrong = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READ};
	assert_result(cuMemPoolSetAccess(pool, &wrong, 1), CUDA_ERROR_INVALID_VALUE);
	grant_pool(pool, CU_MEM_ACCESS_FLAGS_PROT_READ);
	late = alloc_from_pool(pool, bytes);
	copy_on_other_side(early, bytes);
	copy_on_other_side(late, bytes);
	grant_pool(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	write_on_other_side(early, bytes, CUDA_SUCCESS);
	use(0);
	words_check(early, bytes / 4, 3);
	words_check(late, bytes / 4, 2);
	grant_pool(pool, CU_MEM_ACCESS_FLAGS_PROT_READ);
	copy_on_other_side(early, bytes);
	write_on_other_side(early, bytes, CUDA_ERROR_ILLEGAL_ADDRESS);
	use(0);
	words_check(early, bytes / 4, 4);
}

/* What the pool has kept is given out with the rights that it has then. */
static void test_what_pools_keep_loses_rights(void **state)
{
	const size_t bytes = 4 << 20;
	CUmemoryPool pool = make_pool();
	CUdeviceptr words;

	grant_pool(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	words = alloc_from_pool(pool, bytes);
	write_on_other_side(words, bytes, CUDA_SUCCESS);
	use(0);
	assert_success(cuMemFreeAsync(words, sides[0].stream));
	grant_pool(pool, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	words = alloc_from_pool(pool, bytes);
	write_on_other_side(words, bytes, CUDA_ERROR_ILLEGAL_ADDRESS);
	use(0);
	words_check(words, bytes / 4, 1);
}

/* Addresses of the device `home`, at which memory of the first device is mapped. */
static CUdeviceptr map_for(int home, size_t bytes)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr words;

	skip_unless_devices_reach();
	use(home);
	assert_success(cuMemAddressReserve(&words, bytes, 0, 0, 0));
	assert_success(cuMemCreate(&handle, bytes, &properties, 0));
	assert_success(cuMemMap(words, bytes, 0, handle, 0));
	assert_success(cuMemRelease(handle));
	return words;
}

static void grant(CUdeviceptr words, size_t bytes, int device, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
	unsigned long long got;

	assert_success(cuMemSetAccess(words, bytes, &access, 1));
	assert_success(cuMemGetAccess(&got, &access.location, words));
	assert_int_equal(got, flags);
}

static void write_here(int i, CUdeviceptr words, size_t bytes, CUresult expected)
{
	use(i);
	launch_add(i, words, (uint32_t)(bytes / 4), 1);
	assert_result(cuStreamSynchronize(sides[i].stream), expected);
}

/* Each device has the right that it was given, whichever the memory and the addresses are of. */
static void rights_differ(int home)
{
	const size_t bytes = 4 << 20;
	CUdeviceptr words = map_for(home, bytes);

	grant(words, bytes, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE); /* and the first has none */
	use(1);
	assert_success(cuMemsetD32(words, 5, bytes / 4));
	assert_success(cuCtxSynchronize());
	write_here(1, words, bytes, CUDA_SUCCESS);
	words_check(words, bytes / 4, 6);
	grant(words, bytes, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	grant(words, bytes, 1, CU_MEM_ACCESS_FLAGS_PROT_READ);
	write_here(0, words, bytes, CUDA_SUCCESS);
	use(1);
	words_check(words, bytes / 4, 7);
	grant(words, bytes, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	grant(words, bytes, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
	write_here(1, words, bytes, CUDA_SUCCESS);
	use(0);
	words_check(words, bytes / 4, 8);
	/* The memory at the addresses of a device goes with the context there: it comes last. */
	grant(words, bytes, !home, CU_MEM_ACCESS_FLAGS_PROT_READ);
	grant(words, bytes, home, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	write_here(!home, words, bytes, CUDA_ERROR_ILLEGAL_ADDRESS);
	write_here(home, words, bytes, CUDA_SUCCESS);
	words_check(words, bytes / 4, 9);
	grant(words, bytes, home, CU_MEM_ACCESS_FLAGS_PROT_READ);
	write_here(home, words, bytes, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_rights_differ_at_home(void **state)
{
	rights_differ(0);
}

static void test_rights_differ_elsewhere(void **state)
{
	rights_differ(1);
}

/* Where the devices reach each other a copy is a command: the call does not wait for what is before it. */
static void test_asynchronous_copies(void **state)
{
	CUdeviceptr from, to;
	struct gate gate;

	skip_unless_devices_reach();
	use(1);
	to = words_alloc(1000, 0);
	assert_success(cuCtxSynchronize());
	use(0);
	fixture_module = sides[0].module;
	from = words_alloc(1000, 3);
	assert_success(cuCtxSynchronize());
	assert_success(cuMemcpyAsync(to, from, 4, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	gate_close(&gate, sides[0].stream);
	assert_success(cuMemcpyAsync(to, from, 4000, sides[0].stream));
	assert_success(cuMemsetD32Async(to, 4, 10, sides[0].stream));
	assert_result(cuStreamQuery(sides[0].stream), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuStreamSynchronize(sides[0].stream));
	words_check(to, 10, 4);
	words_check(to + 40, 990, 3);
	assert_success(cuMemFree(to));
	assert_success(cuMemFree(from));
	gate_free(&gate);
}

#define test(name) cmocka_unit_test_setup_teardown(name, sides_setup, sides_teardown)

/* usage: test_peer_access [PATTERN]: the tests whose names match */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		test(test_atomics_are_as_the_attribute_says),
		test(test_access),
		test(test_access_is_asked_for_once),
		test(test_access_to_a_green_context),
		test(test_access_ends),
		test(test_access_ends_for_one),
		test(test_access_of_many),
		test(test_freeing_holds_nobody_up),
		test(test_access_to_page_locked),
		test(test_access_to_pools),
		test(test_access_to_handles),
		test(test_reading_of_pools),
		test(test_what_pools_keep_loses_rights),
		test(test_rights_differ_at_home),
		test(test_rights_differ_elsewhere),
		test(test_asynchronous_copies),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

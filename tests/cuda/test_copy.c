/* SPDX-License-Identifier: MIT
 *
 * Copies and fills: every direction, sizes around every boundary, shapes, threads, and what is refused.
 */
#include "fixture.h"

#include <pthread.h>

static const size_t sizes[] = {1, 3, 64, 4095, 4096, 4097, 32767, 32768, 32769, 65535, 65536, 65537,
	262144, 524287, 524288, 524289, 1048576, 3000001, 16777216, 40000003};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static uint8_t pattern(size_t i, unsigned seed)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16) + seed);
}

static void fill_pattern(uint8_t *bytes, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = pattern(i, seed);
}

static void check_pattern(const uint8_t *bytes, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != pattern(i, seed))
			fail_msg("byte %zu of %zu is wrong", i, size);
}

static void *get_host(size_t bytes, bool page_locked)
{
	void *memory = NULL;

	if (page_locked)
		assert_success(cuMemAllocHost(&memory, bytes));
	else
		memory = malloc(bytes);
	assert_non_null(memory);
	return memory;
}

static void free_host(void *memory, bool page_locked)
{
	if (page_locked)
		assert_success(cuMemFreeHost(memory));
	else
		free(memory);
}

/* There and back with buffers of one kind, at an odd place. */
static void round_trips(bool page_locked)
{
	for (size_t k = 0; k < COUNT_OF(sizes); k++) {
		size_t size = sizes[k];
		uint8_t *from, *to;
		CUdeviceptr memory;

		from = get_host(size + 1, page_locked);
		to = get_host(size + 1, page_locked);
		assert_success(cuMemAlloc(&memory, size + 1));
		fill_pattern(from + 1, size, (unsigned)k);
		memset(to, 0, size + 1);
		assert_success(cuMemcpyHtoD(memory + 1, from + 1, size));
		memset(from, 0xee, size + 1);
		assert_success(cuMemcpyDtoH(to + 1, memory + 1, size));
		check_pattern(to + 1, size, (unsigned)k);
		assert_int_equal(to[0], 0);
		assert_success(cuMemFree(memory));
		free_host(from, page_locked);
		free_host(to, page_locked);
	}
}

static void pageable_memory_goes_there_and_back(void **state)
{
	round_trips(false);
}

static void page_locked_memory_goes_there_and_back(void **state)
{
	round_trips(true);
}

static void unified_copies_find_out_the_direction(void **state)
{
	size_t size = 100000;
	uint8_t *from = malloc(size), *to = malloc(size), *more = malloc(size);
	CUdeviceptr a, b;

	fill_pattern(from, size, 1);
	assert_success(cuMemAlloc(&a, size));
	assert_success(cuMemAlloc(&b, size));
	assert_success(cuMemcpy(a, (CUdeviceptr)from, size));
	assert_success(cuMemcpy(b, a, size));
	assert_success(cuMemcpy((CUdeviceptr)to, b, size));
	check_pattern(to, size, 1);
	assert_success(cuMemcpy((CUdeviceptr)more, (CUdeviceptr)to, size));
	check_pattern(more, size, 1);
	assert_success(cuMemFree(a));
	assert_success(cuMemFree(b));
	free(from);
	free(to);
	free(more);
}

static void async_copies_run_in_stream_order(void **state)
{
	uint32_t n = 1 << 20, v = 1, *words;
	CUdeviceptr memory;
	CUstream stream;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuMemAllocHost((void **)&words, n * 4));
	assert_success(cuMemAlloc(&memory, n * 4));
	memset(words, 0, n * 4);
	for (uint32_t round = 0; round < 5; round++) {
		assert_success(cuMemcpyHtoDAsync(memory, words, n * 4, stream));
		assert_success(launch_on(stream, "add", n / 256, 256, &memory, &n, &v));
		assert_success(cuMemcpyDtoHAsync(words, memory, n * 4, stream));
	}
	assert_success(cuStreamSynchronize(stream));
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(words[i], 5);
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFree(memory));
	assert_success(cuMemFreeHost(words));
}

static void a_small_async_copy_takes_its_bytes_at_the_call(void **state)
{
	CUdeviceptr memory = words_alloc(256, 0);
	struct gate gate;
	CUstream stream;
	uint32_t value = 17;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gate_close(&gate, stream);
	assert_success(cuMemcpyHtoDAsync(memory, &value, sizeof value, stream));
	value = 0;
	gate_open(&gate);
	assert_success(cuStreamSynchronize(stream));
	words_check(memory, 1, 17);
	gate_free(&gate);
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFree(memory));
}

/* More than CUDA promises: NVIDIA's driver lets a stream that does not block pass a large copy. */
static void a_finished_copy_is_seen_by_every_stream(void **state)
{
	uint32_t n = 1 << 18, one = 1, *words;
	CUdeviceptr memory;
	CUstream stream;

	if (getenv("TEST_VENDOR"))
		skip();
	words = malloc(n * 4);
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuMemAlloc(&memory, n * 4));
	for (uint32_t round = 1; round < 40; round++) {
		uint32_t count = round % 2 ? n : 1000;
		for (uint32_t i = 0; i < count; i++)
			words[i] = round;
		assert_success(cuMemcpyHtoD(memory, words, count * 4));
		assert_success(
			launch_on(stream, "add", (count + 255) / 256, 256, &memory, &count, &one));
		assert_success(cuStreamSynchronize(stream));
		words_check(memory, count, round + 1);
	}
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFree(memory));
	free(words);
}

/* ---- shapes ---- */

static void two_dimensional(size_t width, size_t height, size_t host_pitch, bool page_locked)
{
	uint8_t *from, *to;
	CUdeviceptr memory;
	size_t pitch, bytes = host_pitch * height;

	from = get_host(bytes, page_locked);
	to = get_host(bytes, page_locked);
	fill_pattern(from, bytes, 3);
	memset(to, 0xab, bytes);
	assert_success(cuMemAllocPitch(&memory, &pitch, width, height, 4));
	CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.srcPitch = host_pitch,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory,
		.dstPitch = pitch,
		.WidthInBytes = width,
		.Height = height};
	CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = memory,
		.srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.dstPitch = host_pitch,
		.WidthInBytes = width,
		.Height = height};
	assert_success(cuMemcpy2D(&in));
	assert_success(cuMemcpy2D(&out));
	for (size_t y = 0; y < height; y++)
		for (size_t x = 0; x < host_pitch; x++) {
			size_t i = y * host_pitch + x;
			uint8_t expected = x < width ? pattern(i, 3) : 0xab;
			if (to[i] != expected)
				fail_msg("row %zu column %zu of %zu x %zu is wrong", y, x, width,
					height);
		}
	assert_success(cuMemFree(memory));
	free_host(from, page_locked);
	free_host(to, page_locked);
}

static void rows_are_copied_between_pitches(void **state)
{
	for (int page_locked = 0; page_locked < 2; page_locked++) {
		two_dimensional(16, 4, 16, page_locked);
		two_dimensional(100, 33, 128, page_locked);
		two_dimensional(1000, 3000, 1001, page_locked);
		two_dimensional(700001, 5, 700009, page_locked);
	}
}

static void boxes_are_copied(void **state)
{
	enum { W = 60, H = 7, D = 5, PITCH = 64, ROWS = 8 };
	static uint8_t from[PITCH * ROWS * D], to[PITCH * ROWS * D];
	CUdeviceptr memory;

	fill_pattern(from, sizeof from, 9);
	memset(to, 0, sizeof to);
	assert_success(cuMemAlloc(&memory, 128 * 10 * D));
	CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.srcPitch = PITCH,
		.srcHeight = ROWS,
		.srcXInBytes = 2,
		.srcY = 1,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory,
		.dstPitch = 128,
		.dstHeight = 10,
		.dstXInBytes = 4,
		.WidthInBytes = W,
		.Height = H,
		.Depth = D};
	CUDA_MEMCPY3D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = memory,
		.srcPitch = 128,
		.srcHeight = 10,
		.srcXInBytes = 4,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.dstPitch = PITCH,
		.dstHeight = ROWS,
		.dstXInBytes = 2,
		.dstY = 1,
		.WidthInBytes = W,
		.Height = H,
		.Depth = D};
	assert_success(cuMemcpy3D(&in));
	assert_success(cuMemcpy3D(&out));
	for (size_t z = 0; z < D; z++)
		for (size_t y = 1; y <= H; y++)
			for (size_t x = 2; x < 2 + W; x++) {
				size_t i = (z * ROWS + y) * PITCH + x;
				assert_int_equal(to[i], pattern(i, 9));
			}
	assert_success(cuMemFree(memory));
}

static void fills_fill_what_they_say(void **state)
{
	static uint8_t bytes[4096], expected[4096];
	CUdeviceptr memory;

	assert_success(cuMemAlloc(&memory, sizeof bytes));
	assert_success(cuMemsetD8(memory, 0x11, sizeof bytes));
	memset(expected, 0x11, sizeof expected);
	assert_success(cuMemsetD16(memory + 2, 0x2233, 3));
	for (int i = 0; i < 3; i++)
		memcpy(expected + 2 + 2 * i, (uint16_t[]){0x2233}, 2);
	assert_success(cuMemsetD32(memory + 100, 0xdeadbeef, 5));
	for (int i = 0; i < 5; i++)
		memcpy(expected + 100 + 4 * i, (uint32_t[]){0xdeadbeef}, 4);
	assert_success(cuMemsetD2D8(memory + 1000, 64, 0x77, 10, 4));
	for (int i = 0; i < 4; i++)
		memset(expected + 1000 + 64 * i, 0x77, 10);
	assert_success(cuMemcpyDtoH(bytes, memory, sizeof bytes));
	assert_memory_equal(bytes, expected, sizeof bytes);
	assert_result(cuMemsetD32(memory + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemsetD8(memory, 1, sizeof bytes + 4096), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(memory));
}

/* ---- what is refused ---- */

static void copies_beyond_an_allocation_are_refused(void **state)
{
	static uint8_t bytes[8192];
	CUdeviceptr memory;

	assert_success(cuMemAlloc(&memory, 4096));
	assert_result(cuMemcpyHtoD(memory, bytes, 8192), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemcpyDtoH(bytes, memory, 8192), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemcpyHtoD(0, bytes, 16), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemcpyDtoH(NULL, memory, 16), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemcpyHtoD(memory, bytes, 0));
	assert_success(cuMemFree(memory));
	assert_result(cuMemcpyDtoH(bytes, memory, 16), CUDA_ERROR_INVALID_VALUE);
}

static void malformed_shapes_are_refused(void **state)
{
	static uint8_t bytes[4096];
	CUdeviceptr memory;

	assert_success(cuMemAlloc(&memory, 4096));
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = bytes,
		.srcPitch = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory,
		.dstPitch = 64,
		.WidthInBytes = 32,
		.Height = 4};
	assert_result(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
	copy.srcPitch = 64;
	copy.srcMemoryType = (CUmemorytype)77;
	assert_result(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(memory));
}

/* ---- threads ---- */

struct mover {
	CUcontext context;
	unsigned seed;
	int wrong;
};

static void *move(void *argument)
{
	struct mover *mover = argument;
	size_t size = 5 << 20;
	uint8_t *from = malloc(size), *to = malloc(size);
	CUdeviceptr memory;

	mover->wrong = 1;
	if (cuCtxSetCurrent(mover->context) || cuMemAlloc(&memory, size))
		return NULL;
	for (unsigned round = 0; round < 4; round++) {
		fill_pattern(from, size, mover->seed + round);
		memset(to, 0, size);
		if (cuMemcpyHtoD(memory, from, size) || cuMemcpyDtoH(to, memory, size) ||
			memcmp(from, to, size))
			return NULL;
	}
	mover->wrong = cuMemFree(memory);
	free(from);
	free(to);
	return NULL;
}

static void threads_copy_at_the_same_time(void **state)
{
	struct mover movers[6];
	pthread_t threads[6];

	for (unsigned i = 0; i < 6; i++) {
		movers[i] = (struct mover){fixture_context, i * 16, 1};
		assert_int_equal(pthread_create(&threads[i], NULL, move, &movers[i]), 0);
	}
	for (unsigned i = 0; i < 6; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(movers[i].wrong, 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pageable_memory_goes_there_and_back),
		TEST(page_locked_memory_goes_there_and_back),
		TEST(unified_copies_find_out_the_direction),
		TEST(async_copies_run_in_stream_order),
		TEST(a_small_async_copy_takes_its_bytes_at_the_call),
		TEST(a_finished_copy_is_seen_by_every_stream),
		TEST(rows_are_copied_between_pitches),
		TEST(boxes_are_copied),
		TEST(fills_fill_what_they_say),
		TEST(copies_beyond_an_allocation_are_refused),
		TEST(malformed_shapes_are_refused),
		TEST(threads_copy_at_the_same_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

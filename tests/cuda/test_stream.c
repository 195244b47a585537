/* SPDX-License-Identifier: MIT
 *
 * Streams, the default stream, events, host functions.
 */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static void a_stream_is_busy_until_its_work_is_done(void **state)
{
	struct gate gate;
	CUstream stream;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamQuery(stream));
	gate_close(&gate, stream);
	assert_result(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuStreamQuery(stream));
	gate_free(&gate);
	assert_success(cuStreamDestroy(stream));
}

static void a_stream_says_what_it_is(void **state)
{
	unsigned long long id, other;
	unsigned flags;
	CUcontext context;
	CUstream stream;
	int priority;

	assert_success(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1));
	assert_success(cuStreamGetFlags(stream, &flags));
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	assert_success(cuStreamGetPriority(stream, &priority));
	assert_int_equal(priority, -1);
	assert_success(cuStreamGetCtx(stream, &context));
	assert_ptr_equal(context, fixture_context);
	assert_success(cuStreamGetId(stream, &id));
	assert_success(cuStreamGetId(NULL, &other));
	assert_int_not_equal(id, other);
	assert_success(cuStreamDestroy(stream));
	assert_result(cuStreamCreate(&stream, 0x80), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void a_destroyed_stream_still_does_its_work(void **state)
{
	uint32_t n = 1024, v = 1;
	CUdeviceptr memory = words_alloc(n, 0);
	struct gate gate;
	CUstream stream;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuCtxSynchronize());
	gate_close(&gate, stream);
	assert_success(launch_on(stream, "add", 4, 256, &memory, &n, &v));
	assert_success(cuStreamDestroy(stream));
	gate_open(&gate);
	assert_success(cuCtxSynchronize());
	words_check(memory, n, 1);
	gate_free(&gate);
	assert_success(cuMemFree(memory));
}

static void many_streams_come_and_go(void **state)
{
	uint32_t n = 256, v = 1;
	CUdeviceptr memory = words_alloc(n, 0);

	for (int i = 0; i < 2000; i++) {
		CUstream stream;
		assert_success(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
		if (i % 100 == 0)
			assert_success(launch_on(stream, "add", 1, 256, &memory, &n, &v));
		assert_success(cuStreamDestroy(stream));
	}
	assert_success(cuCtxSynchronize());
	words_check(memory, n, 20);
	assert_success(cuMemFree(memory));
}

static void the_default_stream_waits_for_blocking_streams(void **state)
{
	struct gate gate;
	CUstream stream;

	assert_success(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	gate_close(&gate, stream);
	assert_success(launch_on(NULL, "empty", 1, 1, NULL));
	assert_result(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuStreamSynchronize(NULL));
	assert_success(cuStreamQuery(stream));
	gate_free(&gate);
	assert_success(cuStreamDestroy(stream));
}

static void blocking_streams_wait_for_the_default_stream(void **state)
{
	struct gate gate;
	CUstream stream;

	assert_success(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	gate_close(&gate, NULL);
	assert_success(launch_on(stream, "empty", 1, 1, NULL));
	assert_result(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuStreamSynchronize(stream));
	gate_free(&gate);
	assert_success(cuStreamDestroy(stream));
}

static void wait_until_done(CUstream stream)
{
	for (int i = 0; i < 120000 && cuStreamQuery(stream) == CUDA_ERROR_NOT_READY; i++)
		usleep(1000);
	assert_success(cuStreamQuery(stream));
}

/* A copy, because a device that runs one kernel at a time would hold another one back. */
static void streams_that_do_not_block_pass_the_default_stream(void **state)
{
	CUdeviceptr memory = words_alloc(256, 3);
	uint32_t *words;
	struct gate gate;
	CUstream stream;

	assert_success(cuMemAllocHost((void **)&words, 1024));
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuCtxSynchronize());
	gate_close(&gate, NULL);
	assert_success(cuMemcpyDtoHAsync(words, memory, 1024, stream));
	wait_until_done(stream);
	assert_int_equal(words[255], 3);
	assert_result(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuCtxSynchronize());
	gate_free(&gate);
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFreeHost(words));
	assert_success(cuMemFree(memory));
}

static void a_stream_waits_for_an_event(void **state)
{
	CUdeviceptr memory = words_alloc(256, 3);
	CUstream first, second;
	struct gate gate;
	CUevent event;
	uint32_t n = 256, v = 4, *words;

	assert_success(cuMemAllocHost((void **)&words, 1024));
	memset(words, 0, 1024);
	assert_success(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_success(cuCtxSynchronize());
	gate_close(&gate, first);
	assert_success(launch_on(first, "add", 1, 256, &memory, &n, &v));
	assert_success(cuEventRecord(event, first));
	assert_success(cuStreamWaitEvent(second, event, 0));
	assert_success(cuMemcpyDtoHAsync(words, memory, 1024, second));
	assert_result(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	assert_result(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuStreamSynchronize(second));
	assert_int_equal(words[255], 7);
	assert_success(cuEventQuery(event));
	gate_free(&gate);
	assert_success(cuEventDestroy(event));
	assert_success(cuStreamDestroy(first));
	assert_success(cuStreamDestroy(second));
	assert_success(cuMemFreeHost(words));
	assert_success(cuMemFree(memory));
}

static void events_measure_time(void **state)
{
	const struct timespec pause = {0, 30000000};
	CUevent start, end, untimed;
	struct gate gate;
	float ms = -1;

	assert_success(cuEventCreate(&start, CU_EVENT_DEFAULT));
	assert_success(cuEventCreate(&end, CU_EVENT_DEFAULT));
	assert_success(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	assert_result(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuEventRecord(start, NULL));
	assert_success(cuEventSynchronize(start));
	gate_close(&gate, NULL);
	assert_success(cuEventRecord(end, NULL));
	assert_result(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
	nanosleep(&pause, NULL);
	gate_open(&gate);
	assert_success(cuEventSynchronize(end));
	assert_success(cuEventElapsedTime(&ms, start, end));
	assert_true(ms >= 29.0f);
	assert_success(cuEventRecord(untimed, NULL));
	assert_result(cuEventElapsedTime(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
	gate_free(&gate);
	assert_success(cuEventDestroy(start));
	assert_success(cuEventDestroy(end));
	assert_success(cuEventDestroy(untimed));
}

static void an_event_never_recorded_is_complete(void **state)
{
	CUevent event;

	assert_success(cuEventCreate(&event, CU_EVENT_DEFAULT));
	assert_success(cuEventQuery(event));
	assert_success(cuEventSynchronize(event));
	assert_success(cuStreamWaitEvent(NULL, event, 0));
	assert_success(cuEventDestroy(event));
	assert_result(cuEventCreate(&event, 0x100), CUDA_ERROR_INVALID_VALUE);
}

/* ---- host functions ---- */

struct order {
	atomic_int next;
	int places[64];
};

static struct order order;

static void note(void *argument)
{
	order.places[(intptr_t)argument] = atomic_fetch_add(&order.next, 1);
}

static void host_functions_run_in_stream_order(void **state)
{
	struct gate gate;
	CUstream stream;

	order.next = 0;
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gate_close(&gate, stream);
	for (intptr_t i = 0; i < 64; i++)
		assert_success(cuLaunchHostFunc(stream, note, (void *)i));
	usleep(2000);
	assert_int_equal(order.next, 0);
	gate_open(&gate);
	assert_success(cuStreamSynchronize(stream));
	assert_int_equal(order.next, 64);
	for (int i = 0; i < 64; i++)
		assert_int_equal(order.places[i], i);
	gate_free(&gate);
	assert_success(cuStreamDestroy(stream));
}

static void write_word(void *argument)
{
	usleep(1000);
	*(uint32_t *)argument = 9;
}

static void what_follows_a_host_function_sees_what_it_did(void **state)
{
	CUdeviceptr memory = words_alloc(1, 0);
	uint32_t *word;

	assert_success(cuMemAllocHost((void **)&word, 4));
	*word = 0;
	assert_success(cuLaunchHostFunc(NULL, write_word, word));
	assert_success(cuMemcpyHtoDAsync(memory, word, 4, NULL));
	words_check(memory, 1, 9);
	assert_success(cuMemFreeHost(word));
	assert_success(cuMemFree(memory));
}

static atomic_int called_with = -1;

static void CUDA_CB called(CUstream stream, CUresult status, void *argument)
{
	called_with = (int)status;
}

static void callbacks_are_told_the_status(void **state)
{
	assert_success(cuStreamAddCallback(NULL, called, NULL, 0));
	assert_success(cuCtxSynchronize());
	assert_int_equal(called_with, CUDA_SUCCESS);
	assert_result(cuStreamAddCallback(NULL, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuStreamAddCallback(NULL, called, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static atomic_bool released;

static void block(void *argument)
{
	while (!atomic_load(&released))
		usleep(100);
}

static void a_blocked_host_function_holds_its_own_stream_only(void **state)
{
	CUdeviceptr memory = words_alloc(256, 3);
	CUstream blocked, free_one;
	uint32_t *words;

	released = false;
	assert_success(cuMemAllocHost((void **)&words, 1024));
	assert_success(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING));
	assert_success(cuCtxSynchronize());
	assert_success(cuLaunchHostFunc(blocked, block, NULL));
	for (int i = 0; i < 100; i++) {
		assert_success(cuMemcpyDtoHAsync(words, memory, 1024, free_one));
		assert_success(cuStreamSynchronize(free_one));
	}
	assert_result(cuStreamQuery(blocked), CUDA_ERROR_NOT_READY);
	atomic_store(&released, true);
	assert_success(cuStreamSynchronize(blocked));
	assert_success(cuStreamDestroy(blocked));
	assert_success(cuStreamDestroy(free_one));
	assert_success(cuMemFreeHost(words));
	assert_success(cuMemFree(memory));
}

/* ---- per-thread default streams ---- */

static void *own_stream(void *argument)
{
	unsigned long long id = 0;

	cuCtxSetCurrent(fixture_context);
	cuStreamGetId(CU_STREAM_PER_THREAD, &id);
	if (cuStreamSynchronize(CU_STREAM_PER_THREAD))
		id = 0;
	return (void *)(uintptr_t)id;
}

static void each_thread_has_a_default_stream_of_its_own(void **state)
{
	unsigned long long mine, legacy;
	pthread_t thread;
	void *other;

	assert_success(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
	assert_success(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	assert_int_not_equal(mine, legacy);
	pthread_create(&thread, NULL, own_stream, NULL);
	pthread_join(thread, &other);
	assert_non_null(other);
	assert_int_not_equal(mine, (uintptr_t)other);
}

/* Not run against NVIDIA's driver, which may crash. */
static struct endless {
	CUstream stream;
	volatile uint32_t *turn; /* a stream's work k ends when it is k */
	atomic_bool is_over;
} endless;

static CUresult add_turn(uint32_t turn)
{
	return cuStreamWaitValue32(
		endless.stream, (CUdeviceptr)endless.turn, turn, CU_STREAM_WAIT_VALUE_GEQ);
}

/* Puts more on the stream before what is there can end, again and again: the stream is never without work. Gives the first error:
 * cmocka knows one thread. */
static void *go_on(void *argument)
{
	CUresult error = cuCtxSetCurrent(fixture_context);
	uint32_t turn = 1;

	while (!error && !endless.is_over) {
		error = add_turn(turn + 1);
		*endless.turn = turn++;
		usleep(1000);
	}
	*endless.turn = turn;
	return (void *)(uintptr_t)error;
}

static void a_wait_with_a_limit_is_for_what_was_there_when_it_began(void **state)
{
	__typeof__(cuGdevStreamWait) *wait = NULL;
	CUresult result;
	pthread_t thread;
	void *error;

	cuGetProcAddress("cuGdevStreamWait", (void **)&wait, CUDA_VERSION, 0, NULL);
	if (!wait)
		skip();
	assert_success(cuStreamCreate(&endless.stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuMemHostAlloc((void **)&endless.turn, 4, CU_MEMHOSTALLOC_DEVICEMAP));
	*endless.turn = 0;
	assert_success(wait(endless.stream, 0));
	assert_success(add_turn(1));
	assert_result(wait(endless.stream, 1000000), CUDA_ERROR_NOT_READY);
	pthread_create(&thread, NULL, go_on, NULL);
	result = wait(endless.stream, 60000000000);
	endless.is_over = true;
	pthread_join(thread, &error);
	assert_success((CUresult)(uintptr_t)error);
	assert_success(result);
	assert_success(wait(endless.stream, 60000000000));
	assert_success(cuStreamDestroy(endless.stream));
	assert_success(cuMemFreeHost((void *)endless.turn));
}

static void garbage_is_no_stream(void **state)
{
	CUevent event;

	if (getenv("TEST_VENDOR"))
		skip();
	assert_result(cuStreamSynchronize((CUstream)0x1234567), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuEventQuery((CUevent)&event), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuEventCreate(&event, 0));
	assert_success(cuEventDestroy(event));
	assert_result(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stream_is_busy_until_its_work_is_done),
		TEST(a_stream_says_what_it_is),
		TEST(a_destroyed_stream_still_does_its_work),
		TEST(many_streams_come_and_go),
		TEST(the_default_stream_waits_for_blocking_streams),
		TEST(blocking_streams_wait_for_the_default_stream),
		TEST(streams_that_do_not_block_pass_the_default_stream),
		TEST(a_stream_waits_for_an_event),
		TEST(events_measure_time),
		TEST(an_event_never_recorded_is_complete),
		TEST(host_functions_run_in_stream_order),
		TEST(what_follows_a_host_function_sees_what_it_did),
		TEST(callbacks_are_told_the_status),
		TEST(a_blocked_host_function_holds_its_own_stream_only),
		TEST(each_thread_has_a_default_stream_of_its_own),
		TEST(a_wait_with_a_limit_is_for_what_was_there_when_it_began),
		TEST(garbage_is_no_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Several devices in one program: which devices they are, copies between their memory, events and waits across them,
 * memory of one named in a call on another (peer.py).
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "sides.h"

/* ---- which devices they are ---- */

static void test_identity(void **state)
{
	char address[SIDES][32];
	CUuuid uuids[SIDES];
	CUdevice device;

	for (int i = 0; i < SIDES; i++) {
		assert_success(cuDeviceGetUuid(&uuids[i], i));
		assert_success(cuDeviceGetPCIBusId(address[i], sizeof address[i], i));
		assert_success(cuDeviceGetByPCIBusId(&device, address[i]));
		assert_int_equal(device, strcmp(address[i], address[0]) ? i : 0);
		use(i);
		assert_success(cuCtxGetDevice(&device));
		assert_int_equal(device, i);
	}
	assert_memory_not_equal(&uuids[0], &uuids[1], sizeof uuids[0]);
	/* Those of one card are at one place. */
	assert_int_equal(!strcmp(address[0], address[1]), getenv("TEST_ONE_CARD") != NULL);
}

static void test_address_forms(void **state)
{
	unsigned domain, bus, slot;
	char address[32], shorter[32];
	CUdevice device;

	assert_success(cuDeviceGetPCIBusId(address, sizeof address, 0));
	assert_int_equal(sscanf(address, "%x:%x:%x", &domain, &bus, &slot), 3);
	snprintf(shorter, sizeof shorter, "%x:%x:%x", domain, bus, slot);
	assert_success(cuDeviceGetByPCIBusId(&device, shorter));
	if (!domain) {
		snprintf(shorter, sizeof shorter, "%x:%x.0", bus, slot);
		assert_success(cuDeviceGetByPCIBusId(&device, shorter));
	}
	assert_int_equal(device, 0);
}

/* ---- copies ---- */

enum way { PEER, PEER_ASYNC, ANY, ANY_ASYNC, DEVICES, DEVICES_ASYNC, WAYS };

static CUresult copy(enum way way, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	CUcontext there = sides[1].context, here = sides[0].context, current;
	CUstream stream;

	assert_success(cuCtxGetCurrent(&current));
	stream = sides[current == there].stream;
	switch (way) {
	case PEER:
		return cuMemcpyPeer(to, there, from, here, bytes);
	case PEER_ASYNC:
		return cuMemcpyPeerAsync(to, there, from, here, bytes, stream);
	case ANY:
		return cuMemcpy(to, from, bytes);
	case ANY_ASYNC:
		return cuMemcpyAsync(to, from, bytes, stream);
	case DEVICES:
		return cuMemcpyDtoD(to, from, bytes);
	default:
		return cuMemcpyDtoDAsync(to, from, bytes, stream);
	}
}

/* In all ways, from the first device to the second, whichever is current. */
static void copy_all_ways(size_t words)
{
	CUdeviceptr from, to;

	use(0);
	from = words_alloc(words, 0);
	use(1);
	to = words_alloc(words, 0);
	assert_success(cuCtxSynchronize());
	for (uint32_t i = 0; i < WAYS * SIDES; i++) {
		use(0);
		assert_success(cuMemsetD32(from, i + 1, words));
		assert_success(cuCtxSynchronize());
		use(i % SIDES);
		assert_success(copy(i / SIDES, to, from, words * 4));
		assert_success(cuStreamSynchronize(sides[i % SIDES].stream));
		use(1);
		words_check(to, words, i + 1);
	}
	assert_success(cuMemFree(to));
	assert_success(cuMemFree(from)); /* whichever is current */
}

static void test_copies(void **state)
{
	copy_all_ways(1);
	copy_all_ways(1000);
	copy_all_ways((9 << 18) + 3); /* several pieces, and a part of one */
	copy_all_ways(
		(5 << 20) + 3); /* of which the devices do a half each, if they are processors */
}

/* Nothing besides is written, and every byte is where it belongs. */
static void test_bytes_and_borders(void **state)
{
	const size_t bytes = (5 << 20) + 7, around = 64;
	uint8_t *host = malloc(bytes + 2 * around), *back = malloc(bytes + 2 * around);
	CUdeviceptr from, to;

	for (size_t i = 0; i < bytes + 2 * around; i++)
		host[i] = (uint8_t)(i * 2654435761u >> 13);
	use(0);
	assert_success(cuMemAlloc(&from, bytes + 2 * around));
	assert_success(cuMemcpyHtoD(from, host, bytes + 2 * around));
	use(1);
	assert_success(cuMemAlloc(&to, bytes + 2 * around));
	assert_success(cuMemsetD8(to, 0xee, bytes + 2 * around));
	assert_success(cuMemcpyPeer(
		to + around, sides[1].context, from + around, sides[0].context, bytes));
	assert_success(cuMemcpyDtoH(back, to, bytes + 2 * around));
	assert_memory_equal(back + around, host + around, bytes);
	for (size_t i = 0; i < around; i++)
		assert_true(back[i] == 0xee && back[around + bytes + i] == 0xee);
	assert_success(cuMemFree(to));
	assert_success(cuMemFree(from));
	free(back);
	free(host);
}

/* A copy that is too long, whoever would do which part of it. */
static void test_beyond(void **state)
{
	const size_t bytes = 20 << 20, less = 18 << 20;
	CUdeviceptr a, b;

	use(0);
	assert_success(cuMemAlloc(&a, bytes));
	use(1);
	assert_success(cuMemAlloc(&b, less));
	for (int i = 0; i < SIDES; i++) {
		use(i);
		assert_int_equal(cuMemcpyPeer(b, sides[1].context, a, sides[0].context, bytes),
			CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(cuMemcpyPeer(a, sides[0].context, b, sides[1].context, bytes),
			CUDA_ERROR_INVALID_VALUE);
	}
	assert_success(cuMemFree(b));
	assert_success(cuMemFree(a));
}

/* A box of 3 planes of 5 rows, out of the middle of one into the middle of another. */
static void test_boxes(void **state)
{
	enum {
		WIDTH = 20,
		ROWS = 5,
		PLANES = 3,
		PITCH = 64,
		HEIGHT = 9,
		BYTES = PITCH * HEIGHT * 4
	};
	CUDA_MEMCPY3D_PEER box = {.WidthInBytes = WIDTH, .Height = ROWS, .Depth = PLANES};
	uint8_t host[BYTES], back[BYTES];
	CUdeviceptr from, to;

	for (size_t i = 0; i < BYTES; i++)
		host[i] = (uint8_t)(i % 251);
	use(0);
	assert_success(cuMemAlloc(&from, BYTES));
	assert_success(cuMemcpyHtoD(from, host, BYTES));
	use(1);
	assert_success(cuMemAlloc(&to, BYTES));
	assert_success(cuMemsetD8(to, 0xee, BYTES));
	assert_success(cuCtxSynchronize());
	box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcDevice = from, box.srcContext = sides[0].context;
	box.dstDevice = to, box.dstContext = sides[1].context;
	box.srcPitch = box.dstPitch = PITCH, box.srcHeight = box.dstHeight = HEIGHT;
	box.srcXInBytes = 8, box.srcY = 2, box.srcZ = 1;
	box.dstXInBytes = 4, box.dstY = 1;
	for (int sync = 0; sync < 2; sync++) {
		assert_success(
			sync ? cuMemcpy3DPeer(&box) : cuMemcpy3DPeerAsync(&box, sides[1].stream));
		assert_success(cuStreamSynchronize(sides[1].stream));
		assert_success(cuMemcpyDtoH(back, to, BYTES));
		for (size_t i = 0; i < BYTES; i++) {
			size_t x = i % PITCH, y = i / PITCH % HEIGHT, z = i / PITCH / HEIGHT;
			bool in = x >= 4 && x < 4 + WIDTH && y >= 1 && y < 1 + ROWS && z < PLANES;
			uint8_t expected = in ? host[i + 4 + PITCH + PITCH * HEIGHT] : 0xee;
			assert_int_equal(back[i], expected);
		}
		assert_success(cuMemsetD8(to, 0xee, BYTES));
		assert_success(cuCtxSynchronize());
	}
	assert_success(cuMemFree(to));
	assert_success(cuMemFree(from));
}

static void check_order(uint32_t count)
{
	CUdeviceptr a, b;
	CUevent event;

	use(0);
	a = words_alloc(count, 1);
	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	use(1);
	b = words_alloc(count, 0);
	assert_success(cuCtxSynchronize());
	use(0);
	assert_success(cuCtxSynchronize());
	for (int round = 0; round < 10; round++) {
		use(0);
		launch_add(0, a, count, 1);
		assert_success(cuMemcpyAsync(b, a, count * 4, sides[0].stream));
		assert_success(cuEventRecord(event, sides[0].stream));
		use(1);
		assert_success(cuStreamWaitEvent(sides[1].stream, event, 0));
		launch_add(1, b, count, 1);
		assert_success(cuMemcpyPeerAsync(
			a, sides[0].context, b, sides[1].context, count * 4, sides[1].stream));
		assert_success(cuStreamSynchronize(sides[1].stream));
	}
	words_check(b, count, 21);
	use(0);
	words_check(a, count, 21);
	assert_success(cuEventDestroy(event));
	assert_success(cuMemFree(a));
	assert_success(cuMemFree(b));
}

/* An asynchronous copy follows its stream, and what follows it there sees it. */
static void test_order(void **state)
{
	check_order(1 << 16);
	check_order(5 << 20); /* by both devices */
}

/* ---- events ---- */

static void test_events(void **state)
{
	struct gate gate;
	CUdeviceptr words;
	CUevent event;

	use(0);
	fixture_module = sides[0].module;
	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	gate_close(&gate, sides[0].stream);
	assert_success(cuEventRecord(event, sides[0].stream));
	use(1);
	words = words_alloc(16, 1);
	/* Nothing else orders that before what the other stream does. */
	assert_success(cuCtxSynchronize());
	assert_success(cuStreamWaitEvent(sides[1].stream, event, 0));
	assert_success(cuMemsetD32Async(words, 2, 16, sides[1].stream));
	assert_result(cuStreamQuery(sides[1].stream), CUDA_ERROR_NOT_READY);
	assert_result(cuEventQuery(event), CUDA_ERROR_NOT_READY); /* whichever is current */
	gate_open(&gate);
	assert_success(cuStreamSynchronize(sides[1].stream));
	assert_success(cuEventSynchronize(event));
	words_check(words, 16, 2);
	assert_success(cuMemFree(words));
	assert_success(cuEventDestroy(event));
	gate_free(&gate);
}

static void test_context_waits(void **state)
{
	struct gate gate;
	CUevent event;

	use(0);
	fixture_module = sides[0].module;
	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	gate_close(&gate, sides[0].stream);
	assert_success(cuEventRecord(event, sides[0].stream));
	assert_success(cuCtxWaitEvent(sides[1].context, event));
	use(1);
	assert_result(cuStreamQuery(sides[1].stream), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuCtxSynchronize());
	assert_success(cuEventDestroy(event));
	gate_free(&gate);
}

/* As in CUDA, an event is recorded where it was made. */
static void test_events_stay(void **state)
{
	CUevent event;

	use(0);
	assert_success(cuEventCreate(&event, 0));
	assert_result(cuEventRecord(event, sides[1].stream), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuEventDestroy(event));
}

/* ---- memory of one in a call on another ---- */

static void test_memory_of_another(void **state)
{
	uint32_t host[16], value = 7;
	CUdeviceptr words, base;
	size_t bytes;

	use(0);
	words = words_alloc(16, 1);
	assert_success(cuCtxSynchronize());
	use(1);
	assert_success(cuMemcpyDtoH(host, words, sizeof host));
	assert_int_equal(host[15], 1);
	assert_success(cuMemcpyHtoD(words + 4, &value, 4));
	assert_success(cuMemsetD32(words + 8, 9, 2));
	assert_success(cuMemcpyDtoD(words + 16, words + 4, 4)); /* within the other */
	assert_success(cuMemcpyDtoHAsync(host, words, sizeof host, sides[1].stream));
	assert_success(cuStreamSynchronize(sides[1].stream));
	assert_int_equal(host[1], 7);
	assert_int_equal(host[2], 9);
	assert_int_equal(host[3], 9);
	assert_int_equal(host[4], 7);
	assert_int_equal(host[5], 1);
	assert_success(cuMemGetAddressRange(&base, &bytes, words + 20));
	assert_int_equal(base, words);
	assert_int_equal(bytes, sizeof host);
	assert_success(cuMemFree(words));
	assert_result(cuMemcpyDtoH(host, words, sizeof host), CUDA_ERROR_INVALID_VALUE);
}

static void test_what_pointers_are(void **state)
{
	CUdeviceptr words;
	CUcontext context;
	unsigned type;
	int device;

	use(0);
	words = words_alloc(16, 1);
	use(1);
	assert_success(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, words));
	assert_int_equal(device, 0);
	assert_success(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, words));
	assert_ptr_equal(context, sides[0].context);
	assert_success(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, words));
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_success(cuMemFree(words));
}

/* Page-locked memory of one device is what copies of all devices read and write. */
static void test_page_locked(void **state)
{
	const size_t count = 1 << 18;
	CUdeviceptr words;
	uint32_t *host;
	unsigned flags;

	use(0);
	assert_success(cuMemHostAlloc((void **)&host, count * 4, CU_MEMHOSTALLOC_PORTABLE));
	for (size_t i = 0; i < count; i++)
		host[i] = 5;
	use(1);
	words = words_alloc(count, 0);
	assert_success(cuCtxSynchronize());
	assert_success(cuMemHostGetFlags(&flags, host));
	assert_true(flags & CU_MEMHOSTALLOC_PORTABLE);
	assert_result(cuMemHostRegister(host, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_success(cuMemcpyHtoDAsync(words, host, count * 4, sides[1].stream));
	assert_success(cuStreamSynchronize(sides[1].stream));
	words_check(words, count, 5);
	assert_success(cuMemcpyDtoDAsync(words + 4, (CUdeviceptr)host, 4, sides[1].stream));
	assert_success(cuMemsetD32(words, 6, count));
	assert_success(cuMemcpyDtoH(host, words, count * 4));
	assert_int_equal(host[count - 1], 6);
	assert_success(cuMemFree(words));
	assert_success(cuMemFreeHost(host)); /* whichever is current */
}

/* Planes that do not follow each other are copied one by one, whether or not the devices reach each other. */
static void test_planes_apart(void **state)
{
	enum { PITCH = 256, HEIGHT = 8, PLANES = 4 };
	CUDA_MEMCPY3D_PEER box = {.WidthInBytes = 100, .Height = 3, .Depth = PLANES};
	CUdeviceptr words[SIDES];

	for (int i = 0; i < SIDES; i++) {
		use(i);
		assert_success(cuMemAlloc(&words[i], PITCH * HEIGHT * PLANES));
	}
	box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcPitch = box.dstPitch = PITCH, box.srcHeight = box.dstHeight = HEIGHT;
	for (int i = 0; i < SIDES; i++) {
		box.srcDevice = words[i], box.srcContext = sides[i].context;
		box.dstDevice = words[!i], box.dstContext = sides[!i].context;
		assert_success(cuMemcpy3DPeer(&box));
	}
	for (int i = 0; i < SIDES; i++)
		assert_success(cuMemFree(words[i]));
}

/* ---- graphs ---- */

static void test_graph_of_copies(void **state)
{
	CUdeviceptr from, to;
	CUgraphExec exec;
	CUgraph graph;

	use(0);
	from = words_alloc(1000, 3);
	assert_success(cuCtxSynchronize());
	use(1);
	to = words_alloc(1000, 0);
	assert_success(cuCtxSynchronize());
	assert_success(cuStreamBeginCapture(sides[1].stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuMemcpyAsync(to, from, 4000, sides[1].stream));
	launch_add(1, to, 1000, 1);
	assert_success(cuMemcpyAsync(from, to, 4000, sides[1].stream));
	assert_success(cuStreamEndCapture(sides[1].stream, &graph));
	assert_success(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		assert_success(cuGraphLaunch(exec, sides[1].stream));
	assert_success(cuStreamSynchronize(sides[1].stream));
	words_check(from, 1000, 6);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(from));
	assert_success(cuMemFree(to));
}

/* ---- a thread a device ---- */

struct worker {
	pthread_t thread;
	int side;
	CUdeviceptr mine, other;
};

static void *exchange(void *argument)
{
	struct worker *worker = argument;

	use(worker->side);
	for (int round = 0; round < 50; round++) {
		launch_add(worker->side, worker->mine, 1000, 1);
		assert_success(cuMemcpyAsync(
			worker->other, worker->mine, 4000, sides[worker->side].stream));
		assert_success(cuStreamSynchronize(sides[worker->side].stream));
		words_check(worker->mine, 1000, (uint32_t)round + 1);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker workers[SIDES];

	for (int i = 0; i < SIDES; i++) {
		workers[i].side = i;
		use(i);
		workers[i].mine = words_alloc(1000, 0);
		assert_success(cuCtxSynchronize());
		use(!i);
		workers[i].other = words_alloc(1000, 0);
		assert_success(cuCtxSynchronize());
	}
	for (int i = 0; i < SIDES; i++)
		assert_int_equal(
			pthread_create(&workers[i].thread, NULL, exchange, &workers[i]), 0);
	for (int i = 0; i < SIDES; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < SIDES; i++) {
		words_check(workers[i].other, 1000, 50);
		assert_success(cuMemFree(workers[i].other));
		assert_success(cuMemFree(workers[i].mine));
	}
}

#define test(name) cmocka_unit_test_setup_teardown(name, sides_setup, sides_teardown)

/* usage: test_peer [PATTERN]: the tests whose names match */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		test(test_identity),
		test(test_address_forms),
		test(test_copies),
		test(test_bytes_and_borders),
		test(test_beyond),
		test(test_boxes),
		test(test_order),
		test(test_events),
		test(test_context_waits),
		test(test_events_stay),
		test(test_memory_of_another),
		test(test_what_pointers_are),
		test(test_page_locked),
		test(test_planes_apart),
		test(test_graph_of_copies),
		test(test_threads),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

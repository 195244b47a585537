/* SPDX-License-Identifier: MIT
 *
 * Errors of streams, captures, and events.
 */
#include "errors.h"

static void callback(CUstream stream, CUresult status, void *data)
{
	fail();
}

static void host_function(void *data)
{
	fail();
}

static void with_stream(CUstream bad)
{
	CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32};
	CUstreamCaptureStatus status;
	CUstreamAttrValue value = {0};
	unsigned long long id;
	CUcontext context;
	CUdevice device;
	unsigned flags;
	CUgraph graph;
	int priority;
	size_t count;

	INVALID_HANDLE(cuStreamGetId(bad, &id));
	INVALID_HANDLE(cuStreamGetPriority(bad, &priority));
	INVALID_HANDLE(cuStreamGetFlags(bad, &flags));
	INVALID_HANDLE(cuStreamGetCtx(bad, &context));
	INVALID_HANDLE(cuStreamGetDevice(bad, &device));
	INVALID_HANDLE(cuStreamWaitEvent(bad, alive.event, 0));
	INVALID_HANDLE(cuStreamAddCallback(bad, callback, NULL, 0));
	INVALID_HANDLE(cuLaunchHostFunc(bad, host_function, NULL));
	INVALID_HANDLE(cuStreamBeginCapture(bad, CU_STREAM_CAPTURE_MODE_RELAXED));
	INVALID_HANDLE(cuStreamBeginCaptureToGraph(
		bad, alive.graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	INVALID_HANDLE(cuStreamEndCapture(bad, &graph));
	INVALID_HANDLE(cuStreamIsCapturing(bad, &status));
	INVALID_HANDLE(cuStreamGetCaptureInfo(bad, &status, NULL, NULL, NULL, NULL, &count));
	INVALID_HANDLE(cuStreamUpdateCaptureDependencies(
		bad, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	INVALID_HANDLE(cuStreamQuery(bad));
	INVALID_HANDLE(cuStreamSynchronize(bad));
	INVALID_HANDLE(cuGdevStreamWait(bad, 0));
	INVALID_HANDLE(cuStreamDestroy(bad));
	INVALID_HANDLE(cuStreamCopyAttributes(bad, alive.stream));
	INVALID_HANDLE(cuStreamCopyAttributes(alive.stream, bad));
	INVALID_HANDLE(cuStreamGetAttribute(bad, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	INVALID_HANDLE(cuStreamSetAttribute(bad, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	INVALID_HANDLE(cuStreamWaitValue32(bad, alive.memory, 0, 0));
	INVALID_HANDLE(cuStreamWaitValue64(bad, alive.memory, 0, 0));
	INVALID_HANDLE(cuStreamWriteValue32(bad, alive.memory, 0, 0));
	INVALID_HANDLE(cuStreamWriteValue64(bad, alive.memory, 0, 0));
	op.writeValue.address = alive.memory;
	INVALID_HANDLE(cuStreamBatchMemOp(bad, 1, &op, 0));
	INVALID_HANDLE(cuEventRecord(alive.event, bad));
	INVALID_HANDLE(cuEventRecordWithFlags(alive.event, bad, 0));
}

static void of_stream_handles(void **state)
{
	OURS(with_stream(GARBAGE(CUstream)));
	OURS(with_stream(gone.stream));
	OURS(with_stream((CUstream)(void *)alive.event));
}

static void of_streams(void **state)
{
	CUstreamAttrValue value = {0};
	CUstream stream;

	INVALID_VALUE(cuStreamCreate(NULL, 0));
	INVALID_VALUE(cuStreamCreate(&stream, 0x80));
	INVALID_VALUE(cuStreamCreateWithPriority(NULL, 0, 0));
	INVALID_VALUE(cuStreamCreateWithPriority(&stream, 0x80, 0));
	INVALID_VALUE(cuStreamGetId(alive.stream, NULL));
	INVALID_VALUE(cuStreamGetPriority(alive.stream, NULL));
	INVALID_VALUE(cuStreamGetFlags(alive.stream, NULL));
	INVALID_VALUE(cuStreamGetCtx(alive.stream, NULL));
	INVALID_VALUE(cuStreamGetDevice(alive.stream, NULL));
	INVALID_HANDLE(cuStreamDestroy(NULL)); /* the default stream stays */
	INVALID_VALUE(cuStreamAddCallback(alive.stream, NULL, NULL, 0));
	INVALID_VALUE(cuStreamAddCallback(alive.stream, callback, NULL, 1));
	INVALID_VALUE(cuLaunchHostFunc(alive.stream, NULL, NULL));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuStreamGetAttribute(alive.stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL));
	INVALID_VALUE(cuStreamGetAttribute(alive.stream, (CUstreamAttrID)999, &value));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuStreamSetAttribute(alive.stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL));
	INVALID_VALUE(cuStreamSetAttribute(alive.stream, (CUstreamAttrID)999, &value));
}

static void of_captures(void **state)
{
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED, odd = 9;
	CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureStatus status;
	CUgraph graph;
	size_t count;

	CRASHES(CUDA_ERROR_INVALID_VALUE, cuThreadExchangeStreamCaptureMode(NULL));
	INVALID_VALUE(cuStreamBeginCapture(alive.stream, odd));
	DIFFERS(CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS, "takes a mode that is none",
		cuThreadExchangeStreamCaptureMode(&odd));
	assert_success(cuThreadExchangeStreamCaptureMode(&global));
	REFUSED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(NULL, relaxed));
	INVALID_VALUE(cuStreamBeginCaptureToGraph(alive.stream, NULL, NULL, NULL, 0, relaxed));
	INVALID_VALUE(
		cuStreamBeginCaptureToGraph(alive.stream, gone.graph, NULL, NULL, 0, relaxed));
	INVALID_VALUE(cuStreamBeginCaptureToGraph(
		alive.stream, alive.graph, &gone.node, NULL, 1, relaxed));
	INVALID_VALUE(
		cuStreamBeginCaptureToGraph(alive.stream, alive.graph, NULL, NULL, 1, relaxed));
	REFUSED(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(alive.stream, NULL));
	REFUSED(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(alive.stream, &graph));
	INVALID_VALUE(cuStreamIsCapturing(alive.stream, NULL));
	INVALID_VALUE(cuStreamGetCaptureInfo(alive.stream, NULL, NULL, NULL, NULL, NULL, &count));
	REFUSED(CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(alive.stream, NULL,
						  NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	assert_success(cuStreamBeginCapture(alive.stream, relaxed));
	INVALID_VALUE(cuStreamUpdateCaptureDependencies(alive.stream, NULL, NULL, 1, 0));
	INVALID_VALUE(cuStreamUpdateCaptureDependencies(alive.stream, &gone.node, NULL, 1, 0));
	INVALID_VALUE(cuStreamUpdateCaptureDependencies(alive.stream, NULL, NULL, 0, 77));
	assert_success(cuStreamIsCapturing(alive.stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_success(cuStreamEndCapture(alive.stream, &graph));
	assert_success(cuGraphDestroy(graph));
}

static void of_values(void **state)
{
	CUstreamBatchMemOpParams op = {.operation = 99};
	CUdeviceptr addresses[] = {0, gone.memory, alive.memory + 1, alive.memory + OBJECT_BYTES};

	for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
		CUdeviceptr bad = addresses[i];

		INVALID_VALUE(cuStreamWaitValue32(alive.stream, bad, 0, 0));
		INVALID_VALUE(cuStreamWaitValue64(alive.stream, bad, 0, 0));
		INVALID_VALUE(cuStreamWriteValue32(alive.stream, bad, 0, 0));
		INVALID_VALUE(cuStreamWriteValue64(alive.stream, bad, 0, 0));
	}
	INVALID_VALUE(cuStreamWaitValue32(alive.stream, alive.memory, 0, 0x80));
	INVALID_VALUE(cuStreamWaitValue64(alive.stream, alive.memory, 0, 0x80));
	INVALID_VALUE(cuStreamWriteValue32(alive.stream, alive.memory, 0, 0x80));
	INVALID_VALUE(cuStreamWriteValue64(alive.stream, alive.memory, 0, 0x80));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(alive.stream, 1, NULL, 0));
	INVALID_VALUE(cuStreamBatchMemOp(alive.stream, 1, &op, 0));
	INVALID_VALUE(cuStreamBatchMemOp(alive.stream, 100000, &op, 0));
	INVALID_VALUE(cuStreamBatchMemOp(alive.stream, 1, &op, 1));
}

static void with_event(CUevent bad)
{
	float ms;

	INVALID_HANDLE(cuEventRecord(bad, alive.stream));
	INVALID_HANDLE(cuEventRecordWithFlags(bad, alive.stream, 0));
	INVALID_HANDLE(cuEventQuery(bad));
	INVALID_HANDLE(cuEventSynchronize(bad));
	INVALID_HANDLE(cuEventDestroy(bad));
	INVALID_HANDLE(cuEventElapsedTime(&ms, bad, alive.event));
	INVALID_HANDLE(cuEventElapsedTime(&ms, alive.event, bad));
	INVALID_HANDLE(cuStreamWaitEvent(alive.stream, bad, 0));
}

static void of_events(void **state)
{
	CUcontext other;
	CUevent event;
	float ms;

	with_event(NULL);
	OURS(with_event(GARBAGE(CUevent)));
	OURS(with_event(gone.event));
	OURS(with_event((CUevent)(void *)alive.stream));
	INVALID_VALUE(cuEventCreate(NULL, 0));
	INVALID_VALUE(cuEventCreate(&event, 0x80));
	INVALID_VALUE(cuEventCreate(&event, CU_EVENT_INTERPROCESS)); /* and measures time */
	INVALID_VALUE(cuEventRecordWithFlags(alive.event, alive.stream, 0x80));
	INVALID_VALUE(cuStreamWaitEvent(alive.stream, alive.event, 0x80));
	INVALID_HANDLE(cuEventElapsedTime(&ms, alive.event, alive.event)); /* not recorded */
	assert_success(cuEventRecord(alive.event, alive.stream));
	assert_success(cuEventSynchronize(alive.event));
	INVALID_HANDLE(cuEventElapsedTime(NULL, alive.event, alive.event));
	other = fixture_context_create();
	INVALID_HANDLE(cuEventRecord(alive.event, NULL)); /* a stream of another context */
	INVALID_HANDLE(cuEventRecordWithFlags(alive.event, NULL, 0));
	assert_success(cuCtxDestroy(other));
}

int errors_of_streams(void)
{
	const struct CMUnitTest tests[] = {
		ERRORS_TEST(of_stream_handles),
		ERRORS_TEST(of_streams),
		ERRORS_TEST(of_captures),
		ERRORS_TEST(of_values),
		ERRORS_TEST(of_events),
	};

	return ERRORS_RUN(tests);
}

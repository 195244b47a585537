/* SPDX-License-Identifier: MIT
 *
 * Errors of green contexts, and of the parts of a device that they are made of.
 */
#include "errors.h"

#define MULTIPROCESSORS CU_DEV_RESOURCE_TYPE_SM

static void of_resources(void **state)
{
	CUdevResource all, other, none = {CU_DEV_RESOURCE_TYPE_INVALID}, parts[2];
	CUdevResourceDesc description;
	unsigned count = 1;

	assert_success(cuDeviceGetDevResource(fixture_device, &all, MULTIPROCESSORS));
	INVALID_VALUE(cuDeviceGetDevResource(fixture_device, NULL, MULTIPROCESSORS));
	INVALID_DEVICE(cuDeviceGetDevResource(NO_DEVICE, &other, MULTIPROCESSORS));
	REFUSED(CUDA_ERROR_INVALID_RESOURCE_TYPE,
		cuDeviceGetDevResource(fixture_device, &other, CU_DEV_RESOURCE_TYPE_INVALID));
	INVALID_VALUE(cuCtxGetDevResource(alive.context, NULL, MULTIPROCESSORS));
	REFUSED(CUDA_ERROR_INVALID_RESOURCE_TYPE,
		cuCtxGetDevResource(alive.context, &other, (CUdevResourceType)77));
	OURS(INVALID_CONTEXT(cuCtxGetDevResource(GARBAGE(CUcontext), &other, MULTIPROCESSORS)));
	INVALID_VALUE(cuDevSmResourceSplitByCount(NULL, NULL, &all, NULL, 0, 1));
	INVALID_VALUE(cuDevSmResourceSplitByCount(parts, &count, NULL, NULL, 0, 1));
	INVALID_VALUE(cuDevSmResourceSplitByCount(parts, &count, &all, NULL, 0x100, 1));
	INVALID_VALUE(cuDevSmResourceSplitByCount(parts, &count, &all, NULL, 0, 100000));
	REFUSED(CUDA_ERROR_INVALID_RESOURCE_TYPE,
		cuDevSmResourceSplitByCount(parts, &count, &none, NULL, 0, 1));
	none.type = MULTIPROCESSORS;
	OURS(INVALID_VALUE(cuDevSmResourceSplitByCount(parts, &count, &none, NULL, 0, 1)));
	other = all;
	other.sm.smCount = 100000;
	OURS(INVALID_VALUE(cuDevSmResourceSplitByCount(parts, &count, &other, NULL, 0, 1)));
	assert_success(cuDevSmResourceSplitByCount(parts, &count, &all, NULL, 0, 1));
	count = 1;
	REFUSED(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
		cuDevSmResourceSplitByCount(&other, &count, &parts[0], NULL, 0, 1));
	INVALID_VALUE(cuDevResourceGenerateDesc(NULL, &all, 1));
	INVALID_VALUE(cuDevResourceGenerateDesc(&description, NULL, 1));
	INVALID_VALUE(cuDevResourceGenerateDesc(&description, &all, 0));
	parts[1] = all;
	REFUSED(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
		cuDevResourceGenerateDesc(&description, parts, 2));
	none.type = CU_DEV_RESOURCE_TYPE_INVALID;
	REFUSED(CUDA_ERROR_INVALID_RESOURCE_TYPE,
		cuDevResourceGenerateDesc(&description, &none, 1));
}

static void of_green_contexts(void **state)
{
	CUdevResourceDesc description;
	CUgreenCtx green, made;
	unsigned long long id;
	CUdevResource all;
	CUcontext context;
	CUstream stream;

	assert_success(cuDeviceGetDevResource(fixture_device, &all, MULTIPROCESSORS));
	assert_success(cuDevResourceGenerateDesc(&description, &all, 1));
	INVALID_VALUE(cuGreenCtxCreate(NULL, description, fixture_device, 1));
	INVALID_VALUE(cuGreenCtxCreate(&made, NULL, fixture_device, 1));
	INVALID_VALUE(cuGreenCtxCreate(&made, description, fixture_device, 0));
	INVALID_VALUE(cuGreenCtxCreate(&made, description, fixture_device, 3));
	INVALID_DEVICE(cuGreenCtxCreate(&made, description, NO_DEVICE, 1));
	OURS(INVALID_VALUE(cuGreenCtxCreate(&made, GARBAGE(CUdevResourceDesc), fixture_device, 1)));
	OURS(INVALID_HANDLE(cuStreamGetGreenCtx(gone.stream, &made)));
	OURS(INVALID_HANDLE(cuStreamGetCtx_v2(gone.stream, &context, &made)));
	assert_success(cuGreenCtxCreate(&green, description, fixture_device, 1));
	INVALID_VALUE(cuCtxFromGreenCtx(NULL, green));
	INVALID_CONTEXT(cuCtxFromGreenCtx(&context, NULL));
	INVALID_VALUE(cuGreenCtxGetDevResource(green, NULL, MULTIPROCESSORS));
	INVALID_CONTEXT(cuGreenCtxGetDevResource(NULL, &all, MULTIPROCESSORS));
	REFUSED(CUDA_ERROR_INVALID_RESOURCE_TYPE,
		cuGreenCtxGetDevResource(green, &all, CU_DEV_RESOURCE_TYPE_INVALID));
	INVALID_VALUE(cuGreenCtxGetId(green, NULL));
	INVALID_CONTEXT(cuGreenCtxGetId(NULL, &id)); /* the current one is none */
	INVALID_CONTEXT(cuGreenCtxRecordEvent(NULL, alive.event));
	INVALID_CONTEXT(cuGreenCtxWaitEvent(NULL, alive.event));
	OURS(INVALID_HANDLE(cuGreenCtxRecordEvent(green, gone.event)));
	OURS(INVALID_HANDLE(cuGreenCtxWaitEvent(green, gone.event)));
	INVALID_HANDLE(cuGreenCtxRecordEvent(green, alive.event)); /* of another context */
	INVALID_VALUE(cuGreenCtxStreamCreate(NULL, green, CU_STREAM_NON_BLOCKING, 0));
	INVALID_VALUE(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0));
	INVALID_CONTEXT(cuGreenCtxStreamCreate(&stream, NULL, CU_STREAM_NON_BLOCKING, 0));
	INVALID_VALUE(cuStreamGetGreenCtx(alive.stream, NULL));
	INVALID_VALUE(cuStreamGetCtx_v2(alive.stream, NULL, &made));
	INVALID_VALUE(cuStreamGetCtx_v2(alive.stream, &context, NULL));
	assert_success(cuCtxFromGreenCtx(&context, green));
	INVALID_CONTEXT(cuCtxDestroy(context));
	assert_success(cuCtxPushCurrent(context));
	INVALID_HANDLE(cuStreamGetCtx_v2(CU_STREAM_PER_THREAD, &context, &made));
	assert_success(cuCtxPopCurrent(NULL));
	assert_success(cuGreenCtxDestroy(green));
	INVALID_CONTEXT(cuGreenCtxDestroy(NULL));
	OURS(INVALID_CONTEXT(cuGreenCtxDestroy(green)));
	OURS(INVALID_CONTEXT(cuCtxFromGreenCtx(&context, green)));
}

int errors_of_greens(void)
{
	const struct CMUnitTest tests[] = {
		ERRORS_TEST(of_resources),
		ERRORS_TEST(of_green_contexts),
	};

	return ERRORS_RUN(tests);
}

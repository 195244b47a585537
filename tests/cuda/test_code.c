/* SPDX-License-Identifier: MIT
 *
 * Code: modules, libraries, variables, what is refused, and loading beside other threads.
 */
#include "fixture.h"

#include <stdio.h>
#include <unistd.h>

/* ---- modules ---- */

static void ptx_that_does_not_assemble_says_why(void **state)
{
	char log[4096] = "unset";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof log};
	CUmodule module;

	assert_result(cuModuleLoadDataEx(&module,
			      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry "
			      "f() { mov.u32 %r1, ; ret; }\n",
			      2, options, values),
		CUDA_ERROR_INVALID_PTX);
	assert_true(strlen(log) > 0);
	assert_string_not_equal(log, "unset");
}

static void images_that_are_no_code_are_refused(void **state)
{
	CUmodule module;

	assert_result(cuModuleLoadData(NULL, kernels_ptx), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuModuleLoad(&module, "/no/such/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

/* What nvcc makes of a kernel that launches one, as often as its second parameter says, with so many threads as the third. */
static const char launching_ptx[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f, .param .align 4 "
	".b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);\n"
	".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s);\n"
	".visible .entry child(.param .b64 out)\n{\n"
	"	.reg .b64 %p;\n"
	"	ld.param.b64 %p, [out];\n"
	"	red.global.add.u32 [%p], 1;\n"
	"	ret;\n}\n"
	".visible .entry parent(.param .b64 out, .param .b32 times, .param .b32 threads)\n{\n"
	"	.reg .b64 %p, %f, %b;\n"
	"	.reg .b32 %r, %n, %t;\n"
	"	.reg .pred %q;\n"
	"	ld.param.b64 %p, [out];\n"
	"	ld.param.b32 %n, [times];\n"
	"	ld.param.b32 %t, [threads];\n"
	"	mov.b64 %f, child;\n"
	"again:\n"
	"	setp.eq.u32 %q, %n, 0;\n"
	"	@%q bra done;\n"
	"	{\n"
	"	.param .b64 p0;\n"
	"	st.param.b64 [p0], %f;\n"
	"	.param .align 4 .b8 p1[12];\n"
	"	st.param.b32 [p1], 2;\n"
	"	st.param.b32 [p1+4], 1;\n"
	"	st.param.b32 [p1+8], 1;\n"
	"	.param .align 4 .b8 p2[12];\n"
	"	st.param.b32 [p2], %t;\n"
	"	st.param.b32 [p2+4], 1;\n"
	"	st.param.b32 [p2+8], 1;\n"
	"	.param .b32 p3;\n"
	"	st.param.b32 [p3], 0;\n"
	"	.param .b64 r0;\n"
	"	call.uni (r0), __cudaCDP2GetParameterBufferV2, (p0, p1, p2, p3);\n"
	"	ld.param.b64 %b, [r0];\n"
	"	}\n"
	"	st.b64 [%b], %p;\n"
	"	{\n"
	"	.param .b64 p0;\n"
	"	st.param.b64 [p0], %b;\n"
	"	.param .b64 p1;\n"
	"	st.param.b64 [p1], 0;\n"
	"	.param .b32 r0;\n"
	"	call.uni (r0), __cudaCDP2LaunchDeviceV2, (p0, p1);\n"
	"	ld.param.b32 %r, [r0];\n"
	"	}\n"
	"	sub.u32 %n, %n, 1;\n"
	"	bra again;\n"
	"done:\n"
	"	ret;\n}\n";

/* What nvcc -rdc makes: what is linked, nothing here, and what a driver would link, which has nothing for this device. */
struct empty_binary {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes;
};

static const struct empty_binary no_code = {0xba55ed50, 1, sizeof no_code, 0};
static const void *units[] = {&no_code, NULL};
static const struct {
	uint32_t magic, version;
	const void *data, *units;
} unlinked = {0x466243b1, 2, &no_code, units};

/* The runtime finds a kernel only when it is launched, and many a program looks for the errors of its work alone. */
static void expect_no_launch(const void *image)
{
	CUlibrary library;
	CUkernel kernel;
	uint32_t word;
	CUdeviceptr memory = words_alloc(1, 0);

	assert_success(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	assert_result(cuLibraryGetKernel(&kernel, library, "parent"), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuCtxSynchronize(), CUDA_ERROR_NOT_SUPPORTED);
	assert_success(cuCtxSynchronize());
	assert_result(cuLibraryGetKernel(&kernel, library, "parent"), CUDA_ERROR_NOT_SUPPORTED);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM /* where a copy is on the thread's own stream */
	assert_result(cuStreamSynchronize(CU_STREAM_LEGACY), CUDA_ERROR_NOT_SUPPORTED);
#else
	assert_result(cuMemcpyDtoH(&word, memory, sizeof word), CUDA_ERROR_NOT_SUPPORTED);
#endif
	assert_success(cuMemcpyDtoH(&word, memory, sizeof word));
	assert_success(cuLibraryUnload(library));
	assert_success(cuMemFree(memory));
}

/* A kernel that was found while no context was current; whether it can be loaded is known later. */
static void calls_that_only_ask_leave_the_default_stream_as_it_is(void **state)
{
	CUfunction function;
	CUlibrary library;
	CUcontext context;
	CUkernel kernel;
	size_t offset;
	int value;

	if (getenv("TEST_VENDOR"))
		skip(); /* which links them */
	assert_success(cuLibraryLoadData(&library, &unlinked, NULL, NULL, 0, NULL, NULL, 0));
	assert_success(cuCtxPopCurrent(&context));
	assert_success(cuLibraryGetKernel(&kernel, library, "parent"));
	assert_success(cuCtxPushCurrent(context));
	assert_result(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0),
		CUDA_ERROR_NOT_SUPPORTED);
	assert_result(
		cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0, kernel, 0),
		CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuKernelGetParamInfo(kernel, 0, &offset, NULL), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUfunction)kernel),
		CUDA_ERROR_NOT_SUPPORTED);
	assert_success(cuCtxSynchronize());
	assert_result(cuKernelGetFunction(&function, kernel), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuCtxSynchronize(), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuCtxSynchronize(), CUDA_ERROR_NOT_SUPPORTED);
	assert_success(cuLibraryUnload(library));
}

static void kernels_launch_kernels(void **state)
{
	CUdeviceptr memory = words_alloc(1, 0);
	unsigned times = 100, threads = 32;
	void *params[] = {&memory, &times, &threads};
	CUfunction parent;
	CUmodule module;
	CUstream stream;
	uint32_t word;

	if (fixture_is_hardware())
		skip(); /* which wants its device runtime linked */
	assert_success(cuModuleLoadData(&module, launching_ptx));
	assert_success(cuModuleGetFunction(&parent, module, "parent"));
	assert_success(cuLaunchKernel(parent, 3, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_success(cuMemcpyDtoH(&word, memory, sizeof word));
	assert_int_equal(word, 3 * times * 2 * threads);
	/* What cannot be launched ends the command, and harms no other. */
	threads = 1025;
	assert_success(cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_result(cuCtxSynchronize(), CUDA_ERROR_INVALID_VALUE);
	threads = 1;
	times = 1;
	assert_success(cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_success(cuMemcpyDtoH(&word, memory, sizeof word));
	assert_int_equal(word, 3 * 100 * 2 * 32 + 2);
	times = 70000; /* more than may wait */
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	assert_result(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	/* Each failure is told, not only the first. */
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	assert_result(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	assert_success(cuStreamDestroy(stream));
	assert_success(cuModuleUnload(module));
	assert_success(cuMemFree(memory));
}

/* A kernel that says whether malloc gives it so many bytes. */
static const char heap_ptx[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
	".extern .func free(.param .b64 p);\n"
	".visible .entry fits(.param .b64 out, .param .b64 bytes)\n{\n"
	"	.reg .b64 %o, %n, %p;\n	.reg .b32 %r;\n	.reg .pred %q;\n"
	"	ld.param.b64 %o, [out];\n	ld.param.b64 %n, [bytes];\n"
	"	{\n	.param .b64 a;\n	.param .b64 b;\n	st.param.b64 [a], %n;\n"
	"	call.uni (b), malloc, (a);\n	ld.param.b64 %p, [b];\n	}\n"
	"	setp.ne.u64 %q, %p, 0;\n	selp.b32 %r, 1, 0, %q;\n	st.global.b32 [%o], %r;\n"
	"	{\n	.param .b64 a;\n	st.param.b64 [a], %p;\n	call.uni free, (a);\n	}\n"
	"	ret;\n}\n";

static uint32_t fits(CUfunction function, CUdeviceptr memory, uint64_t bytes)
{
	void *params[] = {&memory, &bytes};
	uint32_t word;

	assert_success(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_success(cuMemcpyDtoH(&word, memory, sizeof word));
	return word;
}

static void the_heap_of_kernels_is_as_large_as_its_limit(void **state)
{
	CUdeviceptr memory = words_alloc(1, 0);
	CUfunction function;
	CUmodule module;

	if (fixture_is_hardware())
		skip(); /* where it can be set once, before kernels run */
	assert_success(cuModuleLoadData(&module, heap_ptx));
	assert_success(cuModuleGetFunction(&function, module, "fits"));
	assert_success(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 100 << 20));
	assert_int_equal(fits(function, memory, 100 << 20), 1);
	assert_int_equal(fits(function, memory, 101 << 20), 0);
	assert_success(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, SIZE_MAX));
	assert_int_equal(fits(function, memory, SIZE_MAX), 0);
	assert_success(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20));
	assert_int_equal(fits(function, memory, 8 << 20), 1);
	assert_int_equal(fits(function, memory, 9 << 20), 0);
	assert_success(cuModuleUnload(module));
	assert_success(cuMemFree(memory));
}

static void code_that_is_not_linked_is_refused_and_never_silently(void **state)
{
	CUmodule module;

	if (getenv("TEST_VENDOR"))
		skip(); /* which links them */
	assert_result(cuModuleLoadData(&module, &unlinked), CUDA_ERROR_NOT_SUPPORTED);
	expect_no_launch(&unlinked);
	units[0] = NULL;
	assert_result(cuModuleLoadData(&module, &unlinked), CUDA_ERROR_NO_BINARY_FOR_GPU);
	units[0] = &no_code;
}

/* The file says that more follows, for another device, than there is. */
static void a_fat_binary_that_was_cut_is_refused(void **state)
{
	struct {
		uint32_t magic;
		uint16_t version, header_bytes;
		uint64_t bytes;
		uint16_t kind, entry_version;
		uint32_t entry_header_bytes;
		uint64_t payload_bytes;
		uint8_t rest[48];
	} image = {0xba55ed50, 1, 16, 1ull << 40, 2, 0x101, 64, 1ull << 39, {0}};
	char path[] = "/tmp/gdev-cut-XXXXXX";
	int fd = mkstemp(path);
	CUlibrary library;
	CUmodule module;

	if (getenv("TEST_VENDOR"))
		skip();      /* nobody asked it yet */
	image.rest[12] = 20; /* sm_20 */
	assert_true(fd >= 0);
	assert_int_equal(write(fd, &image, sizeof image), sizeof image);
	close(fd);
	assert_success(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	unlink(path);
	assert_result(cuLibraryGetModule(&module, library), CUDA_ERROR_INVALID_IMAGE);
	assert_success(cuLibraryUnload(library));
}

static void names_that_are_not_there_are_not_found(void **state)
{
	CUfunction function;
	CUdeviceptr pointer;
	size_t bytes;

	assert_result(
		cuModuleGetFunction(&function, fixture_module, "nobody"), CUDA_ERROR_NOT_FOUND);
	assert_result(cuModuleGetGlobal(&pointer, &bytes, fixture_module, "nobody"),
		CUDA_ERROR_NOT_FOUND);
	assert_result(cuModuleGetFunction(NULL, fixture_module, "add"), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuModuleGetFunction(&function, fixture_module, ""), CUDA_ERROR_INVALID_VALUE);
}

static void variables_are_read_and_written(void **state)
{
	uint32_t values[4], results[2], new_value = 30, new_constant = 70;
	CUdeviceptr variable, constant, out = words_alloc(2, 0);
	size_t bytes;

	assert_success(cuModuleGetGlobal(&variable, &bytes, fixture_module, "variable"));
	assert_int_equal(bytes, 16);
	assert_success(cuMemcpyDtoH(values, variable, 16));
	assert_int_equal(values[3], 4);
	assert_success(cuMemcpyHtoD(variable + 8, &new_value, 4));
	assert_success(cuModuleGetGlobal(&constant, &bytes, fixture_module, "constant_variable"));
	assert_success(cuMemcpyHtoD(constant, &new_constant, 4));
	assert_success(launch_on(NULL, "read_variable", 1, 1, &out));
	assert_success(cuMemcpyDtoH(results, out, 8));
	assert_int_equal(results[0], 30);
	assert_int_equal(results[1], 70);
	assert_success(cuMemFree(out));
}

static void modules_do_not_share_variables(void **state)
{
	CUdeviceptr first, second;
	uint32_t value = 99;
	CUmodule other;
	size_t bytes;

	assert_success(cuModuleLoadData(&other, kernels_ptx));
	assert_success(cuModuleGetGlobal(&first, &bytes, fixture_module, "variable"));
	assert_success(cuModuleGetGlobal(&second, &bytes, other, "variable"));
	assert_int_not_equal(first, second);
	assert_success(cuMemcpyHtoD(first, &value, 4));
	assert_success(cuMemcpyDtoH(&value, second, 4));
	assert_int_equal(value, 1);
	assert_success(cuModuleUnload(other));
}

static void a_module_is_loaded_from_a_file(void **state)
{
	char path[] = "/tmp/gdev-test-XXXXXX";
	int fd = mkstemp(path);
	CUfunction function;
	CUmodule module;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, kernels_ptx, strlen(kernels_ptx)), strlen(kernels_ptx));
	close(fd);
	assert_success(cuModuleLoad(&module, path));
	assert_success(cuModuleGetFunction(&function, module, "add"));
	assert_success(cuModuleUnload(module));
	unlink(path);
}

static void give_kernels_to_any_context(const char *image)
{
	CUdeviceptr memory = words_alloc(256, 1);
	uint32_t n = 256, v = 1;
	void *params[] = {&memory, &n, &v};
	CUlibrary library;
	const char *name;
	CUkernel kernel;
	int threads;

	assert_success(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	assert_success(cuLibraryGetKernel(&kernel, library, "add"));
	assert_result(cuLibraryGetKernel(&kernel, library, "nobody"), CUDA_ERROR_NOT_FOUND);
	assert_success(cuKernelGetName(&name, kernel));
	assert_string_equal(name, "add");
	assert_success(cuKernelGetAttribute(
		&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, fixture_device));
	assert_true(threads >= 256);
	assert_success(
		cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	words_check(memory, n, 2);
	CUcontext other = fixture_context_create();
	CUdeviceptr more = words_alloc(256, 5);
	params[0] = &more;
	assert_success(
		cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	words_check(more, n, 6);
	assert_success(cuCtxDestroy(other));
	assert_success(cuCtxSetCurrent(fixture_context));
	params[0] = &memory;
	assert_success(
		cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	words_check(memory, n, 3);
	assert_success(cuLibraryUnload(library));
	assert_success(cuMemFree(memory));
}

static void libraries_give_kernels_to_any_context(void **state)
{
	give_kernels_to_any_context(kernels_ptx);
}

/* Large images go to the worker as they are kept, once; the next contexts get copies. The program's own may go. */
static void large_libraries_do_too_and_many_are_kept(void **state)
{
	static const size_t padding = 1u << 20;
	size_t length = strlen(kernels_ptx);
	char *image = malloc(length + padding + 1);
	enum { MANY = 40 };
	CUlibrary libraries[MANY];

	memcpy(image, kernels_ptx, length);
	memset(image + length, '\n', padding);
	image[length + padding] = '\0';
	give_kernels_to_any_context(image);
	for (int i = 0; i < MANY; i++)
		assert_success(
			cuLibraryLoadData(&libraries[i], image, NULL, NULL, 0, NULL, NULL, 0));
	memset(image, ' ', length + padding);
	free(image);
	for (int i = 0; i < MANY; i++) {
		CUkernel kernel;
		if (i == 0 || i == MANY - 1)
			assert_success(cuLibraryGetKernel(&kernel, libraries[i], "add"));
		assert_success(cuLibraryUnload(libraries[i]));
	}
}

/* An entry of a fat binary: PTX (1), or machine code (2). Where the next begins. */
static char *add_entry(char *at, uint16_t kind, uint32_t sm, const char *text, size_t bytes)
{
	struct {
		uint16_t kind, version;
		uint32_t header_bytes;
		uint64_t payload_bytes;
		uint32_t packed_bytes, options, toolkit, sm;
		uint64_t rest[4];
	} entry = {kind, 0x101, sizeof entry, bytes, 0, 0, 0, sm, {0}};

	_Static_assert(sizeof entry == 64, "as nvcc makes it");
	memcpy(at, &entry, sizeof entry);
	memcpy(at + sizeof entry, text, bytes);
	return at + sizeof entry + bytes;
}

/* With code for a device that nobody has before, between and behind what is for ours; so much of it that it takes another way
 * to the worker, or little. */
static char *make_fat_binary(size_t padding)
{
	static const char lower[] = ".version 3.0\n.target sm_30\n.address_size 64\n", code[96];
	size_t length = strlen(kernels_ptx);
	char *text = malloc(length + padding), *image = calloc(1, length + padding + 1024), *end;
	uint64_t header[2] = {16ull << 48 | 1ull << 32 | 0xba55ed50};

	memcpy(text, kernels_ptx, length);
	memset(text + length, '\n', padding);
	end = add_entry(image + sizeof header, 2, 20, code, sizeof code);
	end = add_entry(end, 1, 30, lower, sizeof lower);
	end = add_entry(end, 2, 20, code, sizeof code);
	end = add_entry(end, 1, 50, text, length + padding);
	end = add_entry(end, 2, 20, code, sizeof code);
	header[1] = (uint64_t)(end - image) - sizeof header;
	memcpy(image, header, sizeof header);
	free(text);
	return image;
}

/* What is kept of a program's bytes is nothing (it promises to keep them), or all that is for the device. */
static void code_for_other_devices_is_left_out(void **state)
{
	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *yes = (void *)1;

	if (getenv("TEST_VENDOR"))
		skip(); /* it may look at the code */
	for (unsigned i = 0; i < 4; i++) {
		char *image = make_fat_binary(i & 1 ? 8u << 20 : 0);
		CUlibrary library;
		CUfunction function;
		CUkernel kernel;
		CUmodule module;
		assert_success(cuModuleLoadData(&module, image));
		assert_success(cuModuleGetFunction(&function, module, "add"));
		assert_success(cuModuleUnload(module));
		give_kernels_to_any_context(image);
		assert_success(cuLibraryLoadData(
			&library, image, NULL, NULL, 0, &preserved, &yes, i & 2 ? 1 : 0));
		if (!(i & 2))
			memset(image, 0, 1024);
		assert_success(cuLibraryGetKernel(&kernel, library, "add"));
		assert_success(cuLibraryUnload(library));
		free(image);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ptx_that_does_not_assemble_says_why),
		TEST(images_that_are_no_code_are_refused),
		TEST(kernels_launch_kernels),
		TEST(the_heap_of_kernels_is_as_large_as_its_limit),
		TEST(code_that_is_not_linked_is_refused_and_never_silently),
		TEST(calls_that_only_ask_leave_the_default_stream_as_it_is),
		TEST(a_fat_binary_that_was_cut_is_refused),
		TEST(names_that_are_not_there_are_not_found),
		TEST(variables_are_read_and_written),
		TEST(modules_do_not_share_variables),
		TEST(a_module_is_loaded_from_a_file),
		TEST(libraries_give_kernels_to_any_context),
		TEST(large_libraries_do_too_and_many_are_kept),
		TEST(code_for_other_devices_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

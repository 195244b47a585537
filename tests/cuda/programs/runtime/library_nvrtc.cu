/* SPDX-License-Identifier: MIT
 *
 * NVRTC: a kernel compiled for the device's architecture while the program runs, and two parts that the driver links.
 * nvcc -arch=compute_75 -lnvrtc -lcuda
 */
#include <cuda.h>
#include <nvrtc.h>
#include <string>

#include "../program.h"

static std::string compiled(const char *text, bool part)
{
	std::string architecture = "--gpu-architecture=compute_", ptx;
	nvrtcProgram program;
	int major, minor;
	size_t size;

	CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
	architecture += std::to_string(major * 10 + minor);
	const char *options[] = {architecture.c_str(), "--relocatable-device-code=true"};
	CHECK(nvrtcCreateProgram(&program, text, "text.cu", 0, NULL, NULL));
	CHECK(nvrtcCompileProgram(program, part ? 2 : 1, options));
	CHECK(nvrtcGetPTXSize(program, &size));
	ptx.resize(size);
	CHECK(nvrtcGetPTX(program, &ptx[0]));
	CHECK(nvrtcDestroyProgram(&program));
	return ptx;
}

static int check(const void *image)
{
	int host[32], *out;
	CUmodule module;
	CUfunction function;

	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&function, module, "k"));
	CHECK(cudaMalloc(&out, sizeof host));
	void *parameters[] = {&out};
	CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		REQUIRE(host[i] == 3 * i);
	return 0;
}

int main()
{
	CUlinkState link;
	void *image;
	size_t size;

	CHECK(cudaFree(NULL));
	std::string whole = compiled(
		"extern \"C\" __global__ void k(int *o) { o[threadIdx.x] = 3 * threadIdx.x; }",
		false);
	std::string caller = compiled("__device__ int thrice(int x);"
				      "extern \"C\" __global__ void k(int *o)"
				      "{ o[threadIdx.x] = thrice(threadIdx.x); }",
		true);
	std::string callee = compiled("__device__ int thrice(int x) { return 3 * x; }", true);

	if (check(whole.c_str()))
		return 1;
	CHECK(cuLinkCreate(0, NULL, NULL, &link));
	CHECK(cuLinkAddData(
		link, CU_JIT_INPUT_PTX, &caller[0], caller.size(), "caller", 0, NULL, NULL));
	CHECK(cuLinkAddData(
		link, CU_JIT_INPUT_PTX, &callee[0], callee.size(), "callee", 0, NULL, NULL));
	CHECK(cuLinkComplete(link, &image, &size));
	if (check(image))
		return 1;
	CHECK(cuLinkDestroy(link));
	return passed();
}

/* SPDX-License-Identifier: MIT
 *
 * Principal components by hand with cuBLAS, as one writes it for an NVIDIA GPU: products and norms are the library's, and its
 * results stay on the device. The few steps that it does not have are kernels of pca.cu. CUBLAS_LIBRARY says where the library
 * is; without that variable the variant is not there.
 *
 * cuBLAS counts by columns, and the matrix is in rows: what the library sees is the transposed matrix.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <stdlib.h>

#include "ptask/hand.h"
#include "ptask/pca.h"

enum { NOT_TRANSPOSED, TRANSPOSED };
enum { SCALARS_IN_HOST_MEMORY, SCALARS_ON_DEVICE };

static struct {
	void *handle;
	int (*create)(void **handle);
	int (*set_pointer_mode)(void *handle, int mode);
	int (*copy)(void *handle, int n, CUdeviceptr from, int step, CUdeviceptr to, int to_step);
	int (*norm)(void *handle, int n, CUdeviceptr vector, int step, CUdeviceptr norm);
	int (*gemv)(void *handle, int transposed, int rows, int columns, const float *alpha,
		CUdeviceptr matrix, int stride, CUdeviceptr vector, int step, const float *beta,
		CUdeviceptr out, int out_step);
} cublas;
static CUfunction divide, scale, deflate;
static CUdeviceptr matrix, units, columns, scores, norm, along;
static size_t vector_bytes;

static void must(int status, const char *what)
{
	require(!status, what, "the library or the driver has failed");
}

static void *find(void *library, const char *name)
{
	void *function = dlsym(library, name);

	require(function, "use cuBLAS", name);
	return function;
}

static void load(void)
{
	const char *path = getenv("CUBLAS_LIBRARY");
	void *library = path ? dlopen(path, RTLD_NOW) : NULL;

	require(path, "use cuBLAS", "CUBLAS_LIBRARY does not say where it is");
	require(library, "use cuBLAS", path);
	*(void **)&cublas.create = find(library, "cublasCreate_v2");
	*(void **)&cublas.set_pointer_mode = find(library, "cublasSetPointerMode_v2");
	*(void **)&cublas.copy = find(library, "cublasScopy_v2");
	*(void **)&cublas.norm = find(library, "cublasSnrm2_v2");
	*(void **)&cublas.gemv = find(library, "cublasSgemv_v2");
	must(cublas.create(&cublas.handle), "start cuBLAS");
}

static void setup(struct work *work)
{
	CUmodule module = hand_open();

	vector_bytes = pca.n * sizeof(float);
	load();
	must(cuModuleGetFunction(&divide, module, "divide"), "find a kernel");
	must(cuModuleGetFunction(&scale, module, "scale"), "find a kernel");
	must(cuModuleGetFunction(&deflate, module, "deflate"), "find a kernel");
	must(cuMemAlloc(&matrix, work->bytes[pca.source]), "allocate");
	must(cuMemAlloc(&units, PCA_COMPONENTS * vector_bytes), "allocate");
	must(cuMemAlloc(&columns, PCA_COMPONENTS * vector_bytes), "allocate");
	must(cuMemAlloc(&scores, PCA_COMPONENTS * vector_bytes), "allocate");
	must(cuMemAlloc(&norm, sizeof(float)), "allocate");
	must(cuMemAlloc(&along, PCA_COMPONENTS * sizeof(float)), "allocate");
}

static void launch(CUfunction kernel, unsigned rows, void **parameters)
{
	unsigned blocks = (pca.n + PCA_THREADS - 1) / PCA_THREADS;

	must(cuLaunchKernel(kernel, blocks, rows, 1, PCA_THREADS, 1, 1, 0, NULL, parameters, NULL),
		"launch");
}

/* out = alpha * matrix * vector + beta * out */
static void multiply(int transposed, int width, float alpha, CUdeviceptr from, CUdeviceptr vector,
	float beta, CUdeviceptr out)
{
	int n = (int)pca.n;

	must(cublas.gemv(cublas.handle, transposed, n, width, &alpha, from, n, vector, 1, &beta,
		     out, 1),
		"multiply");
}

/* What is along the `earlier` vectors is taken out, and the norm of what is left becomes 1. */
static void make_unit(CUdeviceptr vector, CUdeviceptr earlier, int count)
{
	if (count) {
		multiply(TRANSPOSED, count, 1, earlier, vector, 0, along);
		multiply(NOT_TRANSPOSED, count, -1, earlier, along, 1, vector);
	}
	must(cublas.set_pointer_mode(cublas.handle, SCALARS_ON_DEVICE), "choose where scalars are");
	must(cublas.norm(cublas.handle, (int)pca.n, vector, 1, norm), "compute a norm");
	must(cublas.set_pointer_mode(cublas.handle, SCALARS_IN_HOST_MEMORY),
		"choose where scalars are");
	launch(divide, 1, (void *[]){&vector, &norm, &pca.n});
}

static void find_component(unsigned k)
{
	CUdeviceptr unit = units + k * vector_bytes, column = columns + k * vector_bytes;
	CUdeviceptr score = scores + k * vector_bytes;
	int n = (int)pca.n;

	must(cublas.copy(cublas.handle, n, matrix + k * sizeof(float), n, unit, 1), "copy");
	for (unsigned i = 0; i < pca.iterations; i++) {
		multiply(NOT_TRANSPOSED, n, 1, matrix, unit, 0, column);
		make_unit(column, columns, (int)k);
		multiply(TRANSPOSED, n, 1, matrix, column, 0, unit);
		make_unit(unit, units, (int)k);
	}
	launch(deflate, pca.n, (void *[]){&matrix, &unit, &column, &norm, &pca.n});
	launch(scale, 1, (void *[]){&score, &unit, &norm, &pca.n});
}

static void do_round(struct work *work)
{
	must(cuMemcpyHtoD(matrix, work->host[pca.source], work->bytes[pca.source]), "copy");
	for (unsigned k = 0; k < PCA_COMPONENTS; k++)
		find_component(k);
	for (unsigned k = 0; k < PCA_COMPONENTS; k++) {
		must(cuMemcpyDtoH(
			     work->host[pca.scores[k]], scores + k * vector_bytes, vector_bytes),
			"copy");
		must(cuMemcpyDtoH(
			     work->host[pca.loadings[k]], columns + k * vector_bytes, vector_bytes),
			"copy");
	}
	must(cuMemcpyDtoH(work->host[pca.rest], matrix, work->bytes[pca.rest]), "copy");
}

static bool is_there(void)
{
	return getenv("CUBLAS_LIBRARY");
}

const struct variant variant_cublas = {"cublas", setup, do_round, is_there};

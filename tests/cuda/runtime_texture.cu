/* SPDX-License-Identifier: MIT
 *
 * Textures and surfaces of the runtime API: arrays of every kind, memory in rows and without, every mode of addresses and
 * of filtering, levels, layers, cubes, gathers, stores. What a kernel reads is compared with what the host computes by the
 * formulas of CUDA's programming guide. Prints the first thing that is wrong and fails.
 */
#include <cmath>
#include <vector>

#include "runtime.h"

/* Filtered values between 0 and 1. In each dimension that is filtered, the weight is rounded to 8 bits. */
static bool near(float a, float b, int dimensions)
{
	return std::fabs(a - b) <= dimensions / 512.0f + 1e-6f;
}

template <class T> static T *on_device(const std::vector<T> &host)
{
	T *memory;

	CHECK(cudaMalloc(&memory, host.size() * sizeof(T)));
	CHECK(cudaMemcpy(memory, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
	return memory;
}

template <class T> static std::vector<T> on_host(const T *memory, size_t count)
{
	std::vector<T> host(count);

	CHECK(cudaMemcpy(host.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
	return host;
}

static cudaTextureObject_t texture_of(const cudaResourceDesc &resource, cudaTextureAddressMode mode,
	cudaTextureFilterMode filter, bool normalised,
	cudaTextureReadMode read = cudaReadModeElementType)
{
	cudaTextureDesc sampling = {};
	cudaTextureObject_t texture;

	for (int d = 0; d < 3; d++)
		sampling.addressMode[d] = mode;
	sampling.filterMode = filter;
	sampling.readMode = read;
	sampling.normalizedCoords = normalised;
	sampling.borderColor[0] = 0.25f;
	CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
	return texture;
}

static cudaResourceDesc of_array(cudaArray_t array)
{
	cudaResourceDesc resource = {};

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	return resource;
}

/* ---- memory without rows ---- */

__global__ void fetch_words(cudaTextureObject_t texture, int *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = tex1Dfetch<int>(texture, i - 3);
}

static void linear_memory()
{
	std::vector<int> in(1000);
	cudaResourceDesc resource = {};

	for (int i = 0; i < 1000; i++)
		in[i] = i * i + 1;
	int *memory = on_device(in), *out;
	CHECK(cudaMalloc(&out, 1010 * sizeof *out));
	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = memory;
	resource.res.linear.desc = cudaCreateChannelDesc<int>();
	resource.res.linear.sizeInBytes = 1000 * sizeof(int);
	cudaTextureObject_t texture =
		texture_of(resource, cudaAddressModeClamp, cudaFilterModePoint, false);
	fetch_words<<<8, 128>>>(texture, out, 1010);
	CHECK(cudaDeviceSynchronize());
	std::vector<int> got = on_host(out, 1010);
	for (int i = 0; i < 1010; i++)
		REQUIRE(got[i] == (i < 3 || i >= 1003 ? 0 : in[i - 3]));
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFree(memory));
	CHECK(cudaFree(out));
}

/* ---- two dimensions ---- */

enum { WIDTH = 13, HEIGHT = 7 };

static float value(int x, int y)
{
	return (float)((x * 5 + y * 11) % 17) / 17;
}

__global__ void sample_plane(
	cudaTextureObject_t texture, float *out, float x0, float y0, float step, int n)
{
	int x = threadIdx.x, y = threadIdx.y;

	out[y * n + x] = tex2D<float>(texture, x0 + step * x, y0 + step * y);
}

static int wrapped(int i, int n, cudaTextureAddressMode mode)
{
	if (mode == cudaAddressModeClamp)
		return i < 0 ? 0 : i >= n ? n - 1 : i;
	if (mode == cudaAddressModeBorder)
		return i < 0 || i >= n ? -1 : i;
	if (mode == cudaAddressModeWrap)
		return (i % n + n) % n;
	i = (i % (2 * n) + 2 * n) % (2 * n);
	return i < n ? i : 2 * n - 1 - i;
}

static float element(int x, int y, cudaTextureAddressMode mode)
{
	x = wrapped(x, WIDTH, mode);
	y = wrapped(y, HEIGHT, mode);
	return x < 0 || y < 0 ? 0.25f : value(x, y);
}

static float expected(float x, float y, cudaTextureAddressMode mode, bool linear, bool normalised)
{
	if (normalised) {
		x *= WIDTH;
		y *= HEIGHT;
	}
	if (!linear)
		return element((int)floorf(x), (int)floorf(y), mode);
	float xb = x - 0.5f, yb = y - 0.5f;
	int i = (int)floorf(xb), j = (int)floorf(yb);
	float a = xb - i, b = yb - j;
	return (1 - a) * (1 - b) * element(i, j, mode) + a * (1 - b) * element(i + 1, j, mode) +
	       (1 - a) * b * element(i, j + 1, mode) + a * b * element(i + 1, j + 1, mode);
}

static void compare_plane(
	cudaTextureObject_t texture, cudaTextureAddressMode mode, bool linear, bool normalised)
{
	const int n = 30;
	float *out, x0 = -5.3f, y0 = -4.55f, step = 0.731f;

	if (normalised) {
		x0 = -1.23f;
		y0 = -1.117f;
		step = 0.1237f;
	}
	CHECK(cudaMalloc(&out, n * n * sizeof *out));
	sample_plane<<<1, dim3(n, n)>>>(texture, out, x0, y0, step, n);
	CHECK(cudaDeviceSynchronize());
	std::vector<float> got = on_host(out, n * n);
	for (int y = 0; y < n; y++)
		for (int x = 0; x < n; x++) {
			float want =
				expected(x0 + step * x, y0 + step * y, mode, linear, normalised);

			if (!near(got[y * n + x], want, 2)) {
				printf("mode %d, linear %d, normalised %d: (%d, %d) is %f, not %f\n",
					(int)mode, linear, normalised, x, y, got[y * n + x], want);
				exit(1);
			}
		}
	CHECK(cudaFree(out));
}

static void planes()
{
	static const struct {
		cudaTextureAddressMode mode;
		bool normalised;
	} modes[] = {{cudaAddressModeClamp, false}, {cudaAddressModeBorder, false},
		{cudaAddressModeClamp, true}, {cudaAddressModeBorder, true},
		{cudaAddressModeWrap, true}, {cudaAddressModeMirror, true}};
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	std::vector<float> image(WIDTH * HEIGHT);
	cudaResourceDesc rows = {};
	cudaArray_t array;
	float *memory;
	size_t pitch;

	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			image[y * WIDTH + x] = value(x, y);
	CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT));
	CHECK(cudaMemcpy2DToArray(
		array, 0, 0, image.data(), WIDTH * 4, WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice));
	CHECK(cudaMallocPitch(&memory, &pitch, WIDTH * 4, HEIGHT));
	CHECK(cudaMemcpy2D(
		memory, pitch, image.data(), WIDTH * 4, WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice));
	rows.resType = cudaResourceTypePitch2D;
	rows.res.pitch2D.devPtr = memory;
	rows.res.pitch2D.desc = format;
	rows.res.pitch2D.width = WIDTH;
	rows.res.pitch2D.height = HEIGHT;
	rows.res.pitch2D.pitchInBytes = pitch;
	for (auto &m : modes)
		for (int linear = 0; linear < 2; linear++) {
			cudaTextureFilterMode filter =
				linear ? cudaFilterModeLinear : cudaFilterModePoint;
			cudaTextureObject_t one =
				texture_of(of_array(array), m.mode, filter, m.normalised);
			cudaTextureObject_t other = texture_of(rows, m.mode, filter, m.normalised);

			compare_plane(one, m.mode, linear, m.normalised);
			compare_plane(other, m.mode, linear, m.normalised);
			CHECK(cudaDestroyTextureObject(one));
			CHECK(cudaDestroyTextureObject(other));
		}
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(memory));
}

/* ---- bytes as fractions, vectors of channels ---- */

__global__ void read_bytes(
	cudaTextureObject_t fractions, cudaTextureObject_t integers, float4 *f, uchar4 *u)
{
	int i = threadIdx.x;

	f[i] = tex1D<float4>(fractions, i + 0.5f);
	u[i] = tex1D<uchar4>(integers, i + 0.5f);
}

static void channels()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
	std::vector<uchar4> in(64);
	cudaArray_t array;
	float4 *f;
	uchar4 *u;

	for (int i = 0; i < 64; i++)
		in[i] = make_uchar4(i * 4, 255 - i, i, i * 3);
	CHECK(cudaMallocArray(&array, &format, 64));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, in.data(), 256, 256, 1, cudaMemcpyHostToDevice));
	CHECK(cudaMalloc(&f, 64 * sizeof *f));
	CHECK(cudaMalloc(&u, 64 * sizeof *u));
	cudaTextureObject_t fractions = texture_of(of_array(array), cudaAddressModeClamp,
				    cudaFilterModePoint, false, cudaReadModeNormalizedFloat),
			    integers = texture_of(of_array(array), cudaAddressModeClamp,
				    cudaFilterModePoint, false);
	read_bytes<<<1, 64>>>(fractions, integers, f, u);
	CHECK(cudaDeviceSynchronize());
	std::vector<float4> floats = on_host(f, 64);
	std::vector<uchar4> bytes = on_host(u, 64);
	for (int i = 0; i < 64; i++) {
		REQUIRE(bytes[i].x == in[i].x && bytes[i].y == in[i].y);
		REQUIRE(bytes[i].z == in[i].z && bytes[i].w == in[i].w);
		REQUIRE(std::fabs(floats[i].x - in[i].x / 255.0f) < 1e-6f);
		REQUIRE(std::fabs(floats[i].w - in[i].w / 255.0f) < 1e-6f);
	}
	CHECK(cudaDestroyTextureObject(fractions));
	CHECK(cudaDestroyTextureObject(integers));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(f));
	CHECK(cudaFree(u));
}

/* ---- layers, volumes, cubes ---- */

__global__ void read_layers(cudaTextureObject_t texture, float *out)
{
	int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;

	out[(layer * 4 + y) * 8 + x] = tex2DLayered<float>(texture, x + 0.5f, y + 0.5f, layer);
}

__global__ void read_volume(cudaTextureObject_t texture, float *out)
{
	int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;

	out[(z * 4 + y) * 8 + x] = tex3D<float>(texture, x + 0.5f, y + 0.5f, z + 0.5f);
	if (x == 0 && y == 0 && z == 0)
		out[96] = tex3D<float>(texture, 3, 2, 1); /* between eight elements */
}

static void volumes(bool layered)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	std::vector<float> in(8 * 4 * 3);
	cudaMemcpy3DParms copy = {};
	cudaArray_t array;
	float *out;

	for (size_t i = 0; i < in.size(); i++)
		in[i] = (float)((i * 7) % 23) / 23;
	CHECK(cudaMalloc3DArray(
		&array, &format, make_cudaExtent(8, 4, 3), layered ? cudaArrayLayered : 0));
	copy.srcPtr = make_cudaPitchedPtr(in.data(), 8 * 4, 8, 4);
	copy.dstArray = array;
	copy.extent = make_cudaExtent(8, 4, 3);
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));
	CHECK(cudaMalloc(&out, 97 * sizeof *out));
	cudaTextureObject_t texture =
		texture_of(of_array(array), cudaAddressModeClamp, cudaFilterModeLinear, false);
	if (layered)
		read_layers<<<3, dim3(8, 4)>>>(texture, out);
	else
		read_volume<<<3, dim3(8, 4)>>>(texture, out);
	CHECK(cudaDeviceSynchronize());
	std::vector<float> got = on_host(out, 97);
	for (size_t i = 0; i < in.size(); i++)
		REQUIRE(got[i] == in[i]);
	if (!layered) {
		float sum = 0;

		for (int corner = 0; corner < 8; corner++)
			sum += in[((corner >> 2) * 4 + 1 + (corner >> 1 & 1)) * 8 + 2 +
				       (corner & 1)] /
			       8;
		REQUIRE(near(got[96], sum, 3));
	}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(out));
}

__global__ void read_cube(cudaTextureObject_t texture, const float3 *directions, float *out)
{
	float3 d = directions[threadIdx.x];

	out[threadIdx.x] = texCubemap<float>(texture, d.x, d.y, d.z);
}

static void cubes()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	std::vector<float3> directions;
	std::vector<float> in(6 * 4 * 4);
	cudaMemcpy3DParms copy = {};
	cudaArray_t array;
	float *out;

	for (size_t i = 0; i < in.size(); i++)
		in[i] = (float)i;
	CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(4, 4, 6), cudaArrayCubemap));
	copy.srcPtr = make_cudaPitchedPtr(in.data(), 16, 4, 4);
	copy.dstArray = array;
	copy.extent = make_cudaExtent(4, 4, 6);
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));
	for (int face = 0; face < 6; face++)
		for (int t = 0; t < 4; t++)
			for (int s = 0; s < 4; s++) {
				float a = (s + 0.5f) / 2 - 1, b = (t + 0.5f) / 2 - 1;
				const float3 to[6] = {{1, -b, -a}, {-1, -b, a}, {a, 1, b},
					{a, -1, -b}, {a, -b, 1}, {-a, -b, -1}};

				directions.push_back(to[face]);
			}
	float3 *device = on_device(directions);
	CHECK(cudaMalloc(&out, in.size() * sizeof *out));
	cudaTextureObject_t texture =
		texture_of(of_array(array), cudaAddressModeClamp, cudaFilterModePoint, true);
	read_cube<<<1, 96>>>(texture, device, out);
	CHECK(cudaDeviceSynchronize());
	REQUIRE(on_host(out, in.size()) == in);
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(device));
	CHECK(cudaFree(out));
}

/* ---- levels ---- */

__global__ void read_levels(cudaTextureObject_t texture, float *out)
{
	int i = threadIdx.x;

	out[i] = tex2DLod<float>(texture, 0.5f, 0.5f, i / 4.0f);
	out[32 + i] = tex2DGrad<float>(
		texture, 0.5f, 0.5f, make_float2((1 << i % 5) / 16.0f, 0), make_float2(0, 0));
}

static void levels(bool linear)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaTextureDesc sampling = {};
	cudaResourceDesc resource = {};
	cudaTextureObject_t texture;
	cudaMipmappedArray_t array;
	float *out;

	CHECK(cudaMallocMipmappedArray(&array, &format, make_cudaExtent(16, 16, 0), 5));
	for (unsigned l = 0; l < 5; l++) {
		size_t size = 16u >> l;
		std::vector<float> image(size * size, (float)l / 4);
		cudaArray_t level;

		CHECK(cudaGetMipmappedArrayLevel(&level, array, l));
		CHECK(cudaMemcpy2DToArray(level, 0, 0, image.data(), size * 4, size * 4, size,
			cudaMemcpyHostToDevice));
	}
	resource.resType = cudaResourceTypeMipmappedArray;
	resource.res.mipmap.mipmap = array;
	sampling.normalizedCoords = 1;
	sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
	sampling.filterMode = cudaFilterModeLinear;
	sampling.mipmapFilterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
	sampling.maxMipmapLevelClamp = 3.5f;
	CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
	CHECK(cudaMalloc(&out, 64 * sizeof *out));
	read_levels<<<1, 32>>>(texture, out);
	CHECK(cudaDeviceSynchronize());
	std::vector<float> got = on_host(out, 64);
	for (int i = 0; i < 32; i++) {
		float lod = fminf(i / 4.0f, 3.5f), gradient = fminf((float)(i % 5), 3.5f);

		if (!linear && lod - floorf(lod) == 0.5f)
			continue; /* which one is nearest is open */
		REQUIRE(near(got[i], (linear ? lod : floorf(lod + 0.5f)) / 4, 1));
		if (linear || gradient != 3.5f)
			REQUIRE(near(got[32 + i], gradient / 4, 1));
	}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeMipmappedArray(array));
	CHECK(cudaFree(out));
}

/* ---- gathers ---- */

__global__ void gather(cudaTextureObject_t texture, float4 *out)
{
	out[threadIdx.x] = tex2Dgather<float4>(texture, 3 + threadIdx.x, 2, threadIdx.x % 2);
}

static void gathers()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>();
	std::vector<float2> in(8 * 8);
	cudaArray_t array;
	float4 *out;

	for (int i = 0; i < 64; i++)
		in[i] = make_float2((float)i, (float)-i);
	CHECK(cudaMallocArray(&array, &format, 8, 8, cudaArrayTextureGather));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, in.data(), 64, 64, 8, cudaMemcpyHostToDevice));
	CHECK(cudaMalloc(&out, 4 * sizeof *out));
	cudaTextureObject_t texture =
		texture_of(of_array(array), cudaAddressModeClamp, cudaFilterModePoint, false);
	gather<<<1, 4>>>(texture, out);
	CHECK(cudaDeviceSynchronize());
	std::vector<float4> got = on_host(out, 4);
	for (int i = 0; i < 4; i++) {
		float sign = i % 2 ? -1.0f : 1.0f;
		int corner = 8 * 1 + 2 + i;

		REQUIRE(got[i].x == sign * (corner + 8) && got[i].y == sign * (corner + 9));
		REQUIRE(got[i].z == sign * (corner + 1) && got[i].w == sign * corner);
	}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(out));
}

/* ---- surfaces ---- */

__global__ void turn(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
	uchar4 c;

	if (x < width && y < height) {
		surf2Dread(&c, from, x * 4, y);
		surf2DLayeredwrite(c, to, (width - 1 - x) * 4, height - 1 - y, 1);
	}
}

__global__ void outside(cudaSurfaceObject_t surface, unsigned *out)
{
	out[0] = surf2Dread<unsigned>(surface, -4, 0, cudaBoundaryModeZero);
	out[1] = surf2Dread<unsigned>(surface, -4, 0, cudaBoundaryModeClamp);
	out[2] = surf2Dread<unsigned>(surface, 4000, 100, cudaBoundaryModeClamp);
	surf2Dwrite(7u, surface, 4000, 0, cudaBoundaryModeZero);
	surf2Dwrite(9u, surface, -400, 0, cudaBoundaryModeClamp);
}

static void surfaces()
{
	const int width = 37, height = 21;
	cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
	std::vector<uchar4> in(width * height), back(width * height);
	cudaSurfaceObject_t from, to;
	cudaMemcpy3DParms copy = {};
	cudaArray_t one, layers;
	cudaResourceDesc resource;
	unsigned *out;

	for (int i = 0; i < width * height; i++)
		in[i] = make_uchar4(i, i >> 8, 255 - i % 256, 1 + i % 3);
	CHECK(cudaMallocArray(&one, &format, width, height, cudaArraySurfaceLoadStore));
	CHECK(cudaMalloc3DArray(&layers, &format, make_cudaExtent(width, height, 2),
		cudaArraySurfaceLoadStore | cudaArrayLayered));
	CHECK(cudaMemcpy2DToArray(
		one, 0, 0, in.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
	resource = of_array(one);
	CHECK(cudaCreateSurfaceObject(&from, &resource));
	resource = of_array(layers);
	CHECK(cudaCreateSurfaceObject(&to, &resource));
	turn<<<dim3(3, 3), dim3(16, 8)>>>(from, to, width, height);
	copy.srcArray = layers;
	copy.srcPos = make_cudaPos(0, 0, 1);
	copy.dstPtr = make_cudaPitchedPtr(back.data(), width * 4, width, height);
	copy.extent = make_cudaExtent(width, height, 1);
	copy.kind = cudaMemcpyDeviceToHost;
	CHECK(cudaMemcpy3D(&copy));
	for (int i = 0; i < width * height; i++) {
		uchar4 a = in[i], b = back[width * height - 1 - i];

		REQUIRE(a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w);
	}
	CHECK(cudaMalloc(&out, 3 * sizeof *out));
	outside<<<1, 1>>>(from, out);
	std::vector<unsigned> got = on_host(out, 3);
	REQUIRE(got[0] == 0);
	REQUIRE(got[1] == *(unsigned *)&in[0]);
	REQUIRE(got[2] == *(unsigned *)&in[width * height - 1]);
	CHECK(cudaMemcpy2DFromArray(
		back.data(), width * 4, one, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
	REQUIRE(*(unsigned *)&back[0] == 9 && back[width - 1].x == in[width - 1].x);
	CHECK(cudaDestroySurfaceObject(from));
	CHECK(cudaDestroySurfaceObject(to));
	CHECK(cudaFreeArray(one));
	CHECK(cudaFreeArray(layers));
	CHECK(cudaFree(out));
}

int main(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaArray_t array;

	if (cudaMallocArray(&array, &format, 4) == cudaErrorNotSupported) {
		printf("skipped: no arrays on this device\n");
		return 77;
	}
	CHECK(cudaFreeArray(array));
	linear_memory();
	planes();
	channels();
	volumes(false);
	volumes(true);
	cubes();
	levels(false);
	levels(true);
	gathers();
	surfaces();
	printf("textures and surfaces are read and written as CUDA says\n");
	return 0;
}

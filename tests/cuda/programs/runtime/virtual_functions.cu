/* SPDX-License-Identifier: MIT
 *
 * Objects with virtual functions, made on the device by one kernel and used by another.
 */
#include "../program.h"

struct shape {
	__device__ virtual float area() const = 0;
	__device__ virtual ~shape()
	{
	}
};

struct square : shape {
	float side;
	__device__ square(float s) : side(s)
	{
	}
	__device__ float area() const override
	{
		return side * side;
	}
};

struct triangle : shape {
	float base, height;
	__device__ triangle(float b, float h) : base(b), height(h)
	{
	}
	__device__ float area() const override
	{
		return base * height / 2;
	}
};

__global__ void make(shape **shapes)
{
	int i = threadIdx.x;

	if (i % 2)
		shapes[i] = new square(i);
	else
		shapes[i] = new triangle(i, 4);
}

__global__ void measure(shape **shapes, float *areas)
{
	areas[threadIdx.x] = shapes[threadIdx.x]->area();
	delete shapes[threadIdx.x];
}

int main()
{
	shape **shapes;
	float *areas, host[16];

	CHECK(cudaMalloc(&shapes, 16 * sizeof *shapes));
	CHECK(cudaMalloc(&areas, sizeof host));
	make<<<1, 16>>>(shapes);
	measure<<<1, 16>>>(shapes, areas);
	CHECK(cudaMemcpy(host, areas, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 16; i++)
		REQUIRE(host[i] == (i % 2 ? i * i : i * 2));
	return passed();
}

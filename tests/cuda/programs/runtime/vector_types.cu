/* SPDX-License-Identifier: MIT
 *
 * Built-in vectors and structures as parameters, in memory and by read-only loads.
 */
#include "../program.h"

struct particle {
	float4 place;
	double3 speed;
	short2 id;
	char name[3];
};

__global__ void move(
	struct particle *particles, const struct particle step, const float2 *__restrict__ wind)
{
	struct particle p = particles[threadIdx.x];
	float2 w = __ldg(wind + threadIdx.x);

	p.place.x += step.place.x + w.x;
	p.place.w = w.y;
	p.speed.z -= step.speed.y;
	p.id.y += step.id.x;
	p.name[2] = step.name[1];
	particles[threadIdx.x] = p;
}

int main()
{
	static struct particle host[40], *device, step = {};
	float2 wind[40], *device_wind;

	step.place.x = 2;
	step.speed.y = 0.5;
	step.id.x = 7;
	step.name[1] = 'q';
	for (int i = 0; i < 40; i++) {
		host[i].place = make_float4(i, 1, 2, 3);
		host[i].speed.z = i;
		host[i].id = make_short2(-i, i);
		wind[i] = make_float2(i * 0.5f, -i);
	}
	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMalloc(&device_wind, sizeof wind));
	CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(device_wind, wind, sizeof wind, cudaMemcpyHostToDevice));
	move<<<1, 40>>>(device, step, device_wind);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 40; i++) {
		REQUIRE(host[i].place.x == i * 1.5f + 2 && host[i].place.y == 1 &&
			host[i].place.w == -i);
		REQUIRE(host[i].speed.z == i - 0.5 && host[i].id.x == -i && host[i].id.y == i + 7);
		REQUIRE(host[i].name[2] == 'q');
	}
	return passed();
}

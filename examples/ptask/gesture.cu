/* SPDX-License-Identifier: MIT
 *
 * Steps of the gestural interface; gesture_host.c has the same for the CPU.
 */
#include "common/device.h"

#define RADIUS 2
#define SPACE (-0.125f)   /* -1 / (2 sigma^2), pixels */
#define DEPTH (-0.00125f) /* millimetres */

/* A depth becomes a point: as the camera sees it, and then where the screen is. `pose` has three rows of four. */
extern "C" __global__ void xform(
	float4 *cloud, const unsigned short *image, const float *pose, int width, int height)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;

	if (column >= width || row >= height)
		return;
	float z = image[row * width + column];
	float x = z * (column - width / 2) / width, y = z * (row - height / 2) / width;
	float4 point;
	point.x = pose[0] * x + pose[1] * y + pose[2] * z + pose[3];
	point.y = pose[4] * x + pose[5] * y + pose[6] * z + pose[7];
	point.z = pose[8] * x + pose[9] * y + pose[10] * z + pose[11];
	point.w = z > 0;
	cloud[row * width + column] = point;
}

/* The bilateral filter: the depth is the mean of those around, weighted by how near and how alike they are. */
static __device__ __forceinline__ float4 smooth(
	const float4 *cloud, int column, int row, int width, int height)
{
	float4 centre = cloud[row * width + column];
	float sum = 0, weights = 0;

	for (int dy = -RADIUS; dy <= RADIUS; dy++)
		for (int dx = -RADIUS; dx <= RADIUS; dx++) {
			int x = column + dx, y = row + dy;
			if (x < 0 || x >= width || y < 0 || y >= height)
				continue;
			float z = cloud[y * width + x].z, difference = z - centre.z;
			float weight = __expf(
				SPACE * (dx * dx + dy * dy) + DEPTH * difference * difference);
			sum += weight * z;
			weights += weight;
		}
	centre.z = sum / weights;
	return centre;
}

/* Of both cameras' points, the nearer one. */
extern "C" __global__ void filter(
	float4 *out, const float4 *left, const float4 *right, int width, int height)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;

	if (column >= width || row >= height)
		return;
	float4 a = smooth(left, column, row, width, height);
	float4 b = smooth(right, column, row, width, height);
	out[row * width + column] = a.z <= b.z ? a : b;
}

/* SPDX-License-Identifier: MIT
 *
 * The steps of the gestural interface on the CPU, with all its processors, and the form that has no others: "host-based" of
 * Table 2. What each does, gesture.cu says.
 */
#include <math.h>
#include <stdlib.h>

#include "ptask/gesture.h"

#define RADIUS 2 /* as in gesture.cu */
#define SPACE (-0.125f)
#define DEPTH (-0.00125f)
#define NEAR 60 /* millimetres of depth that a hand has */

static float row_times(const float row[4], float x, float y, float z)
{
	return row[0] * x + row[1] * y + row[2] * z + row[3];
}

static void xform(struct point *cloud, const uint16_t *image, const struct pose *pose)
{
#pragma omp parallel for
	for (int i = 0; i < width * height; i++) {
		float z = image[i];
		float x = z * (float)(i % width - width / 2) / (float)width;
		float y = z * (float)(i / width - height / 2) / (float)width;
		cloud[i] = (struct point){row_times(pose->rows[0], x, y, z),
			row_times(pose->rows[1], x, y, z), row_times(pose->rows[2], x, y, z),
			z > 0};
	}
}

static struct point smooth(const struct point *cloud, int column, int row)
{
	struct point centre = cloud[row * width + column];
	float sum = 0, weights = 0;

	for (int dy = -RADIUS; dy <= RADIUS; dy++)
		for (int dx = -RADIUS; dx <= RADIUS; dx++) {
			int x = column + dx, y = row + dy;
			if (x < 0 || x >= width || y < 0 || y >= height)
				continue;
			float z = cloud[y * width + x].z, difference = z - centre.z;
			float weight = expf(SPACE * (float)(dx * dx + dy * dy) +
					    DEPTH * difference * difference);
			sum += weight * z;
			weights += weight;
		}
	centre.z = sum / weights;
	return centre;
}

static void filter(struct point *out, const struct point *left, const struct point *right)
{
#pragma omp parallel for
	for (int i = 0; i < width * height; i++) {
		struct point a = smooth(left, i % width, i / width);
		struct point b = smooth(right, i % width, i / width);
		out[i] = a.z <= b.z ? a : b;
	}
}

/* The hand is what is nearest. */
void hidinput(const struct point *cloud, struct event *event)
{
	float nearest = INFINITY;
	double x = 0, y = 0, z = 0;
	unsigned seen = 0;

	for (int i = 0; i < width * height; i++)
		if (cloud[i].w > 0 && cloud[i].z < nearest)
			nearest = cloud[i].z;
	for (int i = 0; i < width * height; i++)
		if (cloud[i].w > 0 && cloud[i].z < nearest + NEAR) {
			x += cloud[i].x;
			y += cloud[i].y;
			z += cloud[i].z;
			seen++;
		}
	*event = (struct event){.x = (float)(x / seen),
		.y = (float)(y / seen),
		.z = (float)(z / seen),
		.seen = seen};
}

void run_host(void)
{
	struct point *clouds[CAMERAS], *out = frame_alloc(cloud_bytes());
	struct event event;

	for (unsigned i = 0; i < CAMERAS; i++)
		clouds[i] = frame_alloc(cloud_bytes());
	for (unsigned frame = 0; frame < frame_count; frame++) {
		for (unsigned i = 0; i < CAMERAS; i++)
			xform(clouds[i], camera_image(i, frame), &poses[i]);
		filter(out, clouds[0], clouds[1]);
		hidinput(out, &event);
		deliver(frame, &event);
	}
	for (unsigned i = 0; i < CAMERAS; i++)
		free(clouds[i]);
	free(out);
}

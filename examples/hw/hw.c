/* SPDX-License-Identifier: MIT
 *
 * HW: follows 48 points on the wall of a beating heart through a film (template tracking). The film is
 * made up: a ring of textured patches that widens and narrows, over noise. One copy and one kernel a
 * frame.
 */
#include "common/harness.h"

#include <math.h>
#include <string.h>

#define SIDE_PIXELS 640 /* of a frame */
#define POINTS 48
#define RADIUS 12
#define SIDE (2 * RADIUS + 1)
#define REACH 7
#define PLACES (2 * REACH + 1)
#define THREADS 256
#define BEAT 24 /* frames */

static const size_t frame_bytes = SIDE_PIXELS * SIDE_PIXELS * sizeof(float);
static float *patches, *templates, *frame;
static int start[POINTS * 2], *tracked; /* tracked: of every frame */
static CUdeviceptr device_position, device_templates, device_frame;

static void true_position(unsigned frame_number, unsigned point, int *at)
{
	double radius = 230 - 25 * (1 - cos(2 * M_PI * frame_number / BEAT));
	double angle = 2 * M_PI * point / POINTS;

	at[0] = (int)lround(SIDE_PIXELS / 2 + radius * cos(angle));
	at[1] = (int)lround(SIDE_PIXELS / 2 + radius * sin(angle));
}

/* The noise is a function of place and frame, so that the CPU check sees the same film. */
static void draw(unsigned number)
{
	for (unsigned i = 0; i < SIDE_PIXELS * SIDE_PIXELS; i++) {
		uint32_t noise = (i + number * 2654435761u + options.seed) * 2246822519u;

		noise = (noise ^ (noise >> 15)) * 3266489917u;
		frame[i] = 0.3f * (float)(noise >> 8) * 0x1p-24f;
	}
	for (unsigned point = 0; point < POINTS; point++) {
		int at[2];

		true_position(number, point, at);
		for (int y = 0; y < SIDE; y++)
			for (int x = 0; x < SIDE; x++)
				frame[(at[1] + y - RADIUS) * SIDE_PIXELS + at[0] + x - RADIUS] +=
					patches[(point * SIDE + (unsigned)y) * SIDE + (unsigned)x];
	}
}

/* Cuts the templates out of the first frame and takes their mean away. */
static void cut_templates(void)
{
	draw(0);
	for (unsigned point = 0; point < POINTS; point++) {
		float *t = templates + point * SIDE * SIDE, mean = 0;
		int *at = start + 2 * point;

		true_position(0, point, at);
		for (int i = 0; i < SIDE * SIDE; i++) {
			t[i] = frame[(at[1] + i / SIDE - RADIUS) * SIDE_PIXELS + at[0] + i % SIDE -
				     RADIUS];
			mean += t[i] / (SIDE * SIDE);
		}
		for (int i = 0; i < SIDE * SIDE; i++)
			t[i] -= mean;
	}
}

static void setup(void)
{
	patches = random_floats(POINTS * SIDE * SIDE, 0, 1);
	templates = host_alloc(POINTS * SIDE * SIDE * sizeof(*templates));
	frame = host_alloc(frame_bytes);
	tracked = host_alloc(options.size * sizeof(start));
	cut_templates();
	device_position = device_alloc(sizeof(start));
	device_templates = device_alloc(POINTS * SIDE * SIDE * sizeof(*templates));
	device_frame = device_alloc(frame_bytes);
}

static void compute(void)
{
	CUfunction track = device_kernel("hw_track");
	int side = SIDE_PIXELS;

	copy_to_device(device_position, start, sizeof(start));
	copy_to_device(device_templates, templates, POINTS * SIDE * SIDE * sizeof(*templates));
	for (unsigned number = 0; number < options.size; number++) {
		draw(number + 1);
		copy_to_device(device_frame, frame, frame_bytes);
		launch(track, SHAPE(POINTS, 1, THREADS, 1), &device_position, &device_templates,
			&device_frame, &side);
		copy_from_device(tracked + number * POINTS * 2, device_position, sizeof(start));
		progress(number + 1, options.size);
	}
}

/* Where the point at (px, py) is now. */
static void track_on_cpu(int *p, const float *t)
{
	float best = -1;
	int best_place = 0;

	for (int place = 0; place < PLACES * PLACES; place++) {
		int x = p[0] + place % PLACES - REACH - RADIUS;
		int y = p[1] + place / PLACES - REACH - RADIUS;
		float product = 0, sum = 0, square = 0, score;

		for (int j = 0; j < SIDE; j++)
			for (int i = 0; i < SIDE; i++) {
				float value = frame[(y + j) * SIDE_PIXELS + x + i];

				product += t[j * SIDE + i] * value;
				sum += value;
				square += value * value;
			}
		score = product / sqrtf(square - sum * sum / (SIDE * SIDE));
		if (score > best) {
			best = score;
			best_place = place;
		}
	}
	p[0] += best_place % PLACES - REACH;
	p[1] += best_place / PLACES - REACH;
}

static void check(void)
{
	int position[POINTS * 2];

	memcpy(position, start, sizeof(position));
	for (unsigned number = 0; number < options.size; number++) {
		draw(number + 1);
		for (unsigned point = 0; point < POINTS; point++)
			track_on_cpu(position + 2 * point, templates + point * SIDE * SIDE);
		check_ints("the positions", tracked + number * POINTS * 2, position, POINTS * 2);
	}
}

const struct program program = {
	.name = "hw",
	.summary = "Follows points on a heart's wall through a film (template tracking).",
	.size_means = "frames of the film",
	.size = 24,
	.size_max = 100000,
	.setup = setup,
	.compute = compute,
	.check = check,
};

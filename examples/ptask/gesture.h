/* SPDX-License-Identifier: MIT
 *
 * The gestural interface of the PTask paper (sections 2.1 and 6.1, Figure 8): two cameras see depths, `xform` makes points in
 * the coordinate system of the screen of them, `filter` takes the noise out and the nearer of both, and `hidinput` finds the
 * hand. What the five forms of Table 2 have in common.
 */
#ifndef EXAMPLES_PTASK_GESTURE_H
#define EXAMPLES_PTASK_GESTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CAMERAS 2
#define RECORDED 16 /* frames that a camera has; then it begins again */

struct point {
	float x, y, z, w;
};

/* Of a camera: rows of a matrix from its coordinates to the screen's. */
struct pose {
	float rows[3][4];
};

struct event {
	float x, y, z;
	uint32_t seen; /* points of the hand */
};

extern int width, height;
extern const struct pose poses[CAMERAS];
extern unsigned frame_count;

size_t image_bytes(void); /* of uint16_t: millimetres */
size_t cloud_bytes(void); /* of struct point */

/* What a camera sees. Waits until it is time for the frame, unless the cameras are unconstrained. Any process. */
const uint16_t *camera_image(unsigned camera, unsigned frame);
/* The last step, on the CPU. */
void hidinput(const struct point *cloud, struct event *event);
/* The frame's event has come. Ends the program if it is not what the host computes. In order, in one thread. */
void deliver(unsigned frame, const struct event *event);

/* Room for a frame's array; ends the program if there is none. */
void *frame_alloc(size_t bytes);
/* Ends the program with a sentence unless `condition` holds. */
void require(bool condition, const char *what, const char *why);

/* Another process of the form, whose processor time counts. */
void also_counts(pid_t process);

/* Each delivers frame_count frames. */
void run_host(void);
void run_handcode(void);
void run_modular(void);
void run_pipes(void);
void run_ptask(void);

extern const char kernels_ptx[];

#endif

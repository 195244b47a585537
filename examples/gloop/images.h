/* SPDX-License-Identifier: MIT
 *
 * What both sides of the image search know.
 */
#ifndef EXAMPLES_GLOOP_IMAGES_H
#define EXAMPLES_GLOOP_IMAGES_H

#define DATABASES 3
#define IMAGE_BYTES 256 /* of what stands for an image: numbers of eight bits */
#define ALIKE 10000     /* two images are, whose squared distance is less */
#define NAME_BYTES 28

struct name {
	char text[NAME_BYTES];
	unsigned length;
};

#endif

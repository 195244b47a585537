/* SPDX-License-Identifier: MIT
 *
 * A copy as tiles, each of which fits in a chunk of the staging memory, and which several threads take one by one.
 */
#ifndef GDEV_LIB_TILES_H
#define GDEV_LIB_TILES_H

#include "lib/libgdev/internal.h"

#define PIECE_MIN (64u << 10) /* a copy is not split finer than this */

/* Part of a copy that fits in a slot: `rows` rows of `width` bytes, packed there. */
struct tile {
	uint64_t destination, source;
	uint64_t width, rows;
};

struct tiles {
	const struct gdev_copy *copy;
	uint64_t chunk;
	uint64_t plane, row, column; /* where the next tile starts */
};

/* A two-stage copy, shared by the threads that do it. */
struct two_stage {
	struct gdev_stream *stream;
	const struct gdev_copy *copy;
	pthread_mutex_t lock; /* guards what follows */
	struct tiles tiles;
	int error; /* the first; ends the copy */
};

void two_stage_init(
	struct two_stage *whole, struct gdev_stream *stream, const struct gdev_copy *copy);
void two_stage_finish(struct two_stage *whole);
/* False: none is left, or the copy has failed. */
bool take_tile(struct two_stage *whole, struct tile *tile);
/* The first error ends the copy; 0 is none. */
void note_error(struct two_stage *whole, int error);

#endif

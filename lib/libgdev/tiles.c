/* SPDX-License-Identifier: MIT
 *
 * How a copy is split, and taken apart by threads.
 */
#include "lib/libgdev/tiles.h"

static void tiles_init(
	struct tiles *tiles, struct gdev_session *session, const struct gdev_copy *copy)
{
	uint64_t total = copy->width * copy->height * copy->depth;
	uint64_t chunk = session->staging.chunk_bytes;

	/* Four pieces overlap well; more cost more than they win. */
	if (total / 4 < chunk)
		chunk = min_of(chunk, max_of(align_up(total / 4, 4096), PIECE_MIN));
	*tiles = (struct tiles){.copy = copy, .chunk = chunk};
}

static bool next_tile(struct tiles *tiles, struct tile *tile)
{
	const struct gdev_copy *copy = tiles->copy;

	if (tiles->plane == copy->depth)
		return false;
	tile->destination = copy->destination + tiles->plane * copy->destination_slice +
			    tiles->row * copy->destination_pitch + tiles->column;
	tile->source = copy->source + tiles->plane * copy->source_slice +
		       tiles->row * copy->source_pitch + tiles->column;
	if (copy->width > tiles->chunk) {
		tile->rows = 1;
		tile->width = min_of(tiles->chunk, copy->width - tiles->column);
		tiles->column += tile->width;
		if (tiles->column < copy->width)
			return true;
		tiles->column = 0;
	} else {
		tile->width = copy->width;
		tile->rows = min_of(tiles->chunk / copy->width, copy->height - tiles->row);
	}
	tiles->row += tile->rows;
	if (tiles->row == copy->height) {
		tiles->row = 0;
		tiles->plane++;
	}
	return true;
}

void two_stage_init(
	struct two_stage *whole, struct gdev_stream *stream, const struct gdev_copy *copy)
{
	*whole = (struct two_stage){.stream = stream, .copy = copy};
	pthread_mutex_init(&whole->lock, NULL);
	tiles_init(&whole->tiles, stream->session, copy);
}

void two_stage_finish(struct two_stage *whole)
{
	pthread_mutex_destroy(&whole->lock);
}

bool take_tile(struct two_stage *whole, struct tile *tile)
{
	bool taken;

	pthread_mutex_lock(&whole->lock);
	taken = !whole->error && next_tile(&whole->tiles, tile);
	pthread_mutex_unlock(&whole->lock);
	return taken;
}

void note_error(struct two_stage *whole, int error)
{
	if (!error)
		return;
	pthread_mutex_lock(&whole->lock);
	if (!whole->error)
		whole->error = error;
	pthread_mutex_unlock(&whole->lock);
}

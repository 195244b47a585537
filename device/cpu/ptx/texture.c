/* SPDX-License-Identifier: MIT
 *
 * Instructions of textures and surfaces, but for what is sampled: handles, queries, loads and stores of bytes.
 */
#include "device/cpu/ptx/texture.h"

#include <string.h>

/* ---- queries ---- */

/* The numbers of channels' types and orders, as PTX has them from OpenCL. */
static uint32_t channel_type(const struct texture *t)
{
	static const uint16_t whole[TEXTURE_FORMATS] = {
		0x10da, 0x10db, 0x10dc, 0x10d7, 0x10d8, 0x10d9, 0x10dd, 0x10de};
	static const uint16_t fractions[TEXTURE_FORMATS] = {
		0x10d2, 0x10d3, 0x10dc, 0x10d0, 0x10d1, 0x10d9, 0x10dd, 0x10de};

	return (t->flags & TEXTURE_INTEGER ? whole : fractions)[t->format % TEXTURE_FORMATS];
}

static uint32_t query(const struct texture *t, unsigned what, uint32_t level)
{
	struct texture l = *t;

	texture_level(&l, level < t->levels ? level : t->levels - 1);
	switch (what) {
	case QUERY_WIDTH:
		return l.width;
	case QUERY_HEIGHT:
		return l.height;
	case QUERY_DEPTH:
		return t->flags & TEXTURE_LAYERED ? 1 : l.depth;
	case QUERY_LAYERS:
		return t->flags & TEXTURE_LAYERED ? t->depth : 1;
	case QUERY_LEVELS:
		return t->levels;
	case QUERY_SAMPLES:
		return 1;
	case QUERY_NORMALISED:
		return t->flags & TEXTURE_NORMALISED ? 1 : 0;
	case QUERY_TYPE:
		return channel_type(t);
	case QUERY_ORDER:
		return t->channels == 1 ? 0x10b0 : t->channels == 2 ? 0x10b2 : 0x10b5;
	}
	return 0;
}

/* ---- surfaces ---- */

/* Moves a position into [0, limit]; whether it was there. */
static bool hold(int64_t *at, int64_t limit)
{
	int64_t was = *at;

	*at = was < 0 ? 0 : was > limit ? limit : was;
	return *at == was;
}

/* Where the bytes at a position begin; NULL: nowhere. */
static enum texture_outcome locate(
	const struct texture *t, uint32_t word, const uint32_t *operands, char **place)
{
	unsigned geometry = texture_geometry(word), bytes = texture_number(word);
	bool layered = geometry == GEOMETRY_A1D || geometry == GEOMETRY_A2D;
	bool rows = geometry != GEOMETRY_1D && geometry != GEOMETRY_A1D;
	int64_t x = (int32_t)operands[0], y = rows ? (int32_t)operands[1] : 0, z = 0;
	int64_t row = (int64_t)t->width * texture_element_bytes(t), last = row - bytes;

	if (layered)
		z = operands[OPERAND_LAYER];
	else if (geometry == GEOMETRY_3D)
		z = (int32_t)operands[2];
	if (last < 0 || x % (int64_t)bytes)
		return TEXTURE_OUTSIDE;
	bool inside = hold(&x, last);
	inside &= hold(&y, (int64_t)t->height - 1);
	inside &= hold(&z, (int64_t)t->depth - 1);
	*place = NULL;
	if (!inside && texture_select(word) == OUTSIDE_TRAP)
		return TEXTURE_OUTSIDE;
	if (inside || texture_select(word) == OUTSIDE_CLAMP)
		*place = (char *)(uintptr_t)(t->address + (uint64_t)z * t->slice +
					     (uint64_t)y * t->pitch + (uint64_t)x);
	return TEXTURE_DONE;
}

static enum texture_outcome surface(
	const struct texture *t, uint32_t word, const uint32_t *operands, uint32_t *results)
{
	unsigned bytes = texture_number(word);
	enum texture_outcome outcome;
	char *place;

	outcome = locate(t, word, operands, &place);
	if (outcome != TEXTURE_DONE)
		return outcome;
	if (texture_operation(word) == SURFACE_STORE) {
		if (place)
			memcpy(place, &operands[OPERAND_VALUES], bytes);
	} else if (place) {
		memcpy(results, place, bytes);
	} else {
		memset(results, 0, bytes);
	}
	return TEXTURE_DONE;
}

/* ---- all ---- */

static bool is_sound(const struct texture *t)
{
	return t->magic == TEXTURE_MAGIC && t->format < TEXTURE_FORMATS && t->channels <= 4 &&
	       t->channels && t->width && t->height && t->depth && t->levels &&
	       t->levels <= TEXTURE_LEVELS;
}

enum texture_outcome texture_execute(
	uint32_t word, uint64_t handle, const uint32_t *operands, uint32_t *results)
{
	unsigned operation = texture_operation(word);
	struct texture copy; /* a kernel may write there after the checks */
	const struct texture *t = &copy;

	if (handle % 8)
		return TEXTURE_NO_OBJECT;
	memcpy(&copy, (const void *)(uintptr_t)handle, sizeof copy);
	if (t->magic != TEXTURE_MAGIC)
		return TEXTURE_NO_OBJECT;
	if (t->kind == TEXTURE_UNBOUND)
		return TEXTURE_NOT_BOUND;
	if (!is_sound(t))
		return TEXTURE_NO_OBJECT;
	if (operation == TEXTURE_QUERY) {
		results[0] = query(t, texture_number(word), operands[OPERAND_LOD]);
		return TEXTURE_DONE;
	}
	if ((t->kind == TEXTURE_SURFACE) != (operation >= SURFACE_LOAD))
		return TEXTURE_NO_OBJECT;
	if (operation >= SURFACE_LOAD)
		return surface(t, word, operands, results);
	if (operation == TEXTURE_GATHER)
		texture_gather(t, word, operands, results);
	else
		texture_fetch(t, word, operands, results);
	return TEXTURE_DONE;
}

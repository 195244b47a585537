/* SPDX-License-Identifier: MIT
 *
 * What the instructions of textures and surfaces do. Compiled code calls texture_execute() through its runtime, with a
 * word that says which instruction it is; emit_texture.c makes the word and lays out the operands, texture.c and
 * texture_sample.c do the work. Any thread may call it; it has no state.
 */
#ifndef GDEV_DEVICE_CPU_PTX_TEXTURE_H
#define GDEV_DEVICE_CPU_PTX_TEXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/texture.h"

enum texture_operation {
	TEXTURE_FETCH,
	TEXTURE_GATHER, /* tld4 */
	TEXTURE_QUERY,  /* txq, suq */
	SURFACE_LOAD,
	SURFACE_STORE,
};

enum texture_geometry {
	GEOMETRY_1D,
	GEOMETRY_2D,
	GEOMETRY_3D,
	GEOMETRY_A1D,
	GEOMETRY_A2D,
	GEOMETRY_CUBE,
	GEOMETRY_ACUBE,
};

enum texture_lod { LOD_NONE, LOD_LEVEL, LOD_GRADIENTS };
enum texture_outside { OUTSIDE_TRAP, OUTSIDE_CLAMP, OUTSIDE_ZERO };

enum texture_query {
	QUERY_WIDTH,
	QUERY_HEIGHT,
	QUERY_DEPTH,
	QUERY_LAYERS,
	QUERY_LEVELS,
	QUERY_SAMPLES,
	QUERY_NORMALISED,
	QUERY_TYPE,
	QUERY_ORDER,
};

/* The word. */
#define TEXTURE_INTEGERS (1u << 8) /* coordinates are whole numbers */
#define TEXTURE_OFFSETS (1u << 11)
static inline uint32_t texture_word(unsigned operation, unsigned geometry)
{
	return operation | geometry << 4;
}
static inline unsigned texture_operation(uint32_t word)
{
	return word & 15;
}
static inline unsigned texture_geometry(uint32_t word)
{
	return word >> 4 & 15;
}
/* enum texture_lod. */
#define TEXTURE_LOD(lod) ((uint32_t)(lod) << 9)
static inline unsigned texture_lod(uint32_t word)
{
	return word >> 9 & 3;
}
/* A gather's component, or enum texture_outside of a surface. */
#define TEXTURE_SELECT(n) ((uint32_t)(n) << 12)
static inline unsigned texture_select(uint32_t word)
{
	return word >> 12 & 3;
}
/* Bytes that a surface's instruction moves, or enum texture_query. */
#define TEXTURE_NUMBER(n) ((uint32_t)(n) << 16)
static inline unsigned texture_number(uint32_t word)
{
	return word >> 16 & 255;
}

/* The operands: words, which hold floats or whole numbers. */
enum {
	OPERAND_X, /* y and z follow */
	OPERAND_LAYER = 3,
	OPERAND_LOD = 4, /* or the gradients in x: three, and in y: three */
	OPERAND_OFFSET = 10,
	OPERAND_VALUES = 4, /* of a store: 16 bytes */
	OPERAND_WORDS = 16,
	RESULT_WORDS = 4,
};

enum texture_outcome {
	TEXTURE_DONE,
	TEXTURE_NO_OBJECT, /* the handle is none of a texture, or of a surface */
	TEXTURE_NOT_BOUND,
	TEXTURE_OUTSIDE, /* of a surface, with OUTSIDE_TRAP; or not aligned */
};

/* Faults as any access does where the structure, or what it says, is no memory of the session. */
enum texture_outcome texture_execute(
	uint32_t word, uint64_t handle, const uint32_t *operands, uint32_t *results);

/* texture_sample.c */
void texture_fetch(const struct texture *t, uint32_t word, const uint32_t *operands, uint32_t *out);
void texture_gather(
	const struct texture *t, uint32_t word, const uint32_t *operands, uint32_t *out);

#endif

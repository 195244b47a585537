/* SPDX-License-Identifier: MIT
 *
 * Arrays, textures and surfaces.
 *
 * Of devices with PROPERTY_PLAIN_TEXTURES: arrays are plain device memory, and an object is one
 * structure there, whose address is the object's handle. The CUDA library writes it, kernels read it: a device trusts
 * nothing in it. What it makes a kernel touch is what the kernel could touch with a pointer of its own.
 *
 * Of devices with PROPERTY_DRIVER_TEXTURES: the device makes them (RECORD_ARRAY_CREATE, RECORD_TEXTURE_CREATE). There
 * struct texture says only in which order copies name the elements of an array.
 */
#ifndef GDEV_PROTO_TEXTURE_H
#define GDEV_PROTO_TEXTURE_H

#include <stdbool.h>
#include <stdint.h>

#define TEXTURE_MAGIC 0x67747831u /* of this layout, which is also the property's value */
#define TEXTURE_ALIGN 64          /* bytes: rows of arrays, and the structures themselves */
#define TEXTURE_LEVELS 32         /* at most */

enum texture_kind {
	TEXTURE_UNBOUND, /* a reference of a module that nothing is bound to */
	TEXTURE_SAMPLED,
	TEXTURE_SURFACE,
};

enum texture_format {
	TEXTURE_U8,
	TEXTURE_U16,
	TEXTURE_U32,
	TEXTURE_S8,
	TEXTURE_S16,
	TEXTURE_S32,
	TEXTURE_F16,
	TEXTURE_F32,
	TEXTURE_FORMATS,
};

enum texture_address { /* as CUDA numbers them */
	TEXTURE_WRAP,
	TEXTURE_CLAMP,
	TEXTURE_MIRROR,
	TEXTURE_BORDER,
};

enum texture_flags {
	TEXTURE_NORMALISED = 1, /* coordinates from 0 to 1 */
	TEXTURE_INTEGER =
		2, /* integers are read as they are; without, those of 8 and 16 bits as fractions */
	TEXTURE_SRGB = 4,     /* 8 bits, of which the first three channels are decoded */
	TEXTURE_SEAMLESS = 8, /* filters across the edges of a cube */
	TEXTURE_LAYERED = 32, /* depth counts layers; those of cubes are faces */
};

struct texture {
	uint32_t magic;
	uint8_t kind, format, channels, flags;
	uint64_t address, pitch, slice; /* bytes; a slice is a layer, or a plane of a volume */
	uint32_t width, height, depth;  /* of level 0, in elements, at least 1 */
	uint32_t levels;                /* one behind the other: texture_level() */
	uint8_t address_mode[3];
	uint8_t filter, level_filter; /* 1: linear, between elements and between levels */
	uint8_t reserved[3];
	float border[4];
	float bias, level_min, level_max;
	uint8_t unused[44];
};

_Static_assert(sizeof(struct texture) == 128, "part of the interface");

static inline uint32_t texture_element_bytes(const struct texture *t)
{
	static const uint8_t bytes[TEXTURE_FORMATS] = {1, 2, 4, 1, 2, 4, 2, 4};

	return t->format < TEXTURE_FORMATS ? bytes[t->format] * (uint32_t)t->channels : 0;
}

/* Rows and planes as arrays have them. */
static inline void texture_pack(struct texture *t)
{
	uint64_t row = (uint64_t)t->width * texture_element_bytes(t);

	t->pitch = (row + TEXTURE_ALIGN - 1) / TEXTURE_ALIGN * TEXTURE_ALIGN;
	t->slice = t->pitch * t->height;
}

/* Makes of a texture its next smaller level, which lies behind it. */
static inline void texture_next(struct texture *t)
{
	t->address += t->slice * t->depth;
	t->width = t->width > 1 ? t->width / 2 : 1;
	t->height = t->height > 1 ? t->height / 2 : 1;
	if (!(t->flags & TEXTURE_LAYERED))
		t->depth = t->depth > 1 ? t->depth / 2 : 1;
	texture_pack(t);
}

/* Makes of a texture its level number `level`. */
static inline void texture_level(struct texture *t, uint32_t level)
{
	for (uint32_t l = 0; l < level && l < TEXTURE_LEVELS; l++)
		texture_next(t);
	t->levels = 1;
}

/* ---- arrays that the device makes ---- */

enum array_flags { /* as CUDA numbers them */
	ARRAY_LAYERED = 1,
	ARRAY_SURFACE = 2,
	ARRAY_CUBE = 4,
	ARRAY_GATHER = 8,
	ARRAY_FLAGS = 15,
};

struct array_shape {
	uint32_t width, height, depth;    /* elements; 0: it has no such dimension */
	uint32_t levels;                  /* 0: not mipmapped */
	uint32_t format, channels, flags; /* enum texture_format; 1, 2 or 4; enum array_flags */
	uint32_t reserved;
};

#define ARRAY_EDGE_MAX                                                                             \
	(1u << 20) /* elements, rows, planes and layers: more than any device has, and no product overflows */

/* Level 0 of the array, which begins at `address`, and how many bytes its levels take one behind the other. False: it is no
 * shape of an array. */
static inline bool array_layout(
	const struct array_shape *shape, uint64_t address, struct texture *plain, uint64_t *bytes)
{
	struct texture level;

	if (!shape->width || shape->width > ARRAY_EDGE_MAX || shape->height > ARRAY_EDGE_MAX ||
		shape->depth > 0xffff || shape->levels > TEXTURE_LEVELS ||
		shape->format >= TEXTURE_FORMATS || shape->flags & ~(uint32_t)ARRAY_FLAGS ||
		(shape->channels != 1 && shape->channels != 2 && shape->channels != 4) ||
		shape->reserved)
		return false;
	*plain = (struct texture){.magic = TEXTURE_MAGIC,
		.format = (uint8_t)shape->format,
		.channels = (uint8_t)shape->channels,
		.flags = shape->flags & (ARRAY_LAYERED | ARRAY_CUBE) ? TEXTURE_LAYERED : 0,
		.address = address,
		.width = shape->width,
		.height = shape->height ? shape->height : 1,
		.depth = shape->depth ? shape->depth : 1,
		.levels = shape->levels ? shape->levels : 1};
	texture_pack(plain);
	level = *plain;
	for (uint32_t l = 0; l < plain->levels; l++)
		texture_next(&level);
	*bytes = level.address - address; /* that of what would lie behind */
	return true;
}

enum texture_source {
	TEXTURE_OF_ARRAY,  /* or of one level of an array */
	TEXTURE_OF_LEVELS, /* a mipmapped array */
	TEXTURE_OF_LINEAR, /* memory */
	TEXTURE_OF_ROWS,   /* memory, with a pitch */
	TEXTURE_SOURCES,
};

/* What an object is to be made of. The words are as in cuTexObjectCreate's descriptions, but for `source` and `format`, of
 * which this file says what they are. What a source does not have is 0. */
struct texture_words {
	uint32_t surface; /* 1: of `source` alone */
	uint32_t source;
	uint64_t address; /* of the array, of its level, or of memory */
	uint64_t bytes;   /* LINEAR */
	uint32_t width, height;
	uint64_t pitch;                          /* ROWS, as the two before */
	uint32_t format, channels;               /* LINEAR, ROWS: enum texture_format */
	uint32_t address_mode[3], filter, flags; /* how it is read */
	uint32_t anisotropy, level_filter;
	float bias, level_min, level_max, border[4];
	uint32_t has_view; /* 1: what follows counts */
	uint32_t view_format, view_width, view_height, view_depth;
	uint32_t first_level, last_level, first_layer, last_layer;
	uint32_t reserved;
};

#endif

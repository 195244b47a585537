/* SPDX-License-Identifier: MIT
 *
 * Textures and surfaces of devices with PROPERTY_PLAIN_TEXTURES: arrays are plain device memory, and an object is one
 * structure there, whose address is the object's handle. The CUDA library writes it, kernels read it: a device trusts
 * nothing in it. What it makes a kernel touch is what the kernel could touch with a pointer of its own.
 */
#ifndef GDEV_PROTO_TEXTURE_H
#define GDEV_PROTO_TEXTURE_H

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

#endif

/* SPDX-License-Identifier: MIT
 *
 * What the files of arrays and textures know of each other (array.c, array_copy.c, texture.c, texture_made.c,
 * texture_ref.c). Arrays are plain memory, or what the device makes (proto/texture.h): copies name the elements of both by
 * addresses in the same order. Everything that a context has of them ends with it.
 */
#ifndef GDEV_CUDA_ARRAY_INTERNAL_H
#define GDEV_CUDA_ARRAY_INTERNAL_H

#include "lib/cuda/internal.h"
#include "proto/properties.h"
#include "proto/texture.h"

struct CUarray_st {
	uint32_t handle_word;
	CUDA_ARRAY3D_DESCRIPTOR description; /* as the program gave it; of a level, its own sizes */
	struct texture plain;                /* where its elements are named */
	bool is_level;                       /* of a mipmapped array, whose memory it is */
};

struct CUmipmappedArray_st {
	uint32_t handle_word;
	CUDA_ARRAY3D_DESCRIPTOR description;
	struct texture plain; /* of all levels */
	CUarray levels[TEXTURE_LEVELS];
};

/* What a texture or surface object was made of. Its number is the address of its structure, or what the device made. */
struct texture_object {
	struct list link; /* of what the device made: context->textures */
	unsigned long long number;
	bool surface, has_view, made;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC sampling;
	CUDA_RESOURCE_VIEW_DESC view;
};

/* CUDA_ERROR_NOT_SUPPORTED: the context's device has no arrays and textures. *made: it makes them; else they are plain. */
CUresult textures_check(CUcontext context, bool *made);
/* CUDA_ERROR_INVALID_HANDLE. */
CUresult array_check(CUarray array);
CUresult mipmapped_check(CUmipmappedArray array);
/* The format and channels of an element. */
CUresult array_format(struct texture *plain, CUarray_format format, unsigned channels);
/* What an allocation of kind ALLOCATION_ARRAY, ALLOCATION_LEVELS or ALLOCATION_TEXTURE is the memory of. */
void array_release(CUarray array);
void mipmapped_release(CUmipmappedArray array);

/* texture.c */
/* Says in *plain how to read, or to read and write, what the description describes. */
CUresult texture_describe(struct texture *plain, const CUDA_RESOURCE_DESC *resource,
	const CUDA_TEXTURE_DESC *sampling, const CUDA_RESOURCE_VIEW_DESC *view);
CUresult surface_describe(struct texture *plain, const CUDA_RESOURCE_DESC *resource);

/* texture_made.c: objects that the device makes. `plain` is as the two above describe it. */
struct texture_words texture_words_of(
	const struct texture *plain, const struct texture_object *object);
CUresult texture_make(CUcontext context, const struct texture *plain,
	const struct texture_object *wanted, unsigned long long *number);
/* Of the current context. False: there is none of that number. */
bool texture_find_made(unsigned long long number, bool surface, struct texture_object *object);
CUresult texture_unmake(unsigned long long number, bool surface);
/* The context ends, and all that the device has made in it. */
void textures_release_context(CUcontext context);

/* Commands submitted later see it at `address`. */
CUresult texture_write(CUcontext context, uint64_t address, const struct texture *plain);

#endif

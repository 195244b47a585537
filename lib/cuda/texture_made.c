/* SPDX-License-Identifier: MIT
 *
 * Texture and surface objects of devices that make them (PROPERTY_DRIVER_TEXTURES): the number that a kernel takes is the
 * device's own, and is one in its context alone.
 */
#include <stdlib.h>

#include "lib/cuda/array.h"

/* What is to be made is in the words of the program's description, but that memory and arrays are named by address. */
static void describe(const struct texture *plain, const struct texture_object *object,
	struct texture_words *words)
{
	const CUDA_RESOURCE_DESC *resource = &object->resource;

	*words = (struct texture_words){.surface = object->surface};
	switch (resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		words->source = TEXTURE_OF_ARRAY;
		words->address = resource->res.array.hArray->plain.address;
		break;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		words->source = TEXTURE_OF_LEVELS;
		words->address = resource->res.mipmap.hMipmappedArray->plain.address;
		break;
	case CU_RESOURCE_TYPE_LINEAR:
		words->source = TEXTURE_OF_LINEAR;
		words->address = resource->res.linear.devPtr;
		words->bytes = resource->res.linear.sizeInBytes;
		words->format = plain->format;
		words->channels = plain->channels;
		break;
	case CU_RESOURCE_TYPE_PITCH2D:
		words->source = TEXTURE_OF_ROWS;
		words->address = resource->res.pitch2D.devPtr;
		words->width = plain->width;
		words->height = plain->height;
		words->pitch = plain->pitch;
		words->format = plain->format;
		words->channels = plain->channels;
		break;
	}
}

static void describe_sampling(const CUDA_TEXTURE_DESC *sampling, struct texture_words *words)
{
	for (int d = 0; d < 3; d++)
		words->address_mode[d] = sampling->addressMode[d];
	words->filter = sampling->filterMode;
	words->flags = sampling->flags;
	words->anisotropy = sampling->maxAnisotropy;
	words->level_filter = sampling->mipmapFilterMode;
	words->bias = sampling->mipmapLevelBias;
	words->level_min = sampling->minMipmapLevelClamp;
	words->level_max = sampling->maxMipmapLevelClamp;
	for (int k = 0; k < 4; k++)
		words->border[k] = sampling->borderColor[k];
}

static void describe_view(const CUDA_RESOURCE_VIEW_DESC *view, struct texture_words *words)
{
	words->has_view = 1;
	words->view_format = view->format;
	words->view_width = (uint32_t)view->width;
	words->view_height = (uint32_t)view->height;
	words->view_depth = (uint32_t)view->depth;
	words->first_level = view->firstMipmapLevel;
	words->last_level = view->lastMipmapLevel;
	words->first_layer = view->firstLayer;
	words->last_layer = view->lastLayer;
}

struct texture_words texture_words_of(
	const struct texture *plain, const struct texture_object *object)
{
	struct texture_words words;

	describe(plain, object, &words);
	if (!object->surface)
		describe_sampling(&object->sampling, &words);
	if (object->has_view)
		describe_view(&object->view, &words);
	return words;
}

CUresult texture_make(CUcontext context, const struct texture *plain,
	const struct texture_object *wanted, unsigned long long *number)
{
	struct texture_object *object = malloc(sizeof *object);
	struct texture_words words;
	uint64_t handle;
	CUresult result;

	if (!object)
		return no_memory();
	*object = *wanted;
	object->made = true;
	words = texture_words_of(plain, object);
	result = result_of(gdev_texture_create(context->session, &words, &handle),
		"the device makes no such texture or surface object");
	if (result != CUDA_SUCCESS) {
		free(object);
		return result;
	}
	object->number = handle;
	pthread_mutex_lock(&context->lock);
	list_append(&context->textures, &object->link);
	pthread_mutex_unlock(&context->lock);
	*number = handle;
	return CUDA_SUCCESS;
}

/* With the context's lock. */
static struct texture_object *find(CUcontext context, unsigned long long number, bool surface)
{
	struct texture_object *object;

	list_for_each (object, &context->textures, link)
		if (object->number == number && object->surface == surface)
			return object;
	return NULL;
}

bool texture_find_made(unsigned long long number, bool surface, struct texture_object *object)
{
	CUcontext context = context_top();
	struct texture_object *found;

	if (!handle_is(HANDLE_CONTEXT, context) || !context->session)
		return false;
	if (context->green)
		context = context->green->primary;
	pthread_mutex_lock(&context->lock);
	found = find(context, number, surface);
	if (found)
		*object = *found;
	pthread_mutex_unlock(&context->lock);
	return found;
}

CUresult texture_unmake(unsigned long long number, bool surface)
{
	struct texture_object *found;
	CUcontext context;

	TRY(current_context(&context));
	pthread_mutex_lock(&context->lock);
	found = find(context, number, surface);
	if (found)
		list_remove(&found->link);
	pthread_mutex_unlock(&context->lock);
	if (!found)
		return fail(CUDA_ERROR_INVALID_VALUE, "the object was destroyed meanwhile");
	free(found);
	return result_of(gdev_texture_destroy(context->session, number, surface),
		"the object cannot be destroyed, or work before failed");
}

/* The session may live longer, for others that reach its memory. */
void textures_release_context(CUcontext context)
{
	struct texture_object *object, *next;

	list_for_each_safe (object, next, &context->textures, link) {
		list_remove(&object->link);
		gdev_texture_destroy(context->session, object->number, object->surface);
		free(object);
	}
}

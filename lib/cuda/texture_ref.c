/* SPDX-License-Identifier: MIT
 *
 * Texture and surface references, as programs had them before there were objects. A module's reference is a structure
 * among its variables, which its kernels read as they would an object's; what a program sets is written there. Where the
 * device makes textures (PROPERTY_DRIVER_TEXTURES), the reference is its driver's, which is told what the program sets. A
 * launch uses what was set before it: so what is set waits for the launches before.
 *
 * A reference that is set up half, or so that it cannot be read, stays unbound: a kernel that uses it ends with an error. A
 * driver is told of it as it is, and judges when it is launched.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/array.h"
#include "lib/cuda/exports.h"

/* Of a texture or of a surface. Not to be changed by two threads at a time, as in CUDA. */
struct reference {
	uint32_t handle_word;
	struct list link; /* of its module's references */
	CUmodule module;  /* NULL: made by cuTexRefCreate, and no kernel reads it */
	uint64_t address; /* of its structure; 0: it is the driver's, */
	char *name;       /* and has this name */
	bool bound;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC sampling;
	CUarray_format format; /* of memory */
	int channels;
};

struct CUtexref_st {
	struct reference r;
};

struct CUsurfref_st {
	struct reference r;
};

/* ---- what is written ---- */

static CUresult describe(
	const struct reference *r, const CUDA_TEXTURE_DESC *sampling, struct texture *plain)
{
	CUDA_RESOURCE_DESC resource = r->resource;

	if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
		resource.res.linear.format = r->format;
		resource.res.linear.numChannels = (unsigned)r->channels;
	}
	return texture_describe(plain, &resource, sampling, NULL);
}

/* As every resource can be read that is one. */
static CUresult describe_plainly(const struct reference *r, struct texture *plain)
{
	const CUDA_TEXTURE_DESC sampling = {
		.flags = r->sampling.flags & CU_TRSF_NORMALIZED_COORDINATES};

	return describe(r, &sampling, plain);
}

static CUresult write_down(const struct reference *r, const struct texture *plain)
{
	CUcontext context = r->module->context;
	struct texture_object object = {.surface = handle_is(HANDLE_SURFREF, r),
		.resource = r->resource,
		.sampling = r->sampling};
	struct texture_words words;

	TRY(context_synchronise(context));
	if (r->address)
		return texture_write(context, r->address, plain);
	words = texture_words_of(plain, &object);
	TRY_GDEV(gdev_reference_set(r->module->module, r->name, &words, true),
		"the device's driver does not bind the reference %s so", r->name);
	return CUDA_SUCCESS;
}

/* After something was set: the structure says it. */
static CUresult apply(const struct reference *r)
{
	struct texture plain;

	if (!r->module || !r->bound)
		return CUDA_SUCCESS;
	if (describe(r, &r->sampling, &plain) == CUDA_SUCCESS)
		return write_down(r, &plain);
	if (!r->address)
		TRY(describe_plainly(r, &plain));
	else
		plain = (struct texture){.magic = TEXTURE_MAGIC, .kind = TEXTURE_UNBOUND};
	return write_down(r, &plain);
}

/* Binds a resource, if it is one. */
static CUresult bind(struct reference *r, const CUDA_RESOURCE_DESC *resource)
{
	struct reference wanted = *r;
	struct texture plain;

	wanted.resource = *resource;
	TRY(describe_plainly(&wanted, &plain));
	r->resource = *resource;
	r->bound = true;
	return apply(r);
}

/* ---- references of modules ---- */

static struct reference *find(CUmodule module, enum handle_type type, const char *name)
{
	struct reference *r;

	list_for_each (r, &module->references, link)
		if (handle_is(type, r) && !strcmp(r->name, name))
			return r;
	return NULL;
}

static void set_defaults(struct reference *r)
{
	r->format = CU_AD_FORMAT_FLOAT;
	r->channels = 1;
	for (int d = 0; d < 3; d++)
		r->sampling.addressMode[d] = CU_TR_ADDRESS_MODE_CLAMP;
}

/* Whether a structure is at the address: how a reference begins. */
static CUresult check_structure(CUcontext context, uint64_t address, const char *name)
{
	struct texture begun = {0};
	struct gdev_copy copy = gdev_copy_linear((uintptr_t)&begun, address, sizeof begun);

	copy.destination_side = GDEV_SIDE_HOST;
	copy.source_side = GDEV_SIDE_DEVICE;
	TRY_GDEV(
		gdev_copy(context->legacy->stream, &copy), "the reference %s cannot be read", name);
	if (begun.magic != TEXTURE_MAGIC)
		return fail(CUDA_ERROR_NOT_FOUND, "the variable %s is no reference", name);
	return CUDA_SUCCESS;
}

/* The module gets a reference, unless another thread has made one meanwhile. */
static CUresult add(CUmodule module, const char *name, uint64_t address, enum handle_type type,
	size_t size, struct reference **added)
{
	struct reference *made = handle_create(type, size), *there;

	if (!made)
		return no_memory();
	made->module = module;
	made->address = address;
	made->name = strdup(name);
	if (!made->name) {
		handle_destroy(type, made);
		return no_memory();
	}
	set_defaults(made);
	pthread_mutex_lock(&module->lock);
	there = find(module, type, name);
	if (!there)
		list_append(&module->references, &made->link);
	pthread_mutex_unlock(&module->lock);
	if (there) {
		free(made->name);
		handle_destroy(type, made);
	}
	*added = there ? there : made;
	return CUDA_SUCCESS;
}

/* Where the structure of that name is; 0: the reference is the driver's. */
static CUresult look_up(CUmodule module, const char *name, enum handle_type type, uint64_t *address)
{
	const struct texture_words words = {.surface = type == HANDLE_SURFREF};
	uint64_t bytes;
	bool made;

	*address = 0;
	TRY(textures_check(module->context, &made));
	if (made) {
		TRY_GDEV(gdev_reference_set(module->module, name, &words, false),
			"there is no reference %s, or the device's driver has none", name);
		return CUDA_SUCCESS;
	}
	TRY_GDEV(gdev_module_global(module->module, name, address, &bytes),
		"there is no reference %s", name);
	if (bytes != sizeof(struct texture))
		return fail(CUDA_ERROR_NOT_FOUND, "the variable %s is no reference", name);
	return check_structure(module->context, *address, name);
}

/* The same one each time. */
static CUresult get(
	CUmodule module, const char *name, enum handle_type type, size_t size, void *found)
{
	struct reference *r;
	uint64_t address;

	TRY(initialised());
	if (!found || !name || !*name)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the reference, or the name, is NULL");
	if (!handle_is(HANDLE_MODULE, module))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living module", (void *)module);
	pthread_mutex_lock(&module->lock);
	r = find(module, type, name);
	pthread_mutex_unlock(&module->lock);
	if (!r) {
		TRY(look_up(module, name, type, &address));
		TRY(add(module, name, address, type, size, &r));
	}
	memcpy(found, &r, sizeof r);
	return CUDA_SUCCESS;
}

void references_release(CUmodule module)
{
	struct reference *r, *next;

	list_for_each_safe (r, next, &module->references, link) {
		free(r->name);
		handle_destroy(handle_is(HANDLE_TEXREF, r) ? HANDLE_TEXREF : HANDLE_SURFREF, r);
	}
}

CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name)
{
	return get(module, name, HANDLE_TEXREF, sizeof(struct CUtexref_st), reference);
}

CUresult cuModuleGetSurfRef(CUsurfref *reference, CUmodule module, const char *name)
{
	return get(module, name, HANDLE_SURFREF, sizeof(struct CUsurfref_st), reference);
}

CUresult cuTexRefCreate(CUtexref *created)
{
	CUcontext context;
	CUtexref made;
	bool by_driver;

	TRY(current_context(&context));
	TRY(textures_check(context, &by_driver));
	if (!created)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the reference is NULL");
	made = handle_create(HANDLE_TEXREF, sizeof *made);
	if (!made)
		return no_memory();
	set_defaults(&made->r);
	*created = made;
	return CUDA_SUCCESS;
}

static CUresult check(CUtexref texture)
{
	TRY(initialised());
	if (!handle_is(HANDLE_TEXREF, texture))
		return fail(CUDA_ERROR_INVALID_VALUE, "%p is no texture reference that is there",
			(void *)texture);
	return CUDA_SUCCESS;
}

/* Of a call that gives something back. */
static CUresult check_get(CUtexref texture, const void *result)
{
	TRY(check(texture));
	if (!result)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the result is NULL");
	return CUDA_SUCCESS;
}

CUresult cuTexRefDestroy(CUtexref texture)
{
	TRY(check(texture));
	if (texture->r.module)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the reference is a module's, with which it ends");
	handle_destroy(HANDLE_TEXREF, texture);
	return CUDA_SUCCESS;
}

/* Every kernel uses the references of its module: there is nothing to set. */
CUresult cuParamSetTexRef(CUfunction function, int unit, CUtexref texture)
{
	TRY(check(texture));
	if (!handle_is(HANDLE_FUNCTION, function))
		return fail(
			CUDA_ERROR_INVALID_HANDLE, "%p is no living function", (void *)function);
	if (unit != CU_PARAM_TR_DEFAULT || texture->r.module != function->module)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the unit is not CU_PARAM_TR_DEFAULT, or the reference not of the "
			"function's module");
	return CUDA_SUCCESS;
}

/* ---- what a reference is bound to ---- */

CUresult cuTexRefSetArray(CUtexref texture, CUarray array, unsigned int flags)
{
	CUDA_RESOURCE_DESC resource = {
		.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};

	TRY(check(texture));
	if (flags != CU_TRSA_OVERRIDE_FORMAT)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags must be CU_TRSA_OVERRIDE_FORMAT");
	TRY(array_check(array));
	texture->r.format = array->description.Format;
	texture->r.channels = (int)array->description.NumChannels;
	return bind(&texture->r, &resource);
}

CUresult cuTexRefSetMipmappedArray(CUtexref texture, CUmipmappedArray array, unsigned int flags)
{
	CUDA_RESOURCE_DESC resource = {
		.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, .res.mipmap.hMipmappedArray = array};

	TRY(check(texture));
	if (flags != CU_TRSA_OVERRIDE_FORMAT)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags must be CU_TRSA_OVERRIDE_FORMAT");
	TRY(mipmapped_check(array));
	texture->r.sampling.flags |= CU_TRSF_NORMALIZED_COORDINATES; /* as such arrays need it */
	texture->r.format = array->description.Format;
	texture->r.channels = (int)array->description.NumChannels;
	return bind(&texture->r, &resource);
}

CUresult cuTexRefSetAddress_v2(size_t *offset, CUtexref texture, CUdeviceptr memory, size_t bytes)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
	CUcontext context;
	size_t beyond;
	int align;

	TRY(check(texture));
	TRY(current_context(&context));
	TRY(device_attribute(context->device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, &align));
	beyond = memory % (unsigned)align;
	if (beyond && !offset)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the address is no multiple of %d, and nobody asks for the offset", align);
	resource.res.linear.devPtr = memory - beyond;
	resource.res.linear.sizeInBytes = bytes + beyond;
	TRY(bind(&texture->r, &resource));
	if (offset)
		*offset = beyond;
	return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddress2D_v3(CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *description,
	CUdeviceptr memory, size_t pitch)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D};

	TRY(check(texture));
	if (!description)
		return fail(CUDA_ERROR_INVALID_VALUE, "the description is NULL");
	resource.res.pitch2D.devPtr = memory;
	resource.res.pitch2D.format = description->Format;
	resource.res.pitch2D.numChannels = description->NumChannels;
	resource.res.pitch2D.width = description->Width;
	resource.res.pitch2D.height = description->Height;
	resource.res.pitch2D.pitchInBytes = pitch;
	TRY(bind(&texture->r, &resource));
	texture->r.format = description->Format;
	texture->r.channels = (int)description->NumChannels;
	return CUDA_SUCCESS;
}

/* The plain name in programs of CUDA 3.2 to 4.0. */
CUresult cuTexRefSetAddress2D_v2(CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *description,
	CUdeviceptr memory, size_t pitch)
{
	return cuTexRefSetAddress2D_v3(texture, description, memory, pitch);
}

static CUresult not_bound(const char *what)
{
	return fail(CUDA_ERROR_INVALID_VALUE, "the reference is not bound to %s", what);
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr *memory, CUtexref texture)
{
	TRY(check_get(texture, memory));
	if (!texture->r.bound || (texture->r.resource.resType != CU_RESOURCE_TYPE_LINEAR &&
					 texture->r.resource.resType != CU_RESOURCE_TYPE_PITCH2D))
		return not_bound("memory");
	*memory = texture->r.resource.resType == CU_RESOURCE_TYPE_LINEAR
			  ? texture->r.resource.res.linear.devPtr
			  : texture->r.resource.res.pitch2D.devPtr;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetArray(CUarray *array, CUtexref texture)
{
	TRY(check_get(texture, array));
	if (!texture->r.bound || texture->r.resource.resType != CU_RESOURCE_TYPE_ARRAY)
		return not_bound("an array");
	*array = texture->r.resource.res.array.hArray;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *array, CUtexref texture)
{
	TRY(check_get(texture, array));
	if (!texture->r.bound || texture->r.resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		return not_bound("a mipmapped array");
	*array = texture->r.resource.res.mipmap.hMipmappedArray;
	return CUDA_SUCCESS;
}

/* ---- how it is read ---- */

CUresult cuTexRefSetFormat(CUtexref texture, CUarray_format format, int channels)
{
	struct texture plain;

	TRY(check(texture));
	TRY(array_format(&plain, format, (unsigned)channels));
	texture->r.format = format;
	texture->r.channels = channels;
	return apply(&texture->r);
}

CUresult cuTexRefSetAddressMode(CUtexref texture, int dimension, CUaddress_mode mode)
{
	TRY(check(texture));
	if (dimension < 0 || dimension > 2 || (unsigned)mode > CU_TR_ADDRESS_MODE_BORDER)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%d is no dimension from 0 to 2, or %d no mode of addresses", dimension,
			(int)mode);
	texture->r.sampling.addressMode[dimension] = mode;
	return apply(&texture->r);
}

static CUresult check_filter(CUfilter_mode mode)
{
	if ((unsigned)mode > CU_TR_FILTER_MODE_LINEAR)
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no mode of filtering", (int)mode);
	return CUDA_SUCCESS;
}

CUresult cuTexRefSetFilterMode(CUtexref texture, CUfilter_mode mode)
{
	TRY(check(texture));
	TRY(check_filter(mode));
	texture->r.sampling.filterMode = mode;
	return apply(&texture->r);
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref texture, CUfilter_mode mode)
{
	TRY(check(texture));
	TRY(check_filter(mode));
	texture->r.sampling.mipmapFilterMode = mode;
	return apply(&texture->r);
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref texture, float bias)
{
	TRY(check(texture));
	texture->r.sampling.mipmapLevelBias = bias;
	return apply(&texture->r);
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref texture, float least, float most)
{
	TRY(check(texture));
	texture->r.sampling.minMipmapLevelClamp = least;
	texture->r.sampling.maxMipmapLevelClamp = most;
	return apply(&texture->r);
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref texture, unsigned int most)
{
	TRY(check(texture));
	texture->r.sampling.maxAnisotropy = most;
	return CUDA_SUCCESS;
}

CUresult cuTexRefSetBorderColor(CUtexref texture, float *color)
{
	TRY(check_get(texture, color));
	memcpy(texture->r.sampling.borderColor, color, sizeof texture->r.sampling.borderColor);
	return apply(&texture->r);
}

CUresult cuTexRefSetFlags(CUtexref texture, unsigned int flags)
{
	const unsigned known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
			       CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;

	TRY(check(texture));
	if (flags & ~known)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "flags %#x have bits that mean nothing", flags);
	texture->r.sampling.flags = flags;
	return apply(&texture->r);
}

CUresult cuTexRefGetFormat(CUarray_format *format, int *channels, CUtexref texture)
{
	TRY(check_get(texture, format));
	*format = texture->r.format;
	if (channels)
		*channels = texture->r.channels;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetAddressMode(CUaddress_mode *mode, CUtexref texture, int dimension)
{
	TRY(check_get(texture, mode));
	if (dimension < 0 || dimension > 2)
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no dimension from 0 to 2", dimension);
	*mode = texture->r.sampling.addressMode[dimension];
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetFilterMode(CUfilter_mode *mode, CUtexref texture)
{
	TRY(check_get(texture, mode));
	*mode = texture->r.sampling.filterMode;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode *mode, CUtexref texture)
{
	TRY(check_get(texture, mode));
	*mode = texture->r.sampling.mipmapFilterMode;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmapLevelBias(float *bias, CUtexref texture)
{
	TRY(check_get(texture, bias));
	*bias = texture->r.sampling.mipmapLevelBias;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmapLevelClamp(float *least, float *most, CUtexref texture)
{
	TRY(check_get(texture, least));
	*least = texture->r.sampling.minMipmapLevelClamp;
	if (most)
		*most = texture->r.sampling.maxMipmapLevelClamp;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetMaxAnisotropy(int *most, CUtexref texture)
{
	TRY(check_get(texture, most));
	*most = (int)texture->r.sampling.maxAnisotropy;
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetBorderColor(float *color, CUtexref texture)
{
	TRY(check_get(texture, color));
	memcpy(color, texture->r.sampling.borderColor, sizeof texture->r.sampling.borderColor);
	return CUDA_SUCCESS;
}

CUresult cuTexRefGetFlags(unsigned int *flags, CUtexref texture)
{
	TRY(check_get(texture, flags));
	*flags = texture->r.sampling.flags;
	return CUDA_SUCCESS;
}

/* ---- surfaces ---- */

static CUresult check_surface(CUsurfref surface)
{
	TRY(initialised());
	if (!handle_is(HANDLE_SURFREF, surface))
		return fail(CUDA_ERROR_INVALID_VALUE, "%p is no surface reference that is there",
			(void *)surface);
	return CUDA_SUCCESS;
}

CUresult cuSurfRefSetArray(CUsurfref surface, CUarray array, unsigned int flags)
{
	CUDA_RESOURCE_DESC resource = {
		.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	struct texture plain;

	TRY(check_surface(surface));
	if (flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
	TRY(surface_describe(&plain, &resource));
	surface->r.resource = resource;
	surface->r.bound = true;
	return write_down(&surface->r, &plain);
}

CUresult cuSurfRefGetArray(CUarray *array, CUsurfref surface)
{
	TRY(check_surface(surface));
	if (!array || !surface->r.bound)
		return not_bound("an array, or the pointer for it is NULL");
	*array = surface->r.resource.res.array.hArray;
	return CUDA_SUCCESS;
}

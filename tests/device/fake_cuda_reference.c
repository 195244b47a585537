/* SPDX-License-Identifier: MIT
 *
 * The driver library that is made for tests (fake_cuda.c): references of modules, one to a texture and one to a surface at most. A
 * reference is its module; what it is bound to is an object, which kernels read that are given number 0.
 */
#include <string.h>

#include "fake_cuda.h"

#define TEXTURE(reference) ((struct CUmod_st *)(void *)(reference))

CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name)
{
	ENTER();
	if (strcmp(module->references[0].name, name))
		return CUDA_ERROR_NOT_FOUND;
	*reference = (CUtexref)(void *)module;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetSurfRef(CUsurfref *reference, CUmodule module, const char *name)
{
	ENTER();
	if (strcmp(module->references[1].name, name))
		return CUDA_ERROR_NOT_FOUND;
	*reference = (CUsurfref)(void *)module;
	return CUDA_SUCCESS;
}

static CUresult bind(CUtexref reference, const CUDA_RESOURCE_DESC *resource)
{
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};

	return cuTexObjectCreate(
		&TEXTURE(reference)->references[0].object, resource, &sampling, NULL);
}

CUresult cuTexRefSetArray(CUtexref reference, CUarray array, unsigned int flags)
{
	CUDA_RESOURCE_DESC resource = {
		.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};

	ENTER();
	return flags == CU_TRSA_OVERRIDE_FORMAT ? bind(reference, &resource)
						: CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexRefSetMipmappedArray(CUtexref reference, CUmipmappedArray array, unsigned int flags)
{
	CUDA_RESOURCE_DESC resource = {
		.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, .res.mipmap.hMipmappedArray = array};
	CUDA_TEXTURE_DESC sampling = {
		.flags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES};

	ENTER();
	return cuTexObjectCreate(
		&TEXTURE(reference)->references[0].object, &resource, &sampling, NULL);
}

CUresult cuTexRefSetFormat(CUtexref reference, CUarray_format format, int channels)
{
	ENTER();
	TEXTURE(reference)->format = format;
	TEXTURE(reference)->channels = (unsigned)channels;
	return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddress(size_t *offset, CUtexref reference, CUdeviceptr memory, size_t bytes)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR,
		.res.linear = {
			memory, TEXTURE(reference)->format, TEXTURE(reference)->channels, bytes}};

	ENTER();
	*offset = 0;
	return bind(reference, &resource);
}

CUresult cuTexRefSetAddress2D(CUtexref reference, const CUDA_ARRAY_DESCRIPTOR *description,
	CUdeviceptr memory, size_t pitch)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D,
		.res.pitch2D = {memory, description->Format, description->NumChannels,
			description->Width, description->Height, pitch}};

	ENTER();
	return bind(reference, &resource);
}

CUresult cuSurfRefSetArray(CUsurfref reference, CUarray array, unsigned int flags)
{
	CUDA_RESOURCE_DESC resource = {
		.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};

	ENTER();
	return cuSurfObjectCreate(&TEXTURE(reference)->references[1].object, &resource);
}

/* How it is read makes no difference to kernels of this library. */

CUresult cuTexRefSetAddressMode(CUtexref reference, int dimension, CUaddress_mode mode)
{
	ENTER();
	return dimension >= 0 && dimension <= 2 && (unsigned)mode <= CU_TR_ADDRESS_MODE_BORDER
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexRefSetFilterMode(CUtexref reference, CUfilter_mode mode)
{
	return fake_enter(__func__);
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref reference, CUfilter_mode mode)
{
	return fake_enter(__func__);
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref reference, float bias)
{
	return fake_enter(__func__);
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref reference, float least, float most)
{
	return fake_enter(__func__);
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref reference, unsigned int most)
{
	return fake_enter(__func__);
}

CUresult cuTexRefSetBorderColor(CUtexref reference, float *color)
{
	return fake_enter(__func__);
}

CUresult cuTexRefSetFlags(CUtexref reference, unsigned int flags)
{
	return fake_enter(__func__);
}

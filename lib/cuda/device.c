/* SPDX-License-Identifier: MIT
 *
 * Devices are the virtual GPUs that the process sees. What a device is, is asked of a session on it, which
 * is kept for the first context, so that asking costs nothing extra.
 */
#include <stdio.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* Constant after cuInit, except for what a device's lock guards. */
static struct device devices[DEVICES_MAX];
static int device_count;

CUresult devices_init(void)
{
	struct gdev_session *session;
	int chosen[DEVICES_MAX];
	int count = visible_devices(gdev_vgpu_count(), chosen);

	device_count = 0;
	for (int i = 0; i < count; i++) {
		pthread_mutex_init(&devices[i].lock, NULL);
		TRY_GDEV(gdev_vgpu_name(chosen[i], devices[i].vgpu));
	}
	if (!count)
		return CUDA_ERROR_NO_DEVICE;
	/* What cannot be opened at all is no device. */
	TRY_GDEV(gdev_session_open(devices[0].vgpu, &session));
	devices[0].session = session;
	device_count = count;
	return CUDA_SUCCESS;
}

void devices_forget(void)
{
	for (int i = 0; i < DEVICES_MAX; i++)
		devices[i] = (struct device){0};
	device_count = 0;
}

int devices_count(void)
{
	return device_count;
}

CUresult device_find(CUdevice device, struct device **found)
{
	TRY(initialised());
	if (device < 0 || device >= device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	*found = &devices[device];
	return CUDA_SUCCESS;
}

/* The session for queries, working. With the device's lock. */
static CUresult keep_session(struct device *device)
{
	if (device->session && gdev_session_error(device->session, NULL) == 0)
		return CUDA_SUCCESS;
	gdev_session_close(device->session);
	device->session = NULL;
	return result_of(gdev_session_open(device->vgpu, &device->session));
}

CUresult device_open_session(CUdevice device, struct gdev_session **session)
{
	struct device *found;
	CUresult result;

	TRY(device_find(device, &found));
	pthread_mutex_lock(&found->lock);
	result = keep_session(found);
	/* Opening the same virtual GPU again gives the same session. */
	if (result == CUDA_SUCCESS)
		result = result_of(gdev_session_open(found->vgpu, session));
	pthread_mutex_unlock(&found->lock);
	return result;
}

/* What this library does or does not do, whatever the device does. */
static const struct {
	CUdevice_attribute attribute;
	int value;
} ours[] = {
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, 0},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
	{CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0},
};

CUresult device_attribute(CUdevice device, CUdevice_attribute attribute, int *value)
{
	struct device *found;
	int32_t property = 0;
	CUresult result;

	TRY(device_find(device, &found));
	if (attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < array_length(ours); i++)
		if (ours[i].attribute == attribute) {
			*value = ours[i].value;
			return CUDA_SUCCESS;
		}
	pthread_mutex_lock(&found->lock);
	result = keep_session(found);
	if (result == CUDA_SUCCESS)
		result = result_of(gdev_session_property(found->session, attribute, &property));
	pthread_mutex_unlock(&found->lock);
	if (result == CUDA_SUCCESS)
		*value = property;
	return result;
}

static CUresult describe(CUdevice device, struct gdev_description *description)
{
	struct device *found;
	CUresult result;

	TRY(device_find(device, &found));
	pthread_mutex_lock(&found->lock);
	result = keep_session(found);
	if (result == CUDA_SUCCESS)
		*description = *gdev_session_description(found->session);
	pthread_mutex_unlock(&found->lock);
	return result;
}

/* ---- the calls ---- */

CUresult cuDeviceGetCount(int *count)
{
	TRY(initialised());
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = device_count;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	struct device *found;

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(device_find(ordinal, &found));
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	struct gdev_description description;

	if (!name || length < 1)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(describe(device, &description));
	snprintf(name, (size_t)length, "%s", description.device_name);
	return CUDA_SUCCESS;
}

/* Two virtual GPUs of one device are two devices here: the name of the virtual GPU is part of it. */
void device_uuid(const struct gdev_description *description, CUuuid *uuid)
{
	memcpy(uuid->bytes, description->device_uuid, sizeof uuid->bytes);
	for (size_t i = 0; description->vgpu[i]; i++)
		uuid->bytes[15 - i % sizeof uuid->bytes] ^= description->vgpu[i];
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	struct gdev_description description;

	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(describe(device, &description));
	device_uuid(&description, uuid);
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	struct gdev_description description;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(describe(device, &description));
	*bytes = description.memory_bytes;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	return device_attribute(device, attribute, value);
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device)
{
	CUdevprop got = {0};
	const struct {
		CUdevice_attribute attribute;
		int *value;
	} wanted[] = {
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &got.maxThreadsPerBlock},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &got.maxThreadsDim[0]},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &got.maxThreadsDim[1]},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &got.maxThreadsDim[2]},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &got.maxGridSize[0]},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &got.maxGridSize[1]},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &got.maxGridSize[2]},
		{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &got.sharedMemPerBlock},
		{CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, &got.totalConstantMemory},
		{CU_DEVICE_ATTRIBUTE_WARP_SIZE, &got.SIMDWidth},
		{CU_DEVICE_ATTRIBUTE_MAX_PITCH, &got.memPitch},
		{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, &got.regsPerBlock},
		{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &got.clockRate},
		{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, &got.textureAlign},
	};

	if (!properties)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < array_length(wanted); i++)
		TRY(device_attribute(device, wanted[i].attribute, wanted[i].value));
	*properties = got;
	return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major));
	return device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor);
}

/* A virtual GPU sits on no bus: its number stands in the place of the bus's. */
CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
	struct device *found;

	if (!id || length < 1)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(device_find(device, &found));
	snprintf(id, (size_t)length, "0000:%02X:00.0", (unsigned)device);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
	unsigned domain, bus, slot, function = 0;

	if (!device || !id)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(initialised());
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
		return CUDA_ERROR_INVALID_VALUE;
	if (domain || slot || function || bus >= (unsigned)device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = (CUdevice)bus;
	return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	struct device *found;

	TRY(initialised());
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(device_find(device, &found));
	TRY(device_find(peer, &found));
	*can = 0;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(
	int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination)
{
	struct device *found;

	TRY(initialised());
	if (!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
		attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(device_find(source, &found));
	TRY(device_find(destination, &found));
	if (source == destination)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = 0;
	return CUDA_SUCCESS;
}

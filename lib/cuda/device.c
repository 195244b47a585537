/* SPDX-License-Identifier: MIT
 *
 * Devices are the virtual GPUs that the process sees. gdevd says what a device is: a program that only looks needs no
 * session, and no worker.
 *
 * Several of them may be of one card. They all have its address on the bus, because that is how other libraries (NVML)
 * find the card. The first virtual GPU of a card has the card's UUID, too, and the others have UUIDs that are made of the
 * card's and their names. Which one is the first does not depend on CUDA_VISIBLE_DEVICES.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

static pthread_mutex_t *const lock = &process_locks[LOCK_DEVICES];
static struct device devices[DEVICES_MAX];
static int device_count;      /* constant after cuInit */
static atomic_int used_count; /* devices that have, or had, a session */

/* Asks gdevd. Threads that do so at the same time are told the same. */
static CUresult device_describe(struct device *device)
{
	struct gdev_description description;
	int32_t properties[GDEV_PROPERTIES];

	if (atomic_load_explicit(&device->described, memory_order_acquire))
		return CUDA_SUCCESS;
	TRY_GDEV(gdev_vgpu_describe(device->vgpu, &description, properties),
		"the virtual GPU %.*s does not say what it is", GDEV_NAME_MAX, device->vgpu);
	pthread_mutex_lock(lock);
	if (!device->described) {
		device->description = description;
		memcpy(device->properties, properties, sizeof properties);
		atomic_store_explicit(&device->described, true, memory_order_release);
	}
	pthread_mutex_unlock(lock);
	return CUDA_SUCCESS;
}

/* The program was told which virtual GPUs to use: if one of them cannot be, no other takes its place. */
static bool vgpus_are_named(void)
{
	const char *list = getenv("GDEV_VGPU");

	return list && *list;
}

/* Which of the chosen virtual GPUs are devices of the program: of the default ones those whose cards work and take new
 * sessions. */
static CUresult find_devices(const int chosen[DEVICES_MAX], int chosen_count,
	struct device found[DEVICES_MAX], int *count)
{
	CUresult result = CUDA_SUCCESS;

	*count = 0;
	for (int i = 0; i < chosen_count; i++) {
		struct device *device = &found[*count];

		*device = (struct device){.number = chosen[i]};
		TRY_GDEV(gdev_vgpu_name(chosen[i], device->vgpu),
			"the virtual GPUs cannot be listed");
		/* Of named ones, the first that cannot be reached at all is a reason not to begin. */
		if (vgpus_are_named() && i) {
			++*count;
			continue;
		}
		result = device_describe(device);
		if (result == CUDA_SUCCESS)
			++*count;
		else if (vgpus_are_named() || result != CUDA_ERROR_DEVICE_UNAVAILABLE)
			return result;
	}
	return *count ? CUDA_SUCCESS : result;
}

/* Of threads that do it at the same time the first one says which devices there are. */
CUresult devices_init(void)
{
	struct device found[DEVICES_MAX] = {0};
	int chosen[DEVICES_MAX], count;

	TRY(find_devices(chosen, visible_devices(gdev_vgpu_count(), chosen), found, &count));
	if (!count)
		return fail(CUDA_ERROR_NO_DEVICE,
			"CUDA_VISIBLE_DEVICES hides all virtual GPUs, or there are none that can be used");
	pthread_mutex_lock(lock);
	if (!device_count) {
		memcpy(devices, found, sizeof devices);
		device_count = count;
	}
	pthread_mutex_unlock(lock);
	return CUDA_SUCCESS;
}

void devices_forget(void)
{
	memset(devices, 0, sizeof devices);
	device_count = 0;
	used_count = 0;
}

int devices_used(void)
{
	return atomic_load_explicit(&used_count, memory_order_acquire);
}

int devices_count(void)
{
	return device_count;
}

CUresult device_find(CUdevice device, struct device **found)
{
	TRY(initialised());
	if (device < 0 || device >= device_count)
		return fail(CUDA_ERROR_INVALID_DEVICE,
			"there are %d devices here, and %d is none of them", device_count, device);
	*found = &devices[device];
	return CUDA_SUCCESS;
}

/* Keeps a session for the contexts to come, instead of one that has failed. */
static void keep_session(struct device *device, struct gdev_session *session)
{
	struct gdev_session *failed = NULL;
	struct gdev_stream *lane = NULL;

	pthread_mutex_lock(lock);
	if (!device->session || gdev_session_error(device->session, NULL)) {
		failed = device->session;
		lane = steal_pointer(&device->lane);
		gdev_session_ref(session);
		device->session = session;
		if (!failed)
			atomic_fetch_add(&used_count, 1);
	}
	pthread_mutex_unlock(lock);
	gdev_stream_destroy(lane);
	gdev_session_close(failed);
}

/* Opening the same virtual GPU again gives the same session, unless it has failed. */
CUresult device_open_session(CUdevice device, struct gdev_session **session)
{
	struct device *found;

	TRY(device_find(device, &found));
	TRY_GDEV(gdev_session_open(found->vgpu, session), "the virtual GPU %.*s cannot be opened",
		GDEV_NAME_MAX, found->vgpu);
	keep_session(found, *session);
	return CUDA_SUCCESS;
}

/* Attributes that depend on this library, and not on the device. */
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
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
	{CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0},
	/* Drivers may have what follows. Here its calls are not there, or its flags and handles are refused; and another
	 * driver cannot find memory that is in the worker by an address of the program's. */
	{CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0},
	{CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 0},
	{CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 0},
	{CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
};

CUresult device_attribute(CUdevice device, CUdevice_attribute attribute, int *value)
{
	struct device *found;

	TRY(device_find(device, &found));
	if (attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "%d is no attribute of devices", (int)attribute);
	for (size_t i = 0; i < array_length(ours); i++)
		if (ours[i].attribute == attribute) {
			*value = ours[i].value;
			return CUDA_SUCCESS;
		}
	TRY(device_describe(found));
	*value = attribute < GDEV_PROPERTIES ? found->properties[attribute] : 0;
	return CUDA_SUCCESS;
}

CUresult device_property(CUdevice device, unsigned property, uint32_t *value)
{
	struct device *found;

	TRY(device_find(device, &found));
	TRY(device_describe(found));
	*value = (uint32_t)found->properties[property];
	return CUDA_SUCCESS;
}

CUresult device_description(CUdevice device, struct gdev_description *description)
{
	struct device *found;

	TRY(device_find(device, &found));
	TRY(device_describe(found));
	*description = found->description;
	return CUDA_SUCCESS;
}

/* ---- which card it is ---- */

/* Of the virtual GPUs of its card, the first one's number. */
static int first_of_card(int number, const struct gdev_description *description)
{
	struct gdev_description other;
	int32_t properties[GDEV_PROPERTIES];
	char name[GDEV_NAME_MAX];

	for (int i = 0; i < number; i++)
		if (!gdev_vgpu_name(i, name) && !gdev_vgpu_describe(name, &other, properties) &&
			!memcmp(other.device_uuid, description->device_uuid,
				sizeof other.device_uuid))
			return i;
	return number;
}

void vgpu_uuid(int number, const struct gdev_description *description, CUuuid *uuid)
{
	memcpy(uuid->bytes, description->device_uuid, sizeof uuid->bytes);
	if (first_of_card(number, description) == number)
		return;
	for (size_t i = 0; description->vgpu[i]; i++)
		uuid->bytes[15 - i % sizeof uuid->bytes] ^= description->vgpu[i];
}

/* On the PCI bus. What is no card is given an address of its own: the number of its first virtual GPU is the bus. */
struct bus_address {
	unsigned domain, bus, slot;
};

static CUresult address_of(CUdevice device, struct bus_address *address)
{
	const int32_t *properties;
	struct device *found;

	TRY(device_find(device, &found));
	TRY(device_describe(found));
	properties = found->properties;
	*address = (struct bus_address){
		(unsigned)properties[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID],
		(unsigned)properties[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
		(unsigned)properties[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID],
	};
	if (!address->domain && !address->bus && !address->slot)
		address->bus = (unsigned)first_of_card(found->number, &found->description);
	return CUDA_SUCCESS;
}

/* ---- the calls ---- */

CUresult cuDeviceGetCount(int *count)
{
	TRY(initialised());
	if (!count)
		return fail(CUDA_ERROR_INVALID_VALUE, "count is NULL");
	*count = device_count;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	struct device *found;

	if (!device)
		return fail(CUDA_ERROR_INVALID_VALUE, "device is NULL");
	TRY(device_find(ordinal, &found));
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	struct gdev_description description;

	if (!name || length < 1)
		return fail(CUDA_ERROR_INVALID_VALUE, "name is NULL, or has no room");
	TRY(device_description(device, &description));
	snprintf(name, (size_t)length, "%s", description.device_name);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	struct gdev_description description;

	if (!uuid)
		return fail(CUDA_ERROR_INVALID_VALUE, "uuid is NULL");
	TRY(device_description(device, &description));
	vgpu_uuid(devices[device].number, &description, uuid);
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	struct gdev_description description;

	if (!bytes)
		return fail(CUDA_ERROR_INVALID_VALUE, "bytes is NULL");
	TRY(device_description(device, &description));
	*bytes = description.memory_bytes;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	struct bus_address address;

	if (!value)
		return fail(CUDA_ERROR_INVALID_VALUE, "value is NULL");
	TRY(device_attribute(device, attribute, value));
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
		TRY(address_of(device, &address));
		*value = (int)address.bus;
	}
	return CUDA_SUCCESS;
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
		return fail(CUDA_ERROR_INVALID_VALUE, "properties is NULL");
	for (size_t i = 0; i < array_length(wanted); i++)
		TRY(device_attribute(device, wanted[i].attribute, wanted[i].value));
	*properties = got;
	return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	if (!major || !minor)
		return fail(CUDA_ERROR_INVALID_VALUE, "major or minor is NULL");
	TRY(device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major));
	return device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor);
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
	struct bus_address address;

	if (!id || length < 1)
		return fail(CUDA_ERROR_INVALID_VALUE, "id is NULL, or has no room");
	TRY(address_of(device, &address));
	snprintf(id, (size_t)length, "%04X:%02X:%02X.0", address.domain, address.bus, address.slot);
	return CUDA_SUCCESS;
}

/* domain:bus:device.function, domain:bus:device, or bus:device.function. */
static bool read_address(const char *id, struct bus_address *address, unsigned *function)
{
	int end = 0;

	*function = 0;
	if (sscanf(id, "%x:%x:%x.%x", &address->domain, &address->bus, &address->slot, function) >=
		3)
		return true;
	address->domain = 0;
	sscanf(id, "%x:%x.%x%n", &address->bus, &address->slot, function, &end);
	return end;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
	struct bus_address wanted, address;
	unsigned function;

	if (!device || !id)
		return fail(CUDA_ERROR_INVALID_VALUE, "device or id is NULL");
	TRY(initialised());
	if (!read_address(id, &wanted, &function))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"\"%s\" is no address on a bus (domain:bus:device.function)", id);
	for (int i = 0; i < device_count && !function; i++) {
		TRY(address_of(i, &address));
		if (memcmp(&address, &wanted, sizeof address))
			continue;
		*device = i;
		return CUDA_SUCCESS;
	}
	return fail(CUDA_ERROR_INVALID_DEVICE, "no device has the address %s", id);
}

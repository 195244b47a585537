/* SPDX-License-Identifier: MIT
 *
 * Which atomic operations a device and the host, or two devices, see each other make on the same memory.
 *
 * All that kernels have, where memory of the device is the host's own; elsewhere none: then page-locked memory lies beyond
 * a bus on which an atomic operation of one side and one of the other do not see each other.
 */
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"
#include "proto/properties.h"

#define WIDTHS (CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64)
#define INTEGER                                                                                    \
	(CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED |                             \
		CU_ATOMIC_CAPABILITY_REDUCTION | WIDTHS)
#define COUNTER                                                                                    \
	(CU_ATOMIC_CAPABILITY_UNSIGNED | CU_ATOMIC_CAPABILITY_REDUCTION |                          \
		CU_ATOMIC_CAPABILITY_SCALAR_32)

/* Of PTX's atom and red: there are no min and max of floats. */
static const unsigned native[CU_ATOMIC_OPERATION_MAX] = {
	[CU_ATOMIC_OPERATION_INTEGER_ADD] = INTEGER,
	[CU_ATOMIC_OPERATION_INTEGER_MIN] = INTEGER,
	[CU_ATOMIC_OPERATION_INTEGER_MAX] = INTEGER,
	[CU_ATOMIC_OPERATION_INTEGER_INCREMENT] = COUNTER,
	[CU_ATOMIC_OPERATION_INTEGER_DECREMENT] = COUNTER,
	[CU_ATOMIC_OPERATION_AND] = INTEGER,
	[CU_ATOMIC_OPERATION_OR] = INTEGER,
	[CU_ATOMIC_OPERATION_XOR] = INTEGER,
	[CU_ATOMIC_OPERATION_EXCHANGE] = WIDTHS,
	[CU_ATOMIC_OPERATION_CAS] = WIDTHS,
	[CU_ATOMIC_OPERATION_FLOAT_ADD] =
		CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_REDUCTION | WIDTHS,
};

static CUresult answer(unsigned *capabilities, const CUatomicOperation *operations, unsigned count,
	bool are_native)
{
	if (!capabilities || !operations || !count)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pointer is NULL, or no operation is asked about");
	for (unsigned i = 0; i < count; i++)
		if ((unsigned)operations[i] >= CU_ATOMIC_OPERATION_MAX)
			return fail(CUDA_ERROR_INVALID_VALUE, "%d is no atomic operation",
				(int)operations[i]);
	for (unsigned i = 0; i < count; i++)
		capabilities[i] = are_native ? native[operations[i]] : 0;
	return CUDA_SUCCESS;
}

CUresult atomics_with_host(CUdevice device, bool *are_native)
{
	uint32_t value;

	TRY(device_property(device, PROPERTY_HOST_NATIVE_ATOMICS, &value));
	*are_native = value;
	return CUDA_SUCCESS;
}

CUresult atomics_between(CUdevice source, CUdevice destination, bool *are_native)
{
	bool reached, first, second;

	TRY(access_reaches(source, destination, &reached));
	if (source == destination)
		return fail(CUDA_ERROR_INVALID_DEVICE, "the two devices are the same one");
	TRY(atomics_with_host(source, &first));
	TRY(atomics_with_host(destination, &second));
	*are_native = reached && first && second;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
	const CUatomicOperation *operations, unsigned int count, CUdevice device)
{
	bool are_native;

	TRY(initialised());
	TRY(atomics_with_host(device, &are_native));
	return answer(capabilities, operations, count, are_native);
}

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
	const CUatomicOperation *operations, unsigned int count, CUdevice source,
	CUdevice destination)
{
	bool are_native;

	TRY(initialised());
	TRY(atomics_between(source, destination, &are_native));
	return answer(capabilities, operations, count, are_native);
}

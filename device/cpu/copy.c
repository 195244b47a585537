/* SPDX-License-Identifier: MIT
 *
 * The copy engines' work: slices of copies. A slice is short enough that nobody waits for long behind
 * it, and long enough that taking it costs nothing (100 us at 10 GB/s).
 */
#include "device/cpu/cpu.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/copy.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/fault.h"

#define SLICE_BYTES (1ull << 20)
#define BYTES_PER_NS 10.0
#define SLICE_ROWS 16384 /* of a copy whose rows are a few bytes each */

void cpu_copy_start(
	struct device_space *space, struct cpu_copy *copy, const struct device_copy *command)
{
	struct device_copy *s = &copy->shape;

	*copy = (struct cpu_copy){.shape = *command, .checking = space->checking};
	if (s->height == 1) { /* slices are the rows */
		s->height = s->depth;
		s->depth = 1;
		s->destination_pitch = s->destination_slice;
		s->source_pitch = s->source_slice;
	} else if (s->destination_slice == s->height * s->destination_pitch &&
		   s->source_slice == s->height * s->source_pitch) {
		s->height *= s->depth;
		s->depth = 1;
	}
	if (s->depth <= 1 && s->destination_pitch == s->width && s->source_pitch == s->width) {
		s->width *= s->height;
		s->height = 1;
	}
	if (!s->width || !s->height || !s->depth)
		s->width = s->height = s->depth = 0;
}

static void slice(void *argument)
{
	struct cpu_copy *copy = argument;
	const struct device_copy *s = &copy->shape;
	uint64_t left = SLICE_BYTES, rows = SLICE_ROWS, all = s->height * s->depth;
	bool streaming = s->width >= COPY_STREAM_ROW_BYTES && s->width * all >= COPY_STREAM_BYTES;

	while (copy->row < all && left && rows--) {
		uint64_t z = copy->row / s->height, y = copy->row % s->height;
		uint64_t some = min_of(left, s->width - copy->offset);

		void *to = (void *)(s->destination + z * s->destination_slice +
				    y * s->destination_pitch + copy->offset);
		const void *from = (const void *)(s->source + z * s->source_slice +
						  y * s->source_pitch + copy->offset);

		if (streaming)
			copy_streaming(to, from, some);
		else
			copy_cached(to, from, some);
		if (copy->checking)
			checking_define(copy->checking, (uint64_t)(uintptr_t)to, some);
		left -= some;
		copy->offset += some;
		if (copy->offset == s->width) {
			copy->offset = 0;
			copy->row++;
		}
	}
}

double cpu_copy_slice_ns(const struct cpu_copy *copy)
{
	const struct device_copy *s = &copy->shape;
	uint64_t bytes = s->width * s->height * s->depth;

	return (double)min_of(bytes, (uint64_t)SLICE_BYTES) / BYTES_PER_NS;
}

int cpu_copy_slice(struct cpu_copy *copy, uint64_t *fault_address)
{
	int error = fault_run(slice, copy, fault_address);

	return error ? error : copy->row >= copy->shape.height * copy->shape.depth;
}

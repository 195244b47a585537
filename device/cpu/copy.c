/* SPDX-License-Identifier: MIT
 *
 * The copy engines' work: slices of copies. A slice is short enough that nobody waits for long behind
 * it, and long enough that taking it costs nothing (100 us at 10 GB/s).
 */
#include "device/cpu/cpu.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/cleanup.h"
#include "device/cpu/fault.h"

#define SLICE_BYTES (1ull << 20)
#define SLICE_ROWS 16384 /* of a copy whose rows are a few bytes each */
/* From here on a copy goes past the caches, which saves reading what it overwrites: twice as fast where
 * it does not fit them, and up to twice as slow where it does. The C library cannot know: it sees slices. */
#define STREAM_BYTES (16ull << 20)
#define STREAM_ROW_BYTES 4096

void cpu_copy_start(struct cpu_copy *copy, const struct device_copy *command)
{
	struct device_copy *s = &copy->shape;

	*copy = (struct cpu_copy){.shape = *command};
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

#if defined(__SSE2__)
static void copy_streaming(void *destination, const void *source, size_t bytes)
{
	char *to = destination;
	const char *from = source;
	size_t head = min_of(-(uintptr_t)to % 64, bytes);

	memcpy(to, from, head);
	for (to += head, from += head, bytes -= head; bytes >= 64;
		to += 64, from += 64, bytes -= 64) {
		__m128i a = _mm_loadu_si128((const __m128i *)from);
		__m128i b = _mm_loadu_si128((const __m128i *)from + 1);
		__m128i c = _mm_loadu_si128((const __m128i *)from + 2);
		__m128i d = _mm_loadu_si128((const __m128i *)from + 3);

		_mm_stream_si128((__m128i *)to, a);
		_mm_stream_si128((__m128i *)to + 1, b);
		_mm_stream_si128((__m128i *)to + 2, c);
		_mm_stream_si128((__m128i *)to + 3, d);
	}
	memcpy(to, from, bytes);
	_mm_sfence(); /* or what follows, on another core, could miss it */
}
#else
static void copy_streaming(void *destination, const void *source, size_t bytes)
{
	memcpy(destination, source, bytes);
}
#endif

static void slice(void *argument)
{
	struct cpu_copy *copy = argument;
	const struct device_copy *s = &copy->shape;
	uint64_t left = SLICE_BYTES, rows = SLICE_ROWS, all = s->height * s->depth;
	bool streaming = s->width >= STREAM_ROW_BYTES && s->width * all >= STREAM_BYTES;

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
			memcpy(to, from, some);
		left -= some;
		copy->offset += some;
		if (copy->offset == s->width) {
			copy->offset = 0;
			copy->row++;
		}
	}
}

int cpu_copy_slice(struct cpu_copy *copy, uint64_t *fault_address)
{
	int error = fault_run(slice, copy, fault_address);

	return error ? error : copy->row >= copy->shape.height * copy->shape.depth;
}

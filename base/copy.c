/* SPDX-License-Identifier: MIT
 *
 * See copy.h.
 */
#include "base/copy.h"

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/cleanup.h"

#if defined(__SSE2__)
void copy_cached(void *destination, const void *source, size_t bytes)
{
	size_t ahead = ((uintptr_t)destination - (uintptr_t)source) % 4096;
	char *to = destination;
	const char *from = source;

	for (; ahead && ahead < 64 && bytes >= 64; to += 64, from += 64, bytes -= 64) {
		__m128i a = _mm_loadu_si128((const __m128i *)from);
		__m128i b = _mm_loadu_si128((const __m128i *)from + 1);
		__m128i c = _mm_loadu_si128((const __m128i *)from + 2);
		__m128i d = _mm_loadu_si128((const __m128i *)from + 3);

		_mm_storeu_si128((__m128i *)to, a);
		_mm_storeu_si128((__m128i *)to + 1, b);
		_mm_storeu_si128((__m128i *)to + 2, c);
		_mm_storeu_si128((__m128i *)to + 3, d);
	}
	memcpy(to, from, bytes);
}

void copy_streaming(void *destination, const void *source, size_t bytes)
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
	_mm_sfence();
}
#else
void copy_cached(void *destination, const void *source, size_t bytes)
{
	memcpy(destination, source, bytes);
}

void copy_streaming(void *destination, const void *source, size_t bytes)
{
	memcpy(destination, source, bytes);
}
#endif

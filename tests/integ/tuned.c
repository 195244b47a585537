/* SPDX-License-Identifier: MIT
 *
 * Prints what a session copies with: inline_bytes, chunk_bytes and copy_threads, and whether a copy of
 * some megabytes there and back is right.
 */
#include <gdev/session.h>

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (9u << 20)

static int failed(int error)
{
	if (error)
		fprintf(stderr, "tuned: %s\n", gdev_strerror(error));
	return error;
}

int main(void)
{
	static const enum gdev_query queries[] = {
		GDEV_QUERY_INLINE_BYTES, GDEV_QUERY_CHUNK_BYTES, GDEV_QUERY_COPY_THREADS};
	uint8_t *there = malloc(BYTES), *back = calloc(1, BYTES);
	struct gdev_session *session;
	struct gdev_stream *stream;
	struct gdev_copy copy;
	uint64_t device, value;

	if (!there || !back || failed(gdev_session_open(NULL, &session)) ||
		failed(gdev_stream_create(session, 0, &stream)) ||
		failed(gdev_memory_alloc(session, BYTES, &device)))
		return 1;
	for (unsigned i = 0; i < 3; i++) {
		if (failed(gdev_session_query(session, queries[i], &value)))
			return 1;
		printf("%" PRIu64 "%c", value, i < 2 ? ' ' : '\n');
	}
	for (uint32_t i = 0; i < BYTES; i++)
		there[i] = (uint8_t)(i * 7 + i / 4096);
	copy = gdev_copy_linear(device, (uintptr_t)there, BYTES);
	if (failed(gdev_copy(stream, &copy)))
		return 1;
	copy = gdev_copy_linear((uintptr_t)back, device, BYTES);
	if (failed(gdev_copy(stream, &copy)))
		return 1;
	if (memcmp(there, back, BYTES)) {
		fprintf(stderr, "tuned: what came back is not what went there\n");
		return 1;
	}
	gdev_stream_destroy(stream);
	gdev_session_close(session);
	free(there);
	free(back);
	return 0;
}

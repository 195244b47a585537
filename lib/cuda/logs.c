/* SPDX-License-Identifier: MIT
 *
 * What the library has to say beyond results, as CUDA's calls for logs give it out: the last messages, and
 * functions of the program that get each.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lib/cuda/internal.h"

#define LINES 100
#define LINE_BYTES 256
#define CALLBACKS_MAX 16 /* that are told; who comes later hears nothing */

struct CUlogsCallbackEntry_st {
	uint32_t handle_word;
	struct list link;
	CUlogsCallback function;
	void *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct list callbacks = {&callbacks, &callbacks};
static char lines[LINES][LINE_BYTES];
static unsigned count; /* messages so far; the last LINES of them are there */

void logs_say(CUlogLevel level, const char *function, const char *text)
{
	struct CUlogsCallbackEntry_st told[CALLBACKS_MAX];
	CUlogsCallbackHandle callback;
	char line[LINE_BYTES];
	unsigned tell = 0;

	log_warning("%s: %s", function, text);
	snprintf(line, sizeof line, "[%.6f][CUDA][%c][%s] %s\n", (double)clock_now_ns() / NS_PER_S,
		level == CU_LOG_LEVEL_ERROR ? 'E' : 'W', function, text);
	pthread_mutex_lock(&lock);
	memcpy(lines[count++ % LINES], line, sizeof line);
	list_for_each (callback, &callbacks, link)
		if (tell < CALLBACKS_MAX)
			told[tell++] = *callback;
	pthread_mutex_unlock(&lock);
	/* Without the lock: a callback may call CUDA. */
	for (unsigned i = 0; i < tell; i++)
		told[i].function(told[i].data, level, line, strlen(line));
}

CUresult cuLogsRegisterCallback(CUlogsCallback function, void *data, CUlogsCallbackHandle *created)
{
	CUlogsCallbackHandle callback;

	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	callback = handle_create(HANDLE_LOG_CALLBACK, sizeof *callback);
	if (!callback)
		return CUDA_ERROR_OUT_OF_MEMORY;
	callback->function = function;
	callback->data = data;
	pthread_mutex_lock(&lock);
	list_append(&callbacks, &callback->link);
	pthread_mutex_unlock(&lock);
	if (created)
		*created = callback;
	return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	if (!handle_is(HANDLE_LOG_CALLBACK, callback))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	list_remove(&callback->link);
	pthread_mutex_unlock(&lock);
	handle_destroy(HANDLE_LOG_CALLBACK, callback);
	return CUDA_SUCCESS;
}

CUresult cuLogsCurrent(CUlogIterator *iterator, unsigned int flags)
{
	if (!iterator)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*iterator = count;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* Where a dump begins; the iterator then stands at the end. With the lock. */
static unsigned first_line(CUlogIterator *iterator)
{
	unsigned oldest = count > LINES ? count - LINES : 0, first = oldest;

	if (iterator) {
		first = min_of(max_of(*iterator, oldest), count);
		*iterator = count;
	}
	return first;
}

CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *path, unsigned int flags)
{
	FILE *file;

	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	file = fopen(path, "ae");
	if (!file)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	for (unsigned i = first_line(iterator); i < count; i++)
		fputs(lines[i % LINES], file);
	pthread_mutex_unlock(&lock);
	return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* What does not fit is cut at the front: the newest is worth most. */
CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	size_t used = 0;

	if (!buffer || !size || !*size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	unsigned first = first_line(iterator), from = count;
	while (from > first && used + strlen(lines[(from - 1) % LINES]) < *size)
		used += strlen(lines[--from % LINES]);
	used = 0;
	for (unsigned i = from; i < count; i++) {
		size_t length = strlen(lines[i % LINES]);
		memcpy(buffer + used, lines[i % LINES], length);
		used += length;
	}
	pthread_mutex_unlock(&lock);
	buffer[used] = '\0';
	*size = used;
	return CUDA_SUCCESS;
}

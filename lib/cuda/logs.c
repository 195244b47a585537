/* SPDX-License-Identifier: MIT
 *
 * What the library has to say beyond results, as CUDA's calls for logs give it out: the last messages, and
 * functions of the program that get each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lib/cuda/internal.h"

#define LINES 100
#define LINE_BYTES 256
#define CALLBACKS_MAX 16 /* that are told; later ones hear nothing */

struct CUlogsCallbackEntry_st {
	uint32_t handle_word;
	struct list link;
	CUlogsCallback function;
	void *data;
};

/* Guards what follows. */
static pthread_mutex_t *const lock = &process_locks[LOCK_LOGS];
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
	pthread_mutex_lock(lock);
	memcpy(lines[count++ % LINES], line, sizeof line);
	list_for_each (callback, &callbacks, link)
		if (tell < CALLBACKS_MAX)
			told[tell++] = *callback;
	pthread_mutex_unlock(lock);
	/* Without the lock: a callback may call CUDA. */
	for (unsigned i = 0; i < tell; i++)
		told[i].function(told[i].data, level, line, strlen(line));
}

CUresult cuLogsRegisterCallback(CUlogsCallback function, void *data, CUlogsCallbackHandle *created)
{
	CUlogsCallbackHandle callback;

	if (!function)
		return fail(CUDA_ERROR_INVALID_VALUE, "function is NULL");
	callback = handle_create(HANDLE_LOG_CALLBACK, sizeof *callback);
	if (!callback)
		return no_memory();
	callback->function = function;
	callback->data = data;
	pthread_mutex_lock(lock);
	list_append(&callbacks, &callback->link);
	pthread_mutex_unlock(lock);
	if (created)
		*created = callback;
	return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	if (!handle_is(HANDLE_LOG_CALLBACK, callback))
		return fail(CUDA_ERROR_INVALID_VALUE, "%p is no function that is told",
			(void *)callback);
	pthread_mutex_lock(lock);
	list_remove(&callback->link);
	pthread_mutex_unlock(lock);
	handle_destroy(HANDLE_LOG_CALLBACK, callback);
	return CUDA_SUCCESS;
}

CUresult cuLogsCurrent(CUlogIterator *iterator, unsigned int flags)
{
	if (!iterator)
		return fail(CUDA_ERROR_INVALID_VALUE, "iterator is NULL");
	pthread_mutex_lock(lock);
	*iterator = count;
	pthread_mutex_unlock(lock);
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
	char(*copy)[LINE_BYTES];
	unsigned first, end;
	FILE *file;

	if (!path)
		return fail(CUDA_ERROR_INVALID_VALUE, "path is NULL");
	file = fopen(path, "ae");
	if (!file)
		return fail(CUDA_ERROR_INVALID_VALUE, "%s cannot be written: %m", path);
	copy = malloc(sizeof lines);
	if (!copy) {
		fclose(file);
		return no_memory();
	}
	pthread_mutex_lock(lock);
	first = first_line(iterator);
	end = count;
	memcpy(copy, lines, sizeof lines);
	pthread_mutex_unlock(lock);
	for (unsigned i = first; i < end; i++)
		fputs(copy[i % LINES], file);
	free(copy);
	return fclose(file) ? fail(CUDA_ERROR_OPERATING_SYSTEM, "%s cannot be written: %m", path)
			    : CUDA_SUCCESS;
}

/* Messages that do not fit are cut off at the front: the newest are worth most. */
CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	size_t used = 0;

	if (!buffer || !size || !*size || flags)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"buffer or size is NULL, the buffer has no room, or flags are not 0");
	pthread_mutex_lock(lock);
	unsigned first = first_line(iterator), from = count;
	while (from > first && used + strlen(lines[(from - 1) % LINES]) < *size)
		used += strlen(lines[--from % LINES]);
	used = 0;
	for (unsigned i = from; i < count; i++) {
		size_t length = strlen(lines[i % LINES]);
		memcpy(buffer + used, lines[i % LINES], length);
		used += length;
	}
	pthread_mutex_unlock(lock);
	buffer[used] = '\0';
	*size = used;
	return CUDA_SUCCESS;
}

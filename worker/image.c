/* SPDX-License-Identifier: MIT
 *
 * See image.h.
 */
#include "worker/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdev/error.h"
#include "proto/peer.h"
#include "worker/core.h"

int image_copy(const void *bytes, uint64_t length, struct image *image)
{
	char *copy = malloc(length + IMAGE_ZEROS);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, length);
	memset(copy + length, 0, IMAGE_ZEROS);
	*image = (struct image){.bytes = copy, .length = length};
	return 0;
}

void image_finish(struct image *image)
{
	if (image->mapped_bytes)
		munmap((void *)image->bytes, image->mapped_bytes);
	else
		free((void *)image->bytes);
	*image = (struct image){0};
}

static int map_image(int fd, uint64_t length, struct image *image)
{
	static const char zeros[IMAGE_ZEROS];
	uint64_t size;
	void *bytes;

	if (!length || fd_frozen_memory_size(fd, &size) || size < IMAGE_ZEROS ||
		length != size - IMAGE_ZEROS)
		return -EINVAL;
	bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	*image = (struct image){bytes, length, size};
	if (!memcmp((const char *)bytes + length, zeros, IMAGE_ZEROS))
		return 0;
	image_finish(image);
	return -EINVAL;
}

/* With the lock. */
static int keep_image(struct core *core, const struct image *image, uint64_t *number)
{
	if (image->mapped_bytes > core->config.host_bytes - core->memory.host_bytes)
		return -ENOMEM;
	for (size_t i = 0; i < IMAGES_WAITING; i++) {
		if (core->images[i].bytes)
			continue;
		core->images[i] = *image;
		core->memory.host_bytes += image->mapped_bytes;
		*number = i + 1;
		return 0;
	}
	return -EMFILE;
}

int image_add(struct core *core, int fd, uint64_t length, uint64_t *number)
{
	struct image image;
	int error = map_image(fd, length, &image);

	if (error)
		return error;
	core_lock(core);
	error = keep_image(core, &image, number);
	core_unlock(core);
	if (error)
		image_finish(&image);
	return error;
}

int image_take(struct core *core, uint64_t number, struct image *image)
{
	if (!number || number > IMAGES_WAITING || !core->images[number - 1].bytes)
		return -GDEV_E_INVALID_HANDLE;
	*image = core->images[number - 1];
	core->images[number - 1] = (struct image){0};
	return 0;
}

void images_finish(struct core *core)
{
	for (size_t i = 0; i < IMAGES_WAITING; i++)
		image_finish(&core->images[i]);
}

/* SPDX-License-Identifier: MIT
 *
 * Copies of images that are kept until they are loaded, if ever: in a memfd that a worker can use where it is, so that the
 * copy for the program and the one for the worker are the same. Its descriptor is kept until it has been sent once. Small
 * ones are copied anyway when they are loaded.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/libgdev/internal.h"
#include "lib/libgdev/module.h"
#include "proto/peer.h"

#define SMALL_BYTES (512u << 10)
#define DESCRIPTORS_MAX 32 /* a program has few, and many libraries */

struct gdev_image {
	void *bytes;
	size_t length;
	bool mapped;
	atomic_int fd; /* -1: it was sent, or is not kept */
};

static atomic_int descriptors;

static const char zeros[IMAGE_ZEROS];

static void drop_descriptor(struct gdev_image *image)
{
	int fd = atomic_exchange(&image->fd, -1);

	if (fd < 0)
		return;
	close(fd);
	atomic_fetch_sub(&descriptors, 1);
}

static int map_copy(struct gdev_image *image, const void *bytes)
{
	int fd = fd_frozen_memory("gdev-image", bytes, image->length, zeros, sizeof zeros);

	if (fd < 0)
		return fd;
	image->bytes = mmap(NULL, image->length, PROT_READ, MAP_SHARED, fd, 0);
	if (image->bytes == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	image->mapped = true;
	atomic_store(&image->fd, fd);
	if (atomic_fetch_add(&descriptors, 1) >= DESCRIPTORS_MAX)
		drop_descriptor(image);
	return 0;
}

int gdev_image_create(const void *bytes, size_t length, struct gdev_image **created)
{
	struct gdev_image *image = calloc(1, sizeof *image);
	int error = 0;

	if (!image)
		return -ENOMEM;
	image->length = length;
	atomic_init(&image->fd, -1);
	if (length > SMALL_BYTES)
		error = map_copy(image, bytes);
	if (!image->mapped) { /* also where there are no descriptors left */
		image->bytes = malloc(length);
		error = image->bytes ? 0 : -ENOMEM;
		if (!error)
			memcpy(image->bytes, bytes, length);
	}
	if (error)
		free(image);
	else
		*created = image;
	return error;
}

void gdev_image_destroy(struct gdev_image *image)
{
	if (!image)
		return;
	drop_descriptor(image);
	if (image->mapped)
		munmap(image->bytes, image->length);
	else
		free(image->bytes);
	free(image);
}

const void *gdev_image_bytes(const struct gdev_image *image)
{
	return image->bytes;
}

size_t image_length(const struct gdev_image *image)
{
	return image->length;
}

int image_send(struct gdev_session *session, struct gdev_image *image, const void *bytes,
	size_t length, uint64_t *number)
{
	struct transport *transport = session->transport;
	int kept = image ? atomic_load(&image->fd) : -1, error, fd;

	if (transport->ops->image_copy)
		return transport->ops->image_copy(transport, bytes, length, number);
	fd = kept >= 0 ? kept : fd_frozen_memory("gdev-image", bytes, length, zeros, sizeof zeros);
	if (fd < 0)
		return fd;
	error = transport->ops->image_add(transport, length, fd, number);
	if (kept < 0)
		close(fd);
	else if (!error)
		drop_descriptor(image);
	return error;
}

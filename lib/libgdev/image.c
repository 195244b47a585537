/* SPDX-License-Identifier: MIT
 *
 * Images that are kept until they are loaded, if ever. A copy is in a memfd that a worker can use where it is, so that the
 * copy for the program and the one for the worker are the same. Its descriptor is kept until it has been sent once. Of what
 * the program keeps, there is no copy until then.
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

static int frozen_copy(const struct gdev_image *image)
{
	return fd_frozen_memory("gdev-image", image->parts, image->count, zeros, sizeof zeros);
}

void image_write(const struct gdev_image *image, void *to)
{
	char *at = to;

	for (size_t i = 0; i < image->count; at += image->parts[i++].iov_len)
		memcpy(at, image->parts[i].iov_base, image->parts[i].iov_len);
}

/* From here on it has one part, its own. */
static void own(struct gdev_image *image, void *bytes)
{
	image->parts[0] = (struct iovec){bytes, image->length};
	image->count = 1;
}

static int map_copy(struct gdev_image *image)
{
	int fd = frozen_copy(image);
	void *bytes;

	if (fd < 0)
		return fd;
	bytes = mmap(NULL, image->length, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	own(image, bytes);
	image->mapped = true;
	atomic_store(&image->fd, fd);
	if (atomic_fetch_add(&descriptors, 1) >= DESCRIPTORS_MAX)
		drop_descriptor(image);
	return 0;
}

static int copy_parts(struct gdev_image *image)
{
	void *bytes;

	/* A small one is copied anyway when it is loaded, and there may be no descriptors left. */
	if (image->length > SMALL_BYTES && !map_copy(image))
		return 0;
	bytes = malloc(image->length);
	if (!bytes)
		return -ENOMEM;
	image_write(image, bytes);
	own(image, bytes);
	image->allocated = true;
	return 0;
}

int gdev_image_gather(
	const struct iovec *parts, size_t count, bool copied, struct gdev_image **created)
{
	struct gdev_image *image = calloc(1, sizeof *image);
	int error = -ENOMEM;

	if (!image)
		return -ENOMEM;
	atomic_init(&image->fd, -1);
	image->parts = calloc(count, sizeof *parts);
	if (image->parts) {
		memcpy(image->parts, parts, count * sizeof *parts);
		image->count = count;
		for (size_t i = 0; i < count; i++)
			image->length += parts[i].iov_len;
		error = copied ? copy_parts(image) : 0;
	}
	if (error)
		gdev_image_destroy(image);
	else
		*created = image;
	return error;
}

int gdev_image_create(const void *bytes, size_t length, struct gdev_image **image)
{
	const struct iovec part = {(void *)(uintptr_t)bytes, length};

	return gdev_image_gather(&part, 1, true, image);
}

void gdev_image_destroy(struct gdev_image *image)
{
	if (!image)
		return;
	drop_descriptor(image);
	if (image->mapped)
		munmap(image->parts[0].iov_base, image->length);
	else if (image->allocated)
		free(image->parts[0].iov_base);
	free(image->parts);
	free(image);
}

const void *gdev_image_bytes(const struct gdev_image *image)
{
	return image->parts[0].iov_base;
}

/* For a transport that takes it in one piece. */
static int copy_image(struct transport *transport, const struct gdev_image *image, uint64_t *number)
{
	autofree void *whole = NULL;

	if (image->count == 1)
		return transport->ops->image_copy(
			transport, image->parts[0].iov_base, image->length, number);
	whole = malloc(image->length);
	if (!whole)
		return -ENOMEM;
	image_write(image, whole);
	return transport->ops->image_copy(transport, whole, image->length, number);
}

int image_send(struct gdev_session *session, struct gdev_image *image, uint64_t *number)
{
	struct transport *transport = session->transport;
	int kept = atomic_load(&image->fd), error, fd;

	if (transport->ops->image_copy)
		return copy_image(transport, image, number);
	fd = kept >= 0 ? kept : frozen_copy(image);
	if (fd < 0)
		return fd;
	error = transport->ops->image_add(transport, image->length, fd, number);
	if (kept < 0)
		close(fd);
	else if (!error)
		drop_descriptor(image);
	return error;
}

int image_send_bytes(
	struct gdev_session *session, const void *bytes, size_t length, uint64_t *number)
{
	struct iovec part = {(void *)(uintptr_t)bytes, length};
	struct gdev_image image = {.parts = &part, .count = 1, .length = length, .fd = -1};

	return image_send(session, &image, number);
}

/* SPDX-License-Identifier: MIT
 *
 * What module.c and launch.c share.
 */
#ifndef GDEV_LIB_MODULE_H
#define GDEV_LIB_MODULE_H

#include "lib/libgdev/internal.h"

struct gdev_module {
	struct gdev_session *session;
	uint32_t handle;
	bool wants_text;
	uint64_t managed, managed_bytes; /* page-locked memory for its variables, or 0 */
	pthread_mutex_t lock;            /* guards functions */
	struct list functions;
};

/* What a launch is checked against, so that it fails at once and not in the stream. */
struct launch_limits {
	uint32_t grid[3], block[3], block_threads;
	uint32_t dynamic_shared_bytes;
};

struct gdev_function {
	struct list link;
	struct gdev_module *module;
	uint32_t handle;
	struct launch_limits limits;
	struct gdev_function_info info;
	struct gdev_param params[];
};

/* image.c */
struct gdev_image {
	struct iovec *parts; /* one behind the other */
	size_t count, length;
	bool mapped, allocated; /* where the only part is its own */
	atomic_int fd;          /* of what is mapped; -1: it was sent, or is not kept */
};

/* All of it, one part behind the other. */
void image_write(const struct gdev_image *image, void *to);
/* Gives the worker an image that it uses where it is. Not two at once of one that was copied. */
int image_send(struct gdev_session *session, struct gdev_image *image, uint64_t *number);
int image_send_bytes(
	struct gdev_session *session, const void *bytes, size_t length, uint64_t *number);

/* launch.c. On failure the function is freed. */
int function_limits_init(struct gdev_function *function);

/* The same, as a whole record, malloc'ed; its header says what it is, and how long. */
int launch_record(struct gdev_session *session, const struct gdev_launch *launch,
	struct record_launch **record);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Connectors: how a session is opened, and a virtual GPU described, by who serves it. See connect.c.
 */
#ifndef GDEV_LIB_CONNECT_H
#define GDEV_LIB_CONNECT_H

#include "lib/libgdev/internal.h"

struct connector {
	const char *name;
	/* Whether there is a virtual GPU of that name. Without waiting. */
	bool (*serves)(const char *vgpu);
	/* As connect_open() and connect_describe() of internal.h. */
	int (*open)(struct opening *opening, struct gdev_description *description,
		struct terms *terms, struct transport **transport);
	int (*describe)(struct opening *opening, struct gdev_description *description,
		int32_t properties[DEVICE_PROPERTIES]);
};

extern const struct connector connector_shm, connector_vm;

#endif

/* SPDX-License-Identifier: MIT
 *
 * On which device a session of a virtual GPU of any device begins. A placement is a policy: it compares two devices,
 * and knows nothing else. Pure, so that tests play tables and a simulation to it; placing.c looks at the devices.
 */
#ifndef GDEV_GDEVD_PLACEMENT_H
#define GDEV_GDEVD_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#define PLACEMENT_NO_NODE (-1)

struct placement_device {
	bool closed; /* takes no new sessions */
	bool failing;
	uint64_t memory_bytes, free_bytes;
	uint64_t context_bytes; /* that a session takes of these at once */
	double load; /* the part of the last second in which virtual GPUs that are not below the
				 * session's in priority computed */
	unsigned sessions; /* of these virtual GPUs */
	int node;          /* of processors that are near to it, or PLACEMENT_NO_NODE */
};

struct placement_client {
	int node; /* where it runs, or PLACEMENT_NO_NODE */
};

struct placement {
	/* Whether the session should rather be on `one` than on `other`. Neither is closed. */
	bool (*better)(const struct placement_client *client, const struct placement_device *one,
		const struct placement_device *other);
};

/* Where there is room, and least load. */
extern const struct placement placement_room;

/* The index of the best device, of equal ones the first; -1: all are closed. */
int placement_choose(const struct placement *placement, const struct placement_client *client,
	const struct placement_device *devices, unsigned count);

#endif

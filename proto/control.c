/* SPDX-License-Identifier: MIT
 *
 * See check.h: control messages.
 */
#include "proto/control.h"

#include <errno.h>
#include <string.h>

#include "gdev/error.h"
#include "proto/check.h"
#include "proto/session.h"

struct control_shape {
	const char *name;
	uint32_t bytes;
	int fixed;
};

static const struct control_shape shapes[] = {
#define SHAPE(name, value, type, fixed) [value] = {#name, sizeof(type), fixed},
	CONTROLS(SHAPE)
#undef SHAPE
};

static const struct control_shape *find_shape(uint16_t type)
{
	if (type >= sizeof shapes / sizeof shapes[0] || !shapes[type].name)
		return NULL;
	return &shapes[type];
}

int control_check(const void *bytes, size_t length)
{
	struct control_header header;
	const struct control_shape *shape;

	if (length < sizeof header || length > CONTROL_BYTES_MAX)
		return -EINVAL;
	memcpy(&header, bytes, sizeof header);
	shape = find_shape(header.type);
	if (!shape || header.length != length || length < shape->bytes)
		return -EINVAL;
	if (shape->fixed && length != shape->bytes)
		return -EINVAL;
	if (header.status < CONTROL_STATUS_MIN)
		return -EINVAL;
	/* A HELLO comes before the versions are agreed on. */
	if (header.version != CONTROL_VERSION && header.type != CONTROL_HELLO)
		return -EINVAL;
	return 0;
}

const char *control_type_name(uint16_t type)
{
	const struct control_shape *shape = find_shape(type);

	return shape ? shape->name : "unknown";
}

int session_version_choose(uint32_t min, uint32_t max, uint32_t *version)
{
	uint32_t newest = max < SESSION_VERSION_MAX ? max : SESSION_VERSION_MAX;

	if (min > max || newest < min || newest < SESSION_VERSION_MIN)
		return -GDEV_E_PROTOCOL;
	*version = newest;
	return 0;
}

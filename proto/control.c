/* SPDX-License-Identifier: MIT
 *
 * See check.h: control messages.
 */
#include "proto/control.h"

#include <errno.h>
#include <stdbool.h>
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

#define SHAPES (sizeof shapes / sizeof shapes[0])

/* Of bytes, which are added up: so many 64-bit words from the header on. */
static const uint8_t amounts[SHAPES] = {
	[CONTROL_ALLOCATE] = 3,
	[CONTROL_ROOM] = 1,
	[CONTROL_SLOT] = 1,
	[CONTROL_CHARGED] = 3,
	[CONTROL_RETURN] = 3,
	[CONTROL_EVICT] = 2,
};

static const struct control_shape *find_shape(uint16_t type)
{
	if (type >= SHAPES || !shapes[type].name)
		return NULL;
	return &shapes[type];
}

static bool amounts_make_sense(const struct control_header *header, const uint8_t *body)
{
	uint64_t bytes;

	for (unsigned i = 0; i < amounts[header->type]; i++) {
		memcpy(&bytes, body + i * sizeof bytes, sizeof bytes);
		if (bytes > CONTROL_AMOUNT_MAX)
			return false;
	}
	return true;
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
	return amounts_make_sense(&header, (const uint8_t *)bytes + sizeof header) ? 0 : -EINVAL;
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

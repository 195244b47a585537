/* SPDX-License-Identifier: MIT
 *
 * The virtual GPUs that this process sees, and who serves them: the device of a virtual machine, or a gdevd of this
 * machine. Each has a connector, which ends with a transport.
 */
#include "lib/libgdev/connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "lib/libgdev/internal.h"

/* In a virtual machine the device is meant, even if a gdevd runs there, too; $GDEV_RUNTIME_DIR chooses the gdevd. */
static const struct connector *const connectors[] = {&connector_vm, &connector_shm};

static const struct connector *find_connector(const char *vgpu)
{
	for (size_t i = 0; i < array_length(connectors); i++)
		if (connectors[i]->serves(vgpu))
			return connectors[i];
	return NULL;
}

/* The index-th name of the list in $GDEV_VGPU. */
static int listed_name(const char *list, int index, char name[GDEV_NAME_MAX])
{
	for (; *list; index--) {
		size_t length = strcspn(list, ",");
		if (index == 0) {
			if (!length || length >= GDEV_NAME_MAX)
				return -EINVAL;
			memcpy(name, list, length);
			name[length] = '\0';
			return 0;
		}
		list += length + (list[length] == ',');
	}
	return -ENODEV;
}

int gdev_vgpu_name(int index, char name[GDEV_NAME_MAX])
{
	const char *list = getenv("GDEV_VGPU");
	char numbered[GDEV_NAME_MAX];

	if (index < 0)
		return -ENODEV;
	if (list && *list)
		return listed_name(list, index, name);
	snprintf(numbered, sizeof numbered, "gdev%d", index);
	/* The first one is worth an error message that says what is wrong with it. */
	if (index > 0 && !find_connector(numbered))
		return -ENODEV;
	memcpy(name, numbered, sizeof numbered);
	return 0;
}

int gdev_vgpu_count(void)
{
	const char *list = getenv("GDEV_VGPU");
	char name[GDEV_NAME_MAX];
	int count = 0;

	if (!(list && *list) && !find_connector("gdev0"))
		return 0;
	while (gdev_vgpu_name(count, name) == 0)
		count++;
	return count;
}

/* A name that nobody serves is gdevd's to complain of: it may be restarting. In a virtual machine there is none. */
static const struct connector *connector_of(const char *vgpu)
{
	const struct connector *found = find_connector(vgpu);

	if (found)
		return found;
	return connector_vm.serves("gdev0") ? &connector_vm : &connector_shm;
}

static bool name_is_valid(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	return length && length < GDEV_NAME_MAX && !name[length] && name[0] >= 'a' &&
	       name[0] <= 'z';
}

int connect_open(struct opening *opening, struct gdev_description *description, struct terms *terms,
	struct transport **transport)
{
	if (!name_is_valid(opening->vgpu))
		return -EINVAL;
	return connector_of(opening->vgpu)->open(opening, description, terms, transport);
}

int connect_describe(struct opening *opening, struct gdev_description *description,
	int32_t properties[DEVICE_PROPERTIES])
{
	if (!name_is_valid(opening->vgpu))
		return -EINVAL;
	return connector_of(opening->vgpu)->describe(opening, description, properties);
}

/* SPDX-License-Identifier: MIT
 *
 * CUDA_VISIBLE_DEVICES: which of the virtual GPUs the process sees, and in what order. As NVIDIA's driver reads
 * it: numbers or UUIDs ("GPU-…", as short as they are unique), separated by commas. The first entry that is
 * no device ends the list ("-1" hides all that follows), an entry that is there twice empties it, and so does
 * an empty value. A UUID is that of cuDeviceGetUuid: the card's own means the first of its virtual GPUs.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/internal.h"

#define UUID_PREFIX "GPU-"
#define UUID_TEXT 41 /* GPU-, 32 digits, 4 dashes, NUL */

static void write_uuid(const CUuuid *uuid, char text[UUID_TEXT])
{
	char *at = text + sprintf(text, UUID_PREFIX);

	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			(unsigned char)uuid->bytes[i]);
}

static bool begins_so(const CUuuid *uuid, const char *prefix, size_t length)
{
	char text[UUID_TEXT];

	write_uuid(uuid, text);
	return length < UUID_TEXT && !strncasecmp(text, prefix, length);
}

/* The one device whose UUID begins so; -1: none, or several. */
static int find_uuid(const char *prefix, size_t length, int total)
{
	int found = -1;

	for (int i = 0; i < total; i++) {
		struct gdev_description description;
		int32_t properties[GDEV_PROPERTIES];
		char name[GDEV_NAME_MAX];
		CUuuid uuid;
		if (gdev_vgpu_name(i, name) || gdev_vgpu_describe(name, &description, properties))
			continue;
		vgpu_uuid(i, &description, &uuid);
		if (!begins_so(&uuid, prefix, length))
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

/* The device that the entry names, -1 for none. A number ends at its first other character. */
static int read_entry(const char *entry, size_t length, int total)
{
	char *end;
	long number;

	while (length && isspace((unsigned char)*entry)) {
		entry++;
		length--;
	}
	if (length > strlen(UUID_PREFIX) && !strncmp(entry, UUID_PREFIX, strlen(UUID_PREFIX)))
		return find_uuid(entry, length, total);
	number = strtol(entry, &end, 10);
	return end == entry || number < 0 || number >= total ? -1 : (int)number;
}

int visible_devices(int total, int chosen[DEVICES_MAX])
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	int count = 0;

	if (!list) {
		for (; count < min_of(total, DEVICES_MAX); count++)
			chosen[count] = count;
		return count;
	}
	while (*list && count < DEVICES_MAX) {
		size_t length = strcspn(list, ",");
		int device = read_entry(list, length, total);
		if (device < 0)
			break;
		for (int i = 0; i < count; i++)
			if (chosen[i] == device)
				return 0;
		chosen[count++] = device;
		list += length + (list[length] == ',');
	}
	return count;
}

/* SPDX-License-Identifier: MIT
 *
 * The names of checks, as `gdev run --check` takes them and $GDEV_CHECK passes them on; as compute-sanitizer has them.
 */
#ifndef GDEV_PROTO_CHECK_NAMES_H
#define GDEV_PROTO_CHECK_NAMES_H

#include <stdint.h>
#include <string.h>

#include "proto/device.h"

#define CHECK_NAME_LEAK (1u << DEVICE_CHECKS) /* the client's own */
#define CHECK_NAMES_ALL "memcheck,initcheck,racecheck,synccheck,leakcheck"

/* Of a list, separated by commas. NULL: all names are known; else the list from the first that is not. */
static inline const char *check_names_parse(const char *list, uint32_t *checks)
{
	static const char *const names[] = {[DEVICE_CHECK_MEMORY] = "memcheck",
		[DEVICE_CHECK_INIT] = "initcheck",
		[DEVICE_CHECK_RACE] = "racecheck",
		[DEVICE_CHECK_SYNC] = "synccheck",
		[DEVICE_CHECKS] = "leakcheck"};

	*checks = 0;
	for (size_t length; *list; list += length + (list[length] == ',')) {
		uint32_t known = 0;

		length = strcspn(list, ",");
		for (unsigned i = 0; i <= DEVICE_CHECKS; i++)
			if (length == strlen(names[i]) && !strncmp(list, names[i], length))
				known = 1u << i;
		if (!known)
			return list;
		*checks |= known;
	}
	return NULL;
}

#endif

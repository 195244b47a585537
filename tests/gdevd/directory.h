/* SPDX-License-Identifier: MIT
 *
 * A directory for each test of a program.
 */
#ifndef GDEV_TESTS_GDEVD_DIRECTORY_H
#define GDEV_TESTS_GDEVD_DIRECTORY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char directory[64];

static int make_directory(void **state)
{
	strcpy(directory, "/tmp/gdev-test-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", directory);
	return system(command);
}

#endif

/* SPDX-License-Identifier: MIT
 *
 * The lines of a configuration, as libinih wants to be given them. It cuts long lines in pieces and takes each for
 * a line, does not tell of a section without keys, and stops silently where reading fails: hence this.
 */
#ifndef GDEV_GDEVD_CONFIG_LINES_H
#define GDEV_GDEVD_CONFIG_LINES_H

#include <stdio.h>

struct config_lines {
	FILE *file;
	/* Called with the name of each section; not 0 stops the reading. */
	int (*section)(void *owner, const char *name);
	void *owner;
	int number;         /* of the last line */
	int error;          /* what stopped the reading, or 0 */
	const char *reason; /* and why; NULL: section() has said it */
	char *line;         /* for getline(): freed by the owner of this struct */
	size_t room;
};

/* An ini_reader, with a struct config_lines as its stream. */
char *config_next_line(char *line, int room, void *lines);

#endif

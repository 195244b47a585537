/* SPDX-License-Identifier: MIT
 *
 * What `gdev trace` shows of graphs: each invocation of a ptask, with an arrow to its kernel, and how long the program's pushes and
 * pulls took.
 *
 * The trace knows a name by its address for as long as the process lives, and names of ptasks and channels go with their
 * graphs. So each name has a copy here that stays. There is room for NAMES_MAX of them; later ones are shown without a name.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/ptask/internal.h"

#define SLOTS 1024 /* a power of two */
#define NAMES_MAX (SLOTS / 2)

/* Guards what follows. A leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *slots[SLOTS];
static unsigned count;

static unsigned hash_of(const char *text)
{
	uint32_t hash = 2166136261;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619;
	return hash;
}

/* A copy of the text that stays; NULL: there is no room for it. */
static const char *kept(const char *text)
{
	unsigned at = hash_of(text) % SLOTS;
	const char *found;

	pthread_mutex_lock(&lock);
	while (slots[at] && strcmp(slots[at], text))
		at = (at + 1) % SLOTS;
	if (!slots[at] && count < NAMES_MAX && (slots[at] = strdup(text)))
		count++;
	found = slots[at];
	pthread_mutex_unlock(&lock);
	return found;
}

void span_end(uint64_t begin_ns, const char *what, const char *name, int status)
{
	char text[16 + NAME_MAX_BYTES];
	const char *full;

	if (!begin_ns)
		return;
	snprintf(text, sizeof text, "%s %s", what, name);
	full = kept(text);
	gdev_trace_end(full ? full : what, begin_ns, status);
}

/* SPDX-License-Identifier: MIT
 *
 * What the session has used, on the worker page (gdevd reads it) and for QUERY_USAGE. Written with the
 * core's lock; the page is only written, the numbers that we answer with are kept in the page's words,
 * which gdevd alone could write too: a lie there is gdevd's own.
 */
#ifndef GDEV_WORKER_USAGE_H
#define GDEV_WORKER_USAGE_H

#include <stdint.h>

#include "proto/control.h"

struct command;
struct core;
struct reply_usage;

static inline void usage_set(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline void usage_add(uint64_t *word, uint64_t value)
{
	usage_set(word, *word + value);
}

/* Device time of a resource (enum device_resource), whatever for: swapping on behalf of this session, say. */
void usage_charge(struct core *core, uint32_t resource, uint64_t used_ns);
/* A copy to or from the device. */
void usage_copied(
	struct core *core, enum device_resource direction, uint64_t bytes, uint64_t used_ns);

/* The client's thread that submitted last, as the client says. */
static inline void usage_thread(struct worker_page *page, uint32_t thread)
{
	if (page->thread != thread)
		__atomic_store_n(&page->thread, thread, __ATOMIC_RELAXED);
}

/* The device has finished this one, which adds so much to its resource's busy time. */
void usage_count(struct core *core, const struct command *command, uint64_t used_ns);
void usage_report(const struct core *core, struct reply_usage *usage);

#endif

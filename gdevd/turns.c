/* SPDX-License-Identifier: MIT
 *
 * Handing over from holder to holder, without a message (proto/control.h, struct turns): the page, and the session
 * that is named in it.
 *
 * The page is trusted as far as a worker is: it decides which session is taken to have the resource next, never which
 * one is charged, or for how long one may stay.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

int turns_init(struct device *device)
{
	struct turning *turning = &device->turning;
	void *mapped;

	turning->fd = fd_shared_memory("gdev-turns", sizeof(struct turns));
	if (turning->fd < 0)
		return turning->fd;
	mapped = mmap(
		NULL, sizeof(struct turns), PROT_READ | PROT_WRITE, MAP_SHARED, turning->fd, 0);
	if (mapped == MAP_FAILED) {
		close(steal_fd(&turning->fd));
		return -ENOMEM;
	}
	turning->page = mapped;
	return 0;
}

void turns_finish(struct device *device)
{
	struct turning *turning = &device->turning;

	if (turning->page)
		munmap(turning->page, sizeof(struct turns));
	if (turning->fd >= 0)
		close(turning->fd);
}

static uint32_t new_number(struct turning *turning)
{
	if (!++turning->turn)
		turning->turn++;
	return turning->turn;
}

void turns_prefer(struct device *device, const struct session *session)
{
	struct turning *turning = &device->turning;
	bool looks = session && session->turns;

	turning->preferred = looks ? session->id : 0;
	if (turning->page)
		__atomic_store_n(&turning->page->preferred,
			looks ? TURN_NEXT(session->id, new_number(turning)) : 0, __ATOMIC_RELEASE);
}

bool turns_was_preferred(const struct session *session)
{
	/* What the page says may be a worker's: it could have the holder told again and again. */
	if (session->device->turning.preferred != session->id)
		return false;
	turns_prefer(session->device, NULL);
	return true;
}

/* Whether the holder can hand over to `next` by itself. Both must look at the page. Where one queue has all
 * resources, a holder may have several of them. */
static bool can_be_named(const struct session *holder, const struct session *next)
{
	return holder->turns && next->turns && !next->daemon->config.one_queue;
}

bool turns_name(struct device *device, unsigned resource, const struct session *holder,
	struct session *next)
{
	struct turning *turning = &device->turning;
	struct control_grant message = {.resource = resource, .quantum_ns = LOOK_NS_MAX};
	uint64_t *word = &turning->page->resources[resource].next;
	uint64_t said = turning->said[resource], expected = said, wanted = 0;

	if (next && can_be_named(holder, next)) {
		message.turn = new_number(turning);
		wanted = TURN_NEXT(holder->id, turning->turn);
		/* The word of the next session's last turn is cleared before the session can know the number. */
		__atomic_store_n(&next->worker->page->revoke[resource],
			(uint32_t)grants_unwaited_word(next, resource), __ATOMIC_RELEASE);
	}
	control_fill(&message, CONTROL_PREPARE, 0);
	if (next)
		connection_send(next->worker->connection, &message, NULL, 0);
	if (!said) /* whatever a worker may have written there */
		__atomic_store_n(word, wanted, __ATOMIC_SEQ_CST);
	else if (!__atomic_compare_exchange_n(
			 word, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		wanted = 0;
	turning->said[resource] = wanted;
	return expected == said;
}

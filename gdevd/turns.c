/* SPDX-License-Identifier: MIT
 *
 * Handing over from holder to holder, without a message (proto/control.h, struct turns): the page, and who is
 * named in it.
 *
 * The page is trusted as far as a worker is: what it says decides who is taken to have the resource next,
 * never who is charged or for how long somebody may stay.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

int turns_init(struct daemon *daemon)
{
	struct turning *turning = &daemon->device.turning;
	void *mapped;

	turning->fd = fd_shared_memory("gdev-turns", sizeof(struct turns));
	if (turning->fd < 0)
		return turning->fd;
	mapped = mmap(
		NULL, sizeof(struct turns), PROT_READ | PROT_WRITE, MAP_SHARED, turning->fd, 0);
	turning->page = mapped == MAP_FAILED ? NULL : mapped;
	return turning->page ? 0 : -ENOMEM;
}

void turns_finish(struct daemon *daemon)
{
	struct turning *turning = &daemon->device.turning;

	if (turning->page)
		munmap(turning->page, sizeof(struct turns));
	if (turning->fd >= 0)
		close(turning->fd);
}

/* Both must look at the page; where one queue has all resources, a holder may have several; and one that had
 * nothing to give when room was wanted gets a message, with which gdevd counts on it again (on_grant). */
static bool can_be_named(const struct session *holder, const struct session *next)
{
	return holder->turns && next->turns && !next->worker->residency.dry &&
	       !next->daemon->config.one_queue;
}

bool turns_name(struct daemon *daemon, unsigned resource, const struct session *holder,
	struct session *next)
{
	struct turning *turning = &daemon->device.turning;
	struct control_grant message = {.resource = resource, .quantum_ns = TURNS_AWAKE_NS};
	uint64_t *word = &turning->page->resources[resource].next;
	uint64_t said = turning->said[resource], expected = said, wanted = 0;

	if (next && can_be_named(holder, next)) {
		if (!++turning->turn)
			turning->turn++;
		message.turn = turning->turn;
		wanted = TURN_NEXT(holder->id, turning->turn);
		/* What it was told in its last turn is over. Before the number is known. */
		__atomic_store_n(&next->worker->page->revoke[resource],
			(uint32_t)grants_word(next, resource, REVOKE_NONE), __ATOMIC_RELEASE);
	}
	control_fill(&message, CONTROL_PREPARE, 0);
	if (next && next->worker->connection)
		connection_send(next->worker->connection, &message, NULL, 0);
	if (!said) /* whatever a worker may have written there */
		__atomic_store_n(word, wanted, __ATOMIC_SEQ_CST);
	else if (!__atomic_compare_exchange_n(
			 word, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		wanted = 0;
	turning->said[resource] = wanted;
	return expected == said;
}

/* SPDX-License-Identifier: MIT
 *
 * Ptasks that run in the session of the process that has contributed them, as the owner of the graph has them: ports, and no
 * function. What comes to such a ptask its process pulls, and what it makes its process pushes, by ends as all members have
 * (requests.c); the other side is bridge.c. When all its ends are closed, or its process is gone, the ptask has ended.
 *
 * For whom (proxy.c): what it makes is for whom its inputs were, and not for the process that computes it. The nth datablock of
 * each output is made of the nth of each input; if its process leaves some out, those of others count.
 */
#include "lib/ptask/elsewhere.h"

#define CARRIED 256 /* invocations that can be under way */

struct elsewhere {
	bool gone, opened;
	unsigned ends;                /* that its process has open */
	uint64_t taken, made;         /* datablocks of the port that has most */
	struct whom carried[CARRIED]; /* of the last that were taken */
};

struct elsewhere *elsewhere_create(void)
{
	return calloc(1, sizeof(struct elsewhere));
}

bool elsewhere_is_busy(const struct gdev_ptask *ptask)
{
	return ptask->elsewhere->taken > ptask->elsewhere->made && !ptask->ended;
}

void elsewhere_step(struct gdev_ptask *ptask)
{
	const struct elsewhere *elsewhere = ptask->elsewhere;

	if (elsewhere->gone || (elsewhere->opened && !elsewhere->ends))
		ptask_end(ptask);
}

void elsewhere_open_end(struct gdev_ptask *ptask)
{
	ptask->elsewhere->opened = true;
	ptask->elsewhere->ends++;
}

void elsewhere_close_end(struct gdev_ptask *ptask)
{
	ptask->elsewhere->ends--;
	ptask_touch(ptask);
}

void elsewhere_leave(struct gdev_ptask *ptask)
{
	ptask->elsewhere->gone = true;
	ptask_touch(ptask);
}

void elsewhere_took(struct gdev_ptask *ptask, uint64_t number, struct whom whom)
{
	struct elsewhere *elsewhere = ptask->elsewhere;
	struct whom *carried = &elsewhere->carried[number % CARRIED];

	if (number < elsewhere->taken) {
		*carried = more_urgent(*carried, whom);
		return;
	}
	elsewhere->taken = number + 1;
	ptask->invocations = elsewhere->taken;
	*carried = whom;
}

struct whom elsewhere_made(struct gdev_ptask *ptask, uint64_t number, struct whom whom)
{
	struct elsewhere *elsewhere = ptask->elsewhere;

	elsewhere->made = max_of(elsewhere->made, number + 1);
	if (!elsewhere->taken)
		return whom;
	return elsewhere->carried[min_of(number, elsewhere->taken - 1) % CARRIED];
}

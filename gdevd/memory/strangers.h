/* SPDX-License-Identifier: MIT
 *
 * Device memory that others than this gdevd's workers use: another gdevd, or programs that are not gdev's. No account shows
 * it until the driver refuses a worker memory that gdevd has charged to it. The worker says so (RETURN with -ENOMEM).
 *
 * The worker is in its client's hands, and may lie. So gdevd asks a warm worker, which no client has told anything, what the
 * driver has free. What is free by the account and not by the driver is charged to the strangers. From then on the device is
 * as full as it is, and who lacks memory is served as on any full device: warm workers leave, then others do. A lie
 * changes nothing but for the liar: who was refused waits until no context is being made, which the driver may count already.
 *
 * While strangers have something, a warm worker is asked again before anybody leaves, and when one has started. Where no
 * worker is warm what was said last holds. It does, too, if the answer does not come in time: the worker is left alone then, and
 * not asked again before it has answered.
 */
#ifndef GDEV_GDEVD_STRANGERS_H
#define GDEV_GDEVD_STRANGERS_H

#include <stdbool.h>

#include "gdevd/memory/memory.h"
#include "proto/control.h"

struct device;

/* Of a device. */
struct strangers {
	struct memory_account account;
	struct worker *asked; /* has not answered yet; NULL: nobody is asked */
	bool known;           /* the answer is just being acted on */
};

void strangers_init(struct device *device);
/* The driver has refused the worker what it was charged, or the worker lies. */
void strangers_refused(struct worker *worker);
/* Whether the worker's request waits until it is known what strangers have: it is in device.lacking then. `lacks`: there is no
 * room for it by the account. */
bool strangers_wait(struct worker *worker, const struct control_allocate *message, bool lacks);
/* A worker has become warm. */
void strangers_look(struct device *device);
/* MEMORY_REPLY. */
int strangers_told(struct worker *worker, const struct control_header *header);
/* The warm worker's deadline is over, and no answer is there. */
void strangers_late(struct worker *worker);
/* The worker is not warm any more: what it says does not count. */
void strangers_unask(struct worker *worker);
/* Nobody is there to be asked, and somebody needs a context: whether the driver has room for one, a worker that starts finds out.
 * False: they have nothing. */
bool strangers_forget(struct device *device);

#endif

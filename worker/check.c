/* SPDX-License-Identifier: MIT
 *
 * CHECK records: a client that wants its kernels checked says what memory they may access, and fetches what was found
 * (docs/check.md). The device does the work. What a client says here decides only what it is told: its kernels reach no other
 * memory by it.
 */
#include "worker/core.h"

#include <errno.h>

#include "worker/command.h"

/* Kernels are compiled with checks or without: so none may be there yet. */
static int begin(struct core *core, uint32_t checks)
{
	if (!core->ops->check_begin)
		return -ENOTSUP;
	return core->modules.count ? -EINVAL : core->ops->check_begin(core->space, checks);
}

static void answer_report(struct command *command, uint32_t index)
{
	struct core *core = command->core;
	struct reply_check report;
	int error = core->ops->check_report(core->space, index, &report);

	command_answer(command, error, &report, error ? 0 : sizeof report);
}

void check_execute(struct command *command)
{
	const struct record_check *record = command->request.check;
	struct core *core = command->core;
	int error = 0;

	if (record->operation == RECORD_CHECK_BEGIN) {
		error = begin(core, record->argument);
		core->checked |= !error;
	} else if (!core->checked) {
		error = -EINVAL;
	} else if (record->operation == RECORD_CHECK_ADD) {
		error = core->ops->check_add(
			core->space, record->address, record->bytes, record->argument);
	} else if (record->operation == RECORD_CHECK_REMOVE) {
		core->ops->check_remove(core->space, record->address);
	} else {
		answer_report(command, record->argument);
		return;
	}
	command_answer(command, error, NULL, 0);
}

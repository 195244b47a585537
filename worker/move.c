/* SPDX-License-Identifier: MIT
 *
 * The session goes to another device of the same model (MOVE of proto/control.h). What makes that short: a suspended
 * session whose context was given back has nothing on its device, and what it needs again is kept by addresses of this
 * process and by the backend (docs/memory.md, Moving to another device).
 */
#include "worker/core.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

/* "cuda:1" is number 1 of that backend, "cpu" number 0. Nothing is loaded for it: the process is in its sandbox. */
static int index_of(const struct core *core, const char *device, unsigned *index)
{
	size_t length = strlen(core->ops->name);
	char end;

	*index = 0;
	if (strncmp(device, core->ops->name, length))
		return -ENODEV;
	if (!device[length] || sscanf(device + length, ":%u%c", index, &end) == 1)
		return 0;
	return -ENODEV;
}

/* The poller reads the page without the lock: the new one takes the place of the old one. */
static int replace_turns(struct core *core, int fd)
{
	uint64_t bytes;
	void *mapped;

	if (fd < 0 || !core->turns)
		return 0; /* no number of the old page is given to us any more */
	if (fd_shared_memory_size(fd, &bytes) || bytes < sizeof(struct turns))
		return -EINVAL;
	mapped = mmap(core->turns, sizeof(struct turns), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_FIXED, fd, 0);
	return mapped == MAP_FAILED ? -errno : 0;
}

static int rehome(struct core *core, const struct control_move *message, int turns_fd)
{
	unsigned index;
	int error;

	if (!core->ops->rehome)
		return -ENOTSUP;
	if (!core->residency.suspended || core->context.state != CONTEXT_RETIRED)
		return -EBUSY;
	error = index_of(core, message->device, &index);
	if (!error)
		error = replace_turns(core, turns_fd);
	return error ? error : core->ops->rehome(core->space, index);
}

void move_session(struct core *core, const struct control_move *message, int turns_fd)
{
	struct control_header answer = {
		.length = sizeof answer,
		.type = CONTROL_MOVED,
		.version = CONTROL_VERSION,
		.serial = message->header.serial,
	};

	if (!core->attached || memchr(message->device, 0, sizeof message->device) == NULL ||
		memchr(message->vgpu, 0, sizeof message->vgpu) == NULL)
		answer.status = -EINVAL;
	else
		answer.status = rehome(core, message, turns_fd);
	if (!answer.status) {
		core->session.moves++;
		memcpy(core->session.vgpu, message->vgpu, sizeof core->session.vgpu);
		core->memory.limit_bytes = message->memory_limit_bytes;
		core->limit.limit_ns = message->time_limit_ms * NS_PER_MS;
		log_info("session %llu goes to %s", (unsigned long long)core->session.session,
			message->device);
	}
	grants_lost(core); /* gdevd has given them to others */
	control_send(core, &answer, NULL, 0);
	grants_registered(core);
}

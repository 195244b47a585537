/* SPDX-License-Identifier: MIT
 *
 * See shm.h: a segment that has no room on the device beside what its session has is used where its host copy is
 * (docs/memory.md, rules 9 and 12), by all. If that is a file which the device cannot use it is copied to memory first: gdevd
 * makes room there and a new host copy, and has told no other session to bring the segment in. The file is what is valid
 * until gdevd has heard that the bytes are in memory, so nothing is lost if we, or gdevd, are killed before that.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/core.h"
#include "worker/memory/shm.h"

static int map_host_copy(struct core *core, const struct range *range, int fd)
{
	int error, protection = PROT_READ | (range->read_only ? 0 : PROT_WRITE);

	if (mmap((void *)(uintptr_t)range->address, range->bytes, protection,
		    MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED)
		error = -ENOMEM;
	else
		error = memory_register(core, range->address, range->bytes);
	if (error)
		memory_reserve_again(range->address, range->bytes);
	return error;
}

void shared_unmap(struct core *core, struct range *range)
{
	if (range->shared->place == SHARED_MAPPED)
		memory_unmap_host(core, range->address, range->bytes);
}

/* ---- from a file to memory ---- */

/* When this succeeds, the pages of the copy are there. */
static int copy_file(int from, int to, uint64_t bytes)
{
	void *memory;
	int error;

	if (fallocate(to, 0, 0, (off_t)bytes))
		return -ENOMEM;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, to, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	error = fd_read_at(from, memory, bytes, 0);
	munmap(memory, bytes);
	return error;
}

static int call_about_segment(struct core *core, const struct shared *shared,
	enum control_shm_command command, int *fds, size_t *fd_count)
{
	struct control_shm message = shared_message(command, shared->description.id), reply;
	int status = control_call(
		core, &message, CONTROL_SHM_REPLY, &reply, sizeof reply, fds, fd_count);

	return min_of(status, 0);
}

/* -ENOTCONN: the gdevd that had us bring it in is gone. */
static int move_to_memory(struct core *core, struct shared *shared)
{
	struct range *range = shared->range;
	const struct piece whole = {.range = range};
	uint64_t begin_ns = trace_time(core);
	autoclose int fd = -1;
	size_t fd_count = 1;
	int error = call_about_segment(core, shared, SHM_COMMAND_MOVE, &fd, &fd_count);

	if (!error)
		error = fd < 0 ? -GDEV_E_PROTOCOL : copy_file(shared->host_fd, fd, range->bytes);
	if (!error)
		error = map_host_copy(core, range, fd);
	if (error)
		return error == -EAGAIN ? -ENOTCONN : error;
	if (call_about_segment(core, shared, SHM_COMMAND_MAP, NULL, NULL)) {
		memory_unmap_host(core, range->address, range->bytes);
		return -ENOTCONN;
	}
	core_lock(core);
	trace_swap(core, TRACE_SWAP_TO_MEMORY, &whole, range->bytes, begin_ns, trace_time(core));
	shared_take_copy(shared, steal_fd(&fd), CONTROL_SHM_MAPPED);
	core_unlock(core);
	return 0;
}

static void say_why(const struct core *core, const struct shared *shared)
{
	log_error(
		"session %llu has no room on the device for shared memory %u beside its own, this device cannot use the "
		"swap file that it is in, and host_swap has no room for it: let swap_directory be on a tmpfs, or raise "
		"host_swap (gdev.conf)",
		(unsigned long long)core->session.session, shared->description.id);
}

/* gdevd may have another session bring the segment in by now, or be another gdevd: then nobody uses it here. */
static int map_in_place(struct core *core, struct shared *shared)
{
	bool used;
	autoclose int fd = shared_hold_copy(core, shared, &used);
	int error = map_host_copy(core, shared->range, fd);

	if (error || used)
		return error;
	if (!call_about_segment(core, shared, SHM_COMMAND_MAP, NULL, NULL))
		return 0;
	memory_unmap_host(core, shared->range->address, shared->range->bytes);
	return -ENOTCONN;
}

void shared_map_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);
	struct core *core = shared->core;
	int error = map_in_place(core, shared);
	bool moves = error == -EINVAL && !shared->reader; /* who may only read moves nothing */

	if (error == -EINVAL)
		error = moves ? move_to_memory(core, shared) : -ENOMEM;
	if (moves && error == -ENOMEM)
		say_why(core, shared);
	core_lock(core);
	if (error)
		shared_say(core, shared->description.id, SHM_COMMAND_MAP, error);
	shared_arrived(core, shared, error ? SHARED_AWAY : SHARED_MAPPED, error);
	core_unlock(core);
}

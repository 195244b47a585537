/* SPDX-License-Identifier: MIT
 *
 * See worker_limit.h.
 */
#include "gdevd/worker_limit.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdevd/daemon.h"

#define WORKER_MEMORY_LEAST (4ull << 30) /* that a driver has plenty on any machine */
#define SWEEP_NS NS_PER_S                /* after an end */

static uint64_t machine_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t worker_own_bytes(const struct daemon *daemon)
{
	uint64_t bytes = daemon->config.worker_memory;

	if (!bytes)
		bytes = max_of(machine_bytes() / 4, WORKER_MEMORY_LEAST);
	return min_of(
		sum_of(bytes, daemon->swap.pools[SWAP_MEMORY].limit_bytes), (uint64_t)INT64_MAX);
}

uint64_t worker_host_bytes(const struct daemon *daemon)
{
	return daemon->config.host_memory ? daemon->config.host_memory : machine_bytes() / 2;
}

/* Files of a disk are there without the machine's memory. */
static uint64_t swap_file_bytes(const struct daemon *daemon)
{
	const char *directory = daemon->config.swap_directory;
	struct statfs system;

	if (!daemon->config.file_swap ||
		statfs(*directory ? directory : daemon->state_dir, &system))
		return 0;
	return system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC
		       ? daemon->config.file_swap
		       : 0;
}

/* The memory of all devices that share the machine's, or may: a session may be the first to touch what it has from another
 * device, or from another virtual GPU. */
static uint64_t device_bytes(const struct device *device)
{
	const struct device *other;
	uint64_t bytes = 0;

	if (!(device->traits & DEVICE_HOST_MEMORY))
		return 0;
	list_for_each (other, &device->daemon->devices, link)
		if (!other->known || other->traits & DEVICE_HOST_MEMORY)
			bytes = sum_of(bytes, other->memory.limit_bytes);
	return bytes;
}

/* What a worker may take in all: of its own and of the host, files of swap on a tmpfs, and device memory that is the
 * machine's. Seven eighths of the machine at most, so that a worker that takes all it can get reaches its limit before the
 * machine has no memory left. */
static uint64_t most_bytes(const struct device *device)
{
	const struct daemon *daemon = device->daemon;
	uint64_t bytes = sum_of(worker_own_bytes(daemon), worker_host_bytes(daemon));

	bytes = sum_of(bytes, sum_of(swap_file_bytes(daemon), device_bytes(device)));
	return min_of(bytes, machine_bytes() / 8 * 7);
}

void worker_limit(const struct worker *worker)
{
	int error = worker_cgroup_limit(
		&worker->daemon->cgroups, worker->pid, most_bytes(worker->device));

	if (error)
		complain("the cgroup of worker %d has no limit: %s", (int)worker->pid,
			strerror(-error));
}

/* ---- groups of workers that are gone ---- */

struct sweep {
	uv_work_t work;
	struct worker_cgroups cgroups;
};

static void sweep(uv_work_t *work)
{
	worker_cgroups_sweep(&container_of(work, struct sweep, work)->cgroups);
}

static void on_swept(uv_work_t *work, int status)
{
	free(container_of(work, struct sweep, work));
}

static void on_sweep(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, sweep);
	struct sweep *started = malloc(sizeof *started);

	if (!started)
		return;
	started->cgroups = daemon->cgroups;
	uv_queue_work(&daemon->loop, &started->work, sweep, on_swept);
}

void worker_limits_gone(struct daemon *daemon)
{
	if (*daemon->cgroups.path && list_empty(&daemon->sweep.link))
		deadline_set(&daemon->deadlines, &daemon->sweep, clock_now_ns() + SWEEP_NS);
}

void worker_limits_init(struct daemon *daemon)
{
	struct worker_cgroups *cgroups = &daemon->cgroups;

	deadline_init(&daemon->sweep, on_sweep);
	if (daemon->config.worker_cgroups)
		worker_cgroups_find(cgroups, "/sys/fs/cgroup", "/proc/self/cgroup");
	else
		strcpy(cgroups->why, "worker_cgroups = no");
	if (*cgroups->path)
		log_info("each worker is in a cgroup of its own, in %s", cgroups->path);
	else
		log_info("workers are in no cgroups of their own: %s", cgroups->why);
	worker_limits_gone(daemon); /* of a gdevd before */
}

/* SPDX-License-Identifier: MIT
 *
 * See worker_start.h.
 */
#include "gdevd/worker_start.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdevd/daemon.h"
#include "gdevd/process.h"
#include "gdevd/worker_limit.h"

#define CONTROL_FD 3

/* Where several backends serve, a software device's workers would keep all processors from those of hardware, which need one for
 * a moment now and then, and soon. Each worker knows which it is. */
static bool gives_way(const struct config_served *served)
{
	for (unsigned i = 1; i < served->count; i++)
		if (strcmp(served->devices[i].backend, served->devices[0].backend))
			return true;
	return false;
}

void worker_start_fill(struct worker_start *start, const struct device *device)
{
	const struct daemon *daemon = device->daemon;
	const struct config *config = &daemon->config;
	const char *arguments[] = {
		daemon->program.path,
		"--control-fd",
		start->fd,
		"--device",
		device->served->backend,
		"--parts",
		start->parts,
		"--device-memory",
		start->memory,
		"--host-memory",
		start->host_memory,
		"--memory",
		start->own_memory,
		"--threads",
		start->threads,
		"--workers-socket",
		start->path,
		"--context",
		start->context,
		"--gives-way",
		gives_way(&config->served) ? "1" : "0",
		geteuid() == 0 ? "--user" : NULL,
		start->user,
		"--group",
		start->group,
		NULL,
	};

	_Static_assert(sizeof arguments == sizeof start->arguments, "they fit");
	memcpy(start->arguments, arguments, sizeof arguments);
	snprintf(start->parts, sizeof start->parts, "%u", device->served->parts);
	snprintf(start->fd, sizeof start->fd, "%d", CONTROL_FD);
	snprintf(start->memory, sizeof start->memory, "%llu",
		(unsigned long long)config->device_memory);
	snprintf(start->host_memory, sizeof start->host_memory, "%llu",
		(unsigned long long)worker_host_bytes(daemon));
	snprintf(start->own_memory, sizeof start->own_memory, "%llu",
		(unsigned long long)worker_own_bytes(daemon));
	snprintf(start->threads, sizeof start->threads, "%u", (unsigned)config->threads);
	snprintf(start->context, sizeof start->context, "%llu",
		(unsigned long long)config->context_memory);
	snprintf(start->user, sizeof start->user, "%u", (unsigned)daemon->program.uid);
	snprintf(start->group, sizeof start->group, "%u", (unsigned)daemon->program.gid);
	snprintf(start->path, sizeof start->path, "%s/workers.sock", daemon->runtime_dir);
	start->cgroups = daemon->cgroups;
}

void worker_start_process(uv_work_t *work)
{
	struct worker_start *start = container_of(work, struct worker_start, work);
	posix_spawn_file_actions_t files;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, start->sockets[1], CONTROL_FD);
	start->error = process_spawn(&start->pid, (char **)start->arguments, environ, &files);
	if (!start->error)
		start->unbounded = worker_cgroup_enter(&start->cgroups, start->pid);
}

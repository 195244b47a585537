/* SPDX-License-Identifier: MIT
 *
 * See worker_start.h.
 */
#include "gdevd/worker_start.h"

#include <fcntl.h>
#include <stdarg.h>
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

/* An option and its value. */
static __attribute__((format(printf, 3, 4))) void add_argument(
	struct worker_start *start, const char *option, const char *format, ...)
{
	char *text = start->text + start->text_bytes;
	size_t room = sizeof start->text - start->text_bytes;
	va_list args;

	va_start(args, format);
	start->text_bytes += min_of((size_t)vsnprintf(text, room, format, args) + 1, room);
	va_end(args);
	start->arguments[start->argument_count++] = option;
	start->arguments[start->argument_count++] = text;
}

void worker_start_fill(struct worker_start *start, const struct device *device)
{
	const struct daemon *daemon = device->daemon;
	const struct config *config = &daemon->config;

	start->arguments[start->argument_count++] = daemon->program.path;
	add_argument(start, "--control-fd", "%d", CONTROL_FD);
	add_argument(start, "--device", "%s", device->served->backend);
	add_argument(start, "--parts", "%u", device->served->parts);
	add_argument(start, "--device-memory", "%llu", (unsigned long long)config->device_memory);
	add_argument(start, "--host-memory", "%llu", (unsigned long long)worker_host_bytes(daemon));
	add_argument(start, "--memory", "%llu", (unsigned long long)worker_own_bytes(daemon));
	add_argument(start, "--threads", "%u", (unsigned)config->threads);
	add_argument(start, "--workers-socket", "%s/workers.sock", daemon->runtime_dir);
	add_argument(start, "--context", "%llu", (unsigned long long)config->context_memory);
	add_argument(start, "--gives-way", "%d", gives_way(&config->served));
	if (geteuid() == 0) {
		add_argument(start, "--user", "%u", (unsigned)daemon->program.uid);
		add_argument(start, "--group", "%u", (unsigned)daemon->program.gid);
	}
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

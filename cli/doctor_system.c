/* SPDX-License-Identifier: MIT
 *
 * What there is to run a program: gdevd and the right to use it, our libcuda, the device behind it, and what the
 * system lets a process have.
 */
#include "cli/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/cli.h"
#include "gdev/session.h"
#include "proto/session.h"

#define DESCRIPTORS_MIN 128

/* A row of what `gdevd` answers: (name of) its first device; NULL when there is no gdevd. */
static json_t *check_daemon(struct doctor *doctor, char *dir)
{
	autoclose int connection = daemon_connect(dir);
	json_t *answer, *request;

	if (connection == -ECONNREFUSED) {
		doctor_say(doctor, DOCTOR_NOTE, "daemon", NULL, NULL,
			"no gdevd is running: 'gdev run' starts one of your own for a program's time");
		return NULL;
	}
	request = request_create("devices");
	answer = connection < 0 ? NULL : daemon_ask(connection, request);
	json_decref(request);
	if (!answer)
		doctor_say(doctor, DOCTOR_MISSING, "daemon", NULL, "look at its log, or restart it",
			"the gdevd in %s does not answer", dir);
	else
		doctor_say(doctor, DOCTOR_OK, "daemon", NULL, NULL, "gdevd answers in %s", dir);
	return answer;
}

static void check_vgpu(struct doctor *doctor, const char *dir, const char *vgpu)
{
	size_t length = strcspn(vgpu, ",");
	char path[2 * PATHS_MAX];

	snprintf(path, sizeof path, "%s/%.*s.sock", dir, (int)length, vgpu);
	if (access(path, R_OK | W_OK) == 0)
		doctor_say(doctor, DOCTOR_OK, "vgpu", NULL, NULL,
			"you may use the virtual GPU %.*s", (int)length, vgpu);
	else if (errno == EACCES)
		doctor_say(doctor, DOCTOR_MISSING, "vgpu", NULL,
			"ask for the right, as 'gdev vgpu list' shows it, or set GDEV_VGPU to another",
			"you may not use the virtual GPU %.*s", (int)length, vgpu);
	else
		doctor_say(doctor, DOCTOR_MISSING, "vgpu", NULL,
			"set GDEV_VGPU to one of those that 'gdev vgpu list' shows",
			"there is no virtual GPU %.*s", (int)length, vgpu);
}

/* All that a program is to use. */
static void check_vgpus(struct doctor *doctor, const char *dir)
{
	const char *list = getenv("GDEV_VGPU"), *vgpu = list && *list ? list : "gdev0";

	while (*vgpu) {
		check_vgpu(doctor, dir, vgpu);
		vgpu += strcspn(vgpu, ",");
		vgpu += strspn(vgpu, ",");
	}
}

static void check_library(struct doctor *doctor)
{
	char path[PATHS_MAX];

	if (program_library(path))
		doctor_say(doctor, DOCTOR_MISSING, "library", NULL, "install gdev completely",
			"gdev's libcuda.so.1 is not where it should be, beside this command");
	else
		doctor_say(doctor, DOCTOR_OK, "library", NULL, NULL, "gdev's CUDA library is %s",
			path);
}

/* ---- the device ---- */

static void no_backend(struct doctor *doctor)
{
	bool cpu = !strncmp(doctor->device, "cpu", 3);

	doctor_say(doctor, DOCTOR_MISSING, "device", NULL,
		cpu ? "install libllvm19; the sentence above says what is wrong" : NULL,
		cpu ? "the software GPU's library libgdev-cpu.so cannot be loaded"
		    : "there is no kind of device \"%s\"",
		doctor->device);
}

/* One of the devices that gdevd serves. */
static void check_served(struct doctor *doctor, const json_t *device)
{
	const char *name = field_text(device, "device"), *health = field_text(device, "health");
	char text[HEALTH_MAX];

	if (!strcmp(health, "ok") || !strcmp(health, "starting"))
		doctor_say(doctor, DOCTOR_OK, "daemon", json_pack("{s:s}", "device", name), NULL,
			"gdevd serves the device %s (%s)", name, health);
	else
		doctor_say(doctor, DOCTOR_NOTE, "daemon", json_pack("{s:s}", "device", name),
			!strcmp(health, "drained")
				? "'gdev device undrain' lets it take sessions again"
				: "the log of gdevd says more; it is tried again by itself",
			"programs that begin do not see the device %s: %s", name,
			text_health(text, device));
}

static bool is_served(const json_t *devices, const char *name)
{
	const json_t *device;
	size_t index;

	json_array_foreach(devices, index,
		device) if (!strcmp(field_text(device, "device"), name)) return true;
	return false;
}

/* What gdevd calls cpu:N is a part of the one software GPU. */
static const char *backend_of(const char *device)
{
	return strncmp(device, "cpu:", 4) ? device : "cpu";
}

static void check_device(struct doctor *doctor)
{
	struct device_info infos[16];
	struct device_config config = {0};
	int count;

	if (device_parse(backend_of(doctor->device), &doctor->ops, &config.index)) {
		no_backend(doctor);
		return;
	}
	count = doctor->ops->probe(&config, infos, array_length(infos));
	if (count > (int)min_of(config.index, array_length(infos) - 1))
		doctor_say(doctor, DOCTOR_OK, "device",
			json_pack("{s:s}", "device", doctor->device), NULL, "device %s: %.63s",
			doctor->device, infos[min_of(config.index, array_length(infos) - 1)].name);
	else if (strncmp(doctor->device, "cuda", 4))
		doctor_say(doctor, DOCTOR_MISSING, "device", NULL, NULL, "there is no device %s",
			doctor->device);
	else
		doctor_say(doctor, DOCTOR_MISSING, "device", NULL,
			"look whether nvidia-smi lists it; the driver's libcuda.so.1 must be installed, and "
			"you must be allowed to use /dev/nvidia*",
			"NVIDIA's driver has no device %s (it has %d)", doctor->device, count);
}

/* ---- the system ---- */

static void check_memory(struct doctor *doctor)
{
	uint64_t bytes = ARENA_DEFAULT_BYTES / 64; /* the least that the library asks for */
	void *arena =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	autoclose int fd = fd_shared_memory("gdev-doctor", 1 << 20);
	void *shared = fd < 0 ? MAP_FAILED
			      : mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct rlimit files;

	if (arena == MAP_FAILED)
		doctor_say(doctor, DOCTOR_MISSING, "memory", NULL,
			"raise 'ulimit -v', or set it unlimited",
			"a process may not reserve %llu GiB of addresses, which a session needs",
			(unsigned long long)(bytes >> 30));
	else
		munmap(arena, bytes);
	if (shared == MAP_FAILED)
		doctor_say(doctor, DOCTOR_MISSING, "memory", NULL,
			"the kernel, or a sandbox, must allow memfd_create and sealing",
			"shared memory cannot be made: %s", strerror(fd < 0 ? -fd : errno));
	else
		munmap(shared, 1 << 20);
	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < DESCRIPTORS_MIN)
		doctor_say(doctor, DOCTOR_MISSING, "memory", NULL, "raise 'ulimit -n'",
			"a process may open %llu files only", (unsigned long long)files.rlim_cur);
	else if (arena != MAP_FAILED && shared != MAP_FAILED)
		doctor_say(doctor, DOCTOR_OK, "memory", NULL, NULL,
			"addresses, shared memory and descriptors are enough");
}

static void check_workers(struct doctor *doctor, const json_t *workers)
{
	const char *why = field_text(workers, "no_cgroups");

	if (*why)
		doctor_say(doctor, DOCTOR_NOTE, "daemon", NULL,
			"files in memory that a worker makes are bounded by nothing else (docs/security.md)",
			"workers have no cgroups of their own: %s", why);
}

/* What gdevd says; the first of its devices goes to `served`. */
static void look_at_daemon(struct doctor *doctor, const char *dir, const json_t *answer,
	const char *asked, char served[64])
{
	const json_t *devices = json_object_get(answer, "devices"), *device, *warning;
	size_t index;

	json_array_foreach(json_object_get(answer, "warnings"), index, warning) doctor_say(
		doctor, DOCTOR_NOTE, "daemon", NULL, NULL, "%s", json_string_value(warning));
	check_workers(doctor, json_object_get(answer, "workers"));
	json_array_foreach(devices, index, device)
	{
		check_served(doctor, device);
		if (!index)
			snprintf(served, 64, "%s", field_text(device, "device"));
	}
	check_vgpus(doctor, dir);
	if (asked && !is_served(devices, asked))
		doctor_say(doctor, DOCTOR_NOTE, "device", NULL, NULL,
			"gdevd does not serve the device %s, about which you ask", asked);
}

/* In a virtual machine. What its GPU is made of only the host knows. */
static void look_at_guest(struct doctor *doctor, int found, const struct gdev_description *guest)
{
	if (found < 0)
		doctor_say(doctor, DOCTOR_MISSING, "vgpu", NULL, GUEST_RIGHT,
			"you may not use /dev/gdev0, the GPU of this virtual machine");
	else
		doctor_say(doctor, DOCTOR_OK, "vgpu", NULL, NULL,
			"you may use the GPU of this virtual machine, /dev/gdev0: %.63s",
			guest->device_name);
	doctor_say(doctor, DOCTOR_NOTE, "device", NULL, "'gdev doctor PROGRAM' says so there",
		"only the host knows what its device makes of a program's kernels");
}

void doctor_system(struct doctor *doctor, const char *device)
{
	static char served[64];
	struct gdev_description guest;
	char dir[PATHS_MAX];
	json_t *answer;
	int found;

	log_init("gdev doctor", LOG_LEVEL_WARNING);
	found = guest_describe(&guest);
	answer = found ? NULL : check_daemon(doctor, dir);
	if (found)
		look_at_guest(doctor, found, &guest);
	if (answer)
		look_at_daemon(doctor, dir, answer, device, served);
	json_decref(answer);
	check_library(doctor);
	doctor->device = device ? device : found ? "gdev0" : *served ? served : "cpu";
	if (device || !found)
		check_device(doctor);
	check_memory(doctor);
}

/* SPDX-License-Identifier: MIT
 *
 * Writes the virtual GPUs that were made at run time, and which devices are drained, in the form that config_load_made()
 * reads.
 */
#include "gdevd/config.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/paths.h"

/* One file, whole or not at all: a daemon that dies while it writes leaves the old one. */
int config_save_made(const struct config *config, const char *path)
{
	char temporary[PATHS_MAX];
	const struct config_device *device;
	const struct config_vgpu *vgpu;
	FILE *file;
	int error = 0;

	if (snprintf(temporary, sizeof temporary, "%s.new", path) >= (int)sizeof temporary)
		return -ENAMETOOLONG;
	unlink(temporary);
	file = fopen(temporary, "wxe");
	if (!file)
		return -errno;
	fputs("# Virtual GPUs made by 'gdev vgpu', of which gdev.conf wins, and devices drained by 'gdev "
	      "device'; gdevd writes this file.\n",
		file);
	list_for_each (device, &config->devices, link)
		if (device->drained) {
			fprintf(file, "\n[device %s]\ndrained = yes\n", device->name);
			if (*device->stand_in)
				fprintf(file, "stand_in = %s\n", device->stand_in);
		}
	list_for_each (vgpu, &config->vgpus, link) {
		if (vgpu->from_file)
			continue;
		fprintf(file, "\n[vgpu %s]\nowner = %u\ngroup = %u\nmode = %04o\n", vgpu->name,
			(unsigned)vgpu->owner, (unsigned)vgpu->group, (unsigned)vgpu->mode);
		fprintf(file, "priority = %lld\nstrict = %s\n", (long long)vgpu->priority,
			vgpu->strict ? "yes" : "no");
		if (*vgpu->device)
			fprintf(file, "device = %s\n", vgpu->device);
		if (vgpu->memory_bytes)
			fprintf(file, "memory = %llu\n", (unsigned long long)vgpu->memory_bytes);
		if (vgpu->shared_bytes != UINT64_MAX)
			fprintf(file, "shared = %llu\n", (unsigned long long)vgpu->shared_bytes);
		if (vgpu->preempt)
			fprintf(file, "preempt = %s\n", config_preempt_name(vgpu->preempt));
		if (vgpu->compute_capability)
			fprintf(file, "compute_capability = %u.%u\n",
				(unsigned)vgpu->compute_capability / 10,
				(unsigned)vgpu->compute_capability % 10);
		if (vgpu->time_limit_ms)
			fprintf(file, "time_limit_ms = %llu\n",
				(unsigned long long)vgpu->time_limit_ms);
		if (vgpu->compute_pct)
			fprintf(file, "compute = %llu\n", (unsigned long long)vgpu->compute_pct);
		if (vgpu->copy_pct)
			fprintf(file, "copy = %llu\n", (unsigned long long)vgpu->copy_pct);
		if (*vgpu->policy)
			fprintf(file, "policy = %s\n", vgpu->policy);
	}
	if (fflush(file) || fsync(fileno(file)))
		error = -errno;
	if (fclose(file) && !error)
		error = -errno;
	if (!error && rename(temporary, path))
		error = -errno;
	if (error)
		unlink(temporary);
	return error;
}

/* SPDX-License-Identifier: MIT
 *
 * gdevd's configuration, and the file of what was made at run time: any bytes are read, or refused with a reason; and
 * what was read is written and read again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/list.h"
#include "gdevd/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void require(bool condition, const char *what, const char *error)
{
	if (condition)
		return;
	fprintf(stderr, "%s: %s\n", what, error);
	abort();
}

static unsigned count(const struct config *config)
{
	const struct config_vgpu *vgpu;
	unsigned vgpus = 0;

	list_for_each (vgpu, &config->vgpus, link)
		vgpus++;
	return vgpus;
}

/* What was made comes back. */
static void save_and_load(struct config *config)
{
	char path[64], error[CONFIG_ERROR_MAX] = "";
	struct config again;

	snprintf(path, sizeof path, "/tmp/gdev-fuzz-config-%d", (int)getpid());
	require(!config_save_made(config, path), "not saved", path);
	config_init(&again);
	require(!config_load_made(&again, path, error), "not read again", error);
	require(count(&again) == count(config), "not all came back", path);
	config_finish(&again);
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char path[32], error[CONFIG_ERROR_MAX] = "";
	struct config config;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, length) != (ssize_t)length)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	for (int made = 0; made < 2; made++) {
		int result;
		config_init(&config);
		result = made ? config_load_made(&config, path, error)
			      : config_load(&config, path, error);
		require(!result || *error, "refused without a reason", "");
		if (!result && made)
			save_and_load(&config);
		config_finish(&config);
	}
	close(fd);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * GDEV_CPU_DUMP names a folder for what becomes of kernels, for people to read: PTX, LLVM's IR, assembly. A worker may
 * not open files once it runs a program's code, so its files are opened with the device, and all kernels of the program
 * follow one another there. gdevd hands its own environment to its workers: a client has no say in this.
 */
#include "device/cpu/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define DUMP_BYTES_MAX (256 << 20) /* of a file: a program can load modules without end */

/* The end of the file's name, and what begins a comment in it. */
static const struct {
	const char *end, *comment;
} forms[PTX_FORMS] = {
	[PTX_FORM_TEXT] = {"ptx", "//"},
	[PTX_FORM_IR] = {"ll", ";"},
	[PTX_FORM_OPTIMISED] = {"opt.ll", ";"},
	[PTX_FORM_ASSEMBLY] = {"s", "#"},
};

/* Never a file that is there: in a folder that others may write to, it could be a link. */
static int open_form(const char *folder, enum ptx_form form)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof path, "%s/%d.%s", folder, (int)getpid(), forms[form].end) >=
		(int)sizeof path)
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

void cpu_dump_open(struct device *device)
{
	const char *folder = secure_getenv("GDEV_CPU_DUMP");
	int error = 0;

	memset(device->dump, -1, sizeof device->dump);
	if (!folder || !*folder)
		return;
	if (*folder != '/')
		error = -EINVAL;
	else if (mkdir(folder, 0700) && errno != EEXIST)
		error = -errno;
	for (int form = 0; form < PTX_FORMS && !error; form++) {
		device->dump[form] = open_form(folder, (enum ptx_form)form);
		error = min_of(device->dump[form], 0);
	}
	if (error) {
		log_warning("GDEV_CPU_DUMP: cannot write to %s: %s; no kernels are written", folder,
			*folder == '/' ? strerror(-error) : "it does not begin with /");
		cpu_dump_close(device);
	}
}

void cpu_dump_close(struct device *device)
{
	for (int form = 0; form < PTX_FORMS; form++) {
		if (device->dump[form] >= 0)
			close(device->dump[form]);
		device->dump[form] = -1;
	}
}

/* In one piece, so that two threads' texts do not mix. */
static void dump(const struct device *device, enum ptx_form form, const char *title,
	const char *text, size_t length)
{
	autofree char *piece = NULL;
	int bytes;

	if (lseek(device->dump[form], 0, SEEK_END) > DUMP_BYTES_MAX)
		return;
	bytes = asprintf(&piece, "%s %s\n%.*s\n", forms[form].comment, title, (int)length, text);
	if (bytes < 0)
		piece = NULL;
	else if (write(device->dump[form], piece, (size_t)bytes) != bytes)
		log_warning("GDEV_CPU_DUMP: %m");
}

void cpu_dump_module(const struct device *device, const char *text, size_t length)
{
	if (cpu_dumps(device) && length < DUMP_BYTES_MAX)
		dump(device, PTX_FORM_TEXT, "a module", text, length);
}

struct listed {
	const struct device *device;
	char title[600];
};

static void on_form(void *owner, enum ptx_form form, const char *text)
{
	struct listed *listed = owner;

	dump(listed->device, form, listed->title, text, strnlen(text, DUMP_BYTES_MAX));
}

void cpu_dump_kernel(const struct device_function *function, const uint32_t block[3])
{
	struct listed listed = {.device = function->module->space->device};

	if (!cpu_dumps(listed.device))
		return;
	snprintf(listed.title, sizeof listed.title, "%s, block %ux%ux%u", function->kernel->name,
		block[0], block[1], block[2]);
	ptx_list(function->module->ptx, function->kernel, block, on_form, &listed);
}

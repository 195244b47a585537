/* SPDX-License-Identifier: MIT
 *
 * gdev-vm: `gdev vm serve` becomes this. Describes the virtual GPU, makes the guest's memory, writes QEMU's arguments down for
 * `gdev vm args`, and serves.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/paths.h"
#include "gdev/error.h"
#include "gdev/session.h"
#include "vm/serve.h"

#define MIB (1ull << 20)
#define STORES_SLOT                                                                                \
	0x16 /* of QEMU's PCI bus: the first that eight stores share. Those below are for other devices */

struct arguments {
	const char *vgpu, *socket;
	struct guest_sizes sizes;
};

/* "512M", "2G"; 0: it is no such size. */
static uint64_t parse_size(const char *text)
{
	char *end;
	uint64_t number = strtoull(text, &end, 10);
	uint64_t unit = *end == 'G' ? 1024 * MIB : *end == 'M' ? MIB : 0;

	return unit && !end[1] && number && number < (1u << 20) ? number * unit : 0;
}

static int parse(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {
		{"vgpu", required_argument, NULL, 'v'},
		{"socket", required_argument, NULL, 's'},
		{"memory", required_argument, NULL, 'm'},
		{"locked", required_argument, NULL, 'l'},
		{"sessions", required_argument, NULL, 'n'},
		{NULL},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case 'v':
			arguments->vgpu = optarg;
			break;
		case 's':
			arguments->socket = optarg;
			break;
		case 'm':
			arguments->sizes.ram_bytes = parse_size(optarg);
			break;
		case 'l':
			arguments->sizes.store_bytes = parse_size(optarg);
			break;
		case 'n':
			arguments->sizes.slots = (unsigned)strtoul(optarg, NULL, 10);
			break;
		default:
			return -EINVAL;
		}
	return optind == argc && arguments->socket ? 0 : -EINVAL;
}

static int describe(struct guest *guest, const char *vgpu)
{
	struct vm_header *header = &guest->header;
	struct gdev_description description;
	int error = gdev_vgpu_describe(vgpu, &description, header->properties);

	if (error) {
		log_error("virtual GPU %s: %s", vgpu, gdev_strerror(error));
		return error;
	}
	header->description.memory_bytes = description.memory_bytes;
	memcpy(header->description.vgpu, description.vgpu, sizeof header->description.vgpu);
	memcpy(header->description.device_name, description.device_name,
		sizeof header->description.device_name);
	memcpy(header->description.device_uuid, description.device_uuid,
		sizeof header->description.device_uuid);
	return 0;
}

/* QEMU may be started in another folder. */
static int make_absolute(const char *path, char absolute[PATHS_MAX])
{
	char folder[PATHS_MAX] = "";

	if (*path != '/' && !getcwd(folder, sizeof folder))
		return -errno;
	return snprintf(absolute, PATHS_MAX, "%s%s%s", folder, *path == '/' ? "" : "/", path) <
			       PATHS_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

/* The RAM that QEMU is to use is our memfd, by a link beside the socket. */
static int write_arguments(const struct guest *guest, const char *socket)
{
	char path[PATHS_MAX], link[PATHS_MAX], target[64];
	FILE *file;
	int fd;

	if (snprintf(path, sizeof path, "%s.args", socket) >= (int)sizeof path ||
		snprintf(link, sizeof link, "%s.ram", socket) >= (int)sizeof link)
		return -ENAMETOOLONG;
	snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), guest->ram_fd);
	unlink(link);
	unlink(path);
	if (symlink(target, link))
		return -errno;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file)
		return -errno;
	fprintf(file,
		"-machine q35,memory-backend=gdev-ram\n"
		"-m %lluM\n"
		"-object memory-backend-file,id=gdev-ram,size=%lluM,mem-path=%s,share=on\n"
		"-chardev socket,id=gdev,path=%s\n"
		"-device ivshmem-doorbell,chardev=gdev,vectors=%u\n",
		(unsigned long long)(guest->sizes.ram_bytes / MIB),
		(unsigned long long)(guest->sizes.ram_bytes / MIB), link, socket,
		guest->sizes.slots + 1);
	for (unsigned i = 0; i < guest->sizes.slots; i++)
		fprintf(file,
			"-object memory-backend-file,id=gdev-store%u,size=%lluM,mem-path=/proc/%d/fd/%d,share=on\n"
			"-device ivshmem-plain,memdev=gdev-store%u,addr=%x.%u,multifunction=on\n",
			i, (unsigned long long)(guest->sizes.store_bytes / MIB), (int)getpid(),
			guest->stores[i], i, STORES_SLOT + i / 8, i % 8);
	return fclose(file) ? -errno : 0;
}

static void remove_arguments(const char *socket)
{
	char path[PATHS_MAX + sizeof ".args"];

	snprintf(path, sizeof path, "%s.args", socket);
	unlink(path);
	snprintf(path, sizeof path, "%s.ram", socket);
	unlink(path);
}

int main(int argc, char **argv)
{
	struct arguments arguments = {
		.sizes = {.ram_bytes = 1024 * MIB, .store_bytes = 1024 * MIB, .slots = 16}};
	static struct guest guest;
	char first[GDEV_NAME_MAX], socket[PATHS_MAX];
	int error, status;

	log_init("gdev-vm", LOG_LEVEL_INFO);
	if (parse(argc, argv, &arguments)) {
		log_error("--socket PATH is needed; 'gdev help vm' says what else there is");
		return 2;
	}
	/* What lies beside it is another server's, too. */
	if (!access(arguments.socket, F_OK)) {
		log_error(
			"%s is there: end the 'gdev vm serve' that has it, or remove it if none runs",
			arguments.socket);
		return 1;
	}
	if (!arguments.vgpu && !gdev_vgpu_name(0, first))
		arguments.vgpu = first;
	error = guest_create(&guest, &arguments.sizes);
	if (error == -EINVAL)
		log_error(
			"--memory is a multiple of 2M, --locked a power of two of 4M or more, --sessions 1 to %d",
			VM_SLOTS_MAX);
	else if (error)
		log_error("the guest's memory: %s", strerror(-error));
	if (error || describe(&guest, arguments.vgpu))
		return 1;
	error = make_absolute(arguments.socket, socket);
	if (!error)
		error = write_arguments(&guest, socket);
	if (error) {
		log_error("%s: %s", arguments.socket, strerror(-error));
		return 1;
	}
	status = serve(&guest, arguments.socket, arguments.vgpu);
	remove_arguments(socket);
	return status;
}

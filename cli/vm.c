/* SPDX-License-Identifier: MIT
 *
 * gdev vm: a virtual machine's GPU, from the host's side. `serve` becomes gdev-vm; `args` prints what that has written down
 * for QEMU. And what the command says in the guest, where there is no gdevd to ask.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "gdev/session.h"

/* ---- on the host ---- */

static int become_server(char **argv)
{
	static const char *const places[] = {
		"../vm/gdev-vm",           /* the build tree */
		"../libexec/gdev/gdev-vm", /* installed */
		"../lib/gdev/gdev-vm",
		NULL,
	};
	char program[PATHS_MAX];

	if (paths_sibling(places, program)) {
		say("cannot find gdev-vm, which belongs to gdev");
		return EXIT_FAILED;
	}
	argv[0] = program;
	execv(program, argv);
	say("cannot execute %s: %s", program, strerror(errno));
	return EXIT_FAILED;
}

static int print_arguments(int argc, char **argv)
{
	static const struct option options[] = {{"socket", required_argument, NULL, 's'}, {NULL}};
	char path[PATHS_MAX], line[1024];
	const char *socket = NULL;
	int option;
	FILE *file;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option != 's')
			return usage(&verb_vm, NULL);
		socket = optarg;
	}
	if (!socket || optind < argc)
		return usage(&verb_vm, "args needs --socket PATH, as serve has it");
	snprintf(path, sizeof path, "%s.args", socket);
	file = fopen(path, "re");
	if (!file) {
		say("%s: %s; does 'gdev vm serve' run?", path, strerror(errno));
		return EXIT_FAILED;
	}
	while (fgets(line, sizeof line, file))
		fputs(line, stdout);
	fclose(file);
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	for (int i = 1; i < argc && i < 3; i++) /* of vm, and of what is behind it */
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			fputs(verb_vm.help, stdout);
			return EXIT_OK;
		}
	if (!strcmp(command, "serve"))
		return become_server(argv + 1);
	if (!strcmp(command, "args"))
		return print_arguments(argc - 1, argv + 1);
	return usage(
		&verb_vm, *command ? "there is no \"gdev vm %s\"" : "serve or args?%s", command);
}

/* ---- in the guest ---- */

int guest_describe(struct gdev_description *description)
{
	int32_t properties[GDEV_PROPERTIES];

	if (getenv("GDEV_RUNTIME_DIR"))
		return 0;
	if (access("/dev/gdev0", R_OK | W_OK))
		return errno == EACCES ? -EACCES : 0;
	return !gdev_vgpu_describe("gdev0", description, properties) && description->apart;
}

int guest_find(struct gdev_description *description)
{
	int found = guest_describe(description);

	if (found < 0)
		say("you may not use /dev/gdev0, the GPU of this virtual machine: " GUEST_RIGHT);
	return found;
}

int guest_status(const struct gdev_description *description, bool json)
{
	char total[TEXT_MAX];

	if (json) {
		json_t *status = json_pack("{s:b, s:s, s:I}", "virtual_machine", 1, "device",
			description->device_name, "memory_bytes",
			(json_int_t)description->memory_bytes);
		print_json(status);
		json_decref(status);
		return EXIT_OK;
	}
	printf("gdev of a virtual machine; its sessions are on the host, where 'gdev status' shows them\n"
	       "device /dev/gdev0: %s, %s\n",
		description->device_name, text_bytes(total, (json_int_t)description->memory_bytes));
	return EXIT_OK;
}

const struct verb verb_vm = {
	.name = "vm",
	.summary = "give a virtual machine a GPU",
	.help = "Usage: gdev vm serve --socket PATH [--vgpu NAME] [--memory SIZE] [--locked SIZE]\n"
		"                     [--sessions COUNT]\n"
		"       gdev vm args --socket PATH\n"
		"serve gives a virtual machine of QEMU a virtual GPU: the programs of the guest share it\n"
		"as programs of one user do here. It serves one machine at a time, the next when that has\n"
		"gone, until it is ended. args prints what QEMU has to be started with.\n"
		"\n"
		"  --socket PATH      where QEMU connects; also PATH.args and PATH.ram are made\n"
		"  --vgpu NAME        the virtual GPU, instead of $GDEV_VGPU or gdev0\n"
		"  --memory SIZE      the machine's RAM, such as 2G (1G)\n"
		"  --locked SIZE      page-locked memory that a program may have, a power of two (1G)\n"
		"  --sessions COUNT   how many programs at a time, 64 at most (16)\n"
		"\n"
		"  gdev vm serve --vgpu train --socket /run/gdev/vm1 &\n"
		"  qemu-system-x86_64 $(gdev vm args --socket /run/gdev/vm1) -drive ...\n"
		"\n"
		"In the guest: 'modprobe gdev', and programs find /dev/gdev0 (docs/vm.md).\n",
	.run = run,
};

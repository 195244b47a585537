/* SPDX-License-Identifier: MIT
 *
 * gdev help: lists the verbs, or explains one.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct verb *verb;

	if (argc > 2)
		return usage(&verb_help, "one command at a time");
	if (name && (!strcmp(name, "--help") || !strcmp(name, "-h")))
		name = "help";
	verb = name ? verb_find(name) : NULL;
	if (name && !verb) {
		say("there is no command \"%s\"; 'gdev help' lists them", name);
		return EXIT_USAGE;
	}
	if (verb) {
		fputs(verb->help, stdout);
		return EXIT_OK;
	}
	puts("Usage: gdev COMMAND [ARGUMENT]...\n"
	     "Shares a GPU, or the built-in software GPU, among programs.\n");
	for (const struct verb *const *one = verbs; *one; one++)
		printf("  %-8s %s\n", (*one)->name, (*one)->summary);
	puts("\n"
	     "  gdev run ./my_cuda_program     # run a CUDA program; no GPU is needed\n"
	     "  gdev status                    # who uses the GPU, and who did\n"
	     "  gdev help run                  # more about one command\n"
	     "\n"
	     "Environment: GDEV_RUNTIME_DIR (where gdevd's sockets are), GDEV_VGPU (the virtual\n"
	     "GPU that programs use; gdev0 unless it is set). See also gdev(1) and gdevd(8).");
	return EXIT_OK;
}

const struct verb verb_help = {
	.name = "help",
	.summary = "explain a command",
	.help = "Usage: gdev help [COMMAND]\n"
		"Lists the commands, or explains one. 'gdev COMMAND --help' does the same.\n",
	.run = run,
};

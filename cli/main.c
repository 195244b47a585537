/* SPDX-License-Identifier: MIT
 *
 * gdev: the command of gdev's users. Finds the verb, and leaves the rest to its file.
 */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct verb *const verbs[] = {
	&verb_run,
	&verb_status,
	&verb_device,
	&verb_vgpu,
	&verb_shm,
	&verb_graph,
	&verb_top,
	&verb_tune,
	&verb_trace,
	&verb_doctor,
	&verb_vm,
	&verb_suspend,
	&verb_resume,
	&verb_help,
	NULL,
};

static const char *current = "";

const struct verb *verb_find(const char *name)
{
	for (const struct verb *const *verb = verbs; *verb; verb++)
		if (!strcmp((*verb)->name, name))
			return *verb;
	return NULL;
}

static void say_list(const char *format, va_list args)
{
	fprintf(stderr, "gdev%s%s: ", *current ? " " : "", current);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_list(format, args);
	va_end(args);
}

int usage(const struct verb *verb, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (format)
		say_list(format, args);
	va_end(args);
	fprintf(stderr, "Try 'gdev help %s'.\n", verb->name);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	static char called[32];
	const struct verb *verb;

	if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return verb_help.run(1, (char *[]){NULL, NULL}) || argc < 2 ? EXIT_USAGE : EXIT_OK;
	if (!strcmp(argv[1], "--version")) {
		puts("gdev " GDEV_VERSION);
		return EXIT_OK;
	}
	verb = verb_find(argv[1]);
	if (!verb) {
		say("there is no command \"%s\"; 'gdev help' lists them", argv[1]);
		return EXIT_USAGE;
	}
	current = verb->name;
	snprintf(called, sizeof called, "gdev %s", verb->name);
	argv[1] = called; /* what getopt complains with */
	return verb->run(argc - 1, argv + 1);
}

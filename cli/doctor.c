/* SPDX-License-Identifier: MIT
 *
 * gdev doctor: says before a run whether a program will run here, and what is missing.
 */
#include "cli/doctor.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"

static const char *const level_words[] = {
	[DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_MISSING] = "missing"};

/* Names are strangers' bytes: no control characters for the terminal. */
static void print_plain(const char *text)
{
	for (; *text; text++)
		putchar(*text < ' ' || *text > '~' ? '?' : *text);
}

static void keep(struct doctor *doctor, enum doctor_level level, const char *topic, json_t *more,
	const char *advice, const char *text)
{
	json_t *finding = more ? more : json_object();
	json_t *said = json_string(text);

	json_object_set_new(finding, "level", json_string(level_words[level]));
	json_object_set_new(finding, "topic", json_string(topic));
	json_object_set_new(finding, "text", said ? said : json_string("?")); /* not UTF-8 */
	json_object_set_new(finding, "advice", advice ? json_string(advice) : json_null());
	json_array_append_new(doctor->findings, finding);
}

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *topic, json_t *more,
	const char *advice, const char *format, ...)
{
	autofree char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	doctor->missing += level == DOCTOR_MISSING;
	if (doctor->findings) {
		keep(doctor, level, topic, more, advice, text);
		return;
	}
	json_decref(more);
	printf("%-8s ", level_words[level]);
	print_plain(text);
	putchar('\n');
	if (advice)
		printf("%-8s %s\n", "", advice);
}

static int report(struct doctor *doctor, const char *program)
{
	if (doctor->findings) {
		json_t *answer = json_pack("{s:b,s:s,s:s?,s:o}", "ok", !doctor->missing, "device",
			doctor->device, "program", program, "findings", doctor->findings);
		print_json(answer);
		json_decref(answer);
	} else if (doctor->missing) {
		printf("\n%u thing%s missing.\n", doctor->missing,
			doctor->missing > 1 ? "s are" : " is");
	} else if (program && doctor->may) {
		puts("\nIt may run: what is missing is nothing that it surely uses.");
	} else if (program) {
		puts(doctor->cuda ? "\nIt will run: nothing is missing." : "\nNothing is missing.");
	} else {
		puts("\nNothing is missing.");
	}
	return doctor->missing ? EXIT_FAILED : EXIT_OK;
}

static int run(int argc, char **argv)
{
	static const struct option options[] = {
		{"device", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	struct doctor doctor = {0};
	const char *device = NULL, *program;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			device = optarg;
			break;
		case 'j':
			doctor.findings = json_array();
			break;
		case 'h':
			fputs(verb_doctor.help, stdout);
			return EXIT_OK;
		default:
			return usage(&verb_doctor, NULL);
		}
	}
	if (argc - optind > 1)
		return usage(&verb_doctor, "one program at a time");
	program = argv[optind];
	doctor_system(&doctor, device);
	if (program)
		doctor_program(&doctor, program);
	return report(&doctor, program);
}

const struct verb verb_doctor = {
	.name = "doctor",
	.summary = "say whether a program will run here, and what is missing",
	.help = "Usage: gdev doctor [--device cpu|cuda:0] [--json] [PROGRAM]\n"
		"Looks, without running anything, whether a program can run here: gdevd and your right\n"
		"to use it, the device, and what the system allows; which functions of CUDA the program\n"
		"and its libraries need that gdev does not have; and which instructions of its kernels\n"
		"the software GPU does not know, with kernel and line of the PTX. Says what to do.\n"
		"PROGRAM is a program, a library, a PTX text or a fat binary; without it, only the\n"
		"system is looked at. What a library lacks need not matter, as a program uses little of it:\n"
		"that is noted, and ask about the library itself to see more.\n"
		"\n"
		"  --device NAME   ask about this device; otherwise the one that gdevd serves, else cpu\n"
		"  --json          for programs: {\"ok\", \"device\", \"program\", \"findings\": [{\"level\",\n"
		"                  \"topic\", \"text\", \"advice\", and what it is about}]}\n"
		"\n"
		"It cannot see what a program loads while it runs: compiled kernels (NVRTC), libraries\n"
		"that it opens itself; ask about those by their own names.\n"
		"\n"
		"  gdev doctor\n"
		"  gdev doctor ./matrix\n"
		"  gdev doctor --device cpu kernels.ptx\n"
		"\n"
		"Exit status: 0 when nothing is missing, 1 when something is, 2 on wrong usage.\n",
	.run = run,
};

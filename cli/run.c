/* SPDX-License-Identifier: MIT
 *
 * gdev run: a program with gdev's libcuda first. This process becomes the program, so that its exit
 * status, its signals and its terminal are exactly the program's. The connection to gdevd stays open
 * across that, and keeps a private daemon as long as the program, or a child of its, lives.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdev/session.h"
#include "proto/check_names.h"

#define HOLD_FD_MIN 100 /* out of the way of programs that count on low numbers */
#define VISIBLE_MAX 512 /* bytes of CUDA_VISIBLE_DEVICES; a longer list is not said */

/* The virtual GPU's socket says whether it exists, and whether we may use it. */
static int check_vgpu(const char *dir, const char *vgpu, size_t length)
{
	char path[2 * PATHS_MAX];

	snprintf(path, sizeof path, "%s/%.*s.sock", dir, (int)length, vgpu);
	if (access(path, R_OK | W_OK) == 0)
		return 0;
	if (errno == EACCES)
		say("you may not use the virtual GPU \"%.*s\": 'gdev vgpu list' shows who may",
			(int)length, vgpu);
	else
		say("no virtual GPU \"%.*s\"; 'gdev vgpu list' shows them", (int)length, vgpu);
	return -errno;
}

/* All that a list, separated by commas, names. */
static int check_vgpus(const char *dir, const char *list)
{
	int error = 0;

	while (*list && !error) {
		size_t length = strcspn(list, ",");

		if (length)
			error = check_vgpu(dir, list, length);
		list += length + (list[length] == ',');
	}
	return error;
}

static bool list_has(const char *list, const char *name)
{
	while (*list) {
		size_t length = strcspn(list, ",");

		if (length == strlen(name) && !strncmp(list, name, length))
			return true;
		list += length + (list[length] == ',');
	}
	return false;
}

/* The program is only told that a device is not available. It may do without, so it is started all the same. */
static void warn_of_closed(int hold, const char *list)
{
	json_t *request = request_create("hold"), *answer = daemon_ask(hold, request);
	const json_t *closed;
	size_t index;

	json_array_foreach(json_object_get(answer, "closed"), index,
		closed) if (list_has(list, field_text(closed, "vgpu")))
		say("virtual GPU \"%s\" takes no sessions: its device %s is %s; 'gdev device list' shows "
		    "why, and --vgpu names another",
			field_text(closed, "vgpu"), field_text(closed, "device"),
			field_text(closed, "health"));
	json_decref(answer);
	json_decref(request);
}

int program_library(char *path)
{
	static const char *const places[] = {
		"../lib/cuda/libcuda.so.1",             /* the build tree */
		"../" GDEV_LIBDIR "/gdev/libcuda.so.1", /* installed */
		"../lib/gdev/libcuda.so.1",
		"../lib64/gdev/libcuda.so.1",
		NULL,
	};

	return paths_sibling(places, path);
}

static void prepend(const char *variable, const char *path)
{
	const char *before = getenv(variable);
	autofree char *list = NULL;

	if (asprintf(&list, "%s%s%s", path, before && *before ? ":" : "", before ? before : "") < 0)
		abort();
	setenv(variable, list, 1);
}

static void prepend_libraries(void)
{
	static const char *const places[] = {
		"../lib/libgdev/libgdev-io.so",          /* the build tree */
		"../" GDEV_LIBDIR "/gdev/libgdev-io.so", /* installed */
		"../lib/gdev/libgdev-io.so",
		"../lib64/gdev/libgdev-io.so",
		NULL,
	};
	char library[PATHS_MAX];

	/* For system calls on managed memory; a build with sanitizers has none. */
	if (!paths_sibling(places, library))
		prepend("LD_PRELOAD", library);
	if (program_library(library)) {
		say("cannot find gdev's libcuda.so.1: the program gets whichever there is");
		return;
	}
	*strrchr(library, '/') = '\0';
	prepend("LD_LIBRARY_PATH", library);
}

static int keep_across_exec(int hold)
{
	int kept = fcntl(hold, F_DUPFD, HOLD_FD_MIN);

	if (kept < 0) /* few descriptors are allowed: the low number then */
		kept = fcntl(hold, F_DUPFD, 3);
	close(hold);
	return kept < 0 ? -errno : 0;
}

/* The mode is the program's wish; its virtual GPU may say otherwise. */
static bool set_preempt(const char *mode)
{
	if (mode && strcmp(mode, "off") && strcmp(mode, "blocks") && strcmp(mode, "loops"))
		return false;
	setenv("GDEV_PREEMPT", mode ? mode : "blocks", 1);
	return true;
}

/* The program's library does the checking; it learns of it by its environment. */
static bool set_checks(const char *list)
{
	uint32_t checks;

	if (list && (!*list || check_names_parse(list, &checks)))
		return false;
	setenv("GDEV_CHECK", list ? list : CHECK_NAMES_ALL, 1);
	return true;
}

static bool set_status(const char *text)
{
	char *end;
	long status = strtol(text, &end, 10);

	if (*end || status < 1 || status > 255)
		return false;
	setenv("GDEV_CHECK_EXIT", text, 1);
	return true;
}

static int parse(int argc, char **argv, const char **vgpu)
{
	static const struct option options[] = {
		{"vgpu", required_argument, NULL, 'v'},
		{"preempt", optional_argument, NULL, 'p'},
		{"check", optional_argument, NULL, 'c'},
		{"error-exitcode", required_argument, NULL, 'e'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	int option;

	/* "+": the program's own options are not ours. */
	while ((option = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(verb_run.help, stdout);
			return -1 - EXIT_OK;
		}
		if (option == 'v') {
			*vgpu = optarg;
			continue;
		}
		if (option == 'p'       ? set_preempt(optarg)
			: option == 'c' ? set_checks(optarg)
					: option == 'e' && set_status(optarg))
			continue;
		usage(&verb_run, option == 'p'   ? "--preempt is off, blocks or loops"
				 : option == 'c' ? "--check is a list of " CHECK_NAMES_ALL
				 : option == 'e' ? "--error-exitcode is a number from 1 to 255"
						 : NULL);
		return -1 - EXIT_RUN_FAILED;
	}
	return optind;
}

/* Programs that count devices by NVIDIA's management library, as PyTorch does, count the machine's cards, and of them those
 * that CUDA_VISIBLE_DEVICES names. A user's own choice stays: it is one among the virtual GPUs. */
static void say_how_many(const char *list)
{
	char visible[VISIBLE_MAX] = "0";
	size_t length = 1;

	for (unsigned i = 1; (list = strchr(list, ',')); list++, i++) {
		length += (size_t)snprintf(visible + length, sizeof visible - length, ",%u", i);
		if (length >= sizeof visible)
			return;
	}
	setenv("CUDA_VISIBLE_DEVICES", visible, 0);
}

int program_prepare(const char *vgpu, char *dir)
{
	const char *chosen = vgpu ? vgpu : getenv("GDEV_VGPU");
	struct gdev_description guest;
	int hold, error, found = guest_find(&guest);

	if (found < 0)
		return found; /* and not the software GPU of a gdevd that is started */
	if (found) {
		if (vgpu)
			setenv("GDEV_VGPU", vgpu, 1);
		prepend_libraries();
		return open("/dev/null", O_RDONLY | O_CLOEXEC); /* nothing is to be kept */
	}
	hold = daemon_connect(dir);
	if (hold == -ECONNREFUSED)
		hold = daemon_start_private(dir);
	else if (hold < 0)
		say("the gdevd in %s does not answer: %s", dir, strerror(-hold));
	else if (getenv("GDEV_CPU_DUMP"))
		say("GDEV_CPU_DUMP is read when a gdevd starts: the one in %s runs already", dir);
	if (hold < 0)
		return hold;
	error = check_vgpus(dir, chosen && *chosen ? chosen : "gdev0");
	if (error) {
		close(hold);
		return error;
	}
	if (chosen && *chosen) {
		warn_of_closed(hold, chosen);
		say_how_many(chosen);
	}
	if (vgpu)
		setenv("GDEV_VGPU", vgpu, 1);
	setenv("GDEV_RUNTIME_DIR", dir, 1);
	prepend_libraries();
	return hold;
}

int program_exec(char *const *command)
{
	execvp(command[0], command);
	say("cannot execute %s: %s", command[0], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}

static int run(int argc, char **argv)
{
	const char *vgpu = NULL;
	char dir[PATHS_MAX];
	int first = parse(argc, argv, &vgpu), hold;

	if (first < 0)
		return -1 - first;
	if (first >= argc) {
		usage(&verb_run, "which program?");
		return EXIT_RUN_FAILED;
	}
	hold = program_prepare(vgpu, dir);
	if (hold < 0)
		return EXIT_RUN_FAILED;
	if (keep_across_exec(hold)) {
		say("no file descriptors left");
		return EXIT_RUN_FAILED;
	}
	return program_exec(argv + first);
}

const struct verb verb_run = {
	.name = "run",
	.summary = "run a CUDA program",
	.help = "Usage: gdev run [--vgpu NAME] [--preempt[=MODE]] [--check[=LIST]] PROGRAM [ARGUMENT]...\n"
		"Runs a program, unmodified, on a virtual GPU. Its exit status is the program's.\n"
		"\n"
		"  --vgpu NAME   the virtual GPU to use, instead of $GDEV_VGPU or gdev0\n"
		"  --preempt     kernels leave the GPU between two blocks when others are to have it.\n"
		"                On an NVIDIA GPU they are rewritten for that, as far as the program\n"
		"                has them as PTX; 'gdev doctor' says which cannot be. --preempt=loops:\n"
		"                and in the middle of a block, at barriers in loops. --preempt=off: not\n"
		"  --check[=LIST]\n"
		"                look for faults in kernels, on the software GPU only: a list of memcheck,\n"
		"                initcheck, racecheck, synccheck, leakcheck, or all; reports on stderr\n"
		"  --error-exitcode STATUS\n"
		"                with --check: the exit status when something was found\n"
		"\n"
		"When no gdevd is running, a private one is started on the machine's GPU, or on the\n"
		"software GPU where there is none (or as ~/.config/gdev/gdev.conf says), and leaves\n"
		"with the last program that uses it.\n"
		"\n"
		"  gdev run ./matrix 1024\n"
		"  gdev run --vgpu train python3 train.py\n"
		"  GDEV_LOG=failed gdev run ./matrix 1024   # say which CUDA calls fail, and why\n"
		"\n"
		"Exit status: the program's; 125 when gdev failed, 126 when the program cannot be\n"
		"executed, 127 when there is none.\n",
	.run = run,
};

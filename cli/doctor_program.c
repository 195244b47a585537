/* SPDX-License-Identifier: MIT
 *
 * What a program needs: the functions of the CUDA Driver API that it and its libraries are linked with or ask for by
 * name, and what its device code consists of. Nothing of it is run.
 */
#include "cli/doctor.h"
#include "cli/library_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/paths.h"

#define LIBRARIES_MAX 512
#define EM_GPU 190 /* machine code of NVIDIA's GPUs */
#define MANY_NAMES                                                                                 \
	100 /* a file that asks for so many by name is the runtime, and asks for all there are */

struct program {
	struct doctor *doctor;
	char *names[LIBRARIES_MAX]; /* of libraries: looked at, or to be */
	unsigned name_count;
	char search[4 * PATHS_MAX]; /* all RUNPATHs so far, $ORIGIN resolved */
	char origin[PATHS_MAX];
};

static bool is_driver_name(const char *name)
{
	return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

static int compare(const void *key, const void *element)
{
	return strcmp(key, ((const struct doctor_function *)element)->name);
}

static const struct doctor_function *find_function(const char *name)
{
	return bsearch(
		name, doctor_functions, doctor_function_count, sizeof *doctor_functions, compare);
}

/* ---- functions ---- */

enum doctor_level doctor_lacks(const struct wanted *wanted)
{
	wanted->doctor->may |= wanted->library;
	return wanted->library ? DOCTOR_NOTE : DOCTOR_MISSING;
}

static void on_undefined(void *owner, const char *name, bool weak)
{
	struct wanted *wanted = owner;
	const struct doctor_function *function;
	const char *advice = NULL, *what = "";
	bool there;

	if (!is_driver_name(name) || weak) /* what is weak is looked for before it is used */
		return;
	wanted->linked++;
	wanted->doctor->cuda = true;
	function = find_function(name);
	if (function && function->linked > 0)
		return;
	there = function && !function->linked;
	if (there && function->asked > 0) {
		what = " of the oldest version";
		advice = "compile it again: a newer cuda.h means a newer version by the name";
	}
	doctor_say(wanted->doctor, there ? doctor_lacks(wanted) : DOCTOR_MISSING, "function",
		json_pack("{s:s,s:s}", "function", name, "file", wanted->path), advice,
		there ? "%s needs %s%s, which gdev does not support: it returns CUDA_ERROR_NOT_SUPPORTED"
		      : "%s needs %s%s, which gdev's libcuda does not have: the program will not start",
		wanted->path, name, what);
}

/* A string of its own that is a function's name. */
static void look_for_names(struct wanted *wanted, struct bytes bytes)
{
	static const char mark[] = {'\0', 'c', 'u'};
	const uint8_t *at = bytes.at, *end = bytes.at + bytes.length;

	while (at < end && (at = memmem(at, (size_t)(end - at), mark, sizeof mark))) {
		const struct doctor_function *function;

		at++;
		if (!memchr(at, '\0', (size_t)(end - at)) || !is_driver_name((const char *)at))
			continue;
		function = find_function((const char *)at);
		if (!function || wanted->seen[function - doctor_functions])
			continue;
		wanted->seen[function - doctor_functions] = true;
		wanted->by_name++;
		wanted->doctor->cuda = true;
		wanted->by_name_missing += !function->asked;
	}
}

static void report_names(struct wanted *wanted)
{
	if (wanted->by_name > MANY_NAMES && wanted->by_name_missing) {
		doctor_say(wanted->doctor, DOCTOR_NOTE, "function",
			json_pack("{s:s}", "file", wanted->path), NULL,
			"%s asks for %u functions by name, as NVIDIA's runtime does, of which gdev does not "
			"support %u; that matters only if the program uses them",
			wanted->path, wanted->by_name, wanted->by_name_missing);
		return;
	}
	for (size_t i = 0; i < doctor_function_count; i++)
		if (wanted->seen[i] && !doctor_functions[i].asked)
			doctor_say(wanted->doctor, doctor_lacks(wanted), "function",
				json_pack("{s:s,s:s}", "function", doctor_functions[i].name, "file",
					wanted->path),
				NULL, "%s asks for %s by name, which gdev does not support",
				wanted->path, doctor_functions[i].name);
}

/* ---- a file ---- */

static void look_into(struct wanted *wanted, const struct elf *elf)
{
	struct elf_section section;

	if (!elf->section_count)
		doctor_say(wanted->doctor, DOCTOR_NOTE, "program",
			json_pack("{s:s}", "file", wanted->path), NULL,
			"%s has no sections: what it needs cannot be seen", wanted->path);
	elf_each_undefined(elf, on_undefined, wanted);
	for (size_t i = 0; elf_section(elf, i, &section); i++) {
		if (section.type != SHT_PROGBITS || !section.bytes.length)
			continue;
		if (!strcmp(section.name, ".nv_fatbin")) {
			doctor_image(wanted, section.bytes, section.name);
		} else if (!strcmp(section.name, "__nv_relfatbin")) {
			wanted->has_units = true;
		} else if (section.flags & SHF_ALLOC && !(section.flags & SHF_EXECINSTR)) {
			look_for_names(wanted, section.bytes);
			doctor_data(wanted, section.bytes, section.name);
		}
	}
	report_names(wanted);
	if (wanted->has_units)
		doctor_units(wanted);
	if (wanted->makes_code)
		doctor_say(wanted->doctor, DOCTOR_NOTE, "image",
			json_pack("{s:s}", "file", wanted->path), NULL,
			"%s has pieces of PTX in its data: what it makes of them as it runs cannot be seen",
			wanted->path);
}

static bool looks_like_an_image(struct bytes file)
{
	static const uint8_t fat[] = {0x50, 0xed, 0x55, 0xba};

	if (file.length >= sizeof fat && !memcmp(file.at, fat, sizeof fat))
		return true;
	return !memchr(file.at, '\0', file.length ? file.length - 1 : 0) && file.length &&
	       memmem(file.at, file.length, ".version", strlen(".version"));
}

void doctor_file(struct doctor *doctor, const char *path, bool library, struct bytes file)
{
	struct wanted wanted = {.doctor = doctor, .path = path, .library = library};
	autofree bool *seen = calloc(doctor_function_count, sizeof *seen);
	struct elf elf;

	wanted.seen = seen;
	if (!seen)
		return;
	if (elf_open(&elf, file) && elf.machine != EM_GPU)
		look_into(&wanted, &elf);
	else if (elf.machine == EM_GPU || looks_like_an_image(file))
		doctor_image(&wanted, file, "the file");
	else if (file.length >= 2 && !memcmp(file.at, "#!", 2))
		doctor_say(doctor, DOCTOR_NOTE, "program", json_pack("{s:s}", "file", path),
			"ask about the libraries that it loads",
			"%s is a script: what it needs cannot be seen", path);
	else
		doctor_say(doctor, DOCTOR_MISSING, "program", json_pack("{s:s}", "file", path),
			NULL, "%s is no 64-bit program, no PTX and no fat binary", path);
	if (wanted.linked || wanted.by_name)
		doctor_say(doctor, DOCTOR_OK, "function", json_pack("{s:s}", "file", path), NULL,
			"%s: linked with %u functions of CUDA, asks for %u by name", path,
			wanted.linked, wanted.by_name);
}

/* ---- its libraries ---- */

static void set_origin(struct program *program, const char *path)
{
	char *slash;

	snprintf(program->origin, sizeof program->origin, "%s", path);
	slash = strrchr(program->origin, '/');
	if (slash)
		*slash = '\0';
	else
		strcpy(program->origin, ".");
}

static void add_search(struct program *program, const char *list)
{
	size_t used = strlen(program->search);
	static const char *const marks[] = {"$ORIGIN", "${ORIGIN}"};

	while (*list && used < sizeof program->search - 1) {
		const char *text = NULL;
		for (size_t i = 0; i < array_length(marks); i++)
			if (!strncmp(list, marks[i], strlen(marks[i]))) {
				text = program->origin;
				list += strlen(marks[i]);
			}
		if (text)
			used += (size_t)snprintf(
				program->search + used, sizeof program->search - used, "%s", text);
		else
			program->search[used++] = *list++;
		used = min_of(used, sizeof program->search - 1);
		program->search[used] = '\0';
	}
	if (used < sizeof program->search - 1)
		strcpy(program->search + used, ":");
}

/* Ours stands for the vendor's. */
static bool is_driver(const char *name)
{
	return !strncmp(name, "libcuda.so", 10);
}

/* The rest of a driver knows only itself. */
static bool is_of_driver(const char *name)
{
	return !strncmp(name, "libnvidia-", 10);
}

static void on_dynamic(void *owner, int64_t tag, const char *text)
{
	struct program *program = owner;
	char *name;

	if (tag != DT_NEEDED) {
		add_search(program, text);
		return;
	}
	for (unsigned i = 0; i < program->name_count; i++)
		if (!strcmp(program->names[i], text))
			return;
	if (is_driver(text) || program->name_count == LIBRARIES_MAX)
		return;
	name = strdup(text);
	if (name)
		program->names[program->name_count++] = name;
}

static int open_in(const char *list, const char *name, char *path, size_t size)
{
	while (list && *list) {
		size_t length = strcspn(list, ":");
		int fd = -1;

		if (length && snprintf(path, size, "%.*s/%s", (int)length, list, name) < (int)size)
			fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		list += length + (list[length] == ':');
	}
	return -1;
}

/* As the dynamic linker looks. */
static int open_library(const struct program *program, const char *name, char *path, size_t size)
{
	static const char places[] =
		"/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib/aarch64-linux-gnu:"
		"/usr/lib/aarch64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/lib:"
		"/usr/local/cuda/lib64";
	int fd;

	if (strchr(name, '/')) {
		if (strlen(name) >= size)
			return -1;
		strcpy(path, name);
		return open(path, O_RDONLY | O_CLOEXEC);
	}
	fd = open_in(program->search, name, path, size);
	if (fd < 0)
		fd = open_in(getenv("LD_LIBRARY_PATH"), name, path, size);
	if (fd < 0 && library_cache_find("/etc/ld.so.cache", name, path, size))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? open_in(places, name, path, size) : fd;
}

/* Looks at it, and remembers what libraries it needs. Takes the descriptor over. */
static void examine(struct program *program, const char *path, bool library, int fd)
{
	struct stat status;
	struct elf elf;
	void *mapped;

	if (fstat(fd, &status) || !S_ISREG(status.st_mode) || !status.st_size) {
		doctor_say(program->doctor, DOCTOR_MISSING, "program",
			json_pack("{s:s}", "file", path), NULL, "%s is no file with anything in it",
			path);
		close(fd);
		return;
	}
	mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED) {
		doctor_say(program->doctor, DOCTOR_MISSING, "program",
			json_pack("{s:s}", "file", path), NULL, "cannot read %s: %s", path,
			strerror(errno));
		return;
	}
	doctor_file(program->doctor, path, library, (struct bytes){mapped, (size_t)status.st_size});
	set_origin(program, path);
	if (elf_open(&elf, (struct bytes){mapped, (size_t)status.st_size}))
		elf_each_dynamic(&elf, on_dynamic, program);
	munmap(mapped, (size_t)status.st_size);
}

void doctor_program(struct doctor *doctor, const char *name)
{
	struct program program = {.doctor = doctor};
	char path[2 * PATHS_MAX];
	int fd;

	snprintf(path, sizeof path, "%s", name);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && *name && !strchr(name, '/'))
		fd = open_in(getenv("PATH"), name, path, sizeof path);
	if (fd < 0) {
		doctor_say(doctor, DOCTOR_MISSING, "program", json_pack("{s:s}", "file", name),
			NULL, "cannot read %s: %s", name, strerror(errno));
		return;
	}
	examine(&program, path, false, fd);
	for (unsigned i = 0; i < program.name_count; i++) {
		fd = open_library(&program, program.names[i], path, sizeof path);
		if (fd < 0)
			doctor_say(doctor, DOCTOR_MISSING, "program",
				json_pack("{s:s}", "file", program.names[i]),
				"install it, or name its folder in LD_LIBRARY_PATH",
				"the library %s is not found: the program will not start",
				program.names[i]);
		else if (is_of_driver(program.names[i]))
			close(fd);
		else
			examine(&program, path, true, fd);
	}
	for (unsigned i = 0; i < program.name_count; i++)
		free(program.names[i]);
	if (!doctor->cuda && !doctor->missing)
		doctor_say(doctor, DOCTOR_NOTE, "program", json_pack("{s:s}", "file", name),
			"if it loads libraries as it runs, ask about those",
			"%s, with the libraries that it is linked with, uses nothing of CUDA",
			name);
}

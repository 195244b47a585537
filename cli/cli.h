/* SPDX-License-Identifier: MIT
 *
 * What the verbs of the gdev command share. A verb is one file with one struct verb, and one line in
 * main.c's registry. Verbs print their result on standard output and everything else on standard error.
 */
#ifndef GDEV_CLI_CLI_H
#define GDEV_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/paths.h"

/* Exit statuses; gdev(1) lists them. `gdev run` has its own, as env(1). */
enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DAEMON = 3,
	EXIT_RUN_FAILED = 125,
	EXIT_CANNOT_EXECUTE = 126,
	EXIT_NOT_FOUND = 127,
};

struct verb {
	const char *name;
	const char *summary; /* one line */
	const char *help;    /* whole, with examples */
	/* argv[0] is the verb. Returns the exit status. */
	int (*run)(int argc, char **argv);
};

extern const struct verb *const verbs[]; /* NULL-terminated */
const struct verb *verb_find(const char *name);

extern const struct verb verb_run, verb_status, verb_device, verb_vgpu, verb_shm, verb_graph,
	verb_top, verb_tune, verb_trace, verb_doctor, verb_vm, verb_suspend, verb_resume, verb_help;

/* "gdev VERB: …" on standard error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As say() (NULL: getopt has said it), and how to learn more; returns EXIT_USAGE. */
int usage(const struct verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- run.c ---- */

/* Finds a gdevd or starts one, whose runtime directory goes to `dir` (PATHS_MAX bytes), looks whether the
 * virtual GPU may be used (NULL: what the environment says), and sets the environment for a program.
 * A connection that keeps the gdevd, or negative: it has been said why not. */
int program_prepare(const char *vgpu, char *dir);
/* Where our libcuda.so.1 is, PATHS_MAX bytes: 0, or -errno. */
int program_library(char *path);
/* Becomes the program; returns only on failure, with the exit status, and it has been said why. */
int program_exec(char *const *command);

/* ---- daemon.c ---- */

/* A connection to the control socket in `dir`; or -errno. */
int daemon_open(const char *dir);

/* A connection to the gdevd that answers first; its runtime directory in `dir` (PATHS_MAX bytes).
 * The descriptor, or -errno; -ECONNREFUSED: there is none. */
int daemon_connect(char *dir);
/* Starts a private one for this user and connects to it. The descriptor, or -errno, and then it has
 * been said why. */
int daemon_start_private(char *dir);
/* {"command": COMMAND}, to which the command's arguments are added: see gdevd/admin.h. */
json_t *request_create(const char *command);
/* Sends a request and returns the JSON answer (a new reference); NULL: it has been said why. */
json_t *daemon_ask(int connection, const json_t *request);
/* As daemon_connect(), and says so when there is none. */
int daemon_find(void);
/* Connects and asks, and takes the request over: what most verbs do. On NULL *status is the exit status. */
json_t *daemon_request(json_t *request, int *status);
/* The same with a command that changes something: tells what the daemon notes; the exit status. */
int daemon_change(json_t *request);
/* As daemon_request() with a command without arguments. */
json_t *daemon_query(const char *command, int *status);

/* ---- vm.c ---- */

struct gdev_description;

#define GUEST_RIGHT "its group (ls -l /dev/gdev0) may"

/* 1: this is a virtual machine, and its GPU, which is described, is what programs use: there is no gdevd to ask. -EACCES: so it
 * is, but this user may not use it. 0: it is not. */
int guest_describe(struct gdev_description *description);
/* The same, and says what is not allowed. */
int guest_find(struct gdev_description *description);
/* `gdev status` there. */
int guest_status(const struct gdev_description *description, bool json);

/* ---- rewrite.c ---- */

struct setting {
	const char *key;
	char value[24];
};

/* The text of a configuration with these keys of [section] as given, and all else as it was. To be
 * freed; NULL: no memory. */
char *rewrite_section(
	const char *text, const char *section, const struct setting *settings, size_t count);
/* Does that to a file, or makes it: whole or not at all. 0, or -errno. */
int rewrite_file(
	const char *path, const char *section, const struct setting *settings, size_t count);
/* Whether rewrite_file() may: 0, or -errno. */
int rewrite_allowed(const char *path);

/* ---- format.c ---- */

struct table;

/* Columns by their titles, NULL-terminated; a title that begins with '>' is of a column of numbers. */
struct table *table_create(const char *const *titles);
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The user's or the group's name, else its number. */
void table_cell_user(struct table *table, json_int_t uid);
void table_cell_group(struct table *table, json_int_t gid);
/* Prints it, and frees it. */
void table_print(struct table *table);

/* A table of sessions as status has them. */
void print_sessions(const json_t *sessions);
/* How a device is: "failed: No such device", "ok"; returns `text`, which has HEALTH_MAX bytes. */
#define HEALTH_MAX 128
const char *text_health(char text[HEALTH_MAX], const json_t *device);
/* A line on a device's swap space, if any of it is used. */
void print_swap(const json_t *device);
#define TEXT_MAX 32
/* "1.5 GiB"; "-" for a negative size. */
const char *text_bytes(char text[TEXT_MAX], json_int_t bytes);
/* "12.3 ms" */
const char *text_ns(char text[TEXT_MAX], json_int_t ns);

/* Fields of the daemon's answers; absent ones are -1 and "". */
json_int_t field_number(const json_t *object, const char *name);
const char *field_text(const json_t *object, const char *name);
double field_real(const json_t *object, const char *name); /* absent: 0 */

void print_json(const json_t *value);

/* For verbs whose one option is --json (and --help). *json is set; the index of the first argument that
 * is no option, or a negative exit status - 1 when the verb is to end with it. */
int parse_json_option(const struct verb *verb, int argc, char **argv, int *json);

#endif

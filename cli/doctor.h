/* SPDX-License-Identifier: MIT
 *
 * What the files of `gdev doctor` share: doctor.c (the verb, the report), doctor_program.c (what a program needs),
 * doctor_code.c (its device code), doctor_system.c (what there is to run it).
 */
#ifndef GDEV_CLI_DOCTOR_H
#define GDEV_CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/elf_file.h"
#include "device/ops.h"

/* Every function of the CUDA Driver API that we know of, sorted; generated from lib/cuda/functions.def. */
struct doctor_function {
	const char *name;
	/* 1: it works; 0: it is there and answers CUDA_ERROR_NOT_SUPPORTED. As it is asked for by name, which is of any
	 * version; and as a symbol, which is of one (cuCtxCreate is that of CUDA 2.0), or -1: there is no such symbol. */
	int asked, linked;
};

extern const struct doctor_function doctor_functions[];
extern const size_t doctor_function_count;

enum doctor_level {
	DOCTOR_OK,
	DOCTOR_NOTE,    /* worth knowing; the program may run */
	DOCTOR_MISSING, /* it will not run, or not all of it */
};

struct doctor {
	const char *device;           /* "cpu", "cuda:0" */
	const struct device_ops *ops; /* NULL: it cannot be had here */
	unsigned missing;
	bool cuda; /* something of CUDA was found in the program */
	bool may;  /* something is not there that it need not use */
	json_t *findings;
};

/* Says it, or keeps it for the JSON. `advice`: what to do; NULL when there is nothing to be done or it goes without
 * saying. `more`: fields for the JSON, stolen; or NULL. */
void doctor_say(struct doctor *doctor, enum doctor_level level, const char *topic, json_t *more,
	const char *advice, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* What one file asks for. */
struct wanted {
	struct doctor *doctor;
	const char *path;
	bool library; /* that the program is linked with */
	unsigned linked, by_name, by_name_missing;
	bool *seen;      /* by index of doctor_functions: by name */
	bool has_units;  /* device code that is to be linked */
	bool makes_code; /* there are pieces of PTX in its data */
};

/* How to say that something is missing which the file may need: of a library, the program need not use it. */
enum doctor_level doctor_lacks(const struct wanted *wanted);

/* Device code (doctor_code.c): an image, or fat binaries one behind the other, in `where`. */
void doctor_image(struct wanted *wanted, struct bytes image, const char *where);
/* doctor_preempt.c: which of its kernels leave hardware between blocks. */
void doctor_preempt(struct wanted *wanted, struct bytes image, const char *where);
/* PTX in a section of data. */
void doctor_data(struct wanted *wanted, struct bytes bytes, const char *section);
/* Of a file that has device code which is to be linked. */
void doctor_units(struct wanted *wanted);

/* Looks at a program with its libraries, at a PTX text, or a fat binary. */
void doctor_program(struct doctor *doctor, const char *path);
/* What a program needs of one file's bytes. Pure but for what it says; for tests. */
void doctor_file(struct doctor *doctor, const char *path, bool library, struct bytes file);

/* Chooses the device: as given, else gdevd's, else the software GPU. And looks whether programs can use it. */
void doctor_system(struct doctor *doctor, const char *device);

#endif

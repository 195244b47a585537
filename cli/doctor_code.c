/* SPDX-License-Identifier: MIT
 *
 * What a program's device code consists of, and what of it the device would not run: fat binaries, and PTX that stands in
 * the program's data. What is found is kept until all of an image has been looked at: in a library, or where kernels are
 * many, it is one note, since a program that uses a library uses little of it.
 */
#include "cli/doctor.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SHOWN_MAX 20 /* findings in the kernels of a file, to people */

struct finding {
	char *kernel, *text; /* kernel: NULL, it is in none */
	unsigned line;
};

struct findings {
	struct finding *all; /* malloc'ed */
	size_t count;
};

static void on_finding(void *owner, const struct device_finding *found)
{
	struct findings *findings = owner;
	struct finding *more =
		realloc(findings->all, (findings->count + 1) * sizeof *findings->all);

	if (!more)
		return;
	findings->all = more;
	more[findings->count++] = (struct finding){
		found->kernel ? strdup(found->kernel) : NULL, strdup(found->text), found->line};
}

static void findings_free(struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		free(findings->all[i].kernel);
		free(findings->all[i].text);
	}
	free(findings->all);
}

/* "kernel K, line 7 of the PTX: …" */
static void say_finding(struct wanted *wanted, enum doctor_level level, const char *advice,
	const char *before, const struct finding *finding)
{
	const char *kernel = finding->kernel ? finding->kernel : "";
	json_t *more = json_pack("{s:s,s:s?,s:i}", "file", wanted->path, "kernel", finding->kernel,
		"line", (int)finding->line);
	char line[40] = "";

	if (finding->line)
		snprintf(line, sizeof line, "line %u of the PTX: ", finding->line);
	doctor_say(wanted->doctor, level, "kernel", more, advice, "%s: %s%s%s%s%s%s", wanted->path,
		before, *kernel ? "kernel " : "", kernel, *kernel ? ", " : "", line,
		finding->text ? finding->text : "?");
}

static void say_all(struct wanted *wanted, enum doctor_level level, const struct findings *findings)
{
	bool all = wanted->doctor->findings; /* for a program that reads them */

	for (size_t i = 0; i < findings->count && (all || i < SHOWN_MAX); i++)
		say_finding(wanted, level, NULL, "", &findings->all[i]);
	if (!all && findings->count > SHOWN_MAX)
		doctor_say(wanted->doctor, level, "kernel", NULL, NULL,
			"%s: and %zu more; --json lists them all", wanted->path,
			findings->count - SHOWN_MAX);
}

static void say_some(struct wanted *wanted, const char *where, const struct device_images *images,
	const struct findings *findings)
{
	char before[200];

	wanted->doctor->may = true;
	if (wanted->doctor->findings) {
		say_all(wanted, DOCTOR_NOTE, findings);
		return;
	}
	snprintf(before, sizeof before,
		"%u of %u images with PTX in %s cannot be loaded here, and %u kernels of the others cannot "
		"be launched; the first: ",
		images->refused, images->ptx, where, images->unfit);
	say_finding(wanted, DOCTOR_NOTE, "that matters only if the program uses them", before,
		&findings->all[0]);
}

/* What there is of code that the device takes at all. */
static void say_what_is_there(
	struct wanted *wanted, const char *where, const struct device_images *images)
{
	json_t *more = json_pack("{s:s,s:s}", "file", wanted->path, "section", where);
	unsigned bare = images->images - images->ptx;
	bool lacks = images->images && !images->ptx;

	if (lacks)
		doctor_say(wanted->doctor, doctor_lacks(wanted), "image", json_incref(more),
			"build it with PTX: nvcc -gencode arch=compute_75,code=compute_75",
			"%s: %s has machine code of NVIDIA's GPUs (SASS) only, and no PTX",
			wanted->path, where);
	else if (bare)
		doctor_say(wanted->doctor, DOCTOR_NOTE, "image", json_incref(more), NULL,
			"%s: %u of %u fat binaries in %s have machine code of NVIDIA's GPUs only "
			"(nvcc may add one that does nothing)",
			wanted->path, bare, images->images, where);
	/* Kernels of a library that a program may call. */
	wanted->doctor->may |= wanted->library && bare > 1;
	if (!images->refused && !images->unfit && images->kernels)
		doctor_say(wanted->doctor, DOCTOR_OK, "image", json_incref(more), NULL,
			"%s: all %u kernels in %s %s", wanted->path, images->kernels, where,
			images->brief ? "are of instructions that the device knows" : "can run");
	json_decref(more);
}

void doctor_image(struct wanted *wanted, struct bytes image, const char *where)
{
	struct doctor *doctor = wanted->doctor;
	struct findings findings = {0};
	struct device_images images;

	doctor->cuda = true;
	if (!doctor->ops)
		return; /* the device is missing, or a host's: that has been said */
	if (!doctor->ops->image_check) {
		doctor_say(doctor, DOCTOR_NOTE, "image",
			json_pack("{s:s,s:s}", "file", wanted->path, "section", where), NULL,
			"%s: device code in %s; the device's driver says what it thinks of it when "
			"it is loaded",
			wanted->path, where);
		doctor_preempt(wanted, image, where);
		return;
	}
	doctor->ops->image_check(image.at, image.length, &images, on_finding, &findings);
	if (findings.count && (wanted->library || (images.brief && images.refused < images.ptx)))
		say_some(wanted, where, &images, &findings);
	else
		say_all(wanted, DOCTOR_MISSING, &findings);
	say_what_is_there(wanted, where, &images);
	findings_free(&findings);
}

void doctor_units(struct wanted *wanted)
{
	bool software = wanted->doctor->ops && wanted->doctor->ops->image_check;

	wanted->doctor->cuda = true;
	doctor_say(wanted->doctor, DOCTOR_NOTE, "image", json_pack("{s:s}", "file", wanted->path),
		software
			? "build it with PTX: nvcc -rdc=true -arch=compute_75 -code=compute_75,sm_75"
			: "link it for the device: nvcc -rdc=true -arch=native",
		software
			? "%s: its code is compiled separately (nvcc -rdc): it runs if all of it has PTX, "
			  "which the software GPU links"
			: "%s: its code is compiled separately (nvcc -rdc): it runs if it is linked for this "
			  "device or has PTX, and no kernel can launch others",
		wanted->path);
}

/* ---- PTX as it stands in a program's data ---- */

/* Behind blanks and comments. */
static const char *first_word(const char *at, const char *end)
{
	while (at < end) {
		if (isspace((unsigned char)*at)) {
			at++;
		} else if (end - at > 1 && at[0] == '/' && at[1] == '/') {
			at = memchr(at, '\n', (size_t)(end - at));
			at = at ? at : end;
		} else if (end - at > 1 && at[0] == '/' && at[1] == '*') {
			at = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
			at = at ? at + 2 : end;
		} else {
			break;
		}
	}
	return at;
}

static bool has(const char *at, const char *end, const char *word)
{
	return at && memmem(at, (size_t)(end - at), word, strlen(word));
}

/* A text that is complete: it begins with its version, in digits, and has a function. What a program prints PTX with as
 * it runs does not. */
static bool is_module(const char *at, const char *end)
{
	static const char version[] = ".version";

	at = first_word(at, end);
	if ((size_t)(end - at) < sizeof version || memcmp(at, version, strlen(version)))
		return false;
	at = first_word(at + strlen(version), end);
	return at < end && isdigit((unsigned char)*at) && !has(at, end, "sm_%") &&
	       (has(at, end, ".entry") || has(at, end, ".func"));
}

void doctor_data(struct wanted *wanted, struct bytes bytes, const char *section)
{
	static const char version[] = ".version", target[] = ".target";
	const char *begin = (const char *)bytes.at, *end = begin + bytes.length, *at = begin;

	while (at < end && (at = memmem(at, (size_t)(end - at), version, strlen(version)))) {
		const char *from = memrchr(begin, '\0', (size_t)(at - begin));
		const char *to = memchr(at, '\0', (size_t)(end - at));

		from = from ? from + 1 : begin;
		to = to ? to : end;
		if (is_module(from, to))
			doctor_image(wanted,
				(struct bytes){(const uint8_t *)from, (size_t)(to - from)},
				section);
		else
			wanted->makes_code |= has(from, to, target);
		at = to;
	}
}

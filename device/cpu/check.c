/* SPDX-License-Identifier: MIT
 *
 * What of an image the software GPU would not run, found by the compiler itself, so that the two cannot disagree.
 * The compiler stops at the first thing that it does not know: that is written down, taken out of a copy of the
 * text, and the compiler asked again. Trying a kernel takes 5 ms, reading its text much less: of libraries, which have
 * thousands, the texts are read.
 */
#include "device/cpu/cpu.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/fatbin.h"
#include "gdev/error.h"

#define FINDINGS_MAX 32 /* of a text */
#define KERNELS_MAX 100 /* that are tried; behind the text with more it is brief */
#define NAME_BYTES 256

struct check {
	char *text; /* ours to change; NUL-terminated */
	size_t length;
	size_t kernels_checked; /* so many of the module's first ones could be compiled */
	size_t kernels;
	size_t kernels_unfit; /* which cannot be launched are counted up to here */
	bool refused;         /* the text cannot be loaded as it is */
	struct device_images *images;
	unsigned findings;
	void (*found)(void *owner, const struct device_finding *finding);
	void *owner;
};

static char *line_at(const struct check *check, uint32_t line)
{
	char *at = check->text;

	while (at && --line) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	return at;
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* The name of the kernel or function that the text is in at `end`; "" when it is in none. Braces are not counted:
 * what comes between functions is not an instruction. */
static void enclosing(const struct check *check, const char *end, char name[NAME_BYTES])
{
	const char *at = check->text, *last = NULL, *next;
	static const char *const words[] = {".entry", ".func"};

	name[0] = '\0';
	for (size_t i = 0; i < array_length(words); i++)
		for (next = at; (next = strstr(next, words[i])) && next < end; next++)
			last = !last || next > last ? next : last;
	if (!last)
		return;
	last += strcspn(last, " \t\n");
	last += strspn(last, " \t\n");
	if (*last == '(') { /* a function's result */
		last += strcspn(last, ")");
		last += *last == ')';
		last += strspn(last, " \t\n");
	}
	for (size_t i = 0; i < NAME_BYTES - 1 && is_name(last[i]); i++) {
		name[i] = last[i];
		name[i + 1] = '\0';
	}
}

/* Spaces instead of the first statement that begins in the line, but for its label. False: there is none. */
static bool take_out(char *at)
{
	char *label, *first;

	if (!at)
		return false;
	at += strspn(at, " \t");
	label = at;
	while (is_name(*label))
		label++;
	if (label > at && *label == ':')
		at = label + 1;
	first = at + strspn(at, " \t\r");
	if (!*first || *first == '\n')
		return false;
	for (; *at && *at != ';'; at++)
		if (*at != '\n')
			*at = ' ';
	if (*at)
		*at = ' ';
	return true;
}

/* Reports what the log says. False: it makes no sense to go on. */
static bool report(struct check *check, const struct ptx_log *log, int error, const char *kernel)
{
	struct device_finding finding = {0};
	char name[NAME_BYTES] = "", *end;
	const char *text = strstr(log->text, "error   : ");
	char *at;

	if (error == -ENOMEM)
		return false;
	/* What was taken out may be missed by what comes after it. */
	if (error != -ENOTSUP && check->findings)
		return false;
	if (sscanf(log->text, "ptxas application ptx input, line %u", &finding.line) != 1)
		finding.line = 0;
	at = finding.line ? line_at(check, finding.line) : NULL;
	if (at && !kernel)
		enclosing(check, at, name);
	text = text ? text + strlen("error   : ") : "the text is not PTX";
	end = strchr(text, '\n');
	if (end)
		*end = '\0';
	finding.kernel = kernel ? kernel : *name ? name : NULL;
	finding.text = text;
	check->found(check->owner, &finding);
	return ++check->findings < FINDINGS_MAX && !check->images->brief && error == -ENOTSUP &&
	       take_out(at);
}

static void choose_block(const struct ptx_kernel *kernel, uint32_t block[3])
{
	memcpy(block, kernel->required_block, 3 * sizeof *block);
	if (!block[0]) {
		block[0] = min_of(kernel->max_threads, 32u);
		block[1] = block[2] = 1;
	}
}

/* The first kernel that cannot be compiled; NULL when there is none. */
static const struct ptx_kernel *compile(
	struct check *check, const struct ptx_module *module, struct ptx_log *log, int *error)
{
	for (; check->kernels_checked < ptx_kernel_count(module); check->kernels_checked++) {
		const struct ptx_kernel *kernel = ptx_kernel_at(module, check->kernels_checked);
		uint32_t block[3];

		choose_block(kernel, block);
		*error = ptx_compile(module, kernel, block, log, NULL, NULL);
		if (*error)
			return kernel;
	}
	return NULL;
}

/* What reading the text says of its kernels. */
static void report_refused(struct check *check, const struct ptx_module *module)
{
	for (size_t i = 0; i < ptx_kernel_count(module); i++) {
		const struct ptx_kernel *kernel = ptx_kernel_at(module, i);

		if (!kernel->refused)
			continue;
		check->images->unfit++;
		if (check->findings++ < FINDINGS_MAX)
			check->found(check->owner, &(struct device_finding){.kernel = kernel->name,
							   .line = kernel->refused_line,
							   .text = kernel->refused});
	}
}

/* True: something was found, and taken out. */
static bool try_text(struct check *check)
{
	char said[1024] = "";
	struct ptx_log log = {said, sizeof said, 0};
	const struct ptx_kernel *kernel;
	struct ptx_module *module;
	int error = ptx_parse(check->text, check->length, &log, &module);
	bool again = false;

	if (error) {
		check->refused = true;
		return report(check, &log, error, NULL);
	}
	check->kernels = ptx_kernel_count(module);
	check->images->brief |= check->images->kernels + check->kernels > KERNELS_MAX;
	if (check->images->brief)
		report_refused(check, module);
	log.used = 0; /* it has what was read; the kernel at hand need not reach that */
	kernel = check->images->brief ? NULL : compile(check, module, &log, &error);
	if (kernel) {
		check->images->unfit += check->kernels_checked >= check->kernels_unfit;
		check->kernels_unfit = check->kernels_checked + 1;
		again = report(check, &log, error, kernel->name);
		check->kernels_checked += !again; /* on with the next one */
		again |= check->findings < FINDINGS_MAX;
	}
	ptx_module_destroy(module);
	return again;
}

static void check_one(const void *image, size_t length, struct check *check)
{
	struct device_images *images = check->images;
	const char *why;
	char *text = NULL;
	int error = fatbin_ptx(image, length, CPU_TARGET, &text, &check->length, &why);

	if (fatbin_is_empty(image, length))
		return;
	images->images++;
	if (error) {
		if (error != -GDEV_E_NO_BINARY) /* a caller sees that from the numbers */
			check->found(check->owner, &(struct device_finding){.text = why});
		return;
	}
	images->ptx++;
	check->text = text;
	check->kernels_checked = check->kernels_unfit = check->kernels = check->findings = 0;
	check->refused = false;
	while (try_text(check))
		;
	images->refused += check->refused;
	images->kernels += check->refused ? 0 : check->kernels;
	free(text);
}

void cpu_image_check(const void *image, size_t length, struct device_images *images,
	void (*found)(void *owner, const struct device_finding *finding), void *owner)
{
	struct check check = {.found = found, .owner = owner, .images = images};
	size_t offset = 0, bytes = fatbin_next(image, length, &offset);

	*images = (struct device_images){0};
	if (!bytes) {
		check_one(image, length, &check);
		return;
	}
	while (bytes) {
		check_one((const uint8_t *)image + offset, bytes, &check);
		offset = align_up(offset + bytes, (size_t)8);
		bytes = fatbin_next(image, length, &offset);
	}
}

/* SPDX-License-Identifier: MIT
 *
 * Which kernels of a program leave an NVIDIA GPU between blocks under `gdev run --preempt`, and in the middle of one, and why
 * others do not: asked of what rewrites them (device/preempt), so that the two cannot disagree.
 */
#include "cli/doctor.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "device/fatbin.h"
#include "device/preempt/preempt.h"

#define TARGET 100   /* the highest: what a device takes depends on it, and hardly on this */
#define SHOWN_MAX 10 /* kernels of a file, to people */

struct counts {
	unsigned kernels, fit, loops, bare, shown;
};

static void say_unfit(
	struct wanted *wanted, struct counts *counts, const struct preempt_kernel *kernel)
{
	const char *where = kernel->unfit ? "between blocks" : "in the middle of a block";
	const char *why = kernel->unfit ? kernel->unfit : kernel->unfit_loops;

	/* Of a library a program uses little. Blocks without loops are short. */
	if (!why || (!kernel->unfit && !kernel->loops) ||
		(!wanted->doctor->findings && (wanted->library || counts->shown++ >= SHOWN_MAX)))
		return;
	doctor_say(wanted->doctor, DOCTOR_NOTE, "preempt",
		json_pack("{s:s,s:s,s:s,s:s}", "file", wanted->path, "kernel", kernel->name,
			"leaves_not", kernel->unfit ? "blocks" : "loops", "why", why),
		NULL, "%s: kernel %s does not leave %s: %s", wanted->path, kernel->name, where,
		why);
}

static void look_at(struct wanted *wanted, struct counts *counts, const void *image, size_t length)
{
	struct preempt_module *module = NULL;
	autofree char *text = NULL;
	const char *why;

	if (fatbin_is_empty(image, length))
		return;
	if (fatbin_ptx(image, length, TARGET, &text, &length, &why) ||
		preempt_rewrite(text, length, 1, &module)) {
		counts->bare++;
		return;
	}
	for (size_t k = 0; k < module->count; k++) {
		counts->kernels++;
		counts->fit += !module->kernels[k].unfit;
		counts->loops += !module->kernels[k].unfit_loops;
		say_unfit(wanted, counts, &module->kernels[k]);
	}
	preempt_module_destroy(module);
}

void doctor_preempt(struct wanted *wanted, struct bytes image, const char *where)
{
	struct counts counts = {0};
	size_t offset = 0, bytes = fatbin_next(image.at, image.length, &offset);

	if (!bytes)
		look_at(wanted, &counts, image.at, image.length);
	while (bytes) {
		look_at(wanted, &counts, (const uint8_t *)image.at + offset, bytes);
		offset += (bytes + 7) / 8 * 8;
		bytes = fatbin_next(image.at, image.length, &offset);
	}
	if (counts.bare)
		doctor_say(wanted->doctor, DOCTOR_NOTE, "preempt",
			json_pack("{s:s,s:s}", "file", wanted->path, "section", where), NULL,
			"%s: %u images in %s have no PTX that gdev reads: their kernels do not leave "
			"between blocks",
			wanted->path, counts.bare, where);
	if (counts.kernels)
		doctor_say(wanted->doctor, DOCTOR_NOTE, "preempt",
			json_pack("{s:s,s:s,s:i,s:i,s:i}", "file", wanted->path, "section", where,
				"kernels", (int)counts.kernels, "fit", (int)counts.fit, "loops",
				(int)counts.loops),
			NULL,
			"%s: %u of %u kernels in %s leave between blocks under 'gdev run --preempt', "
			"%u in the middle of one with '=loops'",
			wanted->path, counts.fit, counts.kernels, where, counts.loops);
}

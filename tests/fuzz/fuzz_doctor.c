/* SPDX-License-Identifier: MIT
 *
 * Programs as `gdev doctor` reads them, and what it takes out of them for the device to look at.
 */
#include <stdlib.h>

#include "cli/doctor.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *topic, json_t *more,
	const char *advice, const char *format, ...)
{
	json_decref(more);
}

static void image_check(const void *image, size_t length, struct device_images *images,
	void (*found)(void *owner, const struct device_finding *finding), void *owner)
{
	volatile uint8_t sum = 0;

	for (size_t i = 0; i < length; i++)
		sum += ((const uint8_t *)image)[i];
	*images = (struct device_images){.images = 1, .ptx = 1, .kernels = 1};
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static const struct device_ops ops = {.image_check = image_check};
	struct doctor doctor = {.device = "cpu", .ops = &ops};

	doctor_file(&doctor, "file", false, (struct bytes){bytes, length});
	return 0;
}

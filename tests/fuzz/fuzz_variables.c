/* SPDX-License-Identifier: MIT
 *
 * What the NVIDIA backend looks for in the images that programs load: fat binaries, machine code, text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/fatbin.h"

#define PLACE_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Machine code is changed where its managed variables are. */
static void place(struct device_module *module, char *code, size_t length)
{
	uint64_t wanted;
	void *block;

	if (!managed_find(module, code, length)) {
		wanted = cuda_module_managed_bytes(module);
		block = wanted <= PLACE_MAX ? malloc(wanted + 1) : NULL;
		if (block)
			managed_place(module, code, length, (uintptr_t)block);
		free(block);
	}
	managed_forget(module);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct device_module module = {0};
	uint8_t *image = malloc(length + 1);
	size_t chosen_length;
	void *chosen;

	memcpy(image, bytes, length);
	image[length] = 0; /* as the worker has it */
	if (!fatbin_choose(image, length, 90, &chosen, &chosen_length)) {
		variables_list(&module, chosen, chosen_length);
		variables_free(&module);
		free(chosen);
	}
	module = (struct device_module){0};
	variables_list(&module, image, length);
	variables_free(&module);
	module.managed.any = true;
	place(&module, (char *)image, length);
	free(image);
	return 0;
}

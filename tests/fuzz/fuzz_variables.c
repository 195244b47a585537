/* SPDX-License-Identifier: MIT
 *
 * What the NVIDIA backend looks for in the images that programs load: fat binaries, machine code, text.
 */
#include <stdint.h>
#include <stdlib.h>

#include "device/cuda/cuda.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct device_module module = {0};

	variables_list(&module, bytes, length);
	variables_free(&module);
	return 0;
}

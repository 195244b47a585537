/* SPDX-License-Identifier: MIT
 *
 * The decoder of images that programs load: fat binaries, wrappers, text.
 */
#include <stdint.h>
#include <stdlib.h>

#include "device/cpu/fatbin.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = NULL;
	size_t text_length;
	const char *why;

	if (!fatbin_ptx(bytes, length, 90, &text, &text_length, &why))
		free(text);
	return 0;
}

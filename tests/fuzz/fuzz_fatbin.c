/* SPDX-License-Identifier: MIT
 *
 * The decoder of images that programs load: fat binaries, wrappers, text.
 */
#include <stdint.h>
#include <stdlib.h>

#include "device/fatbin.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = NULL;
	size_t text_length;
	const char *why;

	size_t offset = 0, length_of_one;

	while ((length_of_one = fatbin_next(bytes, length, &offset))) {
		if (length_of_one > length - offset)
			abort();
		offset += length_of_one;
	}
	if (!fatbin_ptx(bytes, length, 90, &text, &text_length, &why))
		free(text);
	return 0;
}

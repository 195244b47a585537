/* SPDX-License-Identifier: MIT
 *
 * Device printf with a hostile format. Arguments are zeros, which make every string "(null)": a bad
 * pointer is the fault guard's to survive.
 */
#include <stdint.h>
#include <string.h>

#include "device/cpu/print.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void drop(void *owner, const char *bytes, size_t length)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static const uint64_t arguments[4096];
	struct print_buffer buffer = {.out = drop};
	char format[4096];

	if (length >= sizeof format)
		return 0;
	memcpy(format, bytes, length);
	format[length] = '\0';
	print_format(&buffer, format, arguments);
	print_flush(&buffer);
	return 0;
}

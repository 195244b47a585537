/* SPDX-License-Identifier: MIT
 *
 * See gdev/error.h.
 */
#include "gdev/error.h"

#include <string.h>

const char *gdev_strerror(int error)
{
	unsigned code = error < 0 ? -(unsigned)error : (unsigned)error;
	const char *text;

	switch (code) {
#define TEXT(name, value, sentence)                                                                \
	case value:                                                                                \
		return sentence;
		GDEV_ERRORS(TEXT)
#undef TEXT
	}
	text = strerrordesc_np((int)code);
	return text ? text : "unknown error";
}

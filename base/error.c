/* SPDX-License-Identifier: MIT
 *
 * See gdev/error.h.
 */
#include "gdev/error.h"

#include <string.h>

const char *gdev_strerror(int error)
{
	const char *text;

	switch (error < 0 ? -error : error) {
#define TEXT(name, value, sentence)                                                                \
	case value:                                                                                \
		return sentence;
		GDEV_ERRORS(TEXT)
#undef TEXT
	}
	text = strerrordesc_np(error < 0 ? -error : error);
	return text ? text : "unknown error";
}

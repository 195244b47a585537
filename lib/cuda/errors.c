/* SPDX-License-Identifier: MIT
 *
 * Results: from gdev's errors (errors.def), and their names and sentences (results.def).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "lib/cuda/internal.h"

CUresult cuda_result(int gdev_error)
{
	static const struct {
		int gdev;
		CUresult cuda;
	} table[] = {
#define X(gdev, cuda) {gdev, cuda},
#include "lib/cuda/errors.def"
#undef X
	};

	size_t i = 0;

	while (i < array_length(table) - 1 && table[i].gdev != -gdev_error)
		i++;
	return table[i].cuda;
}

CUresult failed_in_gdev(int error, const char *format, ...)
{
	CUresult result = cuda_result(error);
	char what[CALLS_REASON];
	va_list arguments;

	if (!calls_logged)
		return result;
	va_start(arguments, format);
	vsnprintf(what, sizeof what, format, arguments);
	va_end(arguments);
	return fail(result, "%s: %s", what, gdev_strerror(error));
}

static const struct {
	CUresult result;
	const char *name, *text;
} results[] = {
#define X(result, text) {result, #result, text},
#include "lib/cuda/results.def"
#undef X
};

CUresult cuGetErrorName(CUresult error, const char **name)
{
	if (!name)
		return fail(CUDA_ERROR_INVALID_VALUE, "name is NULL");
	for (size_t i = 0; i < array_length(results); i++)
		if (results[i].result == error) {
			*name = results[i].name;
			return CUDA_SUCCESS;
		}
	*name = NULL;
	return fail(CUDA_ERROR_INVALID_VALUE, "%d is no result of CUDA", (int)error);
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	if (!text)
		return fail(CUDA_ERROR_INVALID_VALUE, "text is NULL");
	for (size_t i = 0; i < array_length(results); i++)
		if (results[i].result == error) {
			*text = results[i].text;
			return CUDA_SUCCESS;
		}
	*text = NULL;
	return fail(CUDA_ERROR_INVALID_VALUE, "%d is no result of CUDA", (int)error);
}

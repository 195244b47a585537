/* SPDX-License-Identifier: MIT
 *
 * Results: from gdev's errors (errors.def), and their names and sentences (results.def).
 */
#include <errno.h>

#include "lib/cuda/internal.h"

CUresult result_of(int gdev_error)
{
	static const struct {
		int gdev;
		CUresult cuda;
	} table[] = {
#define X(gdev, cuda) {gdev, cuda},
#include "lib/cuda/errors.def"
#undef X
	};

	if (gdev_error >= 0)
		return CUDA_SUCCESS;
	for (size_t i = 0; i < array_length(table); i++)
		if (table[i].gdev == -gdev_error)
			return table[i].cuda;
	return CUDA_ERROR_OPERATING_SYSTEM;
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
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < array_length(results); i++)
		if (results[i].result == error) {
			*name = results[i].name;
			return CUDA_SUCCESS;
		}
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < array_length(results); i++)
		if (results[i].result == error) {
			*text = results[i].text;
			return CUDA_SUCCESS;
		}
	*text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

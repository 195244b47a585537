/* SPDX-License-Identifier: MIT
 *
 * Asks gdevd so many times what the first virtual GPU is: `bench_describe COUNT`. What that costs gdevd is measured from
 * outside.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "gdev/session.h"

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	int32_t properties[GDEV_PROPERTIES];
	struct gdev_description description;
	char name[GDEV_NAME_MAX];
	int error = gdev_vgpu_name(0, name);

	for (int i = 0; i < count && !error; i++)
		error = gdev_vgpu_describe(name, &description, properties);
	bench_require(error, "ask gdevd what a virtual GPU is", strerror(-error));
	return 0;
}

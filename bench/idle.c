/* SPDX-License-Identifier: MIT
 *
 * A client that has used its session and now has nothing to do: says "idle" and waits until its
 * standard input ends. scripts/bench measures meanwhile what it, its worker and gdevd use.
 */
#include <stdio.h>
#include <unistd.h>

#include "device.h"

int main(void)
{
	CUfunction empty = open_device();
	char ignored;

	for (int i = 0; i < 1000; i++)
		launch(empty);
	must(cuCtxSynchronize(), "wait");
	puts("idle");
	fflush(stdout);
	while (read(STDIN_FILENO, &ignored, 1) > 0)
		;
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * A fault is its context's: its calls fail from then on, and so do those of all contexts of the process's device.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

static int fault(void)
{
	CUdeviceptr data, nowhere = 4096;
	CUfunction stray;
	int value;

	begin();
	stray = kernel("stray");
	data = numbers(1, 3);
	LAUNCH(NULL, "stray", 1, 1, &nowhere);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemcpyDtoH(&value, data, sizeof value), CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuLaunchKernel(stray, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&data}, NULL),
		CUDA_ERROR_ILLEGAL_ADDRESS);
	return 0;
}

int main(void)
{
	CUdeviceptr data;
	int status;
	pid_t child = fork();

	if (!child)
		return fault();
	begin();
	data = numbers(100, 8);
	REQUIRE(waitpid(child, &status, 0) == child && !status);
	REQUIRE(number_at(data, 99) == 8);
	return passed();
}

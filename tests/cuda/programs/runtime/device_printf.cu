/* SPDX-License-Identifier: MIT
 *
 * printf in a kernel: what it wrote is there after the next synchronisation, in the program's own standard output.
 */
#include <unistd.h>

#include "../program.h"

__global__ void speak(const char *name)
{
	int count = printf("%s %d %5.2f %#llx %c%%\n", "text", -3, 1.5, 1ull << 40, 'x');

	if (count != 5)
		printf("returned %d\n", count);
	printf("%-4s|%04d|%e\n", name, 42, 0.125f);
}

int main()
{
	char path[] = "/tmp/printf-XXXXXX", text[256], letters[] = "abc", *name;
	int file = mkstemp(path), output = dup(1);
	ssize_t length;

	unlink(path);
	CHECK(cudaMalloc(&name, sizeof letters));
	CHECK(cudaMemcpy(name, letters, sizeof letters, cudaMemcpyHostToDevice));
	fflush(stdout);
	dup2(file, 1);
	speak<<<1, 1>>>(name);
	CHECK(cudaDeviceSynchronize());
	fflush(stdout);
	dup2(output, 1);
	length = pread(file, text, sizeof text - 1, 0);
	text[length < 0 ? 0 : length] = 0;
	if (strcmp(text, "text -3  1.50 0x10000000000 x%\nabc |0042|1.250000e-01\n")) {
		printf("it printed:\n%s", text);
		return 1;
	}
	return passed();
}

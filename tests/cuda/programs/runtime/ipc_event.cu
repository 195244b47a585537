/* SPDX-License-Identifier: MIT
 *
 * A stream of one process waits for an event of another, without the host between them.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "../program.h"

struct handles {
	cudaIpcMemHandle_t memory;
	cudaIpcEventHandle_t event;
};

__global__ void slow_fill(int *data)
{
	for (int i = 0; i < 2000; i++)
		__nanosleep(1000);
	*data = 42;
}

__global__ void copy(int *to, const int *from)
{
	*to = *from;
}

static int other(int pipe)
{
	struct handles handles;
	cudaEvent_t event;
	int *theirs, *mine, host;

	REQUIRE(read(pipe, &handles, sizeof handles) == sizeof handles);
	CHECK(cudaIpcOpenMemHandle(
		(void **)&theirs, handles.memory, cudaIpcMemLazyEnablePeerAccess));
	CHECK(cudaIpcOpenEventHandle(&event, handles.event));
	CHECK(cudaMalloc(&mine, sizeof *mine));
	CHECK(cudaStreamWaitEvent(0, event));
	copy<<<1, 1>>>(mine, theirs);
	CHECK(cudaMemcpy(&host, mine, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == 42);
	return 0;
}

int main()
{
	int pipes[2], *data, status;
	struct handles handles;
	cudaEvent_t event;
	pid_t child;

	REQUIRE(!pipe(pipes));
	child = fork();
	if (!child)
		return other(pipes[0]);
	CHECK(cudaMalloc(&data, sizeof *data));
	CHECK(cudaMemset(data, 0, sizeof *data));
	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
	slow_fill<<<1, 1>>>(data);
	CHECK(cudaEventRecord(event));
	CHECK(cudaIpcGetMemHandle(&handles.memory, data));
	CHECK(cudaIpcGetEventHandle(&handles.event, event));
	REQUIRE(write(pipes[1], &handles, sizeof handles) == sizeof handles);
	REQUIRE(waitpid(child, &status, 0) == child && !status);
	return passed();
}

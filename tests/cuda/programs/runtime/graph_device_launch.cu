/* SPDX-License-Identifier: MIT
 *
 * Graphs that kernels launch: at once, as siblings, and behind all others, in the order in which they were launched.
 * nvcc -rdc=true -lcudadevrt
 */
#include "../program.h"

#define STEPS 64

/* What ran, in its order. */
struct steps {
	int count, step[STEPS], errors;
};

__device__ void note(struct steps *steps, int number)
{
	steps->step[atomicAdd(&steps->count, 1)] = number;
}

__device__ void launch(struct steps *steps, cudaGraphExec_t graph, cudaStream_t stream)
{
	if (cudaGraphLaunch(graph, stream) != cudaSuccess)
		atomicAdd(&steps->errors, 1);
}

__global__ void step(struct steps *steps, int number)
{
	note(steps, number);
}

__global__ void fire(struct steps *steps, cudaGraphExec_t child)
{
	note(steps, 1);
	launch(steps, child, cudaStreamGraphFireAndForget);
	/* It is not done: once more is an error. */
	if (cudaGraphLaunch(child, cudaStreamGraphTailLaunch) != cudaErrorInvalidValue)
		atomicAdd(&steps->errors, 1);
}

__global__ void tails(
	struct steps *steps, cudaGraphExec_t first, cudaGraphExec_t second, cudaGraphExec_t child)
{
	note(steps, 1);
	launch(steps, first, cudaStreamGraphTailLaunch);
	launch(steps, second, cudaStreamGraphTailLaunch);
	launch(steps, child, cudaStreamGraphFireAndForget);
}

__global__ void tail_of_tail(struct steps *steps, cudaGraphExec_t third)
{
	note(steps, 4);
	launch(steps, third, cudaStreamGraphTailLaunch);
}

__global__ void sibling(struct steps *steps, cudaGraphExec_t graph, cudaGraphExec_t tail)
{
	note(steps, 8);
	launch(steps, graph, cudaStreamGraphFireAndForgetAsSibling);
	launch(steps, tail, cudaStreamGraphTailLaunch);
}

__global__ void again(struct steps *steps, int times)
{
	cudaGraphExec_t self = cudaGetCurrentGraphExec();

	note(steps, steps->count);
	if (!self)
		atomicAdd(&steps->errors, 1);
	if (steps->count >= times)
		return;
	launch(steps, self, cudaStreamGraphTailLaunch);
	if (cudaGraphLaunch(self, cudaStreamGraphTailLaunch) != cudaErrorInvalidValue)
		atomicAdd(&steps->errors, 1);
}

static struct steps *steps, seen;
static cudaStream_t stream;

static cudaGraphNode_t add(
	cudaGraph_t graph, cudaGraphNode_t after, void *function, void **arguments)
{
	cudaKernelNodeParams kernel = {};
	cudaGraphNode_t node;

	kernel.func = function;
	kernel.gridDim = kernel.blockDim = dim3(1);
	kernel.kernelParams = arguments;
	CHECK(cudaGraphAddKernelNode(&node, graph, &after, after != NULL, &kernel));
	return node;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph, bool for_device)
{
	cudaGraphExec_t exec;

	CHECK(cudaGraphInstantiate(
		&exec, graph, for_device ? cudaGraphInstantiateFlagDeviceLaunch : 0));
	if (for_device)
		CHECK(cudaGraphUpload(exec, stream));
	return exec;
}

/* A graph of the one kernel. */
static cudaGraphExec_t of(void *function, void **arguments, bool for_device)
{
	cudaGraph_t graph;

	CHECK(cudaGraphCreate(&graph, 0));
	add(graph, NULL, function, arguments);
	return instantiate(graph, for_device);
}

static cudaGraphExec_t stepping(int number)
{
	void *arguments[] = {&steps, &number};

	return of((void *)step, arguments, true);
}

static void run(cudaGraphExec_t exec)
{
	CHECK(cudaMemsetAsync(steps, 0, sizeof *steps, stream));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(&seen, steps, sizeof seen, cudaMemcpyDeviceToHost));
	REQUIRE(seen.errors == 0);
}

static int place(int number)
{
	for (int i = 0; i < seen.count; i++)
		if (seen.step[i] == number)
			return i;
	return -1;
}

static void launched_at_once(void)
{
	cudaGraphExec_t child = stepping(2);
	void *arguments[] = {&steps, &child};
	cudaGraphExec_t from_host = of((void *)fire, arguments, false);
	cudaGraphExec_t from_device = of((void *)fire, arguments, true);

	for (int i = 0; i < 3; i++) {
		run(from_host);
		REQUIRE(seen.count == 2 && seen.step[0] == 1 && seen.step[1] == 2);
		run(from_device);
		REQUIRE(seen.count == 2 && seen.step[0] == 1 && seen.step[1] == 2);
		run(child);
		REQUIRE(seen.count == 1 && seen.step[0] == 2);
	}
}

/* The tails come when all else is done, also what comes after the kernel that launched them; and the tail of a tail before
 * the next one. */
static void launched_for_the_tail(void)
{
	cudaGraphExec_t third = stepping(5), second = stepping(6), child = stepping(2);
	void *arguments_of_first[] = {&steps, &third};
	cudaGraphExec_t first = of((void *)tail_of_tail, arguments_of_first, true);
	void *arguments[] = {&steps, &first, &second, &child};
	int last = 3;
	void *arguments_of_last[] = {&steps, &last};
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaGraphCreate(&graph, 0));
	add(graph, add(graph, NULL, (void *)tails, arguments), (void *)step, arguments_of_last);
	for (int for_device = 0; for_device < 2; for_device++) {
		exec = instantiate(graph, for_device);
		run(exec);
		REQUIRE(seen.count == 6 && seen.step[0] == 1);
		REQUIRE(place(2) >= 0 && place(2) < 3 && place(3) > 0 && place(3) < 3);
		REQUIRE(place(4) == 3 && place(5) == 4 && place(6) == 5);
	}
}

/* A sibling is no part of the graph that launches it, and the graph above waits for it. */
static void launched_as_sibling(void)
{
	cudaGraphExec_t beside = stepping(2), tail = stepping(9), last = stepping(10);
	void *arguments_of_child[] = {&steps, &beside, &tail};
	cudaGraphExec_t child = of((void *)sibling, arguments_of_child, true);
	cudaGraphExec_t unused = stepping(7);
	void *arguments[] = {&steps, &last, &unused, &child};
	cudaGraphExec_t exec = of((void *)tails, arguments, true);

	run(exec);
	REQUIRE(seen.count == 6 && seen.step[0] == 1);
	REQUIRE(place(8) == 1 && place(9) > 1 && place(9) < 4 && place(2) > 1 && place(2) < 4);
	REQUIRE(place(10) == 4 && place(7) == 5);
}

static void launching_itself(void)
{
	int times = 40;
	void *arguments[] = {&steps, &times};
	cudaGraphExec_t exec = of((void *)again, arguments, true);

	run(exec);
	REQUIRE(seen.count == times);
	for (int i = 0; i < seen.count; i++)
		REQUIRE(seen.step[i] == i);
}

/* What a change does is seen after the next upload. */
static void changed(void)
{
	cudaGraph_t graph;
	cudaGraphExec_t child, exec;
	cudaGraphNode_t node;
	int number = 2;
	void *arguments_of_child[] = {&steps, &number}, *arguments[] = {&steps, &child};
	cudaKernelNodeParams kernel = {};

	CHECK(cudaGraphCreate(&graph, 0));
	node = add(graph, NULL, (void *)step, arguments_of_child);
	child = instantiate(graph, true);
	exec = of((void *)fire, arguments, true);
	run(exec);
	REQUIRE(place(2) == 1);
	number = 12;
	kernel.func = (void *)step;
	kernel.gridDim = kernel.blockDim = dim3(1);
	kernel.kernelParams = arguments_of_child;
	CHECK(cudaGraphExecKernelNodeSetParams(child, node, &kernel));
	CHECK(cudaGraphUpload(child, stream));
	run(exec);
	REQUIRE(seen.count == 2 && seen.step[1] == 12);
}

/* Copies, fills and child graphs. */
static void of_all_kinds(void)
{
	cudaGraph_t graph, inner;
	cudaGraphNode_t node, next;
	cudaMemsetParams fill = {};
	cudaGraphExec_t child, exec;
	int number = 3, *numbers, got[4];
	void *arguments_of_step[] = {&steps, &number}, *arguments[] = {&steps, &child};

	CHECK(cudaMalloc(&numbers, sizeof got));
	CHECK(cudaGraphCreate(&inner, 0));
	add(inner, NULL, (void *)step, arguments_of_step);
	CHECK(cudaGraphCreate(&graph, 0));
	fill.dst = numbers;
	fill.elementSize = 4;
	fill.width = 2;
	fill.height = 1;
	fill.value = 0x01020304;
	CHECK(cudaGraphAddMemsetNode(&node, graph, NULL, 0, &fill));
	CHECK(cudaGraphAddMemcpyNode1D(&next, graph, &node, 1, numbers + 2, numbers,
		2 * sizeof *numbers, cudaMemcpyDeviceToDevice));
	CHECK(cudaGraphAddChildGraphNode(&node, graph, &next, 1, inner));
	child = instantiate(graph, true);
	exec = of((void *)fire, arguments, true);
	run(exec);
	REQUIRE(seen.count == 2 && seen.step[1] == 3);
	CHECK(cudaMemcpy(got, numbers, sizeof got, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 4; i++)
		REQUIRE(got[i] == 0x01020304);
}

static void not_for_the_device(void)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t node;
	cudaHostNodeParams call = {};

	CHECK(cudaGraphCreate(&graph, 0));
	REQUIRE(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch) !=
		cudaSuccess);
	call.fn = [](void *) {};
	CHECK(cudaGraphAddHostNode(&node, graph, NULL, 0, &call));
	REQUIRE(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch) !=
		cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&exec, graph,
			cudaGraphInstantiateFlagDeviceLaunch |
				cudaGraphInstantiateFlagAutoFreeOnLaunch) == cudaErrorInvalidValue);
	cudaGetLastError();
}

int main()
{
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&steps, sizeof *steps));
	launched_at_once();
	launched_for_the_tail();
	launched_as_sibling();
	launching_itself();
	changed();
	of_all_kinds();
	not_for_the_device();
	return passed();
}

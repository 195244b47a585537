/* SPDX-License-Identifier: MIT
 *
 * The work without a graph, on the CUDA Driver API (section 6.3 of the PTask paper):
 *   single   single-threaded modular: a task is a subroutine that copies its inputs in and its output out
 *   modular  the same with a thread a task, so that copies and kernels overlap
 *   hand     written for the purpose: one thread, each array copied once, one thing after the other
 *   streams  the same with streams and events: what does not depend on each other overlaps
 */
#include <cuda.h>

#include <pthread.h>
#include <string.h>

#include "ptask/hand.h"
#include "ptask/work.h"

#define STREAMS 8

static CUmodule module;
static CUdeviceptr device[ARRAYS_MAX];
static CUfunction kernels[ARRAYS_MAX]; /* of tasks */

static void must(CUresult result, const char *what)
{
	const char *text = "unknown error";

	if (result)
		cuGetErrorString(result, &text);
	require(!result, what, text);
}

CUmodule hand_open(void)
{
	static CUcontext context;
	CUdevice first;

	if (context)
		return module;
	must(cuInit(0), "open the device; run it under `gdev run`");
	must(cuDeviceGet(&first, 0), "find the device");
	must(cuDevicePrimaryCtxRetain(&context, first), "open the device");
	must(cuCtxSetCurrent(context), "use the device");
	must(cuModuleLoadData(&module, kernels_ptx), "load the kernels");
	return module;
}

static void setup_kernels(const struct work *work)
{
	hand_open();
	for (unsigned i = 0; i < work->task_count; i++)
		must(cuModuleGetFunction(&kernels[i], module, work->tasks[i].kernel),
			"find a kernel");
}

static void launch(const struct work *work, unsigned index, CUdeviceptr output,
	const CUdeviceptr *inputs, CUstream stream)
{
	const struct work_task *task = &work->tasks[index];
	const uint32_t *grid = task->grid, *block = task->block;
	void *parameters[1 + INPUTS_MAX + ARGUMENTS_MAX];
	CUdeviceptr none = 0;
	unsigned count = 0;

	parameters[count++] = &output;
	for (unsigned i = task->in_place; i < task->inputs; i++)
		parameters[count++] = (void *)&inputs[i];
	while (count < work_pointers(task))
		parameters[count++] = &none;
	for (unsigned i = 0; i < task->argument_count; i++)
		parameters[count++] = (void *)&task->arguments[i];
	must(cuLaunchKernel(kernels[index], grid[0], grid[1], grid[2], block[0], block[1], block[2],
		     0, stream, parameters, NULL),
		"launch");
}

/* ---- single-threaded modular ---- */

/* What the subroutine keeps between calls: it is better than allocating each time. The last one is for the output. */
static CUdeviceptr scratch[INPUTS_MAX + 1];

static void setup_single(struct work *work)
{
	size_t most = 0;

	setup_kernels(work);
	for (unsigned i = 0; i < work->array_count; i++)
		most = work->bytes[i] > most ? work->bytes[i] : most;
	for (unsigned i = 0; i <= INPUTS_MAX; i++)
		must(cuMemAlloc(&scratch[i], most), "allocate");
}

static void round_single(struct work *work)
{
	for (unsigned i = 0; i < work->task_count; i++) {
		const struct work_task *task = &work->tasks[i];
		CUdeviceptr output = scratch[task->in_place ? 0 : INPUTS_MAX];
		for (unsigned k = 0; k < task->inputs; k++)
			must(cuMemcpyHtoD(scratch[k], work->host[task->input[k]],
				     work->bytes[task->input[k]]),
				"copy");
		launch(work, i, output, scratch, NULL);
		must(cuMemcpyDtoH(work->host[task->output], output, work->bytes[task->output]),
			"copy");
	}
}

const struct variant variant_single = {"single", setup_single, round_single};

/* ---- modular: a thread a task ---- */

static struct module_thread {
	pthread_t thread;
	CUstream stream;
	CUdeviceptr memory[INPUTS_MAX + 1];
	unsigned index;
} threads[ARRAYS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct made {
	pthread_cond_t again;
	unsigned rounds; /* in which the array is there */
} made[ARRAYS_MAX];
static struct work *current;

static void wait_for(unsigned array, unsigned round)
{
	pthread_mutex_lock(&lock);
	while (made[array].rounds < round)
		pthread_cond_wait(&made[array].again, &lock);
	pthread_mutex_unlock(&lock);
}

static void announce(unsigned array)
{
	pthread_mutex_lock(&lock);
	made[array].rounds++;
	pthread_cond_broadcast(&made[array].again);
	pthread_mutex_unlock(&lock);
}

static void run_module(struct module_thread *self, unsigned round)
{
	const struct work_task *task = &current->tasks[self->index];
	CUdeviceptr output = self->memory[task->in_place ? 0 : INPUTS_MAX];

	for (unsigned i = 0; i < task->inputs; i++) {
		wait_for(task->input[i], round);
		must(cuMemcpyHtoDAsync(self->memory[i], current->host[task->input[i]],
			     current->bytes[task->input[i]], self->stream),
			"copy");
	}
	launch(current, self->index, output, self->memory, self->stream);
	must(cuMemcpyDtoHAsync(current->host[task->output], output, current->bytes[task->output],
		     self->stream),
		"copy");
	must(cuStreamSynchronize(self->stream), "wait");
	announce(task->output);
}

static void *module_main(void *argument)
{
	struct module_thread *self = argument;

	hand_open();
	CUcontext context;
	must(cuDevicePrimaryCtxRetain(&context, 0), "open the device");
	must(cuCtxSetCurrent(context), "use the device");
	for (unsigned round = 1;; round++)
		run_module(self, round);
	return NULL;
}

static void setup_modular(struct work *work)
{
	setup_kernels(work);
	current = work;
	for (unsigned i = 0; i < work->array_count; i++)
		pthread_cond_init(&made[i].again, NULL);
	for (unsigned i = 0; i < work->task_count; i++) {
		const struct work_task *task = &work->tasks[i];
		struct module_thread *self = &threads[i];
		self->index = i;
		must(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING), "create a stream");
		for (unsigned k = 0; k < task->inputs; k++)
			must(cuMemAlloc(&self->memory[k], work->bytes[task->input[k]]), "allocate");
		if (!task->in_place)
			must(cuMemAlloc(&self->memory[INPUTS_MAX], work->bytes[task->output]),
				"allocate");
		require(!pthread_create(&self->thread, NULL, module_main, self), "start a thread",
			"the system has none left");
	}
}

static void round_modular(struct work *work)
{
	unsigned round = made[0].rounds + 1;

	for (unsigned i = 0; i < work->sources; i++)
		announce(i);
	for (unsigned i = 0; i < work->result_count; i++)
		wait_for(work->results[i], round);
}

const struct variant variant_modular = {"modular", setup_modular, round_modular};

/* ---- hand-coded ---- */

static void setup_hand(struct work *work)
{
	setup_kernels(work);
	for (unsigned i = 0; i < work->sources; i++)
		if (!device[i])
			must(cuMemAlloc(&device[i], work->bytes[i]), "allocate");
	for (unsigned i = 0; i < work->task_count; i++) {
		const struct work_task *task = &work->tasks[i];
		if (task->in_place)
			device[task->output] = device[task->input[0]];
		else if (!device[task->output])
			must(cuMemAlloc(&device[task->output], work->bytes[task->output]),
				"allocate");
	}
}

static void launch_task(const struct work *work, unsigned index, CUstream stream)
{
	const struct work_task *task = &work->tasks[index];
	CUdeviceptr inputs[INPUTS_MAX];

	for (unsigned i = 0; i < task->inputs; i++)
		inputs[i] = device[task->input[i]];
	launch(work, index, device[task->output], inputs, stream);
}

static void round_hand(struct work *work)
{
	for (unsigned i = 0; i < work->sources; i++)
		must(cuMemcpyHtoD(device[i], work->host[i], work->bytes[i]), "copy");
	for (unsigned i = 0; i < work->task_count; i++)
		launch_task(work, i, NULL);
	for (unsigned i = 0; i < work->result_count; i++) {
		unsigned result = work->results[i];
		must(cuMemcpyDtoH(work->host[result], device[result], work->bytes[result]), "copy");
	}
}

const struct variant variant_hand = {"hand", setup_hand, round_hand};

/* ---- hand-coded, with streams ---- */

static CUstream streams[STREAMS], copies;
static CUevent ready[ARRAYS_MAX];
static unsigned stream_of[ARRAYS_MAX]; /* of an array's maker; STREAMS: the copies' */

static void setup_streams(struct work *work)
{
	unsigned next = 0;

	setup_hand(work);
	must(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING), "create a stream");
	for (unsigned i = 0; i < STREAMS; i++)
		must(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "create a stream");
	for (unsigned i = 0; i < ARRAYS_MAX; i++)
		must(cuEventCreate(&ready[i], CU_EVENT_DISABLE_TIMING), "create an event");
	for (unsigned i = 0; i < work->sources; i++)
		stream_of[i] = STREAMS;
	for (unsigned i = 0; i < work->task_count; i++) {
		const struct work_task *task = &work->tasks[i];
		unsigned before = stream_of[task->input[0]];
		stream_of[task->output] = before < STREAMS ? before : next++ % STREAMS;
	}
}

static void launch_in_stream(const struct work *work, unsigned index)
{
	const struct work_task *task = &work->tasks[index];
	CUstream stream = streams[stream_of[task->output]];

	for (unsigned i = 0; i < task->inputs; i++)
		if (stream_of[task->input[i]] != stream_of[task->output])
			must(cuStreamWaitEvent(stream, ready[task->input[i]], 0), "wait");
	launch_task(work, index, stream);
	must(cuEventRecord(ready[task->output], stream), "record");
}

/* Tasks go as soon as their sources are on their way. */
static void round_streams(struct work *work)
{
	unsigned copied = 0;

	for (unsigned i = 0; i < work->task_count; i++) {
		const struct work_task *task = &work->tasks[i];
		for (unsigned k = 0; k < task->inputs; k++)
			for (; copied < work->sources && copied <= task->input[k]; copied++) {
				must(cuMemcpyHtoDAsync(device[copied], work->host[copied],
					     work->bytes[copied], copies),
					"copy");
				must(cuEventRecord(ready[copied], copies), "record");
			}
		launch_in_stream(work, i);
	}
	for (unsigned i = 0; i < work->result_count; i++) {
		unsigned result = work->results[i];
		must(cuMemcpyDtoHAsync(work->host[result], device[result], work->bytes[result],
			     streams[stream_of[result]]),
			"copy");
	}
	for (unsigned i = 0; i < STREAMS; i++)
		must(cuStreamSynchronize(streams[i]), "wait");
}

const struct variant variant_streams = {"streams", setup_streams, round_streams};

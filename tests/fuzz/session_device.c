/* SPDX-License-Identifier: MIT
 *
 * The device of fuzz_session.c: the null backend, with arrays and textures, and with the software GPU's table of the memory that
 * checked kernels may access.
 */
#include "session_device.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "device/cpu/checking/checking.h"
#include "gdev/error.h"
#include "worker/core.h"

static struct device_ops ops;

/* ---- arrays ---- */

/* The null backend copies by address: an array is memory as long as it lives, or as its chunk is mapped, and nothing is there
 * before and after. */
struct device_array {
	uint64_t address, bytes;
	bool leaves;
};

static unsigned textures;

static uint64_t array_bytes(const struct array_shape *shape)
{
	struct texture plain;
	uint64_t bytes;

	if (!array_layout(shape, 0, &plain, &bytes))
		abort();
	return align_up(bytes, DEVICE_CHUNK_MIN);
}

static int array_chunk(struct device_array *array, struct device_chunk **chunk)
{
	return ops.chunk_create(NULL, array->bytes, chunk);
}

static int array_create(struct device_space *space, uint64_t address,
	const struct array_shape *shape, struct device_array **out, struct device_chunk **chunk)
{
	struct device_array *array;
	int error;

	if (shape->levels == 1)
		return -ENOTSUP;
	array = malloc(sizeof *array);
	*array = (struct device_array){address, array_bytes(shape), shape->height != 0};
	*out = array;
	if (!array->leaves) {
		if (mmap((void *)address, array->bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			    0) == MAP_FAILED)
			abort();
		return 0;
	}
	error = array_chunk(array, chunk);
	if (error) {
		free(array);
		return error;
	}
	error = ops.map(space, address, *chunk, false);
	if (error)
		abort();
	return 0;
}

static void array_destroy(struct device_array *array)
{
	if (!array->leaves)
		memory_reserve_again(array->address, array->bytes);
	free(array);
}

static int texture_create(
	struct device_space *space, const struct texture_words *words, uint64_t *handle)
{
	*handle = ++textures;
	return words->bytes ? -EINVAL : 0;
}

static int texture_destroy(struct device_space *space, uint64_t handle, bool surface)
{
	return handle && handle <= textures && !surface ? 0 : -GDEV_E_INVALID_HANDLE;
}

/* ---- graphs ---- */

/* Whatever a node points to has to be there when the device is given it, and its function as long as the graph has it. */
struct device_graph {
	struct device_function **functions;
	uint32_t count;
};

static uint8_t touch(const void *bytes, size_t length)
{
	const volatile uint8_t *at = bytes;
	uint8_t sum = 0;

	for (size_t i = 0; i < length; i++)
		sum ^= at[i];
	return sum;
}

static void touch_functions(const struct device_graph *graph)
{
	for (uint32_t i = 0; i < graph->count; i++)
		touch(graph->functions[i], sizeof(void *));
}

static void touch_node(const struct device_node *node, uint32_t number)
{
	for (uint32_t i = 0; i < node->dependency_count; i++)
		if (node->dependencies[i] >= number)
			abort();
	if (node->kind == DEVICE_LAUNCH)
		touch(node->launch.params, node->launch.param_bytes);
	else if (node->kind != DEVICE_COPY && node->kind != DEVICE_FILL)
		abort();
}

static int graph_set(struct device_space *space, struct device_graph **graph, bool from_device,
	const struct device_node *nodes, uint32_t count, uint64_t *handle)
{
	struct device_function **functions = calloc(count, sizeof(struct device_function *));
	uint32_t launches = 0;

	for (uint32_t i = 0; i < count; i++) {
		touch_node(&nodes[i], i);
		if (nodes[i].kind == DEVICE_LAUNCH)
			functions[launches++] = nodes[i].launch.function;
	}
	if (count == 3) {
		free(functions);
		return -ENOTSUP;
	}
	if (!*graph) {
		*graph = calloc(1, sizeof **graph);
		*handle += from_device;
	}
	touch_functions(*graph);
	free((*graph)->functions);
	(*graph)->functions = functions;
	(*graph)->count = launches;
	touch_functions(*graph);
	return 0;
}

static void graph_destroy(struct device_graph *graph)
{
	touch_functions(graph);
	free(graph->functions);
	free(graph);
}

/* ---- checked kernels ---- */

#define DEFINED_MAX 65536 /* bytes of a command; more takes time, and shows nothing */

static struct checking *checking;
static void (*null_submit)(struct device_queue *queue, struct device_command *command);

static int begin_checks(struct device_space *space, uint32_t checks)
{
	return checking_begin(&checking, checks);
}

static int add_range(struct device_space *space, uint64_t base, uint64_t bytes, bool defined)
{
	return checking_add(checking, base, bytes, defined);
}

static void remove_range(struct device_space *space, uint64_t base)
{
	checking_remove(checking, base);
}

static int tell_report(struct device_space *space, uint32_t index, struct reply_check *report)
{
	return -ENOENT; /* no kernel runs */
}

static void submit(struct device_queue *queue, struct device_command *command)
{
	const struct device_copy *copy = &command->copy;
	const struct device_fill *fill = &command->fill;

	if (command->kind == DEVICE_COPY && copy->height && copy->depth)
		checking_define(
			checking, copy->destination, min_of(copy->width, (uint64_t)DEFINED_MAX));
	else if (command->kind == DEVICE_FILL && fill->height)
		checking_define(checking, fill->destination,
			min_of(fill->width * fill->element_bytes, (uint64_t)DEFINED_MAX));
	else if (command->kind == DEVICE_LAUNCH && command->launch.graph)
		touch_functions(command->launch.graph);
	null_submit(queue, command);
}

/* ---- the device ---- */

const struct device_ops *session_device_ops(void)
{
	ops = *device_ops_find("null");
	null_submit = ops.submit;
	ops.submit = submit;
	ops.check_begin = begin_checks;
	ops.check_add = add_range;
	ops.check_remove = remove_range;
	ops.check_report = tell_report;
	ops.array_bytes = array_bytes;
	ops.array_create = array_create;
	ops.array_chunk = array_chunk;
	ops.array_destroy = array_destroy;
	ops.texture_create = texture_create;
	ops.texture_destroy = texture_destroy;
	ops.graph_set = graph_set;
	ops.graph_destroy = graph_destroy;
	return &ops;
}

void session_device_finish(void)
{
	checking_destroy(steal_pointer(&checking));
}

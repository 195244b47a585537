/* SPDX-License-Identifier: MIT
 *
 * Templates: what datablocks look like (section 4.1.1).
 */
#include <errno.h>

#include "lib/ptask/internal.h"

uint64_t shape_elements(const struct gdev_shape *shape)
{
	return shape->count[0] * shape->count[1] * shape->count[2];
}

/* False: nothing, or more than BYTES_MAX. */
static bool bytes_of(const struct gdev_shape *shape, uint64_t *bytes)
{
	*bytes = shape->stride;
	for (unsigned i = 0; i < 3; i++)
		if (__builtin_mul_overflow(*bytes, shape->count[i], bytes) || *bytes > BYTES_MAX)
			return false;
	return *bytes;
}

static const char *what_is_wrong(const struct gdev_shape *shape, uint64_t *bytes)
{
	if ((unsigned)shape->layout > GDEV_LAYOUT_OPAQUE)
		return "its layout is none";
	if (shape->layout == GDEV_LAYOUT_OPAQUE && shape->stride != 1)
		return "the stride of opaque bytes is 1";
	if (shape->layout != GDEV_LAYOUT_FIXED && (shape->count[1] != 1 || shape->count[2] != 1))
		return "records and opaque bytes have one dimension";
	if (!bytes_of(shape, bytes))
		return "it has no elements, or more than 2^47 bytes";
	return NULL;
}

int template_create(struct gdev_graph *graph, const char *name, const struct gdev_shape *shape,
	struct gdev_template **created)
{
	struct gdev_template *tmpl = calloc(1, sizeof *tmpl);
	const char *wrong;
	int error;

	if (!tmpl)
		return -ENOMEM;
	copy_name(tmpl->name, name, "template");
	tmpl->graph = graph;
	tmpl->shape = *shape;
	for (unsigned i = 1; i < 3; i++)
		if (!tmpl->shape.count[i])
			tmpl->shape.count[i] = 1;
	wrong = what_is_wrong(&tmpl->shape, &tmpl->bytes);
	if (wrong) {
		error = graph_complain(graph, -EINVAL, "template %s: %s", tmpl->name, wrong);
		free(tmpl);
		return error;
	}
	list_append(&graph->templates, &tmpl->link);
	*created = tmpl;
	return 0;
}

int gdev_template_open(struct gdev_graph *graph, const char *name, const struct gdev_shape *shape,
	struct gdev_template **opened)
{
	int error;

	if (graph->remote)
		return remote_template_open(graph, name, shape, opened);
	error = graph_enter(graph);
	if (error)
		return error;
	error = template_create(graph, name, shape, opened);
	graph_leave(graph);
	return error;
}

bool template_allows(const struct gdev_template *tmpl, uint64_t bytes)
{
	return tmpl->shape.layout == GDEV_LAYOUT_FIXED
		       ? bytes == tmpl->bytes
		       : bytes <= tmpl->bytes && bytes % tmpl->shape.stride == 0;
}

bool template_fits(const struct gdev_template *from, const struct gdev_template *to)
{
	if (!from || !to || from == to)
		return true;
	if (from->shape.layout != to->shape.layout || from->shape.stride != to->shape.stride)
		return false;
	if (from->shape.layout != GDEV_LAYOUT_FIXED)
		return from->bytes <= to->bytes;
	for (unsigned i = 0; i < 3; i++)
		if (from->shape.count[i] != to->shape.count[i])
			return false;
	return true;
}

/* SPDX-License-Identifier: MIT
 *
 * Building a graph: ptasks and ports. What does not fit together is refused here, with words that name both ends.
 */
#include <errno.h>
#include <string.h>

#include "lib/ptask/elsewhere.h"

int graph_may_build(struct gdev_graph *graph)
{
	return graph->running ? graph_complain(graph, -EBUSY,
					"graph %s: it runs, nothing can be opened in it any more",
					graph->name)
			      : 0;
}

/* As graph_enter(), for calls that build. */
static int enter_to_build(struct gdev_graph *graph)
{
	int error = graph_enter(graph);

	if (error)
		return error;
	error = graph_may_build(graph);
	if (error)
		graph_leave(graph);
	return error;
}

/* ---- ptasks ---- */

static struct gdev_ptask *ptask_create(
	struct gdev_graph *graph, const char *name, const char *otherwise)
{
	struct gdev_ptask *ptask = calloc(1, sizeof *ptask);

	if (!ptask)
		return NULL;
	copy_name(ptask->name, name, otherwise);
	ptask->graph = graph;
	list_init(&ptask->inputs);
	list_init(&ptask->outputs);
	list_init(&ptask->work);
	list_init(&ptask->link);
	return ptask;
}

static void free_ports(struct list *ports)
{
	struct gdev_port *port, *next;

	list_for_each_safe (port, next, ports, link) {
		if (port->block)
			block_put(port->block);
		free(port);
	}
}

void ptask_free(struct gdev_ptask *ptask)
{
	list_remove(&ptask->link);
	list_remove(&ptask->work);
	free_ports(&ptask->inputs);
	free_ports(&ptask->outputs);
	free(ptask->params);
	free(ptask->bound);
	free(ptask->elsewhere);
	free(ptask);
}

/* On each device that has code of the module. */
static int find_function(
	struct gdev_ptask *ptask, struct gdev_graph_module *module, const char *name)
{
	int error = 0;

	for (unsigned i = 0; i < ptask->graph->device_count && !error; i++) {
		if (!module->on[i])
			continue;
		error = gdev_module_function(module->on[i], name, &ptask->functions[i]);
		if (!error && !ptask->info)
			ptask->info = gdev_function_info(ptask->functions[i]);
	}
	if (error)
		return graph_complain(ptask->graph, error,
			"ptask %s: the module has no function %s", ptask->name, name);
	ptask->module = module;
	ptask->params = calloc(1, ptask->info->param_bytes + 1);
	ptask->bound = calloc(1, ptask->info->param_count + 1);
	return ptask->params && ptask->bound ? 0 : -ENOMEM;
}

int ptask_open(struct gdev_graph *graph, const char *name, struct gdev_graph_module *module,
	const char *function, struct gdev_ptask **opened)
{
	struct gdev_ptask *ptask = ptask_create(graph, name, function);
	int error;

	if (!ptask)
		return -ENOMEM;
	if (module->graph != graph)
		error = graph_complain(
			graph, -EINVAL, "ptask %s: its module is another graph's", ptask->name);
	else
		error = find_function(ptask, module, function);
	if (error) {
		ptask_free(ptask);
		return error;
	}
	list_append(&graph->ptasks, &ptask->link);
	*opened = ptask;
	return 0;
}

int gdev_ptask_open(struct gdev_graph *graph, const char *name, struct gdev_graph_module *module,
	const char *function, struct gdev_ptask **opened)
{
	int error;

	if (graph->remote)
		return remote_ptask_open(graph, name, module, function, opened);
	error = enter_to_build(graph);
	if (error)
		return error;
	error = ptask_open(graph, name, module, function, opened);
	graph_leave(graph);
	return error;
}

int ptask_open_elsewhere(struct gdev_graph *graph, const char *name, struct gdev_ptask **opened)
{
	struct gdev_ptask *ptask = ptask_create(graph, name, "elsewhere");

	if (!ptask)
		return -ENOMEM;
	ptask->elsewhere = elsewhere_create();
	if (!ptask->elsewhere) {
		ptask_free(ptask);
		return -ENOMEM;
	}
	list_append(&graph->ptasks, &ptask->link);
	*opened = ptask;
	return 0;
}

bool port_is_here(const struct gdev_port *port)
{
	return port && !port->ptask->elsewhere;
}

int gdev_ptask_open_host(struct gdev_graph *graph, const char *name, gdev_callback *callback,
	void *argument, struct gdev_ptask **opened)
{
	struct gdev_ptask *ptask = NULL;
	int error = callback ? enter_to_build(graph) : -EINVAL;

	if (error)
		return error;
	ptask = ptask_create(graph, name, "callback");
	if (ptask) {
		ptask->callback = callback;
		ptask->argument = argument;
		list_append(&graph->ptasks, &ptask->link);
		*opened = ptask;
	}
	graph_leave(graph);
	return ptask ? 0 : -ENOMEM;
}

/* ---- parameters ---- */

/* What has the parameter. */
static const char *holder_of(const struct gdev_ptask *ptask, const struct gdev_param *parameter)
{
	const struct gdev_port *port;

	for (unsigned side = 0; side < 2; side++)
		list_for_each (port, side ? &ptask->outputs : &ptask->inputs, link)
			if ((port->parameter.size && port->parameter.offset == parameter->offset) ||
				(port->count.size && port->count.offset == parameter->offset))
				return port->name;
	return "an argument";
}

/* Takes the parameter for somebody, who needs one of `bytes`. */
static int bind_parameter(struct gdev_ptask *ptask, const char *who, unsigned index, uint64_t bytes,
	struct gdev_param *parameter)
{
	struct gdev_graph *graph = ptask->graph;

	if (!ptask->info)
		return graph_complain(graph, -EINVAL, "ptask %s, %s: a callback has no parameters",
			ptask->name, who);
	if (index >= ptask->info->param_count)
		return graph_complain(graph, -EINVAL,
			"ptask %s, %s: the function has %u parameters, no %u", ptask->name, who,
			ptask->info->param_count, index);
	if (ptask->bound[index])
		return graph_complain(graph, -EEXIST,
			"ptask %s, %s: parameter %u is bound already, to %s", ptask->name, who,
			index, holder_of(ptask, &ptask->info->params[index]));
	*parameter = ptask->info->params[index];
	if (parameter->size != bytes)
		return graph_complain(graph, -EINVAL,
			"ptask %s, %s: parameter %u has %u bytes, and not %llu", ptask->name, who,
			index, parameter->size, (unsigned long long)bytes);
	ptask->bound[index] = 1;
	return 0;
}

int ptask_set_argument(struct gdev_ptask *ptask, unsigned index, const void *value, uint64_t bytes)
{
	struct gdev_param parameter = {0};
	int error = bind_parameter(ptask, "an argument", index, bytes, &parameter);

	if (!error)
		memcpy(ptask->params + parameter.offset, value, bytes);
	return error;
}

int gdev_ptask_set_argument(
	struct gdev_ptask *ptask, unsigned index, const void *value, size_t bytes)
{
	int error;

	if (ptask->graph->remote)
		return remote_set_argument(ptask, index, value, bytes);
	error = enter_to_build(ptask->graph);
	if (error)
		return error;
	error = ptask_set_argument(ptask, index, value, bytes);
	graph_leave(ptask->graph);
	return error;
}

static bool has_volume(const uint32_t shape[3])
{
	return shape[0] && shape[1] && shape[2];
}

int ptask_set_geometry(struct gdev_ptask *ptask, const uint32_t grid[3], const uint32_t block[3],
	uint32_t shared_bytes)
{
	if (!ptask->info || !block)
		return graph_complain(ptask->graph, -EINVAL,
			"ptask %s: a geometry is a function's, and has the shape of a block",
			ptask->name);
	if (!has_volume(block) || (grid && !has_volume(grid)))
		return graph_complain(ptask->graph, -EINVAL,
			"ptask %s: a geometry has at least 1 in each dimension", ptask->name);
	ptask->grid_set = grid;
	ptask->block_set = true;
	if (grid)
		memcpy(ptask->grid, grid, sizeof ptask->grid);
	memcpy(ptask->threads, block, sizeof ptask->threads);
	ptask->shared_bytes = shared_bytes;
	return 0;
}

int gdev_ptask_set_geometry(struct gdev_ptask *ptask, const uint32_t grid[3],
	const uint32_t block[3], uint32_t shared_bytes)
{
	int error;

	if (ptask->graph->remote)
		return remote_set_geometry(ptask, grid, block, shared_bytes);
	error = enter_to_build(ptask->graph);
	if (error)
		return error;
	error = ptask_set_geometry(ptask, grid, block, shared_bytes);
	graph_leave(ptask->graph);
	return error;
}

/* ---- ports ---- */

static const char *misfit_of_output(
	const struct gdev_ptask *ptask, const struct gdev_port_options *options)
{
	const struct gdev_port *in_out = options->in_out, *size = options->size;

	if (options->binding != GDEV_BIND_GLOBAL)
		return "an output is bound to global memory";
	if (in_out && (in_out->ptask != ptask || in_out->kind == GDEV_PORT_OUTPUT ||
			      in_out->binding != GDEV_BIND_GLOBAL || !ptask->info))
		return "in_out is a global input port of the same function";
	if (in_out && in_out->kind == GDEV_PORT_STICKY)
		return "what a sticky port keeps cannot be changed in place";
	if (in_out && in_out->changed_in_place)
		return "another output gives on what in_out changes";
	if (in_out && !template_fits(in_out->tmpl, options->tmpl))
		return "what is changed in place keeps its template";
	if (in_out && size)
		return "what is changed in place keeps its size";
	if (!in_out && !options->tmpl)
		return "an output has a template, or in_out";
	if (size && (size->ptask != ptask || size->binding != GDEV_BIND_META))
		return "size is a meta port of the same ptask";
	if (size && options->tmpl->shape.layout == GDEV_LAYOUT_FIXED)
		return "a fixed template has its size";
	return NULL;
}

static const char *misfit_of(
	const struct gdev_ptask *ptask, const struct gdev_port_options *options)
{
	const struct gdev_template *tmpl = options->tmpl;

	if ((unsigned)options->kind > GDEV_PORT_OUTPUT ||
		(unsigned)options->binding > GDEV_BIND_PREDICATE)
		return "its kind or its binding is none";
	if (tmpl && tmpl->graph != ptask->graph)
		return "its template is another graph's";
	if (options->kind == GDEV_PORT_OUTPUT)
		return misfit_of_output(ptask, options);
	if (options->in_out || options->size)
		return "in_out and size are options of outputs";
	if (!ptask->info && options->binding != GDEV_BIND_GLOBAL)
		return "ports of a callback are bound to nothing else than its views";
	if (options->binding == GDEV_BIND_META && (!tmpl || tmpl->bytes != sizeof(uint64_t) ||
							  tmpl->shape.layout != GDEV_LAYOUT_FIXED))
		return "a meta port has a fixed template of one uint64_t";
	if (options->binding == GDEV_BIND_SCALAR &&
		(!tmpl || tmpl->shape.layout != GDEV_LAYOUT_FIXED))
		return "a scalar has a fixed template";
	return NULL;
}

static struct variable *find_variable(
	struct gdev_graph *graph, const struct gdev_module *module, const char *name)
{
	struct variable *variable;

	list_for_each (variable, &graph->variables, link)
		if (variable->module == module && !strcmp(variable->name, name))
			return variable;
	return NULL;
}

static int open_variable(struct gdev_graph *graph, struct gdev_module *module, const char *name,
	struct variable **opened)
{
	struct variable *variable = find_variable(graph, module, name);
	int error;

	*opened = variable;
	if (variable)
		return 0;
	variable = calloc(1, sizeof *variable);
	if (!variable)
		return -ENOMEM;
	error = gdev_module_global(module, name, &variable->address, &variable->bytes);
	if (!error && !(variable->name = strdup(name)))
		error = -ENOMEM;
	if (error) {
		free(variable);
		return error;
	}
	variable->module = module;
	list_append(&graph->variables, &variable->link);
	*opened = variable;
	return 0;
}

/* To the same variable, on whichever devices the ptask runs. */
static bool is_bound_alike(const struct gdev_port *port, const struct gdev_port *other)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (port->variables[i] && port->variables[i] == other->variables[i])
			return true;
	return false;
}

/* Two ptasks may be bound to one variable: each invocation has what its own port had. */
static int bind_variable(struct gdev_port *port, const char *name)
{
	struct gdev_ptask *ptask = port->ptask;
	struct gdev_graph *graph = ptask->graph;
	struct gdev_port *other;
	int error = name ? 0 : -EINVAL;

	for (unsigned i = 0; i < graph->device_count && !error; i++)
		if (ptask->functions[i])
			error = open_variable(
				graph, ptask->module->on[i], name, &port->variables[i]);
	if (error)
		return graph_complain(graph, error,
			"ptask %s, port %s: no variable %s of the module", ptask->name, port->name,
			name ? name : "(none is named)");
	list_for_each (other, &ptask->inputs, link)
		if (is_bound_alike(other, port))
			return graph_complain(graph, -EEXIST,
				"ptask %s: ports %s and %s are both bound to %s", ptask->name,
				other->name, port->name, name);
	return 0;
}

static int bind_port(struct gdev_port *port, const struct gdev_port_options *options)
{
	struct gdev_ptask *ptask = port->ptask;

	if (!ptask->info)
		return 0;
	switch (port->binding) {
	case GDEV_BIND_GLOBAL:
		if (!port->in_out)
			return bind_parameter(ptask, port->name, options->parameter,
				sizeof(uint64_t), &port->parameter);
		port->parameter = port->in_out->parameter;
		port->in_out->changed_in_place = true;
		if (!port->tmpl)
			port->tmpl = port->in_out->tmpl;
		return 0;
	case GDEV_BIND_SCALAR:
		return bind_parameter(
			ptask, port->name, options->parameter, port->tmpl->bytes, &port->parameter);
	case GDEV_BIND_CONSTANT:
		return bind_variable(port, options->variable);
	default:
		return 0;
	}
}

static void init_port(
	struct gdev_port *port, struct gdev_ptask *ptask, const struct gdev_port_options *options)
{
	bool is_output = options->kind == GDEV_PORT_OUTPUT;

	copy_name(port->name, options->name, is_output ? "output" : "input");
	port->ptask = ptask;
	port->kind = options->kind;
	port->binding = options->binding;
	port->tmpl = options->tmpl;
	port->in_out = options->in_out;
	port->size = options->size;
	list_init(&port->channels);
}

int port_open(struct gdev_ptask *ptask, const struct gdev_port_options *options,
	struct gdev_port **opened)
{
	bool is_output = options->kind == GDEV_PORT_OUTPUT;
	struct gdev_port *port = calloc(1, sizeof *port);
	const char *misfit = misfit_of(ptask, options);
	int error = 0;

	if (misfit)
		error = graph_complain(ptask->graph, -EINVAL, "ptask %s, port %s: %s", ptask->name,
			options->name ? options->name : "", misfit);
	else if (!port)
		error = -ENOMEM;
	if (!error) {
		init_port(port, ptask, options);
		error = bind_port(port, options);
	}
	if (error) {
		free(port);
		return error;
	}
	list_append(is_output ? &ptask->outputs : &ptask->inputs, &port->link);
	*(is_output ? &ptask->output_count : &ptask->input_count) += 1;
	*opened = port;
	return 0;
}

int gdev_port_open(
	struct gdev_ptask *ptask, const struct gdev_port_options *options, struct gdev_port **port)
{
	int error;

	if (ptask->graph->remote)
		return remote_port_open(ptask, options, port);
	error = enter_to_build(ptask->graph);
	if (error)
		return error;
	error = port_open(ptask, options, port);
	graph_leave(ptask->graph);
	return error;
}

int port_count(struct gdev_port *port, unsigned index)
{
	struct gdev_ptask *ptask = port->ptask;
	struct gdev_param count = {0};
	uint64_t bytes = sizeof(uint64_t);
	int error;

	if (ptask->info && index < ptask->info->param_count &&
		ptask->info->params[index].size == sizeof(uint32_t))
		bytes = sizeof(uint32_t);
	if (port->count.size)
		error = graph_complain(ptask->graph, -EEXIST,
			"ptask %s, port %s: another parameter is its number of records",
			ptask->name, port->name);
	else
		error = bind_parameter(ptask, port->name, index, bytes, &count);
	if (!error)
		port->count = count;
	return error;
}

int gdev_port_count(struct gdev_port *port, unsigned index)
{
	struct gdev_graph *graph = port->ptask->graph;
	int error;

	if (graph->remote)
		return remote_port_count(port, index);
	error = enter_to_build(graph);
	if (error)
		return error;
	error = port_count(port, index);
	graph_leave(graph);
	return error;
}

/* ---- ports by name ---- */

/* Of what is complete. */
int port_named(struct gdev_graph *graph, const char *name, struct gdev_port **named)
{
	unsigned counts[OPENERS] = {0};
	struct gdev_ptask *ptask;
	struct gdev_port *port;
	int error;

	list_for_each (ptask, &graph->ptasks, link) {
		size_t length = strlen(ptask->name);
		if (ptask->draft || strncmp(name, ptask->name, length) || name[length] != '.')
			continue;
		for (unsigned side = 0; side < 2; side++)
			list_for_each (port, side ? &ptask->outputs : &ptask->inputs, link)
				if (!strcmp(name + length + 1, port->name) &&
					!found_before(counts, ptask->opener))
					*named = port;
	}
	error = found_one(counts);
	return error == -ENOTUNIQ ? graph_complain(graph, error, "there are several ports %s", name)
				  : error;
}

int gdev_port_find(
	struct gdev_graph *graph, const char *name, uint64_t deadline_ns, struct gdev_port **port)
{
	int error;

	if (graph->remote)
		return remote_port_find(graph, name, deadline_ns, port);
	error = graph_enter(graph);
	if (error)
		return error;
	do {
		error = graph_may_build(graph);
		if (!error)
			error = port_named(graph, name, port);
	} while (error == -ENOENT && deadline_ns && !(error = graph_wait(graph, deadline_ns)));
	graph_leave(graph);
	return error;
}

/* ---- looking, and priorities ---- */

enum gdev_ptask_state ptask_state(struct gdev_ptask *ptask)
{
	struct gdev_port *port;

	if (ptask->elsewhere && elsewhere_is_busy(ptask))
		return GDEV_PTASK_EXECUTING;
	if (ptask->calling || (ptask->last.value && !point_reached(ptask->graph, ptask->last)))
		return GDEV_PTASK_EXECUTING;
	if (ptask->waits_for_host || ptask->waits_for_device)
		return GDEV_PTASK_QUEUED;
	list_for_each (port, &ptask->outputs, link)
		if (port->block)
			return GDEV_PTASK_COMPLETED;
	return GDEV_PTASK_WAITING;
}

void ptask_describe(struct gdev_ptask *ptask, struct gdev_ptask_info *info)
{
	*info = (struct gdev_ptask_info){
		.state = ptask_state(ptask),
		.ended = ptask->ended,
		.invocations = ptask->invocations,
		.skipped = ptask->skipped,
		.moved = ptask->moved,
	};
}

int gdev_ptask_query(struct gdev_ptask *ptask, struct gdev_ptask_info *info)
{
	int error;

	if (ptask->graph->remote)
		return remote_ptask_query(ptask, info);
	error = graph_enter(ptask->graph);
	if (error)
		return error;
	ptask_describe(ptask, info);
	graph_leave(ptask->graph);
	return 0;
}

int gdev_ptask_set_priority(struct gdev_ptask *ptask, int priority, int proxy)
{
	int error;

	if (ptask->graph->remote)
		return remote_set_priority(ptask, priority, proxy);
	error = graph_enter(ptask->graph);
	if (error)
		return error;
	ptask->priority = priority;
	ptask->proxy = proxy;
	graph_leave(ptask->graph);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Opening modules, templates, ptasks, ports and channels in a graph that another process owns (proto/graph.h, GRAPH_BUILD). The
 * owner does it, and says what is wrong with the words that it has for itself; this process keeps ids. What is too large for a
 * message lies in the memory that this process writes and the owner reads, until the owner has answered.
 *
 * If this process's part runs in its own session (bridge.h), all is opened there first, and the owner hears of ptasks, ports
 * and channels alone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "lib/ptask/bridge.h"
#include "lib/ptask/remote.h"

#define PAUSE_NS (10 * NS_PER_MS)

/* ---- asking ---- */

/* What goes along with a request. */
struct cargo {
	const void *data;
	size_t bytes;
	char *log; /* the compiler's */
	size_t log_bytes;
};

static int load_cargo(
	struct gdev_graph *graph, struct graph_build *build, const struct cargo *cargo)
{
	struct remote *remote = graph->remote;
	int error;

	pthread_mutex_lock(&graph->lock);
	error = remote_error(graph);
	if (!error && cargo->bytes)
		error = pool_take(&remote->pool, cargo->bytes, &build->offset);
	pthread_mutex_unlock(&graph->lock);
	if (error || !cargo->bytes)
		return error;
	build->bytes = cargo->bytes;
	memcpy(remote->ours + build->offset, cargo->data, cargo->bytes);
	return 0;
}

static void note_answer(struct gdev_graph *graph, int error, const char *text, bool is_log)
{
	if (error == -GDEV_E_SESSION_LOST || error == -GDEV_E_PROTOCOL)
		remote_lose(graph, error);
	if (error && *text && !is_log && !graph->error)
		graph_complain(graph, error, "%.*s", GDEV_WHY_BYTES - 1, text);
}

/* The answer takes the request's place. */
static int ask_until(struct gdev_graph *graph, struct graph_build *build, const struct cargo *cargo,
	uint64_t deadline_ns)
{
	struct remote *remote = graph->remote;
	struct graph_message message = {.type = GRAPH_BUILD, .build = *build};
	autofree char *text = calloc(1, GRAPH_BUILD_TEXT_MAX);
	uint64_t offset;
	size_t none = 0;
	int error;

	if (!text)
		return -ENOMEM;
	if (!graph_is_ours(graph))
		return -GDEV_E_SESSION_LOST;
	if (build->what != GRAPH_BUILD_MODULE)
		deadline_ns = remote_answer_by(remote, deadline_ns); /* of all that is waited for */
	error = remote_begin_asking(graph, deadline_ns);
	if (error)
		return error;
	error = load_cargo(graph, &message.build, cargo);
	if (error) {
		pthread_mutex_unlock(&remote->asking);
		return error;
	}
	offset = message.build.offset;
	error = remote_talk(remote, &message, text, NULL, &none, deadline_ns);
	pthread_mutex_lock(&graph->lock);
	if (cargo->bytes && !remote->unanswered.serial) /* else the owner may read it yet */
		pool_give(&remote->pool, offset, cargo->bytes);
	note_answer(graph, error, text, build->what == GRAPH_BUILD_MODULE);
	pthread_mutex_unlock(&graph->lock);
	pthread_mutex_unlock(&remote->asking);
	if (cargo->log_bytes)
		snprintf(cargo->log, cargo->log_bytes, "%s", text);
	*build = message.build;
	return error;
}

/* Without a deadline. */
static int ask(struct gdev_graph *graph, struct graph_build *build, const struct cargo *cargo)
{
	return ask_until(graph, build, cargo, GDEV_FOREVER);
}

static int ask_plain(struct gdev_graph *graph, struct graph_build *build)
{
	return ask(graph, build, &(struct cargo){0});
}

/* As graph_complain(), and takes the lock. */
static int refuse(struct gdev_graph *graph, const char *name, const char *what)
{
	pthread_mutex_lock(&graph->lock);
	graph_complain(graph, -EINVAL, "%s: %s", name ? name : "(no name)", what);
	pthread_mutex_unlock(&graph->lock);
	return -EINVAL;
}

/* For messages, as all names. */
static void set_name(struct graph_build *build, const char *name)
{
	snprintf(build->name, NAME_MAX_BYTES, "%s", name ? name : "");
}

/* The owner has said what it may not. */
static int lose(struct gdev_graph *graph)
{
	pthread_mutex_lock(&graph->lock);
	remote_lose(graph, -GDEV_E_PROTOCOL);
	pthread_mutex_unlock(&graph->lock);
	return -GDEV_E_PROTOCOL;
}

/* ---- modules and templates ---- */

int remote_load(struct gdev_graph *graph, const void *image, size_t bytes, char *log,
	size_t log_bytes, struct gdev_graph_module **loaded)
{
	struct graph_build build = {.what = GRAPH_BUILD_MODULE};
	struct bridge *bridge = graph->remote->bridge;
	struct gdev_graph_module *module;
	int error;

	if (bytes > GRAPH_IMAGE_MAX)
		return -EFBIG;
	module = calloc(1, sizeof *module);
	if (!module)
		return -ENOMEM;
	if (bridge)
		error = gdev_graph_load(
			bridge_graph(bridge), image, bytes, log, log_bytes, &module->here);
	else
		error = ask(graph, &build, &(struct cargo){image, bytes, log, log ? log_bytes : 0});
	if (error) {
		free(module);
		return error;
	}
	module->graph = graph;
	module->id = build.id;
	pthread_mutex_lock(&graph->lock);
	list_append(&graph->modules, &module->link);
	pthread_mutex_unlock(&graph->lock);
	*loaded = module;
	return 0;
}

int remote_template_open(struct gdev_graph *graph, const char *name, const struct gdev_shape *shape,
	struct gdev_template **opened)
{
	struct bridge *bridge = graph->remote->bridge;
	struct gdev_template *here = NULL;
	struct graph_build build = {.what = GRAPH_BUILD_TEMPLATE,
		.layout = shape->layout,
		.stride = shape->stride,
		.count = {shape->count[0], shape->count[1], shape->count[2]}};
	int error;

	set_name(&build, name);
	error = ask_plain(graph, &build);
	if (!error && bridge)
		error = bridge_result(
			bridge, gdev_template_open(bridge_graph(bridge), name, shape, &here));
	if (error)
		return error;
	pthread_mutex_lock(&graph->lock);
	error = template_create(graph, name, shape, opened);
	if (!error) {
		(*opened)->id = build.id;
		(*opened)->here = here;
	}
	pthread_mutex_unlock(&graph->lock);
	return error;
}

/* -EINVAL: one of which the owner does not know. */
static int id_of(
	struct gdev_graph *graph, const char *name, const struct gdev_template *tmpl, uint32_t *id)
{
	if (tmpl && (tmpl->graph != graph || !tmpl->id))
		return refuse(graph, name, "its template was not opened in this graph");
	*id = tmpl ? tmpl->id : 0;
	return 0;
}

/* ---- ptasks ---- */

static struct gdev_ptask *make_ptask(struct gdev_graph *graph, const char *name, uint32_t id)
{
	struct gdev_ptask *ptask = calloc(1, sizeof *ptask);

	if (!ptask)
		return NULL;
	copy_name(ptask->name, name, "ptask");
	ptask->graph = graph;
	ptask->id = id;
	list_init(&ptask->inputs);
	list_init(&ptask->outputs);
	list_init(&ptask->work);
	pthread_mutex_lock(&graph->lock);
	list_append(&graph->ptasks, &ptask->link);
	pthread_mutex_unlock(&graph->lock);
	return ptask;
}

int remote_ptask_open(struct gdev_graph *graph, const char *name, struct gdev_graph_module *module,
	const char *function, struct gdev_ptask **opened)
{
	struct graph_build build = {.what = GRAPH_BUILD_PTASK, .module = module->id};
	struct bridge *bridge = graph->remote->bridge;
	struct gdev_ptask *ptask, *here = NULL;
	int error = module->graph == graph ? 0 : -EINVAL;

	set_name(&build, name ? name : function);
	if (!error && strlen(function) > GRAPH_WORD_MAX)
		error = -GDEV_E_SYMBOL_NOT_FOUND;
	if (!error && bridge)
		error = bridge_result(bridge,
			gdev_ptask_open(bridge_graph(bridge), name, module->here, function, &here));
	if (!error)
		error = ask(graph, &build,
			&(struct cargo){.data = function, .bytes = bridge ? 0 : strlen(function)});
	if (error)
		return error;
	ptask = make_ptask(graph, name ? name : function, build.id);
	if (!ptask)
		return -ENOMEM;
	ptask->here = here;
	*opened = ptask;
	return 0;
}

int remote_set_argument(
	struct gdev_ptask *ptask, unsigned parameter, const void *value, size_t bytes)
{
	struct graph_build build = {
		.what = GRAPH_BUILD_ARGUMENT, .ptask = ptask->id, .parameter = parameter};

	if (ptask->here)
		return bridge_result(ptask->graph->remote->bridge,
			gdev_ptask_set_argument(ptask->here, parameter, value, bytes));
	return bytes > GRAPH_WORD_MAX
		       ? -EINVAL
		       : ask(ptask->graph, &build, &(struct cargo){.data = value, .bytes = bytes});
}

int remote_set_geometry(struct gdev_ptask *ptask, const uint32_t grid[3], const uint32_t block[3],
	uint32_t shared_bytes)
{
	struct graph_build build = {
		.what = GRAPH_BUILD_GEOMETRY, .ptask = ptask->id, .shared_bytes = shared_bytes};

	if (ptask->here)
		return bridge_result(ptask->graph->remote->bridge,
			gdev_ptask_set_geometry(ptask->here, grid, block, shared_bytes));
	if (!block || (grid && !(grid[0] | grid[1] | grid[2])))
		return refuse(ptask->graph, ptask->name,
			"a geometry has the shape of a block, and at least 1 in each dimension");
	memcpy(build.block, block, sizeof build.block);
	if (grid)
		memcpy(build.grid, grid, sizeof build.grid);
	return ask_plain(ptask->graph, &build);
}

int remote_set_priority(struct gdev_ptask *ptask, int priority, int proxy)
{
	struct graph_build build = {.what = GRAPH_BUILD_PRIORITY,
		.ptask = ptask->id,
		.priority = priority,
		.proxy = proxy};

	return ask_plain(ptask->graph, &build);
}

int remote_ptask_query(struct gdev_ptask *ptask, struct gdev_ptask_info *info)
{
	struct graph_build build = {.what = GRAPH_BUILD_QUERY, .ptask = ptask->id};
	int error = ask_plain(ptask->graph, &build);

	if (!error && build.state > GDEV_PTASK_COMPLETED)
		error = lose(ptask->graph);
	if (!error)
		*info = (struct gdev_ptask_info){.state = build.state,
			.ended = build.ended,
			.invocations = build.numbers[0],
			.skipped = build.numbers[1],
			.moved = build.numbers[2]};
	return error;
}

/* ---- ports ---- */

static struct gdev_port *make_port(
	struct gdev_ptask *ptask, const char *name, bool is_output, uint32_t id)
{
	struct gdev_port *port = calloc(1, sizeof *port);

	if (!port)
		return NULL;
	copy_name(port->name, name, is_output ? "output" : "input");
	port->ptask = ptask;
	port->id = id;
	list_init(&port->channels);
	pthread_mutex_lock(&ptask->graph->lock);
	list_append(is_output ? &ptask->outputs : &ptask->inputs, &port->link);
	pthread_mutex_unlock(&ptask->graph->lock);
	return port;
}

/* Of somebody else's ptask there is no id. */
static bool is_own(const struct gdev_port *port)
{
	return !port || port->ptask->id;
}

static struct gdev_port *here_of(const struct gdev_port *port)
{
	return port ? port->here : NULL;
}

/* In this process's session; the owner hears of a port that is bound to nothing there. */
static int open_here(struct gdev_ptask *ptask, const struct gdev_port_options *wanted,
	struct graph_build *build, struct gdev_port **here)
{
	struct gdev_port_options options = *wanted;

	options.tmpl = wanted->tmpl ? wanted->tmpl->here : NULL;
	options.in_out = here_of(wanted->in_out);
	options.size = here_of(wanted->size);
	if (wanted->in_out && !wanted->tmpl && wanted->in_out->tmpl)
		build->tmpl = wanted->in_out->tmpl->id;
	build->binding = GDEV_BIND_GLOBAL;
	build->in_out = build->size = build->parameter = 0;
	return bridge_result(
		ptask->graph->remote->bridge, gdev_port_open(ptask->here, &options, here));
}

int remote_port_open(struct gdev_ptask *ptask, const struct gdev_port_options *options,
	struct gdev_port **opened)
{
	struct graph_build build = {.what = GRAPH_BUILD_PORT,
		.ptask = ptask->id,
		.kind = options->kind,
		.binding = options->binding,
		.parameter = options->parameter,
		.in_out = options->in_out ? options->in_out->id : 0,
		.size = options->size ? options->size->id : 0};
	size_t variable = options->variable ? strlen(options->variable) : 0;
	struct gdev_port *port, *here = NULL;
	int error = id_of(ptask->graph, options->name, options->tmpl, &build.tmpl);

	if (error)
		return error;
	if (variable > GRAPH_WORD_MAX || !is_own(options->in_out) || !is_own(options->size))
		return refuse(ptask->graph, options->name,
			"in_out and size are ports that this process has opened, a variable has a name");
	set_name(&build, options->name);
	if (ptask->here)
		error = open_here(ptask, options, &build, &here);
	if (!error)
		error = ask(ptask->graph, &build,
			&(struct cargo){
				.data = options->variable, .bytes = ptask->here ? 0 : variable});
	if (error)
		return error;
	port = make_port(ptask, options->name, options->kind == GDEV_PORT_OUTPUT, build.id);
	if (!port)
		return -ENOMEM;
	port->here = here;
	port->tmpl = options->tmpl;
	*opened = port;
	return 0;
}

int remote_port_count(struct gdev_port *port, unsigned parameter)
{
	struct graph_build build = {
		.what = GRAPH_BUILD_COUNT, .port = port->id, .parameter = parameter};

	if (port->here)
		return bridge_result(
			port->ptask->graph->remote->bridge, gdev_port_count(port->here, parameter));
	return port->ptask->id ? ask_plain(port->ptask->graph, &build) : -EPERM;
}

/* The ptask that is somebody else's has no id here. */
static int make_found(
	struct gdev_graph *graph, const char *name, uint32_t id, struct gdev_port **found)
{
	struct gdev_ptask *ptask = make_ptask(graph, name, 0);
	struct gdev_port *port = ptask ? make_port(ptask, name, false, id) : NULL;

	if (!port)
		return -ENOMEM;
	*found = port;
	return 0;
}

int remote_port_find(
	struct gdev_graph *graph, const char *name, uint64_t deadline_ns, struct gdev_port **port)
{
	static const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct graph_build build;
	int error;

	if (strlen(name) >= sizeof build.name)
		return -ENOENT;
	for (;;) {
		build = (struct graph_build){.what = GRAPH_BUILD_FIND};
		strcpy(build.name, name);
		error = ask_until(graph, &build, &(struct cargo){0}, deadline_ns);
		if (error != -ENOENT || !deadline_ns)
			return error ? error : make_found(graph, name, build.id, port);
		if (clock_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

/* ---- channels ---- */

/* What can be pushed into it, or pulled from it. */
static int set_template(struct gdev_channel *channel, const struct graph_build *build)
{
	const struct gdev_shape shape = {.layout = build->layout,
		.stride = build->stride,
		.count = {build->count[0], build->count[1], build->count[2]}};

	return shape.stride ? template_create(channel->graph, NULL, &shape, &channel->tmpl) : 0;
}

int remote_channel_open(struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to,
	const struct gdev_channel_options *wanted, struct gdev_channel **opened)
{
	const struct gdev_channel_options options =
		wanted ? *wanted : (struct gdev_channel_options){0};
	struct graph_build build = {.what = GRAPH_BUILD_CHANNEL,
		.from = from ? from->id : 0,
		.to = to ? to->id : 0,
		.capacity = options.capacity,
		.mode = options.mode,
		.keep = options.keep};
	struct gdev_channel *channel;
	int error = id_of(graph, options.name, options.tmpl, &build.tmpl);

	if (error)
		return error;
	if ((from && from->ptask->graph != graph) || (to && to->ptask->graph != graph))
		return refuse(graph, options.name, "a port of the channel is another graph's");
	set_name(&build, options.name);
	error = ask_plain(graph, &build);
	if (error)
		return error;
	pthread_mutex_lock(&graph->lock);
	error = remote_make_channel(graph, options.name, &channel);
	if (!error) {
		channel->id = build.id;
		channel->outer = !from || !to;
		error = set_template(channel, &build);
	}
	if (!error)
		*opened = channel;
	pthread_mutex_unlock(&graph->lock);
	return error;
}

/* ---- the part ---- */

int remote_run(struct gdev_graph *graph)
{
	struct graph_build build = {.what = GRAPH_BUILD_COMPLETE};
	struct bridge *bridge = graph->remote->bridge;
	int error = bridge ? bridge_run(bridge) : 0;

	if (!error)
		error = ask_plain(graph, &build);
	return error || !bridge ? error : bridge_start(bridge);
}

void remote_forget_parts(struct gdev_graph *graph)
{
	struct gdev_graph_module *module, *next_module;
	struct gdev_ptask *ptask, *next_ptask;

	list_for_each_safe (ptask, next_ptask, &graph->ptasks, link)
		ptask_free(ptask);
	list_for_each_safe (module, next_module, &graph->modules, link)
		free(module);
}

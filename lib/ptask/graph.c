/* SPDX-License-Identifier: MIT
 *
 * Graphs: opening and closing, calls that wait, errors and what is said of them.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "lib/ptask/forks.h"
#include "lib/ptask/internal.h"

/* ---- entering and leaving ---- */

bool graph_is_ours(const struct gdev_graph *graph)
{
	return !forks_since(graph->forks);
}

int graph_error(const struct gdev_graph *graph)
{
	if (graph->error)
		return graph->error;
	return graph->terminated ? -ECANCELED : 0;
}

int graph_enter(struct gdev_graph *graph)
{
	int error;

	if (!graph_is_ours(graph))
		return -GDEV_E_SESSION_LOST;
	if (graph->remote)
		return -EPERM;
	pthread_mutex_lock(&graph->lock);
	error = graph_error(graph);
	if (error)
		pthread_mutex_unlock(&graph->lock);
	return error;
}

void graph_leave(struct gdev_graph *graph)
{
	pthread_mutex_unlock(&graph->lock);
}

void graph_changed(struct gdev_graph *graph)
{
	pthread_cond_broadcast(&graph->changed);
	members_wake(graph);
	if (!graph->refused)
		return;
	graph->refused = false;
	eventfd_write(graph->descriptor, 1);
}

/* The descriptor is readable for what has happened until now; in a manual graph gdev_graph_advance() may have to hear of it,
 * too. */
static int refuse(struct gdev_graph *graph)
{
	eventfd_t count;

	if (!graph->manual)
		eventfd_read(graph->descriptor, &count);
	graph->refused = true;
	return -EAGAIN;
}

int graph_wait(struct gdev_graph *graph, uint64_t deadline_ns)
{
	struct timespec until = {(time_t)(deadline_ns / NS_PER_S), (long)(deadline_ns % NS_PER_S)};
	int late = 0;

	if (!deadline_ns)
		return refuse(graph);
	if (deadline_ns == GDEV_FOREVER)
		pthread_cond_wait(&graph->changed, &graph->lock);
	else
		late = pthread_cond_timedwait(&graph->changed, &graph->lock, &until);
	if (graph_error(graph))
		return graph_error(graph);
	return late ? -ETIMEDOUT : 0;
}

/* ---- errors ---- */

void copy_name(char to[NAME_MAX_BYTES], const char *name, const char *otherwise)
{
	snprintf(to, NAME_MAX_BYTES, "%s", name ? name : otherwise);
}

int graph_complain(struct gdev_graph *graph, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(graph->aside ? graph->aside : graph->why, sizeof graph->why, format, arguments);
	va_end(arguments);
	return error;
}

void graph_fail(struct gdev_graph *graph, int error, const struct gdev_ptask *ptask)
{
	char device[GDEV_WHY_BYTES];

	if (graph->error)
		return;
	graph->error = error;
	graph->aside = NULL;
	*device = '\0';
	for (unsigned i = 0; i < graph->device_count && !*device; i++)
		gdev_session_why(graph->devices[i].session, device);
	graph_complain(graph, error, "%s%s%s%s", ptask ? "ptask " : "", ptask ? ptask->name : "",
		ptask ? ": " : "", gdev_strerror(error));
	if (*device)
		snprintf(graph->why + strlen(graph->why), sizeof graph->why - strlen(graph->why),
			"; %.300s", device);
	graph->refused = true;
	graph_changed(graph);
	host_wake(graph);
}

void gdev_graph_why(struct gdev_graph *graph, char why[GDEV_WHY_BYTES])
{
	why[0] = '\0';
	if (!graph_is_ours(graph))
		return;
	pthread_mutex_lock(&graph->lock);
	memcpy(why, graph->why, GDEV_WHY_BYTES);
	pthread_mutex_unlock(&graph->lock);
}

/* ---- life ---- */

static void init_locks(struct gdev_graph *graph)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&graph->lock, NULL);
	pthread_cond_init(&graph->changed, &monotonic);
	pthread_mutex_init(&graph->notice_lock, NULL);
	pthread_cond_init(&graph->noticed, NULL);
	pthread_condattr_destroy(&monotonic);
}

void graph_free(struct gdev_graph *graph)
{
	struct gdev_template *tmpl, *next;

	publish_free(graph);
	remote_free(graph);
	blocks_free_spare(graph);
	list_for_each_safe (tmpl, next, &graph->templates, link)
		free(tmpl);
	int fds[] = {graph->descriptor, graph->wake, graph->watch, graph->manual_poll};
	for (unsigned i = 0; i < array_length(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	pthread_mutex_destroy(&graph->lock);
	pthread_cond_destroy(&graph->changed);
	pthread_mutex_destroy(&graph->notice_lock);
	pthread_cond_destroy(&graph->noticed);
	free(graph->devices);
	free(graph->lanes);
	free(graph);
}

static int open_session(
	struct device *device, const struct gdev_graph_options *options, unsigned index)
{
	const char *vgpu = options->vgpu_count ? options->vgpus[index] : options->vgpu;

	if (!options->session)
		return gdev_session_open_own(vgpu, &device->session);
	gdev_session_ref(options->session);
	device->session = options->session;
	return gdev_session_error(device->session, NULL);
}

/* By CUDA's numbers of attributes. */
enum { MULTIPROCESSORS = 16, CLOCK_KHZ = 13, MEMORY_CLOCK_KHZ = 36 };

/* 1: the device does not know. */
static unsigned property_of(struct gdev_session *session, unsigned property)
{
	int32_t value;

	return !gdev_session_property(session, property, &value) && value > 0 ? (unsigned)value : 1;
}

static int open_device(
	struct gdev_graph *graph, const struct gdev_graph_options *options, unsigned index)
{
	struct device *device = &graph->devices[index];
	int error = open_session(device, options, index);

	if (!error)
		error = lane_create(graph, lane_in(index));
	if (!error) /* it is there when the worker is late (flow.c) */
		error = gdev_stream_create(
			device->session, 0, &graph->lanes[lane_in(index)].notify);
	if (!error)
		error = gdev_stream_create(device->session, 0, &device->out);
	if (error)
		return error;
	device->direct = gdev_session_copies(device->session);
	device->multiprocessors = property_of(device->session, MULTIPROCESSORS);
	device->strength = (double)device->multiprocessors *
			   property_of(device->session, CLOCK_KHZ) *
			   property_of(device->session, MEMORY_CLOCK_KHZ); /* (5.1) */
	return 0;
}

static void close_devices(struct gdev_graph *graph)
{
	for (unsigned i = 0; i < graph->lane_count; i++) {
		gdev_stream_destroy(graph->lanes[i].stream);
		gdev_stream_destroy(graph->lanes[i].notify);
	}
	for (unsigned i = 0; i < graph->device_count; i++)
		gdev_stream_destroy(graph->devices[i].out);
	for (unsigned i = 0; i < graph->device_count; i++)
		gdev_session_close(graph->devices[i].session);
	graph->device_count = graph->lane_count = graph->lanes_used = 0;
}

static int open_devices(struct gdev_graph *graph, const struct gdev_graph_options *options)
{
	unsigned count = options->vgpu_count ? options->vgpu_count : 1;
	int error = 0;

	graph->devices = calloc(count, sizeof *graph->devices);
	graph->lanes = calloc((size_t)count * LANES_A_DEVICE, sizeof *graph->lanes);
	if (!graph->devices || !graph->lanes)
		return -ENOMEM;
	graph->device_count = count;
	graph->lane_count = count * LANES_A_DEVICE;
	for (unsigned i = 0; i < count; i++) {
		graph->devices[i].graph = graph;
		buffers_init(&graph->devices[i]);
	}
	for (unsigned i = 0; i < count && !error; i++)
		error = open_device(graph, options, i);
	return error;
}

static bool are_valid(const struct gdev_graph_options *options)
{
	return (unsigned)options->schedule <= GDEV_SCHEDULE_DATA_AWARE &&
	       options->vgpu_count <= DEVICES_MAX && options->lanes <= GDEV_GRAPH_LANES_MAX &&
	       (!options->mode || options->name) &&
	       (!options->vgpu_count || (options->vgpus && !options->vgpu && !options->session));
}

struct gdev_graph *graph_create(const struct gdev_graph_options *options)
{
	struct gdev_graph *graph = calloc(1, sizeof *graph);

	if (!graph)
		return NULL;
	copy_name(graph->name, options->name, "graph");
	graph->manual = options->manual;
	graph->schedule = options->schedule;
	graph->lanes_wanted = options->lanes;
	graph->forks = forks_now();
	struct list *lists[] = {&graph->modules, &graph->templates, &graph->ptasks,
		&graph->channels, &graph->variables, &graph->blocks, &graph->work, &graph->hosts,
		&graph->ready, &graph->feeds, &graph->spare};
	for (unsigned i = 0; i < array_length(lists); i++)
		list_init(lists[i]);
	init_locks(graph);
	graph->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	graph->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	graph->watch = graph->manual_poll = -1;
	return graph;
}

/* One descriptor for all that a manual graph's program has to hear of. */
static int poll_create(struct gdev_graph *graph)
{
	struct epoll_event event = {.events = EPOLLIN};

	graph->manual_poll = epoll_create1(EPOLL_CLOEXEC);
	return graph->manual_poll < 0 || epoll_ctl(graph->manual_poll, EPOLL_CTL_ADD,
						 graph->descriptor, &event)
		       ? -errno
		       : 0;
}

int gdev_graph_open(const struct gdev_graph_options *wanted, struct gdev_graph **opened)
{
	const struct gdev_graph_options options = wanted ? *wanted : (struct gdev_graph_options){0};
	struct gdev_graph *graph;
	int error;

	if (!are_valid(&options))
		return -EINVAL;
	graph = graph_create(&options);
	if (!graph)
		return -ENOMEM;
	error = graph->descriptor < 0 || graph->wake < 0 ? -EMFILE : 0;
	if (!error && graph->manual)
		error = poll_create(graph);
	if (!error)
		error = open_devices(graph, &options);
	if (!error && options.mode)
		error = publish(graph, &options);
	if (error) {
		host_stop(graph);
		publish_stop(graph);
		close_devices(graph);
		graph_free(graph);
		return error;
	}
	*opened = graph;
	return 0;
}

static void unload(struct gdev_graph_module *module)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		gdev_module_unload(module->on[i]);
	free(module);
}

static void free_variable(struct variable *variable)
{
	list_remove(&variable->link);
	free(variable->name);
	free(variable);
}

/* Nothing is under way any more. Datablocks of which the program has references stay, without contents on the device. */
static void free_parts(struct gdev_graph *graph)
{
	struct gdev_graph_module *module, *next_module;
	struct gdev_datablock *block;
	struct gdev_ptask *ptask, *next_ptask;
	struct gdev_channel *channel, *next_channel;
	struct variable *variable, *next_variable;

	list_for_each_safe (channel, next_channel, &graph->channels, link)
		channel_free(channel);
	list_for_each_safe (ptask, next_ptask, &graph->ptasks, link)
		ptask_free(ptask);
	list_for_each_safe (variable, next_variable, &graph->variables, link)
		free_variable(variable);
	list_for_each (block, &graph->blocks, link) {
		if (gather_leave(block))
			block->host_current = false;
		for (unsigned i = 0; i < DEVICES_MAX; i++) {
			if (block->views[i].buffer)
				buffer_give(graph, steal_pointer(&block->views[i].buffer));
			block->views[i].current = false;
		}
	}
	for (unsigned i = 0; i < graph->device_count; i++) {
		buffers_finish(&graph->devices[i]);
		landings_finish(&graph->devices[i]);
		gather_finish(&graph->devices[i]);
	}
	list_for_each_safe (module, next_module, &graph->modules, link)
		unload(module);
}

static void wait_for_lanes(struct gdev_graph *graph)
{
	for (unsigned i = 0; i < graph->lane_count; i++)
		if (graph->lanes[i].stream)
			gdev_stream_sync(graph->lanes[i].stream);
}

void graph_release(struct gdev_graph *graph)
{
	bool last = graph->closed && list_empty(&graph->blocks);

	pthread_mutex_unlock(&graph->lock);
	if (last)
		graph_free(graph);
}

void gdev_graph_close(struct gdev_graph *graph)
{
	if (!graph || !graph_is_ours(graph))
		return;
	if (graph->remote) {
		remote_close(graph);
		return;
	}
	gdev_graph_terminate(graph);
	host_stop(graph);
	publish_stop(graph);
	wait_for_lanes(graph);
	pthread_mutex_lock(&graph->lock);
	free_parts(graph);
	graph->closed = true;
	close_devices(graph);
	graph_release(graph);
}

int gdev_graph_terminate(struct gdev_graph *graph)
{
	struct gdev_channel *channel;
	struct gdev_ptask *ptask;

	if (!graph_is_ours(graph))
		return -GDEV_E_SESSION_LOST;
	if (graph->remote)
		return -EPERM;
	pthread_mutex_lock(&graph->lock);
	graph->terminated = true;
	list_for_each (channel, &graph->channels, link)
		channel_drop_all(channel);
	list_for_each (ptask, &graph->ptasks, link)
		if (!ptask->calling)
			ptask_drop_all(ptask);
	graph->refused = true;
	graph_changed(graph);
	host_wake(graph);
	graph_leave(graph);
	return 0;
}

int gdev_graph_descriptor(struct gdev_graph *graph)
{
	return graph->remote   ? remote_descriptor(graph)
	       : graph->manual ? graph->manual_poll
			       : graph->descriptor;
}

/* The device is not one that the code is for. */
static bool is_unfit(int error)
{
	return error == -GDEV_E_NO_BINARY || error == -GDEV_E_UNSUPPORTED_PTX ||
	       error == -GDEV_E_INVALID_IMAGE;
}

/* On each device that it is for. */
static int load_where_it_fits(struct gdev_graph *graph, struct gdev_image *image, char *log,
	size_t log_bytes, struct gdev_module *on[DEVICES_MAX])
{
	unsigned unfit = 0;
	int error, last = 0;

	for (unsigned i = 0; i < graph->device_count; i++) {
		error = gdev_module_load_image(
			graph->devices[i].session, image, log, log_bytes, &on[i]);
		if (error && !is_unfit(error))
			return error;
		unfit += error != 0;
		last = error ? error : last;
	}
	return unfit == graph->device_count ? last : 0;
}

int graph_load(struct gdev_graph *graph, struct gdev_image *image, char *log, size_t log_bytes,
	struct gdev_graph_module **loaded)
{
	struct gdev_graph_module *module = calloc(1, sizeof *module);
	int error;

	if (!module)
		return -ENOMEM;
	error = load_where_it_fits(graph, image, log, log_bytes, module->on);
	if (!error)
		error = graph_enter(graph);
	if (error) {
		unload(module);
		return error;
	}
	module->graph = graph;
	list_append(&graph->modules, &module->link);
	graph_leave(graph);
	*loaded = module;
	return 0;
}

void graph_unload(struct gdev_graph *graph, struct gdev_graph_module *module)
{
	struct variable *variable, *next;

	for (unsigned i = 0; i < graph->device_count; i++)
		list_for_each_safe (variable, next, &graph->variables, link)
			if (variable->module == module->on[i])
				free_variable(variable);
	list_remove(&module->link);
	pthread_mutex_unlock(&graph->lock);
	unload(module);
	pthread_mutex_lock(&graph->lock);
}

int gdev_graph_load(struct gdev_graph *graph, const void *bytes, size_t length, char *log,
	size_t log_bytes, struct gdev_graph_module **module)
{
	struct gdev_image *image;
	int error;

	if (!graph_is_ours(graph))
		return -GDEV_E_SESSION_LOST;
	if (graph->remote)
		return remote_load(graph, bytes, length, log, log_bytes, module);
	error = gdev_image_create(bytes, length, &image);
	if (error)
		return error;
	error = graph_load(graph, image, log, log_bytes, module);
	gdev_image_destroy(image);
	return error;
}

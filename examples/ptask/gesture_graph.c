/* SPDX-License-Identifier: MIT
 *
 * The gestural interface as a PTask graph (Figure 8): a thread is the cameras, and main() pulls events.
 */
#include <gdev/ptask.h>

#include <pthread.h>
#include <string.h>

#include "ptask/gesture.h"

static struct gdev_graph *graph;
static struct gdev_graph_module *module;
static struct gdev_template *image, *pose, *cloud, *event;
static struct gdev_channel *images[CAMERAS], *events;

static void must(int error, const char *what)
{
	char why[GDEV_WHY_BYTES];

	if (!error)
		return;
	*why = '\0';
	if (graph)
		gdev_graph_why(graph, why);
	require(false, what, *why ? why : gdev_strerror(error));
}

static struct gdev_template *open_template(
	const char *name, size_t stride, size_t columns, size_t rows)
{
	struct gdev_shape shape = {.stride = stride, .count = {columns, rows, 1}};
	struct gdev_template *opened;

	must(gdev_template_open(graph, name, &shape, &opened), "open a template");
	return opened;
}

static struct gdev_port *open_port(struct gdev_ptask *ptask, struct gdev_port_options options)
{
	struct gdev_port *port;

	must(gdev_port_open(ptask, &options, &port), "open a port");
	return port;
}

static struct gdev_channel *connect(struct gdev_port *from, struct gdev_port *to)
{
	/* One is looked at, and the next one is made meanwhile. More would be late, and out of the caches. */
	const struct gdev_channel_options options = {.capacity = 2};
	struct gdev_channel *channel;

	must(gdev_channel_open(graph, from, to, &options, &channel), "open a channel");
	return channel;
}

/* kernel(cloud, input, input, width, height). */
static struct gdev_ptask *open_ptask(const char *name, const char *kernel)
{
	struct gdev_ptask *ptask;

	must(gdev_ptask_open(graph, name, module, kernel, &ptask), "open a ptask");
	must(gdev_ptask_set_argument(ptask, 3, &width, sizeof width), "set an argument");
	must(gdev_ptask_set_argument(ptask, 4, &height, sizeof height), "set an argument");
	return ptask;
}

/* Returns where its clouds come out. */
static struct gdev_port *open_xform(unsigned camera)
{
	struct gdev_ptask *xform = open_ptask(camera ? "xform_1" : "xform_0", "xform");
	struct gdev_channel *where =
		connect(NULL, open_port(xform, (struct gdev_port_options){.name = "pose",
						       .kind = GDEV_PORT_STICKY,
						       .tmpl = pose,
						       .parameter = 2}));

	images[camera] = connect(
		NULL, open_port(xform, (struct gdev_port_options){
					       .name = "rawimg", .tmpl = image, .parameter = 1}));
	must(gdev_push_bytes(where, &poses[camera], sizeof poses[camera], GDEV_FOREVER), "push");
	return open_port(xform, (struct gdev_port_options){
					.name = "cloud", .kind = GDEV_PORT_OUTPUT, .tmpl = cloud});
}

static int call_hidinput(void *unused, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	hidinput(inputs[0].data, outputs[0].data);
	return 0;
}

static void build(void)
{
	struct gdev_ptask *filter, *host;
	struct gdev_port *clouds[CAMERAS], *filtered, *found;

	must(gdev_graph_open(&(struct gdev_graph_options){.name = "gesture"}, &graph),
		"open a graph; run it under `gdev run`");
	must(gdev_graph_load(graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0, &module),
		"load the kernels");
	image = open_template("image", sizeof(uint16_t), (size_t)width, (size_t)height);
	cloud = open_template("cloud", sizeof(struct point), (size_t)width, (size_t)height);
	pose = open_template("pose", sizeof(struct pose), 1, 1);
	event = open_template("event", sizeof(struct event), 1, 1);
	filter = open_ptask("filter", "filter");
	must(gdev_ptask_open_host(graph, "hidinput", call_hidinput, NULL, &host), "open a ptask");
	for (unsigned i = 0; i < CAMERAS; i++) {
		clouds[i] = open_xform(i);
		connect(clouds[i],
			open_port(filter, (struct gdev_port_options){.name = i ? "i_1" : "i_0",
						  .tmpl = cloud,
						  .parameter = 1 + i}));
	}
	filtered = open_port(filter,
		(struct gdev_port_options){.name = "out", .kind = GDEV_PORT_OUTPUT, .tmpl = cloud});
	connect(filtered,
		open_port(host, (struct gdev_port_options){.name = "cloud", .tmpl = cloud}));
	found = open_port(host, (struct gdev_port_options){
					.name = "event", .kind = GDEV_PORT_OUTPUT, .tmpl = event});
	events = connect(found, NULL);
	must(gdev_graph_run(graph), "run the graph");
}

static void *run_cameras(void *unused)
{
	for (unsigned frame = 0; frame < frame_count; frame++)
		for (unsigned i = 0; i < CAMERAS; i++)
			must(gdev_push_bytes(images[i], camera_image(i, frame), image_bytes(),
				     GDEV_FOREVER),
				"push");
	return NULL;
}

void run_ptask(void)
{
	struct event found;
	pthread_t cameras;

	build();
	require(!pthread_create(&cameras, NULL, run_cameras, NULL), "start a thread",
		"the system has none left");
	for (unsigned frame = 0; frame < frame_count; frame++) {
		must(gdev_pull_bytes(events, &found, sizeof found, GDEV_FOREVER, NULL), "pull");
		deliver(frame, &found);
	}
	pthread_join(cameras, NULL);
	gdev_graph_close(graph);
}

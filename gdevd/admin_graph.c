/* SPDX-License-Identifier: MIT
 *
 * The command on named graphs: which there are, and whose. What a graph is made of only its owner knows.
 */
#include "gdevd/admin.h"

#include <stdio.h>

#define GRAPHS_A_PAGE 256

static json_t *describe_graph(const struct daemon *daemon, const struct graph *graph)
{
	const struct session *session = graph_session(daemon, graph);
	json_t *object = json_object();
	char mode[8];

	snprintf(mode, sizeof mode, "%04o", graph->mode);
	json_object_set_new(object, "name", json_string(graph->name));
	json_object_set_new(object, "owner", json_integer(graph->client->connection->uid));
	json_object_set_new(object, "group", json_integer(graph->group));
	json_object_set_new(object, "mode", json_string(mode));
	json_object_set_new(object, "pid", json_integer(graph->client->connection->pid));
	json_object_set_new(
		object, "program", session ? json_string(session->program) : json_null());
	json_object_set_new(
		object, "session", session ? json_integer((json_int_t)session->id) : json_null());
	json_object_set_new(
		object, "vgpu", session ? json_string(session->vgpu->config->name) : json_null());
	json_object_set_new(object, "opened", json_integer((json_int_t)graph->opened));
	return object;
}

json_t *command_graph_list(struct daemon *daemon, const json_t *request, int *status)
{
	json_int_t after = json_integer_value(json_object_get(request, "after")), index = 0;
	json_t *graphs = json_array();
	const struct graph *graph;

	list_for_each (graph, &daemon->graphs, link)
		if (index++ >= after && json_array_size(graphs) < GRAPHS_A_PAGE)
			json_array_append_new(graphs, describe_graph(daemon, graph));
	return json_pack("{s:o,s:b}", "graphs", graphs, "more",
		index > after + (json_int_t)json_array_size(graphs));
}

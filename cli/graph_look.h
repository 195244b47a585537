/* SPDX-License-Identifier: MIT
 *
 * See graph_look.c: {"graph": {...}, "ptasks": [...], "channels": [...]}; channels name ptasks by their index.
 */
#ifndef GDEV_CLI_GRAPH_LOOK_H
#define GDEV_CLI_GRAPH_LOOK_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/graph.h"

/* `NAME` of this user, `USER/NAME` of another. -ENOENT: there is no such user. */
int graph_parse_name(const char *text, uint32_t *uid, const char **name);
/* Asks for all of a graph. `gdevd`: a connection, to be used for nothing else. -EACCES, -ENOENT, -ETIMEDOUT, ... */
int graph_look(int gdevd, uint32_t uid, const char *name, json_t **look);

json_t *graph_look_create(void);
/* What a stranger said. -EPROTO. */
int graph_look_add(json_t *look, const struct graph_item *items, size_t count);

#endif

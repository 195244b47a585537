/* SPDX-License-Identifier: MIT
 *
 * What the other files ask of the daemon as a whole: numbers that name things, and the end.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define IDS_A_TIME 1024

int daemon_init(struct daemon *daemon)
{
	int error;

	daemon->lock = daemon->ids = daemon->cache.dir = -1;
	daemon->ledgers.sessions.fd = daemon->ledgers.segments.fd = daemon->ledgers.attachments.fd =
		-1;
	list_init(&daemon->vgpus);
	list_init(&daemon->sessions);
	list_init(&daemon->segments);
	list_init(&daemon->graphs);
	list_init(&daemon->clients);
	list_init(&daemon->waiting);
	list_init(&daemon->watches_unclaimed);
	list_init(&daemon->devices);
	list_init(&daemon->workers);
	list_init(&daemon->freeing);
	list_init(&daemon->cache.users);
	config_init(&daemon->config);
	uv_loop_init(&daemon->loop);
	error = deadlines_init(&daemon->deadlines, &daemon->loop);
	uv_idle_init(&daemon->loop, &daemon->eager);
	users_init(&daemon->users, &daemon->loop, &daemon->deadlines);
	closer_init(&daemon->loop);
	moving_init(daemon);
	return error;
}

/* Ids are counted, and the count does not end where the ids do. They are taken in lots, and a lot is written down
 * before it is used: the next gdevd goes on after it. */
static void go_on_after_last(struct daemon *daemon)
{
	char text[24] = "";

	if (!daemon->next_id && pread(daemon->ids, text, sizeof text - 1, 0) > 0)
		daemon->next_id = daemon->ids_end = strtoull(text, NULL, 10);
	if (!daemon->next_id)
		daemon->next_id = daemon->ids_end = 1;
}

/* Whether a session or a segment has the id of the last time round. */
static bool is_used(struct daemon *daemon, uint32_t id)
{
	return session_find(daemon, id) || shm_find_id(daemon, id);
}

static uint32_t next_id(struct daemon *daemon)
{
	char text[24];

	if (daemon->next_id >= daemon->ids_end) {
		go_on_after_last(daemon);
		daemon->ids_end = daemon->next_id + IDS_A_TIME;
		snprintf(text, sizeof text, "%llu\n", (unsigned long long)daemon->ids_end);
		if (pwrite(daemon->ids, text, strlen(text), 0) < 0)
			log_warning("session numbers may be used again after a restart: %s",
				strerror(errno));
	}
	return (uint32_t)((daemon->next_id++ - 1) % UINT32_MAX) + 1;
}

uint32_t daemon_new_id(struct daemon *daemon)
{
	uint32_t id = next_id(daemon);

	while (daemon->next_id > UINT32_MAX && is_used(daemon, id))
		id = next_id(daemon);
	return id;
}

void daemon_stop(struct daemon *daemon)
{
	struct client *client, *after;

	if (daemon->stopping)
		return;
	daemon->stopping = true;
	server_stop();
	/* Sessions first lose their clients' connections here, and nothing else: the workers go on. */
	list_for_each_safe (client, after, &daemon->clients, link) {
		if (!list_empty(&client->waiting))
			client_refuse(client, -ESHUTDOWN, "gdevd is stopping; try again");
		if (client->session)
			client->session->client = NULL;
		client->session = NULL;
		client_destroy(client);
	}
	workers_stop(daemon);
	uv_stop(&daemon->loop);
}

void daemon_maybe_leave(struct daemon *daemon)
{
	if (!daemon->private || daemon->stopping || !daemon->visited)
		return;
	if (!list_empty(&daemon->clients) || !list_empty(&daemon->sessions))
		return;
	log_info("the last client has left");
	daemon_stop(daemon);
}

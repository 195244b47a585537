/* SPDX-License-Identifier: MIT
 *
 * Tracing: which connections want to read the trace segments of which sessions (proto/control.h, TRACE). A session's
 * segment is switched on while at least one connection wants it. What goes out is a descriptor that can only be
 * read, and only to the session's own user or to root.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "proto/trace.h"

/* Each costs gdevd something whenever a session of the user begins or ends. */
#define TRACERS_A_USER 16

static bool wants_session(const struct client *client, const struct session *session)
{
	uid_t uid = client->connection->uid;

	return client->tracing && session->worker->trace_fd >= 0 &&
	       (uid == 0 || uid == session->uid) &&
	       (!client->trace || client->trace == session->trace);
}

static bool is_wanted(const struct session *session)
{
	const struct client *client;

	list_for_each (client, &session->daemon->clients, link)
		if (wants_session(client, session))
			return true;
	return false;
}

/* The segment is sealed, so that writing to it cannot fail for want of a place. */
static void switch_segment(const struct session *session, uint32_t enabled)
{
	if (pwrite(session->worker->trace_fd, &enabled, sizeof enabled,
		    offsetof(struct trace_segment, header.enabled)) < 0)
		complain("session %llu cannot be traced: %s", (unsigned long long)session->id,
			strerror(errno));
}

static void tell_reader(struct client *client, const struct session *session,
	enum control_type type, const int *fds, size_t fd_count)
{
	struct control_traced message = {
		.session = session->id,
		.pid = session->pid,
		.uid = session->uid,
	};

	_Static_assert(sizeof message.program == PROGRAM_NAME_MAX, "it fits");
	control_fill(&message, type, client->serial);
	strcpy(message.vgpu, session->vgpu->config->name);
	strcpy(message.program, session->program);
	strcpy(message.device, session->device->served->name);
	connection_send(client->connection, &message, fds, fd_count);
}

static void begin_reader(struct client *client, struct session *session)
{
	autoclose int fd = fd_lend(session->worker->trace_fd);

	if (fd < 0) {
		complain("session %llu cannot be traced: %s", (unsigned long long)session->id,
			strerror(-fd));
		return;
	}
	switch_segment(session, 1);
	tell_reader(client, session, CONTROL_TRACE_BEGIN, &fd, 1);
}

int trace_request(struct client *client, const struct control_trace *message)
{
	struct user *user = client->connection->user;
	struct session *session;
	int status = 0;

	if (message->reserved)
		return -EPROTO;
	if (client->tracing)
		status = -EALREADY;
	else if (user->tracers >= TRACERS_A_USER)
		status = -EUSERS;
	connection_answer(client->connection, CONTROL_TRACE_REPLY, message->header.serial, status);
	if (status)
		return 0;
	client->tracing = true;
	user->tracers++;
	client->trace = message->token;
	client->serial = message->header.serial;
	list_for_each (session, &client->daemon->sessions, link)
		if (session->worker->state == WORKER_SERVING && wants_session(client, session))
			begin_reader(client, session);
	return 0;
}

void trace_client_finish(struct client *client)
{
	struct session *session;

	if (!client->tracing)
		return;
	client->tracing = false;
	client->connection->user->tracers--;
	list_for_each (session, &client->daemon->sessions, link)
		if (session->worker->trace_fd >= 0 && !is_wanted(session))
			switch_segment(session, 0);
}

void trace_session_begin(struct session *session)
{
	struct worker *worker = session->worker;
	struct client *client;

	if (worker->restored && worker->trace_fd >= 0)
		switch_segment(session, 0); /* the gdevd before us may have left it on */
	list_for_each (client, &session->daemon->clients, link)
		if (wants_session(client, session))
			begin_reader(client, session);
}

void trace_session_finish(struct session *session)
{
	struct client *client;

	if (session->worker->state != WORKER_SERVING)
		return; /* nobody has heard of it */
	list_for_each (client, &session->daemon->clients, link)
		if (wants_session(client, session))
			tell_reader(client, session, CONTROL_TRACE_END, NULL, 0);
}

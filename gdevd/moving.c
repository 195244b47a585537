/* SPDX-License-Identifier: MIT
 *
 * Sessions go from a drained device to another one of its model (docs/memory.md, Moving to another device).
 *
 *   1. The session is suspended and gives its context back, as `gdev suspend` and memory/retire.c have it: now nothing
 *      of it is on the device.
 *   2. gdevd has it on the other device from here on (accounts, arbiters, turns, ledger), and tells its worker: MOVE.
 *   3. The worker says MOVED, and the session is resumed. Its context is made, on the other device, when its program
 *      does something.
 *
 * What keeps a context keeps the session. A session whose commands do not end in time goes on where it is. Where a session
 * goes: of a virtual GPU of any device to the part where there is room and least load; of gdevN to the gdevN of such a
 * device; of another virtual GPU to where that begins sessions while its device is drained (vgpu_where_begins()).
 *
 * If gdevd ends meanwhile, sessions of a gdevd that is gone are not suspended any more, and the ledger knows both
 * devices: the worker says by `moves` on which it is.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdev/error.h"
#include "gdevd/process.h"

#define LOOK_NS (20 * NS_PER_MS)
/* A session's program gets so long to end what was in the way. */
#define AGAIN_NS (200 * NS_PER_MS)
#define TRY_NS (10 * NS_PER_S)
#define ANSWER_NS (10 * NS_PER_S)
#define SHARES "it shares memory with other sessions"

/* ---- to which device ---- */

/* That they are of one backend follows from the name, which programs read. */
static bool is_of_model(const struct device *device, const struct device *other)
{
	static const enum device_property alike[] = {PROPERTY_MULTIPROCESSORS,
		PROPERTY_COMPUTE_MAJOR, PROPERTY_COMPUTE_MINOR, PROPERTY_COPY_ENGINES};

	if (!device->known || !other->known || strcmp(device->name, other->name) ||
		memory_total(&other->memory) < memory_total(&device->memory))
		return false;
	for (size_t i = 0; i < array_length(alike); i++)
		if (device->properties[alike[i]] != other->properties[alike[i]])
			return false;
	return true;
}

static bool takes_sessions_of(const struct device *device, const struct device *other)
{
	return device != other && !device->drained && !device_is_failing(device) &&
	       is_of_model(other, device);
}

static struct vgpu *default_of(const struct device *device)
{
	char name[CONTROL_NAME_MAX];

	snprintf(name, sizeof name, CONFIG_DEFAULT_VGPU, device_index(device));
	return vgpu_find_part(device->daemon, name, device->served->name);
}

static struct vgpu *part_on(const struct vgpu *vgpu, const struct device *device)
{
	return vgpu_is_default(vgpu)
		       ? default_of(device)
		       : vgpu_find_part(device->daemon, vgpu->config->name, device->served->name);
}

/* What a program was told that it has, it must have. */
static bool is_large_enough(const struct vgpu *part, const struct vgpu *vgpu)
{
	return part && memory_total(&part->memory) >= memory_total(&vgpu->memory);
}

/* For sessions of gdevN, and of a virtual GPU of any device. */
static struct vgpu *choose_part(const struct session *session)
{
	const struct vgpu *vgpu = session->vgpu;
	struct device *devices[CONFIG_DEVICES_MAX], *device;
	unsigned count = 0;

	list_for_each (device, &session->daemon->devices, link)
		if (takes_sessions_of(device, session->device) &&
			is_large_enough(part_on(vgpu, device), vgpu))
			devices[count++] = device;
	device = placing_choose(devices, count, vgpu_is_default(vgpu) ? NULL : vgpu->config,
		process_node(session->pid));
	return device ? part_on(vgpu, device) : NULL;
}

static struct vgpu *find_target(const struct session *session)
{
	struct vgpu *vgpu = session->vgpu, *begins;

	if (vgpu_is_default(vgpu) || config_vgpu_is_any(vgpu->config))
		return choose_part(session);
	begins = vgpu_where_begins(vgpu_find(session->daemon, vgpu->config->name));
	return takes_sessions_of(begins->device, session->device) && is_large_enough(begins, vgpu)
		       ? begins
		       : NULL;
}

struct device *moving_find_stand_in(const struct device *device)
{
	struct device *devices[CONFIG_DEVICES_MAX], *other;
	unsigned count = 0;

	list_for_each (other, &device->daemon->devices, link)
		if (takes_sessions_of(other, device))
			devices[count++] = other;
	return placing_choose(devices, count, NULL, device->node);
}

/* ---- a session ---- */

static void go_on(struct session *session)
{
	if (!session->move.suspended)
		residency_resume(session);
}

/* The session stays on the device on which it is now; `why`, if it was to go to another. */
static void end_move(struct session *session, const char *why)
{
	session->move.state = MOVE_NONE;
	session->move.from = NULL;
	snprintf(session->move.why, sizeof session->move.why, "%s", why);
	go_on(session);
}

/* Whether nothing of the session is on its device. As it is suspended, nothing will be. */
static bool has_left(const struct worker *worker)
{
	return worker->residency.suspended && !worker->residency.order &&
	       !worker->memory.used_bytes && list_empty(&worker->residency.link) &&
	       list_empty(&worker->lacking) && retire_is_retired(worker);
}

static void begin_move(struct session *session, uint64_t now_ns)
{
	session->move.state = MOVE_LEAVING;
	session->move.ordered = session->move.onward = false;
	session->move.suspended = session->worker->residency.suspended;
	session->move.again_ns = now_ns;
	session->move.until_ns = now_ns + TRY_NS;
	*session->move.why = '\0';
}

static void change_sides(struct session *session, struct vgpu *to)
{
	struct device *before = session->device;
	struct worker *worker = session->worker;

	session->vgpu->sessions--;
	grants_session_move(session, to);
	to->sessions++;
	if (session->client)
		session->client->vgpu = to;
	memory_reparent(&worker->memory, &to->memory);
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_reparent(&worker->swap[i], &to->swap[i]);
	worker_move(worker, to->device);
	workers_adjust(before);
	retire_look(to->device);
}

static void tell_worker(struct session *session, uint64_t now_ns)
{
	struct vgpu *from = session->vgpu, *to = find_target(session);
	struct control_move message = {.time_limit_ms = 0};
	int fd;

	if (shm_is_used_by(session)) {
		end_move(session, SHARES);
		return;
	}
	if (!to) {
		end_move(session, from->shm.count ? "its virtual GPU has shared segments"
						  : "no device of its model has room for it");
		return;
	}
	change_sides(session, to);
	session->move.state = MOVE_TOLD;
	session->move.from = from;
	session->move.count++;
	session->move.until_ns = now_ns + ANSWER_NS;
	session_write_down(session);
	fd = session->turns ? to->device->turning.fd : -1;
	session->turns = fd >= 0;
	strcpy(message.device, to->device->served->backend);
	strcpy(message.vgpu, to->config->name);
	message.memory_limit_bytes = memory_total(&to->memory);
	message.time_limit_ms = (uint32_t)to->config->time_limit_ms;
	control_fill(&message, CONTROL_MOVE, 1);
	connection_send(session->worker->connection, &message, &fd, fd >= 0);
}

int moving_answered(struct session *session, const struct control_header *header)
{
	struct vgpu *from = session->move.from;
	int status = min_of(header->status, 0);
	char why[80] = "";

	if (session->move.state != MOVE_TOLD)
		return -EPROTO;
	/* What it took meanwhile is the other device's. */
	if (status && (!has_left(session->worker) || shm_is_used_by(session)))
		return -EPROTO;
	session->move.state = MOVE_NONE;
	if (status && !from) {
		session_end(session, "virtual GPU was deleted");
		return 0;
	}
	if (status) {
		change_sides(session, from);
		session->move.count--;
		session->turns = false;
		snprintf(why, sizeof why, "the other device refuses it: %s", gdev_strerror(status));
	} else {
		log_info("session %llu is on %s", (unsigned long long)session->id,
			session->device->served->name);
	}
	end_move(session, why);
	session_write_down(session);
	if (session->move.onward && !status)
		begin_move(session, clock_now_ns());
	return 0;
}

/* The session's context has not been given back. If something keeps it, that will go on; if the session was just busy, it is
 * tried again. */
static void look_again(struct session *session, uint64_t now_ns)
{
	const char *keeper = retire_keeper(session->worker);

	session->move.ordered = false;
	session->move.again_ns = now_ns + AGAIN_NS;
	if (keeper)
		end_move(session, keeper);
	else
		go_on(session);
}

static void order_to_leave(struct session *session, uint64_t now_ns)
{
	int status = residency_leave(session);

	if (status == -ENOMEM)
		end_move(session, "host swap has no room for its memory");
	else if (status)
		session->move.again_ns = now_ns + AGAIN_NS;
	else
		session->move.ordered = true;
}

static void look_at_session(struct session *session, uint64_t now_ns)
{
	struct session_move *move = &session->move;
	struct worker *worker = session->worker;

	if (move->state == MOVE_TOLD) {
		if (now_ns >= move->until_ns)
			worker_kill(worker, "it was to go to another device, and does not answer");
		return;
	}
	if (worker->state == WORKER_ATTACHING) /* it has its time when it has begun */
		move->until_ns = now_ns + TRY_NS;
	else if (!session->device->drained)
		end_move(session, "its device takes sessions again");
	else if (has_left(worker))
		tell_worker(session, now_ns);
	else if (!list_empty(&session->shm_attachments))
		end_move(session, SHARES);
	else if (now_ns >= move->until_ns)
		end_move(session, "its commands do not end");
	else if (worker->residency.order)
		return;
	else if (move->ordered)
		look_again(session, now_ns);
	else if (now_ns >= move->again_ns)
		order_to_leave(session, now_ns);
}

/* ---- an administrator, meanwhile ---- */

int moving_suspend(struct session *session)
{
	struct session_move *move = &session->move;
	int status;

	if (move->state != MOVE_NONE && move->suspended)
		return -EALREADY;
	status = residency_suspend(session);
	if (move->state == MOVE_NONE || (status && status != -EALREADY))
		return status;
	move->suspended = true;
	return 0;
}

int moving_resume(struct session *session)
{
	struct session_move *move = &session->move;

	if (move->state == MOVE_NONE)
		return residency_resume(session);
	if (!move->suspended)
		return -EALREADY;
	move->suspended = false;
	return 0;
}

/* ---- all ---- */

static void on_deadline(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, moving);
	struct session *session, *after;
	bool any = false;

	list_for_each_safe (session, after, &daemon->sessions, link) {
		if (session->move.state == MOVE_NONE || !session->worker->connection)
			continue; /* that one is about to end */
		any = true;
		look_at_session(session, now_ns);
	}
	if (any)
		deadline_set(&daemon->deadlines, deadline, now_ns + LOOK_NS);
}

void moving_init(struct daemon *daemon)
{
	deadline_init(&daemon->moving, on_deadline);
}

void moving_begin(struct device *device)
{
	uint64_t now_ns = clock_now_ns();
	struct session *session;

	list_for_each (session, &device->daemon->sessions, link) {
		if (session->device != device)
			continue;
		session->move.onward = session->move.state == MOVE_TOLD;
		if (session->move.state == MOVE_NONE)
			begin_move(session, now_ns);
	}
	deadline_set(&device->daemon->deadlines, &device->daemon->moving, now_ns);
}

void moving_forget(const struct vgpu *vgpu)
{
	struct session *session;

	list_for_each (session, &vgpu->daemon->sessions, link)
		if (session->move.from == vgpu)
			session->move.from = NULL;
}

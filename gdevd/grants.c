/* SPDX-License-Identifier: MIT
 *
 * Between the arbiters (sched/) and the workers: reads the clock, turns messages into events of the
 * arbiter and its actions into messages and words of the worker page.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* Long enough to be worth a hand-over, which costs a GPU about 0.14 ms, and the software GPU a message. */
#define QUANTUM_HARDWARE_NS (5 * NS_PER_MS)
#define QUANTUM_SOFTWARE_NS (2 * NS_PER_MS)
/* What a handover costs the device: the messages, and on hardware the change of context. */
#define SWITCH_HARDWARE_NS (170 * NS_PER_US)
#define SWITCH_SOFTWARE_NS (30 * NS_PER_US)

#define SHARE_WHOLE_PCT 100 /* of every virtual GPU: equal parts */

/* An entity is entities[resource] of its session, and a sched is sched[resource] of its device. */
static struct session *session_of(struct sched_entity *entity, unsigned resource)
{
	return container_of(entity - resource, struct session, entities[0]);
}

static void send_grant(struct session *session, unsigned resource, enum control_type type,
	enum worker_revoke word, uint64_t quantum_ns)
{
	struct worker *worker = session->worker;
	struct control_grant message = {.resource = resource, .quantum_ns = quantum_ns};

	control_fill(&message, type, 0);
	/* Before the message: whoever receives it sees the word. */
	__atomic_store_n(&worker->page->revoke[resource], (uint32_t)word, __ATOMIC_RELEASE);
	if (worker->connection)
		connection_send(worker->connection, &message, NULL, 0);
}

static void on_grant(struct sched *sched, struct sched_entity *entity)
{
	unsigned resource = sched->index;

	send_grant(session_of(entity, resource), resource, CONTROL_GRANT, REVOKE_NONE,
		sched->groups.quantum_ns);
}

static void on_revoke(struct sched *sched, struct sched_entity *entity, enum worker_revoke how)
{
	unsigned resource = sched->index;

	send_grant(session_of(entity, resource), resource, CONTROL_REVOKE, how, 0);
}

static const struct sched_ops ops = {.grant = on_grant, .revoke = on_revoke};

/* Sets the one deadline to the soonest of the arbiters'. */
static void rearm(struct daemon *daemon)
{
	uint64_t soonest = UINT64_MAX;

	for (unsigned i = 0; i < RESOURCES; i++)
		soonest = min_of(soonest, sched_next_ns(&daemon->device.sched[i]));
	deadline_set(&daemon->deadlines, &daemon->grants, soonest);
}

static void on_deadline(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, grants);

	for (unsigned i = 0; i < RESOURCES; i++)
		sched_tick(&daemon->device.sched[i], now_ns);
	rearm(daemon);
}

int grants_init(struct daemon *daemon)
{
	const struct sched_policy *policy = sched_policy_find(daemon->config.policy);
	uint64_t quantum_ns = daemon->config.quantum_ns;
	bool hardware = !strncmp(daemon->config.device, "cuda", 4);

	if (!policy)
		return -ENOENT;
	if (!quantum_ns)
		quantum_ns = hardware ? QUANTUM_HARDWARE_NS : QUANTUM_SOFTWARE_NS;
	for (unsigned i = 0; i < RESOURCES; i++) {
		sched_init(&daemon->device.sched[i], policy, &ops, quantum_ns,
			hardware ? SWITCH_HARDWARE_NS : SWITCH_SOFTWARE_NS);
		daemon->device.sched[i].index = i;
	}
	deadline_init(&daemon->grants, on_deadline);
	return 0;
}

void grants_vgpu_init(struct vgpu *vgpu)
{
	struct sched *sched = vgpu->daemon->device.sched;
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < RESOURCES; i++)
		sched_group_add(&sched[i], &vgpu->groups[i], sched[i].groups.policy,
			SHARE_WHOLE_PCT, 0, false, now);
}

void grants_session_init(struct session *session)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_entity_add(&session->vgpu->groups[i], &session->entities[i]);
}

void grants_session_finish(struct session *session)
{
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < RESOURCES; i++)
		sched_entity_remove(&session->entities[i], now);
	rearm(session->daemon);
}

int grants_acquire(struct session *session, const struct control_grant *message)
{
	int nice = max_of(-20, min_of(19, message->nice));

	if (message->resource >= RESOURCES)
		return -EINVAL;
	sched_acquire(&session->entities[message->resource], nice, clock_now_ns());
	rearm(session->daemon);
	return 0;
}

int grants_release(struct session *session, const struct control_grant *message)
{
	if (message->resource >= RESOURCES)
		return -EINVAL;
	sched_release(&session->entities[message->resource], message->used_ns, message->wants,
		clock_now_ns());
	rearm(session->daemon);
	return 0;
}

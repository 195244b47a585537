/* SPDX-License-Identifier: MIT
 *
 * Between the arbiters (sched/) and the workers: reads the clock, turns messages into events of the
 * arbiter and its actions into messages and words of the worker page, and counts what is used (usage.h).
 *
 * Each resource has an arbiter, sched[resource] (Gdev's MRQ); or the first arbitrates all of them together
 * (SDQ), and then a session has the device as long as it holds any resource of it.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/cleanup.h"

/* How long nobody sleeps after a holder was told to leave that cannot hand over by itself, where there are processors
 * enough for that and a device that would stand still: waking two processes takes up to 100 us. */
#define EAGER_NS (3 * NS_PER_MS)
/* … nor while a session that outranks the holder may come back, for which that one's worker looks as long. */
#define EXPECT_NS (50 * NS_PER_MS)
#define QUANTUM_UNKNOWN_NS (2 * NS_PER_MS) /* as long as nobody has said what the device is */
#define MAY_COME_NS NS_PER_S    /* a session that has been away for longer is not reckoned with */
#define LOOK_NS (2 * NS_PER_MS) /* how often a holder that waits for memory is looked at */
/* A turn lasts so many times what preparing it takes (docs/memory.md, rule 8). */
#define LOAD_WORTH 10

/* ---- what is used ---- */

static uint64_t page_used_ns(const struct session *session, unsigned resource)
{
	const struct worker_page *page = session->worker->page;
	const uint64_t *word = resource == RESOURCE_COMPUTE          ? &page->compute_ns
			       : resource == RESOURCE_COPY_TO_DEVICE ? &page->to_device_ns
								     : &page->from_device_ns;

	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

uint64_t grants_running_ns(const struct session *session, unsigned resource, uint64_t now_ns)
{
	const struct session_grant *grant = &session->grants[resource];
	uint64_t page_ns;

	if (!grant->held)
		return 0;
	page_ns = page_used_ns(session, resource);
	/* The page is the worker's: it may say what it likes, but not have used more than there was. */
	if (page_ns < grant->page_ns)
		return 0;
	return min_of(page_ns - grant->page_ns, now_ns - grant->granted_ns);
}

#define COUNTED 3

/* Whose figures have what a session does: its own, its virtual GPU's, the device's. */
static void usages_of(struct session *session, unsigned resource, struct usage *usages[COUNTED])
{
	usages[0] = &session->usage[resource];
	usages[1] = &session->vgpu->usage[resource];
	usages[2] = &session->device->usage[resource];
}

static void count_waiting(struct session *session, unsigned resource, bool waits, uint64_t now_ns)
{
	struct session_grant *grant = &session->grants[resource];
	struct usage *usages[COUNTED];

	if (grant->asked == waits)
		return;
	grant->asked = waits;
	usages_of(session, resource, usages);
	for (size_t i = 0; i < COUNTED; i++)
		usage_waits(usages[i], waits ? 1 : -1, now_ns);
}

static void count_grant(struct session *session, unsigned resource, uint64_t now_ns)
{
	struct session_grant *grant = &session->grants[resource];
	struct device *device = session->device;
	struct usage *usages[COUNTED];

	count_waiting(session, resource, false, now_ns);
	grant->held = true;
	grant->granted_ns = now_ns;
	grant->told_ns = 0;
	grant->page_ns = page_used_ns(session, resource);
	usages_of(session, resource, usages);
	for (size_t i = 0; i < COUNTED; i++) {
		usage_holds(usages[i], 1, now_ns);
		usages[i]->grants++;
	}
	if (device->last_holder[resource] != session->id)
		device->usage[resource].handovers++;
	device->last_holder[resource] = session->id;
}

unsigned grants_queue(const struct daemon *daemon, unsigned resource)
{
	return daemon->config.one_queue ? 0 : resource;
}

/* Whether it holds a resource of the queue, or waits for one. */
static bool has_any(const struct session *session, unsigned queue, bool held)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		if (grants_queue(session->daemon, i) == queue &&
			(held ? session->grants[i].held : session->grants[i].asked))
			return true;
	return false;
}

/* The session leaves the resource, or is gone. It used what it says, but no more than it had, and no less than it
 * pays for whatever it says (sched_least_ns()). */
static void count_release(
	struct session *session, unsigned resource, uint64_t used_ns, bool overdue, uint64_t now_ns)
{
	struct session_grant *grant = &session->grants[resource];
	unsigned queue = grants_queue(session->daemon, resource);
	struct session_grant *first = &session->grants[queue];
	uint64_t least_ns = sched_least_ns(&session->entities[queue], now_ns);
	uint64_t over_ns = grant->told_ns ? now_ns - grant->told_ns : 0;
	struct usage *usages[COUNTED];

	if (!grant->held)
		return;
	used_ns = min_of(used_ns, now_ns - grant->granted_ns);
	grant->held = false;
	usage_count_lost(&session->device->usage[resource], used_ns, now_ns);
	if (!has_any(session, queue, true))
		used_ns = max_of(used_ns, least_ns - min_of(least_ns, first->used_ns));
	first->used_ns += used_ns;
	usages_of(session, resource, usages);
	for (size_t i = 0; i < COUNTED; i++) {
		usage_holds(usages[i], -1, now_ns);
		usages[i]->charged.used_ns += used_ns;
		usages[i]->longest_over_ns = max_of(usages[i]->longest_over_ns, over_ns);
		usages[i]->overdue += overdue;
	}
}

/* ---- the arbiters' actions ---- */

/* An entity is entities[queue] of its session, and a sched is sched[queue] of its device. */
static struct session *session_of(struct sched_entity *entity, unsigned queue)
{
	return container_of(entity - queue, struct session, entities[0]);
}

static void send_grant(struct session *session, unsigned resource, enum control_type type,
	enum worker_revoke word, uint64_t quantum_ns)
{
	struct worker *worker = session->worker;
	struct control_grant message = {.resource = resource, .quantum_ns = quantum_ns};

	control_fill(&message, type, 0);
	/* Before the message: the worker sees the word when it receives the message. */
	__atomic_store_n(&worker->page->revoke[resource], (uint32_t)word, __ATOMIC_RELEASE);
	connection_send(worker->connection, &message, NULL, 0);
}

/* ---- a session that ranks above the holder, and may come back ---- */

/* The session that ranks highest of those that rank above `session` and left the device not long ago; NULL: there is none.
 * Beside such a session, one long kernel on the device is enough. */
static const struct session *may_come(const struct session *session)
{
	uint64_t now_ns = clock_now_ns();
	const struct session *other, *best = session;

	if (now_ns >= session->device->gone.at_ns)
		return NULL;
	list_for_each (other, &session->daemon->sessions, link)
		if (other->device == session->device && now_ns < other->left_ns + MAY_COME_NS &&
			sched_outranks(&other->entities[RESOURCE_COMPUTE],
				&best->entities[RESOURCE_COMPUTE]))
			best = other;
	return best == session ? NULL : best;
}

enum worker_revoke grants_unwaited_word(const struct session *session, unsigned resource)
{
	return resource == RESOURCE_COMPUTE && may_come(session) ? REVOKE_MAY_COME : REVOKE_NONE;
}

static void on_gone(struct deadline *deadline, uint64_t now_ns)
{
	struct device *device = container_of(deadline, struct device, gone);
	const struct sched *sched = &device->sched[RESOURCE_COMPUTE];

	turns_prefer(device, NULL);
	/* The holder looks at the word when it begins something: it need not wake up. */
	if (sched->holder && sched->revoked == REVOKE_NONE && !device->daemon->config.one_queue)
		__atomic_store_n(&session_of(sched->holder, RESOURCE_COMPUTE)
					  ->worker->page->revoke[RESOURCE_COMPUTE],
			(uint32_t)REVOKE_NONE, __ATOMIC_RELEASE);
}

/* The session has nothing more for the device. If it comes back, a device that can pause (the software GPU) is there
 * for it at once. */
static void note_leaving(struct session *session, uint64_t now_ns)
{
	struct device *device = session->device;

	if (device->traits & DEVICE_PAUSES)
		return;
	session->left_ns = now_ns;
	deadline_set(&device->daemon->deadlines, &device->gone, now_ns + MAY_COME_NS);
}

static void give_resource(struct session *session, unsigned resource, uint64_t now_ns)
{
	const struct sched *sched =
		&session->device->sched[grants_queue(session->daemon, resource)];
	enum worker_revoke word = sched_is_contended(sched)
					  ? REVOKE_WHEN_IDLE
					  : grants_unwaited_word(session, resource);

	count_grant(session, resource, now_ns);
	/* If others wait, the session knows it from its first command on: it would fill its window before REVOKE
	 * came. */
	send_grant(session, resource, CONTROL_GRANT, word, sched->groups.quantum_ns);
}

/* As long as this is called, the loop does not wait. */
static void on_eager(uv_idle_t *idle)
{
	struct daemon *daemon = container_of(idle, struct daemon, eager);

	if (clock_now_ns() >= daemon->eager_until_ns)
		uv_idle_stop(idle);
}

static void stay_awake(struct daemon *daemon, uint64_t until_ns)
{
	daemon->eager_until_ns = until_ns;
	uv_idle_start(&daemon->eager, on_eager);
}

static void on_grant(struct sched *sched, struct sched_entity *entity)
{
	struct session *session = session_of(entity, sched->index);
	uint64_t now_ns = clock_now_ns();

	residency_refreshed(session->worker);
	session->daemon->eager_until_ns = 0;
	for (unsigned i = 0; i < RESOURCES; i++)
		if (grants_queue(session->daemon, i) == sched->index && session->grants[i].asked)
			give_resource(session, i, now_ns);
	session->grants[RESOURCE_COMPUTE].loading_ns =
		__atomic_load_n(&session->worker->page->loading_ns, __ATOMIC_RELAXED);
	session->device->turn_begins = true;
	if (sched->index != RESOURCE_COMPUTE || session->daemon->config.one_queue)
		return;
	turns_prefer(session->device, may_come(session));
	if (session->device->turning.preferred)
		stay_awake(session->daemon, now_ns + EXPECT_NS);
}

static void on_revoke(struct sched *sched, struct sched_entity *entity, enum worker_revoke how)
{
	struct session *session = session_of(entity, sched->index);

	for (unsigned i = 0; i < RESOURCES; i++) {
		if (grants_queue(session->daemon, i) != sched->index || !session->grants[i].held)
			continue;
		if (how == REVOKE_NOW)
			session->grants[i].told_ns = clock_now_ns();
		send_grant(session, i, CONTROL_REVOKE, how, 0);
	}
}

/* For a moment neither gdevd nor the next session sleeps: the device would stand still while they wake up. */
static void on_prepare(struct sched *sched, struct sched_entity *entity)
{
	struct session *session = session_of(entity, sched->index);
	struct control_grant message = {.resource = sched->index, .quantum_ns = EAGER_NS};

	control_fill(&message, CONTROL_PREPARE, 0);
	connection_send(session->worker->connection, &message, NULL, 0);
	stay_awake(session->daemon, clock_now_ns() + EAGER_NS);
}

static bool on_name(struct sched *sched, struct sched_entity *entity)
{
	const struct session *holder = session_of(sched->holder, sched->index);

	return turns_name(holder->device, sched->index, holder,
		entity ? session_of(entity, sched->index) : NULL);
}

/* The page does not have yet what is on the device, a window or two commands, nor what a client copies itself. */
static uint64_t on_used(struct sched *sched, struct sched_entity *entity, uint64_t now_ns)
{
	const struct session *session = session_of(entity, sched->index);
	const struct worker_page *page = session->worker->page;
	const struct device *device = session->device;
	uint64_t used_ns = 0, longest_ns;

	for (unsigned i = 0; i < RESOURCES; i++) {
		if (grants_queue(session->daemon, i) != sched->index || !session->grants[i].held)
			continue;
		if (i != RESOURCE_COMPUTE && (device->traits & DEVICE_CLIENTS_COPY))
			return UINT64_MAX;
		longest_ns = __atomic_load_n(&page->longest_ns[i], __ATOMIC_RELAXED);
		used_ns += grants_running_ns(session, i, now_ns) +
			   max_of(device->timing.window_ns, 2 * min_of(longest_ns, NS_PER_S));
	}
	return used_ns;
}

/* Where nobody looks without sleeping, messages do. */
static const struct sched_ops ops = {.grant = on_grant, .revoke = on_revoke, .used_ns = on_used};
static const struct sched_ops turns_ops = {
	.grant = on_grant,
	.revoke = on_revoke,
	.prepare = on_prepare,
	.name = on_name,
	.used_ns = on_used,
};

/* A turn for which memory is being brought in is not over before that has been worth while (docs/memory.md,
 * rule 8): it lasts so many times what the holder has waited for memory in it. */
static void keep_loading(struct device *device, uint64_t now_ns)
{
	struct sched *sched = &device->sched[grants_queue(device->daemon, RESOURCE_COMPUTE)];
	struct session *session = sched->holder ? session_of(sched->holder, sched->index) : NULL;
	uint64_t since_ns, waited_ns;

	if (!session)
		return;
	since_ns = __atomic_load_n(&session->worker->page->loading_since_ns, __ATOMIC_RELAXED);
	waited_ns = __atomic_load_n(&session->worker->page->loading_ns, __ATOMIC_RELAXED) -
		    session->grants[RESOURCE_COMPUTE].loading_ns;
	if (since_ns && since_ns < now_ns)
		waited_ns += now_ns - max_of(since_ns, sched->granted_ns);
	/* The page is the worker's: it may say what it likes, but not have waited longer than it held. */
	waited_ns = min_of(waited_ns, now_ns - sched->granted_ns);
	if (since_ns)
		sched_keep(sched->holder, now_ns + LOOK_NS);
	if (waited_ns)
		sched_keep(sched->holder, sched->granted_ns + (1 + LOAD_WORTH) * waited_ns);
}

/* Sets the device's one deadline to the soonest of the arbiters'. */
static void rearm_deadline(struct device *device)
{
	uint64_t soonest = UINT64_MAX;

	if (device->turn_begins) { /* perhaps the turn of a session that waits for memory */
		device->turn_begins = false;
		residency_balance(device);
	}

	for (unsigned i = 0; i < RESOURCES; i++)
		soonest = min_of(soonest, sched_next_ns(&device->sched[i]));
	deadline_set(&device->daemon->deadlines, &device->grants, soonest);
}

static void on_deadline(struct deadline *deadline, uint64_t now_ns)
{
	struct device *device = container_of(deadline, struct device, grants);

	keep_loading(device, now_ns);
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_tick(&device->sched[i], now_ns);
	rearm_deadline(device);
}

/* ---- settings ---- */

static uint64_t quantum_of(const struct device *device)
{
	if (device->daemon->config.quantum_ns)
		return device->daemon->config.quantum_ns;
	return device->timing.quantum_ns;
}

/* What [policy NAME] says about the policy of this queue. */
static void apply_settings(const struct daemon *daemon, struct sched_queue *queue)
{
	const struct config_setting *setting;

	list_for_each (setting, &daemon->config.settings, link)
		if (!strcmp(setting->policy, queue->policy->name))
			sched_queue_set(queue, setting->name, setting->value);
}

int grants_init(struct device *device)
{
	const struct daemon *daemon = device->daemon;
	const struct sched_policy *policy = sched_policy_find(daemon->config.policy);

	if (!policy)
		return -ENOENT;
	device->timing.quantum_ns = QUANTUM_UNKNOWN_NS;
	for (unsigned i = 0; i < RESOURCES; i++) {
		sched_init(&device->sched[i], policy, &ops, quantum_of(device), 0);
		device->sched[i].index = i;
		device->usage[i].device = true;
		apply_settings(daemon, &device->sched[i].groups);
	}
	deadline_init(&device->grants, on_deadline);
	deadline_init(&device->gone, on_gone);
	return 0;
}

/* What decides among the contexts of a virtual GPU. */
static const struct sched_policy *members_policy(const struct vgpu *vgpu)
{
	const struct daemon *daemon = vgpu->daemon;

	if (*vgpu->config->policy)
		return sched_policy_find(vgpu->config->policy);
	return sched_policy_members(sched_policy_find(daemon->config.policy));
}

static uint64_t configured_pct(const struct config_vgpu *config, unsigned resource)
{
	return resource == RESOURCE_COMPUTE ? config->compute_pct : config->copy_pct;
}

/* A virtual GPU without a share has, with all others like it, equal parts of what those with one leave,
 * and 1 % at least. */
static unsigned share_of(const struct vgpu *vgpu, unsigned resource)
{
	uint64_t own = configured_pct(vgpu->config, resource), sum = 0, without = 0;
	const struct vgpu *other;

	if (own)
		return (unsigned)own;
	list_for_each (other, &vgpu->device->vgpus, by_device) {
		sum += configured_pct(other->config, resource);
		without += !configured_pct(other->config, resource);
	}
	return sum >= 100
		       ? 1
		       : (unsigned)max_of((100 - sum) / max_of(without, (uint64_t)1), (uint64_t)1);
}

void grants_vgpu_init(struct vgpu *vgpu)
{
	struct sched *sched = vgpu->device->sched;
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < RESOURCES; i++)
		sched_group_add(&sched[i], &vgpu->groups[i], members_policy(vgpu),
			share_of(vgpu, i), (int)vgpu->config->priority, vgpu->config->strict, now);
}

void grants_vgpu_finish(struct vgpu *vgpu)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_group_remove(&vgpu->groups[i]);
}

void grants_configure(struct device *device)
{
	const struct daemon *daemon = device->daemon;
	uint64_t now = clock_now_ns();
	struct vgpu *vgpu;

	for (unsigned i = 0; i < RESOURCES; i++) {
		struct sched *sched = &device->sched[i];

		sched_set_times(sched, quantum_of(device),
			device->timing.switch_ns[i != RESOURCE_COMPUTE], now);
		sched_set_policy(sched, sched_policy_find(daemon->config.policy), now);
		apply_settings(daemon, &sched->groups);
		list_for_each (vgpu, &device->vgpus, by_device) {
			struct sched_group *group = &vgpu->groups[i];

			sched_group_set_policy(group, members_policy(vgpu), now);
			apply_settings(daemon, &group->members);
			sched_group_change(group, share_of(vgpu, i), (int)vgpu->config->priority,
				vgpu->config->strict, now);
		}
	}
	rearm_deadline(device);
}

/* Where nobody may look without sleeping, or there is no memory for a page of turns, handovers take messages. */
static bool can_hand_over(struct device *device)
{
	return device->timing.look_ns && get_nprocs() >= MANY_PROCESSORS &&
	       (device->turning.page || !turns_init(device));
}

void grants_know_device(struct device *device)
{
	if (can_hand_over(device))
		for (unsigned i = 0; i < RESOURCES; i++)
			device->sched[i].ops = &turns_ops;
	grants_configure(device);
}

/* ---- sessions ---- */

void grants_charge(struct session *session, unsigned resource, uint64_t used_ns)
{
	struct daemon *daemon = session->daemon;
	struct usage *usages[COUNTED];
	uint64_t now_ns = clock_now_ns();

	usages_of(session, resource, usages);
	for (size_t i = 0; i < COUNTED; i++)
		usages[i]->charged.used_ns += used_ns;
	sched_charge(&session->entities[grants_queue(daemon, resource)], used_ns, now_ns);
	rearm_deadline(session->device);
	measure_wake(daemon);
}

/* Kernels of a process may wait for each other, whichever of its sessions on the device they are of. */
void grants_session_join(struct session *session)
{
	struct session *other;

	list_for_each (other, &session->daemon->sessions, link) {
		if (other == session || other->device != session->device ||
			!session_is_of_process_of(session, other))
			continue;
		sched_entity_join(
			&session->entities[RESOURCE_COMPUTE], &other->entities[RESOURCE_COMPUTE]);
		return;
	}
}

void grants_session_init(struct session *session)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_entity_add(&session->vgpu->groups[i], &session->entities[i]);
}

void grants_session_move(struct session *session, struct vgpu *vgpu)
{
	grants_session_finish(session);
	memset(session->grants, 0, sizeof session->grants);
	session->left_ns = 0; /* it has never been on the new one */
	session->vgpu = vgpu;
	session->device = vgpu->device;
	grants_session_init(session);
	grants_session_join(session);
	grants_renice(session, session->rank.nice);
}

void grants_session_finish(struct session *session)
{
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < RESOURCES; i++) {
		count_waiting(session, i, false, now);
		count_release(session, i, grants_running_ns(session, i, now), false, now);
		session->vgpu->usage[i].longest_ns = max_of(session->vgpu->usage[i].longest_ns,
			__atomic_load_n(&session->worker->page->longest_ns[i], __ATOMIC_RELAXED));
	}
	for (unsigned i = 0; i < RESOURCES; i++) {
		struct sched_entity *entity = &session->entities[i];

		/* The session's virtual GPU pays for what it used. */
		entity->again = false;
		if (entity->state == ENTITY_HOLDING || entity->state == ENTITY_OVERDUE)
			sched_release(entity, session->grants[i].used_ns, false, now);
		sched_entity_remove(entity, now);
	}
	rearm_deadline(session->device);
}

void grants_part(struct device *device)
{
	sched_part(&device->sched[RESOURCE_COMPUTE]);
}

void grants_renice(struct session *session, int nice)
{
	uint64_t now = clock_now_ns();

	session->rank.nice = nice;
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_renice(&session->entities[i], nice, now);
	rearm_deadline(session->device);
}

/* The session wants a resource, and holds another one of the same queue (SDQ): it may have this one as well, unless it has
 * been told to leave. Returns whether it has it now. */
static bool shares_hold(struct session *session, unsigned resource, uint64_t now_ns)
{
	unsigned queue = grants_queue(session->daemon, resource);
	bool holds = session->entities[queue].state == ENTITY_HOLDING;
	enum worker_revoke told = sched_told(&session->entities[queue]);

	if (!holds || session->grants[resource].held || told == REVOKE_NOW)
		return false;
	give_resource(session, resource, now_ns);
	if (told != REVOKE_NONE)
		send_grant(session, resource, CONTROL_REVOKE, told, 0);
	return true;
}

/* If compute's holder began nothing more because this session came, it goes on now, unless it has been told to leave. */
static void let_holder_go_on(struct session *session)
{
	const struct sched *sched = &session->device->sched[RESOURCE_COMPUTE];
	struct session *holder;

	if (!turns_was_preferred(session) || !sched->holder || sched->revoked == REVOKE_NOW)
		return;
	holder = session_of(sched->holder, RESOURCE_COMPUTE);
	send_grant(holder, RESOURCE_COMPUTE, CONTROL_REVOKE,
		sched->revoked == REVOKE_NONE ? grants_unwaited_word(holder, RESOURCE_COMPUTE)
					      : sched->revoked,
		0);
}

int grants_acquire(struct session *session, const struct control_header *header)
{
	const struct control_grant *message = (const struct control_grant *)header;
	unsigned resource = message->resource;
	uint64_t now = clock_now_ns();

	if (resource >= RESOURCES)
		return -EINVAL;
	if (session->move.state == MOVE_TOLD) /* of the device before */
		return 0;
	keep_loading(session->device, now);
	nice_refresh(session);
	if (!shares_hold(session, resource, now)) {
		if (session->grants[resource].held) /* overdue, or it says so twice */
			session->grants[resource].again = true;
		else
			count_waiting(session, resource, true, now);
		sched_acquire(&session->entities[grants_queue(session->daemon, resource)],
			session->rank.nice, now);
	}
	if (resource == RESOURCE_COMPUTE)
		let_holder_go_on(session);
	rearm_deadline(session->device);
	measure_wake(session->daemon);
	return 0;
}

int grants_release(struct session *session, const struct control_header *header)
{
	const struct control_grant *message = (const struct control_grant *)header;
	unsigned resource = message->resource, queue;
	uint64_t now = clock_now_ns(), used_ns;
	struct session_grant *first;
	struct sched_entity *entity;
	bool wants;

	if (resource >= RESOURCES)
		return -EINVAL;
	if (session->move.state == MOVE_TOLD) /* of the device before */
		return 0;
	keep_loading(session->device, now);
	session->worker->residency.used_ns = now;
	queue = grants_queue(session->daemon, resource);
	first = &session->grants[queue];
	entity = &session->entities[queue];
	/* A session that was never given the resource has not used it, whatever it says: others of its virtual GPU
	 * would pay. */
	count_release(session, resource, message->used_ns, entity->state == ENTITY_OVERDUE, now);
	if (message->wants || (entity->again && session->grants[resource].again))
		count_waiting(session, resource, true, now);
	session->grants[resource].again = false;
	if (!has_any(session, queue, true)) {
		used_ns = first->used_ns;
		first->used_ns = 0;
		wants = has_any(session, queue, false);
		if (!wants) /* before the next one is told what it may do */
			note_leaving(session, now);
		sched_release(entity, used_ns, wants, now);
	} else if (message->wants) {
		shares_hold(session, resource, now);
	}
	rearm_deadline(session->device);
	measure_wake(session->daemon);
	return 0;
}

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
#include "base/log.h"

/* Long enough to be worth a hand-over, which costs a GPU about 0.14 ms, and the software GPU a message. */
#define QUANTUM_HARDWARE_NS (5 * NS_PER_MS)
#define QUANTUM_SOFTWARE_NS (2 * NS_PER_MS)
/* How long nobody sleeps after a holder was told to leave, where there are processors enough for that and
 * a device that would stand still: waking two processes takes up to 100 us. */
#define EAGER_NS (3 * NS_PER_MS)
#define EAGER_PROCESSORS 8
/* What a handover costs the device: on hardware the change of context (docs/results/sharing.md), else messages; and
 * who comes back to the software GPU's copy engines finds its memory in no cache any more. */
#define SWITCH_HARDWARE_NS (150 * NS_PER_US)
#define SWITCH_SOFTWARE_NS (30 * NS_PER_US)
#define SWITCH_CACHES_NS (250 * NS_PER_US)

#define LOOK_NS (2 * NS_PER_MS) /* how often a holder that waits for memory is looked at */
#define WINDOW_NS NS_PER_MS     /* what a worker has on the device (worker/core.h) */
#define LOAD_WORTH                                                                                 \
	10 /* a turn lasts so many times what preparing it takes (docs/memory.md, rule 8) */

static bool is_hardware(const struct daemon *daemon)
{
	return !strncmp(daemon->config.device, "cuda", 4);
}

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
	usages[2] = &session->daemon->device.usage[resource];
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
	struct device *device = &session->daemon->device;
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

/* It leaves the resource, or is gone: what it used is what it says, but no more than it had. */
static void count_release(
	struct session *session, unsigned resource, uint64_t used_ns, bool overdue, uint64_t now_ns)
{
	struct session_grant *grant = &session->grants[resource];
	struct usage *usages[COUNTED];
	uint64_t over_ns = grant->told_ns ? now_ns - grant->told_ns : 0;

	if (!grant->held)
		return;
	used_ns = min_of(used_ns, now_ns - grant->granted_ns);
	grant->held = false;
	usages_of(session, resource, usages);
	for (size_t i = 0; i < COUNTED; i++) {
		usage_holds(usages[i], -1, now_ns);
		usages[i]->charged.used_ns += used_ns;
		usages[i]->longest_over_ns = max_of(usages[i]->longest_over_ns, over_ns);
		usages[i]->overdue += overdue;
	}
	usage_count_lost(&session->daemon->device.usage[resource], used_ns, now_ns);
}

/* ---- the arbiters' actions ---- */

unsigned grants_queue(const struct daemon *daemon, unsigned resource)
{
	return daemon->config.one_queue ? 0 : resource;
}

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
	/* Before the message: whoever receives it sees the word. */
	__atomic_store_n(&worker->page->revoke[resource], (uint32_t)word, __ATOMIC_RELEASE);
	if (worker->connection)
		connection_send(worker->connection, &message, NULL, 0);
}

enum worker_revoke grants_word(
	const struct session *session, unsigned resource, enum worker_revoke word)
{
	const struct early *early = &session->daemon->early;
	bool held_back =
		resource == RESOURCE_COMPUTE && early->coming && early->coming != session->id;

	if (held_back && word != REVOKE_NOW)
		return REVOKE_SOON;
	if (word == REVOKE_NONE && resource == RESOURCE_COMPUTE && early_may_come(session))
		return REVOKE_MAY_COME;
	return word;
}

/* It looks at the word when it begins something: for this it need not wake up. */
void grants_tell_again(struct daemon *daemon)
{
	const struct sched *sched = &daemon->device.sched[RESOURCE_COMPUTE];
	struct session *holder = sched->holder ? session_of(sched->holder, RESOURCE_COMPUTE) : NULL;

	if (!holder || sched->revoked != REVOKE_NONE || daemon->config.one_queue)
		return;
	__atomic_store_n(&holder->worker->page->revoke[RESOURCE_COMPUTE],
		(uint32_t)grants_word(holder, RESOURCE_COMPUTE, REVOKE_NONE), __ATOMIC_RELEASE);
}

static void give(struct session *session, unsigned resource, uint64_t now_ns)
{
	struct daemon *daemon = session->daemon;
	const struct sched *sched = &daemon->device.sched[grants_queue(daemon, resource)];
	enum worker_revoke word = sched_is_contended(sched) ? REVOKE_WHEN_IDLE : REVOKE_NONE;

	count_grant(session, resource, now_ns);
	/* It knows from the first command on that others wait: until REVOKE it would fill its window. */
	send_grant(session, resource, CONTROL_GRANT, grants_word(session, resource, word),
		sched->groups.quantum_ns);
}

/* The holder, if somebody else of these has compute and is to leave for this session as soon as that asks. */
static struct session *in_the_way_of(struct session *session)
{
	const struct sched *sched = &session->daemon->device.sched[RESOURCE_COMPUTE];
	struct sched_entity *holder = sched->holder;

	return holder && holder != &session->entities[RESOURCE_COMPUTE] &&
			       sched->revoked != REVOKE_NOW && !session->daemon->config.one_queue
		       ? session_of(holder, RESOURCE_COMPUTE)
		       : NULL;
}

/* Who would begin something on the device before this one has asked: the holder, or to whom that one hands over. */
static struct session *goes_before(struct session *session)
{
	const struct sched *sched = &session->daemon->device.sched[RESOURCE_COMPUTE];

	if (!sched->holder || sched->revoked != REVOKE_NOW)
		return in_the_way_of(session);
	return sched->named && sched->named != &session->entities[RESOURCE_COMPUTE]
		       ? session_of(sched->named, RESOURCE_COMPUTE)
		       : NULL;
}

/* No message: between commands they look themselves. */
void grants_hold_back(struct session *session, uint64_t until_ns)
{
	struct session *before = goes_before(session);

	if (!before)
		return;
	session->daemon->early.coming = session->id;
	session->daemon->early.until_ns = until_ns;
	__atomic_store_n(&before->worker->page->revoke[RESOURCE_COMPUTE], (uint32_t)REVOKE_SOON,
		__ATOMIC_RELEASE);
}

/* Nobody is held back any more: who has compute goes on, unless it has been told to leave. One that was named and has not
 * been given it yet goes on with its GRANT. */
static void go_on(struct daemon *daemon)
{
	const struct sched *sched = &daemon->device.sched[RESOURCE_COMPUTE];
	struct session *holder;

	if (!daemon->early.coming)
		return;
	daemon->early.coming = 0;
	if (!sched->holder || sched->revoked == REVOKE_NOW)
		return;
	holder = session_of(sched->holder, RESOURCE_COMPUTE);
	send_grant(holder, RESOURCE_COMPUTE, CONTROL_REVOKE,
		grants_word(holder, RESOURCE_COMPUTE, sched->revoked), 0);
}

/* As long as this is called, the loop does not wait. */
static void on_eager(uv_idle_t *idle)
{
	struct daemon *daemon = container_of(idle, struct daemon, eager);
	uint64_t now_ns = clock_now_ns();

	if (now_ns >= daemon->early.until_ns)
		go_on(daemon);
	if (now_ns >= daemon->eager_until_ns && now_ns >= daemon->early.expect_until_ns &&
		!daemon->early.coming)
		uv_idle_stop(idle);
}

static void on_grant(struct sched *sched, struct sched_entity *entity)
{
	struct session *session = session_of(entity, sched->index);
	uint64_t now_ns = clock_now_ns();

	residency_refreshed(session->worker);
	session->daemon->eager_until_ns = 0;
	for (unsigned i = 0; i < RESOURCES; i++)
		if (grants_queue(session->daemon, i) == sched->index && session->grants[i].asked)
			give(session, i, now_ns);
	session->grants[RESOURCE_COMPUTE].loading_ns =
		__atomic_load_n(&session->worker->page->loading_ns, __ATOMIC_RELAXED);
	session->daemon->turn_begins = true;
}

static void on_revoke(struct sched *sched, struct sched_entity *entity, enum worker_revoke how)
{
	struct session *session = session_of(entity, sched->index);

	for (unsigned i = 0; i < RESOURCES; i++) {
		if (grants_queue(session->daemon, i) != sched->index || !session->grants[i].held)
			continue;
		if (how == REVOKE_NOW)
			session->grants[i].told_ns = clock_now_ns();
		send_grant(session, i, CONTROL_REVOKE, grants_word(session, i, how), 0);
	}
}

void grants_be_eager(struct daemon *daemon, uint64_t ns)
{
	daemon->eager_until_ns = max_of(daemon->eager_until_ns, clock_now_ns() + ns);
	uv_idle_start(&daemon->eager, on_eager);
}

/* For a moment neither gdevd nor who is next sleeps: the device stands still while they wake up. */
static void on_prepare(struct sched *sched, struct sched_entity *entity)
{
	struct session *session = session_of(entity, sched->index);
	struct control_grant message = {.resource = sched->index, .quantum_ns = EAGER_NS};

	control_fill(&message, CONTROL_PREPARE, 0);
	if (session->worker->connection)
		connection_send(session->worker->connection, &message, NULL, 0);
	grants_be_eager(session->daemon, EAGER_NS);
}

static bool on_name(struct sched *sched, struct sched_entity *entity)
{
	const struct session *holder = session_of(sched->holder, sched->index);

	grants_be_eager(holder->daemon, EAGER_NS);
	return turns_name(holder->daemon, sched->index, holder,
		entity ? session_of(entity, sched->index) : NULL);
}

/* What is on the device is not on the page yet: a window, or two commands; nor is what a client copies itself. */
static uint64_t on_used(struct sched *sched, struct sched_entity *entity, uint64_t now_ns)
{
	const struct session *session = session_of(entity, sched->index);
	const struct worker_page *page = session->worker->page;
	uint64_t used_ns = 0, longest_ns;

	for (unsigned i = 0; i < RESOURCES; i++) {
		if (grants_queue(session->daemon, i) != sched->index || !session->grants[i].held)
			continue;
		if (i != RESOURCE_COMPUTE && !is_hardware(session->daemon))
			return UINT64_MAX;
		longest_ns = __atomic_load_n(&page->longest_ns[i], __ATOMIC_RELAXED);
		used_ns += grants_running_ns(session, i, now_ns) +
			   max_of(WINDOW_NS, 2 * min_of(longest_ns, NS_PER_S));
	}
	return used_ns;
}

/* Where nobody looks without sleeping, messages do. */
static const struct sched_ops ops = {.grant = on_grant, .revoke = on_revoke, .used_ns = on_used};
static const struct sched_ops eager_ops = {
	.grant = on_grant,
	.revoke = on_revoke,
	.prepare = on_prepare,
	.used_ns = on_used,
};
static const struct sched_ops turns_ops = {
	.grant = on_grant,
	.revoke = on_revoke,
	.prepare = on_prepare,
	.name = on_name,
	.used_ns = on_used,
};

/* Makes the page of turns where holders hand over themselves. */
static const struct sched_ops *begin_turns(struct daemon *daemon)
{
	if (!is_hardware(daemon) || get_nprocs() < EAGER_PROCESSORS)
		return &ops;
	if (turns_init(daemon)) {
		log_warning("there is no memory for a page of turns: each handover takes messages");
		return &eager_ops;
	}
	if (early_init(daemon))
		log_warning(
			"cannot watch when workers are woken: who is urgent comes a little later");
	return &turns_ops;
}

/* A turn for which memory is being brought in is not over before that has been worth while (docs/memory.md,
 * rule 8): it lasts so many times what the holder has waited for memory in it. */
static void keep_loading(struct daemon *daemon, uint64_t now_ns)
{
	struct sched *sched = &daemon->device.sched[grants_queue(daemon, RESOURCE_COMPUTE)];
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

/* Sets the one deadline to the soonest of the arbiters'. */
static void rearm(struct daemon *daemon)
{
	uint64_t soonest = UINT64_MAX;

	if (daemon->turn_begins) { /* of one that waits for memory, perhaps */
		daemon->turn_begins = false;
		residency_balance(daemon);
	}

	for (unsigned i = 0; i < RESOURCES; i++)
		soonest = min_of(soonest, sched_next_ns(&daemon->device.sched[i]));
	deadline_set(&daemon->deadlines, &daemon->grants, soonest);
}

static void on_deadline(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, grants);

	keep_loading(daemon, now_ns);
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_tick(&daemon->device.sched[i], now_ns);
	rearm(daemon);
}

/* ---- settings ---- */

static uint64_t quantum_of(const struct daemon *daemon)
{
	if (daemon->config.quantum_ns)
		return daemon->config.quantum_ns;
	return is_hardware(daemon) ? QUANTUM_HARDWARE_NS : QUANTUM_SOFTWARE_NS;
}

static uint64_t switch_of(const struct daemon *daemon, unsigned resource)
{
	if (is_hardware(daemon))
		return SWITCH_HARDWARE_NS;
	return resource == RESOURCE_COMPUTE ? SWITCH_SOFTWARE_NS : SWITCH_CACHES_NS;
}

/* What [policy NAME] says about the policy of this queue. */
static void apply_settings(const struct daemon *daemon, struct sched_queue *queue)
{
	const struct config_setting *setting;

	list_for_each (setting, &daemon->config.settings, link)
		if (!strcmp(setting->policy, queue->policy->name))
			sched_queue_set(queue, setting->name, setting->value);
}

int grants_init(struct daemon *daemon)
{
	const struct sched_policy *policy = sched_policy_find(daemon->config.policy);
	struct device *device = &daemon->device;
	const struct sched_ops *actions;

	if (!policy)
		return -ENOENT;
	actions = begin_turns(daemon);
	for (unsigned i = 0; i < RESOURCES; i++) {
		sched_init(&device->sched[i], policy, actions, quantum_of(daemon),
			switch_of(daemon, i));
		device->sched[i].index = i;
		device->usage[i].device = true;
		apply_settings(daemon, &device->sched[i].groups);
	}
	deadline_init(&daemon->grants, on_deadline);
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
	list_for_each (other, &vgpu->daemon->vgpus, link) {
		sum += configured_pct(other->config, resource);
		without += !configured_pct(other->config, resource);
	}
	return sum >= 100
		       ? 1
		       : (unsigned)max_of((100 - sum) / max_of(without, (uint64_t)1), (uint64_t)1);
}

void grants_vgpu_init(struct vgpu *vgpu)
{
	struct sched *sched = vgpu->daemon->device.sched;
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

void grants_configure(struct daemon *daemon)
{
	struct device *device = &daemon->device;
	uint64_t now = clock_now_ns();
	struct vgpu *vgpu;

	for (unsigned i = 0; i < RESOURCES; i++) {
		struct sched *sched = &device->sched[i];

		if (sched->groups.quantum_ns != quantum_of(daemon))
			sched_set_quantum(sched, quantum_of(daemon), now);
		sched_set_policy(sched, sched_policy_find(daemon->config.policy), now);
		apply_settings(daemon, &sched->groups);
		list_for_each (vgpu, &daemon->vgpus, link) {
			struct sched_group *group = &vgpu->groups[i];

			sched_group_set_policy(group, members_policy(vgpu), now);
			apply_settings(daemon, &group->members);
			sched_group_change(group, share_of(vgpu, i), (int)vgpu->config->priority,
				vgpu->config->strict, now);
		}
	}
	rearm(daemon);
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
	rearm(daemon);
	measure_wake(daemon);
}

void grants_session_init(struct session *session)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_entity_add(&session->vgpu->groups[i], &session->entities[i]);
}

void grants_session_finish(struct session *session)
{
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < RESOURCES; i++) {
		count_waiting(session, i, false, now);
		count_release(session, i, grants_running_ns(session, i, now), false, now);
		session->vgpu->usage[i].longest_ns = max_of(
			session->vgpu->usage[i].longest_ns, session->worker->page->longest_ns[i]);
	}
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_entity_remove(&session->entities[i], now);
	rearm(session->daemon);
}

void grants_renice(struct session *session, int nice)
{
	uint64_t now = clock_now_ns();

	session->nice = nice;
	for (unsigned i = 0; i < RESOURCES; i++)
		sched_renice(&session->entities[i], nice, now);
	rearm(session->daemon);
}

/* Wants a resource of a queue that it holds another of (SDQ): it may have that one as well, unless it is
 * to leave. */
static bool shares_hold(struct session *session, unsigned resource, uint64_t now_ns)
{
	unsigned queue = grants_queue(session->daemon, resource);
	const struct sched *sched = &session->daemon->device.sched[queue];
	bool holds = session->entities[queue].state == ENTITY_HOLDING;
	enum worker_revoke told =
		sched->holder == &session->entities[queue] ? sched->revoked : REVOKE_NONE;

	if (!holds || session->grants[resource].held || told == REVOKE_NOW)
		return false;
	give(session, resource, now_ns);
	if (told != REVOKE_NONE)
		send_grant(session, resource, CONTROL_REVOKE, told, 0);
	return true;
}

int grants_acquire(struct session *session, const struct control_grant *message)
{
	unsigned resource = message->resource;
	uint64_t now = clock_now_ns();

	if (resource >= RESOURCES)
		return -EINVAL;
	keep_loading(session->daemon, now);
	nice_refresh(session);
	early_asks(session, now);
	if (!shares_hold(session, resource, now)) {
		if (session->grants[resource].held) /* overdue, or it says so twice */
			session->grants[resource].again = true;
		else
			count_waiting(session, resource, true, now);
		sched_acquire(&session->entities[grants_queue(session->daemon, resource)],
			session->nice, now);
	}
	if (resource == RESOURCE_COMPUTE) {
		early_asked(session, !in_the_way_of(session), now);
		if (session->daemon->early.coming == session->id)
			go_on(session->daemon);
	}
	rearm(session->daemon);
	measure_wake(session->daemon);
	return 0;
}

/* Whether it still holds another resource of the queue, or waits for one. */
static bool any(const struct session *session, unsigned queue, bool held)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		if (grants_queue(session->daemon, i) == queue &&
			(held ? session->grants[i].held : session->grants[i].asked))
			return true;
	return false;
}

int grants_release(struct session *session, const struct control_grant *message)
{
	unsigned resource = message->resource, queue;
	uint64_t now = clock_now_ns(), used_ns;
	struct session_grant *first;
	struct sched_entity *entity;

	if (resource >= RESOURCES)
		return -EINVAL;
	/* What was never given was not used: its virtual GPU's others would pay for what one says. */
	used_ns =
		session->grants[resource].held ? min_of(message->used_ns, (uint64_t)INT64_MAX) : 0;
	keep_loading(session->daemon, now);
	session->worker->residency.used_ns = now;
	queue = grants_queue(session->daemon, resource);
	first = &session->grants[queue];
	entity = &session->entities[queue];
	count_release(session, resource, used_ns, entity->state == ENTITY_OVERDUE, now);
	if (message->wants || (entity->again && session->grants[resource].again))
		count_waiting(session, resource, true, now);
	session->grants[resource].again = false;
	first->used_ns = min_of(first->used_ns + used_ns, (uint64_t)INT64_MAX);
	if (!any(session, queue, true)) {
		used_ns = first->used_ns;
		first->used_ns = 0;
		sched_release(entity, used_ns, any(session, queue, false), now);
		if (entity->state == ENTITY_IDLE && sched_goes_first(entity))
			early_begin(session);
	} else if (message->wants) {
		shares_hold(session, resource, now);
	}
	rearm(session->daemon);
	measure_wake(session->daemon);
	return 0;
}

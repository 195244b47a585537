/* SPDX-License-Identifier: MIT
 *
 * See residency.h.
 */
#include "gdevd/memory/residency.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdevd/daemon.h"

#define EXCHANGE_BYTES (64ull << 20)

/* ---- init ---- */

void residency_init(struct device *device)
{
	list_init(&device->residency.waiting);
}

void residency_init_device(struct device *device)
{
	const struct config *config = &device->daemon->config;

	/* Without swap nobody can leave, and a reserve would be of no use. */
	if (config->host_swap || config->file_swap)
		device->residency.reserve_bytes =
			device->memory.limit_bytes / 100 * config->swap_reserve_pct &
			~(DEVICE_CHUNK_MIN - 1);
}

void residency_init_worker(struct worker *worker)
{
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_init(&worker->swap[i], NULL, UINT64_MAX);
	worker->swapping.fd = -1;
	list_init(&worker->residency.link);
	residency_init_orders(worker);
}

void residency_finish_worker(struct worker *worker)
{
	list_remove(&worker->residency.link);
	deadline_cancel(&worker->residency.overdue);
	freeing_charge(freeing_begin(worker->daemon, NULL, &worker->swapping.fd, 1),
		&worker->swap[SWAP_FILE]);
	memory_return(&worker->swap[SWAP_MEMORY], worker->swap[SWAP_MEMORY].used_bytes);
	worker->residency.order = 0;
}

void residency_begin_session(struct worker *worker)
{
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_init(&worker->swap[i], &worker->session->vgpu->swap[i], UINT64_MAX);
	worker->residency.used_ns = clock_now_ns();
}

/* ---- what there is ---- */

uint64_t residency_free(const struct vgpu *vgpu)
{
	uint64_t total = memory_total(&vgpu->memory);
	uint64_t used = vgpu->memory.used_bytes + swap_used_by(vgpu); /* with what is being freed */

	used -= freeing_coming(vgpu->daemon, &vgpu->memory);
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		used -= freeing_coming(vgpu->daemon, &vgpu->swap[i]);
	return total - min_of(total, used);
}

/* Room that is kept for the contexts of clients that wait for one. Otherwise a session that brings objects in would
 * take each piece of it as it comes. */
static uint64_t for_contexts(const struct device *device, const struct vgpu *vgpu)
{
	unsigned waiting = client_waiting_count(device, vgpu);

	if (!vgpu) /* warm workers have theirs */
		waiting -= min_of(waiting, device->workers.warm);
	return waiting * device->overhead_bytes;
}

/* Device memory that may be charged without anybody leaving: not the reserve. */
static bool has_room_beside_reserve(const struct worker *worker, uint64_t bytes)
{
	const struct device *device = worker->device;
	uint64_t reserve = device->residency.reserve_bytes;
	uint64_t room = memory_room(&device->memory);

	return bytes <= memory_free(&worker->memory) &&
	       bytes + reserve + for_contexts(device, NULL) <= room;
}

static uint64_t room_beside_contexts(const struct device *device, const struct vgpu *vgpu)
{
	uint64_t bytes = memory_room(vgpu ? &vgpu->memory : &device->memory);

	return bytes - min_of(bytes, for_contexts(device, vgpu));
}

/* How much of what the worker was ordered to give it has not given yet; all that it has, if it is going. */
static uint64_t coming_from(const struct worker *worker)
{
	const struct worker_residency *residency = &worker->residency;
	uint64_t given = 0;

	if (worker_is_going(worker))
		return worker->memory.used_bytes;
	if (!residency->order || residency->late)
		return 0;
	if (worker->memory.used_bytes < residency->ordered_from_bytes)
		given = residency->ordered_from_bytes - worker->memory.used_bytes;
	return residency->ordered_bytes - min_of(given, residency->ordered_bytes);
}

/* How much is certain to come: from all workers, or from those of one virtual GPU. */
static uint64_t coming_in(const struct device *device, const struct vgpu *vgpu)
{
	const struct worker *worker;
	uint64_t sum = 0;

	list_for_each (worker, &device->workers.all, by_device)
		if (!vgpu || worker->memory.parent == &vgpu->memory)
			sum += coming_from(worker);
	sum += freeing_coming(device->daemon, vgpu ? &vgpu->memory : &device->memory);
	return sum + shm_coming(device, vgpu);
}

/* ---- victims (rule 5) ---- */

/* The page is the worker's, which may write another word there at any time: what it said when we looked is kept. */
bool residency_is_protected(struct worker *worker)
{
	bool uses = residency_has_compute(worker) &&
		    __atomic_load_n(&worker->page->streams_busy, __ATOMIC_RELAXED);

	worker->residency.spared |= uses;
	return uses;
}

/* Whether ask_users() asks it. */
static bool is_to_be_asked(const struct worker *worker)
{
	return worker->state == WORKER_SERVING && worker->connection && !worker_is_going(worker) &&
	       !worker->residency.order && worker->residency.says == GIVES &&
	       list_empty(&worker->residency.link) && worker->residency.spared;
}

bool residency_uses_device(struct worker *worker)
{
	return residency_is_protected(worker) || is_to_be_asked(worker);
}

/* flags: EVICT_LIMIT, for which a session gives although it uses the device. */
static bool may_give(
	struct worker *worker, const struct worker *asks, const struct vgpu *vgpu, uint32_t flags)
{
	if (worker == asks || worker->state != WORKER_SERVING || !worker->session ||
		!worker->connection || worker_is_going(worker))
		return false;
	if ((vgpu && worker->session->vgpu != vgpu) || retire_is_retired(worker) ||
		worker->residency.suspended)
		return false;
	return !worker->residency.order && worker->residency.says == GIVES &&
	       worker->memory.used_bytes &&
	       (flags & EVICT_LIMIT || !residency_is_protected(worker));
}

void residency_refreshed(struct worker *worker)
{
	worker->residency.says = worker->swapping.says = GIVES;
}

void residency_eased(struct worker *worker)
{
	residency_refreshed(worker);
	residency_balance(worker->device);
}

/* Whether `a` gives before `b`: the lower priority first, then the nicer, then the one that has not used the device
 * for longer. */
bool residency_gives_before(const struct worker *a, const struct worker *b)
{
	const struct sched_group *x = &a->session->vgpu->groups[RESOURCE_COMPUTE];
	const struct sched_group *y = &b->session->vgpu->groups[RESOURCE_COMPUTE];
	const struct sched_node *m = &a->session->entities[RESOURCE_COMPUTE].node;
	const struct sched_node *n = &b->session->entities[RESOURCE_COMPUTE].node;

	if (x->node.priority != y->node.priority)
		return x->node.priority < y->node.priority;
	if (m->nice != n->nice)
		return m->nice > n->nice;
	return a->residency.used_ns < b->residency.used_ns;
}

static struct worker *find_victim(
	struct device *device, const struct worker *asks, const struct vgpu *vgpu, uint32_t flags)
{
	struct worker *worker, *victim = NULL;

	list_for_each (worker, &device->workers.all, by_device)
		if (may_give(worker, asks, vgpu, flags) &&
			(!victim || residency_gives_before(worker, victim)))
			victim = worker;
	return victim;
}

/* Charges swap space for what is to leave, of which `part` may be less then: pieces leave as a whole, and what is not
 * needed comes back. */
static int charge_leaving(
	struct worker *victim, uint64_t *part, uint64_t *promised, enum swap_pool *pool)
{
	uint64_t memory = memory_free(&victim->daemon->swap.pools[SWAP_MEMORY]);
	int status;

	*promised = min_of(align_up(*part, DEVICE_CHUNK_MAX), victim->memory.used_bytes);
	if (memory >= DEVICE_CHUNK_MAX) /* as long as there is some the file has to wait */
		*promised = min_of(*promised, memory & ~(DEVICE_CHUNK_MIN - 1));
	*part = min_of(*part, *promised);
	status = swap_charge(victim, *promised, pool);
	if (status != -ENOMEM)
		return status;
	*promised = min_of(*promised, swap_largest(victim->daemon) & ~(DEVICE_CHUNK_MIN - 1));
	*part = min_of(*part, *promised);
	return *part ? swap_charge(victim, *promised, pool) : -ENOMEM;
}

/* Sends for `bytes`: first what no living program has attached, and last what several have. False: somebody has it, but
 * host swap has no room for it. flags: of the orders. */
static bool send_for(struct device *device, const struct worker *asks, const struct vgpu *vgpu,
	uint64_t bytes, uint32_t flags)
{
	uint64_t cause = asks ? asks->session->id : vgpu ? 0 : device->residency.taker;
	struct worker *victim;

	bytes -= min_of(bytes, shm_send_for(device, asks, vgpu, cause, bytes, true));
	while (bytes && (victim = find_victim(device, asks, vgpu, flags))) {
		uint64_t part =
			min_of(align_up(bytes, DEVICE_CHUNK_MIN), victim->memory.used_bytes);
		uint64_t promised;
		enum swap_pool pool;
		int status = charge_leaving(victim, &part, &promised, &pool);
		if (status == -EAGAIN)
			return true; /* residency_balance() comes again */
		if (status) {
			complain("swap space is used up: nothing can leave the device");
			return false;
		}
		residency_order(victim, part, promised,
			flags | (pool == SWAP_FILE ? EVICT_FILE : 0), cause);
		bytes -= min_of(bytes, part);
	}
	if (bytes)
		bytes -= min_of(bytes, shm_send_for(device, asks, vgpu, cause, bytes, false));
	if (bytes)
		bytes -= min_of(bytes, retire_send_for(device, asks, vgpu, bytes));
	return true;
}

/* ---- those that want ---- */

/* `charged`: to the worker, of which nothing is said with an error. */
static void answer_request(
	struct worker *worker, uint32_t serial, int status, struct control_charged charged)
{
	struct control_charged message = status ? (struct control_charged){0} : charged;

	control_fill(&message, CONTROL_CHARGED, serial);
	message.header.status = status;
	message.limit_bytes = memory_total(&worker->memory);
	connection_send(worker->connection, &message, &worker->swapping.fd,
		message.swap_bytes[SWAP_FILE] != 0);
}

static void refuse_request(struct worker *worker, uint32_t serial, int status)
{
	answer_request(worker, serial, status, (struct control_charged){0});
}

static void answer_swap(
	struct worker *worker, uint32_t serial, int status, enum swap_pool pool, uint64_t bytes)
{
	struct control_charged charged = {0};

	charged.swap_bytes[pool] = bytes;
	answer_request(worker, serial, status, charged);
}

/* So much is always left, on the device or in swap, for two objects to change places by; with two pools in swap, so that
 * one of them has room for any slot (residency_promise_slot()). */
static int charge_promise(struct worker *worker, uint64_t bytes, enum swap_pool *pool)
{
	const struct device *device = worker->device;
	bool left = device->residency.reserve_bytes >= EXCHANGE_BYTES &&
		    !device->daemon->config.file_swap;

	if (!left && bytes + EXCHANGE_BYTES > swap_room(device->daemon))
		return -ENOMEM;
	return swap_charge(worker, bytes, pool);
}

/* Charges swap space for an object that has no place on the device. -ENOMEM: there would be no way left to
 * exchange what is in swap for what is on the device. Answers the worker, at once or when there is room. */
static void promise_swap(struct worker *worker, uint64_t bytes, uint32_t serial)
{
	enum swap_pool pool = SWAP_MEMORY;
	int status = charge_promise(worker, bytes, &pool);

	if (status == -ENOMEM && swap_comes(worker->daemon))
		status = -EAGAIN; /* and serve_promises() comes again */
	worker->swapping.promise_bytes = status == -EAGAIN ? bytes : 0;
	worker->swapping.promise_serial = serial;
	if (status != -EAGAIN)
		answer_swap(worker, serial, status, pool, bytes);
}

void residency_promise_slot(
	struct worker *worker, uint64_t bytes, enum slot_place place, uint32_t serial)
{
	enum swap_pool pool = SWAP_MEMORY;
	int status = -ENOMEM;

	if (bytes <= DEVICE_CHUNK_MAX)
		status = swap_charge_slot(worker, bytes, place, &pool);
	if (place == SLOT_IN_MEMORY) {
		worker->swapping.slot_bytes = status == -EAGAIN ? bytes : 0;
		worker->swapping.slot_serial = serial;
	}
	if (status != -EAGAIN)
		answer_swap(worker, serial, status, pool, bytes);
}

static void serve_promises(struct device *device)
{
	struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device) {
		const struct worker_swap *swap = &worker->swapping;
		if (worker->state != WORKER_SERVING)
			continue;
		if (swap->slot_bytes)
			residency_promise_slot(
				worker, swap->slot_bytes, SLOT_IN_MEMORY, swap->slot_serial);
		if (swap->promise_bytes)
			promise_swap(worker, swap->promise_bytes, swap->promise_serial);
	}
}

/* The worker was given memory for its turn. */
static void brings_in(struct worker *worker)
{
	struct device *device = worker->device;

	if (memory_room(&device->memory) < device->residency.reserve_bytes)
		device->residency.taker = worker->session->id;
	residency_refreshed(worker);
}

/* Gives what there is, of the reserve too (rule 6). */
static bool serve_wish(struct worker *worker)
{
	struct worker_residency *residency = &worker->residency;
	const struct vgpu *vgpu = worker->session->vgpu;
	uint64_t bytes = min_of(residency->wanted_bytes, memory_free(&worker->memory));

	bytes = min_of(bytes, room_beside_contexts(worker->device, vgpu));
	bytes = min_of(bytes, room_beside_contexts(worker->device, NULL));
	if (residency->wanted_for == ROOM_FOR_CONTEXT && bytes < residency->wanted_bytes)
		return false;
	if (bytes < residency->wanted_bytes)
		bytes &= ~(DEVICE_CHUNK_MIN - 1);
	if (!bytes || memory_charge(&worker->memory, bytes))
		return false;
	brings_in(worker);
	list_remove(&residency->link);
	answer_request(worker, residency->wanted_serial, 0,
		(struct control_charged){.device_bytes = bytes});
	return true;
}

/* Has others give what the worker lacks, within the virtual GPU that pays and on the device. */
static void send_for_missing(struct worker *worker, struct vgpu *vgpu, uint64_t wanted)
{
	struct device *device = worker->device;
	uint64_t have = room_beside_contexts(device, vgpu) + coming_in(device, vgpu);

	if (wanted > have)
		send_for(device, worker, vgpu, wanted - have, 0);
	/* Others leave the device for no more than that virtual GPU may have. */
	wanted = min_of(wanted, room_beside_contexts(device, vgpu) + coming_in(device, vgpu));
	have = room_beside_contexts(device, NULL) + coming_in(device, NULL);
	if (wanted > have)
		send_for(device, worker, NULL, wanted - have, 0);
}

/* Whether it gives when its commands do not use what it has, or may say so yet: it has not answered its order. */
static bool gives_later(struct worker *worker)
{
	const struct worker_residency *residency = &worker->residency;

	return residency->says == GIVES_LATER || (residency->order && !residency->late) ||
	       residency_uses_device(worker);
}

/* How much others than `asks` have, beside their contexts and what is coming, and give later. */
static uint64_t given_later(
	const struct device *device, const struct worker *asks, const struct vgpu *vgpu)
{
	uint64_t sum = shm_given_later(device, asks, vgpu);
	struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device) {
		uint64_t objects;
		if (worker == asks || !worker->session || worker_is_going(worker) ||
			(vgpu && worker->session->vgpu != vgpu) || !gives_later(worker))
			continue;
		objects = residency_objects(worker);
		sum += objects - min_of(objects, coming_from(worker));
	}
	return sum;
}

/* Asks the sessions that use the device to say when they do not: nothing of theirs leaves before. */
static void ask_users(struct device *device)
{
	struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device)
		if (is_to_be_asked(worker))
			residency_order(worker, 0, 0, 0, 0);
}

/* Whether somebody will give memory later, so that `asks` waits: a session that uses what it has, or a context that is
 * being made, for which free memory is kept. A session whose memory can be nowhere else also waits for contexts that are
 * to be made, and for idle ones: without the memory its program fails. */
static bool may_give_later(
	const struct device *device, const struct worker *asks, const struct vgpu *vgpu)
{
	bool stays = asks->residency.wanted_for != ROOM_FOR_TURN;

	return given_later(device, asks, vgpu) ||
	       ((stays || device->workers.starting) && client_waiting_count(device, vgpu)) ||
	       (stays && retire_may_come(device, vgpu));
}

/* Nobody is going to give it anything. */
static bool is_hopeless(const struct device *device, const struct worker *worker)
{
	const struct vgpu *vgpu = worker->session->vgpu;

	if (worker->residency.wanted_for == ROOM_FOR_CONTEXT)
		return false;
	if (swap_comes(device->daemon))
		return false;
	if (room_beside_contexts(device, vgpu) < DEVICE_CHUNK_MIN && !coming_in(device, vgpu))
		return !may_give_later(device, worker, vgpu);
	return room_beside_contexts(device, NULL) < DEVICE_CHUNK_MIN && !coming_in(device, NULL) &&
	       !may_give_later(device, worker, NULL);
}

static bool has_turn(const struct worker *worker)
{
	return worker->residency.wanted_for >= ROOM_TO_STAY || residency_has_compute(worker);
}

/* Whether so much cannot be had in a virtual GPU, or (NULL) on the device, whoever gives what it has. */
static bool is_too_much(const struct device *device, const struct worker *asks,
	const struct vgpu *vgpu, uint64_t bytes)
{
	uint64_t have = room_beside_contexts(device, vgpu) + coming_in(device, vgpu);

	return have + given_later(device, asks, vgpu) < bytes && !swap_comes(device->daemon) &&
	       !(device->workers.starting && client_waiting_count(device, vgpu));
}

int residency_charge_other(
	struct worker *worker, struct vgpu *vgpu, struct memory_account *account, uint64_t bytes)
{
	struct device *device = worker->device;

	if (worker->residency.suspended || !device->known)
		return -EAGAIN;
	if (bytes <= room_beside_contexts(device, vgpu) &&
		bytes <= room_beside_contexts(device, NULL) && !memory_charge(account, bytes)) {
		brings_in(worker);
		return 0;
	}
	if (!residency_has_compute(worker))
		return -EAGAIN;
	send_for_missing(worker, vgpu, bytes);
	if (is_too_much(device, worker, vgpu, bytes) || is_too_much(device, worker, NULL, bytes))
		return -ENOMEM;
	grants_part(device);
	ask_users(device);
	return -EAGAIN;
}

static void serve_waiting(struct device *device)
{
	struct worker_residency *residency, *after;

	list_for_each_safe (residency, after, &device->residency.waiting, link) {
		struct worker *worker = container_of(residency, struct worker, residency);
		if (residency->suspended)
			continue; /* until it is resumed */
		/* The turn for which it asked is over: it waits for its next turn, or takes what is free anyway. */
		if (!has_turn(worker) && !has_room_beside_reserve(worker, residency->wanted_bytes))
			continue;
		if (serve_wish(worker))
			continue;
		send_for_missing(worker, worker->session->vgpu, residency->wanted_bytes);
		if (!is_hopeless(device, worker)) {
			grants_part(device);
			ask_users(device);
			continue;
		}
		list_remove(&residency->link);
		refuse_request(worker, residency->wanted_serial, -ENOMEM);
	}
}

/* Refills the reserve from sessions that do not use the device: they write their pieces out while the session that
 * took from it works. A virtual GPU whose limit was lowered is brought below it by all of its sessions. A session that is
 * alone may use the device without a pause, so that its limit would never be reached if it gave only when it does not. */
static void restore_reserve(struct device *device)
{
	uint64_t reserve = device->residency.reserve_bytes;
	uint64_t have = memory_room(&device->memory) + coming_in(device, NULL);
	struct vgpu *vgpu;

	if (have < reserve)
		send_for(device, NULL, NULL, reserve - have, 0);
	list_for_each (vgpu, &device->vgpus, by_device) {
		uint64_t used = vgpu->memory.used_bytes;
		uint64_t leaving = coming_in(device, vgpu);
		if (used > leaving && used - leaving > vgpu->memory.limit_bytes)
			send_for(device, NULL, vgpu, used - leaving - vgpu->memory.limit_bytes,
				EVICT_LIMIT);
	}
}

void residency_balance(struct device *device)
{
	struct residency *residency = &device->residency;

	if (residency->balancing || !device->known)
		return;
	residency->balancing = true;
	clients_serve(device);
	serve_promises(device);
	shm_serve_waiting(device);
	serve_waiting(device);
	restore_reserve(device);
	residency->balancing = false;
}

void residency_balance_all(struct daemon *daemon)
{
	struct device *device;

	list_for_each (device, &daemon->devices, link)
		residency_balance(device);
}

void residency_want(
	struct worker *worker, uint64_t bytes, enum room_purpose purpose, uint32_t serial)
{
	struct worker_residency *residency = &worker->residency;

	if (!bytes || !list_empty(&residency->link)) {
		answer_request(worker, serial, bytes ? -EBUSY : 0, (struct control_charged){0});
		return;
	}
	if (purpose == ROOM_FOR_CONTEXT && bytes > memory_total(&worker->memory)) {
		refuse_request(worker, serial, -ENOMEM);
		return;
	}
	residency->wanted_bytes = bytes;
	residency->wanted_serial = serial;
	residency->wanted_for = purpose;
	if (purpose == ROOM_FOR_CONTEXT)
		retire_look(worker->device);
	residency->used_ns = clock_now_ns();
	list_append(&worker->device->residency.waiting, &residency->link);
	residency_balance(worker->device);
}

void residency_allocate(struct worker *worker, const struct control_allocate *message)
{
	uint64_t sizes[] = {message->device_bytes + message->slack_bytes, message->device_bytes};

	if (strangers_wait(worker, message, false))
		return;
	for (unsigned i = 0; i < array_length(sizes); i++) {
		if (!has_room_beside_reserve(worker, sizes[i]) ||
			memory_charge(&worker->memory, sizes[i]))
			continue;
		residency_refreshed(worker);
		answer_request(worker, message->header.serial, 0,
			(struct control_charged){.device_bytes = sizes[i]});
		return;
	}
	if (strangers_wait(worker, message, true) || relief_wait(worker, message))
		return;
	if (message->swap_bytes)
		promise_swap(worker, message->swap_bytes, message->header.serial);
	else if (message->device_bytes > memory_total(&worker->memory)) /* whoever leaves */
		refuse_request(worker, message->header.serial, -ENOMEM);
	else
		residency_want(worker, message->device_bytes, (enum room_purpose)message->purpose,
			message->header.serial);
}

int residency_make_room(struct device *device, struct vgpu *vgpu, uint64_t bytes)
{
	uint64_t have = memory_room(vgpu ? &vgpu->memory : &device->memory);
	uint64_t coming = coming_in(device, vgpu);
	bool sent = true;

	if (have >= bytes)
		return 0;
	if (have + coming < bytes)
		sent = send_for(device, NULL, vgpu, bytes - have - coming, 0);
	have += coming_in(device, vgpu);
	if (have >= bytes || swap_comes(device->daemon) || (sent && retire_may_come(device, vgpu)))
		return -EAGAIN;
	if (!sent || have + given_later(device, NULL, vgpu) < bytes)
		return -ENOMEM;
	ask_users(device);
	return -EAGAIN;
}

/* ---- administration ---- */

int residency_set_limit(struct vgpu *vgpu, uint64_t bytes)
{
	struct device *device = vgpu->device;
	uint64_t limit = bytes ? bytes : UINT64_MAX;
	uint64_t used = vgpu->memory.used_bytes;
	struct session *session;

	if (used > limit && used - limit > swap_room(device->daemon))
		return -ENOMEM;
	vgpu->memory.limit_bytes = limit;
	/* Before anybody is given more: the next gdevd believes a session what is written down. */
	list_for_each (session, &device->daemon->sessions, link)
		if (session->ledger_place && session->vgpu == vgpu)
			session_write_down(session);
	residency_balance(device);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * See residency.h.
 */
#include "gdevd/memory/residency.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdevd/daemon.h"
#include "proto/session.h"

#define EXCHANGE_BYTES (64ull << 20)
#define LOADED_NS NS_PER_S      /* so long does who brought something in keep it from the reserve */
#define GRANULE ARENA_ALIGN     /* no chunk is smaller */
#define CHUNK_MAX (32ull << 20) /* and none larger */
#define PAUSE_FIRST_NS (200 * NS_PER_MS)
#define PAUSE_MOST_NS (2 * NS_PER_S)
#define PAUSE_HOPED_NS (2 * PAUSE_FIRST_NS) /* as long as pauses are no longer, there is hope */
#define PAUSE_AWAITED_NS (500 * NS_PER_MS)  /* of others, by who could do without */
#define STAYS_AWAITED_NS (10 * NS_PER_S)    /* of those who gave nothing yet, by who could not */

/* ---- init ---- */

static uint64_t machine_half(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static void on_again(struct deadline *deadline, uint64_t now_ns)
{
	residency_balance(container_of(deadline, struct daemon, device.residency.again));
}

void residency_init(struct daemon *daemon)
{
	list_init(&daemon->device.residency.waiting);
	deadline_init(&daemon->device.residency.again, on_again);
	swap_init(daemon);
}

void residency_init_device(struct daemon *daemon)
{
	struct residency *residency = &daemon->device.residency;
	uint64_t swap = daemon->config.host_swap;
	uint64_t memory = daemon->device.memory.limit_bytes;

	residency->swap[SWAP_MEMORY].limit_bytes = swap == UINT64_MAX ? machine_half() : swap;
	residency->swap[SWAP_FILE].limit_bytes = daemon->config.file_swap;
	/* Without swap nobody can leave, and a reserve would be of no use. */
	if (swap || daemon->config.file_swap)
		residency->reserve_bytes =
			memory / 100 * daemon->config.swap_reserve_pct & ~(GRANULE - 1);
}

void residency_init_worker(struct worker *worker)
{
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_init(&worker->swap[i], NULL, UINT64_MAX);
	worker->swapping.fd = -1;
	list_init(&worker->residency.link);
}

void residency_finish_worker(struct worker *worker)
{
	list_remove(&worker->residency.link);
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_return(&worker->swap[i], worker->swap[i].used_bytes);
	if (worker->swapping.fd >= 0)
		close(worker->swapping.fd);
	worker->swapping.fd = -1;
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
	uint64_t used = vgpu->memory.used_bytes + swap_used_by(vgpu);

	return total - min_of(total, used);
}

/* Of what there is, contexts of clients that wait for one come first: who brings objects in would take each piece
 * as it comes. */
static uint64_t for_contexts(const struct daemon *daemon, const struct vgpu *vgpu)
{
	unsigned waiting = client_waiting_count(daemon, vgpu);

	if (!vgpu) /* warm workers have theirs */
		waiting -= min_of(waiting, daemon->workers.warm);
	return waiting * daemon->device.overhead_bytes;
}

bool residency_has_room(const struct worker *worker, uint64_t bytes)
{
	const struct daemon *daemon = worker->daemon;
	uint64_t reserve = daemon->device.residency.reserve_bytes;
	uint64_t device = memory_room(&daemon->device.memory);

	return bytes <= memory_free(&worker->memory) &&
	       bytes + reserve + for_contexts(daemon, NULL) <= device;
}

static uint64_t room_beside_contexts(const struct daemon *daemon, const struct vgpu *vgpu)
{
	uint64_t bytes = memory_room(vgpu ? &vgpu->memory : &daemon->device.memory);

	return bytes - min_of(bytes, for_contexts(daemon, vgpu));
}

/* What a worker's orders will bring yet; all that it has, if it is going. */
static uint64_t coming(const struct worker *worker)
{
	const struct worker_residency *residency = &worker->residency;
	uint64_t given = 0;

	if (worker_is_going(worker))
		return worker->memory.used_bytes;
	if (!residency->order)
		return 0;
	if (worker->memory.used_bytes < residency->ordered_from_bytes)
		given = residency->ordered_from_bytes - worker->memory.used_bytes;
	return residency->ordered_bytes - min_of(given, residency->ordered_bytes);
}

/* Of all workers, or of those of one virtual GPU: that is certain. */
static uint64_t coming_in(const struct daemon *daemon, const struct vgpu *vgpu)
{
	const struct worker *worker;
	uint64_t sum = 0;

	list_for_each (worker, &daemon->workers.all, link)
		if (!vgpu || worker->memory.parent == &vgpu->memory)
			sum += coming(worker);
	return sum + shm_coming(daemon, vgpu);
}

/* ---- victims (rule 5) ---- */

bool residency_is_protected(const struct worker *worker)
{
	const struct session *session = worker->session;

	return session->entities[RESOURCE_COMPUTE].state == ENTITY_HOLDING &&
	       __atomic_load_n(&worker->page->streams_busy, __ATOMIC_RELAXED);
}

/* It had to bring something in for the turn that it has: it would have to do so again for its next launch. */
static bool has_loaded(const struct worker *worker)
{
	const struct session *session = worker->session;

	return session->entities[RESOURCE_COMPUTE].state == ENTITY_HOLDING &&
	       session->grants[RESOURCE_COMPUTE].loading_ns !=
		       __atomic_load_n(&worker->page->loading_ns, __ATOMIC_RELAXED) &&
	       clock_now_ns() - worker->residency.used_ns < LOADED_NS;
}

static bool may_give(
	const struct worker *worker, const struct worker *asks, const struct vgpu *vgpu)
{
	if (worker == asks || worker->state != WORKER_SERVING || !worker->session ||
		!worker->connection || worker_is_going(worker))
		return false;
	if ((vgpu && worker->session->vgpu != vgpu) || retire_is_retired(worker) ||
		worker->residency.suspended)
		return false;
	if (!asks && !vgpu && has_loaded(worker)) /* for the reserve alone */
		return false;
	return !worker->residency.order && !residency_is_paused(&worker->residency.pause) &&
	       worker->memory.used_bytes && !residency_is_protected(worker);
}

void residency_pause_begin(struct residency_pause *pause)
{
	pause->length_ns =
		pause->length_ns ? min_of(2 * pause->length_ns, PAUSE_MOST_NS) : PAUSE_FIRST_NS;
	pause->until_ns = clock_now_ns() + pause->length_ns;
}

bool residency_is_paused(const struct residency_pause *pause)
{
	return pause->until_ns > clock_now_ns();
}

bool residency_is_hopeful(const struct residency_pause *pause, enum residency_patience patience)
{
	return residency_is_paused(pause) &&
	       (pause->length_ns <= PAUSE_HOPED_NS || patience == PATIENCE_MOST);
}

void residency_refreshed(struct worker *worker)
{
	worker->residency.dry = false;
	worker->residency.pause = (struct residency_pause){0};
}

void residency_ask_again(struct daemon *daemon)
{
	uint64_t at_ns = shm_asked_again_at(daemon, swap_asked_again_at(daemon));
	const struct worker *worker;

	list_for_each (worker, &daemon->workers.all, link)
		if (residency_is_paused(&worker->residency.pause))
			at_ns = min_of(at_ns, worker->residency.pause.until_ns);
	deadline_set(&daemon->deadlines, &daemon->device.residency.again, at_ns);
}

/* Whether `a` gives before `b`: the lower priority first, then who has not used the device for longer. */
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
	struct daemon *daemon, const struct worker *asks, const struct vgpu *vgpu)
{
	struct worker *worker, *victim = NULL;

	list_for_each (worker, &daemon->workers.all, link)
		if (may_give(worker, asks, vgpu) &&
			(!victim || residency_gives_before(worker, victim)))
			victim = worker;
	return victim;
}

/* `cause`: the session that needs the room, and pays for the copying; 0: the worker's own. */
static void send_order(
	struct worker *worker, uint64_t bytes, uint64_t promised, uint32_t flags, uint64_t cause)
{
	struct control_evict message = {.bytes = bytes, .swapped = promised, .flags = flags};
	struct worker_residency *residency = &worker->residency;
	static uint32_t serial;

	/* One queue for all: who waits for room may hold it, and would wait for ever. */
	if (worker->daemon->config.one_queue)
		message.flags |= EVICT_GRANTED;

	if (!++serial)
		serial = 1;
	control_fill(&message, CONTROL_EVICT, serial);
	if (!(flags & EVICT_RESUME)) {
		residency->order = serial;
		residency->ordered_bytes = flags & EVICT_SLOTS ? 0 : bytes;
		residency->ordered_flags = flags;
		residency->ordered_from_bytes = worker->memory.used_bytes;
		residency->returned_bytes = 0;
		residency->ordered_ns = clock_now_ns();
		residency->cause = cause;
	}
	connection_send(
		worker->connection, &message, &worker->swapping.fd, (flags & EVICT_FILE) != 0);
}

void residency_ask_slots(struct worker *worker, uint64_t bytes, uint32_t flags)
{
	send_order(worker, bytes, 0, EVICT_SLOTS | flags, 0);
}

/* Charges swap space for what is to leave, of which `part` may be less then: pieces leave as a whole, and what is not
 * needed comes back. */
static int charge_leaving(
	struct worker *victim, uint64_t *part, uint64_t *promised, enum swap_pool *pool)
{
	uint64_t memory = memory_free(&victim->daemon->device.residency.swap[SWAP_MEMORY]);
	int status;

	*promised = min_of(align_up(*part, CHUNK_MAX), victim->memory.used_bytes);
	if (memory >= CHUNK_MAX) /* as long as there is some the file has to wait */
		*promised = min_of(*promised, memory & ~(GRANULE - 1));
	*part = min_of(*part, *promised);
	status = swap_charge(victim, *promised, pool);
	if (status != -ENOMEM)
		return status;
	*promised = min_of(*promised, swap_largest(victim->daemon) & ~(GRANULE - 1));
	*part = min_of(*part, *promised);
	return *part ? swap_charge(victim, *promised, pool) : -ENOMEM;
}

/* Sends for `bytes`: first what no living program has attached, and last what several have. False: somebody has it, but
 * host swap has no room for it. */
static bool send_for(
	struct daemon *daemon, const struct worker *asks, const struct vgpu *vgpu, uint64_t bytes)
{
	uint64_t cause = asks ? asks->session->id : vgpu ? 0 : daemon->device.residency.taker;
	struct worker *victim;

	bytes -= min_of(bytes, shm_send_for(daemon, asks, vgpu, cause, bytes, true));
	while (bytes && (victim = find_victim(daemon, asks, vgpu))) {
		uint64_t part = min_of(align_up(bytes, GRANULE), victim->memory.used_bytes);
		uint64_t promised;
		enum swap_pool pool;
		int status = charge_leaving(victim, &part, &promised, &pool);
		if (status == -EAGAIN)
			return true; /* residency_balance() comes again */
		if (status) {
			complain("swap space is used up: nothing can leave the device");
			return false;
		}
		send_order(victim, part, promised, pool == SWAP_FILE ? EVICT_FILE : 0, cause);
		bytes -= min_of(bytes, part);
	}
	if (bytes)
		bytes -= min_of(bytes, shm_send_for(daemon, asks, vgpu, cause, bytes, false));
	if (bytes)
		bytes -= min_of(bytes, retire_send_for(daemon, asks, vgpu, bytes));
	if (bytes)
		residency_ask_again(daemon);
	return true;
}

/* ---- those that want ---- */

static void answer(struct worker *worker, uint32_t serial, int status, uint64_t bytes)
{
	struct control_memory message = {.bytes = (int64_t)bytes};

	control_fill(&message, CONTROL_MEMORY_REPLY, serial);
	message.header.status = status;
	message.total_bytes = memory_total(&worker->memory);
	if (worker->connection)
		connection_send(worker->connection, &message, NULL, 0);
}

/* So much is always left, on the device or in swap, for two objects to change places by; with two pools in swap, so that
 * one of them has room for any slot (residency_promise_slot()). */
static int promise(struct worker *worker, uint64_t bytes, enum swap_pool *pool)
{
	const struct daemon *daemon = worker->daemon;
	bool left = daemon->device.residency.reserve_bytes >= EXCHANGE_BYTES &&
		    !daemon->config.file_swap;

	if (!left && bytes + EXCHANGE_BYTES > swap_room(daemon))
		return -ENOMEM;
	return swap_charge(worker, bytes, pool);
}

static void answer_promise(
	struct worker *worker, uint32_t serial, int status, uint64_t bytes, enum swap_pool pool)
{
	struct control_memory message = {
		.bytes = (int64_t)bytes,
		.total_bytes = memory_total(&worker->memory),
		.free_bytes = pool,
	};

	control_fill(&message, CONTROL_MEMORY_REPLY, serial);
	message.header.status = status;
	if (worker->connection)
		connection_send(worker->connection, &message, &worker->swapping.fd,
			!status && pool == SWAP_FILE);
}

void residency_promise(struct worker *worker, uint64_t bytes, uint32_t serial)
{
	enum swap_pool pool = SWAP_MEMORY;
	int status = promise(worker, bytes, &pool);

	if (status == -ENOMEM && swap_comes(worker->daemon))
		status = -EAGAIN; /* and serve_promises() comes again */
	worker->swapping.promise_bytes = status == -EAGAIN ? bytes : 0;
	worker->swapping.promise_serial = serial;
	if (status != -EAGAIN)
		answer_promise(worker, serial, status, bytes, pool);
}

void residency_promise_slot(
	struct worker *worker, uint64_t bytes, enum swap_wish wish, uint32_t serial)
{
	enum swap_pool pool = SWAP_MEMORY;
	int status = -ENOMEM;

	if (bytes <= CHUNK_MAX)
		status = swap_charge_slot(worker, bytes, wish, &pool);
	if (wish == SWAP_WISH_MEMORY) {
		worker->swapping.slot_bytes = status == -EAGAIN ? bytes : 0;
		worker->swapping.slot_serial = serial;
	}
	if (status != -EAGAIN)
		answer_promise(worker, serial, status, bytes, pool);
}

static void serve_promises(struct daemon *daemon)
{
	struct worker *worker;

	list_for_each (worker, &daemon->workers.all, link) {
		const struct worker_swap *swap = &worker->swapping;
		if (worker->state != WORKER_SERVING)
			continue;
		if (swap->slot_bytes)
			residency_promise_slot(
				worker, swap->slot_bytes, SWAP_WISH_MEMORY, swap->slot_serial);
		if (swap->promise_bytes)
			residency_promise(worker, swap->promise_bytes, swap->promise_serial);
	}
}

/* Gives what there is, of the reserve too (rule 6). */
static bool serve(struct worker *worker)
{
	struct worker_residency *residency = &worker->residency;
	const struct vgpu *vgpu = worker->session->vgpu;
	uint64_t bytes = min_of(residency->wanted_bytes, memory_free(&worker->memory));

	bytes = min_of(bytes, room_beside_contexts(worker->daemon, vgpu));
	bytes = min_of(bytes, room_beside_contexts(worker->daemon, NULL));
	if (residency->wanted_whole && bytes < residency->wanted_bytes)
		return false;
	if (bytes < residency->wanted_bytes)
		bytes &= ~(GRANULE - 1);
	if (!bytes || memory_charge(&worker->memory, bytes))
		return false;
	if (memory_room(&worker->daemon->device.memory) <
		worker->daemon->device.residency.reserve_bytes)
		worker->daemon->device.residency.taker = worker->session->id;
	residency_refreshed(worker);
	list_remove(&residency->link);
	answer(worker, residency->wanted_serial, 0, bytes);
	return true;
}

/* What is missing for a worker, within its virtual GPU and on the device; sends for it. */
static void send_for_missing(struct daemon *daemon, struct worker *worker)
{
	struct vgpu *vgpu = worker->session->vgpu;
	uint64_t wanted = worker->residency.wanted_bytes;
	uint64_t have = room_beside_contexts(daemon, vgpu) + coming_in(daemon, vgpu);

	if (wanted > have)
		send_for(daemon, worker, vgpu, wanted - have);
	have = room_beside_contexts(daemon, NULL) + coming_in(daemon, NULL);
	if (wanted > have)
		send_for(daemon, worker, NULL, wanted - have);
}

/* At most so much is to go to host swap when everything leaves. */
static uint64_t objects_of(const struct worker *worker)
{
	uint64_t used = worker->memory.used_bytes;

	return used -
	       min_of(used, retire_is_retired(worker) ? 0 : worker->daemon->device.overhead_bytes);
}

/* What others than `asks` have beside their contexts, and give soon: they had nothing to give just now, as it was in
 * use perhaps, and are asked again, or they use the device with it now. */
static uint64_t given_later(const struct daemon *daemon, const struct worker *asks,
	const struct vgpu *vgpu, enum residency_patience patience)
{
	uint64_t sum = shm_given_later(daemon, asks, vgpu, patience);
	const struct worker *worker;

	list_for_each (worker, &daemon->workers.all, link) {
		if (worker == asks || !worker->session || worker_is_going(worker) ||
			(vgpu && worker->session->vgpu != vgpu))
			continue;
		if (residency_is_hopeful(&worker->residency.pause, patience) ||
			(patience >= PATIENCE_TURNS && residency_is_protected(worker)))
			sum += objects_of(worker);
	}
	return sum;
}

/* Who wants something for its turn of the device waits for who uses it only a little: without, it uses host memory,
 * for good. The same for what is free and is kept for a client's context, which will have been made. What cannot be
 * elsewhere waits as long as there is something to wait for, idle contexts too; and a while for those of whom nobody
 * knows whether they will ever give: without it the program fails. */
static bool may_give_later(
	const struct daemon *daemon, const struct worker *asks, const struct vgpu *vgpu)
{
	uint64_t waited_ns = clock_now_ns() - asks->residency.used_ns;
	bool stays = asks->residency.wanted_here;
	enum residency_patience patience = PATIENCE_LITTLE;

	if (stays && waited_ns <= STAYS_AWAITED_NS)
		patience = PATIENCE_MOST;
	else if (stays || waited_ns <= PAUSE_AWAITED_NS)
		patience = PATIENCE_TURNS;
	return given_later(daemon, asks, vgpu, patience) ||
	       (patience && client_waiting_count(daemon, vgpu)) ||
	       (stays && retire_may_come(daemon, vgpu));
}

/* Nobody is going to give it anything. */
static bool is_hopeless(const struct daemon *daemon, const struct worker *worker)
{
	const struct vgpu *vgpu = worker->session->vgpu;

	if (worker->residency.wanted_whole)
		return false;
	if (swap_comes(daemon))
		return false;
	if (room_beside_contexts(daemon, vgpu) < GRANULE && !coming_in(daemon, vgpu))
		return !may_give_later(daemon, worker, vgpu);
	return room_beside_contexts(daemon, NULL) < GRANULE && !coming_in(daemon, NULL) &&
	       !may_give_later(daemon, worker, NULL);
}

static bool has_turn(const struct worker *worker)
{
	return worker->residency.wanted_to_stay ||
	       worker->session->entities[RESOURCE_COMPUTE].state == ENTITY_HOLDING;
}

static void serve_waiting(struct daemon *daemon)
{
	struct worker_residency *residency, *after;

	list_for_each_safe (residency, after, &daemon->device.residency.waiting, link) {
		struct worker *worker = container_of(residency, struct worker, residency);
		if (residency->suspended)
			continue; /* until it is resumed */
		/* Its turn is over before it began: it waits for the next, or for what is free anyway. */
		if (!has_turn(worker) && !residency_has_room(worker, residency->wanted_bytes))
			continue;
		if (serve(worker))
			continue;
		send_for_missing(daemon, worker);
		if (!is_hopeless(daemon, worker)) {
			retire_wait(
				daemon); /* those that use the device say nothing when they pause */
			continue;
		}
		list_remove(&residency->link);
		answer(worker, residency->wanted_serial, -ENOMEM, 0);
	}
}

/* What was taken from the reserve comes back from those who do not use the device: the writing overlaps
 * with the work of who took it. A limit that was lowered is met likewise. */
static void restore_reserve(struct daemon *daemon)
{
	const struct memory_account *device = &daemon->device.memory;
	uint64_t reserve = daemon->device.residency.reserve_bytes;
	uint64_t have = memory_room(device) + coming_in(daemon, NULL);
	struct vgpu *vgpu;

	if (have < reserve)
		send_for(daemon, NULL, NULL, reserve - have);
	list_for_each (vgpu, &daemon->vgpus, link) {
		uint64_t used = vgpu->memory.used_bytes;
		uint64_t leaving = coming_in(daemon, vgpu);
		if (used > leaving && used - leaving > vgpu->memory.limit_bytes)
			send_for(daemon, NULL, vgpu, used - leaving - vgpu->memory.limit_bytes);
	}
}

void residency_balance(struct daemon *daemon)
{
	struct residency *residency = &daemon->device.residency;

	if (residency->balancing || !daemon->device.known)
		return;
	residency->balancing = true;
	clients_serve(daemon);
	serve_promises(daemon);
	shm_serve_moves(daemon);
	serve_waiting(daemon);
	restore_reserve(daemon);
	residency->balancing = false;
}

int residency_wanted(struct worker *worker, const struct control_memory *message)
{
	struct worker_residency *residency = &worker->residency;

	if (message->bytes <= 0 || !list_empty(&residency->link))
		return -EPROTO;
	residency->wanted_bytes = (uint64_t)message->bytes;
	residency->wanted_serial = message->header.serial;
	residency->wanted_here = message->free_bytes != 0;
	residency->wanted_to_stay = message->free_bytes == 1 || message->free_bytes == 2;
	residency->wanted_whole = message->free_bytes == 2;
	if (residency->wanted_whole)
		retire_look(worker->daemon);
	residency->used_ns = clock_now_ns();
	list_append(&worker->daemon->device.residency.waiting, &residency->link);
	residency_balance(worker->daemon);
	return 0;
}

static void resume(struct worker *worker)
{
	worker->residency.suspended = worker->residency.resumes = false;
	residency_refreshed(worker);
	send_order(worker, 0, 0, EVICT_RESUME, 0);
}

/* The copying was for somebody else's sake; of those that are gone nothing can be had. */
static void charge_cause(struct worker *worker, uint64_t copied_ns)
{
	const struct worker_residency *residency = &worker->residency;
	uint64_t passed_ns = clock_now_ns() - residency->ordered_ns;
	struct session *cause = worker->session;

	if (residency->cause)
		cause = session_find(worker->daemon, residency->cause);
	/* The worker may say what it likes, but not have worked for longer than it took. */
	if (cause && copied_ns)
		grants_charge(cause, RESOURCE_COPY_FROM_DEVICE, min_of(copied_ns, passed_ns));
}

int residency_evicted(struct worker *worker, const struct control_evict *message)
{
	struct worker_residency *residency = &worker->residency;

	if (!residency->order || message->header.serial != residency->order)
		return 0; /* of a gdevd before this one */
	residency->order = 0;
	if (residency->ordered_flags & EVICT_SLOTS) {
		swap_given(worker);
		residency_balance(worker->daemon);
		return 0;
	}
	/* Not what it says that it gave: it would be asked again at once, for ever. */
	if (residency->returned_bytes &&
		residency->returned_bytes >= min_of(GRANULE, residency->ordered_bytes)) {
		residency_refreshed(worker);
	} else if (!(residency->ordered_flags &
			   EVICT_RETIRE)) { /* that asks for more than there may be */
		residency->dry = true;
		residency_pause_begin(&residency->pause);
	}
	if (message->header.status)
		complain("worker %d cannot write to swap: %s", (int)worker->pid,
			strerror(-message->header.status));
	charge_cause(worker, message->copied_us * NS_PER_US);
	if (residency->ordered_flags & EVICT_RETIRE)
		retire_done(worker, message->flags & EVICT_RETIRE);
	if (residency->resumes)
		resume(worker);
	else if (residency->suspended)
		shm_session_suspended(worker->session);
	residency_balance(worker->daemon);
	return 0;
}

int residency_make_room(struct daemon *daemon, struct vgpu *vgpu, uint64_t bytes)
{
	uint64_t have = memory_room(vgpu ? &vgpu->memory : &daemon->device.memory);
	uint64_t coming = coming_in(daemon, vgpu);
	bool sent = true;

	if (have >= bytes)
		return 0;
	if (have + coming < bytes)
		sent = send_for(daemon, NULL, vgpu, bytes - have - coming);
	have += coming_in(daemon, vgpu);
	if (have >= bytes || swap_comes(daemon) || (sent && retire_may_come(daemon, vgpu)))
		return -EAGAIN;
	if (!sent || have + given_later(daemon, NULL, vgpu, PATIENCE_TURNS) < bytes)
		return -ENOMEM;
	retire_wait(daemon); /* nobody says when a turn is over */
	return -EAGAIN;
}

/* ---- administration ---- */

int residency_set_limit(struct vgpu *vgpu, uint64_t bytes)
{
	struct daemon *daemon = vgpu->daemon;
	uint64_t limit = bytes ? bytes : UINT64_MAX;
	uint64_t used = vgpu->memory.used_bytes;

	if (used > limit && used - limit > swap_room(daemon))
		return -ENOMEM;
	vgpu->memory.limit_bytes = limit;
	residency_balance(daemon);
	return 0;
}

int residency_suspend(struct session *session)
{
	struct worker *worker = session->worker;
	struct worker_residency *residency = &worker->residency;
	enum swap_pool pool;
	int status;

	if (residency->suspended)
		return -EALREADY;
	if (residency->order)
		return -EBUSY;
	status = swap_charge(worker, objects_of(worker), &pool);
	if (status)
		return status == -EAGAIN ? -EBUSY : status;
	residency->suspended = true;
	residency->suspended_ns = clock_now_ns();
	send_order(worker, worker->memory.used_bytes, objects_of(worker),
		EVICT_SUSPEND | (pool == SWAP_FILE ? EVICT_FILE : 0), 0);
	retire_look(worker->daemon);
	return 0;
}

int residency_retire(struct worker *worker)
{
	enum swap_pool pool;
	int status = swap_charge(worker, objects_of(worker), &pool);

	if (status)
		return status;
	send_order(worker, worker->memory.used_bytes, objects_of(worker),
		EVICT_RETIRE | (pool == SWAP_FILE ? EVICT_FILE : 0), 0);
	return 0;
}

int residency_resume(struct session *session)
{
	struct worker_residency *residency = &session->worker->residency;

	if (!residency->suspended || residency->resumes)
		return -EALREADY;
	if (residency->order)
		residency->resumes = true;
	else
		resume(session->worker);
	return 0;
}

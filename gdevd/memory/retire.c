/* SPDX-License-Identifier: MIT
 *
 * See retire.h.
 */
#include "gdevd/memory/retire.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "gdevd/daemon.h"

#define PRESSED_NS NS_PER_S      /* so long is idle when others need the room */
#define POLL_NS (20 * NS_PER_MS) /* no sooner again */
#define REFUSED_NS NS_PER_S      /* it was busy after all: not again before */
/* After a context could not be made again, which a worker says, and may be a lie. */
#define BROKEN_NS (600 * NS_PER_S)

/* The page is the worker's, which may write what it likes: only its own session is concerned. */
static uint32_t context_of(const struct worker *worker)
{
	return __atomic_load_n(&worker->page->context, __ATOMIC_RELAXED);
}

bool retire_is_retired(const struct worker *worker)
{
	return context_of(worker) == WORKER_CONTEXT_RETIRED;
}

const char *retire_state(const struct worker *worker)
{
	switch (context_of(worker)) {
	case WORKER_CONTEXT_OPEN:
		return "open";
	case WORKER_CONTEXT_RETIRED:
		return "retired";
	default:
		return "wanted";
	}
}

const char *retire_keeper(const struct worker *worker)
{
	static const char *const keepers[] = {
		[KEPT_BY_SHARING] = "it shares memory with other sessions",
		[KEPT_BY_MAPPING] = "it has mapped device memory",
		[KEPT_BY_VARIABLES] = "it may know addresses of its modules' variables",
		[KEPT_BY_HEAP] = "its kernels allocate memory",
		[KEPT_BY_IMAGE] = "it has a module whose variables are not known",
		[KEPT_BY_DEVICE] = "the device cannot",
		[KEPT_BY_TEXTURES] = "it has arrays, textures or surfaces",
	};
	uint32_t keeper = __atomic_load_n(&worker->page->kept_by, __ATOMIC_RELAXED);

	return keeper < array_length(keepers) ? keepers[keeper] : NULL;
}

static uint64_t active_ns(const struct worker *worker)
{
	uint64_t said_ns = __atomic_load_n(&worker->page->active_ns, __ATOMIC_RELAXED);

	said_ns = max_of(said_ns, worker->session->started_ns);
	return max_of(said_ns, worker->residency.suspended_ns);
}

/* The commands of a suspended session wait. */
static bool is_busy(const struct worker *worker)
{
	if (worker->residency.suspended)
		return false;
	return __atomic_load_n(&worker->page->streams_busy, __ATOMIC_RELAXED) ||
	       !list_empty(&worker->residency.link);
}

uint64_t retire_idle_ns(const struct worker *worker)
{
	uint64_t now_ns = clock_now_ns(), since_ns = active_ns(worker);

	return is_busy(worker) || since_ns > now_ns ? 0 : now_ns - since_ns;
}

static bool has_context(const struct worker *worker)
{
	return worker->state == WORKER_SERVING && worker->session && worker->connection &&
	       worker->device->overhead_bytes && !retire_is_retired(worker);
}

static bool may_retire(const struct worker *worker)
{
	return has_context(worker) && context_of(worker) == WORKER_CONTEXT_OPEN &&
	       !worker->residency.order;
}

/* How long it is to be idle. `pressed`: others need the room; of a drained device, whoever drained it does. */
static uint64_t patience_ns(const struct worker *worker, bool pressed)
{
	uint64_t after_ns = worker->daemon->config.retire_after_ns;

	if (!pressed && !worker->device->drained)
		return after_ns;
	return worker->residency.suspended ? 0 : min_of(after_ns, PRESSED_NS);
}

/* When it will have been idle for long enough, as things are now. */
static uint64_t due_ns(const struct worker *worker, bool pressed, uint64_t now_ns)
{
	uint64_t since_ns = min_of(active_ns(worker), now_ns);

	/* What keeps the context will do so until the program does something. */
	if (is_busy(worker) || !may_retire(worker) ||
		(retire_keeper(worker) && since_ns == worker->retire.refused_ns))
		since_ns = now_ns;
	return max_of(since_ns + patience_ns(worker, pressed), worker->retire.not_before_ns);
}

static bool is_off(const struct device *device)
{
	return device->daemon->config.retire_after_ns == UINT64_MAX ||
	       clock_now_ns() < device->retire.broken_until_ns;
}

void retire_look(struct device *device)
{
	uint64_t now_ns = clock_now_ns(), soonest_ns = UINT64_MAX;
	const struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device)
		if (has_context(worker) && !is_off(device))
			soonest_ns =
				min_of(soonest_ns, due_ns(worker, device->retire.pressed, now_ns));
	soonest_ns = max_of(soonest_ns, now_ns + POLL_NS);
	deadline_set(&device->daemon->deadlines, &device->retire.deadline, soonest_ns);
}

static void retire_worker(struct worker *worker, uint64_t now_ns)
{
	if (residency_retire(worker))
		worker->retire.not_before_ns = now_ns + REFUSED_NS; /* host swap is full */
}

static void on_deadline(struct deadline *deadline, uint64_t now_ns)
{
	struct device *device = container_of(deadline, struct device, retire.deadline);
	bool pressed = device->retire.pressed;
	struct worker *worker;

	device->retire.pressed = false;
	list_for_each (worker, &device->workers.all, by_device)
		if (!is_off(device) && may_retire(worker) &&
			due_ns(worker, false, now_ns) <= now_ns)
			retire_worker(worker, now_ns);
	if (pressed)
		residency_balance(device); /* which may send for more */
	retire_look(device);
}

/* The worker that has been idle for longest, and for long enough. */
static struct worker *find_idle(
	struct device *device, const struct worker *asks, const struct vgpu *vgpu, uint64_t now_ns)
{
	struct worker *worker, *found = NULL;

	list_for_each (worker, &device->workers.all, by_device) {
		if (worker == asks || !may_retire(worker) || due_ns(worker, true, now_ns) > now_ns)
			continue;
		if (vgpu && worker->session->vgpu != vgpu)
			continue;
		if (!found || active_ns(worker) < active_ns(found))
			found = worker;
	}
	return found;
}

uint64_t retire_send_for(
	struct device *device, const struct worker *asks, const struct vgpu *vgpu, uint64_t bytes)
{
	uint64_t now_ns = clock_now_ns(), coming = 0;
	struct worker *worker;

	if (is_off(device))
		return 0;
	while (coming < bytes && (worker = find_idle(device, asks, vgpu, now_ns))) {
		uint64_t held = worker->memory.used_bytes;
		retire_worker(worker, now_ns);
		if (worker->residency.order)
			coming += held;
	}
	if (coming < bytes) {
		device->retire.pressed = true;
		retire_look(device);
	}
	return coming;
}

bool retire_may_come(const struct device *device, const struct vgpu *vgpu)
{
	uint64_t now_ns = clock_now_ns();
	const struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device)
		if (!is_off(device) && may_retire(worker) && !is_busy(worker) &&
			!retire_keeper(worker) && worker->retire.not_before_ns <= now_ns &&
			(!vgpu || worker->session->vgpu == vgpu))
			return true;
	return false;
}

void retire_done(struct worker *worker, bool retired)
{
	uint64_t now_ns = clock_now_ns();

	if (!retired) {
		worker->retire.not_before_ns = now_ns + REFUSED_NS;
		worker->retire.refused_ns = min_of(active_ns(worker), now_ns);
	}
	retire_look(worker->device);
}

void retire_session_finish(const struct session *session)
{
	struct device *device = session->device;

	if (context_of(session->worker) != WORKER_CONTEXT_LOST)
		return;
	device->retire.broken_until_ns = clock_now_ns() + BROKEN_NS;
	log_error(
		"the context of %s (pid %d) could not be made again: none is given back for ten minutes",
		session->program, (int)session->pid);
}

void retire_init(struct device *device)
{
	deadline_init(&device->retire.deadline, on_deadline);
}

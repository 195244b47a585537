/* SPDX-License-Identifier: MIT
 *
 * See service.h.
 */
#include "worker/service.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "worker/command.h"
#include "worker/core.h"

#define SHORT_NS (30 * NS_PER_US) /* estimated work that the poller does itself */
#define STUCK_NS NS_PER_MS        /* the poller works longer than that: it has lost its role */
#define WATCHDOG_NS (2 * NS_PER_MS)
#define POLL_PAUSE_MIN_NS (100 * NS_PER_US)
#define POLL_PAUSE_MAX_NS (2 * NS_PER_MS)
#define DOUBT_PART 4 /* what may be off by more than that part of it is not expected */
#define SPINS 64     /* looks at the ring between two looks at the clock */
#define OWED_MAX 16  /* batches that are read while long work waits for their reader */
#define SINCE_NOW 1  /* working_since: it has just begun, and has not read the clock yet */

/* The number of this thread in its service; 0: not one of its threads. */
static __thread uint32_t my_number;
/* ops->work() returned true, or a kick was taken: it is to be called before this thread sleeps. */
static __thread bool owes_work;
/* This thread is in ops->work(). */
static __thread bool working;
static __thread int my_place = PLACE_NONE;

/* ---- waking and kicking ---- */

static void ring_eventfd(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof one) < 0)
		return; /* full of wakes */
}

void service_wake(struct core *core)
{
	/* Pairs with the fence of sleep_once: a thread that is about to sleep sees what is to be done, or we see that
	 * it sleeps. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&core->service.sleepers, __ATOMIC_RELAXED))
		ring_eventfd(core->service.kick_fd);
}

/* Whether one thread is done with it before another would be up. */
static bool work_is_short(struct core *core)
{
	uint64_t estimate_ns = __atomic_load_n(&core->grants.estimate_ns, __ATOMIC_RELAXED);

	if (!estimate_ns)
		__atomic_store_n(&core->service.misjudged, false, __ATOMIC_RELAXED);
	return estimate_ns <= SHORT_NS &&
	       !__atomic_load_n(&core->service.misjudged, __ATOMIC_RELAXED);
}

/* The word of the thread that has this number. */
static uint64_t *working_since(struct service *service, uint32_t number)
{
	return &service->threads[number - 1].working_since;
}

/* Whether the poller will see work that there is now, without being woken: it looks at wants_work() all the time, and
 * once more before it sleeps (nothing_to_do). */
static bool poller_looks(struct service *service)
{
	uint32_t poller = __atomic_load_n(&service->poller, __ATOMIC_SEQ_CST);

	return poller && poller != my_number &&
	       !__atomic_load_n(working_since(service, poller), __ATOMIC_RELAXED);
}

/* Whether this thread answers a kick by itself; `before` it there were others. Each of our own comes by ops->work() before
 * it sleeps: it needs no other for the first kick, unless it is there already and the kick is for one more. The poller
 * does all short work, which is over before another thread is awake. A lender does not: nobody watches it, and what was
 * taken to be short may wait for the rest. */
static bool answers_kick(struct core *core, unsigned before)
{
	if (!my_number)
		return false;
	return (!before && !working) || (service_polls(core) && work_is_short(core));
}

void service_kick(void *owner)
{
	struct core *core = owner;
	unsigned before = __atomic_fetch_add(&core->service.kicks, 1, __ATOMIC_SEQ_CST);

	if (!answers_kick(core, before) && !poller_looks(&core->service))
		service_wake(core);
}

void service_job(struct core *core, enum lane lane, struct job *job, void (*run)(struct job *job))
{
	struct service *service = &core->service;

	job->lane = lane;
	job->run = run;
	list_append(&service->lanes[lane].jobs, &job->link);
	__atomic_add_fetch(&service->jobs_waiting, 1, __ATOMIC_RELAXED);
	service_wake(core);
}

unsigned service_jobs(const struct core *core)
{
	unsigned count = core->service.jobs_waiting;

	for (unsigned i = 0; i < LANES; i++)
		count += core->service.lanes[i].running;
	return count;
}

void service_timer(struct core *core, uint64_t at_ns)
{
	struct service *service = &core->service;
	struct itimerspec when = {0};

	if (at_ns >= service->timer_at)
		return;
	service->timer_at = at_ns;
	when.it_value.tv_sec = (time_t)(at_ns / NS_PER_S);
	when.it_value.tv_nsec = (long)(at_ns % NS_PER_S);
	timerfd_settime(service->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* This thread is about to do something long, and may be the one that was woken for the ring: wakes another. */
static void leave_ring(struct core *core)
{
	if (!__atomic_load_n(&core->service.poller, __ATOMIC_RELAXED) && ring_waits(core))
		service_wake(core);
}

/* ---- jobs ---- */

/* With the lock. The next that may begin. */
static struct job *next_job(const struct service *service)
{
	for (unsigned i = 0; i < LANES; i++)
		if (service->lanes[i].running < LANE_JOBS && !list_empty(&service->lanes[i].jobs))
			return list_first(&service->lanes[i].jobs, struct job, link);
	return NULL;
}

static bool take_job(struct core *core)
{
	struct service *service = &core->service;
	struct job *job;
	enum lane lane;

	if (!__atomic_load_n(&service->jobs_waiting, __ATOMIC_RELAXED))
		return false;
	core_lock(core);
	job = next_job(service);
	if (job) {
		lane = job->lane;
		list_remove(&job->link);
		__atomic_sub_fetch(&service->jobs_waiting, 1, __ATOMIC_RELAXED);
		service->lanes[lane].running++;
	}
	core_unlock(core);
	if (!job)
		return false;
	leave_ring(core);
	job->run(job); /* which frees it */
	core_lock(core);
	service->lanes[lane].running--;
	core_unlock(core);
	return true;
}

static bool job_is_there(struct core *core)
{
	bool there;

	if (!__atomic_load_n(&core->service.jobs_waiting, __ATOMIC_RELAXED))
		return false;
	core_lock(core);
	there = next_job(&core->service) != NULL;
	core_unlock(core);
	return there;
}

/* ---- the poller ---- */

static bool take_role(struct service *service)
{
	uint32_t vacant = 0;

	return __atomic_compare_exchange_n(
		&service->poller, &vacant, my_number, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Answers one kick. */
static bool take_kick(struct service *service)
{
	unsigned kicks = __atomic_load_n(&service->kicks, __ATOMIC_RELAXED);

	while (kicks)
		if (__atomic_compare_exchange_n(&service->kicks, &kicks, kicks - 1, true,
			    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* Whether this thread is to call ops->work(): it was there before and is expected again, or a kick is
 * to be answered. */
static bool wants_work(struct core *core)
{
	if (!core->ops->work)
		return false;
	if (!owes_work)
		owes_work = take_kick(&core->service);
	return owes_work;
}

static void work_once(struct core *core)
{
	working = true;
	owes_work = core->ops->work(core->device);
	working = false;
	grants_look(core);
}

/* Takes a place among the lenders. False: there is none, and the work is left to those that have one. */
static bool become_lender(struct core *core)
{
	struct service *service = &core->service;

	if (__atomic_fetch_add(&service->lenders, 1, __ATOMIC_RELAXED) < service->lenders_max)
		return true;
	__atomic_sub_fetch(&service->lenders, 1, __ATOMIC_RELAXED);
	owes_work = false;
	__atomic_fetch_add(&service->kicks, 1, __ATOMIC_SEQ_CST);
	return false;
}

/* Short work, with the role kept. The watchdog is armed at most every WATCHDOG_NS. */
static void work_as_poller(struct core *core, uint64_t *watched_until)
{
	struct service *service = &core->service;
	uint64_t *since = working_since(service, my_number), now_ns;

	/* Before the clock is read: the watchdog sees it, or we see that the watchdog has been there. */
	__atomic_store_n(since, SINCE_NOW, __ATOMIC_SEQ_CST);
	now_ns = clock_now_ns();
	__atomic_store_n(since, now_ns, __ATOMIC_RELAXED);
	if (now_ns >= *watched_until) {
		*watched_until = now_ns + WATCHDOG_NS;
		core_lock(core);
		service->watch_at_ns = *watched_until;
		service_timer(core, *watched_until);
		core_unlock(core);
	}
	work_once(core);
	__atomic_store_n(since, 0, __ATOMIC_RELAXED);
}

/* Says ASLEEP and leaves the role. False: there is more in the ring, and the role is still ours. */
static bool retreat(struct core *core)
{
	struct service *service = &core->service;
	uint32_t mine = my_number;

	if (!ring_sleep(core))
		return false;
	__atomic_compare_exchange_n(
		&service->poller, &mine, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	/* A thread that the client woke between ASLEEP and now found the role taken, and went away. */
	if (ring_waits(core))
		service_wake(core);
	return true;
}

/* Leaves the role, and what is in the ring, to another thread. */
static void pass_role(struct core *core)
{
	uint32_t mine = my_number;

	__atomic_compare_exchange_n(
		&core->service.poller, &mine, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	service_wake(core);
}

uint64_t service_ask_again_ns(uint64_t progress_ns, uint64_t due_ns, uint64_t now_ns)
{
	uint64_t pause_ns = now_ns > progress_ns ? (now_ns - progress_ns) / 8 : 0, at_ns;

	if (now_ns + WAKE_NS > due_ns && now_ns < due_ns + WAKE_NS)
		return now_ns;
	at_ns = now_ns + min_of(max_of(pause_ns, POLL_PAUSE_MIN_NS), POLL_PAUSE_MAX_NS);
	return due_ns > now_ns ? min_of(at_ns, due_ns - WAKE_NS) : at_ns;
}

/* With the lock. The device is expected to be done with what it has; 0: nobody knows. */
static uint64_t due_ns(struct core *core)
{
	const struct resource *compute = &core->grants.resources[RESOURCE_COMPUTE];

	return compute->doubt_ns <= compute->in_flight_ns / DOUBT_PART
		       ? grant_due_ns(core, RESOURCE_COMPUTE)
		       : 0;
}

static bool in_flight(struct core *core)
{
	return __atomic_load_n(&core->grants.in_flight, __ATOMIC_RELAXED) > 0;
}

/* Something is on a device that must be asked when it is done; no thread does, and none is going to. A thread that
 * leaves the role looks after that. A thread that finds that it is time looks before it tries to get the role. One of
 * the two sees the other. */
static bool is_forgotten(struct core *core)
{
	struct service *service = &core->service;

	return core->ops->poll && in_flight(core) &&
	       !__atomic_load_n(&service->poller, __ATOMIC_SEQ_CST) &&
	       __atomic_load_n(&service->poll_at_ns, __ATOMIC_SEQ_CST) == UINT64_MAX;
}

/* How long the poller looks at nothing before it sleeps. A device that must be asked is asked without a
 * pause for a while: what is late in being noticed is late in being followed by the next command. */
static uint64_t patience_ns(struct core *core)
{
	uint64_t spin_ns = __atomic_load_n(&core->service.spin_ns, __ATOMIC_RELAXED);

	spin_ns = max_of(spin_ns, turn_patience_ns(core));
	return in_flight(core) ? max_of(spin_ns, core->ops->timing.look_ns) : spin_ns;
}

/* Asks the device for completions; the poller's, or a step's. */
static bool poll_device(struct core *core)
{
	return core->ops->poll && in_flight(core) && core->ops->poll(core->device);
}

/* Sees to it that a device which nobody asks any more is asked again. False: it is to be asked right now. */
static bool plan_to_ask(struct core *core, uint64_t now_ns)
{
	struct service *service = &core->service;
	uint64_t at_ns = UINT64_MAX;

	core_lock(core);
	if (in_flight(core))
		at_ns = service_ask_again_ns(
			__atomic_load_n(&service->progress_ns, __ATOMIC_RELAXED), due_ns(core),
			now_ns);
	if (at_ns > now_ns) {
		__atomic_store_n(&service->poll_at_ns, at_ns, __ATOMIC_RELAXED);
		service_timer(core, at_ns);
	}
	core_unlock(core);
	return at_ns > now_ns;
}

/* Retreats, unless the device is about to be done. */
static bool retreat_from_device(struct core *core, uint64_t now_ns)
{
	if (core->ops->poll && !plan_to_ask(core, now_ns))
		return false;
	if (!retreat(core))
		return false;
	/* Somebody has submitted meanwhile, or it was time already, and the thread that came for it found the role
	 * taken. */
	if (is_forgotten(core))
		service_wake(core);
	return true;
}

/* Reads the ring until it has been empty for a while, or until there is long work to do. */
static void poll_ring(struct core *core)
{
	struct service *service = &core->service;
	uint64_t active_ns = clock_now_ns(), watched_until = 0;
	unsigned idle = 0, owed = 0;

	ring_awake(core);
	while (service_polls(core) && !__atomic_load_n(&service->stopping, __ATOMIC_RELAXED)) {
		bool any = ring_read(core);
		any |= poll_device(core);
		turns_look(core);
		grants_look_ahead(core);
		if (wants_work(core)) {
			any = true;
			if (work_is_short(core)) {
				work_as_poller(core, &watched_until);
			} else if (become_lender(core)) {
				__atomic_sub_fetch(&service->lenders, 1, __ATOMIC_RELAXED);
				if (retreat(core))
					return; /* to lend() */
				if (++owed == OWED_MAX) {
					pass_role(core);
					return;
				}
			} else {
				any = false;
			}
		}
		if (any)
			idle = 0;
		if (idle++ % SPINS) {
			cpu_relax();
			continue;
		}
		if (service->few_processors && idle > 1)
			sched_yield(); /* the client may need this one */
		uint64_t now_ns = clock_now_ns();
		if (idle == 1) {
			active_ns = now_ns;
			if (any)
				__atomic_store_n(&service->progress_ns, now_ns, __ATOMIC_RELAXED);
		} else if (now_ns - active_ns > patience_ns(core) &&
			   retreat_from_device(core, now_ns)) {
			return;
		}
	}
}

/* Lends the thread to the device for as long as it has work. */
static bool lend(struct core *core)
{
	if (!wants_work(core) || !become_lender(core))
		return false;
	leave_ring(core);
	do {
		places_take(&core->service.places, &my_place);
		work_once(core);
	} while (owes_work && !__atomic_load_n(&core->service.stopping, __ATOMIC_RELAXED));
	places_leave(&core->service.places, &my_place);
	__atomic_sub_fetch(&core->service.lenders, 1, __ATOMIC_RELAXED);
	return true;
}

/* ---- events ---- */

enum tag { TAG_WAKE, TAG_KICK, TAG_TIMER, TAG_SOCKET };

static int watch(struct core *core, int operation, int fd, enum tag tag, uint32_t events)
{
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)tag << 32 | (uint32_t)fd,
	};

	return epoll_ctl(core->service.epoll_fd, operation, fd, &event) ? -errno : 0;
}

int service_watch(struct core *core, int fd)
{
	return watch(core, EPOLL_CTL_ADD, fd, TAG_SOCKET, EPOLLIN | EPOLLONESHOT);
}

void service_rewatch(struct core *core, int fd, bool write)
{
	watch(core, EPOLL_CTL_MOD, fd, TAG_SOCKET, EPOLLIN | EPOLLONESHOT | (write ? EPOLLOUT : 0));
}

/* A poller that has been in one piece of "short" work for long loses its role to this thread. */
static void relieve_poller(struct core *core, uint64_t now_ns)
{
	struct service *service = &core->service;
	uint32_t poller = __atomic_load_n(&service->poller, __ATOMIC_RELAXED);
	uint64_t since;

	if (!poller || poller == my_number)
		return;
	since = __atomic_load_n(working_since(service, poller), __ATOMIC_RELAXED);
	if (!since)
		return;
	if (since == SINCE_NOW)
		since = now_ns;
	if (now_ns < since + STUCK_NS) {
		service_timer(core, since + STUCK_NS);
		return;
	}
	__atomic_store_n(&service->misjudged, true, __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(
		&service->poller, &poller, my_number, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* This thread asks the device next, unless another has the role. A tick may be an earlier one's, and late. */
static uint64_t poll_tick(struct core *core, uint64_t now_ns)
{
	uint64_t *at_ns = &core->service.poll_at_ns;

	if (now_ns < __atomic_load_n(at_ns, __ATOMIC_RELAXED))
		return *at_ns;
	__atomic_store_n(at_ns, UINT64_MAX, __ATOMIC_SEQ_CST);
	return UINT64_MAX;
}

/* What has to be done at certain times. Each function returns when it is to be called again at the latest;
 * UINT64_MAX: not before it asks for that (service_timer). */
static uint64_t (*const ticks[])(struct core *core, uint64_t now_ns) = {
	commands_tick,
	memory_tick,
	evict_tick,
	control_tick,
	grants_tick,
	turns_tick,
	context_tick,
	limit_tick,
	direct_tick,
	poll_tick,
};

void service_tick(struct core *core)
{
	const struct service *service = &core->service;
	uint64_t now_ns = clock_now_ns(), next = UINT64_MAX;

	core->service.timer_at = UINT64_MAX;
	for (size_t i = 0; i < array_length(ticks); i++)
		next = min_of(next, ticks[i](core, now_ns));
	relieve_poller(core, now_ns);
	if (now_ns < service->watch_at_ns) /* this came before, for something else */
		next = min_of(next, service->watch_at_ns);
	if (next != UINT64_MAX)
		service_timer(core, next);
}

/* A socket is read by one thread at a time; then it is watched again. */
static void socket_ready(struct core *core, int fd, uint32_t events)
{
	if (fd == core->peer_fd)
		peer_readable(core);
	else
		control_event(core, fd, events & EPOLLOUT);
}

static void handle(struct core *core, const struct epoll_event *event)
{
	switch (event->data.u64 >> 32) {
	case TAG_WAKE:
		core_lock(core);
		streams_host_progress(core);
		direct_progress(core);
		core_unlock(core);
		break;
	case TAG_TIMER:
		core_lock(core);
		service_tick(core);
		core_unlock(core);
		break;
	case TAG_SOCKET:
		socket_ready(core, (int)(uint32_t)event->data.u64, event->events);
		break;
	default:
		break;
	}
}

/* ---- threads ---- */

static bool nothing_to_do(struct core *core)
{
	struct service *service = &core->service;

	if (__atomic_load_n(&service->stopping, __ATOMIC_RELAXED) || job_is_there(core) ||
		is_forgotten(core))
		return false;
	if (core->ops->work && __atomic_load_n(&service->kicks, __ATOMIC_RELAXED) &&
		__atomic_load_n(&service->lenders, __ATOMIC_RELAXED) < service->lenders_max)
		return false;
	return __atomic_load_n(&service->poller, __ATOMIC_RELAXED) || !ring_waits(core);
}

/* Whether what follows is likely to come through the ring. Not after a deadline of our own; but the thread that looks
 * at the ring is also the one that asks a device which must be asked. */
static bool heralds_records(const struct core *core, const struct epoll_event *event)
{
	return event->data.u64 >> 32 != TAG_TIMER || core->ops->poll;
}

/* Whether to look at the ring then, for a while. */
static bool sleep_once(struct core *core)
{
	struct service *service = &core->service;
	struct epoll_event event;
	int count = 0;

	__atomic_add_fetch(&service->sleepers, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with service_wake */
	if (nothing_to_do(core))
		count = epoll_wait(service->epoll_fd, &event, 1, -1);
	__atomic_sub_fetch(&service->sleepers, 1, __ATOMIC_SEQ_CST);
	if (count != 1)
		return true;
	handle(core, &event);
	return heralds_records(core, &event);
}

static void *thread_main(void *argument)
{
	struct core *core = argument;
	struct service *service = &core->service;
	bool look = true;

	my_number = __atomic_add_fetch(&service->started, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&service->stopping, __ATOMIC_RELAXED)) {
		/* With the role of a poller that is stuck, the ring comes first. */
		while (!service_polls(core) && (lend(core) || take_job(core)))
			;
		if (service_polls(core) || (look && take_role(service)))
			poll_ring(core);
		look = owes_work || sleep_once(core);
	}
	ring_eventfd(service->kick_fd); /* for the next one */
	return NULL;
}

bool service_polls(struct core *core)
{
	return __atomic_load_n(&core->service.poller, __ATOMIC_ACQUIRE) == my_number;
}

bool service_step(struct core *core)
{
	struct epoll_event event;
	bool any = ring_read(core);

	any |= poll_device(core);
	while (take_job(core))
		any = true;
	while (core->ops->work && core->ops->work(core->device))
		any = true;
	while (epoll_wait(core->service.epoll_fd, &event, 1, 0) == 1) {
		handle(core, &event);
		any = true;
	}
	core_lock(core);
	core_unlock(core);
	return any;
}

/* ---- life ---- */

/* A device that executes by itself borrows no threads. */
static unsigned lenders_wanted(const struct device_ops *ops, const struct device_config *device)
{
	if (!ops->work)
		return 0;
	return device->threads ? device->threads : (unsigned)get_nprocs();
}

int service_init(struct core *core)
{
	struct service *service = &core->service;
	int error = 0;

	service->few_processors = get_nprocs() <= FEW_PROCESSORS;
	for (unsigned i = 0; i < LANES; i++)
		list_init(&service->lanes[i].jobs);
	service->timer_at = service->poll_at_ns = UINT64_MAX;
	service->spin_ns = SPIN_NS_DEFAULT;
	service->lenders_max = lenders_wanted(core->ops, &core->config.device);
	service->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	service->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	service->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (service->epoll_fd < 0 || service->kick_fd < 0 || service->timer_fd < 0)
		error = -errno;
	/* Edge-triggered: a write wakes one thread, and nobody has to read. */
	if (!error)
		error = watch(core, EPOLL_CTL_ADD, core->wake_fd, TAG_WAKE, EPOLLIN | EPOLLET);
	if (!error)
		error = watch(core, EPOLL_CTL_ADD, service->kick_fd, TAG_KICK, EPOLLIN | EPOLLET);
	if (!error)
		error = watch(core, EPOLL_CTL_ADD, service->timer_fd, TAG_TIMER, EPOLLIN | EPOLLET);
	if (error)
		service_finish(core);
	return error;
}

void service_finish(struct core *core)
{
	int fds[] = {core->service.epoll_fd, core->service.kick_fd, core->service.timer_fd};

	fd_close_all(fds, array_length(fds));
}

int service_start(struct core *core)
{
	struct service *service = &core->service;
	sigset_t all, before;
	int error = 0;

	service->threads = calloc(core->config.threads, sizeof *service->threads);
	if (!service->threads)
		return -ENOMEM;
	/* Signals are for the thread that owns the process, if for any. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGTRAP);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < core->config.threads && !error; i++) {
		error = -pthread_create(&service->threads[i].thread, NULL, thread_main, core);
		service->thread_count += !error;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		service_stop(core);
	return error;
}

void service_stop(struct core *core)
{
	struct service *service = &core->service;

	__atomic_store_n(&service->stopping, true, __ATOMIC_SEQ_CST);
	ring_eventfd(service->kick_fd);
	for (unsigned i = 0; i < service->thread_count; i++)
		pthread_join(service->threads[i].thread, NULL);
	__atomic_store_n(&service->poller, 0, __ATOMIC_RELAXED); /* which stopped with it */
	free(service->threads);
	service->threads = NULL;
	service->thread_count = 0;
}

void service_drain(struct core *core)
{
	while (take_job(core))
		;
}

unsigned service_threads_wanted(const struct device_ops *ops, const struct device_config *device)
{
	return lenders_wanted(ops, device) + SERVICE_JOBS + 2;
}

/* SPDX-License-Identifier: MIT
 *
 * The worker's threads. They are interchangeable; each does, in turn, whatever is there:
 *   a job     something that may block: loading a module, making or unmapping chunks. At most
 *             LANE_JOBS of each lane at a time.
 *   polling   at most one thread has the poller's role. It reads the ring, spins for a while when
 *             there is nothing, and then leaves the role vacant and the ring ASLEEP.
 *   lending   ops->work(): the thread is the device's for a while.
 *   sleeping  epoll_wait() on everything. Each event wakes one thread.
 * There are more threads than jobs and lenders together, so that one is always left for the rest.
 *
 * The poller lends itself too: when what is on the device is short, it keeps the role (launch and wait
 * of an empty kernel is then one thread's affair: no switch). When it is long or unknown it gives the
 * role up first. If a short one turns out long, the timer finds the poller stuck, and another thread
 * takes the role.
 *
 * Words below are atomic unless they say otherwise.
 */
#ifndef GDEV_WORKER_SERVICE_H
#define GDEV_WORKER_SERVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "worker/places.h"

struct core;
struct device_config;
struct device_ops;

/* Jobs wait for those of their own lane alone. What a job may wait for decides which lane is its: one that waits for
 * others than the device must not keep out what those others wait for. */
enum lane {
	/* What gdevd orders, for others' sake: waits for nobody, but for what gdevd answers at once. */
	LANE_ORDERS,
	/* The client's, and short: makes and frees memory, for one. Waits as those of ORDERS do. */
	LANE_CALLS,
	/* What commands need comes in. May wait until others have made room in host swap: for their ORDERS. */
	LANE_LOADING,
	/* The client's. Compiles, or waits until others have made room on the device, or a segment: for their ORDERS and
	 * LOADING, and for a LONG that waits for those. */
	LANE_LONG,
	LANES
};

#define LANE_JOBS 2
#define SERVICE_JOBS (LANES * LANE_JOBS)

/* Something that may block. `run` is called without the lock. */
struct job {
	struct list link;
	enum lane lane;
	void (*run)(struct job *job);
};

struct service_thread {
	pthread_t thread;
	/* When it went into ops->work() as the poller; 0: it is not there. It alone writes this, and those who look at the
	 * poller read that of the thread which has the role now: one that has just lost the role changes nothing for the next. */
	uint64_t working_since;
};

struct service {
	struct service_thread
		*threads;      /* constant while they run; those that are numbered 1, 2, … */
	unsigned thread_count; /* likewise */
	unsigned lenders_max;  /* constant */
	bool few_processors;   /* constant */
	int epoll_fd, kick_fd, timer_fd;

	bool stopping;
	unsigned sleepers; /* threads in epoll_wait, or about to be */
	/* Times that the device wants one more thread. Who adds one answers it itself, knows that the poller looks, or wakes a
	 * sleeper; nobody sleeps while one is left and there is room for a lender. */
	unsigned kicks;
	unsigned lenders;
	struct places places;
	/* The thread that has the role, by its number; 0: vacant. Who finds it vacant takes it; who has it leaves it, or loses it
	 * to a thread that has the core's lock and finds it stuck (working_since). Changed by compare and exchange alone. */
	uint32_t poller;
	uint64_t
		poll_at_ns; /* when the device is asked again, as nobody has the role; UINT64_MAX: not planned */
	bool misjudged;   /* work that was taken to be short is not, until all of it is done */
	uint32_t started; /* threads; numbers them */
	uint64_t spin_ns;
	uint64_t
		progress_ns; /* when the device was last seen to finish or get something (ops->poll) */

	/* Guarded by the core's lock. */
	struct {
		struct list jobs; /* that wait */
		unsigned running;
	} lanes[LANES];
	uint64_t timer_at;    /* UINT64_MAX: not armed */
	uint64_t watch_at_ns; /* the poller counts on being looked at then */

	unsigned jobs_waiting; /* in all lanes */
};

/* How many threads a worker for such a device has: one for each job and each lender, the poller, and one for the rest. */
unsigned service_threads_wanted(const struct device_ops *ops, const struct device_config *device);

int service_init(struct core *core);
int service_start(struct core *core);
void service_stop(struct core *core);
/* After service_stop(): runs the jobs that are left, on the caller. */
void service_drain(struct core *core);
void service_finish(struct core *core);

/* With the lock. */
void service_job(struct core *core, enum lane lane, struct job *job, void (*run)(struct job *job));
/* How many jobs wait or run. */
unsigned service_jobs(const struct core *core);
/* Sees to it that service_tick runs at this time, or before. */
void service_timer(struct core *core, uint64_t at_ns);
/* Does what is due by now. */
void service_tick(struct core *core);
/* Listens to a socket: one event, for one thread, which then says that it is to be watched again. */
int service_watch(struct core *core, int fd);
void service_rewatch(struct core *core, int fd, bool write);
/* Whether the calling thread has the poller's role. It may only lose it to a thread that has the lock. */
bool service_polls(struct core *core);

/* Any thread, no lock needed. Wakes one sleeper, if nobody is up. */
void service_wake(struct core *core);
/* device_host.kick */
void service_kick(void *owner);

/* A device that must be asked has been seen to do something at `progress_ns`, and is expected to be done at `due_ns` (0:
 * nobody knows): when a thread that sleeps until then asks it again; `now_ns`: it is not to sleep. In time for what is
 * expected, and otherwise late by little whatever the length of a kernel: an eighth of the time that has passed. */
uint64_t service_ask_again_ns(uint64_t progress_ns, uint64_t due_ns, uint64_t now_ns);

/* Instead of threads, for tests: does once whatever is there, without blocking. Whether there was
 * anything. */
bool service_step(struct core *core);

#endif

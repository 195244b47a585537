/* SPDX-License-Identifier: MIT
 *
 * Movers: threads that help the calling one with a large copy between the program's memory and the staging
 * memory. One thread copies at a fraction of what the bus to a GPU takes; so the parts of a copy are shared
 * out. They are started at the first copy that is large enough, as many as the processors that the
 * program may use allow, block all signals, and sleep in between. They do not exist in a forked child.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "lib/libgdev/internal.h"

#define BYTES_A_MOVER (4ull << 20) /* less is not worth waking one for */

static unsigned movers_allowed(void)
{
	cpu_set_t set;
	unsigned processors = 1;

	if (!sched_getaffinity(0, sizeof set, &set))
		processors = (unsigned)CPU_COUNT(&set);
	/* The caller is one of them; the worker needs some too. */
	return min_of(max_of(processors * 3 / 4, 1u), MOVERS_MAX + 1u) - 1;
}

void movers_init(struct gdev_session *session)
{
	struct movers *movers = &session->movers;

	pthread_mutex_init(&movers->lock, NULL);
	pthread_cond_init(&movers->work, NULL);
	pthread_cond_init(&movers->done, NULL);
	movers->limit = movers_allowed();
}

void movers_limit(struct gdev_session *session, unsigned threads)
{
	session->movers.limit = min_of(threads, MOVERS_MAX + 1u) - 1;
}

static void *mover_main(void *argument)
{
	struct movers *movers = argument;

	pthread_setname_np(pthread_self(), "gdev-mover");
	pthread_mutex_lock(&movers->lock);
	while (!movers->stopping) {
		if (!movers->wanted) {
			pthread_cond_wait(&movers->work, &movers->lock);
			continue;
		}
		movers->wanted--;
		movers->running++;
		void (*part)(void *) = movers->part;
		void *of = movers->argument;
		pthread_mutex_unlock(&movers->lock);
		part(of);
		pthread_mutex_lock(&movers->lock);
		if (!--movers->running)
			pthread_cond_signal(&movers->done);
	}
	pthread_mutex_unlock(&movers->lock);
	return NULL;
}

/* With the lock. Fewer threads than wanted are fine. */
static void start_threads(struct movers *movers, unsigned count)
{
	sigset_t all, before;

	if (movers->count >= count)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (movers->count < count &&
		!pthread_create(&movers->threads[movers->count], NULL, mover_main, movers))
		movers->count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void movers_run(struct gdev_session *session, uint64_t bytes, void (*part)(void *), void *argument)
{
	struct movers *movers = &session->movers;
	unsigned helpers = (unsigned)min_of((uint64_t)movers->limit, bytes / BYTES_A_MOVER);
	bool mine = false;

	if (helpers) {
		pthread_mutex_lock(&movers->lock);
		mine = !movers->busy; /* another thread's copy has them: this one goes alone */
		if (mine) {
			movers->busy = true;
			start_threads(movers, helpers);
			movers->part = part;
			movers->argument = argument;
			movers->wanted = min_of(helpers, movers->count);
			pthread_cond_broadcast(&movers->work);
		}
		pthread_mutex_unlock(&movers->lock);
	}
	part(argument);
	if (!mine)
		return;
	pthread_mutex_lock(&movers->lock);
	movers->wanted = 0;
	while (movers->running)
		pthread_cond_wait(&movers->done, &movers->lock);
	movers->busy = false;
	pthread_mutex_unlock(&movers->lock);
}

void movers_finish(struct gdev_session *session)
{
	struct movers *movers = &session->movers;

	pthread_mutex_lock(&movers->lock);
	movers->stopping = true;
	pthread_cond_broadcast(&movers->work);
	pthread_mutex_unlock(&movers->lock);
	for (unsigned i = 0; i < movers->count; i++)
		pthread_join(movers->threads[i], NULL);
	pthread_cond_destroy(&movers->work);
	pthread_cond_destroy(&movers->done);
	pthread_mutex_destroy(&movers->lock);
}

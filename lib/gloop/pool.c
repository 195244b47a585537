/* SPDX-License-Identifier: MIT
 *
 * A few threads for requests that block: files whose data is not in memory, opening, truncating. The first is made when
 * there is something to do, another whenever none is free, four at most.
 *
 * pool->lock protects all but `host` and `wake`.
 */
#include "lib/gloop/internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#define THREADS_MAX 4

struct pool {
	const struct host *host;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct list todo, done;
	pthread_t threads[THREADS_MAX];
	unsigned thread_count, free_count;
	bool leave;
	int wake;
};

static void *serve(void *argument)
{
	struct pool *pool = argument;
	struct request *request;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		request = list_first(&pool->todo, struct request, link);
		if (!request && pool->leave)
			break;
		if (!request) {
			pool->free_count++;
			pthread_cond_wait(&pool->work, &pool->lock);
			pool->free_count--;
			continue;
		}
		list_remove(&request->link);
		pthread_mutex_unlock(&pool->lock);
		request_complete(pool->host, request);
		pthread_mutex_lock(&pool->lock);
		list_append(&pool->done, &request->link);
		eventfd_write(pool->wake, 1);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Signals are the program's threads'. */
static bool add_thread(struct pool *pool)
{
	sigset_t all, before;
	int error;

	if (pool->thread_count == THREADS_MAX)
		return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&pool->threads[pool->thread_count], NULL, serve, pool);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		pool->thread_count++;
	return !error;
}

int pool_create(const struct host *host, int wake, struct pool **created)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	list_init(&pool->todo);
	list_init(&pool->done);
	pool->host = host;
	pool->wake = wake;
	*created = pool;
	return 0;
}

void pool_destroy(struct pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->leave = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->thread_count; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

void pool_push(struct pool *pool, struct request *request)
{
	bool serves;

	pthread_mutex_lock(&pool->lock);
	serves = pool->free_count || add_thread(pool) || pool->thread_count;
	if (serves) {
		list_append(&pool->todo, &request->link);
		pthread_cond_signal(&pool->work);
	}
	pthread_mutex_unlock(&pool->lock);
	if (serves)
		return;
	request_complete(pool->host, request); /* there is no other thread */
	list_append(&pool->done, &request->link);
}

struct request *pool_take(struct pool *pool)
{
	struct request *request;

	pthread_mutex_lock(&pool->lock);
	request = list_first(&pool->done, struct request, link);
	if (request)
		list_remove(&request->link);
	pthread_mutex_unlock(&pool->lock);
	return request;
}

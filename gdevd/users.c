/* SPDX-License-Identifier: MIT
 *
 * See users.h.
 */
#include "gdevd/users.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define PART 10 /* the errands of one user get this part of gdevd's processor, */
#define AHEAD_NS                                                                                   \
	(50 * NS_PER_MS) /* and if it has asked nothing for so long, that much of it at once */

/* gdevd's own descriptors: an eighth of the table, and these at least, but no more than half. A message brings 253. */
#define OWN_DESCRIPTORS 512u
#define PART_OF_DESCRIPTORS 3

static bool has_errands(const struct user *user)
{
	return !list_empty(&user->errands[ERRAND_OPEN]) || !list_empty(&user->errands[ERRAND_ASK]);
}

static bool is_resting(const struct user *user)
{
	return !list_empty(&user->rest.link);
}

static void on_idle(uv_idle_t *idle);

static void take_turns(struct user *user)
{
	if (!has_errands(user) || is_resting(user) || !list_empty(&user->turn))
		return;
	list_append(&user->users->turns, &user->turn);
	uv_idle_start(&user->users->idle, on_idle);
}

static void free_user(struct user *user)
{
	deadline_cancel(&user->rest);
	list_remove(&user->turn);
	list_remove(&user->link);
	free(user->porting.closing);
	free(user);
}

static void on_rested(struct deadline *deadline, uint64_t now_ns)
{
	struct user *user = container_of(deadline, struct user, rest);

	if (user->references)
		take_turns(user);
	else
		free_user(user);
}

static struct errand *next_errand(struct user *user)
{
	if (list_empty(&user->errands[user->next]))
		user->next = ERRAND_KINDS - 1 - user->next;
	return list_first(&user->errands[user->next], struct errand, link);
}

/* One errand, of the user whose turn it is. */
static void on_idle(uv_idle_t *idle)
{
	struct users *users = idle->data;
	struct user *user = list_first(&users->turns, struct user, turn);
	struct errand *errand = user ? next_errand(user) : NULL;
	uint64_t began_ns = clock_thread_cpu_ns(), now_ns;

	if (user)
		list_remove(&user->turn);
	if (errand) {
		user->references++;
		user->next = ERRAND_KINDS - 1 - user->next;
		list_remove(&errand->link);
		errand->run(errand);
		now_ns = clock_now_ns();
		user->paid_ns = max_of(user->paid_ns, now_ns - AHEAD_NS) +
				PART * (clock_thread_cpu_ns() - began_ns);
		if (user->paid_ns > now_ns)
			deadline_set(users->deadlines, &user->rest, user->paid_ns);
		take_turns(user);
		user_put(user);
	}
	if (list_empty(&users->turns))
		uv_idle_stop(idle);
}

static size_t descriptors_for_users(void)
{
	struct rlimit limit;
	size_t table = 1024;

	if (!getrlimit(RLIMIT_NOFILE, &limit))
		table = (size_t)min_of(limit.rlim_cur, (rlim_t)1 << 30);
	return table - min_of(max_of(table / 8, (size_t)OWN_DESCRIPTORS), table / 2);
}

void users_init(struct users *users, uv_loop_t *loop, struct deadlines *deadlines)
{
	list_init(&users->all);
	list_init(&users->turns);
	users->deadlines = deadlines;
	users->descriptors = 0;
	users->descriptors_max = descriptors_for_users();
	porters_init(users);
	users->idle.data = users;
	uv_idle_init(loop, &users->idle);
}

void users_finish(struct users *users)
{
	struct user *user, *after;

	porters_stop(users);
	list_for_each_safe (user, after, &users->all, link)
		free_user(user);
	uv_close((uv_handle_t *)&users->idle, NULL);
}

struct user *user_get(struct users *users, uid_t uid)
{
	struct user *user;

	list_for_each (user, &users->all, link)
		if (user->uid == uid) {
			user->references++;
			return user;
		}
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	user->users = users;
	user->uid = uid;
	user->references = 1;
	for (unsigned i = 0; i < ERRAND_KINDS; i++)
		list_init(&user->errands[i]);
	list_init(&user->porting.requests);
	list_init(&user->turn);
	deadline_init(&user->rest, on_rested);
	list_append(&users->all, &user->link);
	return user;
}

void user_put(struct user *user)
{
	/* What it asked is not forgotten because it comes anew. */
	if (user && --user->references == 0 && !is_resting(user))
		free_user(user);
}

struct user *user_ref(struct user *user)
{
	if (user)
		user->references++;
	return user;
}

bool user_hold(struct user *user, size_t count)
{
	size_t all, one;

	if (!user)
		return true;
	all = one = user->users->descriptors_max;
	if (user->uid && user->uid != geteuid()) {
		all -= all / 8;
		one /= PART_OF_DESCRIPTORS;
	}
	if (count > one || user->descriptors > one - count ||
		user->users->descriptors > all - count)
		return false;
	user_hold_anyway(user, count);
	return true;
}

void user_hold_anyway(struct user *user, size_t count)
{
	if (!user)
		return;
	user->descriptors += count;
	user->users->descriptors += count;
}

void user_release(struct user *user, size_t count)
{
	if (!user)
		return;
	user->descriptors -= count;
	user->users->descriptors -= count;
}

void errand_init(struct errand *errand, void (*run)(struct errand *errand))
{
	list_init(&errand->link);
	errand->run = run;
}

bool errand_waits(const struct errand *errand)
{
	return !list_empty(&errand->link);
}

void errand_add(struct errand *errand, struct user *user, enum errand_kind kind)
{
	if (!errand_waits(errand))
		list_append(&user->errands[kind], &errand->link);
	take_turns(user);
}

void errand_cancel(struct errand *errand)
{
	list_remove(&errand->link);
}

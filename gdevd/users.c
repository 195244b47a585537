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

/* The errands of one user, of a kind, get one part in so many of gdevd's processor. */
static const unsigned parts[ERRAND_KINDS] = {
	[ERRAND_OPEN] = 20, [ERRAND_ASK] = 20, [ERRAND_WORK] = 2};
/* A user that has asked nothing for so long gets what that would have been at once. */
#define AHEAD_NS (50 * NS_PER_MS)

/* gdevd's own descriptors: an eighth of the table, and these at least, but no more than half. A message brings 253. */
#define OWN_DESCRIPTORS 512u
#define PART_OF_DESCRIPTORS 3

static bool is_resting(const struct budget *budget)
{
	return !list_empty(&budget->rest.link);
}

static void on_idle(uv_idle_t *idle);

static void take_turns(struct budget *budget)
{
	struct users *users = budget->user->users;

	if (list_empty(&budget->errands) || is_resting(budget) || !list_empty(&budget->turn))
		return;
	list_append(&users->turns, &budget->turn);
	uv_idle_start(&users->idle, on_idle);
}

static void free_user(struct user *user)
{
	for (unsigned i = 0; i < ERRAND_KINDS; i++) {
		deadline_cancel(&user->budgets[i].rest);
		list_remove(&user->budgets[i].turn);
	}
	list_remove(&user->link);
	free(user->porting.closing);
	free(user);
}

static void maybe_free(struct user *user)
{
	bool owes = false;

	for (unsigned i = 0; i < ERRAND_KINDS; i++)
		owes |= is_resting(&user->budgets[i]);
	/* What it asked is not forgotten because it comes anew. */
	if (!user->references && !owes)
		free_user(user);
}

static void on_rested(struct deadline *deadline, uint64_t now_ns)
{
	struct budget *budget = container_of(deadline, struct budget, rest);

	take_turns(budget);
	maybe_free(budget->user);
}

void user_pay(struct user *user, enum errand_kind kind, uint64_t used_ns)
{
	struct budget *budget = user ? &user->budgets[kind] : NULL;
	uint64_t now_ns = clock_now_ns();

	if (!budget)
		return;
	budget->paid_ns = max_of(budget->paid_ns, now_ns - AHEAD_NS) + parts[kind] * used_ns;
	if (budget->paid_ns <= now_ns)
		return;
	deadline_set(user->users->deadlines, &budget->rest, budget->paid_ns);
	list_remove(&budget->turn);
}

bool user_rests(const struct user *user, enum errand_kind kind)
{
	return user && is_resting(&user->budgets[kind]);
}

/* Runs one errand, of the user whose turn it is. */
static void on_idle(uv_idle_t *idle)
{
	struct users *users = idle->data;
	struct budget *budget = list_first(&users->turns, struct budget, turn);
	struct errand *errand = budget ? list_first(&budget->errands, struct errand, link) : NULL;
	uint64_t began_ns = clock_thread_cpu_ns();

	if (budget)
		list_remove(&budget->turn);
	if (errand) {
		struct user *user = user_ref(budget->user);
		list_remove(&errand->link);
		errand->run(errand);
		user_pay(user, (enum errand_kind)(budget - user->budgets),
			clock_thread_cpu_ns() - began_ns);
		take_turns(budget);
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
	for (unsigned i = 0; i < ERRAND_KINDS; i++) {
		user->budgets[i].user = user;
		list_init(&user->budgets[i].errands);
		list_init(&user->budgets[i].turn);
		deadline_init(&user->budgets[i].rest, on_rested);
	}
	list_init(&user->porting.requests);
	closer_queue_init(&user->closings);
	list_append(&users->all, &user->link);
	return user;
}

void user_put(struct user *user)
{
	if (user && --user->references == 0)
		maybe_free(user);
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
	struct budget *budget = &user->budgets[kind];

	if (!errand_waits(errand))
		list_append(&budget->errands, &errand->link);
	take_turns(budget);
}

void errand_cancel(struct errand *errand)
{
	list_remove(&errand->link);
}

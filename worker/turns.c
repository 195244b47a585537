/* SPDX-License-Identifier: MIT
 *
 * See turns.h.
 */
#include "worker/turns.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/command.h"
#include "worker/core.h"

/* A session that outranks the holder, and was there a second ago, is expected: to be woken takes it 0.05 to 0.3 ms. */
#define PREFERRED_LOOK_NS (50 * NS_PER_MS)
#define LEFT_LOOK_NS (NS_PER_MS / 2) /* until gdevd may have said that it is */

/* NULL: there is none, or not yet. The poller, which looks without the lock, sees the session with it. */
static struct turns *page_of(struct core *core)
{
	return __atomic_load_n(&core->turns, __ATOMIC_ACQUIRE);
}

void turn_announced(struct core *core, uint32_t which, uint32_t turn)
{
	if (!page_of(core))
		return;
	__atomic_store_n(&core->grants.resources[which].turn, turn, __ATOMIC_RELAXED);
}

/* 0: it is another session, or none. */
static uint64_t preferred_word(struct core *core)
{
	struct turns *turns = page_of(core);
	uint64_t word = turns ? __atomic_load_n(&turns->preferred, __ATOMIC_ACQUIRE) : 0;

	return word >> 32 == core->session.session ? word : 0;
}

void turn_herald(struct core *core)
{
	uint64_t word = preferred_word(core);

	__atomic_store_n(&core->grants.left, false, __ATOMIC_RELAXED);
	if (word)
		__atomic_store_n(&page_of(core)->came, word, __ATOMIC_RELEASE);
}

uint64_t turn_patience_ns(struct core *core)
{
	if (!page_of(core))
		return 0;
	if (preferred_word(core))
		return PREFERRED_LOOK_NS;
	return __atomic_load_n(&core->grants.left, __ATOMIC_RELAXED) ? LEFT_LOOK_NS : 0;
}

bool turn_yields(struct core *core)
{
	struct grants *grants = &core->grants;
	uint64_t word, now_ns;

	if (!page_of(core) || !control_connected(core))
		return false;
	word = __atomic_load_n(&page_of(core)->came, __ATOMIC_ACQUIRE);
	if (!word || word != __atomic_load_n(&page_of(core)->preferred, __ATOMIC_RELAXED))
		return false;
	now_ns = clock_now_ns();
	/* The page is any worker's to write to: a word counts once, and one in a hold. */
	if (word != grants->yielded_to && !grants->yields_until_ns) {
		grants->yielded_to = word;
		grants->yields_until_ns = now_ns + WAKE_NS;
		service_timer(core, grants->yields_until_ns);
	}
	return word == grants->yielded_to && now_ns < grants->yields_until_ns;
}

static bool is_there(struct core *core, uint32_t which)
{
	uint32_t turn = __atomic_load_n(&core->grants.resources[which].turn, __ATOMIC_RELAXED);

	return turn &&
	       __atomic_load_n(&page_of(core)->resources[which].turn, __ATOMIC_ACQUIRE) == turn;
}

bool turns_are_there(struct core *core)
{
	for (uint32_t i = 0; page_of(core) && i < RESOURCES; i++)
		if (is_there(core, i))
			return true;
	return false;
}

bool turns_take(struct core *core)
{
	bool any = false;

	for (uint32_t i = 0; page_of(core) && i < RESOURCES; i++) {
		if (!is_there(core, i))
			continue;
		__atomic_store_n(&core->grants.resources[i].turn, 0, __ATOMIC_RELAXED);
		if (i == RESOURCE_COMPUTE && !residency_settled(&core->residency))
			continue; /* gdevd must know that we hold it before we ask for memory */
		grant_handed(core, i);
		any = true;
	}
	return any;
}

void turn_hand_over(struct core *core, uint32_t which)
{
	uint64_t *next, word;

	if (which == RESOURCE_COMPUTE)
		__atomic_store_n(&core->grants.hand_at_ns, 0, __ATOMIC_RELAXED);
	if (!page_of(core))
		return;
	next = &page_of(core)->resources[which].next;
	word = __atomic_load_n(next, __ATOMIC_RELAXED);
	if (word && word >> 32 == core->session.session &&
		__atomic_compare_exchange_n(
			next, &word, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		__atomic_store_n(
			&page_of(core)->resources[which].turn, (uint32_t)word, __ATOMIC_RELEASE);
}

void turn_plan(struct core *core, uint32_t which)
{
	const struct resource *resource = &core->grants.resources[which];
	uint64_t at_ns = grant_due_ns(core, which), ahead_ns = core->ops->timing.ahead_ns;

	/* The first of a hold may still wait for the device to come back to us. */
	if (which != RESOURCE_COMPUTE || !page_of(core) || !ahead_ns || !at_ns ||
		busy_ended_ns(&resource->busy) < resource->held_since_ns ||
		resource->doubt_ns > ahead_ns)
		return;
	at_ns -= min_of(at_ns, ahead_ns);
	if (at_ns <= clock_now_ns()) {
		turn_hand_over(core, which);
		return;
	}
	__atomic_store_n(&core->grants.hand_at_ns, at_ns, __ATOMIC_RELAXED);
	service_timer(core, at_ns);
}

uint64_t turns_tick(struct core *core, uint64_t now_ns)
{
	uint64_t at_ns = __atomic_load_n(&core->grants.hand_at_ns, __ATOMIC_RELAXED);
	uint64_t until_ns = core->grants.yields_until_ns;

	until_ns = now_ns < until_ns ? until_ns : UINT64_MAX; /* then streams go on */
	if (!at_ns)
		return until_ns;
	if (now_ns < at_ns)
		return min_of(at_ns, until_ns);
	turn_hand_over(core, RESOURCE_COMPUTE);
	return until_ns;
}

/* Whether we are told to leave, and have not looked yet: the message that says so comes to a thread that has to wake up
 * first, and then it may be too late to hand over before the end. */
static bool is_told(struct core *core)
{
	uint32_t word = __atomic_load_n(&core->page->revoke[RESOURCE_COMPUTE], __ATOMIC_RELAXED);

	if (word == __atomic_load_n(&core->grants.seen, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&core->grants.seen, word, __ATOMIC_RELAXED);
	return word == REVOKE_NOW && page_of(core);
}

void turns_look(struct core *core)
{
	uint64_t at_ns;

	if (is_told(core))
		grants_look(core);
	at_ns = __atomic_load_n(&core->grants.hand_at_ns, __ATOMIC_RELAXED);
	if (!at_ns || clock_now_ns() < at_ns)
		return;
	core_lock(core);
	turns_tick(core, clock_now_ns());
	core_unlock(core);
}

/* SPDX-License-Identifier: MIT
 *
 * See proxy.h. The proxy looks at the guest's ring, the mailbox and the worker's timelines for SPIN_NS after it last found
 * something there; then it says that it sleeps, looks once more, and sleeps until the guest rings, the worker wakes it, or
 * one of the two ends. So a launch in a burst rings nobody. Where looking was in vain the last two times it is in vain
 * again, most likely: then the proxy sleeps at once.
 *
 * Where processors are few, looking takes one that the guest or the worker may need. So when records have come for
 * BURST_NS, and none is there right now, the proxy naps: for a part of the time that the burst has taken, so that what ends
 * with it ends later by no more than that part.
 */
#include "vm/proxy.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define SPIN_NS (100 * NS_PER_US)
#define SOON_NS (20 * NS_PER_US) /* the worker: to be woken up takes less than to look for longer */
#define LOOKS_BETWEEN_CLOCK_READS 16
#define BURST_NS (250 * NS_PER_US)
#define NAP_PART 8
#define NAP_NS (100 * NS_PER_US) /* at most */
#define NAP_RECORDS 4 /* that a nap brings, or the guest may be waiting for what it delays */

/* Who calls a proxy that sleeps. */
enum caller { GUEST_RINGS, WORKER_WAKES, WORKER_ENDS, SERVER_ENDS, CALLERS };

void proxy_interrupt(struct proxy *proxy)
{
	proxy->counts.interrupts++;
	guest_interrupt(proxy->guest, proxy->slot + 1);
}

void proxy_fail(struct proxy *proxy, int error)
{
	if (!proxy->error)
		proxy->error = error;
}

/* Nobody but proxies sees a token before and after: of the key that tells as little as of the token. */
void proxy_translate(const struct proxy *proxy, void *token)
{
	uint64_t words[2];

	_Static_assert(sizeof words == RECORD_TOKEN_BYTES, "a token is two words");
	memcpy(words, token, sizeof words);
	words[0] ^= proxy->key[0];
	words[1] ^= proxy->key[1];
	memcpy(token, words, sizeof words);
}

static uint64_t rotate(uint64_t word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static void mix(uint64_t state[4], int rounds)
{
	while (rounds--) {
		state[0] += state[1];
		state[2] += state[3];
		state[1] = rotate(state[1], 13) ^ state[0];
		state[3] = rotate(state[3], 16) ^ state[2];
		state[0] = rotate(state[0], 32) + state[3];
		state[2] += state[1];
		state[1] = rotate(state[1], 17) ^ state[2];
		state[3] = rotate(state[3], 21) ^ state[0];
		state[2] = rotate(state[2], 32);
	}
}

/* SipHash-2-4 of one word: who knows it of some words knows it of no other, nor the secret. */
static uint64_t keyed_hash(const uint64_t secret[2], uint64_t word)
{
	const uint64_t blocks[] = {word, (uint64_t)sizeof word << 56};
	uint64_t state[] = {
		secret[0] ^ 0x736f6d6570736575ull,
		secret[1] ^ 0x646f72616e646f6dull,
		secret[0] ^ 0x6c7967656e657261ull,
		secret[1] ^ 0x7465646279746573ull,
	};

	for (unsigned i = 0; i < array_length(blocks); i++) {
		state[3] ^= blocks[i];
		mix(state, 2);
		state[0] ^= blocks[i];
	}
	state[2] ^= 0xff;
	mix(state, 4);
	return state[0] ^ state[1] ^ state[2] ^ state[3];
}

static void make_key(struct proxy *proxy)
{
	proxy->user = __atomic_load_n(&proxy->mailbox->user, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		proxy->key[i] = keyed_hash(proxy->guest->secret, (uint64_t)proxy->user << 1 | i);
}

/* gdevd ranks the session by our nice value, as it does with any client. A guest can only stand back: its processes among
 * each other, and never before another virtual GPU's. Coming back takes CAP_SYS_NICE, or RLIMIT_NICE. */
static void follow_nice(struct proxy *proxy)
{
	int nice = __atomic_load_n(&proxy->mailbox->nice, __ATOMIC_RELAXED);

	nice = min_of(max_of(nice, proxy->least_nice), 19);
	if (nice != proxy->nice && !setpriority(PRIO_PROCESS, 0, nice))
		proxy->nice = nice;
}

/* ---- the mailbox ---- */

static void answer(struct proxy *proxy, const struct vm_answer *answer)
{
	struct vm_mailbox *mailbox = proxy->mailbox;

	mailbox->counts = proxy->counts;
	mailbox->answer = *answer;
	__atomic_store_n(&mailbox->answered, ++proxy->answered, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&mailbox->guest_waits, __ATOMIC_RELAXED))
		proxy_interrupt(proxy);
}

static bool has_request(const struct proxy *proxy)
{
	return __atomic_load_n(&proxy->mailbox->posted, __ATOMIC_ACQUIRE) != proxy->answered;
}

static void serve_mailbox(struct proxy *proxy)
{
	struct vm_request request;
	struct vm_answer reply = {0};
	uint64_t start_ns = clock_now_ns();

	follow_nice(proxy);
	memcpy(&request, &proxy->mailbox->request, sizeof request);
	reply.status = copy_execute(proxy, &request, &reply.value);
	proxy->counts.request_ns += clock_now_ns() - start_ns;
	answer(proxy, &reply);
	if (reply.status == -GDEV_E_PROTOCOL)
		proxy_fail(proxy, reply.status);
}

/* ---- looking and sleeping ---- */

static bool work(struct proxy *proxy)
{
	bool worked = forward_records(proxy);

	worked |= forward_host_completed(proxy);
	worked |= mirror_completed(proxy);
	if (!has_request(proxy))
		return worked;
	serve_mailbox(proxy);
	return true;
}

static bool has_work(const struct proxy *proxy)
{
	return forward_can(proxy) || has_request(proxy) || mirror_can(proxy) ||
	       __atomic_load_n(&proxy->segment->header.host_completed, __ATOMIC_ACQUIRE) !=
		       proxy->host_completed;
}

static bool is_under_way(const struct proxy *proxy)
{
	return proxy->active_count > 0;
}

/* Of pauses that begin as this one. */
static struct pauses *pauses_of(struct proxy *proxy)
{
	return &proxy->pauses[is_under_way(proxy)];
}

/* A doorbell costs the guest more than the worker pays for waking us up. */
static uint64_t patience_ns(struct proxy *proxy)
{
	const struct pauses *pauses = pauses_of(proxy);
	uint64_t expected_ns = min_of(pauses->last_ns, pauses->before_ns);

	return expected_ns > (is_under_way(proxy) ? SOON_NS : SPIN_NS) ? 0 : SPIN_NS;
}

static void found_something(struct proxy *proxy, struct pauses *pauses, uint64_t now_ns)
{
	uint64_t pause_ns = now_ns - proxy->worked_ns - proxy->gave_ns;
	bool slow = proxy->napping && proxy->counts.records - proxy->napped_at < NAP_RECORDS;

	*pauses = (struct pauses){pause_ns, pauses->last_ns};
	proxy->worked_ns = now_ns;
	proxy->gave_ns = 0;
	proxy->napping = false;
	if (pause_ns > SPIN_NS || slow)
		proxy->burst_ns = now_ns;
}

static void nap(struct proxy *proxy, uint64_t burst_ns)
{
	struct timespec time = {.tv_nsec = (long)min_of(burst_ns / NAP_PART, NAP_NS)};

	proxy->napping = true;
	proxy->napped_at = proxy->counts.records;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Lets others have the processor, which is no pause of the guest's. False: a nap has brought nothing, and the burst is over. */
static bool make_way(struct proxy *proxy, uint64_t now_ns)
{
	uint64_t burst_ns = proxy->worked_ns - proxy->burst_ns;

	if (proxy->napping)
		return false;
	if (burst_ns >= BURST_NS)
		nap(proxy, burst_ns);
	else
		sched_yield();
	proxy->gave_ns += clock_now_ns() - now_ns;
	return true;
}

/* Works until nothing has happened for a while. */
static void look(struct proxy *proxy, bool few_processors)
{
	struct pauses *pauses = pauses_of(proxy);

	while (!proxy->error) {
		bool worked = work(proxy);
		uint64_t now;

		for (int i = 1; i < LOOKS_BETWEEN_CLOCK_READS && patience_ns(proxy); i++) {
			cpu_relax();
			worked |= work(proxy);
		}
		now = clock_now_ns();
		if (worked) {
			found_something(proxy, pauses, now);
			pauses = pauses_of(proxy);
		}
		if (now - proxy->worked_ns >= patience_ns(proxy))
			return;
		if (!worked && few_processors && !make_way(proxy, now))
			return;
	}
}

static void set_state(struct proxy *proxy, uint32_t state)
{
	__atomic_store_n(&proxy->segment->header.worker_state, state, __ATOMIC_SEQ_CST);
	__atomic_store_n(&proxy->mailbox->host_state, state, __ATOMIC_SEQ_CST);
	/* Pairs with the guest's fences between what it publishes and its look at these. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

_Static_assert((int)VM_HOST_ASLEEP == (int)SESSION_WORKER_ASLEEP &&
		       (int)VM_HOST_AWAKE == (int)SESSION_WORKER_AWAKE,
	"set_state() stores one number in both");

/* Each write to an eventfd is an event, so that nobody has to read it. */
static int listen_to_callers(struct proxy *proxy)
{
	const int fds[CALLERS] = {[GUEST_RINGS] = proxy->guest->rung[proxy->slot + 1],
		[WORKER_WAKES] = proxy->wake_fd,
		[WORKER_ENDS] = proxy->peer_fd,
		[SERVER_ENDS] = proxy->control};
	eventfd_t count;

	eventfd_read(fds[GUEST_RINGS], &count); /* of the slot's last session */
	proxy->callers = epoll_create1(EPOLL_CLOEXEC);
	if (proxy->callers < 0)
		return -errno;
	for (unsigned i = 0; i < CALLERS; i++) {
		struct epoll_event event = {
			.events = i < WORKER_ENDS ? EPOLLIN | EPOLLET : EPOLLRDHUP, .data.u32 = i};
		if (epoll_ctl(proxy->callers, EPOLL_CTL_ADD, fds[i], &event))
			return -errno;
	}
	return 0;
}

static void sleep_until_called(struct proxy *proxy)
{
	struct epoll_event events[CALLERS];
	int count = epoll_wait(proxy->callers, events, CALLERS, -1);

	for (int i = 0; i < count; i++) {
		if (events[i].data.u32 == GUEST_RINGS) {
			proxy->counts.doorbells++;
		} else if (events[i].data.u32 == WORKER_ENDS) {
			atomic_store(&proxy->session->transport->lost, true);
			proxy_fail(proxy, transport_error(proxy->session->transport));
		} else if (events[i].data.u32 == SERVER_ENDS) {
			proxy_fail(proxy, -ESHUTDOWN);
		}
	}
}

static void rest(struct proxy *proxy)
{
	proxy->mailbox->counts = proxy->counts;
	mirror_want(proxy, true);
	set_state(proxy, VM_HOST_ASLEEP);
	if (!proxy->error && !has_work(proxy))
		sleep_until_called(proxy);
	set_state(proxy, VM_HOST_AWAKE);
	mirror_want(proxy, false);
	follow_nice(proxy);
}

/* ---- life ---- */

/* The guest could not have the first `count` places of an arena: they are taken here, too. */
static void occupy_arenas(uint64_t count)
{
	for (uint64_t i = 0; i < min_of(count, (uint64_t)ARENA_BASES); i++)
		mmap((void *)(ARENA_DEFAULT_BASE + i * ARENA_DEFAULT_BYTES), 4096, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

static void init_segment(struct proxy *proxy)
{
	const struct session_header *from = &proxy->worker->header;
	struct session_header *to = &proxy->segment->header;

	to->magic = from->magic;
	to->version = from->version;
	to->segment_bytes = from->segment_bytes;
	to->timeline_offset = from->timeline_offset;
	to->timeline_count = from->timeline_count;
	to->reply_offset = from->reply_offset;
	to->reply_count = from->reply_count;
	to->stamp_offset = from->stamp_offset;
	to->stamp_count = from->stamp_count;
	to->ring_offset = from->ring_offset;
	to->ring_bytes = from->ring_bytes;
	to->output_offset = from->output_offset;
	to->output_bytes = from->output_bytes;
	to->look_us = from->look_us;
	to->worker_state = SESSION_WORKER_AWAKE;
}

static void fill_welcome(const struct proxy *proxy, struct vm_welcome *welcome)
{
	const struct gdev_description *description = gdev_session_description(proxy->session);

	welcome->session = description->session;
	welcome->memory_bytes = description->memory_bytes;
	welcome->arena_base = description->arena_base;
	welcome->arena_bytes = description->arena_bytes;
	welcome->staging_bytes = proxy->session->staging.bytes;
	welcome->store_bytes = proxy->guest->sizes.store_bytes;
	memcpy(welcome->vgpu, description->vgpu, sizeof welcome->vgpu);
	memcpy(welcome->device_name, description->device_name, sizeof welcome->device_name);
	memcpy(welcome->device_uuid, description->device_uuid, sizeof welcome->device_uuid);
}

/* The library uses the timelines that the guest does not. */
static int set_up(struct proxy *proxy)
{
	struct gdev_session *session = proxy->session;

	session->replies.free = UINT32_MAX << VM_REPLIES;
	memset(session->streams.used, 0xff, sizeof session->streams.used);
	session->streams.used[PROXY_STREAM / 64] &= ~(1ull << PROXY_STREAM % 64);
	/* Runs are pages. Where device memory can be mapped, one that rode in a record would be copied twice. */
	if (session->transport->segment->header.direct_possible)
		gdev_session_tune(session, GDEV_TUNE_INLINE_BYTES, 0);
	return gdev_stream_create(session, 0, &proxy->stream);
}

/* The request is VM_OPEN: it is why there is this process. */
static int open_session(struct proxy *proxy, const char *vgpu)
{
	struct vm_request request;
	struct vm_answer reply = {0};

	memcpy(&request, &proxy->mailbox->request, sizeof request);
	occupy_arenas(request.number);
	proxy->list = calloc(VM_ENTRIES_MAX, sizeof *proxy->list);
	reply.status = proxy->list ? gdev_session_open_own(vgpu, &proxy->session) : -ENOMEM;
	if (!reply.status)
		reply.status = set_up(proxy);
	if (!reply.status) {
		proxy->worker = proxy->session->transport->segment;
		transport_shm_sockets(proxy->session->transport, &proxy->wake_fd, &proxy->peer_fd);
		reply.status = listen_to_callers(proxy);
	}
	if (!reply.status) {
		init_segment(proxy);
		set_state(proxy, VM_HOST_AWAKE);
		fill_welcome(proxy, &reply.welcome);
	}
	answer(proxy, &reply);
	return reply.status;
}

/* The guest finds the error in its segment, and that the session is dead. */
static void say_dead(struct proxy *proxy)
{
	int *error = &proxy->segment->header.error;

	if (!__atomic_load_n(error, __ATOMIC_ACQUIRE))
		__atomic_store_n(error,
			proxy->error == -ESHUTDOWN ? -GDEV_E_SESSION_LOST : proxy->error,
			__ATOMIC_RELEASE);
}

_Noreturn void proxy_run(struct guest *guest, unsigned slot, int control, const char *vgpu)
{
	static struct proxy proxy;
	bool few_processors = get_nprocs() <= FEW_PROCESSORS;
	char name[16];

	snprintf(name, sizeof name, "gdev-vm:%u", slot);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, NS_PER_US); /* naps are short */
	proxy.guest = guest;
	proxy.slot = slot;
	proxy.control = control;
	proxy.mailbox = guest_mailbox(guest, slot);
	proxy.segment = guest_segment(guest, slot);
	make_key(&proxy);
	proxy.nice = proxy.least_nice = getpriority(PRIO_PROCESS, 0);
	follow_nice(&proxy);
	if (guest_take_store(guest, slot) || open_session(&proxy, vgpu))
		_exit(0);
	while (!proxy.error) {
		look(&proxy, few_processors);
		rest(&proxy);
	}
	mirror_completed(&proxy);
	say_dead(&proxy);
	log_info(
		"session %u of the guest ended (%s): %llu launches, %llu doorbells, %llu interrupts, %llu bytes asked to be copied, %llu copied",
		slot, proxy.error == -ESHUTDOWN ? "closed" : gdev_strerror(proxy.error),
		(unsigned long long)proxy.counts.launches,
		(unsigned long long)proxy.counts.doorbells,
		(unsigned long long)proxy.counts.interrupts, (unsigned long long)proxy.counts.bytes,
		(unsigned long long)proxy.counts.bytes_copied);
	gdev_session_close(proxy.session);
	_exit(0);
}

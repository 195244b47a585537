/* SPDX-License-Identifier: MIT
 *
 * GLoop in kernels: the device event loop (GLoop, MARS 2016; sections 3.1, 3.2.2 and 4.2). For clang, with or without
 * NVIDIA's headers, and for nvcc; C++17. docs/gloop.md is the guide, gdev/gloop.h the host's side.
 *
 *	extern "C" __global__ void sum(gloop_grid grid, ...)
 *	{
 *		gloop::run(grid, [=](gloop::DeviceLoop *loop) {
 *			gloop::fs::open(loop, "data", 4, GLOOP_FOR_READING, [=](gloop::DeviceLoop *loop, long long fd) {
 *				...
 *			});
 *		});
 *	}
 *
 * Each block has a loop of its own. A call registers a callback and returns; the loop runs the callback when what was
 * asked for is done. The kernel's first lambda runs once, and the block ends when no callback is left. Between two
 * callbacks a block may leave the device and go on in another launch. Therefore
 *
 *  - Calls are coalesced: all threads of the block make them together, with the same arguments, at the same point.
 *  - A callback keeps what it captured, in thread 0's version, and device memory. Shared memory, variables of the
 *    stack and what differs from thread to thread do not last from one callback to the next.
 *  - Captures are trivially copyable, 208 bytes at most.
 *  - At most 64 callbacks of a block wait at once. One more ends the run with -ENOBUFS; free_slots() says how many are left.
 *  - A call with bytes holds one of the block's pages, of which there are fewer (docs/gloop.md). One that gets none asks later,
 *    when another's callback has run: what it names must be open until then.
 *  - Memory that a call names is device memory or page-locked memory. What is read is there when the callback runs; what is
 *    written stays as it is until then, since the block may have no page free to copy it to before.
 *
 * A callback with a result gets `long long`: a count or a descriptor, or a negative errno of Linux. Descriptors are
 * numbers of the run, the same in all its blocks; they are not the process's.
 */
#ifndef GDEV_GLOOP_CUH
#define GDEV_GLOOP_CUH

#include <gdev/gloop_rpc.h>

#ifndef __NVCC__
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
#endif

namespace gloop
{

class DeviceLoop;

namespace detail
{

static inline __device__ unsigned thread()
{
	unsigned x, y, z, width, height;

	asm("mov.u32 %0, %%tid.x;" : "=r"(x));
	asm("mov.u32 %0, %%tid.y;" : "=r"(y));
	asm("mov.u32 %0, %%tid.z;" : "=r"(z));
	asm("mov.u32 %0, %%ntid.x;" : "=r"(width));
	asm("mov.u32 %0, %%ntid.y;" : "=r"(height));
	return (z * height + y) * width + x;
}

static inline __device__ unsigned threads()
{
	unsigned x, y, z;

	asm("mov.u32 %0, %%ntid.x;" : "=r"(x));
	asm("mov.u32 %0, %%ntid.y;" : "=r"(y));
	asm("mov.u32 %0, %%ntid.z;" : "=r"(z));
	return x * y * z;
}

static inline __device__ gloop_u64 block()
{
	unsigned x, y, z, width, height;

	asm("mov.u32 %0, %%ctaid.x;" : "=r"(x));
	asm("mov.u32 %0, %%ctaid.y;" : "=r"(y));
	asm("mov.u32 %0, %%ctaid.z;" : "=r"(z));
	asm("mov.u32 %0, %%nctaid.x;" : "=r"(width));
	asm("mov.u32 %0, %%nctaid.y;" : "=r"(height));
	return ((gloop_u64)z * height + y) * width + x;
}

static inline __device__ gloop_u64 now_ns()
{
	gloop_u64 ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

static inline __device__ unsigned ones(gloop_u64 bits)
{
	unsigned count;

	asm("popc.b64 %0, %1;" : "=r"(count) : "l"(bits));
	return count;
}

/* The lowest bit that is set; there is one. */
static inline __device__ gloop_s32 lowest(gloop_u64 bits)
{
	return (gloop_s32)ones((bits & (0 - bits)) - 1);
}

/* What this thread has written is visible to the host before what it writes from here on. */
static inline __device__ void fence()
{
	asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/* A page at most. All threads make the same number of rounds, so that the software GPU runs several of them at once; in
 * each a thread reads four words before it writes them, since the host's memory is far. */
static inline __device__ void copy(void *to, const void *from, gloop_u64 page_bytes)
{
	unsigned self = thread(), count = threads(), bytes = (unsigned)page_bytes, at = self;
	unsigned misaligned = ((unsigned)(gloop_u64)to | (unsigned)(gloop_u64)from) & 7, words = misaligned ? 0 : bytes / 8;
	const gloop_u64 *source = (const gloop_u64 *)from;
	gloop_u64 *target = (gloop_u64 *)to;

#pragma unroll 1
	for (; at - self + 4 * count <= words; at += 4 * count) {
		gloop_u64 a = source[at], b = source[at + count], c = source[at + 2 * count], d = source[at + 3 * count];

		target[at] = a;
		target[at + count] = b;
		target[at + 2 * count] = c;
		target[at + 3 * count] = d;
	}
#pragma unroll 1
	for (; at < words; at += count)
		target[at] = source[at];
#pragma unroll 1
	for (unsigned i = words * 8 + self; i < bytes; i += count)
		((gloop_u8 *)to)[i] = ((const gloop_u8 *)from)[i];
}

typedef gloop_u64 word __attribute__((__may_alias__));

/* By one thread. Of what is long compilers make a loop over bytes, which waits for memory at each. Here all is read before any is
 * written. */
template <unsigned BYTES> static inline __device__ void copy_words(void *to, const void *from)
{
	gloop_u64 words[BYTES / 8];

	static_assert(BYTES % 8 == 0, "words are copied");
#pragma unroll
	for (unsigned i = 0; i < BYTES / 8; i++)
		words[i] = ((const word *)from)[i];
#pragma unroll
	for (unsigned i = 0; i < BYTES / 8; i++)
		((word *)to)[i] = words[i];
}

/* What a slot's code is called as, for callbacks of all types. */
typedef void (*entry)(DeviceLoop *loop, const void *captures, long long result);

/* Slots hold distances from here, which are the same wherever the module's code is loaded. */
static __device__ __attribute__((noinline)) void anchor(DeviceLoop *, const void *, long long)
{
}

static inline __device__ gloop_s64 distance_of(entry code)
{
	return (gloop_s64)((const char *)code - (const char *)&anchor);
}

static inline __device__ entry code_at(gloop_s64 distance)
{
	return (entry)((const char *)&anchor + distance);
}

} // namespace detail

/* A block's loop, in shared memory while the block is on the device. */
class DeviceLoop
{
      public:
	/* How many more callbacks may be registered. All threads see the same. */
	__device__ unsigned free_slots()
	{
		__syncthreads();
		unsigned count = detail::ones(~state->used);
		__syncthreads();
		return count;
	}

	/* Runs callback(loop) later, after callbacks that are ready now have had their turns. */
	template <class F> __device__ void postTask(F callback)
	{
		if (leads())
			claim(&task<F>, callback, 0, 0, false);
	}

	/* Runs callback(loop) when `ns` nanoseconds have passed. */
	template <class F> __device__ void timer(gloop_u64 ns, F callback)
	{
		request(GLOOP_TIMER, 0, ns, 0, 0, 0, 0, &task<F>, callback);
	}

	/* A call of fs or net: `source` is copied to the slot's page before; what the call brings is at `destination` before
	 * the callback: the host put it there, or it is copied from the page. */
	template <class F>
	__device__ void request(gloop_u32 op, gloop_s32 fd, gloop_u64 offset, gloop_u64 bytes, gloop_u32 flags,
		const void *source, void *destination, F callback)
	{
		request(op, fd, offset, bytes, flags, source, destination, &answer<F>, callback);
	}

	/* Bytes that one call moves at most. */
	__device__ gloop_u64 page_bytes() const
	{
		return grid.page_bytes;
	}

	/* The loop itself: of gloop::run(). */
	__device__ bool enter(const gloop_grid &of);
	template <class... Tasks> __device__ __attribute__((always_inline)) void go_on();

      private:
	gloop_grid grid; /* with the block's own elements */
	gloop_state *state;
	gloop_u64 began_ns, idle_ns, ran; /* in this launch: when its slice began; since when nothing is ready, or 0; callbacks */
	gloop_s32 chosen;                 /* the slot whose callback is to run; -1: none is ready; -2: leave */
	gloop_s32 page;                   /* of the chosen slot, or of that claimed last; or GLOOP_NO_PAGE */
	bool asks;                        /* the chosen slot has got its page, and is to ask */
	/* Of the chosen slot, which is free while its callback runs. What all threads copy before that: */
	void *to;
	const void *from;
	gloop_u64 bytes; /* 0: nothing */
	/* and what the slot holds: */
	gloop_s64 callback, result;
	alignas(16) gloop_u8 captures[GLOOP_CAPTURE_BYTES];

	static __device__ bool leads()
	{
		return detail::thread() == 0;
	}

	template <class F> static __device__ void task(DeviceLoop *loop, const void *captures, long long)
	{
		F callback(*(const F *)captures);

		callback(loop);
	}

	/* Runs the callback in the kernel's own code if it is a task of that type. */
	template <class F> __device__ __attribute__((always_inline)) bool runs()
	{
		if (callback != detail::distance_of(&task<F>))
			return false;
		F task(*(const F *)captures);
		task(this);
		return true;
	}

	template <class F> static __device__ void answer(DeviceLoop *loop, const void *captures, long long result)
	{
		F callback(*(const F *)captures);

		callback(loop, result);
	}

	/* A free page, or GLOOP_NO_PAGE. The first is never for what is received, and the last for nothing else: what the block sends
	 * may be what the other side waits for before it sends, and the other way round. By thread 0. */
	__device__ gloop_s32 take_page(bool receives)
	{
		gloop_u64 all = ~0ull >> (64 - grid.page_count), free = ~state->pages & (receives ? all & ~1ull : all >> 1);

		if (!free)
			return GLOOP_NO_PAGE;
		state->pages |= free & (0 - free);
		return detail::lowest(free);
	}

	/* Takes a free slot for the callback, and a page if there are bytes and one is free that no other slot waits for; -1: there
	 * is no slot. By thread 0. */
	template <class F>
	__device__ gloop_s32 claim(detail::entry code, F &callback, void *destination, gloop_u64 bytes, bool receives)
	{
		static_assert(sizeof(F) <= GLOOP_CAPTURE_BYTES, "a callback captures too much");
		static_assert(alignof(F) <= 16, "a callback's captures are aligned too strictly");
		static_assert(__is_trivially_copyable(F), "what a callback captures must be trivially copyable");
		gloop_u64 free = ~state->used;

		page = GLOOP_NO_PAGE;
		if (!free) {
			state->overfull = 1;
			return -1;
		}
		gloop_s32 claimed = detail::lowest(free);
		gloop_slot *slot = &state->slots[claimed];

		slot->callback = detail::distance_of(code);
		slot->destination = (gloop_u64)destination;
		slot->bytes = bytes;
		slot->receives = receives;
		slot->page = page = bytes && !state->starved ? take_page(receives) : GLOOP_NO_PAGE;
		__builtin_memcpy(__builtin_assume_aligned(slot->captures, 16), (const void *)&callback, sizeof(F));
		state->used |= 1ull << claimed;
		return claimed;
	}

	template <class F>
	__device__ void request(gloop_u32 op, gloop_s32 fd, gloop_u64 offset, gloop_u64 bytes, gloop_u32 flags,
		const void *source, void *destination, detail::entry code, F &callback);
	__device__ void describe(gloop_s32 slot, gloop_u32 op, gloop_s32 fd, gloop_u64 offset, gloop_u64 bytes,
		gloop_u32 flags, const void *source, void *destination, bool fetched);
	__device__ void post(gloop_s32 slot, gloop_s32 held);
	__device__ void take_answers();
	__device__ bool fill();
	__device__ bool is_over(gloop_u64 now);
	__device__ void works(bool does);
	__device__ bool others_work(gloop_u64 now);
	__device__ bool is_to_wait(gloop_u64 now);
	__device__ gloop_s32 choose();
	__device__ void take(gloop_s32 slot);
	__device__ void leave();
};

template <class F>
__device__ void DeviceLoop::request(gloop_u32 op, gloop_s32 fd, gloop_u64 offset, gloop_u64 bytes, gloop_u32 flags,
	const void *source, void *destination, detail::entry code, F &callback)
{
	gloop_s32 slot = -1;
	if (bytes > grid.page_bytes)
		bytes = grid.page_bytes;
	bool fetched = grid.fetches && op == GLOOP_WRITE && bytes >= GLOOP_FETCH_BYTES, copied = source && bytes && !fetched;
	__syncthreads(); /* what the other threads did with the memory is done */
	if (leads()) {
		slot = claim(code, callback, destination, bytes, op == GLOOP_RECEIVE);
		if (slot >= 0)
			describe(slot, op, fd, offset, bytes, flags, source, destination, fetched);
	}
	if (copied) {
		__syncthreads();
		if (page >= 0)
			detail::copy(grid.pages + page * grid.page_bytes, source, bytes);
		detail::fence();
		__syncthreads();
	}
	if (slot >= 0 && (page >= 0 || !bytes))
		post(slot, page);
	else if (slot >= 0)
		state->starved |= 1ull << slot;
}

/* What the slot will ask for. By thread 0. */
inline __device__ void DeviceLoop::describe(gloop_s32 slot, gloop_u32 op, gloop_s32 fd, gloop_u64 offset, gloop_u64 bytes,
	gloop_u32 flags, const void *source, void *destination, bool fetched)
{
	volatile gloop_rpc *rpc = &grid.rpcs[slot];

	rpc->op = op;
	rpc->fd = fd;
	rpc->offset = offset;
	rpc->bytes = bytes;
	rpc->flags = flags;
	rpc->source = (gloop_u64)source;
	rpc->filled = !fetched;
	rpc->destination = (gloop_u64)destination;
}

/* With this page or none. By thread 0. */
inline __device__ void DeviceLoop::post(gloop_s32 slot, gloop_s32 held)
{
	volatile gloop_rpc *rpc = &grid.rpcs[slot];
	gloop_u64 posted = state->slots[slot].posted + 1;

	state->slots[slot].posted = posted;
	state->waiting |= 1ull << slot;
	state->posted++;
	rpc->page = held < 0 ? 0 : (gloop_u32)held;
	detail::fence();
	rpc->posted = posted;
	detail::fence();
	((volatile gloop_line *)grid.lines)->posted = state->posted;
}

/* Those of the waiting slots that the host has answered are ready. */
inline __device__ void DeviceLoop::take_answers()
{
	gloop_u64 answers = ((volatile gloop_line *)grid.lines)->done, waiting = state->waiting;

	if (answers == state->answers)
		return;
	state->answers = answers;
	detail::fence();
	for (gloop_u64 left = waiting; left; left &= left - 1) {
		gloop_s32 slot = detail::lowest(left);

		if (((volatile gloop_rpc *)grid.rpcs)[slot].done != state->slots[slot].posted)
			continue;
		detail::fence();
		gloop_u64 placed = ((volatile gloop_rpc *)grid.rpcs)[slot].placed;
		state->slots[slot].result = ((volatile gloop_rpc *)grid.rpcs)[slot].result;
		if (placed == GLOOP_PLACED)
			state->slots[slot].destination = 0;
		if (placed == GLOOP_FILL) {
			((volatile gloop_rpc *)grid.rpcs)[slot].filled = 1;
			state->starved |= 1ull << slot;
			grid.fetches = 0; /* nor would the host reach the next one's, while this launch lasts */
		}
		waiting &= ~(1ull << slot);
	}
	state->waiting = waiting;
}

/* Chooses a slot that is to ask, each in its turn, and to fill its page before unless the host fetches that. False: none has a page or gets one. By thread 0. */
inline __device__ bool DeviceLoop::fill()
{
	gloop_u64 low = state->starved & ~(~0ull << state->next_starved), left = state->starved & ~low;

	for (; left | low; left &= left - 1) {
		if (!left) {
			left = low;
			low = 0;
		}
		chosen = detail::lowest(left);
		page = state->slots[chosen].page;
		if (page < 0)
			page = take_page(state->slots[chosen].receives);
		if (page < 0)
			continue;
		state->slots[chosen].page = page;
		state->starved &= ~(1ull << chosen);
		state->next_starved = (chosen + 1) % GLOOP_SLOTS;
		volatile gloop_rpc *rpc = &grid.rpcs[chosen];
		to = grid.pages + page * grid.page_bytes;
		from = (const void *)rpc->source;
		bytes = from && rpc->filled ? state->slots[chosen].bytes : 0;
		return asks = true;
	}
	return false;
}

/* Whether the block is to leave as its slice is over. Else the next one begins. By thread 0. */
inline __device__ bool DeviceLoop::is_over(gloop_u64 now)
{
	if (now - began_ns < grid.slice_ns)
		return false;
	volatile gloop_crowd *crowd = grid.crowd;
	if (!grid.stays || crowd->begun != grid.launch * grid.block_count || crowd->left == grid.launch ||
		((volatile gloop_line *)grid.lines)->leave == grid.launch)
		return true;
	began_ns = now;
	return false;
}

/* By thread 0. */
inline __device__ void DeviceLoop::works(bool does)
{
	asm volatile("red.add.u32 [%0], %1;" : : "l"(&grid.crowd->working), "r"(does ? 1 : -1) : "memory");
}

/* They keep the device, whether this block leaves or not. So do those that are about to begin; but on the software GPU one may wait
 * for this one's thread. By thread 0. */
inline __device__ bool DeviceLoop::others_work(gloop_u64 now)
{
	enum { BEGIN_NS = 50000 };
	volatile gloop_crowd *crowd = grid.crowd;

	if (!grid.fits)
		return false;
	return crowd->begun == grid.launch * grid.block_count ? crowd->working : now - idle_ns < BEGIN_NS;
}

/* Nothing is ready: whether the block stays. By thread 0. */
inline __device__ bool DeviceLoop::is_to_wait(gloop_u64 now)
{
	if (!idle_ns) {
		idle_ns = now;
		works(false);
	}
	return state->used && (now - idle_ns < grid.poll_ns || others_work(now)) && !is_over(now);
}

/* By thread 0. */
inline __device__ gloop_s32 DeviceLoop::choose()
{
	gloop_u64 now = detail::now_ns(), ready, later;

	asks = false;
	if (state->overfull)
		return -2;
	if (state->waiting)
		take_answers();
	if (state->starved && fill())
		return chosen;
	ready = state->used & ~state->waiting & ~state->starved;
	if (!ready)
		return is_to_wait(now) ? -1 : -2;
	if (idle_ns)
		works(true);
	idle_ns = 0;
	if (ran++ && is_over(now))
		return -2;
	later = ready & (~0ull << state->next);
	gloop_s32 slot = detail::lowest(later ? later : ready);
	state->next = (slot + 1) % GLOOP_SLOTS;
	state->callbacks++;
	take(slot);
	return slot;
}

/* The slot is free again, and so is its page, unless all threads have to copy it first. By thread 0. */
inline __device__ void DeviceLoop::take(gloop_s32 slot)
{
	const gloop_slot *of = &state->slots[slot];
	enum { HALF = GLOOP_CAPTURE_BYTES / 2 }; /* with all at once the kernel would need half as many registers again */

	callback = of->callback;
	detail::copy_words<HALF>(captures, of->captures);
	detail::copy_words<HALF>(captures + HALF, of->captures + HALF);
	result = of->result;
	page = of->page;
	to = (void *)of->destination;
	bytes = 0;
	state->used &= ~(1ull << slot);
	if (page < 0)
		return;
	if (to && result > 0) {
		from = grid.pages + page * grid.page_bytes;
		bytes = (gloop_u64)result > of->bytes ? of->bytes : (gloop_u64)result;
	} else {
		state->pages &= ~(1ull << page);
	}
}

/* Returns whether the block enters for the first time. */
inline __device__ bool DeviceLoop::enter(const gloop_grid &of)
{
	bool first = !of.states[detail::block()].begun;

	__syncthreads();
	if (leads()) {
		gloop_u64 block = detail::block();

		detail::copy_words<sizeof(grid)>(&grid, &of);
		grid.lines += block;
		grid.rpcs += block * GLOOP_SLOTS;
		grid.pages += block * of.page_count * of.page_bytes;
		state = of.states + block;
		state->begun = 1;
		works(true); /* before it has begun: others that see all begun see it at work */
		asm volatile("red.add.u32 [%0], 1;" : : "l"(&grid.crowd->begun) : "memory");
		began_ns = detail::now_ns();
		idle_ns = ran = 0;
	}
	__syncthreads();
	return first;
}

/* The host looks when the kernel has ended. By thread 0. */
inline __device__ void DeviceLoop::leave()
{
	volatile gloop_line *line = grid.lines;

	bool ready = (state->used & ~state->waiting & ~state->starved) != 0;

	if (!idle_ns)
		works(false);
	state->ended = !state->used;
	if (ready || (state->used && !grid.poll_ns))
		((volatile gloop_crowd *)grid.crowd)->left = grid.launch;
	line->seen = state->answers;
	line->launch = grid.launch;
	line->callbacks = state->callbacks;
	line->left = state->overfull					    ? GLOOP_OVERFULL
		     : !state->used					    ? GLOOP_ENDED
		     : ready						    ? GLOOP_YIELDED
									    : GLOOP_WAITS;
}

/* All threads go round together, from barrier to barrier. */
template <class... Tasks> inline __device__ __attribute__((always_inline)) void DeviceLoop::go_on()
{
	for (;;) {
		__syncthreads();
		if (leads())
			chosen = choose();
		__syncthreads();
		gloop_s32 slot = chosen;
		if (slot == -2)
			break;
		if (slot == -1) {
			if (leads())
				asm volatile("nanosleep.u32 %0;" : : "r"(grid.poll_ns ? 500 : 20000));
			continue;
		}
		if (bytes)
			detail::copy(to, from, bytes);
		if (asks) {
			detail::fence();
			__syncthreads();
			if (leads())
				post(slot, page);
			continue;
		}
		__syncthreads();
		if (leads() && bytes)
			state->pages &= ~(1ull << page);
		if (!(false || ... || runs<Tasks>()))
			detail::code_at(callback)(this, captures, result);
	}
	if (leads())
		leave();
}

/* A kernel's whole body: `begin(loop)` runs once, when the block is first on the device. A kernel calls it once.
 * run<Tasks...>(): callbacks of these types, given to postTask() or timer(), are part of the kernel's own code. Others are called by
 * address, and on an NVIDIA GPU such code has two instructions more for each access to memory. */
template <class... Tasks, class F> __device__ void run(const gloop_grid &grid, F begin)
{
	__shared__ DeviceLoop loop;

	if (loop.enter(grid))
		begin(&loop);
	loop.go_on<Tasks...>();
}

/* The same pointer, to memory that is neither shared nor of a thread's own. Compilers know that of a kernel's parameters, and not
 * of what a callback captured; loads through it are faster if they do. */
template <class T> static inline __device__ T *global(T *pointer)
{
	gloop_u64 address;

	asm("cvta.to.global.u64 %0, %1;" : "=l"(address) : "l"(pointer));
#ifdef __clang__
	return (T *)(__attribute__((address_space(1))) T *)address;
#else
	return (T *)__cvta_global_to_generic(address);
#endif
}

/* Copies any number of bytes by the device's copy engines, while the block does something else or is not on the device. Both
 * sides are memory of the context: device memory, or page-locked memory that CUDA has allocated, each within one allocation.
 * callback(loop, bytes copied). */
template <class F> __device__ void memcpy(DeviceLoop *loop, void *to, const void *from, gloop_u64 bytes, F callback)
{
	loop->request(GLOOP_COPY, -1, bytes, 0, 0, from, to, callback);
}

/* ---- files: regular files of the host, by the process's rights ---- */

namespace fs
{

/* flags: GLOOP_FOR_READING, GLOOP_FOR_WRITING, GLOOP_CREATE, GLOOP_EMPTY. callback(loop, descriptor). */
template <class F>
__device__ void open(DeviceLoop *loop, const char *path, unsigned length, unsigned flags, F callback)
{
	loop->request(GLOOP_OPEN, -1, 0, length, flags, path, 0, callback);
}

/* callback(loop, bytes read): fewer at the end of the file, and never more than a page (DeviceLoop::page_bytes()). */
template <class F>
__device__ void read(DeviceLoop *loop, int fd, gloop_u64 offset, gloop_u64 bytes, void *to, F callback)
{
	loop->request(GLOOP_READ, fd, offset, bytes, 0, 0, to, callback);
}

/* callback(loop, bytes written): a page at most. */
template <class F>
__device__ void write(DeviceLoop *loop, int fd, gloop_u64 offset, gloop_u64 bytes, const void *from, F callback)
{
	loop->request(GLOOP_WRITE, fd, offset, bytes, 0, from, 0, callback);
}

/* callback(loop, 0). Calls that the host has taken go on; those that come to it later fail with -EBADF. */
template <class F> __device__ void close(DeviceLoop *loop, int fd, F callback)
{
	loop->request(GLOOP_CLOSE, fd, 0, 0, 0, 0, 0, callback);
}

/* callback(loop, the file's size). */
template <class F> __device__ void fstat(DeviceLoop *loop, int fd, F callback)
{
	loop->request(GLOOP_STAT, fd, 0, 0, 0, 0, 0, callback);
}

/* callback(loop, 0). */
template <class F> __device__ void ftruncate(DeviceLoop *loop, int fd, gloop_u64 size, F callback)
{
	loop->request(GLOOP_TRUNCATE, fd, size, 0, 0, 0, 0, callback);
}

/* A copy of a part of the file in device memory of its own, for all blocks, of any size; shorter if the file ends before. What a
 * kernel writes there stays there. callback(loop, address). */
template <class F> __device__ void map(DeviceLoop *loop, int fd, gloop_u64 offset, gloop_u64 bytes, F callback)
{
	loop->request(GLOOP_MAP, fd, offset, 0, 0, 0, (void *)bytes, callback);
}

/* No block uses it any more. callback(loop, 0). What is mapped when the run ends is unmapped then. */
template <class F> __device__ void unmap(DeviceLoop *loop, const void *address, F callback)
{
	loop->request(GLOOP_UNMAP, -1, (gloop_u64)address, 0, 0, 0, 0, callback);
}

} // namespace fs

/* ---- TCP over IPv4; addresses as numbers: 127.0.0.1 is 0x7f000001 ---- */

namespace net
{

/* callback(loop, descriptor). */
template <class F> __device__ void connect(DeviceLoop *loop, unsigned address, unsigned short port, F callback)
{
	loop->request(GLOOP_CONNECT, -1, (gloop_u64)address << 16 | port, 0, 0, 0, 0, callback);
}

/* Listens there. callback(loop, descriptor). */
template <class F> __device__ void bind(DeviceLoop *loop, unsigned address, unsigned short port, F callback)
{
	loop->request(GLOOP_BIND, -1, (gloop_u64)address << 16 | port, 0, 0, 0, 0, callback);
}

/* callback(loop, descriptor of the next connection). */
template <class F> __device__ void accept(DeviceLoop *loop, int fd, F callback)
{
	loop->request(GLOOP_ACCEPT, fd, 0, 0, 0, 0, 0, callback);
}

/* callback(loop, bytes received): 1 at least, 0 when the other side has ended the connection. */
template <class F> __device__ void receive(DeviceLoop *loop, int fd, gloop_u64 bytes, void *to, F callback)
{
	loop->request(GLOOP_RECEIVE, fd, 0, bytes, 0, 0, to, callback);
}

/* callback(loop, bytes sent): all of them, but a page at most; fewer only before an error. */
template <class F> __device__ void send(DeviceLoop *loop, int fd, gloop_u64 bytes, const void *from, F callback)
{
	loop->request(GLOOP_SEND, fd, 0, bytes, 0, from, 0, callback);
}

template <class F> __device__ void close(DeviceLoop *loop, int fd, F callback)
{
	fs::close(loop, fd, callback);
}

} // namespace net
} // namespace gloop

#endif

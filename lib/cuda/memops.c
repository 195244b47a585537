/* SPDX-License-Identifier: MIT
 *
 * Streams that write values to memory, and that wait for values there.
 *
 * A write is a fill or a small copy. For a wait, the stream waits for a point of another stream, the gate,
 * which is not there yet; a thread of the library looks at the memory, and sends what the gate lacks when
 * the value is there. Nothing of the device is held meanwhile, and other streams go on. The thread looks from
 * every 50 us to every millisecond. Memory that the process reaches it reads; other memory it copies, on a
 * stream that the gate has for that, which may wait for the device: so each session has a thread of its own,
 * from its first wait until a second after its last.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "lib/cuda/internal.h"

#define LOOK_MIN_NS (50 * NS_PER_US)
#define LOOK_MAX_NS NS_PER_MS
#define LINGER_S 1
#define WAIT_CONDITIONS (CU_STREAM_WAIT_VALUE_NOR) /* the flags without FLUSH */

/* A stream that only the looking thread sends to. Each stream that waits for values has one. */
struct gate {
	struct list link;
	unsigned refs; /* waits, and the stream that it belongs to */
	struct gdev_session *session;
	struct gdev_stream *stream;
	struct gdev_stream *reader; /* copies what the process does not reach; or NULL */
	struct gdev_event *step;    /* recording it sends a record */
	uint64_t promised;          /* points that somebody waits for */
};

struct value_wait {
	struct list link;
	struct gate *gate;
	struct gdev_fence before; /* the wait begins when the stream has got here */
	bool begun;
	uint64_t address, value;
	unsigned bytes, condition;
};

/* A thread, and what it looks at. */
struct looker {
	struct list link;             /* of all */
	struct gdev_session *session; /* to be compared: it may be gone when there are no waits */
	struct list waits;            /* without the one that it looks at */
	unsigned coming;              /* waits that will be there soon */
	bool looking;
};

/* Guards what follows, and the references of gates. Threads look at memory without it. */
static pthread_mutex_t *const lock = &process_locks[LOCK_VALUES];
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* a thread may look, or has looked */
static struct list lookers = {&lookers, &lookers};

void memops_forget(void)
{
	pthread_cond_init(&changed, NULL);
	list_init(&lookers);
}

/* ---- gates ---- */

static void gate_destroy(struct gate *gate)
{
	gdev_event_destroy(gate->step);
	gdev_stream_destroy(gate->reader);
	gdev_stream_destroy(gate->stream);
	free(gate);
}

static CUresult gate_create(struct gdev_session *session, struct gate **created)
{
	struct gate *gate = calloc(1, sizeof *gate);
	CUresult result;

	if (!gate)
		return no_memory();
	gate->refs = 1;
	gate->session = session;
	result = result_of(
		gdev_stream_create(session, 0, &gate->stream), "a stream for waits cannot be made");
	if (result == CUDA_SUCCESS)
		result = result_of(gdev_event_create(session, true, &gate->step),
			"an event for waits cannot be made");
	if (result != CUDA_SUCCESS) {
		gate_destroy(gate);
		return result;
	}
	*created = gate;
	return CUDA_SUCCESS;
}

void gate_release(struct gate *gate)
{
	bool last;

	if (!gate)
		return;
	pthread_mutex_lock(lock);
	last = --gate->refs == 0;
	pthread_mutex_unlock(lock);
	if (last)
		gate_destroy(gate);
}

/* The stream's gate, which is made at its first wait. */
static CUresult gate_of(CUstream stream, struct gate **gate)
{
	struct gate *made, *surplus = NULL;

	pthread_mutex_lock(lock);
	*gate = stream->gate;
	pthread_mutex_unlock(lock);
	if (*gate)
		return CUDA_SUCCESS;
	TRY(gate_create(stream->context->session, &made));
	pthread_mutex_lock(lock);
	if (stream->gate) /* another thread's */
		surplus = made;
	else
		stream->gate = made;
	*gate = stream->gate;
	pthread_mutex_unlock(lock);
	gate_release(surplus);
	return CUDA_SUCCESS;
}

/* ---- looking ---- */

static bool holds(const struct value_wait *wait, uint64_t found)
{
	uint64_t value = wait->value;

	switch (wait->condition) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return wait->bytes == 4 ? (int32_t)((uint32_t)found - (uint32_t)value) >= 0
					: (int64_t)(found - value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return found == value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (found & value) != 0;
	default:
		return wait->bytes == 4 ? (uint32_t) ~(found | value) != 0 : ~(found | value) != 0;
	}
}

static int look_by_copy(const struct value_wait *wait, uint64_t *found)
{
	struct gdev_copy copy = gdev_copy_linear((uint64_t)found, wait->address, wait->bytes);
	struct gate *gate = wait->gate;
	int error = 0;

	if (!gate->reader)
		error = gdev_stream_create(gate->session, -5, &gate->reader);
	copy.source_side = GDEV_SIDE_DEVICE;
	return error ? error : gdev_copy(gate->reader, &copy);
}

/* 1: the wait is over; 0: not yet; negative: nothing will come any more. */
static int look(struct value_wait *wait)
{
	struct gdev_session *session = wait->gate->session;
	struct gdev_range range;
	uint64_t found = 0;
	int error;

	if (!wait->begun) {
		error = gdev_fence_query(session, &wait->before);
		if (error == -GDEV_E_NOT_READY)
			return 0;
		if (error)
			return error;
		wait->begun = true;
	}
	gdev_memory_lookup(session, wait->address, &range);
	if (range.kind == GDEV_MEMORY_HOST || range.mapped) {
		if (wait->bytes == 4)
			found = __atomic_load_n((uint32_t *)wait->address, __ATOMIC_ACQUIRE);
		else
			found = __atomic_load_n((uint64_t *)wait->address, __ATOMIC_ACQUIRE);
	} else {
		error = look_by_copy(wait, &found);
		if (error)
			return error;
	}
	return holds(wait, found);
}

static void wait_end(struct value_wait *wait)
{
	gate_release(wait->gate);
	free(wait);
}

/* Looks at a wait, which is in no list meanwhile. If it is over, lets the stream go on. Returns whether it is over. With
 * the lock, which is given up. */
static bool look_at(struct looker *looker, struct value_wait *wait)
{
	bool over;

	looker->looking = true;
	pthread_mutex_unlock(lock);
	over = look(wait);
	if (over) {
		gdev_event_record(wait->gate->step, wait->gate->stream);
		wait_end(wait);
	}
	pthread_mutex_lock(lock);
	looker->looking = false;
	pthread_cond_broadcast(&changed);
	return over;
}

/* Looks at each wait; whether any is over. With the lock. */
static bool look_at_all(struct looker *looker)
{
	struct value_wait *wait;
	unsigned count = 0;
	bool any = false;

	list_for_each (wait, &looker->waits, link)
		count++;
	while (count-- && (wait = list_first(&looker->waits, struct value_wait, link))) {
		list_remove(&wait->link);
		if (look_at(looker, wait))
			any = true;
		else
			list_append(&looker->waits, &wait->link);
	}
	return any;
}

/* Waits until there is something to look at; false: nothing has come for long. With the lock. */
static bool await_waits(struct looker *looker)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LINGER_S;
	while (list_empty(&looker->waits))
		if (pthread_cond_clockwait(&changed, lock, CLOCK_MONOTONIC, &until))
			return looker->coming || !list_empty(&looker->waits);
	return true;
}

static void *look_on(void *argument)
{
	struct looker *looker = argument;
	uint64_t pause = LOOK_MIN_NS;

	pthread_setname_np(pthread_self(), "gdev-values");
	pthread_mutex_lock(lock);
	while (await_waits(looker)) {
		pause = look_at_all(looker) ? LOOK_MIN_NS
					    : min_of(pause * 5 / 4, (uint64_t)LOOK_MAX_NS);
		if (list_empty(&looker->waits))
			pause = LOOK_MIN_NS;
		pthread_mutex_unlock(lock);
		nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
		pthread_mutex_lock(lock);
	}
	list_remove(&looker->link);
	pthread_mutex_unlock(lock);
	free(looker);
	return NULL;
}

static int start_thread(struct looker *looker)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, look_on, looker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}

/* With the lock. NULL: the session has none. */
static struct looker *find_looker(const struct gdev_session *session)
{
	struct looker *looker;

	list_for_each (looker, &lookers, link)
		if (looker->session == session)
			return looker;
	return NULL;
}

/* With the lock. */
static CUresult looker_create(struct gdev_session *session, struct looker **created)
{
	struct looker *looker = calloc(1, sizeof *looker);
	int error;

	if (!looker)
		return no_memory();
	looker->session = session;
	list_init(&looker->waits);
	error = start_thread(looker);
	if (error) {
		free(looker);
		return fail(CUDA_ERROR_OPERATING_SYSTEM,
			"the thread that looks at values cannot be started: %s", strerror(error));
	}
	list_append(&lookers, &looker->link);
	*created = looker;
	return CUDA_SUCCESS;
}

/* The thread of the session, which is there until finish_looking(). */
static CUresult prepare_looking(struct gdev_session *session, struct looker **looker)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(lock);
	*looker = find_looker(session);
	if (!*looker)
		result = looker_create(session, looker);
	if (result == CUDA_SUCCESS)
		(*looker)->coming++;
	pthread_mutex_unlock(lock);
	return result;
}

/* Gives the thread the wait for which it was prepared, or NULL if there is none after all. */
static void finish_looking(struct looker *looker, struct value_wait *wait)
{
	pthread_mutex_lock(lock);
	looker->coming--;
	if (wait)
		list_append(&looker->waits, &wait->link);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(lock);
}

/* A context of the session goes away. Its waits are over, unless the session has failed: then all are. */
void memops_leave_session(struct gdev_session *session)
{
	struct list over = {&over, &over};
	struct value_wait *wait, *next;
	struct looker *looker;

	pthread_mutex_lock(lock);
	while ((looker = find_looker(session)) && looker->looking)
		pthread_cond_wait(&changed, lock);
	if (looker && gdev_session_error(session, NULL))
		list_for_each_safe (wait, next, &looker->waits, link) {
			list_remove(&wait->link);
			list_append(&over, &wait->link);
		}
	pthread_mutex_unlock(lock);
	list_for_each_safe (wait, next, &over, link)
		wait_end(wait);
}

/* ---- operations on a stream ---- */

/* The stream waits for the next point of the gate, which is promised to the wait. */
static CUresult send_wait(CUstream stream, struct value_wait *wait)
{
	struct gdev_fence opening;
	CUresult result;

	TRY(gate_of(stream, &wait->gate));
	gdev_stream_fence(stream->stream, &wait->before);
	pthread_mutex_lock(lock);
	gdev_stream_fence(wait->gate->stream, &opening);
	opening.value = max_of(wait->gate->promised, opening.value) + 1;
	wait->gate->promised = opening.value;
	wait->gate->refs++;
	pthread_mutex_unlock(lock);
	result = result_of(gdev_stream_wait(stream->stream, &opening), "the stream cannot wait");
	if (result != CUDA_SUCCESS)
		gate_release(wait->gate);
	return result;
}

static CUresult wait_value(
	CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, unsigned bytes)
{
	struct value_wait *wait = calloc(1, sizeof *wait);
	struct looker *looker;
	CUresult result;

	if (!wait)
		return no_memory();
	wait->address = address;
	wait->value = value;
	wait->bytes = bytes;
	wait->condition = flags & WAIT_CONDITIONS;
	result = prepare_looking(stream->context->session, &looker);
	if (result == CUDA_SUCCESS) {
		result = send_wait(stream, wait);
		finish_looking(looker, result == CUDA_SUCCESS ? wait : NULL);
	}
	if (result != CUDA_SUCCESS)
		free(wait);
	return result;
}

static CUresult write_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned bytes)
{
	if (bytes == 4) {
		struct gdev_fill fill = {address, .width = 1, .height = 1, .element_bytes = 4,
			.value = (uint32_t)value};
		return result_of(
			gdev_fill_async(stream->stream, &fill), "the value cannot be written");
	}
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&value, bytes);
	copy.source_side = GDEV_SIDE_HOST;
	return result_of(gdev_copy_async(stream->stream, &copy), "the value cannot be written");
}

static CUresult check_address(CUdeviceptr address, unsigned bytes)
{
	struct allocation allocation;
	struct gdev_range range;

	if (address % bytes || !memory_find(address, &range, &allocation))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%#llx is in no memory of this context, or no multiple of %u",
			(unsigned long long)address, bytes);
	return CUDA_SUCCESS;
}

static CUresult check(const CUstreamBatchMemOpParams *op)
{
	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		if (op->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
			return fail(
				CUDA_ERROR_NOT_SUPPORTED, "a wait cannot flush remote writes here");
		if (op->waitValue.flags & ~(unsigned)WAIT_CONDITIONS)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"flags %#x have bits that mean nothing", op->waitValue.flags);
		return check_address(op->waitValue.address,
			op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		if (op->writeValue.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"flags %#x have bits that mean nothing", op->writeValue.flags);
		return check_address(op->writeValue.address,
			op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8);
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS; /* commands of a stream see what those before have written */
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return fail(CUDA_ERROR_NOT_SUPPORTED, "remote writes cannot be flushed here");
	default:
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no operation", (int)op->operation);
	}
}

static CUresult run(CUstream stream, const CUstreamBatchMemOpParams *op)
{
	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return wait_value(
			stream, op->waitValue.address, op->waitValue.value, op->waitValue.flags, 4);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return wait_value(stream, op->waitValue.address, op->waitValue.value64,
			op->waitValue.flags, 8);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return write_value(stream, op->writeValue.address, op->writeValue.value, 4);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return write_value(stream, op->writeValue.address, op->writeValue.value64, 8);
	default:
		return CUDA_SUCCESS;
	}
}

CUresult memops_check(const CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags)
{
	if (!count || count > MEMOPS_MAX || !ops || flags)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%u operations are none, or more than %d, or the list is NULL, or "
			"flags are not 0",
			count, MEMOPS_MAX);
	for (unsigned i = 0; i < count; i++)
		TRY(check(&ops[i]));
	return CUDA_SUCCESS;
}

CUresult memops_run(CUstream stream, const CUstreamBatchMemOpParams *ops, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		TRY(run(stream, &ops[i]));
	return CUDA_SUCCESS;
}

/* ---- the calls ---- */

CUresult cuStreamBatchMemOp_v2(
	CUstream handle, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags)
{
	CUstream stream;

	TRY(stream_record(handle, &stream));
	TRY(memops_check(ops, count, flags));
	if (stream->capture)
		return capture_memops(stream, ops, count, flags);
	return memops_run(stream, ops, count);
}

CUresult cuStreamWaitValue32_v2(
	CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32};

	op.waitValue.address = address;
	op.waitValue.value = value;
	op.waitValue.flags = flags;
	return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

CUresult cuStreamWaitValue64_v2(
	CUstream stream, CUdeviceptr address, uint64_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64};

	op.waitValue.address = address;
	op.waitValue.value64 = value;
	op.waitValue.flags = flags;
	return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

CUresult cuStreamWriteValue32_v2(
	CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32};

	op.writeValue.address = address;
	op.writeValue.value = value;
	op.writeValue.flags = flags;
	return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

CUresult cuStreamWriteValue64_v2(
	CUstream stream, CUdeviceptr address, uint64_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64};

	op.writeValue.address = address;
	op.writeValue.value64 = value;
	op.writeValue.flags = flags;
	return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

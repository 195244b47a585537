/* SPDX-License-Identifier: MIT
 *
 * Streams that write values to memory, and that wait for values there.
 *
 * A write is a fill or a small copy. For a wait, the stream waits for a point of another stream, the gate,
 * which is not there yet; a thread of the library looks at the memory, and sends what the gate lacks when
 * the value is there. Nothing of the device is held meanwhile, and other streams go on. The thread starts
 * with the first wait, and looks from every 50 us to every millisecond. Memory that the process reaches it
 * reads; other memory it copies, on a stream of its own.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "lib/cuda/internal.h"

#define LOOK_MIN_NS (50 * NS_PER_US)
#define LOOK_MAX_NS NS_PER_MS
#define WAIT_CONDITIONS (CU_STREAM_WAIT_VALUE_NOR) /* the flags without FLUSH */

/* A stream that only the thread sends to. One a stream that waits for values. */
struct gate {
	struct list link;
	unsigned refs; /* waits, and the stream that it belongs to */
	struct gdev_session *session;
	struct gdev_stream *stream;
	struct gdev_event *step; /* recording it sends a record */
	uint64_t promised;       /* points that somebody waits for */
};

struct value_wait {
	struct list link;
	struct gate *gate;
	struct gdev_fence before; /* the wait begins when the stream has got here */
	bool begun;
	uint64_t address, value;
	unsigned bytes, condition;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct list waits = {&waits, &waits}; /* oldest first */
static struct gdev_session *looking_in;      /* the session of the thread's own stream */
static struct gdev_stream *looking;
static bool running;

void memops_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&changed, NULL);
	list_init(&waits);
	looking_in = NULL;
	looking = NULL;
	running = false;
}

/* ---- gates; with the lock ---- */

static void gate_put(struct gate *gate)
{
	if (--gate->refs)
		return;
	gdev_event_destroy(gate->step);
	gdev_stream_destroy(gate->stream);
	free(gate);
}

static CUresult gate_create(struct gdev_session *session, struct gate **created)
{
	struct gate *gate = calloc(1, sizeof *gate);
	CUresult result;

	if (!gate)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gate->refs = 1;
	gate->session = session;
	result = result_of(gdev_stream_create(session, 0, &gate->stream));
	if (result == CUDA_SUCCESS)
		result = result_of(gdev_event_create(session, true, &gate->step));
	if (result != CUDA_SUCCESS) {
		gate_put(gate);
		return result;
	}
	*created = gate;
	return CUDA_SUCCESS;
}

void gate_release(struct gate *gate)
{
	if (!gate)
		return;
	pthread_mutex_lock(&lock);
	gate_put(gate);
	pthread_mutex_unlock(&lock);
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
	int error;

	if (looking_in != wait->gate->session) {
		gdev_stream_destroy(looking);
		looking = NULL;
		looking_in = NULL;
		error = gdev_stream_create(wait->gate->session, -5, &looking);
		if (error)
			return error;
		looking_in = wait->gate->session;
	}
	copy.source_side = GDEV_SIDE_DEVICE;
	return gdev_copy(looking, &copy);
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

/* Lets go all whose time has come; whether there were any. With the lock. */
static bool look_at_all(void)
{
	struct value_wait *wait, *next;
	bool any = false;

	list_for_each_safe (wait, next, &waits, link) {
		int status = look(wait);
		if (!status)
			continue;
		gdev_event_record(wait->gate->step, wait->gate->stream);
		list_remove(&wait->link);
		gate_put(wait->gate);
		free(wait);
		any = true;
	}
	return any;
}

static void *look_on(void *argument)
{
	uint64_t pause = LOOK_MIN_NS;

	pthread_setname_np(pthread_self(), "gdev-values");
	pthread_mutex_lock(&lock);
	for (;;) {
		while (list_empty(&waits)) {
			pthread_cond_wait(&changed, &lock);
			pause = LOOK_MIN_NS;
		}
		pause = look_at_all() ? LOOK_MIN_NS : min_of(pause * 5 / 4, (uint64_t)LOOK_MAX_NS);
		pthread_mutex_unlock(&lock);
		nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
		pthread_mutex_lock(&lock);
	}
	return NULL;
}

/* With the lock. */
static CUresult start_thread(void)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (running)
		return CUDA_SUCCESS;
	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, look_on, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	running = !error;
	return error ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* A context of the session goes away. Its waits are over, unless the session has failed: then all are. */
void memops_leave_session(struct gdev_session *session)
{
	struct value_wait *wait, *next;

	pthread_mutex_lock(&lock);
	list_for_each_safe (wait, next, &waits, link) {
		if (wait->gate->session != session || !gdev_session_error(session, NULL))
			continue;
		list_remove(&wait->link);
		gate_put(wait->gate);
		free(wait);
	}
	if (looking_in == session) {
		gdev_stream_destroy(looking);
		looking = NULL;
		looking_in = NULL;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- operations on a stream ---- */

/* With the lock. */
static CUresult add_wait(CUstream stream, struct value_wait *wait)
{
	struct gdev_fence opening;

	if (!stream->gate)
		TRY(gate_create(stream->context->session, &stream->gate));
	wait->gate = stream->gate;
	gdev_stream_fence(stream->stream, &wait->before);
	gdev_stream_fence(stream->gate->stream, &opening);
	stream->gate->promised = max_of(stream->gate->promised, opening.value) + 1;
	opening.value = stream->gate->promised;
	TRY_GDEV(gdev_stream_wait(stream->stream, &opening));
	stream->gate->refs++;
	list_append(&waits, &wait->link);
	pthread_cond_signal(&changed);
	return CUDA_SUCCESS;
}

static CUresult wait_value(
	CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, unsigned bytes)
{
	struct value_wait *wait = calloc(1, sizeof *wait);
	CUresult result;

	if (!wait)
		return CUDA_ERROR_OUT_OF_MEMORY;
	wait->address = address;
	wait->value = value;
	wait->bytes = bytes;
	wait->condition = flags & WAIT_CONDITIONS;
	pthread_mutex_lock(&lock);
	result = start_thread();
	if (result == CUDA_SUCCESS)
		result = add_wait(stream, wait);
	pthread_mutex_unlock(&lock);
	if (result != CUDA_SUCCESS)
		free(wait);
	return result;
}

static CUresult write_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned bytes)
{
	if (bytes == 4) {
		struct gdev_fill fill = {address, .width = 1, .height = 1, .element_bytes = 4,
			.value = (uint32_t)value};
		return result_of(gdev_fill_async(stream->stream, &fill));
	}
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&value, bytes);
	copy.source_side = GDEV_SIDE_HOST;
	return result_of(gdev_copy_async(stream->stream, &copy));
}

static CUresult check_address(CUdeviceptr address, unsigned bytes)
{
	struct allocation allocation;
	struct gdev_range range;

	if (address % bytes || !memory_find(address, &range, &allocation))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult check(const CUstreamBatchMemOpParams *op)
{
	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		if (op->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (op->waitValue.flags & ~(unsigned)WAIT_CONDITIONS)
			return CUDA_ERROR_INVALID_VALUE;
		return check_address(op->waitValue.address,
			op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		if (op->writeValue.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
			return CUDA_ERROR_INVALID_VALUE;
		return check_address(op->writeValue.address,
			op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8);
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS; /* commands of a stream see what those before have written */
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
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
		return CUDA_ERROR_INVALID_VALUE;
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

/* SPDX-License-Identifier: MIT
 *
 * Queues and units: which thread that lends itself does what next. One lock, cpu.h, guards all of
 * it; a thread picks a task under the lock, does it without, and says under the lock what follows.
 *
 * Nobody must sleep while something can run. A kick says so to the host; it is outstanding until
 * a thread enters work(). A thread that makes something runnable either kicks, or is inside work(), will
 * come again, and kicks when it then leaves more behind than it takes.
 */
#include "device/cpu/cpu.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/processor.h"
#include "gdev/error.h"

#define VISIT_NS (500 * NS_PER_US) /* how long a thread stays with one job */

enum task_kind { TASK_NONE, TASK_JOB, TASK_COMPILE, TASK_COPY, TASK_FINISH };

/* The device whose work() this thread is in: what it submits there from done() it will find by itself. */
static __thread struct device *inside;

struct task {
	enum task_kind kind;
	struct device_queue *queue;
	struct cpu_slot *slot;     /* JOB */
	uint64_t joined_ns;        /* JOB */
	uint64_t joined_part_ns;   /* cpu_absence.part_ns then */
	struct cpu_shape *shape;   /* COMPILE */
	enum device_resource unit; /* COPY */
	int error;                 /* FINISH */
};

static struct device_queue *first_queue(const struct list *list)
{
	return list_first(list, struct device_queue, place);
}

/* The engine that does it. Copies within the device are done by the one that copies to it. */
static enum device_resource unit_of(const struct device_command *command)
{
	if (command->kind != DEVICE_COPY)
		return RESOURCE_COMPUTE;
	return command->copy.direction == COPY_FROM_DEVICE ? RESOURCE_COPY_FROM_DEVICE
							   : RESOURCE_COPY_TO_DEVICE;
}

/* Lock held. Behind those that are as urgent. */
static void queue_list(struct device_queue *queue)
{
	struct list *head = &queue->space->device->runnable[unit_of(queue->first)];
	struct list *at = head->prev;

	while (at != head && list_entry(at, struct device_queue, place)->priority > queue->priority)
		at = at->prev;
	list_insert(at, &queue->place);
	queue->state = QUEUE_LISTED;
}

static bool space_broken(const struct device_space *space)
{
	return atomic_load_explicit(&space->broken, memory_order_relaxed);
}

/* Lock held. A place where the queue's launches may run; NULL: none is free. */
static struct cpu_slot *free_slot(struct device *device, const struct device_queue *queue)
{
	struct cpu_slot *slot;

	list_for_each (slot, &device->slots_free, free)
		if ((unsigned)(slot - device->slots) - queue->first_slot < queue->slot_count)
			return slot;
	return NULL;
}

/* Lock held. Whether one more thread could be at the queue's job. */
static bool is_open(struct device *device, const struct device_queue *queue)
{
	return cpu_job_open(&queue->job) && free_slot(device, queue);
}

/* Lock held. The job that a thread should join, if any. */
static struct device_queue *open_job(struct device *device)
{
	struct device_queue *queue, *best = NULL;

	list_for_each (queue, &device->jobs, place)
		if ((!best || queue->priority < best->priority) && is_open(device, queue))
			best = queue;
	return best;
}

/* Lock held. The most urgent queue whose launch or fill could begin; NULL: there is none. */
static struct device_queue *runnable_launch(struct device *device)
{
	struct device_queue *queue;

	list_for_each (queue, &device->runnable[RESOURCE_COMPUTE], place)
		if (free_slot(device, queue))
			return queue;
	return NULL;
}

/* Lock held. Something for one more thread; `job` does not count (NULL: everything does). */
static bool has_work_beside(struct device *device, const struct device_queue *job)
{
	const struct device_queue *queue;

	for (int unit = RESOURCE_COPY_TO_DEVICE; unit < RESOURCES; unit++)
		if (!device->engine_busy[unit] && !list_empty(&device->runnable[unit]))
			return true;
	if (list_empty(&device->slots_free) || device->paused)
		return false;
	if (runnable_launch(device))
		return true;
	list_for_each (queue, &device->jobs, place)
		if (queue != job && is_open(device, queue))
			return true;
	return false;
}

/* Lock held. True: kick the host when the lock is released. */
static bool wants_kick_beside(struct device *device, const struct device_queue *job)
{
	if (device->kicked || !has_work_beside(device, job))
		return false;
	device->kicked = true;
	return true;
}

static bool wants_kick(struct device *device)
{
	return wants_kick_beside(device, NULL);
}

/* Ends the first command. Only the thread that has the queue calls it, without the lock. */
static void queue_finish(struct device_queue *queue, int error)
{
	struct device *device = queue->space->device;
	struct device_command *command;
	bool destroyed;

	if (error == -GDEV_E_ILLEGAL_ADDRESS || error == -GDEV_E_TRAP || error == -GDEV_E_ASSERT ||
		error == -GDEV_E_STACK_OVERFLOW)
		atomic_store(&queue->space->broken, true);
	cpu_children_finish(&queue->job);
	queue->started = false;
	pthread_mutex_lock(&device->lock);
	command = queue->first;
	queue->first = command->next;
	pthread_mutex_unlock(&device->lock);
	/* Its successor starts afterwards, so that commands of a queue are done in their order. */
	command->done(command, error);
	pthread_mutex_lock(&device->lock);
	destroyed = queue->destroyed;
	queue->state = QUEUE_IDLE;
	if (queue->first && !destroyed)
		queue_list(queue);
	pthread_mutex_unlock(&device->lock);
	if (destroyed) {
		free(queue->job.params);
		free(queue);
	}
}

/* For a launch that never got to a unit. */
static void queue_refuse(struct device_queue *queue, int error)
{
	struct device_command *command = queue->first;

	command->finished_ns = clock_now_ns();
	if (!queue->started) /* else kernels of it have run */
		device_command_start(command, command->finished_ns);
	command->busy_ns = command->finished_ns - command->started_ns;
	queue_finish(queue, error);
}

/* ---- the compute unit ---- */

/* Lock held. Gives `task` a place at the job. */
static void job_join(
	struct device *device, struct device_queue *queue, struct task *task, uint64_t now_ns)
{
	task->kind = TASK_JOB;
	task->queue = queue;
	task->slot = free_slot(device, queue);
	list_remove(&task->slot->free);
	queue->job.running++;
	device->running++;
	task->joined_ns = now_ns;
	cpu_absence_count(device, now_ns);
	task->joined_part_ns = device->absence.part_ns;
}

/* Lock held. Makes a job of a launch: 0, or an error, or 1: the code is not there yet, and either
 * task->shape is for this thread to build or the queue waits for another that builds it. */
static int launch_begin(struct device_queue *queue, struct task *task)
{
	struct device_command *command = queue->first;
	const struct device_launch *launch;
	struct cpu_shape *shape;
	int error;

	if (command->launch.graph && !queue->job.child) {
		error = cpu_graph_begin(&queue->job, command);
		if (error || !queue->job.child)
			return error;
	}
	launch = cpu_job_launched(&queue->job, command);
	if (cpu_child_moves(&queue->job, command))
		return 0;
	error = cpu_launch_check(launch, queue->slot_count);
	if (error)
		return error;
	shape = cpu_shape_get(launch->function, launch->block);
	if (!shape)
		return -ENOMEM;
	switch (shape->state) {
	case SHAPE_NEW:
		shape->state = SHAPE_COMPILING;
		task->shape = shape;
		return 1;
	case SHAPE_COMPILING:
		list_append(&shape->waiting, &queue->place);
		queue->state = QUEUE_LISTED;
		return 1;
	case SHAPE_FAILED:
		return shape->error;
	default:
		return cpu_job_launch(&queue->job, command, shape);
	}
}

/* Lock held. Starts the first command of a queue that this thread took; TASK_NONE when the queue
 * has to wait. */
static void compute_begin(struct device *device, struct device_queue *queue, struct task *task)
{
	struct device_command *command = queue->first;
	uint64_t now_ns;
	int status = 0;

	task->queue = queue;
	if (space_broken(queue->space))
		status = -GDEV_E_SESSION_LOST;
	else if (command->kind == DEVICE_LAUNCH)
		status = launch_begin(queue, task);
	else
		cpu_job_fill(&queue->job, command);
	if (status > 0) {
		task->kind = task->shape ? TASK_COMPILE : TASK_NONE;
	} else if (status < 0 || !queue->job.count) {
		task->kind = TASK_FINISH;
		task->error = status;
	} else {
		now_ns = clock_now_ns();
		if (!queue->started)
			device_command_start(command, now_ns);
		queue->started = true;
		list_append(&device->jobs, &queue->place);
		job_join(device, queue, task, now_ns);
	}
}

static void pick_compute(struct device *device, struct task *task)
{
	struct device_queue *job, *queue;

	if (list_empty(&device->slots_free) || device->paused)
		return;
	job = open_job(device);
	queue = runnable_launch(device);
	if (job && (!queue || job->priority <= queue->priority)) {
		job_join(device, job, task, clock_now_ns());
		return;
	}
	while (task->kind == TASK_NONE && (queue = runnable_launch(device))) {
		list_remove(&queue->place);
		queue->state = QUEUE_TAKEN;
		compute_begin(device, queue, task);
	}
}

static void job_finish(struct device_queue *queue)
{
	struct device_command *command = queue->job.command;

	/* The start is put off while the command is paused. */
	uint64_t started_ns = __atomic_load_n(&command->started_ns, __ATOMIC_RELAXED);

	command->finished_ns = max_of(queue->job.ended_ns, started_ns);
	command->busy_ns = command->finished_ns - started_ns;
	command->fault_address = atomic_load(&queue->job.fault_address);
	queue_finish(queue, atomic_load(&queue->job.error));
}

/* After the first piece it is known how long the rest takes. */
static void invite(struct device *device, const struct cpu_job *job)
{
	bool kick;

	if (device->threads == 1 || atomic_load(&job->next) >= job->count)
		return;
	pthread_mutex_lock(&device->lock);
	kick = wants_kick(device);
	pthread_mutex_unlock(&device->lock);
	if (kick)
		device->host->kick(device->host->owner);
}

/* Takes the lock, and says when: `now_ns`, unless it took a while to get it. */
static uint64_t lock_device(struct device *device, uint64_t now_ns)
{
	if (!pthread_mutex_trylock(&device->lock))
		return now_ns;
	pthread_mutex_lock(&device->lock);
	return clock_now_ns();
}

/* Launches come by the million a second: the clock is read once a piece, and its times are used again. */
static void run_job(struct device *device, struct task *task)
{
	struct device_queue *queue = task->queue;
	struct cpu_job *job = &queue->job;
	struct cpu_stay stay = {.from_ns = task->joined_ns};
	bool last, quiet, together = job->together;
	uint64_t now_ns = task->joined_ns;

	processor_begin(now_ns, cpu_job_left_ns(job));
	if (cpu_job_piece(job, task->slot, device->threads, &now_ns)) {
		invite(device, job);
		while (now_ns - task->joined_ns < VISIT_NS &&
			cpu_job_piece(job, task->slot, device->threads, &now_ns))
			;
	}
	stay.to_ns = now_ns;
	if (!together) { /* its blocks wait for each other, and that is no loss */
		stay.lost_ns = processor_lost_ns(stay.from_ns, stay.to_ns);
		cpu_job_lost(job, stay.lost_ns);
	}
	now_ns = lock_device(device, now_ns);
	list_insert(&device->slots_free, &task->slot->free);
	job->ended_ns = max_of(job->ended_ns, stay.to_ns);
	last = !--job->running && atomic_load(&job->next) >= job->count;
	if (last) {
		list_remove(&queue->place);
		if (job->shape)
			job->shape->ns_per_block = cpu_job_ns_per_block(job);
		if (cpu_children_next(job)) {
			queue_list(queue);
			last = false;
		}
	}
	quiet = !--device->running && device->tell_quiet;
	cpu_absence_count(device, now_ns);
	if (!together) {
		cpu_presence_late(&stay, now_ns);
		stay.part_ns = device->absence.part_ns - task->joined_part_ns;
		cpu_presence_count(device, RESOURCE_COMPUTE, &stay);
	}
	if (quiet)
		device->tell_quiet = false;
	pthread_mutex_unlock(&device->lock);
	if (last)
		job_finish(queue);
	if (quiet)
		device->host->quiet(device->host->owner);
}

/* Builds the code that a launch lacks; the queue, and those that waited for the same code, are
 * runnable again then. */
static void run_compile(struct device *device, struct task *task)
{
	struct device_function *function =
		cpu_job_launched(&task->queue->job, task->queue->first)->function;
	struct device_queue *queue, *after;
	struct cpu_shape *shape = task->shape;
	const struct ptx_code *code = NULL;
	int error = cpu_shape_build(function, shape->block, &code);

	pthread_mutex_lock(&device->lock);
	shape->code = code;
	shape->error = error;
	shape->state = !error ? SHAPE_READY : error == -ENOMEM ? SHAPE_NEW : SHAPE_FAILED;
	if (!error)
		queue_list(task->queue);
	list_for_each_safe (queue, after, &shape->waiting, place) {
		list_remove(&queue->place);
		queue_list(queue);
	}
	pthread_mutex_unlock(&device->lock);
	if (error)
		queue_refuse(task->queue, error);
}

/* ---- the copy engines ---- */

static void pick_copy(struct device *device, enum device_resource unit, struct task *task)
{
	struct device_queue *queue = first_queue(&device->runnable[unit]);

	if (!queue || device->engine_busy[unit])
		return;
	list_remove(&queue->place);
	queue->state = QUEUE_TAKEN;
	device->engine_busy[unit] = true;
	*task = (struct task){.kind = TASK_COPY, .queue = queue, .unit = unit};
}

static void run_copy(struct device *device, struct task *task)
{
	struct device_queue *queue = task->queue;
	struct device_command *command = queue->first;
	struct cpu_stay stay = {0};
	int status;

	if (!queue->started) {
		queue->started = true;
		device_command_start(command, clock_now_ns());
		command->busy_ns = 0;
		cpu_copy_start(queue->space, &queue->copy, &command->copy);
	}
	stay.from_ns = clock_now_ns();
	processor_begin(stay.from_ns, cpu_copy_slice_ns(&queue->copy));
	status = space_broken(queue->space) ? -GDEV_E_SESSION_LOST
					    : cpu_copy_slice(&queue->copy, &command->fault_address);
	stay.to_ns = command->finished_ns = clock_now_ns();
	stay.lost_ns = processor_lost_ns(stay.from_ns, stay.to_ns);
	stay.part_ns = stay.to_ns - stay.from_ns;
	cpu_presence_count(device, copy_resource(command->copy.direction), &stay);
	command->busy_ns += command->finished_ns - stay.from_ns;
	pthread_mutex_lock(&device->lock);
	device->engine_busy[task->unit] = false;
	if (!status)
		queue_list(queue);
	pthread_mutex_unlock(&device->lock);
	if (status)
		queue_finish(queue, status < 0 ? status : 0);
}

/* ---- the device's side of the interface ---- */

static void pick(struct device *device, struct task *task)
{
	unsigned turn = device->turn++; /* no unit starves when there is one thread */

	for (unsigned i = 0; task->kind == TASK_NONE && i < RESOURCES; i++) {
		enum device_resource unit = (turn + i) % RESOURCES;
		if (unit == RESOURCE_COMPUTE)
			pick_compute(device, task);
		else
			pick_copy(device, unit, task);
	}
}

/* Lock held. The launch has just begun, and its first piece is short: others are called after it. A client that
 * launched this and is about to wait has left its processor then, where they are to run; called at once they would be put
 * behind this thread, and stay there for milliseconds. */
static bool invites_soon(const struct task *task)
{
	return task->kind == TASK_JOB && task->queue->job.running == 1 &&
	       cpu_job_begins_short(&task->queue->job);
}

bool cpu_work(struct device *device)
{
	struct task task = {.kind = TASK_NONE};
	bool kick = false;

	pthread_mutex_lock(&device->lock);
	device->kicked = false;
	pick(device, &task);
	if (task.kind != TASK_NONE)
		kick = wants_kick_beside(device, invites_soon(&task) ? task.queue : NULL);
	pthread_mutex_unlock(&device->lock);
	if (kick)
		device->host->kick(device->host->owner);
	inside = device;
	switch (task.kind) {
	case TASK_NONE:
		break;
	case TASK_JOB:
		run_job(device, &task);
		break;
	case TASK_COMPILE:
		run_compile(device, &task);
		break;
	case TASK_COPY:
		run_copy(device, &task);
		break;
	case TASK_FINISH:
		queue_refuse(task.queue, task.error);
		break;
	}
	inside = NULL;
	return task.kind != TASK_NONE;
}

bool cpu_pause(struct device *device, bool pause)
{
	bool quiet, kick;

	pthread_mutex_lock(&device->lock);
	atomic_store(&device->paused, pause);
	cpu_absence_count(device, clock_now_ns());
	quiet = !device->running;
	device->tell_quiet = pause && !quiet;
	kick = !pause && inside != device && wants_kick(device);
	pthread_mutex_unlock(&device->lock);
	if (kick)
		device->host->kick(device->host->owner);
	return quiet;
}

void cpu_submit(struct device_queue *queue, struct device_command *command)
{
	struct device *device = queue->space->device;
	bool kick = false;

	if (atomic_load_explicit(&device->retired, memory_order_relaxed))
		atomic_store(&queue->space->broken, true);
	command->next = NULL;
	pthread_mutex_lock(&device->lock);
	if (queue->first)
		queue->last->next = command;
	else
		queue->first = command;
	queue->last = command;
	if (queue->state == QUEUE_IDLE) {
		queue_list(queue);
		kick = inside != device && wants_kick(device);
	}
	pthread_mutex_unlock(&device->lock);
	if (kick)
		device->host->kick(device->host->owner);
}

int cpu_queue_create(struct device_space *space, int priority, struct device_queue **out)
{
	struct device_queue *queue = aligned_alloc(64, (sizeof *queue + 63) / 64 * 64);

	if (!queue)
		return -ENOMEM;
	*queue = (struct device_queue){.space = space,
		.priority = priority,
		.slot_count = space->device->threads,
		.job.space = space};
	list_init(&queue->place);
	cpu_children_init(&queue->job);
	*out = queue;
	return 0;
}

int cpu_queue_bind(struct device_queue *queue, uint32_t first, uint32_t count)
{
	const struct device *device = queue->space->device;

	if (!count || first >= device->threads || count > device->threads - first)
		return -EINVAL;
	queue->first_slot = first;
	queue->slot_count = count;
	return 0;
}

void cpu_queue_destroy(struct device_queue *queue)
{
	struct device *device = queue->space->device;
	bool taken;

	pthread_mutex_lock(&device->lock);
	taken = queue->state == QUEUE_TAKEN;
	queue->destroyed = true;
	pthread_mutex_unlock(&device->lock);
	if (!taken) {
		free(queue->job.params);
		free(queue);
	}
}

/* SPDX-License-Identifier: MIT
 *
 * See core.h: making a session's core and taking it apart, the lock, the end.
 */
#include "worker/core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/graph.h"
#include "worker/module.h"

static void fill_header(struct session_header *header, const struct device_ops *ops)
{
	header->magic = SESSION_MAGIC;
	header->version = SESSION_VERSION_MAX;
	header->segment_bytes = sizeof(struct session_segment);
	header->timeline_offset = offsetof(struct session_segment, timelines);
	header->timeline_count = SESSION_TIMELINES;
	header->reply_offset = offsetof(struct session_segment, replies);
	header->reply_count = SESSION_REPLIES;
	header->stamp_offset = offsetof(struct session_segment, stamps);
	header->stamp_count = SESSION_STAMPS;
	header->ring_offset = offsetof(struct session_segment, ring);
	header->ring_bytes = SESSION_RING_BYTES;
	header->output_offset = offsetof(struct session_segment, output);
	header->output_bytes = SESSION_OUTPUT_BYTES;
	if (get_nprocs() >= MANY_PROCESSORS)
		header->look_us = (uint32_t)(ops->timing.look_ns / NS_PER_US);
	header->worker_state = SESSION_WORKER_ASLEEP;
}

int core_map_shared(const char *name, uint64_t bytes, int *fd, void **mapping)
{
	*fd = fd_shared_memory(name, bytes);
	if (*fd < 0)
		return *fd;
	*mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (*mapping == MAP_FAILED) {
		*mapping = NULL;
		return -errno;
	}
	return 0;
}

/* So that registering it, when the client is there, does not have to find the pages first. */
static void touch_staging(struct core *core)
{
	void *mapped = mmap(NULL, core->config.staging_bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_POPULATE, core->staging_fd, 0);

	if (mapped != MAP_FAILED)
		munmap(mapped, core->config.staging_bytes);
}

static int make_shared(struct core *core)
{
	int error;

	error = core_map_shared(
		"gdev-session", sizeof *core->segment, &core->segment_fd, (void **)&core->segment);
	if (!error)
		error = core_map_shared(
			"gdev-worker", sizeof *core->page, &core->page_fd, (void **)&core->page);
	if (error)
		return error;
	fill_header(&core->segment->header, core->ops);
	error = trace_init(core);
	if (error)
		return error;
	core->staging_fd = fd_shared_memory("gdev-staging", core->config.staging_bytes);
	if (core->staging_fd < 0)
		return core->staging_fd;
	if (core->ops->host_register)
		touch_staging(core);
	core->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	core->client_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return core->wake_fd < 0 || core->client_fd < 0 ? -errno : 0;
}

static int describe_device(struct core *core)
{
	unsigned wanted = core->config.device.index;
	struct device_info *infos;
	int count;

	if (wanted >= 1024)
		return -ENODEV;
	infos = calloc(wanted + 1, sizeof *infos);
	if (!infos)
		return -ENOMEM;
	count = core->ops->probe(&core->config.device, infos, wanted + 1);
	if (count > (int)wanted)
		core->device_info = infos[wanted];
	/* The administrator may give us less of a device than there is. */
	if (core->config.device.memory_bytes &&
		core->config.device.memory_bytes < core->device_info.memory_bytes)
		core->device_info.memory_bytes = core->config.device.memory_bytes;
	free(infos);
	return count > (int)wanted ? 0 : -ENODEV;
}

/* device_host.explain. What the client reads meanwhile may be of two sentences, and ends. */
static void tell_client_why(void *owner, const char *sentence)
{
	struct core *core = owner;
	char *why = core->segment->header.why;

	core_lock(core);
	snprintf(why, SESSION_WHY_BYTES, "%s", sentence);
	core_unlock(core);
}

static int open_device(struct core *core)
{
	int error = describe_device(core);

	if (error)
		return error;
	core->device_host = (struct device_host){
		.owner = core,
		.kick = service_kick,
		.print = output_print,
		.cache_load = cache_load,
		.cache_store = cache_store,
		.quiet = grants_quiet,
		.explain = tell_client_why,
	};
	return core->ops->open(&core->config.device, &core->device_host, &core->device);
}

static void release_shared(struct core *core)
{
	int fds[] = {core->segment_fd, core->staging_fd, core->page_fd, core->wake_fd,
		core->client_fd, core->peer_fd};

	fd_close_all(fds, array_length(fds));
	if (core->segment)
		munmap(core->segment, sizeof *core->segment);
	if (core->page)
		munmap(core->page, sizeof *core->page);
	if (core->turns)
		munmap(core->turns, sizeof *core->turns);
	trace_finish(core);
	pthread_mutex_destroy(&core->lock);
	pthread_mutex_destroy(&core->output_lock);
	free(core);
}

static uint64_t machine_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

int core_create(const struct core_config *config, struct core **result)
{
	struct core *core = calloc(1, sizeof *core);
	int error;

	if (!core)
		return -ENOMEM;
	core->config = *config;
	if (!core->config.staging_bytes)
		core->config.staging_bytes = config->ops->staging_bytes;
	if (!core->config.staging_bytes)
		core->config.staging_bytes = STAGING_BYTES_DEFAULT;
	if (!core->config.host_bytes)
		core->config.host_bytes = machine_bytes() / 2;
	core->ops = config->ops;
	core->segment_fd = core->staging_fd = core->page_fd = -1;
	core->wake_fd = core->client_fd = core->peer_fd = core->trace.fd = -1;
	core->window_ns = config->ops->timing.window_ns;
	pthread_mutex_init(&core->lock, NULL);
	pthread_mutex_init(&core->output_lock, NULL);
	list_init(&core->recycled.list);
	list_init(&core->opening);
	streams_init(core);
	memory_init(core);
	residency_init(core);
	swap_init(core);
	grants_init(core);
	direct_init(core);
	events_init(core);
	error = make_shared(core);
	if (error)
		goto err_release;
	error = open_device(core);
	if (error)
		goto err_release;
	context_init(core);
	error = service_init(core);
	if (error)
		goto err_device;
	control_init(core);
	*result = core;
	return 0;

err_device:
	core->ops->close(core->device);
err_release:
	release_shared(core);
	return error;
}

static int map_staging(struct core *core, uint64_t address)
{
	void *mapped = mmap((void *)(uintptr_t)address, core->config.staging_bytes,
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, core->staging_fd, 0);

	return mapped == MAP_FAILED ? -errno : 0;
}

static bool arena_is_sane(const struct core *core, const struct control_attach *attach)
{
	uint64_t end;

	return attach->arena_base && !(attach->arena_base % ARENA_ALIGN) &&
	       !(attach->arena_bytes % ARENA_ALIGN) &&
	       attach->arena_bytes > core->config.staging_bytes &&
	       !__builtin_add_overflow(attach->arena_base, attach->arena_bytes, &end);
}

/* Without it every handover takes messages. */
static struct turns *map_turns(int fd)
{
	uint64_t bytes;
	void *mapped;

	if (fd < 0 || fd_shared_memory_size(fd, &bytes) || bytes < sizeof(struct turns))
		return NULL;
	mapped = mmap(NULL, sizeof(struct turns), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return mapped == MAP_FAILED ? NULL : mapped;
}

/* Has the session's kernels leave between blocks, or in the middle of one too, on a device where that has to be chosen. */
static void let_preempt(struct core *core, bool loops)
{
	int error = core->ops->preempt ? core->ops->preempt(core->space, loops) : -ENOTSUP;

	core->preempts = !error;
	if (error && core->ops->preempt)
		log_warning("kernels will not leave between blocks: %s", gdev_strerror(error));
}

void core_properties(const struct core *core, int32_t properties[DEVICE_PROPERTIES])
{
	int32_t capability = (int32_t)core->session.compute_capability;

	memcpy(properties, core->device_info.properties, sizeof core->device_info.properties);
	if (!capability)
		return;
	properties[PROPERTY_COMPUTE_MAJOR] = capability / 10;
	properties[PROPERTY_COMPUTE_MINOR] = capability % 10;
}

/* For which compute capability modules are loaded; 0: the device's own. */
static int set_capability(struct core *core, uint32_t capability)
{
	if (!capability)
		return 0;
	return core->ops->capability ? core->ops->capability(core->space, capability) : -ENOTSUP;
}

int core_attach(struct core *core, const struct control_attach *attach, int peer_fd, int turns_fd)
{
	uint64_t staging = core->config.staging_bytes;
	struct range *range;
	int error;

	if (core->attached || core->memory.carrying || !arena_is_sane(core, attach))
		return -EINVAL;
	error = core->ops->space_create(core->device, &core->space);
	if (error)
		return error;
	error = core->ops->space_reserve(core->space, attach->arena_base, attach->arena_bytes);
	if (!error)
		error = set_capability(core, attach->compute_capability);
	if (!error && (attach->features & FEATURE_PREEMPT))
		let_preempt(core, attach->features & FEATURE_LOOPS);
	if (!error)
		error = map_staging(core, attach->arena_base);
	if (error)
		goto err_space;
	core->session = *attach;
	error = memory_insert(core, RANGE_STAGING, attach->arena_base, staging, &range);
	if (error)
		goto err_space;
	range->ready = true;
	error = memory_register(core, attach->arena_base, staging);
	if (error)
		goto err_range;
	fcntl(peer_fd, F_SETFL, fcntl(peer_fd, F_GETFL) | O_NONBLOCK);
	core->peer_fd = peer_fd;
	error = service_watch(core, peer_fd);
	if (error)
		goto err_registered;
	core->memory.limit_bytes = attach->memory_limit_bytes;
	core->limit.limit_ns = attach->time_limit_ms * NS_PER_MS;
	__atomic_store_n(&core->turns, map_turns(turns_fd),
		__ATOMIC_RELEASE); /* the poller may look already */
	__atomic_store_n(&core->attached, true, __ATOMIC_RELEASE);
	direct_update(core);
	__atomic_store_n(&core->page->active_ns, clock_coarse_ns(), __ATOMIC_RELAXED);
	return 0;

err_registered:
	core->peer_fd = -1;
	memory_unregister(core, attach->arena_base, staging);
err_range:
	memory_remove(core, range);
err_space:
	core->ops->space_destroy(core->space);
	core->space = NULL;
	return error;
}

void core_destroy(struct core *core)
{
	if (!core)
		return;
	service_stop(core);
	control_finish(core);
	service_drain(core);
	streams_finish(core);
	graphs_finish(core);
	service_drain(core); /* modules that only what was queued still needed */
	events_finish(core);
	modules_finish(core);
	images_finish(core);
	memory_finish(core);
	swap_finish(core);
	residency_finish(core);
	commands_finish(core);
	if (core->attached) {
		memory_unregister(core, core->session.arena_base, core->config.staging_bytes);
		core->ops->space_destroy(core->space);
	}
	core->ops->close(core->device);
	service_finish(core);
	release_shared(core);
}

void core_lock(struct core *core)
{
	pthread_mutex_lock(&core->lock);
}

/* The stack is newest first; commands of one stream are to be seen in their order. */
static bool take_completions(struct core *core)
{
	struct command *newest = __atomic_exchange_n(&core->done, NULL, __ATOMIC_ACQUIRE);
	struct command *oldest = NULL;

	if (!newest)
		return false;
	while (newest) {
		struct command *next = newest->done_next;
		newest->done_next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		struct command *next = oldest->done_next;
		stream_finished(core, oldest);
		oldest = next;
	}
	return true;
}

void core_unlock(struct core *core)
{
	for (;;) {
		do
			streams_dispatch(core);
		while (take_completions(core) || grants_take_quiet(core));
		pthread_mutex_unlock(&core->lock);
		/* A thread that pushed a command while we held the lock saw the lock taken, and left the command to
		 * us. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&core->done, __ATOMIC_RELAXED) &&
			!__atomic_load_n(&core->grants.quiet, __ATOMIC_RELAXED))
			return;
		if (pthread_mutex_trylock(&core->lock))
			return;
	}
}

bool core_error_is_fatal(int error)
{
	switch (-error) {
	case GDEV_E_ILLEGAL_ADDRESS:
	case GDEV_E_TRAP:
	case GDEV_E_ASSERT:
	case GDEV_E_STACK_OVERFLOW:
	case GDEV_E_LAUNCH_TIMEOUT:
	case GDEV_E_SESSION_LOST:
	case GDEV_E_DEVICE_LOST:
	case GDEV_E_PROTOCOL:
		return true;
	default:
		return false;
	}
}

void core_fail(struct core *core, int error, uint64_t fault_address)
{
	struct session_header *header = &core->segment->header;

	if (core->error)
		return;
	core->error = error;
	__atomic_store_n(&header->fault_address, fault_address, __ATOMIC_RELAXED);
	__atomic_store_n(&header->error, error, __ATOMIC_RELEASE);
	log_info("session %llu: %s (%#llx)", (unsigned long long)core->session.session,
		gdev_strerror(error), (unsigned long long)fault_address);
	streams_ready_all(core);
}

/* What gdevd keeps of the session. */
static void write_down_end(struct core *core)
{
	uint32_t end = 0;

	if (core->attached && !__atomic_load_n(&core->segment->header.leaves, __ATOMIC_RELAXED))
		end |= WORKER_END_CUT_OFF;
	if (!events_all_reached(core))
		end |= WORKER_END_UNREACHED;
	__atomic_store_n(&core->page->end, end, __ATOMIC_RELAXED);
}

void core_end(struct core *core, int reason)
{
	const struct control_header bye = {
		.length = sizeof bye,
		.type = CONTROL_BYE,
		.version = CONTROL_VERSION,
		.status = reason,
	};

	if (core->ended)
		return;
	core->ended = true;
	direct_count(core);
	write_down_end(core);
	if (reason && core->attached)
		log_error("session %llu ends: %s", (unsigned long long)core->session.session,
			gdev_strerror(reason));
	if (!reason || core->attached)
		control_send(core, &bye, NULL, 0);
	core_fail(core, reason ? reason : -GDEV_E_SESSION_LOST, 0);
	core->config.ended(core->config.owner, reason);
}

void core_abandon(struct core *core, int error)
{
	core_fail(core, error, 0);
	timelines_release(core, error);
	core_end(core, error);
}

void core_wake_client(struct core *core)
{
	uint64_t one = 1;

	/* It cannot fail but by being full of wakes. */
	if (write(core->client_fd, &one, sizeof one) < 0)
		return;
}

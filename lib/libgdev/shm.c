/* SPDX-License-Identifier: MIT
 *
 * The transport of a process on the same machine: a session segment shared with the worker, an eventfd in
 * each direction, and a socket for descriptors (proto/session.h, proto/peer.h). Sending a record is a
 * short critical section without system calls while the worker is awake.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "lib/libgdev/sender.h"
#include "lib/libgdev/transport.h"
#include "lib/libgdev/waiting.h"
#include "proto/peer.h"
#include "proto/timing.h"

#define ROUSED_IN_VAIN 4     /* so often, and no record came: none is expected any more */
#define NO_THREAD UINT32_MAX /* is nobody's id, nor 0, which an unknown one is */

struct shm {
	struct transport base;
	struct shm_connection connection;
	struct waiting waiting;
	struct sender sender;
	uint32_t thread; /* as published; NO_THREAD: none yet. The sender's lock */

	_Atomic uint64_t roused_at; /* the tail then, */
	atomic_uint roused;         /* and how often since that moved */

	pthread_mutex_t peer_lock; /* one request on the peer socket at a time */
	uint32_t serial;
};

static struct shm *shm_of(struct transport *transport)
{
	return (struct shm *)transport;
}

/* ---- records ---- */

static int shm_begin(struct transport *transport, uint32_t length, void **record)
{
	return sender_begin(&shm_of(transport)->sender, length, record);
}

static void wake_worker(struct shm *shm)
{
	if (sender_must_wake(&shm->base))
		eventfd_write(shm->connection.wake_worker, 1);
}

/* The id of this thread; 0 before it is known. In the thread's static block, where it costs no call. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t my_thread;

/* Another process for which this thread submits; 0: it does for itself. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t other;

int32_t gdev_submit_for(int32_t process)
{
	uint32_t before = other;

	other = (uint32_t)process;
	return (int32_t)before;
}

static uint32_t whose(void)
{
	return other ? other : my_thread;
}

/* Says whose nice value counts: gdevd asks the kernel for it. */
static void publish_thread(struct shm *shm)
{
	if (!my_thread)
		my_thread = (uint32_t)gettid();
	shm->thread = whose();
	__atomic_store_n(&shm->base.segment->header.thread, shm->thread, __ATOMIC_RELAXED);
}

static void shm_commit(struct transport *transport)
{
	struct shm *shm = shm_of(transport);

	if (shm->thread != whose())
		publish_thread(shm);
	sender_commit(&shm->sender);
	wake_worker(shm);
}

/* A client that copies all the time, and sends no records, would have a thread of the worker's look at an empty ring
 * all the time. Two threads at once may count wrong by one. */
static void shm_rouse(struct transport *transport)
{
	uint64_t tail = __atomic_load_n(&transport->segment->header.ring_tail, __ATOMIC_RELAXED);
	struct shm *shm = shm_of(transport);

	if (atomic_exchange_explicit(&shm->roused_at, tail, memory_order_relaxed) != tail)
		atomic_store_explicit(&shm->roused, 0, memory_order_relaxed);
	if (atomic_fetch_add_explicit(&shm->roused, 1, memory_order_relaxed) < ROUSED_IN_VAIN)
		wake_worker(shm);
}

/* Always: a worker that is awake looks at the ring, not at host_completed. */
static void shm_kick(struct transport *transport)
{
	eventfd_write(shm_of(transport)->connection.wake_worker, 1);
}

static int shm_wait(struct transport *transport, const struct gdev_fence *points, unsigned count,
	uint64_t deadline_ns, const atomic_bool *cancel)
{
	return waiting_wait(&shm_of(transport)->waiting, points, count, deadline_ns, cancel);
}

static void shm_cancel(struct transport *transport)
{
	waiting_cancel(&shm_of(transport)->waiting);
}

/* ---- descriptors ---- */

/* Sends a request and receives its answer; `fds` is capacity in, count out. */
static int ask_peer(
	struct shm *shm, struct peer_message *message, int fd, int *fds, size_t *fd_count)
{
	size_t none = 0;
	ssize_t length;
	int error;

	message->serial = ++shm->serial;
	error = fd_send(shm->connection.peer, message, sizeof *message, &fd, fd >= 0);
	if (error)
		goto out;
	length = fd_receive(
		shm->connection.peer, message, sizeof *message, fds, fd_count ? fd_count : &none);
	if (length == sizeof *message && message->serial == shm->serial)
		return message->status;
	if (length > 0 && fd_count)
		fd_close_all(fds, *fd_count);
	error = length > 0 ? -GDEV_E_PROTOCOL : length < 0 ? (int)length : -EPIPE;
out:
	if (fd_count)
		*fd_count = 0;
	if (error == -EPIPE || error == -ECONNRESET) {
		atomic_store(&shm->base.lost, true);
		waiting_cancel(&shm->waiting);
		error = transport_error(&shm->base);
	}
	return error;
}

/* Sends one descriptor, or none (-1); `message` becomes the answer. */
static int give_descriptor(struct transport *transport, struct peer_message *message, int fd)
{
	struct shm *shm = shm_of(transport);
	int error;

	if (atomic_load(&transport->lost))
		return transport_error(transport);
	pthread_mutex_lock(&shm->peer_lock);
	error = ask_peer(shm, message, fd, NULL, NULL);
	pthread_mutex_unlock(&shm->peer_lock);
	return error;
}

static int shm_host_add(
	struct transport *transport, uint64_t address, uint64_t bytes, int fd, uint64_t offset)
{
	struct peer_message message = {
		.type = PEER_HOST_ADD, .address = address, .bytes = bytes, .piece_bytes = {offset}};

	return give_descriptor(transport, &message, fd);
}

static int shm_range_add(struct transport *transport, uint64_t address, uint64_t bytes)
{
	struct peer_message message = {.type = PEER_RANGE_ADD, .address = address, .bytes = bytes};

	return give_descriptor(transport, &message, -1);
}

static int shm_image_add(struct transport *transport, uint64_t bytes, int fd, uint64_t *number)
{
	struct peer_message message = {.type = PEER_IMAGE, .bytes = bytes};
	int error = give_descriptor(transport, &message, fd);

	if (!error)
		*number = message.address;
	return error;
}

/* Maps the pieces of one answer; sets *covered to what they are together. */
static int map_pieces(const struct peer_message *message, const int *fds, size_t count,
	uint64_t offset, uint64_t left, int (*map)(void *, uint64_t, uint64_t, int), void *of,
	uint64_t *covered)
{
	uint64_t done = 0;

	if (message->pieces != count || !count)
		return -GDEV_E_PROTOCOL;
	for (size_t i = 0; i < count; i++) {
		uint64_t bytes = message->piece_bytes[i];
		if (!bytes || bytes > left - done)
			return -GDEV_E_PROTOCOL;
		int error = map(of, offset + done, bytes, fds[i]);
		if (error)
			return error;
		done += bytes;
	}
	*covered = done;
	return 0;
}

static int shm_device_map(struct transport *transport, uint64_t address, uint64_t bytes,
	bool revocable, int (*map)(void *, uint64_t, uint64_t, int), void *of)
{
	struct shm *shm = shm_of(transport);
	uint64_t done = 0;
	int error = 0;

	if (atomic_load(&transport->lost))
		return transport_error(transport);
	pthread_mutex_lock(&shm->peer_lock);
	while (done < bytes && !error) {
		struct peer_message message = {
			.type = revocable ? PEER_DEVICE_MAP_REVOCABLE : PEER_DEVICE_MAP,
			.address = address + done,
			.bytes = bytes - done,
		};
		int fds[PEER_FDS_MAX];
		size_t count = PEER_FDS_MAX;
		uint64_t covered = 0;
		error = ask_peer(shm, &message, -1, fds, &count);
		if (!error)
			error = map_pieces(
				&message, fds, count, done, bytes - done, map, of, &covered);
		fd_close_all(fds, count);
		done += covered;
	}
	pthread_mutex_unlock(&shm->peer_lock);
	return error;
}

/* ---- life ---- */

static void close_connection(struct shm_connection *connection)
{
	int *fds[] = {&connection->control, &connection->segment, &connection->staging,
		&connection->wake_worker, &connection->wake_client, &connection->peer};

	for (size_t i = 0; i < array_length(fds); i++)
		if (*fds[i] >= 0)
			close(steal_fd(fds[i]));
}

static void shm_forget(struct transport *transport)
{
	close_connection(&shm_of(transport)->connection);
	my_thread = other = 0; /* another process's */
}

static void shm_destroy(struct transport *transport)
{
	struct shm *shm = shm_of(transport);

	close_connection(&shm->connection);
	munmap(transport->segment, sizeof *transport->segment);
	waiting_finish(&shm->waiting);
	sender_finish(&shm->sender);
	pthread_mutex_destroy(&shm->peer_lock);
	free(shm);
}

static const struct transport_ops shm_ops = {
	.name = "shm",
	.begin = shm_begin,
	.commit = shm_commit,
	.rouse = shm_rouse,
	.kick = shm_kick,
	.wait = shm_wait,
	.cancel = shm_cancel,
	.host_add = shm_host_add,
	.range_add = shm_range_add,
	.image_add = shm_image_add,
	.device_map = shm_device_map,
	.forget = shm_forget,
	.destroy = shm_destroy,
};

static int map_segment(int fd, struct session_segment **segment)
{
	uint64_t size;
	int error = fd_shared_memory_size(fd, &size);

	if (error)
		return error;
	if (size < sizeof **segment)
		return -GDEV_E_PROTOCOL;
	void *mapped = mmap(NULL, sizeof **segment, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	madvise(mapped, sizeof **segment, MADV_DONTFORK);
	*segment = mapped;
	return 0;
}

static int map_staging(int fd, uint64_t base, uint64_t bytes)
{
	uint64_t size;
	int error = fd_shared_memory_size(fd, &size);

	if (error)
		return error;
	if (size < bytes)
		return -GDEV_E_PROTOCOL;
	if (mmap((void *)base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		MAP_FAILED)
		return -errno;
	madvise((void *)base, bytes, MADV_DONTFORK);
	return 0;
}

int transport_shm_create(struct shm_connection *connection, uint64_t arena_base,
	uint64_t staging_bytes, struct transport **transport)
{
	struct shm *shm = calloc(1, sizeof *shm);
	int error;

	if (!shm)
		return -ENOMEM;
	error = map_segment(connection->segment, &shm->base.segment);
	if (error)
		goto err_free;
	error = transport_segment_is_ours(shm->base.segment) ? 0 : -GDEV_E_PROTOCOL;
	if (!error)
		error = map_staging(connection->staging, arena_base, staging_bytes);
	if (!error)
		error = waiting_init(
			&shm->waiting, &shm->base, connection->wake_client, connection->peer);
	if (error)
		goto err_unmap;
	sender_init(&shm->sender, &shm->base, &shm->waiting);
	pthread_mutex_init(&shm->peer_lock, NULL);
	shm->thread = NO_THREAD;
	shm->base.ops = &shm_ops;
	shm->base.spin_ns = transport_spin_ns(shm->base.segment);
	/* Their mappings keep the memory; only what is polled or written stays open. */
	close(steal_fd(&connection->segment));
	close(steal_fd(&connection->staging));
	shm->connection = *connection;
	*connection = (struct shm_connection){-1, -1, -1, -1, -1, -1};
	*transport = &shm->base;
	return 0;

err_unmap:
	munmap(shm->base.segment, sizeof *shm->base.segment);
err_free:
	free(shm);
	return error;
}

void transport_shm_sockets(struct transport *transport, int *wake_client, int *peer)
{
	*wake_client = shm_of(transport)->connection.wake_client;
	*peer = shm_of(transport)->connection.peer;
}

/* SPDX-License-Identifier: MIT
 *
 * gdevd's side of every control socket: two clients, administrators, workers that start and workers that
 * register again say what the input says, in its order, with and without descriptors. Whatever they
 * say, when they have gone nothing of them may be left: no session, no worker, no byte charged.
 *
 * Input: packets of a byte that says who speaks (enum bits), a byte for the type, and two for the length of the
 * bytes that follow. The header is made right, so that the handlers are reached and not only control_check(). Type
 * EXPIRE is no message: of the deadlines that are set, one is over.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdevd/daemon.h"
#include "proto/session.h"
#include "proto/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define FIRST_ID 1000
#define VGPU "gdev0"

#define RESTORED 5 /* and 6: sessions */
#define SEGMENT 700
#define SEGMENT_BYTES (6 << 20)

#define EXPIRE 255

enum { CLIENT, ADMIN, STARTING, REGISTERING, KINDS, SPEAKERS = 2 * KINDS };

enum bits {
	KIND = 3,
	FDS = 3 << 2, /* none; a worker page; what READY has; as many as the type may have more */
	SECOND = 1 << 4,  /* of the kind */
	ANSWERS = 1 << 5, /* what it was told last */
	SAYS_1 = 1 << 6,  /* status */
	FAILED = 1 << 7,
};

static struct daemon gdevd;
static struct device *device;
static bool ready, changed;
static int ready_fds[WORKER_FDS + 2]; /* the last are a worker page and a trace segment */
static int chunk_fds[3];              /* of a segment */
static uint32_t told[SPEAKERS];       /* serial */

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "left behind: %s\n", what);
	abort();
}

/* A process of its own removes the directory when this one has ended, however it does. */
static void make_directory(void)
{
	int ends[2];
	pid_t remover;
	char byte;

	strcpy(gdevd.runtime_dir,
		"/dev/shm/fuzz-gdevd-XXXXXX"); /* in memory: what is made is written down */
	if (!mkdtemp(gdevd.runtime_dir) || pipe2(ends, O_CLOEXEC))
		abort();
	remover = fork();
	if (remover < 0)
		abort();
	if (remover) {
		close(ends[0]); /* the other one is open as long as this process lives */
		return;
	}
	setsid();
	close(ends[1]);
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	execlp("rm", "rm", "-rf", gdevd.runtime_dir, NULL);
	_exit(1);
}

/* Virtual GPUs and settings as at the start, whatever administrators did. */
static void restore(void)
{
	struct vgpu *vgpu, *after;
	struct config_vgpu *config;
	struct config_setting *setting, *next;
	char text[CONFIG_ERROR_MAX];

	list_for_each_safe (vgpu, after, &gdevd.vgpus, link)
		if (vgpu_delete(vgpu, true, text))
			abort();
	list_for_each_safe (setting, next, &gdevd.config.settings, link) {
		list_remove(&setting->link);
		free(setting);
	}
	config_set(&gdevd.config, "policy", "fair", text);
	config_set(&gdevd.config, "quantum", "5ms", text);
	if (config_vgpu_create(VGPU, &config, text) ||
		config_set_vgpu(config, "memory", "4G", text) || vgpu_create(&gdevd, config, text))
		abort();
	changed = false;
}

/* Nothing is started: there is nobody to retire, and nothing to try again. */
static void nothing(struct deadline *deadline, uint64_t now_ns)
{
}

static void restored(struct deadline *deadline, uint64_t now_ns)
{
	events_give_up_unclaimed(&gdevd);
	shm_give_up_unclaimed(&gdevd);
}

static void setup(void)
{
	log_init("fuzz", LOG_LEVEL_ERROR);
	daemon_init(&gdevd);
	gdevd.program.uid = (uid_t)-1; /* that of the clients is no workers' */
	deadline_init(&gdevd.restored, restored);
	config_finish_defaults(&gdevd.config);
	gdevd.config.warm_workers = 0; /* nothing is started: starting_max is 0 */
	gdevd.config.file_swap = 1 << 30;
	gdevd.cache.loop = &gdevd.loop;
	porters_find(&gdevd.users, "/bin/true"); /* they only close */
	gdevd.ids = memfd_create("ids", MFD_CLOEXEC);
	ledger_init(&gdevd.ledgers.sessions, memfd_create("sessions", MFD_CLOEXEC),
		sizeof(struct ledger_session));
	ledger_init(&gdevd.ledgers.segments, memfd_create("segments", MFD_CLOEXEC),
		sizeof(struct ledger_segment));
	ledger_init(&gdevd.ledgers.attachments, memfd_create("attachments", MFD_CLOEXEC),
		sizeof(struct ledger_attachment));
	swap_init(&gdevd);
	if (devices_init(&gdevd))
		abort();
	device = device_first(&gdevd);
	deadline_init(&device->workers.retire, nothing);
	deadline_init(&device->workers.retry, nothing); /* 100 ms after the third input */
	measure_init(&gdevd);
	make_directory();
	snprintf(gdevd.made_path, sizeof gdevd.made_path, "%s/vgpus.conf", gdevd.runtime_dir);
	strcpy(gdevd.state_dir, gdevd.runtime_dir);
	vgpus_init(&gdevd);
	ready_fds[WORKER_FD_SEGMENT] = fd_shared_memory("segment", sizeof(struct session_segment));
	ready_fds[WORKER_FD_STAGING] = fd_shared_memory("staging", 1 << 20);
	ready_fds[WORKER_FD_WAKE] = eventfd(0, EFD_CLOEXEC);
	ready_fds[WORKER_FD_CLIENT_WAKE] = eventfd(0, EFD_CLOEXEC);
	ready_fds[WORKER_FDS] = fd_shared_memory("page", 4096);
	ready_fds[WORKER_FDS + 1] = fd_shared_memory("trace", sizeof(struct trace_segment));
	for (size_t i = 0; i < array_length(chunk_fds); i++)
		chunk_fds[i] = fd_shared_memory("chunk", SEGMENT_BYTES / array_length(chunk_fds));
}

/* What the inputs before this one have said of the device, and whom they served. */
static void forget(void)
{
	device->known = false;
	device->memory.limit_bytes = UINT64_MAX;
	device->overhead_bytes = device->residency.reserve_bytes = 0;
	memset(told, 0, sizeof told);
}

static void empty(struct ledger *ledger)
{
	ledger->count = ledger->free = 0;
}

/* What the gdevd before had written down: a segment that two sessions have attached, one for reading alone, on the device or
 * in a host copy, which is the file of a worker page. */
static void restore_segment(void)
{
	struct ledger_segment segment = {
		.id = SEGMENT,
		.size = SEGMENT_BYTES,
		.bytes = SEGMENT_BYTES,
		.key = 9,
		.mode = 0640,
		.flags = LEDGER_ON_DEVICE,
		.vgpu = VGPU,
	};
	struct stat copy;
	uint64_t place = 0;

	empty(&gdevd.ledgers.sessions);
	empty(&gdevd.ledgers.segments);
	empty(&gdevd.ledgers.attachments);
	if (fstat(ready_fds[WORKER_FDS], &copy))
		abort();
	segment.copy_device = copy.st_dev;
	segment.copy_inode = copy.st_ino;
	ledger_put(&gdevd.ledgers.segments, &place, &segment);
	for (uint32_t id = RESTORED; id < RESTORED + 2; id++) {
		struct ledger_session session = {.session = id, .worker = INT_MAX, .vgpu = VGPU};
		struct ledger_attachment attachment = {SEGMENT, id, 1, id == RESTORED};
		place = 0;
		ledger_put(&gdevd.ledgers.sessions, &place, &session);
		place = 0;
		ledger_put(&gdevd.ledgers.attachments, &place, &attachment);
	}
	shm_restore_all(&gdevd);
	deadline_set(&gdevd.deadlines, &gdevd.restored, clock_now_ns() + 10 * NS_PER_S);
}

static int speaker(int kind)
{
	struct worker *worker;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		abort();
	if (kind == CLIENT || kind == ADMIN) {
		client_accept(&gdevd, pair[0], kind == CLIENT ? vgpu_find(&gdevd, VGPU) : NULL);
		return pair[1];
	}
	worker_accept(&gdevd, pair[0]);
	worker = list_entry(gdevd.workers.prev, struct worker, link);
	worker->pid = INT_MAX; /* it is killed when it misbehaves, and is in truth this process */
	if (kind == STARTING) {
		worker->restored = false;
		device->workers.starting++;
	}
	return pair[1];
}

static uint32_t drain(int socket, uint32_t serial)
{
	_Alignas(8) char bytes[CONTROL_BYTES_MAX];
	const struct control_header *header = (const struct control_header *)bytes;
	int fds[FD_PASS_MAX];
	size_t count = FD_PASS_MAX;

	while (fd_receive(socket, bytes, sizeof bytes, fds, &count) > 0) {
		fd_close_all(fds, count);
		count = FD_PASS_MAX;
		serial = header->serial ? header->serial : serial;
	}
	return serial;
}

/* Whom it says to serve is what the gdevd before had written down. */
static void remember(const uint8_t *body, size_t length)
{
	struct control_attach attach;
	struct ledger_session entry = {.worker = INT_MAX,
		.most_bytes = 1ull << 40,
		.most_swap_bytes = {1ull << 40, 1ull << 40}};
	uint64_t place;

	if (length != sizeof attach - sizeof attach.header)
		return;
	memcpy((char *)&attach + sizeof attach.header, body, length);
	entry.session = attach.session;
	entry.pid = attach.pid;
	entry.uid = attach.uid;
	entry.gid = attach.gid;
	entry.moves = attach.moves;
	strncpy(entry.vgpu, attach.vgpu, sizeof entry.vgpu);
	if (!attach.session || attach.session >= FIRST_ID)
		return;
	place = session_place(&gdevd, attach.session);
	if (ledger_put(&gdevd.ledgers.sessions, &place, &entry))
		abort();
}

static bool has_peers(void)
{
	return !list_empty(&gdevd.clients) || !list_empty(&gdevd.workers);
}

/* Of the loop. Nobody who has asked for too much rests: the fuzzer asks for more than anybody has time for. */
static void turn(void)
{
	struct user *user, *after;
	struct worker *worker;

	list_for_each_safe (user, after, &gdevd.users.all, link) {
		user_ref(user);
		for (unsigned i = 0; i < ERRAND_KINDS; i++) {
			struct budget *budget = &user->budgets[i];
			budget->paid_ns = 0;
			if (list_empty(&budget->rest.link))
				continue;
			deadline_cancel(&budget->rest);
			budget->rest.expired(&budget->rest, clock_now_ns());
		}
		user_put(user);
	}
	/* What a porter passes on is received as from a worker that no client has: here all are such. */
	list_for_each (worker, &gdevd.workers, link)
		if (worker->connection)
			connection_charge_to(worker->connection, NULL);
	uv_run(&gdevd.loop, UV_RUN_NOWAIT);
	porters_reap(&gdevd.users);
}

static void speak(int socket, uint8_t who, uint8_t type, const uint8_t *body, size_t length)
{
	_Alignas(8) char message[sizeof(struct control_header) + 4096];
	struct control_header header = {
		.length = (uint32_t)(sizeof header + length),
		.type = type,
		.version = type == CONTROL_HELLO ? 0 : CONTROL_VERSION,
		.serial = who & ANSWERS ? told[(who & KIND) + (who & SECOND ? KINDS : 0)] : who,
		.status = (who & SAYS_1 ? 1 : 0) - (who & FAILED ? 6 : 0),
	};
	const int *fds = ready_fds;
	size_t count = 0;

	switch ((who & FDS) >> 2) {
	case 1:
		fds = &ready_fds[WORKER_FDS];
		count = 1;
		break;
	case 2:
		count = WORKER_FDS + 1;
		break;
	case 3:
		fds = type == CONTROL_REGISTER ? &ready_fds[WORKER_FDS]
		      : type == CONTROL_SHM    ? chunk_fds
					       : ready_fds;
		count = type == CONTROL_REGISTER ? 2
			: type == CONTROL_READY  ? array_length(ready_fds)
						 : 3;
	}
	if (type == CONTROL_REGISTER)
		remember(body, length);
	memcpy(message, &header, sizeof header);
	memcpy(message + sizeof header, body, length);
	fd_send(socket, message, header.length, fds, count);
}

/* The arbiters have times of their own: for them it is never later than it is. */
static void expire(const uint8_t *body, size_t length)
{
	struct deadline *deadline;
	unsigned left = length ? body[0] : 0;

	list_for_each (deadline, &gdevd.deadlines.pending, link) {
		if (deadline == &device->grants || deadline == &gdevd.measure.tick || left--)
			continue;
		deadline_cancel(deadline);
		deadline->expired(deadline, clock_now_ns());
		return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	int sockets[SPEAKERS];
	const struct user *user;

	if (!ready) {
		setup();
		restore();
		ready = true;
	}
	gdevd.next_id = FIRST_ID; /* the same in each run: inputs name sessions and segments */
	gdevd.ids_end = FIRST_ID + 4096;
	forget();
	restore_segment();
	for (int i = 0; i < SPEAKERS; i++)
		sockets[i] = speaker(i % KINDS);
	while (length >= 4) {
		changed |= bytes[1] == CONTROL_ADMIN;
		size_t body = min_of(
			(size_t)(bytes[2] | bytes[3] << 8), min_of(length - 4, (size_t)4096));
		if (bytes[1] == EXPIRE)
			expire(bytes + 4, body);
		else
			speak(sockets[(bytes[0] & KIND) + (bytes[0] & SECOND ? KINDS : 0)],
				bytes[0], bytes[1], bytes + 4, body);
		bytes += 4 + body;
		length -= 4 + body;
		turn();
		for (int i = 0; i < SPEAKERS; i++)
			told[i] = drain(sockets[i], told[i]);
	}
	for (int i = SPEAKERS - 1; i >= 0; i--)
		close(sockets[i]);
	for (int i = 0; i < 8 || (i < 10000 && has_peers()); i++) {
		turn();
		if (i >= 8)
			usleep(100);
	}
	deadline_cancel(&gdevd.restored);
	shm_finish(&gdevd, NULL);
	list_for_each (user, &gdevd.users.all, link)
		require(!user->segments && !user->shares[0].bytes, "a user's segment");
	device->workers.backing_off = device->workers.hopeless = device->drained = false;
	require(list_empty(&gdevd.sessions), "a session");
	require(list_empty(&gdevd.clients), "a client");
	require(list_empty(&gdevd.workers), "a worker");
	require(device->workers.starting == 0 && device->workers.warm == 0 &&
			device->workers.carrying == 0,
		"a count");
	require(device->memory.used_bytes == 0, "device memory");
	require(!device->sched[0].holder && list_empty(&device->sched[0].groups.waiting),
		"a grant");
	if (changed)
		restore();
	return 0;
}

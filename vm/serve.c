/* SPDX-License-Identifier: MIT
 *
 * See serve.h. Whatever may have happened is looked for at each turn of the loop, in memory that the guest may scribble on:
 * what it says here can only begin and end its own sessions.
 */
#include "vm/serve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "gdev/error.h"
#include "vm/ivshmem.h"
#include "vm/proxy.h"

#define LEAVING_NS (5 * NS_PER_MS)
#define KEPT_NS NS_PER_S /* between looks at a store that is kept */
#define STORE_NS                                                                                   \
	(10 * NS_PER_S) /* a store is waited for; gdevd kills a worker that stays after less */
#define END_NS (2 * NS_PER_S) /* a proxy that was told to end, and has not, is killed */

/* The proxy of a slot. */
struct child {
	pid_t pid;        /* 0: there is none */
	int control;      /* closed: it is to end */
	uint64_t kill_ns; /* when it is to be killed, if control is closed */
};

struct server {
	struct guest *guest;
	const char *vgpu;
	int listener, qemu, signals; /* qemu -1: no machine */
	uint64_t answered;           /* of the device's mailbox */
	uint64_t resetting; /* the VM_RESET that is answered when `leaving` is empty; 0: none */
	/* Slots, as bits: those that are free as soon as nobody has their store; of these, those that nothing waits for, as
	 * somebody keeps the store; and of these, those whose store the guest's module has not seen. */
	uint64_t leaving, kept, unseen;
	uint64_t leaving_ns[VM_SLOTS_MAX]; /* since when */
	struct child children[VM_SLOTS_MAX];
};

/* ---- proxies ---- */

/* The process is a child of the server: what others hold is not its own. */
static void leave_server(struct server *server)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	close(server->listener);
	close(server->qemu);
	close(server->signals);
	for (unsigned i = 0; i < VM_SLOTS_MAX; i++)
		if (server->children[i].pid && server->children[i].control >= 0)
			close(server->children[i].control);
}

static _Noreturn void be_proxy(struct server *server, unsigned slot, int control, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	leave_server(server);
	proxy_run(server->guest, slot, control, server->vgpu);
}

static void start_proxy(struct server *server, unsigned slot)
{
	struct vm_mailbox *mailbox = guest_mailbox(server->guest, slot);
	struct child *child = &server->children[slot];
	pid_t parent = getpid();
	int sockets[2];

	__atomic_store_n(&mailbox->state, VM_SLOT_BUSY, __ATOMIC_RELEASE);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets)) {
		__atomic_store_n(&mailbox->state, VM_SLOT_DEAD, __ATOMIC_RELEASE);
		guest_interrupt(server->guest, slot + 1);
		return;
	}
	child->pid = fork();
	if (child->pid == 0) {
		close(sockets[0]);
		be_proxy(server, slot, sockets[1], parent);
	}
	close(sockets[1]);
	child->control = sockets[0];
	if (child->pid > 0)
		return;
	log_error("no proxy can be started: %s", strerror(errno));
	*child = (struct child){0};
	close(sockets[0]);
	__atomic_store_n(&mailbox->state, VM_SLOT_DEAD, __ATOMIC_RELEASE);
	guest_interrupt(server->guest, slot + 1);
}

static void tell_to_end(struct child *child)
{
	if (child->control < 0)
		return;
	close(steal_fd(&child->control));
	child->kill_ns = clock_now_ns() + END_NS;
}

/* Segments that the guest cannot reach any more are removed, which may wait for gdevd: not here. */
static void remove_keys(struct server *server, bool all, uint64_t ended)
{
	int32_t host_keys[KEYS_MAX];
	unsigned count = keys_take(&server->guest->commons->keys, all, ended, host_keys);

	if (!count || fork())
		return;
	leave_server(server);
	keys_remove(server->vgpu, host_keys, count);
	_exit(0);
}

/* A worker ends a moment after its proxy. One that does not, or has handed the store on, costs the guest the slot, and does
 * not hold up what is the other slots'. */
static void wait_for_store(struct server *server, unsigned slot)
{
	uint64_t bit = 1ull << slot, now = clock_now_ns();
	bool kept = server->kept & bit;

	if (!(server->leaving & bit))
		server->leaving_ns[slot] = now;
	server->leaving |= bit;
	__atomic_store_n(
		&guest_mailbox(server->guest, slot)->state, VM_SLOT_RESETTING, __ATOMIC_RELEASE);
	if (!kept && now - server->leaving_ns[slot] < STORE_NS)
		return;
	guest_empty_store(server->guest, slot); /* the next machine has it, too */
	if (kept)
		return;
	server->kept |= bit;
	log_warning(
		"session %u: its worker does not end, or has handed on its page-locked memory: the guest has a session less until nobody has that any more",
		slot);
}

static void free_slot(struct server *server, unsigned slot)
{
	uint64_t bit = 1ull << slot;

	if (guest_has_store(server->guest, slot)) {
		wait_for_store(server, slot);
		return;
	}
	if (server->kept & bit)
		log_info("session %u: nobody has its page-locked memory any more", slot);
	server->leaving &= ~bit;
	server->kept &= ~bit;
	server->unseen &= ~bit;
	remove_keys(server, false, bit);
	guest_clear_slot(server->guest, slot);
	__atomic_store_n(
		&guest_mailbox(server->guest, slot)->state, VM_SLOT_FREE, __ATOMIC_RELEASE);
	guest_interrupt(server->guest, 0);
}

static bool is_closing(const struct server *server, unsigned slot)
{
	return __atomic_load_n(&guest_mailbox(server->guest, slot)->closing, __ATOMIC_ACQUIRE);
}

/* A proxy has ended. If the guest has not asked for it, it is told, and closes the slot. */
static void bury(struct server *server, unsigned slot)
{
	struct child *child = &server->children[slot];

	if (child->control >= 0)
		close(child->control);
	*child = (struct child){0};
	if (is_closing(server, slot)) {
		free_slot(server, slot);
		return;
	}
	__atomic_store_n(
		&guest_mailbox(server->guest, slot)->state, VM_SLOT_DEAD, __ATOMIC_RELEASE);
	guest_interrupt(server->guest, slot + 1);
}

static void reap(struct server *server)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned i = 0; i < server->guest->sizes.slots; i++)
			if (server->children[i].pid == pid) {
				if (WIFSIGNALED(status))
					log_warning(
						"the proxy of session %u was ended by signal %d", i,
						WTERMSIG(status));
				bury(server, i);
			}
}

static void kill_proxies(struct server *server)
{
	for (unsigned i = 0; i < server->guest->sizes.slots; i++) {
		struct child *child = &server->children[i];
		if (!child->pid)
			continue;
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
		if (child->control >= 0)
			close(child->control);
		*child = (struct child){0};
	}
}

/* ---- what the guest's kernel says ---- */

static void look_at_slot(struct server *server, unsigned slot)
{
	struct vm_mailbox *mailbox = guest_mailbox(server->guest, slot);
	struct child *child = &server->children[slot];

	if (is_closing(server, slot)) {
		if (child->pid)
			tell_to_end(child);
		else
			free_slot(server, slot);
	} else if (!child->pid && !(server->leaving >> slot & 1) &&
		   __atomic_load_n(&mailbox->posted, __ATOMIC_ACQUIRE) == 1 &&
		   mailbox->answered == 0 && mailbox->state == VM_SLOT_FREE) {
		start_proxy(server, slot);
	}
}

static int probe(const struct guest *guest, uint64_t address, uint64_t *value)
{
	struct vm_entry run = {address, sizeof *value};
	const void *found = guest_run(guest, &run); /* we have no store */

	if (!found)
		return -EFAULT;
	memcpy(value, found, sizeof *value);
	return 0;
}

static void free_slots(struct server *server)
{
	for (unsigned i = 0; i < server->guest->sizes.slots; i++)
		free_slot(server, i);
}

static void answer_device(struct server *server, uint64_t posted, const struct vm_answer *answer)
{
	struct vm_mailbox *mailbox = &guest_header(server->guest)->mailbox;

	mailbox->answer = *answer;
	server->answered = posted;
	__atomic_store_n(&mailbox->answered, posted, __ATOMIC_RELEASE);
	guest_interrupt(server->guest, 0);
}

static void finish_reset(struct server *server)
{
	const struct vm_answer answer = {0};

	if (!server->resetting || server->leaving & ~server->kept)
		return;
	if (server->kept)
		guest_rename(server->guest, server->kept);
	server->unseen = server->kept;
	answer_device(server, server->resetting, &answer);
	server->resetting = 0;
}

static void look_at_device(struct server *server)
{
	struct vm_mailbox *mailbox = &guest_header(server->guest)->mailbox;
	uint64_t posted = __atomic_load_n(&mailbox->posted, __ATOMIC_ACQUIRE);
	struct vm_answer answer = {0};
	struct vm_request request;

	if (posted == server->answered || server->resetting)
		return;
	memcpy(&request, &mailbox->request, sizeof request);
	if (request.operation == VM_RESET) {
		server->resetting = posted;
		server->unseen = 0;
		kill_proxies(server);
		free_slots(server);
		remove_keys(server, true, 0);
		finish_reset(server);
		return;
	}
	answer.status = request.operation == VM_PROBE
				? probe(server->guest, request.address, &answer.value)
				: -EINVAL;
	answer_device(server, posted, &answer);
}

static void look_at_guest(struct server *server)
{
	eventfd_t count;

	eventfd_read(server->guest->rung[0], &count);
	look_at_device(server);
	for (unsigned i = 0; i < server->guest->sizes.slots; i++)
		look_at_slot(server, i);
}

/* ---- machines ---- */

static void begin_machine(struct server *server)
{
	int error;

	server->qemu = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
	if (server->qemu < 0)
		return;
	error = ivshmem_greet(server->qemu, server->guest);
	log_info("a virtual machine has connected%s%s", error ? ": " : "",
		error ? strerror(-error) : "");
}

static void end_machine(struct server *server)
{
	log_info("the virtual machine has gone");
	close(steal_fd(&server->qemu));
	kill_proxies(server);
	guest_reset(server->guest);
	free_slots(server);
	remove_keys(server, true, 0);
	server->answered = server->resetting = server->unseen = 0;
}

static int until_next_look(const struct server *server)
{
	uint64_t now = clock_now_ns(), next = UINT64_MAX;

	for (unsigned i = 0; i < server->guest->sizes.slots; i++)
		if (server->children[i].pid && server->children[i].control < 0)
			next = min_of(next, server->children[i].kill_ns);
	if (server->leaving & ~server->kept)
		next = min_of(next, now + LEAVING_NS);
	else if (server->kept & ~server->unseen)
		next = min_of(next, now + KEPT_NS);
	if (next == UINT64_MAX)
		return -1;
	return next > now ? (int)((next - now) / NS_PER_MS) + 1 : 0;
}

static void kill_late(struct server *server)
{
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < server->guest->sizes.slots; i++) {
		struct child *child = &server->children[i];
		if (child->pid && child->control < 0 && child->kill_ns <= now) {
			kill(child->pid, SIGKILL);
			child->kill_ns = now + END_NS;
		}
	}
}

static void look_at_leaving(struct server *server)
{
	for (unsigned i = 0; i < server->guest->sizes.slots; i++)
		if ((server->leaving & ~server->unseen) >> i & 1)
			free_slot(server, i);
	finish_reset(server);
}

/* False: we were told to end. */
static bool read_signals(struct server *server)
{
	struct signalfd_siginfo info;
	bool ends = false;

	while (read(server->signals, &info, sizeof info) == sizeof info)
		ends |= info.ssi_signo != SIGCHLD;
	reap(server);
	return !ends;
}

/* A machine is greeted when nobody has a store of the one before, whose memory that still is; but for those that are kept, of
 * which it has no use. */
static bool may_greet(const struct server *server)
{
	return server->qemu < 0 && !(server->leaving & ~server->kept);
}

static bool turn(struct server *server)
{
	struct pollfd fds[] = {{server->signals, POLLIN, 0}, {server->guest->rung[0], POLLIN, 0},
		{may_greet(server) ? server->listener : -1, POLLIN, 0},
		{server->qemu, POLLRDHUP, 0}};

	if (poll(fds, array_length(fds), until_next_look(server)) < 0)
		return true;
	if (fds[0].revents && !read_signals(server))
		return false;
	kill_late(server);
	look_at_leaving(server);
	if (fds[1].revents)
		look_at_guest(server);
	if (fds[2].revents)
		begin_machine(server);
	if (server->qemu >= 0 && fds[3].revents)
		end_machine(server);
	return true;
}

int serve(struct guest *guest, const char *path, const char *vgpu)
{
	struct server server = {.guest = guest, .vgpu = vgpu, .qemu = -1};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	server.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	server.listener = server.signals < 0 ? -errno : ivshmem_listen(path);
	if (server.listener < 0) {
		log_error("%s: %s", path, strerror(-server.listener));
		return 1;
	}
	guest_reset(guest);
	free_slots(&server);
	while (turn(&server))
		;
	kill_proxies(&server);
	unlink(path);
	remove_keys(&server, true, UINT64_MAX);
	return 0;
}

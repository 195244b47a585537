/* SPDX-License-Identifier: MIT
 *
 * gdev-worker as a process, with a gdevd made by hand: READY, ATTACH, a record, and its ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "harness.h"

static const char *worker_program;

struct process {
	pid_t pid;
	int control, peer;
	struct session_segment *segment;
	int fds[6]; /* of READY */
};

static pid_t spawn(int control)
{
	char number[16];
	pid_t pid;

	snprintf(number, sizeof number, "%d", control);
	pid = fork();
	if (!pid) {
		execl(worker_program, "gdev-worker", "--control-fd", number, "--device", "null",
			"--device-memory", "268435456", "--threads", "2", "--workers-socket",
			"/nowhere/workers.sock", (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

static ssize_t receive(int fd, void *bytes, size_t size, int *fds, size_t *count)
{
	struct pollfd socket = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&socket, 1, PATIENCE_MS), 1);
	return fd_receive(fd, bytes, size, fds, count);
}

static void start(struct process *process)
{
	struct control_ready ready;
	int pair[2];
	size_t count = array_length(process->fds);

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	fcntl(pair[1], F_SETFD, FD_CLOEXEC);
	process->pid = spawn(pair[0]);
	close(pair[0]);
	process->control = pair[1];
	process->peer = -1;
	assert_int_equal(receive(process->control, &ready, sizeof ready, process->fds, &count),
		sizeof ready);
	assert_int_equal(count, 6);
	assert_int_equal(ready.header.type, CONTROL_READY);
	assert_true(ready.staging_bytes >= 2 * MIB);
	assert_string_equal(ready.device_name, "gdev null device");
	process->segment = mmap(NULL, sizeof *process->segment, PROT_READ | PROT_WRITE, MAP_SHARED,
		process->fds[0], 0);
	assert_true(process->segment != MAP_FAILED);
	assert_int_equal(process->segment->header.magic, SESSION_MAGIC);
}

static int attach(struct process *process, uint64_t base, uint64_t bytes)
{
	struct control_attach message = {
		.header = {sizeof message, CONTROL_ATTACH, CONTROL_VERSION, 3, 0},
		.session = 1,
		.arena_base = base,
		.arena_bytes = bytes,
		.memory_limit_bytes = TEST_LIMIT,
	};
	struct control_header answer;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fd_send(process->control, &message, sizeof message, &pair[0], 1), 0);
	close(pair[0]);
	assert_int_equal(
		receive(process->control, &answer, sizeof answer, NULL, NULL), sizeof answer);
	assert_int_equal(answer.type, CONTROL_ATTACHED);
	assert_int_equal(answer.serial, 3);
	if (answer.status)
		close(pair[1]);
	else
		process->peer = pair[1];
	return answer.status;
}

/* The worker's exit status, which it must come to. */
static int finish(struct process *process)
{
	int status = 0;

	assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
	munmap(process->segment, sizeof *process->segment);
	fd_close_all(process->fds, array_length(process->fds));
	if (process->peer >= 0)
		close(process->peer);
	if (process->control >= 0)
		close(process->control);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void a_worker_serves_a_client_and_leaves_with_it(void **state)
{
	struct process process;
	struct record_query query = {
		{RECORD_QUERY, 0, 0, sizeof query, 0, 0, 1}, QUERY_PROPERTIES, 0, 0};
	struct control_header bye;
	uint64_t one = 1;

	start(&process);
	assert_int_equal(attach(&process, TEST_BASE, TEST_BYTES), 0);
	memcpy(process.segment->ring, &query, sizeof query);
	__atomic_store_n(&process.segment->header.ring_tail, sizeof query, __ATOMIC_SEQ_CST);
	assert_int_equal(write(process.fds[2], &one, sizeof one), sizeof one);
	for (int i = 0;
		i < PATIENCE_MS &&
		!__atomic_load_n(&process.segment->timelines[0].completed, __ATOMIC_ACQUIRE);
		i++)
		usleep(1000);
	assert_int_equal(process.segment->timelines[0].completed, 1);
	assert_int_equal(process.segment->replies[0].status, 0);
	close(process.peer);
	process.peer = -1;
	assert_int_equal(receive(process.control, &bye, sizeof bye, NULL, NULL), sizeof bye);
	assert_int_equal(bye.type, CONTROL_BYE);
	assert_int_equal(finish(&process), 0);
}

static void an_arena_that_is_taken_is_refused_and_another_is_not(void **state)
{
	struct process process;

	start(&process);
	assert_int_equal(attach(&process, TEST_BASE + 1, TEST_BYTES), -EINVAL);
	assert_int_equal(attach(&process, TEST_BASE, MIB), -EINVAL);
	/* Where the worker's own stack and libraries are. */
	assert_int_equal(attach(&process, 0x7f0000000000ull, 0xffffe00000ull), -EADDRINUSE);
	assert_int_equal(attach(&process, TEST_BASE, TEST_BYTES), 0);
	close(process.peer);
	process.peer = -1;
	assert_int_equal(finish(&process), 0);
}

static void a_warm_worker_leaves_with_gdevd(void **state)
{
	struct process process;

	start(&process);
	close(process.control);
	process.control = -1;
	assert_int_equal(finish(&process), 1);
}

static void an_attached_worker_stays_without_gdevd(void **state)
{
	struct process process;
	int status;

	start(&process);
	assert_int_equal(attach(&process, TEST_BASE, TEST_BYTES), 0);
	close(process.control);
	process.control = -1;
	usleep(50000);
	assert_int_equal(waitpid(process.pid, &status, WNOHANG), 0);
	close(process.peer);
	process.peer = -1;
	assert_int_equal(finish(&process), 0);
}

static void gdevd_can_dismiss_a_worker(void **state)
{
	struct control_header bye = {sizeof bye, CONTROL_BYE, CONTROL_VERSION, 0, 0};
	struct process process;

	start(&process);
	assert_int_equal(fd_send(process.control, &bye, sizeof bye, NULL, 0), 0);
	assert_int_equal(finish(&process), 0);
}

static void a_broken_ring_ends_the_worker(void **state)
{
	struct process process;
	uint64_t one = 1;

	start(&process);
	assert_int_equal(attach(&process, TEST_BASE, TEST_BYTES), 0);
	__atomic_store_n(&process.segment->header.ring_tail, 1ull << 40, __ATOMIC_SEQ_CST);
	assert_int_equal(write(process.fds[2], &one, sizeof one), sizeof one);
	assert_int_equal(finish(&process), 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_serves_a_client_and_leaves_with_it),
		cmocka_unit_test(an_arena_that_is_taken_is_refused_and_another_is_not),
		cmocka_unit_test(a_warm_worker_leaves_with_gdevd),
		cmocka_unit_test(an_attached_worker_stays_without_gdevd),
		cmocka_unit_test(gdevd_can_dismiss_a_worker),
		cmocka_unit_test(a_broken_ring_ends_the_worker),
	};

	worker_program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}

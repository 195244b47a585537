/* SPDX-License-Identifier: MIT
 *
 * The sandbox: each case runs in a child process that enters it first. What must fail, fails; what must
 * kill, kills; what a worker needs, works.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "harness.h"
#include "worker/sandbox.h"

/* The exit status of `body` in the sandbox, or -signal. */
static int in_sandbox(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (sandbox_enter((uid_t)-1, (gid_t)-1, false))
			_exit(99);
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* 0 when the call failed with EPERM. */
static int refused(long result)
{
	return result == -1 && errno == EPERM ? 0 : 1;
}

static int open_file(void)
{
	return refused(open("/etc/passwd", O_RDONLY));
}

static int create_file(void)
{
	return refused(open("/tmp/gdev-sandbox", O_CREAT | O_RDWR, 0600));
}

static int look_at_file(void)
{
	return refused(access("/etc/passwd", R_OK));
}

static int make_internet_socket(void)
{
	return refused(socket(AF_INET, SOCK_STREAM, 0));
}

static int make_stream_socket(void)
{
	return refused(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int make_netlink_socket(void)
{
	return refused(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int lift_limits(void)
{
	struct rlimit limit = {100, 100};

	return refused(setrlimit(RLIMIT_CORE, &limit));
}

static int remove_file(void)
{
	return refused(unlink("/tmp/gdev-sandbox"));
}

static void files_and_networks_are_out_of_reach(void **state)
{
	int (*const bodies[])(void) = {open_file, create_file, look_at_file, make_internet_socket,
		make_stream_socket, make_netlink_socket, lift_limits, remove_file};

	for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
		assert_int_equal(in_sandbox(bodies[i]), 0);
}

static int execute(void)
{
	execl("/bin/true", "true", (char *)NULL);
	return 1;
}

static int trace(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	return 1;
}

static int make_process(void)
{
	syscall(SYS_fork);
	return 1;
}

static int kill_parent(void)
{
	kill(getppid(), 0);
	return 1;
}

static int read_process(void)
{
	syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0);
	return 1;
}

static int become_root(void)
{
	return setuid(0) ? 1 : 2;
}

static void attacks_end_the_process(void **state)
{
	int (*const bodies[])(void) = {
		execute, trace, make_process, kill_parent, read_process, become_root};

	for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
		assert_int_equal(in_sandbox(bodies[i]), -SIGSYS);
}

static void *nothing(void *argument)
{
	return argument;
}

static int work_as_usual(void)
{
	pthread_t thread;
	void *code;
	int memory = fd_shared_memory("test", 4096), one;
	uint64_t bytes;

	if (memory < 0 || fd_shared_memory_size(memory, &bytes) || eventfd(0, EFD_CLOEXEC) < 0)
		return 1;
	if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
		return 2;
	/* What a JIT compiler does. */
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 3;
	memcpy(code, "\xb8\x2a\x00\x00\x00\xc3", 6); /* return 42 */
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC) || ((int (*)(void))code)() != 42)
		return 4;
	one = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (one < 0)
		return 5;
	free(malloc(64 << 20));
	return 0;
}

static void a_worker_can_do_its_work(void **state)
{
	assert_int_equal(in_sandbox(work_as_usual), 0);
}

/* A session from start to end, threads and all, after the sandbox was entered. */
static int serve(void)
{
	struct core_config config = {
		.ops = device_ops_find("null"),
		.device = {.memory_bytes = TEST_LIMIT, .threads = 2},
		.staging_bytes = TEST_STAGING,
		.control_fd = -1,
		.threads = 6,
	};
	struct control_attach attach = {.arena_base = TEST_BASE,
		.arena_bytes = TEST_BYTES,
		.memory_limit_bytes = TEST_LIMIT};
	struct record_memory record = {
		{RECORD_MEMORY_ALLOC, 0, 0, sizeof record, 0, 0, 1}, TEST_DEVICE, 64 * MIB};
	struct core *core;
	uint64_t one = 1;
	int error = core_create(&config, &core);

	if (!error)
		error = service_start(core);
	if (error)
		return 1;
	core_lock(core);
	error = core_attach(core, &attach, eventfd(0, 0), -1);
	memcpy(core->segment->ring, &record, sizeof record);
	core->segment->header.ring_tail = sizeof record;
	core_unlock(core);
	if (error || write(core->wake_fd, &one, sizeof one) < 0)
		return 2;
	while (!__atomic_load_n(&core->segment->timelines[0].completed, __ATOMIC_ACQUIRE))
		usleep(1000);
	return core->segment->replies[0].status ? 3 : 0;
}

static void a_session_is_served_inside(void **state)
{
	assert_int_equal(in_sandbox(serve), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_and_networks_are_out_of_reach),
		cmocka_unit_test(attacks_end_the_process),
		cmocka_unit_test(a_worker_can_do_its_work),
		cmocka_unit_test(a_session_is_served_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * The sandbox: each case runs in a child process that enters it first. What must fail, fails; what must
 * kill, kills; what a worker needs, works.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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
static int in_limited_sandbox(int (*body)(void), bool driver, uint64_t more_bytes)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (sandbox_enter((uid_t)-1, (gid_t)-1, driver, more_bytes))
			_exit(99);
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int in_sandbox_of(int (*body)(void), bool driver)
{
	return in_limited_sandbox(body, driver, UINT64_MAX);
}

static int in_sandbox(int (*body)(void))
{
	return in_sandbox_of(body, false);
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

/* Memory of its own is limited; addresses and shared memory are not. */
static int have_much_memory(void)
{
	size_t much = 256 << 20;
	int private = MAP_PRIVATE | MAP_ANONYMOUS, fd = fd_shared_memory("much", much);
	void *kept;

	if (mmap(NULL, much, PROT_READ | PROT_WRITE, private, -1, 0) != MAP_FAILED ||
		errno != ENOMEM)
		return 1;
	kept = mmap(NULL, much, PROT_NONE, private, -1, 0);
	if (kept == MAP_FAILED || !mprotect(kept, much, PROT_READ | PROT_WRITE))
		return 2;
	if (mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		return 3;
	return mmap(NULL, much / 4, PROT_READ | PROT_WRITE, private, -1, 0) == MAP_FAILED;
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

static void memory_is_limited(void **state)
{
	assert_int_equal(in_limited_sandbox(have_much_memory, false, 128 << 20), 0);
}

/* By signals that the kernel sends for it, or by number. */
static int have_the_kernel_signal_others(void)
{
	struct f_owner_ex owner = {F_OWNER_PID, getppid()};
	int fd = eventfd(0, EFD_CLOEXEC), parent = getppid(), yes = 1;

	return refused(fcntl(fd, F_SETOWN, parent)) || refused(fcntl(fd, F_SETOWN_EX, &owner)) ||
	       refused(fcntl(fd, F_SETSIG, SIGKILL)) ||
	       refused(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC)) ||
	       refused(syscall(SYS_fcntl, fd, (1l << 32) | F_SETOWN, parent)) ||
	       refused(fcntl(fd, F_SETLEASE, F_RDLCK)) || refused(fcntl(fd, F_NOTIFY, DN_ACCESS)) ||
	       refused(ioctl(fd, FIOASYNC, &yes)) ||
	       refused(syscall(SYS_tgkill, parent, parent, 0)) ||
	       refused(syscall(SYS_rt_sigqueueinfo, parent, 0, NULL));
}

static int change_others(void)
{
	int parent = getppid();
	struct rlimit limit = {100, 100};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return refused(sched_setaffinity(parent, sizeof set, &set)) ||
	       refused(sched_setaffinity(getpid(), sizeof set, &set)) ||
	       refused(syscall(SYS_prlimit64, parent, RLIMIT_CORE, NULL, &limit)) ||
	       refused(setpriority(PRIO_PROCESS, (id_t)parent, 19)) ||
	       refused(setpriority(PRIO_USER, getuid(), 19)) ||
	       refused(syscall(SYS_ioprio_set, 1, parent, 0)) ||
	       refused(syscall(SYS_migrate_pages, parent, 0, NULL, NULL)) ||
	       refused(syscall(SYS_process_madvise, 0, NULL, 0, 0, 0)) ||
	       refused(syscall(SYS_pidfd_open, parent, 0)) || refused(prctl(PR_SET_DUMPABLE, 1)) ||
	       refused(sched_setscheduler(parent, SCHED_IDLE, &(struct sched_param){0}));
}

static void no_other_process_can_be_named(void **state)
{
	assert_int_equal(in_sandbox_of(have_the_kernel_signal_others, false), 0);
	assert_int_equal(in_sandbox_of(have_the_kernel_signal_others, true), 0);
	assert_int_equal(in_sandbox_of(change_others, false), 0);
	assert_int_equal(in_sandbox_of(change_others, true), 0);
}

/* … that nothing counts. */
static int take_memory(void)
{
	return refused((long)mmap(
		       NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) ||
	       refused((long)mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0)) ||
	       refused(memfd_create("large", MFD_CLOEXEC | MFD_HUGETLB)) ||
	       refused(syscall(SYS_shmget, IPC_PRIVATE, 4096, IPC_CREAT | 0600)) ||
	       refused(mlock(&refused, 1));
}

static void memory_is_of_kinds_that_are_counted(void **state)
{
	assert_int_equal(in_sandbox(take_memory), 0);
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

	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) || sched_setaffinity(0, sizeof set, &set))
		return 6;
	if (fcntl(memory, F_SETFL, fcntl(memory, F_GETFL) | O_NONBLOCK) ||
		fcntl(memory, F_DUPFD_CLOEXEC, 0) < 0)
		return 7;
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
		cmocka_unit_test(memory_is_limited),
		cmocka_unit_test(files_and_networks_are_out_of_reach),
		cmocka_unit_test(no_other_process_can_be_named),
		cmocka_unit_test(memory_is_of_kinds_that_are_counted),
		cmocka_unit_test(attacks_end_the_process),
		cmocka_unit_test(a_worker_can_do_its_work),
		cmocka_unit_test(a_session_is_served_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

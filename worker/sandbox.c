/* SPDX-License-Identifier: MIT
 *
 * The sandbox: another user, no way to more privileges, and an allow list of system calls.
 *
 * The worker executes code that a client wrote. What that code can reach in the worker's process it
 * can take over, so the process must be worth nothing: no files, no network, no other process.
 *   - What is on the list works.
 *   - What no worker ever does on purpose, and what an attacker would want first (another program, another
 *     process's memory, other namespaces, kernel interfaces that are often broken), ends the process.
 *   - All else fails with EPERM. Libraries probe for files and features and cope with that; an error
 *     there must not cost a session.
 */
#include "worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define OOM_SCORE_ADJ 500 /* as if it had half of the machine's memory more */

/* Memory, threads, time, descriptors that we have or are given. */
static const int allowed[] = {
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(mprotect),
	SCMP_SYS(madvise),
	SCMP_SYS(msync),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(mincore),
	SCMP_SYS(futex),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(getcpu),
	SCMP_SYS(gettid),
	SCMP_SYS(getpid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getrusage),
	SCMP_SYS(sysinfo),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigpending),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep),
	SCMP_SYS(getrandom),
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(pread64),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(pwrite64),
	SCMP_SYS(lseek),
	SCMP_SYS(close),
	SCMP_SYS(fstat),
	SCMP_SYS(fstatfs),
	SCMP_SYS(dup),
	SCMP_SYS(eventfd2),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(pause),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(timerfd_gettime),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(connect),
	SCMP_SYS(shutdown),
};

/* Nothing here is ever called by a worker that is still itself. */
static const int fatal[] = {
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(kcmp),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(kill),
	SCMP_SYS(tkill),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(setns),
	SCMP_SYS(unshare),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(reboot),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
};

/* A vendor's driver in the process works through these. Which files it reaches is a matter of the
 * worker's user. */
static const int driver_calls[] = {
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(membarrier),
	SCMP_SYS(stat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statfs),
	SCMP_SYS(statx),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getdents64),
	SCMP_SYS(getcwd),
	SCMP_SYS(uname),
	SCMP_SYS(getppid),
	SCMP_SYS(mlock),
	SCMP_SYS(munlock),
	SCMP_SYS(mbind),
	SCMP_SYS(get_mempolicy),
	SCMP_SYS(set_mempolicy),
	SCMP_SYS(pipe2),
	SCMP_SYS(socketpair),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(flock),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
};

static int add_lists(scmp_filter_ctx filter, bool driver)
{
	int error = 0;

	for (size_t i = 0; driver && i < array_length(driver_calls) && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, driver_calls[i], 0);

	for (size_t i = 0; i < array_length(allowed) && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	for (size_t i = 0; i < array_length(fatal) && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, fatal[i], 0);
	return error;
}

#define IS(number, value)                                                                          \
	{                                                                                          \
		number, SCMP_CMP_EQ, value, 0                                                      \
	}
#define HAS(number, bits, value)                                                                   \
	{                                                                                          \
		number, SCMP_CMP_MASKED_EQ, bits, value                                            \
	}
#define THREAD (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND)
#define MAP_KIND (MAP_TYPE | MAP_ANONYMOUS | MAP_HUGETLB)

/* Calls that are right with some arguments only: a call that fits a row is allowed. For the kernel, workers of several
 * users are one user's. So no call names another process, or has the kernel signal one. */
static const struct {
	int call;
	bool driver; /* only where there is one */
	struct scmp_arg_cmp arguments[2];
	unsigned count;
} conditional[] = {
	/* Threads. clone3 hides its flags in memory; without it, libc uses clone. */
	{SCMP_SYS(clone), false, {HAS(0, THREAD, THREAD)}, 1},
	/* To find a gdevd that has been restarted. */
	{SCMP_SYS(socket), false, {IS(0, AF_UNIX), HAS(1, 0xf, SOCK_SEQPACKET)}, 2},
	{SCMP_SYS(prctl), false, {IS(0, PR_SET_NAME)}, 1},
	/* Own limits may be read, not changed. */
	{SCMP_SYS(prlimit64), false, {IS(0, 0), IS(2, 0)}, 2},
	{SCMP_SYS(sched_setaffinity), false, {IS(0, 0)}, 1},
	/* Memory is private, or a file that has a size. Large pages of the system's pool are nobody's. */
	{SCMP_SYS(mmap), false, {HAS(3, MAP_ANONYMOUS | MAP_HUGETLB, 0)}, 1},
	{SCMP_SYS(mmap), false, {HAS(3, MAP_KIND, MAP_PRIVATE | MAP_ANONYMOUS)}, 1},
	{SCMP_SYS(mmap), true, {HAS(3, MAP_KIND, MAP_SHARED | MAP_ANONYMOUS)}, 1},
	{SCMP_SYS(memfd_create), false, {IS(1, MFD_CLOEXEC | MFD_ALLOW_SEALING)}, 1},
	{SCMP_SYS(memfd_create), true, {HAS(1, MFD_HUGETLB, 0)}, 1},
	/* Not F_SETOWN, F_SETSIG, F_SETLEASE, F_NOTIFY or O_ASYNC: with these the kernel sends signals to a process
	 * of the caller's choice. */
	{SCMP_SYS(fcntl), false, {IS(1, F_DUPFD)}, 1},
	{SCMP_SYS(fcntl), false, {IS(1, F_DUPFD_CLOEXEC)}, 1},
	{SCMP_SYS(fcntl), false, {IS(1, F_GETFD)}, 1},
	{SCMP_SYS(fcntl), false, {IS(1, F_SETFD)}, 1},
	{SCMP_SYS(fcntl), false, {IS(1, F_GETFL)}, 1},
	{SCMP_SYS(fcntl), false, {IS(1, F_SETFL), HAS(2, O_ASYNC, 0)}, 2},
	{SCMP_SYS(fcntl), false, {IS(1, F_ADD_SEALS)}, 1},
	{SCMP_SYS(fcntl), false, {IS(1, F_GET_SEALS)}, 1},
	{SCMP_SYS(fcntl), true, {IS(1, F_GETLK)}, 1},
	{SCMP_SYS(fcntl), true, {IS(1, F_SETLK)}, 1},
	{SCMP_SYS(fcntl), true, {IS(1, F_SETLKW)}, 1},
	/* The device files' own requests: not a terminal's, nor a socket's, among which are FIOASYNC and FIOSETOWN. */
	{SCMP_SYS(ioctl), true, {HAS(1, 0xff00, 'F' << 8)}, 1},
	{SCMP_SYS(ioctl), true, {HAS(1, 0xff00, 0)}, 1},
};

static int add_conditions(scmp_filter_ctx filter, bool driver)
{
	int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

	/* abort(), and threads of ours. */
	if (!error)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	for (size_t i = 0; i < array_length(conditional) && !error; i++)
		if (driver || !conditional[i].driver)
			error = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, conditional[i].call,
				conditional[i].count, conditional[i].arguments);
	return error;
}

static int filter_calls(bool driver)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int error;

	if (!filter)
		return -ENOMEM;
	error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!error)
		error = add_lists(filter, driver);
	if (!error)
		error = add_conditions(filter, driver);
	if (!error)
		error = seccomp_load(filter);
	seccomp_release(filter);
	return error;
}

static int become(uid_t uid, gid_t gid)
{
	if (gid != (gid_t)-1 && (setgroups(0, NULL) || setresgid(gid, gid, gid)))
		return -errno;
	if (uid != (uid_t)-1 && setresuid(uid, uid, uid))
		return -errno;
	return 0;
}

/* What RLIMIT_DATA limits: private memory that can be written to. The arena's reserved addresses are not of it, nor is memory
 * that is shared: of files in memory (chunks, staging, module variables), or a driver's. */
static int data_bytes(uint64_t *bytes)
{
	char text[256] = "";
	unsigned long pages;
	autoclose int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
		return -errno;
	if (sscanf(text, "%*s %*s %*s %*s %*s %lu", &pages) != 1)
		return -EINVAL;
	*bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

static int limit_memory(uint64_t more_bytes)
{
	struct rlimit limit;
	uint64_t bytes = 0;
	int error;

	if (more_bytes == UINT64_MAX)
		return 0;
	error = data_bytes(&bytes);
	if (error)
		return error;
	limit.rlim_cur = limit.rlim_max = bytes + more_bytes;
	return setrlimit(RLIMIT_DATA, &limit) ? -errno : 0;
}

/* When the machine has no memory left, workers go before other programs, and of them the largest. That cannot be taken
 * back: the file is root's once the process is not dumpable. */
static void be_first_to_go(void)
{
	autoclose int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	char text[16] = "";

	if (fd < 0 || read(fd, text, sizeof text - 1) < 0 || atoi(text) >= OOM_SCORE_ADJ)
		return;
	snprintf(text, sizeof text, "%d", OOM_SCORE_ADJ);
	if (pwrite(fd, text, strlen(text), 0) < 0)
		log_warning("oom_score_adj cannot be raised: %s", strerror(errno));
}

static int limit_resources(uint64_t more_bytes)
{
	struct rlimit none = {0, 0}, files;

	be_first_to_go();
	setrlimit(RLIMIT_CORE, &none);
	/* A chunk is a descriptor. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return limit_memory(more_bytes);
}

int sandbox_enter(uid_t uid, gid_t gid, bool driver, uint64_t more_bytes)
{
	int error = limit_resources(more_bytes);

	if (!error)
		error = become(uid, gid);
	if (error)
		return error;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return -errno;
	return filter_calls(driver);
}

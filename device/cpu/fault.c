/* SPDX-License-Identifier: MIT
 *
 * See fault.h. The handlers run on a stack of their own, because a kernel may have used up the
 * thread's, and leave by siglongjmp. SA_NODEFER keeps the signal unblocked over that jump, so that a
 * guard need not save the signal mask, which would be a system call a piece.
 */
#include "device/cpu/fault.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "gdev/error.h"

#define STACK_BYTES (64u << 10)

struct fault_guard {
	sigjmp_buf back;
	int error;
	uint64_t address;
	struct fault_guard *outer;
};

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction previous[array_length(signals)];
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the installation */
static pthread_key_t stack_key;
static bool has_key; /* init_lock */

/* initial-exec: the handler must not be the one to allocate a plugin's thread-local storage. */
static __thread struct fault_guard *current __attribute__((tls_model("initial-exec")));
static __thread bool has_stack __attribute__((tls_model("initial-exec")));

/* Control and rounding bits that a kernel may have changed when it was abandoned. */
#if defined(__x86_64__)
static void float_mode_reset(void)
{
	unsigned mode = 0x1f80; /* as at the start of a thread */

	__asm__ volatile("ldmxcsr %0" : : "m"(mode));
}
#else
static void float_mode_reset(void)
{
}
#endif

static __attribute__((noreturn)) void leave(int error, uint64_t address)
{
	current->error = error;
	current->address = address;
	siglongjmp(current->back, 1);
}

/* Gives the signal to its former handler; the instruction faults again when this returns. */
static void not_ours(int signal, const siginfo_t *info)
{
	for (size_t i = 0; i < array_length(signals); i++)
		if (signals[i] == signal)
			sigaction(signal, &previous[i], NULL);
	if (info->si_code <= 0) /* sent by kill(): nothing will fault again */
		raise(signal);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	if (!current || info->si_code <= 0) {
		not_ours(signal, info);
		return;
	}
	leave(-GDEV_E_ILLEGAL_ADDRESS, (uint64_t)(uintptr_t)info->si_addr);
}

static void stack_free(void *stack)
{
	stack_t off = {.ss_flags = SS_DISABLE};

	sigaltstack(&off, NULL);
	munmap(stack, STACK_BYTES);
}

/* Keeps the handler that is there for what is not ours. */
static int install(size_t i)
{
	struct sigaction now, action = {
				      .sa_sigaction = on_fault,
				      .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER,
			      };

	if (sigaction(signals[i], NULL, &now))
		return -errno;
	if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
		return 0;
	previous[i] = now;
	return sigaction(signals[i], &action, NULL) ? -errno : 0;
}

int fault_init(void)
{
	int error = 0;

	pthread_mutex_lock(&init_lock);
	if (!has_key)
		error = -pthread_key_create(&stack_key, stack_free);
	has_key = !error;
	for (size_t i = 0; !error && i < array_length(signals); i++)
		error = install(i);
	pthread_mutex_unlock(&init_lock);
	return error;
}

/* A thread that cannot get a stack runs without: only a kernel that overflows its stack is then the
 * end of the process. */
static void stack_create(void)
{
	stack_t now, stack = {.ss_size = STACK_BYTES};

	has_stack = true;
	if (!sigaltstack(NULL, &now) && !(now.ss_flags & SS_DISABLE))
		return;
	stack.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack.ss_sp == MAP_FAILED)
		return;
	if (sigaltstack(&stack, NULL) || pthread_setspecific(stack_key, stack.ss_sp))
		stack_free(stack.ss_sp);
}

int fault_run(void (*function)(void *argument), void *argument, uint64_t *address)
{
	struct fault_guard guard;

	if (!has_stack)
		stack_create();
	guard.outer = current;
	guard.error = 0;
	if (sigsetjmp(guard.back, 0)) {
		current = guard.outer;
		float_mode_reset();
		*address = guard.address;
		return guard.error;
	}
	current = &guard;
	function(argument);
	current = guard.outer;
	return 0;
}

void fault_raise(int error)
{
	leave(error, 0);
}

struct fault_guard *fault_suspend(void)
{
	struct fault_guard *guard = current;

	current = NULL;
	return guard;
}

void fault_resume(struct fault_guard *guard)
{
	current = guard;
}

/* SPDX-License-Identifier: MIT
 *
 * Faults of the process: a touch of managed memory that is not its own at the moment (managed.c) is a SIGSEGV, which is
 * taken here. All others go to whoever had the signal before, as if this handler were not there.
 *
 * A program may set a handler of its own later. Before pages are closed faults_watch() puts ours in front of it again, so
 * that only a touch between the two is missed. Such a handler may pass on what it does not know, too, to us: then it is
 * the turn of the one that was there first.
 *
 * The handler runs on the thread that has touched, on its alternate stack if it has one, with all signals blocked: what it
 * interrupts is an access to memory, so that it may take locks, as long as no lock of ours is held where memory of the
 * program is accessed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "lib/libgdev/managed.h"

/* Written by faults_watch(), before the handler can run that reads it. */
static struct sigaction first, latest;

static bool is_write(const ucontext_t *context)
{
#ifdef __x86_64__
	return context->uc_mcontext.gregs[REG_ERR] & 2;
#else
	(void)context;
	return true;
#endif
}

/* No page is ever open to that. */
static bool is_jump(const ucontext_t *context)
{
#ifdef __x86_64__
	return context->uc_mcontext.gregs[REG_ERR] & 16;
#else
	(void)context;
	return false;
#endif
}

static void call_handler(
	const struct sigaction *action, int signal, siginfo_t *info, ucontext_t *context)
{
	sigset_t mask;

	sigorset(&mask, &context->uc_sigmask, &action->sa_mask);
	if (!(action->sa_flags & SA_NODEFER))
		sigaddset(&mask, signal);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (action->sa_flags & SA_SIGINFO)
		action->sa_sigaction(signal, info, context);
	else
		action->sa_handler(signal);
}

/* The latest handler may pass on to ours what it was passed: the same description, further down the stack. One that it left
 * by longjmp() instead is still noted when the next fault comes, but that is not further down. */
static void pass_on(int signal, siginfo_t *info, ucontext_t *context)
{
	static _Thread_local struct {
		const siginfo_t *info;
		const void *frame;
	} passed;
	const void *frame = __builtin_frame_address(0);
	bool again = passed.info == info && frame < passed.frame;
	struct sigaction action = again ? first : latest;
	struct sigaction standard = {.sa_handler = SIG_DFL};

	if ((action.sa_flags & SA_SIGINFO) ||
		(action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)) {
		passed.info = info;
		passed.frame = frame;
		call_handler(&action, signal, info, context);
		return;
	}
	if (info->si_code <= 0 && action.sa_handler == SIG_IGN) /* of another process */
		return;
	sigaction(signal, &standard, NULL);
	if (info->si_code <= 0)
		raise(signal); /* when this handler is over */
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	int before = errno;

	if (info->si_code <= 0 || is_jump(context) ||
		managed_touch((uint64_t)info->si_addr, is_write(context)))
		pass_on(signal, info, context);
	errno = before;
}

void faults_watch(void)
{
	struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	static bool watched;
	struct sigaction now;

	if (sigaction(SIGSEGV, NULL, &now) || (watched && now.sa_sigaction == on_fault))
		return;
	sigfillset(&ours.sa_mask);
	latest = now;
	if (!watched)
		first = now;
	watched = true;
	sigaction(SIGSEGV, &ours, NULL);
}

void faults_watch_calls(void)
{
	int (**open)(const void *, size_t, bool) = dlsym(RTLD_DEFAULT, "gdev_io_open");

	if (open)
		__atomic_store_n(open, gdev_managed_open, __ATOMIC_RELEASE);
}

/* SPDX-License-Identifier: MIT
 *
 * Whose nice value counts: that of the client's thread which submitted last, as the kernel has it at the
 * moment. The thread's id comes through memory that the client writes, so it is a hint: gdevd looks
 * whether it is a thread of the session's process, and else takes the process itself (which is also
 * what remains when the client is in another pid namespace). Nobody gets the nice value of another user's
 * process by naming it.
 *
 * Or it is a process that has opened a graph of the client's (graphs.c), for which that works just now. Its nice value counts, so that
 * nobody's work gets urgent by being done in the graph of somebody else; that of another user's only if it is the more patient.
 *
 * That is the session's rank within its virtual GPU (struct rank). A session for whose event others wait counts as the best of them, by the rank of their virtual GPUs
 * too, so that an important session does not wait for one that may not run (no priority inversion).
 *
 * Read when a worker asks for a resource, and five times a second while somebody uses the device.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdevd/process.h"

#define NICE_WORST 19
#define NICE_BEST (-20)
#define CHAIN_MAX 4 /* of sessions that wait for each other, as far as it is followed */

static bool is_thread_of(pid_t pid, uint32_t thread)
{
	char path[48];

	snprintf(path, sizeof path, "/proc/%d/task/%u", (int)pid, thread);
	return access(path, F_OK) == 0;
}

/* That of the process for which the client works, if it has opened a graph of the client's; else `own`. One that is gone waits
 * for nothing any more, but what it has pushed may still be on its way. */
static int nice_for(const struct session *session, pid_t process, int own, enum rank_source *from)
{
	struct opener *opener = graph_opener(session->vgpu->device->daemon, session, process);
	bool lives = opener && process_started(process) == opener->started;
	int nice;

	if (!opener)
		return own;
	errno = 0;
	nice = lives ? getpriority(PRIO_PROCESS, (id_t)process) : 0;
	if (lives && !errno)
		opener->nice = nice;
	if (opener->nice < own && (!lives || opener->uid != session->uid))
		return own;
	*from = RANK_OF_OPENER;
	return opener->nice;
}

static int kernel_nice(const struct session *session, enum rank_source *from)
{
	uint32_t thread = __atomic_load_n(&session->worker->page->thread, __ATOMIC_RELAXED);
	pid_t who = session->pid;
	int nice;

	*from = RANK_OF_PROCESS;
	if (session->pid <= 0) /* of another pid namespace; 0 would be ourselves */
		return 0;
	if (thread && thread != (uint32_t)who && is_thread_of(session->pid, thread)) {
		who = (pid_t)thread;
		*from = RANK_OF_THREAD;
	}
	errno = 0;
	nice = getpriority(PRIO_PROCESS, (id_t)who);
	if (errno)
		return session->rank.own; /* it has just ended */
	if (thread && who == session->pid && thread != (uint32_t)who)
		nice = nice_for(session, (pid_t)thread, nice, from);
	/* The pid of a session from before this gdevd is its worker's word. */
	if (session->worker->restored)
		nice = max_of(nice, 0);
	return nice;
}

static int effective_nice(const struct session *session)
{
	return min_of(session->rank.own, session->rank.lent);
}

void nice_apply(struct session *session)
{
	if (effective_nice(session) != session->rank.nice)
		grants_renice(session, effective_nice(session));
}

void nice_session_init(struct session *session)
{
	session->rank.lent = NICE_WORST;
}

void nice_refresh(struct session *session)
{
	session->rank.own = kernel_nice(session, &session->rank.from);
	nice_apply(session);
}

void nice_lend(const struct session *lender, struct session *session)
{
	/* So that the borrower's rank among virtual GPUs becomes the lender's. */
	int64_t nice = effective_nice(lender) -
		       (lender->vgpu->config->priority - session->vgpu->config->priority);

	nice = max_of(nice, (int64_t)NICE_BEST);
	session->rank.lent = (int)min_of(nice, (int64_t)session->rank.lent);
}

void nice_return(struct session *session)
{
	session->rank.lent = NICE_WORST;
}

/* Whether it matters now how nice it is. */
static bool takes_part(const struct session *session)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		if (session->grants[i].asked || session->grants[i].held)
			return true;
	return session->watch_count > 0;
}

void nice_tick(struct daemon *daemon)
{
	struct session *session;

	/* All are lent anew: in a ring of sessions that wait for each other nothing would ever be given back. */
	list_for_each (session, &daemon->sessions, link) {
		if (takes_part(session))
			session->rank.own = kernel_nice(session, &session->rank.from);
		nice_return(session);
	}
	for (int links = 0; links < CHAIN_MAX; links++)
		events_lend_nice(daemon);
	list_for_each (session, &daemon->sessions, link)
		nice_apply(session);
}

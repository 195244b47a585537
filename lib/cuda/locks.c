/* SPDX-License-Identifier: MIT
 *
 * The locks of the whole process (internal.h), and forks. fork() takes them all, so that a child finds in order what
 * they guard. That keeps nobody waiting, because nothing that waits happens under them. The locks of single objects
 * may be held for long, by threads that a child does not have: a child forgets those objects, or makes their locks
 * anew.
 *
 * A child starts as if cuInit had never been called: its calls fail with CUDA_ERROR_NOT_INITIALIZED until it calls
 * cuInit itself, and then it has sessions of its own.
 */
#include "lib/cuda/internal.h"

pthread_mutex_t process_locks[PROCESS_LOCKS] = {
	[0 ... PROCESS_LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER,
};

static void before_fork(void)
{
	for (int i = 0; i < PROCESS_LOCKS; i++)
		pthread_mutex_lock(&process_locks[i]);
}

static void unlock_all(void)
{
	for (int i = PROCESS_LOCKS - 1; i >= 0; i--)
		pthread_mutex_unlock(&process_locks[i]);
}

static void after_fork_in_child(void)
{
	unlock_all();
	if (initialised() != CUDA_SUCCESS)
		return;
	init_forget();
	devices_forget();
	contexts_forget();
	libraries_forget();
	ipc_forget();
	vmm_forget();
	captures_forget();
	memops_forget();
	pools_forget();
	accesses_forget();
	graph_memory_forget();
	tensors_forget();
}

/* After libgdev has done the same: the handler that was registered last is called first, and our locks come before
 * those of libgdev. */
__attribute__((constructor)) static void follow_forks(void)
{
	pthread_atfork(before_fork, unlock_all, after_fork_in_child);
}

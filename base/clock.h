/* SPDX-License-Identifier: MIT
 *
 * Time. Code whose decisions depend on time takes `now_ns` as an argument; only its callers read
 * a clock.
 */
#ifndef GDEV_BASE_CLOCK_H
#define GDEV_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

/* CLOCK_MONOTONIC: the same in every process of the machine. */
uint64_t clock_now_ns(void);
/* The same, as of the kernel's last tick: some milliseconds late, and quick to read. */
uint64_t clock_coarse_ns(void);
/* CPU time of the calling thread. */
uint64_t clock_thread_cpu_ns(void);

/* What a spin loop does between two looks. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif

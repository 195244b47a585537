/* SPDX-License-Identifier: MIT
 *
 * See processor.h.
 */
#include "base/processor.h"

#include "base/clock.h"

#define BRIEF_NS (50 * NS_PER_US)
#define FRESH_NS (200 * NS_PER_US) /* so old at most is what it knows before something brief */

/* The clock, and this thread's CPU time at that moment. */
static __thread struct {
	uint64_t at_ns, cpu_ns;
} asked;

static void ask(uint64_t now_ns)
{
	asked.cpu_ns = clock_thread_cpu_ns();
	asked.at_ns = now_ns;
}

void processor_begin(uint64_t now_ns, double expected_ns)
{
	if (expected_ns >= (double)BRIEF_NS || now_ns - asked.at_ns >= FRESH_NS)
		ask(now_ns);
}

uint64_t processor_lost_ns(uint64_t from_ns, uint64_t to_ns)
{
	uint64_t spent_ns = to_ns - from_ns, cpu_ns = asked.cpu_ns;

	if (spent_ns < BRIEF_NS)
		return 0;
	ask(to_ns);
	cpu_ns = asked.cpu_ns - cpu_ns;
	return cpu_ns < spent_ns ? spent_ns - cpu_ns : 0;
}

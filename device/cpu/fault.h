/* SPDX-License-Identifier: MIT
 *
 * Faults in code that the device executes for a program, compiled kernels and copies, become errors
 * of the command instead of the end of the process. Everything is per thread; a fault outside a guard
 * goes to the handler that was there before us, and so ends the process as usual.
 */
#ifndef GDEV_DEVICE_CPU_FAULT_H
#define GDEV_DEVICE_CPU_FAULT_H

#include <stdint.h>

struct fault_guard;

/* Installs the signal handlers, for good; again when somebody else has taken them since. */
int fault_init(void);

/* Calls function(argument). A fault in it, or fault_raise(), abandons it where it is: it must hold no
 * lock and own nothing then. Returns 0 or the error, and for -GDEV_E_ILLEGAL_ADDRESS the address
 * (0 where the processor does not tell). */
int fault_run(void (*function)(void *argument), void *argument, uint64_t *address);

/* Ends the innermost fault_run() of this thread with `error`. */
void fault_raise(int error) __attribute__((noreturn));

/* Between these two, faults on this thread are our own bugs again: for calls out of a guarded
 * function that take locks. */
struct fault_guard *fault_suspend(void);
void fault_resume(struct fault_guard *guard);

#endif

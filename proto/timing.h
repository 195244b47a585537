/* SPDX-License-Identifier: MIT
 *
 * Time constants that differ from device to device: a backend gives them (device_ops.timing), and its workers tell
 * gdevd (READY). And those of the machine that gdevd, workers and clients share. All others are where they are used;
 * docs/time.md lists what each of them costs when it is wrong.
 */
#ifndef GDEV_PROTO_TIMING_H
#define GDEV_PROTO_TIMING_H

#include <stdint.h>

struct device_timing {
	/* A turn while others wait, where gdev.conf says nothing else: handovers are to be a small part of it. */
	uint64_t quantum_ns;
	/* What a handover costs compute, and a copy engine. */
	uint64_t switch_ns[2];
	/* A holder that others wait for leaves when it has had no work for so long; likewise. */
	uint64_t idle_ns[2];
	/* So much estimated work is kept on the device. */
	uint64_t window_ns;
	/* For so long a thread looks for the end of what is on the device before it sleeps, where processors are MANY.
	 * 0: the device needs the processors itself. */
	uint64_t look_ns;
	/* A holder that knows to this when its window ends hands over so long before. 0: none does. */
	uint64_t ahead_ns;
};

/* What waking up takes a thread that sleeps, but once in a hundred times (a virtual machine; bench_wake). */
#define WAKE_NS 300000ull
/* For so long at most a thread looks without sleeping because another process wants it to. */
#define LOOK_NS_MAX 10000000ull
/* With so few processors a thread that looks without sleeping yields to others; with less than many, none looks for
 * long. */
#define FEW_PROCESSORS 4
#define MANY_PROCESSORS 8

_Static_assert(sizeof(struct device_timing) == 64, "ABI");

#endif

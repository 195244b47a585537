/* SPDX-License-Identifier: MIT
 *
 * The virtual machine's memory in the proxy: what it shares with us through the device (proto/vm.h), and all of its RAM.
 * Nobody but the proxy maps either. Where the guest names memory, it is looked up here.
 */
#ifndef GDEV_VM_GUEST_H
#define GDEV_VM_GUEST_H

#include <stdint.h>

#include "proto/session.h"
#include "proto/vm.h"

/* What is asked of guest_create(). */
struct guest_sizes {
	uint64_t ram_bytes, shared_bytes;
	unsigned slots;
};

struct guest {
	struct guest_sizes sizes;
	struct vm_header header; /* as each machine finds it at first: it may write into its own */
	int ram_fd, shared_fd;
	uint8_t *ram, *shared;
	uint64_t low_bytes, blocks_offset;
	int rung[VM_SLOTS_MAX + 1];  /* eventfds, by vector: the guest writes */
	int rings[VM_SLOTS_MAX + 1]; /* we write: an interrupt of the guest */
};

/* -EINVAL: sizes that cannot be. */
int guest_create(struct guest *guest, const struct guest_sizes *sizes);
/* All memory is as it was at first: another machine's begins. No proxy of a session lives. */
void guest_reset(struct guest *guest);
/* The slot is zeros. */
void guest_clear_slot(struct guest *guest, unsigned slot);

struct vm_header *guest_header(const struct guest *guest);
struct session_segment *guest_segment(const struct guest *guest, unsigned slot);
struct vm_mailbox *guest_mailbox(const struct guest *guest, unsigned slot);

/* Where a run that the guest named is in this process; NULL: some of it is neither RAM nor page-locked memory. */
void *guest_run(const struct guest *guest, const struct vm_entry *run);

void guest_interrupt(const struct guest *guest, unsigned vector);

#endif

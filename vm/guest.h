/* SPDX-License-Identifier: MIT
 *
 * The virtual machine's memory in the proxy: what it shares with us through the device (proto/vm.h), all of its RAM, and the
 * store of the session. Of these a worker has the store alone. Where the guest names memory, it is looked up here.
 *
 * A store is another session's when its worker has it no more, which the kernel says: the proxy opens it anew, locks that
 * (F_OFD_SETLK), and gives the worker that description. The lock lasts as long as anybody has the description or maps it. A
 * worker may not unlock it (its sandbox), nor open the store once more (its user, and the file's mode).
 */
#ifndef GDEV_VM_GUEST_H
#define GDEV_VM_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/session.h"
#include "proto/vm.h"
#include "vm/keys.h"

/* What is asked of guest_create(). */
struct guest_sizes {
	uint64_t ram_bytes, store_bytes;
	unsigned slots;
};

/* What proxies have in common, in memory that they share. */
struct commons {
	uint64_t image_bytes
		[VM_SLOTS_MAX]; /* of images that are not whole yet; its proxy writes it */
	struct keys keys;
};

struct guest {
	struct guest_sizes sizes;
	struct vm_header header; /* as each machine finds it at first: it may write into its own */
	int ram_fd, shared_fd;
	uint8_t *ram, *shared;
	uint64_t low_bytes;
	int stores[VM_SLOTS_MAX];
	uint64_t secret[2]; /* of all machines that are served: nobody else knows it */
	struct commons *commons;
	int store_fd; /* in a proxy: its own, which it may give to its worker */
	uint8_t *store;
	int rung[VM_SLOTS_MAX + 1];  /* eventfds, by vector: the guest writes */
	int rings[VM_SLOTS_MAX + 1]; /* we write: an interrupt of the guest */
};

/* -EINVAL: sizes that cannot be. */
int guest_create(struct guest *guest, const struct guest_sizes *sizes);
/* All memory but the slots is as it was at first: another machine's begins. No proxy of a session lives. */
void guest_reset(struct guest *guest);
/* The slot and its store are as at first. */
void guest_clear_slot(struct guest *guest, unsigned slot);
/* The store is all zeros, and takes no memory, also if somebody has it. */
void guest_empty_store(const struct guest *guest, unsigned slot);
/* Gives the machine another number, which only the stores are told that nobody keeps (a bit each): what a store that is kept
 * says of itself, the guest's module does not believe. No session lives. */
void guest_rename(struct guest *guest, uint64_t kept);
/* Whether a proxy or a worker has the slot's store. */
bool guest_has_store(const struct guest *guest, unsigned slot);
/* This process is the slot's proxy from now on. */
int guest_take_store(struct guest *guest, unsigned slot);
/* What is there is zeros, and takes no memory. */
void guest_clear_store(const struct guest *guest, uint64_t offset, uint64_t bytes);

struct vm_header *guest_header(const struct guest *guest);
struct session_segment *guest_segment(const struct guest *guest, unsigned slot);
struct vm_mailbox *guest_mailbox(const struct guest *guest, unsigned slot);

/* Where a run that the guest named is in this process; NULL: some of it is neither RAM nor of the proxy's store. */
void *guest_run(const struct guest *guest, const struct vm_entry *run);

void guest_interrupt(const struct guest *guest, unsigned vector);

#endif

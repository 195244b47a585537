/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * The guest's kernel module: the device, its slots, and who holds what. Read main.c first.
 *
 * Locks, in this order: device->presence (for reading: the shared memory stays mapped; mmap(2), which has mmap_lock
 * already, only tries), slot->lock (a mutex: one request of the slot at a time), the process's mmap_lock, device->lock (a
 * mutex: which slots are taken). A device lives until the last of its open files has let it go; `gone` says that its PCI
 * device is not there any more, and is only ever set.
 */
#ifndef GDEV_KMOD_GDEV_H
#define GDEV_KMOD_GDEV_H

#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/rwsem.h>
#include <linux/wait.h>

#include "proto/vm.h"

struct gdev_device;

/* A mailbox and its vector. The first is the device's own; the others are of one open file each. */
struct gdev_slot {
	struct gdev_device *device;
	u32 vector;
	bool taken; /* device->lock */
	struct vm_mailbox *box;
	struct pci_dev *store;  /* NULL: none was found */
	wait_queue_head_t wait; /* the vector's interrupts wake it */
	atomic64_t events;      /* of poll(2) and read(2) */

	struct mutex lock; /* guards what follows, and the mailbox */
	u64 posted;
	bool stuck; /* a request was left behind by a process that was killed: there are no more */
	struct page **pages; /* pinned for the request: VM_ENTRIES_MAX at most */
	unsigned int pinned;
	bool dirty; /* the request may write into them */
	u32 took_ns
		[64]; /* what the host took for the last request of so many bytes, by their logarithm */
};

struct gdev_device {
	struct kref references;
	struct pci_dev *pci;
	struct miscdevice misc;
	char name[16];
	int number;
	struct rw_semaphore presence;
	bool gone;
	void __iomem *registers;
	phys_addr_t memory_at;
	void *memory;
	struct vm_header *header;

	struct mutex lock;
	u32 slot_count; /* the device's own among them */
	struct gdev_slot slots[];
};

/* main.c */
void gdev_put(struct gdev_device *device);

/* mailbox.c */
void gdev_ring(struct gdev_device *device, u32 vector);
/* The host ranks the session as the calling thread is ranked here. */
void gdev_say_nice(struct gdev_slot *slot);
bool gdev_slot_dead(const struct gdev_slot *slot);
/* Posts a request and waits for its answer. With slot->lock. The answer's status; -EINTR: the process is being killed, and
 * the host may still be at it; -EIO: the session is dead, and the host is not. */
int gdev_ask(struct gdev_slot *slot, const struct vm_request *request, struct vm_answer *answer);
/* A free slot for an open file, or -errno. */
int gdev_slot_take(struct gdev_device *device, struct gdev_slot **slot);
void gdev_slot_give(struct gdev_slot *slot);
/* Releases the pages of the last request, which the host does not touch any more. */
void gdev_unpin(struct gdev_slot *slot);

/* file.c */
extern const struct file_operations gdev_file_operations;
struct gdev_slot *gdev_file_slot(const struct file *file);
struct gdev_device *gdev_file_device(const struct file *file);

/* copy.c; with the file's slot. */
int gdev_copy(struct file *file, struct gdev_slot *slot, const struct vm_copy *copy);
int gdev_image(struct file *file, struct gdev_slot *slot, struct vm_image *image);
int gdev_log(struct file *file, struct gdev_slot *slot, const struct vm_log *log);

/* map.c */
int gdev_mmap(struct file *file, struct vm_area_struct *area);
/* Whether memory of the file's store is mapped at `address`: where in the store that is, and how many bytes of it follow. */
bool gdev_store_at(struct file *file, u64 address, u64 *offset, u64 *bytes);

/* store.c */
/* Finds the stores of all slots, whose sessions have all ended. */
void gdev_stores_find(struct gdev_device *device);
void gdev_stores_put(struct gdev_device *device);

#endif

/* SPDX-License-Identifier: MIT
 *
 * See guest.h.
 */
#include "vm/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

/* Where QEMU's q35 has its RAM: below 4 GiB up to here, and the rest from there on. */
#define RAM_SPLIT 0xb0000000ull /* from so much on */
#define RAM_LOW 0x80000000ull   /* so much is below */
#define RAM_HIGH (1ull << 32)

#define SHARED_BYTES                                                                               \
	(1ull << 30) /* smaller ones can be below 4 GiB, where memory of devices is not cached */

_Static_assert(VM_SEGMENT_BYTES == sizeof(struct session_segment), "whole pages, in proto/vm.h");
_Static_assert(VM_SEGMENT_BYTES % 4096 == 0, "a process maps it");

struct vm_header *guest_header(const struct guest *guest)
{
	return (struct vm_header *)guest->shared;
}

static uint8_t *slot_at(const struct guest *guest, unsigned slot)
{
	return guest->shared + VM_SLOT_OFFSET + (uint64_t)slot * VM_SLOT_BYTES;
}

struct session_segment *guest_segment(const struct guest *guest, unsigned slot)
{
	return (struct session_segment *)slot_at(guest, slot);
}

struct vm_mailbox *guest_mailbox(const struct guest *guest, unsigned slot)
{
	return (struct vm_mailbox *)(slot_at(guest, slot) + VM_SLOT_MAILBOX);
}

static void punch(int fd, uint64_t offset, uint64_t bytes)
{
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

static void write_store(const struct guest *guest, unsigned slot)
{
	const struct vm_store store = {VM_STORE_MAGIC, VM_VERSION, guest->header.machine, slot};

	if (fd_write_at(guest->stores[slot], &store, sizeof store, 0))
		log_warning("the store of session %u cannot be written", slot);
}

void guest_empty_store(const struct guest *guest, unsigned slot)
{
	punch(guest->stores[slot], 0, guest->sizes.store_bytes);
}

void guest_clear_slot(struct guest *guest, unsigned slot)
{
	punch(guest->shared_fd, (uint64_t)(slot_at(guest, slot) - guest->shared), VM_SLOT_BYTES);
	guest->commons->image_bytes[slot] = 0;
	guest_empty_store(guest, slot);
	write_store(guest, slot);
}

void guest_rename(struct guest *guest, uint64_t kept)
{
	if (getrandom(&guest->header.machine, sizeof guest->header.machine, 0) < 0)
		log_warning("no random number: %s", strerror(errno));
	guest_header(guest)->machine = guest->header.machine;
	for (unsigned i = 0; i < guest->sizes.slots; i++)
		if (!(kept >> i & 1))
			write_store(guest, i);
}

bool guest_has_store(const struct guest *guest, unsigned slot)
{
	struct flock lock = {.l_type = F_WRLCK};

	return fcntl(guest->stores[slot], F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

int guest_take_store(struct guest *guest, unsigned slot)
{
	struct flock lock = {.l_type = F_WRLCK};
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", guest->stores[slot]);
	guest->store_fd = open(path, O_RDWR | O_CLOEXEC);
	if (guest->store_fd < 0 || fcntl(guest->store_fd, F_OFD_SETLK, &lock))
		return -errno;
	guest->store = mmap(NULL, guest->sizes.store_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		guest->store_fd, 0);
	return guest->store == MAP_FAILED ? -errno : 0;
}

void guest_clear_store(const struct guest *guest, uint64_t offset, uint64_t bytes)
{
	punch(guest->store_fd, offset, bytes);
}

void guest_reset(struct guest *guest)
{
	eventfd_t count;

	punch(guest->ram_fd, 0, guest->sizes.ram_bytes);
	punch(guest->shared_fd, 0, SHARED_BYTES);
	*guest_header(guest) = guest->header;
	for (unsigned i = 0; i <= guest->sizes.slots; i++) {
		eventfd_read(guest->rung[i], &count);
		eventfd_read(guest->rings[i], &count);
	}
}

static int map_memory(const char *name, uint64_t bytes, int *fd, uint8_t **memory)
{
	*fd = fd_shared_memory(name, bytes);
	if (*fd < 0)
		return *fd;
	*memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return *memory == MAP_FAILED ? -errno : 0;
}

/* The mode keeps a worker, which has a descriptor, from opening it once more. */
static int create_stores(struct guest *guest)
{
	for (unsigned i = 0; i < guest->sizes.slots; i++) {
		guest->stores[i] = fd_shared_memory("gdev-vm-store", guest->sizes.store_bytes);
		if (guest->stores[i] < 0)
			return guest->stores[i];
		if (fchmod(guest->stores[i], 0600))
			return -errno;
	}
	return 0;
}

static int create_vectors(struct guest *guest)
{
	for (unsigned i = 0; i <= guest->sizes.slots; i++) {
		guest->rung[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		guest->rings[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (guest->rung[i] < 0 || guest->rings[i] < 0)
			return -errno;
	}
	return 0;
}

/* What it has is the process's, which ends with it. */
int guest_create(struct guest *guest, const struct guest_sizes *sizes)
{
	struct vm_header *header;
	int error;

	if (!sizes->slots || sizes->slots > VM_SLOTS_MAX || sizes->store_bytes <= VM_STORE_BASE ||
		sizes->store_bytes & (sizes->store_bytes - 1) || !sizes->ram_bytes ||
		sizes->ram_bytes % (2u << 20))
		return -EINVAL;
	*guest = (struct guest){.sizes = *sizes};
	guest->low_bytes = sizes->ram_bytes >= RAM_SPLIT ? RAM_LOW : sizes->ram_bytes;
	error = map_memory("gdev-vm-ram", sizes->ram_bytes, &guest->ram_fd, &guest->ram);
	if (!error)
		error = map_memory(
			"gdev-vm-shared", SHARED_BYTES, &guest->shared_fd, &guest->shared);
	if (!error)
		error = create_stores(guest);
	if (!error)
		error = create_vectors(guest);
	if (error)
		return error;
	header = &guest->header;
	header->magic = VM_MAGIC;
	header->version = VM_VERSION;
	header->slots = sizes->slots;
	header->memory_bytes = SHARED_BYTES;
	header->store_bytes = sizes->store_bytes;
	guest->commons = mmap(NULL, sizeof *guest->commons, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (guest->commons == MAP_FAILED ||
		getrandom(&header->machine, sizeof header->machine, 0) < 0 ||
		getrandom(guest->secret, sizeof guest->secret, 0) < 0)
		return -errno;
	return keys_init(&guest->commons->keys);
}

static bool within(uint64_t address, uint64_t bytes, uint64_t begin, uint64_t end)
{
	return address >= begin && address < end && bytes <= end - address;
}

void *guest_run(const struct guest *guest, const struct vm_entry *run)
{
	uint64_t address = run->address, bytes = run->bytes;
	uint64_t high_bytes = guest->sizes.ram_bytes - guest->low_bytes;

	if (!bytes)
		return NULL;
	if (address & VM_IN_STORE) {
		address &= ~VM_IN_STORE;
		return guest->store && within(address, bytes, VM_STORE_BASE,
					       guest->sizes.store_bytes)
			       ? guest->store + address
			       : NULL;
	}
	if (within(address, bytes, 0, guest->low_bytes))
		return guest->ram + address;
	if (within(address, bytes, RAM_HIGH, RAM_HIGH + high_bytes))
		return guest->ram + guest->low_bytes + (address - RAM_HIGH);
	return NULL;
}

void guest_interrupt(const struct guest *guest, unsigned vector)
{
	eventfd_write(guest->rings[vector], 1);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * The paravirtual device: what a guest's kernel module (kmod/), the client library in the guest (lib/libgdev/vm.c) and
 * the proxy on the host (vm/) say to each other. The module compiles this header, too.
 *
 * The device is QEMU's ivshmem-doorbell (PCI 1af4:1110). Its shared memory (BAR 2) is one memfd of the host's:
 *   0                          struct vm_header, whose mailbox is the device's own
 *   VM_SLOT_OFFSET             the slots, VM_SLOT_BYTES each
 * A slot serves one open file of /dev/gdevN. At its start is a session segment (proto/session.h), which the process maps.
 * Behind it, at VM_SLOT_MAILBOX, is a mailbox that only the guest's kernel maps. So a process says in its records
 * whatever it likes, and the physical addresses that the proxy gets are the kernel's.
 *
 * Each slot has a store, for page-locked memory: an ivshmem-plain device whose BAR 2 is a memfd of its own, because a worker
 * gets a descriptor of it, and with that all of it. It begins with struct vm_store, by which the guest's kernel finds it.
 * The process maps what it likes of the rest, and VM_HOST has the worker map the same: what is at `offset` of the store is at
 * arena_base + staging_bytes + offset in both. The store is zeros when a session begins, and where its memory has been freed.
 *
 * Vectors: slot i has vector i + 1 in both directions; vector 0 is the device's own mailbox, and every opening and
 * closing. The host is peer 0, the guest is peer 1.
 *
 * A mailbox holds one request at a time. The guest writes `request` and the list, stores `posted`, issues a full fence,
 * and rings when it then exchanges ASLEEP in `host_state` for AWAKE. The host copies the request out once, checks and
 * executes the copy, writes `answer`, stores `answered`, issues a full fence, and interrupts when `guest_waits` is 1.
 * Both sides count from 0 when the slot becomes free.
 *
 * Life of a slot: FREE -> the guest posts VM_OPEN -> BUSY -> the guest stores 1 in `closing` -> the host ends the
 * session, zeroes the slot and its store when no worker has that any more -> FREE. If a worker does not let go of the store in
 * time, the slot is not FREE, and VM_RESET is answered without it. A session that ends by itself is DEAD until
 * the guest closes it. In FREE and DEAD the host no longer touches pages that a request of the slot has named.
 */
#ifndef GDEV_PROTO_VM_H
#define GDEV_PROTO_VM_H

#ifdef __KERNEL__
#include <linux/ioctl.h>
#include <linux/types.h>
#else
#include <stdint.h>
#include <sys/ioctl.h>
#endif

#define VM_MAGIC 0x6d767667u       /* "gvvm" */
#define VM_STORE_MAGIC 0x73767667u /* "gvvs" */
#define VM_VERSION 4
#define VM_PCI_VENDOR 0x1af4
#define VM_PCI_DEVICE 0x1110
#define VM_PCI_DOORBELL 12 /* in BAR 0: peer << 16 | vector */
#define VM_PEER_HOST 0
#define VM_PEER_GUEST 1

#define VM_SLOTS_MAX 64
#define VM_SLOT_OFFSET (2u << 20)
#define VM_SLOT_BYTES (4u << 20)
#define VM_SEGMENT_BYTES 2756608u /* sizeof(struct session_segment), whole pages */
#define VM_SLOT_MAILBOX (3u << 20)
#define VM_STORE_BASE (2u << 20) /* where a store's memory begins; its size is a multiple */
#define VM_ENTRIES_MAX 4096
#define VM_LOG_BYTES_MAX 65536u

/* Of the guest: the first replies and streams of a session. The proxy has the rest for itself. */
#define VM_REPLIES 28

enum vm_slot_state { VM_SLOT_RESETTING, VM_SLOT_FREE, VM_SLOT_BUSY, VM_SLOT_DEAD };
enum vm_host_state { VM_HOST_ASLEEP, VM_HOST_AWAKE };

enum vm_operation {
	/* The device's mailbox. */
	VM_RESET =
		1, /* ends all sessions: the guest's module begins. Answered when the slots are free */
	VM_PROBE, /* address: of guest memory. Answer: value, the 8 bytes there */
	/* A slot's. */
	VM_OPEN = 16, /* number: how many places of the arena not to take. Answer: welcome */
	VM_COPY, /* `bytes` between the list and rows of device memory: each of `width` bytes, the first at `address`, the
		       * next `pitch` after it. bytes: a multiple of width. number: enum vm_direction */
	VM_IMAGE, /* a piece of an image: `number` is where it begins, `bytes` its length, `address` the image's. Answer
		       * to the last piece: value, the number of proto/peer.h's PEER_IMAGE */
	VM_LOG, /* to the list: what the compiler said of the last module that was loaded with a log, and zeros */
	VM_HOST, /* [address, address + bytes) is page-locked memory from now on, of the store; no list. RECORD_MEMORY_FREE ends it */
};

enum vm_direction { VM_TO_DEVICE, VM_FROM_DEVICE };

struct vm_request {
	uint32_t operation;
	uint32_t entries; /* of the list */
	uint64_t address, bytes, number;
	uint64_t width, pitch;
};

/* What the guest's process is told of its session. */
struct vm_welcome {
	uint64_t session, memory_bytes, arena_base, arena_bytes, staging_bytes, store_bytes;
	char vgpu[32];
	char device_name[64];
	uint8_t device_uuid[16];
};

struct vm_answer {
	int32_t status; /* 0 or negative */
	uint32_t reserved;
	uint64_t value;
	struct vm_welcome welcome;
};

/* A run of bytes of the guest's memory, at a physical address; with VM_IN_STORE at an offset of the slot's store. */
struct vm_entry {
	uint64_t address, bytes;
};
#define VM_IN_STORE (1ull << 63)

/* Counts of a session; the host writes them. */
struct vm_counts {
	uint64_t records, launches;
	uint64_t doorbells;     /* of the guest: each is an exit of its processor */
	uint64_t interrupts;    /* of the host */
	uint64_t waits;         /* of the guest, that slept */
	uint64_t copies, bytes; /* asked for */
	uint64_t bytes_copied;  /* by processors, for those */
	uint64_t request_ns;    /* that the proxy took for requests, by the clock, */
	uint64_t exec_ns;       /* and, of that, for copying between the lists and the device */
};

struct vm_mailbox {
	uint32_t state;       /* host; enum vm_slot_state */
	uint32_t host_state;  /* both; enum vm_host_state */
	uint32_t guest_waits; /* guest */
	uint32_t closing;     /* guest */
	uint64_t posted;      /* guest */
	uint64_t answered;    /* host */
	struct vm_request request;
	struct vm_answer answer;
	struct vm_counts counts; /* host */
	/* Guest: of the process that opened, and of its thread that called last. */
	uint32_t user;
	int32_t nice;
	uint8_t reserved[3752];
	struct vm_entry list[VM_ENTRIES_MAX];
};

#define VM_PROPERTIES 160

struct vm_header {
	uint32_t magic, version;
	uint32_t slots, reserved;
	uint64_t memory_bytes;         /* of the shared memory */
	uint64_t machine, store_bytes; /* a random number; the size of each store */
	/* Of the virtual GPU, as it was when the host began to serve; properties as in proto/properties.h. */
	struct vm_welcome description;
	int32_t properties[VM_PROPERTIES];
	uint8_t reserved2[3256];
	struct vm_mailbox mailbox;
};

struct vm_store {
	uint32_t magic, version;
	uint64_t machine, slot; /* as header.machine; from 0 */
};

_Static_assert(sizeof(struct vm_request) == 48, "ABI");
_Static_assert(sizeof(struct vm_welcome) == 160, "ABI");
_Static_assert(sizeof(struct vm_mailbox) == 4096 + 16 * VM_ENTRIES_MAX, "ABI");
_Static_assert(sizeof(struct vm_header) == 4096 + sizeof(struct vm_mailbox), "ABI");

/* ---- /dev/gdevN: the guest's processes and their kernel ----
 *
 * An open file has no session before VM_IOCTL_OPEN. read(2) and write(2) of 8 bytes, and poll(2), are those of an eventfd that
 * the host's interrupts count up; poll says POLLHUP when the session is dead. mmap(2) at VM_MAP_SEGMENT maps the session
 * segment, at VM_MAP_STORE + offset a part of the slot's store. */
#define VM_MAP_SEGMENT 0ull
#define VM_MAP_STORE (1ull << 32)

struct vm_info {
	uint32_t version, slots;
	struct vm_welcome description; /* session and arena are 0 */
	int32_t properties[VM_PROPERTIES];
};

struct vm_open {
	uint32_t attempt, reserved;
	struct vm_welcome welcome; /* out */
};

/* `rows` rows of `width` bytes; each begins a pitch after the one before. */
struct vm_copy {
	uint64_t device, host, width, rows;
	uint64_t device_pitch, host_pitch;
	uint32_t direction, reserved;
};

struct vm_image {
	uint64_t address, bytes;
	uint64_t number; /* out */
};

/* VM_LOG_BYTES_MAX at most. */
struct vm_log {
	uint64_t address, bytes;
};

/* A request VM_HOST. */
struct vm_host {
	uint64_t address, bytes;
};

#define VM_IOCTL_INFO _IOR(0xb7, 0, struct vm_info)
#define VM_IOCTL_OPEN _IOWR(0xb7, 1, struct vm_open)
#define VM_IOCTL_RING _IO(0xb7, 2) /* the host is to look at the ring */
#define VM_IOCTL_COPY _IOW(0xb7, 3, struct vm_copy)
#define VM_IOCTL_IMAGE _IOWR(0xb7, 4, struct vm_image)
#define VM_IOCTL_COUNTS _IOR(0xb7, 5, struct vm_counts)
#define VM_IOCTL_LOG _IOW(0xb7, 6, struct vm_log)
#define VM_IOCTL_HOST _IOW(0xb7, 7, struct vm_host)

#endif

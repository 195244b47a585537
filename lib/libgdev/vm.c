/* SPDX-License-Identifier: MIT
 *
 * The transport of a process in a virtual machine: the session segment is memory of the paravirtual device (proto/vm.h),
 * from which the host's proxy takes records and in which it shows their completion. The kernel module is called to wake
 * the proxy up, to sleep, and to copy: it pins the pages of the program's buffer, and the proxy copies between them and
 * the device. Page-locked memory is in the session's store, of which the worker has a descriptor.
 *
 * The device's file is an eventfd that the host counts up, and says POLLHUP when the session is dead.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "lib/libgdev/connect.h"
#include "lib/libgdev/internal.h"
#include "lib/libgdev/sender.h"
#include "lib/libgdev/waiting.h"
#include "proto/vm.h"

/* Small copies to the device ride in their records, which the proxy copies once more: cheaper than a request. */
#define INLINE_BYTES 4096

_Static_assert(sizeof(struct session_segment) == VM_SEGMENT_BYTES, "the module maps so much");
_Static_assert(VM_PROPERTIES == DEVICE_PROPERTIES, "they are the same");
_Static_assert(VM_STORE_BASE == ARENA_ALIGN, "the first addresses of a store are never taken");

struct vm {
	struct transport base;
	struct waiting waiting;
	struct sender sender;
	uint64_t store; /* where the session's store begins in the arena */
	int fd;
};

static struct vm *vm_of(struct transport *transport)
{
	return (struct vm *)transport;
}

/* ---- records ---- */

static int vm_begin(struct transport *transport, uint32_t length, void **record)
{
	return sender_begin(&vm_of(transport)->sender, length, record);
}

static void wake_proxy(struct transport *transport)
{
	if (sender_must_wake(transport))
		ioctl(vm_of(transport)->fd, VM_IOCTL_RING);
}

static void vm_commit(struct transport *transport)
{
	sender_commit(&vm_of(transport)->sender);
	wake_proxy(transport);
}

/* The record's own doorbell does it: to wake the proxy for a record that may not come costs as much. */
static void vm_rouse(struct transport *transport)
{
	(void)transport;
}

/* A proxy that is awake looks at host_completed, too. */
static void vm_kick(struct transport *transport)
{
	wake_proxy(transport);
}

static int vm_wait(struct transport *transport, const struct gdev_fence *points, unsigned count,
	uint64_t deadline_ns, const atomic_bool *cancel)
{
	return waiting_wait(&vm_of(transport)->waiting, points, count, deadline_ns, cancel);
}

static void vm_cancel(struct transport *transport)
{
	waiting_cancel(&vm_of(transport)->waiting);
}

/* ---- memory ---- */

/* The module's answer; -EIO: there is no proxy any more. */
static int ask(struct transport *transport, unsigned long command, void *argument)
{
	if (atomic_load(&transport->lost))
		return transport_error(transport);
	if (!ioctl(vm_of(transport)->fd, command, argument))
		return 0;
	if (errno != EIO && errno != ENODEV)
		return -errno;
	atomic_store(&transport->lost, true);
	waiting_cancel(&vm_of(transport)->waiting);
	return transport_error(transport);
}

static int vm_host_map(struct transport *transport, uint64_t address, uint64_t bytes)
{
	struct vm_host host = {address, bytes};
	struct vm *vm = vm_of(transport);

	if (mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, vm->fd,
		    (off_t)(VM_MAP_STORE + (address - vm->store))) == MAP_FAILED)
		return -errno;
	return ask(transport, VM_IOCTL_HOST, &host);
}

static int vm_image_copy(
	struct transport *transport, const void *image, uint64_t bytes, uint64_t *number)
{
	struct vm_image piece = {.address = (uint64_t)image, .bytes = bytes};
	int error = ask(transport, VM_IOCTL_IMAGE, &piece);

	if (!error)
		*number = piece.number;
	return error;
}

static int vm_log_copy(struct transport *transport, char *log, uint64_t bytes)
{
	struct vm_log wanted = {(uint64_t)log, bytes};

	return ask(transport, VM_IOCTL_LOG, &wanted);
}

static int vm_copy(struct transport *transport, enum copy_direction direction,
	const struct transport_rows *rows)
{
	struct vm_copy copy = {
		.device = rows->device,
		.host = rows->host,
		.width = rows->width,
		.rows = rows->count,
		.device_pitch = rows->device_pitch,
		.host_pitch = rows->host_pitch,
		.direction = direction == COPY_TO_DEVICE ? VM_TO_DEVICE : VM_FROM_DEVICE,
	};

	return ask(transport, VM_IOCTL_COPY, &copy);
}

/* ---- life ---- */

static void vm_forget(struct transport *transport)
{
	close(steal_fd(&vm_of(transport)->fd));
}

/* What is mapped of the device keeps its file, and so the session: the arena goes, too, and with it the end comes. */
static void vm_destroy(struct transport *transport)
{
	struct vm *vm = vm_of(transport);

	munmap(transport->segment, VM_SEGMENT_BYTES);
	close(vm->fd);
	waiting_finish(&vm->waiting);
	sender_finish(&vm->sender);
	free(vm);
}

static const struct transport_ops vm_ops = {
	.name = "vm",
	.begin = vm_begin,
	.commit = vm_commit,
	.rouse = vm_rouse,
	.kick = vm_kick,
	.wait = vm_wait,
	.cancel = vm_cancel,
	.host_map = vm_host_map,
	.image_copy = vm_image_copy,
	.log_copy = vm_log_copy,
	.copy = vm_copy,
	.forget = vm_forget,
	.destroy = vm_destroy,
};

/* Takes the descriptor on success. */
static int create_transport(int fd, struct transport **transport)
{
	struct vm *vm = calloc(1, sizeof *vm);
	int error;

	if (!vm)
		return -ENOMEM;
	vm->base.segment = mmap(
		NULL, VM_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, VM_MAP_SEGMENT);
	if (vm->base.segment == MAP_FAILED) {
		error = -errno;
		goto err_free;
	}
	error = transport_segment_is_ours(vm->base.segment) ? 0 : -GDEV_E_PROTOCOL;
	if (!error)
		error = waiting_init(&vm->waiting, &vm->base, fd, fd);
	if (error)
		goto err_unmap;
	sender_init(&vm->sender, &vm->base, &vm->waiting);
	vm->fd = fd;
	vm->base.ops = &vm_ops;
	vm->base.spin_ns = transport_spin_ns(vm->base.segment);
	*transport = &vm->base;
	return 0;

err_unmap:
	munmap(vm->base.segment, VM_SEGMENT_BYTES);
err_free:
	free(vm);
	return error;
}

/* ---- the connector ---- */

/* A virtual GPU has the name of its device: gdev0 is /dev/gdev0. -errno; -ENODEV: it is not of a virtual machine. */
static int open_device(const char *name, struct vm_info *info)
{
	char path[32];
	int fd;

	if (strncmp(name, "gdev", 4) || !isdigit((unsigned char)name[4]) || strlen(name) > 8)
		return -ENODEV;
	snprintf(path, sizeof path, "/dev/%s", name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENODEV : -errno;
	if (!ioctl(fd, VM_IOCTL_INFO, info) && info->version == VM_VERSION)
		return fd;
	close(fd);
	return -ENODEV;
}

/* One that this process may not open is there, too: it will be told so. */
static bool vm_serves(const char *name)
{
	struct vm_info info;
	int fd;

	if (getenv("GDEV_RUNTIME_DIR"))
		return false;
	fd = open_device(name, &info);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EACCES;
}

static void describe(const struct vm_welcome *welcome, struct gdev_description *description)
{
	*description = (struct gdev_description){
		.memory_bytes = welcome->memory_bytes,
		.session = welcome->session,
		.arena_base = welcome->arena_base,
		.arena_bytes = welcome->arena_bytes,
		.apart = 1,
	};
	snprintf(description->device_name, sizeof description->device_name, "%.63s",
		welcome->device_name);
	memcpy(description->device_uuid, welcome->device_uuid, sizeof description->device_uuid);
}

static int ask_for_session(struct opening *opening, unsigned attempt, struct vm_welcome *welcome)
{
	struct vm_open open = {.attempt = attempt};
	struct vm_info info;
	int error;

	opening->socket = open_device(opening->vgpu, &info);
	if (opening->socket < 0)
		return opening->socket;
	registry_leave();
	error = ioctl(opening->socket, VM_IOCTL_OPEN, &open) ? -errno : 0;
	registry_enter();
	*welcome = open.welcome;
	return error;
}

static bool is_sound(const struct vm_welcome *welcome)
{
	return welcome->arena_base && welcome->arena_bytes &&
	       !(welcome->arena_base % ARENA_ALIGN) && !(welcome->arena_bytes % ARENA_ALIGN) &&
	       !(welcome->staging_bytes % ARENA_ALIGN) && !(welcome->store_bytes % ARENA_ALIGN) &&
	       welcome->staging_bytes < welcome->arena_bytes / 2 &&
	       welcome->store_bytes < welcome->arena_bytes / 2;
}

/* With the arena that the proxy has. -EADDRINUSE: it is not free here. */
static int enter(
	struct opening *opening, const struct vm_welcome *welcome, struct transport **transport)
{
	int error;

	if (!is_sound(welcome))
		return -GDEV_E_PROTOCOL;
	if (!arena_reserve(welcome->arena_base, welcome->arena_bytes))
		return -EADDRINUSE;
	error = create_transport(opening->socket, transport);
	if (error) {
		munmap((void *)welcome->arena_base, welcome->arena_bytes);
		return error;
	}
	vm_of(*transport)->store = welcome->arena_base + welcome->staging_bytes;
	opening->socket = -1;
	return 0;
}

static int vm_open_session(struct opening *opening, struct gdev_description *description,
	struct terms *terms, struct transport **transport)
{
	struct vm_welcome welcome;
	unsigned attempt = 0;
	int error;

	do {
		error = ask_for_session(opening, attempt++, &welcome);
		if (!error)
			error = enter(opening, &welcome, transport);
		if (opening->socket >= 0)
			close(steal_fd(&opening->socket));
		opening->socket = -1;
	} while (error == -EADDRINUSE && attempt < ARENA_BASES);
	if (error)
		return error;
	describe(&welcome, description);
	snprintf(description->vgpu, sizeof description->vgpu, "%s", opening->vgpu);
	*terms = (struct terms){
		.staging_bytes = welcome.staging_bytes, /* addresses that are the proxy's */
		.store_bytes = welcome.store_bytes,
		.inline_bytes = INLINE_BYTES,
		.replies = VM_REPLIES,
		.trace_fd = -1,
	};
	return 0;
}

static int vm_describe(struct opening *opening, struct gdev_description *description,
	int32_t properties[DEVICE_PROPERTIES])
{
	struct vm_info info;
	int fd = open_device(opening->vgpu, &info);

	if (fd < 0)
		return fd;
	close(fd);
	describe(&info.description, description);
	snprintf(description->vgpu, sizeof description->vgpu, "%s", opening->vgpu);
	memcpy(properties, info.properties, sizeof info.properties);
	return 0;
}

const struct connector connector_vm = {
	.name = "vm",
	.serves = vm_serves,
	.open = vm_open_session,
	.describe = vm_describe,
};

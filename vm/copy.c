/* SPDX-License-Identifier: MIT
 *
 * Copies between the guest's memory and the device, as any client of gdevd does them: in one go where device memory can be
 * mapped, through the staging memory elsewhere. The guest names its memory in runs, which are copied out of the mailbox
 * once and looked up. The device's side is found in what the session has allocated, or the copy fails. And page-locked
 * memory, which is of the session's store.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "lib/libgdev/module.h"
#include "vm/proxy.h"

#define IMAGE_BYTES_MAX (1ull << 30) /* of all of the machine's that are not whole yet */

/* Takes the list over; all of it is memory of the guest's, `bytes` in all. */
static int take_list(struct proxy *proxy, const struct vm_request *request)
{
	uint64_t total = 0;

	if (!request->entries || request->entries > VM_ENTRIES_MAX)
		return -GDEV_E_PROTOCOL;
	memcpy(proxy->list, proxy->mailbox->list, request->entries * sizeof *proxy->list);
	for (uint32_t i = 0; i < request->entries; i++) {
		if (!guest_run(proxy->guest, &proxy->list[i]))
			return -GDEV_E_PROTOCOL;
		total += proxy->list[i]
				 .bytes; /* of memory that there is: far from where sums wrap */
	}
	return total == request->bytes ? 0 : -GDEV_E_PROTOCOL;
}

static uint64_t direct_bytes(const struct proxy *proxy)
{
	const struct session_header *header = &proxy->worker->header;

	return header->direct_bytes[COPY_TO_DEVICE] + header->direct_bytes[COPY_FROM_DEVICE];
}

/* Processors touch a byte once where we copy it to the device's memory, and twice through the staging memory. */
static void count_copy(struct proxy *proxy, uint64_t bytes, uint64_t directly)
{
	proxy->counts.copies++;
	proxy->counts.bytes += bytes;
	proxy->counts.bytes_copied += directly + 2 * (bytes - min_of(directly, bytes));
}

static int copy_run(
	struct proxy *proxy, uint64_t device, void *memory, uint64_t bytes, bool to_device)
{
	uint64_t host = (uint64_t)memory;
	struct gdev_copy copy = to_device ? gdev_copy_linear(device, host, bytes)
					  : gdev_copy_linear(host, device, bytes);

	*(to_device ? &copy.destination_side : &copy.source_side) = GDEV_SIDE_DEVICE;
	return gdev_copy(proxy->stream, &copy);
}

/* A run may have the end of one row, and the beginning of others. */
static int copy_rows(struct proxy *proxy, const struct vm_request *request,
	const struct vm_entry *run, uint64_t at)
{
	uint8_t *memory = guest_run(proxy->guest, run);
	uint64_t done = 0;
	int error = 0;

	while (done < run->bytes && !error) {
		uint64_t row = (at + done) / request->width, column = (at + done) % request->width;
		uint64_t bytes = min_of(run->bytes - done, request->width - column);

		error = copy_run(proxy, request->address + row * request->pitch + column,
			memory + done, bytes, request->number == VM_TO_DEVICE);
		done += bytes;
	}
	return error;
}

static int copy_memory(struct proxy *proxy, const struct vm_request *request)
{
	uint64_t directly = direct_bytes(proxy), done = 0, start_ns = clock_now_ns();
	int error = 0;

	if (request->number > VM_FROM_DEVICE || !request->width || request->bytes % request->width)
		return -GDEV_E_PROTOCOL;
	for (uint32_t i = 0; i < request->entries && !error; i++) {
		error = copy_rows(proxy, request, &proxy->list[i], done);
		done += proxy->list[i].bytes;
	}
	proxy->counts.exec_ns += clock_now_ns() - start_ns;
	count_copy(proxy, request->bytes, direct_bytes(proxy) - directly);
	return error;
}

/* ---- images ---- */

static uint64_t *image_account(struct proxy *proxy, unsigned slot)
{
	return &proxy->guest->commons->image_bytes[slot];
}

static void drop_image(struct proxy *proxy)
{
	struct image *image = &proxy->image;

	if (image->bytes)
		munmap(image->bytes, image->length);
	*image = (struct image){0};
	__atomic_store_n(image_account(proxy, proxy->slot), 0, __ATOMIC_SEQ_CST);
}

/* Each proxy says first what it wants, and then adds up: two at a time may both be refused, and never both let through. */
static bool may_hold(struct proxy *proxy, uint64_t length)
{
	uint64_t total = 0;

	__atomic_store_n(image_account(proxy, proxy->slot), length, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < proxy->guest->sizes.slots; i++)
		total += __atomic_load_n(image_account(proxy, i), __ATOMIC_SEQ_CST);
	return total <= IMAGE_BYTES_MAX;
}

static int begin_image(struct proxy *proxy, uint64_t length)
{
	struct image *image = &proxy->image;

	drop_image(proxy);
	if (!length || length > IMAGE_BYTES_MAX)
		return -EFBIG;
	if (!may_hold(proxy, length)) {
		drop_image(proxy);
		return -ENOMEM;
	}
	image->bytes = mmap(NULL, length, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (image->bytes == MAP_FAILED) {
		image->bytes = NULL;
		drop_image(proxy);
		return -ENOMEM;
	}
	image->length = length;
	return 0;
}

static int add_piece(struct proxy *proxy, const struct vm_request *request, uint64_t *number)
{
	struct image *image = &proxy->image;
	int error = request->number ? 0 : begin_image(proxy, request->address);

	if (error)
		return error;
	if (!image->bytes || request->address != image->length ||
		request->number != image->filled || request->bytes > image->length - image->filled)
		return -GDEV_E_PROTOCOL;
	for (uint32_t i = 0; i < request->entries; i++) {
		const struct vm_entry *run = &proxy->list[i];
		memcpy(image->bytes + image->filled, guest_run(proxy->guest, run), run->bytes);
		image->filled += run->bytes;
	}
	if (image->filled < image->length)
		return 0;
	error = image_send_bytes(proxy->session, image->bytes, image->length, number);
	drop_image(proxy);
	return error;
}

/* ---- the compiler's messages ---- */

static int copy_log(struct proxy *proxy, const struct vm_request *request)
{
	uint64_t done = 0;

	if (request->bytes > sizeof proxy->log.text)
		return -GDEV_E_PROTOCOL;
	for (uint32_t i = 0; i < request->entries; i++) {
		const struct vm_entry *run = &proxy->list[i];
		memcpy(guest_run(proxy->guest, run), proxy->log.text + done, run->bytes);
		done += run->bytes;
	}
	return 0;
}

/* ---- page-locked memory ---- */

uint64_t copy_store_base(const struct proxy *proxy)
{
	return gdev_session_description(proxy->session)->arena_base + proxy->session->staging.bytes;
}

/* The worker has the range from now on; it checks that it has nothing else there. */
static int add_host(struct proxy *proxy, const struct vm_request *request)
{
	struct transport *transport = proxy->session->transport;
	uint64_t offset = request->address - copy_store_base(proxy);
	struct vm_entry run = {VM_IN_STORE | offset, request->bytes};

	if (offset >= VM_IN_STORE || !guest_run(proxy->guest, &run))
		return -EINVAL;
	return transport->ops->host_add(
		transport, request->address, request->bytes, proxy->guest->store_fd, offset);
}

int copy_execute(struct proxy *proxy, const struct vm_request *request, uint64_t *value)
{
	int error;

	if (request->operation == VM_HOST)
		return add_host(proxy, request);
	error = take_list(proxy, request);
	if (error)
		return error;
	switch (request->operation) {
	case VM_COPY:
		return copy_memory(proxy, request);
	case VM_IMAGE:
		return add_piece(proxy, request, value);
	case VM_LOG:
		return copy_log(proxy, request);
	default:
		return -GDEV_E_PROTOCOL;
	}
}

// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Copies. The guest copies nothing: it pins the pages of a buffer, tells the proxy where they are, and lets them go when
 * the proxy has copied between them and the device. They are pinned for one request, as by direct I/O, and so are not
 * counted against RLIMIT_MEMLOCK; VM_ENTRIES_MAX pages a session are pinned at most. Page-locked memory has no pages: its
 * place in the store is known.
 */
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/sched/signal.h>

#include "gdev.h"

/* Adds a run to the list; runs that follow each other become one. */
static u32 add_entry(struct vm_mailbox *box, u32 count, u64 address, u64 bytes)
{
	struct vm_entry *last = count ? &box->list[count - 1] : NULL;

	if (last && last->address + last->bytes == address) {
		last->bytes += bytes;
		return count;
	}
	box->list[count] = (struct vm_entry){address, bytes};
	return count + 1;
}

/* Takes the last bytes off the list again. */
static void trim_list(struct vm_mailbox *box, u32 *entries, u64 bytes)
{
	while (bytes) {
		struct vm_entry *last = &box->list[*entries - 1];
		u64 taken = min(bytes, last->bytes);

		last->bytes -= taken;
		bytes -= taken;
		if (!last->bytes)
			--*entries;
	}
}

/* Pins the pages of [address, address + bytes) and adds them to the list. The bytes that were pinned: fewer when the list is
 * full, or something is not memory; or -errno when that is so from the beginning. */
static s64 pin_run(struct gdev_slot *slot, u32 *entries, u64 address, u64 bytes)
{
	u64 offset = offset_in_page(address), length, added = 0;
	unsigned int room = VM_ENTRIES_MAX - max(slot->pinned, *entries), i;
	struct page **pages = slot->pages + slot->pinned;
	int got;

	bytes = min_t(
		u64, bytes, (u64)room * PAGE_SIZE - min_t(u64, offset, (u64)room * PAGE_SIZE));
	if (!bytes)
		return 0;
	got = pin_user_pages_fast(address & PAGE_MASK, DIV_ROUND_UP_ULL(offset + bytes, PAGE_SIZE),
		slot->dirty ? FOLL_WRITE : 0, pages);
	if (got <= 0)
		return got ? got : -EFAULT;
	slot->pinned += got;
	for (i = 0; i < got; i++) {
		length = min_t(u64, bytes - added, PAGE_SIZE - offset);
		*entries = add_entry(slot->box, *entries, page_to_phys(pages[i]) + offset, length);
		added += length;
		offset = 0;
	}
	return added;
}

/* Adds a run of the process's memory to the list, whatever it is. As pin_run(). */
static s64 list_run(struct file *file, struct gdev_slot *slot, u32 *entries, u64 address, u64 bytes)
{
	u64 offset, there;

	if (*entries == VM_ENTRIES_MAX)
		return 0;
	if (!gdev_store_at(file, address, &offset, &there))
		return pin_run(slot, entries, address, bytes);
	bytes = min(bytes, there);
	*entries = add_entry(slot->box, *entries, VM_IN_STORE | offset, bytes);
	return bytes;
}

/* One request about a list that has been made. */
static int ask_about(struct gdev_slot *slot, struct vm_request *request, u32 entries, u64 bytes,
	struct vm_answer *answer)
{
	int error;

	request->entries = entries;
	request->bytes = bytes;
	error = gdev_ask(slot, request, answer);
	if (error != -EINTR) /* else the host may be at the pages */
		gdev_unpin(slot);
	return error;
}

static int begin_list(struct gdev_slot *slot, bool write)
{
	if (slot->stuck)
		return -EIO;
	slot->dirty = write;
	return 0;
}

/* Whole rows, as many as one request takes; or, of a row that is too long for one, as much as it takes. `*done` counts
 * bytes of all rows together, and goes on. No signal ends this: so there are VM_ENTRIES_MAX rows at most, also where they
 * become one run. */
static int copy_some(
	struct file *file, struct gdev_slot *slot, const struct vm_copy *copy, u64 *done)
{
	u64 row = div64_u64(*done, copy->width), column = *done - row * copy->width;
	u64 first = row, bytes = 0, left;
	struct vm_request request = {.operation = VM_COPY,
		.address = copy->device + row * copy->device_pitch + column,
		.number = copy->direction,
		.pitch = copy->device_pitch};
	struct vm_answer answer;
	u32 entries = 0;
	s64 got = 0;
	int error = begin_list(slot, copy->direction == VM_FROM_DEVICE);

	if (error)
		return error;
	while (row < copy->rows && row - first < VM_ENTRIES_MAX) {
		left = copy->width - column;
		got = list_run(
			file, slot, &entries, copy->host + row * copy->host_pitch + column, left);
		if (got <= 0)
			break;
		bytes += got;
		column += got;
		if (column < copy->width)
			continue;
		column = 0;
		row++;
		if (*done !=
			first * copy->width) /* the end of a row that was too long: by itself */
			break;
	}
	if (!bytes) {
		error = got ? got : -EIO;
	} else {
		/* What there is of the last row is another request's, unless it is the only one. */
		if (row > first && column)
			trim_list(slot->box, &entries, column);
		if (row > first)
			bytes -= column;
		request.width = row > first && *done == first * copy->width ? copy->width : bytes;
		error = ask_about(slot, &request, entries, bytes, &answer);
	}
	*done += bytes;
	return error;
}

int gdev_copy(struct file *file, struct gdev_slot *slot, const struct vm_copy *copy)
{
	u64 done = 0, total, span;
	int error = 0;

	if (copy->direction > VM_FROM_DEVICE || copy->reserved || !copy->width || !copy->rows ||
		check_mul_overflow(copy->width, copy->rows, &total) ||
		check_mul_overflow(copy->host_pitch, copy->rows - 1, &span) ||
		check_add_overflow(span, copy->width, &span) ||
		check_add_overflow(span, copy->host, &span))
		return -EINVAL;
	while (done < total && !error) {
		mutex_lock(&slot->lock);
		error = copy_some(file, slot, copy, &done);
		mutex_unlock(&slot->lock);
		cond_resched();
		/* Answers that come at once do not look at signals, and rows may be without number. */
		if (!error && fatal_signal_pending(current))
			error = -EINTR;
	}
	return error;
}

/* The pieces of an image follow each other: the lock is held for all of them. */
int gdev_image(struct file *file, struct gdev_slot *slot, struct vm_image *image)
{
	struct vm_answer answer = {};
	u64 done = 0;
	int error = 0;

	if (!image->bytes || image->address + image->bytes < image->address)
		return -EINVAL;
	mutex_lock(&slot->lock);
	while (done < image->bytes && !error) {
		struct vm_request request = {
			.operation = VM_IMAGE, .address = image->bytes, .number = done};
		u32 entries = 0;
		s64 got;

		error = begin_list(slot, false);
		if (error)
			break;
		got = list_run(file, slot, &entries, image->address + done, image->bytes - done);
		error = got > 0 ? ask_about(slot, &request, entries, got, &answer) : got;
		done += max_t(s64, got, 0);
	}
	mutex_unlock(&slot->lock);
	image->number = answer.value;
	return error;
}

int gdev_log(struct file *file, struct gdev_slot *slot, const struct vm_log *log)
{
	struct vm_request request = {.operation = VM_LOG};
	struct vm_answer answer;
	u32 entries = 0;
	s64 got;
	int error;

	if (!log->bytes || log->bytes > VM_LOG_BYTES_MAX ||
		log->address + log->bytes < log->address)
		return -EINVAL;
	mutex_lock(&slot->lock);
	error = begin_list(slot, true);
	if (!error) {
		got = list_run(file, slot, &entries, log->address, log->bytes);
		error = got > 0 ? ask_about(slot, &request, entries, got, &answer) : got;
	}
	mutex_unlock(&slot->lock);
	return error;
}

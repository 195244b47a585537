// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * What a process maps: the session segment of its slot, and page-locked memory, which is of the slot's store. What of the
 * store is in use is the process's affair: nobody else has it until the session ends.
 */
#include <linux/version.h>

#include "gdev.h"

static void forbid_copies(struct vm_area_struct *area)
{
	const unsigned long flags = VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(area, flags);
#else
	area->vm_flags |= flags;
#endif
}

/* Tells mappings of a store from others. */
static const struct vm_operations_struct store_operations = {};

/* A part that does not begin at VM_STORE_BASE or behind it is none. */
static int map_store(struct file *file, struct vm_area_struct *area, u64 offset)
{
	struct gdev_slot *slot = gdev_file_slot(file);
	u64 bytes = area->vm_end - area->vm_start, size;

	if (!slot || !slot->store)
		return -ENOMEM;
	size = pci_resource_len(slot->store, 2);
	if (offset < VM_STORE_BASE || offset > size || bytes > size - offset)
		return -ENOMEM;
	area->vm_ops = &store_operations;
	return remap_pfn_range(area, area->vm_start,
		(pci_resource_start(slot->store, 2) + offset) >> PAGE_SHIFT, bytes,
		area->vm_page_prot);
}

bool gdev_store_at(struct file *file, u64 address, u64 *offset, u64 *bytes)
{
	struct vm_area_struct *area;
	bool found;

	mmap_read_lock(current->mm);
	area = vma_lookup(current->mm, address);
	found = area && area->vm_ops == &store_operations && area->vm_file == file;
	if (found) {
		*offset = ((u64)area->vm_pgoff << PAGE_SHIFT) - VM_MAP_STORE +
			  (address - area->vm_start);
		*bytes = area->vm_end - address;
	}
	mmap_read_unlock(current->mm);
	return found;
}

/* ---- the segment ---- */

static int map_segment(struct file *file, struct vm_area_struct *area)
{
	struct gdev_slot *slot = gdev_file_slot(file);
	u64 bytes = area->vm_end - area->vm_start, at;

	if (!slot || bytes > VM_SEGMENT_BYTES)
		return -EINVAL;
	at = VM_SLOT_OFFSET + (u64)(slot->vector - 1) * VM_SLOT_BYTES;
	return remap_pfn_range(area, area->vm_start, (slot->device->memory_at + at) >> PAGE_SHIFT,
		bytes, area->vm_page_prot);
}

int gdev_mmap(struct file *file, struct vm_area_struct *area)
{
	struct gdev_device *device = gdev_file_device(file);
	u64 offset = (u64)area->vm_pgoff << PAGE_SHIFT;
	int error = -ENODEV;

	if (!(area->vm_flags & VM_SHARED) || (offset != VM_MAP_SEGMENT && offset < VM_MAP_STORE))
		return -EINVAL;
	if (!down_read_trylock(&device->presence))
		return -ENODEV;
	forbid_copies(area);
	if (!READ_ONCE(device->gone))
		error = offset == VM_MAP_SEGMENT ? map_segment(file, area)
						 : map_store(file, area, offset - VM_MAP_STORE);
	up_read(&device->presence);
	return error;
}

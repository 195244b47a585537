// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * What a process maps of the device: the session segment of its slot, and page-locked memory, which is blocks of the device's
 * shared memory. Blocks live as long as a mapping of them, or a copy that uses them.
 */
#include <linux/bitmap.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "gdev.h"

struct gdev_blocks {
	struct kref references;
	struct gdev_device *device;
	u32 first, count;
};

static void forbid_copies(struct vm_area_struct *area)
{
	const unsigned long flags = VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(area, flags);
#else
	area->vm_flags |= flags;
#endif
}

/* ---- blocks ---- */

static void release_blocks(struct kref *references)
{
	struct gdev_blocks *blocks = container_of(references, struct gdev_blocks, references);
	struct gdev_device *device = blocks->device;

	mutex_lock(&device->lock);
	bitmap_clear(device->used_blocks, blocks->first, blocks->count);
	mutex_unlock(&device->lock);
	kfree(blocks);
	gdev_put(device);
}

void gdev_blocks_put(struct gdev_blocks *blocks)
{
	kref_put(&blocks->references, release_blocks);
}

static u64 blocks_offset(const struct gdev_blocks *blocks)
{
	return blocks->device->blocks_offset + (u64)blocks->first * VM_BLOCK_BYTES;
}

static int take_blocks(struct gdev_device *device, u32 count, struct gdev_blocks **taken)
{
	struct gdev_blocks *blocks = kmalloc(sizeof(*blocks), GFP_KERNEL);
	unsigned long first;

	if (!blocks)
		return -ENOMEM;
	mutex_lock(&device->lock);
	first = bitmap_find_next_zero_area(device->used_blocks, device->blocks, 0, count, 0);
	if (first < device->blocks)
		bitmap_set(device->used_blocks, first, count);
	mutex_unlock(&device->lock);
	if (first >= device->blocks) {
		kfree(blocks);
		return -ENOMEM;
	}
	kref_init(&blocks->references);
	kref_get(&device->references);
	blocks->device = device;
	blocks->first = first;
	blocks->count = count;
	*taken = blocks;
	return 0;
}

static void open_blocks(struct vm_area_struct *area)
{
	struct gdev_blocks *blocks = area->vm_private_data;

	kref_get(&blocks->references);
}

static void close_blocks(struct vm_area_struct *area)
{
	gdev_blocks_put(area->vm_private_data);
}

static const struct vm_operations_struct blocks_operations = {
	.open = open_blocks,
	.close = close_blocks,
};

static int map_blocks(struct file *file, struct vm_area_struct *area)
{
	struct gdev_device *device = gdev_file_device(file);
	u64 bytes = area->vm_end - area->vm_start;
	struct gdev_blocks *blocks;
	int error;

	if (bytes > (u64)device->blocks * VM_BLOCK_BYTES)
		return -ENOMEM;
	error = take_blocks(device, DIV_ROUND_UP_ULL(bytes, VM_BLOCK_BYTES), &blocks);
	if (error)
		return error;
	/* Of another process, maybe. */
	memset(device->memory + blocks_offset(blocks), 0, bytes);
	error = remap_pfn_range(area, area->vm_start,
		(device->memory_at + blocks_offset(blocks)) >> PAGE_SHIFT, bytes,
		area->vm_page_prot);
	if (error) {
		gdev_blocks_put(blocks);
		return error;
	}
	area->vm_private_data = blocks;
	area->vm_ops = &blocks_operations;
	return 0;
}

struct gdev_blocks *gdev_blocks_at(struct file *file, u64 address, u64 *offset, u64 *bytes)
{
	struct gdev_blocks *blocks = NULL;
	struct vm_area_struct *area;

	mmap_read_lock(current->mm);
	area = vma_lookup(current->mm, address);
	if (area && area->vm_ops == &blocks_operations && area->vm_file == file) {
		blocks = area->vm_private_data;
		kref_get(&blocks->references);
		*offset = blocks_offset(blocks) + (address - area->vm_start) +
			  (((u64)area->vm_pgoff << PAGE_SHIFT) - VM_MAP_BLOCKS);
		*bytes = area->vm_end - address;
	}
	mmap_read_unlock(current->mm);
	return blocks;
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

	if (!(area->vm_flags & VM_SHARED) || (offset != VM_MAP_SEGMENT && offset != VM_MAP_BLOCKS))
		return -EINVAL;
	if (!down_read_trylock(&device->presence))
		return -ENODEV;
	forbid_copies(area);
	if (!READ_ONCE(device->gone))
		error = offset == VM_MAP_SEGMENT ? map_segment(file, area) : map_blocks(file, area);
	up_read(&device->presence);
	return error;
}

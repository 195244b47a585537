// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * gdev: the GPU of a virtual machine. Finds the paravirtual device (proto/vm.h), makes sure that the host finds the guest's
 * pages, and makes /dev/gdevN. What files do is in file.c.
 *
 * Each process has a ring in memory that it shares with the host's proxy. While the proxy is awake a launch is a write
 * into that memory; the kernel is called to wake it up, to sleep, and to copy.
 */
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "gdev.h"

static DEFINE_IDA(numbers);

/* ---- life ---- */

static void release_device(struct kref *references)
{
	struct gdev_device *device = container_of(references, struct gdev_device, references);
	u32 i;

	for (i = 0; i < device->slot_count; i++)
		kvfree(device->slots[i].pages);
	gdev_stores_put(device);
	kfree(device);
}

void gdev_put(struct gdev_device *device)
{
	kref_put(&device->references, release_device);
}

static irqreturn_t on_interrupt(int irq, void *context)
{
	struct gdev_slot *slot = context;

	atomic64_inc(&slot->events);
	wake_up_all(&slot->wait);
	return IRQ_HANDLED;
}

/* ---- the host's memory of us ---- */

static int ask_device(struct gdev_device *device, const struct vm_request *request, u64 *value)
{
	struct gdev_slot *slot = &device->slots[0];
	struct vm_answer answer;
	int error;

	mutex_lock(&slot->lock);
	error = gdev_ask(slot, request, &answer);
	mutex_unlock(&slot->lock);
	*value = error ? 0 : answer.value;
	return error;
}

/* Whether the host finds at a physical address what the guest has written there. Data would go to other pages than the
 * program's if QEMU had another memory, or had it laid out in another way, than the proxy believes. */
static int probe_zone(struct gdev_device *device, gfp_t zone)
{
	struct page *page = alloc_page(GFP_KERNEL | zone);
	u64 written = get_random_u64(), found;
	struct vm_request request = {.operation = VM_PROBE};
	int error;

	if (!page)
		return -ENOMEM;
	*(u64 *)page_address(page) = written;
	request.address = page_to_phys(page);
	error = ask_device(device, &request, &found);
	if (error != -EINTR)
		__free_page(page);
	if (!error && found != written)
		error = -ENXIO;
	if (error && error != -EINTR)
		dev_err(&device->pci->dev,
			"the host does not find the guest's memory at %#llx: is it the memory that 'gdev vm args' names? (%d)\n",
			request.address, error);
	return error;
}

/* How many slots the host has freed. It keeps those whose memory somebody on the host still has. */
static u32 count_free(const struct gdev_device *device)
{
	u32 count = 0, i;

	for (i = 1; i < device->slot_count; i++)
		count += smp_load_acquire(&device->slots[i].box->state) == VM_SLOT_FREE;
	if (count < device->slot_count - 1)
		dev_warn(&device->pci->dev,
			"the host keeps %u of %u sessions: a worker there has not ended\n",
			device->slot_count - 1 - count, device->slot_count - 1);
	return count;
}

static int greet(struct gdev_device *device)
{
	const struct vm_request reset = {.operation = VM_RESET};
	u64 none;
	int error = ask_device(device, &reset, &none);

	if (!error)
		error = probe_zone(device, 0);
	if (!error)
		error = probe_zone(device, __GFP_DMA32);
	return error;
}

/* ---- finding it ---- */

static void init_slot(struct gdev_device *device, u32 vector)
{
	struct gdev_slot *slot = &device->slots[vector];

	slot->device = device;
	slot->vector = vector;
	slot->box = vector ? device->memory + VM_SLOT_OFFSET + (u64)(vector - 1) * VM_SLOT_BYTES +
				     VM_SLOT_MAILBOX
			   : (void *)&device->header->mailbox;
	mutex_init(&slot->lock);
	init_waitqueue_head(&slot->wait);
}

/* Sizes are the host's word: what does not fit into the memory that there is, is refused. */
static int check_header(struct pci_dev *pci, const struct vm_header *header, u64 memory_bytes)
{
	if (header->magic != VM_MAGIC) /* a store, or not of gdev */
		return -ENODEV;
	if (header->version != VM_VERSION) {
		dev_err(&pci->dev, "the host's gdev has version %u of the device, this module %u\n",
			header->version, VM_VERSION);
		return -ENODEV;
	}
	return memory_bytes < VM_SLOT_OFFSET + (u64)VM_SLOTS_MAX * VM_SLOT_BYTES ? -EPROTO : 0;
}

static int create_device(
	struct pci_dev *pci, void *memory, u64 memory_bytes, struct gdev_device **created)
{
	struct vm_header *header = memory;
	struct gdev_device *device;
	u32 slots, i;
	int error = check_header(pci, header, memory_bytes);

	if (error)
		return error;
	slots = clamp_t(u32, READ_ONCE(header->slots), 1, VM_SLOTS_MAX) + 1;
	device = kzalloc(struct_size(device, slots, slots), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	kref_init(&device->references);
	mutex_init(&device->lock);
	init_rwsem(&device->presence);
	device->pci = pci;
	device->memory = memory;
	device->memory_at = pci_resource_start(pci, 2);
	device->header = header;
	device->slot_count = slots;
	for (i = 0; i < slots; i++) {
		init_slot(device, i);
		device->slots[i].pages =
			kvmalloc_array(VM_ENTRIES_MAX, sizeof(struct page *), GFP_KERNEL);
		if (!device->slots[i].pages)
			error = -ENOMEM;
	}
	if (error)
		gdev_put(device);
	else
		*created = device;
	return error;
}

/* The first `count` of them. */
static void release_vectors(struct gdev_device *device, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		free_irq(pci_irq_vector(device->pci, i), &device->slots[i]);
	pci_free_irq_vectors(device->pci);
}

static int request_vectors(struct gdev_device *device)
{
	struct pci_dev *pci = device->pci;
	u32 i;
	int error =
		pci_alloc_irq_vectors(pci, device->slot_count, device->slot_count, PCI_IRQ_MSIX);

	if (error < 0) {
		dev_err(&pci->dev, "there are not %u vectors: 'gdev vm args' says how many\n",
			device->slot_count);
		return error;
	}
	for (i = 0; i < device->slot_count; i++) {
		error = request_irq(
			pci_irq_vector(pci, i), on_interrupt, 0, KBUILD_MODNAME, &device->slots[i]);
		if (error) {
			release_vectors(device, i);
			return error;
		}
	}
	return 0;
}

static int add_file(struct gdev_device *device)
{
	int error;

	device->number = ida_alloc(&numbers, GFP_KERNEL);
	if (device->number < 0)
		return device->number;
	snprintf(device->name, sizeof(device->name), "gdev%d", device->number);
	device->misc = (struct miscdevice){
		.minor = MISC_DYNAMIC_MINOR,
		.name = device->name,
		.fops = &gdev_file_operations,
		.parent = &device->pci->dev,
		.mode = 0660,
	};
	error = misc_register(&device->misc);
	if (error)
		ida_free(&numbers, device->number);
	return error;
}

static int gdev_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct gdev_device *device;
	void *memory;
	int error;

	error = pcim_enable_device(pci);
	if (!error)
		error = pcim_iomap_regions(pci, BIT(0), KBUILD_MODNAME);
	if (error)
		return error;
	if (pci_resource_len(pci, 2) < sizeof(struct vm_header))
		return -ENODEV;
	memory = devm_memremap(
		&pci->dev, pci_resource_start(pci, 2), pci_resource_len(pci, 2), MEMREMAP_WB);
	if (IS_ERR(memory))
		return PTR_ERR(memory);
	error = create_device(pci, memory, pci_resource_len(pci, 2), &device);
	if (error)
		return error;
	device->registers = pcim_iomap_table(pci)[0];
	pci_set_master(pci);
	error = request_vectors(device);
	if (error)
		goto err_put;
	error = greet(device);
	if (!error) {
		gdev_stores_find(device);
		error = add_file(device);
	}
	if (error)
		goto err_vectors;
	pci_set_drvdata(pci, device);
	dev_info(&pci->dev,
		"%s: virtual GPU %.31s (%.63s), %u sessions with %llu MiB of page-locked memory each\n",
		device->name, device->header->description.vgpu,
		device->header->description.device_name, count_free(device),
		device->header->store_bytes >> 20);
	return 0;

err_vectors:
	release_vectors(device, device->slot_count);
err_put:
	gdev_put(device);
	return error;
}

/* Without the device nothing of it is mapped here any more, and processes that still have a file only close it. */
static void gdev_remove(struct pci_dev *pci)
{
	struct gdev_device *device = pci_get_drvdata(pci);
	u32 i;

	misc_deregister(&device->misc);
	ida_free(&numbers, device->number);
	WRITE_ONCE(device->gone, true);
	for (i = 0; i < device->slot_count; i++)
		wake_up_all(&device->slots[i].wait);
	down_write(&device->presence); /* calls that are in the shared memory leave it */
	up_write(&device->presence);
	release_vectors(device, device->slot_count);
	for (i = 1; i < device->slot_count; i++) {
		struct gdev_slot *slot = &device->slots[i];

		if (slot->pinned && smp_load_acquire(&slot->box->state) == VM_SLOT_FREE)
			gdev_unpin(slot);
		else if (slot->pinned)
			dev_warn(&pci->dev,
				"%u pages stay pinned: the host may be writing into them\n",
				slot->pinned);
	}
	gdev_put(device);
}

/* What the host has rung for meanwhile is not told again: whoever sleeps looks by itself. */
static int gdev_resume(struct device *dev)
{
	struct gdev_device *device = dev_get_drvdata(dev);
	u32 i;

	for (i = 0; i < device->slot_count; i++)
		on_interrupt(0, &device->slots[i]);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(gdev_pm, NULL, gdev_resume);

static const struct pci_device_id ids[] = {
	{PCI_DEVICE(VM_PCI_VENDOR, VM_PCI_DEVICE)},
	{},
};
MODULE_DEVICE_TABLE(pci, ids);

/* Not to be unbound while files are open: they map the device's memory. Removing the module waits for them. */
static struct pci_driver gdev_driver = {
	.name = KBUILD_MODNAME,
	.id_table = ids,
	.probe = gdev_probe,
	.remove = gdev_remove,
	.driver.pm = pm_sleep_ptr(&gdev_pm),
	.driver.suppress_bind_attrs = true,
};
module_pci_driver(gdev_driver);

MODULE_DESCRIPTION("The GPU of a virtual machine, by gdev");
MODULE_LICENSE("Dual MIT/GPL");

// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The stores of the slots: PCI devices of their own, which hold nothing but memory. They have no driver: the device that
 * they belong to keeps them. What a store says of itself is read once, when the host has answered VM_RESET: then
 * nobody has it, and the host has written it anew.
 */
#include <linux/io.h>

#include "gdev.h"

/* Which slot of the device has the store, from 1; 0: it is none of the device's. */
static u32 slot_of(const struct gdev_device *device, struct pci_dev *pci)
{
	u64 machine = device->header->machine;
	struct vm_store *store;
	u32 slot = 0;

	if (!(pci_resource_flags(pci, 2) & IORESOURCE_MEM) ||
		pci_resource_len(pci, 2) <= VM_STORE_BASE)
		return 0;
	store = memremap(pci_resource_start(pci, 2), sizeof(*store), MEMREMAP_WB);
	if (!store)
		return 0;
	if (store->magic == VM_STORE_MAGIC && store->version == VM_VERSION &&
		store->machine == machine && store->slot < device->slot_count - 1)
		slot = store->slot + 1;
	memunmap(store);
	return slot;
}

void gdev_stores_find(struct gdev_device *device)
{
	struct pci_dev *pci = NULL;

	while ((pci = pci_get_device(VM_PCI_VENDOR, VM_PCI_DEVICE, pci))) {
		u32 slot;

		if (pci == device->pci || pci_enable_device_mem(pci))
			continue;
		slot = slot_of(device, pci);
		if (slot && !device->slots[slot].store)
			device->slots[slot].store = pci_dev_get(pci);
		else
			pci_disable_device(pci);
	}
}

void gdev_stores_put(struct gdev_device *device)
{
	u32 i;

	for (i = 1; i < device->slot_count; i++) {
		struct pci_dev *store = device->slots[i].store;

		if (!store)
			continue;
		pci_disable_device(store);
		pci_dev_put(store);
	}
}

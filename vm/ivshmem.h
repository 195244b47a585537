/* SPDX-License-Identifier: MIT
 *
 * QEMU's side: what a server of ivshmem tells the device when it connects (docs/specs/ivshmem-spec of QEMU). We are peer 0,
 * and the only other one.
 */
#ifndef GDEV_VM_IVSHMEM_H
#define GDEV_VM_IVSHMEM_H

#include "vm/guest.h"

/* Listens at the path, which must be free; its mode lets this user alone connect. The descriptor, or -errno. */
int ivshmem_listen(const char *path);
/* Gives QEMU the memory and all vectors. 0, or -errno. */
int ivshmem_greet(int connection, const struct guest *guest);

#endif

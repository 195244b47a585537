/* SPDX-License-Identifier: MIT
 *
 * The first process of `gdev vm serve`: it holds QEMU's connection and the guest's memory, starts a proxy for each session
 * and ends it. It opens no session, and executes nothing that a guest's process says.
 */
#ifndef GDEV_VM_SERVE_H
#define GDEV_VM_SERVE_H

#include "vm/guest.h"

/* Serves one virtual machine after the other, until it is told to end (SIGTERM, SIGINT). The exit status. */
int serve(struct guest *guest, const char *path, const char *vgpu);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The LLVM target of this machine.
 */
#ifndef GDEV_DEVICE_CPU_PTX_TARGET_H
#define GDEV_DEVICE_CPU_PTX_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include <llvm-c/TargetMachine.h>

/* Initialises LLVM once. */
void target_init(void);
const char *target_cpu(void);
/* gathers: with vectors of memory that does not lie side by side, though they may be slow. */
const char *target_features(bool gathers);
/* Whether it has fast instructions for vectors of memory that does not lie side by side. */
bool target_gathers(void);
/* Whether it has instructions for vectors of which some lanes do nothing, stores among them. */
bool target_masks(void);
/* A new target machine (they are not shared between threads); NULL when LLVM has none. */
LLVMTargetMachineRef target_machine(void);
/* LLVM version, CPU and features. */
uint64_t target_hash(void);

#endif

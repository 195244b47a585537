/* SPDX-License-Identifier: MIT
 *
 * A plan while it is formed: what region.c, contexts.c and guards.c share.
 */
#ifndef GDEV_DEVICE_CPU_PTX_FORMER_H
#define GDEV_DEVICE_CPU_PTX_FORMER_H

#include "device/cpu/ptx/region.h"

#include <string.h>

struct former {
	struct work *work;
	struct plan *plan;
	uint32_t *list, *side;
	uint64_t *members, *other;
	size_t words;
};

static inline void former_clear(struct former *f, uint64_t *set)
{
	memset(set, 0, f->words * 8);
}

/* region.c */
bool writes_memory(const struct inst *i);
/* The plan is to be made again, with the register known to differ between threads. */
void force_divergent(struct former *f, uint32_t reg);

/* contexts.c */
/* Finds the branches that the whole block takes because of wanted entries, and what is on their sides. */
void find_splits(struct former *f);

/* guards.c */
/* Wants regions of their own for what guards are worth one. */
void wish_guards(struct former *f);
struct guard *add_guard(struct former *f, uint32_t branch); /* NULL: no memory */
void find_passed(struct former *f);
void make_guard_registers(struct former *f);

#endif

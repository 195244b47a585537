/* SPDX-License-Identifier: MIT
 *
 * What ptx_compile() returns and a cache keeps: this header, then a relocatable ELF object that
 * defines gdev_ptx_run.
 */
#ifndef GDEV_DEVICE_CPU_PTX_OBJECT_H
#define GDEV_DEVICE_CPU_PTX_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#define PTX_OBJECT_MAGIC 0x31787470u /* "ptx1" */

struct ptx_object {
	uint32_t magic, header_bytes;
	uint64_t size;  /* of the ELF object */
	uint64_t check; /* over everything after this field */
	uint64_t local_bytes, saved_bytes;
};
_Static_assert(sizeof(struct ptx_object) == 40, "part of cached objects");

/* Of a header and the `size` bytes behind it. */
static inline uint64_t ptx_object_check(const struct ptx_object *o, const void *bytes)
{
	const uint8_t *p = bytes;
	uint64_t h = 0xcbf29ce484222325ull ^ o->size;

	h = (h ^ o->local_bytes) * 0x100000001b3ull;
	h = (h ^ o->saved_bytes) * 0x100000001b3ull;
	for (uint64_t i = 0; i < o->size; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

#endif

/* SPDX-License-Identifier: MIT
 *
 * Fat binaries, as nvcc makes them: a header, and a row of entries, each a header and a payload (one program, made for
 * one architecture). A wrapper in the program's data points to one. Nothing in one is aligned by promise: read with memcpy.
 */
#ifndef GDEV_PROTO_FATBIN_H
#define GDEV_PROTO_FATBIN_H

#include <stdint.h>

#define FATBIN_WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define FATBIN_VERSION 1

enum fatbin_kind {
	FATBIN_PTX = 1,
	FATBIN_CODE = 2, /* an ELF file */
};

#define FATBIN_LZ4 0x2000u /* flags: how the payload is packed */
#define FATBIN_ZSTD 0x8000u

struct fatbin_header {
	uint32_t magic;
	uint16_t version, header_bytes; /* header_bytes: where the first entry begins */
	uint64_t bytes;                 /* that follow the header */
};

struct fatbin_entry {
	uint16_t kind, version;
	uint32_t header_bytes;  /* where the payload begins */
	uint64_t payload_bytes; /* with padding: where the next entry begins */
	uint32_t packed_bytes;  /* without padding, if it is packed; else 0 */
	uint32_t options;       /* where in the header struct fatbin_options is; 0: nowhere */
	uint16_t minor, major;  /* of the toolkit's version */
	uint32_t sm;            /* the architecture: 90 */
	uint32_t name, name_bytes;
	uint64_t flags, reserved;
	uint64_t unpacked_bytes; /* if it is packed */
};

/* With what the compiler was called, for whoever compiles the PTX. */
struct fatbin_options {
	uint32_t text, text_bytes; /* where in the entry's header; 0 bytes: there are none */
};

_Static_assert(sizeof(struct fatbin_header) == 16, "as nvcc writes it");
_Static_assert(sizeof(struct fatbin_entry) == 64, "as nvcc writes it");

/* Machine code for a device of compute capability 10 * major + minor runs on those of the same major number. */
static inline int fatbin_same_major(uint32_t sm, uint32_t capability)
{
	return sm / 10 == capability / 10;
}

#endif

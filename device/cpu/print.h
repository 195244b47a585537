/* SPDX-License-Identifier: MIT
 *
 * Text that kernels print: device printf with CUDA's rules, and the message of a failed assert. The
 * format, the arguments and every string are a kernel's: reading them may fault (fault.h), so that
 * nothing here takes a lock or allocates.
 */
#ifndef GDEV_DEVICE_CPU_PRINT_H
#define GDEV_DEVICE_CPU_PRINT_H

#include <stddef.h>
#include <stdint.h>

#define PRINT_BYTES 2048

/* Collects text; what does not fit goes out in pieces. */
struct print_buffer {
	void (*out)(void *owner, const char *bytes, size_t length);
	void *owner;
	size_t used;
	char bytes[PRINT_BYTES];
};

/* `args` as vprintf of the device receives them: each argument at its natural alignment, what is
 * smaller than 4 bytes as 4. Returns the number of arguments printed; -1 when format is NULL. */
int print_format(struct print_buffer *buffer, const char *format, const void *args);

void print_assert(struct print_buffer *buffer, const char *message, const char *file, uint32_t line,
	const char *function, const uint32_t block[3], const uint32_t thread[3]);

void print_flush(struct print_buffer *buffer);

#endif

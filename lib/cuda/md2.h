/* SPDX-License-Identifier: MIT
 *
 * MD2, for the runtime's handshake (runtime_tables.c).
 */
#ifndef GDEV_CUDA_MD2_H
#define GDEV_CUDA_MD2_H

#include <stddef.h>
#include <stdint.h>

#define MD2_BYTES 16

struct md2 {
	uint8_t state[3 * MD2_BYTES], checksum[MD2_BYTES], pending[MD2_BYTES];
	size_t pending_bytes;
};

void md2_init(struct md2 *md2);
void md2_add(struct md2 *md2, const void *bytes, size_t length);
void md2_finish(struct md2 *md2, uint8_t digest[MD2_BYTES]);
void hmac_md2(
	const uint8_t key[MD2_BYTES], const void *bytes, size_t length, uint8_t digest[MD2_BYTES]);

#endif

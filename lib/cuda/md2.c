/* SPDX-License-Identifier: MIT
 *
 * MD2 (RFC 1319) and HMAC over it (RFC 2104 with MD2's block of 16 bytes). Not for security: the CUDA
 * runtime computes it over facts of a process to see that its driver is of the kind it expects.
 */
#include "lib/cuda/md2.h"

#include <string.h>

/* clang-format off */
static const uint8_t substitution[256] = {
	41, 46, 67, 201, 162, 216, 124, 1, 61, 54, 84, 161, 236, 240, 6, 19,
	98, 167, 5, 243, 192, 199, 115, 140, 152, 147, 43, 217, 188, 76, 130, 202,
	30, 155, 87, 60, 253, 212, 224, 22, 103, 66, 111, 24, 138, 23, 229, 18,
	190, 78, 196, 214, 218, 158, 222, 73, 160, 251, 245, 142, 187, 47, 238, 122,
	169, 104, 121, 145, 21, 178, 7, 63, 148, 194, 16, 137, 11, 34, 95, 33,
	128, 127, 93, 154, 90, 144, 50, 39, 53, 62, 204, 231, 191, 247, 151, 3,
	255, 25, 48, 179, 72, 165, 181, 209, 215, 94, 146, 42, 172, 86, 170, 198,
	79, 184, 56, 210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4, 241,
	69, 157, 112, 89, 100, 113, 135, 32, 134, 91, 207, 101, 230, 45, 168, 2,
	27, 96, 37, 173, 174, 176, 185, 246, 28, 70, 97, 105, 52, 64, 126, 15,
	85, 71, 163, 35, 221, 81, 175, 58, 195, 92, 249, 206, 186, 197, 234, 38,
	44, 83, 13, 110, 133, 40, 132, 9, 211, 223, 205, 244, 65, 129, 77, 82,
	106, 220, 55, 200, 108, 193, 171, 250, 36, 225, 123, 8, 12, 189, 177, 74,
	120, 136, 149, 139, 227, 99, 232, 109, 233, 203, 213, 254, 59, 0, 29, 57,
	242, 239, 183, 14, 102, 88, 208, 228, 166, 119, 114, 248, 235, 117, 75, 10,
	49, 68, 80, 180, 143, 237, 31, 26, 219, 153, 141, 51, 159, 17, 131, 20,
};
/* clang-format on */

void md2_init(struct md2 *md2)
{
	memset(md2, 0, sizeof *md2);
}

static void add_block(struct md2 *md2, const uint8_t block[MD2_BYTES])
{
	uint8_t t = 0, last = md2->checksum[MD2_BYTES - 1];

	for (unsigned i = 0; i < MD2_BYTES; i++) {
		md2->state[MD2_BYTES + i] = block[i];
		md2->state[2 * MD2_BYTES + i] = block[i] ^ md2->state[i];
		last = md2->checksum[i] ^= substitution[block[i] ^ last];
	}
	for (unsigned round = 0; round < 18; round++) {
		for (unsigned i = 0; i < sizeof md2->state; i++)
			t = md2->state[i] ^= substitution[t];
		t = (uint8_t)(t + round);
	}
}

void md2_add(struct md2 *md2, const void *bytes, size_t length)
{
	const uint8_t *byte = bytes;

	for (size_t i = 0; i < length; i++) {
		md2->pending[md2->pending_bytes++] = byte[i];
		if (md2->pending_bytes == MD2_BYTES) {
			add_block(md2, md2->pending);
			md2->pending_bytes = 0;
		}
	}
}

void md2_finish(struct md2 *md2, uint8_t digest[MD2_BYTES])
{
	uint8_t padding = (uint8_t)(MD2_BYTES - md2->pending_bytes), checksum[MD2_BYTES];

	memset(md2->pending + md2->pending_bytes, padding, padding);
	add_block(md2, md2->pending);
	memcpy(checksum, md2->checksum, sizeof checksum);
	add_block(md2, checksum);
	memcpy(digest, md2->state, MD2_BYTES);
}

void hmac_md2(
	const uint8_t key[MD2_BYTES], const void *bytes, size_t length, uint8_t digest[MD2_BYTES])
{
	uint8_t inner[MD2_BYTES], outer[MD2_BYTES];
	struct md2 md2;

	for (unsigned i = 0; i < MD2_BYTES; i++) {
		inner[i] = key[i] ^ 0x36;
		outer[i] = key[i] ^ 0x5c;
	}
	md2_init(&md2);
	md2_add(&md2, inner, sizeof inner);
	md2_add(&md2, bytes, length);
	md2_finish(&md2, digest);
	md2_init(&md2);
	md2_add(&md2, outer, sizeof outer);
	md2_add(&md2, digest, MD2_BYTES);
	md2_finish(&md2, digest);
}

/* SPDX-License-Identifier: MIT
 *
 * AES-128 of many blocks; see aes.cu. The key and the first block are the example of FIPS 197, whose
 * result is known.
 */
#include "common/harness.h"

#include <string.h>

#define THREADS 256
#define ROUNDS 10
#define KEY_WORDS (4 * (ROUNDS + 1))

static unsigned n;
static size_t bytes;
static uint32_t *in, *out, *tables, *keys;
static uint8_t substitute[256];
static CUdeviceptr device_in, device_out, device_tables, device_keys;

/* x times a polynomial, in AES's field. */
static uint8_t doubled(uint8_t x)
{
	return (uint8_t)(x << 1 ^ (x & 0x80 ? 0x1B : 0));
}

/* 3 generates the field, and 0xF6 is its inverse: p and q go through all pairs of inverses. */
static void make_substitution(void)
{
	uint8_t p = 1, q = 1;

	do {
		p ^= doubled(p);
		q ^= (uint8_t)(q << 1);
		q ^= (uint8_t)(q << 2);
		q ^= (uint8_t)(q << 4);
		if (q & 0x80)
			q ^= 0x09;
		substitute[p] = 0x63;
		for (unsigned turn = 0; turn < 5; turn++)
			substitute[p] ^= (uint8_t)(q << turn | q >> (8 - turn));
	} while (p != 1);
	substitute[0] = 0x63;
}

static uint32_t rotated(uint32_t x, unsigned bits)
{
	return bits ? x >> bits | x << (32 - bits) : x;
}

static void make_tables(void)
{
	for (unsigned i = 0; i < 256; i++) {
		uint32_t s = substitute[i], twice = doubled(substitute[i]);

		for (unsigned table = 0; table < 4; table++)
			tables[256 * table + i] =
				rotated(twice << 24 | s << 16 | s << 8 | (twice ^ s), 8 * table);
	}
}

static uint32_t substituted(uint32_t word)
{
	uint32_t result = 0;

	for (unsigned bits = 0; bits < 32; bits += 8)
		result |= (uint32_t)substitute[word >> bits & 255] << bits;
	return result;
}

static void make_keys(void)
{
	static const uint32_t key[4] = {0x00010203, 0x04050607, 0x08090A0B, 0x0C0D0E0F};
	uint8_t constant = 1;

	memcpy(keys, key, sizeof(key));
	for (unsigned i = 4; i < KEY_WORDS; i++) {
		uint32_t word = keys[i - 1];

		if (i % 4 == 0) {
			word = substituted(rotated(word, 24)) ^ (uint32_t)constant << 24;
			constant = doubled(constant);
		}
		keys[i] = keys[i - 4] ^ word;
	}
}

static void setup(void)
{
	static const uint32_t plain[4] = {0x00112233, 0x44556677, 0x8899AABB, 0xCCDDEEFF};

	n = options.size;
	bytes = 4 * (size_t)n * sizeof(*in);
	in = host_alloc(bytes);
	out = host_alloc(bytes);
	tables = host_alloc(4 * 256 * sizeof(*tables));
	keys = host_alloc(KEY_WORDS * sizeof(*keys));
	make_substitution();
	make_tables();
	make_keys();
	for (size_t i = 0; i < 4 * (size_t)n; i++)
		in[i] = i < 4 ? plain[i] : random_next();
	device_in = device_alloc(bytes);
	device_out = device_alloc(bytes);
	device_tables = device_alloc(4 * 256 * sizeof(*tables));
	device_keys = device_alloc(KEY_WORDS * sizeof(*keys));
}

static void compute(void)
{
	copy_to_device(device_in, in, bytes);
	copy_to_device(device_tables, tables, 4 * 256 * sizeof(*tables));
	copy_to_device(device_keys, keys, KEY_WORDS * sizeof(*keys));
	launch(device_kernel("aes"), SHAPE((n + THREADS - 1) / THREADS, 1, THREADS, 1), &device_out,
		&device_in, &device_tables, &device_keys, &n);
	copy_from_device(out, device_out, bytes);
}

/* A column, each of its bytes from another one of the last round's: 2 3 1 1 times them, in turn. */
static uint32_t mixed(uint32_t column)
{
	uint32_t result = 0;

	for (unsigned bits = 0; bits < 32; bits += 8) {
		uint32_t turned =
			rotated(column, (bits + 8) % 32); /* its highest byte counts twice */
		uint8_t x = (uint8_t)(turned >> 24), y = (uint8_t)(turned >> 16);

		result |= (uint32_t)(uint8_t)(doubled(x) ^ doubled(y) ^ y ^ (uint8_t)(turned >> 8) ^
					      (uint8_t)turned)
			  << bits;
	}
	return result;
}

/* As the standard says it, a step after the other. */
static void encrypt(uint32_t *to, const uint32_t *from)
{
	uint32_t state[4], next[4];

	for (unsigned i = 0; i < 4; i++)
		state[i] = from[i] ^ keys[i];
	for (unsigned round = 1; round <= ROUNDS; round++) {
		for (unsigned i = 0; i < 4; i++) {
			next[i] = substituted(
				(state[i] & 0xFF000000) | (state[(i + 1) % 4] & 0xFF0000) |
				(state[(i + 2) % 4] & 0xFF00) | (state[(i + 3) % 4] & 0xFF));
			if (round < ROUNDS)
				next[i] = mixed(next[i]);
		}
		for (unsigned i = 0; i < 4; i++)
			state[i] = next[i] ^ keys[4 * round + i];
	}
	memcpy(to, state, sizeof(state));
}

static void check(void)
{
	static const uint32_t known[4] = {0x69C4E0D8, 0x6A7B0430, 0xD8CDB780, 0x70B4C55A};
	uint32_t *want = host_alloc(bytes);

	check_ints("the standard's example", (const int *)out, (const int *)known, 4);
	for (size_t i = 0; i < n; i++)
		encrypt(want + 4 * i, in + 4 * i);
	check_ints("the words", (const int *)out, (const int *)want, 4 * (size_t)n);
}

const struct program program = {
	.name = "aes",
	.summary = "Encrypts with AES-128.",
	.size_means = "blocks of 16 bytes",
	.size = 1u << 18,
	.size_max = 1u << 26,
	.setup = setup,
	.compute = compute,
	.check = check,
};

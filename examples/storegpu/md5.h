/* SPDX-License-Identifier: MIT
 *
 * MD5 (RFC 1321) of a block whose length is a multiple of 64 bytes: the same text for the device and for the host, which
 * checks it. MD5_FUNCTION says what kind of function it is; a digest is four words, as RFC 1321 has them in memory of a
 * little-endian machine.
 */
#ifndef EXAMPLES_MD5_H
#define EXAMPLES_MD5_H

#define MD5_WORDS 16 /* of a chunk */

/* |sin(i + 1)| * 2^32 */
#define MD5_CONSTANTS                                                                              \
	{                                                                                          \
		0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a,            \
			0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be,    \
			0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340,    \
			0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,    \
			0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,    \
			0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,    \
			0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,    \
			0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,    \
			0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92,    \
			0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,    \
			0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391                             \
	}
#define MD5_SHIFTS                                                                                 \
	{                                                                                          \
		{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23},                                  \
		{                                                                                  \
			6, 10, 15, 21                                                              \
		}                                                                                  \
	}

MD5_FUNCTION void md5_chunk(unsigned digest[4], const unsigned *words, const unsigned constants[64],
	const unsigned char shifts[4][4])
{
	unsigned a = digest[0], b = digest[1], c = digest[2], d = digest[3];

	for (int i = 0; i < 64; i++) {
		unsigned mixed, word, sum, shift = shifts[i / 16][i % 4];

		if (i < 16) {
			mixed = (b & c) | (~b & d);
			word = (unsigned)i;
		} else if (i < 32) {
			mixed = (d & b) | (~d & c);
			word = (5u * (unsigned)i + 1) % MD5_WORDS;
		} else if (i < 48) {
			mixed = b ^ c ^ d;
			word = (3u * (unsigned)i + 5) % MD5_WORDS;
		} else {
			mixed = c ^ (b | ~d);
			word = 7u * (unsigned)i % MD5_WORDS;
		}
		sum = a + mixed + constants[i] + words[word];
		a = d;
		d = c;
		c = b;
		b += sum << shift | sum >> (32 - shift);
	}
	digest[0] += a;
	digest[1] += b;
	digest[2] += c;
	digest[3] += d;
}

/* Padding: one bit, zeros, and the length in bits. */
MD5_FUNCTION void md5_block(unsigned digest[4], const unsigned *words, unsigned count,
	const unsigned constants[64], const unsigned char shifts[4][4])
{
	unsigned last[MD5_WORDS] = {0x80};

	digest[0] = 0x67452301;
	digest[1] = 0xefcdab89;
	digest[2] = 0x98badcfe;
	digest[3] = 0x10325476;
	for (unsigned at = 0; at < count; at += MD5_WORDS)
		md5_chunk(digest, words + at, constants, shifts);
	last[MD5_WORDS - 2] = count * 32;
	md5_chunk(digest, last, constants, shifts);
}

#endif

/* SPDX-License-Identifier: MIT
 *
 * See fatbin.h. A fat binary is a header and a row of entries, each a header and a payload; nvcc may
 * put several fat binaries one behind the other. Offsets are read with memcpy, because nothing in a
 * stranger's bytes is aligned, and every length is checked against what is left.
 */
#include "device/fatbin.h"

#include <errno.h>
#include <lz4.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "gdev/error.h"

#define WRAPPER_MAGIC 0x466243b1u
#define HEADER_MAGIC 0xba55ed50u
#define ELF_MAGIC 0x464c457fu
#define WRAPPER_BYTES 24
#define HEADER_BYTES 16
#define ENTRY_BYTES 64 /* what we read of an entry's header */
#define KIND_PTX 1
#define FLAG_ZSTD 0x8000u
#define FLAG_LZ4 0x2000u
#define TEXT_BYTES_MAX                                                                             \
	(256u << 20) /* a stranger's word for the uncompressed size is taken up to here */

struct bytes {
	const uint8_t *at;
	size_t length;
};

struct entry {
	uint32_t sm;
	uint64_t flags;
	size_t text_bytes; /* uncompressed */
	struct bytes payload;
};

static uint64_t read_bytes(const uint8_t *at, size_t count)
{
	uint64_t value = 0;

	memcpy(&value, at, count); /* both are little-endian */
	return value;
}

/* Takes the next entry off `rest`. False at the end, and where the bytes make no sense. */
static bool entry_next(struct bytes *rest, struct entry *entry, unsigned *kind)
{
	const uint8_t *at = rest->at;
	uint64_t header_bytes, padded_bytes, compressed_bytes;

	if (rest->length < ENTRY_BYTES)
		return false;
	*kind = (unsigned)read_bytes(at, 2);
	header_bytes = read_bytes(at + 4, 4);
	padded_bytes = read_bytes(at + 8, 8);
	compressed_bytes = read_bytes(at + 16, 4);
	if (header_bytes < ENTRY_BYTES || header_bytes > rest->length ||
		padded_bytes > rest->length - header_bytes || compressed_bytes > padded_bytes)
		return false;
	entry->sm = (uint32_t)read_bytes(at + 28, 4);
	entry->flags = read_bytes(at + 40, 8);
	entry->text_bytes = (size_t)read_bytes(at + 56, 8);
	entry->payload.at = at + header_bytes;
	/* The padding confuses decompressors; text may carry it. */
	entry->payload.length = compressed_bytes ? compressed_bytes : padded_bytes;
	rest->at += header_bytes + padded_bytes;
	rest->length -= header_bytes + padded_bytes;
	return true;
}

static bool better(const struct entry *a, const struct entry *b, unsigned target)
{
	bool a_fits = a->sm <= target, b_fits = b->sm <= target;

	if (a_fits != b_fits)
		return a_fits;
	return a_fits ? a->sm > b->sm : a->sm < b->sm;
}

/* Takes the next fat binary off `image`: the row of its entries. False: there is none. */
static bool binary_next(struct bytes *image, struct bytes *entries)
{
	uint64_t header_bytes, body_bytes;

	if (image->length < HEADER_BYTES || read_bytes(image->at, 4) != HEADER_MAGIC)
		return false;
	header_bytes = read_bytes(image->at + 6, 2);
	body_bytes = read_bytes(image->at + 8, 8);
	if (header_bytes < HEADER_BYTES || header_bytes > image->length)
		return false;
	entries->at = image->at + header_bytes;
	entries->length = min_of(body_bytes, image->length - header_bytes);
	image->at += header_bytes + entries->length;
	image->length -= header_bytes + entries->length;
	return true;
}

/* Looks through the fat binaries in `image`: the best PTX entry, and whether there was anything else. */
static bool entry_find(struct bytes image, unsigned target, struct entry *best, bool *others)
{
	bool found = false;
	struct bytes rest;
	struct entry entry;
	unsigned kind;

	*others = false;
	while (binary_next(&image, &rest)) {
		while (entry_next(&rest, &entry, &kind)) {
			if (kind != KIND_PTX)
				*others = true;
			else if (!found || better(&entry, best, target))
				*best = entry;
			found |= kind == KIND_PTX;
		}
	}
	return found;
}

static bool decompress(const struct entry *entry, char *text)
{
	const struct bytes *from = &entry->payload;

	if (entry->flags & FLAG_ZSTD) {
		size_t got = ZSTD_decompress(text, entry->text_bytes, from->at, from->length);
		return !ZSTD_isError(got) && got == entry->text_bytes;
	}
	int got = LZ4_decompress_safe(
		(const char *)from->at, text, (int)from->length, (int)entry->text_bytes);
	return got >= 0 && (size_t)got == entry->text_bytes;
}

static int text_copy(const void *bytes, size_t length, char **text, size_t *text_length)
{
	size_t used = strnlen(bytes, length);
	char *copy = malloc(used + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, used);
	copy[used] = '\0';
	*text = copy;
	*text_length = used;
	return 0;
}

static int entry_text(const struct entry *entry, char **text, size_t *text_length, const char **why)
{
	autofree char *unpacked = NULL;

	if (!(entry->flags & (FLAG_ZSTD | FLAG_LZ4)))
		return text_copy(entry->payload.at, entry->payload.length, text, text_length);
	*why = "the compressed PTX in the fat binary is damaged";
	if (!entry->text_bytes || entry->text_bytes > TEXT_BYTES_MAX ||
		entry->payload.length > TEXT_BYTES_MAX)
		return -GDEV_E_INVALID_IMAGE;
	unpacked = malloc(entry->text_bytes);
	if (!unpacked)
		return -ENOMEM;
	if (!decompress(entry, unpacked))
		return -GDEV_E_INVALID_IMAGE;
	return text_copy(unpacked, entry->text_bytes, text, text_length);
}

/* Where the fat binary of a wrapper is. Its pointer was made in the program's process: it means
 * something only when it points into the image itself. */
static struct bytes wrapped(struct bytes image)
{
	uint64_t data = read_bytes(image.at + 8, 8), start = (uintptr_t)image.at;
	size_t skip = WRAPPER_BYTES;

	if (data >= start && data - start < image.length)
		skip = (size_t)(data - start);
	return (struct bytes){image.at + skip, image.length - skip};
}

static bool looks_like_text(struct bytes image)
{
	static const char mark[] = ".version";
	size_t length = strnlen((const char *)image.at, image.length);

	return memmem(image.at, length, mark, sizeof mark - 1) != NULL;
}

int fatbin_ptx(const void *image, size_t length, unsigned target, char **text, size_t *text_length,
	const char **why)
{
	struct bytes bytes = {image, length};
	struct entry entry = {0};
	bool others;

	*why = "out of memory";
	if (length >= WRAPPER_BYTES && read_bytes(bytes.at, 4) == WRAPPER_MAGIC)
		bytes = wrapped(bytes);
	if (bytes.length >= 4 && read_bytes(bytes.at, 4) == ELF_MAGIC) {
		*why = "the image is machine code of a GPU; this device needs PTX (nvcc -gencode "
		       "arch=compute_75,code=compute_75)";
		return -GDEV_E_NO_BINARY;
	}
	if (entry_find(bytes, target, &entry, &others))
		return entry_text(&entry, text, text_length, why);
	if (others) {
		*why = "the fat binary carries no PTX; build it with PTX (nvcc -gencode "
		       "arch=compute_75,code=compute_75)";
		return -GDEV_E_NO_BINARY;
	}
	if (looks_like_text(bytes))
		return text_copy(bytes.at, bytes.length, text, text_length);
	*why = "the image is neither PTX nor a fat binary";
	return -GDEV_E_INVALID_IMAGE;
}

/* Malloc'ed; a NUL follows it. NULL: it cannot be unpacked. */
static void *entry_program(const struct entry *entry, size_t *length)
{
	bool packed = entry->flags & (FLAG_ZSTD | FLAG_LZ4);
	size_t bytes = packed ? entry->text_bytes : entry->payload.length;
	char *program;

	if (bytes > TEXT_BYTES_MAX || entry->payload.length > TEXT_BYTES_MAX)
		return NULL;
	program = malloc(bytes + 1);
	if (!program)
		return NULL;
	if (!packed) {
		memcpy(program, entry->payload.at, bytes);
	} else if (!bytes || !decompress(entry, program)) {
		free(program);
		return NULL;
	}
	program[bytes] = '\0';
	*length = bytes;
	return program;
}

static int visit_copy(struct bytes bytes,
	int (*visit)(void *owner, const void *program, size_t length), void *owner)
{
	autofree char *copy = malloc(bytes.length + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes.at, bytes.length);
	copy[bytes.length] = '\0';
	return visit(owner, copy, bytes.length);
}

int fatbin_each(const void *image, size_t length,
	int (*visit)(void *owner, const void *program, size_t length), void *owner)
{
	struct bytes bytes = {image, length}, rest;
	int error = -EINVAL;
	struct entry entry;
	unsigned kind;

	if (length >= WRAPPER_BYTES && read_bytes(bytes.at, 4) == WRAPPER_MAGIC)
		bytes = wrapped(bytes);
	if (bytes.length >= 4 && read_bytes(bytes.at, 4) == ELF_MAGIC)
		return visit_copy(bytes, visit, owner);
	if (bytes.length < 4 || read_bytes(bytes.at, 4) != HEADER_MAGIC)
		return looks_like_text(bytes) ? visit_copy(bytes, visit, owner) : -EINVAL;
	while (binary_next(&bytes, &rest)) {
		while (entry_next(&rest, &entry, &kind)) {
			autofree void *program = entry_program(&entry, &length);
			error = program ? visit(owner, program, length) : -EINVAL;
			if (error)
				return error;
		}
		if (rest.length >= ENTRY_BYTES)
			return -EINVAL; /* what follows makes no sense */
	}
	return error;
}

size_t fatbin_next(const void *bytes, size_t length, size_t *offset)
{
	const uint8_t *at = bytes;

	for (; *offset < length && length - *offset >= HEADER_BYTES; *offset += 8) {
		uint64_t header_bytes, body_bytes;

		if (read_bytes(at + *offset, 4) != HEADER_MAGIC)
			continue;
		header_bytes = read_bytes(at + *offset + 6, 2);
		body_bytes = read_bytes(at + *offset + 8, 8);
		if (header_bytes >= HEADER_BYTES && header_bytes <= length - *offset)
			return header_bytes + min_of(body_bytes, length - *offset - header_bytes);
	}
	return 0;
}

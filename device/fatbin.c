/* SPDX-License-Identifier: MIT
 *
 * See fatbin.h. A fat binary is a header and a row of entries, each a header and a payload; nvcc may
 * put several fat binaries one behind the other. Offsets are read with memcpy, because nothing in a
 * stranger's bytes is aligned, and every length is checked against what is left.
 */
#include "device/fatbin.h"

#include <errno.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/link_text.h"
#include "base/log.h"
#include "gdev/error.h"
#include "proto/fatbin.h"

#define ELF_MAGIC 0x464c457fu
#define WRAPPER_BYTES 24
#define HEADER_BYTES sizeof(struct fatbin_header)
#define ENTRY_BYTES sizeof(struct fatbin_entry)
#define PADDING 64            /* zeros behind a program: its reader may look beyond */
#define FEW_BYTES (64u << 10) /* which malloc has, more likely than not */
#define TEXT_BYTES_MAX                                                                             \
	(256u << 20) /* a stranger's word for the uncompressed size is taken up to here */

struct bytes {
	const uint8_t *at;
	size_t length;
};

struct entry {
	uint32_t sm;
	uint64_t flags;
	bool has_options; /* of the compiler */

	size_t text_bytes;           /* uncompressed */
	struct bytes payload, whole; /* whole: header and padding included */
};

static uint64_t read_bytes(const uint8_t *at, size_t count)
{
	uint64_t value = 0;

	memcpy(&value, at, count); /* both are little-endian */
	return value;
}

static bool has_options(const uint8_t *at, const struct fatbin_entry *header)
{
	struct fatbin_options options;

	if (!header->options || header->options > header->header_bytes - sizeof options)
		return false;
	memcpy(&options, at + header->options, sizeof options);
	return options.text_bytes;
}

/* Takes the next entry off `rest`. False at the end, and where the bytes make no sense. */
static bool entry_next(struct bytes *rest, struct entry *entry, unsigned *kind)
{
	const uint8_t *at = rest->at;
	struct fatbin_entry header;

	if (rest->length < ENTRY_BYTES)
		return false;
	memcpy(&header, at, sizeof header);
	if (header.header_bytes < ENTRY_BYTES || header.header_bytes > rest->length ||
		header.payload_bytes > rest->length - header.header_bytes ||
		header.packed_bytes > header.payload_bytes)
		return false;
	*kind = header.kind;
	entry->sm = header.sm;
	entry->flags = header.flags;
	entry->has_options = has_options(at, &header);

	entry->text_bytes = (size_t)header.unpacked_bytes;
	entry->whole = (struct bytes){at, header.header_bytes + header.payload_bytes};
	entry->payload.at = at + header.header_bytes;
	/* The padding confuses decompressors; text may carry it. */
	entry->payload.length = header.packed_bytes ? header.packed_bytes : header.payload_bytes;
	rest->at += entry->whole.length;
	rest->length -= entry->whole.length;
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

	if (image->length < HEADER_BYTES || read_bytes(image->at, 4) != FATBIN_MAGIC)
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
			if (kind != FATBIN_PTX)
				*others = true;
			else if (!found || better(&entry, best, target))
				*best = entry;
			found |= kind == FATBIN_PTX;
		}
	}
	return found;
}

static bool decompress(const struct entry *entry, char *text)
{
	const struct bytes *from = &entry->payload;

	if (entry->flags & FATBIN_ZSTD) {
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

	if (!(entry->flags & (FATBIN_ZSTD | FATBIN_LZ4)))
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

bool fatbin_is_empty(const void *image, size_t length)
{
	struct bytes bytes = {image, length}, entries;

	return binary_next(&bytes, &entries) && !entries.length;
}

/* By which kernels launch kernels: of the device's runtime since CUDA 12, and before. Other letters may follow. */
static const char *const launch_calls[] = {"__cudaCDP2LaunchDevice", "cudaLaunchDevice"};

bool fatbin_launches(const void *text, size_t length)
{
	for (size_t i = 0; i < array_length(launch_calls); i++)
		if (memmem(text, length, launch_calls[i], strlen(launch_calls[i])))
			return true;
	return false;
}

bool fatbin_launches_by(const char *name)
{
	for (size_t i = 0; i < array_length(launch_calls); i++)
		if (!strncmp(name, launch_calls[i], strlen(launch_calls[i])))
			return true;
	return false;
}

bool fatbin_launches_graphs(const void *text, size_t length)
{
	static const char call[] = "cudaGraphLaunch";

	return memmem(text, length, call, sizeof call - 1);
}

/* ---- units that are to be linked ---- */

static bool has_units(struct bytes image)
{
	return image.length >= WRAPPER_BYTES && read_bytes(image.at, 4) == FATBIN_WRAPPER_MAGIC &&
	       read_bytes(image.at + 4, 4) == FATBIN_WRAPPER_UNITS;
}

bool fatbin_has_units(const void *image, size_t length)
{
	return has_units((struct bytes){image, length});
}

struct units {
	char **texts;
	size_t count, bytes; /* bytes: of all texts */
};

static int unit_add(struct units *units, const struct entry *entry, const char **why)
{
	char **texts = realloc(units->texts, (units->count + 1) * sizeof *texts);
	size_t length;
	int error;

	if (!texts)
		return -ENOMEM;
	units->texts = texts;
	if (units->bytes > TEXT_BYTES_MAX || entry->text_bytes > TEXT_BYTES_MAX - units->bytes) {
		*why = "the PTX of all units together is too long";
		return -GDEV_E_INVALID_IMAGE;
	}
	error = entry_text(entry, &texts[units->count], &length, why);
	if (error)
		return error;
	units->count++;
	units->bytes += length;
	return 0;
}

/* The PTX of each unit. One that has none for the target is left out: what others miss of it is said when they are compiled.
 * The vendor's device runtime, which backends have themselves, is such a unit. */
static int units_read(struct bytes image, unsigned target, struct units *units, const char **why)
{
	size_t offset = WRAPPER_BYTES, bytes;
	struct entry entry = {0};
	int error = 0;
	bool others;

	while (!error && (bytes = fatbin_next(image.at, image.length, &offset))) {
		struct bytes unit = {image.at + offset, bytes};

		if (entry_find(unit, target, &entry, &others) && entry.sm <= target)
			error = unit_add(units, &entry, why);
		offset = align_up(offset + bytes, (size_t)8);
	}
	return error;
}

static int units_link(
	struct bytes image, unsigned target, char **text, size_t *text_length, const char **why)
{
	struct units units = {0};
	char sentence[512] = "";
	int error = units_read(image, target, &units, why);

	if (!error && !units.count) {
		*why = "the code was compiled separately (nvcc -rdc), is not linked for this "
		       "device, and carries no PTX for it";
		error = -GDEV_E_NO_BINARY;
	}
	if (!error)
		error = link_texts(
			units.texts, units.count, text, text_length, sentence, sizeof sentence);
	if (error == -EINVAL) {
		log_info("module: units: %s", sentence);
		*why = "units that were compiled separately (nvcc -rdc) do not go together";
		error = -GDEV_E_INVALID_PTX;
	}
	if (!error)
		--*text_length; /* its NUL */
	for (size_t i = 0; i < units.count; i++)
		free(units.texts[i]);
	free(units.texts);
	return error;
}

int fatbin_ptx(const void *image, size_t length, unsigned target, char **text, size_t *text_length,
	const char **why)
{
	struct bytes bytes = {image, length};
	struct entry entry = {0};
	bool others;

	*why = "out of memory";
	if (has_units(bytes))
		return units_link(bytes, target, text, text_length, why);
	if (length >= WRAPPER_BYTES && read_bytes(bytes.at, 4) == FATBIN_WRAPPER_MAGIC)
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
	if (fatbin_is_empty(bytes.at, bytes.length)) {
		*why = "the fat binary has nothing in it";
		return -GDEV_E_NO_BINARY;
	}
	if (looks_like_text(bytes))
		return text_copy(bytes.at, bytes.length, text, text_length);
	*why = "the image is neither PTX nor a fat binary";
	return -GDEV_E_INVALID_IMAGE;
}

/* Malloc'ed. Most of unpacking is the kernel's giving of pages: large ones where they pay, else all at once, which takes it
 * less long than one by one. */
static void *room_for(size_t bytes)
{
	static const size_t large = 2u << 20, page = 4096;
	size_t unit = bytes < 2 * large ? page : large;
	void *room;

	if (bytes < FEW_BYTES)
		return malloc(bytes);
	bytes = align_up(bytes, unit);
	room = aligned_alloc(unit, bytes);
	if (room)
		madvise(room, bytes, unit == large ? MADV_HUGEPAGE : MADV_POPULATE_WRITE);
	return room;
}

/* Malloc'ed, with zeros behind. NULL: it cannot be unpacked. */
static void *entry_program(const struct entry *entry, size_t *length)
{
	bool packed = entry->flags & (FATBIN_ZSTD | FATBIN_LZ4);
	size_t bytes = packed ? entry->text_bytes : entry->payload.length;
	char *program;

	if (bytes > TEXT_BYTES_MAX || entry->payload.length > TEXT_BYTES_MAX)
		return NULL;
	program = room_for(bytes + PADDING);
	if (!program)
		return NULL;
	if (!packed) {
		memcpy(program, entry->payload.at, bytes);
	} else if (!bytes || !decompress(entry, program)) {
		free(program);
		return NULL;
	}
	memset(program + bytes, 0, PADDING);
	*length = bytes;
	return program;
}

int fatbin_each(const void *image, size_t length,
	int (*visit)(void *owner, const void *program, size_t length), void *owner)
{
	struct bytes bytes = {image, length}, rest;
	int error = -EINVAL;
	struct entry entry;
	unsigned kind;

	if (length >= WRAPPER_BYTES && read_bytes(bytes.at, 4) == FATBIN_WRAPPER_MAGIC)
		bytes = wrapped(bytes);
	if (bytes.length >= 4 && read_bytes(bytes.at, 4) == ELF_MAGIC)
		return visit(owner, bytes.at, bytes.length);
	if (bytes.length < 4 || read_bytes(bytes.at, 4) != FATBIN_MAGIC)
		return looks_like_text(bytes) ? visit(owner, bytes.at, bytes.length) : -EINVAL;
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

/* What comes into question: machine code, or one PTX. */
struct candidates {
	struct entry code, text;
	unsigned codes, texts;
	unsigned code_sm;  /* the highest of the machine code */
	size_t code_bytes; /* of all entries with machine code, headers included */
};

static bool is_code_for(const struct entry *entry, unsigned kind, unsigned target)
{
	return kind == FATBIN_CODE && fatbin_same_major(entry->sm, target) && entry->sm <= target;
}

static void candidates_find(struct bytes image, unsigned target, struct candidates *found)
{
	struct bytes rest;
	struct entry entry;
	unsigned kind;

	*found = (struct candidates){0};
	while (binary_next(&image, &rest)) {
		while (entry_next(&rest, &entry, &kind)) {
			if (is_code_for(&entry, kind, target)) {
				found->code = entry;
				found->codes++;
				found->code_sm = max_of(found->code_sm, entry.sm);
				found->code_bytes += entry.whole.length;
			} else if (kind == FATBIN_PTX && entry.sm <= target) {
				if (!found->texts++ || better(&entry, &found->text, target))
					found->text = entry;
			}
		}
	}
}

/* Room for a fat binary of entries that have `body_bytes`. */
static uint8_t *binary_make(size_t body_bytes, size_t *length)
{
	const struct fatbin_header header = {
		FATBIN_MAGIC, FATBIN_VERSION, sizeof header, body_bytes};
	uint8_t *made = calloc(1, sizeof header + body_bytes + PADDING);

	if (made)
		memcpy(made, &header, sizeof header);
	*length = sizeof header + body_bytes;
	return made;
}

/* A fat binary of the entries with machine code for the target. */
static void *codes_collect(struct bytes image, unsigned target, size_t body_bytes, size_t *length)
{
	uint8_t *made = binary_make(body_bytes, length), *end = made + HEADER_BYTES;
	struct bytes rest;
	struct entry entry;
	unsigned kind;

	while (made && binary_next(&image, &rest))
		while (entry_next(&rest, &entry, &kind))
			if (is_code_for(&entry, kind, target)) {
				memcpy(end, entry.whole.at, entry.whole.length);
				end += entry.whole.length;
			}
	return made;
}

/* A fat binary of one entry. */
static void *entry_alone(const struct entry *entry, size_t *length)
{
	uint8_t *made = binary_make(entry->whole.length, length);

	if (made)
		memcpy(made + HEADER_BYTES, entry->whole.at, entry->whole.length);
	return made;
}

int fatbin_choose(
	const void *image, size_t length, unsigned target, void **chosen, size_t *chosen_length)
{
	struct bytes bytes = {image, length};
	struct candidates found;
	const char *why;
	char *text;
	int error;

	if (has_units(bytes)) {
		error = units_link(bytes, target, &text, chosen_length, &why);
		if (!error)
			*chosen = text;
		return error;
	}
	if (length >= WRAPPER_BYTES && read_bytes(bytes.at, 4) == FATBIN_WRAPPER_MAGIC)
		bytes = wrapped(bytes);
	candidates_find(bytes, target, &found);
	if (found.codes > 1)
		*chosen = codes_collect(bytes, target, found.code_bytes, chosen_length);
	else if (found.codes)
		*chosen = entry_program(&found.code, chosen_length);
	else if (found.texts && found.text.has_options)
		*chosen = entry_alone(&found.text, chosen_length);
	else if (found.texts)
		*chosen = entry_program(&found.text, chosen_length);
	else
		*chosen = NULL;
	return *chosen ? 0 : -ENOENT;
}

int fatbin_runtime(
	const void *image, size_t length, unsigned target, void **code, size_t *code_length)
{
	struct bytes bytes = {image, length};
	size_t offset = WRAPPER_BYTES, unit_bytes;
	struct candidates found;

	if (!has_units(bytes))
		return -ENOENT;
	while ((unit_bytes = fatbin_next(image, length, &offset))) {
		candidates_find((struct bytes){bytes.at + offset, unit_bytes}, target, &found);
		if (!found.texts && found.codes) {
			*code = entry_program(&found.code, code_length);
			return *code ? 0 : -ENOENT;
		}
		offset = align_up(offset + unit_bytes, (size_t)8);
	}
	return -ENOENT;
}

bool fatbin_has_newer_code(const void *image, size_t length, unsigned target)
{
	struct bytes bytes = {image, length};
	struct candidates found;

	if (length >= WRAPPER_BYTES && read_bytes(bytes.at, 4) == FATBIN_WRAPPER_MAGIC)
		bytes = wrapped(bytes);
	candidates_find(bytes, target, &found);
	return found.codes && (!found.texts || found.text.sm < found.code_sm);
}

size_t fatbin_next(const void *bytes, size_t length, size_t *offset)
{
	const uint8_t *at = bytes;

	for (; *offset < length && length - *offset >= HEADER_BYTES; *offset += 8) {
		uint64_t header_bytes, body_bytes;

		if (read_bytes(at + *offset, 4) != FATBIN_MAGIC)
			continue;
		header_bytes = read_bytes(at + *offset + 6, 2);
		body_bytes = read_bytes(at + *offset + 8, 8);
		if (header_bytes >= HEADER_BYTES && header_bytes <= length - *offset)
			return header_bytes + min_of(body_bytes, length - *offset - header_bytes);
	}
	return 0;
}

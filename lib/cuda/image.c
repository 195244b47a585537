/* SPDX-License-Identifier: MIT
 *
 * Images that programs hand over without saying how long they are: PTX text, an ELF file, a fat binary, or
 * a wrapper that points to one. What is in a fat binary is for the device to judge.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/link_text.h"
#include "lib/cuda/internal.h"
#include "proto/fatbin.h"

struct wrapper {
	uint32_t magic, version;
	const void *data;
	const void *const *units; /* that are not linked, each a fat binary; NULL ends them */
};

/* To the end of the section headers, which come last, or of the last section if they do not. */
static CUresult elf_bytes(const Elf64_Ehdr *elf, size_t *bytes)
{
	const uint8_t *start = (const uint8_t *)elf;
	size_t end = elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;

	if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_shentsize != sizeof(Elf64_Shdr))
		return fail(CUDA_ERROR_INVALID_IMAGE, "the ELF file is none of 64 bits");
	for (unsigned i = 0; i < elf->e_shnum; i++) {
		Elf64_Shdr section;
		memcpy(&section, start + elf->e_shoff + i * sizeof section, sizeof section);
		if (section.sh_type != SHT_NOBITS)
			end = max_of(end, (size_t)(section.sh_offset + section.sh_size));
	}
	end = max_of(end, (size_t)(elf->e_phoff + (size_t)elf->e_phnum * elf->e_phentsize));
	*bytes = end;
	return CUDA_SUCCESS;
}

static CUresult measure(struct image *image)
{
	const void *begin = image->begin;
	struct fatbin_header fatbin;
	uint32_t magic;

	memcpy(&magic, begin, sizeof magic);
	if (magic == FATBIN_MAGIC) {
		memcpy(&fatbin, begin, sizeof fatbin);
		image->bytes = fatbin.header_bytes + fatbin.bytes;
		return CUDA_SUCCESS;
	}
	if (!memcmp(begin, ELFMAG, SELFMAG))
		return elf_bytes(begin, &image->bytes);
	image->bytes = strlen(begin) + 1;
	return image->bytes > 1 ? CUDA_SUCCESS
				: fail(CUDA_ERROR_INVALID_IMAGE, "the image is empty");
}

CUresult image_find(const void *given, struct image *image)
{
	struct wrapper wrapper;

	if (!given)
		return fail(CUDA_ERROR_INVALID_VALUE, "the image is NULL");
	*image = (struct image){.begin = given};
	memcpy(&wrapper.magic, given, sizeof wrapper.magic);
	if (wrapper.magic == FATBIN_WRAPPER_MAGIC) {
		memcpy(&wrapper, given, sizeof wrapper);
		image->begin = wrapper.data;
		if (wrapper.version == FATBIN_WRAPPER_UNITS && wrapper.units && *wrapper.units)
			image->units = wrapper.units;
		if (!image->begin)
			return fail(CUDA_ERROR_INVALID_IMAGE,
				"the wrapper of the fat binary points nowhere");
	}
	return measure(image);
}

static size_t unit_bytes(const void *unit)
{
	struct fatbin_header header;

	memcpy(&header, unit, sizeof header);
	return header.magic == FATBIN_MAGIC ? header.header_bytes + header.bytes : 0;
}

CUresult image_of_units(const struct image *image, struct image *made, void **memory)
{
	const struct wrapper wrapper = {FATBIN_WRAPPER_MAGIC, FATBIN_WRAPPER_UNITS, NULL, NULL};
	size_t bytes = sizeof wrapper;
	uint8_t *at;

	for (const void *const *unit = image->units; *unit; unit++)
		bytes += align_up(unit_bytes(*unit), (size_t)8);
	at = *memory = calloc(1, bytes);
	if (!at)
		return no_memory();
	*made = (struct image){.begin = at, .bytes = bytes};
	memcpy(at, &wrapper, sizeof wrapper);
	at += sizeof wrapper;
	for (const void *const *unit = image->units; *unit; unit++) {
		memcpy(at, *unit, unit_bytes(*unit));
		at += align_up(unit_bytes(*unit), (size_t)8);
	}
	return CUDA_SUCCESS;
}

/* ---- what the devices of this process can use ---- */

static bool is_for_others(const struct fatbin_entry *entry)
{
	int major, minor;

	if (entry->kind != FATBIN_CODE)
		return false;
	for (CUdevice device = 0; device < devices_count(); device++)
		if (device_attribute(
			    device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major) ||
			device_attribute(
				device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor) ||
			fatbin_same_major(entry->sm, (uint32_t)(10 * major + minor)))
			return false;
	return true;
}

/* A fat binary of some entries of another: its header, and where they are. */
struct thin {
	struct fatbin_header header;
	struct iovec parts[];
};

/* Finds the entries that are not for others. *parts: rows of these, in `out` if that is not NULL. How many bytes they have;
 * 0: the entries make no sense. */
static size_t entries_keep(const uint8_t *at, size_t bytes, struct iovec *out, size_t *parts)
{
	const uint8_t *end = NULL; /* of the last row */
	struct fatbin_entry entry;
	size_t kept = 0;

	*parts = 0;
	for (size_t length; bytes; at += length, bytes -= length) {
		if (bytes < sizeof entry)
			return 0;
		memcpy(&entry, at, sizeof entry);
		length = entry.header_bytes + entry.payload_bytes;
		if (length < sizeof entry || length > bytes)
			return 0;
		if (is_for_others(&entry))
			continue;
		if (at != end)
			++*parts;
		if (out && at != end)
			out[*parts - 1] = (struct iovec){(void *)(uintptr_t)at, 0};
		if (out)
			out[*parts - 1].iov_len += length;
		end = at + length;
		kept += length;
	}
	return kept;
}

/* *thin: NULL: nothing can be left out. *count: of its parts; its header is the first. */
static CUresult thin_make(const struct image *image, struct thin **thin, size_t *count)
{
	struct fatbin_header header;
	const uint8_t *entries;
	size_t kept;

	*thin = NULL;
	if (image->bytes < sizeof header)
		return CUDA_SUCCESS;
	memcpy(&header, image->begin, sizeof header);
	if (header.magic != FATBIN_MAGIC || header.header_bytes > image->bytes ||
		header.bytes > image->bytes - header.header_bytes)
		return CUDA_SUCCESS; /* the device says what is wrong with a file that was cut */
	entries = (const uint8_t *)image->begin + header.header_bytes;
	kept = entries_keep(entries, header.bytes, NULL, count);
	if (!kept || kept == header.bytes)
		return CUDA_SUCCESS;
	*thin = malloc(sizeof **thin + (1 + *count) * sizeof(struct iovec));
	if (!*thin)
		return no_memory();
	entries_keep(entries, header.bytes, (*thin)->parts + 1, count);
	header.header_bytes = sizeof header;
	header.bytes = kept;
	(*thin)->header = header;
	(*thin)->parts[0] = (struct iovec){&(*thin)->header, sizeof header};
	++*count;
	return CUDA_SUCCESS;
}

CUresult image_keep(struct image *image, bool preserved)
{
	const struct iovec whole = {(void *)(uintptr_t)image->begin, image->bytes};
	struct thin *thin;
	size_t count;
	int error;

	TRY(thin_make(image, &thin, &count));
	if (preserved && !thin)
		return CUDA_SUCCESS;
	error = gdev_image_gather(
		thin ? thin->parts : &whole, thin ? count : 1, !preserved, &image->kept);
	if (!error && preserved)
		image->thin = thin;
	else
		free(thin);
	return result_of(error, "the image cannot be kept");
}

void image_finish(struct image *image)
{
	gdev_image_destroy(image->kept);
	free(image->thin);
}

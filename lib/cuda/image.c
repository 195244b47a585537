/* SPDX-License-Identifier: MIT
 *
 * Images that programs hand over without saying how long they are: PTX text, an ELF file, a fat binary, or
 * a wrapper that points to one. What is in a fat binary is for the device to judge.
 */
#include <elf.h>
#include <string.h>

#include "lib/cuda/internal.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u

struct wrapper {
	uint32_t magic, version;
	const void *data;
	const void *list; /* version 2: units that are not linked */
};

struct fatbin {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes; /* that follow the header */
};

/* To the end of the section headers, which come last, or of the last section if they do not. */
static CUresult elf_bytes(const Elf64_Ehdr *elf, size_t *bytes)
{
	const uint8_t *start = (const uint8_t *)elf;
	size_t end = elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;

	if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_shentsize != sizeof(Elf64_Shdr))
		return CUDA_ERROR_INVALID_IMAGE;
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

CUresult image_find(const void *image, const void **begin, size_t *bytes)
{
	struct wrapper wrapper;
	struct fatbin fatbin;
	uint32_t magic;

	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&magic, image, sizeof magic);
	if (magic == WRAPPER_MAGIC) {
		memcpy(&wrapper, image, sizeof wrapper);
		image = wrapper.data;
		if (!image)
			return CUDA_ERROR_INVALID_IMAGE;
		memcpy(&magic, image, sizeof magic);
	}
	*begin = image;
	if (magic == FATBIN_MAGIC) {
		memcpy(&fatbin, image, sizeof fatbin);
		*bytes = fatbin.header_bytes + fatbin.bytes;
		return CUDA_SUCCESS;
	}
	if (!memcmp(image, ELFMAG, SELFMAG))
		return elf_bytes(image, bytes);
	*bytes = strlen(image) + 1;
	return *bytes > 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

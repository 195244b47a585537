/* SPDX-License-Identifier: MIT
 *
 * See code_elf.h.
 */
#include "device/cuda/code_elf.h"

#include <string.h>

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

bool elf_read(const struct elf *elf, uint64_t offset, void *to, size_t bytes)
{
	if (offset > elf->length || bytes > elf->length - offset)
		return false;
	memcpy(to, elf->bytes + offset, bytes);
	return true;
}

bool elf_open(struct elf *elf, const void *bytes, size_t length)
{
	*elf = (struct elf){bytes, length, {{0}}};
	return elf_read(elf, 0, &elf->header, sizeof elf->header) &&
	       !memcmp(elf->header.e_ident, ELFMAG, SELFMAG) &&
	       elf->header.e_ident[EI_CLASS] == ELFCLASS64 && elf->header.e_machine == EM_CUDA &&
	       elf->header.e_shentsize == sizeof(Elf64_Shdr) && elf->header.e_shnum;
}

bool elf_section(const struct elf *elf, unsigned index, Elf64_Shdr *section)
{
	return index < elf->header.e_shnum &&
	       elf_read(elf, elf->header.e_shoff + (uint64_t)index * sizeof *section, section,
		       sizeof *section);
}

const char *elf_string(const struct elf *elf, const Elf64_Shdr *table, uint64_t offset)
{
	if (offset >= table->sh_size || table->sh_offset > elf->length ||
		offset >= elf->length - table->sh_offset)
		return "";
	return elf->bytes + table->sh_offset + offset;
}

bool elf_holds_variables(const char *section)
{
	return !strncmp(section, ".nv.global", 10) || !strcmp(section, ".nv.constant3");
}

const char *elf_section_name(const struct elf *elf, unsigned index)
{
	Elf64_Shdr names, section;

	if (!elf_section(elf, elf->header.e_shstrndx, &names) || !elf_section(elf, index, &section))
		return "";
	return elf_string(elf, &names, section.sh_name);
}

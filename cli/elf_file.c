/* SPDX-License-Identifier: MIT
 *
 * See elf_file.h. Structures are copied out with memcpy: nothing in a stranger's file is aligned.
 */
#include "cli/elf_file.h"

#include <string.h>

/* The part of `whole` at `offset`; empty where it does not fit. */
static struct bytes part(struct bytes whole, uint64_t offset, uint64_t length)
{
	if (offset > whole.length || length > whole.length - offset)
		return (struct bytes){NULL, 0};
	return (struct bytes){whole.at + offset, (size_t)length};
}

/* NUL-terminated within the table; "" else. */
static const char *string_at(struct bytes table, uint64_t offset)
{
	if (offset >= table.length || !memchr(table.at + offset, '\0', table.length - offset))
		return "";
	return (const char *)table.at + offset;
}

static bool header_of(const struct elf *elf, size_t index, Elf64_Shdr *header)
{
	if (index >= elf->section_count)
		return false;
	memcpy(header, elf->sections.at + index * sizeof *header, sizeof *header);
	return true;
}

static struct bytes contents(const struct elf *elf, const Elf64_Shdr *header)
{
	if (header->sh_type == SHT_NOBITS || header->sh_flags & SHF_COMPRESSED)
		return (struct bytes){NULL, 0};
	return part(elf->file, header->sh_offset, header->sh_size);
}

bool elf_open(struct elf *elf, struct bytes file)
{
	Elf64_Ehdr header;
	Elf64_Shdr names;

	*elf = (struct elf){.file = file};
	if (file.length < sizeof header)
		return false;
	memcpy(&header, file.at, sizeof header);
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
		header.e_ident[EI_DATA] != ELFDATA2LSB)
		return false;
	elf->machine = header.e_machine;
	if (header.e_shentsize != sizeof names)
		return true;
	elf->sections = part(file, header.e_shoff, (uint64_t)header.e_shnum * sizeof names);
	elf->section_count = elf->sections.length / sizeof names;
	if (header_of(elf, header.e_shstrndx, &names))
		elf->section_names = contents(elf, &names);
	return true;
}

bool elf_section(const struct elf *elf, size_t index, struct elf_section *section)
{
	Elf64_Shdr header;

	if (!header_of(elf, index, &header))
		return false;
	*section = (struct elf_section){
		.name = string_at(elf->section_names, header.sh_name),
		.type = header.sh_type,
		.link = header.sh_link,
		.flags = header.sh_flags,
		.bytes = contents(elf, &header),
	};
	return true;
}

static struct bytes strings_of(const struct elf *elf, const struct elf_section *section)
{
	struct elf_section strings;

	return elf_section(elf, section->link, &strings) ? strings.bytes : (struct bytes){NULL, 0};
}

void elf_each_undefined(
	const struct elf *elf, void (*each)(void *owner, const char *name, bool weak), void *owner)
{
	struct elf_section section;

	for (size_t i = 0; elf_section(elf, i, &section); i++) {
		struct bytes strings = strings_of(elf, &section);
		Elf64_Sym symbol;

		for (size_t at = 0;
			section.type == SHT_DYNSYM && section.bytes.length - at >= sizeof symbol;
			at += sizeof symbol) {
			memcpy(&symbol, section.bytes.at + at, sizeof symbol);
			if (symbol.st_shndx == SHN_UNDEF && *string_at(strings, symbol.st_name))
				each(owner, string_at(strings, symbol.st_name),
					ELF64_ST_BIND(symbol.st_info) == STB_WEAK);
		}
	}
}

void elf_each_dynamic(const struct elf *elf,
	void (*each)(void *owner, int64_t tag, const char *text), void *owner)
{
	struct elf_section section;

	for (size_t i = 0; elf_section(elf, i, &section); i++) {
		struct bytes strings = strings_of(elf, &section);
		Elf64_Dyn entry;

		for (size_t at = 0;
			section.type == SHT_DYNAMIC && section.bytes.length - at >= sizeof entry;
			at += sizeof entry) {
			memcpy(&entry, section.bytes.at + at, sizeof entry);
			if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_RUNPATH ||
				entry.d_tag == DT_RPATH)
				each(owner, entry.d_tag, string_at(strings, entry.d_un.d_val));
		}
	}
}

/* SPDX-License-Identifier: MIT
 *
 * Reading ELF files (64 bit, little-endian): sections, dynamic symbols, needed libraries. The files are strangers':
 * every offset is checked against the file before it is used, and every string against its table. Nothing else is
 * promised of a file that makes no sense: it seems to have less in it.
 */
#ifndef GDEV_CLI_ELF_H
#define GDEV_CLI_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
	const uint8_t *at;
	size_t length;
};

struct elf {
	struct bytes file;
	unsigned machine;      /* EM_… */
	struct bytes sections; /* Elf64_Shdr, of which there are: */
	size_t section_count;
	struct bytes section_names;
};

struct elf_section {
	const char *name;
	uint32_t type, link;
	uint64_t flags;
	struct bytes bytes; /* empty when they are not in the file */
};

/* Whether the bytes begin as such a file; they must stay where they are. */
bool elf_open(struct elf *elf, struct bytes file);
/* False: there is no such section. */
bool elf_section(const struct elf *elf, size_t index, struct elf_section *section);
/* Calls for each symbol of the dynamic table that is not defined in the file. */
void elf_each_undefined(
	const struct elf *elf, void (*each)(void *owner, const char *name, bool weak), void *owner);
/* Calls for each entry of the dynamic section that names a string: DT_NEEDED, DT_RUNPATH, DT_RPATH. */
void elf_each_dynamic(const struct elf *elf,
	void (*each)(void *owner, int64_t tag, const char *text), void *owner);

#endif

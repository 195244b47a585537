/* SPDX-License-Identifier: MIT
 *
 * Machine code as the ELF file that it is: a stranger's bytes, so that everything that is read of it is checked. Pure.
 */
#ifndef GDEV_DEVICE_CUDA_CODE_ELF_H
#define GDEV_DEVICE_CUDA_CODE_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf {
	const char *bytes;
	size_t length;
	Elf64_Ehdr header;
};

/* A NUL follows the bytes. False: they are no machine code of a GPU. */
bool elf_open(struct elf *elf, const void *bytes, size_t length);
/* False: it is not all there. */
bool elf_read(const struct elf *elf, uint64_t offset, void *to, size_t bytes);
bool elf_section(const struct elf *elf, unsigned index, Elf64_Shdr *section);
/* Empty when there is none. */
const char *elf_section_name(const struct elf *elf, unsigned index);
/* A name of a table of strings. */
const char *elf_string(const struct elf *elf, const Elf64_Shdr *table, uint64_t offset);
/* Whether it is where variables lie that live as long as their module. */
bool elf_holds_variables(const char *section);

#define ELF_MANAGED 4 /* a bit that the vendor has in st_other */

static inline bool elf_is_managed(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size &&
	       (symbol->st_other & ELF_MANAGED) && symbol->st_shndx;
}

#endif

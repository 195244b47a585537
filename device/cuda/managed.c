/* SPDX-License-Identifier: MIT
 *
 * Managed variables (`__managed__`). The driver would put them into managed memory of its own, which only this process
 * reaches. So it is not told of them: in the machine code they become variables as all others, and nothing refers to those.
 * What would is changed to refer to host memory that the client has for them, at the same address on both sides. That is
 * in step by itself.
 *
 * In machine code addresses of variables are in relocations alone: words in tables of constants, and instructions that move
 * halves of an address into registers. If there are others, the module is not supported.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cuda/code_elf.h"
#include "proto/record.h"

/* The vendor's types of relocations. */
#define RELOCATION_NONE 0
#define RELOCATION_64 2    /* a word */
#define RELOCATION_LOW 56  /* the lower half of an address, in the second word of an instruction, */
#define RELOCATION_HIGH 57 /* and the upper one */

#define BYTES_MAX (1ull << 40)
#define ALIGN_MAX 4096u
#define VARIABLES_MAX 4096 /* each relocation is looked up among them */

struct managed_variable {
	char *name;
	uint64_t offset, bytes;
	unsigned table, symbol; /* where it is named: section, and which */
	unsigned section;       /* where it was meant to lie, */
	uint64_t at;            /* and from where on in it */
	uint64_t initial;       /* where its value is in the image; 0: zeros */
};

void managed_forget(struct device_module *module)
{
	struct managed *managed = &module->managed;

	for (size_t i = 0; i < managed->count; i++)
		free(managed->variables[i].name);
	free(managed->variables);
	managed->variables = NULL;
	managed->count = 0;
	managed->bytes = managed->address = 0;
}

/* ---- what there is ---- */

/* Whether `bytes` at `at` of the section are, in part, some variable's. */
static bool overlaps(const struct managed *managed, unsigned section, uint64_t at, uint64_t bytes)
{
	for (size_t i = 0; i < managed->count; i++) {
		const struct managed_variable *v = &managed->variables[i];
		if (v->section == section && (at - v->at < v->bytes || v->at - at < bytes))
			return true;
	}
	return false;
}

static int add(struct managed *managed, const struct elf *elf, const Elf64_Shdr *names,
	const Elf64_Sym *symbol, unsigned table, unsigned number)
{
	const char *name = elf_string(elf, names, symbol->st_name);
	struct managed_variable *grown;
	Elf64_Shdr section;
	uint64_t align;

	if (managed->count == VARIABLES_MAX || strnlen(name, RECORD_NAME_MAX) == RECORD_NAME_MAX)
		return -ENOTSUP;
	if (!elf_section(elf, symbol->st_shndx, &section))
		return -ENOTSUP;
	align = max_of(section.sh_addralign, (uint64_t)16);
	if (symbol->st_value > section.sh_size ||
		symbol->st_size > section.sh_size - symbol->st_value ||
		symbol->st_size > BYTES_MAX || managed->bytes > BYTES_MAX || align > ALIGN_MAX ||
		(align & (align - 1)))
		return -ENOTSUP;
	if (section.sh_type != SHT_NOBITS &&
		(section.sh_offset > elf->length ||
			section.sh_size > elf->length - section.sh_offset))
		return -ENOTSUP;
	/* Of two names of one variable, each would get a place. */
	if (overlaps(managed, symbol->st_shndx, symbol->st_value, symbol->st_size))
		return -ENOTSUP;
	grown = realloc(managed->variables, (managed->count + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	managed->variables = grown;
	managed->bytes = align_up(managed->bytes, align);
	grown += managed->count;
	*grown = (struct managed_variable){
		.name = strdup(name),
		.offset = managed->bytes,
		.bytes = symbol->st_size,
		.table = table,
		.symbol = number,
		.section = symbol->st_shndx,
		.at = symbol->st_value,
		.initial = section.sh_type == SHT_NOBITS ? 0 : section.sh_offset + symbol->st_value,
	};
	if (!grown->name)
		return -ENOMEM;
	managed->count++;
	managed->bytes += symbol->st_size;
	return 0;
}

/* Takes the marks off the table's symbols. */
static int find_in(struct managed *managed, char *code, const struct elf *elf, unsigned index)
{
	Elf64_Shdr table, names;
	Elf64_Sym symbol;
	int error = 0;

	if (!elf_section(elf, index, &table) || table.sh_type != SHT_SYMTAB)
		return 0;
	if (!elf_section(elf, table.sh_link, &names))
		return -ENOTSUP;
	for (unsigned i = 0; (i + 1) * sizeof symbol <= table.sh_size && !error; i++) {
		uint64_t at = table.sh_offset + i * sizeof symbol;
		if (!elf_read(elf, at, &symbol, sizeof symbol))
			return -ENOTSUP;
		if (!elf_is_managed(&symbol))
			continue;
		error = add(managed, elf, &names, &symbol, index, i);
		symbol.st_other &= (unsigned char)~ELF_MANAGED;
		memcpy(code + at, &symbol, sizeof symbol);
	}
	return error;
}

/* ---- what refers to it ---- */

static const struct managed_variable *variable_of(
	const struct managed *managed, unsigned table, unsigned symbol)
{
	for (size_t i = 0; i < managed->count; i++)
		if (managed->variables[i].table == table && managed->variables[i].symbol == symbol)
			return &managed->variables[i];
	return NULL;
}

/* Whether it is a whole section that is named, in which some of the variables are: which of them is meant is not looked at. */
static bool is_section_of(
	const struct managed *managed, const struct elf *elf, unsigned table, unsigned symbol)
{
	Elf64_Shdr symbols;
	Elf64_Sym named, other;

	if (!elf_section(elf, table, &symbols) ||
		!elf_read(elf, symbols.sh_offset + symbol * sizeof named, &named, sizeof named) ||
		ELF64_ST_TYPE(named.st_info) != STT_SECTION)
		return false;
	for (size_t i = 0; i < managed->count; i++)
		if (managed->variables[i].table == table &&
			elf_read(elf,
				symbols.sh_offset + managed->variables[i].symbol * sizeof other,
				&other, sizeof other) &&
			other.st_shndx == named.st_shndx)
			return true;
	return false;
}

/* Writes the address there; of 0 it says only whether that can be done. */
static int write_address(
	char *code, const struct elf *elf, uint64_t at, unsigned type, uint64_t address)
{
	uint32_t half = (uint32_t)(type == RELOCATION_HIGH ? address >> 32 : address);
	char there[16];

	if (!elf_read(elf, at, there, type == RELOCATION_64 ? 8 : 16))
		return -ENOTSUP;
	if (type == RELOCATION_64) {
		if (address)
			memcpy(code + at, &address, sizeof address);
	} else if (type == RELOCATION_LOW || type == RELOCATION_HIGH) {
		if (address)
			memcpy(code + at + 4, &half, sizeof half);
	} else {
		return -ENOTSUP;
	}
	return 0;
}

/* Of one section of relocations. base: where the variables are; 0: to see whether all is known. */
static int relocate_in(const struct managed *managed, char *code, const struct elf *elf,
	const Elf64_Shdr *table, uint64_t base)
{
	bool added = table->sh_type == SHT_RELA;
	size_t bytes = added ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
	Elf64_Shdr section;
	Elf64_Rela entry = {0};
	int error = 0;

	if (!elf_section(elf, table->sh_info, &section))
		return -ENOTSUP;
	for (uint64_t at = 0; at + bytes <= table->sh_size && !error; at += bytes) {
		const struct managed_variable *v;
		uint64_t place, addend;
		if (!elf_read(elf, table->sh_offset + at, &entry, bytes))
			return -ENOTSUP;
		v = variable_of(managed, table->sh_link, (unsigned)ELF64_R_SYM(entry.r_info));
		if (!v && is_section_of(managed, elf, table->sh_link,
				  (unsigned)ELF64_R_SYM(entry.r_info)))
			return -ENOTSUP;
		/* The driver would make the value where the variable is no more. */
		if (!v && overlaps(managed, table->sh_info, entry.r_offset, sizeof(uint64_t)))
			return -ENOTSUP;
		if (!v)
			continue;
		if (entry.r_offset > section.sh_size)
			return -ENOTSUP;
		place = section.sh_offset + entry.r_offset;
		addend = added ? (uint64_t)entry.r_addend : 0;
		if (!added && !elf_read(elf, place, &addend, sizeof addend))
			return -ENOTSUP;
		if (!added && ELF64_R_TYPE(entry.r_info) != RELOCATION_64)
			return -ENOTSUP; /* what is added is split, too */
		error = write_address(code, elf, place, (unsigned)ELF64_R_TYPE(entry.r_info),
			base ? base + v->offset + addend : 0);
		if (!base || error)
			continue;
		entry.r_info = ELF64_R_INFO(ELF64_R_SYM(entry.r_info), RELOCATION_NONE);
		memcpy(code + table->sh_offset + at, &entry, bytes);
	}
	return error;
}

static int relocate(const struct managed *managed, char *code, const struct elf *elf, uint64_t base)
{
	Elf64_Shdr section;
	int error = 0;

	for (unsigned i = 0; i < elf->header.e_shnum && !error; i++)
		if (elf_section(elf, i, &section) &&
			(section.sh_type == SHT_REL || section.sh_type == SHT_RELA))
			error = relocate_in(managed, code, elf, &section, base);
	return error;
}

int managed_find(struct device_module *module, char *code, size_t length)
{
	struct managed *managed = &module->managed;
	struct elf elf;
	int error = 0;

	managed_forget(module);
	if (!managed->any)
		return 0;
	if (!elf_open(&elf, code, length))
		return -ENOTSUP; /* the driver is to choose among several programs */
	for (unsigned i = 0; i < elf.header.e_shnum && !error; i++)
		error = find_in(managed, code, &elf, i);
	return error ? error : relocate(managed, code, &elf, 0);
}

/* ---- where it is ---- */

int managed_place(struct device_module *module, char *code, size_t length, uint64_t address)
{
	struct managed *managed = &module->managed;
	char *block = (char *)(uintptr_t)address;
	struct elf elf;
	int error;

	if (managed->address || !managed->bytes || !elf_open(&elf, code, length))
		return -EINVAL;
	error = relocate(managed, code, &elf, address);
	if (error)
		return error;
	memset(block, 0, managed->bytes);
	for (size_t i = 0; i < managed->count; i++) {
		const struct managed_variable *v = &managed->variables[i];
		if (v->initial)
			memcpy(block + v->offset, code + v->initial, v->bytes);
	}
	managed->address = address;
	return 0;
}

static const struct managed_variable *find(const struct device_module *module, const char *name)
{
	for (size_t i = 0; i < module->managed.count; i++)
		if (!strcmp(module->managed.variables[i].name, name))
			return &module->managed.variables[i];
	return NULL;
}

bool cuda_global_is_managed(struct device_module *module, const char *name)
{
	return find(module, name);
}

bool managed_global(
	struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
	const struct managed_variable *v = find(module, name);

	if (!v || !module->managed.address)
		return false;
	*address = module->managed.address + v->offset;
	*bytes = v->bytes;
	return true;
}

uint64_t cuda_module_managed_bytes(struct device_module *module)
{
	return module->managed.bytes;
}

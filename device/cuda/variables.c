/* SPDX-License-Identifier: MIT
 *
 * Which variables a module's image has: their contents are to be saved, and the driver does not list them. All programs
 * of an image are looked at, since the driver chooses one; names that it does not know later are of another. And how much
 * of the device the module can take at most: what the driver says of free memory is of all processes together.
 */
#include "device/cuda/cuda.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/fatbin.h"
#include "proto/control.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

#define CODE_OF_TEXT 16 /* bytes of machine code for a byte of PTX: more than any has */
#define ELEMENT_MAX 32  /* bytes of a type */

static const char heap_function[] = "malloc";

struct listing {
	struct variable *variables;
	size_t count;
	enum worker_keeper keeper; /* the first thing that was found in the way */
	uint64_t most_bytes;       /* that one of its programs takes */
	uint64_t bytes;            /* that this one does */
};

static void take(struct listing *listing, uint64_t bytes)
{
	if (__builtin_add_overflow(listing->bytes, bytes, &listing->bytes))
		listing->bytes = UINT64_MAX;
}

static int note(struct listing *listing, enum worker_keeper keeper)
{
	if (!listing->keeper)
		listing->keeper = keeper;
	return 0;
}

static int add(struct listing *listing, const char *name, size_t length)
{
	struct variable *grown;

	if (length >= RECORD_NAME_MAX) /* names that overlap would take any amount of memory */
		return note(listing, KEPT_BY_IMAGE);
	for (size_t i = 0; i < listing->count; i++)
		if (strlen(listing->variables[i].name) == length &&
			!memcmp(listing->variables[i].name, name, length))
			return 0;
	grown = realloc(listing->variables, (listing->count + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	listing->variables = grown;
	grown[listing->count] = (struct variable){.name = strndup(name, length)};
	if (!grown[listing->count].name)
		return -ENOMEM;
	listing->count++;
	return 0;
}

/* ---- machine code ---- */

struct elf {
	const char *bytes;
	size_t length;
	Elf64_Ehdr header;
};

static bool read_at(const struct elf *elf, uint64_t offset, void *to, size_t bytes)
{
	if (offset > elf->length || bytes > elf->length - offset)
		return false;
	memcpy(to, elf->bytes + offset, bytes);
	return true;
}

static bool section_at(const struct elf *elf, unsigned index, Elf64_Shdr *section)
{
	return index < elf->header.e_shnum &&
	       read_at(elf, elf->header.e_shoff + (uint64_t)index * sizeof *section, section,
		       sizeof *section);
}

/* A name of a table of strings; empty when there is none. A NUL follows the image. */
static const char *string_at(const struct elf *elf, const Elf64_Shdr *table, uint64_t offset)
{
	if (offset >= table->sh_size || table->sh_offset > elf->length ||
		offset >= elf->length - table->sh_offset)
		return "";
	return elf->bytes + table->sh_offset + offset;
}

/* Where variables lie that live as long as their module. */
static bool holds_variables(const char *section)
{
	return !strncmp(section, ".nv.global", 10) || !strcmp(section, ".nv.constant3");
}

static const char *section_name(const struct elf *elf, unsigned index)
{
	Elf64_Shdr names, section;

	if (!section_at(elf, elf->header.e_shstrndx, &names) || !section_at(elf, index, &section))
		return "";
	return string_at(elf, &names, section.sh_name);
}

/* Adds the variables of that section, or takes all for heap functions (section 0: what is not defined here). How many
 * bytes they have. */
static int look_at_symbols(const struct elf *elf, const Elf64_Shdr *table, unsigned section,
	struct listing *listing, uint64_t *bytes)
{
	Elf64_Shdr names;
	Elf64_Sym symbol;
	int error = 0;

	if (!section_at(elf, table->sh_link, &names))
		return note(listing, KEPT_BY_IMAGE);
	for (uint64_t at = 0; at + sizeof symbol <= table->sh_size && !error; at += sizeof symbol) {
		const char *name;
		if (!read_at(elf, table->sh_offset + at, &symbol, sizeof symbol))
			return note(listing, KEPT_BY_IMAGE);
		name = string_at(elf, &names, symbol.st_name);
		if (symbol.st_shndx != section)
			continue;
		if (!section && !strcmp(name, heap_function))
			note(listing, KEPT_BY_HEAP);
		if (!section || ELF64_ST_TYPE(symbol.st_info) == STT_SECTION || !symbol.st_size)
			continue;
		error = add(listing, name, strlen(name));
		*bytes += symbol.st_size;
	}
	return error;
}

static int look_at_section(const struct elf *elf, unsigned index, struct listing *listing)
{
	uint64_t bytes = 0;
	Elf64_Shdr section, table;
	int error = 0;

	if (!section_at(elf, index, &section))
		return note(listing, KEPT_BY_IMAGE);
	if (section.sh_type == SHT_NOBITS) /* all others are in the image */
		take(listing, section.sh_size);
	if ((section.sh_type == SHT_REL || section.sh_type == SHT_RELA) &&
		holds_variables(section_name(elf, section.sh_info)))
		return note(listing, KEPT_BY_VARIABLES);
	if (index && (!holds_variables(section_name(elf, index)) || !section.sh_size))
		return 0;
	for (unsigned i = 1; i < elf->header.e_shnum && !error; i++)
		if (section_at(elf, i, &table) && table.sh_type == SHT_SYMTAB)
			error = look_at_symbols(elf, &table, index, listing, &bytes);
	if (index && !bytes)
		note(listing, KEPT_BY_IMAGE); /* something is there, without a name */
	return error;
}

static int look_at_code(const char *bytes, size_t length, struct listing *listing)
{
	struct elf elf = {bytes, length, {{0}}};
	int error = 0;

	if (!read_at(&elf, 0, &elf.header, sizeof elf.header) ||
		elf.header.e_ident[EI_CLASS] != ELFCLASS64 || elf.header.e_machine != EM_CUDA ||
		elf.header.e_shentsize != sizeof(Elf64_Shdr) || !elf.header.e_shnum)
		return note(listing, KEPT_BY_IMAGE);
	for (unsigned i = 0; i < elf.header.e_shnum && !error; i++)
		error = look_at_section(&elf, i, listing);
	return error;
}

/* ---- PTX ---- */

static bool in_name(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c == '$' || c == '%';
}

/* At most, by the dimensions behind its name. */
static uint64_t declared_bytes(const char *at)
{
	uint64_t bytes = ELEMENT_MAX;

	while (*(at += strspn(at, " \t\r\n")) == '[') {
		char *end;
		uint64_t count = strtoull(at + 1, &end, 0);
		if (__builtin_mul_overflow(bytes, count ? count : 1, &bytes))
			return UINT64_MAX;
		at = end + strspn(end, " \t\r\n]");
	}
	return bytes;
}

/* Behind ".global" or ".const" of a declaration: what else is said of the variable, its name, and its first values up to
 * the semicolon. */
static int look_at_declaration(const char *at, struct listing *listing)
{
	size_t length = 0;

	while (*at && *at != ';') {
		at += strspn(at, " \t\r\n");
		if (*at != '.' && !(*at >= '0' && *at <= '9'))
			break;
		at += strcspn(at, " \t\r\n;");
	}
	while (in_name(at[length]))
		length++;
	if (!length)
		return note(listing, KEPT_BY_IMAGE);
	take(listing, declared_bytes(at + length));
	for (const char *value = strpbrk(at, "=;"); value && *value != ';' && *value; value++)
		if (!in_name(value[-1]) && in_name(*value) && !(*value >= '0' && *value <= '9'))
			note(listing, KEPT_BY_VARIABLES); /* a name: an address */
	return add(listing, at, length);
}

static int look_at_text(const char *text, struct listing *listing)
{
	static const char *const spaces[] = {".global", ".const"};
	int error = 0;

	if (strstr(text, heap_function))
		note(listing, KEPT_BY_HEAP);
	for (size_t i = 0; i < array_length(spaces); i++) {
		size_t length = strlen(spaces[i]);
		const char *at = text;
		while (!error && (at = strstr(at, spaces[i]))) {
			bool begins = at == text || strchr(" \t\r\n;}", at[-1]);
			at += length;
			if (begins && strchr(" \t\r\n", *at)) /* no part of an instruction's name */
				error = look_at_declaration(at, listing);
		}
	}
	return error;
}

static int look_at(void *owner, const void *program, size_t length)
{
	struct listing *listing = owner;
	int error;

	if (length >= SELFMAG && !memcmp(program, ELFMAG, SELFMAG)) {
		listing->bytes = length;
		error = look_at_code(program, length, listing);
	} else {
		listing->bytes = CODE_OF_TEXT * length;
		error = look_at_text(program, listing);
	}
	listing->most_bytes = max_of(listing->most_bytes, listing->bytes);
	return error;
}

int variables_list(struct device_module *module, const void *image, size_t length)
{
	struct listing listing = {0};
	int error = fatbin_each(image, length, look_at, &listing);

	module->variables = listing.variables;
	module->variable_count = listing.count;
	module->keeper = listing.keeper;
	module->most_bytes = listing.most_bytes;
	if (error == -EINVAL) {
		module->keeper = KEPT_BY_IMAGE;
		module->most_bytes = UINT64_MAX;
		error = 0;
	}
	return error;
}

void variables_free(struct device_module *module)
{
	for (size_t i = 0; i < module->variable_count; i++)
		free(module->variables[i].name);
	free(module->variables);
}

/* SPDX-License-Identifier: MIT
 *
 * Which variables a module's image has: their contents are to be saved, and the driver does not list them. All programs
 * of an image are looked at, since the driver chooses one; names that it does not know later are of another. And how much
 * of the device the module can take at most: what the driver says of free memory is of all processes together. And
 * whether its kernels launch kernels, and whether it has managed variables (managed.c).
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cuda/code_elf.h"
#include "device/fatbin.h"
#include "proto/control.h"

#define CODE_OF_TEXT 16 /* bytes of machine code for a byte of PTX: more than any has */
#define ELEMENT_MAX 32  /* bytes of a type */

static const char heap_function[] = "malloc", print_function[] = "vprintf";

struct listing {
	struct variable *variables;
	size_t count;
	enum worker_keeper keeper; /* the first thing that was found in the way */
	bool prints;               /* kernels of one of them call printf, */
	bool launches;             /* … launch kernels */
	bool managed;              /* one of them has managed variables, */
	bool conditions;           /* or sets conditions of graphs */
	bool unknown;              /* one has memory of a kind that is not known */
	uint64_t most_bytes;       /* that one of its programs takes */
	uint64_t bytes;            /* that this one does */
	uint64_t most_variable_bytes,
		variable_bytes; /* the same, of variables alone, and no more than they take */
};

static void take(uint64_t *sum, uint64_t bytes)
{
	if (__builtin_add_overflow(*sum, bytes, sum))
		*sum = UINT64_MAX;
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

/* What the name of a function that is defined elsewhere says of the kernels that call it. */
static void look_at_call(const char *name, struct listing *listing)
{
	if (!strcmp(name, heap_function))
		note(listing, KEPT_BY_HEAP);
	listing->prints |= !strcmp(name, print_function);
	listing->conditions |= condition_is_set_by(name);
}

/* Adds the variables of that section, or looks at what is called (section 0: not defined here). How many bytes the
 * variables have. */
static int look_at_symbols(const struct elf *elf, const Elf64_Shdr *table, unsigned section,
	struct listing *listing, uint64_t *bytes)
{
	Elf64_Shdr names;
	Elf64_Sym symbol;
	int error = 0;

	if (!elf_section(elf, table->sh_link, &names))
		return note(listing, KEPT_BY_IMAGE);
	for (uint64_t at = 0; at + sizeof symbol <= table->sh_size && !error; at += sizeof symbol) {
		const char *name;
		if (!elf_read(elf, table->sh_offset + at, &symbol, sizeof symbol))
			return note(listing, KEPT_BY_IMAGE);
		name = elf_string(elf, &names, symbol.st_name);
		if (!section)
			listing->launches |= fatbin_launches_by(name);
		listing->managed |= elf_is_managed(&symbol);
		if (symbol.st_shndx != section)
			continue;
		if (!section)
			look_at_call(name, listing);
		if (!section || ELF64_ST_TYPE(symbol.st_info) == STT_SECTION || !symbol.st_size)
			continue;
		error = add(listing, name, strlen(name));
		*bytes += symbol.st_size;
	}
	return error;
}

/* Memory that blocks have while they run. */
static bool is_of_blocks(const char *section)
{
	return !strncmp(section, ".nv.shared", 10) || !strncmp(section, ".nv.reservedSmem", 16) ||
	       !strncmp(section, ".nv.local", 9);
}

static int look_at_section(const struct elf *elf, unsigned index, struct listing *listing)
{
	uint64_t bytes = 0;
	Elf64_Shdr section, table;
	int error = 0;

	if (!elf_section(elf, index, &section))
		return note(listing, KEPT_BY_IMAGE);
	if (section.sh_type == SHT_NOBITS) { /* all others are in the image */
		take(&listing->bytes, section.sh_size);
		listing->unknown |= !elf_holds_variables(elf_section_name(elf, index)) &&
				    !is_of_blocks(elf_section_name(elf, index));
	}
	if (elf_holds_variables(elf_section_name(elf, index)))
		take(&listing->variable_bytes, section.sh_size);
	if ((section.sh_type == SHT_REL || section.sh_type == SHT_RELA) &&
		elf_holds_variables(elf_section_name(elf, section.sh_info)))
		return note(listing, KEPT_BY_VARIABLES);
	if (index && (!elf_holds_variables(elf_section_name(elf, index)) || !section.sh_size))
		return 0;
	for (unsigned i = 1; i < elf->header.e_shnum && !error; i++)
		if (elf_section(elf, i, &table) && table.sh_type == SHT_SYMTAB)
			error = look_at_symbols(elf, &table, index, listing, &bytes);
	if (index && !bytes)
		note(listing, KEPT_BY_IMAGE); /* something is there, without a name */
	return error;
}

static int look_at_code(const char *bytes, size_t length, struct listing *listing)
{
	struct elf elf;
	int error = 0;

	if (!elf_open(&elf, bytes, length))
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

/* Past blanks and comments. */
static const char *skip(const char *at)
{
	while (*(at += strspn(at, " \t\r\n\f")) == '/' && (at[1] == '/' || at[1] == '*')) {
		bool line = at[1] == '/';
		const char *end = strstr(at + 2, line ? "\n" : "*/");

		if (!end)
			return at + strlen(at);
		at = end + (line ? 1 : 2);
	}
	return at;
}

static size_t name_length(const char *at)
{
	size_t length = 0;

	while (in_name(at[length]))
		length++;
	return length;
}

/* As PTX writes numbers; *end: what follows. */
static uint64_t read_number(const char *at, const char **end)
{
	bool binary = at[0] == '0' && (at[1] == 'b' || at[1] == 'B');
	char *last = (char *)at;
	uint64_t number = 0;

	if (*at >= '0' && *at <= '9')
		number = strtoull(binary ? at + 2 : at, &last, binary ? 2 : 0);
	*end = last + (last > at && *last == 'U');
	return number;
}

static uint64_t product(uint64_t a, uint64_t b)
{
	return __builtin_mul_overflow(a, b, &a) ? UINT64_MAX : a;
}

/* How many elements there are by what stands behind the name: dimensions, or how many variables it stands for ("x<4>").
 * A dimension that cannot be read may be any number. */
static uint64_t read_count(const char **at)
{
	uint64_t count = 1;

	for (*at = skip(*at); **at == '[' || **at == '<'; *at = skip(*at + 1)) {
		char last = **at == '[' ? ']' : '>';

		*at = skip(*at + 1);
		if (**at == last) /* as many as there are values */
			continue;
		count = product(count, max_of(read_number(*at, at), (uint64_t)1));
		*at = skip(*at);
		if (**at != last)
			return UINT64_MAX;
	}
	return count;
}

/* How many times it makes the variable larger: ".u32", ".f16x2" and ".v2" do. */
static unsigned token_bytes(const char *token)
{
	size_t letters = strspn(token + 1, "bsufv");
	char *end = (char *)token;
	unsigned number = letters ? (unsigned)strtoul(token + 1 + letters, &end, 10) : 0;

	if (token[1] == 'v')
		return max_of(number, 1u);
	if (*end == 'x')
		number *= (unsigned)strtoul(end + 1, NULL, 10);
	return max_of(number / 8, 1u);
}

/* What is said of variables before the name of the first: how large an element is, and to what they are aligned. */
static const char *read_type(const char *at, uint64_t *element, uint64_t *alignment)
{
	static const char align[] = ".align";
	const char *end;

	while (*(at = skip(at)) == '.' || (*at >= '0' && *at <= '9') ||
		(*at && strchr("(),[]", *at))) { /* of attributes, and of numbered banks */
		size_t length =
			*at == '.' ? 1 + name_length(at + 1) : max_of(name_length(at), (size_t)1);

		if (length == sizeof align - 1 && !memcmp(at, align, length))
			*alignment = max_of(read_number(skip(at + length), &end), (uint64_t)1);
		else if (*at == '.')
			*element = min_of(*element * token_bytes(at), (uint64_t)ELEMENT_MAX);
		at += length;
	}
	return at;
}

/* Past a variable's first value, behind "=". */
static const char *read_value(const char *at, struct listing *listing)
{
	unsigned depth = 0;

	for (at = skip(at); *at && *at != ';' && (depth || *at != ','); at = skip(at + 1)) {
		if (!in_name(at[-1]) && in_name(*at) && !(*at >= '0' && *at <= '9'))
			note(listing, KEPT_BY_VARIABLES); /* a name: an address */
		depth += *at == '{' || *at == '(';
		depth -= depth && (*at == '}' || *at == ')');
	}
	return at;
}

/* With what is left free before the next variable. */
static void take_aligned(uint64_t *sum, uint64_t bytes, uint64_t alignment)
{
	uint64_t rest = bytes % alignment;

	take(sum, bytes);
	take(sum, rest ? alignment - rest : 0);
}

/* Behind ".global" or ".const" of a declaration, which may name several variables. */
static int look_at_declaration(const char *at, struct listing *listing)
{
	uint64_t element = 1, alignment = 1, count;
	const char *name = read_type(at, &element, &alignment);
	size_t length = name_length(name);
	int error = 0;

	if (!length)
		return note(listing, KEPT_BY_IMAGE);
	while (length && !error) {
		at = skip(name + length);
		if (*at == '<')
			note(listing, KEPT_BY_IMAGE); /* what they are called is not looked at */
		count = read_count(&at);
		take_aligned(&listing->bytes, product(count, ELEMENT_MAX), alignment);
		take_aligned(&listing->variable_bytes, product(count, element), alignment);
		if (*at == '=')
			at = read_value(at + 1, listing);
		error = add(listing, name, length);
		name = *at == ',' ? skip(at + 1) : "";
		length = name_length(name);
	}
	return error;
}

/* Whether what is there is a word of its own, and no part of an instruction's name: "st.global". */
static bool is_space(const char *text, const char *at, size_t length)
{
	static const char *const linking[] = {".visible", ".extern", ".weak", ".common"};
	size_t before = (size_t)(at - text);

	if (in_name(at[length]))
		return false;
	if (!before || !in_name(at[-1]))
		return true;
	for (size_t i = 0; i < array_length(linking); i++) {
		size_t bytes = strlen(linking[i]);
		if (before >= bytes && !memcmp(at - bytes, linking[i], bytes))
			return before == bytes || !in_name(at[-(ptrdiff_t)bytes - 1]);
	}
	return false;
}

static int look_at_text(const char *text, struct listing *listing)
{
	static const char *const spaces[] = {".global", ".const"};
	int error = 0;

	if (strstr(text, heap_function))
		note(listing, KEPT_BY_HEAP);
	listing->prints |= strstr(text, print_function) != NULL;
	listing->conditions |= condition_is_set_in(text);
	listing->managed |= strstr(text, ".attribute") && strstr(text, ".managed");
	for (size_t i = 0; i < array_length(spaces); i++) {
		size_t length = strlen(spaces[i]);
		const char *at = text;
		for (; !error && (at = strstr(at, spaces[i])); at += length)
			if (is_space(text, at, length))
				error = look_at_declaration(at + length, listing);
	}
	return error;
}

static int look_at(void *owner, const void *program, size_t length)
{
	struct listing *listing = owner;
	int error;

	listing->variable_bytes = 0;
	if (length >= SELFMAG && !memcmp(program, ELFMAG, SELFMAG)) {
		listing->bytes = length;
		error = look_at_code(program, length, listing);
	} else {
		listing->bytes = CODE_OF_TEXT * length;
		listing->launches |= fatbin_launches(program, length);
		error = look_at_text(program, listing);
	}
	listing->most_bytes = max_of(listing->most_bytes, listing->bytes);
	listing->most_variable_bytes =
		max_of(listing->most_variable_bytes, listing->variable_bytes);
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
	module->variable_bytes = listing.most_variable_bytes;
	if (error == -EINVAL) {
		module->keeper = KEPT_BY_IMAGE;
		module->most_bytes = UINT64_MAX;
		error = 0;
	}
	/* What could not be read may print. */
	module->prints = listing.prints || module->keeper == KEPT_BY_IMAGE;
	module->launches = listing.launches;
	module->managed.any = listing.managed;
	module->conditions = listing.conditions;
	module->unknown = listing.unknown;
	return error;
}

void variables_free(struct device_module *module)
{
	for (size_t i = 0; i < module->variable_count; i++)
		free(module->variables[i].name);
	free(module->variables);
}

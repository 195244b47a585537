/* SPDX-License-Identifier: MIT
 *
 * The tables of opcodes.h and their look-up by name (binary search over names sorted once).
 */
#include "device/cpu/ptx/opcodes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define P OPF_PURE
#define PC (OPF_PURE | OPF_CHEAP)
#define E OPF_EFFECT

const uint8_t ptx_type_bits[TYPE_COUNT] = {
#define X(name, bits, class) [TYPE_##name] = bits,
	PTX_TYPES(X)
#undef X
};
const char ptx_type_class[TYPE_COUNT] = {
#define X(name, bits, class) [TYPE_##name] = class,
	PTX_TYPES(X)
#undef X
};
const char *const ptx_type_name[TYPE_COUNT] = {[TYPE_NONE] = "",
#define X(name, bits, class) [TYPE_##name] = #name,
	PTX_TYPES(X)
#undef X
};
const char *const ptx_modifier_name[MOD_COUNT] = {[MOD_NONE] = "",
#define X(name) [MOD_##name] = #name,
	PTX_MODIFIERS(X)
#undef X
};
const struct opcode ptx_opcodes[OP_COUNT] = {
#define X(id, name, min, max, dests, flags, modifiers)                                             \
	[OP_##id] = {name, min, max, dests, flags, modifiers},
	PTX_OPCODES(X)
#undef X
		[OP_exchange] = {"mov", 2, 2, 1, OPF_PURE, ""},
	[OP_async] = {"async", 3, 3, 0, E, ""},
};

struct named {
	const char *name;
	int id;
};
static struct named opcode_names[OP_COUNT], modifier_names[MOD_COUNT], type_names[TYPE_COUNT];
static unsigned opcode_name_count, modifier_name_count, type_name_count;
static uint64_t allowed[OP_COUNT][(MOD_COUNT + 63) / 64];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int find(const struct named *names, unsigned count, const char *text, size_t length)
{
	unsigned low = 0, high = count;

	while (low < high) {
		unsigned middle = (low + high) / 2;
		int order = strncmp(names[middle].name, text, length);

		if (!order && names[middle].name[length])
			order = 1;
		if (!order)
			return names[middle].id;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

static void fill_allowed(unsigned op)
{
	const char *text = ptx_opcodes[op].modifiers;

	if (!text) {
		memset(allowed[op], 0xff, sizeof(allowed[op]));
		return;
	}
	while (*text) {
		size_t length = strcspn(text, " ");
		int id = find(modifier_names, modifier_name_count, text, length);

		if (id > 0)
			allowed[op][id / 64] |= 1ull << (id % 64);
		text += length;
		text += strspn(text, " ");
	}
}

static void prepare(void)
{
	for (int i = 0; i < OP_exchange; i++)
		opcode_names[opcode_name_count++] = (struct named){ptx_opcodes[i].name, i};
	for (int i = 1; i < MOD_COUNT; i++)
		modifier_names[modifier_name_count++] = (struct named){ptx_modifier_name[i], i};
	for (int i = 1; i < TYPE_COUNT; i++)
		type_names[type_name_count++] = (struct named){ptx_type_name[i], i};
	qsort(opcode_names, opcode_name_count, sizeof(struct named), compare_names);
	qsort(modifier_names, modifier_name_count, sizeof(struct named), compare_names);
	qsort(type_names, type_name_count, sizeof(struct named), compare_names);
	for (unsigned i = 0; i < OP_COUNT; i++)
		fill_allowed(i);
}

int ptx_opcode_lookup(const char *name, size_t length)
{
	pthread_once(&once, prepare);
	return find(opcode_names, opcode_name_count, name, length);
}

int ptx_modifier_lookup(const char *name, size_t length)
{
	pthread_once(&once, prepare);
	if (length == 3 && !memcmp(name, "NaN", length)) /* as min and max have it; setp has .nan */
		return MOD_nan;
	return find(modifier_names, modifier_name_count, name, length);
}

int ptx_type_lookup(const char *name, size_t length)
{
	pthread_once(&once, prepare);
	return find(type_names, type_name_count, name, length);
}

bool ptx_opcode_allows(unsigned op, unsigned modifier)
{
	pthread_once(&once, prepare);
	return allowed[op][modifier / 64] >> (modifier % 64) & 1;
}

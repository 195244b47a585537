/* SPDX-License-Identifier: MIT
 *
 * Instructions of textures and surfaces: their operands are stored as texture.h says, and a function of the runtime does
 * the rest. Operands are the results, the handle, the position, and what each of them has besides.
 */
#include "device/cpu/ptx/texture.h"

#include "device/cpu/ptx/gen.h"

static const struct {
	uint8_t modifier, geometry, dimensions;
	bool layered;
} geometries[] = {
	{MOD_1d, GEOMETRY_1D, 1, false},
	{MOD_2d, GEOMETRY_2D, 2, false},
	{MOD_3d, GEOMETRY_3D, 3, false},
	{MOD_a1d, GEOMETRY_A1D, 1, true},
	{MOD_a2d, GEOMETRY_A2D, 2, true},
	{MOD_cube, GEOMETRY_CUBE, 3, false},
	{MOD_acube, GEOMETRY_ACUBE, 3, true},
};

enum { GEOMETRIES = sizeof(geometries) / sizeof(*geometries) };

static unsigned find_geometry(const struct inst *i)
{
	unsigned k = 0;

	while (k < GEOMETRIES && !inst_has(i, geometries[k].modifier))
		k++;
	return k;
}

static unsigned count_of(const struct operand *o)
{
	return o->kind == OPERAND_VECTOR ? o->count : 1;
}

static const struct operand *element_of(const struct operand *o, unsigned k)
{
	return o->kind == OPERAND_VECTOR ? &o->elements[k] : o;
}

/* ---- operands and results ---- */

static void make_areas(struct gen *g)
{
	if (g->texture_operands)
		return;
	g->texture_operands = gen_alloca(g, LLVMArrayType2(g->i64, OPERAND_WORDS / 2), "position");
	g->texture_results = gen_alloca(g, LLVMArrayType2(g->i64, RESULT_WORDS / 2), "texture");
}

/* The first numbers of an operand, as words from one on. */
static bool put(
	struct gen *g, const struct operand *o, unsigned from, unsigned count, unsigned word)
{
	if (count_of(o) < from + count)
		return false;
	for (unsigned k = 0; k < count; k++)
		LLVMBuildStore(g->b, emit_operand(g, element_of(o, from + k), g->i32),
			gen_gep(g, g->b, g->texture_operands, gen_int(g, 4 * (word + k))));
	return true;
}

static bool put_position(struct gen *g, const struct operand *o, unsigned geometry)
{
	bool layered = geometries[geometry].layered;

	if (layered && !put(g, o, 0, 1, OPERAND_LAYER))
		return false;
	return put(g, o, layered, geometries[geometry].dimensions, OPERAND_X);
}

static void call(struct gen *g, const struct operand *handle, uint32_t word)
{
	LLVMValueRef arguments[] = {g->launch, LLVMConstInt(g->i32, word, false),
		emit_operand(g, handle, g->i64), g->texture_operands, g->texture_results};

	call_runtime(g, offsetof(struct ptx_runtime, texture), g->none, arguments, 5);
}

static void take(struct gen *g, const struct operand *o, LLVMTypeRef type, unsigned bytes)
{
	for (unsigned k = 0; k < count_of(o); k++) {
		LLVMValueRef at = gen_gep(g, g->b, g->texture_results, gen_int(g, k * bytes));

		emit_result(g, element_of(o, k), LLVMBuildLoad2(g->b, type, at, ""));
	}
}

/* ---- textures ---- */

/* What follows the position: a level, or gradients. */
static bool put_lod(
	struct gen *g, const struct inst *i, unsigned dimensions, unsigned *next, uint32_t *word)
{
	if (inst_has(i, MOD_level)) {
		*word |= TEXTURE_LOD(LOD_LEVEL);
		return i->operand_count > *next &&
		       put(g, &i->operands[(*next)++], 0, 1, OPERAND_LOD);
	}
	if (!inst_has(i, MOD_grad))
		return true;
	*word |= TEXTURE_LOD(LOD_GRADIENTS);
	*next += 2;
	return i->operand_count >= *next &&
	       put(g, &i->operands[*next - 2], 0, dimensions, OPERAND_LOD) &&
	       put(g, &i->operands[*next - 1], 0, dimensions, OPERAND_LOD + 3);
}

/* Offsets of the position, in elements. */
static bool put_offset(
	struct gen *g, const struct inst *i, unsigned dimensions, unsigned *next, uint32_t *word)
{
	const struct operand *o = &i->operands[*next];

	if (i->operand_count == *next)
		return true;
	if (dimensions > 1 && o->kind != OPERAND_VECTOR) /* a depth to compare with */
		return false;
	*word |= TEXTURE_OFFSETS;
	(*next)++;
	return put(g, o, 0, dimensions, OPERAND_OFFSET);
}

static bool is_number(unsigned type)
{
	return type == TYPE_f32 || type == TYPE_s32 || type == TYPE_u32;
}

static bool emit_fetch(struct gen *g, const struct inst *i)
{
	unsigned geometry = find_geometry(i), next = 3, dimensions;
	uint32_t word;

	if (geometry == GEOMETRIES || !inst_has(i, MOD_v4) || i->type_count != 2 ||
		!is_number(i->types[0]) || (i->types[1] != TYPE_f32 && i->types[1] != TYPE_s32) ||
		count_of(&i->operands[0]) != 4)
		return false;
	dimensions = geometries[geometry].dimensions;
	word = texture_word(TEXTURE_FETCH, geometry);
	if (i->types[1] == TYPE_s32)
		word |= TEXTURE_INTEGERS;
	bool cube = inst_has(i, MOD_cube) || inst_has(i, MOD_acube);
	if ((cube && (i->types[1] == TYPE_s32 || inst_has(i, MOD_grad))) ||
		!put_position(g, &i->operands[2], geometry) ||
		!put_lod(g, i, dimensions, &next, &word) ||
		!put_offset(g, i, dimensions, &next, &word) || next != i->operand_count ||
		(cube && word & TEXTURE_OFFSETS))
		return false;
	call(g, &i->operands[1], word);
	take(g, &i->operands[0], g->i32, 4);
	return true;
}

static bool emit_gather(struct gen *g, const struct inst *i)
{
	unsigned component = inst_has(i, MOD_g)   ? 1
			     : inst_has(i, MOD_b) ? 2
			     : inst_has(i, MOD_a) ? 3
						  : 0;
	unsigned geometry = find_geometry(i), next = 3;
	uint32_t word;

	if (geometry == GEOMETRIES || !inst_has(i, MOD_v4) || i->type_count != 2 ||
		!is_number(i->types[0]) || i->types[1] != TYPE_f32 ||
		count_of(&i->operands[0]) != 4)
		return false;
	word = texture_word(TEXTURE_GATHER, geometry) | TEXTURE_SELECT(component);
	if (!put_position(g, &i->operands[2], geometry) ||
		!put_offset(g, i, geometries[geometry].dimensions, &next, &word) ||
		next != i->operand_count)
		return false;
	call(g, &i->operands[1], word);
	take(g, &i->operands[0], g->i32, 4);
	return true;
}

static bool emit_query(struct gen *g, const struct inst *i)
{
	static const struct {
		uint8_t modifier, query;
	} queries[] = {
		{MOD_width, QUERY_WIDTH},
		{MOD_height, QUERY_HEIGHT},
		{MOD_depth, QUERY_DEPTH},
		{MOD_array_size, QUERY_LAYERS},
		{MOD_num_mipmap_levels, QUERY_LEVELS},
		{MOD_num_samples, QUERY_SAMPLES},
		{MOD_normalized_coords, QUERY_NORMALISED},
		{MOD_channel_data_type, QUERY_TYPE},
		{MOD_channel_order, QUERY_ORDER},
	};
	LLVMValueRef zero = LLVMConstNull(g->i32);
	bool level = inst_has(i, MOD_level);

	if (level != (i->operand_count == 3) || i->type_count != 1 || i->types[0] != TYPE_b32)
		return false;
	LLVMBuildStore(g->b, level ? emit_operand(g, &i->operands[2], g->i32) : zero,
		gen_gep(g, g->b, g->texture_operands, gen_int(g, 4 * OPERAND_LOD)));
	for (size_t k = 0; k < sizeof(queries) / sizeof(*queries); k++)
		if (inst_has(i, queries[k].modifier)) {
			call(g, &i->operands[1],
				texture_word(TEXTURE_QUERY, 0) | TEXTURE_NUMBER(queries[k].query));
			take(g, &i->operands[0], g->i32, 4);
			return true;
		}
	return false;
}

/* ---- surfaces ---- */

static bool emit_surface(struct gen *g, const struct inst *i)
{
	bool store = i->op == OP_sust;
	const struct operand *values = &i->operands[store ? 2 : 0];
	const struct operand *handle = &i->operands[store ? 0 : 1];
	unsigned count = inst_has(i, MOD_v4) ? 4 : inst_has(i, MOD_v2) ? 2 : 1;
	unsigned outside = inst_has(i, MOD_clamp)  ? OUTSIDE_CLAMP
			   : inst_has(i, MOD_zero) ? OUTSIDE_ZERO
						   : OUTSIDE_TRAP;
	unsigned geometry = find_geometry(i), bytes;

	if (geometry == GEOMETRIES || !inst_has(i, MOD_b) || i->type_count != 1 ||
		ptx_type_class[i->types[0]] != 'b' || count_of(values) != count ||
		!put_position(g, handle + 1, geometry))
		return false;
	bytes = ptx_type_bits[i->types[0]] / 8u;
	if (bytes * count > 16)
		return false;
	LLVMTypeRef type = LLVMIntTypeInContext(g->context, bytes * 8);
	for (unsigned k = 0; store && k < count; k++)
		LLVMBuildStore(g->b, emit_operand(g, element_of(values, k), type),
			gen_gep(g, g->b, g->texture_operands,
				gen_int(g, 4 * OPERAND_VALUES + k * bytes)));
	call(g, handle,
		texture_word(store ? SURFACE_STORE : SURFACE_LOAD, geometry) |
			TEXTURE_SELECT(outside) | TEXTURE_NUMBER(bytes * count));
	if (!store)
		take(g, values, type, bytes);
	return true;
}

bool emit_texture(struct gen *g, struct inst *i)
{
	make_areas(g);
	switch (i->op) {
	case OP_tex:
		return emit_fetch(g, i);
	case OP_tld4:
		return emit_gather(g, i);
	case OP_txq:
	case OP_suq:
		return emit_query(g, i);
	}
	return emit_surface(g, i);
}

/* SPDX-License-Identifier: MIT
 *
 * Copies of boxes of tensors: whole kernels as nvcc writes them (kernels/tensor.cu), and every instruction with maps that are
 * drawn, compared with the interpreter. What is not supported is refused.
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ptx/tensor.h"
#include "interp.h"

enum { BOX_BYTES = 16384, MEMORY_BYTES = 1 << 18, MAPS = 12 };

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % below);
}

/* ---- whole kernels ---- */

static struct record_tensor_map matrix(
	void *memory, unsigned width, unsigned height, unsigned box_width, unsigned box_height)
{
	return (struct record_tensor_map){.data_type = TENSOR_S32,
		.rank = 2,
		.address = (uintptr_t)memory,
		.dimensions = {width, height},
		.strides = {width * 4},
		.box = {box_width, box_height},
		.element_strides = {1, 1}};
}

static void a_matrix_is_transposed(void **state)
{
	enum { WIDTH = 96, HEIGHT = 32 };
	static _Alignas(16) int in[HEIGHT][WIDTH], out[WIDTH][HEIGHT];
	struct record_tensor_map from = matrix(in, WIDTH, HEIGHT, 32, 16);
	struct record_tensor_map to = matrix(out, HEIGHT, WIDTH, 16, 32);
	_Alignas(64) struct {
		uint8_t from[TENSOR_MAP_BYTES], to[TENSOR_MAP_BYTES];
		int tiles;
	} params = {.tiles = WIDTH / 32};
	struct program p;

	from.swizzle = 3;
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			in[y][x] = y * 1000 + x;
	assert_int_equal(tensor_encode(&from, params.from), 0);
	assert_int_equal(tensor_encode(&to, params.to), 0);
	load_file(&p, "tensor.ptx");
	assert_int_equal(run(&p, (struct run){.kernel = "transpose",
					 .grid = {HEIGHT / 16},
					 .block = {64},
					 .pool = 2,
					 .params = &params}),
		RAN);
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			assert_int_equal(out[x][y], in[y][x]);
	unload(&p);
}

/* Boxes that begin outside of the tensor are zero there. Two columns of blocks and three rows come together. */
static void boxes_are_added_up(void **state)
{
	static _Alignas(16) float in[4][16][32], out[4][8][8];
	struct record_tensor_map map = {.data_type = TENSOR_F32,
		.rank = 3,
		.address = (uintptr_t)in,
		.dimensions = {32, 16, 4},
		.strides = {128, 2048},
		.box = {8, 4, 2},
		.element_strides = {1, 1, 1}};
	_Alignas(64) struct {
		uint8_t from[TENSOR_MAP_BYTES], to[TENSOR_MAP_BYTES];
	} params;
	struct program p;

	for (int k = 0; k < 4 * 16 * 32; k++)
		((float *)in)[k] = (float)(k % 997);
	assert_int_equal(tensor_encode(&map, params.from), 0);
	map.address = (uintptr_t)out;
	map.dimensions[0] = map.dimensions[1] = 8;
	map.strides[0] = 32;
	map.strides[1] = 256;
	assert_int_equal(tensor_encode(&map, params.to), 0);
	load_file(&p, "tensor.ptx");
	assert_int_equal(run(&p, (struct run){.kernel = "sums",
					 .grid = {2, 3},
					 .block = {32},
					 .pool = 2,
					 .params = &params}),
		RAN);
	for (int z = 0; z < 4; z++)
		for (int y = 0; y < 8; y++)
			for (int x = 0; x < 8; x++) {
				float sum = 0;

				for (int block = 0; block < 6; block++) {
					int column = block % 2 * 8 - 4 + x;
					int row = block / 2 * 4 - 1 + y - 1;

					if (z == 1 && y >= 1 && y < 5 && column >= 0 && row >= 0)
						sum += in[z - 1][row][column];
				}
				assert_true(out[z][y][x] == sum);
			}
	unload(&p);
}

/* ---- every instruction ---- */

static _Alignas(128) uint8_t memory[MEMORY_BYTES], begun[MEMORY_BYTES], changed[MEMORY_BYTES];
static uint8_t in[BOX_BYTES], out[2][BOX_BYTES + 8];

struct parameters {
	_Alignas(64) uint8_t map[TENSOR_MAP_BYTES];
	const void *in;
	void *out;
	uint32_t at, bytes;
	int32_t numbers[8];
};

/* The box's memory comes from `in` and goes to `out`; so does whether the barrier has passed. */
static const char body[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry k(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out,\n"
	"\t.param .u32 at, .param .u32 bytes, .param .align 4 .b8 n[32]) {\n"
	".reg .pred %%p<4>; .reg .b16 %%h<3>; .reg .b32 %%r<20>; .reg .b64 %%d<9>;\n"
	".shared .align 1024 .b8 box[16384]; .shared .align 8 .b64 come;\n"
	"ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; ld.param.u32 %%r1, [at];\n"
	"ld.param.u32 %%r2, [bytes]; mov.b64 %%d3, map; cvta.param.u64 %%d3, %%d3; mov.u32 %%r3, 0;\n"
	"FILL: cvt.u64.u32 %%d4, %%r3; add.s64 %%d5, %%d1, %%d4; ld.global.b64 %%d6, [%%d5];\n"
	"mov.u32 %%r4, box; add.u32 %%r4, %%r4, %%r3; st.shared.b64 [%%r4], %%d6;\n"
	"add.u32 %%r3, %%r3, 8; setp.lt.u32 %%p1, %%r3, 16384; @%%p1 bra FILL;\n"
	"mov.u32 %%r5, box; add.u32 %%r5, %%r5, %%r1; mov.u32 %%r6, come;\n"
	"mbarrier.init.shared.b64 [%%r6], 1;\n"
	"mbarrier.arrive.expect_tx.shared.b64 %%d7, [%%r6], %%r2;\n"
	"ld.param.b32 %%r10, [n]; ld.param.b32 %%r11, [n+4]; ld.param.b32 %%r12, [n+8];\n"
	"ld.param.b32 %%r13, [n+12]; ld.param.b32 %%r14, [n+16]; ld.param.b16 %%h0, [n+20];\n"
	"ld.param.b16 %%h1, [n+24]; ld.param.b16 %%h2, [n+28];\n"
	"%s;\n"
	"mbarrier.test_wait.shared.b64 %%p2, [%%r6], %%d7; selp.b32 %%r7, 1, 0, %%p2;\n"
	"st.global.b32 [%%d2+16384], %%r7; mov.u32 %%r3, 0;\n"
	"DUMP: cvt.u64.u32 %%d4, %%r3; add.s64 %%d5, %%d2, %%d4; mov.u32 %%r4, box;\n"
	"add.u32 %%r4, %%r4, %%r3; ld.shared.b64 %%d6, [%%r4]; st.global.b64 [%%d5], %%d6;\n"
	"add.u32 %%r3, %%r3, 8; setp.lt.u32 %%p1, %%r3, 16384; @%%p1 bra DUMP;\n"
	"ret;\n}\n";

static const char *const positions[] = {"{%r10}", "{%r10, %r11}", "{%r10, %r11, %r12}",
	"{%r10, %r11, %r12, %r13}", "{%r10, %r11, %r12, %r13, %r14}"};
static const char *const offsets[] = {"{%h0}", "{%h0, %h1}", "{%h0, %h1, %h2}"};
static const char *const reductions[] = {[TENSOR_ADD] = "add",
	[TENSOR_MIN] = "min",
	[TENSOR_MAX] = "max",
	[TENSOR_INC] = "inc",
	[TENSOR_DEC] = "dec",
	[TENSOR_AND] = "and",
	[TENSOR_OR] = "or",
	[TENSOR_XOR] = "xor"};

static void write_kernel(char *text, size_t size, unsigned operation, unsigned rank, bool im2col)
{
	char inst[256];

	if (operation == TENSOR_LOAD)
		snprintf(inst, sizeof inst,
			"cp.async.bulk.tensor.%ud.shared::cluster.global%s.mbarrier::complete_tx::bytes "
			"[%%r5], [%%d3, %s], [%%r6]%s%s",
			rank,
			im2col     ? ".im2col"
			: rank % 2 ? ".tile"
				   : "",
			positions[rank - 1], im2col ? ", " : "", im2col ? offsets[rank - 3] : "");
	else if (operation == TENSOR_STORE)
		snprintf(inst, sizeof inst,
			"cp.async.bulk.tensor.%ud.global.shared::cta.tile.bulk_group [%%d3, %s], [%%r5]",
			rank, positions[rank - 1]);
	else
		snprintf(inst, sizeof inst,
			"cp.reduce.async.bulk.tensor.%ud.global.shared::cta.%s.bulk_group "
			"[%%d3, %s], [%%r5]",
			rank, reductions[operation], positions[rank - 1]);
	snprintf(text, size, body, inst);
}

/* Numbers, not NaN, of which some are subnormal; other types have any bits, and u32 small numbers, which are often the same. */
static void fill(uint8_t *at, size_t bytes, unsigned type)
{
	for (size_t k = 0; k < bytes; k++)
		at[k] = (uint8_t)draw(256);
	for (size_t k = 0; type == TENSOR_U32 && k < bytes; k++)
		at[k] = k % 4 ? 0 : at[k] & 3;
	if (type < TENSOR_F16)
		return;
	for (unsigned each = tensor_element_bytes(type), k = each - 1; k < bytes; k += each)
		at[k] = draw(8) ? (at[k] & 0x80) | 0x3f : at[k] & 0x80;
}

/* Sizes and boxes of a tiled tensor that fit into the test's memory. */
static uint64_t draw_tile(struct record_tensor_map *r)
{
	static const uint16_t most[] = {200, 40, 14, 8, 6}, most_box[] = {60, 20, 6, 4, 3};
	unsigned each = tensor_element_bytes(r->data_type);
	uint64_t rows = 1;

	for (unsigned d = 0; d < r->rank; d++) {
		r->dimensions[d] = 1 + draw(most[r->rank - 1]);
		r->element_strides[d] = draw(3) ? 1 : 1 + draw(3);
		r->box[d] = 1 + draw(most_box[r->rank - 1]);
		if (d)
			rows *= (r->box[d] + r->element_strides[d] - 1) / r->element_strides[d];
	}
	r->swizzle = draw(4);
	r->box[0] = (r->swizzle ? 16u << r->swizzle : 16 * (1 + draw(4))) / each;
	return rows * r->box[0] * each;
}

static uint64_t draw_columns(struct record_tensor_map *r)
{
	unsigned each = tensor_element_bytes(r->data_type);

	for (unsigned d = 0; d < r->rank; d++) {
		r->dimensions[d] = (r->rank == 5 ? 3 : 6) + draw(4);
		r->element_strides[d] = d + 1 == r->rank || draw(2) ? 1 : 2;
	}
	for (unsigned d = 0; d + 2 < r->rank; d++) {
		r->lower[d] = (int32_t)draw(4) - 2;
		r->upper[d] = (int32_t)draw(3) - 1;
	}
	r->pixels = 1 + draw(80);
	r->swizzle = draw(4);
	r->channels = (r->swizzle ? 16u << r->swizzle : 16 * (1 + draw(4))) / each;
	return (uint64_t)r->pixels * r->channels * each;
}

static void draw_map(struct record_tensor_map *r, struct parameters *p)
{
	bool im2col = r->mode == TENSOR_MAP_IM2COL;
	uint64_t bytes, stride;

	do
		bytes = im2col ? draw_columns(r) : draw_tile(r);
	while (bytes > BOX_BYTES - 1024);
	stride = r->dimensions[0] * tensor_element_bytes(r->data_type);
	for (unsigned d = 0; d + 1 < r->rank; d++) {
		r->strides[d] = (stride + 15) / 16 * 16 + 16 * draw(2);
		stride = r->strides[d] * r->dimensions[d + 1];
	}
	assert_true(stride + 1024 <= MEMORY_BYTES);
	r->address = (uintptr_t)memory + 512;
	assert_int_equal(tensor_encode(r, p->map), 0);
	p->at = 128 * draw(8);
	p->bytes = (uint32_t)bytes;
	for (unsigned d = 0; d < r->rank; d++)
		p->numbers[d] = im2col || draw(3) ? (int32_t)draw((uint32_t)r->dimensions[d]) - 1
						  : (int32_t)draw(60) - 30;
	for (unsigned d = 0; im2col && d + 2 < r->rank; d++) { /* a place that the walk comes to */
		int32_t last = (int32_t)r->dimensions[d + 1] - 1 + r->upper[d] - r->lower[d];

		p->numbers[d + 1] = r->lower[d] +
				    (int32_t)(draw((uint32_t)last + 1) / r->element_strides[d + 1] *
					      r->element_strides[d + 1]);
		p->numbers[5 + d] = (int32_t)draw(4);
	}
}

static bool has_reduction(unsigned operation, unsigned type)
{
	if (operation <= TENSOR_STORE)
		return true;
	if (operation == TENSOR_ADD)
		return type >= TENSOR_U32;
	if (operation == TENSOR_INC || operation == TENSOR_DEC)
		return type == TENSOR_U32;
	return type >= TENSOR_U32 && type <= TENSOR_S64;
}

/* One map: the compiled kernel, then the interpreter, each with the same memory. */
static void compare(struct program *p, const struct ptx_code *code, unsigned operation,
	struct record_tensor_map *r)
{
	const struct ptx_kernel *k = ptx_kernel_at(p->module, 0);
	struct parameters params = {.in = in};
	struct interp interp = {.module = p->module,
		.globals = p->globals,
		.kernel = "k",
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.params = &params};

	do
		r->data_type = draw(TENSOR_TYPES);
	while (!has_reduction(operation, r->data_type));
	draw_map(r, &params);
	fill(in, sizeof in, r->data_type);
	fill(memory, sizeof memory, r->data_type);
	memcpy(begun, memory, sizeof memory);
	params.out = out[0];
	assert_int_equal(run_code(p, k, code,
				 (struct run){.kernel = "k",
					 .grid = {1, 1, 1},
					 .block = {1, 1, 1},
					 .pool = 1,
					 .params = &params}),
		RAN);
	memcpy(changed, memory, sizeof memory);
	memcpy(memory, begun, sizeof memory);
	params.out = out[1];
	if (interp_run(&interp) != INTERP_RAN)
		fail_msg("%s", interp.why);
	assert_memory_equal(changed, memory, sizeof memory);
	assert_memory_equal(out[0], out[1], sizeof out[0]);
	assert_int_equal(out[0][BOX_BYTES], operation == TENSOR_LOAD);
}

static void compare_kernel(unsigned operation, unsigned rank, bool im2col)
{
	const uint32_t block[3] = {1, 1, 1};
	const struct ptx_code *code;
	struct program p;
	char text[4096];

	write_kernel(text, sizeof text, operation, rank, im2col);
	load_text(&p, text);
	if (compile(&p, ptx_kernel_at(p.module, 0), block, &code))
		fail_msg("%s", p.log);
	for (unsigned n = 0; n < MAPS; n++) {
		struct record_tensor_map map = {.mode = im2col, .rank = rank};

		compare(&p, code, operation, &map);
	}
	ptx_unlink(code);
	unload(&p);
}

static void boxes_are_loaded(void **state)
{
	for (unsigned rank = 1; rank <= 5; rank++)
		compare_kernel(TENSOR_LOAD, rank, false);
}

static void columns_are_loaded(void **state)
{
	for (unsigned rank = 3; rank <= 5; rank++)
		compare_kernel(TENSOR_LOAD, rank, true);
}

static void boxes_are_stored(void **state)
{
	for (unsigned rank = 1; rank <= 5; rank++)
		compare_kernel(TENSOR_STORE, rank, false);
}

static void boxes_are_reduced(void **state)
{
	for (unsigned operation = TENSOR_ADD; operation <= TENSOR_XOR; operation++)
		for (unsigned rank = 1; rank <= 5; rank++)
			compare_kernel(operation, rank, false);
}

/* ---- what is refused ---- */

static void maps_are_checked(void **state)
{
	static const struct record_tensor_map good = {.data_type = TENSOR_F32,
		.rank = 3,
		.address = 4096,
		.dimensions = {64, 8, 8},
		.strides = {256, 2048},
		.box = {32, 2, 2},
		.element_strides = {1, 1, 1},
		.lower = {-1},
		.upper = {-1},
		.channels = 32,
		.pixels = 16};
	struct record_tensor_map bad[] = {
		good, good, good, good, good, good, good, good, good, good, good, good, good};
	static const int wanted[] = {-EINVAL, -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EINVAL,
		-EINVAL, -ENOTSUP, -ENOTSUP, -ENOTSUP, -ENOTSUP, -ENOTSUP};
	uint8_t map[TENSOR_MAP_BYTES];

	bad[0].address = 8;
	bad[1].dimensions[1] = 0;
	bad[2].strides[1] = 2056;
	bad[3].box[2] = 257;
	bad[4].element_strides[1] = 9;
	bad[5].box[0] = 3;
	bad[6].swizzle = 2; /* of 64 bytes, where a row has 128 */
	bad[7].mode = TENSOR_MAP_IM2COL;
	bad[7].lower[0] = 7;
	bad[8].data_type = 11; /* tf32 */
	bad[9].interleave = 1;
	bad[10].swizzle = 4;
	bad[11].fill = 1;
	bad[12].swizzle = 3;
	bad[12].box[0] = 16; /* of 128 bytes, where a row has 64 */
	assert_int_equal(tensor_encode(&good, map), 0);
	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
		assert_int_equal(tensor_encode(&bad[k], map), wanted[k]);
}

static enum outcome run_map(unsigned operation, unsigned rank, struct parameters *params)
{
	struct program p;
	char text[4096];
	enum outcome outcome;

	write_kernel(text, sizeof text, operation, rank, false);
	load_text(&p, text);
	params->in = in;
	params->out = out[0];
	outcome = run(&p, (struct run){.kernel = "k", .params = params});
	unload(&p);
	return outcome;
}

static void kernels_end_at_maps_that_do_not_fit(void **state)
{
	struct record_tensor_map r = matrix(memory, 64, 64, 64, 32);
	struct parameters params = {.bytes = 8192};

	assert_int_equal(tensor_encode(&r, params.map), 0);
	assert_int_equal(run_map(TENSOR_LOAD, 2, &params), RAN);
	assert_int_equal(run_map(TENSOR_LOAD, 3, &params), TRAPPED);
	params.at = 64; /* no multiple of 128 */
	assert_int_equal(run_map(TENSOR_LOAD, 2, &params), TRAPPED);
	params.at = BOX_BYTES - 128; /* reaches over the end */
	assert_int_equal(run_map(TENSOR_STORE, 2, &params), TRAPPED);
	params.at = 0;
	((struct tensor *)params.map)->swizzle = 3; /* of 128 bytes, where a row has 256 */
	assert_int_equal(run_map(TENSOR_LOAD, 2, &params), TRAPPED);
	((struct tensor *)params.map)->swizzle = 0;
	params.map[0]++;
	assert_int_equal(run_map(TENSOR_LOAD, 2, &params), TRAPPED);
	r.data_type = TENSOR_F16;
	assert_int_equal(tensor_encode(&r, params.map), 0);
	assert_int_equal(run_map(TENSOR_MIN, 2, &params), UNSUPPORTED);
}

/* In a launch without a cluster there is one block, of rank 0: no memory is that of another. */
static void ranks_that_no_block_has_are_left_alone(void **state)
{
	static const char load[] =
		"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
		".multicast::cluster [%r5], [%d3, {%r10, %r11}], [%r6], %h0";
	struct record_tensor_map r = matrix(memory, 64, 64, 64, 32);
	struct parameters params = {.bytes = 8192, .in = in, .out = out[0]};
	struct program p;
	char text[4096];

	assert_int_equal(tensor_encode(&r, params.map), 0);
	snprintf(text, sizeof text, body, load);
	load_text(&p, text);
	for (int mask = 1; mask <= 0x80; mask += 0x7f) {
		params.numbers[5] = mask;
		assert_int_equal(run(&p, (struct run){.kernel = "k", .params = &params}), RAN);
		assert_int_equal(out[0][BOX_BYTES], mask == 1); /* the barrier has passed */
	}
	unload(&p);
}

static void other_forms_are_refused(void **state)
{
	static const char *const forms[] = {
		"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes "
		"[%r5], [%d3, {%r10, %r11, %r12, %r13, %r14}], [%r6]",
		"cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes "
		"[%r5], [%d3, {%r10, %r11, %r12}], [%r6], {%h0}",
		"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
		"[%r5], [%d3, {%r10, %r11, %r12}], [%r6]",
		"cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
		"[%r5], [%d3, {%r10, %r11}], [%r6]",
		"cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group "
		"[%d3, {%r10, %r11, %r12}], [%r5]",
		"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
		"[%r5], [%d3, {%r10, %r11, %r12}], [%r6]",
		"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
		"[%r5], [%d3], [%r6]",
		"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d3], [%r5], 16"};
	struct program p;
	char text[4096];

	for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
		snprintf(text, sizeof text, body, forms[k]);
		if (error_of(&p, text, "k") != -ENOTSUP)
			fail_msg("form %zu: %s", k, p.log);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_matrix_is_transposed),
		cmocka_unit_test(boxes_are_added_up),
		cmocka_unit_test(boxes_are_loaded),
		cmocka_unit_test(columns_are_loaded),
		cmocka_unit_test(boxes_are_stored),
		cmocka_unit_test(boxes_are_reduced),
		cmocka_unit_test(maps_are_checked),
		cmocka_unit_test(kernels_end_at_maps_that_do_not_fit),
		cmocka_unit_test(ranks_that_no_block_has_are_left_alone),
		cmocka_unit_test(other_forms_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

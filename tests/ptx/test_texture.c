/* SPDX-License-Identifier: MIT
 *
 * Textures and surfaces: what the instructions read and write through a structure in memory, against what CUDA's
 * programming guide says. The positions are chosen so that weights of 8 bits are exact.
 */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "device/cpu/ptx/texture.h"

/* A kernel of one thread with the handle in %h, room for results in %o and numbers in %p. */
#define KERNEL(body)                                                                               \
	".version 8.7\n.target sm_90\n.address_size 64\n"                                          \
	".entry k(.param .u64 h, .param .u64 p, .param .u64 o)\n{\n"                               \
	".reg .b64 %h, %p, %o, %d<4>;\n.reg .b32 %r<8>;\n.reg .f32 %f<12>;\n.reg .b16 %s<4>;\n"    \
	"ld.param.u64 %h, [h];\nld.param.u64 %p, [p];\nld.param.u64 %o, [o];\n"                    \
	"ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%p];\n"                                           \
	"ld.global.v4.f32 {%f4, %f5, %f6, %f7}, [%p+16];\n" body "ret;\n}\n"
#define STORE "st.global.v4.b32 [%o], {%r0, %r1, %r2, %r3};\n"
#define FETCH(instruction, operands)                                                               \
	KERNEL(instruction " {%r0, %r1, %r2, %r3}, " operands ";\n" STORE)

static enum outcome run_text(const char *text, const void *handle, const void *numbers, void *out)
{
	const void *params[] = {handle, numbers, out};
	struct program p;
	enum outcome outcome;

	load_text(&p, text);
	outcome = run(&p, (struct run){.kernel = "k", .params = params});
	unload(&p);
	return outcome;
}

static struct texture plain(void *memory, unsigned format, unsigned channels, uint32_t width,
	uint32_t height, uint32_t depth)
{
	struct texture t = {.magic = TEXTURE_MAGIC,
		.kind = TEXTURE_SAMPLED,
		.format = (uint8_t)format,
		.channels = (uint8_t)channels,
		.address = (uintptr_t)memory,
		.width = width,
		.height = height,
		.depth = depth,
		.levels = 1,
		.level_max = 100};

	memset(t.address_mode, TEXTURE_CLAMP, sizeof t.address_mode);
	t.pitch = (uint64_t)width * texture_element_bytes(&t);
	t.slice = t.pitch * height;
	return t;
}

static float first_float(const char *text, const struct texture *t, const float numbers[8])
{
	float out[4];

	assert_int_equal(run_text(text, t, numbers, out), RAN);
	return out[0];
}

static void expect(float got, float want, const char *what, float at)
{
	if (fabsf(got - want) > 1e-6f)
		fail_msg("%s at %g: %g, not %g", what, (double)at, (double)got, (double)want);
}

/* ---- one dimension: modes of addresses and of filtering ---- */

static const struct row {
	float at;
	uint8_t mode, filter;
	bool normalised;
	float want;
} rows[] = {
	/* The elements are 1, 2, 4, 8; the border is 100. */
	{0, TEXTURE_CLAMP, 0, false, 1},
	{0.999f, TEXTURE_CLAMP, 0, false, 1},
	{1, TEXTURE_CLAMP, 0, false, 2},
	{3.999f, TEXTURE_CLAMP, 0, false, 8},
	{4, TEXTURE_CLAMP, 0, false, 8},
	{-7, TEXTURE_CLAMP, 0, false, 1},
	{-0.001f, TEXTURE_BORDER, 0, false, 100},
	{4, TEXTURE_BORDER, 0, false, 100},
	{FLT_MAX, TEXTURE_CLAMP, 0, false, 8},
	{-FLT_MAX, TEXTURE_BORDER, 0, false, 100},
	{INFINITY, TEXTURE_CLAMP, 0, false, 8},
	{NAN, TEXTURE_CLAMP, 0, false, 1},
	{0.25f, TEXTURE_WRAP, 0, true, 2},
	{1.25f, TEXTURE_WRAP, 0, true, 2},
	{-0.25f, TEXTURE_WRAP, 0, true, 8},
	{-3.75f, TEXTURE_WRAP, 0, true, 2},
	{1.125f, TEXTURE_MIRROR, 0, true, 8},
	{1.875f, TEXTURE_MIRROR, 0, true, 1},
	{-0.125f, TEXTURE_MIRROR, 0, true, 1},
	{2.3f, TEXTURE_MIRROR, 0, true, 2},
	{1, TEXTURE_CLAMP, 0, true, 8},
	{1, TEXTURE_BORDER, 0, true, 100},
	{0.5f, TEXTURE_CLAMP, 1, false, 1},
	{1, TEXTURE_CLAMP, 1, false, 1.5f},
	{1.25f, TEXTURE_CLAMP, 1, false, 1.75f},
	{2.5f + 1 / 256.0f, TEXTURE_CLAMP, 1, false, 4 + 4 / 256.0f},
	{2.5f + 1 / 1024.0f, TEXTURE_CLAMP, 1, false, 4}, /* less than a weight has bits for */
	{2.5f + 3 / 1024.0f, TEXTURE_CLAMP, 1, false, 4 + 4 / 256.0f},
	{0, TEXTURE_CLAMP, 1, false, 1},
	{4, TEXTURE_CLAMP, 1, false, 8},
	{0, TEXTURE_BORDER, 1, false, 50.5f},
	{4, TEXTURE_BORDER, 1, false, 54},
	{-0.5f, TEXTURE_BORDER, 1, false, 100},
	{0, TEXTURE_WRAP, 1, true, 4.5f},
	{1, TEXTURE_WRAP, 1, true, 4.5f},
	{0.25f, TEXTURE_WRAP, 1, true, 1.5f},
	{0, TEXTURE_MIRROR, 1, true, 1},
	{1, TEXTURE_MIRROR, 1, true, 8},
	{1.25f, TEXTURE_MIRROR, 1, true, 6},
};

static void elements_are_found_by_every_mode(void **state)
{
	const char *text = FETCH("tex.1d.v4.f32.f32", "[%h, {%f0}]");
	float elements[] = {1, 2, 4, 8};

	for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
		struct texture t = plain(elements, TEXTURE_F32, 1, 4, 1, 1);
		float numbers[8] = {rows[k].at};
		char what[64];

		t.address_mode[0] = rows[k].mode;
		t.filter = rows[k].filter;
		t.flags = rows[k].normalised ? TEXTURE_NORMALISED : 0;
		t.border[0] = 100;
		snprintf(what, sizeof what, "row %zu", k);
		expect(first_float(text, &t, numbers), rows[k].want, what, rows[k].at);
	}
}

static void whole_numbers_are_positions(void **state)
{
	static const struct {
		int32_t at;
		uint8_t mode;
		float want;
	} whole[] = {{0, TEXTURE_CLAMP, 1}, {3, TEXTURE_CLAMP, 8}, {4, TEXTURE_CLAMP, 8},
		{-1, TEXTURE_CLAMP, 1}, {-1, TEXTURE_BORDER, 100}, {INT32_MAX, TEXTURE_BORDER, 100},
		{INT32_MIN, TEXTURE_CLAMP, 1}, {2, TEXTURE_BORDER, 4}};
	const char *text = FETCH("tex.1d.v4.f32.s32", "[%h, {%f0}]");
	float elements[] = {1, 2, 4, 8};

	for (size_t k = 0; k < sizeof(whole) / sizeof(*whole); k++) {
		struct texture t = plain(elements, TEXTURE_F32, 1, 4, 1, 1);
		float numbers[8] = {0};

		memcpy(numbers, &whole[k].at, 4);
		t.address_mode[0] = whole[k].mode;
		t.filter = 1; /* not asked */
		t.border[0] = 100;
		expect(first_float(text, &t, numbers), whole[k].want, "a whole number",
			(float)whole[k].at);
	}
}

/* ---- formats ---- */

static void channels_are_decoded(void **state)
{
	static const struct {
		uint8_t format, flags;
		uint32_t element[4];
		unsigned channels;
		float want[4];
	} decoded[] = {
		{TEXTURE_U8, 0, {0xff8000ff}, 4, {1, 0, 128 / 255.0f, 1}},
		{TEXTURE_S8, 0, {0x7f8081ff}, 4, {-1 / 127.0f, -1, -1, 1}},
		{TEXTURE_U16, 0, {0x8000ffff}, 2, {1, 32768 / 65535.0f, 0, 1}},
		{TEXTURE_S16, 0, {0x80007fff}, 2, {1, -1, 0, 1}},
		{TEXTURE_F16, 0, {0xc0003c00}, 2, {1, -2, 0, 1}},
		{TEXTURE_F32, 0, {0x40490fdb}, 1, {3.14159274f, 0, 0, 1}},
		{TEXTURE_U8, TEXTURE_SRGB, {0x80ff0080}, 4, {0.215860531f, 0, 1, 128 / 255.0f}},
	};

	for (size_t k = 0; k < sizeof(decoded) / sizeof(*decoded); k++) {
		uint32_t element[4];
		float numbers[8] = {0}, out[4];

		memcpy(element, decoded[k].element, sizeof element);
		struct texture t = plain(element, decoded[k].format, decoded[k].channels, 1, 1, 1);
		t.flags = decoded[k].flags;
		assert_int_equal(
			run_text(FETCH("tex.1d.v4.f32.f32", "[%h, {%f0}]"), &t, numbers, out), RAN);
		for (unsigned c = 0; c < 4; c++)
			expect(out[c], decoded[k].want[c], "channel", (float)(k * 10 + c));
	}
}

static void integers_are_read_as_they_are(void **state)
{
	static const struct {
		uint8_t format, flags;
		uint32_t element, want;
	} whole[] = {{TEXTURE_U8, TEXTURE_INTEGER, 0xfe, 0xfe},
		{TEXTURE_S8, TEXTURE_INTEGER, 0xfe, 0xfffffffe},
		{TEXTURE_U16, TEXTURE_INTEGER, 0xfffe, 0xfffe},
		{TEXTURE_S16, TEXTURE_INTEGER, 0xfffe, 0xfffffffe},
		{TEXTURE_U32, 0, 0xdeadbeef, 0xdeadbeef},
		{TEXTURE_S32, TEXTURE_INTEGER, 0xdeadbeef, 0xdeadbeef}};

	for (size_t k = 0; k < sizeof(whole) / sizeof(*whole); k++) {
		uint32_t element = whole[k].element, out[4];
		struct texture t = plain(&element, whole[k].format, 1, 1, 1, 1);
		float numbers[8] = {0};

		t.flags = whole[k].flags;
		assert_int_equal(
			run_text(FETCH("tex.1d.v4.u32.f32", "[%h, {%f0}]"), &t, numbers, out), RAN);
		assert_int_equal(out[0], whole[k].want);
	}
}

/* ---- geometries ---- */

static float number(unsigned x, unsigned y, unsigned z)
{
	return (float)(x + 10 * y + 100 * z);
}

static void fill_numbers(float *memory, unsigned width, unsigned height, unsigned depth)
{
	for (unsigned z = 0; z < depth; z++)
		for (unsigned y = 0; y < height; y++)
			for (unsigned x = 0; x < width; x++)
				*memory++ = number(x, y, z);
}

static void positions_have_their_dimensions(void **state)
{
	float memory[5 * 4 * 12];
	struct texture t = plain(memory, TEXTURE_F32, 1, 5, 4, 12);
	float at[8] = {1.5f, 2.5f, 3.5f, 0};
	uint32_t layer = 7;

	fill_numbers(memory, 5, 4, 12);
	memcpy(&at[3], &layer, 4);
	expect(first_float(FETCH("tex.2d.v4.f32.f32", "[%h, {%f0, %f1}]"), &t, at), 21, "2d", 0);
	expect(first_float(FETCH("tex.2d.v4.f32.f32", "[%h, {%f0, %f1, %f1, %f1}]"), &t, at), 21,
		"2d with four numbers", 0);
	expect(first_float(FETCH("tex.3d.v4.f32.f32", "[%h, {%f0, %f1, %f2, %f2}]"), &t, at), 321,
		"3d", 0);
	expect(first_float(FETCH("tex.2d.v4.f32.f32", "[%h, {%f0, %f1}], {1, -1}"), &t, at), 12,
		"an offset", 0);
	t.filter = 1;
	at[0] = 2, at[1] = 2, at[2] = 2;
	expect(first_float(FETCH("tex.3d.v4.f32.f32", "[%h, {%f0, %f1, %f2, %f2}]"), &t, at),
		166.5f, "3d between eight", 0);
	t.flags = TEXTURE_LAYERED;
	expect(first_float(FETCH("tex.a2d.v4.f32.f32", "[%h, {%f3, %f0, %f1, %f1}]"), &t, at),
		716.5f, "a2d", 0);
	expect(first_float(FETCH("tex.a1d.v4.f32.f32", "[%h, {%f3, %f0}]"), &t, at), 701.5f, "a1d",
		0);
	layer = 77;
	memcpy(&at[3], &layer, 4);
	expect(first_float(FETCH("tex.a1d.v4.f32.f32", "[%h, {%f3, %f0}]"), &t, at), 1101.5f,
		"beyond the last layer", 0);
}

static void directions_meet_faces(void **state)
{
	static const struct {
		float x, y, z, want;
	} met[] = {{2, -1, -1, 11}, {-2, -1, -1, 110}, {-1, 2, 1, 210}, {1, -2, 1, 301},
		{1, -1, 2, 411}, {1, -1, -2, 510}};
	float memory[2 * 2 * 12];
	struct texture t = plain(memory, TEXTURE_F32, 1, 2, 2, 12);

	fill_numbers(memory, 2, 2, 12);
	t.flags = TEXTURE_LAYERED;
	for (size_t k = 0; k < 6; k++) {
		float at[8] = {met[k].x, met[k].y, met[k].z};
		uint32_t layer = 1;

		memcpy(&at[3], &layer, 4);
		expect(first_float(
			       FETCH("tex.cube.v4.f32.f32", "[%h, {%f0, %f1, %f2, %f2}]"), &t, at),
			met[k].want, "face", (float)k);
		expect(first_float(
			       FETCH("tex.acube.v4.f32.f32", "[%h, {%f3, %f0, %f1, %f2}]"), &t, at),
			met[k].want + 600, "face of the second cube", (float)k);
		layer = 715827883; /* times six, 2 and no more bits */
		memcpy(&at[3], &layer, 4);
		expect(first_float(
			       FETCH("tex.acube.v4.f32.f32", "[%h, {%f3, %f0, %f1, %f2}]"), &t, at),
			met[k].want + 600, "face of the last cube", (float)k);
	}
}

/* At an edge the elements of both faces count the same. */
static void cubes_are_filtered_across_edges(void **state)
{
	float memory[2 * 2 * 6], at[8] = {1, 0.5f, 1};
	struct texture t = plain(memory, TEXTURE_F32, 1, 2, 2, 6);

	for (unsigned face = 0; face < 6; face++)
		for (unsigned k = 0; k < 4; k++)
			memory[face * 4 + k] = (float)face;
	t.flags = TEXTURE_LAYERED;
	t.filter = 1;
	expect(first_float(FETCH("tex.cube.v4.f32.f32", "[%h, {%f0, %f1, %f2, %f2}]"), &t, at), 0,
		"one face", 0);
	t.flags |= TEXTURE_SEAMLESS;
	expect(first_float(FETCH("tex.cube.v4.f32.f32", "[%h, {%f0, %f1, %f2, %f2}]"), &t, at), 2,
		"both faces", 0);
}

/* ---- levels ---- */

static void levels_are_chosen(void **state)
{
	static const struct {
		float lod, bias, min, max;
		uint8_t filter;
		float want;
	} chosen[] = {{0, 0, 0, 9, 0, 0}, {1, 0, 0, 9, 0, 1}, {1.25f, 0, 0, 9, 0, 1},
		{1.75f, 0, 0, 9, 0, 2}, {1.25f, 0, 0, 9, 1, 1.25f}, {7, 0, 0, 9, 1, 2},
		{-3, 0, 0, 9, 1, 0}, {0.5f, 1, 0, 9, 1, 1.5f}, {0, 0, 0.5f, 9, 1, 0.5f},
		{2, 0, 0, 1.5f, 1, 1.5f}, {NAN, 0, 0, 9, 1, 0}};
	_Alignas(64) float memory[256] = {0};
	struct texture t = plain(memory, TEXTURE_F32, 1, 4, 4, 1), level;

	texture_pack(&t);
	t.levels = 3;
	t.flags = TEXTURE_NORMALISED;
	for (unsigned l = 0; l < 3; l++) {
		level = t;
		texture_level(&level, l);
		for (unsigned y = 0; y < level.height; y++)
			for (unsigned x = 0; x < level.width; x++)
				((float *)(uintptr_t)(level.address + y * level.pitch))[x] =
					(float)l;
	}
	assert_int_equal(level.width, 1);
	for (size_t k = 0; k < sizeof(chosen) / sizeof(*chosen); k++) {
		float at[8] = {0.5f, 0.5f, chosen[k].lod};

		t.bias = chosen[k].bias, t.level_min = chosen[k].min;
		t.level_max = chosen[k].max, t.level_filter = chosen[k].filter;
		expect(first_float(
			       FETCH("tex.level.2d.v4.f32.f32", "[%h, {%f0, %f1}], %f2"), &t, at),
			chosen[k].want, "level", (float)k);
		at[2] = exp2f(chosen[k].lod) / 4; /* of four elements */
		if (k < 7)
			expect(first_float(FETCH("tex.grad.2d.v4.f32.f32",
						   "[%h, {%f0, %f1}], {%f2, %f3}, {%f3, %f3}"),
				       &t, at),
				chosen[k].want, "gradient", (float)k);
	}
}

/* ---- gathers and queries ---- */

static void four_elements_are_gathered(void **state)
{
	float memory[5 * 4], at[8] = {2, 2}, out[4];
	struct texture t = plain(memory, TEXTURE_F32, 1, 5, 4, 1);

	fill_numbers(memory, 5, 4, 1);
	assert_int_equal(
		run_text(FETCH("tld4.r.2d.v4.f32.f32", "[%h, {%f0, %f1}]"), &t, at, out), RAN);
	expect(out[0], 21, "gathered", 0);
	expect(out[1], 22, "gathered", 1);
	expect(out[2], 12, "gathered", 2);
	expect(out[3], 11, "gathered", 3);
}

static void queries_are_answered(void **state)
{
	struct texture t = plain(NULL, TEXTURE_U8, 4, 20, 12, 9);
	uint32_t out[4];
	float none[8] = {0};

	t.levels = 3;
	assert_int_equal(run_text(KERNEL("txq.width.b32 %r0, [%h];\ntxq.height.b32 %r1, [%h];\n"
					 "txq.depth.b32 %r2, [%h];\n"
					 "txq.num_mipmap_levels.b32 %r3, [%h];\n" STORE),
				 &t, none, out),
		RAN);
	assert_int_equal(out[0], 20);
	assert_int_equal(out[1], 12);
	assert_int_equal(out[2], 9);
	assert_int_equal(out[3], 3);
	t.flags = TEXTURE_LAYERED;
	assert_int_equal(
		run_text(KERNEL("txq.level.width.b32 %r0, [%h], 2;\n"
				"txq.array_size.b32 %r1, [%h];\ntxq.channel_order.b32 %r2, [%h];\n"
				"txq.channel_data_type.b32 %r3, [%h];\n" STORE),
			&t, none, out),
		RAN);
	assert_int_equal(out[0], 5);
	assert_int_equal(out[1], 9);
	assert_int_equal(out[2], 0x10b5);
	assert_int_equal(out[3], 0x10d2);
}

/* ---- surfaces ---- */

static const struct access {
	const char *clamp;
	int32_t x, y;
	int32_t want; /* the byte's number in the surface; -1: zero; -2: it ends the kernel */
} accesses[] = {
	{"trap", 4, 1, 20},
	{"trap", 12, 3, 60},
	{"trap", 16, 0, -2},
	{"trap", -4, 0, -2},
	{"trap", 0, 4, -2},
	{"trap", 0, -1, -2},
	{"trap", 2, 0, -2}, /* not aligned */
	{"clamp", 16, 0, 12},
	{"clamp", INT32_MAX - 3, INT32_MAX, 60},
	{"clamp", INT32_MIN, INT32_MIN, 0},
	{"zero", 16, 0, -1},
	{"zero", 0, -1, -1},
	{"zero", 8, 2, 40},
};

static void surfaces_are_read(void **state)
{
	static const char whole[] = KERNEL("suld.b.2d.b32.@ %r0, [%h, {%f0, %f1}];\n"
					   "st.global.b32 [%o], %r0;\n");
	const char *after = strchr(whole, '@') + 1;
	uint8_t memory[16 * 4];
	struct texture t = plain(memory, TEXTURE_U8, 2, 8, 4, 1);

	for (unsigned k = 0; k < sizeof memory; k++)
		memory[k] = (uint8_t)(k + 1);
	t.kind = TEXTURE_SURFACE;
	for (size_t k = 0; k < sizeof(accesses) / sizeof(*accesses); k++) {
		const struct access *a = &accesses[k];
		int32_t numbers[8] = {a->x, a->y};
		uint32_t out[4] = {0}, want = 0;
		char text[2048];

		snprintf(text, sizeof text, "%.*s%s%s", (int)(after - whole - 1), whole, a->clamp,
			after);
		enum outcome outcome = run_text(text, &t, numbers, out);
		assert_int_equal(outcome, a->want == -2 ? TRAPPED : RAN);
		if (a->want >= 0)
			memcpy(&want, memory + a->want, 4);
		assert_int_equal(out[0], want);
	}
}

static void surfaces_are_written(void **state)
{
	uint8_t memory[16 * 4 * 3], want[sizeof memory];
	struct texture t = plain(memory, TEXTURE_U32, 4, 1, 4, 3);
	int32_t numbers[8] = {0, 2, 1, 400, 0x11111111, 0x22222222, 0x33333333, 0x44444444};
	uint32_t out[4];

	memset(memory, 0xaa, sizeof memory);
	memcpy(want, memory, sizeof want);
	t.kind = TEXTURE_SURFACE;
	assert_int_equal(
		run_text(KERNEL("sust.b.3d.v4.b32.trap [%h, {%f0, %f1, %f2, %f2}], {%f4, %f5, %f6, "
				"%f7};\nsust.b.1d.b32.zero [%h, {%f3}], %f4;\n"
				"sust.b.1d.b32.clamp [%h, {%f0}], %f5;\n"
				"cvt.u16.u32 %s0, 0x99;\nsust.b.a1d.b8.trap [%h, {2, 3}], %s0;\n"),
			&t, numbers, out),
		RAN);
	memcpy(want + 64 + 32, &numbers[4], 16);
	memcpy(want, &numbers[5], 4);
	want[128 + 3] = 0x99;
	assert_memory_equal(memory, want, sizeof want);
}

/* ---- what is no texture ---- */

static void handles_of_nothing_end_the_kernel(void **state)
{
	const char *fetch = FETCH("tex.1d.v4.f32.f32", "[%h, {%f0}]");
	const char *load = KERNEL("suld.b.1d.b32.zero %r0, [%h, {0}];\n" STORE);
	_Alignas(64) float memory[64] = {0};
	struct texture good = plain(memory, TEXTURE_F32, 1, 4, 1, 1), bad;
	float numbers[8] = {0}, out[4];

	assert_int_equal(run_text(fetch, &good, numbers, out), RAN);
	assert_int_equal(run_text(load, &good, numbers, out), TRAPPED); /* no surface */
	assert_int_equal(run_text(fetch, (char *)&good + 4, numbers, out), TRAPPED);
	assert_int_equal(run_text(fetch, memory, numbers, out), TRAPPED);
	bad = good, bad.kind = TEXTURE_UNBOUND;
	assert_int_equal(run_text(fetch, &bad, numbers, out), TRAPPED);
	bad = good, bad.format = 77;
	assert_int_equal(run_text(fetch, &bad, numbers, out), TRAPPED);
	bad = good, bad.levels = 1000;
	assert_int_equal(run_text(fetch, &bad, numbers, out), TRAPPED);
	bad = good, bad.width = 0;
	assert_int_equal(run_text(fetch, &bad, numbers, out), TRAPPED);
}

enum { FETCHES = 400000 };

static atomic_bool fetched;

/* A kernel that writes into a structure while another thread reads what it says. */
static void *change_channels(void *data)
{
	volatile struct texture *t = data;

	for (unsigned k = 0; !atomic_load(&fetched); k++)
		t->channels = k & 1 ? 1 : 255;
	return NULL;
}

static void what_is_checked_is_what_is_used(void **state)
{
	static float elements[256];
	const float one = 1;
	uint32_t word = texture_word(TEXTURE_FETCH, GEOMETRY_3D), operands[OPERAND_WORDS] = {0};
	struct texture t = plain(elements, TEXTURE_F32, 1, 2, 2, 2);
	pthread_t changer;

	t.filter = 1; /* eight elements */
	for (unsigned d = 0; d < 3; d++)
		memcpy(&operands[d], &one, 4);
	assert_int_equal(pthread_create(&changer, NULL, change_channels, &t), 0);
	for (unsigned k = 0; k < FETCHES; k++) {
		uint32_t out[RESULT_WORDS] = {0};

		if (texture_execute(word, (uintptr_t)&t, operands, out) == TEXTURE_DONE)
			assert_memory_equal(&out[3], &one, 4); /* the element has it not */
	}
	atomic_store(&fetched, true);
	pthread_join(changer, NULL);
}

/* ---- any position of any texture ---- */

enum { GUARD = 4096, MOST_BYTES = 16 * GUARD };

/* Memory that ends where a page begins that nobody may touch; nor may the one before. */
static char *guarded(void)
{
	char *all =
		mmap(NULL, MOST_BYTES + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(all != MAP_FAILED);
	assert_int_equal(mprotect(all + GUARD, MOST_BYTES, PROT_READ | PROT_WRITE), 0);
	memset(all + GUARD, 0x3c, MOST_BYTES);
	return all + GUARD;
}

static uint32_t draw(uint32_t n)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % n;
}

/* A texture that ends where the memory does. */
static struct texture draw_texture(char *memory)
{
	static const uint8_t channels[] = {1, 2, 4};
	struct texture t = plain(NULL, draw(TEXTURE_FORMATS), channels[draw(3)], 1 + draw(9),
		1 + draw(9), 1 + draw(6));
	struct texture behind;

	texture_pack(&t);
	t.kind = draw(4) ? TEXTURE_SAMPLED : TEXTURE_SURFACE;
	t.flags = (uint8_t)draw(32);
	if (!draw(3)) {
		t.height = t.width;
		t.depth = 6;
		t.flags |= TEXTURE_LAYERED;
		texture_pack(&t);
	}
	for (unsigned d = 0; d < 3; d++)
		t.address_mode[d] = (uint8_t)draw(4);
	t.filter = (uint8_t)draw(2);
	t.level_filter = (uint8_t)draw(2);
	t.levels = 1 + draw(4);
	behind = t;
	for (unsigned l = 0; l < t.levels; l++)
		texture_next(&behind);
	assert_true(behind.address <= MOST_BYTES);
	t.address = (uintptr_t)memory + MOST_BYTES - behind.address;
	return t;
}

static uint32_t draw_number(void)
{
	static const float floats[] = {0, -0.0f, 0.5f, 1, -1, 8.999f, 1e-30f, 1e30f, -FLT_MAX,
		INFINITY, -INFINITY, NAN, 0x1p30f, 0x1p31f, -0x1p31f, 16777217};
	static const uint32_t whole[] = {0, 1, 4, 7, 8, 0x7fffffff, 0x80000000, 0xffffffff};
	float f;
	uint32_t bits;

	switch (draw(4)) {
	case 0:
		return whole[draw(8)];
	case 1:
		f = floats[draw(16)];
		break;
	default:
		f = (float)draw(1 << 16) / 4096 - 4;
	}
	memcpy(&bits, &f, 4);
	return bits;
}

/* Of what the structure says nothing is touched but its elements. */
static void no_position_is_outside(void **state)
{
	static const uint8_t bytes[] = {1, 2, 4, 8, 16};
	char *memory = guarded();

	for (unsigned n = 0; n < 300000; n++) {
		struct texture t = draw_texture(memory);
		unsigned operation = draw(5), geometry = draw(7);
		uint32_t word = texture_word(operation, geometry), operands[OPERAND_WORDS],
			 out[RESULT_WORDS];

		if (operation >= SURFACE_LOAD && geometry > GEOMETRY_A2D)
			continue;
		for (unsigned k = 0; k < OPERAND_WORDS; k++)
			operands[k] = draw_number();
		if (operation >= SURFACE_LOAD)
			word |= TEXTURE_SELECT(draw(3)) | TEXTURE_NUMBER(bytes[draw(5)]);
		else if (operation == TEXTURE_QUERY)
			word |= TEXTURE_NUMBER(draw(9));
		else
			word |= TEXTURE_LOD(draw(3)) | TEXTURE_SELECT(draw(4)) |
				(geometry < GEOMETRY_CUBE && draw(2) ? TEXTURE_INTEGERS : 0) |
				(geometry < GEOMETRY_CUBE && draw(2) ? TEXTURE_OFFSETS : 0);
		texture_execute(word, (uintptr_t)&t, operands, out);
	}
	munmap(memory - GUARD, MOST_BYTES + 2 * GUARD);
}

/* Each thread of a block has its own position, and branches around fetches are as any. */
static void threads_fetch_what_is_theirs(void **state)
{
	static const char text[] =
		".version 8.7\n.target sm_90\n.address_size 64\n"
		".entry k(.param .u64 h, .param .u64 o)\n{\n"
		".reg .b64 %h, %o, %a;\n.reg .b32 %r<8>, %t;\n.reg .pred %p;\n"
		"ld.param.u64 %h, [h];\nld.param.u64 %o, [o];\nmov.u32 %t, %tid.x;\n"
		"mul.wide.u32 %a, %t, 4;\nadd.u64 %o, %o, %a;\nmov.u32 %r0, 77;\n"
		"and.b32 %r5, %t, 1;\nsetp.eq.u32 %p, %r5, 0;\n"
		"@%p tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%h, {%t}];\n"
		"bar.sync 0;\nst.global.u32 [%o], %r0;\nret;\n}\n";
	uint32_t memory[100], out[100] = {0};
	struct texture t = plain(memory, TEXTURE_U32, 1, 100, 1, 1);
	const void *params[] = {&t, out};
	struct program p;

	for (uint32_t k = 0; k < 100; k++)
		memory[k] = k * k;
	load_text(&p, text);
	assert_int_equal(
		run(&p, (struct run){.kernel = "k", .block = {100}, .params = params}), RAN);
	unload(&p);
	for (uint32_t k = 0; k < 100; k++)
		assert_int_equal(out[k], k % 2 ? 77 : k * k);
}

static void references_are_structures_of_the_module(void **state)
{
	static const char text[] =
		".version 4.0\n.target sm_20\n.address_size 64\n"
		".global .texref image;\n.tex .u64 old;\n.global .surfref area;\n"
		".entry k(.param .u64 o)\n{\n.reg .b64 %o;\n.reg .b32 %r<4>;\n.reg .f32 %f;\n"
		"ld.param.u64 %o, [o];\nmov.f32 %f, 0f3FC00000;\n"
		"tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [image, {%f, %f}];\n"
		"st.global.u32 [%o], %r0;\nret;\n}\n";
	float memory[] = {1, 2, 3, 4}, out = 0;
	const void *params[] = {&out};
	uint64_t offset, size;
	struct program p;

	load_text(&p, text);
	assert_int_equal(ptx_global_find(p.module, "image", &offset, &size), 0);
	assert_int_equal(size, sizeof(struct texture));
	assert_int_equal(ptx_global_find(p.module, "old", &offset, &size), 0);
	assert_int_equal(size, sizeof(struct texture));
	assert_int_equal(((struct texture *)((char *)p.globals + offset))->magic, TEXTURE_MAGIC);
	assert_int_equal(ptx_global_find(p.module, "image", &offset, &size), 0);
	assert_int_equal(run(&p, (struct run){.kernel = "k", .params = params}), TRAPPED);
	*(struct texture *)((char *)p.globals + offset) = plain(memory, TEXTURE_F32, 1, 2, 2, 1);
	assert_int_equal(run(&p, (struct run){.kernel = "k", .params = params}), RAN);
	assert_true(out == 4);
	unload(&p);
}

static void what_is_not_there_is_said(void **state)
{
	static const char *const bad[] = {
		KERNEL("tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, %h, {%f0, %f1}];\n"),
		KERNEL("tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%f0}];\n"),
		KERNEL("tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%f0, %f1}], %f2;\n"),
		KERNEL("tex.cube.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%h, {%f0, %f1, %f2}];\n"),
		KERNEL("suld.p.2d.v4.b32.trap {%r0, %r1, %r2, %r3}, [%h, {%f0, %f1}];\n"),
		KERNEL("suld.b.2d.v4.b64.trap {%d0, %d1, %d2, %d3}, [%h, {%f0, %f1}];\n"),
		KERNEL("sured.b.add.2d.u32.trap [%h, {%f0, %f1}], %r0;\n"),
		KERNEL("txq.filter_mode.b32 %r0, [%h];\n"),
	};

	for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
		struct program p;

		if (!error_of(&p, bad[k], "k"))
			fail_msg("compiled: %s", bad[k]);
		assert_non_null(strstr(p.log, "not supported"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_are_found_by_every_mode),
		cmocka_unit_test(whole_numbers_are_positions),
		cmocka_unit_test(channels_are_decoded),
		cmocka_unit_test(integers_are_read_as_they_are),
		cmocka_unit_test(positions_have_their_dimensions),
		cmocka_unit_test(directions_meet_faces),
		cmocka_unit_test(cubes_are_filtered_across_edges),
		cmocka_unit_test(levels_are_chosen),
		cmocka_unit_test(four_elements_are_gathered),
		cmocka_unit_test(queries_are_answered),
		cmocka_unit_test(surfaces_are_read),
		cmocka_unit_test(surfaces_are_written),
		cmocka_unit_test(handles_of_nothing_end_the_kernel),
		cmocka_unit_test(what_is_checked_is_what_is_used),
		cmocka_unit_test(no_position_is_outside),
		cmocka_unit_test(threads_fetch_what_is_theirs),
		cmocka_unit_test(references_are_structures_of_the_module),
		cmocka_unit_test(what_is_not_there_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

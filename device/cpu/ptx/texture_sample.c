/* SPDX-License-Identifier: MIT
 *
 * Sampling: what tex and tld4 read, by the formulas of CUDA's programming guide, "Texture Fetching". Positions are in
 * elements; a weight of linear filtering has 8 bits behind the point, as in hardware. What is read and filtered is four
 * words: floats, or integers where the object reads those as they are.
 */
#include <math.h>
#include <string.h>

#include "device/cpu/ptx/half.h"
#include "device/cpu/ptx/texture.h"

/* Where along an axis: one element, or two with the weight of the second in 1/256. -1: the border. */
struct axis {
	int64_t at[2];
	uint32_t weight;
};

/* What an instruction's position is within a level. */
struct place {
	const struct texture *level;
	struct axis axes[3];
	unsigned dimensions;
	uint32_t layer; /* 0 where there are none */
	bool seamless;
};

typedef float floats __attribute__((vector_size(16)));

struct color {
	union {
		floats f;
		uint32_t u[4];
		int32_t s[4];
	};
};

static float as_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

/* ---- elements ---- */

static bool reads_integers(const struct texture *t)
{
	return t->format == TEXTURE_U32 || t->format == TEXTURE_S32 ||
	       (t->flags & TEXTURE_INTEGER && t->format < TEXTURE_F16);
}

static float decode_srgb(float c)
{
	return c <= 0.04045f ? c / 12.92f : powf((c + 0.055f) / 1.055f, 2.4f);
}

static float fraction(float value, float most)
{
	return value < -most ? -1 : value / most;
}

/* 8 and 16 bits. */
static void decode_small(const struct texture *t, const char *p, struct color *color)
{
	static const float most[] = {[TEXTURE_U8] = 255,
		[TEXTURE_U16] = 65535,
		[TEXTURE_S8] = 127,
		[TEXTURE_S16] = 32767};
	bool integers = reads_integers(t);

	for (unsigned k = 0; k < t->channels; k++) {
		uint16_t u;
		int32_t v;

		if (t->format == TEXTURE_U8 || t->format == TEXTURE_S8) {
			v = (uint8_t)p[k];
			if (t->format == TEXTURE_S8 && v > INT8_MAX)
				v -= 1 << 8;
		} else {
			memcpy(&u, p + 2 * k, sizeof u);
			v = t->format == TEXTURE_S16 ? (int16_t)u : u;
		}
		if (integers)
			color->s[k] = v;
		else
			color->f[k] = fraction((float)v, most[t->format]);
		if (!integers && t->flags & TEXTURE_SRGB && t->format == TEXTURE_U8 && k < 3)
			color->f[k] = decode_srgb(color->f[k]);
	}
}

static void decode_halves(const struct texture *t, const char *p, struct color *color)
{
	for (unsigned k = 0; k < t->channels; k++) {
		uint16_t half;

		memcpy(&half, p + 2 * k, sizeof half);
		color->f[k] = half_value(half);
	}
}

/* Channels that an element has not are 0, and the fourth is 1. */
static inline struct color color_at(const struct texture *t, uint64_t address)
{
	const char *p = (const char *)(uintptr_t)address;
	struct color color = {.u = {0, 0, 0, 1}};

	if (!reads_integers(t))
		color.f[3] = 1;
	switch (t->format) {
	case TEXTURE_U32:
	case TEXTURE_S32:
	case TEXTURE_F32:
		if (t->channels == 1)
			memcpy(&color, p, 4);
		else
			memcpy(&color, p, 4u * t->channels);
		break;
	case TEXTURE_F16:
		decode_halves(t, p, &color);
		break;
	default:
		decode_small(t, p, &color);
	}
	return color;
}

static struct color border_of(const struct texture *t)
{
	struct color color;

	memcpy(&color, t->border, sizeof color);
	return color;
}

/* ---- the faces of a cube ---- */

/* By the guide's table: which face a direction meets, and where, from 0 to 1. */
static uint32_t cube_face(float x, float y, float z, float *s, float *t)
{
	float ax = fabsf(x), ay = fabsf(y), az = fabsf(z), m;
	uint32_t face;

	if (ax >= ay && ax >= az) {
		face = x < 0 ? 1 : 0;
		m = ax, *s = x < 0 ? z : -z, *t = -y;
	} else if (ay >= az) {
		face = y < 0 ? 3 : 2;
		m = ay, *s = x, *t = y < 0 ? -z : z;
	} else {
		face = z < 0 ? 5 : 4;
		m = az, *s = z < 0 ? -x : x, *t = -y;
	}
	*s = (*s / m + 1) / 2;
	*t = (*t / m + 1) / 2;
	return face;
}

/* The other way round: s and t from -1 to 1, and beyond. */
static void cube_direction(uint32_t face, float s, float t, float direction[3])
{
	const float directions[6][3] = {
		{1, -t, -s}, {-1, -t, s}, {s, 1, t}, {s, -1, -t}, {s, -t, 1}, {-s, -t, -1}};

	memcpy(direction, directions[face], sizeof directions[face]);
}

/* An element beyond the edge of a face is on the face next to it. */
static void cross_edge(const struct texture *level, uint32_t *layer, int64_t at[3])
{
	float size = (float)level->width, direction[3], s, t;
	uint32_t face = *layer % 6;

	if (at[0] >= 0 && at[0] < level->width && at[1] >= 0 && at[1] < level->height)
		return;
	cube_direction(face, 2 * ((float)at[0] + 0.5f) / size - 1,
		2 * ((float)at[1] + 0.5f) / size - 1, direction);
	*layer = *layer - face + cube_face(direction[0], direction[1], direction[2], &s, &t);
	at[0] = (int64_t)fminf(s * size, size - 1);
	at[1] = (int64_t)fminf(t * size, size - 1);
}

/* ---- positions ---- */

/* Rounded down, within what positions can be; 0 for what is no number. */
static inline int64_t whole(double x)
{
	int64_t i;

	if (!(x > -0x1p30))
		return x <= -0x1p30 ? -(1 << 30) : 0;
	if (x >= 0x1p30)
		return 1 << 30;
	i = (int64_t)x;
	return i - (x < (double)i);
}

static int64_t modulo(int64_t a, int64_t n)
{
	int64_t m = a % n;

	return m < 0 ? m + n : m;
}

static inline int64_t address(int64_t at, int64_t size, unsigned mode)
{
	switch (mode) {
	case TEXTURE_WRAP:
		return modulo(at, size);
	case TEXTURE_MIRROR:
		at = modulo(at, 2 * size);
		return at < size ? at : 2 * size - 1 - at;
	case TEXTURE_BORDER:
		return at < 0 || at >= size ? -1 : at;
	}
	return at < 0 ? 0 : at >= size ? size - 1 : at;
}

/* In elements, of what the program says. */
static inline double position(float x, uint32_t size, unsigned mode, bool normalised)
{
	double f, part;

	if (!normalised)
		return (double)x;
	if (mode != TEXTURE_WRAP && mode != TEXTURE_MIRROR)
		return (double)x * size;
	f = floor((double)x);
	part = (double)x - f;
	return (mode == TEXTURE_MIRROR && fmod(f, 2) != 0 ? 1 - part : part) * size;
}

static inline struct axis axis_linear(double x, int64_t size, unsigned mode, int32_t offset)
{
	int64_t fixed = whole((x - 0.5) * 256 + 0.5), first = (fixed >> 8) + offset;

	return (struct axis){{address(first, size, mode), address(first + 1, size, mode)},
		(uint32_t)(fixed & 255)};
}

static inline struct axis axis_nearest(double x, int64_t size, unsigned mode, int32_t offset)
{
	return (struct axis){.at = {address(whole(x) + offset, size, mode)}};
}

/* ---- filtering ---- */

static struct color element_of_cube(const struct texture *t, const struct place *p, unsigned corner)
{
	int64_t at[3] = {p->axes[0].at[corner & 1], p->axes[1].at[corner >> 1 & 1]};
	uint32_t layer = p->layer;

	cross_edge(p->level, &layer, at);
	if (layer >= p->level->depth) /* it is no cube */
		layer = p->level->depth - 1;
	return color_at(t, p->level->address + (uint64_t)layer * p->level->slice +
				   (uint64_t)at[1] * p->level->pitch +
				   (uint64_t)at[0] * texture_element_bytes(t));
}

static inline struct color element(const struct texture *t, const struct place *p, unsigned corner)
{
	const struct texture *level = p->level;
	int64_t x = p->axes[0].at[corner & 1], y = 0, z = p->layer;

	if (p->seamless)
		return element_of_cube(t, p, corner);
	if (p->dimensions > 1)
		y = p->axes[1].at[corner >> 1 & 1];
	if (p->dimensions > 2)
		z = p->axes[2].at[corner >> 2];
	if ((x | y | z) < 0)
		return border_of(t);
	return color_at(t, level->address + (uint64_t)z * level->slice +
				   (uint64_t)y * level->pitch +
				   (uint64_t)x * texture_element_bytes(t));
}

/* The weights of an axis's two elements. */
static inline void weights(const struct axis *axis, float w[2])
{
	w[1] = (float)axis->weight / 256;
	w[0] = 1 - w[1];
}

static struct color filter(const struct texture *t, const struct place *p)
{
	struct color sum = {.u = {0}};
	float w[3][2] = {{1, 0}, {1, 0}, {1, 0}};

	for (unsigned d = 0; d < p->dimensions; d++)
		weights(&p->axes[d], w[d]);
	for (unsigned corner = 0; corner < 1u << p->dimensions; corner++) {
		float weight = w[0][corner & 1] * w[1][corner >> 1 & 1] * w[2][corner >> 2];

		if (weight != 0)
			sum.f += weight * element(t, p, corner).f;
	}
	return sum;
}

/* ---- levels ---- */

static unsigned dimensions_of(unsigned geometry)
{
	static const uint8_t dimensions[] = {1, 2, 3, 1, 2, 2, 2};

	return dimensions[geometry];
}

static bool has_layers(unsigned geometry)
{
	return geometry == GEOMETRY_A1D || geometry == GEOMETRY_A2D || geometry == GEOMETRY_ACUBE;
}

static bool is_cube(unsigned geometry)
{
	return geometry == GEOMETRY_CUBE || geometry == GEOMETRY_ACUBE;
}

/* The layer that an instruction names, or the nearest that there is; of cubes the first face. */
static uint32_t layer_of(const struct texture *level, unsigned geometry, const uint32_t *operands)
{
	uint32_t faces = is_cube(geometry) ? 6 : 1, layers = level->depth / faces;
	uint32_t layer = has_layers(geometry) ? operands[OPERAND_LAYER] : 0;

	if (layer >= layers)
		layer = layers ? layers - 1 : 0;
	return layer * faces;
}

/* The position of an instruction in a level; linear: with two elements an axis. */
static struct place place_of(const struct texture *t, const struct texture *level, uint32_t word,
	const uint32_t *operands, bool linear)
{
	unsigned geometry = texture_geometry(word);
	const uint32_t sizes[3] = {level->width, level->height, level->depth};
	struct place p = {.level = level, .dimensions = dimensions_of(geometry)};
	bool normalised = t->flags & TEXTURE_NORMALISED, cube = is_cube(geometry);
	float at[3];

	for (unsigned d = 0; d < 3; d++)
		at[d] = as_float(operands[d]);
	p.layer = layer_of(level, geometry, operands);
	if (cube)
		p.layer += cube_face(at[0], at[1], at[2], &at[0], &at[1]);
	if (p.layer >= level->depth) /* it is no cube */
		p.layer = level->depth - 1;
	p.seamless = cube && linear && t->flags & TEXTURE_SEAMLESS && level->width == level->height;
	for (unsigned d = 0; d < p.dimensions; d++) {
		unsigned mode = cube ? TEXTURE_CLAMP : t->address_mode[d];
		int32_t offset = word & TEXTURE_OFFSETS ? (int32_t)operands[OPERAND_OFFSET + d] : 0;
		double x = position(at[d], sizes[d], mode, normalised || cube);

		p.axes[d] = linear ? axis_linear(x, sizes[d], mode, offset)
				   : axis_nearest(x, sizes[d], mode, offset);
		if (p.seamless) { /* beyond the edges, which cross_edge() looks for */
			int64_t fixed = whole((x - 0.5) * 256 + 0.5);

			p.axes[d] = (struct axis){
				{fixed >> 8, (fixed >> 8) + 1}, (uint32_t)(fixed & 255)};
		}
	}
	return p;
}

static struct color sample(const struct texture *t, const struct texture *level, uint32_t word,
	const uint32_t *operands)
{
	bool linear = t->filter && !reads_integers(t);
	struct place p = place_of(t, level, word, operands, linear);

	return linear ? filter(t, &p) : element(t, &p, 0);
}

/* Which level the change of the position from one thread to the next asks for. */
static float lod_of_gradients(
	const struct texture *t, const uint32_t *operands, unsigned dimensions)
{
	const uint32_t sizes[3] = {t->width, t->height, t->depth};
	float most = 0;

	for (unsigned direction = 0; direction < 2; direction++) {
		float square = 0;

		for (unsigned d = 0; d < dimensions; d++) {
			float change = as_float(operands[OPERAND_LOD + 3 * direction + d]);

			if (t->flags & TEXTURE_NORMALISED)
				change *= (float)sizes[d];
			square += change * change;
		}
		most = fmaxf(most, square);
	}
	return most > 0 ? log2f(most) / 2 : -1000;
}

static float lod_of(const struct texture *t, uint32_t word, const uint32_t *operands)
{
	float lod = 0, last = (float)(t->levels - 1);

	if (texture_lod(word) == LOD_LEVEL)
		lod = as_float(operands[OPERAND_LOD]);
	else if (texture_lod(word) == LOD_GRADIENTS)
		lod = lod_of_gradients(t, operands, dimensions_of(texture_geometry(word)));
	lod = fminf(fmaxf(lod + t->bias, t->level_min), t->level_max);
	return lod > 0 ? fminf(lod, last) : 0;
}

static struct color sample_level(
	const struct texture *t, uint32_t level, uint32_t word, const uint32_t *operands)
{
	struct texture l = *t;

	texture_level(&l, level);
	return sample(t, &l, word, operands);
}

static struct color sample_levels(const struct texture *t, uint32_t word, const uint32_t *operands)
{
	float lod = lod_of(t, word, operands);
	uint32_t fixed = (uint32_t)(lod * 256 + 0.5f), first = fixed >> 8;
	float weight = (float)(fixed & 255) / 256;
	struct color a, b;

	if (!t->level_filter || reads_integers(t))
		return sample_level(t, (uint32_t)(lod + 0.5f), word, operands);
	a = sample_level(t, first, word, operands);
	if (weight == 0)
		return a;
	b = sample_level(t, first + 1, word, operands);
	a.f = (1 - weight) * a.f + weight * b.f;
	return a;
}

/* ---- whole numbers as positions ---- */

static struct color fetch_whole(const struct texture *t, uint32_t word, const uint32_t *operands)
{
	unsigned geometry = texture_geometry(word);
	struct place p = {.level = t, .dimensions = dimensions_of(geometry)};
	const uint32_t sizes[3] = {t->width, t->height, t->depth};

	p.layer = layer_of(t, geometry, operands);
	for (unsigned d = 0; d < p.dimensions; d++) {
		int32_t offset = word & TEXTURE_OFFSETS ? (int32_t)operands[OPERAND_OFFSET + d] : 0;
		bool border = t->address_mode[d] == TEXTURE_BORDER;

		p.axes[d].at[0] = address((int64_t)(int32_t)operands[d] + offset, sizes[d],
			border ? TEXTURE_BORDER : TEXTURE_CLAMP);
	}
	return element(t, &p, 0);
}

/* ---- the instructions ---- */

void texture_fetch(const struct texture *t, uint32_t word, const uint32_t *operands, uint32_t *out)
{
	struct texture l;
	struct color color;

	if (word & TEXTURE_INTEGERS && texture_lod(word) == LOD_LEVEL) {
		uint32_t level = operands[OPERAND_LOD];

		l = *t;
		texture_level(&l, level < t->levels ? level : t->levels - 1);
		color = fetch_whole(&l, word, operands);
	} else if (word & TEXTURE_INTEGERS) {
		color = fetch_whole(t, word, operands);
	} else if (t->levels > 1) {
		color = sample_levels(t, word, operands);
	} else {
		color = sample(t, t, word, operands);
	}
	memcpy(out, &color, sizeof color);
}

/* The four elements that linear filtering would weigh, counter-clockwise from the lower left. */
void texture_gather(const struct texture *t, uint32_t word, const uint32_t *operands, uint32_t *out)
{
	static const uint8_t corners[4] = {2, 3, 1, 0};
	struct place p = place_of(t, t, word, operands, true);

	for (unsigned k = 0; k < 4; k++)
		out[k] = element(t, &p, corners[k]).u[texture_select(word)];
}

/* SPDX-License-Identifier: MIT
 *
 * Sampling: what tex and tld4 read, by the formulas of CUDA's programming guide, "Texture Fetching". Positions are in
 * elements; a weight of linear filtering has 8 bits behind the point, as in hardware. What is read and filtered is four
 * words: floats, or integers where the object reads those as they are.
 */
#include <math.h>
#include <string.h>

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
	uint32_t layer;
	bool layered, seamless;
};

union channel {
	float f;
	uint32_t u;
	int32_t s;
};

struct color {
	union channel c[4];
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

static union channel decode(const struct texture *t, const char *p, unsigned channel)
{
	bool integers = reads_integers(t);
	union channel c = {.u = 0};
	_Float16 half;
	uint16_t u16;
	int16_t s16;
	int8_t s8;

	switch (t->format) {
	case TEXTURE_U8:
		c.u = (uint8_t)p[channel];
		if (!integers)
			c.f = (float)c.u / 255;
		if (!integers && t->flags & TEXTURE_SRGB && channel < 3)
			c.f = decode_srgb(c.f);
		break;
	case TEXTURE_S8:
		memcpy(&s8, p + channel, sizeof s8);
		c.s = s8;
		if (!integers)
			c.f = fraction((float)s8, 127);
		break;
	case TEXTURE_U16:
		memcpy(&u16, p + 2 * channel, sizeof u16);
		c.u = u16;
		if (!integers)
			c.f = (float)u16 / 65535;
		break;
	case TEXTURE_S16:
		memcpy(&s16, p + 2 * channel, sizeof s16);
		c.s = s16;
		if (!integers)
			c.f = fraction((float)s16, 32767);
		break;
	case TEXTURE_F16:
		memcpy(&half, p + 2 * channel, sizeof half);
		c.f = (float)half;
		break;
	default:
		memcpy(&c, p + 4 * channel, sizeof c);
	}
	return c;
}

/* Channels that an element has not are 0, and the fourth is 1. */
static struct color color_at(const struct texture *t, uint64_t address)
{
	const char *p = (const char *)(uintptr_t)address;
	struct color color = {.c = {{.u = 0}, {.u = 0}, {.u = 0}, {.u = 1}}};

	if (!reads_integers(t))
		color.c[3].f = 1;
	for (unsigned k = 0; k < t->channels; k++)
		color.c[k] = decode(t, p, k);
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

static int64_t whole(double x)
{
	double limit = 1 << 30;

	if (!(x > -limit)) /* also what is no number */
		return x <= -limit ? -(1 << 30) : 0;
	return (int64_t)floor(x < limit ? x : limit);
}

static int64_t modulo(int64_t a, int64_t n)
{
	int64_t m = a % n;

	return m < 0 ? m + n : m;
}

static int64_t address(int64_t at, int64_t size, unsigned mode)
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
static double position(float x, uint32_t size, unsigned mode, bool normalised)
{
	double f = floor((double)x), part = (double)x - f;

	if (!normalised)
		return (double)x;
	if (mode == TEXTURE_WRAP)
		return part * size;
	if (mode == TEXTURE_MIRROR)
		return (fmod(f, 2) != 0 ? 1 - part : part) * size;
	return (double)x * size;
}

static struct axis axis_linear(double x, int64_t size, unsigned mode, int32_t offset)
{
	int64_t fixed = whole((x - 0.5) * 256 + 0.5), first = (fixed >> 8) + offset;

	return (struct axis){{address(first, size, mode), address(first + 1, size, mode)},
		(uint32_t)(fixed & 255)};
}

static struct axis axis_nearest(double x, int64_t size, unsigned mode, int32_t offset)
{
	return (struct axis){.at = {address(whole(x) + offset, size, mode)}};
}

/* ---- filtering ---- */

static struct color element(const struct texture *t, const struct place *p, unsigned corner)
{
	const struct texture *level = p->level;
	uint32_t layer = p->layer;
	int64_t at[3] = {0};

	for (unsigned d = 0; d < p->dimensions; d++)
		at[d] = p->axes[d].at[corner >> d & 1];
	if (p->seamless)
		cross_edge(level, &layer, at);
	for (unsigned d = 0; d < p->dimensions; d++)
		if (at[d] < 0)
			return border_of(t);
	return color_at(level, level->address +
				       (uint64_t)(p->layered ? layer : at[2]) * level->slice +
				       (uint64_t)at[1] * level->pitch +
				       (uint64_t)at[0] * texture_element_bytes(level));
}

static struct color filter(const struct texture *t, const struct place *p)
{
	struct color sum = {.c = {{.u = 0}}};

	for (unsigned corner = 0; corner < 1u << p->dimensions; corner++) {
		float weight = 1;

		for (unsigned d = 0; d < p->dimensions; d++) {
			uint32_t second = p->axes[d].weight;

			weight *= (float)(corner >> d & 1 ? second : 256 - second) / 256;
		}
		if (weight == 0)
			continue;
		struct color c = element(t, p, corner);
		for (unsigned k = 0; k < 4; k++)
			sum.c[k].f += weight * c.c[k].f;
	}
	return sum;
}

/* ---- levels ---- */

static unsigned dimensions_of(unsigned geometry)
{
	static const uint8_t dimensions[] = {1, 2, 3, 1, 2, 2, 2};

	return dimensions[geometry];
}

static bool is_cube(unsigned geometry)
{
	return geometry == GEOMETRY_CUBE || geometry == GEOMETRY_ACUBE;
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
	p.layered = geometry >= GEOMETRY_A1D;
	if (geometry != GEOMETRY_CUBE && p.layered)
		p.layer = operands[OPERAND_LAYER];
	if (cube)
		p.layer = p.layer * 6 + cube_face(at[0], at[1], at[2], &at[0], &at[1]);
	if (p.layer >= level->depth)
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
	for (unsigned k = 0; k < 4; k++)
		a.c[k].f = (1 - weight) * a.c[k].f + weight * b.c[k].f;
	return a;
}

/* ---- whole numbers as positions ---- */

static struct color fetch_whole(const struct texture *t, uint32_t word, const uint32_t *operands)
{
	unsigned geometry = texture_geometry(word);
	struct place p = {.level = t, .dimensions = dimensions_of(geometry)};
	const uint32_t sizes[3] = {t->width, t->height, t->depth};

	p.layered = geometry >= GEOMETRY_A1D;
	p.layer = p.layered ? operands[OPERAND_LAYER] : 0;
	if (p.layer >= t->depth)
		p.layer = t->depth - 1;
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

	if (word & TEXTURE_INTEGERS) {
		l = *t;
		if (texture_lod(word) == LOD_LEVEL) {
			uint32_t level = operands[OPERAND_LOD];

			texture_level(&l, level < t->levels ? level : t->levels - 1);
		}
		color = fetch_whole(&l, word, operands);
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
		out[k] = element(t, &p, corners[k]).c[texture_select(word)].u;
}

/* SPDX-License-Identifier: MIT
 *
 * See print.h. Each conversion is checked and rebuilt before the C library sees it, with its width
 * and precision bounded, so that a hostile format asks for nothing but text. A string is copied by
 * our own loop: a bad pointer faults there and nowhere else.
 */
#include "device/cpu/print.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define WIDTH_MAX 1024
#define STRING_MAX (64u << 10) /* a string without end must not print memory for ever */

/* One conversion, parsed. */
struct conversion {
	char flags[8];
	int width, precision; /* -1: none */
	bool wide;            /* 64 bits */
	char type;
};

struct arguments {
	const char *base;
	size_t offset;
	int taken;
};

static void put(struct print_buffer *buffer, const char *bytes, size_t length)
{
	while (length) {
		size_t room = sizeof buffer->bytes - buffer->used;
		size_t some = min_of(room, length);

		memcpy(buffer->bytes + buffer->used, bytes, some);
		buffer->used += some;
		bytes += some;
		length -= some;
		if (buffer->used == sizeof buffer->bytes)
			print_flush(buffer);
	}
}

static void put_repeated(struct print_buffer *buffer, char c, int count)
{
	while (count-- > 0)
		put(buffer, &c, 1);
}

void print_flush(struct print_buffer *buffer)
{
	if (buffer->used)
		buffer->out(buffer->owner, buffer->bytes, buffer->used);
	buffer->used = 0;
}

/* Reads byte by byte: nothing beyond the terminator may be touched. */
static size_t string_length(const char *string, size_t most)
{
	const volatile char *at = string;
	size_t length = 0;

	while (length < most && at[length])
		length++;
	return length;
}

static void put_string(struct print_buffer *buffer, const char *string)
{
	if (!string)
		string = "(null)";
	put(buffer, string, string_length(string, STRING_MAX));
}

static uint64_t take(struct arguments *arguments, size_t bytes)
{
	uint64_t value = 0;

	arguments->offset = align_up(arguments->offset, bytes);
	if (arguments->base)
		memcpy(&value, arguments->base + arguments->offset, bytes);
	arguments->offset += bytes;
	arguments->taken++;
	return value;
}

/* Digits, or '*' for an argument. Bounded, -1 when there is neither. */
static int parse_number(const char **at, struct arguments *arguments)
{
	int number = 0;
	const char *start = *at;

	if (**at == '*') {
		int32_t value = (int32_t)take(arguments, 4);
		++*at;
		return value < -WIDTH_MAX ? -WIDTH_MAX : min_of(value, WIDTH_MAX);
	}
	for (; **at >= '0' && **at <= '9'; ++*at)
		number = min_of(number * 10 + (**at - '0'), WIDTH_MAX);
	return *at == start ? -1 : number;
}

static void parse_flags(struct conversion *c, const char **at)
{
	size_t count = 0;

	for (; **at && strchr("-+ #0", **at); ++*at)
		if (!memchr(c->flags, **at, count))
			c->flags[count++] = **at;
	c->flags[count] = '\0';
}

static void parse_conversion(struct conversion *c, const char **at, struct arguments *arguments)
{
	bool star;

	memset(c, 0, sizeof *c);
	parse_flags(c, at);
	star = **at == '*';
	c->width = parse_number(at, arguments);
	if (star && c->width < 0) { /* a negative width from an argument means '-' */
		if (!strchr(c->flags, '-'))
			strcat(c->flags, "-");
		c->width = -c->width;
	}
	c->precision = -1;
	if (**at == '.') {
		++*at;
		star = **at == '*';
		c->precision = parse_number(at, arguments);
		if (c->precision < 0)
			c->precision = star ? -1 : 0;
	}
	for (; **at && strchr("hlLqjzt", **at); ++*at)
		c->wide |= **at != 'h' && **at != 'L';
	c->type = **at;
	if (c->type)
		++*at;
}

static void put_string_conversion(
	struct print_buffer *buffer, const struct conversion *c, const char *string)
{
	size_t most = c->precision >= 0 ? (size_t)c->precision : STRING_MAX;
	bool left = strchr(c->flags, '-') != NULL;
	size_t length;
	int padding;

	if (!string)
		string = "(null)";
	length = string_length(string, most);
	padding = c->width > (int)length ? c->width - (int)length : 0;
	put_repeated(buffer, ' ', left ? 0 : padding);
	put(buffer, string, length);
	put_repeated(buffer, ' ', left ? padding : 0);
}

/* "%", flags, width, precision, `length` and the type, for snprintf. */
static void rebuild(const struct conversion *c, const char *length, char type, char out[64])
{
	int used = snprintf(out, 64, "%%%s", c->flags);

	if (c->width >= 0)
		used += snprintf(out + used, 64 - (size_t)used, "%d", c->width);
	if (c->precision >= 0)
		used += snprintf(out + used, 64 - (size_t)used, ".%d", c->precision);
	snprintf(out + used, 64 - (size_t)used, "%s%c", length, type);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
/* A value that snprintf formats; a double needs up to 309 digits besides its precision. */
static void put_value(struct print_buffer *buffer, const struct conversion *c, uint64_t value)
{
	char format[64], text[WIDTH_MAX + 512];
	double real;
	int length;

	switch (c->type) {
	case 'd':
	case 'i':
		rebuild(c, "ll", c->type, format);
		length = snprintf(text, sizeof text, format,
			c->wide ? (long long)value : (long long)(int32_t)value);
		break;
	case 'c':
		rebuild(c, "", 'c', format);
		length = snprintf(text, sizeof text, format, (int)value);
		break;
	case 'p':
		rebuild(c, "", 'p', format);
		length = snprintf(text, sizeof text, format, (void *)(uintptr_t)value);
		break;
	case 'o':
	case 'u':
	case 'x':
	case 'X':
		rebuild(c, "ll", c->type, format);
		length = snprintf(text, sizeof text, format, (unsigned long long)value);
		break;
	default:
		memcpy(&real, &value, sizeof real);
		rebuild(c, "", c->type, format);
		length = snprintf(text, sizeof text, format, real);
	}
	if (length > 0)
		put(buffer, text, min_of((size_t)length, sizeof text - 1));
}
#pragma GCC diagnostic pop

static void put_conversion(
	struct print_buffer *buffer, const struct conversion *c, struct arguments *arguments)
{
	if (c->type == 's')
		put_string_conversion(buffer, c, (const char *)(uintptr_t)take(arguments, 8));
	else if (strchr("eEfFgGaAp", c->type))
		put_value(buffer, c, take(arguments, 8));
	else
		put_value(buffer, c, take(arguments, c->wide ? 8 : 4));
}

int print_format(struct print_buffer *buffer, const char *format, const void *args)
{
	struct arguments arguments = {args, 0, 0};
	const char *at = format, *start;
	size_t left = STRING_MAX;

	if (!format)
		return -1;
	while (*at && (size_t)(at - format) < left) {
		struct conversion c;

		if (*at != '%') {
			put(buffer, at++, 1);
			continue;
		}
		start = at++;
		if (*at == '%') {
			put(buffer, at++, 1);
			continue;
		}
		parse_conversion(&c, &at, &arguments);
		if (c.type && strchr("diouxXcpseEfFgGaA", c.type))
			put_conversion(buffer, &c, &arguments);
		else
			put(buffer, start, (size_t)(at - start)); /* unknown: as it stands */
	}
	return arguments.taken;
}

void print_assert(struct print_buffer *buffer, const char *message, const char *file, uint32_t line,
	const char *function, const uint32_t block[3], const uint32_t thread[3])
{
	char text[192];

	put_string(buffer, file);
	snprintf(text, sizeof text, ":%u: ", line);
	put_string(buffer, text);
	put_string(buffer, function);
	snprintf(text, sizeof text, ": block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `", block[0],
		block[1], block[2], thread[0], thread[1], thread[2]);
	put_string(buffer, text);
	put_string(buffer, message);
	put_string(buffer, "` failed.\n");
}

/* SPDX-License-Identifier: MIT
 *
 * The lexer. Never reads past `end`; every byte sequence gives tokens, the last of them TOKEN_END.
 */
#include "device/cpu/ptx/lex.h"

#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
	       c == '$';
}

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* White space and comments. */
static bool skip_blank(struct lexer *l)
{
	const char *start = l->at;

	while (l->at < l->end) {
		char c = *l->at;

		if (c == '\n')
			l->line++;
		if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f' ||
			!c) {
			l->at++;
		} else if (c == '/' && l->end - l->at > 1 && l->at[1] == '/') {
			lex_skip_line(l);
		} else if (c == '/' && l->end - l->at > 1 && l->at[1] == '*') {
			for (l->at += 2; l->at < l->end; l->at++) {
				if (*l->at == '\n')
					l->line++;
				if (*l->at == '*' && l->end - l->at > 1 && l->at[1] == '/')
					break;
			}
			l->at = l->end - l->at > 1 ? l->at + 2 : l->end;
		} else {
			break;
		}
	}
	return l->at != start;
}

void lex_skip_line(struct lexer *l)
{
	while (l->at < l->end && *l->at != '\n')
		l->at++;
}

/* 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX */
static bool lex_float_bits(struct lexer *l, struct token *t)
{
	int digits = 0, want;

	if (l->end - l->at < 3 || l->at[0] != '0')
		return false;
	if (l->at[1] == 'f' || l->at[1] == 'F')
		want = 8;
	else if (l->at[1] == 'd' || l->at[1] == 'D')
		want = 16;
	else
		return false;
	uint64_t bits = 0;
	const char *p = l->at + 2;
	while (p < l->end && digits < want && hex_value(*p) >= 0) {
		bits = bits << 4 | (unsigned)hex_value(*p++);
		digits++;
	}
	if (digits != want)
		return false;
	l->at = p;
	t->kind = TOKEN_FLOAT;
	t->bits = bits;
	t->literal = want / 2;
	return true;
}

static bool lex_decimal_float(struct lexer *l, struct token *t)
{
	char text[64], *stop;
	size_t n = 0;
	bool point = false;

	for (const char *p = l->at; p < l->end && n < sizeof(text) - 1; p++) {
		bool sign = (*p == '+' || *p == '-') && n && (p[-1] == 'e' || p[-1] == 'E');

		if (!is_digit(*p) && *p != '.' && *p != 'e' && *p != 'E' && !sign)
			break;
		point |= *p == '.' || *p == 'e' || *p == 'E';
		text[n++] = *p;
	}
	text[n] = 0;
	if (!point)
		return false;
	double value = strtod(text, &stop);
	if (stop == text)
		return false;
	l->at += stop - text;
	t->kind = TOKEN_FLOAT;
	t->literal = 8;
	memcpy(&t->bits, &value, 8);
	return true;
}

static void lex_number(struct lexer *l, struct token *t)
{
	unsigned base = 10;

	if (lex_float_bits(l, t))
		return;
	if (*l->at == '0' && l->end - l->at > 1) {
		char c = l->at[1];

		if (c == 'x' || c == 'X')
			base = 16;
		else if ((c == 'b' || c == 'B') && l->end - l->at > 2 &&
			 (l->at[2] == '0' || l->at[2] == '1'))
			base = 2;
		else if (is_digit(c))
			base = 8;
		if (base == 16 || base == 2)
			l->at += 2;
	}
	if (base == 10 && lex_decimal_float(l, t))
		return;
	t->kind = TOKEN_INT;
	while (l->at < l->end) {
		int digit = hex_value(*l->at);

		if (digit < 0 || (unsigned)digit >= base)
			break;
		t->bits = t->bits * base + (unsigned)digit;
		l->at++;
	}
	if (l->at < l->end && *l->at == 'U')
		l->at++;
	if (l->at < l->end && is_word(*l->at))
		t->kind = TOKEN_BAD;
}

static void lex_string(struct lexer *l, struct token *t)
{
	t->text = ++l->at;
	while (l->at < l->end && *l->at != '"' && *l->at != '\n')
		l->at += *l->at == '\\' && l->end - l->at > 1 ? 2 : 1;
	if (l->at > l->end)
		l->at = l->end;
	t->length = (size_t)(l->at - t->text);
	t->kind = l->at < l->end && *l->at == '"' ? TOKEN_STRING : TOKEN_BAD;
	if (l->at < l->end)
		l->at++;
}

/* What stands behind a dotted word and says more about it. */
static bool ends_cluster(const char *begin, const char *end)
{
	static const char name[] = "::cluster";

	return (size_t)(end - begin) == sizeof(name) - 1 && !memcmp(begin, name, sizeof(name) - 1);
}

static void lex_word(struct lexer *l, struct token *t)
{
	t->kind = TOKEN_WORD;
	if (*l->at == '.') {
		t->kind = TOKEN_DOTTED;
		t->text = ++l->at;
	} else {
		l->at++;
	}
	while (l->at < l->end && is_word(*l->at))
		l->at++;
	t->length = (size_t)(l->at - t->text);
	if (t->kind == TOKEN_DOTTED)
		while (l->end - l->at > 2 && l->at[0] == ':' && l->at[1] == ':' &&
			is_word(l->at[2]))
			for (l->at += 2; l->at < l->end && is_word(*l->at);)
				l->at++;
	t->cluster = ends_cluster(t->text + t->length, l->at);
}

void lex_next(struct lexer *l, struct token *t)
{
	*t = (struct token){.spaced = skip_blank(l)};
	t->line = l->line;
	t->text = l->at;
	if (l->at >= l->end)
		return;
	char c = *l->at, next = l->end - l->at > 1 ? l->at[1] : 0;
	if (is_digit(c))
		lex_number(l, t);
	else if (c == '"')
		lex_string(l, t);
	else if (is_word(c) || (c == '%' && is_word(next)) || (c == '.' && is_word(next)))
		lex_word(l, t);
	else {
		t->kind = TOKEN_MARK;
		l->at++;
	}
	if (t->kind != TOKEN_WORD && t->kind != TOKEN_DOTTED && t->kind != TOKEN_STRING)
		t->length = (size_t)(l->at - t->text);
}

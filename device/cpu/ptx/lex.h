/* SPDX-License-Identifier: MIT
 *
 * Tokens of PTX text. A word is an identifier with its leading % or $; a dotted word is `.name`,
 * where a qualifier `.name::more` keeps only `name` as its text.
 */
#ifndef GDEV_DEVICE_CPU_PTX_LEX_H
#define GDEV_DEVICE_CPU_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,
	TOKEN_DOTTED,
	TOKEN_INT,   /* bits */
	TOKEN_FLOAT, /* bits; literal: 4 or 8 bytes */
	TOKEN_STRING,
	TOKEN_MARK, /* text[0] */
	TOKEN_BAD,
};

struct token {
	uint8_t kind, literal;
	bool spaced;  /* white space before it */
	bool cluster; /* a dotted word, of which `::cluster` was left out */
	uint32_t line;
	const char *text; /* without the dot or the quotes */
	size_t length;
	uint64_t bits;
};

struct lexer {
	const char *at, *end;
	uint32_t line;
};

void lex_next(struct lexer *lexer, struct token *token);
void lex_skip_line(struct lexer *lexer);

#endif

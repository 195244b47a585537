/* SPDX-License-Identifier: MIT
 *
 * The parser's state, shared by its files: parse.c (directives and functions), parse_var.c
 * (variables and initial values), parse_inst.c (instructions), symbols.c (names and scopes).
 * The first error is written to the log and turns every later token into TOKEN_END, so that code
 * need not check after each step.
 */
#ifndef GDEV_DEVICE_CPU_PTX_PARSE_H
#define GDEV_DEVICE_CPU_PTX_PARSE_H

#include "device/cpu/ptx/ir.h"
#include "device/cpu/ptx/lex.h"

enum symbol_kind { SYMBOL_VARIABLE, SYMBOL_REG, SYMBOL_LABEL, SYMBOL_FUNCTION, SYMBOL_TARGETS };

struct symbol {
	struct symbol *next_in_bucket, *next_in_scope;
	const char *name;
	size_t length;
	uint64_t hash;
	uint8_t kind;
	unsigned depth;
	uint32_t id;    /* register or label */
	uint32_t count; /* registers: 0 for one, n for a range `name<n>` */
	struct variable *var;
	struct function *function;
	struct operand *targets; /* .branchtargets */
	uint32_t target_count;
};

enum { SYMBOL_BUCKETS = 4096 };

struct scope {
	struct symbol *symbols;
};

struct parser {
	struct lexer lexer;
	struct token tok;
	struct ptx_module *module;
	struct ptx_log *log;
	int error;
	struct symbol *buckets[SYMBOL_BUCKETS];
	struct scope scopes[PTX_MAX_NESTING];
	unsigned depth;
	bool in_body;
	bool in_pair;     /* of results: there is no pair in it */
	bool in_textures; /* the state space at hand is .tex */
	struct function *function;
	struct arena scratch; /* symbols; freed after parsing */
	uint32_t *label_alias;
};

/* Errors: the first one counts. */
void parse_error(struct parser *p, uint32_t line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void parse_unsupported(struct parser *p, uint32_t line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void *parse_alloc(struct parser *p, size_t bytes);

/* Tokens. */
void parse_next(struct parser *p);
bool parse_is(const struct parser *p, char mark);
bool parse_accept(struct parser *p, char mark);
void parse_expect(struct parser *p, char mark);
bool parse_is_dotted(const struct parser *p, const char *name);
bool token_is(const struct token *t, const char *name);

/* symbols.c */
struct symbol *symbol_find(struct parser *p, const char *name, size_t length);
struct symbol *symbol_add(struct parser *p, const char *name, size_t length, unsigned kind);
void scope_push(struct parser *p);
void scope_pop(struct parser *p);
/* row: the registers have numbers behind the name. */
uint32_t reg_add(struct parser *p, unsigned type, const char *name, bool row, uint32_t count);
/* The register of that name, or PTX_NONE. */
uint32_t reg_find(struct parser *p, const char *name, size_t length);
uint32_t label_use(struct parser *p, const char *name, size_t length);
void label_define(struct parser *p, const char *name, size_t length);
/* After the body: every label resolved or an error. */
void labels_finish(struct parser *p);

/* parse_var.c */
struct variable *parse_variable(struct parser *p, unsigned space, bool is_extern, bool in_list);
void parse_reserved(struct parser *p);
void parse_reg_declaration(struct parser *p);

/* parse_inst.c */
void parse_instruction(struct parser *p);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The parser's outer layer: module directives, functions, statements that are not instructions.
 */
#include "device/cpu/ptx/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ptx/log.h"

/* ---- errors ---- */

void parse_error(struct parser *p, uint32_t line, const char *format, ...)
{
	va_list args;

	if (!p->error) {
		p->error = -EINVAL;
		va_start(args, format);
		ptx_log_line(p->log, line, format, args);
		va_end(args);
	}
	p->tok = (struct token){.kind = TOKEN_END, .line = line, .text = ""};
}

/* The body ends there; parse_body() goes on behind it. */
static void refuse_function(struct parser *p, uint32_t line, const char *what)
{
	char text[260];
	int length = snprintf(text, sizeof(text), "%s is not supported by the software GPU", what);

	p->function->refused = arena_string(&p->module->arena, text, (size_t)length);
	p->function->refused_line = line;
	if (!p->function->refused)
		p->error = -ENOMEM;
}

void parse_unsupported(struct parser *p, uint32_t line, const char *format, ...)
{
	char what[200];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (!p->error) {
		parse_error(p, line, "%s is not supported by the software GPU", what);
		p->error = -ENOTSUP;
		if (p->in_body)
			refuse_function(p, line, what);
	}
	p->tok = (struct token){.kind = TOKEN_END, .line = line, .text = ""};
}

/* SIZE_MAX reports an allocation that failed elsewhere. */
void *parse_alloc(struct parser *p, size_t bytes)
{
	void *memory = bytes == SIZE_MAX ? NULL : arena_alloc(&p->scratch, bytes ? bytes : 1);

	if (!memory) {
		if (!p->error)
			p->error = -ENOMEM;
		p->tok = (struct token){.kind = TOKEN_END, .text = ""};
	}
	return memory;
}

/* ---- tokens ---- */

void parse_next(struct parser *p)
{
	if (!p->error)
		lex_next(&p->lexer, &p->tok);
}

bool token_is(const struct token *t, const char *name)
{
	return strlen(name) == t->length && !memcmp(t->text, name, t->length);
}

bool parse_is(const struct parser *p, char mark)
{
	return p->tok.kind == TOKEN_MARK && *p->tok.text == mark;
}

bool parse_accept(struct parser *p, char mark)
{
	if (!parse_is(p, mark))
		return false;
	parse_next(p);
	return true;
}

void parse_expect(struct parser *p, char mark)
{
	if (!parse_accept(p, mark))
		parse_error(p, p->tok.line, "Parsing error near '%.*s': '%c' expected",
			(int)(p->tok.length < 40 ? p->tok.length : 40), p->tok.text, mark);
}

bool parse_is_dotted(const struct parser *p, const char *name)
{
	return p->tok.kind == TOKEN_DOTTED && token_is(&p->tok, name);
}

/* ---- directives inside functions ---- */

static void parse_branch_targets(struct parser *p, const struct token *name)
{
	struct symbol *s = symbol_add(p, name->text, name->length, SYMBOL_TARGETS);
	unsigned capacity = 0;

	parse_next(p);
	do {
		if (!s || p->tok.kind != TOKEN_WORD) {
			parse_error(p, p->tok.line, "Label expected");
			return;
		}
		s->targets = arena_grow(&p->module->arena, s->targets, s->target_count,
			sizeof(*s->targets), &capacity);
		if (!s->targets) {
			parse_alloc(p, SIZE_MAX);
			return;
		}
		s->targets[s->target_count++] = (struct operand){
			.kind = OPERAND_LABEL, .id = label_use(p, p->tok.text, p->tok.length)};
		parse_next(p);
	} while (!p->error && parse_accept(p, ','));
	parse_expect(p, ';');
}

static void skip_statement(struct parser *p)
{
	while (!p->error && p->tok.kind != TOKEN_END && !parse_is(p, ';'))
		parse_next(p);
	parse_expect(p, ';');
}

static void parse_after_label(struct parser *p, const struct token *name)
{
	if (parse_is_dotted(p, "branchtargets")) {
		parse_branch_targets(p, name);
	} else if (parse_is_dotted(p, "calltargets")) {
		symbol_add(p, name->text, name->length, SYMBOL_TARGETS);
		skip_statement(p);
	} else if (parse_is_dotted(p, "callprototype")) {
		symbol_add(p, name->text, name->length, SYMBOL_TARGETS);
		skip_statement(p);
	} else {
		label_define(p, name->text, name->length);
	}
}

/* A number of this line, or 0. */
static uint32_t number_of_line(struct parser *p, uint32_t line)
{
	uint32_t number;

	if (p->tok.kind != TOKEN_INT || p->tok.line != line || p->tok.bits > UINT32_MAX)
		return 0;
	number = (uint32_t)p->tok.bits;
	parse_next(p);
	return number;
}

/* .loc FILE LINE …: where the PTX behind it comes from. */
static void note_location(struct parser *p, uint32_t at)
{
	struct ptx_module *m = p->module;
	uint32_t file = number_of_line(p, at), line = number_of_line(p, at);

	struct location *grown = arena_grow(
		&m->arena, m->locations, m->location_count, sizeof(*grown), &m->location_capacity);

	if (!grown) {
		parse_alloc(p, SIZE_MAX);
		return;
	}
	m->locations = grown;
	m->locations[m->location_count++] = (struct location){at, file, line};
}

/* .file NUMBER "NAME" … */
static void note_file(struct parser *p, uint32_t at)
{
	struct ptx_module *m = p->module;
	uint32_t number = number_of_line(p, at);
	struct source_file *file;
	const char *name;

	if (p->tok.kind != TOKEN_STRING || p->tok.line != at)
		return;
	file = arena_alloc(&m->arena, sizeof(*file));
	name = arena_string(&m->arena, p->tok.text, p->tok.length);
	if (!file || !name) {
		parse_alloc(p, SIZE_MAX);
		return;
	}
	*file = (struct source_file){m->files, number, name};
	m->files = file;
}

/* .loc, .file and .section: to the end of the line, or of the braces. */
static void read_debug(struct parser *p)
{
	bool section = parse_is_dotted(p, "section"), location = parse_is_dotted(p, "loc");
	uint32_t line = p->tok.line;

	if (!section) {
		parse_next(p);
		if (location)
			note_location(p, line);
		else
			note_file(p, line);
		while (!p->error && p->tok.kind != TOKEN_END && p->tok.line == line) {
			lex_skip_line(&p->lexer);
			parse_next(p);
		}
		return;
	}
	while (!p->error && p->tok.kind != TOKEN_END && !parse_is(p, '{'))
		parse_next(p);
	parse_accept(p, '{');
	while (!p->error && p->tok.kind != TOKEN_END && !parse_is(p, '}')) {
		lex_skip_line(&p->lexer);
		parse_next(p);
	}
	parse_accept(p, '}');
}

static const struct {
	const char *name;
	uint8_t space;
} spaces[] = {{"local", SPACE_LOCAL}, {"shared", SPACE_SHARED}, {"param", SPACE_PARAM},
	{"global", SPACE_GLOBAL}, {"const", SPACE_CONST},
	{"tex", SPACE_GLOBAL}}; /* of texture references, before there was their type */

static unsigned parse_space(struct parser *p)
{
	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++)
		if (parse_is_dotted(p, spaces[i].name)) {
			p->in_textures = !strcmp(spaces[i].name, "tex");
			parse_next(p);
			return spaces[i].space;
		}
	return SPACE_GENERIC;
}

/* A .global or .const declared inside a function belongs to the module. */
static void parse_local_variable(struct parser *p, unsigned space)
{
	struct function *f = p->function;

	if (space == SPACE_GLOBAL || space == SPACE_CONST)
		p->function = NULL;
	parse_variable(p, space, false, false);
	p->function = f;
}

static void parse_directive(struct parser *p)
{
	unsigned space;

	if (parse_is_dotted(p, "loc") || parse_is_dotted(p, "file") ||
		parse_is_dotted(p, "section")) {
		read_debug(p);
	} else if (parse_is_dotted(p, "pragma")) {
		skip_statement(p);
	} else if (parse_is_dotted(p, "reg")) {
		parse_next(p);
		parse_reg_declaration(p);
	} else {
		space = parse_space(p);
		if (space)
			parse_local_variable(p, space);
		else
			parse_error(p, p->tok.line, "Parsing error near '.%.*s': syntax error",
				(int)p->tok.length, p->tok.text);
	}
}

static void parse_statement(struct parser *p)
{
	if (p->tok.kind == TOKEN_DOTTED) {
		parse_directive(p);
	} else if (parse_is(p, '{')) {
		parse_next(p);
		scope_push(p);
	} else if (parse_is(p, ';')) {
		parse_next(p);
	} else if (p->tok.kind == TOKEN_WORD) {
		struct lexer lexer = p->lexer;
		struct token name = p->tok;

		parse_next(p);
		if (parse_accept(p, ':')) {
			parse_after_label(p, &name);
			return;
		}
		p->lexer = lexer;
		p->tok = name;
		parse_instruction(p);
	} else {
		parse_instruction(p);
	}
}

/* A function that cannot be compiled is no reason to refuse the others of its module: what comes behind its body is
 * read as ever. `at` is where the lexer was behind the body's brace. */
static void skip_body(struct parser *p, const struct lexer *at, unsigned depth)
{
	unsigned open = 1;

	while (p->depth > depth)
		scope_pop(p);
	p->function->inst_count = p->function->label_count = 0;
	p->in_pair = false;
	p->error = 0;
	p->lexer = *at;
	while (open && !p->error) {
		parse_next(p);
		open += parse_is(p, '{');
		open -= parse_is(p, '}');
		if (p->tok.kind == TOKEN_END)
			parse_error(p, p->tok.line, "Parsing error near end of text: '}' expected");
	}
	parse_next(p);
}

static void parse_body(struct parser *p)
{
	unsigned depth = p->depth;
	struct lexer at = p->lexer; /* behind the brace */

	p->in_body = true;
	parse_expect(p, '{');
	while (!p->error) {
		if (p->tok.kind == TOKEN_END) {
			parse_error(p, p->tok.line, "Parsing error near end of text: '}' expected");
		} else if (parse_is(p, '}')) {
			parse_next(p);
			if (p->depth == depth)
				break;
			scope_pop(p);
		} else {
			parse_statement(p);
		}
	}
	p->in_body = false;
	p->function->has_body = true;
	if (p->error == -ENOTSUP)
		skip_body(p, &at, depth);
	else
		labels_finish(p);
}

/* ---- functions ---- */

static struct variable **parse_params(struct parser *p, uint32_t *count)
{
	struct variable **list = NULL;
	unsigned capacity = 0;

	parse_expect(p, '(');
	while (!p->error && !parse_is(p, ')')) {
		if (parse_is_dotted(p, "reg"))
			parse_unsupported(p, p->tok.line, "Register parameter");
		if (!parse_is_dotted(p, "param"))
			parse_error(p, p->tok.line, "Parsing error near '%.*s': parameter expected",
				(int)p->tok.length, p->tok.text);
		parse_next(p);
		struct variable *v = parse_variable(p, SPACE_PARAM, false, true);
		list = arena_grow(&p->module->arena, list, *count, sizeof(*list), &capacity);
		if (!list)
			parse_alloc(p, SIZE_MAX);
		else if (!p->error)
			list[(*count)++] = v;
		if (!parse_accept(p, ','))
			break;
	}
	parse_expect(p, ')');
	return p->error ? NULL : list;
}

static uint32_t parse_count(struct parser *p)
{
	uint64_t value = p->tok.bits;

	if (p->tok.kind != TOKEN_INT || value > UINT32_MAX)
		parse_error(p, p->tok.line, "Integer expected");
	parse_next(p);
	return (uint32_t)value;
}

static void parse_shape(struct parser *p, uint32_t shape[3])
{
	shape[0] = shape[1] = shape[2] = 1;
	for (unsigned i = 0; i < 3; i++) {
		shape[i] = parse_count(p);
		if (!parse_accept(p, ','))
			break;
	}
}

static void parse_performance_directives(struct parser *p)
{
	struct function *f = p->function;
	uint32_t shape[3];

	while (!p->error && p->tok.kind == TOKEN_DOTTED) {
		bool max = parse_is_dotted(p, "maxntid"), required = parse_is_dotted(p, "reqntid");
		bool number = parse_is_dotted(p, "minnctapersm") || parse_is_dotted(p, "maxnreg") ||
			      parse_is_dotted(p, "maxnctapersm") ||
			      parse_is_dotted(p, "maxclusterrank");
		bool cluster = parse_is_dotted(p, "reqnctapercluster");

		if (parse_is_dotted(p, "pragma")) {
			skip_statement(p);
			continue;
		}
		if (parse_is_dotted(p, "loc")) {
			read_debug(p);
			continue;
		}
		parse_next(p);
		if (max || required || cluster) {
			parse_shape(p, shape);
			uint64_t threads = (uint64_t)shape[0] * shape[1] * shape[2];

			if (!cluster && threads && threads <= UINT32_MAX)
				f->max_threads = (uint32_t)threads;
			if (required)
				memcpy(f->required, shape, sizeof(shape));
			if (cluster)
				memcpy(f->cluster, shape, sizeof(shape));
		} else if (number) {
			parse_count(p);
		} else if (p->tok.kind == TOKEN_WORD && token_is(&p->tok, "_")) {
			parse_next(p); /* .abi_preserve and friends take a number or `_` */
		}
	}
}

static struct function *function_declare(struct parser *p, const struct token *name, bool entry)
{
	struct symbol *s = symbol_find(p, name->text, name->length);
	struct function *f;

	if (s && (s->kind != SYMBOL_FUNCTION || s->function->has_body)) {
		parse_error(p, name->line, "Duplicate definition of '%.*s'", (int)name->length,
			name->text);
		return NULL;
	}
	if (s)
		return s->function;
	f = arena_alloc(&p->module->arena, sizeof(*f));
	s = symbol_add(p, name->text, name->length, SYMBOL_FUNCTION);
	if (!f || !s) {
		parse_alloc(p, SIZE_MAX);
		return NULL;
	}
	s->function = f;
	f->name = s->name;
	f->is_entry = entry;
	f->index = p->module->function_count++;
	*p->module->functions_tail = f;
	p->module->functions_tail = &f->next;
	return f;
}

static void parse_function(struct parser *p, bool entry)
{
	struct variable **results = NULL, **params = NULL, *vars;
	uint32_t result_count = 0, param_count = 0, line = p->tok.line;
	struct function none = {0};
	struct token name;

	parse_next(p);
	scope_push(p);
	p->function = &none; /* parameters are linked to it until the function is known */
	if (!entry && parse_is(p, '('))
		results = parse_params(p, &result_count);
	name = p->tok;
	if (name.kind != TOKEN_WORD)
		parse_error(p, name.line, "Parsing error near '%.*s': function name expected",
			(int)name.length, name.text);
	parse_next(p);
	if (!p->error && parse_is(p, '('))
		params = parse_params(p, &param_count);
	vars = none.vars;
	p->function = NULL;
	if (!p->error) {
		unsigned depth = p->depth;

		p->depth = 0; /* the name belongs to the module */
		p->function = function_declare(p, &name, entry);
		p->depth = depth;
	}
	struct function *f = p->function;
	if (p->error || !f) {
		scope_pop(p);
		p->function = NULL;
		return;
	}
	f->line = line;
	f->params = params;
	f->param_count = param_count;
	f->results = results;
	f->result_count = result_count;
	f->vars = vars;
	for (struct variable *v = vars; v; v = v->next)
		v->owner = f;
	parse_performance_directives(p);
	if (parse_is(p, '{'))
		parse_body(p);
	else
		parse_expect(p, ';');
	scope_pop(p);
	p->function = NULL;
}

/* ---- the module ---- */

static void parse_version(struct parser *p)
{
	char text[16];
	double version = 0;

	parse_next(p);
	if (p->tok.kind == TOKEN_FLOAT && p->tok.length < sizeof(text)) {
		memcpy(text, p->tok.text, p->tok.length);
		text[p->tok.length] = 0;
		version = strtod(text, NULL);
	}
	if (version >= 1 && version < 100)
		p->module->version = (uint32_t)(version * 10 + 0.5);
	else
		parse_error(p, p->tok.line, "Missing .version number");
	parse_next(p);
}

static void parse_target(struct parser *p)
{
	do {
		parse_next(p);
		if (p->tok.kind == TOKEN_WORD && p->tok.length > 3 && p->tok.length < 12 &&
			!memcmp(p->tok.text, "sm_", 3))
			for (size_t i = 3; i < p->tok.length; i++)
				if (p->tok.text[i] >= '0' && p->tok.text[i] <= '9')
					p->module->target = p->module->target * 10 +
							    (uint32_t)(p->tok.text[i] - '0');
		if (p->tok.kind != TOKEN_WORD)
			parse_error(p, p->tok.line, "Bad .target");
		parse_next(p);
	} while (!p->error && parse_is(p, ','));
}

static void parse_alias(struct parser *p)
{
	struct token name;
	struct symbol *s;

	parse_next(p);
	name = p->tok;
	parse_next(p);
	parse_expect(p, ',');
	s = symbol_find(p, p->tok.text, p->tok.length);
	struct symbol *declared = symbol_find(p, name.text, name.length);
	if (!s || s->kind != SYMBOL_FUNCTION || !declared || declared->kind != SYMBOL_FUNCTION)
		parse_error(p, name.line, "Bad .alias");
	else
		declared->function = s->function;
	parse_next(p);
	parse_expect(p, ';');
}

static void parse_module_item(struct parser *p)
{
	bool is_extern = false;
	unsigned space;

	while (parse_is_dotted(p, "visible") || parse_is_dotted(p, "extern") ||
		parse_is_dotted(p, "weak") || parse_is_dotted(p, "common")) {
		is_extern |= parse_is_dotted(p, "extern");
		parse_next(p);
	}
	if (parse_is_dotted(p, "entry") || parse_is_dotted(p, "func")) {
		parse_function(p, parse_is_dotted(p, "entry"));
	} else if (parse_is_dotted(p, "version")) {
		parse_version(p);
	} else if (parse_is_dotted(p, "target")) {
		parse_target(p);
	} else if (parse_is_dotted(p, "address_size")) {
		parse_next(p);
		if (p->tok.bits == 32)
			parse_unsupported(p, p->tok.line, "Address size 32");
		parse_next(p);
	} else if (parse_is_dotted(p, "alias")) {
		parse_alias(p);
	} else if (parse_is_dotted(p, "loc") || parse_is_dotted(p, "file") ||
		   parse_is_dotted(p, "section")) {
		read_debug(p);
	} else if (parse_is_dotted(p, "pragma")) {
		skip_statement(p);
	} else if (!parse_is(p, ';') && (space = parse_space(p))) {
		parse_variable(p, space, is_extern, false);
	} else if (!parse_accept(p, ';')) {
		parse_error(p, p->tok.line, "Parsing error near '%.*s': syntax error",
			(int)(p->tok.length < 40 ? p->tok.length : 40), p->tok.text);
	}
}

static void hash_text(const char *text, size_t length, uint64_t hash[2])
{
	uint64_t a = 0xcbf29ce484222325ull, b = 0x9e3779b97f4a7c15ull ^ length;

	for (size_t i = 0; i < length; i++) {
		a = (a ^ (uint8_t)text[i]) * 0x100000001b3ull;
		b = (b + (uint8_t)text[i]) * 0xff51afd7ed558ccdull;
		b ^= b >> 29;
	}
	hash[0] = a;
	hash[1] = b;
}

static int parse_module(struct parser *p)
{
	parse_reserved(p);
	parse_next(p);
	if (!p->error && !parse_is_dotted(p, "version"))
		parse_error(p, p->tok.line, "Missing .version directive at start of file");
	while (!p->error && p->tok.kind != TOKEN_END)
		parse_module_item(p);
	while (p->depth)
		scope_pop(p);
	if (p->error == -EINVAL || p->error == -ENOTSUP)
		ptx_log_fatal(p->log);
	return p->error ? p->error : module_layout(p->module, p->log);
}

int ptx_parse(const char *text, size_t length, struct ptx_log *log, struct ptx_module **out)
{
	struct parser *p = calloc(1, sizeof(*p));
	struct ptx_module *module = calloc(1, sizeof(*module));
	int error = -ENOMEM;

	if (!p || !module)
		goto err_free;
	while (length && !text[length - 1])
		length--;
	module->functions_tail = &module->functions;
	p->module = module;
	p->log = log;
	p->lexer = (struct lexer){.at = text, .end = text + length, .line = 1};
	p->tok.text = "";
	if (length > PTX_MAX_BYTES) {
		error = -EINVAL;
		goto err_free;
	}
	hash_text(text, length, module->text_hash);
	error = parse_module(p);
	arena_finish(&p->scratch);
	if (error)
		goto err_free;
	free(p);
	*out = module;
	return 0;

err_free:
	free(p);
	ptx_module_destroy(module);
	return error;
}

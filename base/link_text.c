/* SPDX-License-Identifier: MIT
 *
 * See link_text.h. A text is cut into the statements of its module's scope. What two texts call by one name is one symbol if
 * both say that it is visible outside (.visible, .extern, .weak, .common; entries always); else the private one gets another
 * name in its text. Then all statements are put together, in an order in which each symbol is declared before it is used:
 * prototypes of functions, variables, functions. A declaration of what another text defines goes, and so do weak definitions,
 * of kernels, too, that another text has. Of extern shared memory the declaration with the highest alignment stays.
 *
 * What tells lines of source (.file, .loc, .section) is left out: each text numbers its files anew.
 */
#include "base/link_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum kind { KIND_FUNCTION, KIND_VARIABLE, KIND_OTHER };
enum linkage { PRIVATE, EXTERN, WEAK, VISIBLE }; /* the higher defines what both define */

struct statement {
	const char *begin, *end; /* within its text */
	const char *body;        /* of a function: its brace, or NULL */
	size_t text;
	enum kind kind;
	enum linkage linkage;
	const char *name; /* NULL: it has none */
	size_t name_length;
	bool renamed; /* private, and another text uses its name */
	bool dropped;
};

struct linking {
	char *const *texts;
	size_t count;
	struct statement *statements;
	size_t used, room;
	const char *version, *target; /* the highest of all texts; to the line's end */
	char *why;
	size_t why_bytes;
};

static int wrong(struct linking *l, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(l->why, l->why_bytes, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* ---- tokens ---- */

static bool in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* Skips blanks and comments. */
static const char *skip(const char *at)
{
	for (;;) {
		if (isspace((unsigned char)*at))
			at++;
		else if (at[0] == '/' && at[1] == '/')
			at += strcspn(at, "\n");
		else if (at[0] == '/' && at[1] == '*' && strstr(at + 2, "*/"))
			at = strstr(at + 2, "*/") + 2;
		else
			return at;
	}
}

/* The end of the token at `at`, which is none of skip()'s: a name or number, a string, or one character. */
static const char *token_end(const char *at)
{
	const char *end = at;

	if (*at == '"') {
		end = strchr(at + 1, '"');
		return end ? end + 1 : at + strlen(at);
	}
	while (in_name(*end))
		end++;
	return end > at ? end : at + 1;
}

static bool token_is(const char *at, const char *end, const char *word)
{
	return (size_t)(end - at) == strlen(word) && !memcmp(at, word, (size_t)(end - at));
}

static const char *line_end(const char *at)
{
	return at + strcspn(at, "\n");
}

/* ---- statements ---- */

/* Whether the number `name` begins with is the higher one. */
static bool is_higher(const char *line, const char *than, const char *format)
{
	unsigned major = 0, minor = 0, other_major = 0, other_minor = 0;

	if (!than)
		return true;
	sscanf(line, format, &major, &minor);
	sscanf(than, format, &other_major, &other_minor);
	return major != other_major ? major > other_major : minor > other_minor;
}

/* A directive that has a line of its own, or a section: its end, or NULL if it is none. */
static const char *directive_end(struct linking *l, const char *at, const char *end)
{
	if (token_is(at, end, ".version")) {
		if (is_higher(skip(end), l->version, "%u.%u"))
			l->version = skip(end);
	} else if (token_is(at, end, ".target")) {
		if (is_higher(skip(end), l->target, "sm_%u"))
			l->target = skip(end);
	} else if (token_is(at, end, ".section")) {
		return strchr(at, '}') ? strchr(at, '}') + 1 : NULL;
	} else if (!token_is(at, end, ".address_size") && !token_is(at, end, ".file") &&
		   !token_is(at, end, ".loc")) {
		return NULL;
	}
	return line_end(at);
}

static enum linkage linkage_of(const char *at, const char *end)
{
	return token_is(at, end, ".extern")                                 ? EXTERN
	       : token_is(at, end, ".weak") || token_is(at, end, ".common") ? WEAK
	       : token_is(at, end, ".visible")                              ? VISIBLE
									    : PRIVATE;
}

static bool begins_variable(const char *at, const char *end)
{
	static const char *const spaces[] = {".global", ".const", ".shared", ".local", ".tex",
		".texref", ".samplerref", ".surfref"};

	for (size_t i = 0; i < array_length(spaces); i++)
		if (token_is(at, end, spaces[i]))
			return true;
	return false;
}

/* Takes a token of the module's scope, outside all braces and parentheses. */
static void take_token(struct statement *s, const char *at, const char *end)
{
	enum linkage linkage = linkage_of(at, end);

	if (linkage != PRIVATE)
		s->linkage = linkage;
	else if (token_is(at, end, ".entry") || token_is(at, end, ".func"))
		s->kind = KIND_FUNCTION;
	else if (s->kind == KIND_OTHER && begins_variable(at, end))
		s->kind = KIND_VARIABLE;
	if (token_is(at, end, ".entry") && s->linkage == PRIVATE)
		s->linkage = VISIBLE;
	if (!s->name && s->kind != KIND_OTHER &&
		(isalpha((unsigned char)*at) || *at == '_' || *at == '$')) {
		s->name = at;
		s->name_length = (size_t)(end - at);
	}
}

/* Reads the statement at `at` into *s: its end, or NULL. */
static const char *read_statement(struct linking *l, const char *at, struct statement *s)
{
	const char *end;
	int depth = 0;

	for (s->begin = at; *at; at = skip(end)) {
		end = token_end(at);
		if (*at == '{' && !depth && s->kind == KIND_FUNCTION)
			s->body = at;
		if (strchr("{([", *at))
			depth++;
		else if (strchr("})]", *at))
			depth--;
		else if (!depth && *at == ',' && s->kind == KIND_VARIABLE)
			return NULL; /* several variables: no compiler writes so */
		else if (!depth)
			take_token(s, at, end);
		if (!depth && (*at == ';' || (*at == '}' && s->body))) {
			s->end = end;
			return end;
		}
	}
	return NULL;
}

static int statement_add(struct linking *l, const struct statement *s)
{
	if (l->used == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct statement *more = realloc(l->statements, room * sizeof *more);

		if (!more)
			return -ENOMEM;
		l->statements = more;
		l->room = room;
	}
	l->statements[l->used++] = *s;
	return 0;
}

static int cut(struct linking *l, size_t text)
{
	const char *at = skip(l->texts[text]), *next;
	int error = 0;

	for (; *at && !error; at = skip(next)) {
		struct statement s = {.text = text, .kind = KIND_OTHER};

		next = directive_end(l, at, token_end(at));
		if (next)
			continue;
		next = read_statement(l, at, &s);
		if (!next)
			return wrong(l,
				"input %zu: what begins with \"%.*s\" is no statement of PTX",
				text + 1, (int)min_of(strcspn(at, "\n"), (size_t)60), at);
		error = statement_add(l, &s);
	}
	return error;
}

/* ---- symbols ---- */

static bool same_name(const struct statement *a, const struct statement *b)
{
	return a->name && b->name && a->name_length == b->name_length &&
	       !memcmp(a->name, b->name, a->name_length);
}

/* A private variable or function is declared and defined by statements of its own text alone. Extern shared memory without a
 * size is everybody's own. */
static bool is_declaration(const struct statement *s)
{
	return s->kind == KIND_FUNCTION ? !s->body : s->linkage == EXTERN;
}

/* Of two statements of one text about one name: a function's prototype is made of its definition. */
static void settle_own(struct statement *a, struct statement *b)
{
	if (a->kind == KIND_FUNCTION && b->kind == KIND_FUNCTION && (!a->body || !b->body))
		*(b->body ? &a->dropped : &b->dropped) = true;
}

/* The number behind .align, or 0. */
static unsigned long alignment_of(const struct statement *s)
{
	for (const char *at = s->begin; at < s->name; at = skip(token_end(at)))
		if (token_is(at, token_end(at), ".align"))
			return strtoul(skip(token_end(at)), NULL, 10);
	return 0;
}

/* Of two of which one at least is a declaration: a definition stays, or what has the higher alignment, as each text's extern
 * shared memory has its own. */
static void settle_declared(struct statement *a, struct statement *b)
{
	bool keep_b =
		is_declaration(a) && (!is_declaration(b) || alignment_of(a) < alignment_of(b));

	*(keep_b ? &a->dropped : &b->dropped) = true;
}

/* Two statements of different texts about one name. */
static int settle(struct linking *l, struct statement *a, struct statement *b)
{
	if (a->linkage == PRIVATE || b->linkage == PRIVATE) {
		struct statement *private = a->linkage == PRIVATE ? a : b;

		private->renamed = true;
		return 0;
	}
	if (a->dropped || b->dropped)
		return 0;
	if (a->kind != b->kind)
		return wrong(l, "%.*s is a function and a variable", (int)a->name_length, a->name);
	if (is_declaration(a) || is_declaration(b)) {
		settle_declared(a, b);
		return 0;
	}
	if (a->linkage == VISIBLE && b->linkage == VISIBLE)
		return wrong(l, "%.*s is defined by inputs %zu and %zu", (int)a->name_length,
			a->name, a->text + 1, b->text + 1);
	*(b->linkage == WEAK ? &b->dropped : &a->dropped) = true;
	return 0;
}

static int settle_all(struct linking *l)
{
	int error = 0;

	for (size_t i = 0; i < l->used && !error; i++)
		for (size_t k = i + 1; k < l->used && !error; k++) {
			struct statement *a = &l->statements[i], *b = &l->statements[k];

			if (!same_name(a, b))
				continue;
			if (a->text == b->text)
				settle_own(a, b);
			else
				error = settle(l, a, b);
		}
	return error;
}

/* The statement of this text that gives the token's name another one, or NULL. */
static const struct statement *renaming(
	const struct linking *l, size_t text, const char *at, const char *end)
{
	struct statement token = {.name = at, .name_length = (size_t)(end - at)};

	for (size_t i = 0; i < l->used; i++)
		if (l->statements[i].renamed && l->statements[i].text == text &&
			same_name(&l->statements[i], &token))
			return &l->statements[i];
	return NULL;
}

/* ---- writing ---- */

/* Without comments and what tells lines; a private name that others use gets the input's number behind it. */
static void write_part(
	FILE *out, const struct linking *l, size_t text, const char *at, const char *stop)
{
	for (at = skip(at); at < stop;) {
		const char *end = token_end(at), *next = skip(end);

		if (token_is(at, end, ".loc")) {
			at = skip(line_end(at));
			continue;
		}
		fwrite(at, 1, (size_t)(end - at), out);
		if (renaming(l, text, at, end))
			fprintf(out, "$%zu", text + 1);
		if (next > end)
			fputc(memchr(end, '\n', (size_t)(next - end)) ? '\n' : ' ', out);
		at = next;
	}
	fputc('\n', out);
}

static void write_prototype(FILE *out, const struct linking *l, const struct statement *s)
{
	write_part(out, l, s->text, s->begin, s->body);
	fputs(";\n", out);
}

static bool is_entry(const struct statement *s)
{
	for (const char *at = s->begin; at < s->name; at = skip(token_end(at)))
		if (token_is(at, token_end(at), ".entry"))
			return true;
	return false;
}

static void write_all(FILE *out, const struct linking *l)
{
	fprintf(out, ".version %.*s\n.target %.*s\n.address_size 64\n",
		(int)strcspn(l->version, "\r\n/"), l->version, (int)strcspn(l->target, "\r\n/"),
		l->target);
	for (size_t i = 0; i < l->used; i++) {
		const struct statement *s = &l->statements[i];

		if (s->dropped || s->kind != KIND_FUNCTION)
			continue;
		if (!s->body)
			write_part(out, l, s->text, s->begin, s->end);
		else if (!is_entry(s))
			write_prototype(out, l, s);
	}
	for (int functions = 0; functions < 2; functions++)
		for (size_t i = 0; i < l->used; i++) {
			const struct statement *s = &l->statements[i];

			if (!s->dropped && (s->kind == KIND_FUNCTION) == functions &&
				(!functions || s->body))
				write_part(out, l, s->text, s->begin, s->end);
		}
}

int link_texts(
	char *const *texts, size_t count, char **linked, size_t *bytes, char *why, size_t why_bytes)
{
	struct linking l = {.texts = texts, .count = count, .why = why, .why_bytes = why_bytes};
	char *text = NULL;
	size_t length = 0;
	FILE *out;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++)
		error = cut(&l, i);
	if (!error && (!l.version || !l.target))
		error = wrong(&l, "no input has a .version and a .target");
	if (!error)
		error = settle_all(&l);
	out = error ? NULL : open_memstream(&text, &length);
	if (out) {
		write_all(out, &l);
		error = fclose(out) ? -ENOMEM : 0;
	} else if (!error) {
		error = -ENOMEM;
	}
	free(l.statements);
	if (error) {
		free(text);
		return error;
	}
	*linked = text;
	*bytes = length + 1;
	return 0;
}

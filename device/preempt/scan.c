/* SPDX-License-Identifier: MIT
 *
 * See scan.h. The text has been parsed before: it is well-formed.
 */
#include "device/preempt/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ptx/lex.h"

struct scanner {
	struct scan *scan;
	struct lexer lexer;
	struct token before, token;
	struct scanned *function; /* that it is in; NULL: in none */
	const char *directives;   /* where those of the next function begin */
};

static bool is(const struct token *token, unsigned kind, const char *text)
{
	return token->kind == kind && token->length == strlen(text) &&
	       !memcmp(token->text, text, token->length);
}

static bool begins(const struct token *token, const char *text)
{
	return token->kind == TOKEN_WORD && token->length >= strlen(text) &&
	       !memcmp(token->text, text, strlen(text));
}

static bool is_mark(const struct token *token, char mark)
{
	return token->kind == TOKEN_MARK && *token->text == mark;
}

static void next(struct scanner *s)
{
	s->before = s->token;
	lex_next(&s->lexer, &s->token);
}

bool scan_is_place(const struct token *token)
{
	return is(token, TOKEN_WORD, "%ctaid") || is(token, TOKEN_WORD, "%nctaid");
}

/* Words that a kernel cannot have which is launched in pieces: as they begin. */
static const struct {
	const char *begin, *unfit;
} unfit_words[] = {
	{"%dynamic_smem_size", "it asks how much shared memory it has"},
	{"%total_smem_size", "it asks how much shared memory it has"},
	{"%aggr_smem_size", "it asks how much shared memory it has"},
	{"%gridid", "it asks for its grid's number"},
	{"%cluster", "it asks for its cluster"},
	{"%nclusterid", "it asks for its cluster"},
	{"%is_explicit_cluster", "it asks for its cluster"},
	{"%envreg", "it has barriers of the whole grid"},
	{"griddepcontrol", "it waits for other grids"},
	{"clusterlaunchcontrol", "it takes the blocks of other clusters"},
	{"mapa", "it uses the shared memory of other blocks"},
	{"getctarank", "it uses the shared memory of other blocks"},
};

static const char *unfit_word(const struct scanner *s)
{
	const struct token *token = &s->token;

	for (size_t i = 0; i < sizeof(unfit_words) / sizeof(*unfit_words); i++)
		if (begins(token, unfit_words[i].begin))
			return unfit_words[i].unfit;
	if (is(token, TOKEN_DOTTED, "cluster") && is(&s->before, TOKEN_WORD, "barrier"))
		return "it has barriers of clusters";
	return NULL;
}

static bool begins_statement(const struct token *before)
{
	return is_mark(before, ';') || is_mark(before, '{') || is_mark(before, '}') ||
	       is_mark(before, ':');
}

static void look_at(struct scanner *s)
{
	struct scanned *f = s->function;
	const struct token *token = &s->token;
	struct lexer ahead = s->lexer;
	struct token axis;

	if (!f->unfit)
		f->unfit = unfit_word(s);
	if (scan_is_place(token)) {
		f->places = true;
		lex_next(&ahead, &axis);
		if (!f->unfit && !is(&axis, TOKEN_DOTTED, "x") && !is(&axis, TOKEN_DOTTED, "y") &&
			!is(&axis, TOKEN_DOTTED, "z"))
			f->unfit = "it takes its block's index as a vector";
	}
	if (!f->unfit && begins_statement(&s->before) &&
		(is(token, TOKEN_DOTTED, "global") || is(token, TOKEN_DOTTED, "const")))
		f->unfit = "it declares variables of the module";
}

/* Barriers, and what memory is declared with. The same words of accesses stand behind others, without a space. */
static bool is_of_the_block(const struct scanner *s)
{
	const struct token *token = &s->token;
	bool declares =
		token->spaced || (s->before.kind != TOKEN_WORD && s->before.kind != TOKEN_DOTTED);

	return is(token, TOKEN_WORD, "bar") || is(token, TOKEN_WORD, "barrier") ||
	       (declares &&
		       (is(token, TOKEN_DOTTED, "shared") || is(token, TOKEN_DOTTED, "local")));
}

static void scan_body(struct scanner *s)
{
	unsigned depth = 1;

	s->function->body = s->lexer.at;
	while (depth && s->token.kind != TOKEN_END) {
		next(s);
		depth += is_mark(&s->token, '{');
		depth -= is_mark(&s->token, '}');
		look_at(s);
		s->function->inner |= depth > 1 && is_of_the_block(s);
	}
	s->function->end = s->lexer.at;
}

static void skip_brackets(struct scanner *s, struct scanned *f)
{
	next(s);
	if (f)
		f->has_list = true;
	while (s->token.kind != TOKEN_END && !is_mark(&s->token, ')')) {
		if (f)
			f->has_some = true;
		next(s);
	}
	if (f)
		f->params = s->token.text;
	next(s);
}

static const char *directive_unfit(const struct token *token)
{
	return is(token, TOKEN_DOTTED, "reqnctapercluster") ||
			       is(token, TOKEN_DOTTED, "explicitcluster") ||
			       is(token, TOKEN_DOTTED, "blocksareclusters")
		       ? "it is made for clusters"
		       : NULL;
}

static int scan_function(struct scanner *s)
{
	struct scanned *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	*s->scan->tail = f;
	s->scan->tail = &f->next;
	f->entry = is(&s->token, TOKEN_DOTTED, "entry");
	f->begin = s->directives;
	next(s);
	if (is_mark(&s->token, '(')) /* the results of a function */
		skip_brackets(s, NULL);
	f->name = s->token.text;
	f->name_length = s->token.length;
	f->params = s->lexer.at;
	next(s);
	if (is_mark(&s->token, '('))
		skip_brackets(s, f);
	s->function = f;
	while (s->token.kind != TOKEN_END && !is_mark(&s->token, '{') && !is_mark(&s->token, ';')) {
		if (!f->unfit)
			f->unfit = directive_unfit(&s->token);
		next(s);
	}
	if (is_mark(&s->token, '{'))
		scan_body(s);
	s->function = NULL;
	return 0;
}

static bool is_linkage(const struct token *token)
{
	return is(token, TOKEN_DOTTED, "visible") || is(token, TOKEN_DOTTED, "weak") ||
	       is(token, TOKEN_DOTTED, "extern") || is(token, TOKEN_DOTTED, "common");
}

int scan_text(struct scan *scan, const char *text, size_t length)
{
	struct scanner s = {.scan = scan, .lexer = {.at = text, .end = text + length, .line = 1}};
	int error = 0;

	*scan = (struct scan){.tail = &scan->functions};
	while (!error) {
		next(&s);
		if (s.token.kind == TOKEN_END)
			break;
		if (s.token.kind == TOKEN_DOTTED && !is_linkage(&s.before))
			s.directives = s.token.text - 1;
		if (is(&s.token, TOKEN_DOTTED, "entry") || is(&s.token, TOKEN_DOTTED, "func"))
			error = scan_function(&s);
		else if (is(&s.token, TOKEN_DOTTED, "debug_info"))
			scan->unfit = "it is compiled for a debugger";
	}
	return error;
}

void scan_finish(struct scan *scan)
{
	struct scanned *next_one;

	for (struct scanned *f = scan->functions; f; f = next_one) {
		next_one = f->next;
		free(f);
	}
}

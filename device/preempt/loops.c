/* SPDX-License-Identifier: MIT
 *
 * The third kernel, which leaves at points in the middle of a block (points.h). The text is copied as it is, but for the barriers at
 * which a block may leave.
 *
 * One thread of the block looks at the counter behind each point, and waits for what it has read only at the next one. If the block
 * is to leave, it writes the number of that round to shared memory before the barrier, where all read it behind the barrier: there
 * they know alike. Rounds are 1 and 2 in turn. A thread that is slow to read sees what the next round has written, if anything:
 * another number than its own.
 *
 * What a block keeps, in this order: variables in shared memory, each from a multiple of 16 bytes on; dynamic shared memory; then for
 * each register, and each word of local memory, those of all threads side by side; the widest first, so that all are aligned.
 */
#include <inttypes.h>
#include <string.h>

#include "device/cpu/ptx/lex.h"
#include "device/cpu/ptx/work.h"
#include "device/preempt/points.h"
#include "device/preempt/preempt.h"
#include "device/preempt/scan.h"
#include "device/preempt/text.h"

/* Dynamic shared memory: behind what is the program's, 4 bytes to tell what to do, and 4 for the round in which to leave. */
static const char prologue[] =
	"\n\t.reg .pred %__gdev_p<3>, %__gdev_leads;\n"
	"\t.reg .b32 %__gdev_r<10>, %__gdev_at, %__gdev_round, %__gdev_word;\n"
	"\t.reg .b32 %__gdev_thread, %__gdev_threads, %__gdev_dynamic;\n"
	"\t.reg .b64 %__gdev_d<6>, %__gdev_kept;\n"
	"\tmov.u32 %__gdev_r0, %tid.x;\n"
	"\tmov.u32 %__gdev_r1, %tid.y;\n"
	"\tmov.u32 %__gdev_r2, %tid.z;\n"
	"\tor.b32 %__gdev_r0, %__gdev_r0, %__gdev_r1;\n"
	"\tor.b32 %__gdev_r0, %__gdev_r0, %__gdev_r2;\n"
	"\tsetp.eq.u32 %__gdev_leads, %__gdev_r0, 0;\n"
	"\tmov.u32 %__gdev_at, ";
static const char prologue_goes_on[] =
	";\n"
	"\tmov.u32 %__gdev_r1, %dynamic_smem_size;\n"
	"\tadd.u32 %__gdev_at, %__gdev_at, %__gdev_r1;\n"
	"\tld.param.u32 %__gdev_word, [__gdev_launch+16];\n" /* generation */
	"\tnot.b32 %__gdev_word, %__gdev_word;\n"
	"\t@!%__gdev_leads bra $__gdev_told;\n";

/* %__gdev_d1: where the block's state is; %__gdev_d2: the first block's keeping. */
static const char which_block[] =
	"\tmov.u32 %__gdev_r0, %ctaid.z;\n"
	"\tmov.u32 %__gdev_r1, %nctaid.y;\n"
	"\tmov.u32 %__gdev_r2, %ctaid.y;\n"
	"\tmad.lo.u32 %__gdev_r0, %__gdev_r0, %__gdev_r1, %__gdev_r2;\n"
	"\tmov.u32 %__gdev_r1, %nctaid.x;\n"
	"\tmov.u32 %__gdev_r2, %ctaid.x;\n"
	"\tmad.lo.u32 %__gdev_r0, %__gdev_r0, %__gdev_r1, %__gdev_r2;\n"
	"\tmov.u64 %__gdev_d1, " PREEMPT_KEPT ";\n"
	"\tld.param.u64 %__gdev_d2, [__gdev_launch+24];\n" /* offset */
	"\tadd.u64 %__gdev_d1, %__gdev_d1, %__gdev_d2;\n"
	"\tld.param.u64 %__gdev_d2, [__gdev_launch+32];\n" /* states_bytes */
	"\tadd.u64 %__gdev_d2, %__gdev_d1, %__gdev_d2;\n"
	"\tmul.wide.u32 %__gdev_d3, %__gdev_r0, 8;\n"
	"\tadd.u64 %__gdev_d1, %__gdev_d1, %__gdev_d3;\n";

/* One thread: what is to be done. The state is the generation that has left, and the point. */
static const char begin[] = "\tld.param.u64 %__gdev_d0, [__gdev_launch];\n"
			    "\tld.param.u32 %__gdev_r3, [__gdev_launch+16];\n" /* generation */
			    "\tld.param.u32 %__gdev_r4, [__gdev_launch+20];\n" /* again */
			    "\tld.param.u32 %__gdev_r5, [__gdev_launch+44];\n" /* left_before */
			    "\tmov.u32 %__gdev_r6, 0;\n"
			    "\tsetp.eq.u32 %__gdev_p0, %__gdev_r4, 0;\n"
			    "\t@%__gdev_p0 bra $__gdev_begins;\n"
			    "\tld.global.v2.u32 {%__gdev_r7, %__gdev_r6}, [%__gdev_d1];\n"
			    "\tsetp.eq.u32 %__gdev_p0, %__gdev_r7, %__gdev_r5;\n"
			    "\t@%__gdev_p0 bra $__gdev_begins;\n"
			    "\tmov.u32 %__gdev_r6, 0xffffffff;\n"
			    "\tbra $__gdev_tells;\n"
			    "$__gdev_begins:\n"
			    "\tld.volatile.global.u32 %__gdev_word, [%__gdev_d0];\n"
			    "\tsetp.eq.u32 %__gdev_p0, %__gdev_word, %__gdev_r3;\n"
			    "\tnot.b32 %__gdev_r7, %__gdev_r3;\n"
			    "\tselp.b32 %__gdev_r7, %__gdev_r3, %__gdev_r7, %__gdev_p0;\n"
			    "\tst.global.v2.u32 [%__gdev_d1], {%__gdev_r7, %__gdev_r6};\n"
			    "\t@!%__gdev_p0 bra $__gdev_tells;\n"
			    "\tld.param.u64 %__gdev_d0, [__gdev_launch+8];\n"
			    "\tred.global.add.u32 [%__gdev_d0], 1;\n"
			    "\tmov.u32 %__gdev_r6, 0xffffffff;\n"
			    "$__gdev_tells:\n"
			    "\tst.shared.u32 [%__gdev_at+-16], %__gdev_r6;\n"
			    "\tst.shared.u32 [%__gdev_at+-12], 0;\n"
			    "$__gdev_told:\n"
			    "\tbar.sync 0;\n"
			    "\tld.shared.u32 %__gdev_r6, [%__gdev_at+-16];\n"
			    "\tsetp.eq.u32 %__gdev_p0, %__gdev_r6, 0xffffffff;\n"
			    "\t@%__gdev_p0 ret;\n"
			    "\tmov.u32 %__gdev_round, 1;\n";

/* In front of the barrier, and behind it; %u: the point. */
static const char before_barrier[] =
	"\n\tld.param.u32 %__gdev_r0, [__gdev_launch+16];\n"
	"\tsetp.eq.u32 %__gdev_p0, %__gdev_word, %__gdev_r0;\n"
	"\t@%__gdev_p0 st.shared.u32 [%__gdev_at+-12], %__gdev_round;\n\t";

static const char behind_barrier[] = "\n\tld.shared.u32 %__gdev_r0, [%__gdev_at+-12];\n"
				     "\tsetp.ne.u32 %__gdev_p0, %__gdev_r0, %__gdev_round;\n"
				     "\txor.b32 %__gdev_round, %__gdev_round, 3;\n";

/* %__gdev_kept: where what this block keeps begins. */
static const char where_kept[] =
	"\tld.param.u32 %__gdev_r1, [__gdev_launch+40];\n" /* kept_bytes */
	"\tmul.wide.u32 %__gdev_kept, %__gdev_r0, %__gdev_r1;\n"
	"\tadd.u64 %__gdev_kept, %__gdev_kept, %__gdev_d2;\n"
	"\tmov.u32 %__gdev_r1, %tid.x;\n"
	"\tmov.u32 %__gdev_r2, %tid.y;\n"
	"\tmov.u32 %__gdev_r3, %tid.z;\n"
	"\tmov.u32 %__gdev_r4, %ntid.y;\n"
	"\tmov.u32 %__gdev_r5, %ntid.x;\n"
	"\tmad.lo.u32 %__gdev_r2, %__gdev_r3, %__gdev_r4, %__gdev_r2;\n"
	"\tmad.lo.u32 %__gdev_thread, %__gdev_r2, %__gdev_r5, %__gdev_r1;\n"
	"\tmov.u32 %__gdev_r3, %ntid.z;\n"
	"\tmul.lo.u32 %__gdev_threads, %__gdev_r4, %__gdev_r5;\n"
	"\tmul.lo.u32 %__gdev_threads, %__gdev_threads, %__gdev_r3;\n"
	"\tmov.u32 %__gdev_dynamic, %dynamic_smem_size;\n"
	"\tsub.u32 %__gdev_dynamic, %__gdev_dynamic, 16;\n";

static const char leaves[] = "\t@!%%__gdev_leads ret;\n"
			     "\tld.param.u32 %%__gdev_r3, [__gdev_launch+16];\n"
			     "\tst.global.v2.u32 [%%__gdev_d1], {%%__gdev_r3, %u};\n"
			     "\tld.param.u64 %%__gdev_d0, [__gdev_launch+8];\n"
			     "\tred.global.add.u32 [%%__gdev_d0], 1;\n"
			     "\tret;\n";

static const char goes_on[] =
	"\t@%__gdev_leads ld.param.u64 %__gdev_d0, [__gdev_launch];\n"
	"\t@%__gdev_leads ld.volatile.global.u32 %__gdev_word, [%__gdev_d0];\n";

struct writing {
	FILE *out;
	const struct work *w;
	bool back;        /* what was kept is read */
	uint32_t labels;  /* so far */
	char dynamic[32]; /* what dynamic shared memory is called */
};

/* Between a register and what is kept at %__gdev_d5. */
static void move(const struct writing *x, unsigned bits, const char *reg)
{
	if (x->back)
		fprintf(x->out, "\tld.global.b%u %s, [%%__gdev_d5];\n", bits, reg);
	else
		fprintf(x->out, "\tst.global.b%u [%%__gdev_d5], %s;\n", bits, reg);
}

/* Between what is kept and memory of a space, at %__gdev_r7, one unit; by %__gdev_r8. */
static void move_unit(const struct writing *x, const char *space, unsigned bits)
{
	if (!x->back)
		fprintf(x->out, "\tld.%s.u%u %%__gdev_r8, [%%__gdev_r7];\n", space, bits);
	fprintf(x->out,
		x->back ? "\tld.global.u%u %%__gdev_r8, [%%__gdev_d5];\n"
			: "\tst.global.u%u [%%__gdev_d5], %%__gdev_r8;\n",
		bits);
	if (x->back)
		fprintf(x->out, "\tst.%s.u%u [%%__gdev_r7], %%__gdev_r8;\n", space, bits);
}

/* Units from `name` on, of which %__gdev_r9 says how many, from %__gdev_d4 on; thread by thread in turn. */
static void move_shared(struct writing *x, const char *name, unsigned unit)
{
	uint32_t label = x->labels++;

	fprintf(x->out,
		"\tmov.u32 %%__gdev_r6, %%__gdev_thread;\n"
		"$__gdev_s%u:\n"
		"\tsetp.ge.u32 %%__gdev_p1, %%__gdev_r6, %%__gdev_r9;\n"
		"\t@%%__gdev_p1 bra $__gdev_e%u;\n"
		"\tmul.wide.u32 %%__gdev_d5, %%__gdev_r6, %u;\n"
		"\tadd.u64 %%__gdev_d5, %%__gdev_d5, %%__gdev_d4;\n"
		"\tmov.u32 %%__gdev_r7, %s;\n"
		"\tmad.lo.u32 %%__gdev_r7, %%__gdev_r6, %u, %%__gdev_r7;\n",
		label, label, unit, name, unit);
	move_unit(x, "shared", unit * 8);
	fprintf(x->out,
		"\tadd.u32 %%__gdev_r6, %%__gdev_r6, %%__gdev_threads;\n"
		"\tbra $__gdev_s%u;\n"
		"$__gdev_e%u:\n",
		label, label);
}

static unsigned unit_of(const struct variable *v)
{
	return v->align % 4 || v->size % 4 ? 1 : 4;
}

/* Leaves %__gdev_d4 where the registers begin. */
static void move_all_shared(struct writing *x)
{
	const struct function *e = x->w->entry;

	fputs("\tmov.u64 %__gdev_d4, %__gdev_kept;\n", x->out);
	for (uint32_t k = 0; k < e->shared_count; k++) {
		const struct variable *v = e->shared[k].var;

		if (text_is_dynamic(v))
			continue;
		fprintf(x->out, "\tmov.u32 %%__gdev_r9, %" PRIu64 ";\n", v->size / unit_of(v));
		move_shared(x, v->name, unit_of(v));
		fprintf(x->out, "\tadd.u64 %%__gdev_d4, %%__gdev_d4, %" PRIu64 ";\n",
			(v->size + 15) / 16 * 16);
	}
	fputs("\tshr.u32 %__gdev_r9, %__gdev_dynamic, 2;\n", x->out);
	move_shared(x, x->dynamic, 4);
	fputs("\tcvt.u64.u32 %__gdev_d5, %__gdev_dynamic;\n"
	      "\tadd.u64 %__gdev_d4, %__gdev_d4, %__gdev_d5;\n",
		x->out);
}

/* %__gdev_d5: the thread's own of `bytes`, where those of all threads begin at %__gdev_d4; which then is where they end. */
static void next_own(const struct writing *x, unsigned bytes)
{
	fprintf(x->out,
		"\tmul.wide.u32 %%__gdev_d5, %%__gdev_thread, %u;\n"
		"\tadd.u64 %%__gdev_d5, %%__gdev_d5, %%__gdev_d4;\n"
		"\tmul.wide.u32 %%__gdev_d3, %%__gdev_threads, %u;\n"
		"\tadd.u64 %%__gdev_d4, %%__gdev_d4, %%__gdev_d3;\n",
		bytes, bytes);
}

static void move_register(const struct writing *x, const struct reg *reg)
{
	unsigned bytes = points_reg_bytes(reg->type);
	bool predicate = reg->type == TYPE_pred;
	char name[POINTS_NAME];

	points_name(reg, name);
	next_own(x, bytes);
	if (predicate && !x->back)
		fprintf(x->out, "\tselp.u32 %%__gdev_r8, 1, 0, %s;\n", name);
	if (predicate)
		fprintf(x->out, x->back ? "\tld.global.u8 %%__gdev_r8, [%%__gdev_d5];\n"
					: "\tst.global.u8 [%%__gdev_d5], %%__gdev_r8;\n");
	else
		move(x, bytes * 8, name);
	if (predicate && x->back)
		fprintf(x->out, "\tsetp.ne.u32 %s, %%__gdev_r8, 0;\n", name);
}

/* A variable of each thread: its units one after the other. */
static void move_local(struct writing *x, const struct variable *v)
{
	unsigned unit = unit_of(v);
	uint32_t label = x->labels++;

	fprintf(x->out,
		"\tmov.u32 %%__gdev_r6, 0;\n"
		"$__gdev_s%u:\n"
		"\tmov.u32 %%__gdev_r7, %s;\n"
		"\tadd.u32 %%__gdev_r7, %%__gdev_r7, %%__gdev_r6;\n",
		label, v->name);
	next_own(x, unit);
	move_unit(x, "local", unit * 8);
	fprintf(x->out,
		"\tadd.u32 %%__gdev_r6, %%__gdev_r6, %u;\n"
		"\tsetp.lt.u32 %%__gdev_p1, %%__gdev_r6, %" PRIu64 ";\n"
		"\t@%%__gdev_p1 bra $__gdev_s%u;\n",
		unit, v->size, label);
}

/* What comes in units of so many bytes. */
static void move_own(struct writing *x, const struct point *point, unsigned bytes)
{
	const struct function *e = x->w->entry;

	for (uint32_t k = 0; k < point->reg_count; k++)
		if (points_reg_bytes(e->regs[point->regs[k]].type) == bytes)
			move_register(x, &e->regs[point->regs[k]]);
	for (const struct variable *v = e->vars; v; v = v->next)
		if (v->space == SPACE_LOCAL && v->size && unit_of(v) == bytes)
			move_local(x, v);
}

static void move_state(struct writing *x, const struct point *point, bool back)
{
	x->back = back;
	fputs(which_block, x->out);
	fputs(where_kept, x->out);
	move_all_shared(x);
	for (unsigned bytes = 8; bytes; bytes /= 2)
		move_own(x, point, bytes);
}

/* Behind the barrier. */
static void write_point(struct writing *x, const struct point *point, uint32_t number)
{
	fputs(behind_barrier, x->out);
	fprintf(x->out, "\t@%%__gdev_p0 bra $__gdev_on%u;\n", number);
	move_state(x, point, false);
	fprintf(x->out, leaves, number);
	fprintf(x->out, "$__gdev_back%u:\n", number);
	move_state(x, point, true);
	fprintf(x->out, "\tbar.sync 0;\n$__gdev_on%u:\n", number);
	fputs(goes_on, x->out);
}

/* ---- the body ---- */

struct copying {
	struct writing *x;
	const struct points *points;
	const char *from;
	uint32_t barriers, next; /* so many have come; the point that is next */
};

static bool is_word(const struct token *token, const char *word)
{
	return token->kind == TOKEN_WORD && token->length == strlen(word) &&
	       !memcmp(token->text, word, token->length);
}

static bool is_mark(const struct token *token, char mark)
{
	return token->kind == TOKEN_MARK && *token->text == mark;
}

/* The same word may be a label, or name a register. */
static bool is_barrier(const struct lexer *lexer, const struct token *token)
{
	struct lexer ahead = *lexer;
	struct token next;

	if (!is_word(token, "bar") && !is_word(token, "barrier"))
		return false;
	lex_next(&ahead, &next);
	return next.kind == TOKEN_DOTTED;
}

/* At the word of a barrier. */
static void copy_barrier(struct copying *c, struct lexer *lexer, struct token *token)
{
	const struct points *points = c->points;

	uint32_t number = c->barriers++;

	if (c->next == points->count || points->points[c->next].barrier != number)
		return;
	text_copy(c->x->out, &c->from, token->text);
	fputs(before_barrier, c->x->out);
	while (token->kind != TOKEN_END && !is_mark(token, ';'))
		lex_next(lexer, token);
	text_copy(c->x->out, &c->from, lexer->at);
	write_point(c->x, &points->points[c->next], c->next + 1);
	c->next++;
}

static void copy_body(struct copying *c, const struct scanned *f)
{
	struct lexer lexer = {.at = f->body, .end = f->end, .line = 1};
	bool begins = true; /* a statement */
	struct token token;

	c->from = f->body;
	for (lex_next(&lexer, &token); token.kind != TOKEN_END; lex_next(&lexer, &token)) {
		if (token.kind == TOKEN_DOTTED && token.length == 3 &&
			!memcmp(token.text, "loc", 3)) {
			text_copy(c->x->out, &c->from, token.text - 1);
			lex_skip_line(&lexer);
			c->from = lexer.at;
			continue;
		}
		if (begins && is_mark(&token, '@')) { /* a guard */
			lex_next(&lexer, &token);
			if (is_mark(&token, '!'))
				lex_next(&lexer, &token);
			continue;
		}
		if (begins && is_barrier(&lexer, &token))
			copy_barrier(c, &lexer, &token);
		begins = is_mark(&token, ';') || is_mark(&token, '{') || is_mark(&token, '}') ||
			 is_mark(&token, ':');
	}
	text_copy(c->x->out, &c->from, f->end);
}

static uint32_t shared_bytes(const struct function *e)
{
	uint64_t bytes = 0;

	for (uint32_t k = 0; k < e->shared_count; k++)
		if (!text_is_dynamic(e->shared[k].var))
			bytes += (e->shared[k].var->size + 15) / 16 * 16;
	return (uint32_t)bytes;
}

uint32_t loops_write(
	FILE *out, const struct scanned *f, const struct work *w, const struct points *points)
{
	struct writing x = {.out = out, .w = w};
	struct copying c = {.x = &x, .points = points};

	bool differ;

	snprintf(x.dynamic, sizeof(x.dynamic), OURS "shared%u",
		text_dynamic_align(w->entry, &differ));
	text_write_head(out, f, PREEMPT_LOOPS_SUFFIX, sizeof(struct preempt_loops_launch));
	fputs(prologue, out);
	fputs(x.dynamic, out);
	fputs(prologue_goes_on, out);
	fputs(which_block, out);
	fputs(begin, out);
	for (uint32_t k = 1; k <= points->count; k++)
		fprintf(out,
			"\tsetp.eq.u32 %%__gdev_p0, %%__gdev_r6, %u;\n"
			"\t@%%__gdev_p0 bra $__gdev_back%u;\n",
			k, k);
	copy_body(&c, f);
	fputc('\n', out);
	return shared_bytes(w->entry);
}

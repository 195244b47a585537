/* SPDX-License-Identifier: MIT
 *
 * See preempt.h. The text is copied as it is; behind it, fit kernels come a second time, in which a few words are
 * different ones: the name, the parameters, what the body begins with, and %ctaid and %nctaid, for which registers stand.
 *
 * No block may wait for another, in a loop (spin.c): one that has begun might wait for one that has left. A block that waits for
 * those before it alone, as in a scan that looks back, could be let; which ones a block waits for is not found out.
 */
#include "device/preempt/preempt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cpu/ptx/lex.h"
#include "device/cpu/ptx/work.h"
#include "device/preempt/points.h"
#include "device/preempt/scan.h"
#include "device/preempt/text.h"

#define PARAMS_MAX 4096 /* bytes, what every device takes */

/* What a block begins with. One thread counts, and tells the others through the last bytes of shared memory. */
static const char prologue[] = "\n\t.reg .pred %__gdev_p<5>;\n"
			       "\t.reg .b32 %__gdev_r<12>;\n"
			       "\t.reg .b64 %__gdev_d<4>;\n"
			       "\t.reg .b32 %__gdev_ctaid_x, %__gdev_ctaid_y, %__gdev_ctaid_z;\n"
			       "\t.reg .b32 %__gdev_nctaid_x, %__gdev_nctaid_y, %__gdev_nctaid_z;\n"
			       "\tmov.u32 %__gdev_r1, %tid.x;\n"
			       "\tmov.u32 %__gdev_r2, %tid.y;\n"
			       "\tmov.u32 %__gdev_r3, %tid.z;\n"
			       "\tor.b32 %__gdev_r1, %__gdev_r1, %__gdev_r2;\n"
			       "\tor.b32 %__gdev_r1, %__gdev_r1, %__gdev_r3;\n"
			       "\tsetp.ne.u32 %__gdev_p0, %__gdev_r1, 0;\n";

/* %__gdev_r4: where its dynamic shared memory begins. */
static const char begin[] =
	"\tmov.u32 %__gdev_r5, %dynamic_smem_size;\n"
	"\tadd.u32 %__gdev_r4, %__gdev_r4, %__gdev_r5;\n"
	"\t@%__gdev_p0 bra $__gdev_counted;\n"
	"\tld.param.u64 %__gdev_d0, [__gdev_launch];\n"
	"\tld.param.u32 %__gdev_r6, [__gdev_launch+16];\n"
	"\tld.param.u32 %__gdev_r7, [__gdev_launch+20];\n"
	"\tatom.global.add.u64 %__gdev_d1, [%__gdev_d0], 0x100000000;\n"
	"\tcvt.u32.u64 %__gdev_r8, %__gdev_d1;\n" /* generation that is to leave */
	"\tshr.u64 %__gdev_d2, %__gdev_d1, 32;\n"
	"\tcvt.u32.u64 %__gdev_r9, %__gdev_d2;\n"
	"\tsub.u32 %__gdev_r9, %__gdev_r9, %__gdev_r6;\n"
	"\tsetp.ne.u32 %__gdev_p1, %__gdev_r8, %__gdev_r7;\n"
	"\t@%__gdev_p1 bra $__gdev_tells;\n"
	"\tld.param.u64 %__gdev_d3, [__gdev_launch+8];\n"
	"\tred.global.add.u32 [%__gdev_d3], 1;\n"
	"\tmov.u32 %__gdev_r9, 0xffffffff;\n"
	"$__gdev_tells:\n"
	"\tst.shared.u32 [%__gdev_r4+-16], %__gdev_r9;\n"
	"$__gdev_counted:\n"
	"\tbar.sync 0;\n"
	"\tld.shared.u32 %__gdev_ctaid_x, [%__gdev_r4+-16];\n"
	"\tsetp.eq.u32 %__gdev_p2, %__gdev_ctaid_x, 0xffffffff;\n"
	"\t@%__gdev_p2 ret;\n"
	"\tld.param.u32 %__gdev_nctaid_x, [__gdev_launch+24];\n"
	"\tld.param.u32 %__gdev_nctaid_y, [__gdev_launch+28];\n"
	"\tld.param.u32 %__gdev_nctaid_z, [__gdev_launch+32];\n"
	"\tmov.u32 %__gdev_ctaid_y, 0;\n"
	"\tmov.u32 %__gdev_ctaid_z, 0;\n"
	"\tmul.lo.u32 %__gdev_r10, %__gdev_nctaid_y, %__gdev_nctaid_z;\n"
	"\tsetp.eq.u32 %__gdev_p3, %__gdev_r10, 1;\n"
	"\t@%__gdev_p3 bra $__gdev_begins;\n"
	"\tdiv.u32 %__gdev_r11, %__gdev_ctaid_x, %__gdev_nctaid_x;\n"
	"\trem.u32 %__gdev_ctaid_x, %__gdev_ctaid_x, %__gdev_nctaid_x;\n"
	"\trem.u32 %__gdev_ctaid_y, %__gdev_r11, %__gdev_nctaid_y;\n"
	"\tdiv.u32 %__gdev_ctaid_z, %__gdev_r11, %__gdev_nctaid_y;\n"
	"$__gdev_begins:\n";

/* ---- what is in the way ---- */

/* Functions that the compiler or the driver has; of others that only have a name nobody knows what they do. */
static bool is_known(const char *name)
{
	static const char *const known[] = {"vprintf", "malloc", "free", "__assertfail", NULL};

	for (const char *const *k = known; *k; k++)
		if (!strcmp(*k, name))
			return true;
	return false;
}

static const struct scanned *scanned_of(const struct scan *scan, const char *name)
{
	for (const struct scanned *f = scan->functions; f; f = f->next)
		if (f->body && strlen(name) == f->name_length &&
			!memcmp(f->name, name, f->name_length))
			return f;
	return NULL;
}

struct reach {
	const struct ptx_module *module;
	const struct scan *scan;
	bool *seen; /* by struct function.index */
	const struct function **list;
	unsigned count;
};

static void add(struct reach *r, const struct function *f)
{
	if (f && !r->seen[f->index]) {
		r->seen[f->index] = true;
		r->list[r->count++] = f;
	}
}

static void add_called(struct reach *r, const struct inst *i)
{
	for (unsigned k = 0; k < i->operand_count; k++)
		if (i->operands[k].kind == OPERAND_FUNCTION)
			add(r, i->operands[k].function);
}

static bool calls_by_address(const struct inst *i)
{
	return i->op == OP_call && i->operands[i->call_results].kind != OPERAND_FUNCTION;
}

static bool copies_tensors(const struct inst *i)
{
	return i->op == OP_cp && inst_has(i, MOD_tensor);
}

/* What is in the way in functions that the entry may call. */
static const char *unfit_in_called(struct reach *r, const struct function *entry)
{
	memset(r->seen, 0, r->module->function_count * sizeof(*r->seen));
	r->count = 0;
	add(r, entry);
	for (unsigned at = 0; at < r->count; at++) {
		const struct function *f = r->list[at];
		const struct scanned *s = scanned_of(r->scan, f->name);

		if (f->has_body && !s)
			return "it has functions that are not found again";
		if (f->has_body && s->unfit)
			return s->unfit;
		if (!f->has_body && !is_known(f->name))
			return "it calls a function that the module does not have";
		if (f != entry && f->has_body && s->places)
			return "it calls a function that asks for its block's index";
		for (uint32_t i = 0; i < f->inst_count; i++) {
			if (calls_by_address(&f->insts[i]))
				return "it calls functions by address, which may be another module's";
			if (copies_tensors(&f->insts[i]))
				return "it copies boxes of tensors";
			add_called(r, &f->insts[i]);
		}
	}
	return NULL;
}

/* What is known of a kernel that is looked at. */
struct look {
	struct work work;
	struct ptx_log none;
	struct points points;
	const char *unfit, *unfit_loops;
};

static const char *unfit_as_waiting(struct look *l, struct reach *r, const struct function *entry)
{
	struct work *w = &l->work;
	int error;

	*w = (struct work){.module = r->module,
		.entry = entry,
		.log = &l->none,
		.block = {32, 1, 1},
		.threads = 32};
	error = work_build(w);
	if (!error)
		error = work_params(w);
	if (!error)
		error = cfg_build(w);
	if (!error && spin_awaits_blocks(w))
		return "its blocks may wait for each other";
	if (error || w->error)
		return "it has instructions that gdev does not know, or too many";
	return NULL;
}

static const char *unfit(struct look *l, struct reach *r, const struct function *entry)
{
	const char *why = r->scan->unfit;

	if (!why && r->module->version < 41) /* %dynamic_smem_size */
		why = "it is PTX before version 4.1";
	if (!why && entry->kernel.refused)
		why = "it has instructions that gdev does not know";
	if (!why &&
		entry->kernel.param_bytes > PARAMS_MAX - sizeof(struct preempt_loops_launch) - 8)
		why = "it has too many parameters";
	if (!why)
		why = unfit_in_called(r, entry);
	return why ? why : unfit_as_waiting(l, r, entry);
}

static const char *unfit_loops(struct look *l, struct reach *r, const struct function *entry)
{
	bool differ;

	if (l->unfit)
		return l->unfit;
	if (scanned_of(r->scan, entry->name)->inner)
		return "it has barriers, or shared or local memory, in inner braces";
	text_dynamic_align(entry, &differ);
	if (differ)
		return "its arrays in dynamic shared memory are not aligned alike";
	if (points_find(&l->work, &l->points))
		return "there is no memory to look at it";
	return l->points.unfit;
}

/* ---- the second kernel ---- */

static void write_body(FILE *out, const struct scanned *f)
{
	struct lexer lexer = {.at = f->body, .end = f->end, .line = 1};
	const char *from = f->body;
	struct token token;

	for (lex_next(&lexer, &token); token.kind != TOKEN_END; lex_next(&lexer, &token)) {
		if (token.kind == TOKEN_DOTTED && token.length == 3 &&
			!memcmp(token.text, "loc", 3)) {
			text_copy(out, &from, token.text - 1);
			lex_skip_line(&lexer);
			from = lexer.at;
		} else if (scan_is_place(&token)) {
			text_copy(out, &from, token.text);
			fprintf(out, "%%" OURS "%.*s_", (int)token.length - 1, token.text + 1);
			lex_next(&lexer, &token); /* .x, .y, .z */
			from = token.text;
		}
	}
	text_copy(out, &from, f->end);
}

void text_write_head(FILE *out, const struct scanned *f, const char *suffix, size_t hidden_bytes)
{
	const char *from = f->begin;

	fputc('\n', out);
	text_copy(out, &from, f->name + f->name_length);
	fputs(suffix, out);
	text_copy(out, &from, f->params);
	fprintf(out, "%s.param .align 8 .b8 " OURS "launch[%zu]%s",
		!f->has_list  ? "("
		: f->has_some ? ",\n\t"
			      : "",
		hidden_bytes, f->has_list ? "" : ")");
	text_copy(out, &from, f->body);
}

bool text_is_dynamic(const struct variable *v)
{
	return v->is_extern || v->unsized;
}

uint32_t text_dynamic_align(const struct function *entry, bool *differ)
{
	uint32_t align = 0;

	*differ = false;
	for (uint32_t k = 0; k < entry->shared_count; k++) {
		const struct variable *v = entry->shared[k].var;

		if (!text_is_dynamic(v))
			continue;
		*differ |= align && align != v->align;
		align = max_of(align, v->align);
	}
	return align ? align : 16;
}

static void write_kernel(FILE *out, const struct scanned *f, uint32_t align)
{
	text_write_head(out, f, PREEMPT_SUFFIX, sizeof(struct preempt_launch));
	fputs(prologue, out);
	fprintf(out, "\tmov.u32 %%__gdev_r4, " OURS "shared%u;\n", align);
	fputs(begin, out);
	write_body(out, f);
	fputc('\n', out);
}

struct writer {
	FILE *out;
	uint64_t kept_bytes; /* 0: no kernel leaves in the middle of a block */
	uint32_t aligns;     /* for which dynamic shared memory is declared: powers of two */
	bool kept;           /* is declared */
};

/* The kernel once more, or twice. */
static void write_fit(
	struct writer *x, struct preempt_kernel *kernel, struct look *l, const struct scanned *f)
{
	bool differ;
	uint32_t align = text_dynamic_align(l->work.entry, &differ);

	if (!(x->aligns & align))
		fprintf(x->out, "\n.extern .shared .align %u .b8 " OURS "shared%u[];\n", align,
			align);
	x->aligns |= align;
	write_kernel(x->out, f, align);
	if (kernel->unfit_loops)
		return;
	if (!x->kept)
		fprintf(x->out, "\n.global .align 16 .b8 " PREEMPT_KEPT "[%llu];\n",
			(unsigned long long)x->kept_bytes);
	x->kept = true;
	kernel->thread_bytes = l->points.thread_bytes;
	kernel->shared_bytes = loops_write(x->out, f, &l->work, &l->points);
}

static int describe_kernel(struct writer *x, struct preempt_kernel *kernel, struct reach *r,
	const struct function *entry)
{
	struct look *l = calloc(1, sizeof(*l));

	kernel->name = strdup(entry->name);
	if (!kernel->name || !l) {
		free(kernel->name);
		free(l);
		return -ENOMEM;
	}
	kernel->param_offset = (entry->kernel.param_bytes + 7) & ~7u;
	kernel->unfit = l->unfit = unfit(l, r, entry);
	kernel->loops = l->work.loop_count;
	kernel->unfit_loops = x->kept_bytes ? unfit_loops(l, r, entry) : "it is not asked for";
	if (!kernel->unfit)
		write_fit(x, kernel, l, scanned_of(r->scan, entry->name));
	arena_finish(&l->work.arena);
	free(l);
	return 0;
}

static int describe(struct preempt_module *made, struct reach *r, const char *text, size_t length,
	uint64_t kept_bytes)
{
	const struct ptx_module *module = r->module;
	struct writer x = {
		.out = open_memstream(&made->text, &made->length), .kept_bytes = kept_bytes};
	int error = 0;

	if (!x.out)
		return -ENOMEM;
	fwrite(text, 1, length, x.out);
	for (; made->count < module->entry_count && !error; made->count += !error)
		error = describe_kernel(
			&x, &made->kernels[made->count], r, module->entries[made->count]);
	if (fclose(x.out) || error)
		return -ENOMEM;
	made->kept_bytes = x.kept ? kept_bytes : 0;
	if (!x.aligns) {
		free(made->text);
		made->text = NULL;
		made->length = 0;
	}
	return 0;
}

static int rewrite(struct preempt_module *made, const struct ptx_module *module, const char *text,
	size_t length, uint64_t kept_bytes)
{
	struct scan scan = {0};
	struct reach reach = {.module = module, .scan = &scan};
	int error = scan_text(&scan, text, length);

	/* A name of ours in the program's text could mean another thing there. */
	if (!error && memmem(text, length, OURS, strlen(OURS)))
		scan.unfit = "it has names that begin with " OURS;
	made->kernels = calloc(module->entry_count + 1, sizeof(*made->kernels));
	reach.seen = calloc(module->function_count + 1, sizeof(*reach.seen));
	reach.list = calloc(module->function_count + 1, sizeof(*reach.list));
	if (!made->kernels || !reach.seen || !reach.list)
		error = -ENOMEM;
	if (!error)
		error = describe(made, &reach, text, length, kept_bytes);
	free(reach.list);
	free(reach.seen);
	scan_finish(&scan);
	return error;
}

/* Whether the text that came out means something: names of what is kept may not be seen where it is written. */
static bool is_text(const struct preempt_module *made)
{
	struct ptx_module *module = NULL;
	struct ptx_log none = {0};
	bool parses = !made->text || !ptx_parse(made->text, made->length, &none, &module);

	ptx_module_destroy(module);
	return parses;
}

static int make(const struct ptx_module *module, const char *text, size_t length,
	uint64_t kept_bytes, struct preempt_module **out)
{
	struct preempt_module *made = calloc(1, sizeof(*made));
	int error = made ? rewrite(made, module, text, length, kept_bytes) : -ENOMEM;

	if (error)
		preempt_module_destroy(made);
	else
		*out = made;
	return error;
}

int preempt_rewrite(
	const char *text, size_t length, uint64_t kept_bytes, struct preempt_module **out)
{
	struct ptx_module *module = NULL;
	struct ptx_log none = {0};
	int error;

	while (length && !text[length - 1])
		length--;
	error = ptx_parse(text, length, &none, &module);
	if (!error)
		error = make(module, text, length, kept_bytes, out);
	if (!error && (*out)->kept_bytes && !is_text(*out)) {
		preempt_module_destroy(*out);
		error = make(module, text, length, 0, out);
		for (size_t k = 0; !error && k < (*out)->count; k++)
			if (!(*out)->kernels[k].unfit)
				(*out)->kernels[k].unfit_loops =
					"a kernel of its module needs what has a name in inner "
					"braces only";
	}
	ptx_module_destroy(module);
	return error;
}

void preempt_module_destroy(struct preempt_module *module)
{
	if (!module)
		return;
	for (size_t k = 0; k < module->count; k++)
		free(module->kernels[k].name);
	free(module->kernels);
	free(module->text);
	free(module);
}

const struct preempt_kernel *preempt_kernel_find(
	const struct preempt_module *module, const char *name)
{
	for (size_t k = 0; module && k < module->count; k++)
		if (!strcmp(module->kernels[k].name, name))
			return &module->kernels[k];
	return NULL;
}

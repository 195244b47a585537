/* SPDX-License-Identifier: MIT
 *
 * Copies a kernel with everything it calls into one list of instructions. A guarded instruction
 * becomes a branch around it, so that later passes see guards on branches only. A callee's
 * parameters are its caller's argument variables under another name. An indirect call becomes a
 * chain of tests over the functions whose address the module takes.
 *
 * A function that may come to itself again is not copied: it stays a call, of native code for one thread (gen_call.c).
 * Its arguments and results are copied to and from a block of the caller's local memory.
 */
#include <errno.h>
#include <string.h>

#include "device/cpu/ptx/work.h"

struct frame {
	struct frame *caller;
	const struct function *function;
	uint32_t reg_base, label_base, return_label;
	struct variable **arguments, **results; /* the caller's, for the callee's */
	unsigned depth;
};

static void inline_body(struct work *w, struct frame *f);

static void place_label(struct work *w, uint32_t label)
{
	if (!w->error)
		w->labels[label] = w->inst_count;
}

static void branch(struct work *w, uint32_t line, uint32_t label, uint32_t guard, bool negated)
{
	struct inst *i = work_inst(w, OP_bra, line, 1);

	if (!i)
		return;
	i->guard = guard;
	i->guard_negated = negated;
	i->operands[0] = (struct operand){.kind = OPERAND_LABEL, .id = label};
}

static struct variable *frame_variable(const struct frame *f, struct variable *v)
{
	const struct function *fn = f->function;

	if (!f->caller)
		return v;
	for (uint32_t k = 0; k < fn->param_count; k++)
		if (fn->params[k] == v)
			return f->arguments[k];
	for (uint32_t k = 0; k < fn->result_count; k++)
		if (fn->results[k] == v)
			return f->results[k];
	return v;
}

static void copy_operand(
	struct work *w, const struct frame *f, struct operand *to, const struct operand *from)
{
	*to = *from;
	switch (from->kind) {
	case OPERAND_REG:
		to->id += f->reg_base;
		break;
	case OPERAND_LABEL:
		to->id += f->label_base;
		break;
	case OPERAND_SYMBOL:
		if (from->var->space == SPACE_PARAM)
			to->var = frame_variable(f, from->var);
		break;
	case OPERAND_VECTOR:
		to->elements = work_alloc(w, from->count * sizeof(*to));
		for (unsigned k = 0; !w->error && k < from->count; k++)
			copy_operand(w, f, &to->elements[k], &from->elements[k]);
		break;
	}
}

static void copy_inst(struct work *w, const struct frame *f, const struct inst *from)
{
	struct inst *i = work_inst(w, from->op, from->line, from->operand_count);
	struct operand *operands;

	if (!i)
		return;
	operands = i->operands;
	*i = *from;
	i->operands = operands;
	if (i->guard != PTX_NONE)
		i->guard += f->reg_base;
	for (unsigned k = 0; k < from->operand_count; k++)
		copy_operand(w, f, &operands[k], &from->operands[k]);
	if (!from->targets || w->error)
		return;
	i->targets = work_alloc(w, from->target_count * sizeof(*i->targets));
	for (uint32_t k = 0; !w->error && k < from->target_count; k++)
		copy_operand(w, f, &i->targets[k], &from->targets[k]);
}

/* The carry is a register of the thread's like any other: it outlives what ends a region, as a guard between may. It is the last of the
 * results, and the last operand. */
static void name_carry(struct work *w, struct inst *i)
{
	bool writes = inst_writes_carry(i), reads = inst_reads_carry(i);
	struct operand carry = {.kind = OPERAND_REG}, *operands;

	if (!writes && !reads)
		return;
	if (w->carry == PTX_NONE)
		w->carry = work_reg(w, TYPE_pred);
	operands = work_alloc(w, (i->operand_count + 2u) * sizeof(*operands));
	if (w->error)
		return;
	carry.id = w->carry;
	for (unsigned k = 0; k < i->operand_count; k++)
		operands[k + (writes && k >= i->dest_count)] = i->operands[k];
	if (writes)
		operands[i->dest_count++] = carry;
	i->operand_count += writes;
	if (reads)
		operands[i->operand_count++] = carry;
	i->operands = operands;
}

/* ---- calls ---- */

/* An argument or result of a call as a variable: registers and numbers get a fresh one. */
static struct variable *call_variable(
	struct work *w, struct frame *f, const struct operand *o, const struct variable *like)
{
	struct variable *v;

	if (o->kind == OPERAND_SYMBOL && !o->memory)
		return frame_variable(f, o->var);
	v = work_alloc(w, sizeof(*v));
	if (!v)
		return NULL;
	*v = (struct variable){
		.name = "argument", .space = SPACE_PARAM, .type = TYPE_b64, .size = 8, .align = 8};
	if (like)
		*v = (struct variable){.name = like->name,
			.space = SPACE_PARAM,
			.type = like->type,
			.size = like->size,
			.align = like->align};
	return v;
}

/* ld.param REG, [var] or st.param [var], REG */
static void move_param(struct work *w, const struct frame *f, uint32_t line, bool load,
	struct variable *v, const struct operand *value)
{
	struct inst *i = work_inst(w, load ? OP_ld : OP_st, line, 2);

	if (!i)
		return;
	i->modifiers[i->modifier_count++] = MOD_param;
	i->types[i->type_count++] = v->type;
	copy_operand(w, f, &i->operands[load ? 0 : 1], value);
	i->operands[load ? 1 : 0] =
		(struct operand){.kind = OPERAND_SYMBOL, .memory = true, .var = v};
}

/* Loads a value or stores it: `memory` is a variable of .param, or a register with a generic address. */
static void move(struct work *w, uint32_t line, bool load, struct operand memory, unsigned bytes,
	uint32_t reg)
{
	static const uint8_t types[] = {
		[1] = TYPE_u8, [2] = TYPE_u16, [4] = TYPE_u32, [8] = TYPE_u64};
	struct inst *i = work_inst(w, load ? OP_ld : OP_st, line, 2);

	if (!i)
		return;
	if (memory.kind == OPERAND_SYMBOL)
		i->modifiers[i->modifier_count++] = MOD_param;
	i->types[i->type_count++] = types[bytes];
	i->operands[load ? 0 : 1] = (struct operand){.kind = OPERAND_REG, .id = reg};
	i->operands[load ? 1 : 0] = memory;
}

static void copy_bytes(struct work *w, uint32_t line, struct operand to, struct operand from,
	uint64_t bytes, uint64_t align)
{
	for (uint64_t done = 0, step = 8; done < bytes && !w->error; done += step) {
		while (step > 1 && (step > align || step > bytes - done))
			step /= 2;
		uint32_t r = work_reg(w, step == 8 ? TYPE_b64 : TYPE_b32);
		move(w, line, true, from, (unsigned)step, r);
		move(w, line, false, to, (unsigned)step, r);
		from.bits += (int64_t)step;
		to.bits += (int64_t)step;
	}
}

static struct operand in_variable(struct variable *v, uint64_t offset)
{
	return (struct operand){
		.kind = OPERAND_SYMBOL, .memory = true, .var = v, .bits = (int64_t)offset};
}

uint64_t work_arguments(const struct function *f, bool result, uint32_t index, uint64_t *at)
{
	uint64_t end = 0;

	for (uint32_t k = 0; k < f->result_count + f->param_count; k++) {
		bool is_result = k < f->result_count;
		uint32_t n = is_result ? k : k - f->result_count;
		const struct variable *v = is_result ? f->results[n] : f->params[n];
		uint64_t align = v->align ? v->align : 1;

		end = (end + align - 1) & ~(align - 1);
		if (at && is_result == result && n == index)
			*at = end;
		end += v->size;
	}
	return end;
}

struct call {
	const struct inst *inst;
	struct frame *frame;
	unsigned results, arguments;
	struct variable *vars[256]; /* results, then arguments */
};

enum { MAX_VALUES = 12 };

/* Functions that the runtime has, and the bytes of their arguments, a digit each; 3: three numbers of 4 bytes. */
static const struct {
	const char *name, *arguments;
	uint8_t results, call; /* call: enum ptx_device_call, or 0 */
} externals[] = {
	{"vprintf", "88", 1, 0},
	{"__assertfail", "88488", 0, 0},
	{"malloc", "8", 1, 0},
	{"free", "8", 0, 0},
	{"cudaGraphSetConditional", "84", 0, 0},
	/* What kernels launch kernels by: its name begins with cuda, since CUDA 12 with __cudaCDP2. */
	{"GetParameterBufferV2", "8334", 1, 0},
	{"LaunchDeviceV2", "88", 1, 0},
	{"StreamCreateWithFlags", "84", 1, PTX_CREATE},
	{"StreamDestroy", "8", 1, PTX_ACCEPT},
	{"StreamWaitEvent", "884", 1, PTX_ACCEPT},
	{"EventCreateWithFlags", "84", 1, PTX_CREATE},
	{"EventRecord", "88", 1, PTX_ACCEPT},
	{"EventRecordWithFlags", "884", 1, PTX_ACCEPT},
	{"EventDestroy", "8", 1, PTX_ACCEPT},
	{"GetLastError", "", 1, PTX_ACCEPT},
	{"PeekAtLastError", "", 1, PTX_ACCEPT},
	{"MemcpyAsync", "88848", 1, PTX_COPY},
	{"Memcpy2DAsync", "88888848", 1, PTX_COPY_2D},
	{"MemsetAsync", "8488", 1, PTX_FILL},
	{"Memset2DAsync", "884888", 1, PTX_FILL_2D},
	{"Malloc", "88", 1, PTX_ALLOCATE},
	{"Free", "8", 1, PTX_RELEASE},
	{"GraphLaunch", "88", 1, PTX_GRAPH_LAUNCH},
};

/* As `like`; one that begins with a capital letter has before it, and may have behind it, what CUDA's device runtime puts there. */
static bool is_name(const char *name, const char *like)
{
	static const char *const prefixes[] = {"__cudaCDP2", "cuda"};
	size_t length = strlen(like);

	if (*like >= 'Z')
		return !strcmp(name, like);
	for (size_t k = 0; k < sizeof(prefixes) / sizeof(*prefixes); k++) {
		size_t n = strlen(prefixes[k]);

		if (!strncmp(name, prefixes[k], n) && !strncmp(name + n, like, length) &&
			(!name[n + length] || !strcmp(name + n + length, "_ptsz")))
			return true;
	}
	return false;
}

unsigned work_device_call(const char *name)
{
	for (size_t k = 0; k < sizeof(externals) / sizeof(*externals); k++)
		if (externals[k].call && is_name(name, externals[k].name))
			return externals[k].call;
	return 0;
}

static bool is_external(const struct function *f, const struct call *c)
{
	for (size_t k = 0; k < sizeof(externals) / sizeof(*externals); k++) {
		const char *bytes = externals[k].arguments;
		bool same = is_name(f->name, externals[k].name) && c->arguments == strlen(bytes) &&
			    c->results == externals[k].results;

		for (unsigned n = 0; same && n < c->arguments; n++)
			same = c->vars[c->results + n]->size ==
			       (bytes[n] == '3' ? 12u : (unsigned)(bytes[n] - '0'));
		for (unsigned n = 0; same && n < c->results; n++)
			same = c->vars[n]->size == 4 || c->vars[n]->size == 8;
		if (same)
			return true;
	}
	return false;
}

/* The function as it is called, not inlined. */
static void call_apart(struct work *w, struct call *c, const struct function *callee)
{
	struct variable *block = work_alloc(w, sizeof(*block));
	uint32_t line = c->inst->line;
	uint64_t at = 0;

	if (!block)
		return;
	*block = (struct variable){.name = "arguments",
		.space = SPACE_PARAM,
		.type = TYPE_b8,
		.align = 16,
		.size = work_arguments(callee, false, 0, NULL)};
	for (uint32_t k = 0; k < c->arguments; k++) {
		struct variable *v = c->vars[c->results + k];

		work_arguments(callee, false, k, &at);
		copy_bytes(w, line, in_variable(block, at), in_variable(v, 0),
			callee->params[k]->size < v->size ? callee->params[k]->size : v->size,
			callee->params[k]->align);
	}
	struct inst *i = work_inst(w, OP_call, line, 2);
	if (!i)
		return;
	i->operands[0] =
		(struct operand){.kind = OPERAND_FUNCTION, .function = (struct function *)callee};
	i->operands[1] = (struct operand){.kind = OPERAND_SYMBOL, .var = block};
	for (uint32_t k = 0; k < c->results; k++) {
		struct variable *v = c->vars[k];

		work_arguments(callee, true, k, &at);
		copy_bytes(w, line, in_variable(v, 0), in_variable(block, at),
			callee->results[k]->size < v->size ? callee->results[k]->size : v->size,
			callee->results[k]->align);
	}
}

static void call_direct(struct work *w, struct call *c, const struct function *callee)
{
	struct frame inner = {.caller = c->frame,
		.function = callee,
		.depth = c->frame->depth + 1,
		.results = c->vars,
		.arguments = c->vars + c->results};

	if (callee->param_count != c->arguments || callee->result_count != c->results) {
		work_error(w, -EINVAL, c->inst->line, "Arguments mismatch in call of '%s'",
			callee->name);
		return;
	}
	if (callee->recursive) {
		call_apart(w, c, callee);
		return;
	}
	if (inner.depth > PTX_MAX_CALL_DEPTH) {
		work_error(w, -ENOTSUP, c->inst->line, "Calls nested too deeply");
		return;
	}
	inline_body(w, &inner);
}

/* Loads the arguments into registers, so that later passes see an ordinary instruction. */
static void call_external(struct work *w, struct call *c, const struct function *callee)
{
	struct operand values[MAX_VALUES] = {0};
	unsigned count = 0;

	if (!is_external(callee, c)) {
		work_error(w, -ENOTSUP, c->inst->line, "Unresolved extern function '%s'",
			callee->name);
		return;
	}
	for (unsigned k = 0; k < c->results + c->arguments; k++) {
		struct variable *v = c->vars[k];
		unsigned step = v->size > 8 ? 4 : (unsigned)v->size;

		for (uint64_t at = 0; at < v->size; at += step) {
			uint32_t r = work_reg(w, step == 8 ? TYPE_b64 : TYPE_b32);

			if (k >= c->results)
				move(w, c->inst->line, true, in_variable(v, at), step, r);
			values[count++] = (struct operand){.kind = OPERAND_REG, .id = r};
		}
	}
	struct inst *i = work_inst(w, OP_call, c->inst->line, count + 1);
	if (!i)
		return;
	i->dest_count = (uint8_t)c->results;
	i->call_results = (uint16_t)c->results;
	memcpy(i->operands, values, c->results * sizeof(*values));
	i->operands[c->results] =
		(struct operand){.kind = OPERAND_FUNCTION, .function = (struct function *)callee};
	memcpy(i->operands + c->results + 1, values + c->results,
		(count - c->results) * sizeof(*values));
	for (unsigned k = 0; k < c->results; k++)
		move(w, c->inst->line, false, in_variable(c->vars[k], 0),
			(unsigned)c->vars[k]->size, values[k].id);
}

static void call_indirect(struct work *w, struct call *c, const struct operand *pointer)
{
	uint32_t done = work_label(w);

	for (const struct function *g = w->module->functions; g && !w->error; g = g->next) {
		if (g->is_entry || !g->has_body || g->param_count != c->arguments ||
			g->result_count != c->results || !g->taken)
			continue;
		uint32_t next = work_label(w), p = work_reg(w, TYPE_pred);
		struct inst *i = work_inst(w, OP_setp, c->inst->line, 3);
		if (!i)
			return;
		i->modifiers[i->modifier_count++] = MOD_ne;
		i->types[i->type_count++] = TYPE_u64;
		i->operands[0] = (struct operand){.kind = OPERAND_REG, .id = p};
		copy_operand(w, c->frame, &i->operands[1], pointer);
		i->operands[2] = (struct operand){.kind = OPERAND_INT, .bits = g->index + 1};
		branch(w, c->inst->line, next, p, false);
		call_direct(w, c, g);
		branch(w, c->inst->line, done, PTX_NONE, false);
		place_label(w, next);
	}
	work_inst(w, OP_trap, c->inst->line, 0);
	place_label(w, done);
}

static void inline_call(struct work *w, struct frame *f, const struct inst *i)
{
	const struct operand *callee = &i->operands[i->call_results];
	struct call *c = work_alloc(w, sizeof(*c));
	const struct function *g = callee->kind == OPERAND_FUNCTION ? callee->function : NULL;

	if (!c)
		return;
	c->inst = i;
	c->frame = f;
	c->results = i->call_results;
	c->arguments = i->operand_count - i->call_results - 1u;
	if (g && (g->param_count != c->arguments || g->result_count != c->results)) {
		work_error(w, -EINVAL, i->line, "Arguments mismatch in call of '%s'", g->name);
		return;
	}
	for (unsigned k = 0; k < c->results + c->arguments && !w->error; k++) {
		bool result = k < c->results;
		const struct operand *o = &i->operands[result ? k : k + 1];
		const struct variable *like = NULL;

		if (g)
			like = result ? g->results[k] : g->params[k - c->results];
		c->vars[k] = call_variable(w, f, o, like);
		if (!result && c->vars[k] && !(o->kind == OPERAND_SYMBOL && !o->memory))
			move_param(w, f, i->line, false, c->vars[k], o);
	}
	if (w->error)
		return;
	if (g && g->has_body)
		call_direct(w, c, g);
	else if (g)
		call_external(w, c, g);
	else if (callee->kind == OPERAND_REG)
		call_indirect(w, c, callee);
	else
		work_error(w, -EINVAL, i->line, "Arguments mismatch for instruction 'call'");
	for (unsigned k = 0; k < c->results && !w->error; k++)
		if (i->operands[k].kind == OPERAND_REG)
			move_param(w, f, i->line, true, c->vars[k], &i->operands[k]);
}

/* ---- bodies ---- */

/* The value that other lanes are to read, in a register that is kept in memory for them. */
static uint32_t exchange(struct work *w, struct frame *f, const struct inst *i)
{
	uint32_t x = work_reg(w, ptx_type_bits[i->types[0]] == 64 ? TYPE_b64 : TYPE_b32);
	struct inst *m = work_inst(w, OP_exchange, i->line, 2);

	if (!m)
		return PTX_NONE;
	w->regs[x].exchanged = true;
	m->types[m->type_count++] = w->regs[x].type;
	m->operands[0] = (struct operand){.kind = OPERAND_REG, .id = x};
	copy_operand(w, f, &m->operands[1], &i->operands[1]);
	return x;
}

static void inline_inst(struct work *w, struct frame *f, const struct inst *i)
{
	bool guarded = i->guard != PTX_NONE && i->op != OP_bra;
	uint32_t around = 0;

	/* wgmma multiplies at once: there is nothing to wait for. */
	if (ptx_opcodes[i->op].flags & OPF_IGNORE ||
		(i->op == OP_wgmma && !inst_has(i, MOD_mma_async)))
		return;
	if (guarded) {
		around = work_label(w);
		branch(w, i->line, around, i->guard + f->reg_base, !i->guard_negated);
	}
	if (i->op == OP_call) {
		inline_call(w, f, i);
	} else if (i->op == OP_ret && f->caller) {
		branch(w, i->line, f->return_label, PTX_NONE, false);
	} else {
		uint32_t x = PTX_NONE;

		if ((i->op == OP_shfl || i->op == OP_match || i->op == OP_redux) && i->type_count)
			x = exchange(w, f, i);
		copy_inst(w, f, i);
		if (w->error)
			return;
		name_carry(w, &w->insts[w->inst_count - 1]);
		w->insts[w->inst_count - 1].guard =
			guarded ? PTX_NONE : w->insts[w->inst_count - 1].guard;
		if (x != PTX_NONE)
			w->insts[w->inst_count - 1].operands[1] =
				(struct operand){.kind = OPERAND_REG, .id = x};
	}
	if (guarded)
		place_label(w, around);
}

static void inline_body(struct work *w, struct frame *f)
{
	const struct function *fn = f->function;

	if (fn->refused)
		work_error(w, -ENOTSUP, fn->refused_line, "%s", fn->refused);
	f->reg_base = w->reg_count;
	for (uint32_t r = 0; r < fn->reg_count && !w->error; r++)
		work_reg(w, fn->regs[r].type);
	f->label_base = w->label_count;
	for (uint32_t l = 0; l < fn->label_count && !w->error; l++)
		work_label(w);
	f->return_label = f->caller ? work_label(w) : 0;
	uint32_t *at = work_alloc(w, (fn->inst_count + 1) * sizeof(*at));
	for (uint32_t i = 0; i < fn->inst_count && !w->error; i++) {
		at[i] = w->inst_count;
		inline_inst(w, f, &fn->insts[i]);
	}
	if (w->error)
		return;
	at[fn->inst_count] = w->inst_count;
	for (uint32_t l = 0; l < fn->label_count; l++)
		w->labels[f->label_base + l] = at[fn->labels[l]];
	if (f->caller)
		place_label(w, f->return_label);
}

/* A function that is called: it brings its arguments in, and its results out. */
static void build_callee(struct work *w)
{
	const struct function *fn = w->callee;
	struct frame outer = {0}, f = {.caller = &outer,
					  .function = fn,
					  .arguments = fn->params,
					  .results = fn->results};
	struct operand block = {.kind = OPERAND_REG, .memory = true, .id = work_reg(w, TYPE_b64)};
	struct inst *i = work_inst(w, OP_mov, fn->line, 2);
	uint64_t at = 0;

	if (!i)
		return;
	i->types[i->type_count++] = TYPE_u64;
	i->operands[0] = (struct operand){.kind = OPERAND_REG, .id = block.id};
	i->operands[1] = (struct operand){.kind = OPERAND_SPECIAL, .id = SPECIAL_ARGUMENTS};
	for (uint32_t k = 0; k < fn->param_count; k++) {
		work_arguments(fn, false, k, &at);
		block.bits = (int64_t)at;
		copy_bytes(w, fn->line, in_variable(fn->params[k], 0), block, fn->params[k]->size,
			fn->params[k]->align);
	}
	inline_body(w, &f);
	for (uint32_t k = 0; k < fn->result_count; k++) {
		work_arguments(fn, true, k, &at);
		block.bits = (int64_t)at;
		copy_bytes(w, fn->line, block, in_variable(fn->results[k], 0), fn->results[k]->size,
			fn->results[k]->align);
	}
	work_inst(w, OP_ret, fn->line, 0);
}

int work_build(struct work *w)
{
	struct frame top = {.function = w->entry};

	w->carry = PTX_NONE;
	if (w->callee) {
		build_callee(w);
		return w->error;
	}
	inline_body(w, &top);
	work_inst(w, OP_exit, w->entry->line, 0); /* falling off the end */
	return w->error;
}

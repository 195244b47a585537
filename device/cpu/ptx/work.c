/* SPDX-License-Identifier: MIT
 *
 * Small things that every pass over a compilation's copy uses.
 */
#include "device/cpu/ptx/work.h"

#include <errno.h>
#include <string.h>

#include "device/cpu/ptx/log.h"

void work_error(struct work *w, int error, uint32_t line, const char *format, ...)
{
	va_list args;

	if (w->error)
		return;
	w->error = error;
	if (error == -ENOMEM)
		return;
	va_start(args, format);
	ptx_log_line(w->log, line, format, args);
	va_end(args);
}

void *work_alloc(struct work *w, size_t bytes)
{
	void *memory = bytes < 1u << 31 ? arena_alloc(&w->arena, bytes) : NULL;

	if (!memory)
		w->error = w->error ? w->error : -ENOMEM;
	return memory;
}

void work_move_labels(struct work *w, const uint32_t *moved)
{
	for (uint32_t l = 0; l < w->label_count; l++)
		if (w->labels[l] != PTX_NONE)
			w->labels[l] = moved[w->labels[l]];
}

uint32_t work_reg(struct work *w, unsigned type)
{
	struct work_reg *regs =
		arena_grow(&w->arena, w->regs, w->reg_count, sizeof(*regs), &w->reg_capacity);

	if (!regs || w->reg_count >= 4 * PTX_MAX_REGISTERS) {
		w->error = w->error ? w->error : -ENOMEM;
		return 0;
	}
	w->regs = regs;
	w->regs[w->reg_count] = (struct work_reg){.type = (uint8_t)type};
	return w->reg_count++;
}

uint32_t work_label(struct work *w)
{
	uint32_t *labels = arena_grow(
		&w->arena, w->labels, w->label_count, sizeof(*labels), &w->label_capacity);

	if (!labels) {
		w->error = w->error ? w->error : -ENOMEM;
		return 0;
	}
	w->labels = labels;
	w->labels[w->label_count] = PTX_NONE;
	return w->label_count++;
}

struct inst *work_inst(struct work *w, unsigned op, uint32_t line, unsigned operands)
{
	struct inst *insts =
		arena_grow(&w->arena, w->insts, w->inst_count, sizeof(*insts), &w->inst_capacity);
	struct operand *o = work_alloc(w, (operands + 1) * sizeof(*o));

	if (!insts || !o) {
		w->error = w->error ? w->error : -ENOMEM;
		return NULL;
	}
	w->insts = insts;
	if (w->inst_count >= PTX_MAX_INLINED) {
		work_error(w, -ENOTSUP, line, "Kernel is too large for the software GPU");
		return NULL;
	}
	struct inst *i = &w->insts[w->inst_count++];
	*i = (struct inst){.op = (uint16_t)op,
		.line = line,
		.guard = PTX_NONE,
		.operands = o,
		.operand_count = (uint8_t)operands,
		.dest_count = ptx_opcodes[op].dests};
	return i;
}

static void visit_operand(struct operand *o, reg_visitor visit, void *data)
{
	if (o->kind == OPERAND_REG)
		visit(data, o);
	else if (o->kind == OPERAND_VECTOR)
		for (unsigned k = 0; k < o->count; k++)
			if (o->elements[k].kind == OPERAND_REG)
				visit(data, &o->elements[k]);
}

void inst_uses(struct inst *i, reg_visitor visit, void *data)
{
	struct operand guard = {.kind = OPERAND_REG, .id = i->guard};

	if (i->guard != PTX_NONE) {
		visit(data, &guard);
		i->guard = guard.id;
	}
	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		visit_operand(&i->operands[k], visit, data);
}

void inst_defs(struct inst *i, reg_visitor visit, void *data)
{
	for (unsigned k = 0; k < i->dest_count; k++)
		visit_operand(&i->operands[k], visit, data);
}

struct count {
	uint32_t reg, count;
};

static void count_reg(void *data, struct operand *o)
{
	struct count *c = data;

	c->count += o->id == c->reg;
}

uint32_t uses_between(struct work *w, uint32_t reg, uint32_t first, uint32_t end)
{
	struct count c = {reg, 0};

	for (uint32_t n = first; n < end; n++)
		inst_uses(&w->insts[n], count_reg, &c);
	return c.count;
}

uint32_t defs_between(struct work *w, uint32_t reg, uint32_t first, uint32_t end)
{
	struct count c = {reg, 0};

	for (uint32_t n = first; n < end; n++)
		inst_defs(&w->insts[n], count_reg, &c);
	return c.count;
}

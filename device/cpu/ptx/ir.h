/* SPDX-License-Identifier: MIT
 *
 * What the parser produces and every pass works on: a module of variables and functions, a function
 * of typed virtual registers and instructions. All of it lives in the module's arena (or, for the
 * copy of a kernel that a compilation works on, in that compilation's arena) and dies with it.
 *
 * An instruction is an opcode, the list of its modifiers in the order they were written, the types
 * among them, and operands. Registers are untyped bits of a width, as in PTX itself.
 */
#ifndef GDEV_DEVICE_CPU_PTX_IR_H
#define GDEV_DEVICE_CPU_PTX_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/ptx/arena.h"
#include "device/cpu/ptx/opcodes.h"
#include "device/cpu/ptx/ptx.h"

#define PTX_NONE UINT32_MAX

/* Limits that keep the time and memory of any input bounded. */
enum {
	PTX_MAX_BYTES = 256 << 20,
	PTX_MAX_REGISTERS = 1 << 18, /* a function */
	PTX_MAX_OPERANDS = 12,
	PTX_MAX_VECTOR = 128,      /* wgmma */
	PTX_MAX_PLAIN_VECTOR = 16, /* other instructions */
	PTX_MAX_NESTING = 64,
	PTX_MAX_INLINED = 200000, /* instructions of a kernel, calls inlined */
	PTX_MAX_CALL_DEPTH = 64,
};

enum ptx_space {
	SPACE_GENERIC,
	SPACE_REG,
	SPACE_PARAM,
	SPACE_GLOBAL,
	SPACE_CONST,
	SPACE_SHARED,
	SPACE_LOCAL,
};

enum operand_kind {
	OPERAND_NONE,    /* `_`, or an optional operand that is absent */
	OPERAND_REG,     /* id */
	OPERAND_INT,     /* bits; an f32 or f64 literal carries its bits and literal = 4 or 8 */
	OPERAND_SYMBOL,  /* var + offset: its address in its own state space */
	OPERAND_VECTOR,  /* count elements */
	OPERAND_SPECIAL, /* id: enum ptx_special */
	OPERAND_LABEL,   /* id: label; after cfg_build(), a block */
	OPERAND_FUNCTION,
};

struct operand {
	uint8_t kind;
	bool memory;     /* written in brackets: [base + offset] */
	bool negated;    /* !%p or -%x */
	uint8_t literal; /* bytes of a floating literal, 0 for an integer */
	uint16_t count;
	uint32_t id;
	int64_t bits; /* OPERAND_INT: the value; otherwise the offset */
	union {
		struct variable *var;
		struct operand *elements;
		struct function *function;
	};
};

enum ptx_special {
	SPECIAL_TID, /* four each: .x .y .z .w */
	SPECIAL_NTID = SPECIAL_TID + 4,
	SPECIAL_CTAID = SPECIAL_NTID + 4,
	SPECIAL_NCTAID = SPECIAL_CTAID + 4,
	SPECIAL_ZERO = SPECIAL_NCTAID + 4,
	SPECIAL_LANEID = SPECIAL_ZERO + 4,
	SPECIAL_WARPID,
	SPECIAL_NWARPID,
	SPECIAL_SMID,
	SPECIAL_NSMID,
	SPECIAL_GRIDID,
	SPECIAL_GRAPH,
	SPECIAL_CLOCK,
	SPECIAL_CLOCK_HI,
	SPECIAL_CLOCK64,
	SPECIAL_GLOBALTIMER,
	SPECIAL_GLOBALTIMER_HI,
	SPECIAL_LANEMASK_EQ,
	SPECIAL_LANEMASK_LE,
	SPECIAL_LANEMASK_LT,
	SPECIAL_LANEMASK_GE,
	SPECIAL_LANEMASK_GT,
	SPECIAL_DYNAMIC_SMEM,
	SPECIAL_TOTAL_SMEM,
	SPECIAL_WARP_SZ,
	SPECIAL_ENVREG1, /* where the barrier of a cooperative grid is: the upper half, the lower */
	SPECIAL_ENVREG2,
	SPECIAL_ARGUMENTS, /* of a function that is called: where its caller has put them */
	SPECIAL_CLUSTERID, /* four each, down to %cluster_nctaid */
	SPECIAL_NCLUSTERID = SPECIAL_CLUSTERID + 4,
	SPECIAL_CLUSTER_CTAID = SPECIAL_NCLUSTERID + 4,
	SPECIAL_CLUSTER_NCTAID = SPECIAL_CLUSTER_CTAID + 4,
	SPECIAL_CLUSTER_CTARANK = SPECIAL_CLUSTER_NCTAID + 4,
	SPECIAL_CLUSTER_NCTARANK,
	SPECIAL_CLUSTER_EXPLICIT,
};

enum rounds { /* of a branch: stride.c */
	ROUNDS_NONE,
	ROUNDS_TOGETHER, /* around a round of threads side by side */
	ROUNDS_APART,    /* back, of the loop as it was */
};

struct inst {
	uint16_t op;
	uint8_t modifier_count, type_count;
	uint8_t modifiers[PTX_MAX_MODIFIERS]; /* enum ptx_modifier */
	uint8_t types[4];
	uint8_t operand_count;
	uint8_t dest_count; /* the first operands are results */
	bool guard_negated;
	uint8_t rounds;
	uint16_t columns, depth; /* of the shape of wgmma, m64nNkK */
	uint32_t guard;          /* predicate register or PTX_NONE */
	uint32_t line;
	struct operand *operands;
	/* call: results first, then the callee, then arguments: split points */
	uint16_t call_results;
	struct operand *targets; /* brx.idx, or candidates of an indirect call */
	uint32_t target_count;
};

struct initializer { /* bytes [offset, offset + size) of a variable hold an address */
	struct initializer *next;
	uint64_t offset;
	uint32_t size;
	bool generic;
	struct variable *var; /* NULL: function */
	struct function *function;
	int64_t addend;
	uint32_t shift; /* mask(...) selects a byte of the address */
};

struct variable {
	struct variable *next;
	const char *name;
	uint8_t space, type;
	bool is_extern, unsized, managed;
	bool reference; /* .texref or .surfref: a struct texture that the program binds */
	uint32_t align;
	uint64_t size;
	uint64_t offset;    /* in its block: globals, parameters, shared or local of its function */
	uint8_t *bytes;     /* initial contents, or NULL for zeros */
	uint64_t set_bytes; /* so much of them is said; the rest is zeros, and not touched */
	struct initializer *addresses;
	struct function *owner; /* function that declares it, or NULL */
	uint32_t visited;       /* parsing: mark of reach walks */
};

struct reg {
	uint8_t type;
	uint32_t number; /* behind the name, of a row of registers; PTX_NONE: it is one by itself */
	const char *name;
};

struct placement {
	const struct variable *var;
	uint32_t offset;
};

struct function {
	struct function *next;
	const char *name;
	bool is_entry, is_extern, has_body;
	bool taken; /* its address is somewhere */
	bool recursive; /* its calls may come to a function that calls itself: it is called, not inlined */
	uint32_t line;
	uint32_t index;
	struct variable **params;
	uint32_t param_count;
	struct variable **results;
	uint32_t result_count;
	struct variable *vars; /* .local, .shared and .param declared inside */
	struct reg *regs;
	uint32_t reg_count, reg_capacity;
	struct inst *insts;
	uint32_t inst_count, inst_capacity;
	uint32_t *labels; /* label to index of instruction */
	const char **label_names;
	uint32_t label_count, label_capacity;
	uint32_t max_threads, required[3], cluster[3];
	/* Entries: where the .shared variables that it reaches lie. */
	struct placement *shared;
	uint32_t shared_count;
	uint32_t visited; /* parsing: mark of reach walks */
	/* What the compiler does not know in its body, which is not kept then; NULL: nothing. */
	const char *refused;
	uint32_t refused_line;
	struct ptx_kernel kernel;
};

struct source_file {
	struct source_file *next;
	uint32_t number;
	const char *name;
};

struct location { /* from this line of the PTX on */
	uint32_t ptx_line, file, line;
};

struct ptx_module {
	struct arena arena;
	struct source_file *files;
	struct location *locations; /* by line of the PTX */
	uint32_t location_count, location_capacity;
	struct variable *vars;
	struct function *functions, **functions_tail;
	struct function **entries;
	size_t entry_count;
	uint32_t version, target;
	uint64_t globals_bytes;
	uint32_t globals_align;
	uint32_t const_bytes;
	uint32_t function_count;
	uint64_t text_hash[2];
};

static inline bool inst_has(const struct inst *i, unsigned modifier)
{
	for (unsigned k = 0; k < i->modifier_count; k++)
		if (i->modifiers[k] == modifier)
			return true;
	return false;
}

/* The state space that an instruction names, SPACE_GENERIC when none. */
unsigned inst_space(const struct inst *i);

#endif

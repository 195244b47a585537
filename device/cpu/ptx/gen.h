/* SPDX-License-Identifier: MIT
 *
 * State of code generation, shared by gen.c (the functions), gen_region.c (thread loops), gen_gates.c
 * (threads that go their own ways), gen_call.c (functions that are called), emit*.c (instructions). Two builders are alive inside a region: `scalar` appends to the code before the
 * thread loop, `body` to the loop's body; `b` is the one that the instruction at hand uses. Since
 * instructions are emitted in program order, a scalar read from the body sees the right value: it
 * is loaded at the end of the scalar code emitted so far.
 */
#ifndef GDEV_DEVICE_CPU_PTX_GEN_H
#define GDEV_DEVICE_CPU_PTX_GEN_H

#include <llvm-c/Core.h>

#include "device/cpu/ptx/region.h"

struct thread_range { /* of the indices along each axis; NULL: all */
	LLVMValueRef from[3], to[3];
};

struct thread_loop {
	struct thread_range range; /* from the caller; not empty */
	uint32_t width;            /* along x, if more than one thread a round */
	LLVMBasicBlockRef header[3], latch[3], after;
	LLVMValueRef index[3];
	bool looped[3];
};

struct param_load {
	uint64_t offset;
	LLVMTypeRef type;
	LLVMValueRef value;
};

enum {
	MAX_PARAM_LOADS = 512,
	LARGE_KERNEL = 20000, /* instructions: LLVM does not look for vectors */
};

struct gen {
	struct work *work;
	struct plan *plan;
	LLVMContextRef context;
	LLVMModuleRef module;
	LLVMBuilderRef b, scalar, body, entry;
	LLVMTypeRef i1, i8, i16, i32, i64, half, f32, f64, ptr, none;
	/* A type of its own, so that LLVM does not make one load of two from different spaces. */
	LLVMTypeRef shared_ptr;
	LLVMValueRef function;
	/* Arguments of the block function. */
	LLVMValueRef mem, params, shared, saved, locals, globals, launch, scratch;
	LLVMValueRef shared_base, locals_base, params_base, globals_base; /* integers */
	LLVMValueRef
		shared_part; /* in the window of a cluster, where the block's part begins; NULL: the window is the block's */
	/* Of a scheduled plan, a number: not 0, if the block's threads go on from the cluster's barrier, and the block has not met the
	 * others yet. NULL: all threads wait at one instruction. */
	LLVMValueRef cluster_due;
	LLVMValueRef ctaid[3], nctaid[3];
	LLVMValueRef arguments,
		frame;    /* integers, of a function that is called (gen_call.c); NULL: of none */
	LLVMValueRef row; /* threads along x of the blocks that run as one; NULL: block[0] */
	LLVMValueRef *storage;     /* alloca of a register */
	LLVMValueRef *any;         /* two per guard: whether a thread took the side */
	LLVMBasicBlockRef *blocks; /* of the region at hand, by block */
	LLVMBasicBlockRef *pre;    /* by region */
	LLVMBasicBlockRef done;
	LLVMBasicBlockRef *sides;   /* two per guard: the test before a side */
	LLVMBasicBlockRef dispatch; /* scheduled plans */
	bool gated; /* scheduled plans: there are gates besides barriers of the block */
	LLVMBasicBlockRef leave;
	LLVMValueRef tid[3], linear;
	LLVMMetadataRef access_group;
	bool gathers;  /* the code may have them, even where they are slow */
	bool parallel; /* of the region at hand */
	bool in_body;
	uint32_t region;
	uint32_t line;
	uint64_t saved_bytes;
	uint32_t pc_slot, wants_slot, arrived_slot, warp_slot;
	uint32_t matrix_slot, matrix_bytes, matrix_presence; /* emit_matrix.c */
	LLVMValueRef texture_operands, texture_results;      /* emit_texture.c; NULL: not yet */
	uint64_t *used;              /* registers that the region at hand reads or writes */
	struct lanes *lanes;         /* of the region at hand, when lanes.c emits it */
	struct butterfly *butterfly; /* of the strip at hand, when butterfly.c emits it */
	struct tally *tally;         /* of the region at hand; NULL: none (tally.c) */
	struct param_load *param_loads;
	uint32_t param_load_count;
};

/* gen.c */
int gen_kernel(struct work *w, struct plan *p, LLVMContextRef context, LLVMModuleRef module,
	uint64_t *saved_bytes);
/* Of a function: its types, builders and arrays. gen_end() frees the builders. */
void gen_begin(struct gen *g);
void gen_end(struct gen *g);
void gen_function_attributes(struct gen *g, LLVMValueRef f);
void gen_unsupported(struct gen *g, const struct inst *i);
LLVMValueRef gen_alloca(struct gen *g, LLVMTypeRef type, const char *name);
/* A field of struct ptx_launch or ptx_scratch. */
LLVMValueRef gen_field(
	struct gen *g, LLVMBuilderRef b, LLVMValueRef base, LLVMTypeRef type, size_t offset);
LLVMValueRef gen_gep(struct gen *g, LLVMBuilderRef b, LLVMValueRef base, LLVMValueRef offset);
LLVMValueRef gen_param(struct gen *g, uint64_t offset, LLVMTypeRef type);
uint32_t gen_saved(struct gen *g, uint32_t bytes);
void gen_mark(struct gen *g, LLVMValueRef access);
LLVMValueRef gen_int(struct gen *g, uint64_t value);

/* gen_call.c */
/* A call of a function that is not inlined. */
void gen_call(struct gen *g, const struct inst *i);
/* The bodies of all functions that the module's code calls so. */
int gen_callees(struct gen *g);

/* gen_region.c */
/* Threads along an axis of what runs as one. */
LLVMValueRef thread_count(struct gen *g, unsigned axis);
/* All regions, the first of them entered from `start`. */
void gen_plan(struct gen *g, LLVMBasicBlockRef start);
void loop_begin(struct gen *g, struct thread_loop *l, LLVMBuilderRef from);
void loop_end(struct gen *g, struct thread_loop *l, LLVMBuilderRef to);
LLVMValueRef slot_pointer(struct gen *g, uint32_t reg, LLVMValueRef thread);
uint32_t target_block(const struct work *w, const struct inst *brx, uint32_t k);
typedef void (*thread_code)(struct gen *g, struct inst *i);
/* parallel: no thread's code sees what another's wrote. */
void gen_over_threads(struct gen *g, struct inst *i, thread_code emit, bool parallel);
LLVMBasicBlockRef gen_block(struct gen *g, const char *name);
struct gen_if {
	LLVMBasicBlockRef from, after;
};
/* What is emitted from here to gen_end_if() runs if `condition` holds. */
struct gen_if gen_begin_if(struct gen *g, LLVMValueRef condition, const char *name);
/* `value`, if that ran, `otherwise`, if not. `value` may be NULL: there is none. */
LLVMValueRef gen_end_if(
	struct gen *g, const struct gen_if *begun, LLVMValueRef value, LLVMValueRef otherwise);

/* Of a register in memory. */
LLVMTypeRef slot_type(struct gen *g, uint32_t reg);
/* A fresh computation of a pure register and of the pure registers it is made of, but for those done. */
void rematerialise(struct gen *g, uint32_t reg, uint64_t *done);
/* In a loop over threads: those that do not run the region go to l->after. */
void enter_active(struct gen *g, const struct region *r, struct thread_loop *l, uint64_t *done);
/* What is live where the region begins; what it leaves to others. */
void load_live(struct gen *g, const struct region *r, uint64_t *done);
void store_live(struct gen *g, const struct region *r, const uint64_t *live);
void emit_block(struct gen *g, const struct region *r, uint32_t block, struct thread_loop *l);

/* lone.c: code that LLVM has optimised loads one number instead of a vector of which at most one lane is on. */
void lone_loads(LLVMModuleRef module);
/* ternary.c: keeps from code that LLVM has optimised what it makes wrong instructions of. */
void ternary_part(LLVMModuleRef module);

/* hints.c */
enum loop_hints {
	LOOP_PARALLEL = 1, /* its threads' accesses are independent */
	LOOP_SHORT = 2,    /* may be unrolled once it is vectors */
	LOOP_SCALAR = 4,   /* becomes no vectors */
	LOOP_FOUR = 16,    /* becomes no vectors, and is unrolled by four */
	LOOP_APART =
		8, /* of a thread, which leaves it when others do not: no processor foresees where one of many rounds ends */
};

/* Keeps LLVM from unrolling the loop before it is vectors, or at all. width: of the vectors it must become, 0: LLVM
 * decides. */
void loop_metadata(struct gen *g, LLVMValueRef branch, unsigned hints, uint32_t width);
/* Whether the block ends a round of a loop that threads leave at different times. */
bool leaves_apart(const struct gen *g, uint32_t latch);

/* lanes.c */
/* A plan for a region with a loop that threads leave at different times, or NULL: it has none that fits. */
struct lanes *lanes_find(struct gen *g, const struct region *r, const struct thread_range *range);
/* How many threads go together: 1 for NULL. */
uint32_t lanes_width(const struct lanes *l);
/* In a loop over strips of threads: the region for a strip, up to t->after. */
void lanes_emit(struct gen *g, struct lanes *l, struct thread_loop *t, uint64_t *done);
/* Where an edge to a block of the region goes. */
LLVMBasicBlockRef lanes_edge(struct gen *g, struct lanes *l, uint32_t to);

/* narrow.c */
/* Whether all guards around the context keep threads from one index to another. */
bool narrow_context(const struct gen *g, uint32_t context);
/* Whether this side of a branch and all around it do. */
bool narrow_side(const struct gen *g, uint32_t branch, uint32_t side);
/* The threads that those guards of the context leave, as many from the outermost inwards as do. */
void narrow_range(struct gen *g, uint32_t context, struct thread_range *r);
/* Whether any thread takes the side. */
LLVMValueRef narrow_any(struct gen *g, uint32_t branch, uint32_t side);

/* prefetch.c */
/* At the begin of a block, of code before loops: asks for lines of memory that the block behind it will touch. */
void prefetch_next(struct gen *g);

/* monotone.c */
/* Whether the first and the last thread of the block say if any of its threads takes a side. */
bool monotone_branch(const struct gen *g, uint32_t branch);
/* Whether one does, of all threads of the block; code before a loop. */
LLVMValueRef monotone_any(struct gen *g, uint32_t branch, uint32_t side);
/* A register that can be computed again, as the first or the last thread of the block has it; code before a loop. */
LLVMValueRef monotone_value(struct gen *g, uint32_t reg, bool last);
/* Between which numbers an operand of 32 bits that grows with the index along an axis always is, without wrapping. */
bool monotone_limits(const struct work *w, const struct operand *o, int64_t *lo, int64_t *hi);

/* butterfly.c */
/* For a region that has indices such as i ^ distance, or NULL. */
struct butterfly *butterfly_find(
	struct gen *g, const struct region *r, const struct thread_range *range);
/* Whether the block's numbers let it go in strips; code before a loop. */
LLVMValueRef butterfly_fits(struct gen *g, const struct butterfly *b);
uint32_t butterfly_width(const struct butterfly *b);
/* Around the code of a thread, in a loop over strips: a loop over the lanes of one. */
void butterfly_begin(
	struct gen *g, struct butterfly *b, struct thread_loop *strip, struct thread_loop *lanes);
void butterfly_end(
	struct gen *g, struct butterfly *b, struct thread_loop *strip, struct thread_loop *lanes);
/* Emits the instruction if it makes such an index, in a strip. */
bool butterfly_emit(struct gen *g, const struct inst *i);

/* tally.c */
/* Before the loop of a region: makes the copies that its threads count in. NULL: it needs none. */
struct tally *tally_begin(struct gen *g, const struct region *r);
/* Emits the atomic instruction, if it counts in what the region has copies of. */
bool tally_add(struct gen *g, const struct inst *i);
/* Behind the loop. */
void tally_end(struct gen *g, const struct tally *t);

/* gen_gates.c: scheduled plans. */
/* The thread's word in an array of the saved area. */
LLVMValueRef thread_word(struct gen *g, uint32_t slot);
/* The thread at hand comes to a region: runs it next, or waits at its gate. */
void gate_arrive(struct gen *g, const struct region *r);
/* Marks what gate_arrive() reads as used by the region at hand. */
void gate_uses(struct gen *g, const struct region *r);
void gen_dispatch(struct gen *g, LLVMBasicBlockRef start);

/* emit.c */
LLVMTypeRef emit_type(struct gen *g, unsigned type);
LLVMTypeRef reg_type(struct gen *g, uint32_t reg);
LLVMValueRef reg_storage(struct gen *g, uint32_t reg);
LLVMValueRef reg_read(struct gen *g, uint32_t reg);
void reg_write(struct gen *g, uint32_t reg, LLVMValueRef value);
LLVMValueRef emit_coerce(struct gen *g, LLVMValueRef value, LLVMTypeRef want);
LLVMValueRef emit_operand(struct gen *g, const struct operand *o, LLVMTypeRef want);
void emit_result(struct gen *g, const struct operand *o, LLVMValueRef value);
LLVMValueRef emit_builtin(struct gen *g, const char *name, LLVMValueRef *arguments, unsigned count);
void emit_inst(struct gen *g, struct inst *i);

/* emit_arith.c, emit_mem.c, emit_warp.c: false when the instruction is not supported. */
bool emit_arith(struct gen *g, struct inst *i);
bool emit_cvt(struct gen *g, struct inst *i);
bool emit_load(struct gen *g, struct inst *i);
bool emit_store(struct gen *g, struct inst *i);
bool emit_copy(struct gen *g, struct inst *i);
bool emit_atomic(struct gen *g, struct inst *i);
bool emit_cvta(struct gen *g, struct inst *i);
bool emit_isspacep(struct gen *g, struct inst *i);
bool emit_fence(struct gen *g, struct inst *i);
bool emit_call(struct gen *g, struct inst *i);
bool emit_trap(struct gen *g, struct inst *i);
/* `lines`: for each thread where it waits. */
void emit_deadlock(struct gen *g, LLVMValueRef lines);
bool emit_collective(struct gen *g, struct inst *i);
void emit_collective_prepare(struct gen *g, struct inst *i);
/* emit_async.c */
bool emit_copy(struct gen *g, struct inst *i);
bool emit_mbarrier(struct gen *g, struct inst *i);
bool emit_async(struct gen *g, struct inst *i);
/* emit_cluster.c */
/* Whether the kernel asks for its cluster, or for memory of the cluster's other blocks. */
bool cluster_asked(const struct work *w);
/* Where the block's part of the cluster's shared memory begins. */
LLVMValueRef cluster_part(struct gen *g, LLVMBuilderRef b);
/* Of the shared memory of all its blocks; each has so many. */
LLVMValueRef cluster_bytes(struct gen *g, LLVMValueRef each);
LLVMValueRef cluster_special(struct gen *g, uint32_t id);
bool emit_mapa(struct gen *g, struct inst *i);
bool emit_getctarank(struct gen *g, struct inst *i);
/* Copies to the same place of those blocks of the cluster that the mask has, and completes so many bytes at their barriers. */
bool cluster_copy(struct gen *g, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes,
	LLVMValueRef mask, LLVMValueRef barrier);
/* The place of a shared pointer in the memory of its block; and the pointer to the same place in the first block that the mask has. */
LLVMValueRef cluster_place(struct gen *g, LLVMValueRef pointer);
LLVMValueRef cluster_first(struct gen *g, LLVMValueRef to, LLVMValueRef mask);
/* The block waits for the others of its cluster, once for all instructions at which its threads wait for that; lets them go on. */
void cluster_meet(struct gen *g);
void cluster_give_way(struct gen *g);
/* emit_matrix.c */
bool is_matrix(const struct inst *i);
bool emit_matrix(struct gen *g, struct inst *i);
void emit_matrix_prepare(struct gen *g, struct inst *i);
/* emit_check.c: calls of the runtime in checked code; nothing in other code. */
/* Where the operand [base + offset] points, once the runtime has seen the access. value: what is stored, or NULL. */
LLVMValueRef checked_address(struct gen *g, const struct inst *i, const struct operand *o,
	unsigned space, struct ptx_access access, LLVMValueRef value);
/* As checked_address(), of a part of what such an operand points at. */
LLVMValueRef checked_pointer(struct gen *g, const struct inst *i, LLVMValueRef pointer,
	unsigned space, struct ptx_access access, LLVMValueRef value);
/* Of the instruction at hand, in checked code alone: calls a member of struct ptx_runtime that returns whether accesses may be
 * made. thread: NULL, that at hand. */
LLVMValueRef checked_call(
	struct gen *g, size_t member, LLVMValueRef *arguments, unsigned count, LLVMValueRef thread);
/* The same, of `count` rows. space: that the instruction names. */
LLVMValueRef checked_rows(struct gen *g, struct ptx_access access, unsigned space,
	LLVMValueRef address, LLVMValueRef bytes, uint32_t count, LLVMValueRef pitch,
	LLVMValueRef thread);
/* Of the thread at hand, in the instruction at hand. */
void checked_order(struct gen *g, enum ptx_order order, LLVMValueRef value);
/* Before the loop of a region that begins with the instruction. */
void checked_region(struct gen *g, struct inst *i);
/* Before a matrix is loaded or stored, for which a warp's threads wait for each other. */
void checked_matrix(struct gen *g);
void checked_block(struct gen *g, enum ptx_order order, LLVMValueRef block);
/* emit_texture.c */
bool emit_texture(struct gen *g, struct inst *i);
LLVMValueRef emit_special(struct gen *g, uint32_t id);
/* Calls a member of struct ptx_runtime, by its offset. */
LLVMValueRef call_runtime(
	struct gen *g, size_t member, LLVMTypeRef result, LLVMValueRef *arguments, unsigned count);
/* Of the state space's window at the thread at hand, an integer. */
LLVMValueRef generic_base(struct gen *g, unsigned space);
LLVMValueRef emit_symbol(struct gen *g, const struct operand *o);
/* The operand [base + offset] as a number, in the window of its state space. */
LLVMValueRef emit_offset(struct gen *g, const struct operand *o, unsigned space);
/* Where the operand [base + offset] points. */
LLVMValueRef emit_address(struct gen *g, const struct operand *o, unsigned space);

#endif

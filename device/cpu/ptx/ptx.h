/* SPDX-License-Identifier: MIT
 *
 * PTX to native code: the compiler of the software GPU.
 *
 * Three steps, each usable alone: ptx_parse() reads PTX text and checks it; ptx_compile() turns one
 * kernel, for one block shape, into a relocatable object (bytes that can be cached on disk by
 * content hash); ptx_link() makes such an object executable in this process. Called by device/cpu
 * only. No global state that a caller can see; every function may be called from any thread, and a
 * parsed module is immutable, so that several threads may compile from it at once.
 *
 * Addresses. A generic address is an address of this process. The .shared, .local and .const
 * windows start at 0 in their own state space; cvta adds the base of the window at run time.
 * Module-scope .global and .const variables live in one block of memory that the caller provides
 * (ptx_globals_*), so compiled code is position independent of it.
 */
#ifndef GDEV_DEVICE_CPU_PTX_H
#define GDEV_DEVICE_CPU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text for the JIT log of the CUDA caller: NUL-terminated, cut when full, never overrun.
 * A message names the line: "ptxas application ptx input, line 12; error : ...". */
struct ptx_log {
	char *text;
	size_t size; /* bytes of text, the NUL included; 0: no log wanted */
	size_t used; /* bytes written, without the NUL */
};

struct ptx_module;

/* Parses and checks a whole module; `text` need not be NUL-terminated and is not kept.
 * -EINVAL: not PTX or malformed; -ENOTSUP: a .version or a declaration that this compiler does not
 * know; -ENOMEM. The log names it and its line. An instruction that the compiler does not know is in the log, too, and
 * only the kernels that reach it cannot be compiled. */
int ptx_parse(const char *text, size_t length, struct ptx_log *log, struct ptx_module **out);
void ptx_module_destroy(struct ptx_module *module); /* NULL is fine */

/* Identifies the module's text and the compiler that would compile it (LLVM version, CPU model and
 * features, our own code generator's version): the stem of a cache key. */
void ptx_module_hash(const struct ptx_module *module, uint8_t hash[16]);

/* ---- module-scope variables ---- */

/* Bytes (and alignment) of the block that holds all module-scope variables; 0 when there are none. */
void ptx_globals_layout(const struct ptx_module *module, size_t *bytes, size_t *align);
/* Writes initial values into `block`, which is zeros, and which kernels will see at that same address. */
void ptx_globals_init(const struct ptx_module *module, void *block);
/* Calls `visit` for each variable of the block. Offset and size in bytes. */
void ptx_globals_visit(const struct ptx_module *module,
	void (*visit)(void *owner, uint64_t offset, uint64_t size), void *owner);
/* Whether any variable is declared as managed. */
bool ptx_globals_managed(const struct ptx_module *module);
bool ptx_global_is_managed(const struct ptx_module *module, const char *name);
/* -ENOENT when there is no such variable. Offset and size in bytes. */
int ptx_global_find(
	const struct ptx_module *module, const char *name, uint64_t *offset, uint64_t *size);

/* ---- kernels ---- */

struct ptx_param {
	uint32_t offset, size, align; /* bytes, within the parameter block */
};

struct ptx_kernel {
	const char *name; /* owned by the module */
	const struct ptx_param *params;
	uint32_t param_count;
	uint32_t param_bytes;         /* the whole parameter block */
	uint32_t shared_bytes;        /* static .shared, a block */
	uint32_t local_bytes;         /* .local, a thread */
	uint32_t const_bytes;         /* module-scope .const */
	uint32_t registers;           /* an estimate, a thread, at least 1 */
	uint32_t max_threads;         /* a block: .maxntid, .reqntid or 1024 */
	uint32_t required_block[3];   /* .reqntid, or zeros */
	uint32_t cluster[3];          /* .reqnctapercluster, or zeros */
	uint32_t ptx_version, target; /* 87, 90 for .version 8.7, .target sm_90 */
	/* Why it cannot be compiled, as far as its text says, in it or in a function that it calls; and the line. */
	const char *refused; /* NULL: no reason */
	uint32_t refused_line;
};

size_t ptx_kernel_count(const struct ptx_module *module);
/* Valid until the module is destroyed; NULL when out of range / no such entry. */
const struct ptx_kernel *ptx_kernel_at(const struct ptx_module *module, size_t index);
const struct ptx_kernel *ptx_kernel_find(const struct ptx_module *module, const char *name);
/* The one whose address, as its module's code takes it, that is. */
const struct ptx_kernel *ptx_kernel_at_address(const struct ptx_module *module, uint64_t address);

/* ---- what a launch hands to compiled code (layout is part of the cached object's ABI) ---- */

struct ptx_runtime; /* functions that compiled code calls back, below */

/* Constant during a launch; shared by all pool threads. */
struct ptx_launch {
	const void *params; /* param_bytes, 16-byte aligned */
	void *globals;      /* the block of module-scope variables */
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	uint32_t total_shared_bytes; /* static + dynamic */
	uint64_t grid_id;
	const struct ptx_runtime *runtime;
	void *owner; /* for the runtime's functions; compiled code only passes it on */
	/* Of a cooperative launch: the address of 8 bytes, the second half a barrier, at first 0. Else 0. */
	uint64_t workspace;
	uint32_t cluster[3]; /* blocks; zeros: the launch has no clusters */
	uint64_t graph;      /* becomes %current_graph_exec */
};

/* One per pool thread, reused from block to block. Sizes from struct ptx_code. */
struct ptx_scratch {
	void *shared; /* 64-byte aligned, total_shared_bytes, not cleared between blocks */
	void *locals; /* 64-byte aligned, code->local_bytes: .local of all threads of a block */
	void *saved;  /* 64-byte aligned, code->saved_bytes: values that live across barriers */
	uint32_t pool_thread; /* index, becomes %smid */
	uint64_t stack_end;   /* functions that call themselves use no stack below this address */
	void *checking;       /* for the runtime's functions that checked code calls */
	/* Of a launch with clusters: the block's number in its cluster, and how far apart the shared memories of the cluster's
	 * blocks are, which lie in the order of these numbers. Else zeros. */
	uint32_t cluster_rank, cluster_stride;
};

/* What an instruction of checked code does to memory, one of these words a call of ptx_runtime.access. */
enum ptx_access_kind {
	PTX_READS,
	PTX_WRITES,
	PTX_UPDATES /* an atomic operation */,
	PTX_COPIES /* asynchronously */
};
struct ptx_access {
	uint8_t bytes; /* 1 to 16 */
	uint8_t align; /* that the address must have */
	uint8_t kind;  /* enum ptx_access_kind */
	bool shared;   /* the instruction names shared memory; else the address says what it is */
	bool strong; /* as PTX has the word: volatile, relaxed and stronger accesses do not race with each other */
};

static inline uint32_t ptx_access_pack(struct ptx_access a)
{
	return a.bytes | (uint32_t)a.align << 8 | (uint32_t)a.kind << 16 |
	       (uint32_t)a.shared << 18 | (uint32_t)a.strong << 19;
}

static inline struct ptx_access ptx_access_unpack(uint32_t word)
{
	return (struct ptx_access){.bytes = (uint8_t)word,
		.align = (uint8_t)(word >> 8),
		.kind = word >> 16 & 3,
		.shared = word >> 18 & 1,
		.strong = word >> 19 & 1};
}

/* What orders accesses, and says that threads were here: for ptx_runtime.order. */
enum ptx_order {
	PTX_BLOCK_BEGINS, /* value: its number in the grid */
	PTX_BLOCK_ENDS,
	PTX_BARRIER, /* value: how many threads must come to it; 0: not known */
	PTX_ARRIVED, /* a thread at the last PTX_BARRIER */
	PTX_WARP_BARRIER,
	PTX_WARP_ARRIVED, /* value: the mask that the thread names */
	PTX_FENCE,        /* value: not 0, with a strong access */
	PTX_COMMITTED,    /* the thread's asynchronous copies so far are a group */
	PTX_AWAITED, /* value: all but so many of the thread's groups are done; UINT32_MAX: all copies are */
	PTX_BULK_COMMITTED, /* the same of bulk copies, which have groups of their own */
	PTX_BULK_AWAITED,
	PTX_PASSED, /* value: the address of a barrier in memory, and in bit 0 the parity of a phase of it that has ended; or 0 */
};

/* Functions of CUDA's device runtime, for ptx_runtime.device_call. */
enum ptx_device_call {
	PTX_CREATE = 1, /* where the handle of a stream or an event goes, flags */
	PTX_ACCEPT, /* what needs nothing done, as what is launched runs one after the other; has no error to tell */
	PTX_COPY,    /* destination, source, bytes, direction, stream */
	PTX_COPY_2D, /* destination, its pitch, source, its pitch, width, height, direction, stream */
	PTX_FILL,    /* destination, value, bytes, stream */
	PTX_FILL_2D,      /* destination, its pitch, value, width, height, stream */
	PTX_ALLOCATE,     /* where the pointer goes, bytes */
	PTX_RELEASE,      /* pointer */
	PTX_GRAPH_LAUNCH, /* the graph's handle, stream */
};

struct ptx_runtime {
	/* Device printf: `args` as CUDA's vprintf receives them (packed by natural alignment). Returns
	 * what device printf returns. */
	int (*print)(const struct ptx_launch *launch, const char *format, const void *args);
	/* Do not return: they unwind to the caller of ptx_code.run. */
	void (*trap)(const struct ptx_launch *launch) __attribute__((noreturn));
	void (*assert_fail)(const struct ptx_launch *launch, const char *message, const char *file,
		uint32_t line, const char *function, const uint32_t block[3],
		const uint32_t thread[3]) __attribute__((noreturn));
	/* In-kernel malloc and free; NULL when exhausted. Freed by the owner at context end. */
	void *(*allocate)(const struct ptx_launch *launch, uint64_t size);
	void (*release)(const struct ptx_launch *launch, void *pointer);
	/* Called of a cooperative launch, whose blocks run at once, by one that may wait for another. */
	void (*give_way)(const struct ptx_launch *launch);
	/* Does not return. The threads of a block wait for each other. lines: for each of them where in
	 * the PTX, 0 for those that have left. */
	void (*deadlock)(const struct ptx_launch *launch, const char *kernel,
		const uint32_t block[3], const uint32_t *lines, uint32_t threads)
		__attribute__((noreturn));
	/* Does not return. What the operands of the PTX's line are is known only now, and not supported. */
	void (*unsupported)(const struct ptx_launch *launch, uint32_t line)
		__attribute__((noreturn));
	/* Does not return: a thread's calls need more than its stack. */
	void (*overflow)(const struct ptx_launch *launch) __attribute__((noreturn));
	/* Of kernels that launch kernels, as CUDA's device runtime has them. launch_prepare: where the parameters of the launch
	 * are to be written. launch: it runs after this kernel; returns an error of CUDA. Both may end the kernel instead. */
	void *(*launch_prepare)(const struct ptx_launch *launch, uint64_t function,
		const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes);
	uint32_t (*launch)(const struct ptx_launch *launch, void *prepared, uint64_t stream);
	/* Another function of that runtime, with its arguments; returns an error of CUDA. memory: NULL, what it may change. */
	uint32_t (*device_call)(const struct ptx_launch *launch, uint32_t call,
		const uint64_t *arguments, void *memory);
	/* An instruction of a texture or a surface: texture_execute(). Unwinds where that says what is wrong. */
	void (*texture)(const struct ptx_launch *launch, uint32_t word, uint64_t handle,
		const uint32_t *operands, uint32_t *results);
	/* Called where the cluster has several blocks. The block waits until all others wait as often as it does, or have ended;
	 * others may go on before it does. memory: NULL, what they change meanwhile. */
	void (*cluster_meet)(const struct ptx_launch *launch, void *memory);
	void (*cluster_give_way)(const struct ptx_launch *launch, void *memory);
	/* Called by checked code alone, before it accesses memory: at the address that is returned. That is another one where
	 * nothing may be accessed at `address`. `value`: what is stored, of 8 bytes at most. */
	uint64_t (*access)(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
		uint64_t address, uint32_t access, uint32_t line, uint32_t thread, uint64_t value);
	void (*order)(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
		uint32_t order, uint32_t line, uint32_t thread, uint64_t value);
	/* A copy of a box of a tensor: tensor_move(), whose numbers and box these are; returns how many bytes the box has. Unwinds
	 * where that says what is wrong. */
	uint32_t (*tensor)(const struct ptx_launch *launch, uint32_t word, const void *map,
		const int32_t *numbers, void *shared, uint64_t at);
	/* Called by checked code alone, as .access is, of instructions that access more than 16 bytes, or as many as a register says.
	 * rows: `count` rows of as many bytes, `pitch` apart. Returns 0 if no access must be made. `access` says the rest; its
	 * bytes are not looked at. */
	uint32_t (*rows)(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
		uint64_t address, uint32_t bytes, uint32_t count, uint64_t pitch, uint32_t access,
		uint32_t line, uint32_t thread);
	/* A bulk copy that is about to be made, and what the program is to wait for: a barrier in memory, or, if it is 0, the group
	 * of the thread's. Returns as rows. */
	uint32_t (*bulk)(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
		uint64_t to, uint64_t from, uint32_t bytes, uint64_t barrier, uint32_t line,
		uint32_t thread);
	/* The same of a box of a tensor. */
	uint32_t (*box)(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
		uint32_t word, const void *map, const int32_t *numbers, uint64_t shared,
		uint64_t barrier, uint32_t *bytes, uint32_t line, uint32_t thread);
};

/* Runs blocks [first, end) of the grid, in linear order (x fastest), one after another. */
typedef void (*ptx_run)(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint64_t first, uint64_t end);

/* ---- compiling and linking ---- */

/* A relocatable object for one kernel and one block shape. free() it. Errors as ptx_parse, and the
 * log says which instruction. `object` and `size` NULL: only says whether it could be done, without
 * LLVM's passes. Takes tens of milliseconds; may run in several threads at once. */
int ptx_compile(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], struct ptx_log *log, void **object, size_t *size);

/* As ptx_compile(), of code that calls ptx_runtime.access and .order. */
int ptx_compile_checked(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], struct ptx_log *log, void **object, size_t *size);

/* Where a line of the PTX comes from, as its .loc and .file say. NULL: they do not. The name is the module's. */
const char *ptx_source_line(const struct ptx_module *module, uint32_t ptx_line, uint32_t *line);

/* The forms that a kernel takes on its way to native code. */
enum ptx_form {
	PTX_FORM_TEXT, /* PTX, which its caller has */
	PTX_FORM_IR,   /* LLVM's IR, as the code generator wrote it */
	PTX_FORM_OPTIMISED,
	PTX_FORM_ASSEMBLY,
	PTX_FORMS,
};

/* Compiles the kernel for people to read: `say` is called with each form but the first. Errors as ptx_compile. */
int ptx_list(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], void (*say)(void *owner, enum ptx_form form, const char *text),
	void *owner);

struct ptx_code {
	ptx_run run;
	size_t local_bytes; /* scratch->locals */
	size_t saved_bytes; /* scratch->saved */
};

/* Makes ready what linking needs, so that the first one takes no longer than others; nobody must call it. */
void ptx_prepare(void);

/* Makes an object executable. -EINVAL when the bytes are no object of this compiler's (a damaged
 * cache file: compile again). */
int ptx_link(const void *object, size_t size, const struct ptx_code **out);
void ptx_unlink(const struct ptx_code *code); /* NULL is fine */

#endif

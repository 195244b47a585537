/* SPDX-License-Identifier: MIT
 *
 * Accesses of instructions that move more than 16 bytes, or as many as a register says: matrices, bulk copies, boxes of tensors. All
 * of one is looked at before any of it is made, and none of it is made when some must not be. What was looked at before that one counts
 * as written all the same.
 */
#include "base/cleanup.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/cpu.h"
#include "device/cpu/ptx/tensor.h"

enum {
	BULK_ALIGN = 16,
	BOX_ALIGN = 128,
	PARITY = 63 /* of the phase that a barrier is in: builtins_async.h */
};

uint32_t check_rows(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint64_t address, uint32_t bytes, uint32_t count, uint64_t pitch, uint32_t access,
	uint32_t line, uint32_t thread)
{
	struct ptx_access is = ptx_access_unpack(access);

	for (uint32_t k = 0; k < count; k++)
		if (!check_wide(
			    launch, scratch, address + k * pitch, bytes, is, false, line, thread))
			return 0;
	return 1;
}

/* ---- what is to be waited for ---- */

static void begin(const struct ptx_scratch *scratch, uint64_t shared, uint32_t bytes,
	uint64_t barrier, uint32_t line, uint32_t thread)
{
	struct check_state *s = scratch->checking;
	struct check_copy copy = {.kind = barrier ? CHECK_BULK_IN : CHECK_BULK_OUT,
		.thread = thread,
		.offset = (uint32_t)(shared - s->quick.shared),
		.bytes = bytes,
		.line = line};

	if (barrier)
		copy.barrier = barrier | *(const uint64_t *)(uintptr_t)barrier >> PARITY;
	check_copy_begins(s, &copy);
}

/* ---- bulk copies ---- */

uint32_t check_bulk(const struct ptx_launch *launch, const struct ptx_scratch *scratch, uint64_t to,
	uint64_t from, uint32_t bytes, uint64_t barrier, uint32_t line, uint32_t thread)
{
	struct check_state *s = scratch->checking;
	/* One that is counted by a barrier goes to shared memory, another one comes from there. */
	struct ptx_access writes = {.align = BULK_ALIGN,
				  .kind = barrier ? PTX_COPIES : PTX_WRITES,
				  .shared = barrier},
			  reads = {.align = BULK_ALIGN, .kind = PTX_READS, .shared = !barrier};

	if (bytes % BULK_ALIGN && s->checking->checks & 1u << DEVICE_CHECK_MEMORY) {
		check_report(s, CHECK_MISALIGNED, line, thread,
			"a bulk copy is of %u bytes, which is no multiple of %u", bytes,
			BULK_ALIGN);
		return 0;
	}
	if (!check_wide(launch, scratch, from, bytes, reads, false, line, thread) ||
		!check_wide(launch, scratch, to, bytes, writes, false, line, thread))
		return 0;
	begin(scratch, barrier ? to : from, bytes, barrier, line, thread);
	return 1;
}

/* ---- boxes of tensors ---- */

struct box {
	const struct ptx_launch *launch;
	const struct ptx_scratch *scratch;
	struct ptx_access is;
	uint32_t line, thread;
	uint32_t bytes; /* that lie within the tensor */
	bool wrong;
};

static void look_at_row(void *owner, uint64_t address, uint32_t bytes)
{
	struct box *box = owner;

	box->bytes += bytes;
	box->wrong = box->wrong || !check_wide(box->launch, box->scratch, address, bytes, box->is,
					   false, box->line, box->thread);
}

uint32_t check_box(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint32_t word, const void *map, const int32_t *numbers, uint64_t shared, uint64_t barrier,
	uint32_t *bytes, uint32_t line, uint32_t thread)
{
	const struct check_state *s = scratch->checking;
	unsigned operation = tensor_operation(word);
	bool load = operation == TENSOR_LOAD;
	struct ptx_access reads = {.align = 1, .kind = PTX_READS},
			  here = {.align = BOX_ALIGN,
				  .kind = load ? PTX_COPIES : PTX_READS,
				  .shared = true};
	struct box box = {.launch = launch,
		.scratch = scratch,
		.is = {.align = 1,
			.kind = load                        ? PTX_READS
				: operation == TENSOR_STORE ? PTX_WRITES
							    : PTX_UPDATES,
			.strong = operation > TENSOR_STORE},
		.line = line,
		.thread = thread};
	uint64_t whole = 0;

	*bytes = 0;
	/* What is no map ends the kernel when the box is moved. */
	if (!check_wide(launch, scratch, (uint64_t)(uintptr_t)map, TENSOR_MAP_BYTES, reads, false,
		    line, thread) ||
		tensor_visit(word, map, numbers, s->quick.shared_bytes, look_at_row, &box,
			&whole) != TENSOR_DONE)
		return 1;
	*bytes = (uint32_t)min_of(whole, UINT32_MAX);
	/* What comes to lie outside of the tensor is not stored, and needs no value. */
	if (box.wrong || !check_wide(launch, scratch, shared, *bytes, here, box.bytes < *bytes,
				 line, thread))
		return 0;
	begin(scratch, shared, *bytes, barrier, line, thread);
	return 1;
}

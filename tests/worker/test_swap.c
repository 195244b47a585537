/* SPDX-License-Identifier: MIT
 *
 * Two pools of swap, memory and a file: slots are found as long as both together have room, and what the device cannot
 * be given from the file goes to memory, or waits; what others need memory for moves to the file. The worker has
 * threads here, because its jobs ask gdevd; gdevd is this test's main thread: it has so much room of each, and says yes
 * as long as it lasts.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "harness.h"
#include "worker/memory/residency.h"

enum { A = 40 };

struct gdevd {
	struct fixture fixture;
	uint64_t room[SWAP_POOLS], charged[SWAP_POOLS];
	uint64_t device;  /* room on it */
	uint64_t freed;   /* there is more of it when it has refused a slot */
	uint32_t purpose; /* of the last ROOM */
	unsigned rooms, slots, evicted;
	int file;
};

/* ---- gdevd ---- */

static void say(struct gdevd *gdevd, const struct control_header *asked, int status,
	uint64_t device_bytes, enum swap_pool pool, uint64_t swap_bytes)
{
	struct control_charged reply = {
		.header = {sizeof reply, CONTROL_CHARGED, CONTROL_VERSION, asked->serial, status},
		.device_bytes = device_bytes,
		.limit_bytes = TEST_LIMIT,
	};

	reply.swap_bytes[pool] = swap_bytes;
	tell(&gdevd->fixture, &reply, &gdevd->file, swap_bytes && pool == SWAP_FILE);
}

static void on_return(struct gdevd *gdevd, const struct control_return *message)
{
	for (unsigned i = 0; i < SWAP_POOLS; i++) {
		gdevd->charged[i] -= message->swap_bytes[i];
		gdevd->room[i] += message->swap_bytes[i];
	}
}

static void charge_swap(struct gdevd *gdevd, const struct control_header *asked, uint64_t bytes,
	enum slot_place place)
{
	enum swap_pool pool = SWAP_MEMORY;

	if (place == SLOT_IN_FILE || (gdevd->room[pool] < bytes && place != SLOT_IN_MEMORY))
		pool = SWAP_FILE;
	if (gdevd->room[pool] < bytes) {
		gdevd->device += gdevd->freed;
		gdevd->freed = 0;
		say(gdevd, asked, -ENOMEM, 0, pool, 0);
		return;
	}
	gdevd->room[pool] -= bytes;
	gdevd->charged[pool] += bytes;
	say(gdevd, asked, 0, 0, pool, bytes);
}

/* Whether the device had room. */
static bool charge_device(
	struct gdevd *gdevd, const struct control_header *asked, uint64_t bytes, int refusal)
{
	bool yes = gdevd->device >= bytes;

	if (yes)
		gdevd->device -= bytes;
	if (yes || refusal)
		say(gdevd, asked, yes ? 0 : refusal, yes ? bytes : 0, SWAP_MEMORY, 0);
	return yes;
}

static void on_allocate(struct gdevd *gdevd, const struct control_allocate *message)
{
	uint64_t bytes = message->device_bytes;
	bool swaps = message->swap_bytes;

	if (!charge_device(gdevd, &message->header, bytes, swaps ? 0 : -ENOMEM) && swaps)
		charge_swap(gdevd, &message->header, message->swap_bytes, SLOT_ANYWHERE);
}

/* Answers what the worker has said until now. */
static void serve(struct gdevd *gdevd)
{
	union {
		struct control_header header;
		struct control_allocate allocate;
		struct control_room room;
		struct control_slot slot;
		struct control_return back;
		struct control_grant grant;
		uint8_t bytes[1024];
	} message;

	while (recv(gdevd->fixture.gdevd, &message, sizeof message, MSG_DONTWAIT) > 0) {
		if (message.header.type == CONTROL_ALLOCATE) {
			on_allocate(gdevd, &message.allocate);
		} else if (message.header.type == CONTROL_ROOM) {
			gdevd->rooms++;
			gdevd->purpose = message.room.purpose;
			charge_device(gdevd, &message.header, message.room.bytes, -ENOMEM);
		} else if (message.header.type == CONTROL_SLOT) {
			gdevd->slots++;
			charge_swap(gdevd, &message.header, message.slot.bytes, message.slot.place);
		} else if (message.header.type == CONTROL_RETURN) {
			on_return(gdevd, &message.back);
		} else if (message.header.type == CONTROL_EVICTED) {
			gdevd->evicted++;
		} else if (message.header.type == CONTROL_ACQUIRE) {
			message.header.type = CONTROL_GRANT;
			message.grant.quantum_ns = 1000000000;
			tell(&gdevd->fixture, &message.grant, NULL, 0);
		}
	}
}

/* The ring and the timelines, which order what we do and what the worker does, are mapped twice in this process; the
 * thread sanitizer cannot know that, but knows the lock. */
static void order(struct gdevd *gdevd)
{
	core_lock(gdevd->fixture.core);
	core_unlock(gdevd->fixture.core);
}

static void wait_for(struct gdevd *gdevd, uint32_t timeline, uint64_t value)
{
	for (int i = 0; i < PATIENCE_MS && completed(&gdevd->fixture, timeline) < value; i++) {
		serve(gdevd);
		usleep(1000);
	}
	assert_int_equal(completed(&gdevd->fixture, timeline), value);
	order(gdevd);
}

/* ---- the client ---- */

static void make_fresh(struct gdevd *gdevd, uint64_t address, uint64_t bytes)
{
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, address, bytes};

	wait_for(gdevd, 0, post(&gdevd->fixture, &record));
	assert_int_equal(gdevd->fixture.segment->replies[0].status, 0);
}

static void fill(struct gdevd *gdevd, uint64_t address, uint64_t bytes, uint8_t value)
{
	struct record_fill record = {
		.header = {.opcode = RECORD_FILL, .timeline = A},
		.destination = address,
		.width = bytes,
		.height = 1,
		.pitch = bytes,
		.element_bytes = 1,
		.value = value,
	};

	wait_for(gdevd, A, post(&gdevd->fixture, &record));
}

static void check(struct gdevd *gdevd, uint64_t address, uint64_t bytes, uint8_t value)
{
	const uint8_t *end = (const uint8_t *)TEST_BASE;

	assert_int_equal(stream_error(&gdevd->fixture, A), 0);
	wait_for(gdevd, A, post_copy(&gdevd->fixture, A, TEST_BASE, address, 8));
	wait_for(gdevd, A, post_copy(&gdevd->fixture, A, TEST_BASE + 8, address + bytes - 8, 8));
	for (int i = 0; i < 16; i++)
		assert_int_equal(end[i], value);
	order(gdevd);
}

static uint64_t launch(struct gdevd *gdevd)
{
	struct fixture *fixture = &gdevd->fixture;
	struct record_module_load load = {
		.header.opcode = RECORD_MODULE_LOAD, .image = TEST_BASE, .image_bytes = 16};
	struct record_lookup lookup = {.header.opcode = RECORD_FUNCTION_GET, .name_bytes = 2};
	uint32_t function;

	wait_for(gdevd, 0, post(fixture, &load));
	lookup.module = ((const struct reply_module *)reply_payload(fixture))->module;
	wait_for(gdevd, 0, post_raw(fixture, &lookup, sizeof lookup, "k", 2));
	assert_int_equal(fixture->segment->replies[0].status, 0);
	function = ((const struct reply_function *)reply_payload(fixture))->function;
	return post_launch(fixture, A, function, 0);
}

static enum piece_state state_of(struct gdevd *gdevd, uint64_t address)
{
	struct core *core = gdevd->fixture.core;
	enum piece_state state;

	core_lock(core);
	state = memory_piece(memory_find(core, address, 1), address)->state;
	core_unlock(core);
	return state;
}

/* What gdevd has charged is what the worker believes, and no more than its objects need, soon. */
static void check_accounts(struct gdevd *gdevd, uint64_t bytes)
{
	struct swap *swap = &gdevd->fixture.core->swap;

	for (int i = 0; i < PATIENCE_MS && gdevd->charged[0] + gdevd->charged[1] != bytes; i++) {
		serve(gdevd);
		usleep(1000);
	}
	assert_int_equal(gdevd->charged[0] + gdevd->charged[1], bytes);
	core_lock(gdevd->fixture.core);
	for (int i = 0; i < SWAP_POOLS; i++) {
		assert_int_equal(swap->charged[i], gdevd->charged[i]);
		assert_true(swap->made[i] <= swap->charged[i]);
	}
	core_unlock(gdevd->fixture.core);
}

/* ---- a device that takes no pages of files ---- */

static bool is_file(uint64_t address)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to, inode = 0;
	char line[512];
	bool found = false;

	while (!found && fgets(line, sizeof line, maps))
		found = sscanf(line, "%lx-%lx %*s %*x %*s %lu", &from, &to, &inode) == 3 &&
			address >= from && address < to;
	fclose(maps);
	return found && inode;
}

static int refuse_files(struct device_space *space, uint64_t address, uint64_t bytes)
{
	return address >= TEST_DEVICE && is_file(address) ? -EINVAL : 0;
}

static void keep_registered(struct device_space *space, uint64_t address, uint64_t bytes)
{
}

static void start(struct gdevd *gdevd, bool picky, uint64_t memory, uint64_t file)
{
	static struct device_ops ops;
	struct record_stream stream = {.header.opcode = RECORD_STREAM_CREATE, .stream = A};

	memset(gdevd, 0, sizeof *gdevd);
	ops = *device_ops_find("null");
	if (picky) {
		ops.host_register = refuse_files;
		ops.host_unregister = keep_registered;
	}
	fixture_start_ops(&gdevd->fixture, &ops, true, 6);
	gdevd->room[SWAP_MEMORY] = memory;
	gdevd->room[SWAP_FILE] = file;
	gdevd->file = memfd_create("swap", 0);
	wait_for(gdevd, 0, post(&gdevd->fixture, &stream));
}

static void stop(struct gdevd *gdevd)
{
	close(gdevd->file);
	fixture_stop(&gdevd->fixture);
}

/* ---- tests ---- */

static void a_slot_that_neither_pool_has_room_for_is_charged_anew(void **state)
{
	struct gdevd gdevd;
	const uint64_t large = TEST_DEVICE + 32 * MIB, small = TEST_DEVICE;

	start(&gdevd, false, 32 * MIB, 0);
	make_fresh(&gdevd, large, 32 * MIB); /* charged memory, */
	gdevd.room[SWAP_FILE] = 64 * MIB;
	make_fresh(&gdevd, small, 16 * MIB); /* and the file */
	assert_int_equal(gdevd.charged[SWAP_FILE], 16 * MIB);
	fill(&gdevd, small, 16 * MIB, 3); /* takes the half of the other's */
	fill(&gdevd, large, 32 * MIB, 5);
	assert_int_equal(gdevd.slots, 1);
	check(&gdevd, small, 16 * MIB, 3);
	check(&gdevd, large, 32 * MIB, 5);
	check_accounts(&gdevd, 48 * MIB);
	assert_int_equal(gdevd.charged[SWAP_MEMORY], 16 * MIB);
	stop(&gdevd);
}

static void a_slot_that_gdevd_has_no_room_for_fails_alone(void **state)
{
	struct gdevd gdevd;
	const uint64_t large = TEST_DEVICE + 32 * MIB, small = TEST_DEVICE;

	start(&gdevd, false, 32 * MIB, 0);
	make_fresh(&gdevd, large, 32 * MIB);
	gdevd.room[SWAP_FILE] = 16 * MIB;
	make_fresh(&gdevd, small, 16 * MIB);
	fill(&gdevd, small, 16 * MIB, 3);
	fill(&gdevd, large, 32 * MIB, 5);
	assert_int_equal(stream_error(&gdevd.fixture, A), -ENOMEM);
	check_accounts(&gdevd, 48 * MIB);
	stop(&gdevd);
}

/* 8 MiB with contents, in the file: nothing else has room. */
static void start_in_file(struct gdevd *gdevd)
{
	start(gdevd, true, 0, 64 * MIB);
	make_fresh(gdevd, TEST_DEVICE, 8 * MIB);
	fill(gdevd, TEST_DEVICE, 2 * MIB, 7);
	fill(gdevd, TEST_DEVICE + 2 * MIB, 6 * MIB, 9);
	assert_int_equal(gdevd->charged[SWAP_FILE], 8 * MIB);
	gdevd->device = 1 * MIB; /* a module has room */
}

static void what_cannot_be_used_from_the_file_is_used_from_memory(void **state)
{
	struct gdevd gdevd;

	start_in_file(&gdevd);
	trace_on(&gdevd.fixture);
	gdevd.room[SWAP_MEMORY] = 8 * MIB;
	wait_for(&gdevd, A, launch(&gdevd));
	assert_int_equal(state_of(&gdevd, TEST_DEVICE), PIECE_MAPPED);
	assert_int_equal(state_of(&gdevd, TEST_DEVICE + 6 * MIB), PIECE_MAPPED);
	check(&gdevd, TEST_DEVICE, 2 * MIB, 7);
	check(&gdevd, TEST_DEVICE + 2 * MIB, 6 * MIB, 9);
	check_accounts(&gdevd, 8 * MIB);
	assert_int_equal(gdevd.charged[SWAP_MEMORY], 8 * MIB);
	assert_int_equal(traced(&gdevd.fixture, TRACE_SWAP_TO_MEMORY), 8 * MIB);
	stop(&gdevd);
}

static void what_cannot_be_used_from_the_host_waits_for_room(void **state)
{
	struct gdevd gdevd;

	start_in_file(&gdevd);
	gdevd.freed = 64 * MIB;
	wait_for(&gdevd, A, launch(&gdevd));
	assert_int_equal(gdevd.rooms, 2);
	assert_int_equal(gdevd.purpose, ROOM_FOR_TURN_ALONE);
	assert_int_equal(state_of(&gdevd, TEST_DEVICE), PIECE_RESIDENT);
	check(&gdevd, TEST_DEVICE, 2 * MIB, 7);
	check(&gdevd, TEST_DEVICE + 2 * MIB, 6 * MIB, 9);
	check_accounts(&gdevd, 0);
	stop(&gdevd);
}

static void what_can_be_used_nowhere_fails_at_once_and_is_not_lost(void **state)
{
	struct gdevd gdevd;

	start_in_file(&gdevd);
	wait_for(&gdevd, A, launch(&gdevd));
	assert_int_equal(stream_error(&gdevd.fixture, A), -ENOMEM);
	assert_int_equal(gdevd.purpose, ROOM_FOR_TURN_ALONE);
	assert_int_equal(gdevd.rooms, 2);
	assert_int_equal(state_of(&gdevd, TEST_DEVICE), PIECE_SWAPPED);
	check_accounts(&gdevd, 8 * MIB);
	stop(&gdevd);
}

/* It is not asked for again and again. */
static void what_can_be_used_nowhere_is_not_exported(void **state)
{
	struct record_shared export = {
		.header.opcode = RECORD_SHARED_EXPORT, .address = TEST_DEVICE};
	struct gdevd gdevd;

	start_in_file(&gdevd);
	wait_for(&gdevd, 0, post(&gdevd.fixture, &export));
	assert_int_equal(gdevd.fixture.segment->replies[0].status, -ENOMEM);
	assert_in_range(gdevd.rooms, 1, 2);
	assert_int_equal(state_of(&gdevd, TEST_DEVICE), PIECE_SWAPPED);
	check_accounts(&gdevd, 8 * MIB);
	gdevd.device = 64 * MIB; /* and leaves as any other afterwards */
	wait_for(&gdevd, A, launch(&gdevd));
	assert_int_equal(stream_error(&gdevd.fixture, A), 0);
	stop(&gdevd);
}

/* ---- moving to the file for others ---- */

static void order_to_file(struct gdevd *gdevd, uint64_t bytes)
{
	const struct control_evict message = {
		.header = {sizeof message, CONTROL_EVICT, CONTROL_VERSION, 9, 0},
		.bytes = bytes,
		.flags = EVICT_SLOTS | EVICT_MOVE,
	};

	gdevd->evicted = 0;
	tell(&gdevd->fixture, &message, NULL, 0);
	for (int i = 0; i < PATIENCE_MS && !gdevd->evicted; i++) {
		serve(gdevd);
		usleep(1000);
	}
	assert_int_equal(gdevd->evicted, 1);
	order(gdevd);
}

/* 8 MiB with contents, in memory. */
static void start_in_memory(struct gdevd *gdevd)
{
	start(gdevd, true, 64 * MIB, 64 * MIB);
	make_fresh(gdevd, TEST_DEVICE, 8 * MIB);
	fill(gdevd, TEST_DEVICE, 2 * MIB, 7);
	fill(gdevd, TEST_DEVICE + 2 * MIB, 6 * MIB, 9);
	check_accounts(gdevd, 8 * MIB);
	assert_int_equal(gdevd->charged[SWAP_MEMORY], 8 * MIB);
}

static void check_contents(struct gdevd *gdevd)
{
	check(gdevd, TEST_DEVICE, 2 * MIB, 7);
	check(gdevd, TEST_DEVICE + 2 * MIB, 6 * MIB, 9);
}

static void what_others_need_memory_for_moves_to_the_file(void **state)
{
	struct gdevd gdevd;

	start_in_memory(&gdevd);
	order_to_file(&gdevd, 3 * MIB); /* two pieces */
	check_accounts(&gdevd, 8 * MIB);
	assert_int_equal(gdevd.charged[SWAP_MEMORY], 4 * MIB);
	check_contents(&gdevd);
	trace_on(&gdevd.fixture);
	order_to_file(&gdevd, 64 * MIB); /* more than there is */
	assert_int_equal(traced(&gdevd.fixture, TRACE_SWAP_TO_FILE), 4 * MIB);
	check_accounts(&gdevd, 8 * MIB);
	assert_int_equal(gdevd.charged[SWAP_MEMORY], 0);
	check_contents(&gdevd);
	gdevd.device = 64 * MIB;
	wait_for(&gdevd, A, launch(&gdevd));
	assert_int_equal(state_of(&gdevd, TEST_DEVICE), PIECE_RESIDENT);
	check_contents(&gdevd);
	check_accounts(&gdevd, 0);
	stop(&gdevd);
}

static void what_is_kept_goes_before_anything_moves(void **state)
{
	struct gdevd gdevd;
	struct record_memory record = {{.opcode = RECORD_MEMORY_FREE}, TEST_DEVICE + 32 * MIB, 0};

	start_in_memory(&gdevd);
	make_fresh(&gdevd, TEST_DEVICE + 32 * MIB, 4 * MIB);
	fill(&gdevd, TEST_DEVICE + 32 * MIB, 4 * MIB, 5);
	wait_for(&gdevd, 0, post(&gdevd.fixture, &record));
	order_to_file(&gdevd, 4 * MIB);
	check_accounts(&gdevd, 8 * MIB);
	assert_int_equal(gdevd.charged[SWAP_MEMORY], 8 * MIB);
	stop(&gdevd);
}

static void what_was_charged_for_what_has_no_slot_moves_without_a_byte(void **state)
{
	struct gdevd gdevd;

	start_in_memory(&gdevd);
	make_fresh(&gdevd, TEST_DEVICE + 64 * MIB, 40 * MIB);
	order_to_file(&gdevd, 40 * MIB);
	check_accounts(&gdevd, 48 * MIB);
	assert_int_equal(gdevd.charged[SWAP_MEMORY], 8 * MIB);
	core_lock(gdevd.fixture.core);
	assert_int_equal(gdevd.fixture.core->swap.made[SWAP_FILE], 0);
	core_unlock(gdevd.fixture.core);
	fill(&gdevd, TEST_DEVICE + 64 * MIB, 40 * MIB, 5);
	check(&gdevd, TEST_DEVICE + 64 * MIB, 40 * MIB, 5);
	check_accounts(&gdevd, 48 * MIB);
	check_contents(&gdevd);
	stop(&gdevd);
}

static void what_has_no_room_in_the_file_stays_in_memory(void **state)
{
	struct gdevd gdevd;

	start_in_memory(&gdevd);
	gdevd.room[SWAP_FILE] = 2 * MIB;
	trace_on(&gdevd.fixture);
	order_to_file(&gdevd, 8 * MIB); /* one piece */
	assert_int_equal(traced(&gdevd.fixture, TRACE_SWAP_TO_FILE), 2 * MIB);
	check_accounts(&gdevd, 8 * MIB);
	assert_int_equal(gdevd.charged[SWAP_MEMORY], 6 * MIB);
	check_contents(&gdevd);
	stop(&gdevd);
}

/* A disk that is full, or broken. */
static void what_cannot_be_written_stays_in_memory(void **state)
{
	struct gdevd gdevd;

	for (int broken = 0; broken < 2; broken++) {
		start_in_memory(&gdevd);
		close(gdevd.file);
		gdevd.file = memfd_create("swap", MFD_ALLOW_SEALING);
		fcntl(gdevd.file, F_ADD_SEALS, broken ? F_SEAL_WRITE : F_SEAL_GROW);
		order_to_file(&gdevd, 8 * MIB);
		check_accounts(&gdevd, 8 * MIB);
		assert_int_equal(gdevd.charged[SWAP_MEMORY], 8 * MIB);
		check_contents(&gdevd);
		stop(&gdevd);
	}
}

static void what_is_used_where_it_is_stays(void **state)
{
	struct gdevd gdevd;

	start_in_memory(&gdevd);
	gdevd.device = 1 * MIB; /* a module has room */
	wait_for(&gdevd, A, launch(&gdevd));
	assert_int_equal(state_of(&gdevd, TEST_DEVICE), PIECE_MAPPED);
	order_to_file(&gdevd, 8 * MIB);
	assert_int_equal(gdevd.charged[SWAP_MEMORY], 8 * MIB);
	check_contents(&gdevd);
	stop(&gdevd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slot_that_neither_pool_has_room_for_is_charged_anew),
		cmocka_unit_test(a_slot_that_gdevd_has_no_room_for_fails_alone),
		cmocka_unit_test(what_cannot_be_used_from_the_file_is_used_from_memory),
		cmocka_unit_test(what_cannot_be_used_from_the_host_waits_for_room),
		cmocka_unit_test(what_can_be_used_nowhere_fails_at_once_and_is_not_lost),
		cmocka_unit_test(what_can_be_used_nowhere_is_not_exported),
		cmocka_unit_test(what_others_need_memory_for_moves_to_the_file),
		cmocka_unit_test(what_is_kept_goes_before_anything_moves),
		cmocka_unit_test(what_was_charged_for_what_has_no_slot_moves_without_a_byte),
		cmocka_unit_test(what_has_no_room_in_the_file_stays_in_memory),
		cmocka_unit_test(what_cannot_be_written_stays_in_memory),
		cmocka_unit_test(what_is_used_where_it_is_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

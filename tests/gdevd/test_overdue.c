/* SPDX-License-Identifier: MIT
 *
 * How long gdevd waits for a session that copies a segment, and for a worker that was told to give.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "gdevd/closer.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/freeing.h"
#include "gdevd/memory/shm.h"

#define MIB (1ull << 20)
#define LARGE (64 * 1024 * MIB)
#define LARGE_NS (64ull * 1024 * 16 * NS_PER_MS)

static struct daemon gdevd;
static struct config_vgpu config;
static struct vgpu vgpu;

static int set_up(void **state)
{
	char error[CONFIG_ERROR_MAX];

	memset(&gdevd, 0, sizeof gdevd);
	daemon_init(&gdevd);
	config_set(&gdevd.config, "devices", "null", error);
	strcpy(gdevd.config.policy, "fair");
	deadline_init(&gdevd.restored, NULL);
	devices_init(&gdevd);
	vgpu = (struct vgpu){.daemon = &gdevd, .device = device_first(&gdevd), .config = &config};
	memory_init(&vgpu.memory, &vgpu.device->memory, UINT64_MAX);
	list_append(&gdevd.vgpus, &vgpu.link);
	return 0;
}

static int tear_down(void **state)
{
	shm_finish(&gdevd, NULL);
	freeing_stop(&gdevd);
	closer_stop();
	deadlines_finish(&gdevd.deadlines);
	devices_finish(&gdevd);
	uv_close((uv_handle_t *)&gdevd.eager, NULL);
	users_finish(&gdevd.users);
	config_finish(&gdevd.config);
	uv_run(&gdevd.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&gdevd.loop);
}

static struct shm_segment *make(uint32_t id, uint64_t bytes, enum shm_place place)
{
	struct shm_segment *segment;

	assert_int_equal(shm_create(&vgpu, id, 4711, bytes, false, &segment), 0);
	segment->host_fd = dup(0); /* its host copy */
	segment->place = place;
	return segment;
}

/* How long it is waited for when it has not been there after the time of one order. */
static uint64_t patience_ns(struct shm_segment *segment)
{
	uint64_t now_ns = clock_now_ns();

	segment->late = false;
	shm_overdue(&segment->overdue, now_ns);
	assert_true(segment->late);
	return segment->overdue.at_ns - now_ns;
}

static void what_is_copied_with_a_segment_takes_time_too(void **state)
{
	struct shm_segment *small = make(1, 2 * MIB, SHM_WRITING);
	struct shm_segment *dropping = make(2, 2 * MIB, SHM_DROPPING);
	struct shm_segment *large = make(3, LARGE, SHM_ON_HOST);

	assert_true(patience_ns(small) < LARGE_NS);
	large->place = SHM_WRITING;
	assert_true(patience_ns(small) > LARGE_NS);
	assert_true(patience_ns(dropping) > LARGE_NS); /* behind what it writes */
	large->place = SHM_ON_HOST;
	assert_true(patience_ns(small) < LARGE_NS);
}

/* ---- workers ---- */

/* A worker that has used so much was told to give `bytes`, a while ago. */
static void order(struct worker *worker, uint64_t device_bytes, uint64_t swap_bytes, uint32_t flags)
{
	struct device *device = vgpu.device;

	*worker = (struct worker){.daemon = &gdevd, .device = device};
	gdevd.stopping = true; /* no worker is started */
	residency_init_orders(worker);
	memory_init(&worker->memory, NULL, UINT64_MAX);
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_init(&worker->swap[i], NULL, UINT64_MAX);
	memory_charge(&worker->memory, device_bytes);
	memory_charge(&worker->swap[SWAP_MEMORY], swap_bytes);
	residency_order(worker, 4 * MIB, 0, flags, 0);
	worker->residency.overdue.at_ns = 1;
}

/* Whether it is waited for anew when it has given that. */
static bool is_step(struct worker *worker, uint64_t device_bytes, uint64_t swap_bytes)
{
	const struct control_return given = {
		.device_bytes = device_bytes, .swap_bytes[SWAP_MEMORY] = swap_bytes};
	bool is;

	assert_int_equal(residency_returned(worker, &given.header), 0);
	is = worker->residency.overdue.at_ns > 1;
	worker->residency.overdue.at_ns = 1;
	return is;
}

static void who_gives_is_waited_for_anew(void **state)
{
	struct worker worker;

	order(&worker, 8 * MIB, 0, 0);
	assert_true(is_step(&worker, 2 * MIB, 0));
	assert_false(is_step(&worker, MIB, 0));
	assert_true(is_step(&worker, MIB, 0));
	order(&worker, 0, 8 * MIB, EVICT_SLOTS);
	assert_true(is_step(&worker, 0, 2 * MIB));
}

static void who_takes_again_what_it_gave_is_not_waited_for(void **state)
{
	struct worker worker;

	order(&worker, 8 * MIB, 0, 0);
	assert_true(is_step(&worker, 2 * MIB, 0));
	memory_charge(&worker.memory, 2 * MIB);
	assert_false(is_step(&worker, 2 * MIB, 0));
}

static void who_gives_something_else_is_not_waited_for(void **state)
{
	struct worker worker;

	order(&worker, 8 * MIB, 8 * MIB, 0);
	assert_false(is_step(&worker, 0, 2 * MIB));
	order(&worker, 8 * MIB, 8 * MIB, EVICT_SLOTS);
	assert_false(is_step(&worker, 2 * MIB, 0));
}

static void who_never_pauses_is_asked_again_for_a_limit(void **state)
{
	struct session session = {.daemon = &gdevd, .vgpu = &vgpu};
	struct worker worker;

	order(&worker, 8 * MIB, 0, EVICT_LIMIT);
	worker.session = &session;
	session.entities[RESOURCE_COMPUTE].state = ENTITY_HOLDING;
	memory_charge(&vgpu.memory, 8 * MIB);
	worker.residency.order = 0;
	worker.residency.says = GIVES_LATER;
	worker.residency.overdue.expired(&worker.residency.overdue, clock_now_ns());
	assert_int_equal(worker.residency.says, GIVES_LATER);
	vgpu.memory.limit_bytes = 4 * MIB;
	worker.residency.overdue.expired(&worker.residency.overdue, clock_now_ns());
	assert_int_equal(worker.residency.says, GIVES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_is_copied_with_a_segment_takes_time_too, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_gives_is_waited_for_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			who_takes_again_what_it_gave_is_not_waited_for, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			who_gives_something_else_is_not_waited_for, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			who_never_pauses_is_asked_again_for_a_limit, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("overdue", tests, NULL, NULL);
}

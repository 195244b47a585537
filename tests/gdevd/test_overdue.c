/* SPDX-License-Identifier: MIT
 *
 * How long gdevd waits for a session that copies a segment.
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_is_copied_with_a_segment_takes_time_too, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("overdue", tests, NULL, NULL);
}

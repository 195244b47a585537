/* SPDX-License-Identifier: MIT
 *
 * What waits of sessions for each other's events cost gdevd: as many as may be, and each is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdevd/daemon.h"

#define SESSIONS 10
#define WATCHES 4096 /* that one may ask for */
#define ENOUGH_NS (NS_PER_S / 4)

static struct daemon gdevd;
static struct vgpu vgpu = {.daemon = &gdevd};
static struct config_vgpu config;
static struct worker workers[SESSIONS];
static struct worker_page pages[SESSIONS];
static struct session sessions[SESSIONS];

static int set_up(void **state)
{
	char error[CONFIG_ERROR_MAX];

	memset(sessions, 0, sizeof sessions);
	daemon_init(&gdevd);
	config_set(&gdevd.config, "devices", "null", error);
	strcpy(gdevd.config.policy, "fair");
	vgpu.config = &config;
	deadline_init(&gdevd.restored, NULL);
	devices_init(&gdevd);
	vgpu.device = device_first(&gdevd);
	measure_init(&gdevd);
	grants_vgpu_init(&vgpu);
	for (unsigned i = 0; i < SESSIONS; i++) {
		struct session *session = &sessions[i];
		workers[i].page = &pages[i];
		session->daemon = &gdevd;
		session->device = vgpu.device;
		session->vgpu = &vgpu;
		session->worker = &workers[i];
		session->id = i + 1;
		list_init(&session->waits_for);
		list_init(&session->waited_for);
		nice_session_init(session);
		grants_session_init(session);
		list_append(&gdevd.sessions, &session->link);
	}
	return 0;
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < SESSIONS; i++) {
		events_session_finish(&sessions[i]);
		assert_int_equal(sessions[i].watch_count, 0);
		assert_true(list_empty(&sessions[i].waits_for));
		assert_true(list_empty(&sessions[i].waited_for));
		grants_session_finish(&sessions[i]);
		list_remove(&sessions[i].link);
	}
	grants_vgpu_finish(&vgpu);
	deadlines_finish(&gdevd.deadlines);
	devices_finish(&gdevd);
	uv_close((uv_handle_t *)&gdevd.eager, NULL);
	users_finish(&gdevd.users);
	config_finish(&gdevd.config);
	uv_run(&gdevd.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&gdevd.loop);
}

static void watch(struct session *asker, const struct session *asked, unsigned count)
{
	struct control_event message = {.session = asked->id};

	for (unsigned i = 0; i < count; i++)
		events_watch(asker, &message.header);
	assert_int_equal(asker->watch_count, count);
}

static void done(struct session *asked, uint32_t serial)
{
	const struct control_event message = {.header = {.serial = serial}};

	events_done(asked, &message.header);
}

static void reached_event_is_found_among_many(void **state)
{
	uint64_t began_ns;
	unsigned left;

	for (unsigned i = 1; i < SESSIONS; i++)
		watch(&sessions[i], &sessions[0], WATCHES);
	began_ns = clock_thread_cpu_ns();
	/* gdevd's serials are consecutive. The last that were asked first. */
	for (uint32_t serial = (SESSIONS - 1) * WATCHES; serial; serial--) {
		done(&sessions[1], serial); /* is not of its own */
		done(&sessions[0], serial);
	}
	assert_true(clock_thread_cpu_ns() - began_ns < ENOUGH_NS);
	for (unsigned i = left = 0; i < SESSIONS; i++)
		left += sessions[i].watch_count;
	assert_int_equal(left, 0);
	assert_true(list_empty(&sessions[0].waited_for));
}

static void looks_at_nice_values_do_not_grow_with_what_is_waited_for(void **state)
{
	uint64_t began_ns;

	for (unsigned i = 1; i < SESSIONS; i++)
		watch(&sessions[i], &sessions[0], WATCHES);
	began_ns = clock_thread_cpu_ns();
	for (unsigned i = 0; i < 10000; i++) {
		nice_return(&sessions[0]);
		events_lend_nice(&gdevd);
	}
	assert_true(clock_thread_cpu_ns() - began_ns < ENOUGH_NS);
	events_session_finish(&sessions[0]);
	assert_int_equal(sessions[1].watch_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			reached_event_is_found_among_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			looks_at_nice_values_do_not_grow_with_what_is_waited_for, set_up,
			tear_down),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}

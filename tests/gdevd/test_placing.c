/* SPDX-License-Identifier: MIT
 *
 * On which device a process of a virtual GPU of any device goes on, when it has a session already.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "gdevd/daemon.h"

static struct daemon gdevd;
static struct config_vgpu config = {.device = CONFIG_ANY_DEVICE};
static struct vgpu parts[2];
static struct session session;

static int set_up(void **state)
{
	char error[CONFIG_ERROR_MAX];
	struct device *device;
	unsigned i = 0;

	memset(&gdevd, 0, sizeof gdevd);
	daemon_init(&gdevd);
	config_set(&gdevd.config, "devices", "null:2", error);
	strcpy(gdevd.config.policy, "fair");
	deadline_init(&gdevd.restored, NULL);
	devices_init(&gdevd);
	measure_init(&gdevd);
	list_for_each (device, &gdevd.devices, link) {
		parts[i] = (struct vgpu){.daemon = &gdevd, .device = device, .config = &config};
		list_append(&gdevd.vgpus, &parts[i].link);
		list_append(&device->vgpus, &parts[i].by_device);
		memory_init(&parts[i].memory, &device->memory, UINT64_MAX);
		grants_vgpu_init(&parts[i++]);
	}
	session = (struct session){.vgpu = &parts[1],
		.device = parts[1].device,
		.pid = 7,
		.uid = 8,
		.process_started = 9};
	list_append(&gdevd.sessions, &session.link);
	parts[1].sessions = 1;
	return i != array_length(parts);
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < array_length(parts); i++) {
		grants_vgpu_finish(&parts[i]);
		list_remove(&parts[i].by_device);
	}
	deadlines_finish(&gdevd.deadlines);
	devices_finish(&gdevd);
	uv_close((uv_handle_t *)&gdevd.eager, NULL);
	users_finish(&gdevd.users);
	config_finish(&gdevd.config);
	uv_run(&gdevd.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&gdevd.loop);
}

/* Where the process goes that has that pid, and began then. */
static const struct vgpu *place(pid_t pid, uint64_t started)
{
	struct connection connection = {.pid = pid, .uid = 8};
	struct client client = {.daemon = &gdevd,
		.connection = &connection,
		.vgpu = &parts[0],
		.process_started = started};

	list_init(&client.waiting);
	client_place(&client);
	return client.vgpu;
}

static void process_stays_on_its_device(void **state)
{
	assert_ptr_equal(place(7, 9), &parts[1]);
	assert_ptr_equal(place(7, 10), &parts[0]); /* another process, later */
	assert_ptr_equal(place(70, 9), &parts[0]);
}

static void process_stays_where_workers_start_again_soon(void **state)
{
	parts[1].device->workers.backing_off = true;
	assert_ptr_equal(place(7, 9), &parts[1]);
	parts[1].device->workers.hopeless = true;
	assert_ptr_equal(place(7, 9), &parts[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(process_stays_on_its_device, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			process_stays_where_workers_start_again_soon, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("placing", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * What the arbiters learn from the pages of workers, and holders of who may come.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gdevd/daemon.h"

#define GRANTED_NS (100 * NS_PER_S)

static struct daemon gdevd;
static struct device *device;

static int set_up(void **state)
{
	char error[CONFIG_ERROR_MAX];

	daemon_init(&gdevd);
	strcpy(gdevd.config.policy, "fair");
	config_set(&gdevd.config, "devices", "null", error);
	if (devices_init(&gdevd))
		return -1;
	device = device_first(&gdevd);
	device->timing.window_ns = NS_PER_MS;
	return 0;
}

static int tear_down(void **state)
{
	deadlines_finish(&gdevd.deadlines);
	devices_finish(&gdevd);
	uv_close((uv_handle_t *)&gdevd.eager, NULL);
	users_finish(&gdevd.users);
	uv_run(&gdevd.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&gdevd.loop);
}

/* As the arbiter of the resource is told, of one that has held it for a second. */
static uint64_t used_ns(unsigned resource, const struct worker_page *says)
{
	struct worker_page page = *says;
	struct worker worker = {.page = &page};
	struct session session = {.daemon = &gdevd, .device = device, .worker = &worker};
	struct sched *sched = &device->sched[resource];

	session.grants[resource] = (struct session_grant){
		.held = true, .granted_ns = GRANTED_NS, .page_ns = 7 * NS_PER_MS};
	return sched->ops->used_ns(sched, &session.entities[resource], GRANTED_NS + NS_PER_S);
}

static void holder_has_used_what_its_page_says_and_what_may_be_on_the_device(void **state)
{
	struct worker_page page = {.compute_ns = 7 * NS_PER_MS};

	/* Nothing, but for a window. */
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), NS_PER_MS);
	page.compute_ns = 27 * NS_PER_MS;
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), 21 * NS_PER_MS);
	/* Two of its longest commands are more than a window. */
	page.longest_ns[RESOURCE_COMPUTE] = 5 * NS_PER_MS;
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), 30 * NS_PER_MS);
}

static void page_that_lies_says_no_more_than_there_was(void **state)
{
	struct worker_page page = {.compute_ns = UINT64_MAX};

	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), NS_PER_S + NS_PER_MS);
	page.longest_ns[RESOURCE_COMPUTE] = UINT64_MAX;
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), 3 * NS_PER_S);
	page.compute_ns = 0; /* less than when it was granted */
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), 2 * NS_PER_S);
}

static void what_clients_copy_themselves_is_all_of_the_time(void **state)
{
	struct worker_page page = {.to_device_ns = 17 * NS_PER_MS};

	device->traits = DEVICE_CLIENTS_COPY;
	assert_true(used_ns(RESOURCE_COPY_TO_DEVICE, &page) == UINT64_MAX);
	device->traits = 0;
	assert_int_equal(used_ns(RESOURCE_COPY_TO_DEVICE, &page), 11 * NS_PER_MS);
}

/* ---- one that ranks above the holder, and may come back ---- */

static struct config_vgpu configs[2] = {{.priority = 10}, {.priority = 0}};
static struct vgpu vgpus[2];
static struct worker_page pages[2];
static struct worker workers[2];
static struct session sessions[2];

static int set_up_ranks(void **state)
{
	char error[CONFIG_ERROR_MAX];

	memset(pages, 0, sizeof pages);
	memset(&gdevd, 0, sizeof gdevd);
	daemon_init(&gdevd);
	strcpy(gdevd.config.policy, "fair");
	config_set(&gdevd.config, "devices", "null", error);
	if (devices_init(&gdevd))
		return -1;
	device = device_first(&gdevd);
	for (unsigned i = 0; i < 2; i++) {
		vgpus[i] = (struct vgpu){.daemon = &gdevd, .device = device, .config = &configs[i]};
		workers[i] = (struct worker){.daemon = &gdevd, .device = device, .page = &pages[i]};
		sessions[i] = (struct session){.daemon = &gdevd,
			.device = device,
			.vgpu = &vgpus[i],
			.worker = &workers[i]};
		workers[i].session = &sessions[i];
		list_append(&gdevd.vgpus, &vgpus[i].link);
		list_append(&device->vgpus, &vgpus[i].by_device);
		list_append(&gdevd.sessions, &sessions[i].link);
		grants_vgpu_init(&vgpus[i]);
		grants_session_init(&sessions[i]);
	}
	return 0;
}

static uint32_t acquire(unsigned which)
{
	const struct control_grant message = {.resource = RESOURCE_COMPUTE};

	assert_int_equal(grants_acquire(&sessions[which], &message.header), 0);
	return pages[which].revoke[RESOURCE_COMPUTE];
}

static void release(unsigned which)
{
	const struct control_grant message = {.resource = RESOURCE_COMPUTE, .used_ns = 1};

	assert_int_equal(grants_release(&sessions[which], &message.header), 0);
}

enum { HIGH, LOW };

static void who_is_below_one_that_left_lately_is_told_that_it_may_come(void **state)
{
	assert_int_equal(acquire(LOW), REVOKE_NONE);
	release(LOW);
	assert_int_equal(acquire(HIGH), REVOKE_NONE); /* whom the other does not outrank */
	acquire(LOW);
	release(HIGH);
	assert_int_equal(pages[LOW].revoke[RESOURCE_COMPUTE], REVOKE_MAY_COME);
	acquire(HIGH);
	assert_true(pages[LOW].revoke[RESOURCE_COMPUTE] == REVOKE_WHEN_IDLE ||
		    pages[LOW].revoke[RESOURCE_COMPUTE] == REVOKE_NOW);
	release(LOW);
	release(HIGH);
	assert_int_equal(acquire(LOW), REVOKE_MAY_COME);
	/* It has been away for long. */
	while (pages[LOW].revoke[RESOURCE_COMPUTE] == REVOKE_MAY_COME)
		uv_run(&gdevd.loop, UV_RUN_ONCE);
	assert_int_equal(pages[LOW].revoke[RESOURCE_COMPUTE], REVOKE_NONE);
	release(LOW);
	assert_int_equal(acquire(LOW), REVOKE_NONE);
}

/* One that pauses has room for whoever comes, at once. */
static void nobody_may_come_to_a_device_that_pauses(void **state)
{
	device->traits = DEVICE_PAUSES;
	acquire(HIGH);
	release(HIGH);
	assert_int_equal(acquire(LOW), REVOKE_NONE);
}

/* ---- what the device is ---- */

static void arbiters_have_the_times_of_the_device_and_the_administrators_quantum(void **state)
{
	const struct sched_queue *compute = &device->sched[RESOURCE_COMPUTE].groups,
				 *copies = &device->sched[RESOURCE_COPY_TO_DEVICE].groups;

	device->timing = (struct device_timing){.quantum_ns = 7, .switch_ns = {8, 9}};
	grants_know_device(device);
	assert_int_equal(compute->quantum_ns, 7);
	assert_int_equal(compute->switch_ns, 8);
	assert_int_equal(copies->switch_ns, 9);
	assert_int_equal(vgpus[0].groups[RESOURCE_COMPUTE].members.switch_ns, 8);
	assert_int_equal(device->turning.fd, -1); /* it needs the processors itself */
	gdevd.config.quantum_ns = NS_PER_MS;
	grants_configure(device);
	assert_int_equal(compute->quantum_ns, NS_PER_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			holder_has_used_what_its_page_says_and_what_may_be_on_the_device, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			page_that_lies_says_no_more_than_there_was, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_clients_copy_themselves_is_all_of_the_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			who_is_below_one_that_left_lately_is_told_that_it_may_come, set_up_ranks,
			tear_down),
		cmocka_unit_test_setup_teardown(
			nobody_may_come_to_a_device_that_pauses, set_up_ranks, tear_down),
		cmocka_unit_test_setup_teardown(
			arbiters_have_the_times_of_the_device_and_the_administrators_quantum,
			set_up_ranks, tear_down),
	};

	return cmocka_run_group_tests_name("gdevd grants", tests, NULL, NULL);
}

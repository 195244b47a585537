/* SPDX-License-Identifier: MIT
 *
 * Ledgers: what the next gdevd finds of what was written, and which worker's word it takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gdevd/daemon.h"
#include "gdevd/ledger.h"

#define HEADER 16
#define VGPU "nobody's"

static struct ledger_session record_of(uint64_t session)
{
	struct ledger_session record = {.session = session, .vgpu = VGPU};

	record.groups.count = 1;
	record.groups.ids[0] = 100;
	return record;
}

/* As the next gdevd. */
static void open_again(struct ledger *ledger)
{
	int fd = dup(ledger->fd);

	ledger_finish(ledger);
	assert_int_equal(ledger_init(ledger, fd, sizeof(struct ledger_session)), 0);
}

/* Of so many sessions, 1 and on. */
static void begin(struct ledger *ledger, unsigned count)
{
	assert_int_equal(ledger_init(ledger, memfd_create("ledger", MFD_CLOEXEC),
				 sizeof(struct ledger_session)),
		0);
	for (unsigned i = 1; i <= count; i++) {
		struct ledger_session record = record_of(i);
		uint64_t place = 0;
		assert_int_equal(ledger_put(ledger, &place, &record), 0);
		assert_int_equal(place, i);
	}
}

static void written_record_is_found_and_removed_one_is_not(void **state)
{
	const struct ledger_session second = record_of(2);
	struct ledger ledger;
	uint64_t place = 1;

	begin(&ledger, 2);
	ledger_remove(&ledger, &place);
	open_again(&ledger);
	assert_int_equal(ledger.count, 2);
	assert_null(ledger_at(&ledger, 1));
	assert_memory_equal(ledger_at(&ledger, 2), &second, sizeof second);
	assert_int_equal(ledger_put(&ledger, &place, &second), 0);
	assert_int_equal(place, 1);
	ledger_finish(&ledger);
}

/* Wherever the first of three was cut off, and whether zeros or what there was before follows. */
static void record_half_written_is_free(void **state)
{
	uint8_t zeros[sizeof(struct ledger_session)] = {0};
	const struct ledger_session third = record_of(3);
	struct ledger_session other = record_of(9);
	struct ledger ledger;

	other.uid = 1000;
	other.groups.ids[0] = 5;
	for (size_t cut = 8; cut + 8 < sizeof third; cut += 8)
		for (int kind = 0; kind < 2; kind++) {
			const uint8_t *bytes = kind ? (const uint8_t *)&other : zeros;
			size_t from = kind ? 0 : cut, count = kind ? cut : sizeof third - cut;
			begin(&ledger, 3);
			assert_int_equal(
				pwrite(ledger.fd, bytes + from, count, (off_t)(HEADER + from)),
				count);
			open_again(&ledger);
			/* The zeros may be what was there. */
			if (ledger_at(&ledger, 1)) {
				const struct ledger_session first = record_of(1);
				assert_memory_equal(ledger_at(&ledger, 1), &first, sizeof first);
			}
			assert_memory_equal(ledger_at(&ledger, 3), &third, sizeof third);
			ledger_finish(&ledger);
		}
}

static void record_is_found_where_it_was_written_alone(void **state)
{
	uint8_t first[sizeof(struct ledger_session) + 8];
	struct ledger ledger;

	begin(&ledger, 2);
	assert_int_equal(pread(ledger.fd, first, sizeof first, HEADER), sizeof first);
	assert_int_equal(
		pwrite(ledger.fd, first, sizeof first, HEADER + sizeof first), sizeof first);
	open_again(&ledger);
	assert_non_null(ledger_at(&ledger, 1));
	assert_null(ledger_at(&ledger, 2)); /* else one session would be there twice */
	ledger_finish(&ledger);
}

/* ---- workers ---- */

/* This process's. */
static uint64_t time_started(void)
{
	unsigned long long started;
	FILE *file = fopen("/proc/self/stat", "r");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c"), 0);
	for (int field = 4; field < 22; field++)
		assert_int_equal(fscanf(file, " %*s"), 0);
	assert_int_equal(fscanf(file, "%llu", &started), 1);
	fclose(file);
	return started;
}

/* What becomes of a session whose worker had this process's pid, and began at that time: what its REGISTER is answered,
 * and whether it is still written down after the start of another gdevd. */
static int register_again(uint64_t started, bool *kept)
{
	static struct daemon daemon;
	struct worker worker = {.daemon = &daemon, .pid = getpid()};
	struct control_attach message = {.session = 7, .vgpu = VGPU};
	struct ledger_session record = record_of(7);
	struct ledger *ledger = &daemon.ledgers.sessions;
	uint64_t place = 0;
	int error;

	memset(&daemon, 0, sizeof daemon);
	list_init(&daemon.vgpus);
	list_init(&daemon.sessions);
	begin(ledger, 0);
	record.worker = getpid();
	record.worker_started = started;
	assert_int_equal(ledger_put(ledger, &place, &record), 0);
	error = session_restore(&worker, &message, NULL);
	sessions_forget_gone(&daemon);
	*kept = ledger_at(ledger, place);
	ledger_finish(ledger);
	return error;
}

static void pid_of_a_worker_that_is_gone_is_nobodys(void **state)
{
	bool kept;

	assert_int_equal(register_again(time_started(), &kept), -ENOENT); /* no such virtual GPU */
	assert_true(kept);
	assert_int_equal(register_again(time_started() - 1, &kept), -EPERM);
	assert_false(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_record_is_found_and_removed_one_is_not),
		cmocka_unit_test(record_half_written_is_free),
		cmocka_unit_test(record_is_found_where_it_was_written_alone),
		cmocka_unit_test(pid_of_a_worker_that_is_gone_is_nobodys),
	};

	return cmocka_run_group_tests_name("gdevd ledger", tests, NULL, NULL);
}

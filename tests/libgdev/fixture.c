/* SPDX-License-Identifier: MIT
 *
 * See fixture.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "fixture.h"

#include <cmocka.h>

#include "fake_worker.h"

struct gdev_session *session;
struct gdev_stream *stream;

int fixture_setup(void **state)
{
	assert_int_equal(gdev_session_open(NULL, &session), 0);
	assert_int_equal(gdev_stream_create(session, 0, &stream), 0);
	return 0;
}

int fixture_teardown(void **state)
{
	fake_worker->held = fake_worker->deaf = false;
	fake_worker_poke(fake_worker);
	gdev_stream_destroy(stream);
	fake_worker_kill(fake_worker);
	gdev_session_close(session);
	fake_worker_free(fake_worker);
	return 0;
}

uint64_t alloc(uint64_t bytes)
{
	uint64_t address;

	assert_int_equal(gdev_memory_alloc(session, bytes, &address), 0);
	return address;
}

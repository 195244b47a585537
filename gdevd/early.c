/* SPDX-License-Identifier: MIT
 *
 * Waking up together with a worker. A program that comes back wakes its worker, which then asks gdevd, which
 * wakes up and tells the holder to leave: twice the time that waking up takes (0.05 to 0.3 ms on a virtual
 * machine), for which the holder goes on, perhaps with another kernel. So gdevd also watches the eventfd with
 * which the client wakes the worker, and then does not sleep until the worker has asked.
 *
 * Who was let in at once when it did so the last time will be this time, too: the holder puts nothing more on the
 * device from then on (REVOKE_SOON), nor does whom it hands over to meanwhile, so that the one who comes waits for what is
 * there already, and not for what begins while its worker wakes up.
 *
 * Until it comes nobody below it puts more on the device than while somebody waits (REVOKE_MAY_COME), for a second after it
 * has left: two kernels of a holder that is alone otherwise would be in its way.
 *
 * Who comes as regularly as a clock is expected: a moment before, gdevd wakes up by itself, and so does the worker, lest
 * that add to the wait.
 *
 * Only for sessions that go before others (sched_goes_first()), from when they leave the device to these
 * until they come back, and where nobody sleeps before handovers either (turns.c). Nobody reads the eventfd, so
 * that it is always readable: what counts are new writes (EPOLLET), in an epoll set of its own.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define EARLY_NS                                                                                   \
	(800 * NS_PER_US) /* at most until the worker has asked: as long as what would begin else */
#define EVENTS 16
#define REGULAR_NS (300 * NS_PER_US) /* two absences that differ by less are alike */
#define AWAY_MIN_NS                                                                                \
	(5 * NS_PER_MS) /* to expect one that comes more often would take too much of a processor */
#define BEFORE_NS (600 * NS_PER_US) /* that we wake up for one that is expected, */
#define AFTER_NS (300 * NS_PER_US)  /* and wait for it at most */
#define MAY_COME_NS NS_PER_S        /* who has been away for longer is not reckoned with */

/* The timer is that of the soonest. */
static void expect_next(struct daemon *daemon)
{
	struct itimerspec when = {0};
	const struct session *session;
	uint64_t at_ns = UINT64_MAX;

	list_for_each (session, &daemon->sessions, link)
		if (session->expected_ns)
			at_ns = min_of(at_ns, session->expected_ns - BEFORE_NS);
	if (at_ns == UINT64_MAX)
		return;
	when.it_value.tv_sec = (time_t)(at_ns / NS_PER_S);
	when.it_value.tv_nsec = (long)(at_ns % NS_PER_S);
	timerfd_settime(daemon->early.timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Its worker looks for what its client asks, without sleeping. */
static void prepare_worker(const struct session *session, uint64_t ns)
{
	struct control_grant message = {.resource = RESOURCE_COMPUTE, .quantum_ns = ns};

	control_fill(&message, CONTROL_PREPARE, 0);
	if (session->worker->connection)
		connection_send(session->worker->connection, &message, NULL, 0);
}

static void on_expected(struct daemon *daemon)
{
	uint64_t now_ns = clock_now_ns(), *until_ns = &daemon->early.expect_until_ns, its_ns;
	struct session *session;

	list_for_each (session, &daemon->sessions, link) {
		if (!session->expected_ns || now_ns < session->expected_ns - BEFORE_NS)
			continue;
		its_ns = session->expected_ns + AFTER_NS;
		session->expected_ns = 0;
		if (now_ns >= its_ns)
			continue;
		prepare_worker(session, its_ns - now_ns);
		*until_ns = max_of(*until_ns, its_ns);
	}
	if (now_ns < *until_ns)
		grants_be_eager(daemon, *until_ns - now_ns);
	expect_next(daemon);
}

/* It is here again. */
static void came(struct session *session, uint64_t now_ns)
{
	uint64_t before_ns = session->away_ns;

	early_stop(session);
	session->woken_ns = now_ns;
	session->away_ns = now_ns - session->left_ns;
	session->regular =
		max_of(session->away_ns, before_ns) - min_of(session->away_ns, before_ns) <
		REGULAR_NS;
	session->daemon->early.expect_until_ns = 0;
}

static void on_woken(struct session *session)
{
	uint64_t now_ns = clock_now_ns();

	came(session, now_ns);
	if (session->comes)
		grants_hold_back(session, now_ns + EARLY_NS);
	grants_be_eager(session->daemon, EARLY_NS);
}

void early_asks(struct session *session, uint64_t now_ns)
{
	if (session->early)
		came(session, now_ns);
}

static void on_wakes(uv_poll_t *poll, int status, int events)
{
	struct daemon *daemon = container_of(poll, struct daemon, early.poll);
	struct epoll_event woken[EVENTS];
	int count = epoll_wait(daemon->early.epoll_fd, woken, EVENTS, 0);

	for (int i = 0; i < count; i++) {
		if (woken[i].data.ptr)
			on_woken(woken[i].data.ptr);
		else
			on_expected(daemon);
	}
}

void early_asked(struct session *session, bool let_in, uint64_t now_ns)
{
	session->comes = let_in && session->woken_ns && now_ns < session->woken_ns + EARLY_NS;
	session->woken_ns = 0;
}

bool early_may_come(const struct session *session)
{
	const struct session *other;
	uint64_t now_ns = clock_now_ns();

	if (now_ns >= session->daemon->early.gone.at_ns) /* nobody has left lately */
		return false;
	list_for_each (other, &session->daemon->sessions, link)
		if (other->early && other != session && now_ns < other->left_ns + MAY_COME_NS &&
			sched_outranks(&other->entities[RESOURCE_COMPUTE],
				&session->entities[RESOURCE_COMPUTE]))
			return true;
	return false;
}

static void on_gone(struct deadline *deadline, uint64_t now_ns)
{
	grants_tell_again(container_of(deadline, struct daemon, early.gone));
}

static void close_all(struct early *early)
{
	if (early->epoll_fd >= 0)
		close(steal_fd(&early->epoll_fd));
	if (early->timer_fd >= 0)
		close(steal_fd(&early->timer_fd));
}

int early_init(struct daemon *daemon)
{
	struct early *early = &daemon->early;
	struct epoll_event expected = {.events = EPOLLIN | EPOLLET};
	int error;

	deadline_init(&early->gone, on_gone);
	early->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	early->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (early->epoll_fd < 0 || early->timer_fd < 0 ||
		epoll_ctl(early->epoll_fd, EPOLL_CTL_ADD, early->timer_fd, &expected)) {
		error = -errno;
		close_all(early);
		return error;
	}
	error = uv_poll_init(&daemon->loop, &early->poll, early->epoll_fd);
	if (!error)
		error = uv_poll_start(&early->poll, UV_READABLE, on_wakes);
	if (error)
		close_all(early);
	return error;
}

void early_finish(struct daemon *daemon)
{
	struct early *early = &daemon->early;

	if (early->epoll_fd < 0)
		return;
	deadline_cancel(&early->gone);
	uv_poll_stop(&early->poll);
	uv_close((uv_handle_t *)&early->poll, NULL);
	close_all(early);
}

void early_begin(struct session *session)
{
	int epoll_fd = session->daemon->early.epoll_fd;
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = session},
			   before[EVENTS];

	if (epoll_fd < 0 || session->wake_fd < 0 || session->early ||
		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, session->wake_fd, &event))
		return;
	session->early = true;
	session->left_ns = clock_now_ns();
	deadline_set(&session->daemon->deadlines, &session->daemon->early.gone,
		session->left_ns + MAY_COME_NS);
	grants_tell_again(session->daemon);
	if (session->woken_ns) /* for something else */
		early_asked(session, false, 0);
	/* It is readable since an earlier write. Another session's event of just now may be lost: it comes a little
	 * later then. */
	epoll_wait(epoll_fd, before, EVENTS, 0);
	if (session->regular && session->away_ns >= AWAY_MIN_NS) {
		session->expected_ns = session->left_ns + session->away_ns;
		expect_next(session->daemon);
	}
}

void early_stop(struct session *session)
{
	if (!session->early)
		return;
	session->early = false;
	session->expected_ns = 0;
	epoll_ctl(session->daemon->early.epoll_fd, EPOLL_CTL_DEL, session->wake_fd, NULL);
}

void early_session_finish(struct session *session)
{
	early_stop(session);
	if (session->wake_fd >= 0)
		close(steal_fd(&session->wake_fd));
}

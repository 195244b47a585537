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
 * Only for sessions that go before others (sched_goes_first()), from when they leave the device to these
 * until they come back, and where nobody sleeps before handovers either (turns.c). Nobody reads the eventfd, so
 * that it is always readable: what counts are new writes (EPOLLET), in an epoll set of its own.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define EARLY_NS (400 * NS_PER_US) /* at most until the worker has asked */
#define EVENTS 16

static void on_wakes(uv_poll_t *poll, int status, int events)
{
	struct daemon *daemon = container_of(poll, struct daemon, early.poll);
	struct epoll_event woken[EVENTS];
	int count = epoll_wait(daemon->early.epoll_fd, woken, EVENTS, 0);

	for (int i = 0; i < count; i++) {
		struct session *session = woken[i].data.ptr;

		early_stop(session);
		session->woken_ns = clock_now_ns();
		if (session->comes)
			grants_hold_back(session, session->woken_ns + EARLY_NS);
	}
	if (count > 0)
		grants_be_eager(daemon, EARLY_NS);
}

void early_asked(struct session *session, bool let_in, uint64_t now_ns)
{
	session->comes = let_in && session->woken_ns && now_ns < session->woken_ns + EARLY_NS;
	session->woken_ns = 0;
}

int early_init(struct daemon *daemon)
{
	struct early *early = &daemon->early;
	int error;

	early->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (early->epoll_fd < 0)
		return -errno;
	error = uv_poll_init(&daemon->loop, &early->poll, early->epoll_fd);
	if (!error)
		error = uv_poll_start(&early->poll, UV_READABLE, on_wakes);
	if (error)
		close(steal_fd(&early->epoll_fd));
	return error;
}

void early_finish(struct daemon *daemon)
{
	struct early *early = &daemon->early;

	if (early->epoll_fd < 0)
		return;
	uv_poll_stop(&early->poll);
	uv_close((uv_handle_t *)&early->poll, NULL);
	close(steal_fd(&early->epoll_fd));
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
	if (session->woken_ns) /* for something else */
		early_asked(session, false, 0);
	/* It is readable since an earlier write. Another session's event of just now may be lost: it comes a little
	 * later then. */
	epoll_wait(epoll_fd, before, EVENTS, 0);
}

void early_stop(struct session *session)
{
	if (!session->early)
		return;
	session->early = false;
	epoll_ctl(session->daemon->early.epoll_fd, EPOLL_CTL_DEL, session->wake_fd, NULL);
}

void early_session_finish(struct session *session)
{
	early_stop(session);
	if (session->wake_fd >= 0)
		close(steal_fd(&session->wake_fd));
}

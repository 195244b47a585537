/* SPDX-License-Identifier: MIT
 *
 * See clients.h.
 */
#include "gloop/clients.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in address = {.sin_family = AF_INET};
static pthread_t threads[CLIENTS];
static void (*talk_of)(unsigned client, int fd);

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

int clients_listen(void)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0 ||
		listen(listener, CLIENTS) < 0 ||
		getsockname(listener, (struct sockaddr *)&address, &length) < 0)
		fail("cannot listen");
	return listener;
}

static void *client(void *argument)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		fail("cannot connect");
	talk_of((unsigned)(uintptr_t)argument, fd);
	close(fd);
	return NULL;
}

void clients_begin(void (*talk)(unsigned client, int fd))
{
	talk_of = talk;
	for (unsigned c = 0; c < CLIENTS; c++)
		if (pthread_create(&threads[c], NULL, client, (void *)(uintptr_t)c))
			fail("no thread");
}

void clients_end(void)
{
	for (unsigned c = 0; c < CLIENTS; c++)
		pthread_join(threads[c], NULL);
}

bool send_all(int fd, const void *bytes, size_t count)
{
	for (size_t at = 0; at < count;) {
		ssize_t n = send(fd, (const char *)bytes + at, count - at, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

bool receive_all(int fd, void *bytes, size_t count)
{
	for (size_t at = 0; at < count;) {
		ssize_t n = recv(fd, (char *)bytes + at, count - at, 0);

		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

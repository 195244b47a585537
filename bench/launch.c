/* SPDX-License-Identifier: MIT
 *
 * What a launch of an empty kernel costs.
 *   async_us    the caller's time, when it does not wait
 *   wait_us     launch, and wait until it is done
 *   per_second  launches one after another, until the last is done
 * The baseline is what the same would cost as messages of a launch's size through a socket, to a
 * process that does nothing with them: send; send and wait for an answer; sends a second.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "device.h"

#define REPETITIONS 21

struct message {
	unsigned char wants_answer, launch[95];
};

/* The process at the other end; it leaves when this one does. */
static int start_peer(void)
{
	struct message message;
	int pair[2];

	bench_require(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), "make a socket", "no room?");
	switch (fork()) {
	case -1:
		bench_require(1, "start a process", "no room?");
		break;
	case 0:
		close(pair[0]);
		while (recv(pair[1], &message, sizeof(message), 0) > 0)
			if (message.wants_answer && send(pair[1], &message, 1, 0) < 0)
				break;
		_exit(0);
	}
	close(pair[1]);
	return pair[0];
}

static void ask(int peer, int wants_answer)
{
	struct message message = {.wants_answer = (unsigned char)wants_answer};

	if (send(peer, &message, sizeof(message), 0) < 0 ||
		(wants_answer && recv(peer, &message, sizeof(message), 0) < 0))
		bench_require(1, "talk to the peer process", "it is gone");
}

static double async_peer_us(int peer)
{
	uint64_t start = bench_now_ns(), end;

	for (int i = 0; i < ASYNC; i++)
		ask(peer, 0);
	end = bench_now_ns();
	ask(peer, 1);
	return (double)(end - start) / 1e3 / ASYNC;
}

static double wait_peer_us(int peer)
{
	uint64_t start = bench_now_ns();

	for (int i = 0; i < WAITS; i++)
		ask(peer, 1);
	return (double)(bench_now_ns() - start) / 1e3 / WAITS;
}

static double per_second_peer(int peer)
{
	uint64_t start = bench_now_ns();

	for (int i = 0; i < MANY; i++)
		ask(peer, 0);
	ask(peer, 1);
	return MANY * 1e9 / (double)(bench_now_ns() - start);
}

int main(void)
{
	static struct samples async, async_peer, wait, wait_peer, rate, rate_peer;
	int peer = start_peer();
	CUfunction empty = open_device();

	wait_us(empty); /* the first launch compiles */
	for (int i = 0; i < REPETITIONS; i++) {
		samples_add(&async, async_us(empty));
		samples_add(&async_peer, async_peer_us(peer));
		samples_add(&wait, wait_us(empty));
		samples_add(&wait_peer, wait_peer_us(peer));
		samples_add(&rate, per_second(empty));
		samples_add(&rate_peer, per_second_peer(peer));
	}
	bench_report("launch", "async_us", "us", &async, &async_peer);
	bench_report("launch", "wait_us", "us", &wait, &wait_peer);
	bench_report("launch", "per_second", "1/s", &rate, &rate_peer);
	return 0;
}

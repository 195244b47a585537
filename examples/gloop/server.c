/* SPDX-License-Identifier: MIT
 *
 * SERVER: a kernel multiplies matrices that clients send over TCP, each on a connection of its own. The clients are
 * threads of this program. With PLAIN a thread a connection receives, copies, launches, and sends.
 */
#include "gloop/run.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gloop/server.h"

#define CLIENTS 8u
#define BLOCK 128u

struct client {
	pthread_t thread, server;
	int requests[2 * MATRIX], *answers; /* of all requests, which differ in the first row */
	int fd;
};

static struct client clients[CLIENTS];
static struct sockaddr_in address = {.sin_family = AF_INET};
static int listener;
static CUdeviceptr device_matrices;

static int *answer_of(const struct client *client, unsigned request)
{
	return client->answers + (size_t)request * MATRIX;
}

static void change_request(int *matrices, unsigned request)
{
	for (unsigned k = 0; k < N; k++)
		matrices[k] = (int)(request + k) % 100;
}

static void setup(void)
{
	socklen_t length = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0 ||
		listen(listener, CLIENTS) < 0 ||
		getsockname(listener, (struct sockaddr *)&address, &length) < 0) {
		perror("server: cannot listen");
		exit(2);
	}
	device_matrices = device_alloc(CLIENTS * 3 * MATRIX * sizeof(int));
	for (unsigned c = 0; c < CLIENTS; c++) {
		for (unsigned i = 0; i < 2 * MATRIX; i++)
			clients[c].requests[i] = (int)(random_next() % 100);
		clients[c].answers = host_alloc((size_t)options.size * MATRIX * sizeof(int));
	}
}

/* All of it. False: the other side has ended the connection. */
static bool receive_all(int fd, void *bytes, size_t count)
{
	for (size_t at = 0; at < count;) {
		ssize_t n = recv(fd, (char *)bytes + at, count - at, 0);

		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* Wrong answers, and those that do not come, are found by the check. */
static void *ask(void *argument)
{
	struct client *client = argument;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		for (unsigned i = 0; i < options.size; i++) {
			change_request(client->requests, i);
			if (send(fd, client->requests, REQUEST_BYTES, MSG_NOSIGNAL) !=
					REQUEST_BYTES ||
				!receive_all(fd, answer_of(client, i), ANSWER_BYTES))
				break;
		}
	close(fd);
	return NULL;
}

#ifdef PLAIN
static void *serve(void *argument)
{
	struct client *client = argument;
	CUdeviceptr in = device_matrices + (size_t)(client - clients) * 3 * MATRIX * sizeof(int);
	CUfunction kernel;
	CUstream stream;
	int matrices[2 * MATRIX];

	CHECK(cuCtxSetCurrent(device_context(0)));
	kernel = device_kernel("server_plain");
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	while (receive_all(client->fd, matrices, REQUEST_BYTES)) {
		CHECK(cuMemcpyHtoDAsync(in, matrices, REQUEST_BYTES, stream));
		CHECK(cuLaunchKernel(
			kernel, 1, 1, 1, BLOCK, 1, 1, 0, stream, (void *[]){&in}, NULL));
		CHECK(cuMemcpyDtoHAsync(matrices, in + REQUEST_BYTES, ANSWER_BYTES, stream));
		CHECK(cuStreamSynchronize(stream));
		if (send(client->fd, matrices, ANSWER_BYTES, MSG_NOSIGNAL) != ANSWER_BYTES)
			break;
	}
	CHECK(cuStreamDestroy(stream));
	close(client->fd);
	return NULL;
}

static void serve_all(void)
{
	fd_set ready;

	for (unsigned c = 0; c < CLIENTS; c++) {
		FD_ZERO(&ready);
		FD_SET(listener, &ready);
		select(listener + 1, &ready, NULL, NULL, NULL);
		clients[c].fd = accept(listener, NULL, NULL);
		pthread_create(&clients[c].server, NULL, serve, &clients[c]);
	}
	for (unsigned c = 0; c < CLIENTS; c++)
		pthread_join(clients[c].server, NULL);
}
#else
static void serve_all(void)
{
	struct gloop_options with = {
		.descriptors = &listener, .descriptor_count = 1, .confined = true};

	run_loop("server", SHAPE(CLIENTS, 1, BLOCK, 1), (void *[]){NULL, &device_matrices}, &with);
}
#endif

static void compute(void)
{
	for (unsigned c = 0; c < CLIENTS; c++)
		if (pthread_create(&clients[c].thread, NULL, ask, &clients[c])) {
			fprintf(stderr, "server: no thread\n");
			exit(2);
		}
	serve_all();
	for (unsigned c = 0; c < CLIENTS; c++)
		pthread_join(clients[c].thread, NULL);
}

static void check(void)
{
	int *want = host_alloc(ANSWER_BYTES);

	for (unsigned c = 0; c < CLIENTS; c++)
		for (unsigned request = 0; request < options.size; request++) {
			int *in = clients[c].requests;

			change_request(in, request);
			memset(want, 0, ANSWER_BYTES);
			for (unsigned i = 0; i < MATRIX; i++)
				for (unsigned k = 0; k < N; k++)
					want[i] += in[i / N * N + k] * in[MATRIX + k * N + i % N];
			check_ints("a product", answer_of(&clients[c], request), want, MATRIX);
		}
}

const struct program program = {
	.name = "server",
	.summary = "Multiplies matrices that clients send over TCP.",
	.size_means = "requests of each of the 8 clients",
	.size = 50,
	.size_max = 100000,
	.setup = setup,
	.compute = compute,
	.check = check,
};

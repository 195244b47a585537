/* SPDX-License-Identifier: MIT
 *
 * SERVER: a kernel multiplies matrices that clients send over TCP, each on a connection of its own.
 */
#include "gloop/run.h"

#include <string.h>

#include "gloop/clients.h"
#include "gloop/server.h"

#define BLOCK 128u

struct client {
	int requests[2 * MATRIX], *answers; /* of all requests, which differ in the first row */
};

static struct client clients[CLIENTS];
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
	listener = clients_listen();
	device_matrices = device_alloc(CLIENTS * 3 * MATRIX * sizeof(int));
	for (unsigned c = 0; c < CLIENTS; c++) {
		for (unsigned i = 0; i < 2 * MATRIX; i++)
			clients[c].requests[i] = (int)(random_next() % 100);
		clients[c].answers = host_alloc((size_t)options.size * MATRIX * sizeof(int));
	}
}

static void ask(unsigned c, int fd)
{
	struct client *client = &clients[c];

	for (unsigned i = 0; i < options.size; i++) {
		change_request(client->requests, i);
		if (!send_all(fd, client->requests, REQUEST_BYTES) ||
			!receive_all(fd, answer_of(client, i), ANSWER_BYTES))
			return;
	}
}

static void compute(void)
{
	struct gloop_options with = {
		.descriptors = &listener, .descriptor_count = 1, .confined = true};

	clients_begin(ask);
	run_loop("server", SHAPE(CLIENTS, 1, BLOCK, 1), (void *[]){NULL, &device_matrices}, &with);
	clients_end();
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

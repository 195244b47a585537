/* SPDX-License-Identifier: MIT
 *
 * ECHO: a kernel sends back what clients send over TCP, each on a connection of its own.
 */
#include "gloop/run.h"

#include <string.h>

#include "gloop/clients.h"
#include "gloop/echo.h"

#define BLOCK 128u

static int listener;
static int right[CLIENTS]; /* messages that came back as they were sent */
static unsigned char *text;
static CUdeviceptr device_messages;

static void setup(void)
{
	listener = clients_listen();
	text = host_alloc(2 * MESSAGE_MAX);
	for (unsigned i = 0; i < 2 * MESSAGE_MAX; i++)
		text[i] = (unsigned char)random_next();
	device_messages = device_alloc(CLIENTS * MESSAGE_MAX);
}

/* Messages of different lengths and bytes: of the text, from different places. */
static void talk(unsigned client, int fd)
{
	unsigned char back[MESSAGE_MAX];

	right[client] = 0;
	for (unsigned i = 0; i < options.size; i++) {
		unsigned at = (i * 37 + client * 411) % MESSAGE_MAX, bytes = 1 + at;

		if (!send_all(fd, text + at, bytes) || !receive_all(fd, back, bytes))
			return;
		right[client] += !memcmp(text + at, back, bytes);
	}
}

static void compute(void)
{
	struct gloop_options with = {
		.descriptors = &listener, .descriptor_count = 1, .confined = true};

	clients_begin(talk);
	run_loop("echo", SHAPE(CLIENTS, 1, BLOCK, 1), (void *[]){NULL, &device_messages}, &with);
	clients_end();
}

static void check(void)
{
	int want[CLIENTS];

	for (unsigned c = 0; c < CLIENTS; c++)
		want[c] = (int)options.size;
	check_ints("messages that came back", right, want, CLIENTS);
}

const struct program program = {
	.name = "echo",
	.summary = "Sends back what clients send over TCP.",
	.size_means = "messages of each of the 8 clients",
	.size = 200,
	.size_max = 10000000,
	.setup = setup,
	.compute = compute,
	.check = check,
};

/* SPDX-License-Identifier: MIT
 *
 * A process of a guest that does with the device's file whatever comes to its mind: sessions that begin and end, requests about
 * memory that is not there or goes while it is copied, rings full of anything, doorbells without end, mappings of all offsets, children
 * that have the file, too. What it is told does not matter; that the kernel and other processes stay well does.
 *
 * usage: hostile SEED SECONDS
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/session.h"
#include "proto/vm.h"

#define BUFFER_BYTES (1u << 20)

static uint64_t seed;
static uint8_t *buffer; /* which comes and goes */

/* Of xorshift64: two threads may draw the same. */
static uint64_t draw(void)
{
	uint64_t x = seed;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	seed = x;
	return x;
}

static uint64_t number(void)
{
	static const uint64_t known[] = {0, 1, 7, 8, 4095, 4096, 4097, 1u << 20, (1u << 20) + 1,
		1u << 31, 1ull << 32, 1ull << 40, 1ull << 63, UINT64_MAX, UINT64_MAX - 4095,
		VM_SEGMENT_BYTES, VM_STORE_BASE, VM_MAP_STORE};

	return draw() % 4 ? known[draw() % (sizeof known / sizeof *known)] : draw() >> draw() % 64;
}

static uint64_t address(const struct vm_welcome *welcome, const void *segment)
{
	const uint64_t known[] = {(uint64_t)buffer, (uint64_t)buffer + draw() % BUFFER_BYTES,
		(uint64_t)segment, (uint64_t)&seed, (uint64_t) "constant", welcome->arena_base,
		welcome->arena_base + welcome->staging_bytes,
		welcome->arena_base + welcome->staging_bytes + VM_STORE_BASE, 0xffff888000000000,
		0xffffffff81000000, 0, number()};

	return known[draw() % (sizeof known / sizeof *known)];
}

static void ask(int file, const struct vm_welcome *welcome, const void *segment)
{
	struct vm_copy copy = {address(welcome, segment), address(welcome, segment), number(),
		draw() % 2 ? 1 : number(), number(), number(), (uint32_t)draw() % 3, 0};
	struct vm_image image = {address(welcome, segment), number(), 0};
	struct vm_log log = {address(welcome, segment), draw() % 100000};
	struct vm_host host = {address(welcome, segment), number()};
	uint8_t any[1024];

	switch (draw() % 8) {
	case 0:
		ioctl(file, VM_IOCTL_COPY, &copy);
		break;
	case 1:
		ioctl(file, VM_IOCTL_IMAGE, &image);
		break;
	case 2:
		ioctl(file, VM_IOCTL_LOG, &log);
		break;
	case 3:
		ioctl(file, VM_IOCTL_HOST, &host);
		break;
	case 4:
		ioctl(file, VM_IOCTL_COUNTS, draw() % 2 ? any : (void *)address(welcome, segment));
		break;
	case 5:
		ioctl(file, _IOC(draw() % 4, 0xb7, draw() % 10, draw() % 1024),
			draw() % 2 ? any : (void *)address(welcome, segment));
		break;
	default:
		for (unsigned i = draw() % 100; i; i--)
			ioctl(file, VM_IOCTL_RING);
	}
}

static void scribble(struct session_segment *segment)
{
	uint64_t *words = (uint64_t *)segment;
	uint64_t tail = segment->header.ring_tail;

	switch (draw() % 4) {
	case 0:
		words[draw() % (VM_SEGMENT_BYTES / 8)] = number();
		break;
	case 1:
		words[draw() % (sizeof segment->header / 8)] = number();
		break;
	default: /* a record that could be one */
		for (unsigned i = 0; i < 16; i++)
			((uint64_t *)segment->ring)[(tail / 8 + i) % (SESSION_RING_BYTES / 8)] =
				number();
		((uint64_t *)segment->ring)[tail / 8 % (SESSION_RING_BYTES / 8)] =
			draw() % 70 | (24 + draw() % 13 * 8) << 32;
		__atomic_store_n(
			&segment->header.ring_tail, tail + 24 + draw() % 13 * 8, __ATOMIC_RELEASE);
	}
}

static void map_anything(int file)
{
	uint64_t bytes = draw() % 2 ? 4096 : number();
	off_t offset = (off_t)((draw() % 2 ? VM_MAP_STORE + number() : number()) & ~4095ull);
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		draw() % 4 ? MAP_SHARED : MAP_PRIVATE, file, offset);

	if (at == MAP_FAILED)
		return;
	at[0] = 1;
	madvise(at, bytes, draw() % 2 ? MADV_DONTNEED : MADV_DOFORK);
	mremap(at, bytes, bytes + 4096, MREMAP_MAYMOVE);
	munmap(at, bytes);
}

static void *change_buffer(void *unused)
{
	for (;;) {
		usleep(500);
		madvise(buffer, BUFFER_BYTES, MADV_DONTNEED);
		mprotect(buffer, BUFFER_BYTES / 2, draw() % 2 ? PROT_READ : PROT_READ | PROT_WRITE);
		mmap(buffer + BUFFER_BYTES / 2, BUFFER_BYTES / 2,
			draw() % 2 ? PROT_NONE : PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	return unused;
}

static void fork_with(int file, const struct vm_welcome *welcome, const void *segment)
{
	pid_t child = fork();

	if (!child) {
		ask(file, welcome, segment);
		_exit(0);
	}
	if (child > 0 && draw() % 2)
		kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Or keeps it, which keeps its session, and unmaps another: some sessions are left for others. */
static void unmap(struct session_segment *segment)
{
	static struct session_segment *kept[2];
	unsigned which = (unsigned)draw() % 2;
	struct session_segment *gone = segment;

	if (draw() % 2) {
		gone = kept[which];
		kept[which] = segment;
	}
	if (gone)
		munmap(gone, VM_SEGMENT_BYTES);
}

static void session(void)
{
	struct vm_open opened = {.attempt = draw() % 8 ? (uint32_t)draw() % 3 : (uint32_t)number()};
	int file = open("/dev/gdev0", O_RDWR | O_CLOEXEC | (draw() % 2 ? O_NONBLOCK : 0));
	struct session_segment *segment = MAP_FAILED;
	struct pollfd ready = {file, POLLIN, 0};
	uint64_t events;

	if (draw() % 16 && !ioctl(file, VM_IOCTL_OPEN, &opened))
		segment = mmap(NULL, VM_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file,
			VM_MAP_SEGMENT);
	for (unsigned i = draw() % 60; i; i--) {
		ask(file, &opened.welcome, segment);
		if (segment != MAP_FAILED)
			scribble(segment);
		if (draw() % 8 == 0)
			map_anything(file);
		if (draw() % 16 == 0)
			fork_with(file, &opened.welcome, segment);
		poll(&ready, 1, 0);
		if (read(file, &events, draw() % 16) < 0 || write(file, &events, 8) < 0)
			continue;
	}
	if (segment != MAP_FAILED)
		unmap(segment);
	close(file);
}

static void end(int signal)
{
	_exit(signal == SIGALRM ? 0 : 1);
}

int main(int argc, char **argv)
{
	pthread_t changer;

	if (argc != 3)
		return 2;
	seed = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
	buffer = mmap(
		NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED || pthread_create(&changer, NULL, change_buffer, NULL))
		return 1;
	signal(SIGALRM, end);
	alarm((unsigned)atoi(argv[2]));
	for (;;)
		session();
}

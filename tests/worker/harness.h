/* SPDX-License-Identifier: MIT
 *
 * A worker's core in the test's own process, with a client and a gdevd made by hand: the client writes
 * records into the session segment, gdevd is the other end of a socket pair. The device is the null
 * backend with its engine replaced, so that a test decides when a command is done, and how.
 * Nothing runs by itself: fixture_run() steps the core until there is nothing left to do, and the time is what the test says it is.
 */
#ifndef GDEV_TESTS_WORKER_HARNESS_H
#define GDEV_TESTS_WORKER_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gdev/error.h"
#include "proto/control.h"
#include "proto/peer.h"
#include "proto/record.h"
#include "worker/core.h"

#define TEST_BASE 0x566000000000ull /* an address that the thread sanitizer leaves to programs */
#define TEST_BYTES (1ull << 30)
#define TEST_STAGING (12ull << 20)
#define TEST_DEVICE (TEST_BASE + TEST_STAGING) /* where tests put device memory */
#define TEST_LIMIT (256ull << 20)
#define MIB (1ull << 20)
#define PATIENCE_MS 120000 /* for what comes for certain, on a busy machine */

struct fixture {
	struct core *core;
	struct session_segment *segment; /* the client's mapping */
	int gdevd;                       /* its end of the control socket; -1: none */
	int peer;                        /* the client's end */
	uint64_t tail, values[SESSION_TIMELINES];
	int ended, reason;
	char runtime_dir[64], socket_path[96];
};

/* with_gdevd: a control socket, of which READY has been taken. Otherwise nobody arbitrates. */
void fixture_start(struct fixture *fixture, bool with_gdevd);
/* As fixture_start, with threads of the worker's own and the null backend as it is. */
void fixture_start_threads(struct fixture *fixture, bool with_gdevd, unsigned threads);
/* With a device of the test's own. */
/* … and no client before fixture_attach(). */
void fixture_start_warm(struct fixture *fixture, unsigned threads);
void fixture_attach(struct fixture *fixture);
void fixture_start_ops(
	struct fixture *fixture, const struct device_ops *ops, bool with_gdevd, unsigned threads);
void fixture_stop(struct fixture *fixture);
void fixture_run(struct fixture *fixture);
/* Time passes. A worker without threads of its own reads a clock that stands still otherwise, but for a moment with each look: nothing is
 * due because this process is late. */
void fixture_pass(uint64_t ns);
/* Such a worker does what is due, and what follows from that. */
void fixture_tick(struct fixture *fixture);

/* cmocka setup and teardown. */
int setup_alone(void **state);
int setup_with_gdevd(void **state);
int teardown(void **state);

/* ---- the client ---- */

/* Writes a record as it is, only with its length and the next value of its timeline filled in. `extra`
 * bytes follow the fixed part. Gives the value. */
uint64_t post_raw(
	struct fixture *fixture, void *record, size_t fixed, const void *extra, size_t extra_bytes);
#define post(fixture, record) post_raw(fixture, record, sizeof *(record), NULL, 0)
/* Publishes the tail, and wakes the worker as the protocol says. */
void publish(struct fixture *fixture);

uint64_t completed(const struct fixture *fixture, uint32_t timeline);
int32_t stream_error(const struct fixture *fixture, uint32_t timeline);
int32_t session_error(const struct fixture *fixture);

/* Posts an immediate record in reply slot 0, runs, and gives the status of its reply. It must have been
 * answered. */
int ask(struct fixture *fixture, void *record, size_t fixed, const void *extra, size_t extra_bytes);
#define ask_plain(fixture, record) ask(fixture, record, sizeof *(record), NULL, 0)
const void *reply_payload(const struct fixture *fixture);

/* Common ones. */
void make_stream(struct fixture *fixture, uint32_t timeline);
int alloc(struct fixture *fixture, uint64_t address, uint64_t bytes);
int release(struct fixture *fixture, uint64_t address);
/* A module with a function: the function's handle. */
uint32_t make_function(struct fixture *fixture);
/* The same in two steps, where gdevd has to answer between them. */
void post_module(struct fixture *fixture);
uint32_t get_function(struct fixture *fixture);
/* A function of a module that is loaded and paid for at gdevd. */
uint32_t get_paid_function(struct fixture *fixture);
uint64_t post_launch(struct fixture *fixture, uint32_t timeline, uint32_t function, uint8_t flags);
uint64_t post_launch_of(struct fixture *fixture, uint32_t timeline, uint32_t function,
	uint32_t blocks, uint8_t flags);
uint64_t post_copy(struct fixture *fixture, uint32_t timeline, uint64_t destination,
	uint64_t source, uint64_t bytes);
uint64_t post_write(struct fixture *fixture, uint32_t timeline, uint64_t destination,
	const void *bytes, size_t length, uint8_t flags);
uint64_t post_wait(struct fixture *fixture, uint32_t timeline, uint32_t awaited, uint64_t value);

/* Somebody traces from now on. */
void trace_on(struct fixture *fixture);
/* How many bytes went through that step of memory management since. */
uint64_t traced(struct fixture *fixture, enum trace_swap step);

/* ---- gdevd ---- */

/* The next message from the worker, which must be of this type; its descriptors in fds. */
void expect_message(struct fixture *fixture, uint16_t type, void *message, size_t size, int *fds,
	size_t *fd_count);
void expect_no_message(struct fixture *fixture);
void tell(struct fixture *fixture, const void *message, const int *fds, size_t fd_count);
/* For so many bytes of device memory, without slack. */
struct control_allocate expect_allocate(struct fixture *fixture, uint64_t bytes);
struct control_room expect_room(struct fixture *fixture, uint64_t bytes);
void expect_return(struct fixture *fixture, uint64_t device_bytes, uint64_t swap_bytes);
/* The answer to a request for memory. The swap is in host memory. */
void say_charged(struct fixture *fixture, const struct control_header *request, int status,
	uint64_t device_bytes, uint64_t swap_bytes);
/* Device memory, with the slack; and what the worker does then. */
void answer_allocate(struct fixture *fixture, const struct control_allocate *request, int status);
void answer_room(
	struct fixture *fixture, const struct control_room *request, int status, uint64_t bytes);
/* What has been said so far does not matter. */
void drain(struct fixture *fixture);

void grant(struct fixture *fixture, uint32_t resource);
/* The word in the page, and the message. */
void take_back(struct fixture *fixture, uint32_t resource, enum worker_revoke word);
void expect_acquire(struct fixture *fixture, uint32_t resource);
struct control_grant expect_release(struct fixture *fixture, uint32_t resource);
/* The worker asks for the resource, and gets it. */
void acquire(struct fixture *fixture, uint32_t resource);
/* A launch for which it does. */
uint64_t post_first_launch(struct fixture *fixture, uint32_t timeline, uint32_t function);

/* ---- the device double ---- */

/* Commands are held from here on until double_release. */
void double_hold(bool hold);
/* Lets the oldest `count` that it holds be done, with this error. */
void double_release(unsigned count, int error);
/* The one that it was given last. */
void double_release_newest(int error);
/* One queue can wait for another there, unless it refuses; how often it was told to. What it holds is released as the test says. */
void double_follows(bool refuses);
unsigned double_followed(void);
unsigned double_held(void);
/* How many commands were ever submitted. */
unsigned double_submitted(void);
/* The oldest that is held. */
const struct device_command *double_oldest(void);
/* What the commands that follow say they took. */
void double_busy_ns(uint64_t busy_ns);
/* Commands begin when they are submitted, all at once; else one after another. */
void double_together(void);
/* It has a pause(), which answers so. */
void double_pausable(bool quiet);
bool double_paused(void);
/* Its poller looks for a while before it sleeps. */
void double_looks(void);
extern unsigned double_modules, double_chunks;
extern unsigned double_refusals;       /* so many chunks that are to be made next are refused */
#define DOUBLE_FREE_BYTES (5ull << 20) /* as the device says */
/* The context: what it takes, what keeps it, what giving it back and making it again answer; and whether it is away. */
extern struct double_context {
	uint64_t bytes;
	uint32_t keeper;
	int error;
	bool retired;
} double_context;

#endif

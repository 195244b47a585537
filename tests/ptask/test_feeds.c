/* SPDX-License-Identifier: MIT
 *
 * Channels from and to files, pipes and sockets.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCKS 50

/* A graph that multiplies by 2 what comes from `in`, and writes it to `out`. */
static struct fixture *doubling(struct gdev_graph_options options, int in, int out,
	enum gdev_layout layout, struct gdev_ptask **ptask)
{
	struct fixture *f = fixture_open(&options);
	struct gdev_ptask *scale = function(f, "scale");
	struct gdev_template *tmpl = array_of(f, layout, N);
	struct gdev_port *to = output(scale, tmpl, 0), *from = input(scale, tmpl, 1);
	struct gdev_channel *channel;

	argument(scale, 2, 2);
	good(f->graph, gdev_port_count(from, 3));
	good(f->graph, gdev_channel_open_source(f->graph, in, from, NULL, &channel));
	good(f->graph, gdev_channel_open_sink(f->graph, to, out, NULL, &channel));
	good(f->graph, gdev_graph_run(f->graph));
	if (ptask)
		*ptask = scale;
	return f;
}

static void *write_all(void *fd)
{
	int values[N];

	for (int block = 0; block < BLOCKS; block++) {
		for (int i = 0; i < N; i++)
			values[i] = block + i;
		for (size_t at = 0; at < sizeof values;) {
			ssize_t count = write(*(int *)fd, (char *)values + at, sizeof values - at);
			if (count < 0)
				return fd;
			at += (size_t)count;
		}
	}
	close(*(int *)fd);
	return NULL;
}

static void read_all(int fd)
{
	int values[N];

	for (int block = 0; block < BLOCKS; block++) {
		for (size_t at = 0; at < sizeof values;) {
			ssize_t count = read(fd, (char *)values + at, sizeof values - at);
			assert_true(count > 0);
			at += (size_t)count;
		}
		for (int i = 0; i < N; i++)
			assert_int_equal(values[i], 2 * (block + i));
	}
	assert_int_equal(read(fd, values, 1), 0);
}

/* The end of what is read is the end of what is written. */
static void through(int in[2], int out[2])
{
	struct fixture *f =
		doubling((struct gdev_graph_options){0}, in[0], out[1], GDEV_LAYOUT_FIXED, NULL);
	pthread_t writer;
	void *failed;

	assert_int_equal(fcntl(in[0], F_GETFL) & O_NONBLOCK, 0);
	close(in[0]);
	close(out[1]);
	assert_int_equal(pthread_create(&writer, NULL, write_all, &in[1]), 0);
	read_all(out[0]);
	pthread_join(writer, &failed);
	assert_null(failed);
	close(out[0]);
	fixture_teardown((void **)&f);
}

static void test_pipes(void **state)
{
	int in[2], out[2];

	assert_int_equal(pipe(in) | pipe(out), 0);
	through(in, out);
}

static void test_sockets(void **state)
{
	int in[2], out[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, in), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, out), 0);
	through(in, out);
}

static int file_of(const void *bytes, size_t count)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void wait_for_end(struct gdev_ptask *ptask)
{
	struct gdev_ptask_info info;

	do {
		good(NULL, gdev_ptask_query(ptask, &info));
		usleep(1000);
	} while (!info.ended);
}

/* Records: as many as there are, the last datablock with fewer. */
static void test_files(void **state)
{
	static int values[5 * N / 2], doubled[5 * N / 2 + 1];
	int in, out = file_of("", 0);
	struct gdev_ptask *ptask;
	struct fixture *f;
	struct gdev_ptask_info info;

	for (int i = 0; i < 5 * N / 2; i++)
		values[i] = i;
	in = file_of(values, sizeof values);
	f = doubling((struct gdev_graph_options){0}, in, out, GDEV_LAYOUT_RECORDS, &ptask);
	wait_for_end(ptask);
	good(f->graph, gdev_ptask_query(ptask, &info));
	assert_int_equal(info.invocations, 3);
	for (int i = 0; i < 12000 && lseek(out, 0, SEEK_END) < (off_t)(3 * N * sizeof(int)); i++)
		usleep(5000);
	assert_int_equal(pread(out, doubled, sizeof values, 0), sizeof values);
	for (int i = 0; i < 5 * N / 2; i++)
		assert_int_equal(doubled[i], 2 * i);
	fixture_teardown((void **)&f);
	close(in);
	close(out);
}

static void test_cut_short(void **state)
{
	static int values[N + 1];
	int in = file_of(values, sizeof values), out = file_of("", 0), error;
	struct fixture *f =
		doubling((struct gdev_graph_options){0}, in, out, GDEV_LAYOUT_FIXED, NULL);
	struct gdev_template *tmpl;
	struct gdev_shape shape = {.stride = 4, .count = {1}};

	while (!(error = gdev_template_open(f->graph, "t", &shape, &tmpl)))
		usleep(1000);
	assert_int_equal(error, -EBADMSG);
	fixture_teardown((void **)&f);
	close(in);
	close(out);
}

/* A reader that goes away is no failure, and no signal. */
static void test_reader_gone(void **state)
{
	int in[2], out[2];
	struct gdev_ptask *ptask;
	struct fixture *f;

	assert_int_equal(pipe(in) | pipe(out), 0);
	f = doubling((struct gdev_graph_options){0}, in[0], out[1], GDEV_LAYOUT_FIXED, &ptask);
	close(in[0]);
	close(out[0]);
	close(out[1]);
	assert_null(write_all(&in[1]));
	wait_for_end(ptask);
	fixture_teardown((void **)&f);
}

/* The program's own loop: the descriptor tells of pipes, too. */
static void test_manual(void **state)
{
	int in[2], out[2], values[N];
	struct gdev_graph_options options = {.manual = true};
	struct gdev_ptask *ptask;
	struct pollfd ready[2];
	struct fixture *f;
	pthread_t writer;
	size_t got = 0;
	int turns = 0;

	assert_int_equal(pipe(in) | pipe(out), 0);
	f = doubling(options, in[0], out[1], GDEV_LAYOUT_FIXED, &ptask);
	close(out[1]);
	close(in[0]);
	assert_int_equal(pthread_create(&writer, NULL, write_all, &in[1]), 0);
	ready[0] = (struct pollfd){.fd = gdev_graph_descriptor(f->graph), .events = POLLIN};
	ready[1] = (struct pollfd){.fd = out[0], .events = POLLIN};
	while (got < BLOCKS * sizeof values) {
		assert_true(poll(ready, 2, PATIENCE_MS) > 0);
		if (ready[0].revents)
			good(f->graph, gdev_graph_advance(f->graph));
		if (ready[1].revents)
			got += (size_t)read(out[0], values, sizeof values);
		turns++;
	}
	/* It sleeps in between, and does not turn round. */
	assert_in_range(turns, 1, 100 * BLOCKS);
	pthread_join(writer, NULL);
	close(out[0]);
	fixture_teardown((void **)&f);
}

/* A sink that takes a datablock and cannot write any of it has made room all the same: of four datablocks one is in the pipe,
 * one is being written, one is in the channel, and the last is at the port. */
static void test_slow_reader(void **state)
{
	struct fixture *f = *state;
	int page = getpagesize(), ends[2], count = page / (int)sizeof(int);
	struct gdev_template *tmpl = array_of(f, GDEV_LAYOUT_FIXED, (uint64_t)count);
	struct gdev_ptask *increment = function(f, "increment");
	struct gdev_port *from = input(increment, tmpl, 0);
	struct gdev_port *to = port(
		increment, (struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = from});
	struct gdev_channel_options narrow = {.capacity = 1};
	struct gdev_channel *in = channel(f, NULL, from), *sink;
	struct gdev_ptask_info info = {0};
	int *values = calloc(1, (size_t)page);

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, page), page);
	argument(increment, 1, (unsigned)count);
	good(f->graph, gdev_channel_open_sink(f->graph, to, ends[1], &narrow, &sink));
	good(f->graph, gdev_graph_run(f->graph));
	for (int i = 0; i < 5; i++)
		good(f->graph, gdev_push_bytes(in, values, (uint64_t)page, 0));
	for (int i = 0; i < 12000 && info.invocations < 4; i++) {
		usleep(5000);
		good(f->graph, gdev_ptask_query(increment, &info));
	}
	assert_int_equal(info.invocations, 4);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(read(ends[0], values, (size_t)page), page);
		assert_int_equal(values[count - 1], 1);
	}
	free(values);
	close(ends[0]);
	close(ends[1]);
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2);
	struct gdev_channel *channel, *source, *sink;
	struct gdev_datablock *block;
	int ends[2], datagrams[2], values[N] = {0};

	assert_int_equal(pipe(ends) | socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams), 0);
	assert_int_equal(
		gdev_channel_open_source(f->graph, datagrams[0], a.in, NULL, &channel), -EINVAL);
	assert_int_equal(gdev_channel_open_source(f->graph, ends[1], a.in, NULL, &channel), -EBADF);
	assert_int_equal(gdev_channel_open_sink(f->graph, a.out, ends[0], NULL, &channel), -EBADF);
	assert_int_equal(gdev_channel_open_source(f->graph, -1, a.in, NULL, &channel), -EBADF);
	assert_int_equal(
		gdev_channel_open_source(f->graph, ends[0], NULL, NULL, &channel), -EINVAL);
	assert_int_equal(gdev_channel_open_sink(f->graph, NULL, ends[1], NULL, &channel), -EINVAL);
	assert_int_equal(gdev_channel_open_sink(f->graph, a.in, ends[1], NULL, &channel), -EINVAL);
	good(f->graph, gdev_channel_open_source(f->graph, ends[0], a.in, NULL, &source));
	good(f->graph, gdev_channel_open_sink(f->graph, a.out, ends[1], NULL, &sink));
	good(f->graph, gdev_graph_run(f->graph));
	assert_int_equal(gdev_push_bytes(source, values, sizeof values, 0), -EINVAL);
	assert_int_equal(gdev_pull(sink, 0, &block), -EINVAL);
	assert_int_equal(gdev_channel_end(source), -EINVAL);
	close(ends[0]);
	close(ends[1]);
	close(datagrams[0]);
	close(datagrams[1]);
}

#define with_graph(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipes),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_reader_gone),
		cmocka_unit_test(test_manual),
		with_graph(test_slow_reader),
		with_graph(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Events of two processes: this one, and a child that is there before CUDA is. They talk through two pipes.
 * TEST_OTHER_DEVICES: which devices the child sees, as CUDA_VISIBLE_DEVICES; by itself the same.
 */
#include "fixture.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int to_child[2], to_parent[2];
static pid_t child;

static void say(int fd, const void *what, size_t bytes)
{
	if (write(fd, what, bytes) != (ssize_t)bytes)
		_exit(90);
}

static void hear(int fd, void *what, size_t bytes)
{
	if (read(fd, what, bytes) != (ssize_t)bytes)
		_exit(91);
}

/* Opens the event and waits for it: 0, or the number of the step that failed. */
static int run_child(void)
{
	CUipcEventHandle handle;
	CUcontext context;
	CUevent event;
	char done = 'x';

	close(to_child[1]);
	close(to_parent[0]);
	hear(to_child[0], &handle, sizeof handle);
	if (cuInit(0) || cuCtxCreate(&context, NULL, 0, 0))
		return 1;
	if (cuIpcOpenEventHandle(&event, handle))
		return 2;
	if (cuEventQuery(event) != CUDA_ERROR_NOT_READY) /* the other's gate is closed */
		return 3;
	say(to_parent[1], &done, 1);
	if (cuStreamWaitEvent(NULL, event, 0) || cuStreamSynchronize(NULL))
		return 4;
	if (cuEventSynchronize(event) || cuEventQuery(event))
		return 5;
	if (cuEventRecord(event, NULL)) /* now it is ours */
		return 6;
	say(to_parent[1], &done, 1);
	hear(to_child[0], &done, 1); /* until the parent has looked */
	if (cuEventDestroy(event) || cuCtxDestroy(context))
		return 7;
	return 0;
}

/* In the child, before it uses CUDA. */
static void choose_devices(void)
{
	if (getenv("TEST_OTHER_DEVICES"))
		setenv("CUDA_VISIBLE_DEVICES", getenv("TEST_OTHER_DEVICES"), 1);
}

static int start(void **state)
{
	if (pipe(to_child) || pipe(to_parent))
		return -1;
	child = fork();
	if (!child) {
		choose_devices();
		_exit(run_child());
	}
	close(to_child[0]);
	close(to_parent[1]);
	return fixture_setup(state);
}

static void another_process_waits_for_an_event(void **state)
{
	CUipcEventHandle handle;
	struct gate gate;
	CUstream stream;
	CUevent event;
	int status;
	char word;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_result(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	gate_close(&gate, stream);
	assert_success(cuEventRecord(event, stream));
	assert_success(cuIpcGetEventHandle(&handle, event));
	say(to_child[1], &handle, sizeof handle);
	hear(to_parent[0], &word, 1);
	assert_result(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	hear(to_parent[0], &word, 1); /* the child has recorded it */
	assert_success(cuEventSynchronize(event));
	assert_success(cuStreamWaitEvent(stream, event, 0));
	assert_success(cuStreamSynchronize(stream));
	say(to_child[1], &word, 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	gate_free(&gate);
	assert_success(cuEventDestroy(event));
	assert_success(cuStreamDestroy(stream));
}

/* Makes an event, and ends when it has recorded it: behind all of its work, or while that goes on. */
static int run_maker(void)
{
	CUipcEventHandle handle;
	struct gate gate;
	CUcontext context;
	CUevent event;
	char with_work;

	close(to_child[1]);
	close(to_parent[0]);
	hear(to_child[0], &with_work, 1);
	if (cuInit(0) || cuCtxCreate(&context, NULL, 0, 0) ||
		cuModuleLoadData(&fixture_module, kernels_ptx) ||
		cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING))
		return 1;
	if (with_work)
		gate_close(&gate, NULL);
	if (cuEventRecord(event, NULL) || (!with_work && cuCtxSynchronize()) ||
		cuIpcGetEventHandle(&handle, event))
		return 2;
	say(to_parent[1], &handle, sizeof handle);
	hear(to_child[0], &with_work, 1); /* the parent has opened it */
	return 0;
}

static int start_maker(void **state)
{
	if (pipe(to_child) || pipe(to_parent))
		return -1;
	child = fork();
	if (!child) {
		choose_devices();
		_exit(run_maker());
	}
	close(to_child[0]);
	close(to_parent[1]);
	return fixture_setup(state);
}

/* The event of a process that is gone; what becomes of waiting for it. */
static void wait_for_maker(char with_work, CUresult expected)
{
	CUipcEventHandle handle;
	CUevent event;
	int status;

	say(to_child[1], &with_work, 1);
	hear(to_parent[0], &handle, sizeof handle);
	assert_success(cuIpcOpenEventHandle(&event, handle));
	say(to_child[1], &with_work, 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_result(cuEventSynchronize(event), expected);
	assert_success(cuStreamWaitEvent(NULL, event, 0));
	assert_result(cuStreamSynchronize(NULL), expected);
	assert_success(cuEventDestroy(event));
}

static void event_of_a_process_that_ended_well_is_done(void **state)
{
	wait_for_maker(0, CUDA_SUCCESS);
}

static void event_that_will_not_come_is_an_error(void **state)
{
	if (getenv("TEST_VENDOR")) {
		printf("# the vendor's library does not say\n");
		skip();
	}
	wait_for_maker(1, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void wrong_handles_are_refused(void **state)
{
	CUipcEventHandle handle = {{0}};
	CUevent event, opened;

	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_int_not_equal(cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
	assert_int_not_equal(cuIpcGetEventHandle(NULL, event), CUDA_SUCCESS);
	assert_int_not_equal(cuIpcOpenEventHandle(&opened, handle), CUDA_SUCCESS);
	assert_int_not_equal(cuIpcOpenEventHandle(NULL, handle), CUDA_SUCCESS);
	assert_success(cuEventDestroy(event));
}

/* Another process that has a page as ours have it, but could cut it short while we look at it. */
static pid_t make_page(int *fd)
{
	static const uint32_t magic = 0x67646576u;
	pid_t pid;

	*fd = memfd_create("page", MFD_CLOEXEC);
	assert_int_equal(ftruncate(*fd, 4096), 0);
	assert_int_equal(write(*fd, &magic, sizeof magic), sizeof magic);
	pid = fork();
	if (!pid)
		for (;;)
			pause();
	return pid;
}

static void page_that_can_be_cut_short_is_refused(void **state)
{
	CUipcEventHandle handle = {{0}};
	struct {
		uint32_t magic, pid;
		int32_t fd;
		uint32_t reserved;
		uint64_t inode;
	} inside = {.magic = 0x67646576u};
	struct stat status;
	CUevent opened;
	pid_t pid;

	if (getenv("TEST_VENDOR"))
		skip(); /* its handles are other ones */
	pid = make_page(&inside.fd);
	assert_int_equal(fstat(inside.fd, &status), 0);
	inside.pid = (uint32_t)pid;
	inside.inode = status.st_ino;
	memcpy(&handle, &inside, sizeof inside);
	assert_result(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(inside.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			another_process_waits_for_an_event, start, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			event_of_a_process_that_ended_well_is_done, start_maker, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			event_that_will_not_come_is_an_error, start_maker, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			wrong_handles_are_refused, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			page_that_can_be_cut_short_is_refused, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

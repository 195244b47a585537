/* SPDX-License-Identifier: MIT
 *
 * See errors.h.
 */
#include "errors.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

char garbage[256];
struct objects alive, gone;
static int wrong; /* rows of this test */
static bool arguments_may_be_first;

struct row {
	const char *file, *call;
	int line;
	CUresult ours;
};

static struct row row; /* the last one */

/*
 * NVIDIA's library is asked by processes whose end a crash is. What they leave here for the one that waits for them
 * begins the test again; pointers are to literals, the same in both.
 */
struct vendor {
	struct row row; /* the last one that was asked */
	bool asking;    /* it is under way */
	int number;     /* which it is of the test, from 1 */
	int ended[40];  /* numbers of rows that ended a process */
	size_t ends;
};

static struct vendor *vendor;

#define MOST_ENDS (sizeof vendor->ended / sizeof *vendor->ended)
#define SETUP_SECONDS 200
#define ROW_SECONDS 60

bool errors_of_vendor(void)
{
	return vendor;
}

static const char *name_of(CUresult result)
{
	const char *name;

	return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "an unknown result";
}

/* One write a row, since the groups run at the same time. */
static void write_down(const char *became, const char *ours, const char *nvidias, const char *why)
{
	const char *path = getenv("TEST_ANSWERS");
	const char *file = strrchr(row.file, '/');
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;

	if (fd < 0)
		return;
	dprintf(fd, "%s:%d\t%s\t%s\t%s\t%s\t%s\n", file ? file + 1 : row.file, row.line, became,
		ours, nvidias, why, row.call);
	close(fd);
}

static bool has_ended_a_process(int number)
{
	for (size_t i = 0; i < vendor->ends; i++)
		if (vendor->ended[i] == number)
			return true;
	return false;
}

bool errors_may_ask(const char *file, int line, const char *call, CUresult ours)
{
	row = (struct row){file, call, line, ours};
	if (!vendor)
		return true;
	if (has_ended_a_process(++vendor->number))
		return false;
	vendor->row = row;
	signal(SIGSEGV, SIG_DFL); /* cmocka's, until now */
	signal(SIGABRT, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	signal(SIGFPE, SIG_DFL);
	alarm(ROW_SECONDS);
	vendor->asking = !strstr(call, "(void *)alive.") && !strstr(call, "gone.context") &&
			 (!strstr(call, "gone.") || strstr(call, "gone.memory") ||
				 strstr(call, "gone.host"));
	if (!vendor->asking)
		write_down("not asked", "-", "-", "");
	return vendor->asking;
}

bool errors_crashes(const char *file, int line, const char *call, CUresult ours)
{
	row = (struct row){file, call, line, ours};
	if (vendor)
		write_down("known to crash", name_of(ours), "-", "");
	return vendor;
}

void errors_row(CUresult result, CUresult nvidias, const char *why)
{
	CUresult ours = row.ours, expected;

	nvidias = nvidias == ERRORS_SAME ? ours : nvidias;
	expected = vendor ? nvidias : ours;
	if (vendor) {
		if (arguments_may_be_first && (result == CUDA_ERROR_INVALID_VALUE ||
						      result == CUDA_ERROR_INVALID_HANDLE)) {
			expected = nvidias = result;
			why = "finds an argument wrong before it asks whether cuInit was called";
		}
		vendor->asking = false;
		write_down(result != nvidias ? "differs"
			   : ours != nvidias ? "on purpose"
					     : "same",
			name_of(ours), name_of(result), why);
	}
	if (result == expected)
		return;
	print_error("%s:%d: %s: %d, not %d\n", row.file, row.line, row.call, result, expected);
	wrong++;
}

void errors_arguments_may_be_first(void)
{
	arguments_may_be_first = true;
}

int errors_wrong(void)
{
	return wrong;
}

/* What the user objects call at their end. */
static void nothing(void *data)
{
}

static void objects_create(struct objects *objects)
{
	CUmemPoolProps pool = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device},
	};

	assert_success(cuStreamCreate(&objects->stream, 0));
	assert_success(cuEventCreate(&objects->event, 0));
	assert_success(cuModuleLoadData(&objects->module, kernels_ptx));
	assert_success(cuModuleGetFunction(&objects->function, objects->module, "add"));
	assert_success(
		cuLibraryLoadData(&objects->library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
	assert_success(cuLibraryGetKernel(&objects->kernel, objects->library, "add"));
	assert_success(cuLinkCreate(0, NULL, NULL, &objects->link));
	assert_success(cuMemAlloc(&objects->memory, OBJECT_BYTES));
	assert_success(cuMemHostAlloc(&objects->host, OBJECT_BYTES, 0));
	assert_success(cuMemPoolCreate(&objects->pool, &pool));
	assert_success(cuGraphCreate(&objects->graph, 0));
	assert_success(cuGraphAddEmptyNode(&objects->node, objects->graph, NULL, 0));
	assert_success(cuGraphInstantiate(&objects->exec, objects->graph, 0));
	assert_success(cuUserObjectCreate(
		&objects->object, garbage, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
}

static void objects_destroy(const struct objects *objects)
{
	assert_success(cuUserObjectRelease(objects->object, 1));
	assert_success(cuGraphExecDestroy(objects->exec));
	assert_success(cuGraphDestroy(objects->graph));
	assert_success(cuMemPoolDestroy(objects->pool));
	assert_success(cuMemFreeHost(objects->host));
	assert_success(cuMemFree(objects->memory));
	assert_success(cuLinkDestroy(objects->link));
	assert_success(cuLibraryUnload(objects->library));
	assert_success(cuModuleUnload(objects->module));
	assert_success(cuEventDestroy(objects->event));
	assert_success(cuStreamDestroy(objects->stream));
}

int errors_setup(void **state)
{
	fixture_setup(state);
	alive.context = fixture_context;
	objects_create(&alive);
	objects_create(&gone);
	objects_destroy(&gone);
	gone.context = fixture_context_create();
	assert_success(cuCtxDestroy(gone.context));
	assert_success(cuCtxSetCurrent(fixture_context));
	wrong = 0;
	return 0;
}

int errors_teardown(void **state)
{
	int rows = wrong;

	assert_success(cuCtxSetCurrent(fixture_context));
	objects_destroy(&alive);
	fixture_teardown(state);
	wrong = 0;
	return rows ? -1 : 0;
}

static int (*const groups[])(void) = {errors_of_state, errors_of_contexts, errors_of_memory,
	errors_of_pools, errors_of_streams, errors_of_code, errors_of_graphs, errors_of_arrays,
	errors_of_textures, errors_of_greens};

#define GROUPS (sizeof groups / sizeof *groups)

/* A row ended the process that asked: the next one leaves it out. */
static void leave_out(int signal)
{
	const char *how = signal == SIGALRM ? "hangs" : "crashes";

	row = vendor->row;
	fprintf(stderr, "%s:%d: %s%s: %s\n", row.file, row.line, vendor->asking ? "" : "behind ",
		row.call, how);
	write_down(how, name_of(row.ours), "-", "");
	vendor->ended[vendor->ends++] = vendor->number;
}

/* Whether all rows that can be asked are right. */
static bool ask_test(const struct CMUnitTest *test)
{
	const struct CMUnitTest alone[] = {*test};
	int status;

	vendor->ends = 0;
	for (;;) {
		pid_t child;

		vendor->number = 0;
		fflush(stdout);
		child = fork();
		if (!child) {
			alarm(SETUP_SECONDS);
			exit(cmocka_run_group_tests(alone, NULL, NULL) > 0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			return false;
		if (WIFEXITED(status) || !vendor->number || vendor->ends == MOST_ENDS)
			break;
		leave_out(WTERMSIG(status));
	}
	if (vendor->ends || !WIFEXITED(status))
		printf("not ok 1 - %s: rows end its process: %zu\n", test->name, vendor->ends);
	return !vendor->ends && WIFEXITED(status) && !WEXITSTATUS(status);
}

int errors_run(const struct CMUnitTest *tests, size_t count)
{
	int failed = 0;

	if (!vendor) /* what cmocka_run_group_tests() is for an array */
		return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
	for (size_t i = 0; i < count; i++)
		failed += !ask_test(&tests[i]);
	return failed;
}

/* All groups at the same time. */
static int ask_vendor(void)
{
	int status, wrong_groups = 0;

	for (size_t i = 0; i < GROUPS; i++)
		if (!fork()) {
			vendor = mmap(NULL, sizeof *vendor, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			if (vendor == MAP_FAILED)
				exit(1);
			exit(groups[i]() > 0);
		}
	while (wait(&status) > 0)
		wrong_groups += status != 0;
	return wrong_groups;
}

int main(void)
{
	int failed = 0;

	if (getenv("TEST_VENDOR"))
		return ask_vendor();
	for (size_t i = 0; i < GROUPS; i++)
		failed += groups[i]();
	return failed;
}

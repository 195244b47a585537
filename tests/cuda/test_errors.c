/* SPDX-License-Identifier: MIT
 *
 * See errors.h.
 */
#include "errors.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char garbage[256];
struct objects alive, gone;
sigjmp_buf errors_crashed;
static int wrong; /* rows of this test */
static const char *row_file, *row_call;
static int row_line;
static volatile sig_atomic_t asking; /* a row is under way */

bool errors_of_vendor(void)
{
	return getenv("TEST_VENDOR");
}

static const char *name_of(CUresult result)
{
	const char *name;

	return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "an unknown result";
}

/* One write a row, since the groups run at the same time. */
static void write_down(const char *became, const char *ours, const char *nvidias)
{
	const char *path = getenv("TEST_ANSWERS");
	const char *file = strrchr(row_file, '/');
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;

	if (fd < 0)
		return;
	dprintf(fd, "%s:%d\t%s\t%s\t%s\t%s\n", file ? file + 1 : row_file, row_line, became, ours,
		nvidias, row_call);
	close(fd);
}

/* The row ends; what crashes or hangs elsewhere ends the group. */
static void crashed(int signal)
{
	bool was_asking = asking;

	asking = false;
	fprintf(stderr, "%s:%d: %s%s: %s\n", row_file, row_line, was_asking ? "" : "behind ",
		row_call, signal == SIGALRM ? "does not return" : "crashes");
	write_down(signal == SIGALRM ? "hangs" : "crashes", "-", "-");
	if (was_asking && signal != SIGALRM)
		siglongjmp(errors_crashed, 1);
	fflush(stdout);
	_exit(1);
}

bool errors_may_ask(const char *file, int line, const char *call)
{
	row_file = file;
	row_line = line;
	row_call = call;
	if (!errors_of_vendor())
		return true;
	signal(SIGSEGV, crashed); /* cmocka's, until now */
	signal(SIGABRT, crashed);
	asking = !strstr(call, "GARBAGE(") && !strstr(call, "(void *)alive.") &&
		 !strstr(call, "gone.context") &&
		 (!strstr(call, "gone.") || strstr(call, "gone.memory") ||
			 strstr(call, "gone.host"));
	if (!asking)
		write_down("not asked", "-", "-");
	return asking;
}

void errors_row(CUresult result, CUresult ours, CUresult nvidias)
{
	CUresult expected = errors_of_vendor() ? nvidias : ours;

	asking = false;
	if (errors_of_vendor())
		write_down(result != nvidias ? "differs"
			   : ours != nvidias ? "on purpose"
					     : "same",
			name_of(ours), name_of(result));
	if (result == expected)
		return;
	print_error("%s:%d: %s: %d, not %d\n", row_file, row_line, row_call, result, expected);
	wrong++;
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
	errors_of_pools, errors_of_streams, errors_of_code, errors_of_graphs};

#define GROUPS (sizeof groups / sizeof *groups)
#define GROUP_SECONDS 15

/* Each group in a process of its own, which a crash may leave in any state. */
static int ask_vendor(void)
{
	int status, wrong_groups = 0;

	for (size_t i = 0; i < GROUPS; i++)
		if (!fork()) {
			signal(SIGALRM, crashed);
			alarm(GROUP_SECONDS);
			exit(groups[i]() > 0);
		}
	while (wait(&status) > 0)
		wrong_groups += status != 0;
	return wrong_groups;
}

int main(void)
{
	int failed = 0;

	if (errors_of_vendor())
		return ask_vendor();
	for (size_t i = 0; i < GROUPS; i++)
		failed += groups[i]();
	return failed;
}

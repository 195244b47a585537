/* SPDX-License-Identifier: MIT
 *
 * Where gdevd makes its workers' cgroups: over a directory with files such as a kernel's. What a kernel does with them is in
 * tests/attacks/test_cgroups.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gdevd/worker_cgroup.h"

static char root[64], own[80];

static void put(const char *path, const char *text)
{
	char full[256], *at = full + strlen(root) + 1;
	FILE *file;

	snprintf(full, sizeof full, "%s/%s", root, path);
	while ((at = strchr(at, '/'))) {
		*at = '\0';
		mkdir(full, 0755);
		*at++ = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static const char *get(const char *path)
{
	static char text[256];
	char full[256];
	FILE *file;

	snprintf(full, sizeof full, "%s/%s", root, path);
	file = fopen(full, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

static int setup(void **state)
{
	strcpy(root, "/tmp/gdev-cgroup-XXXXXX");
	assert_non_null(mkdtemp(root));
	snprintf(own, sizeof own, "%s/own", root);
	return 0;
}

static int teardown(void **state)
{
	char command[96];

	snprintf(command, sizeof command, "rm -r %s", root);
	return system(command);
}

/* A group of cgroup v2, with so many others in it. */
static void unit(const char *controllers, const char *others)
{
	char procs[64];

	put("own", "3:pids:/\n0::/unit\n");
	snprintf(procs, sizeof procs, "%d\n%s", (int)getpid(), others);
	put("unit/cgroup.procs", procs);
	put("unit/cgroup.controllers", controllers);
	put("unit/cgroup.subtree_control", "");
	put("unit/gdevd/cgroup.procs", "");
}

static struct worker_cgroups find(void)
{
	struct worker_cgroups cgroups = {0};

	worker_cgroups_find(&cgroups, root, own);
	return cgroups;
}

static void assert_none(const char *why)
{
	struct worker_cgroups cgroups = find();

	assert_string_equal(cgroups.path, "");
	assert_non_null(strstr(cgroups.why, why));
	assert_int_equal(worker_cgroup_enter(&cgroups, getpid()), 0);
	assert_int_equal(worker_cgroup_limit(&cgroups, getpid(), 1), 0);
}

static void assert_in_unit(void)
{
	struct worker_cgroups cgroups = find();
	char path[96];

	snprintf(path, sizeof path, "%s/unit", root);
	assert_string_equal(cgroups.path, path);
	assert_string_equal(get("unit/cgroup.subtree_control"), "+memory");
}

static void test_a_unit_of_its_own(void **state)
{
	char pid[24];

	unit("cpu memory pids\n", "");
	assert_in_unit();
	snprintf(pid, sizeof pid, "%d\n", (int)getpid());
	assert_string_equal(get("unit/gdevd/cgroup.procs"), pid);
}

/* As systemd starts it with DelegateSubgroup=gdevd, or another gdevd was before. */
static void test_in_the_leaf_already(void **state)
{
	unit("memory\n", "1\n");
	put("own", "0::/unit/gdevd\n");
	assert_in_unit();
	assert_string_equal(get("unit/gdevd/cgroup.procs"), "");
}

static void test_not_alone(void **state)
{
	unit("memory\n", "1\n");
	assert_none("other processes");
	assert_string_equal(get("unit/cgroup.subtree_control"), "");
}

static void test_no_controller(void **state)
{
	unit("cpu memory_recursive pids\n", "");
	assert_none("no memory controller");
	assert_string_equal(get("unit/gdevd/cgroup.procs"), "");
}

static void test_no_groups(void **state)
{
	assert_none("may not make cgroups");
	put("own", "");
	assert_none("no memory controller");
	put("own", "0::/elsewhere\n");
	assert_none("may not make cgroups");
}

static void test_version_1(void **state)
{
	struct worker_cgroups cgroups;
	char path[96];

	put("own", "4:cpu,memory:/a\n0::/\n");
	put("memory/a/cgroup.procs", "1\n2\n");
	cgroups = find();
	snprintf(path, sizeof path, "%s/memory/a", root);
	assert_string_equal(cgroups.path, path);
	assert_true(cgroups.v1);
}

/* What it has already is granted on top. */
static void test_limit(void **state)
{
	struct worker_cgroups cgroups;

	unit("memory\n", "");
	cgroups = find();
	put("unit/gdev-worker-7/cgroup.procs", "");
	put("unit/gdev-worker-7/memory.max", "");
	put("unit/gdev-worker-7/memory.swap.max", "");
	put("unit/gdev-worker-7/memory.current", "1000\n");
	put("unit/gdev-worker-7/memory.events", "max 3\noom 1\noom_kill 0\n");
	assert_int_equal(worker_cgroup_enter(&cgroups, 7), 0);
	assert_string_equal(get("unit/gdev-worker-7/cgroup.procs"), "7");
	assert_string_equal(get("unit/gdev-worker-7/memory.max"), "max");
	put("unit/gdev-worker-7/memory.swap.max", "");
	assert_int_equal(worker_cgroup_limit(&cgroups, 7, 24), 0);
	assert_string_equal(get("unit/gdev-worker-7/memory.max"), "1024");
	assert_string_equal(get("unit/gdev-worker-7/memory.swap.max"), "1024");
	assert_int_equal(worker_cgroup_limit(&cgroups, 7, 48), 0); /* of a gdevd before */
	assert_string_equal(get("unit/gdev-worker-7/memory.max"), "1024");
	assert_false(worker_cgroup_ran_out(&cgroups, 7));
	put("unit/gdev-worker-7/memory.events", "max 3\noom 1\noom_kill 1\n");
	assert_true(worker_cgroup_ran_out(&cgroups, 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_unit_of_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_the_leaf_already, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_controller, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_groups, setup, teardown),
		cmocka_unit_test_setup_teardown(test_version_1, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
	};

	return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}

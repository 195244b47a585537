/* SPDX-License-Identifier: MIT
 *
 * Finds backends by name: the built-in ones, and plugins libgdev-NAME.so, which export one
 * struct device_ops named gdev_device_backend. A plugin is opened once and stays.
 */
#include "device/ops.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/paths.h"
#include "device/null/null.h"

#define NAME_MAX_BYTES 16
#define BACKENDS_MAX 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards backends */
static const struct device_ops *backends[BACKENDS_MAX] = {&null_device_ops};

/* NULL when every required member is there, else the name of the first that is not. */
static const char *missing_member(const struct device_ops *ops)
{
#define REQUIRE(member)                                                                            \
	if (!ops->member)                                                                          \
	return #member
	REQUIRE(name);
	REQUIRE(timing.quantum_ns);
	REQUIRE(timing.window_ns);
	REQUIRE(probe);
	REQUIRE(open);
	REQUIRE(close);
	REQUIRE(overhead_bytes);
	REQUIRE(space_create);
	REQUIRE(space_reserve);
	REQUIRE(space_destroy);
	REQUIRE(chunk_create);
	REQUIRE(chunk_destroy);
	REQUIRE(chunk_export);
	REQUIRE(chunk_import);
	REQUIRE(map);
	REQUIRE(unmap);
	REQUIRE(module_load);
	REQUIRE(module_unload);
	REQUIRE(module_bytes);
	REQUIRE(function_get);
	REQUIRE(function_info);
	REQUIRE(function_param);
	REQUIRE(function_occupancy);
	REQUIRE(global_get);
	REQUIRE(queue_create);
	REQUIRE(queue_destroy);
	REQUIRE(submit);
#undef REQUIRE
	return NULL;
}

/* NULL when there is no such file; an unusable one is said in the log. */
static const struct device_ops *plugin_open(const char *path, const char *name)
{
	const struct device_ops *ops;
	const char *missing;
	void *handle;

	if (access(path, F_OK))
		return NULL;
	/* It may have signal handlers and threads' exit handlers in it: it is never unmapped. */
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!handle) {
		log_warning("device backend: %s", dlerror());
		return NULL;
	}
	ops = dlsym(handle, "gdev_device_backend");
	missing = ops ? missing_member(ops) : "gdev_device_backend";
	if (missing || strcmp(ops->name, name)) {
		log_warning("device backend %s: lacks %s", path, missing ? missing : name);
		dlclose(handle);
		return NULL;
	}
	return ops;
}

/* Relative to the executable: in its build tree, or in the tree that it is installed in, wherever that
 * has been put. %1$s is the backend. */
static const char *const places[] = {
	"../device/%1$s/libgdev-%1$s.so", /* the build tree: of worker/, and of tests/ and bench/ */
	"../../device/%1$s/libgdev-%1$s.so",
	"../../" GDEV_LIBDIR "/gdev/libgdev-%1$s.so", /* installed: of libexec/gdev/, and of bin/ */
	"../" GDEV_LIBDIR "/gdev/libgdev-%1$s.so",
	"../../lib/gdev/libgdev-%1$s.so",
	"../lib/gdev/libgdev-%1$s.so",
	"../../lib64/gdev/libgdev-%1$s.so",
	"../lib64/gdev/libgdev-%1$s.so",
};

/* Looks where the environment says (ignored with raised privileges), near the executable, then where
 * backends were to be installed. */
static const struct device_ops *plugin_find(const char *name)
{
	const char *override = secure_getenv("GDEV_PLUGIN_DIR");
	char place[PATHS_MAX], path[PATHS_MAX];
	const char *const only[] = {place, NULL};
	const struct device_ops *ops;

	if (override) {
		snprintf(path, sizeof path, "%s/libgdev-%s.so", override, name);
		return plugin_open(path, name);
	}
	for (size_t i = 0; i < array_length(places); i++) {
		snprintf(place, sizeof place, places[i], name);
		ops = paths_sibling(only, path) ? NULL : plugin_open(path, name);
		if (ops)
			return ops;
	}
	snprintf(path, sizeof path, "%s/libgdev-%s.so", PLUGIN_DIR, name);
	return plugin_open(path, name);
}

static bool name_valid(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");

	return length > 0 && length < NAME_MAX_BYTES && !name[length];
}

const struct device_ops *device_ops_find(const char *name)
{
	const struct device_ops *found = NULL;
	size_t count;

	if (!name_valid(name))
		return NULL;
	pthread_mutex_lock(&lock);
	for (count = 0; count < BACKENDS_MAX && backends[count]; count++)
		if (!strcmp(backends[count]->name, name))
			found = backends[count];
	if (!found && count < BACKENDS_MAX) {
		found = plugin_find(name);
		backends[count] = found;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

int device_parse(const char *device, const struct device_ops **ops, unsigned *index)
{
	const char *colon = strchr(device, ':');
	size_t length = colon ? (size_t)(colon - device) : strlen(device);
	const struct device_ops *found;
	char name[NAME_MAX_BYTES];
	unsigned long number = 0;
	char *end;

	if (length >= sizeof name)
		return -EINVAL;
	memcpy(name, device, length);
	name[length] = '\0';
	if (!name_valid(name))
		return -EINVAL;
	if (colon) {
		number = strtoul(colon + 1, &end, 10);
		if (!isdigit((unsigned char)colon[1]) || *end || number > 1023)
			return -EINVAL;
	}
	found = device_ops_find(name);
	if (!found)
		return -ENODEV;
	*ops = found;
	*index = (unsigned)number;
	return 0;
}

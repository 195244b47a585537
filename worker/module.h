/* SPDX-License-Identifier: MIT
 *
 * Modules and functions of the session, and the handles by which records name them. A module that is
 * unloaded is found no more; it goes when no command that was queued before needs it.
 */
#ifndef GDEV_WORKER_MODULE_H
#define GDEV_WORKER_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "device/ops.h"
#include "worker/image.h"
#include "worker/service.h"
#include "worker/stream.h"

struct request;

struct module {
	struct core *core;
	uint32_t handle;
	struct device_module *device;
	struct image image; /* the device's as long as the module lives */
	uint64_t bytes;     /* charged */
	struct list functions;
	struct range **variables; /* those that GLOBAL_GET has named */
	size_t variable_count;
	unsigned uses; /* commands queued before it was unloaded and not destroyed, and `flight` */
	bool unloading;
	struct barrier flight; /* copies to its variables that are on the device */
	struct job job;        /* the last thing that happens to it */
};

/* How long launches take. */
struct launch_time {
	uint64_t measured_ns; /* the last one; 0: none yet */
	uint64_t differs_ns;  /* from one launch to the next, on average of the last ones */
};

#define FUNCTION_SIZES 40

struct function {
	struct list link;
	struct module *module;
	uint32_t handle;
	struct device_function *device;
	struct device_function_info info;
	/* By the binary logarithm of the number of threads: what is launched for a row of a matrix is
	 * launched for all of it, too, and nothing follows from the one for the other. */
	struct launch_time times[FUNCTION_SIZES];
	uint32_t trace_name; /* in the trace segment; 0: not there yet */
	char name[];
};

/* Immediate records. With the lock. */
void module_load(struct command *command);
void module_unload(struct command *command);
void module_place(struct command *command);
void module_function(struct command *command);
void module_function_name(struct command *command);
/* CLUSTERS, TENSOR_MAP */
void module_clusters(struct command *command);
void module_tensor_map(struct command *command);
void module_global(struct command *command);
void modules_finish(struct core *core);

/* NULL: no such function. */
struct function *function_find(struct core *core, uint32_t handle);
/* Looks up the function of a LAUNCH and keeps it until module_put(). */
int function_take(
	struct core *core, const struct record_launch *launch, struct function **function);
void module_put(struct module *module);
/* A launch took so long, which estimates learn from. */
void function_measured(const struct command *command);
/* The same of whatever has been launched, and what is expected of the next launch. */
void launch_measured(const struct command *command, struct launch_time *time);
void launch_estimate(struct command *command, const struct launch_time *time);
/* What the record says. */
void launch_from_record(const struct request *request, const struct function *function,
	struct device_launch *launch);

#endif

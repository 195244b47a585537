/* SPDX-License-Identifier: MIT
 *
 * See usage.h.
 */
#include "worker/usage.h"

#include "worker/command.h"
#include "worker/core.h"

void usage_charge(struct core *core, uint32_t resource, uint64_t used_ns)
{
	struct worker_page *page = core->page;

	if (resource == RESOURCE_COMPUTE)
		usage_add(&page->compute_ns, used_ns);
	else if (resource == RESOURCE_COPY_TO_DEVICE)
		usage_add(&page->to_device_ns, used_ns);
	else
		usage_add(&page->from_device_ns, used_ns);
}

void usage_copied(
	struct core *core, enum device_resource direction, uint64_t bytes, uint64_t used_ns)
{
	struct worker_page *page = core->page;

	if (direction == RESOURCE_COPY_TO_DEVICE)
		usage_add(&page->to_device_bytes, bytes);
	else
		usage_add(&page->from_device_bytes, bytes);
	usage_charge(core, direction, used_ns);
}

void usage_count(struct core *core, const struct command *command, uint64_t used_ns)
{
	const struct device_copy *copy = &command->device.copy;
	uint64_t busy_ns = command->device.busy_ns;
	struct worker_page *page = core->page;

	if (busy_ns > page->longest_ns[command->resource])
		usage_set(&page->longest_ns[command->resource], busy_ns);
	if (command->device.kind == DEVICE_LAUNCH && !command->device.launch.upload)
		usage_add(&page->launches, 1);
	if (command->resource == RESOURCE_COMPUTE)
		usage_charge(core, RESOURCE_COMPUTE, used_ns);
	else
		usage_copied(
			core, command->resource, copy->width * copy->height * copy->depth, used_ns);
}

void usage_report(const struct core *core, struct reply_usage *usage)
{
	const struct worker_page *page = core->page;

	*usage = (struct reply_usage){
		.launches = page->launches,
		.compute_ns = page->compute_ns,
		.to_device_bytes = page->to_device_bytes,
		.from_device_bytes = page->from_device_bytes,
		.device_bytes = page->device_bytes,
	};
}

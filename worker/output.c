/* SPDX-License-Identifier: MIT
 *
 * What kernels print, on its way to the client: a byte ring in the session segment. What does not fit
 * is dropped, whole messages at a time, as on a GPU.
 */
#include "worker/core.h"

#include <string.h>

void output_print(void *owner, const char *bytes, size_t length)
{
	struct core *core = owner;
	struct session_header *header = &core->segment->header;
	uint64_t head, used;
	size_t offset, first;

	pthread_mutex_lock(&core->output_lock);
	head = __atomic_load_n(&header->output_head, __ATOMIC_ACQUIRE);
	used = core->output_tail - head;
	/* A head beyond the tail is a lie, and looks like a ring that is more than full. */
	if (used <= SESSION_OUTPUT_BYTES && length <= SESSION_OUTPUT_BYTES - used) {
		offset = core->output_tail % SESSION_OUTPUT_BYTES;
		first = length < SESSION_OUTPUT_BYTES - offset ? length
							       : SESSION_OUTPUT_BYTES - offset;
		memcpy(core->segment->output + offset, bytes, first);
		memcpy(core->segment->output, bytes + first, length - first);
		core->output_tail += length;
		__atomic_store_n(&header->output_tail, core->output_tail, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&core->output_lock);
}

/* SPDX-License-Identifier: MIT
 *
 * See cache.h. A cache that does not work is a cache that has nothing: no failure here is told.
 */
#include "worker/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "worker/core.h"

#define CODE_BYTES_MAX (256u << 20)

/* Asks for a descriptor. */
static int ask(struct core *core, uint16_t type, const uint8_t key[16], uint64_t bytes, int *fd)
{
	struct control_cache message =
				     {
					     .header = {sizeof message, type, CONTROL_VERSION, 0,
						     0},
					     .bytes = bytes,
				     },
			     reply;
	size_t count = 1;
	int status;

	*fd = -1;
	memcpy(message.key, key, sizeof message.key);
	status =
		control_call(core, &message, CONTROL_CACHE_REPLY, &reply, sizeof reply, fd, &count);
	if (!status && count != 1)
		status = -ENOENT;
	return status;
}

int cache_load(void *owner, const uint8_t key[16], void **result, size_t *length)
{
	struct core *core = owner;
	autoclose int fd = -1;
	void *bytes;
	off_t size;

	if (ask(core, CONTROL_CACHE_GET, key, 0, &fd))
		return -ENOENT;
	/* Not fstat: the sandbox does not let libc's through. */
	size = lseek(fd, 0, SEEK_END);
	if (size <= 0 || size > CODE_BYTES_MAX)
		return -ENOENT;
	bytes = malloc((size_t)size);
	if (!bytes)
		return -ENOENT;
	if (fd_read_at(fd, bytes, (uint64_t)size, 0)) {
		free(bytes);
		return -ENOENT;
	}
	*result = bytes;
	*length = (size_t)size;
	return 0;
}

void cache_store(void *owner, const uint8_t key[16], const void *bytes, size_t length)
{
	struct core *core = owner;
	struct control_cache commit = {
		.header = {sizeof commit, CONTROL_CACHE_COMMIT, CONTROL_VERSION, 0, 0},
		.bytes = length,
	};
	autoclose int fd = -1;

	if (length > CODE_BYTES_MAX || ask(core, CONTROL_CACHE_PUT, key, length, &fd))
		return;
	if (fd_write_at(fd, bytes, length, 0))
		return; /* never committed: gdevd drops it */
	memcpy(commit.key, key, sizeof commit.key);
	control_tell(core, &commit, NULL, 0);
}

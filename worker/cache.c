/* SPDX-License-Identifier: MIT
 *
 * Compiled code on disk. A worker has no files: gdevd opens them and passes descriptors. A cache that does not work is a
 * cache that has nothing: no failure here is told. An entry is a small header, which tells a damaged one, and what the
 * device stored.
 */
#include "worker/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define CODE_BYTES_MAX (256u << 20)
#define CACHE_MAGIC 0x31636467u /* "gdc1" */

struct cache_header {
	uint32_t magic, reserved;
	uint64_t bytes;    /* of what follows */
	uint64_t checksum; /* XXH3 of it */
};

/* Asks for a descriptor. */
static int ask_for_code(struct core *core, uint16_t type, const uint8_t key[CODE_KEY_BYTES],
	uint64_t bytes, int *fd)
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

static struct cache_header header_of(const void *bytes, size_t length)
{
	return (struct cache_header){CACHE_MAGIC, 0, length, XXH3_64bits(bytes, length)};
}

int cache_load(void *owner, const uint8_t key[CODE_KEY_BYTES], void **result, size_t *length)
{
	struct cache_header header, right;
	autofree void *bytes = NULL;
	autoclose int fd = -1;
	off_t size;

	if (ask_for_code(owner, CONTROL_CACHE_GET, key, 0, &fd))
		return -ENOENT;
	/* Not fstat: the sandbox does not let libc's through. */
	size = lseek(fd, 0, SEEK_END) - (off_t)sizeof header;
	if (size <= 0 || size > CODE_BYTES_MAX)
		return -ENOENT;
	bytes = malloc((size_t)size);
	if (!bytes || fd_read_at(fd, &header, sizeof header, 0) ||
		fd_read_at(fd, bytes, (uint64_t)size, sizeof header))
		return -ENOENT;
	right = header_of(bytes, (size_t)size);
	if (memcmp(&header, &right, sizeof header))
		return -ENOENT; /* and what is stored then replaces it */
	*result = steal_pointer(&bytes);
	*length = (size_t)size;
	return 0;
}

void cache_store(void *owner, const uint8_t key[CODE_KEY_BYTES], const void *bytes, size_t length)
{
	struct cache_header header = header_of(bytes, length);
	struct control_cache commit = {
		.header = {sizeof commit, CONTROL_CACHE_COMMIT, CONTROL_VERSION, 0, 0},
		.bytes = sizeof header + length,
	};
	autoclose int fd = -1;

	if (length > CODE_BYTES_MAX ||
		ask_for_code(owner, CONTROL_CACHE_PUT, key, commit.bytes, &fd))
		return;
	if (fd_write_at(fd, &header, sizeof header, 0) ||
		fd_write_at(fd, bytes, length, sizeof header))
		return; /* never committed: gdevd drops it */
	memcpy(commit.key, key, sizeof commit.key);
	control_tell(owner, &commit, NULL, 0);
}

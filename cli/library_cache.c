/* SPDX-License-Identifier: MIT
 *
 * See library_cache.h. The format is glibc's (dl-cache.h): a header, entries of fixed size, and strings, all found by
 * offsets from the header. An older format may come before it.
 */
#include "cli/library_cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define MAGIC "glibc-ld.so.cache1.1"
/* Of the libraries that this command could be linked with. */
#if defined(__x86_64__)
#define KIND 0x0303
#elif defined(__aarch64__)
#define KIND 0x0a03
#else
#define KIND 0x0003
#endif

struct header {
	char magic[sizeof MAGIC - 1];
	uint32_t count, string_bytes;
	uint32_t reserved[5];
};

struct entry {
	uint32_t kind, name, path, system;
	uint64_t hardware; /* 0: any; libraries for better processors come first */
};

_Static_assert(sizeof(struct header) == 48, "as glibc has it");
_Static_assert(sizeof(struct entry) == 24, "as glibc has it");

/* "" where it does not end. */
static const char *string_at(const char *at, size_t length, uint32_t offset)
{
	return offset < length && memchr(at + offset, '\0', length - offset) ? at + offset : "";
}

static bool find(const char *at, size_t length, const char *name, char *path, size_t size)
{
	struct header header;
	struct entry entry;

	memcpy(&header, at, sizeof header);
	for (size_t i = 0; i < header.count; i++) {
		if (length - sizeof header < (i + 1) * sizeof entry)
			return false;
		memcpy(&entry, at + sizeof header + i * sizeof entry, sizeof entry);
		if (entry.kind == KIND && !strcmp(string_at(at, length, entry.name), name))
			return snprintf(path, size, "%s", string_at(at, length, entry.path)) <
			       (int)size;
	}
	return false;
}

bool library_cache_find(const char *cache, const char *name, char *path, size_t size)
{
	autoclose int fd = open(cache, O_RDONLY | O_CLOEXEC);
	struct stat status;
	const char *mapped, *at;
	bool found = false;
	size_t length;

	if (fd < 0 || fstat(fd, &status) || !status.st_size)
		return false;
	length = (size_t)status.st_size;
	mapped = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
	if (mapped == MAP_FAILED)
		return false;
	at = memmem(mapped, length, MAGIC, strlen(MAGIC));
	if (at && length - (size_t)(at - mapped) >= sizeof(struct header))
		found = find(at, length - (size_t)(at - mapped), name, path, size);
	munmap((void *)mapped, length);
	return found;
}

/* SPDX-License-Identifier: MIT
 *
 * The dynamic linker's cache of libraries, as ldconfig writes it: what lies in folders that only /etc/ld.so.conf names.
 */
#ifndef GDEV_CLI_LIBRARY_CACHE_H
#define GDEV_CLI_LIBRARY_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of the library of that name, for programs of this command's own kind. False: the cache, a file, does not have
 * it or makes no sense. */
bool library_cache_find(const char *cache, const char *name, char *path, size_t size);

#endif

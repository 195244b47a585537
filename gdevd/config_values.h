/* SPDX-License-Identifier: MIT
 *
 * Kinds of values that a configuration has: each parses `text` into `field`, which has `size` bytes. 0, or -errno;
 * then `*wanted` says what it must be.
 */
#ifndef GDEV_GDEVD_CONFIG_VALUES_H
#define GDEV_GDEVD_CONFIG_VALUES_H

#include <stddef.h>
#include <stdint.h>

typedef int (*config_value_parser)(void *field, size_t size, const char *text, const char **wanted);

int config_value_address(void *field, size_t size, const char *text, const char **wanted);
int config_value_bool(void *field, size_t size, const char *text, const char **wanted);
int config_value_capability(void *field, size_t size, const char *text, const char **wanted);
int config_value_chunk(void *field, size_t size, const char *text, const char **wanted);
int config_value_count(void *field, size_t size, const char *text, const char **wanted);
int config_value_devices(void *field, size_t size, const char *text, const char **wanted);
int config_value_device_memory(void *field, size_t size, const char *text, const char **wanted);
int config_value_group(void *field, size_t size, const char *text, const char **wanted);
int config_value_inline(void *field, size_t size, const char *text, const char **wanted);
int config_value_log(void *field, size_t size, const char *text, const char **wanted);
int config_value_members(void *field, size_t size, const char *text, const char **wanted);
int config_value_mode(void *field, size_t size, const char *text, const char **wanted);
int config_value_ms(void *field, size_t size, const char *text, const char **wanted);
int config_value_percent(void *field, size_t size, const char *text, const char **wanted);
int config_value_policy(void *field, size_t size, const char *text, const char **wanted);
int config_value_preempt(void *field, size_t size, const char *text, const char **wanted);
int config_value_priority(void *field, size_t size, const char *text, const char **wanted);
int config_value_quantum(void *field, size_t size, const char *text, const char **wanted);
int config_value_queues(void *field, size_t size, const char *text, const char **wanted);
int config_value_reserve(void *field, size_t size, const char *text, const char **wanted);
int config_value_retire(void *field, size_t size, const char *text, const char **wanted);
int config_value_shared(void *field, size_t size, const char *text, const char **wanted);
int config_value_size(void *field, size_t size, const char *text, const char **wanted);
int config_value_text(void *field, size_t size, const char *text, const char **wanted);
int config_value_time(void *field, size_t size, const char *text, const char **wanted);
int config_value_user(void *field, size_t size, const char *text, const char **wanted);

/* A whole number, and nothing else. */
int config_parse_integer(const char *text, int64_t least, int64_t most, int64_t *value);

#endif

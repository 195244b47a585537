/* SPDX-License-Identifier: MIT
 *
 * Kinds of values that a configuration has: each parses `text` into `field`, which has `size` bytes. 0, or -errno;
 * then `*wanted` says what it must be.
 */
#ifndef GDEV_GDEVD_CONFIG_VALUES_H
#define GDEV_GDEVD_CONFIG_VALUES_H

#include <stddef.h>
#include <stdint.h>

typedef int config_value_parser(void *field, size_t size, const char *text, const char **wanted);

config_value_parser config_value_address, config_value_bool, config_value_capability,
	config_value_chunk, config_value_count, config_value_devices, config_value_device_memory,
	config_value_group, config_value_inline, config_value_log, config_value_members,
	config_value_mode, config_value_ms, config_value_percent, config_value_policy,
	config_value_preempt, config_value_priority, config_value_quantum, config_value_queues,
	config_value_reserve, config_value_retire, config_value_shared, config_value_size,
	config_value_text, config_value_time, config_value_user;

/* A whole number, and nothing else. */
int config_parse_integer(const char *text, int64_t least, int64_t most, int64_t *value);

#endif

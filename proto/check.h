/* SPDX-License-Identifier: MIT
 *
 * The shape of what crosses a boundary, checked the same way by everyone who receives it: gdevd and
 * the workers for control messages, the worker for records. Pure functions on private copies.
 */
#ifndef GDEV_PROTO_CHECK_H
#define GDEV_PROTO_CHECK_H

#include <stddef.h>
#include <stdint.h>

enum record_class { RECORD_CLASS_IMMEDIATE, RECORD_CLASS_STREAM };

struct record_type {
	const char *name; /* NULL: no such opcode */
	enum record_class class;
	uint32_t fixed_bytes; /* header and fixed fields: the least that a record of it is long */
};

/* Whether TABLE(X), whose rows begin with a record's name, has all records of a class: for _Static_assert. Opcodes are
 * added up; that of a pad, which nobody has in a table, is 0. */
#define RECORDS_ARE_IN(TABLE, CLASS)                                                               \
	((0 TABLE(RECORD_ADDED)) == (0 RECORDS(RECORD_ADDED_IF_##CLASS)))
#define RECORD_ADDED(name, ...) +name
#define RECORD_ADDED_IF_STREAM(name, value, class, type)                                           \
	+(RECORD_CLASS_##class == RECORD_CLASS_STREAM ? value : 0)
#define RECORD_ADDED_IF_IMMEDIATE(name, value, class, type)                                        \
	+(RECORD_CLASS_##class == RECORD_CLASS_IMMEDIATE ? value : 0)

/* NULL: no such opcode. */
const struct record_type *record_type_find(uint16_t opcode);

/* Whether `bytes` are one whole control message: its header agrees with `length`, its type is known, its status may be
 * one, its fixed struct is there, and nothing follows where nothing may. What the fields say is for the
 * receiver to judge. 0, or -EINVAL. */
int control_check(const void *bytes, size_t length);

/* The name of a control message's type; "unknown" for none. */
const char *control_type_name(uint16_t type);

/* The newest version of session.h that we and a peer which knows [min, max] both speak. 0, or
 * -GDEV_E_PROTOCOL. */
int session_version_choose(uint32_t min, uint32_t max, uint32_t *version);

#endif

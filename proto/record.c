/* SPDX-License-Identifier: MIT
 *
 * See check.h: the table of records.
 */
#include "proto/record.h"

#include "proto/check.h"

static const struct record_type types[RECORD_OPCODE_END] = {
#define TYPE(name, value, class, type) [value] = {#name, RECORD_CLASS_##class, sizeof(type)},
	RECORDS(TYPE)
#undef TYPE
};

const struct record_type *record_type_find(uint16_t opcode)
{
	if (opcode >= RECORD_OPCODE_END || !types[opcode].name)
		return NULL;
	return &types[opcode];
}

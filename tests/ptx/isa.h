/* SPDX-License-Identifier: MIT
 *
 * isa.def, read: its rows, and the forms of instructions that they stand for.
 */
#ifndef GDEV_TESTS_PTX_ISA_H
#define GDEV_TESTS_PTX_ISA_H

#include <stdbool.h>
#include <stddef.h>

enum { ISA_TEXT = 200 };

struct isa_row {
	char section[ISA_TEXT], instruction[ISA_TEXT], operands[ISA_TEXT];
	char tolerance[32];    /* "": exact */
	bool open;             /* the result is not defined */
	unsigned first, count; /* of its forms */
};

enum isa_verdict {
	ISA_UNSUPPORTED,
	ISA_NOT_COMPARED, /* it works, and nobody says what it has to give */
	ISA_SAME,
	ISA_DIFFERS,
};

struct isa_form {
	char instruction[ISA_TEXT], operands[ISA_TEXT];
	const struct isa_row *row;
	enum isa_verdict verdict;
};

struct isa {
	struct isa_row *rows;
	struct isa_form *forms;
	unsigned row_count, form_count;
};

/* It is only compiled here, and a test of its own runs it. */
static inline bool isa_is_elsewhere(const struct isa_form *form)
{
	return form->operands[0] == '+';
}

/* Reads the file; ends the program when it makes no sense. */
void isa_read(struct isa *isa, const char *path);
void isa_finish(struct isa *isa);
/* docs/ptx-coverage.md, to be freed. */
char *isa_coverage(const struct isa *isa);

#endif

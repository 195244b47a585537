/* SPDX-License-Identifier: MIT
 *
 * hardware.def, read: what the PTX manual leaves open, each as some lines of PTX, and what hardware gave.
 */
#ifndef GDEV_TESTS_PTX_QUESTIONS_H
#define GDEV_TESTS_PTX_QUESTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { QUESTION_THREADS = 64, QUESTION_INPUTS = 3 };
/* What a thread's answer is before it gives one. */
#define QUESTION_SILENT 0x5117e5117e511e77ull

enum answer {
	ANSWER_NONE,    /* not measured */
	ANSWER_VALUES,  /* one a thread */
	ANSWER_VARIES,  /* not the same each time */
	ANSWER_NO_END,  /* the kernel did not end */
	ANSWER_FAULT,   /* the launch failed */
	ANSWER_REFUSED, /* the driver did not take it */
};

struct question {
	char *name, *code,
		*differs; /* differs: why the software GPU gives something else, or NULL */
	uint64_t in[QUESTION_INPUTS][QUESTION_THREADS];
	unsigned in_count[QUESTION_INPUTS], threads;
	enum answer answer;
	uint64_t values[QUESTION_THREADS];
};

struct questions {
	char *head; /* the comment that the file begins with */
	struct question *list;
	unsigned count;
};

/* Reads the file; ends the program when it makes no sense. */
void questions_read(struct questions *q, const char *path);
void questions_finish(struct questions *q);
/* 0, or an errno. */
int questions_write(const struct questions *q, const char *path);
/* The kernel `q(in, out)` of one block, to be freed; and QUESTION_INPUTS numbers a thread for it. */
char *question_text(const struct question *q);
void question_input(const struct question *q, uint64_t in[QUESTION_THREADS * QUESTION_INPUTS]);

#endif

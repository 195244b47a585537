/* SPDX-License-Identifier: MIT */
#include "questions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const outcomes[] = {[ANSWER_VARIES] = "varies",
	[ANSWER_NO_END] = "no end",
	[ANSWER_FAULT] = "fault",
	[ANSWER_REFUSED] = "refused"};

/* ---- reading ---- */

static char *joined(char *text, const char *line)
{
	size_t n = text ? strlen(text) : 0;

	text = realloc(text, n + strlen(line) + 1);
	if (!text)
		abort();
	strcpy(text + n, line);
	return text;
}

/* Numbers, each perhaps with `*N`: that many times. - is a thread that says nothing. Returns how many. */
static unsigned read_numbers(const char *line, uint64_t values[QUESTION_THREADS])
{
	unsigned n = 0;
	char word[64];

	for (int used; sscanf(line, " %63s%n", word, &used) == 1; line += used) {
		const char *times = strchr(word, '*');
		unsigned count = times ? (unsigned)strtoul(times + 1, NULL, 10) : 1;
		uint64_t v = *word == '-' ? QUESTION_SILENT : strtoull(word, NULL, 0);

		while (count-- && n < QUESTION_THREADS)
			values[n++] = v;
	}
	return n;
}

static void read_answer(struct question *q, const char *text)
{
	for (unsigned k = ANSWER_VARIES; k <= ANSWER_REFUSED; k++)
		if (!strncmp(text, outcomes[k], strlen(outcomes[k]))) {
			q->answer = (enum answer)k;
			return;
		}
	q->answer = read_numbers(text, q->values) == q->threads ? ANSWER_VALUES : ANSWER_NONE;
}

static void begin_question(struct questions *q, const char *line)
{
	q->list = realloc(q->list, (q->count + 1) * sizeof(*q->list));
	if (!q->list)
		abort();
	q->list[q->count++] = (struct question){
		.name = strndup(line + 2, strcspn(line + 2, "\n")), .threads = 32};
}

static void read_line(struct question *q, const char *line)
{
	unsigned k = (unsigned)(*line - 'A');

	if (k < QUESTION_INPUTS && line[1] == ' ') {
		q->in_count[k] = read_numbers(line + 2, q->in[k]);
		if (!k)
			q->threads = q->in_count[0];
	} else if (*line == 'T' && line[1] == ' ') {
		q->threads = (unsigned)strtoul(line + 2, NULL, 10);
	} else if (*line == '=') {
		read_answer(q, line + 2);
	} else if (*line == '~') {
		q->differs = strndup(line + 2, strcspn(line + 2, "\n"));
	} else if (*line != '\n') {
		q->code = joined(q->code, line);
	}
}

void questions_read(struct questions *q, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[2048];

	*q = (struct questions){0};
	if (!f) {
		perror(path);
		exit(1);
	}
	while (fgets(line, sizeof(line), f)) {
		if (*line == '#')
			q->head = joined(q->head, line);
		else if (*line == '?')
			begin_question(q, line);
		else if (q->count)
			read_line(&q->list[q->count - 1], line);
	}
	fclose(f);
	for (unsigned k = 0; k < q->count; k++)
		if (!q->list[k].code || q->list[k].threads > QUESTION_THREADS) {
			fprintf(stderr, "%s: no question: %s\n", path, q->list[k].name);
			exit(1);
		}
}

void questions_finish(struct questions *q)
{
	for (unsigned k = 0; k < q->count; k++) {
		free(q->list[k].name);
		free(q->list[k].code);
		free(q->list[k].differs);
	}
	free(q->list);
	free(q->head);
}

/* ---- writing ---- */

static void write_numbers(FILE *f, char what, const uint64_t *values, unsigned count)
{
	fputc(what, f);
	for (unsigned n = 0, same; n < count; n += same) {
		for (same = 1; n + same < count && values[n + same] == values[n];)
			same++;
		if (values[n] == QUESTION_SILENT)
			fprintf(f, " -");
		else
			fprintf(f, values[n] < 10 ? " %" PRIu64 : " %#" PRIx64, values[n]);
		if (same > 1)
			fprintf(f, "*%u", same);
	}
	fputc('\n', f);
}

int questions_write(const struct questions *q, const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return errno;
	fputs(q->head ? q->head : "", f);
	for (unsigned k = 0; k < q->count; k++) {
		const struct question *a = &q->list[k];

		fprintf(f, "\n? %s\n", a->name);
		for (unsigned n = 0; n < QUESTION_INPUTS; n++)
			if (a->in_count[n])
				write_numbers(f, (char)('A' + n), a->in[n], a->in_count[n]);
		if (a->threads != (a->in_count[0] ? a->in_count[0] : 32))
			fprintf(f, "T %u\n", a->threads);
		fputs(a->code, f);
		if (a->answer == ANSWER_VALUES)
			write_numbers(f, '=', a->values, a->threads);
		else if (a->answer != ANSWER_NONE)
			fprintf(f, "= %s\n", outcomes[a->answer]);
		if (a->differs)
			fprintf(f, "~ %s\n", a->differs);
	}
	return fclose(f) ? errno : 0;
}

/* ---- the kernel ---- */

char *question_text(const struct question *q)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		abort();
	fprintf(f,
		".version 8.7\n.target sm_90\n.address_size 64\n"
		".visible .entry q(.param .u64 in, .param .u64 out)\n{\n"
		".reg .pred %%p<8>; .reg .b16 %%h<8>; .reg .b32 %%r<16>; .reg .b64 %%d<16>; .reg .f32 %%f<8>; .reg .f64 %%g<8>;\n"
		".reg .b64 %%in, %%out, %%t, %%y; .reg .b32 %%lane, %%x; .shared .align 16 .b32 sh[64];\n"
		"ld.param.u64 %%in, [in]; ld.param.u64 %%out, [out]; mov.u32 %%lane, %%tid.x;\n"
		"mul.wide.u32 %%t, %%lane, %u; add.u64 %%in, %%in, %%t; mul.wide.u32 %%t, %%lane, 8; add.u64 %%out, %%out, %%t;\n"
		"mov.u32 %%x, 0; mov.u64 %%y, 0;\n",
		QUESTION_INPUTS * 8);
	for (unsigned n = 0; n < QUESTION_INPUTS; n++)
		fprintf(f,
			"ld.global.b64 %%d%u, [%%in+%u]; ld.global.b32 %%r%u, [%%in+%u]; ld.global.b16 %%h%u, [%%in+%u];\n"
			"ld.global.f32 %%f%u, [%%in+%u]; ld.global.f64 %%g%u, [%%in+%u];\n",
			n, n * 8, n, n * 8, n, n * 8, n, n * 8, n, n * 8);
	fprintf(f,
		"%scvt.u64.u32 %%t, %%x; or.b64 %%y, %%y, %%t; st.global.b64 [%%out], %%y;\nret;\n}\n",
		q->code);
	fclose(f);
	return text;
}

void question_input(const struct question *q, uint64_t in[QUESTION_THREADS * QUESTION_INPUTS])
{
	for (unsigned t = 0; t < q->threads; t++)
		for (unsigned n = 0; n < QUESTION_INPUTS; n++)
			in[t * QUESTION_INPUTS + n] =
				q->in_count[n] ? q->in[n][t % q->in_count[n]] : 0;
}

/* SPDX-License-Identifier: MIT
 *
 * isa.def: reading, and the page of docs that is made from it.
 */
#include "isa.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *array, unsigned count, size_t size)
{
	if (count & (count + 1)) /* room is for 1, 3, 7, … */
		return array;
	array = realloc(array, ((size_t)count * 2 + 1) * size);
	if (!array)
		abort();
	return array;
}

/* ---- rows ---- */

static void trim(char *text)
{
	size_t n = strlen(text);

	while (n && isspace((unsigned char)text[n - 1]))
		text[--n] = 0;
}

static void read_row(struct isa *isa, const char *section, char *line)
{
	size_t n = strcspn(line, " \t\n");
	char *rest = line + n + strspn(line + n, " \t\n"), *tolerance;
	struct isa_row *row;

	isa->rows = grown(isa->rows, isa->row_count, sizeof(*isa->rows));
	row = &isa->rows[isa->row_count++];
	*row = (struct isa_row){0};
	trim(rest);
	if (*rest && rest[strlen(rest) - 1] == '?') {
		row->open = true;
		rest[strlen(rest) - 1] = 0;
	}
	tolerance = strchr(rest, '~');
	if (tolerance) {
		snprintf(row->tolerance, sizeof(row->tolerance), "%s",
			tolerance + 1 + strspn(tolerance + 1, " "));
		*tolerance = 0;
	}
	trim(rest);
	snprintf(row->section, sizeof(row->section), "%s", section);
	snprintf(row->instruction, sizeof(row->instruction), "%.*s", (int)n, line);
	snprintf(row->operands, sizeof(row->operands), "%s", rest);
}

/* ---- forms ---- */

enum { MOST_GROUPS = 8 };

struct choice {
	unsigned counts[MOST_GROUPS], taken[MOST_GROUPS], groups;
};

static unsigned alternatives(const char *group)
{
	unsigned n = 1;

	for (; *group != '>'; group++)
		n += *group == '|';
	return n;
}

static void count_groups(struct choice *c, const char *text)
{
	for (; *text; text++)
		if (*text == '<' && c->groups < MOST_GROUPS)
			c->counts[c->groups++] = alternatives(text);
}

/* In operands a group goes with the instruction's group of as many alternatives. */
static unsigned taken(const struct choice *c, unsigned group, unsigned count, bool operands)
{
	for (unsigned k = 0; operands && k < c->groups; k++)
		if (c->counts[k] == count)
			return c->taken[k];
	return operands ? 0 : c->taken[group];
}

static void choose(const struct choice *c, const char *text, bool operands, char out[ISA_TEXT])
{
	unsigned group = 0;
	size_t n = 0;

	while (*text && n < ISA_TEXT - 1) {
		if (*text != '<') {
			out[n++] = *text++;
			continue;
		}
		const char *p = text + 1;
		for (unsigned k = taken(c, group++, alternatives(text), operands); k; k--)
			p = strchr(p, '|') + 1;
		while (!strchr("|>", *p) && n < ISA_TEXT - 1)
			out[n++] = *p++;
		text = strchr(text, '>') + 1;
	}
	out[n] = 0;
}

static bool advance(struct choice *c)
{
	for (unsigned k = c->groups; k-- > 0;) {
		if (++c->taken[k] < c->counts[k])
			return true;
		c->taken[k] = 0;
	}
	return false;
}

static void make_forms(struct isa *isa, struct isa_row *row)
{
	struct choice c = {0};

	count_groups(&c, row->instruction);
	row->first = isa->form_count;
	do {
		isa->forms = grown(isa->forms, isa->form_count, sizeof(*isa->forms));
		struct isa_form *f = &isa->forms[isa->form_count++];
		*f = (struct isa_form){0};
		choose(&c, row->instruction, false, f->instruction);
		choose(&c, row->operands, true, f->operands);
	} while (advance(&c));
	row->count = isa->form_count - row->first;
}

void isa_read(struct isa *isa, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[512], section[ISA_TEXT] = "";

	*isa = (struct isa){0};
	if (!f) {
		perror(path);
		exit(1);
	}
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "## ", 3)) {
			trim(line);
			snprintf(section, sizeof(section), "%.*s", ISA_TEXT - 1, line + 3);
		} else if (*line != '#' && *line != '\n') {
			read_row(isa, section, line);
		}
	}
	fclose(f);
	for (unsigned r = 0; r < isa->row_count; r++)
		make_forms(isa, &isa->rows[r]);
	for (unsigned r = 0; r < isa->row_count; r++)
		for (unsigned k = 0; k < isa->rows[r].count; k++)
			isa->forms[isa->rows[r].first + k].row = &isa->rows[r];
}

void isa_finish(struct isa *isa)
{
	free(isa->rows);
	free(isa->forms);
}

/* ---- the page ---- */

static unsigned count_at_least(
	const struct isa *isa, const struct isa_row *row, enum isa_verdict verdict)
{
	unsigned n = 0;

	for (unsigned k = 0; k < row->count; k++)
		n += isa->forms[row->first + k].verdict >= verdict;
	return n;
}

static void write_share(FILE *f, unsigned n, unsigned count)
{
	if (n == count)
		fprintf(f, "yes");
	else if (!n)
		fprintf(f, "no");
	else
		fprintf(f, "%u of %u", n, count);
}

/* `|` would end a table's cell. */
static void write_code(FILE *f, const char *text)
{
	fputc('`', f);
	for (; *text; text++)
		fprintf(f, *text == '|' ? "\\%c" : "%c", *text);
	fputc('`', f);
}

static void write_row(FILE *f, const struct isa *isa, const struct isa_row *row)
{
	unsigned works = count_at_least(isa, row, ISA_NOT_COMPARED), listed = 0;

	fputs("| ", f);
	write_code(f, row->instruction);
	fputs(" | ", f);
	write_share(f, works, row->count);
	fputs(" | ", f);
	write_share(f, count_at_least(isa, row, ISA_SAME), row->count);
	fputs(" | ", f);
	for (unsigned k = 0; works && k < row->count; k++)
		if (isa->forms[row->first + k].verdict == ISA_UNSUPPORTED) {
			fprintf(f, "%s", listed++ ? ", " : "not ");
			write_code(f, isa->forms[row->first + k].instruction);
		}
	fputs(" |\n", f);
}

char *isa_coverage(const struct isa *isa)
{
	char *text = NULL;
	const char *section = "";
	size_t size;
	unsigned works = 0, compared = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		abort();
	for (unsigned k = 0; k < isa->form_count; k++) {
		works += isa->forms[k].verdict >= ISA_NOT_COMPARED;
		compared += isa->forms[k].verdict >= ISA_SAME;
	}
	fprintf(f,
		"# PTX: what the software GPU has\n\n"
		"Made from `tests/ptx/isa.def` by `ninja -C build ptx-coverage`; do not edit.\n\n"
		"A row is an instruction of PTX ISA 8.7, with `<one|of|several>` for its types and modifiers. It *works* when the\n"
		"compiler takes it: of anything else the load of its module says the line, and the kernel cannot be launched. It is *compared* when\n"
		"`scripts/test conformance` runs it with operands chosen for their edges, and finds what the manual says;\n"
		"what reads textures and surfaces, copies of tensors and within a cluster, `wgmma`, and some conversions have tests of their own\n"
		"(`tests/ptx/test_texture.c`, `test_tensor.c`, `test_wgmma.c`, `test_convert.c`, `tests/cuda/programs`). Of %u forms %u work, and %u are compared.\n",
		isa->form_count, works, compared);
	for (unsigned r = 0; r < isa->row_count; r++) {
		if (strcmp(section, isa->rows[r].section))
			fprintf(f,
				"\n## %s\n\n| instruction | works | compared | |\n|---|---|---|---|\n",
				isa->rows[r].section);
		section = isa->rows[r].section;
		write_row(f, isa, &isa->rows[r]);
	}
	fclose(f);
	return text;
}

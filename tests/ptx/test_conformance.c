/* SPDX-License-Identifier: MIT
 *
 * Each form of isa.def, compiled, against the interpreter, over operands chosen for their edges. Some forms at a time
 * are one kernel, a line each, so that what is said of a line is said of a form. `--write FILE` writes the page of docs.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "isa.h"

static struct isa isa;

static int not_compiled(struct cases *c, struct ptx_log *log)
{
	const uint32_t block[3] = {CASE_THREADS, 1, 1};

	return ptx_compile(c->module, ptx_kernel_find(c->module, "k"), block, log, NULL, NULL);
}

/* Returns how many forms differ. */
static unsigned run_batch(struct cases *c)
{
	void *params[3] = {c->in, c->out[1], c->memory[1]};
	struct program program;
	unsigned bad = 0;

	if (!cases_prepare(c, not_compiled))
		return 0;
	program.module = c->module;
	program.globals = c->globals;
	assert_int_equal(
		run(&program,
			(struct run){.kernel = "k", .block = {CASE_THREADS}, .params = params}),
		RAN);
	cases_end(c);
	for (unsigned n = 0; n < c->count; n++) {
		bool open = c->forms[n]->row->open;
		bool good = open || !cases_differing(c, n, 1, stderr);

		c->forms[n]->verdict = open ? ISA_NOT_COMPARED : good ? ISA_SAME : ISA_DIFFERS;
		bad += !good;
	}
	return bad;
}

/* One that a test of its own runs. */
static bool compiles(const struct isa_form *form)
{
	struct program p;
	char text[1024];

	snprintf(text, sizeof(text),
		".version 8.7\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p)\n{\n"
		".reg .b64 %%h, %%d<4>;\n.reg .b32 %%r<8>;\n.reg .f32 %%f<8>;\n.reg .b16 %%s<4>;\n.reg .pred %%p<2>;\n"
		"ld.param.u64 %%h, [p];\n%s %s;\nret;\n}\n",
		form->instruction, form->operands + 1);
	return !error_of(&p, text, "k");
}

static unsigned compare_all(void)
{
	struct cases c;
	unsigned bad = 0;

	cases_begin(&c);
	for (unsigned k = 0; k < isa.form_count; k++) {
		if (isa_is_elsewhere(&isa.forms[k]))
			isa.forms[k].verdict =
				compiles(&isa.forms[k]) ? ISA_NOT_COMPARED : ISA_UNSUPPORTED;
		else if (*isa.forms[k].operands)
			c.forms[c.count++] = &isa.forms[k];
		if (c.count == CASE_BATCH || k + 1 == isa.form_count) {
			bad += run_batch(&c);
			c.count = 0;
		}
	}
	cases_finish(&c);
	return bad;
}

static void forms_give_what_the_manual_says(void **state)
{
	assert_int_equal(compare_all(), 0);
}

/* ---- the page ---- */

static void the_page_of_docs_says_what_works(void **state)
{
	char *want = isa_coverage(&isa), *have = calloc(1, strlen(want) + 2);
	FILE *f = fopen(PAGE, "r");

	assert_true(f && have);
	assert_true(fread(have, 1, strlen(want) + 1, f) > 0);
	fclose(f);
	if (strcmp(want, have) != 0)
		fail_msg(
			"docs/ptx-coverage.md is not what isa.def makes: ninja -C build ptx-coverage");
	free(have);
	free(want);
}

static int write_page(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return 1;
	compare_all();
	char *text = isa_coverage(&isa);
	fputs(text, f);
	free(text);
	return fclose(f) != 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_give_what_the_manual_says),
		cmocka_unit_test(the_page_of_docs_says_what_works),
	};

	isa_read(&isa, TABLE);
	int status = argc == 3 && !strcmp(argv[1], "--write")
			     ? write_page(argv[2])
			     : cmocka_run_group_tests(tests, NULL, NULL);
	isa_finish(&isa);
	return status;
}

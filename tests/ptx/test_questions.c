/* SPDX-License-Identifier: MIT
 *
 * hardware.def: what the manual leaves open, and a GPU gave, the interpreter and the compiler give as well. Compiled
 * code runs in a child, which may wait in vain.
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interp.h"
#include "questions.h"

enum { CHILD_SECONDS = 60 };

struct trial {
	const struct question *question;
	struct program program;
	uint64_t in[QUESTION_THREADS * QUESTION_INPUTS];
	uint64_t *out; /* shared with the child */
};

static struct questions questions;

static void silence(struct trial *t)
{
	for (unsigned n = 0; n < QUESTION_THREADS; n++)
		t->out[n] = QUESTION_SILENT;
}

static enum answer interpret(struct trial *t)
{
	void *params[2] = {t->in, t->out};
	struct interp in = {.module = t->program.module,
		.globals = t->program.globals,
		.kernel = "q",
		.grid = {1, 1, 1},
		.block = {t->question->threads, 1, 1},
		.params = params};

	switch (interp_run(&in)) {
	case INTERP_RAN:
		return ANSWER_VALUES;
	case INTERP_DEADLOCKED:
	case INTERP_ENDLESS:
		return ANSWER_NO_END;
	case INTERP_UNKNOWN:
		return ANSWER_REFUSED;
	default:
		return ANSWER_FAULT;
	}
}

__attribute__((noreturn)) static void child(struct trial *t)
{
	void *params[2] = {t->in, t->out};
	struct run r = {.kernel = "q",
		.grid = {1, 1, 1},
		.block = {t->question->threads, 1, 1},
		.pool = 1,
		.params = params};
	const struct ptx_kernel *k = ptx_kernel_find(t->program.module, "q");
	const struct ptx_code *code;

	alarm(CHILD_SECONDS);
	if (compile(&t->program, k, r.block, &code))
		_exit(ANSWER_REFUSED);
	switch (run_code(&t->program, k, code, r)) {
	case RAN:
		_exit(ANSWER_VALUES);
	case STUCK:
		_exit(ANSWER_NO_END);
	default:
		_exit(ANSWER_FAULT);
	}
}

static enum answer compiled(struct trial *t)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		child(t);
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return WIFEXITED(status) ? (enum answer)WEXITSTATUS(status) : ANSWER_NO_END;
}

static bool as_hardware(struct trial *t, const char *who, enum answer answer)
{
	const struct question *q = t->question;

	if (answer != q->answer) {
		print_error("%s: %s: outcome %d, not %d\n", q->name, who, answer, q->answer);
		return false;
	}
	for (unsigned n = 0; answer == ANSWER_VALUES && n < q->threads; n++)
		if (t->out[n] != q->values[n]) {
			print_error("%s: %s: thread %u: %#lx, not %#lx\n", q->name, who, n,
				t->out[n], q->values[n]);
			return false;
		}
	return true;
}

static unsigned differs(struct trial *t)
{
	char *text = question_text(t->question);
	enum answer answer;
	unsigned bad = 0;

	load_text(&t->program, text);
	question_input(t->question, t->in);
	silence(t);
	answer = interpret(t);
	if (answer != ANSWER_REFUSED) /* an instruction that it does not know */
		bad += !as_hardware(t, "interpreted", answer);
	silence(t);
	bad += !as_hardware(t, "compiled", compiled(t));
	unload(&t->program);
	free(text);
	return bad;
}

static void what_hardware_answers_is_what_we_answer(void **state)
{
	struct trial t;
	unsigned bad = 0, asked = 0;

	t.out = mmap(NULL, QUESTION_THREADS * sizeof(*t.out), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t.out, MAP_FAILED);
	for (unsigned n = 0; n < questions.count; n++) {
		t.question = &questions.list[n];
		if (t.question->answer == ANSWER_NONE || t.question->answer == ANSWER_VARIES ||
			t.question->differs)
			continue;
		asked++;
		bad += differs(&t);
	}
	munmap(t.out, QUESTION_THREADS * sizeof(*t.out));
	if (!asked) {
		print_message("# hardware.def has no answers yet\n");
		skip();
	}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_hardware_answers_is_what_we_answer),
	};

	questions_read(&questions, QUESTIONS);
	int status = cmocka_run_group_tests(tests, NULL, NULL);
	questions_finish(&questions);
	return status;
}

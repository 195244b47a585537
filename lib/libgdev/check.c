/* SPDX-License-Identifier: MIT
 *
 * Checked sessions (docs/check.md): $GDEV_CHECK, which `gdev run --check` sets, says what is looked for. The worker is told of
 * each allocation, to the byte, and asked what was found whenever the process has waited for the device. A report is printed
 * on stderr when it is new; at the process's end it is said how often each was found, and what was not freed.
 *
 * What the worker answers is text of somebody else's: it is bounded, and what is not printable is not printed.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/libgdev/internal.h"
#include "proto/check_names.h"

#define MARK "========= "

static _Atomic uint64_t findings; /* of the process, those counted included */
static _Atomic bool checks;       /* the process has, or had, a session that is checked */

static void say(const char *text)
{
	bool begins = true;

	for (; *text; text++) {
		if (begins)
			fputs(MARK, stderr);
		begins = *text == '\n';
		fputc(isprint((unsigned char)*text) || begins ? *text : '?', stderr);
	}
	fputc('\n', stderr);
}

static int request(struct gdev_session *session, uint32_t operation, uint32_t argument,
	uint64_t address, uint64_t bytes, struct reply_check *report)
{
	struct record_check record = {
		.operation = operation, .argument = argument, .address = address, .bytes = bytes};

	return session_request(session, RECORD_CHECK, &record, sizeof record, NULL, 0, report,
		report ? sizeof *report : 0, report ? sizeof *report : 0);
}

int check_begin(struct gdev_session *session)
{
	const char *wanted = getenv("GDEV_CHECK"), *wrong;
	uint32_t bits = 0;
	int error = 0;

	if (!wanted || !*wanted)
		return 0;
	wrong = check_names_parse(wanted, &bits);
	if (wrong) {
		fprintf(stderr, MARK "gdev: GDEV_CHECK names \"%s\", which is no check\n", wrong);
		return -EINVAL;
	}
	session->leak_check = bits & CHECK_NAME_LEAK;
	bits &= ~(uint32_t)CHECK_NAME_LEAK;
	if (bits)
		error = request(session, RECORD_CHECK_BEGIN, bits, 0, 0, NULL);
	session->checked = bits && !error;
	checks |= !error;
	if (error)
		fprintf(stderr,
			MARK
			"gdev: the virtual GPU \"%s\" cannot check kernels (%s): only the software GPU "
			"can, which `gdev run --vgpu` chooses where gdev.conf gives it one\n",
			session->description.vgpu, gdev_strerror(error));
	return error;
}

int check_added(struct gdev_session *session, uint64_t base, uint64_t bytes, bool defined)
{
	return session->checked ? request(session, RECORD_CHECK_ADD, defined, base, bytes, NULL)
				: 0;
}

void check_removed(struct gdev_session *session, uint64_t base)
{
	if (session->checked)
		request(session, RECORD_CHECK_REMOVE, 0, base, 0, NULL);
}

/* With check_lock, as check_finish(). */
static bool fetch(struct gdev_session *session, uint32_t index, struct reply_check *report)
{
	if (request(session, RECORD_CHECK_REPORT, index, 0, 0, report))
		return false;
	report->text[sizeof report->text - 1] = '\0';
	return true;
}

void check_collect(struct gdev_session *session)
{
	struct reply_check report;

	if (!session->checked)
		return;
	pthread_mutex_lock(&session->output_lock);
	while (session->reports_told < RECORD_CHECK_REPORTS &&
		fetch(session, session->reports_told, &report)) {
		session->reports_told++;
		say(report.text);
	}
	pthread_mutex_unlock(&session->output_lock);
}

static void summarise(struct gdev_session *session)
{
	struct reply_check report;

	for (uint32_t i = 0; i < session->reports_told && fetch(session, i, &report); i++) {
		findings += report.count;
		report.text[strcspn(report.text, "\n")] = '\0';
		if (report.count > 1)
			fprintf(stderr, MARK "report %u, %s: found %llu times\n", i + 1,
				report.text, (unsigned long long)report.count);
	}
}

static void report_leaks(struct gdev_session *session)
{
	struct memory *memory = &session->memory;

	pthread_rwlock_rdlock(&memory->table);
	for (size_t i = 0; i < memory->block_count; i++) {
		const struct block *block = memory->blocks[i];

		if (block->object->kind == GDEV_MEMORY_SHARED)
			continue;
		findings++;
		fprintf(stderr, MARK "leak: %llu bytes of %s memory at 0x%llx were not freed\n",
			(unsigned long long)block->asked_bytes,
			block->object->kind == GDEV_MEMORY_HOST ? "page-locked" : "device",
			(unsigned long long)block->base);
	}
	pthread_rwlock_unlock(&memory->table);
}

void check_finish(struct gdev_session *session)
{
	check_collect(session);
	if (session->checked)
		summarise(session);
	if (session->leak_check)
		report_leaks(session);
	session->checked = session->leak_check = false;
}

void check_exit(void)
{
	const char *status = getenv("GDEV_CHECK_EXIT");

	if (!checks)
		return;
	fprintf(stderr, MARK "%llu found\n", (unsigned long long)findings);
	if (!findings || !status)
		return;
	fflush(NULL);
	_exit(atoi(status));
}

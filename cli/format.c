/* SPDX-License-Identifier: MIT
 *
 * Output: aligned tables, readable sizes and times, JSON; and the fields of what gdevd answers.
 */
#include "cli/cli.h"

#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define COLUMNS_MAX 32
#define CELL_MAX 64

struct table {
	const char *const *titles;
	size_t columns, cells, capacity;
	char (*text)[CELL_MAX];
};

struct table *table_create(const char *const *titles)
{
	struct table *table = calloc(1, sizeof *table);

	if (!table)
		abort();
	table->titles = titles;
	while (titles[table->columns])
		if (++table->columns > COLUMNS_MAX)
			abort();
	return table;
}

void table_cell(struct table *table, const char *format, ...)
{
	va_list args;

	if (table->cells == table->capacity) {
		table->capacity = table->capacity ? 2 * table->capacity : 64;
		table->text = realloc(table->text, table->capacity * CELL_MAX);
		if (!table->text)
			abort();
	}
	va_start(args, format);
	vsnprintf(table->text[table->cells++], CELL_MAX, format, args);
	va_end(args);
}

void table_cell_user(struct table *table, json_int_t uid)
{
	const struct passwd *user = getpwuid((uid_t)uid);

	if (user)
		table_cell(table, "%s", user->pw_name);
	else
		table_cell(table, "%lld", (long long)uid);
}

void table_cell_group(struct table *table, json_int_t gid)
{
	const struct group *group = getgrgid((gid_t)gid);

	if (group)
		table_cell(table, "%s", group->gr_name);
	else
		table_cell(table, "%lld", (long long)gid);
}

static void print_cell(const struct table *table, size_t column, int width, const char *text)
{
	if (column)
		fputs("  ", stdout);
	if (table->titles[column][0] == '>')
		printf("%*s", width, text);
	else if (column + 1 == table->columns)
		fputs(text, stdout); /* no blanks at the end of a line */
	else
		printf("%-*s", width, text);
	if (column + 1 == table->columns)
		putchar('\n');
}

void table_print(struct table *table)
{
	int widths[COLUMNS_MAX];

	for (size_t column = 0; column < table->columns; column++) {
		const char *title = table->titles[column];
		widths[column] = (int)strlen(title) - (title[0] == '>');
		for (size_t cell = column; cell < table->cells; cell += table->columns)
			widths[column] = max_of(widths[column], (int)strlen(table->text[cell]));
	}
	for (size_t column = 0; column < table->columns; column++)
		print_cell(table, column, widths[column],
			table->titles[column] + (table->titles[column][0] == '>'));
	for (size_t cell = 0; cell < table->cells; cell++)
		print_cell(table, cell % table->columns, widths[cell % table->columns],
			table->text[cell]);
	free(table->text);
	free(table);
}

const char *text_bytes(char text[TEXT_MAX], json_int_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	unsigned unit = 0;

	if (bytes < 0)
		return strcpy(text, "-");
	for (; value >= 1024 && unit + 1 < array_length(units); unit++)
		value /= 1024;
	snprintf(text, TEXT_MAX, value < 10 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

const char *text_ns(char text[TEXT_MAX], json_int_t ns)
{
	double us = (double)ns / 1e3;

	if (ns < 0)
		strcpy(text, "-");
	else if (us < 1e3)
		snprintf(text, TEXT_MAX, "%.0f us", us);
	else if (us < 1e6)
		snprintf(text, TEXT_MAX, "%.1f ms", us / 1e3);
	else if (us < 600e6)
		snprintf(text, TEXT_MAX, "%.2f s", us / 1e6);
	else
		snprintf(text, TEXT_MAX, "%.0f min", us / 60e6);
	return text;
}

json_int_t field_number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return json_is_integer(value) ? json_integer_value(value) : -1;
}

const char *field_text(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value ? value : "";
}

double field_real(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

void print_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10)); /* 0.55, not …0004 */
	putchar('\n');
}

int parse_json_option(const struct verb *verb, int argc, char **argv, int *json)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	int option;

	*json = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(verb->help, stdout);
			return -1 - EXIT_OK;
		}
		if (option != 'j') {
			return -1 - usage(verb, NULL);
		}
		*json = 1;
	}
	return optind;
}

const char *text_health(char text[HEALTH_MAX], const json_t *device)
{
	const char *health = field_text(device, "health"), *reason = field_text(device, "reason");
	bool drained = json_is_true(json_object_get(device, "drained"));

	snprintf(text, HEALTH_MAX, "%s%s%s%s", health, *reason ? ": " : "", reason,
		drained && strcmp(health, "drained") ? ", drained" : "");
	return text;
}

void print_swap(const json_t *device)
{
	char memory[TEXT_MAX], bound[TEXT_MAX], files[TEXT_MAX], all[TEXT_MAX];

	if (!field_number(device, "swap_used_bytes") &&
		!field_number(device, "file_swap_used_bytes"))
		return;
	printf("  swap: %s of %s in host memory",
		text_bytes(memory, field_number(device, "swap_used_bytes")),
		text_bytes(bound, field_number(device, "swap_bytes")));
	if (field_number(device, "file_swap_bytes"))
		printf(", %s of %s in files",
			text_bytes(files, field_number(device, "file_swap_used_bytes")),
			text_bytes(all, field_number(device, "file_swap_bytes")));
	putchar('\n');
}

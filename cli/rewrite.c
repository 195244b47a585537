/* SPDX-License-Identifier: MIT
 *
 * Changing a few keys of one section of a configuration that belongs to its user: comments, order and
 * whatever else is in it stay. A file is replaced by rename(2), so that nobody sees half of one.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define TEXT_BYTES_MAX (1 << 20)

struct writer {
	FILE *out;
	const char *section;
	const struct setting *settings;
	size_t count;
	bool inside, written; /* in the section; the settings are there */
	bool dropping;        /* the lines that continue a key that was taken out */
};

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/* "[device cpu]": blanks between the words do not count, as for gdevd. */
static bool is_header_of(const char *line, const char *section)
{
	line++;
	while (*section) {
		if (*section == ' ') {
			if (*line != ' ')
				return false;
			line += strspn(line, " ");
			section++;
		} else if (*line++ != *section++) {
			return false;
		}
	}
	return *line == ']';
}

static bool is_key(const char *line, const char *key)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length))
		return false;
	line = skip_blanks(line + length);
	return *line == '=' || *line == ':';
}

static void write_settings(struct writer *writer)
{
	for (size_t i = 0; i < writer->count; i++)
		fprintf(writer->out, "%s = %s\n", writer->settings[i].key,
			writer->settings[i].value);
	writer->written = true;
}

/* Whether a line of the section is one of those that are replaced, or continues one. */
static bool is_replaced(struct writer *writer, const char *line)
{
	const char *text = skip_blanks(line);

	if (writer->dropping && text != line && *text && !strchr("#;\r\n", *text))
		return true;
	writer->dropping = false;
	for (size_t i = 0; i < writer->count; i++)
		writer->dropping |= is_key(text, writer->settings[i].key);
	return writer->dropping;
}

static void take_line(struct writer *writer, const char *line, size_t length)
{
	const char *text = skip_blanks(line);

	if (*text == '[') {
		writer->inside = is_header_of(text, writer->section);
		writer->dropping = false;
	} else if (writer->inside && is_replaced(writer, line)) {
		return;
	}
	fwrite(line, 1, length, writer->out);
	if (length && line[length - 1] != '\n')
		fputc('\n', writer->out);
	if (*text == '[' && writer->inside && !writer->written)
		write_settings(writer);
}

char *rewrite_section(
	const char *text, const char *section, const struct setting *settings, size_t count)
{
	struct writer writer = {.section = section, .settings = settings, .count = count};
	char *result = NULL;
	size_t size, length;

	writer.out = open_memstream(&result, &size);
	if (!writer.out)
		return NULL;
	for (const char *line = text; *line; line += length) {
		length = strcspn(line, "\n");
		length += line[length] == '\n';
		take_line(&writer, line, length);
	}
	if (!writer.written) {
		fprintf(writer.out, "%s[%s]\n", *text ? "\n" : "", section);
		write_settings(&writer);
	}
	if (fclose(writer.out)) {
		free(result);
		return NULL;
	}
	return result;
}

/* ---- files ---- */

/* What a link leads to is replaced, not the link. */
static void resolve(const char *path, char real[PATHS_MAX])
{
	autofree char *target = realpath(path, NULL);

	snprintf(real, PATHS_MAX, "%s", target ? target : path);
}

static void directory_of(const char *path, char directory[PATHS_MAX])
{
	char *slash;

	snprintf(directory, PATHS_MAX, "%s", path);
	slash = strrchr(directory, '/');
	if (!slash)
		strcpy(directory, ".");
	else
		slash[slash == directory] = '\0';
}

static int make_directories(const char *path)
{
	char directory[PATHS_MAX];

	if (!mkdir(path, 0755) || errno == EEXIST)
		return 0;
	if (errno != ENOENT)
		return -errno;
	directory_of(path, directory);
	if (make_directories(directory) || mkdir(path, 0755))
		return -errno;
	return 0;
}

int rewrite_allowed(const char *path)
{
	char real[PATHS_MAX], directory[PATHS_MAX];

	if (strlen(path) >= PATHS_MAX)
		return -ENAMETOOLONG;
	resolve(path, real);
	if (!access(real, F_OK) && access(real, R_OK))
		return -errno;
	/* The nearest directory that is there. */
	for (directory_of(real, directory); access(directory, F_OK) && errno == ENOENT;) {
		char below[PATHS_MAX];

		memcpy(below, directory, sizeof below);
		directory_of(below, directory);
	}
	return access(directory, W_OK | X_OK) ? -errno : 0;
}

static int read_file(const char *path, char **text, struct stat *status)
{
	FILE *file = fopen(path, "re");
	size_t length;
	int error = 0;

	*status = (struct stat){.st_mode = 0644, .st_uid = geteuid(), .st_gid = getegid()};
	*text = calloc(1, TEXT_BYTES_MAX);
	if (!*text)
		error = -ENOMEM;
	else if (!file)
		error = errno == ENOENT ? 0 : -errno;
	if (error || !file)
		goto out;
	if (fstat(fileno(file), status))
		error = -errno;
	length = fread(*text, 1, TEXT_BYTES_MAX - 1, file);
	if (!error && ferror(file))
		error = -EIO;
	if (!error && length == TEXT_BYTES_MAX - 1)
		error = -EFBIG;
out:
	if (file)
		fclose(file);
	return error;
}

static int replace_file(const char *path, const char *text, const struct stat *status)
{
	char temporary[PATHS_MAX + 8];
	FILE *file;
	int fd, error = 0;

	snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	file = fdopen(fd, "w");
	/* The owner can be kept by root only; for others the file becomes theirs. */
	if (fchown(fd, status->st_uid, status->st_gid) && geteuid() == 0)
		error = -errno;
	if (!error && fchmod(fd, status->st_mode & 0777))
		error = -errno;
	if (!error && (fputs(text, file) == EOF || fflush(file) || fsync(fd)))
		error = -errno;
	if (fclose(file) && !error)
		error = -errno;
	if (!error && rename(temporary, path))
		error = -errno;
	if (error)
		unlink(temporary);
	return error;
}

int rewrite_file(
	const char *path, const char *section, const struct setting *settings, size_t count)
{
	autofree char *before = NULL, *after = NULL;
	char real[PATHS_MAX], directory[PATHS_MAX];
	struct stat status;
	int error;

	resolve(path, real);
	directory_of(real, directory);
	error = make_directories(directory);
	if (!error)
		error = read_file(real, &before, &status);
	if (error)
		return error;
	after = rewrite_section(before, section, settings, count);
	return after ? replace_file(real, after, &status) : -ENOMEM;
}

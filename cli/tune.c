/* SPDX-License-Identifier: MIT
 *
 * gdev tune: finds out how clients best copy on this machine's device, and writes it down for gdevd. Three
 * parameters, each measured at a handful of values, in turn and repeatedly, so that what else the machine
 * does meets all of them alike. The median of each counts; what is in use stays unless another value is better by more
 * than the noise.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/session.h"
#include "proto/record.h"

#define INLINE_BYTES_MAX (RECORD_BYTES_MAX - sizeof(struct record_write))
#define LARGE_BYTES (64ull << 20)
#define ROUNDS_SMALL 300 /* of a copy of microseconds */
#define ROUNDS_LARGE 7   /* of one of milliseconds */
#define ROUNDS_LEAST 3
#define TIME_LARGE_NS                                                                              \
	(3 * NS_PER_S) /* for one parameter: on a slow machine there are fewer rounds */
#define VALUES_MAX 12
#define BETTER 1.03 /* by less than this, a value is not better */

enum { TO_DEVICE, FROM_DEVICE, WAYS };
enum { INLINE, CHUNK, THREADS, PARAMETERS };

struct parameter {
	const char *key;
	enum gdev_tune tune;
	enum gdev_query query;
	uint64_t values[VALUES_MAX]; /* candidates, ascending, up to a 0 */
	const char *meaning;
};

static const struct parameter parameters[PARAMETERS] = {
	[INLINE] = {"inline_bytes", GDEV_TUNE_INLINE_BYTES, GDEV_QUERY_INLINE_BYTES,
		{256, 1024, 4096, 8192, 16384, 32768, 49152, INLINE_BYTES_MAX},
		"a copy to the device of that size: in the record, or through staging memory"},
	[CHUNK] = {"chunk_bytes", GDEV_TUNE_CHUNK_BYTES, GDEV_QUERY_CHUNK_BYTES,
		{256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20},
		"64 MiB of pageable memory, copied in chunks of that size"},
	[THREADS] = {"copy_threads", GDEV_TUNE_COPY_THREADS, GDEV_QUERY_COPY_THREADS,
		{1, 2, 3, 4, 6, 8, 10, 12}, "64 MiB of pageable memory, copied by so many threads"},
};

struct candidate {
	uint64_t value;
	uint64_t samples[WAYS][ROUNDS_SMALL]; /* of INLINE: in the record, staged */
	double ns[WAYS];                      /* medians */
	double cost;                          /* what is compared: less is better */
};

struct bench {
	struct gdev_session *session;
	struct gdev_stream *stream;
	uint64_t device;
	uint8_t *host;
};

struct options {
	const char *vgpu, *file;
	bool dry_run;
};

/* ---- measuring ---- */

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static double median(uint64_t *samples, unsigned count)
{
	qsort(samples, count, sizeof *samples, compare);
	return ((double)samples[(count - 1) / 2] + (double)samples[count / 2]) / 2;
}

/* Until the device has the bytes, or the program. */
static int time_copy(struct bench *bench, int way, uint64_t bytes, uint64_t *ns)
{
	uint64_t host = (uintptr_t)bench->host, start;
	struct gdev_copy copy = way == TO_DEVICE ? gdev_copy_linear(bench->device, host, bytes)
						 : gdev_copy_linear(host, bench->device, bytes);
	int error;

	start = clock_now_ns();
	error = gdev_copy(bench->stream, &copy);
	if (!error)
		error = gdev_stream_sync(bench->stream);
	*ns = clock_now_ns() - start;
	return error;
}

/* The candidates of the table, but what this machine or device cannot have, and what is in use. */
static size_t make_candidates(struct bench *bench, const struct parameter *parameter,
	uint64_t current, struct candidate *candidates)
{
	cpu_set_t set;
	uint64_t processors =
		sched_getaffinity(0, sizeof set, &set) ? 1 : (uint64_t)CPU_COUNT(&set);
	bool present = false;
	size_t count = 0;

	for (const uint64_t *value = parameter->values; *value; value++) {
		if (parameter->tune == GDEV_TUNE_COPY_THREADS && *value > processors)
			break;
		if (gdev_session_tune(bench->session, parameter->tune, *value))
			continue;
		if (!present && current < *value)
			candidates[count++].value = current;
		present |= current <= *value;
		candidates[count++].value = *value;
	}
	if (!present)
		candidates[count++].value = current;
	return count;
}

/* Each candidate is a size too; as a boundary it costs what copies of all these sizes take then, each
 * against the faster path of its size, so that the small ones count as much. */
static int measure_inline(struct bench *bench, struct candidate *candidates, size_t count)
{
	static const uint64_t boundaries[WAYS] = {INLINE_BYTES_MAX, 0};
	int error = 0;

	for (unsigned round = 0; !error && round < ROUNDS_SMALL; round++)
		for (size_t i = 0; !error && i < count; i++)
			for (int path = 0; !error && path < WAYS; path++) {
				error = gdev_session_tune(
					bench->session, GDEV_TUNE_INLINE_BYTES, boundaries[path]);
				if (!error)
					error = time_copy(bench, TO_DEVICE, candidates[i].value,
						&candidates[i].samples[path][round]);
			}
	if (error)
		return error;
	for (size_t i = 0; i < count; i++)
		for (int path = 0; path < WAYS; path++)
			candidates[i].ns[path] = median(candidates[i].samples[path], ROUNDS_SMALL);
	for (size_t i = 0; i < count; i++)
		for (size_t size = 0; size < count; size++)
			candidates[i].cost +=
				candidates[size].ns[size > i] /
				min_of(candidates[size].ns[0], candidates[size].ns[1]);
	return 0;
}

static int measure_large(struct bench *bench, const struct parameter *parameter,
	struct candidate *candidates, size_t count)
{
	uint64_t end = clock_now_ns() + TIME_LARGE_NS;
	unsigned rounds;

	for (rounds = 0; rounds < ROUNDS_LARGE; rounds++) {
		if (rounds >= ROUNDS_LEAST && clock_now_ns() > end)
			break;
		for (size_t i = 0; i < count; i++) {
			int error = gdev_session_tune(
				bench->session, parameter->tune, candidates[i].value);
			for (int way = 0; !error && way < WAYS; way++)
				error = time_copy(bench, way, LARGE_BYTES,
					&candidates[i].samples[way][rounds]);
			if (error)
				return error;
		}
	}
	for (size_t i = 0; i < count; i++)
		for (int way = 0; way < WAYS; way++) {
			candidates[i].ns[way] = median(candidates[i].samples[way], rounds);
			candidates[i].cost += candidates[i].ns[way];
		}
	return 0;
}

/* ---- choosing and showing ---- */

static const struct candidate *choose(
	const struct candidate *candidates, size_t count, uint64_t current, char why[128])
{
	const struct candidate *best = candidates, *used = candidates;

	for (const struct candidate *one = candidates; one < candidates + count; one++) {
		if (one->cost < best->cost)
			best = one;
		if (one->value == current)
			used = one;
	}
	if (used->cost < best->cost * BETTER) {
		snprintf(why, 128, "as it is: %s",
			best == used ? "nothing is faster" : "nothing is more than 3 % faster");
		return used;
	}
	snprintf(why, 128, "%.0f %% faster than the %llu in use",
		100 * (used->cost / best->cost - 1), (unsigned long long)current);
	return best;
}

static void show(int which, const struct candidate *candidates, size_t count,
	const struct candidate *chosen, const char *why)
{
	static const char *const small[] = {">SIZE", ">IN THE RECORD", ">STAGED", NULL};
	static const char *const large[] = {">VALUE", ">TO DEVICE", ">FROM DEVICE", NULL};
	struct table *table = table_create(which == INLINE ? small : large);
	char text[TEXT_MAX];

	printf("%s: %s\n", parameters[which].key, parameters[which].meaning);
	for (const struct candidate *one = candidates; one < candidates + count; one++) {
		if (which == THREADS)
			table_cell(table, "%llu", (unsigned long long)one->value);
		else
			table_cell(table, "%s", text_bytes(text, (json_int_t)one->value));
		for (int way = 0; way < WAYS; way++) {
			if (which == INLINE)
				table_cell(table, "%.1f us", one->ns[way] / 1e3);
			else
				table_cell(table, "%.2f GB/s", (double)LARGE_BYTES / one->ns[way]);
		}
	}
	table_print(table);
	printf("-> %s = %llu (%s)\n\n", parameters[which].key, (unsigned long long)chosen->value,
		why);
	fflush(stdout);
}

/* Measures one parameter, and leaves it as it was chosen. */
static int tune_one(struct bench *bench, int which, struct setting *setting)
{
	const struct parameter *parameter = &parameters[which];
	autofree struct candidate *candidates = calloc(VALUES_MAX + 1, sizeof *candidates);
	const struct candidate *chosen;
	uint64_t current;
	char why[128];
	size_t count;
	int error;

	if (!candidates)
		return -ENOMEM;
	error = gdev_session_query(bench->session, parameter->query, &current);
	if (error)
		return error;
	count = make_candidates(bench, parameter, current, candidates);
	error = which == INLINE ? measure_inline(bench, candidates, count)
				: measure_large(bench, parameter, candidates, count);
	if (error)
		return error;
	chosen = choose(candidates, count, current, why);
	show(which, candidates, count, chosen, why);
	setting->key = parameter->key;
	snprintf(setting->value, sizeof setting->value, "%llu", (unsigned long long)chosen->value);
	return gdev_session_tune(bench->session, parameter->tune, chosen->value);
}

static int bench_open(struct bench *bench, const char *vgpu)
{
	uint64_t ns;
	int error = gdev_session_open(vgpu, &bench->session);

	if (error == -EACCES)
		say("you may not use that virtual GPU: 'gdev vgpu list' shows who may");
	else if (error == -ENODEV)
		say("there is no such virtual GPU; 'gdev vgpu list' shows them");
	else if (error)
		say("cannot open the virtual GPU: %s", gdev_strerror(error));
	if (error)
		return error;
	bench->host = calloc(1, LARGE_BYTES);
	error = bench->host ? gdev_memory_alloc(bench->session, LARGE_BYTES, &bench->device)
			    : -ENOMEM;
	if (!error)
		error = gdev_stream_create(bench->session, 0, &bench->stream);
	/* Memory that is there, threads that run. */
	for (int way = 0; !error && way < WAYS; way++)
		error = time_copy(bench, way, LARGE_BYTES, &ns);
	if (error == -ENOMEM)
		say("64 MiB of memory are needed, of the device and of the machine: 'gdev status' shows "
		    "who has them");
	else if (error)
		say("cannot copy: %s", gdev_strerror(error));
	return error;
}

static void bench_close(struct bench *bench)
{
	gdev_stream_destroy(bench->stream);
	gdev_session_close(bench->session);
	free(bench->host);
}

static int measure(struct bench *bench, struct setting settings[PARAMETERS])
{
	int error = 0;

	for (int which = 0; !error && which < PARAMETERS; which++)
		error = tune_one(bench, which, &settings[which]);
	if (error)
		say("the measurement failed: %s", gdev_strerror(error));
	return error;
}

/* ---- the verb ---- */

static int parse(int argc, char **argv, struct options *chosen)
{
	static const struct option options[] = {
		{"vgpu", required_argument, NULL, 'v'},
		{"write", required_argument, NULL, 'w'},
		{"dry-run", no_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	int option;

	while ((option = getopt_long(argc, argv, "hn", options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(verb_tune.help, stdout);
			return -1 - EXIT_OK;
		case 'v':
			chosen->vgpu = optarg;
			break;
		case 'w':
			chosen->file = optarg;
			break;
		case 'n':
			chosen->dry_run = true;
			break;
		default:
			return -1 - usage(&verb_tune, NULL);
		}
	}
	if (optind < argc)
		return -1 - usage(&verb_tune, "what is \"%s\"?", argv[optind]);
	if (chosen->file && chosen->dry_run)
		return -1 - usage(&verb_tune, "either --write or --dry-run");
	return 0;
}

/* The device behind a virtual GPU, as gdevd names it; "": it has none of its own. */
static const char *device_of(const json_t *status, const char *name)
{
	size_t index;
	const json_t *vgpu;

	json_array_foreach(json_object_get(status, "vgpus"), index,
		vgpu) if (!strcmp(field_text(vgpu, "vgpu"), name) &&
			  !json_is_true(json_object_get(vgpu, "placed"))) return field_text(vgpu,
		"device");
	return "";
}

/* Before anything is measured: afterwards it would be a pity. */
static int check_file(const struct options *options)
{
	int error;

	if (options->dry_run)
		return 0;
	if (!*options->file) {
		say("gdevd did not say where its configuration is: name it with --write FILE");
		return -ENOENT;
	}
	error = rewrite_allowed(options->file);
	if (error)
		say("cannot write %s: %s.\n"
		    "Use --write FILE for another file, --dry-run for none, or a user who may.",
			options->file, strerror(-error));
	return error;
}

static int finish(
	const struct options *options, const char *section, const struct setting *settings)
{
	int error;

	printf("[%s]\n", section);
	for (int i = 0; i < PARAMETERS; i++)
		printf("%s = %s\n", settings[i].key, settings[i].value);
	if (options->dry_run)
		return EXIT_OK;
	error = rewrite_file(options->file, section, settings, PARAMETERS);
	if (error) {
		say("cannot write %s: %s", options->file, strerror(-error));
		return EXIT_FAILED;
	}
	printf("\nWritten to %s. gdevd uses it when it is started again; sessions go on meanwhile.\n",
		options->file);
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct options options = {0};
	struct setting settings[PARAMETERS];
	struct bench bench = {0};
	char section[64];
	int status = parse(argc, argv, &options);
	json_t *answer;

	if (status)
		return -1 - status;
	answer = daemon_query("status", &status);
	if (!answer)
		return status;
	/* The session is to be with the gdevd that answered. */
	setenv("GDEV_RUNTIME_DIR", field_text(answer, "runtime_dir"), 1);
	if (!options.file)
		options.file = field_text(answer, "config");
	status = EXIT_FAILED;
	if (!check_file(&options) && !bench_open(&bench, options.vgpu)) {
		const char *device =
			device_of(answer, gdev_session_description(bench.session)->vgpu);

		snprintf(section, sizeof section, "device %s", device);
		if (!*device)
			say("programs of that virtual GPU are placed, each on a device: name a virtual GPU of "
			    "the device that is to be measured");
		else if (!measure(&bench, settings))
			status = finish(&options, section, settings);
	}
	bench_close(&bench);
	json_decref(answer);
	return status;
}

const struct verb verb_tune = {
	.name = "tune",
	.summary = "measure how to copy best, and write it down",
	.help = "Usage: gdev tune [--vgpu NAME] [--write FILE | --dry-run]\n"
		"Measures, in some seconds, how programs best copy to and from this device, and writes\n"
		"what is best into the section [device NAME] of gdevd's configuration:\n"
		"\n"
		"  inline_bytes   up to this size a copy to the device rides in the command itself\n"
		"  chunk_bytes    larger ones go through staging memory, in chunks of this size\n"
		"  copy_threads   so many threads of the program share a large copy\n"
		"\n"
		"What is in use stays unless another value is more than 3 % faster. The rest of the\n"
		"file stays as it is. Best when nothing else uses the machine.\n"
		"\n"
		"  --vgpu NAME    the virtual GPU to measure on, instead of $GDEV_VGPU or gdev0\n"
		"  --write FILE   write this file, instead of the one that gdevd reads\n"
		"  --dry-run      write nothing\n"
		"\n"
		"  gdev tune --dry-run                        # only look\n"
		"  sudo gdev tune && sudo systemctl restart gdevd\n",
	.run = run,
};

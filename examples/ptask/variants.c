/* SPDX-License-Identifier: MIT
 *
 * main() of the dataflow programs: does the work in one way, or in all of them in turn, checks it, and says what it took.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ptask/work.h"

#define ROUNDS_MAX 1000
#define ROUNDS_AHEAD 4

enum { EXIT_VERIFIED = 0, EXIT_WRONG = 1, EXIT_FAILED = 2 };

#define VARIANTS_MAX 6
static const struct variant *variants[VARIANTS_MAX] = {
	&variant_graph, &variant_hand, &variant_streams, &variant_modular, &variant_single};
static unsigned variant_count = VARIANTS_MAX - 1;

static struct work work;

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: %s [--variant graph|hand|streams|modular|single%s%s|all,...] [--repeat N] [--rates]\n"
		"       [--vgpus NAME,...] [--schedule first-available|fifo|priority|data-aware] [--lanes N] %s\n"
		"Verifies, and prints the median time of a round in each variant, as JSON.\n"
		"--vgpus, --schedule and --lanes are of the graph. --rates: of the graph, too; it reads numbers of seconds, a line each,\n"
		"works for so long, and answers with its invocations a second.\n"
		"Exit status 0: the results are right; 1: one is wrong; 2: something failed.\n",
		program.name, program.more ? "|" : "", program.more ? program.more->name : "",
		program.usage);
	exit(status);
}

static bool names(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, word, length) && (!list[length] || list[length] == ','))
			return true;
	return false;
}

/* Of those that are there, or that the list names. */
static bool is_wanted(const struct variant *variant, const char *list)
{
	bool there = !variant->is_there || variant->is_there();

	return names(list, variant->name) || (there && names(list, "all"));
}

static bool read_vgpus(char *list)
{
	for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		if (graph_vgpu_count == sizeof graph_vgpus / sizeof *graph_vgpus)
			return false;
		graph_vgpus[graph_vgpu_count++] = name;
	}
	return graph_vgpu_count;
}

static bool read_schedule(const char *name)
{
	static const char *const names[] = {"first-available", "fifo", "priority", "data-aware"};

	for (graph_schedule = 0; graph_schedule < 4; graph_schedule++)
		if (!strcmp(name, names[graph_schedule]))
			return true;
	return false;
}

/* Results of an earlier variant must not pass for this one's. */
static void forget_results(void)
{
	for (unsigned i = 0; i < work.result_count; i++)
		memset(work.host[work.results[i]], 0xff, work.bytes[work.results[i]]);
}

static bool check(const struct variant *variant)
{
	forget_results();
	variant->round(&work);
	if (program.check(&work))
		return true;
	fprintf(stderr, "%s: WRONG, by variant %s\n", program.name, variant->name);
	return false;
}

/* The second of two: its threads and caches are warm then. */
static double time_round(const struct variant *variant)
{
	double start_us;

	variant->round(&work);
	start_us = now_us();
	variant->round(&work);
	return now_us() - start_us;
}

/* So many rounds are in the graph at a time that it always has something to do; those count that have come out. */
static void answer_rates(void)
{
	double seconds;

	while (scanf("%lf", &seconds) == 1) {
		double start_us = now_us(), us;
		unsigned rounds = 0;
		for (unsigned i = 1; i < ROUNDS_AHEAD; i++)
			graph_push(&work);
		do {
			graph_push(&work);
			graph_pull(&work);
			rounds++;
			us = now_us() - start_us;
		} while (us < seconds * 1e6);
		printf("%.2f\n", rounds * work.task_count / us * 1e6);
		fflush(stdout);
		for (unsigned i = 1; i < ROUNDS_AHEAD; i++)
			graph_pull(&work);
	}
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {{"variant", required_argument, NULL, 'v'},
		{"repeat", required_argument, NULL, 'r'}, {"vgpus", required_argument, NULL, 'g'},
		{"schedule", required_argument, NULL, 's'}, {"lanes", required_argument, NULL, 'l'},
		{"rates", no_argument, NULL, 'i'}, {"help", no_argument, NULL, 'h'}, {0}};
	static double times[VARIANTS_MAX][ROUNDS_MAX];
	const char *wanted = "graph";
	unsigned repeat = 1;
	bool chosen[VARIANTS_MAX], any = false, rates = false;
	int option;

	if (program.more)
		variants[variant_count++] = program.more;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == 'v')
			wanted = optarg;
		else if (option == 'r')
			repeat = (unsigned)atoi(optarg);
		else if (option == 'l')
			graph_lanes = (unsigned)atoi(optarg);
		else if (option == 'i')
			rates = true;
		else if (option == 'g' && read_vgpus(optarg))
			continue;
		else if (option == 's' && read_schedule(optarg))
			continue;
		else
			usage(option == 'h' ? 0 : EXIT_FAILED);
	}
	for (unsigned v = 0; v < variant_count; v++)
		any |= chosen[v] = is_wanted(variants[v], wanted);
	if (!any || (rates && strcmp(wanted, "graph")) || !repeat || repeat > ROUNDS_MAX ||
		!program.make(&work, argv + optind, argc - optind))
		usage(EXIT_FAILED);
	for (unsigned v = 0; v < variant_count; v++)
		if (chosen[v]) {
			variants[v]->setup(&work);
			if (!check(variants[v]))
				return EXIT_WRONG;
		}
	if (rates) {
		answer_rates();
		return check(&variant_graph) ? EXIT_VERIFIED : EXIT_WRONG;
	}
	for (unsigned round = 0; round < repeat; round++)
		for (unsigned i = 0; i < variant_count; i++) {
			/* To and fro, so that none always comes after the same other one. */
			unsigned v = round % 2 ? variant_count - 1 - i : i;
			if (chosen[v])
				times[v][round] = time_round(variants[v]);
		}
	for (unsigned v = 0; v < variant_count; v++)
		if (chosen[v]) {
			qsort(times[v], repeat, sizeof(double), by_value);
			printf("{\"program\": \"%s\", \"variant\": \"%s\", \"tasks\": %u, "
			       "\"round_us\": %.1f, \"moved_pct\": %.2f}\n",
				program.name, variants[v]->name, work.task_count,
				times[v][repeat / 2],
				variants[v] == &variant_graph ? graph_moved_pct() : 0);
			if (!check(variants[v]))
				return EXIT_WRONG;
		}
	return EXIT_VERIFIED;
}

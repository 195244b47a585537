/* SPDX-License-Identifier: MIT
 *
 * sched-sim: tries policies on the scenarios, and prints a table or JSON lines. --help says the rest.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define SETTINGS_MAX 16

struct options {
	const struct sched_policy *policy; /* NULL: all of them */
	const struct sim_scenario *scenario;
	struct sim_setting settings[SETTINGS_MAX + 1];
	unsigned setting_count;
	double switch_us, quantum_ms, seconds; /* negative: the scenario's */
	uint64_t seed;
	bool json;
};

static void usage(FILE *to)
{
	fputs("usage: sched-sim [OPTION]...\n"
	      "Simulates scheduling policies on loads, and prints for each: the error of the shares\n"
	      "(average and worst window, percentage points), the total throughput (1 is what one program\n"
	      "alone does), and the waits for the device (99th percentile and worst, ms, worst group).\n"
	      "  --policy NAME        only this policy\n"
	      "  --scenario NAME      only this scenario\n"
	      "  --set SETTING=VALUE  a setting of the policy, for example wait_us=500\n"
	      "  --switch US, --quantum MS, --seconds S   instead of the scenario's\n"
	      "  --seed N             other kernels\n"
	      "  --json               one object a line, with figures of every group\n"
	      "  --list               the policies with their settings, and the scenarios\n",
		to);
}

static void list(void)
{
	const struct sched_policy *policy;
	const struct sim_scenario *scenario;

	for (unsigned i = 0; (policy = sched_policy_at(i)); i++) {
		printf("policy %s", policy->name);
		for (unsigned j = 0; j < SCHED_SETTINGS && policy->settings[j].name; j++)
			printf(" %s=%lld", policy->settings[j].name,
				(long long)policy->settings[j].value);
		printf("\n");
	}
	for (unsigned i = 0; (scenario = sim_scenario_at(i)); i++)
		printf("scenario %s\n", scenario->name);
}

static void print_list(const char *name, const double *values, unsigned count)
{
	printf(", \"%s\": [", name);
	for (unsigned i = 0; i < count; i++)
		printf("%s%.4g", i ? ", " : "", values[i]);
	printf("]");
}

static void print_json(const struct sim_scenario *scenario, const struct sched_policy *policy,
	const struct sim_result *result)
{
	printf("{\"scenario\": \"%s\", \"policy\": \"%s\", \"error_avg_pct\": %.4f, "
	       "\"error_worst_pct\": %.4f, \"throughput\": %.4f, \"busy_pct\": %.2f, "
	       "\"switches_per_s\": %.1f, \"after_change_pct\": %.2f",
		scenario->name, policy->name, result->error_avg_pct, result->error_worst_pct,
		result->throughput, result->busy_pct, result->switches_per_s,
		result->after_change_pct);
	print_list("busy_group_pct", result->busy_group_pct, scenario->group_count);
	print_list("wait_p99_ms", result->wait_p99_ms, scenario->group_count);
	print_list("wait_worst_ms", result->wait_worst_ms, scenario->group_count);
	printf("}\n");
}

static double most(const double *values, unsigned count)
{
	double most = 0;

	for (unsigned i = 0; i < count; i++)
		if (values[i] > most)
			most = values[i];
	return most;
}

static void run(const struct options *options, const struct sim_scenario *base)
{
	struct sim_scenario scenario = *base;
	const struct sched_policy *policy;

	if (options->switch_us >= 0)
		scenario.switch_us = options->switch_us;
	if (options->quantum_ms >= 0)
		scenario.quantum_ms = options->quantum_ms;
	if (options->seconds > 0)
		scenario.seconds = options->seconds;
	for (unsigned i = 0; (policy = sched_policy_at(i)); i++) {
		struct sim_result result;
		if (options->policy && policy != options->policy)
			continue;
		sim_run(&scenario, policy, options->settings, options->seed, &result);
		if (options->json) {
			print_json(&scenario, policy, &result);
			continue;
		}
		printf("%-24s %-10s %8.2f %8.2f %8.3f %9.2f %9.2f %7.0f\n", scenario.name,
			policy->name, result.error_avg_pct, result.error_worst_pct,
			result.throughput, most(result.wait_p99_ms, scenario.group_count),
			most(result.wait_worst_ms, scenario.group_count), result.switches_per_s);
	}
}

static void add_setting(struct options *options, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || options->setting_count == SETTINGS_MAX) {
		fprintf(stderr, "sched-sim: --set needs SETTING=VALUE, at most %d times\n",
			SETTINGS_MAX);
		exit(2);
	}
	*equals = '\0';
	options->settings[options->setting_count++] =
		(struct sim_setting){text, strtoll(equals + 1, NULL, 0)};
}

static void parse(struct options *options, int argc, char **argv)
{
	static const struct option longs[] = {
		{"policy", required_argument, NULL, 'p'},
		{"scenario", required_argument, NULL, 's'},
		{"set", required_argument, NULL, 'x'},
		{"switch", required_argument, NULL, 'w'},
		{"quantum", required_argument, NULL, 'q'},
		{"seconds", required_argument, NULL, 't'},
		{"seed", required_argument, NULL, 'r'},
		{"json", no_argument, NULL, 'j'},
		{"list", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (option) {
		case 'p':
			options->policy = sched_policy_find(optarg);
			break;
		case 's':
			options->scenario = sim_scenario_find(optarg);
			break;
		case 'x':
			add_setting(options, optarg);
			break;
		case 'w':
			options->switch_us = strtod(optarg, NULL);
			break;
		case 'q':
			options->quantum_ms = strtod(optarg, NULL);
			break;
		case 't':
			options->seconds = strtod(optarg, NULL);
			break;
		case 'r':
			options->seed = strtoull(optarg, NULL, 0);
			break;
		case 'j':
			options->json = true;
			break;
		case 'l':
			list();
			exit(0);
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
		if ((option == 'p' && !options->policy) || (option == 's' && !options->scenario)) {
			fprintf(stderr,
				"sched-sim: there is no \"%s\"; --list shows what there is\n",
				optarg);
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = {.switch_us = -1, .quantum_ms = -1, .seconds = -1, .seed = 1};
	const struct sim_scenario *scenario;

	parse(&options, argc, argv);
	if (!options.json)
		printf("%-24s %-10s %8s %8s %8s %9s %9s %7s\n", "scenario", "policy", "error",
			"worst", "through", "p99 ms", "worst ms", "switch");
	for (unsigned i = 0; (scenario = sim_scenario_at(i)); i++)
		if (!options.scenario || scenario == options.scenario)
			run(&options, scenario);
	return 0;
}

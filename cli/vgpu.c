/* SPDX-License-Identifier: MIT
 *
 * gdev vgpu: lists, makes, changes and deletes virtual GPUs. Options become keys of [vgpu NAME] as
 * gdev.conf(5) has them; what their values may be, gdevd knows.
 */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* Its share of a resource, and what it used of it in the last ten seconds. */
static void cells_share(struct table *table, const json_t *vgpu, const char *resource)
{
	const json_t *usage = json_object_get(json_object_get(vgpu, "resources"), resource);
	const json_t *window = json_object_get(usage, "last_10s");

	table_cell(table, "%.4g %%%s", field_real(usage, "share_pct"),
		json_is_true(json_object_get(vgpu, "strict")) ? " strict" : "");
	if (field_number(window, "over_ns") > 0)
		table_cell(table, "%.1f %%", field_real(window, "used_pct"));
	else
		table_cell(table, "-");
}

static void print(const json_t *vgpus)
{
	static const char *const titles[] = {"VGPU", "DEVICE", ">SESSIONS", ">COMPUTE", ">USED",
		">COPY", ">USED", "POLICY", ">PRIORITY", ">MEMORY", ">USED", "OWNER", "GROUP",
		"MODE", NULL};
	struct table *table = table_create(titles);
	char text[TEXT_MAX];
	size_t index;
	const json_t *vgpu;

	json_array_foreach(vgpus, index, vgpu)
	{
		table_cell(table, "%s", field_text(vgpu, "vgpu"));
		table_cell(table, "%s", field_text(vgpu, "device"));
		table_cell(table, "%lld", (long long)field_number(vgpu, "sessions"));
		cells_share(table, vgpu, "compute");
		cells_share(table, vgpu, "to_device");
		table_cell(table, "%s", field_text(vgpu, "policy"));
		table_cell(table, "%lld", (long long)field_number(vgpu, "priority"));
		table_cell(table, "%s", text_bytes(text, field_number(vgpu, "memory_bytes")));
		table_cell(table, "%s", text_bytes(text, field_number(vgpu, "memory_used_bytes")));
		table_cell_user(table, field_number(vgpu, "owner"));
		table_cell_group(table, field_number(vgpu, "group"));
		table_cell(table, "%s", field_text(vgpu, "mode"));
	}
	table_print(table);
}

enum { OPTION_FORCE = 256, OPTION_STRICT };

static const struct option options[] = {
	{"device", required_argument, NULL, 0},
	{"compute", required_argument, NULL, 0},
	{"copy", required_argument, NULL, 0},
	{"memory", required_argument, NULL, 0},
	{"shared", required_argument, NULL, 0},
	{"policy", required_argument, NULL, 0},
	{"priority", required_argument, NULL, 0},
	{"owner", required_argument, NULL, 0},
	{"group", required_argument, NULL, 0},
	{"mode", required_argument, NULL, 0},
	{"time-limit", required_argument, NULL, 0},
	{"preempt", required_argument, NULL, 0},
	{"compute-capability", required_argument, NULL, 0},
	{"strict", optional_argument, NULL, OPTION_STRICT},
	{"force", no_argument, NULL, OPTION_FORCE},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL},
};

struct arguments {
	const char *command, *name; /* NULL: not given */
	json_t *keys;
	bool force, json;
};

static int take_option(struct arguments *arguments, int option, int index)
{
	const char *key = options[index].name;

	switch (option) {
	case 'h':
		fputs(verb_vgpu.help, stdout);
		return -1 - EXIT_OK;
	case 'j':
		arguments->json = true;
		return 0;
	case OPTION_FORCE:
		arguments->force = true;
		return 0;
	case OPTION_STRICT:
		json_object_set_new(
			arguments->keys, "strict", json_string(optarg ? optarg : "yes"));
		return 0;
	case 0:
		if (!strcmp(key, "time-limit"))
			key = "time_limit_ms";
		if (!strcmp(key, "compute-capability"))
			key = "compute_capability";
		json_object_set_new(arguments->keys, key, json_string(optarg));
		return 0;
	default:
		return -1 - usage(&verb_vgpu, NULL);
	}
}

/* 0, or a negative exit status - 1 when the verb is to end with it. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
	int option, index = 0, error = 0;

	while (!error && (option = getopt_long(argc, argv, "h", options, &index)) != -1) {
		/* Options without a flag of their own return 0, and `index` says which. */
		error = take_option(arguments, option, index);
	}
	if (error)
		return error;
	for (; optind < argc; optind++) {
		if (!arguments->command)
			arguments->command = argv[optind];
		else if (!arguments->name)
			arguments->name = argv[optind];
		else
			return -1 - usage(&verb_vgpu, "what is \"%s\"?", argv[optind]);
	}
	return 0;
}

/* Whether the options are such as the command has: 0 or EXIT_USAGE. */
static int check(const struct arguments *arguments)
{
	const char *command = arguments->command ? arguments->command : "";
	bool list = !strcmp(command, "list"), set = !strcmp(command, "set");
	bool delete = !strcmp(command, "delete"), keys = json_object_size(arguments->keys) > 0;

	if (!list && !set && !delete &&strcmp(command, "create"))
		return usage(&verb_vgpu,
			*command ? "there is no \"gdev vgpu %s\""
				 : "list, create, set or delete?%s",
			command);
	if (list && arguments->name)
		return usage(&verb_vgpu, "what is \"%s\"?", arguments->name);
	if (!list && !arguments->name)
		return usage(&verb_vgpu, "which one? 'gdev vgpu %s NAME'", command);
	if (arguments->json && !list)
		return usage(&verb_vgpu, "--json is an option of list");
	if (arguments->force && !delete)
		return usage(&verb_vgpu, "--force is an option of delete");
	if (keys && (list || delete))
		return usage(&verb_vgpu, "%s has no such options", command);
	if (set && !keys)
		return usage(&verb_vgpu, "set what? For example --compute 50");
	return 0;
}

static int list(bool json)
{
	int status;
	json_t *answer = daemon_query("vgpus", &status);

	if (!answer)
		return status;
	if (json)
		print_json(answer);
	else
		print(json_object_get(answer, "vgpus"));
	json_decref(answer);
	return EXIT_OK;
}

static int change(const struct arguments *arguments)
{
	char command[32];
	json_t *request;

	snprintf(command, sizeof command, "vgpu-%s", arguments->command);
	request = request_create(command);
	json_object_set_new(request, "name", json_string(arguments->name));
	json_object_set(request, "keys", arguments->keys);
	json_object_set_new(request, "force", json_boolean(arguments->force));
	return daemon_change(request);
}

static int run(int argc, char **argv)
{
	struct arguments arguments = {.keys = json_object()};
	int status = parse(argc, argv, &arguments);

	if (status)
		status = -1 - status;
	else if (!(status = check(&arguments)))
		status = !strcmp(arguments.command, "list") ? list(arguments.json)
							    : change(&arguments);
	json_decref(arguments.keys);
	return status;
}

const struct verb verb_vgpu = {
	.name = "vgpu",
	.summary = "list, make, change and delete virtual GPUs",
	.help = "Usage: gdev vgpu list [--json]\n"
		"       gdev vgpu create NAME [OPTION]...\n"
		"       gdev vgpu set NAME OPTION...\n"
		"       gdev vgpu delete NAME [--force]\n"
		"Lists, makes, changes and deletes virtual GPUs while programs run. Only root and the\n"
		"user that gdevd runs as may change something; what is made is there again after a\n"
		"restart of gdevd, but what gdev.conf(5) says about a virtual GPU wins then.\n"
		"\n"
		"  --device NAME      the device that it is a part of, as 'gdev device list' names it; the\n"
		"                     first one, if nothing is said; any: each program is placed on one\n"
		"                     that has room and least load\n"
		"  --compute PCT, --copy PCT\n"
		"                     its share of computing, and of copying: 1 to 100, or auto, a part\n"
		"                     of what the others leave; more than 100 together are weights\n"
		"  --strict[=no]      never more than its share, although the device be idle\n"
		"  --memory SIZE      how much of the device's memory it may hold; 0: all\n"
		"  --shared SIZE      how much its shared memory may take; auto: as much as --memory\n"
		"  --priority N       -100 to 100: the higher goes first\n"
		"  --policy NAME      who is next among its programs: fair, fifo, priority, token,\n"
		"                     effective, interactive; device: as the device's\n"
		"  --owner USER, --group GROUP, --mode MODE\n"
		"                     who may use it, as of a file\n"
		"  --time-limit MS    how long a kernel may run; 0: any time\n"
		"  --preempt MODE     whether kernels are rewritten so that they leave an NVIDIA GPU between\n"
		"                     two blocks: off, blocks, loops (and in the middle of a block), or\n"
		"                     asked, for programs that ask for it\n"
		"  --compute-capability X.Y\n"
		"                     of the software GPU: what programs are told that it has, as 8.0;\n"
		"                     device: its own\n"
		"  --force            of delete: although it is in use, whose programs lose their context\n"
		"\n"
		"  gdev vgpu create train --compute 75 --memory 6G --group ml --mode 0660\n"
		"  gdev vgpu set train --compute 50 --priority 5\n",
	.run = run,
};

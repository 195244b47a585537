/* SPDX-License-Identifier: MIT
 *
 * gdev-worker: started by gdevd, serves one session, and exits. The order of start-up matters: all that
 * needs files (the device's plugin and what it loads) comes first, then the sandbox, then READY, and
 * only then can a client be there.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/slice.h"
#include "gdev/error.h"
#include "worker/core.h"
#include "worker/sandbox.h"

#define SLICE_NS (500 * NS_PER_US) /* about what a thread does between two looks at the grants */

#define LEAST_NICE 19
#define GIVE_WAY_TRIES 5
#define GIVE_WAY_PAUSE_US 110000

static const char usage[] =
	"usage: gdev-worker --control-fd N --device NAME --device-memory BYTES --threads N\n"
	"                   --workers-socket PATH [--user UID --group GID] [--parts N]\n"
	"                   [--host-memory BYTES] [--memory BYTES] [--context BYTES] [--gives-way 1]\n"
	"Serves one client of gdevd, which starts it; not for use by hand.\n"
	"  --control-fd N         the socket to gdevd\n"
	"  --device NAME          cpu, null, cuda:0, …\n"
	"  --device-memory BYTES  of a software device; 0: its default\n"
	"  --parts N              one of N devices that have what a software device has by default\n"
	"  --threads N            of a software device; 0: one a processor\n"
	"  --workers-socket PATH  where to register again when gdevd has been restarted\n"
	"  --user, --group        whom to become\n"
	"  --host-memory BYTES    page-locked memory that the client may add; 0: half of the machine's\n"
	"  --memory BYTES         of its own, beyond what it begins with; 0: no limit\n"
	"  --context BYTES        of a software device: what it says to take by itself\n"
	"  --gives-way 1          of a software device: leaves processors to who else wants them\n";

struct options {
	const char *device, *workers_socket;
	uint64_t control_fd, device_memory, host_memory, memory, threads, context, parts;
	uint64_t gives_way, user, group;
};

_Static_assert('?' % _Alignof(struct options),
	"getopt's answer to what it does not know is no field's offset");

static int parse_number(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return errno || *end || end == text || *text == '-' || *value > max ? -EINVAL : 0;
}

/* An option's value is where its field is, which is a text or a number. */
#define OPTION(name, field)                                                                        \
	{                                                                                          \
		name, required_argument, NULL, offsetof(struct options, field)                     \
	}

static const struct option known[] = {
	OPTION("control-fd", control_fd),
	OPTION("device", device),
	OPTION("device-memory", device_memory),
	OPTION("threads", threads),
	OPTION("workers-socket", workers_socket),
	OPTION("parts", parts),
	OPTION("user", user),
	OPTION("group", group),
	OPTION("host-memory", host_memory),
	OPTION("memory", memory),
	OPTION("context", context),
	OPTION("gives-way", gives_way),
	{NULL, 0, NULL, 0},
};

static int parse_option(struct options *options, int offset)
{
	void *field = (char *)options + offset;

	if (offset == '?')
		return -EINVAL;
	if (offset != offsetof(struct options, device) &&
		offset != offsetof(struct options, workers_socket))
		return parse_number(optarg, INT64_MAX, field);
	*(const char **)field = optarg;
	return 0;
}

static int parse_options(int argc, char **argv, struct options *options)
{
	int offset, error = 0;

	*options = (struct options){
		.control_fd = UINT64_MAX, .parts = 1, .user = (uid_t)-1, .group = (gid_t)-1};
	while (!error && (offset = getopt_long(argc, argv, "", known, NULL)) != -1)
		error = parse_option(options, offset);
	if (error || optind != argc || options->control_fd > INT_MAX || !options->device ||
		options->threads > 4096 || !options->parts || options->parts > 4096)
		return -EINVAL;
	return 0;
}

/* BYE is said; the kernel takes back the rest, also what is still running. */
static void ended(void *owner, int reason)
{
	_exit(reason ? 1 : 0);
}

/* Takes one of `parts` equal parts of what the device has by default. Memory or threads that were given are this part's. */
static void take_part(struct core_config *config, unsigned parts)
{
	struct device_info info;

	if (config->ops->probe(&config->device, &info, 1) < 1)
		return;
	if (!config->device.memory_bytes)
		config->device.memory_bytes = info.memory_bytes / parts & ~(DEVICE_CHUNK_MIN - 1);
	if (!config->device.threads)
		config->device.threads =
			max_of(1u, (unsigned)info.properties[PROPERTY_MULTIPROCESSORS] / parts);
}

/* Where the kernel groups processes by session, which every worker is one of, it weighs the groups, and what a thread asks for
 * counts within its group alone. Elsewhere it weighs threads. Threads that begin later have what this one has. The kernel takes
 * such a wish of a user every 100 ms. */
static void give_way(void)
{
	autoclose int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);

	setpriority(PRIO_PROCESS, 0, LEAST_NICE);
	for (int i = 0; fd >= 0 && i < GIVE_WAY_TRIES; i++) {
		if (write(fd, "19", 2) == 2 || errno != EAGAIN)
			return;
		usleep(GIVE_WAY_PAUSE_US);
	}
}

static int open_core(const struct options *options, struct core **core)
{
	struct core_config config = {
		.device =
			{
				.memory_bytes = options->device_memory,
				.threads = (unsigned)options->threads,
				.context_bytes = options->context,
			},
		.host_bytes = options->host_memory,
		.control_fd = (int)options->control_fd,
		.gdevd_socket = options->workers_socket,
		.ended = ended,
	};
	int error = device_parse(options->device, &config.ops, &config.device.index);

	if (error)
		return error;
	if (options->gives_way && config.ops->work)
		give_way();
	if (options->parts > 1)
		take_part(&config, (unsigned)options->parts);
	config.threads = service_threads_wanted(config.ops, &config.device);
	return core_create(&config, core);
}

/* Beside the stacks of the threads that are to begin, which count in full, and of which little is used. */
static uint64_t memory_limit(const struct options *options, const struct core *core)
{
	pthread_attr_t attributes;
	size_t stack_bytes = 0;

	if (!options->memory)
		return UINT64_MAX;
	pthread_attr_init(&attributes);
	pthread_attr_getstacksize(&attributes, &stack_bytes);
	pthread_attr_destroy(&attributes);
	return options->memory + core->config.threads * stack_bytes;
}

/* gdevd tells those who ask how the device is. */
static void say_bye(int control_fd, int error)
{
	const struct control_header message = {
		sizeof message, CONTROL_BYE, CONTROL_VERSION, 0, max_of(error, CONTROL_STATUS_MIN)};

	fd_send(control_fd, &message, sizeof message, NULL, 0);
}

int main(int argc, char **argv)
{
	struct options options;
	struct core *core;
	int error;

	log_init("gdev-worker", LOG_LEVEL_WARNING);
	if (parse_options(argc, argv, &options)) {
		fputs(usage, stderr);
		return 2;
	}
	slice_set(SLICE_NS);
	/* The terminal's signals are for the process that started gdevd; our end is the end of a socket. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* Nobody needs a worker whose gdevd is gone before it is ready, and opening a device takes long. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	error = open_core(&options, &core);
	if (error) {
		log_error("cannot open device %s: %s", options.device, gdev_strerror(error));
		say_bye((int)options.control_fd, error);
		return 1;
	}
	prctl(PR_SET_PDEATHSIG, 0);
	error = sandbox_enter((uid_t)options.user, (gid_t)options.group, core->ops->opens_files,
		memory_limit(&options, core));
	if (!error)
		error = control_ready(core);
	if (!error)
		error = service_start(core);
	if (error) {
		log_error("cannot start: %s", gdev_strerror(error));
		return 1;
	}
	for (;;)
		pause();
}

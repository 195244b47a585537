/* SPDX-License-Identifier: MIT
 *
 * gdevd: the operating system's side of the GPU. It decides who runs and who holds memory, starts the
 * workers that do it, and brings clients and workers together. One thread, one event loop; it moves no
 * bulk data and waits for nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/slice.h"
#include "gdevd/daemon.h"
#include "gdevd/worker_limit.h"

#define RESTORE_TIME_NS (10 * NS_PER_S)   /* for workers of a gdevd before to come back */
#define UNCLAIMED_TIME_NS (30 * NS_PER_S) /* then those that did not are killed */
#define SLICE_NS (100 * NS_PER_US)        /* it decides, and is gone */
#define LONELY_TIME_NS (10 * NS_PER_S)    /* for the first visitor of a private daemon */

struct options {
	const char *config, *runtime_dir, *state_dir, *worker;
	bool private;
	int ready_fd;
	struct {
		const char *key, *value;
	} settings[16];
	unsigned setting_count;
};

static const char help_text[] =
	"Usage: gdevd [OPTION]...\n"
	"The GPU service: shares a GPU, or the built-in software GPU, among programs.\n"
	"\n"
	"  --foreground           stay in the foreground; this is what gdevd always does, and the\n"
	"                         option says so where a service manager's file is read\n"
	"  --private              leave when the last client has left ('gdev run' starts such ones)\n"
	"  --device NAME[,NAME]   cuda:0, cuda:all, cpu (the software GPU), cpu:2 (two of them), null\n"
	"                         (for tests), or auto: all NVIDIA GPUs, or the software GPU where there\n"
	"                         is none\n"
	"  --device-memory SIZE   memory of the software GPU, for example 4G\n"
	"  --threads N            processors that the software GPU uses; 0: all\n"
	"  --config FILE          instead of " SYSTEM_CONFIG " or ~/.config/gdev/gdev.conf\n"
	"  --runtime-dir DIR      for the sockets, instead of $GDEV_RUNTIME_DIR, /run/gdev,\n"
	"                         $XDG_RUNTIME_DIR/gdev or /tmp/gdev-UID\n"
	"  --state-dir DIR        for compiled code, instead of /var/cache/gdev or ~/.cache/gdev\n"
	"  --log LEVEL            error, warning, info or debug\n"
	"  --set KEY=VALUE        any key of the [gdevd] section of gdev.conf(5)\n"
	"  --worker FILE          another worker program; for tests\n"
	"  --ready-fd N           write a line to this descriptor when clients may come\n"
	"  --help, --version\n"
	"\n"
	"No root is needed: any user can run a gdevd of his own.\n"
	"\n"
	"  gdevd --device cpu --device-memory 4G &      # a software GPU of 4 GiB\n"
	"  gdev status                                  # ask it\n"
	"  gdev run ./my_cuda_program                   # use it\n";

static void on_signal(uv_signal_t *handle, int signal)
{
	log_info("received %s", strsignal(signal));
	daemon_stop(handle->data);
}

static void on_child(uv_signal_t *handle, int signal)
{
	struct daemon *daemon = handle->data;

	porters_reap(&daemon->users);
	workers_reap(daemon);
}

static void on_lonely(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, lonely);

	daemon->visited = true; /* as if somebody had come, and left */
	daemon_maybe_leave(daemon);
}

static void on_restored(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, restored);

	sessions_forget_gone(daemon);
	events_give_up_unclaimed(daemon);
	shm_give_up_unclaimed(daemon);
}

static void on_unclaimed(struct deadline *deadline, uint64_t now_ns)
{
	sessions_end_unclaimed(container_of(deadline, struct daemon, unclaimed));
}

/* ---- start ---- */

static void add_setting(struct options *options, const char *key, const char *value)
{
	if (options->setting_count == array_length(options->settings)) {
		fprintf(stderr, "gdevd: too many options\n");
		exit(2);
	}
	options->settings[options->setting_count].key = key;
	options->settings[options->setting_count++].value = value;
}

/* KEY=VALUE; the key is cut off in place. */
static void set_option(struct options *options, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals) {
		fprintf(stderr, "gdevd: --set %s: it must be KEY=VALUE\n", text);
		exit(2);
	}
	*equals = '\0';
	add_setting(options, text, equals + 1);
}

enum { OPTION_PRIVATE = 256, OPTION_READY, OPTION_SET, OPTION_VERSION, OPTION_FOREGROUND };

static const struct option long_options[] = {
	{"foreground", no_argument, NULL, OPTION_FOREGROUND},
	{"private", no_argument, NULL, OPTION_PRIVATE},
	{"device", required_argument, NULL, 'd'},
	{"device-memory", required_argument, NULL, 'm'},
	{"threads", required_argument, NULL, 't'},
	{"config", required_argument, NULL, 'c'},
	{"runtime-dir", required_argument, NULL, 'r'},
	{"state-dir", required_argument, NULL, 's'},
	{"log", required_argument, NULL, 'l'},
	{"worker", required_argument, NULL, 'w'},
	{"ready-fd", required_argument, NULL, OPTION_READY},
	{"set", required_argument, NULL, OPTION_SET},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPTION_VERSION},
	{NULL},
};

static int parse_descriptor(const char *text)
{
	char *end;
	long fd = strtol(text, &end, 10);

	if (end == text || *end || fd < 0 || fd > INT_MAX || fcntl((int)fd, F_GETFD) < 0) {
		fprintf(stderr, "gdevd: --ready-fd %s: it must be the number of an open file\n",
			text);
		exit(2);
	}
	return (int)fd;
}

static void apply_option(struct options *options, int option)
{
	switch (option) {
	case OPTION_FOREGROUND:
		break;
	case OPTION_PRIVATE:
		options->private = true;
		break;
	case 'd':
		add_setting(options, "device", optarg);
		break;
	case 'm':
		add_setting(options, "device_memory", optarg);
		break;
	case 't':
		add_setting(options, "threads", optarg);
		break;
	case 'l':
		add_setting(options, "log", optarg);
		break;
	case 'c':
		options->config = optarg;
		break;
	case 'r':
		options->runtime_dir = optarg;
		break;
	case 's':
		options->state_dir = optarg;
		break;
	case 'w':
		options->worker = optarg;
		break;
	case OPTION_READY:
		options->ready_fd = parse_descriptor(optarg);
		break;
	case OPTION_SET:
		set_option(options, optarg);
		break;
	case 'h':
		fputs(help_text, stdout);
		exit(0);
	case OPTION_VERSION:
		puts("gdevd " GDEV_VERSION);
		exit(0);
	default:
		fprintf(stderr, "Try 'gdevd --help'.\n");
		exit(2);
	}
}

static void parse_options(int argc, char **argv, struct options *options)
{
	int option;

	argv[0] = (char *)"gdevd"; /* what getopt complains with */
	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		apply_option(options, option);
	if (optind < argc) {
		fprintf(stderr, "gdevd: what is \"%s\"? Try 'gdevd --help'.\n", argv[optind]);
		exit(2);
	}
}

/* Where the configuration is, or would be: an absolute path when it is there. It is told to clients that ask. */
static void find_config(const struct options *options, char path[PATHS_MAX])
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	autofree char *real = options->config ? realpath(options->config, NULL) : NULL;

	if (options->config)
		snprintf(path, PATHS_MAX, "%s", real ? real : options->config);
	else if (geteuid() == 0)
		snprintf(path, PATHS_MAX, SYSTEM_CONFIG);
	else if (xdg && *xdg)
		snprintf(path, PATHS_MAX, "%s/gdev/gdev.conf", xdg);
	else
		snprintf(path, PATHS_MAX, "%s/.config/gdev/gdev.conf", home ? home : "");
}

static int load_config(struct config *config, const char *path, const struct options *options)
{
	char error[CONFIG_ERROR_MAX];
	int result;

	result = config_load(config, path, error);
	if (result == -ENOENT && !options->config)
		result = 0; /* the defaults will do */
	for (unsigned i = 0; !result && i < options->setting_count; i++)
		result = config_set(
			config, options->settings[i].key, options->settings[i].value, error);
	if (result)
		log_error("%s", error);
	return result;
}

static int copy_path(char to[PATHS_MAX], const char *from)
{
	return snprintf(to, PATHS_MAX, "%s", from) < PATHS_MAX ? 0 : -ENAMETOOLONG;
}

static int find_directories(struct daemon *daemon, const struct options *options)
{
	int error = options->runtime_dir ? copy_path(daemon->runtime_dir, options->runtime_dir)
					 : paths_runtime_dir(daemon->runtime_dir);

	if (!error)
		error = options->state_dir ? copy_path(daemon->state_dir, options->state_dir)
					   : paths_state_dir(daemon->state_dir);
	/* The workers are told this path, and do not share our working directory for ever. */
	if (!error && daemon->runtime_dir[0] != '/')
		error = -EINVAL;
	if (error)
		log_error(
			"the runtime and state directories must be absolute paths of at most %d bytes",
			PATHS_MAX - 1);
	return error;
}

/* Where the virtual GPUs made at run time are written down: with the machine's state when it is the
 * machine's gdevd, else where its other state is, or its sockets are. */
static int find_made(struct daemon *daemon, const struct options *options)
{
	const char *dir = daemon->runtime_dir;

	if (options->state_dir || secure_getenv("GDEV_STATE_DIR"))
		dir = daemon->state_dir;
	else if (geteuid() == 0 && !options->runtime_dir && !secure_getenv("GDEV_RUNTIME_DIR"))
		dir = "/var/lib/gdev";
	if (snprintf(daemon->made_path, PATHS_MAX, "%s/vgpus.conf", dir) < PATHS_MAX)
		return 0;
	log_error("the path of %s/vgpus.conf is too long", dir);
	return -ENAMETOOLONG;
}

/* A file that cannot be read there is no reason not to serve the rest. */
static int load_made(struct daemon *daemon)
{
	char error[CONFIG_ERROR_MAX];
	int result = config_load_made(&daemon->config, daemon->made_path, error);

	if (result && result != -ENOENT)
		log_error("some virtual GPUs are not as they were made: %s", error);
	return config_finish_defaults(&daemon->config);
}

/* Each session takes a handful of descriptors, each shared chunk one. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Says that clients may come, to the service manager (sd_notify(3)) and on --ready-fd. */
static void announce_ready(int ready_fd)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	autoclose int fd = -1;

	if (ready_fd >= 0) {
		if (write(ready_fd, "ready\n", 6) < 0)
			log_debug("nobody waits for this gdevd: %s", strerror(errno));
		close(ready_fd);
	}
	if (!path || strlen(path) >= sizeof address.sun_path)
		return;
	strcpy(address.sun_path, path);
	if (address.sun_path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 &&
		sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&address,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
		log_warning("cannot notify the service manager: %s", strerror(errno));
	unsetenv("NOTIFY_SOCKET"); /* it is not for the workers */
}

static int start_daemon(struct daemon *daemon, const struct options *options)
{
	int error;

	find_config(options, daemon->config_path);
	error = load_config(&daemon->config, daemon->config_path, options);
	if (!error)
		error = find_directories(daemon, options);
	if (!error)
		error = find_made(daemon, options);
	if (!error)
		error = load_made(daemon);
	if (error)
		return error;
	log_init("gdevd", daemon->config.log_level);
	error = workers_init(daemon, options->worker);
	if (error) {
		log_error("cannot find the worker program gdev-worker%s%s: %s",
			options->worker ? " " : "", options->worker ? options->worker : "",
			strerror(-error));
		return error;
	}
	error = porters_find(&daemon->users, NULL);
	if (error) {
		log_error("cannot find the program gdev-porter: %s", strerror(-error));
		return error;
	}
	error = workers_choose_user(daemon);
	if (error)
		return error;
	swap_init(daemon);
	worker_limits_init(daemon);
	measure_init(daemon);
	error = devices_init(daemon);
	if (!error)
		error = vgpus_init(daemon);
	if (!error)
		error = server_start(daemon);
	if (error)
		return error;
	sessions_forget_gone(daemon);
	shm_restore_all(daemon);
	error = cache_init(
		&daemon->cache, &daemon->loop, daemon->state_dir, daemon->config.cache_bytes);
	if (error)
		log_warning(
			"compiled code is not cached: %s: %s", daemon->state_dir, strerror(-error));
	error = swap_check(daemon);
	if (error) {
		log_error(
			"file_swap: a file without a name cannot be made in %s: %s; swap_directory in gdev.conf(5) "
			"names another directory",
			*daemon->config.swap_directory ? daemon->config.swap_directory
						       : daemon->state_dir,
			strerror(-error));
		return error;
	}
	deadline_init(&daemon->restored, on_restored);
	deadline_set(&daemon->deadlines, &daemon->restored, clock_now_ns() + RESTORE_TIME_NS);
	deadline_init(&daemon->unclaimed, on_unclaimed);
	deadline_set(&daemon->deadlines, &daemon->unclaimed, clock_now_ns() + UNCLAIMED_TIME_NS);
	deadline_init(&daemon->lonely, on_lonely);
	if (daemon->private)
		deadline_set(&daemon->deadlines, &daemon->lonely, clock_now_ns() + LONELY_TIME_NS);
	return 0;
}

static void finish_daemon(struct daemon *daemon)
{
	struct session *session, *next_session;

	/* Nothing is said to anybody any more: the connections are closed. */
	list_for_each_safe (session, next_session, &daemon->sessions, link)
		session_end(session, "gdevd stopped");
	shm_finish(daemon, NULL);
	workers_finish(daemon);
	freeing_stop(daemon);
	vgpus_finish(daemon);
	cache_stop(&daemon->cache);
	config_finish(&daemon->config);
	ledger_finish(&daemon->ledgers.sessions);
	ledger_finish(&daemon->ledgers.segments);
	ledger_finish(&daemon->ledgers.attachments);
	if (daemon->ids >= 0)
		close(daemon->ids);
	if (daemon->lock >= 0)
		close(daemon->lock);
}

static void init_daemon(struct daemon *daemon, const struct options *options)
{
	int error = daemon_init(daemon);

	if (error) {
		log_error("cannot make a timer: %s", strerror(-error));
		exit(1);
	}
	daemon->private = options->private;
	if (options->private)
		daemon->config.warm_workers = 1;
}

int main(int argc, char **argv)
{
	static const struct {
		int number;
		uv_signal_cb received;
	} signals[] = {{SIGTERM, on_signal}, {SIGINT, on_signal}, {SIGHUP, on_signal},
		{SIGCHLD, on_child}};
	static struct daemon daemon;
	struct device *device;
	uv_signal_t handles[array_length(signals)];
	struct options options = {.ready_fd = -1};
	int error;

	log_init("gdevd", LOG_LEVEL_INFO);
	parse_options(argc, argv, &options);
	slice_set(SLICE_NS);
	signal(SIGPIPE, SIG_IGN);
	raise_descriptor_limit();
	init_daemon(&daemon, &options);
	for (unsigned i = 0; i < array_length(signals); i++) {
		handles[i].data = &daemon;
		uv_signal_init(&daemon.loop, &handles[i]);
		uv_signal_start(&handles[i], signals[i].received, signals[i].number);
	}
	error = start_daemon(&daemon, &options);
	if (!error) {
		log_info("ready in %s", daemon.runtime_dir);
		announce_ready(options.ready_fd);
		list_for_each (device, &daemon.devices, link)
			workers_adjust(device);
		uv_run(&daemon.loop, UV_RUN_DEFAULT);
	}
	daemon.stopping = true;
	server_stop();
	finish_daemon(&daemon);
	deadlines_finish(&daemon.deadlines);
	devices_finish(&daemon);
	uv_close((uv_handle_t *)&daemon.eager, NULL);
	closer_stop();
	users_finish(&daemon.users);
	for (unsigned i = 0; i < array_length(signals); i++)
		uv_close((uv_handle_t *)&handles[i], NULL);
	uv_run(&daemon.loop, UV_RUN_DEFAULT);  /* the closing callbacks, and what is being freed */
	worker_cgroups_sweep(&daemon.cgroups); /* of those that have ended by now */
	cache_finish(&daemon.cache);
	uv_loop_close(&daemon.loop);
	return error ? 1 : 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Parts of gdevd that decide without sockets: configuration, memory accounts, permissions of shared
 * segments, deadlines' order, the bound of the cache, who is named to follow a holder, when gdevd wakes up early.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdevd/cache.h"
#include "gdevd/config.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/memory.h"
#include "gdevd/memory/shm.h"
#include "gdevd/usage.h"

static char directory[64];

static int make_directory(void **state)
{
	strcpy(directory, "/tmp/gdev-parts-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", directory);
	return system(command);
}

/* ---- configuration ---- */

#define LONG_COMMENT                                                                                  \
	"# libinih takes 200 bytes for a line, which is less than somebody may have to say in one "   \
	"comment about a key that is not what it seems to be at the first look: so that the rest of " \
	"this would be taken for a line of its own, which it is not, and be an error\n"

static int load(const char *text, struct config *config, char *error)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/gdev.conf", directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	config_init(config);
	return config_load(config, path, error);
}

static void config_reads_every_kind_of_value(void **state)
{
	char error[CONFIG_ERROR_MAX];
	struct config config;
	struct config_vgpu *vgpu;
	struct config_setting *setting;

	assert_int_equal(
		load("# a comment\n[gdevd]\ndevice = cuda:0\ndevice_memory = 3 GiB\nhost_memory = 2G\nthreads = 5\n"
		     "worker_idle = 250ms\ncache_size = 64M\nlog = debug\nquantum = 5ms\n"
		     "policy = band\nqueues = sdq\n"
		     "[vgpu train]\nmode = 0660\nowner = root\ngroup = 0\nmemory = 1G\n"
		     "time_limit_ms = 300\ncompute = 25%\ncopy = 40\npolicy = priority\npriority = -7\n"
		     "strict = yes\n[policy band]\nwait_us = 800\n[policy effective]\ndevice_weight = -20\n"
		     "[device cuda:0]\ninline_bytes = 8K\nchunk_bytes = 1M\ncopy_threads = 6\n",
			&config, error),
		0);
	assert_string_equal(config.device, "cuda:0");
	assert_int_equal(config.device_memory, 3ull << 30);
	assert_int_equal(config.host_memory, 2ull << 30);
	assert_int_equal(config.threads, 5);
	assert_int_equal(config.worker_idle_ns, 250000000);
	assert_int_equal(config.cache_bytes, 64ull << 20);
	assert_int_equal(config.log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(config.quantum_ns, 5000000);
	assert_int_equal(config_device_of(&config, "cuda:0").inline_bytes, 8192);
	assert_int_equal(config_device_of(&config, "cuda:0").chunk_bytes, 1 << 20);
	assert_int_equal(config_device_of(&config, "cuda:0").copy_threads, 6);
	assert_int_equal(config_device_of(&config, "cpu").copy_threads, 0);
	vgpu = list_first(&config.vgpus, struct config_vgpu, link);
	assert_string_equal(vgpu->name, "train");
	assert_int_equal(vgpu->mode, 0660);
	assert_int_equal(vgpu->owner, 0);
	assert_int_equal(vgpu->memory_bytes, 1ull << 30);
	assert_int_equal(vgpu->time_limit_ms, 300);
	assert_int_equal(vgpu->compute_pct, 25);
	assert_int_equal(vgpu->copy_pct, 40);
	assert_string_equal(vgpu->policy, "priority");
	assert_int_equal(vgpu->priority, -7);
	assert_true(vgpu->strict);
	assert_true(vgpu->from_file);
	assert_string_equal(config.policy, "band");
	assert_true(config.one_queue);
	setting = list_first(&config.settings, struct config_setting, link);
	assert_string_equal(setting->policy, "band");
	assert_string_equal(setting->name, "wait_us");
	assert_int_equal(setting->value, 800);
	config_finish(&config);
}

/* A session of the one and of the other gdevd must not differ by what was lost on the way. */
static void made_virtual_gpus_are_written_and_read_again(void **state)
{
	char error[CONFIG_ERROR_MAX], path[128];
	struct config config;
	struct config_vgpu *vgpu, *again;

	snprintf(path, sizeof path, "%s/vgpus.conf", directory);
	assert_int_equal(load("[vgpu both]\ncompute = 10\n", &config, error), 0);
	assert_int_equal(config_vgpu_create("made", &vgpu, error), 0);
	list_append(&config.vgpus, &vgpu->link);
	assert_int_equal(config_set_vgpu(vgpu, "compute", "30", error), 0);
	assert_int_equal(config_set_vgpu(vgpu, "memory", "1G", error), 0);
	assert_int_equal(config_set_vgpu(vgpu, "policy", "fifo", error), 0);
	assert_int_equal(config_set_vgpu(vgpu, "priority", "-3", error), 0);
	assert_int_equal(config_set_vgpu(vgpu, "strict", "yes", error), 0);
	assert_int_equal(config_set_vgpu(vgpu, "mode", "0640", error), 0);
	assert_int_equal(config_save_made(&config, path), 0);
	config_finish(&config);

	assert_int_equal(load("[vgpu both]\ncompute = 20\n", &config, error), 0);
	assert_int_equal(config_load_made(&config, path, error), 0);
	again = config_vgpu_find(&config, "made");
	assert_non_null(again);
	assert_false(again->from_file);
	assert_int_equal(again->compute_pct, 30);
	assert_int_equal(again->copy_pct, 0);
	assert_int_equal(again->memory_bytes, 1 << 30);
	assert_string_equal(again->policy, "fifo");
	assert_int_equal(again->priority, -3);
	assert_true(again->strict);
	assert_int_equal(again->mode, 0640);
	assert_int_equal(config_vgpu_find(&config, "both")->compute_pct, 20);
	config_finish(&config);

	/* The configuration wins where both have it. */
	assert_int_equal(load("[vgpu made]\ncopy = 5\n", &config, error), 0);
	assert_int_equal(config_load_made(&config, path, error), 0);
	assert_int_equal(config_vgpu_find(&config, "made")->compute_pct, 0);
	assert_int_equal(config_vgpu_find(&config, "made")->copy_pct, 5);
	config_finish(&config);
}

static void config_without_virtual_gpus_has_the_default_one(void **state)
{
	char error[CONFIG_ERROR_MAX];
	struct config config;

	assert_int_equal(load("", &config, error), 0);
	assert_int_equal(config_finish_defaults(&config), 0);
	assert_string_equal(list_first(&config.vgpus, struct config_vgpu, link)->name, "gdev0");
	config_finish(&config);
}

static void sections_and_comments_are_read_whole(void **state)
{
	static const char bytes[] = "[gdevd]\nlog = \0\n";
	char error[CONFIG_ERROR_MAX], path[128];
	struct config config;
	FILE *file;

	assert_int_equal(
		load(LONG_COMMENT "[vgpu bare]\n  [vgpu second]\n;" LONG_COMMENT "mode=0600\n",
			&config, error),
		0);
	assert_true(config_vgpu_find(&config, "bare")->from_file);
	assert_int_equal(config_vgpu_find(&config, "second")->mode, 0600);
	assert_int_equal(config_load(&config, directory, error), -EISDIR);
	assert_non_null(strstr(error, "Is a directory"));
	snprintf(path, sizeof path, "%s/bytes", directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fwrite(bytes, 1, sizeof bytes - 1, file);
	fclose(file);
	assert_int_equal(config_load(&config, path, error), -EINVAL);
	assert_non_null(strstr(error, "bytes:2: a byte that is 0"));
	config_finish(&config);
}

static void config_errors_name_the_line(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"[gdevd]\nmax_worker = 3\n", "gdev.conf:2: there is no key \"max_worker\""},
		{"[gdevd]\n\ndevice_memory = much\n",
			"gdev.conf:3: device_memory = much: it must be a size"},
		{"[gdevd]\ndevice_memory = 99999999999G\n", "it must be a size"},
		{"[gdevd]\ndevice_memory = -1\n", "it must be a size"},
		{"[gdevd]\nthreads = 70000\n", "it must be a number from 0 to 65536"},
		{"[gdevd]\nworker_idle = 5 parsecs\n", "it must be a time"},
		{"[gdevd]\nlog = loud\n", "it must be error, warning, info or debug"},
		{"[gdevd]\nnonsense\n", "gdev.conf:2: this is neither"},
		{"[gpu]\nx = 1\n", "gdev.conf:1: there is no section [gpu]"},
		{"[gpu]\n", "gdev.conf:1: there is no section [gpu]"},
		{"device = cpu\n", "gdev.conf:1: a key before the first [section]"},
		{"[gdevd\n", "gdev.conf:1: this is neither"},
		{"[vgpu a b]\n", "gdev.conf:1: \"a b\" is no name"},
		{LONG_COMMENT "[gdevd]\nwhat = 1\n", "gdev.conf:3: there is no key"},
		{"[gdevd]\ndevice = " LONG_COMMENT, "gdev.conf:2: this line is too long"},
		{"[gdevd]\ndevice_memory = 1M\n", "it must be a size such as 4G, at least 2M"},
		{"[device cpu]\ninline_bytes = 64K\n", "it must be a size up to"},
		{"[device cpu]\nchunk_bytes = 1000\n", "it must be a multiple of 4K"},
		{"[device cpu]\nthreads = 2\n", "no key \"threads\" in [device cpu]"},
		{"[device ]\ncopy_threads = 2\n", "is no name of a device"},
		{"[vgpu Train]\nmode = 0600\n", "\"Train\" is no name"},
		{"[vgpu control]\nmode = 0600\n", "\"control\" is no name"},
		{"[vgpu ../x]\nmode = 0600\n", "is no name"},
		{"[vgpu metrics]\nmode = 0600\n", "is no name"},
		{"[vgpu a]\ncompute = 0\n", "it must be a share from 1 to 100 percent"},
		{"[vgpu a]\ncopy = 101%\n", "it must be a share from 1 to 100 percent"},
		{"[vgpu a]\npolicy = band\n",
			"it must be one of fifo, priority, token, effective, fair"},
		{"[vgpu a]\npriority = 101\n", "it must be a priority from -100 to 100"},
		{"[vgpu a]\nstrict = maybe\n", "it must be yes or no"},
		{"[gdevd]\npolicy = unfair\n", "it must be one of null, fifo,"},
		{"[gdevd]\nqueues = two\n", "it must be mrq"},
		{"[gdevd]\nquantum = 1us\n", "it must be a time from 10us to 10s"},
		{"[policy fair]\nwait_ms = 1\n", "policy fair has no setting \"wait_ms\""},
		{"[policy unfair]\nwait_us = 1\n", "there is no policy \"unfair\""},
		{"[policy fair]\nwait_us = -1\n", "it must be a number from 0"},
		{"[vgpu abcdefghijklmnopqrstuvwxyz0123456789]\nmode = 0600\n", "is no name"},
		{"[vgpu a]\nmode = 0999\n", "it must be an octal mode"},
		{"[vgpu a]\nmode = 1777\n", "it must be an octal mode"},
		{"[vgpu a]\nowner = nobody-has-this-name\n", "a user that exists"},
		{"[vgpu a]\ngroup = \n", "a group that exists"},
	};
	char error[CONFIG_ERROR_MAX];
	struct config config;

	for (size_t i = 0; i < array_length(cases); i++) {
		assert_true(load(cases[i].text, &config, error) < 0);
		if (!strstr(error, cases[i].expected))
			fail_msg("\"%s\" does not say \"%s\"", error, cases[i].expected);
		config_finish(&config);
	}
	assert_int_equal(config_load(&config, "/nonexistent", error), -ENOENT);
}

/* ---- usage ---- */

static void waiting_counts_while_nobody_of_them_holds(void **state)
{
	struct usage vgpu = {0}, device = {.device = true};

	usage_waits(&vgpu, 1, 100);
	usage_waits(&device, 1, 100);
	assert_int_equal(usage_now(&vgpu, 0, 130).waited_ns, 30);
	usage_waits(&vgpu, -1, 150);
	usage_holds(&vgpu, 1, 150);
	usage_waits(&vgpu, 1, 160); /* another session of the same */
	usage_waits(&device, -1, 150);
	usage_holds(&device, 1, 150);
	usage_waits(&device, 1, 160);
	assert_int_equal(usage_now(&vgpu, 7, 200).waited_ns, 50);
	assert_int_equal(usage_now(&vgpu, 7, 200).used_ns, 7);
	assert_int_equal(usage_now(&device, 0, 200).waited_ns, 90);
	/* Of the 90 in which somebody waited, 25 were used. */
	usage_count_lost(&device, 25, 200);
	assert_int_equal(device.lost_ns, 65);
	usage_count_lost(&device, 25, 200);
	assert_int_equal(device.lost_ns, 65);
}

static void windows_reach_back_to_the_right_sample(void **state)
{
	static struct usage usage;
	static struct usage_clock clock;
	struct usage_counters since;
	uint64_t now = 1000000000000, over;

	usage_since(&usage, &clock, usage.charged, 1000000000, now, &over);
	assert_int_equal(over, 0);
	for (int i = 0; i < 100; i++, now += USAGE_INTERVAL_NS) {
		usage.charged.used_ns += USAGE_INTERVAL_NS / 4;
		usage_clock_tick(&clock, false, now);
		usage_sample(&usage, &clock, usage_now(&usage, 0, now));
	}
	now -= USAGE_INTERVAL_NS;
	since = usage_since(&usage, &clock, usage.charged, 1000000000, now, &over);
	assert_int_equal(over, 1000000000);
	assert_int_equal(since.used_ns, 250000000);
	since = usage_since(&usage, &clock, usage.charged, 10000000000, now, &over);
	assert_int_equal(over, 10000000000);
	assert_int_equal(since.used_ns, 2500000000);
	/* Less than the last sample said: the worker had said more than it charged. */
	since = usage_since(&usage, &clock, (struct usage_counters){0}, 1000000000, now, &over);
	assert_int_equal(since.used_ns, 0);
}

static void a_window_that_begins_in_a_quiet_hour_is_no_longer_for_it(void **state)
{
	static const struct {
		bool quiet;
		uint64_t over_ns;
	} cases[] = {{true, 10000000000}, {false, 3603000000000}};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct usage usage = {.charged.used_ns = 5000};
		struct usage_clock clock = {0};
		uint64_t now = 1000000000000, over;

		usage_clock_tick(&clock, false, now);
		usage_sample(&usage, &clock, usage_now(&usage, 0, now));
		now += 3600000000000;
		usage_clock_tick(&clock, cases[i].quiet, now);
		usage_sample(&usage, &clock, usage_now(&usage, 0, now));
		usage.charged.used_ns += 1000000000;
		now += 3000000000;
		assert_int_equal(
			usage_since(&usage, &clock, usage.charged, 10000000000, now, &over).used_ns,
			1000000000);
		assert_int_equal(over, cases[i].over_ns);
		usage_since(&usage, &clock, usage.charged, 1000000000, now, &over);
		assert_int_equal(over, 3000000000);
	}
}

static void expected_parts_are_shares_or_what_can_be_used(void **state)
{
	/* In thousandths of the second: weight, used, waited; and what is expected. */
	static const struct {
		struct {
			double weight, most;
			uint64_t used, waited;
			int expected;
		} parts[3];
	} cases[] = {
		/* Both want all of it: by weight, of what was used. */
		{{{25, 1, 500, 500, 245}, {75, 1, 480, 500, 735}, {50, 1, 0, 0, 0}}},
		/* The first pauses, and could not use more than 200. */
		{{{50, 1, 200, 0, 200}, {50, 1, 700, 200, 700}, {50, 1, 0, 0, 0}}},
		/* Nobody waits: what they use is what they want. */
		{{{90, 1, 100, 0, 100}, {5, 1, 300, 0, 300}, {5, 1, 400, 0, 400}}},
		/* Strict, and nobody else there. */
		{{{25, .25, 400, 600, 250}, {50, 1, 0, 0, 0}, {25, 1, 0, 0, 0}}},
		/* Waits, and has not had its turn. */
		{{{50, 1, 0, 1000, 450}, {50, 1, 900, 0, 450}, {25, 1, 0, 0, 0}}},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct usage_part parts[3];
		for (int j = 0; j < 3; j++)
			parts[j] = (struct usage_part){
				.weight = cases[i].parts[j].weight,
				.most = cases[i].parts[j].most,
				.counters = {cases[i].parts[j].used * 1000000,
					cases[i].parts[j].waited * 1000000},
			};
		usage_expect(parts, 3, 1000000000);
		for (int j = 0; j < 3; j++)
			if ((int)(parts[j].expected * 1000 + .5) != cases[i].parts[j].expected)
				fail_msg("case %zu, %d: %f is not %d", i, j, parts[j].expected,
					cases[i].parts[j].expected);
	}
}

/* ---- memory ---- */

static void charge_goes_to_the_whole_chain_or_to_none(void **state)
{
	struct memory_account device, vgpu, session;

	memory_init(&device, NULL, 100);
	memory_init(&vgpu, &device, 60);
	memory_init(&session, &vgpu, UINT64_MAX);
	assert_int_equal(memory_total(&session), 60);
	assert_int_equal(memory_charge(&session, 61), -ENOMEM);
	assert_int_equal(memory_charge(&session, UINT64_MAX), -ENOMEM);
	assert_int_equal(device.used_bytes, 0);
	assert_int_equal(memory_charge(&session, 60), 0);
	assert_int_equal(device.used_bytes, 60);
	assert_int_equal(memory_free(&session), 0);
	assert_int_equal(memory_return(&session, 61), -EINVAL);
	assert_int_equal(memory_return(&session, 20), 0);
	assert_int_equal(vgpu.used_bytes, 40);
	assert_int_equal(session.peak_bytes, 60);
}

static void moved_charge_leaves_what_is_above_alone(void **state)
{
	struct memory_account vgpu, session, segment;

	memory_init(&vgpu, NULL, 50);
	memory_init(&session, &vgpu, UINT64_MAX);
	memory_init(&segment, &vgpu, 30);
	memory_charge(&session, 50);
	assert_int_equal(memory_move(&session, &segment, 51), -EINVAL);
	assert_int_equal(memory_move(&session, &segment, 31), -ENOMEM);
	assert_int_equal(session.used_bytes, 50);
	assert_int_equal(memory_move(&session, &segment, 30), 0);
	assert_int_equal(session.used_bytes, 20);
	assert_int_equal(segment.used_bytes, 30);
	assert_int_equal(vgpu.used_bytes, 50);
	assert_int_equal(vgpu.peak_bytes, 50);
}

static void account_moves_to_another_parent_with_all_it_holds(void **state)
{
	struct memory_account device, small, large, worker;

	memory_init(&device, NULL, 100);
	memory_init(&small, &device, 5);
	memory_init(&large, &device, 50);
	memory_init(&worker, &device, UINT64_MAX);
	memory_charge(&worker, 10);
	assert_int_equal(memory_reparent(&worker, &small), -ENOMEM);
	assert_int_equal(device.used_bytes, 10);
	assert_int_equal(memory_reparent(&worker, &large), 0);
	assert_int_equal(large.used_bytes, 10);
	assert_int_equal(device.used_bytes, 10);
	assert_int_equal(memory_reparent(&worker, &device), 0);
	assert_int_equal(large.used_bytes, 0);
}

static void account_moves_below_what_is_over_its_limit(void **state)
{
	struct memory_account device, vgpu, worker, segment;

	memory_init(&device, NULL, 100);
	memory_init(&vgpu, &device, UINT64_MAX);
	memory_init(&segment, &vgpu, UINT64_MAX);
	memory_init(&worker, &device, UINT64_MAX);
	memory_charge_held(&device, 95); /* of one that is going */
	memory_charge_held(&worker, 10); /* it began before the other took so much */
	assert_int_equal(memory_reparent(&worker, &vgpu), 0);
	assert_int_equal(vgpu.used_bytes, 10);
	assert_int_equal(memory_move(&worker, &segment, 4), 0);
	assert_int_equal(segment.used_bytes, 4);
	assert_int_equal(vgpu.used_bytes, 10);
	assert_int_equal(device.used_bytes, 105);
}

static void held_memory_is_charged_beyond_a_lowered_limit(void **state)
{
	struct memory_account vgpu;

	memory_init(&vgpu, NULL, 10);
	memory_charge_held(&vgpu, 15);
	assert_int_equal(memory_free(&vgpu), 0);
	assert_int_equal(memory_charge(&vgpu, 0), 0);
	assert_int_equal(memory_charge(&vgpu, 1), -ENOMEM);
	assert_int_equal(memory_return(&vgpu, 15), 0);
}

/* ---- shared segments ---- */

static void segment_rights_are_those_of_system_v(void **state)
{
	static const struct {
		mode_t mode;
		uid_t uid;
		gid_t gid;
		unsigned access;
		bool may;
	} cases[] = {
		/* owner 1000, creator 1001, group 2000 and 2001 */
		{0600, 1000, 9, SHM_READ | SHM_WRITE, true},
		{0600, 1001, 9, SHM_READ | SHM_WRITE, true},
		{0400, 1000, 9, SHM_READ, true},
		{0400, 1000, 9, SHM_WRITE, false},
		{0600, 3000, 2000, SHM_READ, false},
		{0640, 3000, 2000, SHM_READ, true},
		{0640, 3000, 2001, SHM_READ, true},
		{0640, 3000, 2000, SHM_WRITE, false},
		{0640, 3000, 9, SHM_READ, false},
		{0644, 3000, 9, SHM_READ, true},
		{0646, 3000, 9, SHM_READ | SHM_WRITE, true},
		/* The owner's digit alone counts for the owner, as for files. */
		{0066, 1000, 2000, SHM_READ, false},
		{0606, 3000, 2000, SHM_READ, false},
		{0000, 0, 0, SHM_READ | SHM_WRITE, true},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct shm_segment segment = {
			.mode = cases[i].mode,
			.uid = 1000,
			.creator_uid = 1001,
			.gid = 2000,
			.creator_gid = 2001,
		};
		if (shm_may_access(&segment, cases[i].uid, cases[i].gid, cases[i].access) !=
			cases[i].may)
			fail_msg("case %zu", i);
		assert_int_equal(shm_may_control(&segment, cases[i].uid),
			cases[i].uid == 0 || cases[i].uid == 1000 || cases[i].uid == 1001);
	}
}

/* ---- cache ---- */

static void store(struct cache *cache, uint8_t number, size_t bytes)
{
	uint8_t key[CACHE_KEY_BYTES] = {number};
	struct cache_write *write;

	assert_int_equal(cache_put(cache, 1000, key, bytes, &write), 0);
	assert_int_equal(ftruncate(write->fd, (off_t)bytes), 0);
	assert_int_equal(cache_commit(cache, 1000, write), 0);
}

static bool stored(struct cache *cache, uint8_t number)
{
	uint8_t key[CACHE_KEY_BYTES] = {number};
	autoclose int fd = -1;
	uint64_t bytes;

	return cache_get(cache, 1000, key, &fd, &bytes) == 0;
}

static void path_of(uint8_t number, char path[256])
{
	int length = snprintf(path, 256, "%s/cache/1000/%02x", directory, number);

	memset(path + length, '0', 2 * (CACHE_KEY_BYTES - 1));
	path[length + 2 * (CACHE_KEY_BYTES - 1)] = '\0';
}

/* As if it had been used last at that time. */
static void used_at(uint8_t number, time_t seconds)
{
	const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
	char path[256];

	path_of(number, path);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void cache_keeps_its_bound_and_what_was_used_last(void **state)
{
	struct cache cache;

	assert_int_equal(cache_init(&cache, directory, 1000), 0);
	for (uint8_t i = 1; i <= 9; i++) {
		store(&cache, i, 100);
		used_at(i, 1000 + i);
	}
	assert_true(stored(&cache, 1)); /* used: 2 is the oldest now */
	store(&cache, 20, 200);
	assert_true(stored(&cache, 20));
	assert_true(stored(&cache, 1));
	assert_false(stored(&cache, 2));
	assert_true(stored(&cache, 9));
	cache_finish(&cache);
}

static void cache_counts_what_an_earlier_daemon_left(void **state)
{
	uint8_t key[CACHE_KEY_BYTES] = {77};
	struct cache cache;
	struct cache_write *write;

	assert_int_equal(cache_init(&cache, directory, 1000), 0);
	assert_int_equal(cache_put(&cache, 1000, key, 501, &write), -EDQUOT);
	for (uint8_t i = 30; i < 60; i++)
		store(&cache, i, 100);
	cache_finish(&cache);
	assert_int_equal(cache_init(&cache, directory, 500), 0);
	store(&cache, 90, 100);
	unsigned left = 0;
	for (unsigned i = 0; i < 256; i++)
		left += stored(&cache, (uint8_t)i);
	assert_in_range(left, 1, 5);
	cache_finish(&cache);
}

static void cache_follows_no_links(void **state)
{
	uint8_t key[CACHE_KEY_BYTES] = {200};
	char path[256];
	struct cache cache;

	assert_int_equal(cache_init(&cache, directory, 1000), 0);
	assert_false(stored(&cache, 200));
	path_of(200, path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_false(stored(&cache, 200));
	snprintf(path, sizeof path, "%s/cache/1001", directory);
	assert_int_equal(symlink("/etc", path), 0);
	autoclose int fd = -1;
	uint64_t bytes;
	assert_int_equal(cache_get(&cache, 1001, key, &fd, &bytes), -ENOENT);
	cache_finish(&cache);
}

static void broken_cache_answers_that_nothing_is_there(void **state)
{
	struct cache cache;

	assert_true(cache_init(&cache, "/proc/nonexistent", 1000) < 0);
	assert_false(stored(&cache, 1));
	cache_finish(&cache);
}

/* ---- turns ---- */

/* A daemon with a holder and two who wait; its workers have a page and no socket. */
struct turning_fixture {
	struct daemon daemon;
	struct worker workers[3];
	struct worker_page pages[3];
	struct session sessions[3];
};

static struct turning_fixture *make_turning(void)
{
	struct turning_fixture *fixture = calloc(1, sizeof *fixture);

	for (unsigned i = 0; i < 3; i++) {
		fixture->workers[i].page = &fixture->pages[i];
		fixture->pages[i].revoke[RESOURCE_COMPUTE] = REVOKE_NOW; /* in its last turn */
		fixture->sessions[i] = (struct session){.daemon = &fixture->daemon,
			.worker = &fixture->workers[i],
			.id = 10 + i,
			.turns = true};
	}
	assert_int_equal(turns_init(&fixture->daemon), 0);
	return fixture;
}

static void a_holder_is_told_who_follows_and_gdevd_sees_whether_it_handed_over(void **state)
{
	struct turning_fixture *fixture = make_turning();
	struct daemon *daemon = &fixture->daemon;
	struct session *holder = &fixture->sessions[0], *next = &fixture->sessions[1],
		       *other = &fixture->sessions[2];
	uint64_t *word = &daemon->device.turning.page->resources[RESOURCE_COMPUTE].next;

	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, TURN_NEXT(10, 1));
	assert_int_equal(fixture->pages[1].revoke[RESOURCE_COMPUTE], REVOKE_NONE);
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, other)); /* it had not */
	assert_int_equal(*word, TURN_NEXT(10, 2));
	*word = 0; /* now it has */
	assert_false(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, other, NULL)); /* the next holder's */
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, other, next));
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, other, NULL));
	assert_int_equal(*word, 0);
	turns_finish(daemon);
	free(fixture);
}

static void who_needs_a_message_is_not_named(void **state)
{
	struct turning_fixture *fixture = make_turning();
	struct daemon *daemon = &fixture->daemon;
	struct session *holder = &fixture->sessions[0], *next = &fixture->sessions[1];
	uint64_t *word = &daemon->device.turning.page->resources[RESOURCE_COMPUTE].next;

	*word = TURN_NEXT(10, 1); /* what a worker may have written there */
	next->turns = false;      /* it came with an earlier gdevd */
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	next->turns = true;
	daemon->config.one_queue = true;
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	daemon->config.one_queue = false;
	next->worker->residency.dry =
		true; /* gdevd does not count on its memory until it is granted */
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	assert_int_equal(fixture->pages[1].revoke[RESOURCE_COMPUTE], REVOKE_NOW);
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, NULL));
	turns_finish(daemon);
	free(fixture);
}

/* ---- waking up together with a worker ---- */

static void client_that_wakes_its_worker_wakes_gdevd_once(void **state)
{
	static struct daemon daemon;
	struct session session = {.daemon = &daemon};

	daemon_init(&daemon);
	session.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(early_init(&daemon), 0);
	uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_int_equal(eventfd_write(session.wake_fd, 1), 0);
	early_begin(&session); /* what was written before is no news */
	uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_true(session.early);
	assert_int_equal(daemon.eager_until_ns, 0);
	assert_int_equal(eventfd_write(session.wake_fd, 1), 0);
	uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_false(session.early);
	assert_true(daemon.eager_until_ns > 0);
	/* Once: not before it is asked for again. */
	daemon.eager_until_ns = 0;
	assert_int_equal(eventfd_write(session.wake_fd, 1), 0);
	uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_int_equal(daemon.eager_until_ns, 0);
	early_begin(&session);
	early_session_finish(&session);
	assert_int_equal(session.wake_fd, -1);
	early_finish(&daemon);
	deadlines_finish(&daemon.deadlines);
	uv_close((uv_handle_t *)&daemon.eager, NULL);
	uv_run(&daemon.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&daemon.loop), 0);
}

/* What the holder's word says when the other's client has woken its worker. */
static uint32_t word_when_woken(struct session *holder, struct session *other)
{
	uv_loop_t *loop = &holder->daemon->loop;

	early_begin(other);
	uv_run(loop, UV_RUN_NOWAIT);
	assert_int_equal(eventfd_write(other->wake_fd, 1), 0);
	uv_run(loop, UV_RUN_NOWAIT);
	assert_false(other->early);
	return holder->worker->page->revoke[RESOURCE_COMPUTE];
}

static void holder_is_held_back_for_one_that_is_let_in_whenever_it_comes(void **state)
{
	static struct daemon daemon;
	struct worker_page page = {0};
	struct worker worker = {.page = &page};
	struct session holder = {.daemon = &daemon, .worker = &worker, .id = 1},
		       other = {.daemon = &daemon, .id = 2};
	struct sched *sched = &daemon.device.sched[RESOURCE_COMPUTE];

	daemon_init(&daemon);
	assert_int_equal(early_init(&daemon), 0);
	other.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sched->holder = &holder.entities[RESOURCE_COMPUTE];
	/* It has not been seen to come, or came too late. */
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_NONE);
	early_asked(&other, true, other.woken_ns + NS_PER_S);
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_NONE);
	early_asked(&other, true, other.woken_ns + 1);
	sched->revoked = REVOKE_WHEN_IDLE;
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_SOON);
	/* It does not ask: the holder goes on, and is not held back for this one again. */
	while (page.revoke[RESOURCE_COMPUTE] == REVOKE_SOON)
		uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_int_equal(page.revoke[RESOURCE_COMPUTE], REVOKE_WHEN_IDLE);
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_WHEN_IDLE);
	/* Nor for one that is not let in when it asks. */
	early_asked(&other, false, other.woken_ns + 1);
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_WHEN_IDLE);
	/* Who is told to leave anyway leaves. */
	early_asked(&other, true, other.woken_ns + 1);
	sched->revoked = page.revoke[RESOURCE_COMPUTE] = REVOKE_NOW;
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_NOW);
	early_session_finish(&other);
	early_finish(&daemon);
	deadlines_finish(&daemon.deadlines);
	uv_close((uv_handle_t *)&daemon.eager, NULL);
	uv_run(&daemon.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&daemon.loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			config_reads_every_kind_of_value, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(config_without_virtual_gpus_has_the_default_one,
			make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(made_virtual_gpus_are_written_and_read_again,
			make_directory, remove_directory),
		cmocka_unit_test(waiting_counts_while_nobody_of_them_holds),
		cmocka_unit_test(windows_reach_back_to_the_right_sample),
		cmocka_unit_test(a_window_that_begins_in_a_quiet_hour_is_no_longer_for_it),
		cmocka_unit_test(expected_parts_are_shares_or_what_can_be_used),
		cmocka_unit_test_setup_teardown(
			config_errors_name_the_line, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(
			sections_and_comments_are_read_whole, make_directory, remove_directory),
		cmocka_unit_test(charge_goes_to_the_whole_chain_or_to_none),
		cmocka_unit_test(moved_charge_leaves_what_is_above_alone),
		cmocka_unit_test(account_moves_to_another_parent_with_all_it_holds),
		cmocka_unit_test(account_moves_below_what_is_over_its_limit),
		cmocka_unit_test(held_memory_is_charged_beyond_a_lowered_limit),
		cmocka_unit_test(segment_rights_are_those_of_system_v),
		cmocka_unit_test_setup_teardown(cache_keeps_its_bound_and_what_was_used_last,
			make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(
			cache_counts_what_an_earlier_daemon_left, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(
			cache_follows_no_links, make_directory, remove_directory),
		cmocka_unit_test(broken_cache_answers_that_nothing_is_there),
		cmocka_unit_test(
			a_holder_is_told_who_follows_and_gdevd_sees_whether_it_handed_over),
		cmocka_unit_test(who_needs_a_message_is_not_named),
		cmocka_unit_test(client_that_wakes_its_worker_wakes_gdevd_once),
		cmocka_unit_test(holder_is_held_back_for_one_that_is_let_in_whenever_it_comes),
	};

	return cmocka_run_group_tests_name("gdevd parts", tests, NULL, NULL);
}

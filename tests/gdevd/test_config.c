/* SPDX-License-Identifier: MIT
 *
 * How the configuration is read, what is wrong with it, and what is written of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/cleanup.h"
#include "directory.h"
#include "gdevd/config.h"

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
		load("# a comment\n[gdevd]\ndevice = cuda:0\ndevice_memory = 3 GiB\nhost_memory = 2G\nworker_memory = 6G\nthreads = 5\n"
		     "worker_idle = 250ms\ncache_size = 64M\nlog = debug\nquantum = 5ms\n"
		     "policy = band\nqueues = sdq\n"
		     "[vgpu train]\nmode = 0660\nowner = root\ngroup = 0\nmemory = 1G\n"
		     "time_limit_ms = 300\ncompute = 25%\ncopy = 40\npolicy = priority\npriority = -7\npreempt = loops\ncompute_capability = 8.6\n"
		     "strict = yes\n[policy band]\nwait_us = 800\n[policy effective]\ndevice_weight = -20\n"
		     "[device cuda:0]\ninline_bytes = 8K\nchunk_bytes = 1M\ncopy_threads = 6\n",
			&config, error),
		0);
	assert_string_equal(config.served.devices[0].name, "cuda:0");
	assert_int_equal(config.device_memory, 3ull << 30);
	assert_int_equal(config.host_memory, 2ull << 30);
	assert_int_equal(config.worker_memory, 6ull << 30);
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
	assert_int_equal(vgpu->preempt, PREEMPT_LOOPS);
	assert_int_equal(vgpu->compute_capability, 86);
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
	assert_int_equal(config_set_vgpu(vgpu, "compute_capability", "7.5", error), 0);
	assert_int_equal(config_set_vgpu(vgpu, "mode", "0640", error), 0);
	assert_int_equal(config_drain_device(&config, "cpu:1", true, "cpu:2"), 0);
	assert_int_equal(config_drain_device(&config, "cpu:2", true, ""), 0);
	assert_int_equal(config_drain_device(&config, "cpu:2", false, ""), 0);
	assert_int_equal(config_save_made(&config, path), 0);
	config_finish(&config);

	assert_int_equal(load("[vgpu both]\ncompute = 20\n[device cpu:1]\ncopy_threads = 3\n",
				 &config, error),
		0);
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
	assert_int_equal(again->compute_capability, 75);
	assert_int_equal(again->mode, 0640);
	assert_int_equal(config_vgpu_find(&config, "both")->compute_pct, 20);
	assert_true(config_device_of(&config, "cpu:1").drained);
	assert_int_equal(config_device_of(&config, "cpu:1").copy_threads, 3);
	assert_false(config_device_of(&config, "cpu:2").drained);
	config_finish(&config);

	/* Only gdevd drains. */
	assert_int_not_equal(load("[device cpu:1]\ndrained = yes\n", &config, error), 0);
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
			"it must be one of fifo, priority, token, effective, interactive, fair"},
		{"[vgpu a]\ncompute_capability = 8.1\n", "it must be that of a GPU from 5.0"},
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			config_reads_every_kind_of_value, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(config_without_virtual_gpus_has_the_default_one,
			make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(made_virtual_gpus_are_written_and_read_again,
			make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(
			config_errors_name_the_line, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(
			sections_and_comments_are_read_whole, make_directory, remove_directory),
	};

	return cmocka_run_group_tests_name("gdevd config", tests, NULL, NULL);
}

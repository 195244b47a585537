/* SPDX-License-Identifier: MIT
 *
 * Main program of the gestural interface: the cameras, what has to come out, and what a form costs (Table 2).
 */
#include "ptask/gesture.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP 8 /* frames that are not counted: code is compiled, threads start */
#define WARM_UP_US 3e6
#define FRAME_US (1e6 / 30)
#define FRAMES_MAX 100000
#define PROCESSES_MAX 4

int width = 320, height = 240;
unsigned frame_count = 200;

/* One camera looks from the left, one from the right, turned by a tenth. */
const struct pose poses[CAMERAS] = {
	{{{0.995f, 0, 0.0998f, -100}, {0, 1, 0, 0}, {-0.0998f, 0, 0.995f, 0}}},
	{{{0.995f, 0, -0.0998f, 100}, {0, 1, 0, 0}, {0.0998f, 0, 0.995f, 0}}},
};

static const struct form {
	const char *name;
	void (*run)(void);
} forms[] = {{"host", run_host}, {"handcode", run_handcode}, {"modular", run_modular},
	{"pipes", run_pipes}, {"ptask", run_ptask}};
#define FORMS (sizeof forms / sizeof *forms)

static uint16_t *images[CAMERAS][RECORDED];
static struct event expected[RECORDED];
static bool recording, real_time;
static double clock_us; /* when the first frame comes that counts */
static double latencies_us[FRAMES_MAX];

/* Of all processes. */
static struct usage {
	double at_us;
	unsigned long user_ticks, system_ticks, threads, memory_kib;
} began, ended;
static pid_t processes[PROCESSES_MAX];
static unsigned process_count;

void require(bool condition, const char *what, const char *why)
{
	if (condition)
		return;
	fprintf(stderr, "gesture: cannot %s: %s\n", what, why);
	exit(2);
}

void *frame_alloc(size_t bytes)
{
	void *memory = calloc(1, bytes);

	require(memory, "allocate", "no memory; choose smaller frames");
	return memory;
}

size_t image_bytes(void)
{
	return (size_t)width * (size_t)height * sizeof(uint16_t);
}

size_t cloud_bytes(void)
{
	return (size_t)width * (size_t)height * sizeof(struct point);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- cameras ---- */

/* A hand goes around before a wall, two metres away, and the camera is not exact. */
static void record(unsigned camera, unsigned frame)
{
	double angle = 2 * M_PI * frame / RECORDED, radius = width / 10.0;
	double x = width / 2 + width / 4.0 * cos(angle), y = height / 2 + height / 4.0 * sin(angle);
	uint16_t *image = images[camera][frame] = frame_alloc(image_bytes());
	uint32_t noise = 1 + camera * RECORDED + frame;

	for (int i = 0; i < width * height; i++) {
		bool hand = hypot(i % width - x, i / width - y) < radius;
		noise = noise * 1664525 + 1013904223;
		image[i] = (uint16_t)((hand ? 900 : 2000) + (noise >> 24) % 21);
	}
}

static double time_of(unsigned frame)
{
	return frame < WARM_UP ? 0 : clock_us + (frame - WARM_UP) * FRAME_US;
}

const uint16_t *camera_image(unsigned camera, unsigned frame)
{
	double wait_us = real_time && !recording ? time_of(frame) - now_us() : 0;

	if (wait_us > 0)
		usleep((useconds_t)wait_us);
	return images[camera][frame % RECORDED];
}

static void make_recordings(void)
{
	unsigned wanted = frame_count;

	for (unsigned i = 0; i < CAMERAS; i++)
		for (unsigned frame = 0; frame < RECORDED; frame++)
			record(i, frame);
	recording = true;
	frame_count = RECORDED;
	run_host();
	recording = false;
	frame_count = wanted;
}

/* ---- what a form costs ---- */

void also_counts(pid_t process)
{
	processes[process_count++] = process;
}

static void add_usage(pid_t process, struct usage *usage)
{
	unsigned long user, system, threads, pages;
	char path[64];
	FILE *file;
	int found = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
	file = fopen(path, "r");
	/* No name of ours has a space. */
	if (file)
		found = fscanf(file,
			"%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu %*s %*s %*s %*s %lu "
			"%*s %*s %*s %lu",
			&user, &system, &threads, &pages);
	if (file)
		fclose(file);
	if (found != 4)
		return;
	usage->user_ticks += user;
	usage->system_ticks += system;
	usage->threads += threads;
	usage->memory_kib += pages * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

static void look(struct usage *usage)
{
	*usage = (struct usage){.at_us = now_us()};
	add_usage(getpid(), usage);
	for (unsigned i = 0; i < process_count; i++)
		add_usage(processes[i], usage);
}

static bool is_as(const struct event *event, const struct event *want)
{
	double far = hypot(event->x - want->x, event->y - want->y);

	/* Written so that a NaN is wrong. */
	return far <= 2 && fabs(event->z - want->z) <= 2 &&
	       abs((int)event->seen - (int)want->seen) <= (int)want->seen / 50;
}

void deliver(unsigned frame, const struct event *event)
{
	const struct event *want = &expected[frame % RECORDED];

	if (recording) {
		expected[frame] = *event;
		return;
	}
	if (!is_as(event, want)) {
		fprintf(stderr,
			"gesture: frame %u: the hand is at %g %g %g (%u), and not at %g %g %g (%u)\n",
			frame, event->x, event->y, event->z, event->seen, want->x, want->y, want->z,
			want->seen);
		exit(1);
	}
	latencies_us[frame] = now_us() - time_of(frame);
	if (frame == WARM_UP)
		look(&began);
	if (frame == frame_count - 1)
		look(&ended);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(const struct form *form)
{
	unsigned count = frame_count - WARM_UP - 1;
	double us = ended.at_us - began.at_us;
	double ticks = us / 1e6 * (double)sysconf(_SC_CLK_TCK);

	qsort(latencies_us + WARM_UP, count + 1, sizeof *latencies_us, by_value);
	printf("{\"form\": \"%s\", \"mode\": \"%s\", \"fps\": %.2f, \"mb_per_s\": %.2f, ",
		form->name, real_time ? "real-time" : "unconstrained", count / us * 1e6,
		count / us * CAMERAS * (double)image_bytes());
	if (real_time)
		printf("\"latency_ms\": %.3f, ", latencies_us[WARM_UP + count / 2] / 1e3);
	printf("\"user_pct\": %.1f, \"sys_pct\": %.1f, \"threads\": %lu, \"memory_kib\": %lu}\n",
		100 * (double)(ended.user_ticks - began.user_ticks) / ticks,
		100 * (double)(ended.system_ticks - began.system_ticks) / ticks, ended.threads,
		ended.memory_kib);
}

static void usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: gesture [--form host|handcode|modular|pipes|ptask] [--real-time] [--frames N]\n"
		"       [--width PIXELS] [--height PIXELS]\n"
		"Finds a hand in the frames of two generated cameras, verifies what it finds, and prints what that cost, as\n"
		"JSON: frames and MB of images a second, the latency of a frame (--real-time: 30 frames a second come), processor\n"
		"time of all of the form's processes, in percent of one processor, their threads, and their memory.\n"
		"Exit status 0: the results are right; 1: one is wrong; 2: something failed.\n");
	exit(status);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"form", required_argument, NULL, 'f'},
		{"real-time", no_argument, NULL, 'r'}, {"frames", required_argument, NULL, 'n'},
		{"width", required_argument, NULL, 'x'}, {"height", required_argument, NULL, 'y'},
		{"help", no_argument, NULL, 'h'}, {0}};
	const char *wanted = "ptask";
	const struct form *form = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'f')
			wanted = optarg;
		else if (option == 'r')
			real_time = true;
		else if (option == 'n')
			frame_count = (unsigned)atoi(optarg);
		else if (option == 'x')
			width = atoi(optarg);
		else if (option == 'y')
			height = atoi(optarg);
		else
			usage(option == 'h' ? 0 : 2);
	}
	for (unsigned i = 0; i < FORMS; i++)
		if (!strcmp(wanted, forms[i].name))
			form = &forms[i];
	if (!form || optind < argc || frame_count <= WARM_UP + 1 || frame_count > FRAMES_MAX ||
		width < 16 || height < 16 || width > 4096 || height > 4096)
		usage(2);
	make_recordings();
	clock_us = now_us() + WARM_UP_US;
	form->run();
	report(form);
	return 0;
}

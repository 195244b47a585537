/* SPDX-License-Identifier: MIT
 *
 * GREP: how often each of many words occurs in a text. The text is made of half of the words, so that it is known how
 * often each occurs. Text, words and result are files that the kernel reads and writes; with PLAIN all is copied to the
 * device before, and from it at the end. With POLLING the kernel polls, as GPUfs does.
 */
#include "gloop/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gloop/grep.h"

#define BLOCKS 28u
#define BLOCK 128u
#define PAGE 16384u
#define WORDS_A_KIB 10u /* 58,000 in 6 MB, as in the paper */
#define LETTERS_MIN 3
#define WORDS_AT_ONCE 32u /* of a callback; or GLOOP_WORDS of them */

static unsigned count;
static size_t text_bytes;
static char *text;
static struct word *words;
static int *want, *got;
static CUdeviceptr device_words, device_counts, device_text;

/* Different for different numbers: a number's digits with 26 as the base, at least three of them. */
static void make_word(struct word *word, unsigned number)
{
	unsigned at = 0;

	memset(word, 0, sizeof(*word));
	word->text[at++] = ' ';
	for (unsigned rest = number; rest || at <= LETTERS_MIN; rest /= 26, at++)
		word->text[at] = (char)('a' + (rest % 26 + 7 * at) % 26);
	word->text[at++] = ' ';
	word->length = at;
}

static void make_text(void)
{
	size_t at = 0;

	text[at++] = ' ';
	for (;;) {
		unsigned one = random_next() % (count / 2 + 1);
		const struct word *word = &words[one];

		if (at + word->length > text_bytes - OVERLAP)
			break;
		memcpy(text + at, word->text + 1, word->length - 1);
		at += word->length - 1;
		want[one]++;
	}
	memset(text + at, ' ', text_bytes - at);
}

#ifdef POLLING
#define KERNEL "grep_polling"
#else
#define KERNEL "grep"
#endif

#ifndef PLAIN
static int files[3]; /* as grep.cu names them */
static char *lines;  /* of the result */
static CUdeviceptr device_ahead;
#endif

static void setup(void)
{
	text_bytes = (size_t)options.size << 10;
	count = options.size * WORDS_A_KIB;
	text = host_alloc(text_bytes);
	words = host_alloc(count * sizeof(*words));
	want = host_alloc(count * sizeof(*want));
	got = host_alloc(count * sizeof(*got));
	memset(want, 0, count * sizeof(*want));
	for (unsigned i = 0; i < count; i++)
		make_word(&words[i], i);
	make_text();
	device_words = device_alloc(count * sizeof(*words));
	device_counts = device_alloc(count * sizeof(*got));
#ifdef PLAIN
	device_text = device_alloc(text_bytes);
#else
	device_text = device_alloc(2 * BLOCKS * PAGE);
	device_ahead = device_alloc(BLOCKS * sizeof(long long));
	lines = host_alloc((size_t)count * LINE_BYTES);
	files[0] = temporary_file(text, text_bytes);
	files[1] = temporary_file(words, count * sizeof(*words));
	files[2] = temporary_file(NULL, 0);
#endif
}

#ifdef PLAIN
/* With GLOOP_UNTUNED each round has memory of its own. */
static CUdeviceptr take_memory(CUdeviceptr tuned, size_t bytes)
{
	CUdeviceptr memory = tuned;

	if (getenv("GLOOP_UNTUNED"))
		CHECK(cuMemAlloc(&memory, bytes));
	return memory;
}

static void give_memory(CUdeviceptr tuned, CUdeviceptr memory)
{
	if (memory != tuned)
		CHECK(cuMemFree(memory));
}

static void compute(void)
{
	CUdeviceptr on_words = take_memory(device_words, count * sizeof(*words));
	CUdeviceptr on_counts = take_memory(device_counts, count * sizeof(*got));
	CUdeviceptr on_text = take_memory(device_text, text_bytes);
	unsigned page = PAGE;

	memset(got, 0, count * sizeof(*got));
	copy_to_device(on_words, words, count * sizeof(*words));
	copy_to_device(on_counts, got, count * sizeof(*got));
	copy_to_device(on_text, text, text_bytes);
	run_persistent("grep", SHAPE(BLOCKS, 1, BLOCK, 1),
		(void *[]){NULL, &on_words, &on_counts, &on_text, &count, &text_bytes, &page});
	copy_from_device(got, on_counts, count * sizeof(*got));
	give_memory(device_words, on_words);
	give_memory(device_counts, on_counts);
	give_memory(device_text, on_text);
}
#else
static void read_result(void)
{
	ssize_t bytes = pread(files[2], lines, (size_t)count * LINE_BYTES, 0);
	char line[LINE_BYTES + 1] = "", name[LINE_BYTES];

	for (unsigned i = 0; i < count; i++) {
		got[i] = 0;
		memcpy(line, lines + (size_t)i * LINE_BYTES, LINE_BYTES);
		if (bytes < (ssize_t)(i + 1) * LINE_BYTES || !line[0])
			continue;
		if (sscanf(line, "%24s %d\n", name, &got[i]) != 2 ||
			strncmp(name, words[i].text + 1, words[i].length - 2) ||
			strlen(name) != words[i].length - 2)
			got[i] = -1;
	}
}

static void compute(void)
{
	struct gloop_options with = {
		.page_bytes = PAGE, .descriptors = files, .descriptor_count = 3, .confined = true};
	unsigned at_once = from_environment("GLOOP_WORDS", WORDS_AT_ONCE);

	at_once += !at_once;
	CHECK(cuMemsetD32(device_counts, 0, count));
	if (ftruncate(files[2], 0) < 0)
		return; /* the check will tell */
	cool_file(files[0]);
	run_loop(KERNEL, SHAPE(BLOCKS, 1, BLOCK, 1),
		(void *[]){NULL, &device_words, &device_counts, &device_text, &device_ahead, &count,
			&text_bytes, &at_once},
		&with);
}
#endif

static void check(void)
{
#ifndef PLAIN
	read_result();
#endif
	check_ints("the counts", got, want, count);
}

const struct program program = {
	.name = "grep",
	.summary = "Counts how often words occur in a text.",
	.size_means = "KiB of the text; there are ten times as many words",
	.size = 100,
	.size_max = 100000,
	.setup = setup,
	.compute = compute,
	.check = check,
};

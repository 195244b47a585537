/* SPDX-License-Identifier: MIT
 *
 * How often words occur in a text, after grep of GPUfs (GLoop, section 5.1). The words are shared out among the blocks.
 * A block reads the text a page at a time; for each of its words, a callback counts where it begins on the page; at the
 * end the block writes a line for each word that it has found. The plain kernel has text and words in device memory.
 */
#include "common/device.h"

#include <gdev/gloop.cuh>

#include "gloop/grep.h"

using gloop::DeviceLoop;

enum { TEXT, WORDS, RESULT }; /* descriptors */

struct search {
	char *page;         /* the block's own */
	struct word *words; /* the block's */
	int *counts;        /* of the block's words */
	char *line;
	unsigned first, count; /* of the block's words */
	gloop_u64 text_bytes;
};

/* Words begin in the first `starts` bytes, and lie within `bytes`. */
static __device__ __forceinline__ void match(
	const char *text, unsigned starts, unsigned bytes, const struct word *word, int *count)
{
	unsigned length = word->length;

	for (unsigned i = threadIdx.x; i < starts; i += blockDim.x) {
		unsigned k = 0;

		if (i + length > bytes || text[i + 1] != word->text[1])
			continue;
		while (k < length && text[i + k] == word->text[k])
			k++;
		if (k == length)
			atomicAdd(count, 1);
	}
}

/* "word count\n", padded with spaces. */
static __device__ void write_line(char *line, const struct word *word, int count)
{
	unsigned at = LINE_BYTES - 1;

	line[at] = '\n';
	do {
		line[--at] = (char)('0' + count % 10);
		count /= 10;
	} while (count);
	while (at)
		line[--at] = ' ';
	for (unsigned k = 1; k + 1 < word->length; k++)
		line[k - 1] = word->text[k];
}

static __device__ void log_from(DeviceLoop *loop, search s, unsigned w)
{
	while (w < s.count && !s.counts[w])
		w++;
	if (w == s.count)
		return;
	__syncthreads();
	if (threadIdx.x == 0)
		write_line(s.line, &s.words[w], s.counts[w]);
	__syncthreads();
	gloop::fs::write(loop, RESULT, (gloop_u64)(s.first + w) * LINE_BYTES, LINE_BYTES, s.line,
		[=](DeviceLoop *loop, long long) { log_from(loop, s, w + 1); });
}

static __device__ void read_text(DeviceLoop *loop, search s, gloop_u64 at);

static __device__ void search_word(
	DeviceLoop *loop, search s, gloop_u64 at, unsigned bytes, unsigned w)
{
	match(s.page, bytes > OVERLAP ? bytes - OVERLAP : bytes, bytes, &s.words[w], &s.counts[w]);
	if (w + 1 < s.count)
		loop->postTask([=](DeviceLoop *loop) { search_word(loop, s, at, bytes, w + 1); });
	else
		read_text(loop, s, at + bytes - OVERLAP);
}

static __device__ void read_text(DeviceLoop *loop, search s, gloop_u64 at)
{
	if (at + OVERLAP >= s.text_bytes) {
		__syncthreads();
		log_from(loop, s, 0);
		return;
	}
	gloop::fs::read(
		loop, TEXT, at, loop->page_bytes(), s.page, [=](DeviceLoop *loop, long long got) {
			if (got > OVERLAP)
				search_word(loop, s, at, (unsigned)got, 0);
		});
}

static __device__ void read_words(DeviceLoop *loop, search s, unsigned have)
{
	if (have == s.count) {
		read_text(loop, s, 0);
		return;
	}
	gloop::fs::read(loop, WORDS, (gloop_u64)(s.first + have) * sizeof(word),
		(s.count - have) * sizeof(word), s.words + have,
		[=](DeviceLoop *loop, long long got) {
			if (got > 0)
				read_words(
					loop, s, have + (unsigned)(got / (long long)sizeof(word)));
		});
}

extern "C" __global__ void grep(gloop_grid grid, struct word *words, int *counts, char *pages,
	unsigned count, gloop_u64 text_bytes)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		unsigned each = (count + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
		char *page = pages + blockIdx.x * (loop->page_bytes() + LINE_BYTES);

		if (first >= count)
			return;
		search s = {page, words + first, counts + first, page + loop->page_bytes(), first,
			first + each < count ? each : count - first, text_bytes};
		read_words(loop, s, 0);
	});
}

extern "C" __global__ void grep_plain(const struct word *words, int *counts, const char *text,
	unsigned count, gloop_u64 text_bytes, unsigned page)
{
	unsigned each = (count + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
	unsigned last = first + each < count ? first + each : count;

	for (gloop_u64 at = 0; at + OVERLAP < text_bytes; at += page - OVERLAP) {
		unsigned bytes = text_bytes - at < page ? (unsigned)(text_bytes - at) : page;

		for (unsigned w = first; w < last; w++)
			match(text + at, bytes - OVERLAP, bytes, &words[w], &counts[w]);
	}
}

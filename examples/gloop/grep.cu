/* SPDX-License-Identifier: MIT
 *
 * How often words occur in a text, after grep of GPUfs (GLoop, section 5.1). The words are shared out among the blocks.
 * A block reads the text a page at a time, the next while it searches one; a callback counts where some of its words begin
 * on the page; at the end the block writes a line for each word that it has found, a page of lines at a time. The plain
 * kernel has text and words in device memory; another is as it were for GPUfs.
 */
#include "gloop/grep.h"
#include "gloop/polling.h"

using gloop::DeviceLoop;

enum { TEXT, WORDS, RESULT }; /* descriptors */

struct search {
	char *pages;           /* the block's own two, of page_bytes() */
	long long *ahead;      /* see meet() */
	struct word *words;    /* the block's */
	int *counts;           /* of the block's words */
	unsigned first, count; /* of the block's words */
	unsigned at_once;      /* how many of them a callback searches for */
	gloop_u64 text_bytes;
};

/* Words begin in the first `starts` bytes, and lie within `bytes`. */
static __device__ __forceinline__ void match(
	const char *text, unsigned starts, unsigned bytes, const struct word *word, int *count)
{
	unsigned length = word->length;
	char second = word->text[1];

	for (unsigned i = threadIdx.x; i < starts; i += blockDim.x) {
		unsigned k = 0;

		if (i + length > bytes || text[i + 1] != second)
			continue;
		while (k < length && text[i + k] == word->text[k])
			k++;
		if (k == length)
			atomicAdd(count, 1);
	}
}

/* "word count\n", padded with spaces; zeros for a word that was not found. */
static __device__ void write_line(char *line, const struct word *word, int count)
{
	unsigned at = LINE_BYTES - 1;

	if (!count) {
		for (unsigned k = 0; k < LINE_BYTES; k++)
			line[k] = 0;
		return;
	}
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

/* As many as fit on a page, from word w on: how many. */
static __device__ unsigned write_lines(const search &s, unsigned w, gloop_u64 page_bytes)
{
	unsigned lines = (unsigned)page_bytes / LINE_BYTES;

	lines = lines < s.count - w ? lines : s.count - w;
	__syncthreads();
	for (unsigned i = threadIdx.x; i < lines; i += blockDim.x)
		write_line(s.pages + i * LINE_BYTES, &s.words[w + i], s.counts[w + i]);
	__syncthreads();
	return lines;
}

static __device__ void log_from(DeviceLoop *loop, search s, unsigned w)
{
	if (w == s.count)
		return;
	unsigned lines = write_lines(s, w, loop->page_bytes());
	gloop::fs::write(loop, RESULT, (gloop_u64)(s.first + w) * LINE_BYTES, lines * LINE_BYTES,
		s.pages, [=](DeviceLoop *loop, long long) { log_from(loop, s, w + lines); });
}

/* The search of a page and the reading of the next end in any order. The one that ends first notes it, with 0 as the answer;
 * the other gets the bytes that were read. got: the bytes, or -1, for the search. */
static __device__ long long meet(long long *ahead, long long got)
{
	__syncthreads();
	long long other = *ahead;
	__syncthreads();
	if (threadIdx.x == 0)
		*ahead = other ? 0 : got;
	return other > 0 ? other : other ? got : 0;
}

static __device__ void search_page(
	DeviceLoop *loop, search s, gloop_u64 at, unsigned bytes, unsigned turn);

/* turn: which of the two pages. */
static __device__ void read_page(DeviceLoop *loop, search s, gloop_u64 at, unsigned turn)
{
	gloop::fs::read(loop, TEXT, at, loop->page_bytes(), s.pages + turn * loop->page_bytes(),
		[=](DeviceLoop *loop, long long got) {
			if (got > OVERLAP && meet(s.ahead, got))
				search_page(loop, s, at, (unsigned)got, turn);
		});
}

/* A task of the kernel's own code: for some of the words, from w on, on a page. */
struct search_words {
	search s;
	gloop_u64 at;
	unsigned bytes, turn, w;

	__device__ void operator()(DeviceLoop *loop) const;
};

__device__ __forceinline__ void search_words::operator()(DeviceLoop *loop) const
{
	unsigned w = this->w;
	unsigned end = w + s.at_once < s.count ? w + s.at_once : s.count;
	gloop_u64 next = at + bytes - OVERLAP;
	const char *page = gloop::global(s.pages + turn * loop->page_bytes());
	const word *words = gloop::global(s.words);
	int *counts = gloop::global(s.counts);

	for (; w < end; w++)
		match(page, bytes - OVERLAP, bytes, &words[w], &counts[w]);
	if (w < s.count) {
		loop->postTask(search_words{s, at, bytes, turn, w});
	} else if (next + OVERLAP >= s.text_bytes) {
		__syncthreads();
		log_from(loop, s, 0);
	} else {
		unsigned got = (unsigned)meet(s.ahead, -1);

		if (got)
			search_page(loop, s, next, got, !turn);
	}
}

static __device__ void search_page(
	DeviceLoop *loop, search s, gloop_u64 at, unsigned bytes, unsigned turn)
{
	gloop_u64 next = at + bytes - OVERLAP;

	if (next + OVERLAP < s.text_bytes)
		read_page(loop, s, next, !turn);
	loop->postTask(search_words{s, at, bytes, turn, 0});
}

static __device__ void read_words(DeviceLoop *loop, search s, unsigned have)
{
	if (have == s.count) {
		read_page(loop, s, 0, 0);
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

/* The words of this block; false: it has none. */
static __device__ bool share_out(search *s, unsigned words)
{
	unsigned each = (words + gridDim.x - 1) / gridDim.x;

	s->first = blockIdx.x * each;
	if (s->first >= words)
		return false;
	s->count = s->first + each < words ? each : words - s->first;
	s->words += s->first;
	s->counts += s->first;
	return true;
}

extern "C" __global__ void grep(gloop_grid grid, struct word *words, int *counts, char *pages,
	long long *ahead, unsigned count, gloop_u64 text_bytes, unsigned at_once)
{
	gloop::run<search_words>(grid, [=](DeviceLoop *loop) {
		search s = {pages + 2 * blockIdx.x * loop->page_bytes(), ahead + blockIdx.x, words,
			counts, 0, 0, at_once, text_bytes};

		if (!share_out(&s, count))
			return;
		if (threadIdx.x == 0)
			*s.ahead = -1; /* nothing is searched */
		read_words(loop, s, 0);
	});
}

extern "C" __global__ void grep_polling(gloop_grid grid, struct word *words, int *counts,
	char *pages, long long *, unsigned count, gloop_u64 text_bytes, unsigned)
{
	Polling host(grid);
	gloop_u64 most = grid.page_bytes;
	search s = {pages + 2 * blockIdx.x * most, 0, words, counts, 0, 0, 0, text_bytes};
	long long got = 1;

	if (!share_out(&s, count))
		s.count = 0;
	for (unsigned have = 0; have < s.count && got > 0; have += (unsigned)got / sizeof(word))
		got = host.read(WORDS, (gloop_u64)(s.first + have) * sizeof(word),
			(s.count - have) * sizeof(word), s.words + have);
	for (gloop_u64 at = 0; s.count && at + OVERLAP < text_bytes;
		at += (gloop_u64)got - OVERLAP) {
		got = host.read(TEXT, at, most, s.pages);
		if (got <= OVERLAP)
			break;
		for (unsigned w = 0; w < s.count; w++)
			match(s.pages, (unsigned)got - OVERLAP, (unsigned)got, &s.words[w],
				&s.counts[w]);
	}
	for (unsigned w = 0, lines; w < s.count; w += lines) {
		lines = write_lines(s, w, most);
		host.write(
			RESULT, (gloop_u64)(s.first + w) * LINE_BYTES, lines * LINE_BYTES, s.pages);
	}
	host.end();
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

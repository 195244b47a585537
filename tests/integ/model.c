/* SPDX-License-Identifier: MIT
 *
 * Random operations on device memory, compared with a model: `model FOLDER SEED OPERATIONS LIMIT_MIB`. It
 * allocates, frees, copies in all directions, fills, launches a kernel that changes every word, and keeps a
 * copy of everything in its own memory, which is what must come back.
 *
 * Memory is also shared, by key and by IPC handle, with the other processes that have the same FOLDER. What is
 * shared follows a rule: word i is version * A + i. A file in FOLDER says what is shared and which version
 * it is; the owner locks it to change both, others lock it to read and compare. What a killed owner leaves
 * half changed is marked so.
 *
 * `model FOLDER` alone removes the keys that killed processes left there. Exit status 0: all was right; 1:
 * something was wrong; 2: a call failed.
 */
#include <cuda.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <unistd.h>

enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_FAILED = 2 };

#define BUFFERS_MAX 32
#define OFFERS_MAX 3
#define WORDS_MAX (6u << 20) /* of a buffer */
#define RULE 0x9E3779B9u

/* A buffer and what is in it. */
struct buffer {
	CUdeviceptr memory;
	uint32_t *model;
	uint32_t words;
	bool written;
};

/* What a file in FOLDER says. */
struct offer {
	uint32_t kind; /* 0: half changed, or gone */
	int32_t key;
	uint32_t words, version;
	CUipcMemHandle handle;
};
enum { OFFER_KEY = 1, OFFER_IPC = 2 };

/* What this process shares. */
struct owned {
	struct offer offer;
	char path[512];
	int file, id;
	CUdeviceptr memory;
};

static struct buffer buffers[BUFFERS_MAX];
static struct owned owned[OFFERS_MAX];
static const char *folder;
static uint64_t state, limit_words, used_words;
static uint32_t *scratch; /* WORDS_MAX words, page-locked */
static CUfunction change;
static unsigned operation, compared, read_by_others, refused;

static const char ptx[] = ".version 6.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  /* words[i] = words[i] * factor + i + add, for i < count */
			  ".visible .entry change(.param .u64 words, .param .u32 count,\n"
			  "	.param .u32 factor, .param .u32 add)\n"
			  "{\n"
			  "	.reg .u32 %r<8>;\n"
			  "	.reg .u64 %a<4>;\n"
			  "	.reg .pred %p;\n"
			  "	ld.param.u64 %a1, [words];\n"
			  "	ld.param.u32 %r1, [count];\n"
			  "	ld.param.u32 %r2, [factor];\n"
			  "	ld.param.u32 %r3, [add];\n"
			  "	mov.u32 %r4, %ctaid.x;\n"
			  "	mov.u32 %r5, %ntid.x;\n"
			  "	mov.u32 %r6, %tid.x;\n"
			  "	mad.lo.u32 %r4, %r4, %r5, %r6;\n"
			  "	setp.ge.u32 %p, %r4, %r1;\n"
			  "	@%p ret;\n"
			  "	mul.wide.u32 %a2, %r4, 4;\n"
			  "	add.u64 %a1, %a1, %a2;\n"
			  "	ld.global.u32 %r5, [%a1];\n"
			  "	mad.lo.u32 %r5, %r5, %r2, %r4;\n"
			  "	add.u32 %r5, %r5, %r3;\n"
			  "	st.global.u32 [%a1], %r5;\n"
			  "	ret;\n"
			  "}\n";

static uint32_t random_below(uint32_t limit)
{
	uint64_t z = (state += 0x9E3779B97F4A7C15u);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return (uint32_t)(((z ^ (z >> 31)) >> 32) * limit >> 32);
}

/* Small, mostly; large, now and then. */
static uint32_t random_words(void)
{
	uint32_t most = 16u << random_below(19);

	return 1 + random_below(most < WORDS_MAX ? most : WORDS_MAX);
}

#define CHECK(call) require((call), #call, __LINE__)
static void require(CUresult result, const char *call, int line)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "model: operation %u: model.c:%d: %s: %s\n", operation, line, call,
		name ? name : "?");
	exit(EXIT_FAILED);
}

static void compare(const uint32_t *got, const uint32_t *want, uint32_t words, const char *what)
{
	compared++;
	if (memcmp(got, want, (size_t)words * 4) == 0)
		return;
	for (uint32_t i = 0; i < words; i++)
		if (got[i] != want[i]) {
			fprintf(stderr, "model: operation %u: %s: word %u of %u is %#x, not %#x\n",
				operation, what, i, words, got[i], want[i]);
			break;
		}
	exit(EXIT_WRONG);
}

/* ---- buffers of this process alone ---- */

static struct buffer *any_buffer(void)
{
	struct buffer *buffer = &buffers[random_below(BUFFERS_MAX)];

	return buffer->memory ? buffer : NULL;
}

static struct buffer *any_written(void)
{
	struct buffer *buffer = any_buffer();

	return buffer && buffer->written ? buffer : NULL;
}

static void allocate(void)
{
	struct buffer *buffer = &buffers[random_below(BUFFERS_MAX)];
	uint32_t words = random_words();
	CUresult result;

	if (buffer->memory || used_words + words > limit_words)
		return;
	result = cuMemAlloc(&buffer->memory, (size_t)words * 4);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		buffer->memory = 0;
		refused++;
		return;
	}
	CHECK(result);
	buffer->words = words;
	buffer->written = false;
	buffer->model = malloc((size_t)words * 4);
	if (!buffer->model)
		exit(EXIT_FAILED);
	used_words += words;
}

static void release(struct buffer *buffer)
{
	CHECK(cuMemFree(buffer->memory));
	free(buffer->model);
	used_words -= buffer->words;
	*buffer = (struct buffer){0};
}

static void release_any(void)
{
	struct buffer *buffer = any_buffer();

	if (buffer)
		release(buffer);
}

/* A part of the buffer; all of it while it has not been written. */
static uint32_t any_part(const struct buffer *buffer, uint32_t *first)
{
	*first = buffer->written ? random_below(buffer->words) : 0;
	return buffer->written ? 1 + random_below(buffer->words - *first) : buffer->words;
}

static void copy_in(void)
{
	struct buffer *buffer = any_buffer();
	uint32_t first, words, value = random_below(UINT32_MAX);

	if (!buffer)
		return;
	words = any_part(buffer, &first);
	CHECK(cuCtxSynchronize()); /* before the page-locked words change */
	for (uint32_t i = 0; i < words; i++)
		buffer->model[first + i] = scratch[i] = value + i * 7;
	if (random_below(2))
		CHECK(cuMemcpyHtoDAsync(
			buffer->memory + (size_t)first * 4, scratch, (size_t)words * 4, NULL));
	else
		CHECK(cuMemcpyHtoD(buffer->memory + (size_t)first * 4, buffer->model + first,
			(size_t)words * 4));
	buffer->written = true;
}

static void copy_out(void)
{
	struct buffer *buffer = any_written();
	uint32_t first, words;

	if (!buffer)
		return;
	words = any_part(buffer, &first);
	CHECK(cuMemcpyDtoH(scratch, buffer->memory + (size_t)first * 4, (size_t)words * 4));
	compare(scratch, buffer->model + first, words, "a copy from the device");
}

static void copy_within(void)
{
	struct buffer *from = any_written(), *to = any_written();
	uint32_t first, words, other;

	if (!from || !to || from == to)
		return;
	words = any_part(from, &first);
	words = words < to->words ? words : to->words;
	other = random_below(to->words - words + 1);
	CHECK(cuMemcpyDtoD(to->memory + (size_t)other * 4, from->memory + (size_t)first * 4,
		(size_t)words * 4));
	memcpy(to->model + other, from->model + first, (size_t)words * 4);
}

static void fill(void)
{
	struct buffer *buffer = any_buffer();
	uint32_t first, words, value = random_below(UINT32_MAX);

	if (!buffer)
		return;
	words = any_part(buffer, &first);
	CHECK(cuMemsetD32(buffer->memory + (size_t)first * 4, value, words));
	for (uint32_t i = 0; i < words; i++)
		buffer->model[first + i] = value;
	buffer->written = true;
}

static void run_change(CUdeviceptr memory, uint32_t words, uint32_t factor, uint32_t add)
{
	void *parameters[] = {&memory, &words, &factor, &add};

	CHECK(cuLaunchKernel(
		change, (words + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
}

static void launch(void)
{
	struct buffer *buffer = any_written();
	uint32_t factor = random_below(1000), add = random_below(UINT32_MAX);

	if (!buffer)
		return;
	run_change(buffer->memory, buffer->words, factor, add);
	for (uint32_t i = 0; i < buffer->words; i++)
		buffer->model[i] = buffer->model[i] * factor + i + add;
}

/* ---- what is shared ---- */

/* Says in the file what is offered; kind 0: nothing. */
static void write_offer(const struct owned *mine, uint32_t kind)
{
	struct offer offer = mine->offer;

	offer.kind = kind;
	if (pwrite(mine->file, &offer, sizeof offer, 0) != sizeof offer)
		exit(EXIT_FAILED);
}

/* A new version of what is shared, with the file locked. */
static void change_offer(struct owned *mine)
{
	flock(mine->file, LOCK_EX);
	write_offer(mine, 0);
	mine->offer.version = random_below(UINT32_MAX);
	run_change(mine->memory, mine->offer.words, 0, mine->offer.version * RULE);
	CHECK(cuCtxSynchronize());
	write_offer(mine, mine->offer.kind);
	flock(mine->file, LOCK_UN);
}

static CUresult make_shared(struct owned *mine)
{
	size_t bytes = (size_t)mine->offer.words * 4;
	CUresult result;

	if (mine->offer.kind == OFFER_IPC) {
		result = cuMemAlloc(&mine->memory, bytes);
		if (result != CUDA_SUCCESS)
			return result;
		/* What is shared stays on the device, which may have no more room for that. */
		result = cuIpcGetMemHandle(&mine->offer.handle, mine->memory);
		if (result == CUDA_ERROR_OUT_OF_MEMORY)
			CHECK(cuMemFree(mine->memory));
		return result;
	}
	result = cuShmGet(&mine->id, mine->offer.key, bytes, IPC_CREAT | IPC_EXCL | 0600);
	if (result == CUDA_SUCCESS)
		CHECK(cuShmAt(&mine->memory, mine->id, 0));
	return result;
}

static void offer_memory(struct owned *mine)
{
	CUresult result;

	*mine = (struct owned){0};
	mine->offer.kind = random_below(2) ? OFFER_KEY : OFFER_IPC;
	mine->offer.words = random_words();
	if (used_words + mine->offer.words > limit_words)
		return;
	snprintf(mine->path, sizeof mine->path, "%s/%d-%u", folder, getpid(), operation);
	mine->file = open(mine->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (mine->file < 0)
		exit(EXIT_FAILED);
	/* From here on a killed process leaves word of the key. */
	mine->offer.key = (int32_t)(((uint32_t)getpid() << 8 | (operation & 0xff)) & INT32_MAX);
	write_offer(mine, 0);
	result = make_shared(mine);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		refused++;
		unlink(mine->path);
		close(mine->file);
		mine->memory = 0;
		return;
	}
	CHECK(result);
	used_words += mine->offer.words;
	change_offer(mine);
}

static void withdraw(struct owned *mine)
{
	flock(mine->file, LOCK_EX);
	write_offer(mine, 0);
	if (mine->offer.kind == OFFER_KEY) {
		CHECK(cuShmCtl(mine->id, IPC_RMID, NULL));
		CHECK(cuShmDt(mine->memory));
	} else {
		CHECK(cuMemFree(mine->memory));
	}
	unlink(mine->path);
	close(mine->file);
	used_words -= mine->offer.words;
	mine->memory = 0;
}

static void share(void)
{
	struct owned *mine = &owned[random_below(OFFERS_MAX)];

	if (!mine->memory)
		offer_memory(mine);
	else if (random_below(4))
		change_offer(mine);
	else
		withdraw(mine);
}

/* Attaches what another process offers; fails when that one, or its worker, was killed. */
static bool attach(const struct offer *offer, CUdeviceptr *memory)
{
	int id;

	if (offer->kind == OFFER_IPC)
		return cuIpcOpenMemHandle(memory, offer->handle,
			       CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS;
	return cuShmGet(&id, offer->key, 0, 0) == CUDA_SUCCESS &&
	       cuShmAt(memory, id, 0) == CUDA_SUCCESS;
}

static void compare_offer(const struct offer *offer)
{
	static uint32_t want[WORDS_MAX];
	CUdeviceptr memory;

	if (!attach(offer, &memory))
		return;
	CHECK(cuMemcpyDtoH(scratch, memory, (size_t)offer->words * 4));
	for (uint32_t i = 0; i < offer->words; i++)
		want[i] = offer->version * RULE + i;
	compare(scratch, want, offer->words, "shared memory");
	read_by_others++;
	CHECK(offer->kind == OFFER_IPC ? cuIpcCloseMemHandle(memory) : cuShmDt(memory));
}

/* Looks at what somebody else shares. */
static void look(void)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	unsigned skip = random_below(8);

	while (directory && (entry = readdir(directory))) {
		struct offer offer;
		int file;
		if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid() || skip-- > 0)
			continue;
		file = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC);
		if (file < 0)
			continue;
		if (flock(file, LOCK_SH | LOCK_NB) == 0 &&
			pread(file, &offer, sizeof offer, 0) == sizeof offer && offer.kind)
			compare_offer(&offer);
		close(file);
		break;
	}
	if (directory)
		closedir(directory);
}

/* ---- all of it ---- */

static void open_device(void)
{
	CUcontext context;
	CUdevice device;
	CUmodule module;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&change, module, "change"));
	CHECK(cuMemHostAlloc((void **)&scratch, (size_t)WORDS_MAX * 4, 0));
}

/* Keys that a killed process left. */
static int remove_keys(void)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	struct offer offer;
	int file, id, left = 0;

	open_device();
	while (directory && (entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		file = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC);
		if (file >= 0 && pread(file, &offer, sizeof offer, 0) == sizeof offer &&
			offer.key && cuShmGet(&id, offer.key, 0, 0) == CUDA_SUCCESS) {
			CHECK(cuShmCtl(id, IPC_RMID, NULL));
			left++;
		}
		close(file);
	}
	closedir(directory);
	printf("%d keys were left\n", left);
	return EXIT_RIGHT;
}

int main(int argc, char **argv)
{
	static void (*const operations[])(void) = {allocate, allocate, allocate, release_any,
		copy_in, copy_in, copy_out, copy_out, copy_within, fill, launch, launch, share,
		look};
	const uint32_t count = sizeof(operations) / sizeof(operations[0]);
	unsigned total;

	if (argc != 2 && argc != 5) {
		fprintf(stderr, "Usage: model FOLDER [SEED OPERATIONS LIMIT_MIB]\n");
		return EXIT_FAILED;
	}
	folder = argv[1];
	if (argc == 2)
		return remove_keys();
	state = strtoull(argv[2], NULL, 10) << 20;
	total = (unsigned)atoi(argv[3]);
	limit_words = strtoull(argv[4], NULL, 10) << 18;
	open_device();
	for (operation = 1; operation <= total; operation++)
		operations[random_below(count)]();
	for (unsigned i = 0; i < BUFFERS_MAX; i++) {
		if (buffers[i].memory && buffers[i].written) {
			CHECK(cuMemcpyDtoH(
				scratch, buffers[i].memory, (size_t)buffers[i].words * 4));
			compare(scratch, buffers[i].model, buffers[i].words, "what is there");
		}
		if (buffers[i].memory)
			release(&buffers[i]);
	}
	for (unsigned i = 0; i < OFFERS_MAX; i++)
		if (owned[i].memory)
			withdraw(&owned[i]);
	printf("{\"operations\": %u, \"compared\": %u, \"shared\": %u, \"refused\": %u}\n", total,
		compared, read_by_others, refused);
	return EXIT_RIGHT;
}

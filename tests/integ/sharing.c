/* SPDX-License-Identifier: MIT
 *
 * A process that does with device memory what it reads from standard input, one command a line, and answers "ok" or
 * what is wrong. `sharing [SCALE]`: what a MIB is.
 *   key KEY MIB      creates the shared segment KEY, or attaches it: it is the object now. For others to read: open KEY MIB
 *   peek KEY MIB     attaches it for reading alone
 *   export FILE MIB  makes an object, and writes its IPC handle to FILE
 *   import FILE      attaches it
 *   own MIB N        makes another object, which is its own, and fills it
 *   fill N           word i of the object becomes i * 2654435761 + N
 *   step             a kernel: each word becomes 3 * word + i
 *   check N STEPS    whether the object is what it must be
 *   detach           the object is detached, or freed
 *   remove           the segment is removed
 *   work, read N STEPS, leave   are as step, check and detach, for the object that is its own
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>

struct object {
	CUdeviceptr at;
	uint32_t count;
};

static CUfunction step_function;
static struct object object, own;
static int segment;
static char wrong[1024];
static uint32_t scale = 1;

static int fails(CUresult result, const char *what)
{
	const char *text = "?";

	if (!result)
		return 0;
	cuGetErrorName(result, &text);
	snprintf(wrong, sizeof wrong, "cannot %s: %s", what, text);
	return 1;
}

static void key(int name, uint32_t mib, int get_flags, int attach_flags)
{
	object.count = mib << 18;
	if (fails(cuShmGet(&segment, name, 4ul * object.count, get_flags), "get") ||
		fails(cuShmAt(&object.at, segment, attach_flags), "attach"))
		return;
}

static void make(struct object *made, uint32_t mib)
{
	made->count = mib << 18;
	fails(cuMemAlloc(&made->at, 4ul * made->count), "allocate");
}

static void export_to(const char *path, uint32_t mib)
{
	CUipcMemHandle handle;
	FILE *file = fopen(path, "w");

	make(&object, mib);
	if (*wrong || fails(cuIpcGetMemHandle(&handle, object.at), "export"))
		return;
	fwrite(&handle, sizeof handle, 1, file);
	fwrite(&mib, sizeof mib, 1, file);
	fclose(file);
}

static void import_from(const char *path)
{
	CUipcMemHandle handle;
	uint32_t mib = 0;
	FILE *file = fopen(path, "r");

	if (!file || fread(&handle, sizeof handle, 1, file) != 1 ||
		fread(&mib, sizeof mib, 1, file) != 1)
		exit(3);
	fclose(file);
	object.count = mib << 18;
	fails(cuIpcOpenMemHandle(&object.at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "import");
}

/* As much memory as the largest object, kept: to touch it anew takes longer than what is done with it. */
static uint32_t *words_of(const struct object *of)
{
	static uint32_t *words, capacity;

	if (of->count > capacity) {
		free(words);
		words = malloc(4ul * of->count);
		capacity = of->count;
	}
	if (!words)
		exit(4);
	return words;
}

static void fill(const struct object *to, uint32_t n)
{
	uint32_t *words = words_of(to);

	for (uint32_t i = 0; i < to->count; i++)
		words[i] = i * 2654435761u + n;
	if (!fails(cuMemcpyHtoD(to->at, words, 4ul * to->count), "copy to the device"))
		fails(cuCtxSynchronize(), "synchronize");
}

static void step(const struct object *of)
{
	if (!fails(launch_step(step_function, of->at, of->count), "launch"))
		fails(cuCtxSynchronize(), "synchronize");
}

/* All words; of large objects some in each page. */
static void check(const struct object *of, uint32_t n, unsigned steps)
{
	uint32_t *words = words_of(of), stride = scale > 1 ? 61 : 1;

	if (!fails(cuMemcpyDtoH(words, of->at, 4ul * of->count), "copy from the device"))
		for (uint32_t i = 0; i < of->count && !*wrong; i += stride) {
			uint32_t expected = i * 2654435761u + n;
			for (unsigned s = 0; s < steps; s++)
				expected = 3 * expected + i;
			if (words[i] != expected)
				snprintf(wrong, sizeof wrong, "word %u is %#x, not %#x", i,
					words[i], expected);
		}
}

static void detach(void)
{
	CUresult result = cuShmDt(object.at);

	if (result)
		result = cuIpcCloseMemHandle(object.at);
	if (result)
		result = cuMemFree(object.at);
	fails(result, "detach");
}

static void run(const char *line)
{
	char path[256];
	uint32_t a = 0, b = 0;

	if (sscanf(line, "key %u %u", &a, &b) == 2)
		key((int)a, b * scale, IPC_CREAT | 0600, 0);
	else if (sscanf(line, "open %u %u", &a, &b) == 2)
		key((int)a, b * scale, IPC_CREAT | 0644, 0);
	else if (sscanf(line, "peek %u %u", &a, &b) == 2)
		key((int)a, b * scale, 0444, SHM_RDONLY);
	else if (sscanf(line, "export %255s %u", path, &b) == 2)
		export_to(path, b * scale);
	else if (sscanf(line, "import %255s", path) == 1)
		import_from(path);
	else if (sscanf(line, "own %u %u", &a, &b) == 2) {
		make(&own, a * scale);
		if (!*wrong)
			fill(&own, b);
	} else if (sscanf(line, "fill %u", &a) == 1)
		fill(&object, a);
	else if (sscanf(line, "check %u %u", &a, &b) == 2)
		check(&object, a, b);
	else if (sscanf(line, "read %u %u", &a, &b) == 2)
		check(&own, a, b);
	else if (!strncmp(line, "step", 4))
		step(&object);
	else if (!strncmp(line, "work", 4))
		step(&own);
	else if (!strncmp(line, "leave", 5))
		fails(cuMemFree(own.at), "free");
	else if (!strncmp(line, "detach", 6))
		detach();
	else if (!strncmp(line, "remove", 6))
		fails(cuShmCtl(segment, IPC_RMID, NULL), "remove");
	else
		snprintf(wrong, sizeof wrong, "what is %s", line);
}

int main(int argc, char **argv)
{
	char line[512];

	step_function = begin_with(step_ptx, "step");
	if (argc > 1)
		scale = (uint32_t)atoi(argv[1]);
	while (fgets(line, sizeof line, stdin)) {
		*wrong = 0;
		run(line);
		printf("%s\n", *wrong ? wrong : "ok");
		fflush(stdout);
	}
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Arrays of every kind, with textures and surfaces, which keep what is in them and their handles while their memory may leave
 * the device. `arrays MIB` makes them, one of MIB MiB among them, and says "made". At each line "round" of its standard input it
 * reads what is in them, by textures and copies, says "round N wrong W", and puts something else there, by surfaces and
 * copies. At "alloc MIB" it allocates memory and says "allocated"; that is looked at, and changed, too. At "drop" it destroys the large
 * array and says "dropped"; at another line all and says "none". It ends at the end of its input.
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE 16
#define HOST_MIN (1 << 18) /* words; as the small ones, at least */

/* fetch: an element of a texture, to memory. put: a value to an element of a surface. */
static const char texels_ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry fetch(.param .u64 t, .param .u64 at, .param .u32 x, .param .u32 y)\n{\n"
	".reg .b64 %t, %at;\n.reg .b32 %x, %y, %r<4>;\n"
	"ld.param.u64 %t, [t];\nld.param.u64 %at, [at];\n"
	"ld.param.u32 %x, [x];\nld.param.u32 %y, [y];\n"
	"tex.2d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];\n"
	"st.global.u32 [%at], %r0;\nret;\n}\n"
	".visible .entry put(.param .u64 s, .param .u64 none, .param .u32 x, .param .u32 y,\n"
	".param .u32 value)\n{\n"
	".reg .b64 %s;\n.reg .b32 %x, %y, %v;\n"
	"ld.param.u64 %s, [s];\nld.param.u32 %x, [x];\nld.param.u32 %y, [y];\n"
	"ld.param.u32 %v, [value];\nshl.b32 %x, %x, 2;\n"
	"sust.b.2d.b32.trap [%s, {%x, %y}], %v;\nret;\n}\n";

struct kind {
	const char *name;
	size_t width, height, depth;
	unsigned flags, levels; /* levels: of which the second one is used; 0: not mipmapped */
	int by_objects;
	CUarray array;
	CUmipmappedArray all;
	CUtexObject texture;
	CUsurfObject surface;
};

static struct kind kinds[] = {
	{"plane", SIDE, SIDE, 0, CUDA_ARRAY3D_SURFACE_LDST, 0, 1},
	{"levels", 2 * SIDE, 2 * SIDE, 0, CUDA_ARRAY3D_SURFACE_LDST, 3, 1},
	{"volume", 20, 6, 5, 0, 0, 0}, {"layers", 12, 7, 4, CUDA_ARRAY3D_LAYERED, 0, 0},
	{"line", 100, 0, 0, 0, 0, 0}, {"cube", 8, 8, 6, CUDA_ARRAY3D_CUBEMAP, 0, 0},
	{"volume with levels", 40, 12, 10, 0, 2, 0},
	{"large", 4096, 0, 0, 0, 0, 0}, /* rows as many as are wanted */
};
#define LARGE (&kinds[sizeof kinds / sizeof *kinds - 1])
static size_t there = sizeof kinds / sizeof *kinds; /* of them: the large one goes first */

static CUfunction fetch, put;
static CUdeviceptr fetched;
static uint32_t *host; /* as many elements as the largest has */

static uint32_t element(const struct kind *k, size_t index, unsigned round)
{
	return (uint32_t)((k - kinds + 1) * 1000003u + index * 2654435761u + round * 65537u);
}

/* Of what is used: the array, or its second level. */
static size_t extent(const struct kind *k, size_t size)
{
	return !size ? 1 : k->levels ? size / 2 : size;
}

static size_t count(const struct kind *k)
{
	return extent(k, k->width) * extent(k, k->height) * extent(k, k->depth);
}

static void make(struct kind *k)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		k->width, k->height, k->depth, CU_AD_FORMAT_UNSIGNED_INT32, 1, k->flags};
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};

	if (k->levels) {
		must(cuMipmappedArrayCreate(&k->all, &shape, k->levels), k->name);
		must(cuMipmappedArrayGetLevel(&k->array, k->all, 1), "the second level");
	} else {
		must(cuArray3DCreate(&k->array, &shape), k->name);
	}
	resource.res.array.hArray = k->array;
	if (!k->by_objects)
		return;
	must(cuTexObjectCreate(&k->texture, &resource, &sampling, NULL), "make a texture");
	must(cuSurfObjectCreate(&k->surface, &resource), "make a surface");
}

static void copy(const struct kind *k, int in)
{
	CUDA_MEMCPY3D c = {.WidthInBytes = extent(k, k->width) * 4,
		.Height = extent(k, k->height),
		.Depth = extent(k, k->depth)};

	if (in) {
		c.srcMemoryType = CU_MEMORYTYPE_HOST;
		c.srcHost = host;
		c.srcPitch = c.WidthInBytes;
		c.srcHeight = c.Height;
		c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		c.dstArray = k->array;
	} else {
		c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		c.srcArray = k->array;
		c.dstMemoryType = CU_MEMORYTYPE_HOST;
		c.dstHost = host;
		c.dstPitch = c.WidthInBytes;
		c.dstHeight = c.Height;
	}
	must(cuMemcpy3D(&c), "copy an array");
}

static void read_texture(const struct kind *k)
{
	for (uint32_t i = 0; i < SIDE * SIDE; i++) {
		uint32_t x = i % SIDE, y = i / SIDE;
		CUdeviceptr at = fetched + i * sizeof x;
		void *params[] = {(void *)&k->texture, &at, &x, &y};
		must(cuLaunchKernel(fetch, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
	}
	must(cuMemcpyDtoH(host, fetched, SIDE * SIDE * sizeof *host), "read what was fetched");
}

static void write_surface(const struct kind *k, unsigned round)
{
	unsigned long long none = 0;

	for (uint32_t i = 0; i < SIDE * SIDE; i++) {
		uint32_t x = i % SIDE, y = i / SIDE, value = element(k, i, round);
		void *params[] = {(void *)&k->surface, &none, &x, &y, &value};
		must(cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
	}
}

static size_t wrong(const struct kind *k, unsigned round, const char *how)
{
	size_t found = 0;

	for (size_t i = 0; i < count(k); i++)
		found += host[i] != element(k, i, round);
	if (found)
		fprintf(stderr, "arrays: round %u: %zu elements of \"%s\" are wrong by %s\n", round,
			found, k->name, how);
	return found;
}

static size_t check(const struct kind *k, unsigned round)
{
	size_t found = 0;

	if (k->by_objects) {
		read_texture(k);
		found = wrong(k, round, "texture");
	}
	copy(k, 0);
	return found + wrong(k, round, "copy");
}

static void fill(const struct kind *k, unsigned round, int by_objects)
{
	if (by_objects) {
		write_surface(k, round);
		return;
	}
	for (size_t i = 0; i < count(k); i++)
		host[i] = element(k, i, round);
	copy(k, 1);
}

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

/* ---- other memory ---- */

static CUdeviceptr memory;
static size_t memory_words;

static void fill_memory(unsigned round)
{
	must(cuMemsetD32(memory, round * 7 + 1, memory_words), "fill memory");
}

static void allocate(size_t mib, unsigned round)
{
	memory_words = mib << 18;
	must(cuMemAlloc(&memory, memory_words * 4), "allocate memory");
	fill_memory(round);
	say("allocated");
}

static size_t check_memory(unsigned round)
{
	size_t found = 0;

	for (size_t done = 0; done < memory_words; done += 1 << 18) {
		must(cuMemcpyDtoH(host, memory + done * 4, 4 << 18), "copy memory back");
		for (size_t i = 0; i < 1 << 18; i++)
			found += host[i] != round * 7 + 1;
	}
	if (found)
		fprintf(stderr, "arrays: round %u: %zu words of memory are wrong\n", round, found);
	return found;
}

static void destroy(struct kind *k)
{
	if (k->by_objects) {
		must(cuTexObjectDestroy(k->texture), "destroy a texture");
		must(cuSurfObjectDestroy(k->surface), "destroy a surface");
	}
	must(k->levels ? cuMipmappedArrayDestroy(k->all) : cuArrayDestroy(k->array),
		"destroy an array");
}

static void drop(void)
{
	destroy(LARGE);
	there--;
	say("dropped");
}

static void play(unsigned round)
{
	size_t found = check_memory(round);

	for (size_t k = 0; k < there; k++) {
		found += check(&kinds[k], round);
		fill(&kinds[k], round + 1, kinds[k].by_objects);
	}
	if (memory_words)
		fill_memory(round + 1);
	must(cuCtxSynchronize(), "wait");
	printf("round %u wrong %zu\n", round, found);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	CUmodule module;
	char line[32];

	LARGE->height = mib << 6; /* rows of 16 KiB */
	host = malloc((count(LARGE) + HOST_MIN) * sizeof *host);
	if (!host)
		return 1;
	fetch = begin_with(texels_ptx, "fetch");
	must(cuModuleLoadData(&module, texels_ptx), "load the module");
	must(cuModuleGetFunction(&put, module, "put"), "find put");
	must(cuMemAlloc(&fetched, SIDE * SIDE * sizeof *host), "allocate");
	for (size_t k = 0; k < there; k++) {
		make(&kinds[k]);
		fill(&kinds[k], 0, 0);
	}
	say("made");
	for (unsigned round = 0; fgets(line, sizeof line, stdin);) {
		if (!strncmp(line, "alloc ", 6))
			allocate(strtoul(line + 6, NULL, 10), round);
		else if (!strcmp(line, "round\n"))
			play(round++);
		else if (!strcmp(line, "drop\n"))
			drop();
		else
			break;
	}
	for (size_t k = 0; k < there; k++)
		destroy(&kinds[k]);
	say("none");
	getchar();
	return 0;
}

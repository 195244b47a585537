/* SPDX-License-Identifier: MIT
 *
 * The first use of libraries' kernels: loads libraries as those of PyTorch are, finds their kernels and launches each once.
 * `modules [LIBRARIES [KERNELS [KIB]]]` prints {"metric": …, "value": …, "unit": "us"}, a line each: per library, and per
 * kernel. The machine code is none that a device could run: it is for the driver that is made for tests
 * (tests/device/fake_cuda.c), which finds in it the names that it looks for. An image has the code of KIB KiB packed, for one
 * architecture, and as much for another, as nvcc makes it for several.
 */
#include <elf.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "proto/fatbin.h"

#define ELF_CUDA 190
#define KERNELS_MAX 16
#define SECTIONS_A_KERNEL 4

struct library {
	CUlibrary library;
	CUkernel kernels[KERNELS_MAX];
	void *image;
};

static unsigned library_count = 300, kernel_count = 7, image_kib = 1024;

/* Bytes that pack as machine code does, to about a third. */
static void fill(unsigned char *at, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 1103515245u + 12345u;
		at[i] = i % 16 < 5 ? (unsigned char)(seed >> 16) : (unsigned char)(i % 16);
	}
}

/* What the driver for tests reads stands behind the header; sections and symbols as there are for each kernel. */
static unsigned char *make_code(unsigned seed, size_t bytes)
{
	unsigned sections = 1 + kernel_count * SECTIONS_A_KERNEL + 2;
	size_t names_at = bytes - 4096, symbols_at = names_at - kernel_count * sizeof(Elf64_Sym),
	       headers_at = symbols_at - sections * sizeof(Elf64_Shdr);
	unsigned char *code = calloc(1, bytes);
	Elf64_Shdr *headers = (Elf64_Shdr *)(code + headers_at);
	Elf64_Sym *symbols = (Elf64_Sym *)(code + symbols_at);
	char *names = (char *)code + names_at, *text = (char *)code + sizeof(Elf64_Ehdr);
	size_t name = 1;

	fill(code + 4096, headers_at - 4096, seed);
	*(Elf64_Ehdr *)code = (Elf64_Ehdr){
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_machine = ELF_CUDA,
		.e_shoff = headers_at,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = (Elf64_Half)sections,
		.e_shstrndx = (Elf64_Half)(sections - 1),
	};
	text += sprintf(text, "sm_90");
	for (unsigned i = 0; i < kernel_count; i++) {
		text += sprintf(text, " .entry kernel%u", i);
		symbols[i] = (Elf64_Sym){.st_name = (Elf64_Word)name,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = (Elf64_Half)(1 + i)};
		name += (size_t)sprintf(names + name, "kernel%u", i) + 1;
	}
	for (unsigned i = 1; i < sections - 2; i++) {
		headers[i] = (Elf64_Shdr){.sh_name = (Elf64_Word)name,
			.sh_type = SHT_PROGBITS,
			.sh_offset = 4096,
			.sh_size = (headers_at - 4096) / sections};
		name += (size_t)sprintf(names + name, ".text.kernel%u", i) + 1;
	}
	headers[sections - 2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
		.sh_offset = symbols_at,
		.sh_size = kernel_count * sizeof(Elf64_Sym),
		.sh_link = sections - 1,
		.sh_entsize = sizeof(Elf64_Sym)};
	headers[sections - 1] =
		(Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = 4096};
	return code;
}

static size_t add_entry(unsigned char *at, unsigned sm, unsigned char *code, size_t bytes)
{
	int room = LZ4_compressBound((int)bytes), packed;
	struct fatbin_entry entry = {.kind = FATBIN_CODE,
		.version = 0x101,
		.header_bytes = sizeof entry,
		.sm = sm,
		.flags = FATBIN_LZ4,
		.unpacked_bytes = bytes};

	packed = LZ4_compress_default(
		(const char *)code, (char *)at + sizeof entry, (int)bytes, room);
	entry.packed_bytes = (uint32_t)packed;
	entry.payload_bytes = ((uint64_t)packed + 7) & ~7ull;
	memcpy(at, &entry, sizeof entry);
	free(code);
	return sizeof entry + entry.payload_bytes;
}

static void *make_image(unsigned seed)
{
	size_t bytes = (size_t)image_kib * 2560; /* which packs to that */
	unsigned char *image = malloc(2 * (size_t)LZ4_compressBound((int)bytes) + 4096);
	struct fatbin_header header = {FATBIN_MAGIC, FATBIN_VERSION, sizeof header, 0};

	for (unsigned sm = 80; sm <= 90; sm += 10)
		header.bytes += add_entry(image + sizeof header + header.bytes, sm,
			make_code(seed + sm, bytes), bytes);
	memcpy(image, &header, sizeof header);
	return image;
}

static void report(const char *metric, uint64_t begin, unsigned count)
{
	printf("{\"metric\": \"%s\", \"value\": %.2f, \"unit\": \"us\"}\n", metric,
		(double)(bench_now_ns() - begin) / 1e3 / count);
}

static void find_kernels(struct library *library)
{
	for (unsigned i = 0; i < kernel_count; i++) {
		char name[32];
		snprintf(name, sizeof name, "kernel%u", i);
		must(cuLibraryGetKernel(&library->kernels[i], library->library, name),
			"find a kernel");
	}
}

/* As NVIDIA's runtime does before it launches a kernel for the first time. */
static void launch_first(CUkernel kernel)
{
	CUfunction function;
	int value;

	must(cuKernelGetFunction(&function, kernel), "have a function");
	must(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function), "ask");
	launch(function);
}

int main(int argc, char **argv)
{
	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *yes = (void *)1;
	struct library *libraries;
	uint64_t begin;

	if (argc > 1)
		library_count = (unsigned)atoi(argv[1]);
	if (argc > 2)
		kernel_count = (unsigned)atoi(argv[2]);
	if (argc > 3)
		image_kib = (unsigned)atoi(argv[3]);
	if (!library_count || !kernel_count || kernel_count > KERNELS_MAX || image_kib < 16)
		bench_require(1, "begin", "at most 16 kernels, and images of 16 KiB at least");
	libraries = calloc(library_count, sizeof *libraries);
	open_device();
	for (unsigned i = 0; i < library_count; i++)
		libraries[i].image = i < 8 ? make_image(i) : libraries[i % 8].image;
	begin = bench_now_ns();
	for (unsigned i = 0; i < library_count; i++)
		must(cuLibraryLoadData(&libraries[i].library, libraries[i].image, NULL, NULL, 0,
			     &preserved, &yes, 1),
			"load a library");
	report("library", begin, library_count);
	begin = bench_now_ns();
	for (unsigned i = 0; i < library_count; i++) {
		CUmodule module;
		must(cuLibraryGetModule(&module, libraries[i].library), "load the module");
	}
	report("module", begin, library_count);
	begin = bench_now_ns();
	for (unsigned i = 0; i < library_count; i++)
		find_kernels(&libraries[i]);
	report("kernel", begin, library_count * kernel_count);
	begin = bench_now_ns();
	for (unsigned i = 0; i < library_count; i++)
		for (unsigned k = 0; k < kernel_count; k++) {
			launch_first(libraries[i].kernels[k]);
			must(cuStreamSynchronize(NULL), "wait");
		}
	report("first_launch", begin, library_count * kernel_count);
	begin = bench_now_ns();
	for (unsigned i = 0; i < library_count; i++)
		for (unsigned k = 0; k < kernel_count; k++) {
			launch_first(libraries[i].kernels[k]);
			must(cuStreamSynchronize(NULL), "wait");
		}
	report("second_launch", begin, library_count * kernel_count);
	return 0;
}

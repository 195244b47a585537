/* SPDX-License-Identifier: MIT
 *
 * cuLink: PTX texts, one of which calls a function and uses a variable of another. What is private to a text stays so, and
 * of weak definitions one is taken.
 */
#include "driver.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
static const char caller[] = HEAD ".extern .func (.param .u32 result) twice(.param .u32 x);\n"
				  ".extern .global .u32 calls;\n"
				  ".visible .entry run(.param .u64 data)\n"
				  "{\n"
				  "\t.reg .u32 %x; .reg .u64 %d; .param .u32 in; .param .u32 out;\n"
				  "\tld.param.u64 %d, [data];\n"
				  "\tld.global.u32 %x, [%d];\n"
				  "\tst.param.u32 [in], %x;\n"
				  "\tcall (out), twice, (in);\n"
				  "\tld.param.u32 %x, [out];\n"
				  "\tst.global.u32 [%d], %x;\n"
				  "\tld.global.u32 %x, [calls];\n"
				  "\tst.global.u32 [%d+4], %x;\n"
				  "\tret;\n"
				  "}\n";
static const char callee[] = HEAD ".visible .global .u32 calls = 10;\n"
				  ".visible .func (.param .u32 result) twice(.param .u32 x)\n"
				  "{\n"
				  "\t.reg .u32 %x, %c;\n"
				  "\tld.param.u32 %x, [x];\n"
				  "\tadd.u32 %x, %x, %x;\n"
				  "\tld.global.u32 %c, [calls];\n"
				  "\tadd.u32 %c, %c, 1;\n"
				  "\tst.global.u32 [calls], %c;\n"
				  "\tst.param.u32 [result], %x;\n"
				  "\tret;\n"
				  "}\n";

/* Its `calls` and `helper` are its own; `shared_by_all` is whose comes first. */
static const char bystander[] = HEAD ".global .u32 calls = 1000;\n"
				     ".weak .global .u32 shared_by_all = 3;\n"
				     ".func (.param .u32 result) helper()\n"
				     "{\n"
				     "\t.reg .u32 %x, %y;\n"
				     "\tld.global.u32 %x, [calls];\n"
				     "\tld.global.u32 %y, [shared_by_all];\n"
				     "\tadd.u32 %x, %x, %y;\n"
				     "\tst.param.u32 [result], %x;\n"
				     "\tret;\n"
				     "}\n"
				     ".visible .entry look(.param .u64 data)\n"
				     "{\n"
				     "\t.reg .u32 %x; .reg .u64 %d; .param .u32 out;\n"
				     "\tld.param.u64 %d, [data];\n"
				     "\tcall (out), helper;\n"
				     "\tld.param.u32 %x, [out];\n"
				     "\tst.global.u32 [%d], %x;\n"
				     "\tret;\n"
				     "}\n";
static const char weak[] = HEAD ".weak .global .u32 shared_by_all = 3;\n"
				".func helper()\n{\n\tret;\n}\n";

/* Kernels made of templates are weak. Memory that the launch gives is aligned as the strictest text wants it. */
#define TWIN                                                                                       \
	".weak .entry twin(.param .u64 data)\n"                                                    \
	"{\n"                                                                                      \
	"\t.reg .u32 %x; .reg .u64 %d; .shared .align 4 .b8 pad[4];\n"                             \
	"\tld.param.u64 %d, [data];\n"                                                             \
	"\tmov.u32 %x, pad;\n"                                                                     \
	"\tst.shared.u32 [%x], %x;\n"                                                              \
	"\tmov.u32 %x, scratch;\n"                                                                 \
	"\tand.b32 %x, %x, 15;\n"                                                                  \
	"\tst.global.u32 [%d], %x;\n"                                                              \
	"\tret;\n"                                                                                 \
	"}\n"
static const char loose[] = HEAD ".extern .shared .align 4 .b8 scratch[];\n" TWIN;
static const char strict[] = HEAD ".extern .shared .align 16 .b8 scratch[];\n" TWIN;

static void add(CUlinkState linker, const char *text, size_t bytes, const char *name)
{
	CHECK(cuLinkAddData(linker, CU_JIT_INPUT_PTX, (void *)text, bytes, name, 0, NULL, NULL));
}

int main(void)
{
	CUlinkState linker;
	CUmodule linked;
	CUfunction run, look, twin;
	CUdeviceptr data;
	void *image;
	size_t bytes;

	begin();
	CHECK(cuLinkCreate(0, NULL, NULL, &linker));
	add(linker, caller, sizeof caller, "caller");
	add(linker, bystander, sizeof bystander, "bystander");
	add(linker, callee, sizeof callee, "callee");
	add(linker, weak, sizeof weak, "weak");
	add(linker, loose, sizeof loose, "loose");
	add(linker, strict, sizeof strict, "strict");
	CHECK(cuLinkComplete(linker, &image, &bytes));
	CHECK(cuModuleLoadData(&linked, image));
	CHECK(cuLinkDestroy(linker));
	CHECK(cuModuleGetFunction(&run, linked, "run"));
	CHECK(cuModuleGetFunction(&look, linked, "look"));
	CHECK(cuModuleGetFunction(&twin, linked, "twin"));
	data = numbers(2, 21);
	CHECK(cuLaunchKernel(run, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&data}, NULL));
	REQUIRE(number_at(data, 0) == 42 && number_at(data, 1) == 11);
	CHECK(cuLaunchKernel(look, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&data}, NULL));
	REQUIRE(number_at(data, 0) == 1003);
	CHECK(cuLaunchKernel(twin, 1, 1, 1, 1, 1, 1, 16, NULL, (void *[]){&data}, NULL));
	REQUIRE(number_at(data, 0) == 0);
	return passed();
}

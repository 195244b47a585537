/* SPDX-License-Identifier: MIT
 *
 * PTX of every version, for targets of every age: as compilers of 2008 to 2025 wrote it.
 */
#include "driver.h"

/* Until 2.0 instructions used parameters by name alone; this form has been valid since 1.4. */
static const char body[] = ".entry k (.param .u64 out)\n"
			   "{\n"
			   "\t.reg .u64 %d;\n"
			   "\tld.param.u64 %d, [out];\n"
			   "\t.reg .u32 %v;\n"
			   "\tmov.u32 %v, 77;\n"
			   "\tst.global.u32 [%d], %v;\n"
			   "\texit;\n"
			   "}\n";

static void run(const char *version, const char *target)
{
	char text[1000];
	CUmodule other;
	CUfunction k;
	CUdeviceptr out = numbers(1, 0);
	/* .address_size came with 2.3; before, a pointer's size was in the types alone. */
	const char *size = strcmp(version, "2.3") >= 0 ? ".address_size 64\n" : "";

	snprintf(text, sizeof text, ".version %s\n.target %s\n%s%s", version, target, size, body);
	if (cuModuleLoadData(&other, text) != CUDA_SUCCESS) {
		printf("version %s for %s is not taken\n", version, target);
		exit(1);
	}
	CHECK(cuModuleGetFunction(&k, other, "k"));
	CHECK(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&out}, NULL));
	REQUIRE(number_at(out, 0) == 77);
	CHECK(cuModuleUnload(other));
	CHECK(cuMemFree(out));
}

int main(void)
{
	static const char *versions[][2] = {{"1.4", "sm_13"}, {"2.0", "sm_20"}, {"2.3", "sm_20"},
		{"3.0", "sm_30"}, {"3.1", "sm_35"}, {"4.0", "sm_30"}, {"4.3", "sm_52"},
		{"5.0", "sm_60"}, {"6.0", "sm_60"}, {"6.3", "sm_70"}, {"6.5", "sm_75"},
		{"7.0", "sm_70"}, {"7.4", "sm_75, texmode_independent"}, {"7.8", "sm_70"},
		{"8.0", "sm_75"}, {"8.5", "sm_52"}};

	begin();
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
		run(versions[i][0], versions[i][1]);
	return passed();
}

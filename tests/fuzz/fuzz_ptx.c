/* SPDX-License-Identifier: MIT
 *
 * PTX text through the parser and, when it parses, one kernel through the compiler; and through what rewrites kernels so that
 * they leave between blocks, whose text must parse again.
 */
#include <stdlib.h>

#include "device/cpu/ptx/ptx.h"
#include "device/preempt/preempt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void rewrite(const uint8_t *data, size_t size)
{
	struct preempt_module *made;
	struct ptx_module *module;
	struct ptx_log none = {0};
	size_t fit = 0, kernels = 0;

	if (preempt_rewrite((const char *)data, size, 1 << 10, &made))
		return;
	for (size_t k = 0; k < made->count; k++) {
		fit += !made->kernels[k].unfit;
		kernels += 1 + !made->kernels[k].unfit + !made->kernels[k].unfit_loops;
	}
	if ((fit > 0) != (made->text != NULL))
		abort();
	if (fit && ptx_parse(made->text, made->length, &none, &module))
		abort();
	if (fit && ptx_kernel_count(module) != kernels)
		abort();
	if (fit)
		ptx_module_destroy(module);
	preempt_module_destroy(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t block[3] = {33, 2, 1};
	char text[512];
	struct ptx_log log = {text, sizeof(text), 0};
	struct ptx_module *module;
	size_t bytes, align, object_size;
	void *object, *globals;

	if (size > 16384 || ptx_parse((const char *)data, size, &log, &module))
		return 0;
	ptx_globals_layout(module, &bytes, &align);
	if (bytes < 1 << 20 && (globals = malloc(bytes + 1))) {
		ptx_globals_init(module, globals);
		free(globals);
	}
	if (ptx_kernel_count(module) &&
		!ptx_compile(module, ptx_kernel_at(module, 0), block, &log, &object, &object_size))
		free(object);
	ptx_module_destroy(module);
	rewrite(data, size);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Says of which compute capability the first device is, and what comes of loading PTX for each architecture of the arguments.
 */
#include "program.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	int major, minor;
	char text[128];
	CUcontext context;
	CUmodule module;

	must(cuInit(0), "begin");
	must(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), "ask");
	must(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0), "ask");
	printf("device %d.%d\n", major, minor);
	must(cuDevicePrimaryCtxRetain(&context, 0), "make a context");
	must(cuCtxSetCurrent(context), "use it");
	must(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), "ask");
	printf("context %d\n", major);
	for (int i = 1; i < argc; i++) {
		const char *name = "";

		snprintf(text, sizeof text,
			".version 8.7\n.target sm_%s\n.address_size 64\n.entry k() { ret; }\n",
			argv[i]);
		cuGetErrorName(cuModuleLoadData(&module, text), &name);
		printf("%s %s\n", argv[i], name);
	}
	return 0;
}

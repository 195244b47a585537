/* SPDX-License-Identifier: MIT
 *
 * Errors. Every call of gdev returns 0 or a negative code: an -errno of the system, or one of these,
 * which have no errno of their own. They are above any errno, and part of the wire: never renumber.
 */
#ifndef GDEV_ERROR_H
#define GDEV_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, what gdev_strerror says) */
#define GDEV_ERRORS(X)                                                                               \
	X(GDEV_E_ILLEGAL_ADDRESS, 1024, "a kernel or copy touched memory it does not own")           \
	X(GDEV_E_TRAP, 1025, "a kernel executed a trap instruction")                                 \
	X(GDEV_E_ASSERT, 1026, "a device-side assert failed")                                        \
	X(GDEV_E_LAUNCH_TIMEOUT, 1027, "a kernel ran longer than its virtual GPU allows")            \
	X(GDEV_E_SESSION_LOST, 1028, "the worker behind this session is gone")                       \
	X(GDEV_E_INVALID_IMAGE, 1029, "the module is not code that this device accepts")             \
	X(GDEV_E_INVALID_PTX, 1030, "the PTX does not assemble; see the JIT log")                    \
	X(GDEV_E_UNSUPPORTED_PTX, 1031, "the PTX uses what this device lacks; see the JIT log")      \
	X(GDEV_E_NO_BINARY, 1032, "the module carries no code for this device")                      \
	X(GDEV_E_INVALID_LAUNCH, 1033, "the launch configuration exceeds a limit of the kernel")     \
	X(GDEV_E_OUT_OF_RESOURCES, 1034, "the launch needs more resources than the device has")      \
	X(GDEV_E_INVALID_HANDLE, 1035, "no such module, function, stream or event")                  \
	X(GDEV_E_NOT_READY, 1036, "the work asked about is not done yet")                            \
	X(GDEV_E_DEVICE_LOST, 1037, "the device failed or went away")                                \
	X(GDEV_E_NO_DAEMON, 1038, "no gdevd answers; start one, or use `gdev run`")                  \
	X(GDEV_E_PROTOCOL, 1039, "the peer speaks no version of the protocol that we know")          \
	X(GDEV_E_SYMBOL_NOT_FOUND, 1040, "the module has no kernel or variable of that name")        \
	X(GDEV_E_SHARED_LIMIT, 1041,                                                                 \
		"the user, or the virtual GPU, may have no more shared memory; see `gdev shm list`") \
	X(GDEV_E_DRAINED, 1042, "the device is drained: it takes no new sessions")                   \
	X(GDEV_E_STACK_OVERFLOW, 1043, "the calls of a kernel's thread need more than its stack")

enum gdev_error {
#define GDEV_ERROR_ENUM(name, value, text) name = value,
	GDEV_ERRORS(GDEV_ERROR_ENUM)
#undef GDEV_ERROR_ENUM
};

#pragma GCC visibility push(default)
/* A sentence for a code as returned (negative) or its absolute value; never NULL. Thread-safe. */
const char *gdev_strerror(int error);
#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif

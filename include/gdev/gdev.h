/* SPDX-License-Identifier: MIT
 *
 * The Gdev API of "Gdev: First-Class GPU Resource Management in the Operating System" (USENIX ATC 2012,
 * section 3), in which the GPU is used the way files are: open a virtual GPU, allocate, copy, launch,
 * wait, close. Link with -lgdev (pkg-config gdev). gdev/session.h is the richer interface below it.
 *
 * Conventions. Calls return 0 or a negative code (gdev/error.h, gdev_strerror); a result comes back
 * through the last parameter, untouched on failure. Any thread may use a handle; closing it is the last
 * call on it. Sizes are bytes. A device address is a uint64_t, the same in every kernel and in every copy
 * of the process.
 *
 * Order. The commands of one handle run in the order of the calls; those of different handles do not wait
 * for each other. An _async call gives an id that gsync waits for (the pointer may be NULL). What a command
 * does wrong after its call has returned comes back from gsync, gbarrier, or a later call.
 */
#ifndef GDEV_GDEV_H
#define GDEV_GDEV_H

#include <stdint.h>

#include <gdev/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct gdev_handle;
struct gdev_module;
struct gdev_function;

/* How many virtual GPUs this process sees: those of $GDEV_VGPU, else gdev0, gdev1, … (section 6). */
int gdevice_count(int *count);

/* Opens the virtual GPU of that number, as /dev/gdev0, /dev/gdev1, … were in the paper (section 6).
 * -GDEV_E_NO_DAEMON, -EACCES, -ENODEV. */
int gopen(int minor, struct gdev_handle **handle);
/* The virtual GPU of that name; NULL: the first that this process sees. */
int gopen_name(const char *vgpu, struct gdev_handle **handle);
/* Waits for the handle's commands. Its memory and modules are freed when the process has closed its last
 * handle on the virtual GPU. NULL is fine. */
int gclose(struct gdev_handle *handle);

/* Device memory, 512-byte aligned. -ENOMEM. */
int gmalloc(struct gdev_handle *handle, uint64_t size, uint64_t *address);
/* Waits for all commands of the process on this virtual GPU first. */
int gfree(struct gdev_handle *handle, uint64_t address);
/* Page-locked host memory: copies to and from it go without an intermediate buffer, and kernels can use
 * it at the same address (section 4.1). */
int gmalloc_dma(struct gdev_handle *handle, uint64_t size, void **buffer);
int gfree_dma(struct gdev_handle *handle, void *buffer);
/* Lets the process read and write device memory directly (section 4.1, "direct I/O access"). -ENOTSUP:
 * not on this device. */
int gmap(struct gdev_handle *handle, uint64_t address, uint64_t size, void **buffer);
/* The memory stays as it is; `buffer` must not be used any more. */
int gunmap(struct gdev_handle *handle, void *buffer);

/* Copies. Buffers are any memory of the process; other than gmalloc_dma's it is copied in two stages, in
 * chunks that overlap (section 4.1). The buffer of an _async copy may be used again after gsync. */
int gmemcpy_to_device(
	struct gdev_handle *handle, uint64_t destination, const void *buffer, uint64_t size);
int gmemcpy_to_device_async(struct gdev_handle *handle, uint64_t destination, const void *buffer,
	uint64_t size, uint32_t *id);
int gmemcpy_from_device(struct gdev_handle *handle, void *buffer, uint64_t source, uint64_t size);
int gmemcpy_from_device_async(
	struct gdev_handle *handle, void *buffer, uint64_t source, uint64_t size, uint32_t *id);
/* Within the device. */
int gmemcpy(struct gdev_handle *handle, uint64_t destination, uint64_t source, uint64_t size);
int gmemcpy_async(struct gdev_handle *handle, uint64_t destination, uint64_t source, uint64_t size,
	uint32_t *id);
int gmemset(struct gdev_handle *handle, uint64_t destination, uint8_t value, uint64_t size);

/* Code: PTX text, a fat binary, or what else the device takes. Compiler messages go to `log` (may be
 * NULL/0), NUL-terminated. */
int gmodule_load(struct gdev_handle *handle, const void *image, uint64_t size, char *log,
	uint64_t log_size, struct gdev_module **module);
int gmodule_load_file(struct gdev_handle *handle, const char *path, char *log, uint64_t log_size,
	struct gdev_module **module);
int gmodule_unload(struct gdev_handle *handle, struct gdev_module *module);
/* The function lives as long as the module. Its parameter layout: gdev_function_info (session.h). */
int gmodule_function(struct gdev_handle *handle, struct gdev_module *module, const char *name,
	struct gdev_function **function);
int gmodule_global(struct gdev_handle *handle, struct gdev_module *module, const char *name,
	uint64_t *address, uint64_t *size);

struct gdev_kernel {
	struct gdev_function *function;
	uint32_t grid[3], block[3]; /* each at least 1 */
	uint32_t shared_bytes;      /* dynamic shared memory */
	/* The parameters as the kernel sees them: each at its offset. */
	const void *params;
	uint32_t param_bytes;
	/* Or, when not NULL, a pointer to each parameter. */
	void *const *arguments;
};

/* Returns as soon as the launch is written down. */
int glaunch(struct gdev_handle *handle, const struct gdev_kernel *kernel, uint32_t *id);

#define GDEV_FOREVER UINT64_MAX

/* Waits until the command `id` of this handle, and those before it, are done; not longer than
 * timeout_ns: -GDEV_E_NOT_READY. 0 only looks. Prints what kernels printed. */
int gsync(struct gdev_handle *handle, uint32_t id, uint64_t timeout_ns);
/* Waits for all commands of this handle. */
int gbarrier(struct gdev_handle *handle);

enum gdev_query_type {
	GQUERY_MEMORY_BYTES,      /* of the virtual GPU */
	GQUERY_MEMORY_FREE_BYTES, /* and what nobody uses of it */
	GQUERY_MULTIPROCESSORS,
	GQUERY_CHUNK_BYTES, /* of two-stage copies */
	GQUERY_LAUNCHES,    /* of this process on the virtual GPU, so far */
	GQUERY_COMPUTE_NS,
	GQUERY_TO_DEVICE_BYTES,
	GQUERY_FROM_DEVICE_BYTES,
};

int gquery(struct gdev_handle *handle, enum gdev_query_type type, uint64_t *result);

enum gdev_tune_type {
	GTUNE_CHUNK_BYTES,  /* of two-stage copies (section 4.1, figure 3) */
	GTUNE_INLINE_BYTES, /* up to here a copy to the device rides in its command (figure 4) */
	GTUNE_SPIN_NS, /* ns that gsync spins before it sleeps; a tenth or twice that, when waits take longer */
};

int gtune(struct gdev_handle *handle, enum gdev_tune_type type, uint64_t value);

/* Shared device memory (section 4.2), as shmget, shmat, shmdt and shmctl. command: IPC_STAT fills the
 * struct gdev_shm_info (session.h) at `buffer`, IPC_SET takes its mode, IPC_RMID removes. gshmget with flags 0 makes what
 * is not there, as the first Gdev's did, unless size is 0. */
int gshmget(struct gdev_handle *handle, int32_t key, uint64_t size, int flags, uint32_t *id);
int gshmat(struct gdev_handle *handle, uint32_t id, int flags, uint64_t *address);
int gshmdt(struct gdev_handle *handle, uint64_t address);
int gshmctl(struct gdev_handle *handle, uint32_t id, int command, void *buffer);

/* Makes memory of `owner` usable, and keeps it alive, through `user` until gunref, also when the owner
 * frees it. -EXDEV: they are on different virtual GPUs; use gshmget. */
int gref(struct gdev_handle *owner, uint64_t address, uint64_t size, struct gdev_handle *user,
	uint64_t *user_address);
int gunref(struct gdev_handle *user, uint64_t address);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

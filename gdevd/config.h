/* SPDX-License-Identifier: MIT
 *
 * gdevd's configuration: defaults, then the file, then the command line. gdev.conf(5) describes the
 * file; the table in config.c is what it may contain.
 */
#ifndef GDEV_GDEVD_CONFIG_H
#define GDEV_GDEVD_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/log.h"
#include "proto/control.h"

#define CONFIG_DEFAULT_VGPU "gdev%u" /* of a device that has no other */
#define CONFIG_ANY_DEVICE "any"
#define CONFIG_ERROR_MAX 512

/* Whether kernels leave the device between blocks where they have to be rewritten for that. */
enum config_preempt {
	PREEMPT_ASKED, /* those of programs that ask for it */
	PREEMPT_OFF,
	PREEMPT_BLOCKS,
	PREEMPT_LOOPS,
};

const char *config_preempt_name(enum config_preempt preempt);

struct config_vgpu {
	struct list link;
	char name[CONTROL_NAME_MAX];
	char device[32]; /* "": gdevN is the N-th device's, any other the first
			  * one's; CONFIG_ANY_DEVICE */
	uid_t owner;
	gid_t group;
	mode_t mode;                    /* of its socket */
	uint64_t memory_bytes;          /* 0: what the device has */
	uint64_t shared_bytes;          /* of segments; UINT64_MAX: as its memory */
	uint64_t time_limit_ms;         /* of a kernel; 0: none */
	uint64_t compute_pct, copy_pct; /* 0: a part of what the others leave */
	char policy[32];                /* among its contexts; "": as the device's */
	int64_t priority;
	bool strict;
	enum config_preempt preempt;
	uint64_t compute_capability; /* times ten; 0: the device's own */
	bool from_file; /* the configuration's, which says the same at the next start */
};

/* [policy NAME]: a setting of a policy of the scheduler. */
struct config_setting {
	struct list link;
	char policy[32], name[32];
	int64_t value;
};

/* How clients are to copy on a device; 0: the library's default. `gdev tune` measures and writes it. And whether it
 * takes new sessions, which is set at run time. */
struct config_device {
	struct list link;
	char name[32];
	uint64_t inline_bytes, chunk_bytes, copy_threads;
	bool drained;
	char stand_in[32]; /* drained: where its virtual GPUs begin sessions; "": nowhere */
};

#define CONFIG_DEVICES_MAX 64

/* The devices that gdevd serves. */
struct config_served {
	unsigned count; /* 0: what the machine has, until config_finish_defaults() */
	struct config_served_device {
		char name[32];        /* "cpu", "cuda:0"; no two have the same */
		char backend[32];     /* what its workers are told */
		unsigned part, parts; /* of what the backend has */
	} devices[CONFIG_DEVICES_MAX];
};

struct config {
	struct config_served served;
	uint64_t device_memory; /* bytes; 0: the device's default */
	uint64_t host_memory;   /* page-locked, of a session; 0: half of the machine's */
	uint64_t worker_memory; /* a worker's own; 0: a quarter of the machine's, 4 GiB at least */
	/* For objects that are not on the device; UINT64_MAX: half of the machine's. */
	uint64_t host_swap;
	uint64_t file_swap;        /* the same in files, when that is used up; 0: none */
	char swap_directory[108];  /* where these are; "": the state directory */
	uint64_t swap_reserve_pct; /* of the device, kept free as temporary swap space */
	uint64_t threads;          /* 0: the device's default */
	bool worker_cgroups;       /* one for each worker, where that can be */
	uint64_t warm_workers, max_workers;
	uint64_t warm_memory;    /* what the warm ones may hold of the device; 0: an eighth of it */
	uint64_t worker_idle_ns; /* a surplus warm worker leaves after this */
	/* Then an idle session gives its context back; UINT64_MAX: never. */
	uint64_t retire_after_ns;
	uint64_t context_memory; /* software GPU: what a context is said to take of its memory */
	uint64_t sessions_per_uid;
	uint64_t shared_per_uid; /* bytes of segments; UINT64_MAX: half of the device's memory */
	uint64_t cache_bytes;    /* per uid */
	uint64_t quantum_ns;     /* 0: the device's default */
	char policy[32];         /* among virtual GPUs */
	bool one_queue;          /* SDQ: one for all resources; else MRQ, one a resource */
	char worker_user[64];
	struct config_address { /* where metrics are served over TCP; port 0: nowhere */
		char host[46];
		uint16_t port;
	} metrics;
	enum log_level log_level;
	struct list devices;  /* struct config_device */
	struct list vgpus;    /* struct config_vgpu; not empty after config_finish_defaults() */
	struct list settings; /* struct config_setting */
};

/* Writes the sentence to `text` (CONFIG_ERROR_MAX bytes), and returns `error`. */
int config_refuse(char *text, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void config_init(struct config *config);
void config_finish(struct config *config);

/* Reads a file over what is there. 0, -ENOENT when there is none, or an error with a sentence that
 * names the file and the line in `error` (CONFIG_ERROR_MAX bytes). */
int config_load(struct config *config, const char *path, char *error);

/* The same with what was made at run time: virtual GPUs, of which those that the configuration has too are passed over,
 * and which devices are drained. */
int config_load_made(struct config *config, const char *path, char *error);
/* Writes that file anew, whole or not at all. 0, or -errno. */
int config_save_made(const struct config *config, const char *path);

/* Sets one [gdevd] key, as a line of the file would. On failure a sentence is in `error`. */
int config_set(struct config *config, const char *key, const char *value, char *error);
/* The same for a virtual GPU, and for a setting of a policy. */
int config_set_vgpu(struct config_vgpu *vgpu, const char *key, const char *value, char *error);
int config_set_policy(
	struct config *config, const char *policy, const char *key, const char *value, char *error);

/* A new virtual GPU with the defaults, in no list yet. -EINVAL: that is no name, and a sentence in
 * `error` says what is one; -ENOMEM. */
int config_vgpu_create(const char *name, struct config_vgpu **vgpu, char *error);
/* Whether it is of any device: its sessions are placed, each on one. */
bool config_vgpu_is_any(const struct config_vgpu *vgpu);
/* Which of the devices it is a part of; NULL: of any, or this gdevd does not serve that. */
const struct config_served_device *config_vgpu_device(
	const struct config *config, const struct config_vgpu *vgpu);
bool config_vgpu_is_on(const struct config *config, const struct config_vgpu *vgpu,
	const struct config_served_device *device);
/* NULL: there is none of that name. */
struct config_vgpu *config_vgpu_find(const struct config *config, const char *name);

/* What [device NAME] says; all 0 when there is no such section. */
struct config_device config_device_of(const struct config *config, const char *name);
/* stand_in: "", or the name of another device. -ENOMEM. */
int config_drain_device(
	struct config *config, const char *name, bool drained, const char *stand_in);

/* Chooses the devices, and adds a default virtual GPU for each that has none. */
int config_finish_defaults(struct config *config);

#endif

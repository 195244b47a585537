/* SPDX-License-Identifier: MIT
 *
 * What the files of administration share: admin.c has the table of commands and those that look, admin_change.c those
 * that change something, admin_shm.c those on shared memory, admin_graph.c that on named graphs. A command returns its answer, a new reference; when it fails, it
 * sets *status to -errno, and its answer has a sentence in "error".
 */
#ifndef GDEV_GDEVD_ADMIN_H
#define GDEV_GDEVD_ADMIN_H

#include <jansson.h>

#include "gdevd/daemon.h"

json_t *admin_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* {"name": NAME, "keys": {KEY: VALUE}}: keys of [vgpu NAME] in gdev.conf(5), values as text. */
json_t *command_vgpu_create(struct daemon *daemon, const json_t *request, int *status);
json_t *command_vgpu_set(struct daemon *daemon, const json_t *request, int *status);
/* {"name": NAME, "force": BOOL} */
json_t *command_vgpu_delete(struct daemon *daemon, const json_t *request, int *status);
/* {"keys": {"policy": NAME, "quantum": TIME, "POLICY.SETTING": NUMBER}}, values as text. */
json_t *command_device_set(struct daemon *daemon, const json_t *request, int *status);
/* {"device": NAME, "move": BOOL}: {"sessions": those that are there, "note"?} */
json_t *command_device_drain(struct daemon *daemon, const json_t *request, int *status);
/* {"device": NAME} */
json_t *command_device_undrain(struct daemon *daemon, const json_t *request, int *status);
/* {"pid": PID, "peer_uid": UID}: of whose sessions; the peer's uid is admin_request()'s. Answered when it has
 * begun: a session is "moving" until its memory has left. */
json_t *command_suspend(struct daemon *daemon, const json_t *request, int *status);
json_t *command_resume(struct daemon *daemon, const json_t *request, int *status);

/* Of a device (NULL: of all). `used`: and what they use, of each resource that they ever had; after measure_look(). */
json_t *admin_list_sessions(const struct daemon *daemon, const struct device *device, bool used);
/* {"after": ID}: segments of shared memory with greater ids, in the order of these, a page of them: {"segments": [...],
 * "more": BOOL}. */
json_t *command_shm_list(struct daemon *daemon, const json_t *request, int *status);
/* {"segment": ID} or {"key": KEY}, {"vgpu": NAME}, "peer_uid" */
json_t *command_shm_remove(struct daemon *daemon, const json_t *request, int *status);
/* {"after": N}: named graphs, N of the first left out, a page of them: {"graphs": [...], "more": BOOL}. */
json_t *command_graph_list(struct daemon *daemon, const json_t *request, int *status);
/* What users have of segments on each device. */
json_t *admin_list_shares(const struct daemon *daemon);

#endif

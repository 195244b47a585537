/* SPDX-License-Identifier: MIT
 *
 * Arrays, textures and surfaces of devices that make them (docs/textures.md): immediate records.
 */
#ifndef GDEV_WORKER_TEXTURE_H
#define GDEV_WORKER_TEXTURE_H

struct command;

/* With the lock. */
void array_create(struct command *command);
void texture_create(struct command *command);
void texture_destroy(struct command *command);
void reference_set(struct command *command);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Arrays, textures and surfaces of devices that make them (docs/textures.md): immediate records.
 */
#ifndef GDEV_WORKER_TEXTURE_H
#define GDEV_WORKER_TEXTURE_H

struct command;
struct job;

/* With the lock. */
void array_create(struct command *command);
void texture_create(struct command *command);
void texture_destroy(struct command *command);
void reference_set(struct command *command);
/* MEMORY_FREE of an array, command->range, that no command can reach any more. Unlocked. */
void array_free_job(struct job *job);

#endif

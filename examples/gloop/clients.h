/* SPDX-License-Identifier: MIT
 *
 * Clients of the servers in examples/gloop: threads of the program itself, each with a connection of its own.
 */
#ifndef EXAMPLES_GLOOP_CLIENTS_H
#define EXAMPLES_GLOOP_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>

#define CLIENTS 8u

/* A socket that listens, at a port of its own. */
int clients_listen(void);
/* Each connects to it and talks; wrong answers, and those that do not come, are for the check to find. */
void clients_begin(void (*talk)(unsigned client, int fd));
/* When all have ended. */
void clients_end(void);

/* All of it. False: the other side has ended the connection. */
bool send_all(int fd, const void *bytes, size_t count);
bool receive_all(int fd, void *bytes, size_t count);

#endif

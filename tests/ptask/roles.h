/* SPDX-License-Identifier: MIT
 *
 * What other processes do with the graph that is called `name`: roles, which the test starts itself for.
 */
#ifndef GDEV_TESTS_PTASK_ROLES_H
#define GDEV_TESTS_PTASK_ROLES_H

#include "fixture.h"

/* Arguments 1 to 5: role, name, where, and two numbers. The process's exit status. */
int role_play(char **argv);

#endif

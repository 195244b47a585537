/* SPDX-License-Identifier: MIT
 *
 * Names that macros make. A macro that keeps a value in a variable, so as to evaluate its argument once, has that
 * variable's name from its caller: two uses of it, one in an argument or in the body of the other, are told apart.
 */
#ifndef GDEV_BASE_NAMES_H
#define GDEV_BASE_NAMES_H

/* A name that nothing else has. To be passed on as an argument, so that it is one name wherever it stands. */
#define unique_name(prefix) join_(prefix, __COUNTER__)

#define join_(a, b) join_names_(a, b)
#define join_names_(a, b) a##b

#endif

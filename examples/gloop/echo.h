/* SPDX-License-Identifier: MIT
 *
 * What both sides of the echo server know.
 */
#ifndef EXAMPLES_GLOOP_ECHO_H
#define EXAMPLES_GLOOP_ECHO_H

#define MESSAGE_MAX 4096u /* bytes */

#endif

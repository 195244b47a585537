/* SPDX-License-Identifier: MIT
 *
 * What both sides of copy know.
 */
#ifndef EXAMPLES_GLOOP_COPY_H
#define EXAMPLES_GLOOP_COPY_H

#define AT_ONCE 4 /* pages of a block that are on the way */

#endif

/* SPDX-License-Identifier: MIT
 *
 * What both sides of breadth-first search by persistent threads know.
 */
#ifndef EXAMPLES_GLOOP_BFS_H
#define EXAMPLES_GLOOP_BFS_H

/* Of the queue of vertices, in which one level follows the other. */
enum words {
	TAKEN,    /* tickets: of so many vertices */
	TAIL,     /* so many are in the queue */
	DONE,     /* of so many the neighbours have been looked at */
	END,      /* of the levels that may be looked at */
	FINISHED, /* no vertices are left */
	WORDS
};

#endif

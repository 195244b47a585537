/* SPDX-License-Identifier: MIT
 *
 * What both sides of grep know.
 */
#ifndef EXAMPLES_GLOOP_GREP_H
#define EXAMPLES_GLOOP_GREP_H

#define WORD_BYTES 28
#define LINE_BYTES 32
#define OVERLAP 16 /* of two pages: as long as no word is longer */

/* A word with a space on each side, as it stands in the text. */
struct word {
	char text[WORD_BYTES];
	unsigned length;
};

#endif

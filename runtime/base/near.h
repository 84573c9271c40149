/* SPDX-License-Identifier: BSD-3-Clause */
/* How far a misspelt name is from one that exists, for "did you mean". */
#ifndef RUNTIME_BASE_NEAR_H
#define RUNTIME_BASE_NEAR_H

/* Fewest edits that turn one into the other: a letter more, less or another, or two neighbours that
 * change places; "-" and "_" are one letter.  Of long names the first RT_NEAR_BYTES bytes count. */
enum { RT_NEAR_BYTES = 63 };
int rt_near(const char *a, const char *b);
/* As many edits of what was typed are no slip any more: it is another word. */
int rt_near_limit(const char *typed);

#endif

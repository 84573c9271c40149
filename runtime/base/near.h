/* SPDX-License-Identifier: BSD-3-Clause */
/* Distance of a misspelt name from an existing one, for "did you mean". */
#ifndef RUNTIME_BASE_NEAR_H
#define RUNTIME_BASE_NEAR_H

/* Fewest edits that turn one name into the other: insert, delete or replace a character, or
 * exchange two neighbours; "-" and "_" are equal.  Only the first RT_NEAR_BYTES bytes count. */
enum { RT_NEAR_BYTES = 63 };
int rt_near(const char *a, const char *b);
/* The number of edits from which on a word is another word, not a misspelling. */
int rt_near_limit(const char *typed);

#endif

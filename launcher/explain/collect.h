/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of this host as a picture: the pages that they publish, and what the kernel says of
 * their processes.  No rank has to answer.  One thread. */
#ifndef LAUNCHER_EXPLAIN_COLLECT_H
#define LAUNCHER_EXPLAIN_COLLECT_H

#include "launcher/explain/explain.h"
#include "launcher/explain/pages.h"

/* A picture of the ranks whose pages have been read last, without places in the sources.  Takes a
 * tenth of a second, in which it reads the pages again. */
struct explain_picture;
struct explain_picture *explain_picture_take(struct explain_pages *p,
                                             const struct explain_known *known, const char *host,
                                             int total);
void explain_picture_free(struct explain_picture *p);
/* Looks up the next place in the sources.  The debug information of a large program takes seconds.
 * False: there is no further one. */
bool explain_picture_look_up(struct explain_picture *p);
/* Prints the stack of the main thread of the next rank among the first EXPLAIN_STACKS ranks of the
 * job; may take as long.  False: there is no further one. */
#define EXPLAIN_STACKS 64
bool explain_picture_stack(struct explain_picture *p, FILE *f);
struct explain_job *explain_picture_job(struct explain_picture *p);
/* A line for the user about what could not be found out; "": nothing. */
const char *explain_picture_lacks(const struct explain_picture *p);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The names that the jobs of one mpirun have published.  Main thread. */
#ifndef LAUNCHER_MPIRUN_NAMES_H
#define LAUNCHER_MPIRUN_NAMES_H

#include "launcher/job.h"

struct name {
    char *key, *value;
    int owner; /* number of the job that has published it */
};

struct names {
    struct name *v;
    int n;
};

/* Serves publish, lookup and unpublish (ask.h) for a job.  Returns the error code of the
 * answer: 0, -RT_EEXIST, -RT_ENOENT, -RT_EINVAL, -RT_ENOTSUP or -RT_ENOMEM. */
int names_ask(struct names *names, int owner, const struct launch_list *words,
              struct launch_list *answer);
/* A job has ended: removes its names. */
void names_drop(struct names *names, int owner);
void names_fini(struct names *names);

#endif

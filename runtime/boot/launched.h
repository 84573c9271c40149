/* SPDX-License-Identifier: BSD-3-Clause */
/* By which launcher this process was started, and how it can join the others: read from the
 * environment, without asking anybody. */
#ifndef RT_BOOT_LAUNCHED_H
#define RT_BOOT_LAUNCHED_H

enum rt_launched_how {
    RT_LAUNCHED_ALONE,  /* by no launcher, as one process */
    RT_LAUNCHED_PMIX,   /* a PMIx server has started it */
    RT_LAUNCHED_PMI,    /* there is a connection for PMI-1: PMI_FD */
    RT_LAUNCHED_SEVERAL /* several processes that cannot find each other: `advice` */
};
struct rt_launched {
    enum rt_launched_how how;
    const char *by;     /* the launcher, as far as its variables show: "srun", "Hydra" */
    long rank, size;    /* -1: not in the environment */
    int pmi_fd;         /* for RT_LAUNCHED_PMI */
    const char *advice; /* for RT_LAUNCHED_SEVERAL: what to type instead */
};
void rt_launched_find(struct rt_launched *out);

#endif

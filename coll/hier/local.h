/* SPDX-License-Identifier: BSD-3-Clause */
/* The building blocks of collectives over several hosts. */
#ifndef COLL_HIER_LOCAL_H
#define COLL_HIER_LOCAL_H

#include "coll/hier/hier.h"
#include "coll/sched.h"

struct coll_hier_call {
    struct coll_sched *s;
    struct coll_hier *h;
    const struct coll_args *a;
    struct coll_team *local; /* of h */
    bool shared;             /* local parts may be calls */
};

/* False: no memory. */
bool coll_hier_begin(struct coll_hier_call *x, struct coll_team *t, const struct coll_args *a,
                     struct coll_task *k);
/* The team of the ranks with number `rail` on their hosts, to which this rank belongs; root >= 0:
 * on the root's host, of the root instead.  The ranks of this team are the numbers of the hosts.
 * Messages go to this team from here on.  NULL: no memory, noted in the schedule. */
struct coll_team *coll_hier_across(struct coll_hier_call *x, int rail, int root);

/* Whether the hosts are so few that, for small data, each sends to all others at once: starting
 * several messages costs less than waiting for one after another.  coll_hier_direct(): the same for
 * vectors of this length. */
bool coll_hier_few(const struct coll_hier *h);
bool coll_hier_direct(const struct coll_hier *h, int64_t nbytes);

/* The sum of n elements of each of these representatives, sent directly and combined in the order
 * of hosts, at one of them or, with -1, at all of them with the same bits.  `in` may be `out`. */
void coll_hier_sum(struct coll_hier_call *x, const struct coll_team *across, const void *in,
                   void *out, int64_t n, int root);

/* The representative of this host in a rooted call: the root, or the lowest local rank. */
int coll_hier_speaker(const struct coll_hier_call *x);

/* Parts among the ranks of this host; `root` is a rank of the local team, and n the same on all.
 * They are added to the round that is being written and end it, unless they are calls in shared
 * memory.  reduce: `in` may be `out`, which only the root uses. */
void coll_hier_bcast(struct coll_hier_call *x, void *buf, int64_t n, const struct rt_layout *l,
                     int root);
void coll_hier_reduce(struct coll_hier_call *x, const void *in, void *out, int64_t n, int root);
/* The whole call, a scan or exscan, among the ranks of this host. */
void coll_hier_scan(struct coll_hier_call *x);
/* The two halves of a barrier on this host: all ranks notify the lowest rank; the lowest rank
 * releases all ranks. */
void coll_hier_arrive(struct coll_hier_call *x);
void coll_hier_release(struct coll_hier_call *x);
/* The number of shares into which the vectors of all hosts are divided, so that every host has a
 * rank for each share: at most the number of ranks on the smallest host, and 1 if ranks outnumber
 * cores too much for it. */
int coll_hier_rails(const struct coll_hier *h);
/* n elements from `in` are divided into a run for each of the first nrails ranks, which get the
 * sums of their runs at `out`.  The other two are the reverse: runs at `in`; all runs to all ranks,
 * or to the root, at `out`. */
void coll_hier_reduce_scatter(struct coll_hier_call *x, const void *in, void *out, int64_t n,
                              int nrails);
void coll_hier_collect(struct coll_hier_call *x, const void *in, void *out, int64_t n, int nrails);
void coll_hier_gather_runs(struct coll_hier_call *x, const void *in, void *out, int64_t n,
                           int nrails, int root);
/* The same for given runs, `v`: lengths and then offsets of all local ranks.  The last: from the
 * lowest rank to the owners. */
void coll_hier_reduce_runs(struct coll_hier_call *x, const void *in, void *out, const int64_t *v);
void coll_hier_scatter_runs(struct coll_hier_call *x, const void *in, void *out, const int64_t *v);
/* Given blocks of bytes, `len` and offsets of all local ranks: this rank's block, n elements of `l`
 * at `in`, perhaps in place, to all ranks at `out`. */
void coll_hier_collect_blocks(struct coll_hier_call *x, const void *in, int64_t n,
                              const struct rt_layout *l, char *out, const int64_t *len,
                              const int64_t *at);
/* Blocks of nbytes, packed at the root by local rank, and n elements of `l` at each rank;
 * COLL_IN_PLACE at the root. */
void coll_hier_gather(struct coll_hier_call *x, const void *in, int64_t n,
                      const struct rt_layout *l, char *out, int64_t nbytes, int root);
void coll_hier_scatter(struct coll_hier_call *x, const char *in, int64_t nbytes, void *out,
                       int64_t n, const struct rt_layout *l, int root);

#endif

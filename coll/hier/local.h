/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of which a collective of several hosts is written. */
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
 * of that rank on its host.  Its ranks are the numbers of the hosts.  Messages go to it from here
 * on.  NULL: no memory, noted in the schedule. */
struct coll_team *coll_hier_across(struct coll_hier_call *x, int rail, int root);

/* Whether the hosts are so few that for small data each sends to all others at once: one message
 * after the other costs more than a few at a time; and so for vectors of this length. */
bool coll_hier_few(const struct coll_hier *h);
bool coll_hier_direct(const struct coll_hier *h, int64_t nbytes);

/* The sum of n elements of each of those representatives, sent directly and added up in the order
 * of hosts, to one of them or to all (-1), who get the same bits.  `in` may be `out`. */
void coll_hier_sum(struct coll_hier_call *x, const struct coll_team *across, const void *in,
                   void *out, int64_t n, int root);

/* The local rank that speaks for this host in a rooted call: the root, or the lowest. */
int coll_hier_speaker(const struct coll_hier_call *x);

/* Parts among the ranks of this host; `root` is a rank of the local team, and n the same on all.
 * They join the round that is being written, which they end, unless they are calls in shared
 * memory.  reduce: `in` may be `out`, which only the root uses. */
void coll_hier_bcast(struct coll_hier_call *x, void *buf, int64_t n, const struct rt_layout *l,
                     int root);
void coll_hier_reduce(struct coll_hier_call *x, const void *in, void *out, int64_t n, int root);
/* The whole call, a scan or exscan, among them. */
void coll_hier_scan(struct coll_hier_call *x);
void coll_hier_arrive(struct coll_hier_call *x);
void coll_hier_release(struct coll_hier_call *x);
/* Shares into which the vectors of all hosts are cut so that on each there is a rank for every one:
 * at most the ranks of the smallest, and one where ranks are too many for it. */
int coll_hier_rails(const struct coll_hier *h);
/* n elements from `in` are cut into a run for each of the first nrails ranks, which get the sums of
 * theirs at `out`; and back: runs at `in`, all of them to all ranks, or to the root, at `out`. */
void coll_hier_reduce_scatter(struct coll_hier_call *x, const void *in, void *out, int64_t n,
                              int nrails);
void coll_hier_collect(struct coll_hier_call *x, const void *in, void *out, int64_t n, int nrails);
void coll_hier_gather_runs(struct coll_hier_call *x, const void *in, void *out, int64_t n,
                           int nrails, int root);
/* The same for given runs, `v` lengths and then offsets of all local ranks'; and from the lowest
 * rank to their owners. */
void coll_hier_reduce_runs(struct coll_hier_call *x, const void *in, void *out, const int64_t *v);
void coll_hier_scatter_runs(struct coll_hier_call *x, const void *in, void *out, const int64_t *v);
/* Given blocks of bytes, `len` and places of all local ranks': this rank's, n elements of `l` at
 * `in`, perhaps in place, to all of them at `out`. */
void coll_hier_collect_blocks(struct coll_hier_call *x, const void *in, int64_t n,
                              const struct rt_layout *l, char *out, const int64_t *len,
                              const int64_t *at);
/* Blocks of nbytes, packed at the root by local rank, and n elements of `l` at each rank; there
 * COLL_IN_PLACE at the root. */
void coll_hier_gather(struct coll_hier_call *x, const void *in, int64_t n,
                      const struct rt_layout *l, char *out, int64_t nbytes, int root);
void coll_hier_scatter(struct coll_hier_call *x, const char *in, int64_t nbytes, void *out,
                       int64_t n, const struct rt_layout *l, int root);

#endif

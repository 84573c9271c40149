/* SPDX-License-Identifier: BSD-3-Clause */
/* Combination by recursive doubling and allgather by Bruck's algorithm over point-to-point
 * messages: ceil(log2 n) rounds each.  Called under the domain's lock, which is given up while
 * waiting. */
#include "mpi/core/exch.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/p2p.h"
#include <stdlib.h>
#include <string.h>

static int rank_of(const struct wm_exch *x, int i) { return x->ranks ? x->ranks[i] : i; }

static struct wm_msg message(const struct wm_exch *x, const void *buf, int64_t nbytes, int to)
{
    return (struct wm_msg){ .buf = buf,
                            .count = nbytes,
                            .layout = &wm_type_get(MPI_BYTE)->layout,
                            .comm = x->comm,
                            .peer = rank_of(x, to),
                            .tag = x->tag,
                            .coll = true };
}

static int finish(const struct wm_exch *x, struct rt_req *r)
{
    wm_domain_wait(x->comm->dom, &r->done);
    int err = r->err;
    wm_req_release(r);
    return err;
}

static int send(const struct wm_exch *x, const void *buf, int64_t nbytes, int to)
{
    struct wm_msg m = message(x, buf, nbytes, to);
    struct rt_req *r;
    int err = wm_p2p_isend(&m, WM_STANDARD, &r);
    return err ? err : finish(x, r);
}

static int recv(const struct wm_exch *x, void *buf, int64_t nbytes, int from)
{
    struct wm_msg m = message(x, buf, nbytes, from);
    struct rt_req *r;
    int err = wm_p2p_irecv(&m, &r);
    return err ? err : finish(x, r);
}

static int sendrecv(const struct wm_exch *x, const void *out, int64_t out_nbytes, int to, void *in,
                    int64_t in_nbytes, int from)
{
    struct wm_msg m = message(x, out, out_nbytes, to);
    struct rt_req *s;
    int err = wm_p2p_isend(&m, WM_STANDARD, &s);
    if (err)
        return err;
    int rerr = recv(x, in, in_nbytes, from);
    err = finish(x, s);
    return rerr ? rerr : err;
}

/* Ranks beyond the largest power of two hand their part to a partner and get the result from it. */
int wm_exch_combine(const struct wm_exch *x, void *inout, int64_t nbytes,
                    void (*merge)(void *inout, const void *in))
{
    int pow2 = 1;
    while (2 * pow2 <= x->n)
        pow2 *= 2;
    if (x->me >= pow2) {
        int err = send(x, inout, nbytes, x->me - pow2);
        return err ? err : recv(x, inout, nbytes, x->me - pow2);
    }
    void *in = malloc((size_t)nbytes);
    if (!in)
        return -RT_ENOMEM;
    int err = 0;
    bool partner = x->me + pow2 < x->n;
    if (partner) {
        err = recv(x, in, nbytes, x->me + pow2);
        if (!err)
            merge(inout, in);
    }
    for (int step = 1; step < pow2 && !err; step *= 2) {
        err = sendrecv(x, inout, nbytes, x->me ^ step, in, nbytes, x->me ^ step);
        if (!err)
            merge(inout, in);
    }
    if (partner && !err)
        err = send(x, inout, nbytes, x->me + pow2);
    free(in);
    return err;
}

int wm_exch_allgather(const struct wm_exch *x, const void *mine, int64_t nbytes, void *all)
{
    char *tmp = malloc((size_t)(x->n * nbytes)); /* rotated: entry i is participant me + i */
    if (!tmp)
        return -RT_ENOMEM;
    memcpy(tmp, mine, (size_t)nbytes);
    int err = 0;
    for (int have = 1; have < x->n && !err; have *= 2) {
        int n = have < x->n - have ? have : x->n - have;
        err = sendrecv(x, tmp, n * nbytes, (x->me - have + x->n) % x->n, tmp + have * nbytes,
                       n * nbytes, (x->me + have) % x->n);
    }
    for (int i = 0; i < x->n && !err; i++)
        memcpy((char *)all + (x->me + i) % x->n * nbytes, tmp + i * nbytes, (size_t)nbytes);
    free(tmp);
    return err;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Combination by recursive doubling and allgather by Bruck's algorithm over point-to-point
 * messages: ceil(log2 n) rounds each.  Called under the domain's lock, which is released while
 * waiting.
 *
 * After an error a participant still sends all messages of its remaining rounds, but empty: a
 * partner that does not notice the death of a process itself gets an error, too, and passes it
 * on.  Participants that have completed the exchange wait for this one in later calls, so a
 * participant that has noticed a death notifies all. */
#include "mpi/coll/exch.h"
#include "mpi/coll/alive.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include <string.h>

static int rank_of(const struct wm_exch *x, int i)
{
    if (x->members)
        return wm_group_find(x->comm->group, wm_group_proc(x->members, i));
    return x->ranks ? x->ranks[i] : i;
}

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
    wm_domain_wait(x->comm->dom, r);
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
    if (err)
        return err;
    int werr = x->await ? x->await(x->arg, r) : wm_alive_receive(x->comm, r);
    int64_t got = r->status.len;
    err = finish(x, r);
    if (!err && got < nbytes)
        err = x->await ? -RT_EREMOTE : -RT_EPEER;
    return werr ? werr : err;
}

/* `err`: of this participant so far. */
static int send_unless(const struct wm_exch *x, int err, const void *buf, int64_t nbytes, int to)
{
    int serr = send(x, buf, err ? 0 : nbytes, to);
    return err ? err : serr;
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

struct wm_exch wm_exch_all(struct wm_comm *c)
{
    int tag = wm_comm_call_tag(c);
    if (!c->inter)
        return (struct wm_exch){ .comm = c, .n = c->size, .me = c->rank, .tag = tag };
    return (struct wm_exch){ .comm = c->local,
                             .n = c->size,
                             .me = c->rank,
                             .tag = tag,
                             .two = true,
                             .across = c,
                             .far_tag = tag };
}

/* Ranks beyond the largest power of two send their contribution to a partner and receive the result
 * from it. */
static int combine(const struct wm_exch *x, void *inout, int64_t nbytes,
                   void (*merge)(void *inout, const void *in))
{
    _Alignas(16) char in[WM_EXCH_MAX];
    int pow2 = 1;
    while (2 * pow2 <= x->n)
        pow2 *= 2;
    if (x->me >= pow2) {
        int err = send(x, inout, nbytes, x->me - pow2);
        return err ? err : recv(x, inout, nbytes, x->me - pow2);
    }
    int err = 0;
    bool partner = x->me + pow2 < x->n;
    if (partner) {
        err = recv(x, in, nbytes, x->me + pow2);
        if (!err)
            merge(inout, in);
    }
    for (int step = 1; step < pow2; step *= 2) {
        err = err ? send_unless(x, err, inout, nbytes, x->me ^ step)
                  : sendrecv(x, inout, nbytes, x->me ^ step, in, nbytes, x->me ^ step);
        if (!err)
            merge(inout, in);
    }
    return partner ? send_unless(x, err, inout, nbytes, x->me + pow2) : err;
}

static int reported(const struct wm_exch *x, int err)
{
    if (rt_unlikely(err)) {
        x->comm->team.failed = true;
        if (x->two)
            x->across->team.failed = true;
    }
    if (err == -RT_EPEER)
        wm_alive_report(x->comm);
    return err;
}

/* wm_exch_bcast() after an error of this participant, if `err` is not 0. */
static int spread(const struct wm_exch *x, int err, void *buf, int64_t nbytes)
{
    int vr = (x->me - x->leader + x->n) % x->n, mask = 1;
    while (mask < x->n && !(vr & mask))
        mask *= 2;
    if (vr && !err)
        err = recv(x, buf, nbytes, (vr - mask + x->leader) % x->n);
    for (mask /= 2; mask > 0; mask /= 2)
        if (vr + mask < x->n)
            err = send_unless(x, err, buf, nbytes, (vr + mask + x->leader) % x->n);
    return err;
}

int wm_exch_combine(const struct wm_exch *x, void *inout, int64_t nbytes,
                    void (*merge)(void *inout, const void *in))
{
    _Alignas(16) char far[WM_EXCH_MAX];
    int err = combine(x, inout, nbytes, merge);
    if (!x->two)
        return reported(x, err);
    if (x->me == x->leader) {
        struct wm_exch across = { .comm = x->across, .tag = x->far_tag };
        err = err ? send_unless(&across, err, inout, nbytes, x->far)
                  : wm_exch_swap(x, inout, nbytes, far, nbytes);
    }
    err = spread(x, err, far, nbytes);
    if (!err)
        merge(inout, far);
    return reported(x, err);
}

static void merge_max(void *inout, const void *in)
{
    int32_t *a = inout;
    const int32_t *b = in;
    *a = *b > *a ? *b : *a;
}

int wm_exch_max(const struct wm_exch *x, int32_t *v)
{
    return wm_exch_combine(x, v, sizeof *v, merge_max);
}

int wm_exch_bcast(const struct wm_exch *x, void *buf, int64_t nbytes)
{
    return reported(x, spread(x, 0, buf, nbytes));
}

int wm_exch_swap(const struct wm_exch *x, const void *out, int64_t out_nbytes, void *in,
                 int64_t in_nbytes)
{
    struct wm_exch far = { .comm = x->across, .tag = x->far_tag };
    return sendrecv(&far, out, out_nbytes, x->far, in, in_nbytes, x->far);
}

static void reverse(char *v, int64_t nbytes, int from, int to)
{
    for (; from < --to; from++)
        for (int64_t i = 0; i < nbytes; i++) {
            char c = v[from * nbytes + i];
            v[from * nbytes + i] = v[to * nbytes + i];
            v[to * nbytes + i] = c;
        }
}

int wm_exch_allgather(const struct wm_exch *x, const void *mine, int64_t nbytes, void *all)
{
    char *tmp = all; /* rotated until the end: entry i is participant me + i */
    memmove(tmp, mine, (size_t)nbytes);
    int err = 0;
    for (int have = 1; have < x->n; have *= 2) {
        int n = have < x->n - have ? have : x->n - have, to = (x->me - have + x->n) % x->n;
        err = err ? send_unless(x, err, tmp, nbytes, to)
                  : sendrecv(x, tmp, n * nbytes, to, tmp + have * nbytes, n * nbytes,
                             (x->me + have) % x->n);
    }
    reverse(tmp, nbytes, 0, x->n - x->me);
    reverse(tmp, nbytes, x->n - x->me, x->n);
    reverse(tmp, nbytes, 0, x->n);
    return reported(x, err);
}

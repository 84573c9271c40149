/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and products of 16-bit floats over messages among the ranks of one host: the messages carry
 * floats, and each rank rounds its result once.  So persistent calls that use messages give the
 * same bits as other calls, which use shared memory or a device's kernel.  Among several hosts the
 * messages carry 16-bit floats, because then half as many bytes cross the network.  All ranks take
 * the same decision without communication, because it depends only on the team, the type and the
 * operation.  Called under the domain's lock. */
#include "coll/wide.h"
#include <stdlib.h>
#include "coll/begin.h"
#include "coll/sched.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"

struct coll_wide {
    struct coll_args user;
    struct rt_layout floats;          /* layout of one item of the user's type, as floats */
    int (*step)(struct coll_task *k); /* of the algorithm */
    void (*cleanup)(struct coll_task *k);
    bool takes; /* this rank gets a result */
    bool begun, abandoned;
    int64_t nin, nout; /* in items of the user's type */
    char *packed;      /* the longer of both vectors, as 16-bit floats; one allocation with `in` and
                        * `out` */
    float *in, *out;
};

bool coll_is_wide(const struct coll_task *k)
{
    const struct coll_team *t = k->team;
    const struct coll_args *a = &k->args;
    return k->messages && t->node && !t->local && t->size > 2 && a->op &&
           rt_reduce_is_wide(a->op->code, (enum rt_elem)a->rtype->elem);
}

static enum rt_elem elem_of(const struct coll_wide *w) { return (enum rt_elem)w->user.rtype->elem; }

static int64_t halves_of(const struct coll_wide *w, int64_t items)
{
    return items * w->user.rtype->size / (int64_t)sizeof(uint16_t);
}

static void widen(struct coll_wide *w)
{
    coll_copy(coll_input(&w->user), w->nin, w->user.rtype, w->packed, w->nin * w->user.rtype->size,
              &coll_bytes);
    rt_reduce_widen(elem_of(w), w->packed, w->in, halves_of(w, w->nin));
}

static void narrow(struct coll_wide *w)
{
    rt_reduce_narrow(elem_of(w), w->out, w->packed, halves_of(w, w->nout));
    coll_copy(w->packed, w->nout * w->user.rtype->size, &coll_bytes, w->user.rbuf, w->nout,
              w->user.rtype);
}

static void wide_cleanup(struct coll_task *k);

static int wide_step(struct coll_task *k)
{
    struct coll_wide *w = k->wide;
    if (!w->begun && rt_likely(!k->lost))
        widen(w);
    w->begun = true;
    k->step = w->step;
    k->cleanup = w->cleanup;
    int rc = k->step(k);
    w->step = k->step;
    w->cleanup = k->cleanup;
    k->step = wide_step;
    k->cleanup = wide_cleanup;
    w->abandoned = rc < 0;
    if (rc > 0 && w->takes && rt_likely(!k->lost))
        narrow(w);
    return rc;
}

static void wide_cleanup(struct coll_task *k)
{
    struct coll_wide *w = k->wide;
    if (w->cleanup)
        w->cleanup(k);
    k->args = w->user;
    k->wide = NULL;
    if (!w->abandoned) /* otherwise messages may still be in progress: a deliberate leak
                        * (coll/sched.c) */
        rt_reserve_free(w);
}

/* Without memory for the vectors the call is poisoned, and they are not accessed.  NULL: no memory
 * at all. */
static struct coll_wide *wide_make(struct coll_task *k)
{
    struct coll_wide w = { .user = k->args }, *made;
    w.nin = coll_args_bytes(k->team, &w.user) / w.user.rtype->size;
    w.nout = coll_args_block(&w.user, COLL_RECV, k->team->rank).n;
    /* at any rank that gets something from rank 0 */
    w.takes = coll_args_received(k->team, &w.user, 0).l != NULL;
    int64_t nbytes = 2 * w.user.rtype->size, most = w.nin > w.nout ? w.nin : w.nout;
    w.floats = (struct rt_layout){
        .size = nbytes, .extent = nbytes, .true_extent = nbytes, .contig = true, .elem = RT_ELEM_F32
    };
    made = malloc(sizeof w + (size_t)((w.nin + w.nout) * nbytes + most * w.user.rtype->size));
    if (!made) {
        made = rt_reserve_take(sizeof w);
        coll_task_lose(k, -RT_ENOMEM);
    }
    if (!made)
        return NULL;
    *made = w;
    made->in = (float *)(void *)(made + 1);
    made->out = made->in + halves_of(&w, w.nin);
    made->packed = (char *)(made->out + halves_of(&w, w.nout));
    return made;
}

int coll_start_wide(struct coll_task *k)
{
    struct coll_wide *w = wide_make(k);
    if (!w)
        return -RT_ENOMEM;
    k->args.sbuf = w->in;
    k->args.rbuf = w->out;
    k->args.stype = k->args.rtype = &w->floats;
    int err = coll_start_messages(k);
    if (err < 0) {
        k->args = w->user;
        rt_reserve_free(w);
        return err;
    }
    k->wide = w;
    w->step = k->step;
    w->cleanup = k->cleanup;
    k->step = wide_step;
    k->cleanup = wide_cleanup;
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* See cma.h.  A layout is walked from the element that holds `pos`; its pieces are handed to the
 * kernel many at a time. */
#include "mpi/rma/cma.h"
#include "runtime/base/err.h"
#include "runtime/mem/peer.h"

#define PIECES 256 /* of one system call */

struct walk {
    int rank, err;
    bool write;
    char *there, *here;
    int64_t skip, left; /* bytes to pass over, and then to copy */
    struct iovec v[PIECES];
    int n;
    size_t nbytes;
};

static void move(struct walk *w)
{
    if (!w->err && w->n)
        w->err = rt_peer_move(&rt_node.bells[w->rank], w->here, w->nbytes, w->v, w->n, w->write);
    w->here += w->nbytes;
    w->n = 0;
    w->nbytes = 0;
}

static void piece(struct walk *w, char *at, int64_t len)
{
    if (w->skip >= len) {
        w->skip -= len;
        return;
    }
    at += w->skip;
    len -= w->skip;
    w->skip = 0;
    len = len < w->left ? len : w->left;
    if (!len)
        return;
    w->v[w->n++] = (struct iovec){ at, (size_t)len };
    w->nbytes += (size_t)len;
    w->left -= len;
    if (w->n == PIECES)
        move(w);
}

static void pieces(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    struct walk *w = arg;
    for (int64_t i = 0; i < nrep && w->left; i++)
        piece(w, w->there + off + i * stride, len);
}

int wm_rma_cma(int local_rank, bool write, const struct rt_layout *l, int64_t count, char *there,
               int64_t pos, void *here, int64_t len)
{
    struct walk w = { .rank = local_rank, .write = write, .here = here, .left = len };
    if (l->contig) {
        piece(&w, there + pos, len);
        move(&w);
        return w.err;
    }
    w.skip = pos % l->size;
    for (int64_t i = pos / l->size; i < count && w.left; i++) {
        w.there = there + i * l->extent;
        rt_layout_each(l, pieces, &w);
    }
    move(&w);
    return w.err;
}

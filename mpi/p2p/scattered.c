/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers whose data lie in several allocations: each piece is classified and copied alone. */
#include "mpi/p2p/scattered.h"
#include <string.h>
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"

struct walk {
    char *origin;     /* of the element */
    int64_t first;    /* packed position of the next piece */
    int64_t pos, end; /* the range wanted */
    char *packed;     /* memory for `pos` on; NULL: only classify */
    bool pack;
    int err;
};

static int copy_piece(const struct walk *w, char *user, int64_t off, int64_t len)
{
    struct rt_gpu_ptr at;
    int rc = rt_gpu_find(user, (size_t)len, &at);
    if (rc < 0 || !w->packed)
        return rc;
    char *here = w->packed + off;
    if (!rc)
        memcpy(w->pack ? here : user, w->pack ? user : here, (size_t)len);
    else
        rc = rt_gpu_copy_now(at.g, w->pack ? here : user, w->pack ? user : here, (size_t)len);
    return rc;
}

static void pieces(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    struct walk *w = arg;
    for (int64_t i = 0; i < nrep && w->err >= 0; i++, w->first += len) {
        int64_t from = w->first > w->pos ? w->first : w->pos,
                to = w->first + len < w->end ? w->first + len : w->end;
        if (from < to)
            w->err = copy_piece(w, w->origin + off + i * stride + (from - w->first), from - w->pos,
                                to - from);
    }
}

static int walk(const struct rt_layout *l, int64_t count, struct walk *w)
{
    for (int64_t e = w->pos / l->size; e < count && w->err >= 0 && e * l->size < w->end; e++) {
        struct walk one = *w;
        one.origin = w->origin + e * l->extent;
        one.first = e * l->size;
        rt_layout_each(l, pieces, &one);
        w->err = one.err;
    }
    return w->err;
}

struct look {
    uintptr_t origin; /* of the element */
    bool device;
};

/* Pieces at equal distances come from one type and lie in one allocation: the first and the last
 * are enough. */
static void look_at(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    struct look *k = arg;
    uintptr_t first = k->origin + (uintptr_t)off, last = first + (uintptr_t)((nrep - 1) * stride);
    if (!k->device && len > 0 && nrep > 0)
        k->device = rt_gpu_is_device((const void *)first) || rt_gpu_is_device((const void *)last);
}

bool wm_scattered_look(const struct rt_layout *l, int64_t count, const void *buf)
{
    struct look k = { .origin = (uintptr_t)buf };
    for (int64_t e = 0; e < count && !k.device; e++, k.origin += (uintptr_t)l->extent)
        rt_layout_each(l, look_at, &k);
    return k.device;
}

int wm_scattered_check(const struct rt_layout *l, int64_t count, const void *buf)
{
    struct walk w = { .origin = (char *)(uintptr_t)buf, .end = count * l->size };
    return walk(l, count, &w) < 0 ? -RT_EADDR : 0;
}

int wm_scattered_copy(const struct wm_packing *p)
{
    struct walk w = { .origin = p->user,
                      .pos = p->pos,
                      .end = p->pos + p->len,
                      .packed = p->packed,
                      .pack = p->pack };
    return walk(p->l, p->count, &w);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes of targets in messages.  A layout that is not contiguous is sent to a target once, into
 * one of WM_RMA_SLOTS slots that the target keeps for this origin and window; operations name the
 * slot.  The origin overwrites the slot that was used longest ago, so the target's memory is
 * bounded and the target never has to refuse.  Messages arrive in order, so an operation finds the
 * layout that was in its slot when the operation was sent. */
#include "mpi/rma/type.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/engine.h"
#include "mpi/rma/format.h"
#include "mpi/rma/message.h"
#include "mpi/rma/target.h"
#include "runtime/base/err.h"
#include "runtime/layout/serialize.h"
#include <stdlib.h>
#include <string.h>

struct wm_rma_types {
    uint64_t clock;
    struct {
        uint64_t used; /* clock of the last use; 0: empty */
        struct rt_layout layout;
    } slot[WM_RMA_SLOTS];
};

static bool same(const struct rt_layout *a, const struct rt_layout *b)
{
    return a->blocks == b->blocks && a->size == b->size && a->lb == b->lb &&
           a->extent == b->extent && a->true_lb == b->true_lb && a->true_extent == b->true_extent &&
           a->elem == b->elem;
}

/* Sends the layout in parts that fit. */
static int announce(struct wm_rma *r, struct wm_rma_target *t, int slot, const struct rt_layout *l)
{
    size_t total = rt_layout_serial_nbytes(l), room = wm_rma_room(t->msg.peer);
    char *bytes = malloc(total), *msg = malloc(sizeof(struct wm_rma_msg) + room);
    int err = bytes && msg ? 0 : -RT_ENOMEM;
    if (!err)
        rt_layout_serialize(l, bytes);
    for (size_t pos = 0, n; pos < total && !err; pos += n) {
        n = total - pos < room ? total - pos : room;
        struct wm_rma_msg m = { .code = WM_RMA_TYPE,
                                .slot = (uint16_t)slot,
                                .count = (int64_t)total,
                                .pos = (int64_t)pos,
                                .len = (uint32_t)n };
        memcpy(msg, &m, sizeof m);
        memcpy(msg + sizeof m, bytes + pos, n);
        t->msg.sent++;
        err = wm_try_ctl(r->dom, t->msg.peer, wm_rma_hdr(r), msg, (uint32_t)(sizeof m + n));
    }
    free(bytes);
    free(msg);
    return err;
}

int wm_rma_slot(struct wm_rma *r, struct wm_rma_target *t, const struct rt_layout *l)
{
    if (l->contig)
        return WM_RMA_NO_SLOT;
    struct wm_rma_types *k = t->msg.types ? t->msg.types : calloc(1, sizeof *k);
    if (!k)
        return -RT_ENOMEM;
    t->msg.types = k;
    int at = 0;
    for (int i = 0; i < WM_RMA_SLOTS; i++) {
        if (k->slot[i].used && same(&k->slot[i].layout, l)) {
            k->slot[i].used = ++k->clock;
            return i;
        }
        if (k->slot[i].used < k->slot[at].used)
            at = i;
    }
    if (k->slot[at].used)
        rt_layout_fini(&k->slot[at].layout);
    k->slot[at].used = 0;
    int err = announce(r, t, at, l);
    if (err < 0)
        return err;
    rt_layout_dup(&k->slot[at].layout, l); /* its reference keeps the blocks at their address */
    k->slot[at].used = ++k->clock;
    return at;
}

void wm_rma_types_free(struct wm_rma_target *t)
{
    for (int i = 0; t->msg.types && i < WM_RMA_SLOTS; i++)
        if (t->msg.types->slot[i].used)
            rt_layout_fini(&t->msg.types->slot[i].layout);
    free(t->msg.types);
    t->msg.types = NULL;
}

static void slot_free(struct rt_layout *l)
{
    if (l)
        rt_layout_fini(l);
    free(l);
}

void wm_rma_slots_free(struct wm_rma_layouts *k)
{
    for (int i = 0; i < WM_RMA_SLOTS; i++)
        slot_free(k->slot[i]);
    free(k->partial);
}

int wm_rma_on_type(struct wm_rma_layouts *k, const struct wm_rma_msg *m, const char *data)
{
    if (m->slot >= WM_RMA_SLOTS || m->pos < 0 || m->count < m->len || m->pos > m->count - m->len)
        return -RT_EINVAL;
    if (m->pos == 0) {
        free(k->partial);
        k->partial = malloc((size_t)m->count);
        k->npartial = m->count;
    }
    if (!k->partial)
        return -RT_ENOMEM;
    if (m->count != k->npartial)
        return -RT_EINVAL;
    memcpy(k->partial + m->pos, data, m->len);
    if (m->pos + m->len < m->count)
        return 0;
    struct rt_layout *l = malloc(sizeof *l);
    int err = l ? rt_layout_deserialize(l, k->partial, (size_t)m->count) : -RT_ENOMEM;
    free(k->partial);
    k->partial = NULL;
    if (err < 0) {
        free(l);
        return err;
    }
    slot_free(k->slot[m->slot]);
    k->slot[m->slot] = l;
    return 0;
}

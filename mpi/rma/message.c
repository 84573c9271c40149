/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of one-sided communication: how one is sent, and how long it may be.  The format is in
 * format.h; am.c and serve.c send those with data. */
#include "mpi/rma/message.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/engine.h"
#include "mpi/rma/format.h"
#include "mpi/rma/target.h"
#include <stdlib.h>

/* Bytes of a control message that even a transport with a very small eager limit carries. */
#define LEAST_PAYLOAD 256u

static struct {
    char *p;
    size_t nbytes;
} scratch;

char *wm_rma_scratch(size_t nbytes)
{
    if (nbytes > scratch.nbytes) {
        char *p = realloc(scratch.p, nbytes);
        if (!p)
            return NULL;
        scratch.p = p;
        scratch.nbytes = nbytes;
    }
    return scratch.p;
}

void wm_rma_scratch_free(void)
{
    free(scratch.p);
    scratch.p = NULL;
    scratch.nbytes = 0;
}

size_t wm_rma_room(const struct wm_peer *p)
{
    size_t most = p->eager_max > LEAST_PAYLOAD ? p->eager_max : LEAST_PAYLOAD;
    return most - sizeof(struct wm_rma_msg);
}

struct btl_hdr wm_rma_hdr(const struct wm_rma *r)
{
    return wm_hdr(WM_CONTROL, r->comm->ctx, WM_RMA_MESSAGE, r->comm->rank);
}

void wm_rma_send(struct wm_rma *r, struct wm_peer *p, int code, uint32_t id, int64_t value)
{
    struct wm_rma_msg m = { .code = (uint8_t)code, .id = id, .value = value };
    wm_send_ctl(r->dom, p, wm_rma_hdr(r), &m, sizeof m);
}

int wm_rma_tag(uint32_t id, bool to_origin)
{
    return WM_TAG_PART | (int)(id & 0x07ffffffu) | (to_origin ? 0x08000000 : 0);
}

void wm_rma_ask(struct wm_rma *r, struct wm_rma_target *t, enum wm_want_kind kind)
{
    if (t->epoch.asked || wm_rma_target_peer(r, t) < 0)
        return;
    t->epoch.asked = true;
    r->epoch.nasked++;
    wm_rma_send(r, t->msg.peer, WM_RMA_LOCK, 0, kind);
}

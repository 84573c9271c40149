/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports' upcall: what arrives finds its receive, or the part of the engine that it is for.
 * Called under the domain's lock. */
#include "mpi/p2p/arrive.h"
#include "mpi/p2p/cancel.h"
#include "mpi/p2p/chunks.h"
#include "mpi/p2p/ended.h"
#include "mpi/p2p/flow.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/part.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/rndv.h"
#include "mpi/p2p/send.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/deaths.h"

/* Lengths that are used without a further look.  Whatever else is wrong with a message that an
 * authenticated process sends, this process accesses no memory outside of its buffers. */
static void check_frame(const struct btl_peer *from, uint32_t kind, const void *data, size_t len)
{
    static const uint16_t least[WM_CONTROL + 1] = {
        [WM_EAGER_SYNC] = sizeof(uint64_t),
        [WM_SYNC_ACK] = sizeof(struct wm_fin),
        [WM_RTS] = sizeof(struct wm_rts),
        [WM_CTS] = sizeof(struct wm_cts),
        [WM_FIN_GET] = sizeof(struct wm_fin),
        [WM_FIN_PUT] = sizeof(struct wm_fin),
        [WM_PART_INIT] = sizeof(struct wm_part_init),
        [WM_CANCEL] = sizeof(struct wm_fin),
        [WM_CANCELLED] = sizeof(struct wm_fin),
    };
    struct wm_rts rts;
    if (len < least[kind])
        wm_malformed(&from->proc, "%zu bytes of kind %u, which has %u", len, kind, least[kind]);
    if (kind != WM_RTS)
        return;
    memcpy(&rts, data, sizeof rts);
    if (rts.len < 0 || ((rts.flags & WM_RTS_EARLY) && (rts.early < 0 || rts.early > rts.len)))
        wm_malformed(&from->proc, "a message of %lld bytes", (long long)rts.len);
}

/* A control message whose target is the request that it names, not a peer. */
static void on_control(struct wm_domain *d, uint32_t kind, const void *data, size_t len)
{
    char copy[sizeof(struct wm_cts)] = { 0 }; /* aligned for the structs, and of known length */
    memcpy(copy, data, len < sizeof copy ? len : sizeof copy);
    if (kind == WM_CTS)
        wm_on_cts((const struct wm_cts *)(const void *)copy);
    else if (kind == WM_SYNC_ACK)
        wm_on_sync_ack(d, (const struct wm_fin *)(const void *)copy);
    else if (kind == WM_CANCELLED)
        wm_on_cancelled((const struct wm_fin *)(const void *)copy);
    else if (kind == WM_FIN_GETS)
        wm_on_fins(d, (const struct wm_fins *)(const void *)copy);
    else
        wm_on_fin(d, kind, (const struct wm_fin *)(const void *)copy);
}

static void on_died(struct wm_domain *d, const void *data, size_t len)
{
    struct rt_name name = { 0 };
    struct rt_proc proc;
    memcpy(&name, data, len < sizeof name ? len : sizeof name);
    if (rt_boot_proc(name, &proc) >= 0)
        wm_domain_died(d, proc);
}

static __attribute__((noinline)) void arrived(struct wm_domain *d, struct btl_peer *from,
                                              const struct btl_hdr *h, const void *data, size_t len)
{
    uint32_t kind = h->ctx >> WM_KIND_SHIFT;
    struct wm_key k = { .ctx = h->ctx & WM_CTX_MASK, .src = (int32_t)h->src, .tag = h->tag };
    check_frame(from, kind, data, len);
    if (kind == WM_PART_INIT) {
        wm_on_part_init(d, from, &k, data);
        return;
    }
    if (kind == WM_DATA) {
        wm_on_data(from, h, data, len);
        return;
    }
    if (kind == WM_LAST) {
        struct wm_last last = { 0 };
        memcpy(&last, data, len < sizeof last ? len : sizeof last);
        wm_sender(d, from)->is_last = last.is_last != 0;
        return;
    }
    if (kind == WM_EARLY) {
        wm_on_early(from, data, len);
        return;
    }
    if (kind == WM_CONTROL) {
        if (k.tag == WM_DIED)
            on_died(d, data, len);
        else if (k.tag == WM_INTERRUPT)
            rt_interrupt();
        else if (k.tag == WM_FT && d->ft)
            d->ft(d, wm_sender(d, from), data, len);
        else if (k.tag != WM_RMA_MESSAGE)
            wm_flow_on(d, wm_sender(d, from), k.tag);
        else if (d->rma)
            d->rma(d, wm_sender(d, from), h, data, len);
        return;
    }
    if (kind != WM_EAGER && kind != WM_EAGER_SYNC && kind != WM_RTS && kind != WM_VOID) {
        if (kind == WM_CANCEL)
            wm_on_cancel(d, wm_sender(d, from), &k, data, len);
        else
            on_control(d, kind, data, len);
        return;
    }
    wm_on_message(d, from, h, data, len);
}

/* A short message for a posted receive. */
static inline void deliver_posted(struct wm_preq *q, const struct wm_key *k, const void *data,
                                  size_t len)
{
    q->state = WM_IDLE;
    if (rt_unlikely((int64_t)len > q->nbytes || !q->layout->contig || q->r.notify || q->r.flags)) {
        wm_deliver(q, NULL, WM_EAGER, k, data, len);
        return;
    }
    rt_copy_small((void *)(uintptr_t)q->buf, data, len);
    wm_count_received(q->dom, (int64_t)len);
    q->r.status.src = k->src;
    q->r.status.tag = k->tag;
    q->r.status.len = (int64_t)len;
    q->r.status.cancelled = false;
    rt_store_release(&q->r.done, 1u);
}

/* The fast path: one small message for the blocking receive in progress, nothing else posted. */
void wm_on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                size_t len)
{
    struct wm_domain *d = arg;
    struct wm_preq *hot = d->hot;
    if (rt_likely(hot && !d->match.nposted_all && len <= 64 && (int64_t)len <= hot->nbytes &&
                  hot->layout->contig)) {
        struct wm_key k = { .ctx = h->ctx,
                            .src = (int32_t)h->src,
                            .tag = h->tag }; /* WM_EAGER is 0 */
        if (rt_likely(wm_key_matches(&hot->posted.key, &k))) {
            d->hot = NULL;
            rt_copy_small((void *)(uintptr_t)hot->buf, data, len);
            hot->r.status.src = k.src;
            hot->r.status.tag = k.tag;
            hot->r.status.len = (int64_t)len;
            hot->r.err = 0;
            hot->r.done = 1;
            wm_count_received(d, (int64_t)len);
            return;
        }
    }
    if (rt_likely(!hot && d->match.nposted_all && h->ctx < 1u << WM_KIND_SHIFT && len <= 64)) {
        struct wm_key k = { .ctx = h->ctx, .src = (int32_t)h->src, .tag = h->tag };
        struct wm_posted *p = wm_match_arrive(&d->match, &k);
        if (rt_likely(p)) {
            deliver_posted(rt_container(p, struct wm_preq, posted), &k, data, len);
            return;
        }
    }
    if (h->ctx < 1u << WM_KIND_SHIFT)
        wm_on_message(d, from, h, data, len);
    else
        arrived(d, from, h, data, len);
}

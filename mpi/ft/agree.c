/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreements over control messages; the protocol is in coll/ft/agree.c.  An agreement is named by
 * its communicator and its number.  It is kept after its end, also when the communicator is freed,
 * because a member may still ask for the value: until the next one of the communicator has ended,
 * to which all living members have contributed.  The last one is kept for good.
 *
 * Messages for an agreement that this process has not begun are kept until it does.  A process in
 * MPI_Finalize counts as dead: it has no agreement in progress, so that what the protocol says
 * about the dead holds. */
#include "mpi/ft/agree.h"
#include "coll/ft/agree.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"
#include "runtime/boot/dead.h"

#include <stdlib.h>
#include <string.h>

struct message { /* followed by a struct agree_msg */
    struct wm_ft_head head;
    uint32_t number, pad;
};

struct agreement {
    struct agreement *next;
    struct wm_domain *dom;
    uint32_t ctx, number;
    uint64_t uid;
    struct wm_ft_call *call; /* NULL: it is over */
    void (*merge)(void *inout, const void *in);
    int n;
    struct rt_proc *member;   /* n of them, behind `a` */
    struct wm_ft_value *mine; /* this process's contribution */
    uint8_t *noticed;         /* deaths that the protocol knows */
    char *packet;             /* room for a message */
    struct agree *a;
};

struct early { /* a message that came before its agreement has begun here */
    struct early *next;
    struct rt_proc from;
    size_t len;
    _Alignas(8) char data[];
};

static struct agreement *agreements;
static struct early *earlies;

static int nwords(int n) { return (n + 63) / 64; }

static size_t value_len(int n)
{
    return sizeof(struct wm_ft_value) + 2 * (size_t)nwords(n) * sizeof(uint64_t);
}

static size_t nwords_of(size_t len) { return (len - sizeof(struct wm_ft_value)) / 16; }

static void set_bit(uint64_t *set, int i) { set[i / 64] |= 1ull << i % 64; }
static bool has_bit(const uint64_t *set, int i) { return set[i / 64] >> i % 64 & 1; }

bool wm_ft_failed(const struct wm_ft_value *v, int i) { return has_bit(v->sets, i); }

bool wm_ft_unacked(const struct wm_comm *c, const struct wm_ft_value *v)
{
    int n = nwords(wm_ft_size(c));
    for (int i = 0; i < n; i++)
        if (v->sets[i] & ~v->sets[n + i])
            return true;
    return false;
}

/* ---- what the protocol calls ---- */

static struct agreement *merging; /* the one whose contributions are being combined */

static void merge(void *inout, const void *in, size_t len)
{
    struct wm_ft_value *a = inout;
    const struct wm_ft_value *b = in;
    size_t n = nwords_of(len);
    a->flag &= b->flag;
    a->err = a->err > b->err ? a->err : b->err;
    if (merging->merge)
        merging->merge(a->extra, b->extra);
    for (size_t i = 0; i < n; i++) {
        a->sets[i] |= b->sets[i];
        a->sets[n + i] &= b->sets[n + i];
    }
}

static void add_dead(void *inout, size_t len, int rank)
{
    (void)len;
    set_bit(((struct wm_ft_value *)inout)->sets, rank);
}

static void send(void *arg, int to, const struct agree_msg *m, size_t len)
{
    struct agreement *g = arg;
    struct message *p = (struct message *)(void *)g->packet;
    p->head = (struct wm_ft_head){ WM_FT_AGREE, g->ctx, g->uid };
    p->number = g->number;
    memcpy(p + 1, m, len);
    wm_ft_send(g->dom, g->member[to], p, sizeof *p + len);
}

static const struct agree_ops ops = { send, merge, add_dead };

/* ---- agreements ---- */

static struct agreement *find(uint32_t ctx, uint64_t uid, uint32_t number)
{
    struct agreement *g = agreements;
    while (g && (g->ctx != ctx || g->uid != uid || g->number != number))
        g = g->next;
    return g;
}

/* Earlier agreements of the same communicator. */
static void prune(const struct agreement *last)
{
    for (struct agreement **at = &agreements, *g; (g = *at);) {
        if (g->ctx == last->ctx && g->uid == last->uid && g->number < last->number && !g->call) {
            *at = g->next;
            free(g);
        } else {
            at = &g->next;
        }
    }
}

static void begin(struct wm_ft_call *call);

/* Removes the first call of a communicator. */
static void leave(struct wm_ft_call *call)
{
    call->comm->ft.calls = call->next;
    call->next = NULL;
}

static void begin_next(const struct wm_comm *c)
{
    if (c->ft.calls && c->ft.calls->waits)
        begin(c->ft.calls);
}

void wm_ft_agree_leave(struct wm_ft_call *call)
{
    struct wm_comm *c = call->comm;
    if (c->ft.calls != call)
        return;
    leave(call);
    begin_next(c);
}

/* Ends the call if the value is known. */
static void finish(struct agreement *g)
{
    struct wm_ft_call *call = g->call;
    if (!call || !agree_value(g->a))
        return;
    g->call = NULL;
    g->dom->failed.nagreeing--;
    call->value = agree_value(g->a);
    for (int i = 0; i < g->n; i++) /* as the others know already */
        if (rt_unlikely(wm_ft_failed(call->value, i)))
            rt_dead_add(g->member[i]);
    prune(g);
    struct wm_comm *c = call->comm;
    if (!call->more)
        leave(call);
    if (call->done)
        call->done(call);
    begin_next(c);
}

static bool is_gone(struct wm_domain *d, struct rt_proc p)
{
    const struct wm_peer *peer = wm_domain_known(d, p);
    return rt_dead_has(p) || (peer && !peer->is_self && (peer->err || wm_peer_is_last(peer)));
}

static void take_deaths(struct agreement *g)
{
    merging = g;
    for (int i = 0; i < g->n && g->call; i++)
        if (!g->noticed[i] && is_gone(g->dom, g->member[i])) {
            g->noticed[i] = 1;
            agree_died(g->a, i);
        }
    finish(g);
}

/* The end of a call may begin another agreement, or remove one. */
void wm_ft_agree_deaths(struct wm_domain *d)
{
    uint32_t begun = d->failed.nagreeing;
    for (uint32_t i = 0; i < begun; i++) {
        struct agreement *g = agreements;
        for (uint32_t k = i; g && (!g->call || k--);)
            g = g->next;
        if (g)
            take_deaths(g);
    }
}

static void take(struct agreement *g, struct rt_proc from, const struct message *p, size_t len)
{
    int i = 0;
    while (i < g->n && (g->member[i].rank != from.rank || g->member[i].ns != from.ns))
        i++;
    merging = g;
    if (!agree_take(g->a, i, (const struct agree_msg *)(const void *)(p + 1), len - sizeof *p))
        wm_malformed(&from, "%zu bytes of an agreement", len);
    finish(g);
}

static struct early *next_early(uint32_t ctx, uint64_t uid, uint32_t number)
{
    for (struct early **at = &earlies, *e; (e = *at); at = &e->next) {
        const struct message *p = (const struct message *)(const void *)e->data;
        if (p->head.ctx != ctx || p->head.uid != uid || p->number != number)
            continue;
        *at = e->next;
        return e;
    }
    return NULL;
}

/* Each message may end the agreement, and later ones, which then remove it. */
static void replay(uint32_t ctx, uint64_t uid, uint32_t number)
{
    for (struct early *e; (e = next_early(ctx, uid, number));) {
        struct agreement *g = find(ctx, uid, number);
        if (g)
            take(g, e->from, (const struct message *)(const void *)e->data, e->len);
        free(e);
    }
}

static void keep(struct rt_proc from, const void *data, size_t len)
{
    struct early *e = malloc(sizeof *e + len), **at = &earlies;
    if (!e)
        rt_boot_abort(1, "out of memory for a message of an agreement");
    *e = (struct early){ .from = from, .len = len };
    memcpy(e->data, data, len);
    while (*at) /* in the order of arrival */
        at = &(*at)->next;
    *at = e;
}

void wm_ft_on_agree(struct wm_domain *d, struct wm_peer *from, const struct wm_ft_head *h,
                    const void *data, size_t len)
{
    _Alignas(8) char copy[sizeof(struct message) + sizeof(struct agree_msg)];
    struct message *p = (struct message *)(void *)copy;
    (void)d;
    if (len < sizeof copy)
        wm_malformed(&from->proc, "%zu bytes of an agreement", len);
    memcpy(copy, data, sizeof copy);
    struct agreement *g = find(h->ctx, h->uid, p->number);
    const struct wm_comm *c = g ? NULL : wm_ft_find(h->ctx, h->uid);
    if (!g && c && p->number < c->ft.nagreed)
        return;                  /* all have the value */
    keep(from->proc, data, len); /* aligned */
    if (g)
        replay(h->ctx, h->uid, p->number);
}

static struct agreement *make(struct wm_ft_call *call)
{
    struct wm_comm *c = call->comm;
    int n = wm_ft_size(c);
    size_t nbytes = (agree_nbytes(n, value_len(n)) + 7) & ~(size_t)7,
           packet = (sizeof(struct message) + sizeof(struct agree_msg) + value_len(n) + 15) &
                    ~(size_t)7,
           each = sizeof(struct rt_proc) + 1; /* and `noticed` */
    struct agreement *g = calloc(1, sizeof *g + nbytes + packet + value_len(n) + (size_t)n * each);
    if (!g)
        return NULL;
    g->a = (struct agree *)(void *)(g + 1);
    g->packet = (char *)g->a + nbytes;
    g->mine = (struct wm_ft_value *)(void *)(g->packet + packet);
    g->member = (struct rt_proc *)(void *)((char *)g->mine + value_len(n));
    g->noticed = (uint8_t *)(g->member + n);
    g->dom = c->dom;
    g->ctx = c->ctx;
    g->uid = wm_ft_uid(c);
    g->n = n;
    g->call = call;
    g->merge = call->merge;
    for (int i = 0; i < n; i++)
        g->member[i] = wm_ft_member(c, i);
    return g;
}

/* This process's contribution. */
static void contribute(struct agreement *g, const struct wm_ft_call *call)
{
    struct wm_ft_value *v = g->mine;
    int words = nwords(g->n);
    v->flag = call->flag;
    v->err = call->err;
    if (call->extra)
        memcpy(v->extra, call->extra, sizeof v->extra);
    for (int i = 0; i < g->n; i++)
        g->noticed[i] = is_gone(g->dom, g->member[i]);
    for (uint32_t k = 0, ndead = rt_dead(); k < ndead; k++)
        for (int i = 0; i < g->n; i++) {
            struct rt_proc p = rt_dead_at(k);
            if (p.rank != g->member[i].rank || p.ns != g->member[i].ns)
                continue;
            set_bit(v->sets, i);
            if (k < call->comm->ft.nacked)
                set_bit(v->sets + words, i);
        }
}

static void begin(struct wm_ft_call *call)
{
    struct wm_comm *c = call->comm;
    uint32_t number = c->ft.nagreed++;
    struct agreement *g = call->waits;
    call->waits = NULL;
    g->number = number;
    contribute(g, call);
    g->next = agreements;
    agreements = g;
    g->dom->failed.nagreeing++;
    merging = g;
    agree_start(g->a, &ops, g, g->n, wm_ft_self(call->comm), value_len(g->n), g->mine, g->noticed);
    finish(g);
    replay(c->ctx, wm_ft_uid(c), number);
}

int wm_ft_agree(struct wm_ft_call *call)
{
    struct wm_ft_call **at = &call->comm->ft.calls;
    call->value = NULL;
    call->waits = make(call);
    if (!call->waits)
        return -RT_ENOMEM;
    while (*at && *at != call)
        at = &(*at)->next;
    *at = call;
    if (call->comm->ft.calls == call)
        begin(call);
    return 0;
}

static bool is_over(void *arg) { return ((const struct wm_ft_call *)arg)->value; }

/* Looks for processes in MPI_Finalize, which are in no list. */
static bool look(void *arg)
{
    wm_ft_agree_deaths(((const struct wm_ft_call *)arg)->comm->dom);
    return false;
}

int wm_ft_agree_wait(struct wm_ft_call *call)
{
    int err = wm_ft_agree(call);
    if (!err)
        wm_domain_until_or(call->comm->dom, is_over, call, WM_WHAT_CALL,
                           (struct wm_interrupt){ look, call });
    return err;
}

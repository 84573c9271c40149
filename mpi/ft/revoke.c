/* SPDX-License-Identifier: BSD-3-Clause */
/* Revocation: a flood.  A process that learns of it sends it to its neighbours before anything
 * else: among the living members, by their rank, those at the distances 1, 2, 4, ... above it.
 *
 * It reaches every living member, also if others die meanwhile: a process that knows of a
 * revocation keeps it until it ends, and when it learns of a death it sends the revocation again,
 * to its neighbours among those that are left.  In the end all of these have the same list of the
 * dead, so each has sent to the next one above it, which closes a ring.  Without deaths a process
 * receives at most log2 n messages, and the last one learns of it after log2 n steps.
 *
 * A revocation may reach a process whose call that makes the communicator has not returned yet.
 * A message of at most MESSAGE_MAX bytes has the members, so the process can keep it and pass it
 * on; wm_ft_created() finds it.  A longer one is passed on by processes that have the communicator,
 * and by the others when they make it.  Members of a communicator are named by their jobs' ids; one
 * of a job that this process has not met is not sent to. */
#include "mpi/ft/revoke.h"
#include "coll/begin.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/revoke.h"
#include "runtime/base/err.h"
#include "runtime/boot/dead.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/activity.h"
#include "runtime/mem/deaths.h"

#include <stdlib.h>
#include <string.h>

/* Every transport sends as much in one message. */
#define MESSAGE_MAX 4096

struct revocation {
    struct revocation *next;
    int n, self; /* members of the communicator */
    size_t len;  /* of the message */
    struct {
        struct wm_ft_head head;
        struct rt_name member[];
    } msg;
};

static struct revocation *revocations;

static struct revocation *find(uint32_t ctx, uint64_t uid)
{
    struct revocation *r = revocations;
    while (r && (r->msg.head.ctx != ctx || r->msg.head.uid != uid))
        r = r->next;
    return r;
}

static bool lives(struct rt_name n, struct rt_proc *p)
{
    return rt_boot_proc(n, p) >= 0 && !rt_dead_has(*p);
}

static void flood(struct wm_domain *d, const struct revocation *r)
{
    struct rt_proc p;
    for (int i = 1, living = 0, next = 1; i < r->n; i++) {
        if (!lives(r->msg.member[(r->self + i) % r->n], &p) || ++living != next)
            continue;
        next *= 2;
        wm_ft_send(d, p, &r->msg, r->len);
    }
}

static struct revocation *make(int n)
{
    size_t len = sizeof(struct wm_ft_head) + (size_t)n * sizeof(struct rt_name);
    struct revocation *r = calloc(1, sizeof *r + (size_t)n * sizeof(struct rt_name));
    if (!r)
        return NULL;
    r->n = n;
    r->len = len > MESSAGE_MAX ? sizeof(struct wm_ft_head) : len;
    r->msg.head.kind = WM_FT_REVOKE;
    return r;
}

void wm_ft_end_calls(struct wm_comm *c)
{
    wm_revoke_messages(c);
    coll_revocations++;
    rt_interrupt();
}

static void apply(struct wm_comm *c)
{
    if (c->local) /* messages of the intercommunicator's collectives */
        wm_revoke_messages(c->local);
    wm_ft_end_calls(c);
    rt_activity_revoked(c->ctx, c->name);
    c->ft.published = true;
}

static void keep(struct wm_domain *d, struct revocation *r)
{
    r->next = revocations;
    revocations = r;
    flood(d, r);
}

/* Keeps a revocation of `c`, and sends it. */
static int keep_of(struct wm_comm *c)
{
    int n = wm_ft_size(c);
    struct revocation *r = make(n);
    if (!r)
        return -RT_ENOMEM;
    r->self = wm_ft_self(c);
    r->msg.head.ctx = c->ctx;
    r->msg.head.uid = wm_ft_uid(c);
    for (int i = 0; i < n; i++)
        r->msg.member[i] = rt_boot_name(wm_ft_member(c, i));
    keep(c->dom, r);
    return 0;
}

int wm_ft_revoke(struct wm_comm *c)
{
    if (c->ft.revoked)
        return 0;
    apply(c);
    return keep_of(c);
}

_Noreturn static void no_memory(void)
{
    rt_boot_abort(1, "out of memory for the revocation of a communicator");
}

void wm_ft_created(struct wm_comm *c)
{
    const struct revocation *r = revocations ? find(c->ctx, wm_ft_uid(c)) : NULL;
    if (!r)
        return;
    apply(c);
    if (!r->n && keep_of(c) < 0)
        no_memory();
}

static int self_in(const struct revocation *r)
{
    struct rt_name me = rt_boot_name((struct rt_proc){ 0, (uint32_t)rt_boot.rank });
    for (int i = 0; i < r->n; i++)
        if (r->msg.member[i].job == me.job && r->msg.member[i].rank == me.rank)
            return i;
    return 0;
}

void wm_ft_on_revoke(struct wm_domain *d, const struct wm_ft_head *h, const void *data, size_t len)
{
    if (find(h->ctx, h->uid))
        return;
    int n = (int)((len - sizeof *h) / sizeof(struct rt_name));
    struct wm_comm *c = wm_ft_find(h->ctx, h->uid);
    struct revocation *r = c && !n ? NULL : make(n);
    if (r) {
        memcpy(&r->msg, data, sizeof *h + (size_t)n * sizeof(struct rt_name));
        r->self = self_in(r);
        keep(d, r);
    } else if (!c || keep_of(c) < 0) {
        no_memory();
    }
    if (c)
        apply(c);
}

void wm_ft_revoke_deaths(struct wm_domain *d)
{
    for (const struct revocation *r = revocations; r; r = r->next)
        flood(d, r);
}

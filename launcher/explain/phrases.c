/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks and waits as text: see print.h. */
#include "launcher/explain/print.h"

#include <string.h>

void print_ranges(char buf[PRINT_RANGES], const int *ranks, int n)
{
    int len = 0;
    buf[0] = '\0';
    for (int i = 0, last; i < n; i = last + 1) {
        for (last = i; last + 1 < n && ranks[last + 1] <= ranks[last] + 1; last++)
            ;
        const char *comma = i ? "," : "";
        if (len > PRINT_RANGES - 30) {
            snprintf(buf + len, (size_t)(PRINT_RANGES - len), ",... (%d)", n);
            return;
        }
        len += snprintf(buf + len, (size_t)(PRINT_RANGES - len), "%s%d", comma, ranks[i]);
        if (ranks[last] > ranks[i])
            len += snprintf(buf + len, (size_t)(PRINT_RANGES - len), "-%d", ranks[last]);
    }
}

static const char *bytes(char buf[32], int64_t n)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB" };
    int u = 0;
    while (u < 3 && n >= 1024 && n % 1024 == 0) {
        n /= 1024;
        u++;
    }
    snprintf(buf, 32, "%lld %s", (long long)n, unit[u]);
    return buf;
}

const struct explain_rank *print_find(const struct explain_job *job, int rank)
{
    for (int i = 0; i < job->nranks; i++)
        if (job->ranks[i].rank == rank)
            return &job->ranks[i];
    return NULL;
}

const struct rt_wait_item *print_front(const struct explain_ref *w)
{
    const struct rt_wait_note *n = &w->wait->note;
    return w->item ? w->item : n->nreqs ? &n->reqs[0] : &n->item;
}

/* The peers of n equal waits: one rank, or the same distance from each. */
static void peers(char buf[32], const struct explain_ref *w, int n)
{
    const struct rt_wait_item *item = print_front(w);
    int size = w->wait->note.comm.size, off = 0;
    bool same = true, shifted = item->peer >= 0 && size > 0;
    for (int i = 0; i < n; i++) {
        const struct rt_wait_item *other = print_front(&w[i]);
        int o = shifted ? (other->peer - w[i].wait->note.comm.rank + size) % size : 0;
        off = i ? off : o;
        same &= other->world == item->world;
        shifted &= other->peer >= 0 && o == off;
    }
    if (same && item->world >= 0)
        snprintf(buf, 32, "rank %d", item->world);
    else if (same)
        snprintf(buf, 32, "%s", item->world == RT_WAIT_ANY ? "any rank" : "another job");
    else if (shifted)
        snprintf(buf, 32, "rank r%+d of each rank r", off > size / 2 ? off - size : off);
    else
        snprintf(buf, 32, "different ranks");
}

static void print_comm(FILE *f, const struct rt_wait_comm *c, bool brief)
{
    const char *quote = strncmp(c->name, "MPI_COMM_", 9) ? "\"" : "";
    if (c->ctx && c->name[0])
        fprintf(f, " on %s%s%s", quote, c->name, quote);
    else if (c->ctx)
        fprintf(f, " on communicator %u", c->ctx);
    if (c->ctx && !brief)
        fprintf(f, " (%d rank%s)", c->size, c->size == 1 ? "" : "s");
}

static void print_item(FILE *f, const struct rt_wait_item *item, const char *peer, bool brief)
{
    char size[32];
    if (item->kind == RT_WAIT_TARGET && item->world != RT_WAIT_NOBODY)
        fprintf(f, " for %s", peer);
    if (item->kind == RT_WAIT_ENTRY)
        fprintf(f, " until %s has called MPI_Init", peer);
    if (item->ctx & 1) { /* the library's own message, part of the call */
        fprintf(f, " for %s", peer);
        return;
    }
    bool parts = item->kind == RT_WAIT_READY || item->kind == RT_WAIT_PARTS;
    bool sends = item->kind == RT_WAIT_SEND || item->kind == RT_WAIT_READY;
    if (!sends && !parts && item->kind != RT_WAIT_RECV && item->kind != RT_WAIT_PROBE)
        return;
    fprintf(f, " %s %s", sends ? "to" : "from", peer);
    if (item->tag == EXPLAIN_ANY_TAG)
        fprintf(f, " any tag");
    else
        fprintf(f, " tag %d", item->tag);
    if (item->kind != RT_WAIT_PROBE && !brief && item->nbytes)
        fprintf(f, ", %s", bytes(size, item->nbytes));
    if (sends && item->queued)
        fprintf(f, " (queued: %s)", bytes(size, item->queued));
}

void print_waits(FILE *f, const struct explain_ref *w, int n)
{
    static const char *const verb[RT_WAIT_KINDS] = { [RT_WAIT_RECV] = "receive",
                                                     [RT_WAIT_SEND] = "send",
                                                     [RT_WAIT_COLL] = "collective",
                                                     [RT_WAIT_READY] = "partitioned send",
                                                     [RT_WAIT_PARTS] = "partitioned receive" };
    const struct rt_wait_note *note = &w->wait->note;
    const struct rt_wait_item *item = print_front(w);
    char peer[32], size[32];
    peers(peer, w, n ? n : 1);
    fputs(note->call[0] ? note->call : "a call of MPI", f);
    if (note->item.kind == RT_WAIT_START)
        fprintf(f, " of %llu process%s", (unsigned long long)note->number,
                note->number == 1 ? "" : "es");
    if (note->item.kind == RT_WAIT_COLL) {
        fprintf(f, " #%llu", (unsigned long long)note->number);
        if (note->root >= 0)
            fprintf(f, " root %d", note->root);
        if (item->nbytes > 0)
            fprintf(f, ", %s", bytes(size, item->nbytes));
    } else {
        const char *what = item->kind < RT_WAIT_KINDS ? verb[item->kind] : NULL;
        if (note->nreqs || item->kind == RT_WAIT_READY || item->kind == RT_WAIT_PARTS)
            fprintf(f, ", %s%s", note->nreqs > 1 ? "first request: " : "", what ? what : "request");
        print_item(f, item, peer, !n);
        if (item->kind == RT_WAIT_READY || item->kind == RT_WAIT_PARTS)
            fprintf(f, ", partition%s %s of %d %s", note->number > 1 ? "s" : "", note->what,
                    note->root, item->kind == RT_WAIT_READY ? "not marked ready" : "missing");
    }
    if (note->nreqs > 1 && (item->ctx ^ note->comm.ctx) > 1) /* it has that of the first request */
        fprintf(f, " on another communicator");
    else
        print_comm(f, &note->comm, !n);
    if (w->wait->place[0])
        fprintf(f, " at %s", w->wait->place);
}

void print_is_in(FILE *f, const struct explain_ref *w)
{
    fprintf(f, "rank %d is in ", w->rank->rank);
    print_waits(f, w, 0);
}

void print_roots(FILE *f, const struct explain_verdict *v)
{
    char ranks[PRINT_RANGES];
    print_ranges(ranks, v->roots, v->nroots);
    fprintf(f, "rank%s %s", v->nroots > 1 ? "s" : "", ranks);
}

void print_place(FILE *f, const struct explain_rank *r)
{
    if (r->function[0])
        fprintf(f, " in %s()", r->function);
    if (r->place[0])
        fprintf(f, " at %s", r->place);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: the contents of a note, and the differences between two notes.  No state; any
 * thread. */
#include "mpi/coll/check_note.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mpi/coll/check_int.h"
#include "mpi/coll/call.h"
#include "mpi/datatype/signature.h"
#include "mpi/op/op.h"

/* ---- signatures ---- */

static struct check_sig sig_of(const struct wm_type *t, int64_t count)
{
    return (struct check_sig){ wm_sig_hash(t, count), count * t->layout.size };
}

static struct check_sig sig_of_counts(const struct wm_type *t, const int64_t *counts, int n)
{
    struct check_sig all = { wm_sig_hash(t, 1), 0 };
    bool packed = !all.hash;
    for (int i = 0; i < n; i++) {
        all.hash = all.hash * 0x9e3779b97f4a7c15u + (uint64_t)counts[i];
        all.nbytes += counts[i] * t->layout.size;
    }
    if (packed)
        all.hash = 0;
    return all;
}

/* ---- making notes ---- */

/* "MPI_Ireduce_scatter", "MPI_Bcast_init" */
static void call_name(const struct wm_call *call, char *out, size_t len)
{
    const char *kind = coll_kind_names[call->args.kind];
    bool blocking = call->form != WM_NONBLOCKING;
    snprintf(out, len, "MPI_%s%c%s%s", blocking ? "" : "I",
             blocking ? (char)(kind[0] - 'a' + 'A') : kind[0], kind + 1,
             call->form == WM_PERSISTENT ? "_init" : "");
}

static bool rooted(enum coll_kind k) { return coll_is(k, COLL_IS_ROOTED); }

static bool per_pair(enum coll_kind k)
{
    return coll_is_apart(k, COLL_SEND) || coll_is_apart(k, COLL_RECV);
}

static uint32_t op_of(const struct wm_op *op)
{
    return !op              ? 0
           : op->predefined ? (uint32_t)(uintptr_t)wm_op_handle(op)
                            : CHECK_USER_OP | (op->op.commutes ? 1u : 0u);
}

static void fill(struct check_sig *to, const struct wm_type *t, struct wm_type **types,
                 const int64_t *counts, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = sig_of(types ? types[i] : t, counts[i]);
}

/* Data that differ from pair to pair; with MPI_IN_PLACE, a rank sends what it expects. */
static void fill_pairs(struct check_note *a, const struct wm_call *call)
{
    const struct coll_args *g = &call->args;
    bool w = g->kind == COLL_ALLTOALLW, all = w || g->kind == COLL_ALLTOALLV;
    struct check_sig *recvs = a->vec + (a->has & CHECK_SENDS ? a->n : 0);
    if (a->has & CHECK_RECVS)
        fill(recvs, call->rtype, w ? call->types + a->n : NULL, g->rcounts, a->n);
    if ((a->has & CHECK_SENDS) && g->scounts)
        fill(a->vec, call->stype, w ? call->types : NULL, g->scounts, a->n);
    else if (a->has & CHECK_SENDS)
        memcpy(a->vec, recvs, (size_t)a->n * sizeof *recvs);
    if (!all && call->stype && !g->scounts) {
        a->has |= CHECK_SEND;
        a->send = sig_of(call->stype, g->scount);
    } else if (g->kind == COLL_ALLGATHERV) {
        a->has |= CHECK_SEND;
        a->send = recvs[call->comm->rank];
    }
    if (g->kind == COLL_SCATTERV && call->rtype) {
        a->has |= CHECK_RECV;
        a->recv = sig_of(call->rtype, g->rcount);
    }
}

static void fill_uniform(struct check_note *a, const struct wm_call *call)
{
    const struct coll_args *g = &call->args;
    a->has |= CHECK_UNIFORM;
    if (call->rtype) {
        a->has |= CHECK_RECV;
        a->recv = g->kind == COLL_REDUCE_SCATTER
                      ? sig_of_counts(call->rtype, g->rcounts, call->comm->size)
                      : sig_of(call->rtype, g->rcount);
    }
    if (call->stype) {
        a->has |= CHECK_SEND;
        a->send = sig_of(call->stype, g->scount);
    }
}

struct check_note *check_note_named(const char *name)
{
    struct check_note *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    size_t len = strlen(name);
    if (len > 2 && !strcmp(name + len - 2, "_c")) /* the same call with large counts */
        len -= 2;
    snprintf(a->name, sizeof a->name, "%.*s", (int)len, name);
    a->root = CHECK_NO_ROOT;
    return a;
}

/* For an intercommunicator only name, root and operation: the two groups have different data. */
struct check_note *check_note_make(const struct wm_call *call)
{
    const struct coll_args *g = &call->args;
    size_t n = (size_t)call->comm->size;
    bool pairs = per_pair(g->kind) && !call->comm->inter;
    bool all = g->kind == COLL_ALLTOALLV || g->kind == COLL_ALLTOALLW;
    struct check_note *a = calloc(1, sizeof *a + (pairs ? 2 * n * sizeof a->vec[0] : 0));
    if (!a)
        return NULL;
    call_name(call, a->name, sizeof a->name);
    a->n = (int32_t)n;
    if (!rooted(g->kind) || g->root != COLL_NOBODY) /* else it has no arguments */
        a->op = op_of(call->op);
    a->root = CHECK_NO_ROOT;
    if (rooted(g->kind) && (!call->comm->inter || g->root >= 0))
        a->root = g->root;
    if (pairs) {
        a->has = (g->scounts || all ? CHECK_SENDS : 0) | (g->rcounts ? CHECK_RECVS : 0);
        fill_pairs(a, call);
    } else if (!call->comm->inter) {
        fill_uniform(a, call);
    }
    return a;
}

/* ---- comparing ---- */

static const char *op_name(uint32_t op)
{
    static const struct {
        MPI_Op op;
        const char *name;
    } names[] = {
        { MPI_SUM, "MPI_SUM" },   { MPI_MIN, "MPI_MIN" },       { MPI_MAX, "MPI_MAX" },
        { MPI_PROD, "MPI_PROD" }, { MPI_BAND, "MPI_BAND" },     { MPI_BOR, "MPI_BOR" },
        { MPI_BXOR, "MPI_BXOR" }, { MPI_LAND, "MPI_LAND" },     { MPI_LOR, "MPI_LOR" },
        { MPI_LXOR, "MPI_LXOR" }, { MPI_MINLOC, "MPI_MINLOC" }, { MPI_MAXLOC, "MPI_MAXLOC" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((uint32_t)(uintptr_t)names[i].op == op)
            return names[i].name;
    return op == (CHECK_USER_OP | 1) ? "an operation of its own that commutes"
           : op == CHECK_USER_OP     ? "an operation of its own that does not commute"
                                     : "another operation";
}

static const struct check_sig *any_sig(const struct check_note *a, bool recv)
{
    return recv ? (a->has & CHECK_RECV ? &a->recv : NULL) : (a->has & CHECK_SEND ? &a->send : NULL);
}

static void say_uniform(const struct check_note *a, const struct check_note *b, int64_t na,
                        int64_t nb, char *text, size_t len)
{
    long long x = na, y = nb;
    if (a == b && x != y)
        snprintf(text, len, "rank %d gives or expects %lld bytes, but also %lld", a->rank, x, y);
    else if (a == b)
        snprintf(text, len, "rank %d gives %lld bytes and expects other datatypes", a->rank, x);
    else if (x != y)
        snprintf(text, len, "rank %d has data of %lld bytes, rank %d of %lld", a->rank, x, b->rank,
                 y);
    else
        snprintf(text, len,
                 "rank %d and rank %d have data of %lld bytes, but of other datatypes or counts",
                 a->rank, b->rank, x);
}

static bool differ_uniform(const struct check_note *a, const struct check_note *b, char *text,
                           size_t len)
{
    for (int i = 0; i < 4; i++) {
        const struct check_sig *x = any_sig(a, i & 1), *y = any_sig(b, i & 2);
        if (!x || !y || check_sig_same(*x, *y))
            continue;
        say_uniform(a, b, x->nbytes, y->nbytes, text, len);
        return true;
    }
    return false;
}

/* Compares what `a` sends to `b` with what `b` expects. */
static bool differ_pair(const struct check_note *a, const struct check_note *b, char *text,
                        size_t len)
{
    const struct check_sig *out = check_sends(a), *in = check_recvs(b);
    out = out ? &out[b->rank] : any_sig(a, false);
    in = in ? &in[a->rank] : any_sig(b, true);
    if (!out || !in || check_sig_same(*out, *in))
        return false;
    if (out->nbytes != in->nbytes)
        snprintf(text, len, "rank %d sends %lld bytes to rank %d, which expects %lld", a->rank,
                 (long long)out->nbytes, b->rank, (long long)in->nbytes);
    else
        snprintf(text, len, "rank %d sends %lld bytes to rank %d, which expects other datatypes",
                 a->rank, (long long)out->nbytes, b->rank);
    return true;
}

bool check_differ(const struct check_note *a, const struct check_note *b, char *text, size_t len)
{
    if (strcmp(a->name, b->name)) {
        snprintf(text, len, "rank %d calls %s, rank %d calls %s", a->rank, a->name, b->rank,
                 b->name);
        return true;
    }
    if (a->root != b->root && a->root != CHECK_NO_ROOT && b->root != CHECK_NO_ROOT) {
        snprintf(text, len, "rank %d has root %d, rank %d has root %d", a->rank, a->root, b->rank,
                 b->root);
        return true;
    }
    if (a->op != b->op && a->op && b->op) {
        snprintf(text, len, "rank %d has %s, rank %d has %s", a->rank, op_name(a->op), b->rank,
                 op_name(b->op));
        return true;
    }
    if (a->has & CHECK_UNIFORM)
        return differ_uniform(a, b, text, len);
    return differ_pair(a, b, text, len) || (a != b && differ_pair(b, a, text, len));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls themselves, and communicators for them: collcall.h. */
#include "test/gpu/collcall.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[CC_KINDS] = { "barrier",
                                             "bcast",
                                             "reduce",
                                             "allreduce",
                                             "reduce_scatter",
                                             "reduce_scatter_block",
                                             "scan",
                                             "exscan",
                                             "gather",
                                             "gatherv",
                                             "scatter",
                                             "scatterv",
                                             "allgather",
                                             "allgatherv",
                                             "alltoall",
                                             "alltoallv",
                                             "alltoallw",
                                             "neighbor_allgather",
                                             "neighbor_allgatherv",
                                             "neighbor_alltoall",
                                             "neighbor_alltoallv",
                                             "neighbor_alltoallw" };
int cc_world_rank;
MPI_Comm cc_world = MPI_COMM_WORLD;

const char *cc_name(enum cc_kind k) { return names[k]; }

/* ---- communicators ---- */

void cc_comm_init(struct cc_comm *c, const char *name, MPI_Comm h, int side)
{
    MPI_Group world, group;
    int inter, ranks[CC_RANKS], n, in[2], out[2];

    *c = (struct cc_comm){ .name = name, .h = h, .graph = MPI_COMM_NULL, .side = side };
    MPI_Comm_set_errhandler(h, MPI_ERRORS_RETURN);
    MPI_Comm_rank(h, &c->me);
    MPI_Comm_size(h, &c->n);
    MPI_Comm_test_inter(h, &inter);
    c->inter = inter;
    if (inter)
        MPI_Comm_remote_group(h, &group);
    else
        MPI_Comm_group(h, &group);
    MPI_Group_size(group, &c->nsrc);
    MPI_Comm_group(cc_world, &world);
    for (int i = 0; i < c->nsrc; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(group, c->nsrc, ranks, world, c->src);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    c->sides[side] = c->n;
    c->sides[1 - side] = c->nsrc;
    if (inter)
        return;
    n = c->n;
    for (int i = 0; i < 2; i++) {
        in[i] = (c->me + 1 + i) % n;
        out[i] = (c->me - 1 - i + 2 * n) % n;
    }
    MPI_Dist_graph_create_adjacent(h, 2, in, MPI_UNWEIGHTED, 2, out, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                   0, &c->graph);
    MPI_Comm_set_errhandler(c->graph, MPI_ERRORS_RETURN);
}

void cc_comm_free(struct cc_comm *c)
{
    if (c->graph != MPI_COMM_NULL)
        MPI_Comm_free(&c->graph);
    if (c->h != MPI_COMM_NULL && c->h != cc_world)
        MPI_Comm_free(&c->h);
}

static struct cc_comm *copies;

/* The struct is not freed before the end of the program, because its call refers to it. */
const struct cc_comm *cc_comm_copy(const struct cc_comm *c)
{
    struct cc_comm *copy = malloc(sizeof(*copy));

    if (!copy)
        abort();
    *copy = *c;
    copy->graph = MPI_COMM_NULL;
    copy->name = "a copy";
    copy->copied = true;
    copy->next = copies;
    copies = copy;
    MPI_Comm_dup(c->h, &copy->h);
    return copy;
}

void cc_comm_release(const struct cc_comm *c)
{
    MPI_Comm h = c->h;

    if (c->copied)
        MPI_Comm_free(&h);
}

void cc_comm_forget(void)
{
    struct cc_comm *c;

    while ((c = copies)) {
        copies = c->next;
        free(c);
    }
}

/* ---- calls ---- */

#define NOTHING ((void *)48) /* the buffer of a rank that has none */
#define FORM(Name, name, ...) \
    (c->form == CC_BLOCKING      ? MPI_##Name(__VA_ARGS__) \
     : c->form == CC_NONBLOCKING ? MPI_I##name(__VA_ARGS__, &c->req) \
                                 : MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &c->req))

struct args {
    const void *s;
    void *r;
    MPI_Datatype st, rt;
    int sn, rn, root;
    MPI_Comm h, graph;
};

static int post_vector(struct cc_call *c, const struct args *a)
{
    switch (c->kind) {
    case CC_GATHERV:
        return FORM(Gatherv, gatherv, a->s, c->one, a->st, a->r, c->rcounts, c->rdispls, a->rt,
                    a->root, a->h);
    case CC_SCATTERV:
        return FORM(Scatterv, scatterv, a->s, c->scounts, c->sdispls, a->st, a->r, c->rcounts[0],
                    a->rt, a->root, a->h);
    case CC_ALLGATHERV:
        return FORM(Allgatherv, allgatherv, a->s, c->one, a->st, a->r, c->rcounts, c->rdispls,
                    a->rt, a->h);
    case CC_ALLTOALLV:
        return FORM(Alltoallv, alltoallv, a->s, c->scounts, c->sdispls, a->st, a->r, c->rcounts,
                    c->rdispls, a->rt, a->h);
    case CC_ALLTOALLW:
        return FORM(Alltoallw, alltoallw, a->s, c->scounts, c->sdispls, c->stypes, a->r, c->rcounts,
                    c->rdispls, c->rtypes, a->h);
    case CC_N_ALLGATHERV:
        return FORM(Neighbor_allgatherv, neighbor_allgatherv, a->s, c->one, a->st, a->r, c->rcounts,
                    c->rdispls, a->rt, a->graph);
    case CC_N_ALLTOALLV:
        return FORM(Neighbor_alltoallv, neighbor_alltoallv, a->s, c->scounts, c->sdispls, a->st,
                    a->r, c->rcounts, c->rdispls, a->rt, a->graph);
    default:
        return FORM(Neighbor_alltoallw, neighbor_alltoallw, a->s, c->scounts, c->sfar, c->stypes,
                    a->r, c->rcounts, c->rfar, c->rtypes, a->graph);
    }
}

static int post_move(struct cc_call *c, const struct args *a)
{
    switch (c->kind) {
    case CC_BARRIER:
        return FORM(Barrier, barrier, a->h);
    case CC_BCAST:
        return FORM(Bcast, bcast, a->r, a->rn, a->rt, a->root, a->h);
    case CC_GATHER:
        return FORM(Gather, gather, a->s, a->sn, a->st, a->r, a->rn, a->rt, a->root, a->h);
    case CC_SCATTER:
        return FORM(Scatter, scatter, a->s, a->sn, a->st, a->r, a->rn, a->rt, a->root, a->h);
    case CC_ALLGATHER:
        return FORM(Allgather, allgather, a->s, a->sn, a->st, a->r, a->rn, a->rt, a->h);
    case CC_ALLTOALL:
        return FORM(Alltoall, alltoall, a->s, a->sn, a->st, a->r, a->rn, a->rt, a->h);
    case CC_N_ALLGATHER:
        return FORM(Neighbor_allgather, neighbor_allgather, a->s, a->sn, a->st, a->r, a->rn, a->rt,
                    a->graph);
    case CC_N_ALLTOALL:
        return FORM(Neighbor_alltoall, neighbor_alltoall, a->s, a->sn, a->st, a->r, a->rn, a->rt,
                    a->graph);
    default:
        return post_vector(c, a);
    }
}

static int post_reduction(struct cc_call *c, const struct args *a)
{
    MPI_Datatype t = c->rt->h;
    MPI_Op op = cr_ops[c->op].h;

    switch (c->kind) {
    case CC_REDUCE:
        return FORM(Reduce, reduce, a->s, a->r, c->n, t, op, a->root, a->h);
    case CC_ALLREDUCE:
        return FORM(Allreduce, allreduce, a->s, a->r, c->n, t, op, a->h);
    case CC_REDUCE_SCATTER:
        return FORM(Reduce_scatter, reduce_scatter, a->s, a->r, c->rcounts, t, op, a->h);
    case CC_REDUCE_SCATTER_BLOCK:
        return FORM(Reduce_scatter_block, reduce_scatter_block, a->s, a->r, c->mine, t, op, a->h);
    case CC_SCAN:
        return FORM(Scan, scan, a->s, a->r, c->n, t, op, a->h);
    default:
        return FORM(Exscan, exscan, a->s, a->r, c->n, t, op, a->h);
    }
}

bool cc_is_enqueued(enum cc_kind k)
{
    return k != CC_SCAN && k != CC_EXSCAN && k != CC_GATHER && k != CC_SCATTER && k < CC_ALLTOALLW;
}

static int enqueue_move(struct cc_call *c, const struct args *a)
{
    switch (c->kind) {
    case CC_BARRIER:
        return MPIX_Barrier_enqueue(a->h);
    case CC_BCAST:
        return MPIX_Bcast_enqueue(a->r, a->rn, a->rt, a->root, a->h);
    case CC_GATHERV:
        return MPIX_Gatherv_enqueue(a->s, c->one, a->st, a->r, c->rcounts, c->rdispls, a->rt,
                                    a->root, a->h);
    case CC_SCATTERV:
        return MPIX_Scatterv_enqueue(a->s, c->scounts, c->sdispls, a->st, a->r, c->rcounts[0],
                                     a->rt, a->root, a->h);
    case CC_ALLGATHER:
        return MPIX_Allgather_enqueue(a->s, a->sn, a->st, a->r, a->rn, a->rt, a->h);
    case CC_ALLGATHERV:
        return MPIX_Allgatherv_enqueue(a->s, c->one, a->st, a->r, c->rcounts, c->rdispls, a->rt,
                                       a->h);
    case CC_ALLTOALL:
        return MPIX_Alltoall_enqueue(a->s, a->sn, a->st, a->r, a->rn, a->rt, a->h);
    default:
        return MPIX_Alltoallv_enqueue(a->s, c->scounts, c->sdispls, a->st, a->r, c->rcounts,
                                      c->rdispls, a->rt, a->h);
    }
}

static int enqueue_reduction(struct cc_call *c, const struct args *a)
{
    MPI_Datatype t = c->rt->h;
    MPI_Op op = cr_ops[c->op].h;

    switch (c->kind) {
    case CC_REDUCE:
        return MPIX_Reduce_enqueue(a->s, a->r, c->n, t, op, a->root, a->h);
    case CC_ALLREDUCE:
        return MPIX_Allreduce_enqueue(a->s, a->r, c->n, t, op, a->h);
    case CC_REDUCE_SCATTER:
        return MPIX_Reduce_scatter_enqueue(a->s, a->r, c->rcounts, t, op, a->h);
    default:
        return MPIX_Reduce_scatter_block_enqueue(a->s, a->r, c->mine, t, op, a->h);
    }
}

int cc_post(struct cc_call *c)
{
    bool roots_side = !c->comm->inter || c->comm->side == c->root_side;
    bool scatter = c->kind == CC_SCATTER || c->kind == CC_SCATTERV;
    struct args a = { NOTHING, NOTHING, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, -5,
                      -5,      c->root, c->comm->h,        c->comm->graph };

    if (c->comm->inter && roots_side)
        a.root = c->is_root ? MPI_ROOT : MPI_PROC_NULL;
    if (c->s.region) {
        a.s = c->s.buf;
        a.st = c->st->h;
        a.sn = c->n / c->st->per;
    }
    if (c->r.region) {
        a.r = c->r.buf;
        a.rt = c->rtype->h;
        a.rn = c->n / c->rtype->per;
    }
    if (c->in_place && !scatter && c->gets && c->sends)
        a.s = MPI_IN_PLACE;
    if (c->in_place && scatter && c->is_root)
        a.r = MPI_IN_PLACE;
    if (c->form == CC_ENQUEUED)
        return cc_reduces(c->kind) ? enqueue_reduction(c, &a) : enqueue_move(c, &a);
    return cc_reduces(c->kind) ? post_reduction(c, &a) : post_move(c, &a);
}

void cc_describe(const struct cc_call *c, char *text, size_t room)
{
    static const char *const forms[] = { "blocking", "nonblocking", "persistent", "enqueued" };
    int k = snprintf(text, room, "call %u: %s %s on %s (%d ranks, me %d, root %d), %s", c->id,
                     forms[c->form], names[c->kind], c->comm->name, c->comm->n, c->comm->me,
                     c->root, c->in_place ? "in place, " : "");

    if (cc_reduces(c->kind))
        k += snprintf(text + k, room - (size_t)k, "%d elements %s %s", c->n, c->rt->name,
                      cr_ops[c->op].name);
    else
        k += snprintf(text + k, room - (size_t)k, "%d units of %d bytes, types %d/%d and %d/%d",
                      c->n, 1 << c->unit, c->st->per, c->st->ext, c->rtype->per, c->rtype->ext);
    snprintf(text + k, room - (size_t)k, ", from %s[%d] to %s[%d]",
             c->s.region ? gt_kind_names[c->skind] : "-", c->sdev,
             c->r.region ? gt_kind_names[c->rkind] : "-", c->rdev);
}

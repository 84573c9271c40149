/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of the users' buffers that a rank has for the others, and the places for incoming
 * blocks.  The kinds of calls in move.c differ only in these. */
#include "coll/node/move.h"

#include "coll/sched.h"

/* Block i of the send side of a call of any kind. */
static struct coll_move_data send_block(const struct coll_args *a, int i)
{
    if (a->kind == COLL_ALLTOALLW)
        return coll_move_whole((const char *)a->sbuf + a->sdispls[i], a->scounts[i], a->stypes[i]);
    int64_t at = a->sdispls ? a->sdispls[i] : i * a->scount;
    return coll_move_whole(coll_at(a->sbuf, at, a->stype), a->scounts ? a->scounts[i] : a->scount,
                           a->stype);
}

struct coll_move_data coll_move_recv_block(const struct coll_args *a, int i)
{
    if (a->kind == COLL_ALLTOALLW)
        return coll_move_whole((char *)a->rbuf + a->rdispls[i], a->rcounts[i], a->rtypes[i]);
    int64_t at = a->rdispls ? a->rdispls[i] : i * a->rcount;
    return coll_move_whole(coll_at(a->rbuf, at, a->rtype), a->rcounts ? a->rcounts[i] : a->rcount,
                           a->rtype);
}

/* Block i of a vector whose sum is scattered. */
static struct coll_move_data summand(const struct coll_args *a, int i)
{
    int64_t at = a->rcounts ? 0 : i * a->rcount;
    for (int j = 0; a->rcounts && j < i; j++)
        at += a->rcounts[j];
    return coll_move_whole(coll_at(coll_input(a), at, a->rtype),
                           a->rcounts ? a->rcounts[i] : a->rcount, a->rtype);
}

struct coll_move_data coll_move_sent(const struct coll_team *t, const struct coll_args *a, int to)
{
    const struct coll_move_data none = { 0 };
    bool in_place = a->sbuf == COLL_IN_PLACE, root = t->rank == a->root;
    switch (a->kind) {
    case COLL_BCAST:
        return root && to != t->rank ? coll_move_whole(a->rbuf, a->rcount, a->rtype) : none;
    case COLL_SCATTER:
    case COLL_SCATTERV:
        return root && (to != t->rank || a->rbuf != COLL_IN_PLACE) ? send_block(a, to) : none;
    case COLL_GATHER:
    case COLL_GATHERV:
        return to == a->root && !in_place ? coll_move_whole(a->sbuf, a->scount, a->stype) : none;
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
        if (!in_place)
            return coll_move_whole(a->sbuf, a->scount, a->stype);
        return to == t->rank ? none : coll_move_recv_block(a, t->rank);
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
    case COLL_ALLTOALLW:
        if (!in_place)
            return send_block(a, to);
        return to == t->rank ? none : coll_move_recv_block(a, to);
    case COLL_REDUCE:
        return to == a->root ? coll_move_whole(coll_input(a), a->rcount, a->rtype) : none;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        return summand(a, to);
    case COLL_SCAN:
    case COLL_EXSCAN:
        return to >= t->rank + (a->kind == COLL_EXSCAN)
                   ? coll_move_whole(coll_input(a), a->rcount, a->rtype)
                   : none;
    default:
        return none;
    }
}

struct coll_move_data coll_move_received(const struct coll_team *t, const struct coll_args *a,
                                         int from)
{
    const struct coll_move_data none = { 0 };
    bool root = t->rank == a->root;
    switch (a->kind) {
    case COLL_BCAST:
        return !root && from == a->root ? coll_move_whole(a->rbuf, a->rcount, a->rtype) : none;
    case COLL_SCATTER:
    case COLL_SCATTERV:
        return from == a->root ? coll_move_whole(a->rbuf, a->rcount, a->rtype) : none;
    case COLL_GATHER:
    case COLL_GATHERV:
        return root ? coll_move_recv_block(a, from) : none;
    case COLL_REDUCE:
        return root ? coll_move_whole(a->rbuf, a->rcount, a->rtype) : none;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        return coll_move_whole(a->rbuf, a->rcounts ? a->rcounts[t->rank] : a->rcount, a->rtype);
    case COLL_SCAN:
    case COLL_EXSCAN:
        return from + (a->kind == COLL_EXSCAN) <= t->rank
                   ? coll_move_whole(a->rbuf, a->rcount, a->rtype)
                   : none;
    default:
        return coll_move_recv_block(a, from);
    }
}

struct coll_move_data coll_move_out(const struct coll_team *t, const struct coll_args *a, int to)
{
    struct coll_move_data d = coll_move_sent(t, a, to);
    return to != t->rank && coll_move_is_small(t->node, a->kind, coll_move_nbytes(d))
               ? (struct coll_move_data){ 0 }
               : d;
}

struct coll_move_data coll_move_in(const struct coll_team *t, const struct coll_args *a, int from)
{
    struct coll_move_data d = coll_move_received(t, a, from);
    return from != t->rank && coll_move_is_small(t->node, a->kind, coll_move_nbytes(d))
               ? (struct coll_move_data){ 0 }
               : d;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments without memory: see blank.h.  For the other ranks they are like those of the call,
 * because sizes and basic types are the same. */
#include "coll/blank.h"
#include <string.h>

#define NOWHERE_NBYTES 4096

_Alignas(RT_CACHE_LINE) char coll_nowhere[NOWHERE_NBYTES];

struct blank {
    struct rt_layout l;
    struct rt_blocks list;
    struct rt_block b[2];
};

/* Of one rank of an exchange with a type for each rank, whose displacements are bytes. */
struct blank_peer {
    struct blank type;
    const struct rt_layout *l;
    int64_t displ;
};

size_t coll_blank_nbytes(const struct coll_team *t, const struct coll_args *a)
{
    int n = (a->stypes ? coll_args_uses(t, a, COLL_SEND) : 0) +
            (a->rtypes ? coll_args_uses(t, a, COLL_RECV) : 0);
    return 2 * sizeof(struct blank) + (size_t)n * sizeof(struct blank_peer);
}

/* A layout with the same signature, all of whose elements are at the beginning of coll_nowhere. */
static const struct rt_layout *blank_layout(struct blank *x, const struct rt_layout *l)
{
    if (!l || l->size == 0)
        return l;
    int64_t len = l->size < NOWHERE_NBYTES ? l->size : NOWHERE_NBYTES, rest = l->size % len;
    x->b[0] = (struct rt_block){ .len = len, .nrep = l->size / len };
    x->b[1] = (struct rt_block){ .len = rest, .nrep = 1 };
    x->list = (struct rt_blocks){ .n = rest ? 2 : 1, .size = l->size, .high = len, .b = x->b };
    x->l = (struct rt_layout){
        .size = l->size, .true_extent = len, .elem = l->elem, .blocks = &x->list
    };
    return &x->l;
}

/* Replaces the types of n ranks; returns the room behind. */
static char *blank_types(char *room, int n, const struct rt_layout *const **types,
                         const int64_t **displs)
{
    struct blank *x = (struct blank *)room;
    const struct rt_layout **l = (const struct rt_layout **)(x + n);
    int64_t *zero = (int64_t *)(l + n);
    for (int i = 0; i < n; i++)
        l[i] = blank_layout(&x[i], (*types)[i]);
    memset(zero, 0, (size_t)n * sizeof *zero);
    *types = l;
    *displs = zero;
    return (char *)(zero + n);
}

void coll_blank(const struct coll_team *t, struct coll_args *a, void *room)
{
    struct blank *x = room;
    char *more = (char *)(x + 2);
    int nsent = a->stypes ? coll_args_uses(t, a, COLL_SEND) : 0,
        nreceived = a->rtypes ? coll_args_uses(t, a, COLL_RECV) : 0;
    if (a->sbuf != COLL_IN_PLACE)
        a->sbuf = coll_nowhere;
    a->rbuf = coll_nowhere;
    a->stype = blank_layout(&x[0], a->stype);
    a->rtype = blank_layout(&x[1], a->rtype);
    if (nsent)
        more = blank_types(more, nsent, &a->stypes, &a->sdispls);
    if (nreceived)
        blank_types(more, nreceived, &a->rtypes, &a->rdispls);
}

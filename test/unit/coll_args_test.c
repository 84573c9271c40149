/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/args.c against MPI-5.0 chapter 6 and section 8.6, written down here for each kind: what each
 * rank sends to each other rank and where that rank receives it.  What a rank reads and writes in
 * its buffers follows from that and is compared byte by byte. */
#include "coll/args.h"
#include "coll/coll.h"
#include "test/check.h"

#define MOST 5
#define ROOM 2048
static char sbuf[ROOM], rbuf[ROOM];
static const struct rt_layout wide = {
    .size = 8, .extent = 16, .true_extent = 8, .elem = RT_ELEM_U64
};
static const struct rt_layout narrow = {
    .size = 4, .extent = 4, .true_extent = 4, .contig = true, .elem = RT_ELEM_U32
};

/* A call on all ranks.  Two elements of `narrow` are received for each element of `wide`. */
struct call {
    enum coll_kind kind;
    int size, root, count;
    bool in_place;
};
/* The call's vectors at one rank, and where they are read from. */
struct vectors {
    int64_t scounts[MOST], sdispls[MOST], rcounts[MOST], rdispls[MOST];
    const struct rt_layout *stypes[MOST], *rtypes[MOST];
};
struct span {
    const char *at;
    int64_t n;
    const struct rt_layout *l;
};

static bool among(enum coll_kind k, const enum coll_kind *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i] == k)
            return true;
    return false;
}
#define ONE_OF(k, ...) \
    among(k, (const enum coll_kind[]){ __VA_ARGS__ }, \
          (int)(sizeof((enum coll_kind[]){ __VA_ARGS__ }) / sizeof(enum coll_kind)))

static bool rooted(enum coll_kind k)
{
    return ONE_OF(k, COLL_BCAST, COLL_REDUCE, COLL_GATHER, COLL_GATHERV, COLL_SCATTER,
                  COLL_SCATTERV);
}
static bool reduces(enum coll_kind k)
{
    return ONE_OF(k, COLL_REDUCE, COLL_ALLREDUCE, COLL_REDUCE_SCATTER, COLL_REDUCE_SCATTER_BLOCK,
                  COLL_SCAN, COLL_EXSCAN);
}
static bool alltoall(enum coll_kind k)
{
    return ONE_OF(k, COLL_ALLTOALL, COLL_ALLTOALLV, COLL_ALLTOALLW);
}
static bool takes_in_place(enum coll_kind k)
{
    return !ONE_OF(k, COLL_BARRIER, COLL_BCAST) && k < COLL_NEIGHBOR_ALLGATHER;
}
static bool is_in_place(const struct call *c, int rank)
{
    return c->in_place && (!rooted(c->kind) || rank == c->root);
}

/* Elements of `wide` from i to j in the v and w forms: symmetric, and 0 for some pairs. */
static int64_t between(const struct call *c, int i, int j) { return (i + j) % 3 * c->count; }

/* Elements of `narrow`, or bytes in the w form, with a gap before each block. */
static void make_vectors(const struct call *c, int rank, struct vectors *v)
{
    bool w = c->kind == COLL_ALLTOALLW;
    int64_t s = 0, r = 0;
    for (int i = 0; i < c->size; i++) {
        bool all = alltoall(c->kind);
        int64_t out = all ? between(c, rank, i) : between(c, i, i),
                in = all ? between(c, i, rank) : between(c, i, i);
        v->scounts[i] = out;
        v->rcounts[i] = 2 * in;
        v->sdispls[i] = w ? 16 * s + 16 : s + 1;
        v->rdispls[i] = w ? 4 * r + 4 : r + 1;
        v->stypes[i] = &wide;
        v->rtypes[i] = &narrow;
        s += out + 1;
        r += 2 * in + 1;
    }
}

static struct coll_args make_args(const struct call *c, int rank, const struct vectors *v)
{
    enum coll_kind k = c->kind;
    bool here = is_in_place(c, rank), scatter = ONE_OF(k, COLL_SCATTER, COLL_SCATTERV),
         w = k == COLL_ALLTOALLW;
    struct coll_args a = { .kind = k, .sbuf = sbuf, .rbuf = rbuf, .root = rooted(k) ? c->root : 0 };
    if (k == COLL_BARRIER)
        return (struct coll_args){ .kind = k };
    a.scount = ONE_OF(k, COLL_GATHERV, COLL_ALLGATHERV) ? between(c, rank, rank) : c->count;
    a.rcount = k == COLL_SCATTERV ? 2 * between(c, rank, rank) : 2 * c->count;
    a.stype = w ? NULL : &wide;
    a.rtype = w ? NULL : &narrow;
    if (reduces(k)) {
        a.stype = &narrow;
        a.scount = a.rcount;
    }
    if (here && scatter)
        a.rbuf = COLL_IN_PLACE;
    else if (here)
        a.sbuf = COLL_IN_PLACE;
    if (ONE_OF(k, COLL_ALLTOALLV, COLL_ALLTOALLW) && !here) {
        a.scounts = v->scounts;
        a.sdispls = v->sdispls;
    }
    if (ONE_OF(k, COLL_ALLTOALLV, COLL_ALLTOALLW, COLL_ALLGATHERV, COLL_REDUCE_SCATTER) ||
        (k == COLL_GATHERV && rank == c->root))
        a.rcounts = v->rcounts;
    if (a.rcounts && k != COLL_REDUCE_SCATTER)
        a.rdispls = v->rdispls;
    if (k == COLL_SCATTERV && rank == c->root) {
        a.scounts = v->scounts;
        a.sdispls = v->sdispls;
    }
    a.stypes = w && !here ? v->stypes : NULL;
    a.rtypes = w ? v->rtypes : NULL;
    if (k == COLL_BCAST) {
        a.sbuf = NULL;
        a.stype = NULL;
    }
    return a;
}

static struct span from_send(int64_t at, int64_t n)
{
    return (struct span){ sbuf + 16 * at, n, &wide };
}
static struct span from_recv(int64_t at, int64_t n)
{
    return (struct span){ rbuf + 4 * at, n, &narrow };
}
static struct span vector_of(bool here, int64_t at, int64_t n)
{
    return (struct span){ (here ? rbuf : sbuf) + 4 * at, n, &narrow };
}

/* From the text of chapter 6: what `rank` sends to `to`.  In place it sends nothing to itself,
 * except an operand of a reduction. */
static struct span passes(const struct call *c, int rank, int to)
{
    const struct span none = { 0 };
    const int64_t n = c->count;
    bool root = rank == c->root, here = is_in_place(c, rank), self = rank == to;
    struct vectors v;
    make_vectors(c, rank, &v);
    int64_t before = 0, by = c->kind == COLL_ALLTOALLW ? 1 : 16;
    for (int i = 0; i < to; i++)
        before += v.rcounts[i];
    switch (c->kind) {
    case COLL_BCAST:
        return root && !self ? from_recv(0, 2 * n) : none;
    case COLL_REDUCE:
        return to == c->root ? vector_of(here, 0, 2 * n) : none;
    case COLL_ALLREDUCE:
        return vector_of(here, 0, 2 * n);
    case COLL_SCAN:
        return to >= rank ? vector_of(here, 0, 2 * n) : none;
    case COLL_EXSCAN:
        return to > rank ? vector_of(here, 0, 2 * n) : none;
    case COLL_REDUCE_SCATTER:
        return vector_of(here, before, v.rcounts[to]);
    case COLL_REDUCE_SCATTER_BLOCK:
        return vector_of(here, 2 * n * to, 2 * n);
    case COLL_GATHER:
        return to == c->root && !here ? from_send(0, n) : none;
    case COLL_GATHERV:
        return to == c->root && !here ? from_send(0, between(c, rank, rank)) : none;
    case COLL_SCATTER:
        return root && !(self && here) ? from_send(n * to, n) : none;
    case COLL_SCATTERV:
        return root && !(self && here) ? from_send(v.sdispls[to], v.scounts[to]) : none;
    default:
        break;
    }
    if (here && self)
        return none;
    switch (c->kind) {
    case COLL_ALLGATHER:
        return here ? from_recv(2 * n * rank, 2 * n) : from_send(0, n);
    case COLL_ALLGATHERV:
        return here ? from_recv(v.rdispls[rank], v.rcounts[rank])
                    : from_send(0, between(c, rank, rank));
    case COLL_ALLTOALL:
        return here ? from_recv(2 * n * to, 2 * n) : from_send(n * to, n);
    case COLL_ALLTOALLV:
    case COLL_ALLTOALLW:
        return here ? (struct span){ rbuf + (by == 1 ? 1 : 4) * v.rdispls[to], v.rcounts[to],
                                     &narrow }
                    : (struct span){ sbuf + by * v.sdispls[to], v.scounts[to], &wide };
    default:
        return none;
    }
}

/* Where `rank` receives what `from` sends to it. */
static struct span receives(const struct call *c, int rank, int from)
{
    const int64_t n = 2 * c->count;
    struct vectors v;
    make_vectors(c, rank, &v);
    if (!passes(c, from, rank).l)
        return (struct span){ 0 };
    switch (c->kind) {
    case COLL_REDUCE_SCATTER:
        return from_recv(0, v.rcounts[rank]);
    case COLL_SCATTERV:
        return from_recv(0, 2 * between(c, rank, rank));
    case COLL_GATHER:
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        return from_recv(n * from, n);
    case COLL_GATHERV:
    case COLL_ALLGATHERV:
    case COLL_ALLTOALLV:
        return from_recv(v.rdispls[from], v.rcounts[from]);
    case COLL_ALLTOALLW:
        return (struct span){ rbuf + v.rdispls[from], v.rcounts[from], &narrow };
    default:
        return from_recv(0, n);
    }
}

/* ---- every call ---- */

typedef void each_fn(const struct call *c, struct coll_team *t, const struct coll_args *a);

static void each_rank(const struct call *c, each_fn *fn)
{
    int failed = 0;
    for (int rank = 0; rank < c->size; rank++) {
        struct vectors v;
        make_vectors(c, rank, &v);
        struct coll_team t = { .rank = rank, .size = c->size };
        struct coll_args a = make_args(c, rank, &v);
        check_failed_case = 0;
        fn(c, &t, &a);
        CHECK_MSG(!check_failed_case, "%s, rank %d of %d, root %d, count %d%s",
                  coll_kind_names[c->kind], rank, c->size, c->root, c->count,
                  c->in_place ? ", in place" : "");
        failed |= check_failed_case;
    }
    check_failed_case = failed;
}

static void each_call(each_fn *fn)
{
    int failed = 0;
    for (int k = 0; k < COLL_NEIGHBOR_ALLGATHER; k++)
        for (int size = 1; size <= MOST; size++)
            for (int root = 0; root < (rooted((enum coll_kind)k) ? size : 1); root++)
                for (int more = 0; more < 4; more++) {
                    struct call c = { (enum coll_kind)k, size, root, more & 1 ? 3 : 0, more & 2 };
                    if (c.in_place && !takes_in_place(c.kind))
                        continue;
                    each_rank(&c, fn);
                    failed |= check_failed_case;
                }
    check_failed_case = failed;
}

static int64_t nbytes(struct span s) { return s.l && s.n > 0 ? s.n * s.l->size : 0; }

static void same(const char *what, int peer, struct coll_block b, struct span s)
{
    CHECK_MSG(coll_block_nbytes(&b) == nbytes(s) && (!nbytes(s) || (b.at == s.at && b.l == s.l)),
              "%s %d: %lld bytes at %td, expected %lld at %td", what, peer,
              (long long)coll_block_nbytes(&b), b.at - rbuf, (long long)nbytes(s), s.at - rbuf);
}

/* For data that a rank gets from itself in place, the place may be named. */
static void check_pairs(const struct call *c, struct coll_team *t, const struct coll_args *a)
{
    for (int i = 0; i < c->size; i++) {
        same("sent to", i, coll_args_sent(t, a, i), passes(c, t->rank, i));
        if (i != t->rank || !is_in_place(c, i))
            same("received from", i, coll_args_received(t, a, i), receives(c, t->rank, i));
        if (!reduces(c->kind))
            CHECK_EQ(nbytes(receives(c, t->rank, i)), nbytes(passes(c, i, t->rank)));
    }
}

static void every_pair(void) { each_call(check_pairs); }

/* ---- bytes of the user's buffers ---- */

struct map {
    bool s[ROOM], r[ROOM];
};

static void mark(struct map *m, const char *at, int64_t n, const struct rt_layout *l)
{
    for (int64_t e = 0; l && e < n; e++)
        for (int64_t i = 0; i < l->size; i++) {
            const char *p = at + e * l->extent + i;
            if (p >= sbuf && p < sbuf + ROOM)
                m->s[p - sbuf] = true;
            else if (p >= rbuf && p < rbuf + ROOM)
                m->r[p - rbuf] = true;
            else
                CHECK_MSG(false, "byte %lld of element %lld is outside", (long long)i,
                          (long long)e);
        }
}

static void mark_uses(const struct coll_team *t, const struct coll_args *a, struct map *in,
                      struct map *out)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0, n = coll_args_uses(t, a, (enum coll_side)side); i < n; i++) {
            struct coll_use u = coll_args_use(t, a, (enum coll_side)side, i);
            if (u.in)
                mark(in, u.b.at, u.b.n, u.b.l);
            if (u.out)
                mark(out, u.b.at, u.defined, u.b.l);
        }
}

static void compare(const char *what, const struct map *m, const struct map *expected)
{
    for (int i = 0; i < ROOM; i++) {
        CHECK_MSG(m->s[i] == expected->s[i], "send byte %d: %s %d", i, what, m->s[i]);
        CHECK_MSG(m->r[i] == expected->r[i], "receive byte %d: %s %d", i, what, m->r[i]);
    }
}

/* If all ranks are equal, a rank's own block that stays in place may be copied too. */
static void check_uses(const struct call *c, struct coll_team *t, const struct coll_args *a)
{
    struct map in = { 0 }, out = { 0 }, reads = { 0 }, writes = { 0 };
    for (int i = 0; i < c->size; i++) {
        struct span s = passes(c, t->rank, i), r = receives(c, t->rank, i);
        mark(&reads, s.at, s.n, s.l);
        mark(&writes, r.at, r.n, r.l);
    }
    if (alltoall(c->kind) && c->in_place) {
        struct call apart = *c;
        apart.in_place = false;
        struct span own = receives(&apart, t->rank, t->rank);
        mark(&reads, own.at, own.n, own.l);
        mark(&writes, own.at, own.n, own.l);
    }
    if (c->kind == COLL_EXSCAN && t->rank == c->size - 1)
        mark(&reads, c->in_place ? rbuf : sbuf, a->rcount, &narrow);
    if (c->size == 1 && c->kind == COLL_BCAST)
        mark(&reads, rbuf, a->rcount, &narrow);
    if (c->size == 1 && c->in_place && c->kind == COLL_ALLGATHER)
        mark(&reads, rbuf, a->rcount, &narrow);
    mark_uses(t, a, &in, &out);
    compare("read", &in, &reads);
    compare("written", &out, &writes);
}

static void every_byte(void) { each_call(check_uses); }

/* ---- lengths ---- */

static int64_t expected_bytes(const struct call *c)
{
    int64_t n = 0;
    for (int i = 0; i < c->size; i++)
        n += 8 * between(c, i, i);
    switch (c->kind) {
    case COLL_REDUCE_SCATTER:
        return n;
    case COLL_ALLGATHERV:
        return n / c->size;
    case COLL_REDUCE_SCATTER_BLOCK:
        return (int64_t)8 * c->size * c->count;
    default:
        return ONE_OF(c->kind, COLL_BARRIER, COLL_GATHERV, COLL_SCATTERV, COLL_ALLTOALLV,
                      COLL_ALLTOALLW)
                   ? 0
                   : 8 * c->count;
    }
}

static void check_lengths(const struct call *c, struct coll_team *t, const struct coll_args *a)
{
    bool own = ONE_OF(c->kind, COLL_GATHERV, COLL_SCATTERV, COLL_ALLTOALLV, COLL_ALLTOALLW),
         known = !own && !ONE_OF(c->kind, COLL_BARRIER, COLL_ALLGATHERV);
    int64_t mine = 0;
    for (int i = 0; i < c->size; i++)
        mine += nbytes(passes(c, t->rank, i)) + nbytes(receives(c, t->rank, i));
    if (alltoall(c->kind) && c->in_place)
        mine += between(c, t->rank, t->rank);
    CHECK_EQ(coll_args_bytes(t, a), expected_bytes(c));
    CHECK_EQ(coll_args_are_empty(a, coll_args_bytes(t, a)), known && expected_bytes(c) == 0);
    CHECK_EQ(coll_args_have_nothing(t, a),
             own && mine == 0 && !(rooted(c->kind) && t->rank == c->root));
    CHECK_EQ(coll_args_in_place(a, t->rank), is_in_place(c, t->rank));
}

static void lengths(void) { each_call(check_lengths); }

/* ---- data that ranks compare ---- */

static uint64_t signature_at(const struct call *c, int rank)
{
    struct vectors v;
    make_vectors(c, rank, &v);
    struct coll_team t = { .rank = rank, .size = c->size };
    struct coll_args a = make_args(c, rank, &v);
    return coll_args_signature(&t, &a);
}

static void check_signature(const struct call *c, struct coll_team *t, const struct coll_args *a)
{
    struct call other = *c;
    (void)a;
    CHECK(signature_at(c, t->rank) == signature_at(c, 0));
    other.count++;
    bool lengths_known = !ONE_OF(c->kind, COLL_BARRIER, COLL_GATHERV, COLL_SCATTERV, COLL_ALLTOALLV,
                                 COLL_ALLTOALLW),
         all_zero = ONE_OF(c->kind, COLL_REDUCE_SCATTER, COLL_ALLGATHERV) && c->size == 1;
    CHECK_EQ(signature_at(&other, t->rank) != signature_at(c, t->rank), lengths_known && !all_zero);
    other = *c;
    other.root = (c->root + 1) % c->size;
    CHECK_EQ(signature_at(&other, t->rank) != signature_at(c, t->rank),
             rooted(c->kind) && c->size > 1);
}

static void signatures(void) { each_call(check_signature); }

/* A rank that sends itself a different length than it receives agrees with no rank. */
static void contradictions(void)
{
    static const enum coll_kind kinds[] = { COLL_GATHER, COLL_SCATTER, COLL_ALLGATHER,
                                            COLL_ALLTOALL, COLL_ALLGATHERV };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct call c = { kinds[i], 3, 1, 3, false };
        struct vectors v;
        make_vectors(&c, 1, &v);
        struct coll_team t = { .rank = 1, .size = 3 };
        struct coll_args a = make_args(&c, 1, &v);
        uint64_t right = coll_args_signature(&t, &a);
        a.scount++;
        CHECK_MSG(coll_args_signature(&t, &a) != right, "%s", coll_kind_names[c.kind]);
    }
}

/* ---- intercommunicators: the peers are the other group ---- */

static struct coll_team local = { .size = 2 };

/* What a process of the group of two reads and writes; the other group has three. */
static void inter_expected(enum coll_kind k, int rank, int root, struct map *in, struct map *out)
{
    struct call remote = { k, 3, 0, 2, false }, own = { k, 2, 0, 2, false };
    struct vectors v, w;
    make_vectors(&remote, rank, &v);
    make_vectors(&own, rank, &w);
    bool to_root = ONE_OF(k, COLL_REDUCE, COLL_GATHER, COLL_GATHERV), roots = rooted(k),
         cut = ONE_OF(k, COLL_REDUCE_SCATTER, COLL_REDUCE_SCATTER_BLOCK),
         sends = !roots || (to_root ? root >= 0 : root == COLL_ROOT),
         receives = !roots || (to_root ? root == COLL_ROOT : root >= 0);
    if (k == COLL_BARRIER)
        return;
    for (int i = 0; i < 3; i++) {
        struct span s = k == COLL_BCAST ? from_recv(0, 4)
                        : cut
                            ? vector_of(false, 0,
                                        k == COLL_REDUCE_SCATTER ? w.rcounts[0] + w.rcounts[1] : 8)
                        : reduces(k) ? vector_of(false, 0, 4)
                        : to_root
                            ? from_send(0, k == COLL_GATHER ? 2 : between(&remote, rank, rank))
                        : k == COLL_ALLGATHER  ? from_send(0, 2)
                        : k == COLL_ALLGATHERV ? from_send(0, between(&remote, rank, rank))
                        : ONE_OF(k, COLL_SCATTER, COLL_ALLTOALL) ? from_send(2 * i, 2)
                        : k == COLL_ALLTOALLW
                            ? (struct span){ sbuf + v.sdispls[i], v.scounts[i], &wide }
                            : from_send(v.sdispls[i], v.scounts[i]);
        struct span r = k == COLL_REDUCE_SCATTER ? from_recv(0, w.rcounts[rank])
                        : reduces(k) || ONE_OF(k, COLL_BCAST, COLL_SCATTER) ? from_recv(0, 4)
                        : k == COLL_SCATTERV ? from_recv(0, 2 * between(&remote, rank, rank))
                        : ONE_OF(k, COLL_GATHER, COLL_ALLGATHER, COLL_ALLTOALL)
                            ? from_recv(4 * i, 4)
                        : k == COLL_ALLTOALLW
                            ? (struct span){ rbuf + v.rdispls[i], v.rcounts[i], &narrow }
                            : from_recv(v.rdispls[i], v.rcounts[i]);
        if (sends)
            mark(in, s.at, s.n, s.l);
        if (receives)
            mark(out, r.at, r.n, r.l);
    }
}

static void inter_at(enum coll_kind k, int rank, int root)
{
    struct call c = { k, ONE_OF(k, COLL_REDUCE_SCATTER) ? 2 : 3, 0, 2, false };
    struct vectors v;
    make_vectors(&c, rank, &v);
    c.root = root == COLL_ROOT ? rank : -1; /* its vectors are set by make_args() */
    struct coll_args a = make_args(&c, rank, &v);
    struct coll_team t = { .rank = rank, .size = 2, .local = &local, .remote_size = 3 };
    struct map in = { 0 }, out = { 0 }, reads = { 0 }, writes = { 0 };
    a.root = root;
    if (rooted(k) && k != COLL_REDUCE) { /* like mpi/, which omits what a process does not use */
        bool to_root = ONE_OF(k, COLL_GATHER, COLL_GATHERV);
        if (to_root ? root < 0 : root != COLL_ROOT)
            a.stype = NULL;
        if (to_root ? root != COLL_ROOT : root < 0 && !(k == COLL_BCAST && root == COLL_ROOT))
            a.rtype = NULL;
    }
    inter_expected(k, rank, root, &reads, &writes);
    mark_uses(&t, &a, &in, &out);
    compare("read", &in, &reads);
    compare("written", &out, &writes);
    CHECK_MSG(!check_failed_case, "%s, rank %d, root %d", coll_kind_names[k], rank, root);
}

static void intercommunicators(void)
{
    for (int k = 0; k < COLL_SCAN; k++)
        for (int rank = 0; rank < 2; rank++) {
            inter_at((enum coll_kind)k, rank, 1);
            if (!rooted((enum coll_kind)k))
                continue;
            inter_at((enum coll_kind)k, rank, COLL_ROOT);
            inter_at((enum coll_kind)k, rank, COLL_NOBODY);
        }
}

/* ---- neighbourhoods ---- */

/* A block for each existing neighbour: two of three in, one of two out; or no neighbours. */
static void neighbors_of(enum coll_kind k, int nin, int nout)
{
    static const int sources[] = { 1, -1, 1 }, destinations[] = { -1, 2 };
    const struct coll_neighbors nb = { nin, nout, sources, destinations, false };
    bool w = k == COLL_NEIGHBOR_ALLTOALLW,
         each = ONE_OF(k, COLL_NEIGHBOR_ALLTOALL, COLL_NEIGHBOR_ALLTOALLV, COLL_NEIGHBOR_ALLTOALLW),
         equal = ONE_OF(k, COLL_NEIGHBOR_ALLGATHER, COLL_NEIGHBOR_ALLTOALL);
    struct call c = { w ? COLL_ALLTOALLW : COLL_ALLTOALLV, 3, 0, 2, false };
    struct vectors v;
    make_vectors(&c, 1, &v);
    struct coll_team t = { .rank = 0, .size = 3 };
    struct coll_args a = { .kind = k,
                           .sbuf = sbuf,
                           .rbuf = rbuf,
                           .scount = 2,
                           .rcount = 4,
                           .stype = w ? NULL : &wide,
                           .rtype = w ? NULL : &narrow,
                           .scounts = each && !equal ? v.scounts : NULL,
                           .sdispls = each && !equal ? v.sdispls : NULL,
                           .rcounts = equal ? NULL : v.rcounts,
                           .rdispls = equal ? NULL : v.rdispls,
                           .stypes = w ? v.stypes : NULL,
                           .rtypes = w ? v.rtypes : NULL,
                           .neighbors = &nb };
    struct map in = { 0 }, out = { 0 }, reads = { 0 }, writes = { 0 };
    for (int i = 0; i < nout; i++)
        if (destinations[i] >= 0 && each)
            mark(&reads, sbuf + (equal ? 32 * i : (w ? 1 : 16) * v.sdispls[i]),
                 equal ? 2 : v.scounts[i], &wide);
    if (!each)
        mark(&reads, sbuf, 2, &wide);
    for (int i = 0; i < nin; i++)
        if (sources[i] >= 0)
            mark(&writes, rbuf + (equal ? 16 * i : (w ? 1 : 4) * v.rdispls[i]),
                 equal ? 4 : v.rcounts[i], &narrow);
    mark_uses(&t, &a, &in, &out);
    compare("read", &in, &reads);
    compare("written", &out, &writes);
    CHECK_EQ(coll_args_bytes(&t, &a), 0);
    CHECK(!coll_args_have_nothing(&t, &a) && !coll_args_are_empty(&a, 0));
    CHECK_MSG(!check_failed_case, "%s of %d and %d neighbours", coll_kind_names[k], nin, nout);
}

static void neighborhoods(void)
{
    for (int k = COLL_NEIGHBOR_ALLGATHER; k < COLL_KINDS; k++) {
        neighbors_of((enum coll_kind)k, 3, 2);
        neighbors_of((enum coll_kind)k, 0, 0);
    }
}

/* ---- the table ---- */

static void every_kind_has_a_row(void)
{
    for (int k = 0; k < COLL_KINDS; k++) {
        enum coll_kind kind = (enum coll_kind)k;
        CHECK(coll_kind_names[k] && *coll_kind_names[k]);
        CHECK_EQ(coll_is(kind, COLL_IS_ROOTED), rooted(kind));
        CHECK_EQ(coll_is(kind, COLL_IS_REDUCTION), reduces(kind));
        CHECK_EQ(coll_is(kind, COLL_IS_NEIGHBOR), k >= COLL_NEIGHBOR_ALLGATHER);
        CHECK_EQ(coll_is_alltoall(kind),
                 alltoall(kind) || ONE_OF(kind, COLL_NEIGHBOR_ALLTOALL, COLL_NEIGHBOR_ALLTOALLV,
                                          COLL_NEIGHBOR_ALLTOALLW));
    }
}

int main(void)
{
    RUN(every_kind_has_a_row);
    RUN(every_pair);
    RUN(every_byte);
    RUN(lengths);
    RUN(signatures);
    RUN(contradictions);
    RUN(intercommunicators);
    RUN(neighborhoods);
    return check_end();
}

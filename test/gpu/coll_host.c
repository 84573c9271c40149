/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective with device buffers: blocking, nonblocking, persistent, in place, with gaps
 * between the data.  The same call with host buffers says what is expected, of every byte.  And
 * packing and unpacking between all kinds of memory. */
#include <mpi.h>
#include "test/check.h"
#include "test/gpu/gputest.h"

enum { COUNT = 33, SLOT = 4, ROOM = 64 * 1024 };
enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
enum what {
    BCAST, REDUCE, ALLREDUCE, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL,
    ALLTOALLV, ALLTOALLW, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, NEIGHBOR, WHATS
};
static const char *const names[WHATS] = {
    "bcast", "reduce", "allreduce", "gather", "gatherv", "scatter", "scatterv", "allgather",
    "allgatherv", "alltoall", "alltoallv", "alltoallw", "reduce_scatter", "reduce_scatter_block",
    "scan", "exscan", "neighbor_alltoall"
};
static int rank, size, dev;
static MPI_Comm world = MPI_COMM_WORLD, ring;
static int counts[64], displs[64], bdispls[64];
static MPI_Datatype types[64];

static void finish(enum form f, int err, MPI_Request *r)
{
    CHECK_EQ(err, MPI_SUCCESS);
    for (int i = 0; i < (f == PERSISTENT ? 2 : 1) && f != BLOCKING; i++) { /* persistent: twice */
        if (f == PERSISTENT)
            CHECK_EQ(MPI_Start(r), MPI_SUCCESS);
        CHECK_EQ(MPI_Wait(r, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    if (f == PERSISTENT)
        MPI_Request_free(r);
}

#define FORMS_OF(Name, name, ...) \
    (f == BLOCKING      ? MPI_##Name(__VA_ARGS__) \
     : f == NONBLOCKING ? MPI_I##name(__VA_ARGS__, &q) \
                        : MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &q))

static void run(enum what w, enum form f, const void *s, void *r, MPI_Datatype t)
{
    MPI_Request q = MPI_REQUEST_NULL;
    MPI_Op op = MPI_SUM;
    int n = COUNT, err = 0, root = size - 1;
    switch (w) {
    case BCAST: err = FORMS_OF(Bcast, bcast, r, n, t, root, world); break;
    case REDUCE: err = FORMS_OF(Reduce, reduce, s, r, n, MPI_INT, op, root, world); break;
    case ALLREDUCE: err = FORMS_OF(Allreduce, allreduce, s, r, n, MPI_INT, op, world); break;
    case GATHER: err = FORMS_OF(Gather, gather, s, n, t, r, n, t, root, world); break;
    case GATHERV:
        err = FORMS_OF(Gatherv, gatherv, s, counts[rank], t, r, counts, displs, t, root, world);
        break;
    case SCATTER: err = FORMS_OF(Scatter, scatter, s, n, t, r, n, t, root, world); break;
    case SCATTERV:
        err = FORMS_OF(Scatterv, scatterv, s, counts, displs, t, r, counts[rank], t, root, world);
        break;
    case ALLGATHER: err = FORMS_OF(Allgather, allgather, s, n, t, r, n, t, world); break;
    case ALLGATHERV:
        err = FORMS_OF(Allgatherv, allgatherv, s, counts[rank], t, r, counts, displs, t, world);
        break;
    case ALLTOALL: err = FORMS_OF(Alltoall, alltoall, s, n, t, r, n, t, world); break;
    case ALLTOALLV: /* equal counts, unequal places */
    case ALLTOALLW:
        for (int i = 0; i < size; i++)
            counts[i] = n;
        err = w == ALLTOALLV ? FORMS_OF(Alltoallv, alltoallv, s, counts, displs, t, r, counts,
                                        displs, t, world)
                             : FORMS_OF(Alltoallw, alltoallw, s, counts, bdispls, types, r, counts,
                                        bdispls, types, world);
        for (int i = 0; i < size; i++)
            counts[i] = n - i;
        break;
    case REDUCE_SCATTER:
        err = FORMS_OF(Reduce_scatter, reduce_scatter, s, r, counts, MPI_INT, op, world);
        break;
    case REDUCE_SCATTER_BLOCK:
        err = FORMS_OF(Reduce_scatter_block, reduce_scatter_block, s, r, n, MPI_INT, op, world);
        break;
    case SCAN: err = FORMS_OF(Scan, scan, s, r, n, MPI_INT, op, world); break;
    case EXSCAN: err = FORMS_OF(Exscan, exscan, s, r, n, MPI_INT, op, world); break;
    case NEIGHBOR:
        err = FORMS_OF(Neighbor_alltoall, neighbor_alltoall, s, n, t, r, n, t, ring);
        break;
    default: break;
    }
    finish(f, err, &q);
}

static bool may_be_in_place(enum what w)
{
    return w == ALLREDUCE || w == SCAN || w == ALLGATHER || w == ALLTOALL || w == REDUCE_SCATTER;
}

static void one(enum what w, enum form f, MPI_Datatype t, enum gt_kind sk, enum gt_kind rk)
{
    static unsigned char hs[ROOM], hr[ROOM], got[ROOM];
    bool place = sk == GT_ALL_KINDS;
    unsigned char *s = place ? NULL : gt_alloc(sk, dev, ROOM, 4), *r = gt_alloc(rk, dev, ROOM, 8);
    for (int i = 0; i < ROOM; i++) {
        hs[i] = gt_byte((size_t)i, (uint64_t)rank + 1) & 15;
        hr[i] = gt_byte((size_t)i, (uint64_t)rank + 100) & 15;
    }
    if (s)
        gt_write(s, hs, ROOM);
    gt_write(r, hr, ROOM);
    run(w, f, place ? MPI_IN_PLACE : hs, hr, t);
    run(w, f, place ? MPI_IN_PLACE : s, r, t);
    gt_read(got, r, ROOM);
    int bad = 0, first = -1;
    for (int i = 0; i < ROOM; i++)
        if (got[i] != hr[i] && bad++ == 0)
            first = i;
    CHECK_MSG(!bad, "%s, form %d, %s%s: %d bytes differ from byte %d on", names[w], f,
              place ? "in place " : "", gt_kind_names[rk], bad, first);
    if (s)
        gt_free(s);
    gt_free(r);
}

static void all(MPI_Datatype t)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(t, &lb, &extent);
    for (int i = 0; i < size; i++) {
        counts[i] = COUNT - i;
        displs[i] = (size - 1 - i) * (COUNT + 2);
        bdispls[i] = displs[i] * (int)extent;
        types[i] = t;
    }
    for (int w = 0; w < WHATS; w++)
        for (int f = 0; f < FORMS; f++) {
            one((enum what)w, (enum form)f, t, GT_CUDA, GT_CUDA);
            one((enum what)w, (enum form)f, t, GT_HOST, GT_MANAGED);
            one((enum what)w, (enum form)f, t, GT_CUDA, GT_HOST);
            if (may_be_in_place((enum what)w))
                one((enum what)w, (enum form)f, t, GT_ALL_KINDS, GT_CUDA);
        }
}

static void contiguous(void) { all(MPI_INT); }

static void with_gaps(void)
{
    MPI_Datatype t;
    MPI_Type_vector(2, 1, 2, MPI_INT, &t);
    MPI_Type_commit(&t);
    all(t);
    MPI_Type_free(&t);
}

/* ---- packing ---- */

static void pack_between(enum gt_kind user, enum gt_kind packed, bool external)
{
    enum { N = 500, NBYTES = N * 2 * (int)sizeof(int) };
    MPI_Datatype t;
    MPI_Type_vector(2, 1, 2, MPI_INT, &t);
    MPI_Type_commit(&t);
    unsigned char *from = gt_alloc(user, dev, 4 * NBYTES, 4), *to = gt_alloc(user, dev, 4 * NBYTES, 4),
                  *p = gt_alloc(packed, dev, NBYTES + 8, 3);
    static unsigned char a[4 * NBYTES], b[4 * NBYTES], flat[NBYTES], flat_got[NBYTES];
    int host_at = 0, at = 8, back = 8;
    MPI_Aint host_at_x = 0, at_x = 8, back_x = 8;
    gt_fill(from, 4 * NBYTES, 5);
    gt_set(to, GT_POISON, 4 * NBYTES);
    gt_set(p, GT_POISON, NBYTES + 8);
    gt_read(a, from, 4 * NBYTES);
    memset(b, GT_POISON, sizeof b);
    if (external) {
        CHECK_EQ(MPI_Pack_external("external32", a, N, t, flat, NBYTES, &host_at_x), 0);
        CHECK_EQ(MPI_Pack_external("external32", from, N, t, p, NBYTES + 8, &at_x), 0);
        CHECK_EQ(MPI_Unpack_external("external32", p, NBYTES + 8, &back_x, to, N, t), 0);
        host_at_x = 0;
        CHECK_EQ(MPI_Unpack_external("external32", flat, NBYTES, &host_at_x, b, N, t), 0);
        CHECK_EQ(at_x, NBYTES + 8);
    } else {
        CHECK_EQ(MPI_Pack(a, N, t, flat, NBYTES, &host_at, world), 0);
        CHECK_EQ(MPI_Pack(from, N, t, p, NBYTES + 8, &at, world), 0);
        CHECK_EQ(MPI_Unpack(p, NBYTES + 8, &back, to, N, t, world), 0);
        host_at = 0;
        CHECK_EQ(MPI_Unpack(flat, NBYTES, &host_at, b, N, t, world), 0);
        CHECK_EQ(at, NBYTES + 8);
    }
    gt_read(flat_got, p + 8, NBYTES);
    CHECK_MSG(!memcmp(flat, flat_got, NBYTES), "packed %s to %s", gt_kind_names[user],
              gt_kind_names[packed]);
    gt_read(a, to, 4 * NBYTES);
    CHECK_MSG(!memcmp(a, b, 4 * NBYTES), "unpacked %s to %s", gt_kind_names[packed],
              gt_kind_names[user]);
    CHECK_EQ(gt_unlike(p, 8, GT_POISON), 8);
    gt_free(from);
    gt_free(to);
    gt_free(p);
    MPI_Type_free(&t);
}

static void packing(void)
{
    static const enum gt_kind kinds[] = { GT_HOST, GT_MANAGED, GT_CUDA, GT_POOL };
    for (int u = 0; u < 4; u++)
        for (int p = 0; p < 4; p++)
            for (int x = 0; x < 2; x++)
                pack_between(kinds[u], kinds[p], x);
}

int main(int argc, char **argv)
{
    gt_need(1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    dev = rank % gt_ndevices();
    gt_use(dev);
    int dims[1] = { size }, periodic[1] = { 0 };
    MPI_Cart_create(world, 1, dims, periodic, 0, &ring);
    RUN(contiguous);
    RUN(with_gaps);
    RUN(packing);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return check_end();
}

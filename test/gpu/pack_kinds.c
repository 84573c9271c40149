/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and unpacking between all kinds of memory, compared with host buffers. */
#include <mpi.h>
#include "test/check.h"
#include "test/gpu/gputest.h"

static int dev;
static MPI_Comm world = MPI_COMM_WORLD;

static void pack_between(enum gt_kind user, enum gt_kind packed, bool external)
{
    enum { N = 500, NBYTES = N * 2 * (int)sizeof(int) };
    MPI_Datatype t;
    MPI_Type_vector(2, 1, 2, MPI_INT, &t);
    MPI_Type_commit(&t);
    unsigned char *from = gt_alloc(user, dev, 4 * NBYTES, 4),
                  *to = gt_alloc(user, dev, 4 * NBYTES, 4),
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
    int rank;
    gt_need(1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    dev = rank % gt_ndevices();
    gt_use(dev);
    RUN(packing);
    MPI_Finalize();
    return check_end();
}

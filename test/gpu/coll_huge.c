/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on more than 4 GiB of device memory, in place, with counts beyond 32 bits.  The
 * contents are a single byte value except in samples: around every boundary of 2 GiB, of blocks and
 * of their halves, at the ends, and at some places between.  Only samples are checked.
 *     coll_huge [GIB]    length of each rank's buffer, default 5 */
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { SAMPLE = 10007, PLACES = 64 };
#define GIB ((size_t)1 << 30)

static size_t len, block, places[PLACES]; /* block: the part of len for each rank */
static int nplaces, dev;
static unsigned char *buf;

static void sample_at(size_t at)
{
    at = at < SAMPLE / 2 ? 0 : at - SAMPLE / 2;
    if (nplaces < PLACES)
        places[nplaces++] = at < len - SAMPLE ? at : len - SAMPLE;
}

static void choose_places(void)
{
    unsigned state = mt_seed;
    sample_at(0);
    sample_at(len);
    for (size_t at = 2 * GIB; at < len; at += 2 * GIB)
        sample_at(at);
    for (int i = 1; i < 2 * mt_size; i++)
        sample_at((size_t)i * block / 2);
    for (int i = 0; i < 6; i++)
        sample_at((size_t)mt_random(&state) * 977 % len);
}

static unsigned char before(int rank, size_t i)
{
    for (int k = 0; k < nplaces; k++)
        if (i - places[k] < SAMPLE)
            return gt_byte(i, (uint64_t)rank);
    return GT_POISON;
}

static void fill(void)
{
    static unsigned char part[SAMPLE];
    CHECK_EQ(cu.memset_d8((cu_ptr)(uintptr_t)buf, GT_POISON, len), CU_OK);
    CHECK_EQ(cu.ctx_synchronize(), CU_OK);
    for (int k = 0; k < nplaces; k++) {
        for (size_t i = 0; i < SAMPLE; i++)
            part[i] = before(mt_rank, places[k] + i);
        gt_write(buf + places[k], part, SAMPLE);
    }
}

/* The expected value of the samples in [0, n). */
typedef unsigned char byte_fn(size_t i);
static void check(byte_fn *after, size_t n)
{
    static unsigned char part[SAMPLE];
    for (int k = 0; k < nplaces; k++) {
        size_t i = 0, end = places[k] < n ? n - places[k] : 0;
        gt_read(part, buf + places[k], SAMPLE);
        while (i < SAMPLE && i < end && part[i] == after(places[k] + i))
            i++;
        CHECK_MSG(i == SAMPLE || i >= end, "rank %d: byte %zu of %zu is %d, not %d", mt_rank,
                  places[k] + i, len, part[i % SAMPLE], after(places[k] + i));
    }
    CHECK(gt_guards_intact(buf));
}

static unsigned char sum_of(int nranks, size_t i)
{
    unsigned sum = 0;
    for (int r = 0; r < nranks; r++)
        sum += before(r, i);
    return (unsigned char)sum;
}

static unsigned char of_all(size_t i) { return sum_of(mt_size, i); }
static unsigned char of_those_before(size_t i) { return sum_of(mt_rank + 1, i); }
static unsigned char of_my_block(size_t i) { return sum_of(mt_size, i + (size_t)mt_rank * block); }
static unsigned char of_last(size_t i) { return before(mt_size - 1, i); }
static unsigned char of_owner(size_t i) { return before((int)(i / block), i); }
static unsigned char from_owner(size_t i)
{
    return before((int)(i / block), (size_t)mt_rank * block + i % block);
}

/* ---- the calls ---- */

static void allreduce(void)
{
    fill();
    OK(MPI_Allreduce_c(MPI_IN_PLACE, buf, (MPI_Count)len, MPI_UINT8_T, MPI_SUM, mt_comm));
    check(of_all, len);
}

static void iallreduce_of_words(void)
{
    MPI_Request q;
    fill();
    OK(MPI_Iallreduce_c(MPI_IN_PLACE, buf, (MPI_Count)len / 8, MPI_UINT64_T, MPI_BXOR, mt_comm,
                        &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    fill();
    OK(MPI_Iallreduce_c(MPI_IN_PLACE, buf, (MPI_Count)len, MPI_UINT8_T, MPI_SUM, mt_comm, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    check(of_all, len);
}

static void reduce(void)
{
    int root = mt_size / 2;
    fill();
    OK(MPI_Reduce_c(mt_rank == root ? MPI_IN_PLACE : buf, buf, (MPI_Count)len, MPI_UINT8_T, MPI_SUM,
                    root, mt_comm));
    check(mt_rank == root ? of_all : NULL, mt_rank == root ? len : 0);
}

static void reduce_scatter_block(void)
{
    fill();
    OK(MPI_Reduce_scatter_block_c(MPI_IN_PLACE, buf, (MPI_Count)block, MPI_UINT8_T, MPI_SUM,
                                  mt_comm));
    check(of_my_block, block);
}

static void scan(void)
{
    fill();
    OK(MPI_Scan_c(MPI_IN_PLACE, buf, (MPI_Count)len, MPI_UINT8_T, MPI_SUM, mt_comm));
    check(of_those_before, len);
}

static void bcast(void)
{
    fill();
    OK(MPI_Bcast_c(buf, (MPI_Count)len, MPI_BYTE, mt_size - 1, mt_comm));
    check(of_last, len);
}

static void allgather(void)
{
    fill();
    OK(MPI_Allgather_c(MPI_IN_PLACE, 0, MPI_BYTE, buf, (MPI_Count)block, MPI_BYTE, mt_comm));
    check(of_owner, block * (size_t)mt_size);
}

static void alltoall(void)
{
    fill();
    OK(MPI_Alltoall_c(MPI_IN_PLACE, 0, MPI_BYTE, buf, (MPI_Count)block, MPI_BYTE, mt_comm));
    check(from_owner, block * (size_t)mt_size);
}

/* The same blocks, at displacements beyond 32 bits. */
static void alltoallv(void)
{
    MPI_Count counts[64];
    MPI_Aint displs[64];
    for (int i = 0; i < mt_size; i++) {
        counts[i] = (MPI_Count)block;
        displs[i] = (MPI_Aint)((size_t)i * block);
    }
    fill();
    OK(MPI_Alltoallv_c(MPI_IN_PLACE, counts, displs, MPI_BYTE, buf, counts, displs, MPI_BYTE,
                       mt_comm));
    check(from_owner, block * (size_t)mt_size);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    len = (argc > 1 ? strtoul(argv[1], NULL, 0) : 5) * GIB + 4096;
    block = len / (size_t)mt_size;
    choose_places();
    buf = gt_try_alloc(GT_CUDA, dev, len, 0);
    if (!buf || mt_size > 16) {
        printf("# rank %d: no memory of %zu bytes, or too many ranks\n", mt_rank, len);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MT_RUN(allreduce);
    MT_RUN(iallreduce_of_words);
    MT_RUN(reduce);
    MT_RUN(reduce_scatter_block);
    MT_RUN(scan);
    MT_RUN(bcast);
    MT_RUN(allgather);
    MT_RUN(alltoall);
    MT_RUN(alltoallv);
    gt_free(buf);
    return mt_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Long collectives on device memory that other processes cannot map, on all ranks or on some: the
 * data go through buffers in a pipeline.  The fake driver shows that no call waits for a stream,
 * and how much host memory is pinned at a time.
 *     coll_bounce [MIB]    length of each rank's buffer, default 96 */
#include <dlfcn.h>
#include <stdlib.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

#define MIB ((size_t)1 << 20)

static size_t n = 96 * MIB / sizeof(uint32_t);
static int dev;
static uint32_t *host;

static int nwaits(void)
{
    fake_cuda_nwaits_fn *fn = (fake_cuda_nwaits_fn *)(uintptr_t)dlsym(RTLD_DEFAULT,
                                                                      "fake_cuda_nwaits");
    return fn ? fn() : 0;
}

static size_t pinned(void)
{
    fake_cuda_pinned_fn *fn = (fake_cuda_pinned_fn *)(uintptr_t)dlsym(RTLD_DEFAULT,
                                                                      "fake_cuda_pinned");
    return fn ? fn() : 0;
}

static uint32_t word(size_t i, int rank) { return (uint32_t)i * 2654435761u + 7u * (uint32_t)rank; }

static void fill(void *buf)
{
    for (size_t i = 0; i < n; i++)
        host[i] = word(i, mt_rank);
    gt_write(buf, host, n * sizeof *host);
}

static uint32_t sum(size_t i)
{
    uint32_t all = 0;
    for (int r = 0; r < mt_size; r++)
        all += word(i, r);
    return all;
}

static uint32_t of_last(size_t i) { return word(i, mt_size - 1); }
static uint32_t gathered(size_t i) { return word(i, (int)(i / (n / (size_t)mt_size))); }

static void check(const void *buf, uint32_t (*after)(size_t i))
{
    size_t i = 0;
    gt_read(host, buf, n * sizeof *host);
    while (i < n && host[i] == after(i))
        i++;
    CHECK_MSG(i == n, "rank %d: word %zu of %zu is %u, not %u", mt_rank, i, n, host[i], after(i));
    CHECK(gt_guards_intact(buf));
}

/* Three calls in place; at most `most` MiB of host memory may be pinned. */
static void calls(enum gt_kind kind, size_t most)
{
    unsigned char *buf = gt_alloc(kind, dev, n * sizeof *host, 0);
    int waits = 0, before;
    OK(MPI_Bcast(buf, 1000, MPI_UINT32_T, 0, mt_comm)); /* the library starts to use the device */
    fill(buf);
    pinned();
    before = nwaits();
    OK(MPI_Allreduce(MPI_IN_PLACE, buf, (int)n, MPI_UINT32_T, MPI_SUM, mt_comm));
    waits += nwaits() - before;
    check(buf, sum);
    fill(buf);
    before = nwaits();
    OK(MPI_Bcast(buf, (int)n, MPI_UINT32_T, mt_size - 1, mt_comm));
    waits += nwaits() - before;
    check(buf, of_last);
    fill(buf);
    before = nwaits();
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, buf, (int)n / mt_size, MPI_UINT32_T, mt_comm));
    waits += nwaits() - before;
    check(buf, gathered);
    CHECK_EQ(waits, 0);
    size_t used = pinned();
    CHECK_MSG(used <= most * MIB, "rank %d: %zu bytes of host memory were pinned", mt_rank, used);
    gt_free(buf);
}

static void vmm_on_all(void) { calls(GT_VMM_OWN, 32); }

static void pool_on_all(void) { calls(GT_POOL_OWN, 32); }

/* All ranks but the first have memory that cannot be mapped. */
static void all_but_one(void) { calls(mt_rank ? GT_VMM_PARTS : GT_CUDA, 32); }

static void host_on_one(void) { calls(mt_rank ? GT_VMM_OWN : GT_HOST, 64); }

static uint32_t in_gaps(size_t i) { return word(i, i % 4 < 3 ? mt_size - 1 : mt_rank); }

/* Types with gaps are packed in host memory; without kernels the CPU packs them after all data have
 * arrived. */
static void with_gaps(void)
{
    unsigned char *buf = gt_alloc(GT_CUDA, dev, n * sizeof *host, 0);
    MPI_Datatype type;
    OK(MPI_Type_vector((int)(n / 4), 3, 4, MPI_UINT32_T, &type));
    OK(MPI_Type_commit(&type));
    fill(buf);
    pinned();
    int before = nwaits();
    OK(MPI_Bcast(buf, 1, type, mt_size - 1, mt_comm));
    CHECK(nwaits() == before || !gt_kernels());
    CHECK(pinned() <= 64 * MIB);
    check(buf, in_gaps);
    OK(MPI_Type_free(&type));
    gt_free(buf);
}

/* Adds the three numbers of each element of four. */
static void add_three(void *in, void *inout, int *count, MPI_Datatype *t)
{
    uint32_t *a = in, *b = inout;
    (void)t;
    for (int i = 0; i < *count; i++)
        for (int j = 0; j < 3; j++)
            b[4 * i + j] += a[4 * i + j];
}

static uint32_t three_of_four(size_t i) { return i % 4 < 3 ? sum(i) : word(i, mt_rank); }

/* The number of kernels that have run; -1: another driver, or there are no kernels. */
static long nkernels(void)
{
    fake_cuda_seen_fn *fn = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    return fn && gt_kernels() ? fn("kernel") : -1;
}

/* A user function gets elements with their gaps, so the host has a mirror of the buffer.  The call
 * returns after the first parts have been started, not after all have been copied. */
static void user_function(void)
{
    enum { STARTED = 8 };
    unsigned char *buf = gt_alloc(GT_CUDA, dev, n * sizeof *host, 0);
    MPI_Datatype three, element;
    MPI_Request r;
    MPI_Op op;
    OK(MPI_Op_create(add_three, 1, &op));
    OK(MPI_Type_contiguous(3, MPI_UINT32_T, &three));
    OK(MPI_Type_create_resized(three, 0, 4 * sizeof *host, &element));
    OK(MPI_Type_commit(&element));
    fill(buf);
    int waits = nwaits();
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    if (fail)
        fail("kernel:0"); /* counts them */
    long before = nkernels();
    OK(MPI_Iallreduce(MPI_IN_PLACE, buf, (int)(n / 4), element, op, mt_comm, &r));
    long after = nkernels();
    CHECK_MSG(after <= before + STARTED,
              "rank %d: %ld parts had been copied when the call returned", mt_rank, after - before);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK(nwaits() == waits || !gt_kernels());
    check(buf, three_of_four);
    OK(MPI_Type_free(&three));
    OK(MPI_Type_free(&element));
    OK(MPI_Op_free(&op));
    gt_free(buf);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    n = (argc > 1 ? strtoul(argv[1], NULL, 0) : 96) * MIB / sizeof *host;
    n -= n % (size_t)(4 * mt_size);
    host = malloc(n * sizeof *host);
    if (!host)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MT_RUN(vmm_on_all);
    MT_RUN(pool_on_all);
    MT_RUN(all_but_one);
    MT_RUN(host_on_one);
    MT_RUN(with_gaps);
    MT_RUN(user_function);
    free(host);
    return mt_end();
}

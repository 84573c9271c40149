/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks on one device, whose compute engine works for one process at a time: short messages do
 * not need it.  The fake driver counts the copies that do.
 *     p2p_turns [mps]
 * mps: the processes share a context, so there are no turns to avoid. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { WARM = 50, MANY = 24 };
#define LONGEST (4u << 20)

static const size_t lens[] = { 2,     3,      4,       7,      8,   4096,           65536,
                               65537, 131072, 1000001, 131074, 999, (1u << 20) + 2, 2u << 20 };
#define NLENS (sizeof lens / sizeof lens[0])
static fake_cuda_seen_fn *seen;
static unsigned char *out, *in;
static bool mps;

static long counted(const char *what) { return seen ? seen(what) : 0; }

/* One message each way, the second after the first. */
static void ping_pong(size_t n, uint64_t key)
{
    gt_fill(out, n, key);
    gt_set(in, GT_POISON, n + 1);
    mt_sync();
    if (mt_first)
        OK(MPI_Send(out, (int)n, MPI_BYTE, mt_peer, 1, mt_comm));
    OK(MPI_Recv(in, (int)n, MPI_BYTE, mt_peer, 1, mt_comm, MPI_STATUS_IGNORE));
    if (!mt_first)
        OK(MPI_Send(out, (int)n, MPI_BYTE, mt_peer, 1, mt_comm));
}

static void check(size_t n, uint64_t key)
{
    GT_CHECK_DATA(in, n, key);
    CHECK_EQ(gt_unlike(in + n, 1, GT_POISON), 1);
}

/* Until both know that the other uses the device. */
static void warm_up(void)
{
    int flag;
    for (uint64_t i = 0; i < WARM; i++) {
        ping_pong(8, i);
        check(8, i);
        OK(MPI_Iprobe(mt_peer, 9, mt_comm, &flag, MPI_STATUS_IGNORE));
    }
}

static void alone(void)
{
    for (size_t i = 0; i < NLENS; i++) {
        ping_pong(lens[i], i); /* maps the memory, makes buffers */
        check(lens[i], i);
        gt_fill(out, lens[i], i + 100);
        gt_set(in, GT_POISON, lens[i] + 1);
        mt_sync();
        long turns = counted("turn"), kernels = counted("kernel");
        OK(MPI_Sendrecv(out, (int)lens[i], MPI_BYTE, mt_peer, 1, in, (int)lens[i], MPI_BYTE,
                        mt_peer, 1, mt_comm, MPI_STATUS_IGNORE));
        turns = counted("turn") - turns;
        CHECK_MSG(!seen || mps == (turns > 0), "%zu bytes: %ld copies by the compute engine",
                  lens[i], turns);
        CHECK_EQ(counted("kernel") - kernels, 0);
        check(lens[i], i + 100);
    }
}

/* Messages that still take a turn: one byte, and a long message, for which a turn is faster. */
static void the_others(void)
{
    static const size_t n[] = { 1, LONGEST };
    for (int i = 0; i < 2; i++) {
        long turns = counted("turn");
        ping_pong(n[i], 5);
        mt_sync();
        check(n[i], 5);
        turns = counted("turn") - turns;
        MPI_Allreduce(MPI_IN_PLACE, &turns, 1, MPI_LONG, MPI_SUM, mt_comm);
        CHECK_MSG(!seen || turns >= 2, "%zu bytes: %ld copies by the compute engine", n[i], turns);
    }
}

/* Many at once: no more than RT_GPU_BY_HOST go by the host. */
static void together(size_t n, bool by_host)
{
    MPI_Request r[2 * MANY];
    gt_fill(out, n * MANY, n);
    gt_set(in, GT_POISON, n * MANY);
    mt_sync();
    long turns = counted("turn");
    for (int i = 0; i < MANY; i++)
        OK(MPI_Irecv(in + n * (size_t)i, (int)n, MPI_BYTE, mt_peer, i, mt_comm, &r[i]));
    for (int i = 0; i < MANY; i++)
        OK(MPI_Isend(out + n * (size_t)i, (int)n, MPI_BYTE, mt_peer, i, mt_comm, &r[MANY + i]));
    OK(MPI_Waitall(2 * MANY, r, MPI_STATUSES_IGNORE));
    GT_CHECK_DATA(in, n * MANY, n);
    turns = counted("turn") - turns;
    CHECK_MSG(!seen || (by_host && !mps) == (turns == 0),
              "%d messages of %zu bytes: %ld copies by the compute engine", MANY, n, turns);
}

/* Host memory to the device. */
static void from_host(void)
{
    static const size_t n[] = { 2, 3, 8, 4096, 4097, 32768, 65536, 1 << 20 };
    for (int kind = GT_HOST; kind <= GT_PINNED; kind++) {
        unsigned char *host = gt_alloc((enum gt_kind)kind, 0, 1 << 20, 0);
        for (int i = 0; i < 16; i++) {
            size_t len = n[i / 2];
            gt_fill(host, len, (uint64_t)i);
            gt_set(in, GT_POISON, len + 1);
            mt_sync();
            long turns = counted("turn");
            OK(MPI_Sendrecv(host, (int)len, MPI_BYTE, mt_peer, 1, in, (int)len, MPI_BYTE, mt_peer,
                            1, mt_comm, MPI_STATUS_IGNORE));
            turns = counted("turn") - turns;
            CHECK_MSG(!seen || mps || !turns,
                      "%zu bytes of %s memory: %ld copies by the compute engine", len,
                      gt_kind_names[kind], turns);
            check(len, (uint64_t)i);
        }
        gt_free(host);
    }
}

static void many(void)
{
    together(8, true);
    together(5001, true);
    together(65536, true);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mps = argc > 1 && !strcmp(argv[1], "mps");
    mt_init(argc, argv);
    gt_use(0);
    seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    if (fail)
        fail("turn:0,kernel:0"); /* counts, nothing fails */
    out = gt_alloc(GT_CUDA, 0, LONGEST, 0);
    in = gt_alloc(GT_CUDA, 0, LONGEST + 1, 3);
    if (mt_size == 2) {
        MT_RUN(warm_up);
        MT_RUN(alone);
        MT_RUN(the_others);
        MT_RUN(many);
        MT_RUN(from_host);
    }
    gt_free(out);
    gt_free(in);
    return mt_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with device buffers where the library and the application share the driver: more
 * buffers than fit into small tables, a capture by another thread beside messages, memory that is
 * freed and allocated again at once.  p2p_busy has the messages beside kernels that fill the
 * device. border [full]    full: the lengths and numbers for a real device */
#include <string.h>
#include "test/gpu/capture.h"

#define MIB ((size_t)1 << 20)
enum { MOST = 600, EACH = 4096, ROUNDS = 2, NLENS = 3, SERVED = 1, FREED_WAIT_S = 10 };

static bool full;
static size_t lens[NLENS] = { 4096, 1 * MIB, 3 * MIB };
static unsigned char *buf[NLENS];

static void send_or_recv(unsigned char *p, size_t n, int tag)
{
    if (mt_first)
        OK(MPI_Send(p, (int)n, MPI_BYTE, mt_peer, tag, mt_comm));
    else
        OK(MPI_Recv(p, (int)n, MPI_BYTE, mt_peer, tag, mt_comm, MPI_STATUS_IGNORE));
}

/* Every round fills the buffers anew, so that a stale mapping shows as wrong data. */
static void in_turn(int n)
{
    static unsigned char *p[MOST];

    for (int i = 0; i < n; i++)
        p[i] = gt_alloc(GT_CUDA, dev, EACH, 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            uint64_t key = (uint64_t)(round * MOST + i);

            gt_fill(p[i], EACH, mt_first ? key : key + 1);
            send_or_recv(p[i], EACH, i);
            GT_CHECK_DATA(p[i], EACH, key);
        }
    for (int i = 0; i < n; i++)
        gt_free(p[i]);
}

static void buffers_in_turn(void)
{
    static const int counts[] = { 200, 300, MOST };

    for (int i = 0; i < (full ? 3 : 2) && mt_peer != MPI_PROC_NULL; i++)
        in_turn(counts[i]);
}

static void all_at_once(void)
{
    MPI_Request r[NLENS];

    for (int i = 0; i < NLENS; i++)
        if (mt_first)
            OK(MPI_Isend(buf[i], (int)lens[i], MPI_BYTE, mt_peer, i, mt_comm, &r[i]));
        else
            OK(MPI_Irecv(buf[i], (int)lens[i], MPI_BYTE, mt_peer, i, mt_comm, &r[i]));
    OK(MPI_Waitall(NLENS, r, MPI_STATUSES_IGNORE));
}

static void global_capture_by_another_thread(void)
{
    for (uint64_t key = 1; key <= 3 && mt_peer != MPI_PROC_NULL; key++) {
        for (int i = 0; i < NLENS; i++)
            gt_fill(buf[i], lens[i], mt_first ? key : 99);
        capture_beside(CU_CAPTURE_GLOBAL, true, all_at_once);
        for (int i = 0; i < NLENS; i++)
            GT_CHECK_DATA(buf[i], lens[i], key);
    }
}

/* Returns whether `n` bytes can be allocated within FREED_WAIT_S while both sides call MPI.
 * Between two attempts there are enough calls to look at all exports: one in 64 calls. */
static bool can_alloc(size_t n)
{
    enum { PROBES = 64 * 1000 };
    double until = MPI_Wtime() + FREED_WAIT_S;
    unsigned char *p;
    int found;

    while (!(p = gt_try_alloc(GT_CUDA, dev, n, 0)) && MPI_Wtime() < until)
        for (int i = 0; i < PROBES; i++)
            OK(MPI_Iprobe(mt_peer, SERVED + 1, mt_comm, &found, MPI_STATUS_IGNORE));
    if (p)
        gt_free(p);
    return p != NULL;
}

/* The peer maps the whole allocation.  The allocation is half of the free memory, and three
 * quarters do not fit until the peer has closed the mapping. */
static void freed_memory_is_free(void)
{
    size_t avail = 0, total = 0, n = lens[NLENS - 1];
    unsigned char *p;

    if (mt_peer == MPI_PROC_NULL || mt_size > 2)
        return;
    if (!mt_first) {
        send_or_recv(buf[NLENS - 1], n, SERVED);
        GT_CHECK_DATA(buf[NLENS - 1], n, 7);
        OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, SERVED, mt_comm, MPI_STATUS_IGNORE));
        return;
    }
    CHECK_EQ(cu.mem_get_info(&avail, &total), CU_OK);
    p = gt_alloc(GT_CUDA, dev, avail / 2, 0);
    gt_fill(p, n, 7);
    send_or_recv(p, n, SERVED);
    gt_free(p);
    CHECK_MSG(can_alloc(avail / 4 * 3), "rank %d: %zu of %zu free bytes, %d s after a free",
              mt_rank, avail / 4 * 3, avail, FREED_WAIT_S);
    OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, SERVED, mt_comm));
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    full = argc > 1 && !strcmp(argv[1], "full");
    if (full)
        lens[NLENS - 1] = 64 * MIB;
    capture_open();
    for (int i = 0; i < NLENS; i++)
        buf[i] = gt_alloc(GT_CUDA, dev, lens[i], 0);
    MT_RUN(buffers_in_turn);
    MT_RUN(global_capture_by_another_thread);
    MT_RUN(freed_memory_is_free);
    for (int i = 0; i < NLENS; i++)
        gt_free(buf[i]);
    capture_close();
    return mt_end();
}

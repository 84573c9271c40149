/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with device buffers during a stream capture, by the sending thread or by another one,
 * including the first message of the process: the messages arrive, and the capture is the same as
 * without them.
 *     p2p_capture [rounds=N] */
#include <stdlib.h>
#include <string.h>
#include "test/gpu/capture.h"

static const size_t lens[] = { 8, 5000, 300000, 3000000 };
enum { NLENS = 4 };

static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM, GT_POOL, GT_POOL_OWN };
enum { NKINDS = 4 };

static int rounds = 3;
static unsigned char *buf[NKINDS][NLENS];

static void send_all(int to, unsigned char *p[NKINDS][NLENS])
{
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            OK(MPI_Send(p[k][i], (int)lens[i], MPI_BYTE, to, 10 * k + i, mt_comm));
}

static void recv_all(int from, unsigned char *p[NKINDS][NLENS])
{
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            OK(MPI_Recv(p[k][i], (int)lens[i], MPI_BYTE, from, 10 * k + i, mt_comm,
                        MPI_STATUS_IGNORE));
}

static void fill(uint64_t key)
{
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            gt_fill(buf[k][i], lens[i], mt_first ? key : 99);
}

static void check(uint64_t key)
{
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            GT_CHECK_DATA(buf[k][i], lens[i], key);
}

static void messages(void)
{
    if (mt_first)
        send_all(mt_peer, buf);
    else
        recv_all(mt_peer, buf);
}

static void beside(int mode, bool by_other, uint64_t key)
{
    fill(key);
    capture_beside(mode, by_other, messages);
    check(key);
}

static void all_modes(void)
{
    uint64_t key = 1;

    if (mt_peer == MPI_PROC_NULL)
        return;
    for (int round = 0; round < rounds; round++)
        for (int mode = CU_CAPTURE_GLOBAL; mode <= CU_CAPTURE_RELAXED; mode++)
            for (int by_other = 0; by_other < 2; by_other++)
                beside(mode, by_other, key++);
    fill(key); /* and after them */
    messages();
    check(key);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "rounds=", 7))
            rounds = atoi(argv[i] + 7);
    capture_open();
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            buf[k][i] = gt_alloc(kinds[k], dev, lens[i], 0);
    MT_RUN(all_modes);
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            gt_free(buf[k][i]);
    capture_close();
    return mt_end();
}

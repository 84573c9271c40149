/* SPDX-License-Identifier: BSD-3-Clause */
/* Every pair of kinds of memory, every mode of sending with a way of receiving, lengths around
 * every switch, odd addresses.
 *     p2p_kinds [all | few] [seed=N] [dev=N]
 * all: each mode with each length, and rare kinds; few: a third of it; dev: every rank uses this
 * device (default: its rank's). */
#include "test/gpu/exchange.h"

static const size_t small[] = { 0, 1, 3, 8, 100, 8191, 8192, 8193 };
static const size_t large[] = { (64u << 10) + 1, (1u << 20) + 3, (5u << 20) + 1 };
#define NSMALL (sizeof(small) / sizeof(small[0]))
#define NLARGE (sizeof(large) / sizeof(large[0]))

static bool all, few;
static int only_dev = -1;
static unsigned state;
static enum gt_kind skind, rkind;
static char name[64];

static int device_of_rank(int rank) { return only_dev >= 0 ? only_dev : rank % gt_ndevices(); }

/* Ranks 0 and 1, 2 and 3, ... at the same time; the last of an odd number sends to itself. */
static void exchange(size_t n, int send, int recv)
{
    struct exch x = { .from = mt_rank & ~1,
                      .skind = skind,
                      .rkind = rkind,
                      .send = send,
                      .recv = recv,
                      .n = n,
                      .tag = 5 };

    x.to = x.from + 1 < mt_size ? x.from + 1 : x.from;
    x.sdev = device_of_rank(x.from);
    x.rdev = device_of_rank(x.to);
    if (send == X_SENDRECV || send == X_REPLACE)
        x.sdev = x.rdev = device_of_rank(mt_rank);
    x.sodd = mt_random(&state) % 4 ? mt_random(&state) % 17 : 0;
    x.rodd = mt_random(&state) % 4 ? mt_random(&state) % 17 : 0;
    x.key = mt_random(&state);
    if ((send == X_BSEND || send == X_IBSEND) && n > (1u << 20) + 3)
        return;
    x_do(&x);
}

static void pair(void)
{
    unsigned i, mode, stride = few ? 3 : 1;

    for (mode = mt_random(&state) % stride; mode < X_SENDS; mode += stride)
        for (i = 0; i < NSMALL; i++)
            if (all || mt_random(&state) % 2)
                exchange(small[i], (int)mode, (int)(mt_random(&state) % X_RECVS));
    for (i = 0; i < NLARGE; i++)
        for (mode = 0; mode < X_SENDS; mode++)
            if (all || mode == mt_random(&state) % X_SENDS)
                exchange(large[i], (int)mode, (int)(mt_random(&state) % X_RECVS));
    /* Always included, with the receive posted before and after. */
    exchange(large[mt_random(&state) % NLARGE], X_SEND, X_EARLY);
    exchange(large[mt_random(&state) % NLARGE], X_ISEND, X_MPROBE);
}

static void truncation(void)
{
    static const size_t lens[] = { 9, 8192, 100000 };
    struct exch x = { .from = mt_rank & ~1, .skind = skind, .rkind = rkind, .tag = 6 };
    unsigned i;
    unsigned char *buf;

    x.to = x.from + 1;
    if (x.to >= mt_size)
        return;
    x.sdev = x.rdev = device_of_rank(mt_rank);
    for (i = 0; i < 3; i++) {
        x.n = lens[i];
        x.key = i + 1;
        if (mt_rank == x.from) {
            OK(MPI_Send(x_send_buffer(&x), (int)x.n, MPI_BYTE, x.to, x.tag, mt_comm));
            continue;
        }
        buf = x_recv_buffer(&x);
        FAILS(MPI_Recv(buf, (int)x.n - 2, MPI_BYTE, x.from, x.tag, mt_comm, MPI_STATUS_IGNORE),
              MPI_ERR_TRUNCATE);
        CHECK_EQ(gt_unlike(buf + x.n - 2, X_MARGIN, GT_POISON), X_MARGIN);
    }
}

/* A message of 40 MiB in each direction for the most important kinds, and a buffer that ends at the
 * end of its allocation. */
static void big(void)
{
    static const enum gt_kind pairs[][2] = { { GT_CUDA, GT_CUDA },
                                             { GT_VMM, GT_POOL },
                                             { GT_HOST, GT_CUDA },
                                             { GT_CUDA, GT_HOST },
                                             { GT_POOL_OWN, GT_VMM_OWN } };
    const size_t n = (40u << 20) + 5;
    int partner = mt_rank ^ 1, dev = device_of_rank(mt_rank);
    unsigned i;

    for (i = 0; i < (all ? 5 : 2) && partner < mt_size; i++) {
        unsigned char *p = gt_alloc(pairs[i][mt_rank % 2], dev, n, 3);

        if (mt_rank % 2 == 0) {
            gt_fill(p, n, i);
            OK(MPI_Send(p, (int)n, MPI_BYTE, partner, 4, mt_comm));
        } else {
            OK(MPI_Recv(p, (int)n, MPI_BYTE, partner, 4, mt_comm, MPI_STATUS_IGNORE));
            GT_CHECK_DATA(p, n, i);
        }
        CHECK(gt_guards_intact(p));
        gt_free(p);
    }
}

static void run_pairs(void (*fn)(void), const char *what, int nkinds)
{
    int s, r;

    for (s = 0; s < nkinds; s++)
        for (r = 0; r < nkinds; r++) {
            skind = (enum gt_kind)s;
            rkind = (enum gt_kind)r;
            snprintf(name, sizeof(name), "%s %s to %s", what, gt_kind_names[s], gt_kind_names[r]);
            mt_run(fn, name);
        }
}

int main(int argc, char **argv)
{
    int i;

    gt_need(1);
    for (i = 1; i < argc; i++) {
        all |= !strcmp(argv[i], "all");
        few |= !strcmp(argv[i], "few");
        if (!strncmp(argv[i], "seed=", 5))
            mt_seed = (unsigned)strtoul(argv[i] + 5, NULL, 0);
        if (!strncmp(argv[i], "dev=", 4))
            only_dev = atoi(argv[i] + 4);
    }
    state = mt_seed;
    mt_init(argc, argv);
    x_attach(4u << 20); /* earlier messages may not have left it yet */
    run_pairs(pair, "pair", all ? GT_ALL_KINDS : GT_KINDS);
    skind = GT_CUDA;
    rkind = GT_CUDA;
    mt_run(truncation, "truncation cuda to cuda");
    rkind = GT_HOST;
    mt_run(truncation, "truncation cuda to host");
    skind = GT_HOST;
    rkind = GT_POOL;
    mt_run(truncation, "truncation host to pool");
    MT_RUN(big);
    x_detach();
    return mt_end();
}

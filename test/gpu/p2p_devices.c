/* SPDX-License-Identifier: BSD-3-Clause */
/* Several devices: messages to the own rank, between any two devices of one rank or of two, all
 * ranks on one device, and masks that hide different devices from each rank.
 *     p2p_devices [mask]
 * mask: rank 0 sees all devices in reverse order, odd ranks only the last, the others only the
 * first; set before the driver is loaded, as launchers and scripts do. */
#include "test/gpu/exchange.h"

static const size_t lens[] = { 0, 7, 8192, 100001, (1u << 20) + 3 };
static enum gt_kind kinds[] = { GT_HOST, GT_PINNED,  GT_MANAGED,  GT_CUDA,
                                GT_VMM,  GT_VMM_OWN, GT_POOL_OWN, GT_POOL };
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))
static unsigned state = 20261121;
static int counts[64]; /* number of devices of each rank */

static void one(int from, int sdev, enum gt_kind s, int to, int rdev, enum gt_kind r, size_t n)
{
    struct exch x = {
        .from = from, .to = to, .sdev = sdev, .rdev = rdev, .skind = s, .rkind = r, .n = n, .tag = 2
    };

    x.send = mt_random(&state) % X_PSEND;
    if (x.send == X_BSEND || x.send == X_IBSEND)
        x.send = X_ISEND;
    if (from == to && (x.send == X_SSEND || x.send == X_SEND))
        x.send = X_ISSEND;
    x.recv = mt_random(&state) % X_RECVS;
    x.sodd = mt_random(&state) % 9;
    x.rodd = mt_random(&state) % 9;
    x.key = mt_random(&state);
    x_do(&x);
}

static void to_oneself(void)
{
    unsigned s, r, i;

    for (s = 0; s < NKINDS; s++)
        for (r = 0; r < NKINDS; r++)
            for (i = 0; i < 5; i++)
                if ((s + r + i) % 2) {
                    int dev = (int)(s + i) % gt_ndevices(), other = (int)(r + i) % gt_ndevices();

                    one(mt_rank, dev, kinds[s], mt_rank, other, kinds[r], lens[i]);
                }
}

static void learn_counts(void)
{
    int i, n = gt_ndevices();

    for (i = 0; i < mt_size; i++)
        OK(MPI_Sendrecv(&n, 1, MPI_INT, i, 1, &counts[i], 1, MPI_INT, i, 1, mt_comm,
                        MPI_STATUS_IGNORE));
}

/* From every device of every rank to every device of the next. */
static void any_to_any(void)
{
    unsigned i = 0, s, r;
    int from, a, b;

    learn_counts();
    for (from = 0; from < mt_size; from++)
        for (a = 0; a < counts[from]; a++)
            for (b = 0; b < counts[(from + 1) % mt_size]; b++)
                for (s = 0; s < 12; s++) {
                    r = mt_random(&state) % NKINDS;
                    one(from, a, kinds[s % NKINDS], (from + 1) % mt_size, b, kinds[r],
                        lens[i++ % 5]);
                }
}

/* All ranks use their first device at once. */
static void shared_device(void)
{
    unsigned s, r, i = 0;

    for (s = 3; s < NKINDS; s++)
        for (r = 0; r < NKINDS; r++, i++)
            one(mt_rank & ~1, 0, kinds[s], (mt_rank | 1) < mt_size ? mt_rank | 1 : mt_rank, 0,
                kinds[r], lens[i % 5]);
}

/* The second device is first used after much traffic on the first. */
static void late_device(void)
{
    unsigned i;

    if (mt_peer == MPI_PROC_NULL)
        return;
    for (i = 0; i < 10; i++)
        one(mt_rank & ~1, 0, GT_CUDA, mt_rank | 1, 0, GT_CUDA, lens[i % 5]);
    for (i = 0; i < 10; i++)
        one(mt_rank & ~1, counts[mt_rank & ~1] - 1, GT_CUDA, mt_rank | 1, counts[mt_rank | 1] - 1,
            GT_POOL, lens[i % 5]);
}

static void mask(void)
{
    const char *v = getenv("PMIX_RANK");
    int rank = v ? atoi(v) : 0, n = 2;
    char text[16];

    v = getenv("FAKE_CUDA_DEVICES");
    if (v)
        n = atoi(v);
    if (rank == 0)
        snprintf(text, sizeof(text), "%d,0", n - 1);
    else
        snprintf(text, sizeof(text), "%d", rank % 2 ? n - 1 : 0);
    setenv("CUDA_VISIBLE_DEVICES", text, 1);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "mask"))
        mask();
    gt_need(1);
    mt_init(argc, argv);
    MT_RUN(any_to_any);
    MT_RUN(to_oneself);
    MT_RUN(shared_device);
    MT_RUN(late_device);
    return mt_end();
}

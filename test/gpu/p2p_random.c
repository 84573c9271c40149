/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic among all ranks, differential: every rank draws the same list of messages from the
 * seed and knows what must arrive.  Many are in progress at once: kinds, devices, lengths, modes,
 * types and orders mixed, device and host messages between the same ranks.
 *     p2p_random [rounds=N] [seed=N] [max=BYTES] */
#include "test/gpu/exchange.h"

#define MESSAGES 40

struct message {
    int from, to;
    enum gt_kind skind, rkind;
    int sdev, rdev;
    size_t n;
    unsigned sodd, rodd;
    enum { SEND, SSEND, RECV_FIRST } mode;
    bool any, vector;
    unsigned char *sbuf, *rbuf;
    int order; /* the order of posting */
};

static unsigned state;
static int rounds = 12;
static unsigned long max_len = 300000;

static unsigned rnd(unsigned n) { return mt_random(&state) % n; }

static size_t random_len(void)
{
    switch (rnd(5)) {
    case 0:
        return rnd(100);
    case 1:
        return rnd(9000);
    case 2:
        return rnd(70000);
    default:
        return rnd((unsigned)max_len);
    }
}

static void draw(struct message *m)
{
    memset(m, 0, sizeof(*m));
    m->from = (int)rnd((unsigned)mt_size);
    m->to = (int)rnd((unsigned)mt_size);
    m->skind = (enum gt_kind)rnd(GT_ALL_KINDS);
    m->rkind = (enum gt_kind)rnd(GT_ALL_KINDS);
    m->sdev = (int)rnd((unsigned)gt_ndevices());
    m->rdev = (int)rnd((unsigned)gt_ndevices());
    m->n = random_len();
    m->sodd = rnd(2) ? rnd(16) : 0;
    m->rodd = rnd(2) ? rnd(16) : 0;
    m->mode = rnd(3);
    m->any = rnd(4) == 0;
    m->vector = rnd(4) == 0;
    m->order = (int)rnd(1000);
}

/* Every second run of 5 bytes; packed, n / 10 runs. */
static MPI_Datatype stripes(size_t n)
{
    MPI_Datatype t;

    OK(MPI_Type_vector((int)(n / 10), 5, 10, MPI_BYTE, &t));
    OK(MPI_Type_commit(&t));
    return t;
}

static void post_send(const struct message *m, int tag, MPI_Request *r)
{
    MPI_Datatype t = m->vector ? stripes(m->n) : MPI_BYTE;
    int count = m->vector ? 1 : (int)m->n;

    if (m->mode == SSEND)
        OK(MPI_Issend(m->sbuf, count, t, m->to, tag, mt_comm, r));
    else
        OK(MPI_Isend(m->sbuf, count, t, m->to, tag, mt_comm, r));
    if (m->vector)
        OK(MPI_Type_free(&t));
}

static void post_recv(const struct message *m, int tag, MPI_Request *r)
{
    MPI_Datatype t = m->vector ? stripes(m->n) : MPI_BYTE;
    int count = m->vector ? 1 : (int)m->n;

    OK(MPI_Irecv(m->rbuf, count, t, m->any ? MPI_ANY_SOURCE : m->from, tag, mt_comm, r));
    if (m->vector)
        OK(MPI_Type_free(&t));
}

static void check(const struct message *m, uint64_t key, int number)
{
    unsigned char *got = malloc(m->n + 1);
    size_t i, bad = m->n;

    gt_read(got, m->rbuf, m->n);
    for (i = m->n; i-- > 0;) {
        bool hole = m->vector && (i % 10 >= 5 || i / 10 >= m->n / 10);

        if (got[i] != (hole ? GT_POISON : gt_byte(i, key)))
            bad = i;
    }
    CHECK_MSG(bad == m->n,
              "message %d, %zu bytes%s, rank %d %s[%d]+%u to rank %d %s[%d]+%u: byte %zu is %02x",
              number, m->n, m->vector ? " of stripes" : "", m->from, gt_kind_names[m->skind],
              m->sdev, m->sodd, m->to, gt_kind_names[m->rkind], m->rdev, m->rodd, bad, got[bad]);
    CHECK_MSG(gt_guards_intact(m->rbuf), "message %d: written beyond the buffer", number);
    free(got);
}

static void post_all(struct message *all, int from, int to, MPI_Request *reqs, int *n)
{
    int order, i;

    for (order = from; order < to; order++)
        for (i = 0; i < MESSAGES; i++) {
            struct message *m = &all[i];

            if (m->order == order && m->to == mt_rank)
                post_recv(m, i, &reqs[(*n)++]);
            if (m->order == order && m->from == mt_rank)
                post_send(m, i, &reqs[(*n)++]);
        }
}

/* Completes requests by one of several calls; other requests may still be in progress. */
static void complete(MPI_Request *reqs, int n, unsigned how)
{
    int i, done, some[2 * MESSAGES], left = n;

    for (; how % 3 == 0 && left > 0; left--)
        OK(MPI_Waitany(n, reqs, &i, MPI_STATUS_IGNORE));
    while (how % 3 == 1 && left > 0) {
        OK(MPI_Testsome(n, reqs, &done, some, MPI_STATUSES_IGNORE));
        left -= done;
    }
    OK(MPI_Waitall(n, reqs, MPI_STATUSES_IGNORE));
}

static void one_round(unsigned round)
{
    struct message all[MESSAGES];
    MPI_Request reqs[2 * MESSAGES];
    int i, n = 0;
    unsigned how = mt_random(&state) + (unsigned)mt_rank;

    for (i = 0; i < MESSAGES; i++) {
        struct message *m = &all[i];

        draw(m);
        if (m->from == mt_rank) {
            m->sbuf = gt_alloc(m->skind, m->sdev, m->n, m->sodd);
            gt_fill(m->sbuf, m->n, round * 1000 + (unsigned)i);
        }
        if (m->to == mt_rank)
            m->rbuf = gt_alloc(m->rkind, m->rdev, m->n, m->rodd);
    }
    post_all(all, 0, 500, reqs, &n);
    if (how % 2)
        complete(reqs, 0, 0);
    post_all(all, 500, 1000, reqs, &n);
    complete(reqs, n, how);
    for (i = 0; i < MESSAGES; i++) {
        if (all[i].to == mt_rank)
            check(&all[i], round * 1000 + (unsigned)i, i);
        if (all[i].rbuf)
            gt_free(all[i].rbuf);
        if (all[i].sbuf)
            gt_free(all[i].sbuf);
    }
}

static void traffic(void)
{
    int round;

    for (round = 0; round < rounds && !check_failed_case; round++)
        one_round((unsigned)round);
}

int main(int argc, char **argv)
{
    int i;

    gt_need(1);
    for (i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "seed=", 5))
            mt_seed = (unsigned)strtoul(argv[i] + 5, NULL, 0);
        if (!strncmp(argv[i], "rounds=", 7))
            rounds = atoi(argv[i] + 7);
        if (!strncmp(argv[i], "max=", 4))
            max_len = strtoul(argv[i] + 4, NULL, 0);
    }
    state = mt_seed;
    mt_init(argc, argv);
    MT_RUN(traffic);
    return mt_end();
}

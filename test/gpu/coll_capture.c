/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on device buffers during a stream capture, by the calling thread or by another one,
 * including the first collective of the process: from device to device, by messages, and through
 * host memory.
 *     coll_capture [rounds=N] */
#include <stdlib.h>
#include <string.h>
#include "test/gpu/capture.h"

enum { LENS = 3, N = 3 * 700000 };
static const int lens[LENS] = { 2, 20000, 700000 }; /* ints */
static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM, GT_POOL, GT_POOL_OWN };
enum { KINDS = 4, SETS = KINDS * LENS };
enum call { ALLREDUCE, BY_USER, BCAST, ALLGATHER, NONBLOCKING, PERSISTENT, CALLS };
static const char *const names[CALLS] = { "allreduce", "user's operation", "bcast",
                                          "allgather", "iallreduce",       "persistent" };

static struct set { /* buffers of one kind and length */
    int n;
    int *in, *out[CALLS];
    MPI_Request q[2];
} sets[SETS];
static int host[N], rounds = 1;
static MPI_Op user_op;

static void user_sum(void *a, void *b, int *n, MPI_Datatype *t)
{
    (void)t;
    for (int i = 0; i < *n; i++)
        ((int *)b)[i] += ((int *)a)[i];
}

static int given(int rank, int i, int key) { return rank * 7 + i * 3 + key; }

static void calls_of(struct set *s)
{
    OK(MPI_Iallreduce(s->in, s->out[NONBLOCKING], s->n, MPI_INT, MPI_SUM, mt_comm, &s->q[0]));
    OK(MPI_Start(&s->q[1]));
    OK(MPI_Allreduce(s->in, s->out[ALLREDUCE], s->n, MPI_INT, MPI_SUM, mt_comm));
    OK(MPI_Allreduce(s->in, s->out[BY_USER], s->n, MPI_INT, user_op, mt_comm));
    OK(MPI_Bcast(s->out[BCAST], s->n, MPI_INT, mt_size - 1, mt_comm));
    OK(MPI_Allgather(s->in, s->n, MPI_INT, s->out[ALLGATHER], s->n, MPI_INT, mt_comm));
    OK(MPI_Waitall(2, s->q, MPI_STATUSES_IGNORE));
}

static void calls(void)
{
    for (int i = 0; i < SETS; i++)
        calls_of(&sets[i]);
}

static void fill(struct set *s, int key)
{
    for (int i = 0; i < s->n; i++)
        host[i] = given(mt_rank, i, key);
    gt_write(s->in, host, (size_t)s->n * sizeof(int));
    for (int c = 0; c < CALLS; c++)
        gt_write(s->out[c], host, (size_t)s->n * sizeof(int));
}

static int wanted(enum call c, int rank, int i, int key)
{
    int sum = mt_size * (i * 3 + key) + 7 * mt_size * (mt_size - 1) / 2;
    return c == BCAST ? given(mt_size - 1, i, key) : c == ALLGATHER ? given(rank, i, key) : sum;
}

static void check_one(const struct set *s, enum call c, int key)
{
    int ranks = c == ALLGATHER ? mt_size : 1;
    gt_read(host, s->out[c], (size_t)ranks * (size_t)s->n * sizeof(int));
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < s->n; i++)
            if (host[r * s->n + i] != wanted(c, r, i, key)) {
                CHECK_MSG(0, "rank %d: %s of %d: number %d of rank %d is %d", mt_rank, names[c],
                          s->n, i, r, host[r * s->n + i]);
                return;
            }
}

static void beside(int mode, bool by_other, int key)
{
    for (int i = 0; i < SETS; i++)
        fill(&sets[i], key);
    mt_sync(); /* no collective before the capture: it would open what a capture may forbid */
    capture_beside(mode, by_other, calls);
    for (int i = 0; i < SETS; i++)
        for (int c = 0; c < CALLS; c++)
            check_one(&sets[i], (enum call)c, key);
}

static void make_sets(void)
{
    for (int i = 0; i < SETS; i++) {
        struct set *s = &sets[i];
        s->n = lens[i % LENS];
        s->in = (int *)(void *)gt_alloc(kinds[i / LENS], dev, (size_t)s->n * sizeof(int), 0);
        for (int c = 0; c < CALLS; c++)
            s->out[c] = (int *)(void *)gt_alloc(
                kinds[i / LENS], dev,
                (size_t)s->n * sizeof(int) * (size_t)(c == ALLGATHER ? mt_size : 1), 0);
        OK(MPI_Allreduce_init(s->in, s->out[PERSISTENT], s->n, MPI_INT, MPI_SUM, mt_comm,
                              MPI_INFO_NULL, &s->q[1]));
    }
}

static void free_sets(void)
{
    for (int i = 0; i < SETS; i++) {
        OK(MPI_Request_free(&sets[i].q[1]));
        gt_free((unsigned char *)sets[i].in);
        for (int c = 0; c < CALLS; c++)
            gt_free((unsigned char *)sets[i].out[c]);
    }
}

static void all_modes(void)
{
    int key = 1;
    make_sets();
    for (int round = 0; round < rounds; round++)
        for (int mode = CU_CAPTURE_GLOBAL; mode <= CU_CAPTURE_RELAXED; mode++)
            for (int by_other = 0; by_other < 2; by_other++)
                beside(mode, by_other, key++);
    free_sets();
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
    OK(MPI_Op_create(user_sum, 1, &user_op));
    MT_RUN(all_modes);
    OK(MPI_Op_free(&user_op));
    capture_close();
    return mt_end();
}

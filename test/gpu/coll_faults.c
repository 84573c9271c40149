/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on device buffers in abnormal conditions: invalid buffers, memory that changes
 * between calls, ranks that come seconds late, kernels of the application on the same device, no
 * memory left.  The result is right data or a clear error; nothing hangs, and the device stays
 * usable meanwhile.
 *     coll_faults [late=MS]
 *     coll_faults full          no device memory is left for the library
 *     coll_faults threads       two communicators, each used by its own thread
 *     coll_faults unfreed       MPI_Finalize with persistent requests that were not freed
 *     coll_faults reset         the application resets the device before MPI_Finalize
 *     coll_faults broken=RULE   FAKE_CUDA_FAIL=RULE on rank 1 alone: calls return everywhere */
#include <pthread.h>
#include "test/gpu/collsum.h"

/* ---- invalid buffers ---- */

static const enum gt_kind shared[] = { GT_CUDA, GT_VMM, GT_POOL };

/* An error on every rank, and all can continue. */
static void freed_pointer(void)
{
    unsigned char *p;
    MPI_Request q;

    for (int k = 0; k < 3; k++) {
        p = gt_alloc(shared[k], dev, 4u << 20, 0);
        sum(p, p, 1000, k);
        gt_free(p);
        FAILS(MPI_Allreduce(MPI_IN_PLACE, p, 1000, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
        FAILS(MPI_Iallreduce(MPI_IN_PLACE, p, 1000, MPI_INT, MPI_SUM, mt_comm, &q), MPI_ERR_BUFFER);
        FAILS(MPI_Bcast(p, 4 << 20, MPI_BYTE, 0, mt_comm), MPI_ERR_BUFFER);
        still_works(k);
    }
}

/* An error on one rank, which may repeat the call: the others wait for it. */
static void wrong_on_one(void)
{
    for (int k = 0; k < 3; k++) {
        const int n = 1000, too_many = 3 << 20;
        unsigned char *p = gt_alloc(shared[k], dev, 4u << 20, 0), *freed = NULL;
        MPI_Request q;

        if (mt_rank == k % mt_size) {
            freed = gt_alloc(shared[k], dev, 100000, 0);
            gt_free(freed);
            FAILS(MPI_Allreduce(MPI_IN_PLACE, p, too_many, MPI_INT, MPI_SUM, mt_comm),
                  MPI_ERR_BUFFER);
            FAILS(MPI_Allreduce(MPI_IN_PLACE, freed, n, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
            FAILS(MPI_Iallreduce(MPI_IN_PLACE, p, too_many, MPI_INT, MPI_SUM, mt_comm, &q),
                  MPI_ERR_BUFFER);
        }
        sum(p, p, n, k);
        if (mt_rank == k % mt_size)
            FAILS(MPI_Allgather(p, n, MPI_INT, freed, n, MPI_INT, mt_comm), MPI_ERR_BUFFER);
        give(p, n, k);
        OK(MPI_Allgather(p, n, MPI_INT, p + (1 << 20), n, MPI_INT, mt_comm));
        is_all(p + (1 << 20), n, k);
        CHECK(gt_guards_intact(p));
        gt_free(p);
    }
}

/* A kernel that used these addresses would destroy the context: right data, or an error. */
static void misaligned(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 80000, 0);
    static const unsigned odd[] = { 1, 2, 6 };

    for (int k = 0; k < 3; k++)
        for (int n = 1; n < 10000; n = n * 20 + 3) {
            void *s = p + (mt_rank % 2 ? 0 : odd[k]), *r = p + 40000 + odd[k];
            give(s, n, k);
            if (MPI_Allreduce(s, r, n, MPI_INT, MPI_SUM, mt_comm) == MPI_SUCCESS)
                is_sum(r, n, k);
        }
    CHECK(gt_guards_intact(p));
    gt_free(p);
    still_works(5);
}

/* ---- memory that changes between calls ---- */

/* Usually the same addresses, always different memory; some ranks keep theirs. */
static void used_again(void)
{
    static const int lens[] = { 20, 1500, 70000, 400000 };
    static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM, GT_POOL, GT_VMM_OWN, GT_PINNED };
    unsigned char *s = NULL, *r = NULL;
    int n, keep = 0;

    for (int round = 0; round < 40; round++) {
        n = lens[round / 10];
        keep = round % 10 && (round + mt_rank) % 3 == 0;
        if (s && !keep) {
            gt_free(s);
            gt_free(r);
        }
        if (!keep) {
            s = gt_alloc(kinds[round % 5], dev, (size_t)n * 4, 0);
            r = gt_alloc(kinds[round % 3], dev, (size_t)n * 4 * (size_t)mt_size, 0);
        }
        sum(s, r, n, round);
        give(s, n, round + 1);
        OK(MPI_Allgather(s, n, MPI_INT, r, n, MPI_INT, mt_comm));
        is_all(r, n, round + 1);
        CHECK(gt_guards_intact(r));
    }
    gt_free(s);
    gt_free(r);
}

/* A persistent request's buffers are different memory at its next start. */
static void used_again_by_a_request(void)
{
    enum { N = 30000 };
    int same = 1, all = 1;
    unsigned char *s, *r, *s_new, *r_new;
    MPI_Request q;

    for (int k = 0; k < 3; k++) {
        s = gt_alloc(shared[k], dev, N * 4, 0);
        r = gt_alloc(shared[k], dev, N * 4, 0);
        OK(MPI_Allreduce_init(s, r, N, MPI_INT, MPI_SUM, mt_comm, MPI_INFO_NULL, &q));
        for (int round = 0; round < 4 && all; round++) {
            give(s, N, round);
            gt_set(r, GT_POISON, N * 4);
            OK(MPI_Start(&q));
            OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
            is_sum(r, N, round);
            if ((round + mt_rank) % 2) {
                gt_free(s);
                gt_free(r);
                r_new = gt_alloc(shared[k], dev, N * 4, 0); /* the memory freed last */
                s_new = gt_alloc(shared[k], dev, N * 4, 0);
                same = s_new == s && r_new == r;
                s = s_new;
                r = r_new;
            }
            OK(MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, mt_comm));
        }
        OK(MPI_Request_free(&q));
        same = all = 1;
        gt_free(s);
        gt_free(r);
    }
}

/* ---- modes of the whole program ---- */

static void full(void)
{
    static cu_ptr hog[4096];
    const int n = 900000;
    unsigned char *p[GT_KINDS], *q[GT_KINDS];
    size_t len = (size_t)32 << 30;
    int nhog = 0;

    for (int k = 0; k < GT_KINDS; k++) {
        p[k] = gt_alloc((enum gt_kind)k, dev, (size_t)n * 4, 0);
        q[k] = gt_alloc((enum gt_kind)k, dev, (size_t)n * 4, 0);
    }
    sum(p[GT_CUDA], q[GT_CUDA], 2, 1);
    mt_sync();
    while (len >= 2048 && nhog < 4096)
        if (cu.mem_alloc(&hog[nhog], len) == CU_OK)
            nhog++;
        else
            len /= 2;
    mt_sync();
    for (int k = 0; k < GT_KINDS; k++)
        for (int m = 0; m < GT_KINDS; m++)
            if (k != GT_MANAGED && m != GT_MANAGED) { /* kernels fail without room (H200) */
                sum(p[(k + mt_rank) % 2 ? k : m], q[m], k % 2 ? 100 : n, k + m);
                give(p[k], n / mt_size, m);
                OK(MPI_Allgather(p[k], n / mt_size, MPI_INT, q[m], n / mt_size, MPI_INT, mt_comm));
                is_all(q[m], n / mt_size, m);
            }
    while (nhog > 0)
        CHECK_EQ(cu.mem_free(hog[--nhog]), CU_OK);
    for (int k = 0; k < GT_KINDS; k++)
        sum(p[k], q[k == GT_MANAGED ? GT_CUDA : GT_MANAGED], n, k);
    for (int k = 0; k < GT_KINDS; k++) {
        CHECK(gt_guards_intact(p[k]) && gt_guards_intact(q[k]));
        gt_free(p[k]);
        gt_free(q[k]);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for gputest, check.h and `host` */
static MPI_Comm comms[2];

enum call { ALLREDUCE, IALLREDUCE, ALLGATHER, MIXED, CALLS }; /* MIXED: host memory on some ranks */

static void thread_calls(enum call what, void *s, void *r, int n, MPI_Comm c)
{
    MPI_Request q;

    if (what == ALLGATHER)
        MPI_Allgather(s, n, MPI_INT, r, n, MPI_INT, c);
    else if (what == IALLREDUCE) {
        MPI_Iallreduce(s, r, n, MPI_INT, MPI_SUM, c, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    } else
        MPI_Allreduce(s, r, n, MPI_INT, MPI_SUM, c);
}

static void *thread_main(void *arg)
{
    static const int lens[] = { 2, 1000, 300000, 20000 };
    int me = *(int *)arg, n;
    unsigned char *s, *r;

    for (int round = 0; round < 25; round++) {
        enum call what = (enum call)((round + me + round / 4) % CALLS);
        bool on_host = what == MIXED && mt_rank % 2;
        n = lens[(round + me) % 4] / (what == ALLGATHER ? mt_size : 1);
        pthread_mutex_lock(&lock);
        s = gt_alloc(on_host ? GT_PINNED : shared[round % 3], dev, (size_t)n * 4, 0);
        r = gt_alloc(shared[(round + 1) % 3], dev, (size_t)n * 4 * (size_t)mt_size, 0);
        give(s, n, round + me);
        cu.ctx_set_current(NULL); /* a thread need not have a current context */
        pthread_mutex_unlock(&lock);
        thread_calls(what, s, r, n, comms[me]);
        pthread_mutex_lock(&lock);
        if (what == ALLGATHER)
            is_all(r, n, round + me);
        else
            is_sum(r, n, round + me);
        CHECK(gt_guards_intact(r));
        gt_free(s);
        gt_free(r);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void threads(void)
{
    int me[2] = { 0, 1 };
    pthread_t t[2];

    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_dup(mt_comm, &comms[i]));
        pthread_create(&t[i], NULL, thread_main, &me[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        OK(MPI_Comm_free(&comms[i]));
    }
}

/* A request that was started, one that never was, and their buffers are freed too. */
static void unfreed(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 40000, 0), *r = gt_alloc(GT_CUDA, dev, 40000, 0);
    MPI_Request q, never;

    OK(MPI_Allreduce_init(p, r, 10000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &q));
    OK(MPI_Bcast_init(p, 10000, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &never));
    give(p, 10000, 1);
    OK(MPI_Start(&q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    is_sum(r, 10000, 1);
    if (mt_rank % 2) {
        gt_free(p);
        gt_free(r);
    }
}

static void reset(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 400000, 0), *r = gt_alloc(GT_CUDA, dev, 400000, 0);
    int one = 1, all = 0;

    sum(p, r, 100000, 1);
    sum(p, r, 2, 1);
    mt_sync();
    CHECK_EQ(cu.primary_ctx_reset(dev), CU_OK);
    OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, mt_comm));
    CHECK_EQ(all, mt_size);
}

static int any_call(int round, unsigned char *s, unsigned char *r, int n)
{
    MPI_Request q;
    int err;

    switch (round % 5) {
    case 0:
        return MPI_Allreduce(s, r, n, MPI_INT, MPI_SUM, mt_comm);
    case 1:
        return MPI_Allreduce(MPI_IN_PLACE, r, n, MPI_INT, MPI_MAX, mt_comm);
    case 2:
        return MPI_Alltoall(s, n / mt_size, MPI_INT, r, n / mt_size, MPI_INT, mt_comm);
    case 3:
        return MPI_Bcast(r, n, MPI_INT, round % mt_size, mt_comm);
    default:
        err = MPI_Iallreduce(s, r, n, MPI_INT, MPI_SUM, mt_comm, &q);
        return err ? err : MPI_Wait(&q, MPI_STATUS_IGNORE);
    }
}

/* An operation of rank 1's device fails: in each process the call returns an error, or right data.
 * The others may have their data already when rank 1 learns of the failure. */
static void broken(void)
{
    unsigned char *s = gt_alloc(GT_CUDA, dev, 400000, 0), *r = gt_alloc(GT_CUDA, dev, 400000, 0);
    int failed, any = 0, n, err, class;

    give(s, 100000, 1);
    give(r, 100000, 1);
    mt_sync();
    for (int round = 0; round < 60 && !any; round++) {
        n = round / 5 % 2 ? 2 * mt_size : 100000;
        err = any_call(round, s, r, n);
        class = MPI_SUCCESS;
        if (err)
            MPI_Error_class(err, &class);
        failed = err != MPI_SUCCESS;
        if (err)
            printf("# rank %d: call %d gives class %d\n", mt_rank, round, class);
        else if (round % 5 == 0)
            is_sum(r, n, 1);
        OK(MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    char rule[200] = "";
    const char *mode = "", *rank = getenv("PMIX_RANK");
    int level;

    for (int i = 1; i < argc; i++)
        mode = argv[i];
    if (sscanf(mode, "broken=%199s", rule) == 1 && rank && atoi(rank) == 1)
        setenv("FAKE_CUDA_FAIL", rule, 1);
    gt_need(1);
    MPI_Init_thread(&argc, &argv, strcmp(mode, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
                    &level);
    mt_setup();
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    if (!strcmp(mode, "full"))
        MT_RUN(full);
    else if (!strcmp(mode, "threads"))
        MT_RUN(threads);
    else if (!strcmp(mode, "unfreed"))
        MT_RUN(unfreed);
    else if (!strcmp(mode, "reset"))
        MT_RUN(reset);
    else if (*rule)
        MT_RUN(broken);
    else {
        MT_RUN(freed_pointer);
        MT_RUN(wrong_on_one);
        MT_RUN(misaligned);
        MT_RUN(used_again);
        MT_RUN(used_again_by_a_request);
    }
    return mt_end();
}

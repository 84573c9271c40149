/* SPDX-License-Identifier: BSD-3-Clause */
/* The library releases everything that it gets from the driver: after MPI_Finalize, and after the
 * last of several sessions, as many objects exist as before.  Descriptors are counted with any
 * driver, the driver's objects with the fake one. */
#include <dlfcn.h>
#include "test/descriptors.h"
#include "test/gpu/exchange.h"

static const char *const names[FAKE_THINGS + 1] = { "allocations and mappings",
                                                    "streams",
                                                    "events",
                                                    "references to primary contexts",
                                                    "VMM handles",
                                                    "modules",
                                                    "descriptors" };
static int before[FAKE_THINGS + 1];
static fake_cuda_alive_fn *alive;

static void count(int *out)
{
    int i;

    for (i = 0; i < FAKE_THINGS; i++)
        out[i] = alive ? alive((enum fake_thing)i) : 0;
    out[i] = descriptors();
}

/* Descriptors: those that the first start opens for good (PMIx, the node segment) are not opened
 * again. */
static void compare(const char *when, bool and_fds)
{
    int now[FAKE_THINGS + 1], i;

    count(now);
    for (i = 0; i <= FAKE_THINGS - !and_fds; i++)
        CHECK_MSG(now[i] == before[i], "rank %d, %s: %d %s, before it were %d", mt_rank, when,
                  now[i], names[i], before[i]);
}

/* Everything that makes the library allocate something: mappings of all kinds, staging, packing,
 * kernels, both directions, all devices. */
static void messages(MPI_Comm comm)
{
    static const size_t lens[] = { 8, 9000, 3000001 };
    enum gt_kind k;
    unsigned i;
    MPI_Datatype t;

    MPI_Type_vector(1000, 3, 7, MPI_BYTE, &t);
    MPI_Type_commit(&t);
    for (k = 0; k < GT_KINDS && mt_peer != MPI_PROC_NULL; k++)
        for (i = 0; i < 3; i++) {
            int dev = (mt_rank + (int)i) % gt_ndevices();
            unsigned char *a = gt_alloc(k, dev, lens[i], 1), *b = gt_alloc(k, dev, lens[i], 2);

            gt_fill(a, lens[i], k);
            MPI_Sendrecv(a, (int)lens[i], MPI_BYTE, mt_peer, 1, b, (int)lens[i], MPI_BYTE, mt_peer,
                         1, comm, MPI_STATUS_IGNORE);
            GT_CHECK_DATA(b, lens[i], k);
            if (lens[i] > 7000)
                MPI_Sendrecv(a, 1, t, mt_peer, 1, b, 1, t, mt_peer, 1, comm, MPI_STATUS_IGNORE);
            gt_free(a);
            gt_free(b);
        }
    MPI_Type_free(&t);
}

static void session(void)
{
    MPI_Session s;
    MPI_Group g;
    MPI_Comm c;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &s);
    MPI_Group_from_session_pset(s, "mpi://WORLD", &g);
    MPI_Comm_create_from_group(g, "leaks", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &c);
    MPI_Comm_rank(c, &mt_rank);
    MPI_Comm_size(c, &mt_size);
    mt_peer = (mt_rank ^ 1) < mt_size ? mt_rank ^ 1 : MPI_PROC_NULL;
    messages(c);
    MPI_Comm_free(&c);
    MPI_Group_free(&g);
    MPI_Session_finalize(&s);
}

/* Every device has been used, so that gputest's own streams and pools exist. */
static void warm_up(void)
{
    enum gt_kind k;
    int dev;

    for (dev = 0; dev < gt_ndevices(); dev++)
        for (k = 0; k < GT_KINDS; k++)
            gt_free(gt_alloc(k, dev, 10, 0));
}

/* Buffers used in turn are mapped once each, however many there are.  When they have been freed,
 * probing on both sides is enough for the peer to unmap them.  Closing a mapping of cuMemAlloc
 * memory waits for the device: it is deferred until the mappings may hold 1/16 of the device's
 * memory, in pages of 2 MiB. */
#define MANY 300
#define AT_ONCE 200
static const struct {
    enum gt_kind kind;
    const char *opens;
    bool waits;
} many_kinds[] = { { GT_CUDA, "cuIpcOpenMemHandle", true },
                   { GT_VMM, "cuMemImportFromShareableHandle", false } };

/* Descriptors of all buffers come before the first of them is used. */
static void many_at_once(unsigned char **p)
{
    static MPI_Request r[AT_ONCE];
    int go = 0;
    if (mt_rank == 0) {
        for (int i = 0; i < AT_ONCE; i++) {
            gt_fill(p[i], 4000, (uint64_t)i);
            MPI_Isend(p[i], 4000, MPI_BYTE, 1, i, MPI_COMM_WORLD, &r[i]);
        }
        MPI_Send(&go, 1, MPI_INT, 1, AT_ONCE, MPI_COMM_WORLD);
        MPI_Waitall(AT_ONCE, r, MPI_STATUSES_IGNORE);
        return;
    }
    MPI_Recv(&go, 1, MPI_INT, 0, AT_ONCE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < AT_ONCE; i++) {
        MPI_Recv(p[0], 4000, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        GT_CHECK_DATA(p[0], 4000, (uint64_t)i);
    }
    fake_cuda_seen_fn *seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    CHECK_MSG(seen(many_kinds[1].opens) == AT_ONCE, "%ld handles were opened for %d buffers",
              seen(many_kinds[1].opens), AT_ONCE);
}

static void many_messages(int k, unsigned char **p)
{
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < MANY; i++)
            if (mt_rank == 0) {
                gt_fill(p[i], 4000, (uint64_t)(i + round));
                MPI_Send(p[i], 4000, MPI_BYTE, 1, i, MPI_COMM_WORLD);
            } else {
                MPI_Recv(p[0], 4000, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                GT_CHECK_DATA(p[0], 4000, (uint64_t)(i + round));
            }
    fake_cuda_seen_fn *seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    if (mt_rank == 1)
        CHECK_MSG(seen(many_kinds[k].opens) == MANY, "%ld handles were opened for %d buffers",
                  seen(many_kinds[k].opens), MANY);
}

static void many(int k)
{
    static unsigned char *p[MANY];
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    char rule[64];
    size_t nbytes = 0;

    if (!fail || !alive || mt_rank > 1)
        return;
    snprintf(rule, sizeof rule, "%s:0", many_kinds[k].opens);
    fail(rule); /* counts them */
    cu.device_total_mem(&nbytes, 0);
    int most = 10 + (many_kinds[k].waits ? (int)(nbytes / 16 / (2 << 20)) : 0);
    int was = alive((enum fake_thing)0);
    for (int i = 0; i < MANY; i++)
        p[i] = gt_alloc(many_kinds[k].kind, 0, 4000, 0);
    if (!many_kinds[k].waits)
        many_at_once(p);
    many_messages(k, p);
    for (int i = 0; i < MANY; i++)
        gt_free(p[i]);
    double end = MPI_Wtime() + 10;
    int flag = 0, left = 0;
    do { /* no message, and no device message */
        MPI_Iprobe(!mt_rank, MANY, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        left = alive((enum fake_thing)0) - was;
    } while (mt_rank == 0 ? !flag : left > most && MPI_Wtime() < end);
    CHECK_MSG(mt_rank == 0 || left <= most, "%d %s more than before", left, names[0]);
    if (mt_rank == 0)
        MPI_Recv(&flag, 1, MPI_INT, 1, MANY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&flag, 1, MPI_INT, 0, MANY, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    gt_need(1);
    alive = (fake_cuda_alive_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_alive");
    warm_up();
    count(before);
    session();
    compare("after a session", false);
    count(before);
    session();
    compare("after another session", true);
    MPI_Init(&argc, &argv);
    mt_setup();
    messages(MPI_COMM_WORLD);
    many(0);
    many(1);
    MPI_Finalize();
    compare("after MPI_Finalize", false);
    if (mt_rank == 0)
        printf("%sok 1 - nothing is left\n1..1\n", check_failed_case ? "not " : "");
    return check_failed_case;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of one rank fails during a collective: the call returns on every rank, and no rank
 * takes poisoned data for a result.  One rank after the other loses its device, in a blocking, a
 * nonblocking and a persistent call, and continues with host memory; the calls in between have
 * right results everywhere.  Over the fake driver only.
 *
 *     coll_void bcast|allreduce|alltoall ints|host=INTS
 *
 * host=: the last rank passes host memory, so that on one host all ranks go through host memory.
 * Then the copies out of the device fail, and every rank must have the error.  Otherwise other
 * ranks may have read the data out of its memory before, and these data are right. */
#include <dlfcn.h>
#include <unistd.h>
#include "test/gpu/collsum.h"

enum what { BCAST, ALLREDUCE, ALLTOALL, WHATS };
static const char *const names[WHATS] = { "bcast", "allreduce", "alltoall" };
enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

static fake_cuda_fail_fn *fail_now;
static enum what what;
static bool strict; /* every rank must have the error */
static int ints;
static int *s, *r;          /* the buffers, in device or host memory; */
static bool on_host;        /* which of them */
static int *input, *output; /* their contents */

static size_t nbytes(void) { return (size_t)ints * sizeof(int) * (what == ALLTOALL ? 4u : 1u); }

static void move(int *to, const int *from)
{
    if (on_host)
        memcpy(to, from, nbytes());
    else if (to == s || to == r)
        gt_write(to, from, nbytes());
    else
        gt_read(to, from, nbytes());
}

static void take_buffers(bool in_host_memory)
{
    on_host = in_host_memory;
    s = on_host ? malloc(nbytes()) : (void *)gt_alloc(GT_CUDA, dev, nbytes(), 0);
    r = on_host ? malloc(nbytes()) : (void *)gt_alloc(GT_CUDA, dev, nbytes(), 0);
}

static void fill(int root, int key)
{
    for (int i = 0; i < (int)(nbytes() / sizeof(int)); i++)
        input[i] = given(mt_rank, i, key);
    move(s, input);
    memset(output, GT_POISON, nbytes());
    move(r, what == BCAST && mt_rank == root ? input : output);
}

static bool is_right(int root, int key)
{
    int n = (int)(nbytes() / sizeof(int)), at = 0, base = 7 * mt_size * (mt_size - 1) / 2;
    move(output, r);
    for (; at < n; at++) {
        int want = given(root, at, key);
        if (what == ALLREDUCE)
            want = mt_size * (at * 3 + key) + base;
        else if (what == ALLTOALL)
            want = given(at / ints, mt_rank * ints + at % ints, key);
        if (output[at] != want)
            break;
    }
    return at == n;
}

static int start(enum form form, int root, MPI_Request *q)
{
    MPI_Comm c = mt_comm;
    MPI_Info none = MPI_INFO_NULL;
    switch (what) {
    case BCAST:
        return form == BLOCKING      ? MPI_Bcast(r, ints, MPI_INT, root, c)
               : form == NONBLOCKING ? MPI_Ibcast(r, ints, MPI_INT, root, c, q)
                                     : MPI_Bcast_init(r, ints, MPI_INT, root, c, none, q);
    case ALLREDUCE:
        return form == BLOCKING      ? MPI_Allreduce(s, r, ints, MPI_INT, MPI_SUM, c)
               : form == NONBLOCKING ? MPI_Iallreduce(s, r, ints, MPI_INT, MPI_SUM, c, q)
                                     : MPI_Allreduce_init(s, r, ints, MPI_INT, MPI_SUM, c, none, q);
    default:
        return form == BLOCKING ? MPI_Alltoall(s, ints, MPI_INT, r, ints, MPI_INT, c)
               : form == NONBLOCKING
                   ? MPI_Ialltoall(s, ints, MPI_INT, r, ints, MPI_INT, c, q)
                   : MPI_Alltoall_init(s, ints, MPI_INT, r, ints, MPI_INT, c, none, q);
    }
}

/* One call; the device of rank `loser` (-1: no rank's) fails when the call starts.  Returns the
 * error class. */
static int call(enum form form, int root, int loser)
{
    MPI_Request q = MPI_REQUEST_NULL;
    int err = MPI_SUCCESS, class;

    if (form == PERSISTENT) /* before anything fails */
        OK(start(form, root, &q));
    mt_sync();
    if (mt_rank == loser) {
        usleep(20000); /* polling kernels have left */
        fail_now("kernel:1+:700,copy:1+:700");
    }
    err = form == PERSISTENT ? MPI_Start(&q) : start(form, root, &q);
    if (!err && form != BLOCKING)
        err = MPI_Wait(&q, MPI_STATUS_IGNORE);
    if (form == PERSISTENT)
        OK(MPI_Request_free(&q));
    OK(MPI_Error_class(err, &class));
    return class;
}

static void devices_fail(void)
{
    static const int losers[FORMS] = { 1, 2, 0 };

    take_buffers(strict && mt_rank == mt_size - 1);
    for (int form = 0, key = 1; form < FORMS; form++) {
        int loser = losers[form];
        fill(loser, ++key);
        CHECK_EQ(call((enum form)form, loser, -1), MPI_SUCCESS);
        CHECK(is_right(loser, key));
        fill(loser, ++key);
        int class = call((enum form)form, loser, loser);
        bool lost = mt_rank == loser; /* its memory can no longer be read */
        CHECK_MSG(class == MPI_ERR_OTHER || (class == MPI_SUCCESS && !strict), "form %d: class %d",
                  form, class);
        CHECK_MSG(class != MPI_SUCCESS || lost || is_right(loser, key), "form %d: wrong data",
                  form);
        if (lost)
            take_buffers(true);
        mt_sync();
    }
    fill(0, 99);
    CHECK_EQ(call(BLOCKING, 0, -1), MPI_SUCCESS);
    CHECK(is_right(0, 99));
}

int main(int argc, char **argv)
{
    gt_need(1);
    fail_now = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    if (!fail_now) {
        printf("1..0 # SKIP a real device does not fail at will\n");
        return 77;
    }
    MPI_Init(&argc, &argv);
    mt_setup();
    while (what < WHATS && strcmp(argv[1], names[what]))
        what++;
    strict = !strncmp(argv[2], "host=", 5);
    ints = atoi(argv[2] + (strict ? 5 : 0));
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    input = malloc(nbytes());
    output = malloc(nbytes());
    MT_RUN(devices_fail);
    return mt_end();
}

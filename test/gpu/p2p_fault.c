/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong buffers, and memory that changes while the library has cached knowledge of it: the result
 * is an error of the call or the right data.
 *     p2p_fault             buffers, reused allocations, contexts of the application
 *     p2p_fault full        no device memory is left for the library
 *     p2p_fault full_at_first   ... when it is first used
 *     p2p_fault reset       the application resets the primary context
 *     p2p_fault host        there is no usable driver: host messages work (any FAKE_CUDA_... may be
 *                           set), device buffers give an error or work
 *     p2p_fault broken      an operation on the GPU fails: calls return, with an error somewhere
 *     p2p_fault half        the receiver's GPU fails during a message: fake driver only */
#include "test/gpu/exchange.h"
#include <stdlib.h>

static int dev;

static void send_bytes(void *p, size_t n)
{
    OK(MPI_Send(p, (int)n, MPI_BYTE, mt_peer, 3, mt_comm));
}

static void recv_bytes(void *p, size_t n)
{
    MPI_Status st;

    OK(MPI_Recv(p, (int)n, MPI_BYTE, mt_peer, 3, mt_comm, &st));
    mt_check_status(&st, mt_peer, 3, (int)n);
}

/* The first of a pair sends `p` with the contents of `key`; the other receives into its own `p`. */
static void pass(unsigned char *p, size_t n, uint64_t key)
{
    if (mt_first) {
        gt_fill(p, n, key);
        send_bytes(p, n);
    } else if (mt_peer != MPI_PROC_NULL) {
        gt_set(p, GT_POISON, n);
        recv_bytes(p, n);
        GT_CHECK_DATA(p, n, key);
    }
}

/* ---- wrong buffers ---- */

/* An error of the call, and both ranks can continue. */
static void beyond_the_end(void)
{
    static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM, GT_POOL, GT_MANAGED };
    const size_t n = 6u << 20;
    MPI_Request r = MPI_REQUEST_NULL;
    unsigned char *p;
    unsigned i;

    for (i = 0; i < 4; i++) {
        p = gt_alloc(kinds[i], dev, n, 0);
        if (mt_peer != MPI_PROC_NULL) {
            FAILS(MPI_Send(p, 64 << 20, MPI_BYTE, mt_peer, 3, mt_comm), MPI_ERR_BUFFER);
            FAILS(MPI_Isend(p + n - 8, 8 << 20, MPI_BYTE, mt_peer, 3, mt_comm, &r), MPI_ERR_BUFFER);
            CHECK(r == MPI_REQUEST_NULL);
            FAILS(MPI_Irecv(p + n - 8, 8 << 20, MPI_BYTE, mt_peer, 3, mt_comm, &r), MPI_ERR_BUFFER);
            FAILS(MPI_Recv(p, 64 << 20, MPI_BYTE, mt_peer, 3, mt_comm, MPI_STATUS_IGNORE),
                  MPI_ERR_BUFFER);
        }
        pass(p, n, i + 40);
        CHECK(gt_guards_intact(p));
        gt_free(p);
    }
}

/* A message may lie in several consecutive mappings. */
static void across_mappings(void)
{
    const size_t n = (5u << 20) + 77;
    unsigned char *p = gt_alloc(GT_VMM_PARTS, dev, n, 5);
    unsigned i;

    for (i = 0; i < 3; i++) {
        pass(p, n, i);
        pass(p + (2u << 20) - 700 - i, 1400, i);
    }
    CHECK(gt_guards_intact(p));
    gt_free(p);
}

/* One datatype over several allocations, of different kinds and devices, by absolute addresses. */
static void across_allocations(void)
{
    static const enum gt_kind kinds[] = { GT_CUDA, GT_HOST, GT_POOL, GT_VMM, GT_PINNED };
    unsigned char *p[5];
    int lens[5] = { 1000, 70001, 3, 20000, 513 }, i;
    MPI_Aint at[5];
    MPI_Datatype t;

    for (i = 0; i < 5; i++) {
        p[i] = gt_alloc(kinds[mt_rank % 2 ? 4 - i : i], i % 2 ? 0 : dev, (size_t)lens[i], 1);
        OK(MPI_Get_address(p[i], &at[i]));
        if (mt_first)
            gt_fill(p[i], (size_t)lens[i], (uint64_t)i);
    }
    OK(MPI_Type_create_hindexed(5, lens, at, MPI_BYTE, &t));
    OK(MPI_Type_commit(&t));
    if (mt_first)
        OK(MPI_Send(MPI_BOTTOM, 1, t, mt_peer, 3, mt_comm));
    else if (mt_peer != MPI_PROC_NULL)
        OK(MPI_Recv(MPI_BOTTOM, 1, t, mt_peer, 3, mt_comm, MPI_STATUS_IGNORE));
    for (i = 0; i < 5; i++) {
        if (mt_peer != MPI_PROC_NULL)
            GT_CHECK_DATA(p[i], (size_t)lens[i], (uint64_t)i);
        CHECK(gt_guards_intact(p[i]));
        gt_free(p[i]);
    }
    OK(MPI_Type_free(&t));
}

/* Host memory below and above, like the program's variables and the stack. */
static void between_host_memory(void)
{
    static unsigned char low[600];
    unsigned char high[700], *p = gt_alloc(GT_CUDA, dev, 30001, 1), *parts[3] = { low, p, high };
    int lens[3] = { sizeof(low), 30001, sizeof(high) }, i;
    MPI_Aint at[3];
    MPI_Datatype t;

    for (i = 0; i < 3; i++) {
        OK(MPI_Get_address(parts[i], &at[i]));
        gt_fill(parts[i], (size_t)lens[i], (uint64_t)(mt_first ? i : 9));
    }
    OK(MPI_Type_create_hindexed(3, lens, at, MPI_BYTE, &t));
    OK(MPI_Type_commit(&t));
    if (mt_first)
        OK(MPI_Send(MPI_BOTTOM, 1, t, mt_peer, 3, mt_comm));
    else if (mt_peer != MPI_PROC_NULL)
        OK(MPI_Recv(MPI_BOTTOM, 1, t, mt_peer, 3, mt_comm, MPI_STATUS_IGNORE));
    for (i = 0; i < 3 && mt_peer != MPI_PROC_NULL; i++)
        GT_CHECK_DATA(parts[i], (size_t)lens[i], (uint64_t)i);
    OK(MPI_Type_free(&t));
    gt_free(p);
}

/* ---- memory that changes ---- */

/* Freed and allocated again: usually the same address, always different memory. */
static void used_again(void)
{
    static const size_t lens[] = { 300, 5000, 70000, 3u << 20, 5u << 20 };
    enum gt_kind kind;
    unsigned round, i;

    for (i = 0; i < 5; i++)
        for (round = 0; round < 4; round++)
            for (kind = GT_MANAGED; kind < GT_ALL_KINDS; kind++) {
                unsigned char *p = gt_alloc(kind, dev, lens[i], round);

                pass(p, lens[i], round * 100 + i);
                gt_free(p);
            }
}

/* The same address with different kinds of memory in turn, including host memory. */
static void other_kind(void)
{
    static const enum gt_kind kinds[] = { GT_CUDA, GT_PINNED,  GT_VMM,   GT_MANAGED,
                                          GT_CUDA, GT_VMM_OWN, GT_PINNED };
    const size_t n = 3u << 20;
    unsigned round, i;

    for (round = 0; round < 3; round++)
        for (i = 0; i < 7; i++) {
            unsigned char *p = gt_alloc(kinds[i], dev, n, 0);

            pass(p, 9000, round * 10 + i);
            pass(p, n, round * 10 + i);
            gt_free(p);
        }
}

/* More allocations than mappings are cached. */
static void many_allocations(void)
{
    enum { N = 150 };
    unsigned char *p[N];
    unsigned i, round;

    for (i = 0; i < N; i++)
        p[i] = gt_alloc(i % 3 ? GT_CUDA : i % 2 ? GT_VMM : GT_POOL, dev, 1500000, i % 7);
    for (round = 0; round < 2; round++)
        for (i = 0; i < N; i++)
            pass(p[i], 1000 + i, round + i);
    for (i = 0; i < N; i += 2)
        gt_free(p[i]);
    for (i = 0; i < N; i += 2)
        p[i] = gt_alloc(GT_CUDA, dev, 1500000, i % 5);
    for (i = 0; i < N; i++)
        pass(p[i], 2000 + i, i);
    for (i = 0; i < N; i++)
        gt_free(p[i]);
}

/* Memory of a context that the application creates and destroys. */
static void own_context(void)
{
    const size_t n = 100001;
    unsigned round;
    cu_ctx c;
    cu_ptr p;

    for (round = 0; round < 4; round++) {
        CHECK_EQ(cu.ctx_create(&c, 0, dev), CU_OK);
        CHECK_EQ(cu.mem_alloc(&p, n), CU_OK);
        pass((unsigned char *)p, n, round);
        pass((unsigned char *)p + 1, 100, round);
        CHECK_EQ(cu.ctx_destroy(c), CU_OK);
    }
}

/* The application's current context is unchanged, also if there is none. */
static void current_context(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 1000, 0);
    cu_ctx c = NULL, own;

    CHECK_EQ(cu.ctx_set_current(NULL), CU_OK);
    pass(p, 1000, 1);
    CHECK_EQ(cu.ctx_get_current(&c), CU_OK);
    CHECK(c == NULL);
    CHECK_EQ(cu.ctx_create(&own, 0, gt_ndevices() - 1), CU_OK);
    pass(p, 1000, 2);
    CHECK_EQ(cu.ctx_get_current(&c), CU_OK);
    CHECK(c == own);
    CHECK_EQ(cu.ctx_destroy(own), CU_OK);
    gt_free(p);
}

/* Freed device memory that is not reused: an error, no crash. */
static void freed_pointer(void)
{
    static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM, GT_POOL };
    enum { TIMES = 20 }; /* each time immediately after it has been used */
    unsigned char *p;
    unsigned i, k;

    for (k = 0; k < 3; k++)
        for (i = 0; i < 2 * TIMES; i++) {
            size_t n = i == 1 ? 4u << 20 : 100;

            p = gt_alloc(kinds[k], dev, n, 0);
            pass(p, n, i);
            gt_free(p);
            if (mt_peer == MPI_PROC_NULL)
                continue;
            FAILS(MPI_Send(p, (int)n, MPI_BYTE, mt_peer, 3, mt_comm), MPI_ERR_BUFFER);
            FAILS(MPI_Recv(p, (int)n, MPI_BYTE, mt_peer, 3, mt_comm, MPI_STATUS_IGNORE),
                  MPI_ERR_BUFFER);
        }
}

/* ---- modes of the whole program ---- */

static void pairs_of_kinds(bool managed)
{
    enum gt_kind s, r;
    struct exch x = { .from = mt_rank & ~1, .to = mt_rank | 1, .recv = X_EARLY, .tag = 5 };

    if (mt_peer == MPI_PROC_NULL)
        return;
    for (s = 0; s < GT_KINDS; s++)
        for (r = 0; r < GT_KINDS; r++) {
            if (!managed && (s == GT_MANAGED || r == GT_MANAGED))
                continue;
            x.skind = s;
            x.rkind = r;
            x.sdev = x.from % gt_ndevices();
            x.rdev = x.to % gt_ndevices();
            x.key++;
            x.n = 100;
            x_do(&x);
            x.n = 3000001;
            x_do(&x);
            if (s != r)
                continue;
            x.send = X_REPLACE; /* needs memory for the data that it sends */
            x.sdev = x.rdev = mt_rank % gt_ndevices();
            x_do(&x);
            x.send = X_SEND;
        }
}

/* Allocates all that is left of the device's memory. */
static int fill_device(cu_ptr *hog, int room)
{
    size_t len = (size_t)32 << 30;
    int n = 0;

    while (len >= 2048 && n < room)
        if (cu.mem_alloc(&hog[n], len) == CU_OK)
            n++;
        else
            len /= 2;
    return n;
}

/* Buffers and streams first, then the device is full: messages take another path. */
static void full(void)
{
    static cu_ptr hog[4096];
    unsigned char *p = gt_alloc(GT_CUDA, dev, 8, 0);
    enum gt_kind k;
    int n;

    pass(p, 8, 1);
    for (k = 0; k < GT_KINDS; k++) {
        x_buffer(k, mt_rank % gt_ndevices(), 0, 3500000);
        x_buffer(k, mt_rank % gt_ndevices(), 1, 3500000);
    }
    mt_sync();
    n = fill_device(hog, 4096);
    mt_sync();
    /* Any kernel fails (700) if managed memory has no room on the device (H200). */
    pairs_of_kinds(false);
    while (n > 0)
        CHECK_EQ(cu.mem_free(hog[--n]), CU_OK);
    pairs_of_kinds(true);
    gt_free(p);
}

/* The device is full before the library uses it.  A real driver cannot even create a stream then,
 * so an error is right too; later, with free memory, everything must work. */
static void full_at_first(void)
{
    static cu_ptr hog[4096];
    unsigned char *p = gt_alloc(GT_CUDA, dev, 5000, 0);
    char host[5000];
    int n = fill_device(hog, 4096), err, class = MPI_SUCCESS;

    mt_sync();
    err = MPI_Sendrecv(p, 5000, MPI_BYTE, mt_rank, 1, host, 5000, MPI_BYTE, mt_rank, 1, mt_comm,
                       MPI_STATUS_IGNORE);
    if (err)
        MPI_Error_class(err, &class);
    printf("# rank %d: the first message on a full device gives class %d\n", mt_rank, class);
    CHECK(class == MPI_SUCCESS || class == MPI_ERR_NO_MEM || class == MPI_ERR_OTHER);
    while (n > 0)
        CHECK_EQ(cu.mem_free(hog[--n]), CU_OK);
    mt_sync();
    pass(p, 5000, 3);
    gt_free(p);
}

static void host_messages(void)
{
    static const size_t lens[] = { 0, 8, 5000, 100000, 3000000 };
    unsigned char *p = malloc(3000000);
    unsigned i;

    for (i = 0; i < 5; i++) {
        mt_fill(p, lens[i], i + (unsigned)mt_first);
        if (mt_first)
            send_bytes(p, lens[i]);
        else if (mt_peer != MPI_PROC_NULL) {
            recv_bytes(p, lens[i]);
            CHECK_DATA(p, lens[i], i + 1);
        }
    }
    free(p);
}

/* Right data, or an error; no crash and no hang.  No rank waits for a message that was not sent. */
static void device_anyway(void)
{
    unsigned char *p = gt_try_alloc(GT_CUDA, 0, 5000, 0);
    int err = MPI_SUCCESS, class = MPI_SUCCESS, sent = 0;

    if (!p || mt_peer == MPI_PROC_NULL)
        return;
    if (mt_first) {
        gt_fill(p, 5000, 1);
        err = MPI_Send(p, 5000, MPI_BYTE, mt_peer, 3, mt_comm);
        sent = !err;
        OK(MPI_Send(&sent, 1, MPI_INT, mt_peer, 4, mt_comm));
    } else {
        err = MPI_Recv(p, 5000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, MPI_STATUS_IGNORE);
        if (!err && gt_differs(p, 5000, 1) < 5000)
            CHECK_MSG(false, "success, but the data are wrong");
    }
    if (err)
        MPI_Error_class(err, &class);
    printf("# rank %d: a device buffer gives class %d\n", mt_rank, class);
}

/* At least one rank must report an error; the check is that both return. */
static void broken(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 3000000, 0);
    int i, errors = 0, all = 0;
    size_t n = 100;

    for (i = 0; i < 6; i++, n *= 6) {
        int err = mt_first ? MPI_Send(p, (int)n, MPI_BYTE, mt_peer, 3, mt_comm)
                           : MPI_Recv(p, (int)n, MPI_BYTE, mt_peer, 3, mt_comm, MPI_STATUS_IGNORE);

        errors += err != MPI_SUCCESS;
    }
    OK(MPI_Sendrecv(&errors, 1, MPI_INT, mt_peer, 8, &all, 1, MPI_INT, mt_peer, 8, mt_comm,
                    MPI_STATUS_IGNORE));
    CHECK(errors + all > 0);
}

/* The sender packs.  The receiver can start only the first of its pieces, but still takes the rest,
 * so no rank hangs. */
static void half(void)
{
    const int n = 40 << 20;
    MPI_Datatype t;
    cu_ptr p;

    OK(MPI_Type_vector(n / 1024, 1024, 2048, MPI_BYTE, &t));
    OK(MPI_Type_commit(&t));
    CHECK_EQ(cu.mem_alloc(&p, 2 * (size_t)n), CU_OK);
    if (mt_first)
        (void)MPI_Send((void *)p, 1, t, mt_peer, 3, mt_comm);
    else
        CHECK(MPI_Recv((void *)p, n, MPI_BYTE, mt_peer, 3, mt_comm, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(mt_comm));
    OK(MPI_Type_free(&t));
}

static void reset(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 100000, 0);
    static unsigned char host[100000];
    cu_ptr again;
    cu_ctx c;
    int round, err, i;

    pass(p, 100000, 1);
    pass(p, 64, 1); /* the polling kernel still runs when the context goes */
    OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, mt_peer, 8, NULL, 0, MPI_BYTE, mt_peer, 8, mt_comm,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(cu.primary_ctx_reset(dev), CU_OK);
    CHECK_EQ(cu.primary_ctx_retain(&c, dev), CU_OK);
    CHECK_EQ(cu.ctx_set_current(c), CU_OK);
    for (round = 0; round < 3; round++) {
        CHECK_EQ(cu.mem_alloc(&again, 100000), CU_OK);
        CHECK_EQ(cu.memset_d8(again, round + mt_rank, 100000), CU_OK);
        CHECK_EQ(cu.ctx_synchronize(), CU_OK); /* or it still runs when the data arrive */
        err = mt_first ? MPI_Send((void *)again, 100000, MPI_BYTE, mt_peer, 3, mt_comm)
                       : MPI_Recv((void *)again, 100000, MPI_BYTE, mt_peer, 3, mt_comm,
                                  MPI_STATUS_IGNORE);
        printf("# rank %d: after a reset, class %d\n", mt_rank, err);
        if (!err && !mt_first) { /* gputest's streams were destroyed with the context */
            CHECK_EQ(cu.memcpy_now((cu_ptr)(uintptr_t)host, again, 100000), CU_OK);
            for (i = 0; i < 100000 && host[i] == round + mt_peer; i++)
                ;
            CHECK_EQ(i, 100000);
        }
    }
}

static void all_of_buffers(void)
{
    MT_RUN(beyond_the_end);
    MT_RUN(used_again);
    MT_RUN(other_kind);
    MT_RUN(many_allocations);
    MT_RUN(current_context);
    MT_RUN(own_context);
    MT_RUN(across_mappings);
    MT_RUN(across_allocations);
    MT_RUN(between_host_memory);
    MT_RUN(freed_pointer);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *rank = getenv("PMIX_RANK");

    if (!strcmp(mode, "half") && rank && atoi(rank) % 2) /* before the driver is loaded */
        setenv("FAKE_CUDA_FAIL", "cuPointerGetAttributes:10+:700", 1);
    if (strcmp(mode, "host"))
        gt_need(1);
    else if (gt_open())
        printf("# %s\n", gt_open());
    mt_init(argc, argv);
    if (gt_ndevices())
        dev = mt_rank % gt_ndevices();
    if (!strcmp(mode, "host")) {
        MT_RUN(host_messages);
        if (gt_ndevices() && cu.pointer_get_attributes) /* gputest needs it */
            MT_RUN(device_anyway);
        return mt_end();
    }
    gt_use(dev);
    if (!strcmp(mode, "full"))
        MT_RUN(full);
    else if (!strcmp(mode, "full_at_first"))
        MT_RUN(full_at_first);
    else if (!strcmp(mode, "reset"))
        MT_RUN(reset);
    else if (!strcmp(mode, "half"))
        MT_RUN(half);
    else if (!strcmp(mode, "broken"))
        MT_RUN(broken);
    else
        all_of_buffers();
    return mt_end();
}

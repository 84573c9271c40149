/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs with one mistake each in messages, buffers, windows or files, for check_local.py:
 * `check_local MISTAKE [FILE]`.  Two ranks. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 100000
static int rank, buf[N], more[N];
static const char *path;
static MPI_Comm world;

/* ---- messages ---- */

static void unsafe(void)
{
    MPI_Send(buf, 1, MPI_INT, !rank, 3, world);
    MPI_Recv(buf, 1, MPI_INT, !rank, 3, world, MPI_STATUS_IGNORE);
}

static void exchange(int n, MPI_Datatype send, int m, MPI_Datatype recv)
{
    if (rank == 0)
        MPI_Send(buf, n, send, 1, 5, world);
    else
        MPI_Recv(buf, m, recv, 0, 5, world, MPI_STATUS_IGNORE);
}

static void signature(void) { exchange(4, MPI_INT, 2, MPI_DOUBLE); }
static void signature_long(void) { exchange(N, MPI_INT, N, MPI_FLOAT); }

static MPI_Datatype record(MPI_Datatype first, MPI_Datatype second)
{
    MPI_Datatype t, types[2] = { first, second };
    MPI_Aint where[2] = { 0, 8 };
    int ones[2] = { 1, 1 };
    MPI_Type_create_struct(2, ones, where, types, &t);
    MPI_Type_commit(&t);
    return t;
}

static void signature_mixed(void)
{
    exchange(3, record(MPI_INT, MPI_DOUBLE), 3, record(MPI_DOUBLE, MPI_INT));
}

/* The message is shorter than the receive, and differs in its last entry. */
static void signature_part(void) { exchange(2, MPI_INT, 3, record(MPI_INT, MPI_DOUBLE)); }

static void tags(void)
{
    if (rank == 0)
        MPI_Send(buf, 1, MPI_INT, 1, 5, world);
    else
        MPI_Recv(buf, 1, MPI_INT, 0, 6, world, MPI_STATUS_IGNORE);
}

static void left(void)
{
    MPI_Request r;
    if (rank == 0) {
        MPI_Isend(buf, 1, MPI_INT, 1, 5, world, &r);
        MPI_Request_free(&r);
    } else {
        MPI_Recv(buf, 1, MPI_INT, 0, 6, world, MPI_STATUS_IGNORE);
    }
}

static void waits(void)
{
    if (rank)
        MPI_Recv(buf, 1, MPI_INT, 0, 6, world, MPI_STATUS_IGNORE);
}

static void unreceived(void)
{
    if (rank == 0)
        MPI_Send(buf, 3, MPI_INT, 1, 5, world);
}

static void freed(void)
{
    MPI_Request r;
    if (rank == 0) {
        MPI_Irecv(buf, 1, MPI_INT, 1, 5, world, &r);
        MPI_Request_free(&r);
    }
}

/* ---- buffers ---- */

static void changed(void)
{
    MPI_Request r;
    if (rank == 0) {
        MPI_Isend(buf, N, MPI_INT, 1, 5, world, &r);
        buf[N / 2]++;
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buf, N, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
    }
}

static void overlap(void)
{
    MPI_Request r[2];
    for (int i = 0; i < 2; i++)
        if (rank)
            MPI_Irecv(buf + 10 * i, 20, MPI_INT, 0, i, world, &r[i]);
        else
            MPI_Isend(buf, 20, MPI_INT, 1, i, world, &r[i]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void freed_buffer(void)
{
    MPI_Request r;
    int *p = calloc(100, sizeof *p);
    if (rank == 0) {
        MPI_Isend(p, 100, MPI_INT, 1, 5, world, &r);
        free(p);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buf, 100, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
    }
}

static __attribute__((noinline)) void start_in_frame(MPI_Request *r)
{
    int here[64] = { 0 };
    MPI_Iallreduce(here, buf, 64, MPI_INT, MPI_SUM, world, r);
}

static void coll_frame(void)
{
    MPI_Request r;
    start_in_frame(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void coll_changed(void)
{
    MPI_Request r;
    MPI_Iallreduce(buf, more, 10, MPI_INT, MPI_SUM, world, &r);
    buf[3]++;
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void coll_vector(void)
{
    int counts[] = { 3, 4 }, displs[] = { 0, 20 };
    MPI_Request r;
    MPI_Ialltoallv(buf, counts, displs, MPI_INT, more, (int[]){ counts[rank], counts[rank] },
                   displs, MPI_INT, world, &r);
    buf[10]++; /* not sent */
    buf[23]++;
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void coll_overlap(void)
{
    MPI_Request r[2];
    MPI_Irecv(more + 5, 10, MPI_INT, !rank, 0, world, &r[0]);
    MPI_Iallgather(buf, 10, MPI_INT, more, 10, MPI_INT, world, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

/* Rank 1 starts when rank 0 has changed the buffer. */
static void coll_persistent(void)
{
    MPI_Comm own;
    MPI_Request r;
    MPI_Comm_dup(world, &own);
    MPI_Allreduce_init(buf, more, 10, MPI_INT, MPI_SUM, own, MPI_INFO_NULL, &r);
    for (int i = 0; i < 3; i++) {
        if (rank)
            MPI_Barrier(world);
        MPI_Start(&r);
        buf[3] += i == 2 && !rank;
        if (!rank)
            MPI_Barrier(world);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        buf[3] = i;
    }
}

static void entries(void)
{
    MPI_Datatype t;
    MPI_Type_create_hvector(4, 1, 3, MPI_INT, &t);
    MPI_Type_commit(&t);
    exchange(4, MPI_INT, 1, t);
}

static __attribute__((noinline)) void receive_into_frame(void)
{
    int small[2] = { 0 };
    MPI_Recv(small, 512, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
    buf[0] += small[1];
}

static void frame(void)
{
    volatile char room[8192]; /* the message stays within the stack of the program */
    room[0] = 0;
    if (rank == 0)
        MPI_Send(buf, 1, MPI_INT, 1, 5, world);
    else
        receive_into_frame();
    room[1] = room[0];
}

/* A block of malloc(), too short; and in right_messages, what still fits in. */
static void heap(void)
{
    char *p = malloc(100);
    if (rank == 0)
        MPI_Send(buf, 1, MPI_INT, 1, 5, world);
    else
        MPI_Recv(p, 30, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
    free(p);
}

static void heap_fits(void)
{
    enum { BLOCKS = 60 };
    char *p[BLOCKS];
    for (int n = 0; n < BLOCKS; n++) {
        size_t nbytes = (size_t)n * (size_t)n * 60 + 1; /* of all kinds of blocks */
        p[n] = calloc(nbytes, 1);
        MPI_Bcast(p[n], (int)nbytes, MPI_CHAR, 0, world);
        MPI_Bcast(p[n] + nbytes / 2, (int)(nbytes - nbytes / 2), MPI_CHAR, 0, world);
    }
    for (int n = 0; n < BLOCKS; n += 2)
        free(p[n]);
    for (int n = 1; n < BLOCKS; n += 2) {
        MPI_Bcast(p[n], n * n * 60 + 1, MPI_CHAR, 0, world);
        free(p[n]);
    }
}

static void unmapped(void)
{
    MPI_Datatype t;
    MPI_Aint where[2] = { 0, (MPI_Aint)1 << 46 };
    MPI_Type_create_hindexed_block(2, 1, where, MPI_INT, &t);
    MPI_Type_commit(&t);
    exchange(1, t, 2, MPI_INT);
}

static void collective_buffer(void)
{
    int small[2] = { 0 };
    volatile char room[8192];
    room[0] = 0;
    MPI_Bcast(small, 8192, MPI_INT, 0, world);
    room[1] = room[0];
}

/* ---- windows ---- */

static MPI_Win window(void *base, size_t nbytes)
{
    MPI_Win w;
    MPI_Win_create(base, (MPI_Aint)nbytes, 4, MPI_INFO_NULL, world, &w);
    MPI_Win_set_name(w, "shown");
    return w;
}

static void get_changed(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Win_fence(0, w);
    MPI_Get(more, 10, MPI_INT, !rank, 0, 10, MPI_INT, w);
    more[3] = 7;
    MPI_Win_fence(0, w);
    MPI_Win_free(&w);
}

static void put_changed(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Win_lock_all(0, w);
    MPI_Put(more, 10, MPI_INT, !rank, 0, 10, MPI_INT, w);
    more[3] = 7;
    MPI_Win_flush(!rank, w);
    MPI_Win_unlock_all(w);
    MPI_Win_free(&w);
}

static void freed_memory(void)
{
    int *p = malloc(40);
    MPI_Win w = window(p, 40);
    free(p);
    MPI_Win_free(&w);
}

static __attribute__((noinline)) MPI_Win window_of_frame(void)
{
    int here[16];
    memset(here, 0, sizeof here);
    return window(here, sizeof here);
}

static void dead_frame(void)
{
    MPI_Win w = window_of_frame();
    MPI_Win_free(&w);
}

static void no_memory(void)
{
    MPI_Win w = window(NULL, 64);
    MPI_Win_free(&w);
}

static void fence_assert(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Win_fence(0, w);
    MPI_Put(more, 10, MPI_INT, !rank, 0, 10, MPI_INT, w);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, w);
    MPI_Win_free(&w);
}

/* Rank 1 puts 10 elements from element 5 on into the memory of rank 0. */
static void put_after(MPI_Win w)
{
    if (rank)
        MPI_Put(more, 10, MPI_INT, 0, 5, 10, MPI_INT, w);
    MPI_Win_fence(0, w);
    MPI_Win_free(&w);
}

static void conflict_puts(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Win_fence(0, w);
    if (!rank)
        MPI_Put(more, 6, MPI_INT, 0, 0, 6, MPI_INT, w);
    put_after(w);
}

static void conflict_get(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Win_fence(0, w);
    if (!rank)
        MPI_Get(more, 1, MPI_INT, 0, 14, 1, MPI_INT, w);
    put_after(w);
}

/* The memory is the buffer of an operation. */
static void conflict_own(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Win_fence(0, w);
    if (!rank)
        MPI_Put(buf + 14, 1, MPI_INT, 1, 50, 1, MPI_INT, w);
    put_after(w);
}

static void conflict_vector(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Datatype t;
    MPI_Type_vector(10, 1, 3, MPI_INT, &t);
    MPI_Type_commit(&t);
    MPI_Win_fence(0, w);
    if (!rank)
        MPI_Accumulate(more, 10, MPI_INT, 0, 1, 1, t, MPI_SUM, w);
    put_after(w);
}

static void lock_in_fences(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Win_fence(0, w);
    MPI_Win_lock(MPI_LOCK_SHARED, !rank, 0, w);
    MPI_Put(more, 10, MPI_INT, !rank, 0, 10, MPI_INT, w);
    MPI_Win_unlock(!rank, w);
    MPI_Win_fence(0, w);
    MPI_Win_free(&w);
}

static void missing_fence(void)
{
    MPI_Win w = window(buf, sizeof buf);
    MPI_Win_fence(0, w);
    if (rank == 0)
        MPI_Win_fence(0, w);
    MPI_Win_free(&w);
}

/* ---- files ---- */

static MPI_File file(void)
{
    MPI_File f;
    MPI_File_open(world, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &f);
    return f;
}

static void open_barrier(void)
{
    if (rank == 0)
        file();
    else
        MPI_Barrier(world);
}

static void missing_view(void)
{
    MPI_File f = file();
    if (rank == 0)
        MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_close(&f);
}

static void missing_write(void)
{
    MPI_File f = file();
    if (rank == 0)
        MPI_File_write_at_all(f, 0, buf, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&f);
}

/* ---- objects ---- */

static void leaks(void)
{
    MPI_Datatype t;
    MPI_Group g;
    MPI_Comm c;
    for (int i = 0; i < 2; i++)
        MPI_Type_contiguous(2, MPI_INT, &t);
    MPI_Comm_group(world, &g);
    MPI_Comm_dup(world, &c);
    window(buf, sizeof buf);
}

/* Of three info objects one is freed, and one after MPI_Finalize. */
static MPI_Info late = MPI_INFO_NULL;
static void info(void)
{
    MPI_Info i;
    MPI_Info_create(&i);
    MPI_Info_dup(i, &late);
    MPI_Info_free(&i);
    MPI_Comm_get_info(world, &i);
}

static void session(void)
{
    MPI_Session s;
    for (int i = 0; i < 3; i++) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s);
        if (i == 0)
            MPI_Session_finalize(&s);
    }
}

/* ---- nothing wrong ---- */

static void right_collectives(void)
{
    MPI_Datatype pair = record(MPI_INT, MPI_INT);
    MPI_Request r[3];
    int counts[] = { 3, 0 }, displs[] = { 0, 0 };
    for (int i = 0; i < 2; i++) /* both read the same buffer */
        MPI_Iallreduce(buf, more + 100 * i, 100, MPI_INT, MPI_SUM, world, &r[i]);
    MPI_Ibcast(more + 200, 10, pair, 0, world, &r[2]);
    MPI_Type_free(&pair); /* before the end */
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
    buf[5]++;
    MPI_Ialltoallw(buf, (int[]){ 1, 1 }, displs, (MPI_Datatype[]){ MPI_INT, MPI_INT }, more,
                   (int[]){ 1, 1 }, (int[]){ 0, 2 }, (MPI_Datatype[]){ MPI_INT, MPI_INT }, world,
                   &r[0]); /* blocks of one call are not compared with each other */
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    MPI_Igatherv(buf, rank ? 0 : 3, MPI_INT, more, counts, displs, MPI_INT, 1, world, &r[0]);
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INT, more + 300, 5, MPI_INT, world, &r[1]);
    MPI_Ibarrier(world, &r[2]);
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
    MPI_Allreduce_init(buf, more, 10, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &r[0]);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        buf[i]++;
    }
    MPI_Request_free(&r[0]);
    MPI_Scan(MPI_IN_PLACE, more, 10, MPI_INT, MPI_SUM, world);
}

static void right_messages(void)
{
    MPI_Datatype pair = record(MPI_INT, MPI_DOUBLE), pairs, gaps, apart;
    MPI_Request r[4];
    char packed[64];
    int at = 0;
    MPI_Type_contiguous(2, pair, &pairs);
    MPI_Type_commit(&pairs);
    exchange(3, pair, 3, pairs); /* one and a half of these */
    exchange(1, MPI_2INT, 2, MPI_INT);
    exchange(0, MPI_INT, 2, MPI_DOUBLE);
    MPI_Pack(buf, 2, MPI_INT, packed, sizeof packed, &at, world);
    if (rank == 0)
        MPI_Send(packed, at, MPI_PACKED, 1, 5, world);
    else
        MPI_Recv(buf, 2, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) /* two sends may read the same buffer */
        MPI_Isend(buf, 100, MPI_INT, !rank, i, world, &r[i]);
    for (int i = 0; i < 2; i++)
        MPI_Irecv(more + 100 * i, 100, MPI_INT, !rank, i, world, &r[2 + i]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    MPI_Type_vector(10, 1, 2, MPI_INT, &gaps); /* its elements fill each other's gaps */
    MPI_Type_create_resized(gaps, 0, sizeof(int), &apart);
    MPI_Type_commit(&apart);
    exchange(20, MPI_INT, 2, apart);
    MPI_Type_free(&pair);
    MPI_Type_free(&pairs);
    MPI_Type_free(&gaps);
    MPI_Type_free(&apart);
    right_collectives();
    heap_fits();
    MPI_Sendrecv_replace(buf, 10, MPI_INT, !rank, 1, !rank, 1, world, MPI_STATUS_IGNORE);
}

static void right_windows(void)
{
    static int own[100];
    MPI_Win w = window(own, sizeof own);
    MPI_Win_fence(0, w);
    for (int i = 0; i < 2; i++)
        MPI_Put(buf, 10, MPI_INT, !rank, 10 * i, 10, MPI_INT, w);
    MPI_Get(more, 10, MPI_INT, !rank, 50, 10, MPI_INT, w);
    MPI_Win_fence(0, w);
    for (int i = 0; i < 2; i++) /* of all ranks, to the same place */
        MPI_Accumulate(buf, 10, MPI_INT, 0, 0, 10, MPI_INT, MPI_SUM, w);
    MPI_Get(more, 10, MPI_INT, 0, 10, 10, MPI_INT, w);
    MPI_Win_fence(0, w); /* then others may be written there */
    if (rank)
        MPI_Put(buf, 10, MPI_INT, 0, 10, 10, MPI_INT, w);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, !rank, 0, w);
    for (int i = 0; i < 3; i++) {
        more[0] = i;
        MPI_Accumulate(more, 1, MPI_INT, !rank, 0, 1, MPI_INT, MPI_SUM, w);
        MPI_Win_flush(!rank, w);
        MPI_Get(&more[1], 1, MPI_INT, !rank, 0, 1, MPI_INT, w);
        MPI_Win_flush_local(!rank, w);
        more[1]++;
    }
    MPI_Win_unlock(!rank, w);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, w);
    if (rank == 0)
        MPI_Put(buf, 10, MPI_INT, 1, 0, 10, MPI_INT, w);
    MPI_Win_fence(0, w); /* ends an epoch: here, or at the other process */
    MPI_Win_lock(MPI_LOCK_SHARED, !rank, 0, w);
    MPI_Put(buf, 10, MPI_INT, !rank, 30 + 10 * rank, 10, MPI_INT, w);
    MPI_Win_unlock(!rank, w);
    MPI_Barrier(world);
    MPI_Win_fence(0, w);
    MPI_Win_free(&w);
}

static void right_files(void)
{
    MPI_File f = file();
    MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    if (rank == 0)
        MPI_File_write_at_all(f, 0, buf, 1, MPI_INT, MPI_STATUS_IGNORE);
    else
        MPI_File_write_at_all_c(f, 1, buf, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&f);
}

#define CASE(name) \
    { \
#name, name \
    }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(unsafe),         CASE(signature),
    CASE(signature_long), CASE(signature_mixed),
    CASE(signature_part), CASE(tags),
    CASE(left),           CASE(waits),
    CASE(unreceived),     CASE(freed),
    CASE(changed),        CASE(overlap),
    CASE(entries),        CASE(frame),
    CASE(unmapped),       CASE(collective_buffer),
    CASE(get_changed),    CASE(put_changed),
    CASE(freed_memory),   CASE(dead_frame),
    CASE(no_memory),      CASE(fence_assert),
    CASE(lock_in_fences), CASE(missing_fence),
    CASE(open_barrier),   CASE(missing_view),
    CASE(missing_write),  CASE(leaks),
    CASE(freed_buffer),   CASE(coll_frame),
    CASE(coll_changed),   CASE(coll_vector),
    CASE(coll_overlap),   CASE(coll_persistent),
    CASE(info),           CASE(session),
    CASE(conflict_puts),  CASE(conflict_get),
    CASE(conflict_own),   CASE(conflict_vector),
    CASE(right_messages), CASE(right_windows),
    CASE(right_files),    CASE(heap),
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    world = MPI_COMM_WORLD;
    path = argc > 2 ? argv[2] : "";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (argc > 1 && !strcmp(argv[1], cases[i].name))
            cases[i].run();
    MPI_Finalize();
    if (late != MPI_INFO_NULL)
        MPI_Info_free(&late);
    return 0;
}

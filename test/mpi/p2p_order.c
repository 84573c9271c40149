/* SPDX-License-Identifier: BSD-3-Clause */
/* Message order and volume (MPI-5.0 section 3.5): floods of unexpected messages, many posted
 * receives, order between eager and rendezvous messages of one pair.  The first argument is the
 * flood's size (default 100000). A flood of small messages is buffered by the library, so the
 * program needs an eager limit of 8 bytes or more.  The limits of processor time are not about
 * speed: they fail when matching is quadratic. */
#include "test/mpi/mpitest.h"
#include <time.h>

enum { TAG_DATA = 1, TAG_DONE = 100001, QUICK_SECONDS = 15 };
static int flood = 100000;

/* Seconds that this rank has had a processor, whatever else the machine does. */
static double used(clock_t start) { return (double)(clock() - start) / CLOCKS_PER_SEC; }

/* Sends `flood` messages of 8 bytes, message i with tag i or all with TAG_DATA, then a last one
 * that starts the receiver. */
static void send_flood(bool tagged)
{
    long v;
    int i;

    for (i = 0; i < flood; i++) {
        v = i;
        OK(MPI_Send(&v, 1, MPI_LONG, mt_peer, tagged ? i : TAG_DATA, mt_comm));
    }
    OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, TAG_DONE, mt_comm));
}

enum order { IN_ORDER, REVERSE_TAGS, ANY_TAG_, ANY_SOURCE_, ANY_BOTH, ODD_THEN_EVEN };

static long receive_flood(enum order how)
{
    long v, wrong = 0;
    int i, want, source, tag;
    bool tagged = how == REVERSE_TAGS || how == ODD_THEN_EVEN;

    for (i = 0; i < flood; i++) {
        want = i;
        if (how == REVERSE_TAGS)
            want = flood - 1 - i;
        if (how == ODD_THEN_EVEN)
            want = i < flood / 2 ? 2 * i + 1 : 2 * (i - flood / 2);
        source = how == ANY_SOURCE_ || how == ANY_BOTH ? MPI_ANY_SOURCE : mt_peer;
        tag = how == ANY_TAG_ || how == ANY_BOTH ? MPI_ANY_TAG : TAG_DATA;
        v = -1;
        OK(MPI_Recv(&v, 1, MPI_LONG, source, tagged ? want : tag, mt_comm, MPI_STATUS_IGNORE));
        wrong += v != want;
    }
    return wrong;
}

static void run_flood(enum order how)
{
    clock_t start = clock();

    if (mt_peer == MPI_PROC_NULL)
        return;
    if (mt_first) {
        send_flood(how == REVERSE_TAGS || how == ODD_THEN_EVEN);
        return;
    }
    OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, TAG_DONE, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(receive_flood(how), 0);
    CHECK_MSG(used(start) < QUICK_SECONDS, "%d messages took %.1f s of a processor", flood,
              used(start));
}

static void flood_in_order(void) { run_flood(IN_ORDER); }
static void flood_reverse_tags(void) { run_flood(REVERSE_TAGS); }
static void flood_any_tag(void) { run_flood(ANY_TAG_); }
static void flood_any_source(void) { run_flood(ANY_SOURCE_); }
static void flood_any_both(void) { run_flood(ANY_BOTH); }
static void flood_odd_then_even(void) { run_flood(ODD_THEN_EVEN); }

/* Exact and wildcard receives take turns over one flood: the order of arrival must hold across the
 * matching tables. */
static void flood_mixed_receives(void)
{
    long v, wrong = 0;
    int i;

    if (mt_peer == MPI_PROC_NULL)
        return;
    if (mt_first) {
        send_flood(false);
        return;
    }
    OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, TAG_DONE, mt_comm, MPI_STATUS_IGNORE));
    for (i = 0; i < flood; i++) {
        v = -1;
        OK(MPI_Recv(&v, 1, MPI_LONG, i & 1 ? MPI_ANY_SOURCE : mt_peer,
                    i & 2 ? MPI_ANY_TAG : TAG_DATA, mt_comm, MPI_STATUS_IGNORE));
        wrong += v != i;
    }
    CHECK_EQ(wrong, 0);
}

/* 10^4 receives posted with their own tags, answered in the opposite order. */
static void many_posted(void)
{
    int n = flood / 10, i, wrong = 0;
    int *v = calloc((size_t)n, sizeof(int));
    MPI_Request *r = malloc((size_t)n * sizeof(*r));
    clock_t start = clock();

    if (mt_first) {
        OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, TAG_DONE, mt_comm, MPI_STATUS_IGNORE));
        for (i = n - 1; i >= 0; i--)
            OK(MPI_Send(&i, 1, MPI_INT, mt_peer, i, mt_comm));
    } else if (mt_peer != MPI_PROC_NULL) {
        for (i = 0; i < n; i++)
            OK(MPI_Irecv(&v[i], 1, MPI_INT, mt_peer, i, mt_comm, &r[i]));
        OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, TAG_DONE, mt_comm));
        OK(MPI_Waitall(n, r, MPI_STATUSES_IGNORE));
        for (i = 0; i < n; i++)
            wrong += v[i] != i;
        CHECK_EQ(wrong, 0);
        CHECK_MSG(used(start) < QUICK_SECONDS, "%d receives took %.1f s of a processor", n,
                  used(start));
    }
    free(v);
    free(r);
}

/* Receives of one tag are filled in posting order by messages in sending order. */
static void many_posted_same_tag(void)
{
    int n = flood / 10, i, wrong = 0;
    int *v = calloc((size_t)n, sizeof(int)), *out = malloc((size_t)n * sizeof(int));
    MPI_Request *r = malloc((size_t)n * sizeof(*r));

    if (mt_peer != MPI_PROC_NULL) {
        for (i = 0; i < n; i++)
            if (mt_first) {
                out[i] = i;
                OK(MPI_Isend(&out[i], 1, MPI_INT, mt_peer, TAG_DATA, mt_comm, &r[i]));
            } else {
                OK(MPI_Irecv(&v[i], 1, MPI_INT, i % 3 ? mt_peer : MPI_ANY_SOURCE,
                             i % 5 ? TAG_DATA : MPI_ANY_TAG, mt_comm, &r[i]));
            }
        OK(MPI_Waitall(n, r, MPI_STATUSES_IGNORE));
        for (i = 0; !mt_first && i < n; i++)
            wrong += v[i] != i;
        CHECK_EQ(wrong, 0);
    }
    free(v);
    free(out);
    free(r);
}

/* Small and large messages of one tag keep their order although they take different paths. */
static void mixed_protocols(void)
{
    enum { COUNT = 300, MAX = 70000 };
    unsigned state = mt_seed;
    unsigned char *buf = malloc((size_t)COUNT * MAX);
    MPI_Request r[COUNT];
    MPI_Status st;
    int i, n[COUNT], got;

    for (i = 0; i < COUNT; i++)
        n[i] = (int)(mt_random(&state) % 4 ? mt_random(&state) % 100 : mt_random(&state) % MAX);
    for (i = 0; mt_first && i < COUNT; i++) {
        mt_fill(buf + (size_t)i * MAX, (size_t)n[i], (unsigned)i);
        OK(MPI_Isend(buf + (size_t)i * MAX, n[i], MPI_BYTE, mt_peer, TAG_DATA, mt_comm, &r[i]));
    }
    if (mt_first)
        OK(MPI_Waitall(COUNT, r, MPI_STATUSES_IGNORE));
    for (i = 0; !mt_first && mt_peer != MPI_PROC_NULL && i < COUNT; i++) {
        got = -1;
        OK(MPI_Recv(buf, MAX, MPI_BYTE, mt_peer, i % 2 ? TAG_DATA : MPI_ANY_TAG, mt_comm, &st));
        OK(MPI_Get_count(&st, MPI_BYTE, &got));
        CHECK_EQ(got, n[i]);
        CHECK_DATA(buf, (size_t)n[i], (unsigned)i);
    }
    free(buf);
}

/* A large message followed by a small one: the small may arrive first, but is not received in its
 * place. */
static void large_before_small(void)
{
    enum { LARGE = 500000 };
    unsigned char *big = mt_alloc(LARGE);
    MPI_Request r;
    int x = 17, n = -1, i;
    MPI_Status st;

    for (i = 0; i < 20; i++)
        if (mt_first) {
            OK(MPI_Isend(big, LARGE, MPI_BYTE, mt_peer, TAG_DATA, mt_comm, &r));
            OK(MPI_Send(&x, 1, MPI_INT, mt_peer, TAG_DATA, mt_comm));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else if (mt_peer != MPI_PROC_NULL) {
            OK(MPI_Recv(big, LARGE, MPI_BYTE, mt_peer, TAG_DATA, mt_comm, &st));
            OK(MPI_Get_count(&st, MPI_BYTE, &n));
            CHECK_EQ(n, LARGE);
            OK(MPI_Recv(big, LARGE, MPI_BYTE, mt_peer, TAG_DATA, mt_comm, &st));
            OK(MPI_Get_count(&st, MPI_BYTE, &n));
            CHECK_EQ(n, sizeof(int));
        }
    free(big);
}

/* All ranks flood rank 0 at once; each sender's messages stay in order. */
static void flood_from_all(void)
{
    long next[64] = { 0 }, v, wrong = 0;
    int each = flood / 10, i;
    MPI_Status st;

    if (mt_rank == 0)
        for (i = 0; i < each * (mt_size - 1); i++) {
            OK(MPI_Recv(&v, 1, MPI_LONG, MPI_ANY_SOURCE, TAG_DATA, mt_comm, &st));
            wrong += v != next[st.MPI_SOURCE & 63]++;
        }
    for (i = 0; mt_rank != 0 && i < each; i++) {
        v = i;
        OK(MPI_Send(&v, 1, MPI_LONG, 0, TAG_DATA, mt_comm));
    }
    CHECK_EQ(wrong, 0);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    if (argc > 1 && atoi(argv[1]) > 0)
        flood = atoi(argv[1]);
    MT_RUN(flood_in_order);
    MT_RUN(flood_reverse_tags);
    MT_RUN(flood_any_tag);
    MT_RUN(flood_any_source);
    MT_RUN(flood_any_both);
    MT_RUN(flood_odd_then_even);
    MT_RUN(flood_mixed_receives);
    MT_RUN(many_posted);
    MT_RUN(many_posted_same_tag);
    MT_RUN(mixed_protocols);
    MT_RUN(large_before_small);
    MT_RUN(flood_from_all);
    return mt_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of unexpected messages is bounded per sender (mpi/p2p/flow.h): floods by blocking sends,
 * windows of nonblocking ones and empty messages, to a rank that waits for something else or does
 * not call MPI at all; then all messages are received, in order and unharmed.  Run with
 * WEFT_UNEXPECTED_MAX=256K. */
#include <string.h>
#include "test/mpi/mpitest.h"

#define T(call) CHECK_EQ((call), MPI_SUCCESS)

enum {
    TAG = 1,
    BOUND = 256 * 1024,
    EACH = 320, /* WM_FLOW_EACH */
    MESSAGES = 6000,
    WINDOW = 256,
#ifdef __SANITIZE_ADDRESS__
    MAX_RSS_MB = 1000 /* freed memory is kept; the library's own count is checked, too */
#else
    MAX_RSS_MB = 60 /* more than a correct library needs here */
#endif
};

typedef unsigned long long ull;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle held_var, stops_var;

static MPI_T_pvar_handle open_var(const char *name, int cls)
{
    MPI_T_pvar_handle h = MPI_T_PVAR_HANDLE_NULL;
    int index = -1, n;

    T(MPI_T_pvar_get_index(name, cls, &index));
    T(MPI_T_pvar_handle_alloc(session, index, NULL, &h, &n));
    return h;
}

static ull value(MPI_T_pvar_handle h)
{
    ull v = 0;

    T(MPI_T_pvar_read(session, h, &v));
    return v;
}

/* Most memory that this process has had, MiB. */
static long peak_mb(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[200];
    long v = 0;

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "VmHWM:", 6))
            v = atol(line + 6);
    if (f)
        fclose(f);
    return v / 1024;
}

/* What one sender may have here, by the formula in flow.h. */
static ull most(int len)
{
    ull s = BOUND / 32 + 1 + (ull)(len + EACH);

    return 2 * (BOUND + s);
}

enum how { BLOCKING, NONBLOCKING, PERSISTENT };

static void send_all(int len, enum how how)
{
    static unsigned char buf[WINDOW][8192];
    MPI_Request r[WINDOW];
    int i, k, n;

    for (i = 0; i < MESSAGES; i += n) {
        n = how == BLOCKING ? 1 : MESSAGES - i < WINDOW ? MESSAGES - i : WINDOW;
        for (k = 0; k < n; k++) {
            if (len)
                memset(buf[k], (mt_rank + i + k) & 255, (size_t)len);
            if (how == BLOCKING)
                OK(MPI_Send(buf[k], len, MPI_BYTE, 0, TAG, mt_comm));
            else if (how == NONBLOCKING)
                OK(MPI_Isend(buf[k], len, MPI_BYTE, 0, TAG, mt_comm, &r[k]));
            else
                OK(MPI_Send_init(buf[k], len, MPI_BYTE, 0, TAG, mt_comm, &r[k]));
        }
        if (how == PERSISTENT)
            OK(MPI_Startall(n, r));
        if (how != BLOCKING)
            OK(MPI_Waitall(n, r, MPI_STATUSES_IGNORE));
        for (k = 0; how == PERSISTENT && k < n; k++)
            OK(MPI_Request_free(&r[k]));
    }
}

/* Probes for another tag until nothing more comes, which is when every sender has been stopped: the
 * last message of each sender then has no answer. */
static void look_on(void)
{
    ull before = 0, now;
    int quiet = 0, flag;

    while (quiet < 50) {
        OK(MPI_Iprobe(MPI_ANY_SOURCE, TAG + 1, mt_comm, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        now = value(held_var);
        quiet = now == before && now > 0 ? quiet + 1 : 0;
        before = now;
        if (quiet)
            mt_sleep_ms(1);
    }
}

static void receive_all(int len)
{
    static unsigned char buf[8192];
    int *next = calloc((size_t)mt_size, sizeof *next), i, j, bad = 0;
    MPI_Status st;

    for (i = 0; i < MESSAGES * (mt_size - 1); i++) {
        int from = i % 3 ? MPI_ANY_SOURCE : 1 + i % (mt_size - 1);
        if (from != MPI_ANY_SOURCE && next[from] == MESSAGES)
            from = MPI_ANY_SOURCE;
        memset(buf, 0, sizeof buf);
        OK(MPI_Recv(buf, sizeof buf, MPI_BYTE, from, TAG, mt_comm, &st));
        mt_check_status(&st, st.MPI_SOURCE, TAG, len);
        for (j = 0; j < len; j += 7)
            bad += buf[j] != ((st.MPI_SOURCE + next[st.MPI_SOURCE]) & 255);
        next[st.MPI_SOURCE]++;
    }
    CHECK_MSG(!bad, "%d bytes differ", bad);
    free(next);
}

static void flood(int len, enum how how)
{
    /* Announced, or queued behind a full socket before the stop. */
    ull stops = value(stops_var), held, more = how == BLOCKING ? 1 : WINDOW;
    ull each = (ull)(len > 48 ? len : 48) + EACH;

    mt_sync();
    if (mt_rank) {
        send_all(len, how);
        return;
    }
    look_on();
    held = value(held_var);
    CHECK_MSG(held <= (ull)(mt_size - 1) * (most(len) + more * each),
              "%llu bytes are held of %d senders, length %d", held, mt_size - 1, len);
    CHECK_EQ(value(stops_var) - stops, (ull)(mt_size - 1));
    receive_all(len);
    CHECK(value(held_var) < 4000u * (unsigned)mt_size); /* of the next case, if a rank is ahead */
    CHECK_MSG(peak_mb() < MAX_RSS_MB, "the receiver has had %ld MiB", peak_mb());
}

static void blocking_sends(void) { flood(4096, BLOCKING); }
static void short_blocking_sends(void) { flood(8, BLOCKING); }
static void empty_blocking_sends(void) { flood(0, BLOCKING); }
static void windows(void) { flood(4096, NONBLOCKING); }
static void empty_windows(void) { flood(0, NONBLOCKING); }
static void persistent_sends(void) { flood(1000, PERSISTENT); }

/* The receiver computes meanwhile, and then reads what has come all at once. */
static void away(void)
{
    ull held;

    mt_sync();
    if (mt_rank) {
        send_all(0, BLOCKING);
        return;
    }
    mt_sleep_ms(300);
    look_on();
    held = value(held_var);
    CHECK_MSG(held <= (ull)(mt_size - 1) * (most(0) + 48 + EACH), "%llu bytes are held", held);
    receive_all(0);
}

/* Nothing is received from rank 1 until the others' messages have been received. */
static void waits_for_another(void)
{
    int r, i;

    mt_sync();
    if (mt_rank) {
        send_all(512, BLOCKING);
        return;
    }
    for (r = mt_size - 1; r > 0; r--)
        for (i = 0; i < MESSAGES; i++) {
            unsigned char buf[512];
            OK(MPI_Recv(buf, 512, MPI_BYTE, r, TAG, mt_comm, MPI_STATUS_IGNORE));
            CHECK(buf[511] == ((r + i) & 255));
        }
    CHECK(peak_mb() < MAX_RSS_MB);
}

/* Collectives that their root or leaves could leave early. */
static void collectives(void)
{
    int i, x, sum;

    for (i = 0; i < 6000; i++) {
        x = i;
        OK(MPI_Bcast(&x, 1, MPI_INT, mt_size - 1, mt_comm));
        CHECK_EQ(x, i);
        if (i == 100 && mt_rank == 0)
            mt_sleep_ms(100);
    }
    for (i = 0; i < 6000; i++) {
        OK(MPI_Reduce(&i, &sum, 1, MPI_INT, MPI_SUM, 0, mt_comm));
        if (mt_rank == 0)
            CHECK_EQ(sum, i * mt_size);
        if (i == 100 && mt_rank == 0)
            mt_sleep_ms(100);
    }
    CHECK(peak_mb() < MAX_RSS_MB);
}

/* A process that sends to itself receives later, and no other process would release a blocking
 * send. */
static void to_myself(void)
{
    int i, x;

    for (i = 0; i < 3000; i++)
        OK(MPI_Send(&i, 1, MPI_INT, mt_rank, TAG, mt_comm));
    for (i = 0; i < 3000; i++) {
        OK(MPI_Recv(&x, 1, MPI_INT, mt_rank, TAG, mt_comm, MPI_STATUS_IGNORE));
        CHECK_EQ(x, i);
    }
}

int main(int argc, char **argv)
{
    int provided;

    mt_init(argc, argv);
    T(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    T(MPI_T_pvar_session_create(&session));
    held_var = open_var("p2p_unexpected_bytes", MPI_T_PVAR_CLASS_LEVEL);
    stops_var = open_var("p2p_stops", MPI_T_PVAR_CLASS_COUNTER);
    T(MPI_T_pvar_start(session, stops_var));
    MT_RUN(blocking_sends);
    MT_RUN(short_blocking_sends);
    MT_RUN(empty_blocking_sends);
    MT_RUN(windows);
    MT_RUN(empty_windows);
    MT_RUN(persistent_sends);
    MT_RUN(away);
    MT_RUN(waits_for_another);
    MT_RUN(collectives);
    MT_RUN(to_myself);
    T(MPI_T_pvar_session_free(&session));
    T(MPI_T_finalize());
    return mt_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory between processes of two jobs of one host: data, the path (no byte through staging
 * memory of the host), and what is left when the jobs are no longer connected.
 *     dyn_device                the program's job and three processes that it spawns
 *     dyn_device accept FILE    a job that writes a port's name to FILE, meets a job of which a
 *                               process dies, and then another one
 *     dyn_device die FILE N     that job; the process dies during a message (N 0) or a collective
 *     dyn_device connect FILE   the other one */
#include <dlfcn.h>
#include <string.h>
#include <sys/time.h>
#include "test/descriptors.h"
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { CHILDREN = 3, MEETINGS = 100, LONGEST = 4 << 20, HUGE_LEN = 64 << 20 };

/* Those that other processes can map. */
static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM };
#define NKINDS (sizeof kinds / sizeof kinds[0])

static MPI_Comm inter;
static int me, near_size, far_size;
static bool is_first; /* of the two sides */

static int alive(void)
{
    fake_cuda_alive_fn *fn = (fake_cuda_alive_fn *)(uintptr_t)dlsym(RTLD_DEFAULT,
                                                                    "fake_cuda_alive");
    return fn ? fn((enum fake_thing)0) : 0;
}

/* ---- counters ---- */

static MPI_T_pvar_session session;
static MPI_T_pvar_handle staged_bytes, device_messages, algorithm;

static MPI_T_pvar_handle handle_of(const char *name, int class)
{
    MPI_T_pvar_handle h = MPI_T_PVAR_HANDLE_NULL;
    int index, n;
    OK(MPI_T_pvar_get_index(name, class, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &h, &n));
    return h;
}

static void open_counters(void)
{
    int provided;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    staged_bytes = handle_of("p2p_device_staged_bytes", MPI_T_PVAR_CLASS_AGGREGATE);
    device_messages = handle_of("p2p_device", MPI_T_PVAR_CLASS_COUNTER);
    algorithm = handle_of("coll_algorithm", MPI_T_PVAR_CLASS_STATE);
    OK(MPI_T_pvar_start(session, staged_bytes));
    OK(MPI_T_pvar_start(session, device_messages));
}

static unsigned long long count(MPI_T_pvar_handle h)
{
    unsigned long long v = 0;
    OK(MPI_T_pvar_read(session, h, &v));
    return v;
}

/* Whether the last collective used none of the algorithms over messages and host memory. */
static bool by_devices(void)
{
    int v = 0;
    OK(MPI_T_pvar_read(session, algorithm, &v));
    return v == -1;
}

/* ---- messages ---- */

static int device(void) { return (mt_rank + is_first) % gt_ndevices(); }

/* Two buffers of each kind.  They stay: memory that is freed and allocated again may go through the
 * host until the other side has unmapped it. */
static unsigned char *buffer(enum gt_kind kind, int which)
{
    static unsigned char *kept[GT_KINDS][2];
    if (!kept[kind][which])
        kept[kind][which] = gt_alloc(kind, device(), LONGEST, 1 + 2 * (unsigned)which);
    return kept[kind][which];
}

static void swap(unsigned char *out, unsigned char *in, size_t n, uint64_t key)
{
    gt_fill(out, n, key + (uint64_t)me + 100 * is_first);
    for (int i = 0; i < far_size; i++) {
        MPI_Request q;
        gt_set(in, GT_POISON, n);
        OK(MPI_Isend(out, (int)n, MPI_BYTE, i, 1, inter, &q));
        OK(MPI_Recv(in, (int)n, MPI_BYTE, i, 1, inter, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        GT_CHECK_DATA(in, n, key + (uint64_t)i + 100 * !is_first);
        CHECK(gt_guards_intact(in));
    }
}

/* Each process exchanges n bytes with each one of the other side. */
static void exchange(enum gt_kind kind, size_t n, uint64_t key)
{
    swap(buffer(kind, 0), buffer(kind, 1), n, key);
}

static void exchange_huge(void)
{
    unsigned char *out = gt_alloc(GT_CUDA, device(), HUGE_LEN, 0),
                  *in = gt_alloc(GT_CUDA, device(), HUGE_LEN, 0);
    swap(out, in, HUGE_LEN, 5);
    gt_free(out);
    gt_free(in);
}

static void lengths(void)
{
    unsigned long long was = count(staged_bytes), sent = count(device_messages);
    unsigned n = 0;
    for (unsigned k = 0; k < NKINDS; k++)
        for (size_t len = 8; len <= LONGEST; len *= 8, n++)
            exchange(kinds[k], len, len + k);
    if (near_size * far_size <= 3) {
        exchange_huge();
        n++;
    }
    CHECK_EQ(count(staged_bytes), was);
    CHECK_EQ(count(device_messages), sent + 2 * n * (unsigned)far_size);
}

/* A type with gaps is packed on the device and goes in pieces. */
static void pieces(void)
{
    enum { BLOCKS = 300000, NBYTES = 7 * BLOCKS };
    MPI_Datatype t;
    unsigned char *a = buffer(GT_CUDA, 0), *b = buffer(GT_CUDA, 1), *seen = malloc(NBYTES);
    int wrong = 0;
    OK(MPI_Type_vector(BLOCKS, 3, 7, MPI_BYTE, &t));
    OK(MPI_Type_commit(&t));
    gt_fill(a, NBYTES, 9);
    for (int i = 0; i < far_size; i++) {
        MPI_Request q;
        gt_set(b, GT_POISON, NBYTES);
        OK(MPI_Isend(a, 1, t, i, 2, inter, &q));
        OK(MPI_Recv(b, 1, t, i, 2, inter, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        gt_read(seen, b, NBYTES);
        for (size_t k = 0; k < NBYTES; k++)
            wrong += seen[k] != (k % 7 < 3 ? gt_byte(k, 9) : GT_POISON);
    }
    CHECK_EQ(wrong, 0);
    OK(MPI_Type_free(&t));
    free(seen);
}

/* Memory of pools is not mapped by other processes. */
static void staged(void)
{
    unsigned long long was = count(staged_bytes);
    for (size_t len = 8; len <= LONGEST; len *= 64)
        exchange(GT_POOL, len, len);
    CHECK(count(staged_bytes) > was);
}

/* ---- collectives ---- */

static int reduced(MPI_Comm c, int n, enum gt_kind kind)
{
    int rank, size, wrong = 0, *host = malloc((size_t)n * sizeof *host);
    size_t nbytes = (size_t)n * sizeof *host;
    unsigned char *a = buffer(kind, 0), *b = buffer(kind, 1);
    MPI_Comm_rank(c, &rank);
    MPI_Comm_size(c, &size);
    for (int i = 0; i < n; i++)
        host[i] = rank + i;
    gt_write(a, host, nbytes);
    int err = MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, c);
    gt_read(host, b, nbytes);
    for (int i = 0; i < n && !err; i++)
        wrong += host[i] != size * (size - 1) / 2 + size * i;
    CHECK_EQ(wrong, 0);
    free(host);
    return err;
}

static void collectives(void)
{
    MPI_Comm merged, again;
    unsigned long long was;
    OK(MPI_Intercomm_merge(inter, !is_first, &merged));
    OK(MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(merged, &again));
    was = count(staged_bytes);
    for (unsigned k = 0; k < NKINDS; k++)
        for (int n = 1; n <= LONGEST / 4; n *= 16) {
            /* After a call that was late, up to 64 go through host memory: coll/gpu/turns.c. */
            bool device = false;
            for (int i = 0; i < 66 && !device; i++) {
                OK(reduced(n & 1 ? merged : again, n, kinds[k]));
                device = by_devices() || !gt_kernels();
                OK(MPI_Allreduce(MPI_IN_PLACE, &device, 1, MPI_C_BOOL, MPI_LAND, merged));
            }
            CHECK_MSG(device, "%d ints in %s: not from device to device", n,
                      gt_kind_names[kinds[k]]);
        }
    CHECK_EQ(count(staged_bytes), was);
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&merged));
}

/* ---- meetings ---- */

static void join(MPI_Comm c, bool first)
{
    inter = c;
    is_first = first;
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(inter, &me));
    OK(MPI_Comm_size(inter, &near_size));
    OK(MPI_Comm_remote_size(inter, &far_size));
}

static void meet(const char *port, bool first)
{
    MPI_Comm c;
    if (first)
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
    else
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
    join(c, first);
}

/* Nothing of the other side's memory stays mapped; mappings of cuMemAlloc memory, whose unmapping
 * waits for the device, are made by lengths() only. */
static void many_meetings(const char *port, bool first)
{
    unsigned long long was = count(staged_bytes);
    int before[2] = { 0 }, idle = alive();
    for (int i = 0; i < MEETINGS; i++) {
        meet(port, first);
        exchange(GT_VMM, 5000, (uint64_t)i);
        OK(MPI_Comm_disconnect(&inter));
        if (i == 5) {
            before[0] = descriptors();
            before[1] = idle = alive();
        }
    }
    CHECK_EQ(count(staged_bytes), was);
    CHECK_EQ(alive(), before[1]);
    CHECK_MSG(descriptors() <= before[0] + 2 * CHILDREN, "%d descriptors, then %d", before[0],
              descriptors());
}

static void talk(bool first)
{
    char port[MPI_MAX_PORT_NAME] = "";
    join(inter, first);
    lengths();
    staged();
    pieces();
    collectives();
    if (first && me == 0)
        OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Bcast(port, sizeof port, MPI_CHAR, first ? me ? MPI_PROC_NULL : MPI_ROOT : 0, inter));
    OK(MPI_Comm_disconnect(&inter));
    many_meetings(port, first);
    if (first && mt_rank == 0)
        OK(MPI_Close_port(port));
}

static void spawned(void)
{
    char path[4096], *argv[] = { "child", NULL };
    mt_program(path, sizeof path);
    OK(MPI_Comm_spawn(path, argv, CHILDREN, MPI_INFO_NULL, 0, mt_comm, &inter,
                      MPI_ERRCODES_IGNORE));
    talk(true);
}

/* ---- death ---- */

static void publish(const char *file, char *port)
{
    char tmp[512];
    FILE *f;
    if (mt_rank)
        return;
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    snprintf(tmp, sizeof tmp, "%s.tmp", file);
    f = fopen(tmp, "w");
    CHECK(f && fputs(port, f) >= 0 && fclose(f) == 0);
    CHECK_EQ(rename(tmp, file), 0);
}

static void find(const char *file, char *port)
{
    FILE *f;
    if (mt_rank)
        return;
    while (!(f = fopen(file, "r")))
        usleep(1000);
    CHECK(fgets(port, MPI_MAX_PORT_NAME, f) != NULL);
    fclose(f);
}

/* Messages with the process that dies, until one fails. */
static int until_it_fails(bool collective)
{
    unsigned char *in = buffer(GT_VMM, 0);
    MPI_Comm merged;
    int err = MPI_SUCCESS;
    OK(MPI_Intercomm_merge(inter, !is_first, &merged));
    OK(MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN));
    while (!err && collective)
        err = reduced(merged, LONGEST / 16, GT_VMM);
    while (!err && !collective && (me == 0 || !is_first))
        err = is_first ? MPI_Recv(in, LONGEST, MPI_BYTE, 0, 1, inter, MPI_STATUS_IGNORE)
                       : MPI_Send(in, LONGEST, MPI_BYTE, 0, 1, inter);
    OK(MPI_Comm_free(&merged));
    return err;
}

static void on_alarm(int sig)
{
    (void)sig;
    kill(getpid(), SIGKILL);
}

/* Meetings after the death.  In the first ones the device gets the buffers for copies beside other
 * processes, which it keeps (runtime/gpu/bounce.c); what a later one makes must go with it. */
static void meet_again(const char *port, bool first)
{
    enum { AGAIN = 3 };
    int idle = 0;
    for (int i = 0; i < AGAIN; i++) {
        idle = alive();
        meet(port, first);
        exchange(GT_VMM, 100000, 2);
        OK(MPI_Comm_disconnect(&inter));
    }
    if (first)
        CHECK_EQ(alive(), idle);
}

static void die(const char *port, bool collective)
{
    meet(port, false);
    exchange(GT_VMM, 1000, 1);
    if (me == 0) {
        signal(SIGVTALRM, on_alarm);
        setitimer(ITIMER_VIRTUAL, &(struct itimerval){ .it_value = { .tv_usec = 50000 } }, NULL);
    }
    until_it_fails(collective);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void survive(const char *port, bool collective)
{
    meet(port, true);
    exchange(GT_VMM, 1000, 1);
    int err = until_it_fails(collective);
    CHECK(err || (me && !collective));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Comm_disconnect(&inter));
    meet_again(port, true);
}

static int part(char **argv, int argc)
{
    char port[MPI_MAX_PORT_NAME] = "";
    bool collective = argc > 3 && atoi(argv[3]);
    if (!strcmp(argv[1], "accept")) {
        publish(argv[2], port);
        survive(port, collective);
    } else {
        find(argv[2], port);
        if (!strcmp(argv[1], "die"))
            die(port, collective);
        meet_again(port, false);
    }
    if (*port && !strcmp(argv[1], "accept"))
        OK(MPI_Close_port(port));
    return 0;
}

/* So that what the test program's own pools and streams hold is there before anything is counted.
 */
static void warm_up(void)
{
    for (int dev = 0; dev < gt_ndevices(); dev++)
        for (int k = 0; k < GT_KINDS; k++)
            gt_free(gt_alloc((enum gt_kind)k, dev, 10, 0));
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    warm_up();
    open_counters();
    if (argc > 2)
        part(argv, argc);
    else if (argc > 1 && MPI_Comm_get_parent(&inter) == MPI_SUCCESS)
        talk(false);
    else
        MT_RUN(spawned);
    OK(MPI_T_finalize());
    if (argc == 1)
        return mt_end();
    MPI_Finalize();
    return check_failed_case;
}

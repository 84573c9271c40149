/* SPDX-License-Identifier: BSD-3-Clause */
/* More ranks than cores: mixed traffic ends within seconds, a rank that only waits uses no
 * processor, and a rank that polls by calls that do not wait yields its processor.  Run with 16
 * ranks on two cores.  The limits are generous: without sleeping the traffic takes minutes and an
 * idle rank 100 %. */
#include "test/mpi/mpitest.h"
#include "test/patience.h"
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BIG = 200000, SECONDS = 20, IDLE_MS = 2000, IDLE_PERCENT = 2 };

static int yields;

/* The library calls this function, too: an exported symbol of the program is found first. */
__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

struct span {
    struct watch watch;
    double cpu;
};

static struct span span_begin(void) { return (struct span){ watch_begin(), cpu_seconds() }; }

/* The span took no longer than the limit, and no more processor time than all ranks together have
 * in that time.  Time that other processes took from this machine does not count. */
static void span_check(const struct span *s, const char *what)
{
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), cpu = cpu_seconds() - s->cpu;
    double share = cores < mt_size ? cores / mt_size : 1, own = (double)watch_own(s->watch) * 1e-9;

    CHECK_MSG(own < SECONDS && cpu < SECONDS * share, "%s took %.1f s, %.1f s of a processor", what,
              own, cpu);
}

static void mixed_traffic(void)
{
    unsigned char *out = mt_alloc(BIG), *in = mt_alloc(BIG);
    struct span span = span_begin();
    MPI_Request r[2];
    int round, step, to, from, n;

    for (round = 0; round < 5; round++)
        for (step = 1; step < mt_size; step++) {
            to = (mt_rank + step) % mt_size;
            from = (mt_rank - step + mt_size) % mt_size;
            n = round == 0 && step % 4 == 0 ? BIG : step % 2 ? 8 : 3000;
            mt_fill(out, (size_t)n, (unsigned)(mt_rank + step));
            OK(MPI_Irecv(in, n, MPI_BYTE, from, step, mt_comm, &r[0]));
            OK(MPI_Isend(out, n, MPI_BYTE, to, step, mt_comm, &r[1]));
            OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
            CHECK_DATA(in, (size_t)n, (unsigned)(from + step));
        }
    span_check(&span, "traffic");
    free(out);
    free(in);
}

static void small_ring(void)
{
    struct span span = span_begin();
    int lap, x = 0;

    for (lap = 0; lap < 100 && mt_size > 1; lap++) {
        if (mt_rank == 0)
            OK(MPI_Send(&lap, 1, MPI_INT, 1, 1, mt_comm));
        OK(MPI_Recv(&x, 1, MPI_INT, (mt_rank + mt_size - 1) % mt_size, 1, mt_comm,
                    MPI_STATUS_IGNORE));
        CHECK_EQ(x, lap);
        if (mt_rank != 0)
            OK(MPI_Send(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, 1, mt_comm));
    }
    span_check(&span, "the ring");
}

static void collectives(void)
{
    struct span span = span_begin();
    int i, x, sum;

    for (i = 0; i < 200; i++) {
        x = mt_rank + i;
        sum = -1;
        OK(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, mt_comm));
        CHECK_EQ(sum, mt_size * (mt_size - 1) / 2 + i * mt_size);
        OK(MPI_Barrier(mt_comm));
    }
    span_check(&span, "collectives");
}

/* Rank 0 sleeps outside MPI; all others wait for it in a call and must not burn their core
 * meanwhile. */
static void idle(int how)
{
    double cpu, wall;
    int i, x = 0;
    MPI_Request r;

    if (mt_size == 1)
        return;
    mt_sync();
    cpu = cpu_seconds();
    wall = MPI_Wtime();
    if (mt_rank == 0) {
        mt_sleep_ms(IDLE_MS);
        for (i = 1; i < mt_size; i++)
            OK(MPI_Send(&i, 1, MPI_INT, i, 2, mt_comm));
    } else if (how == 0) {
        OK(MPI_Recv(&x, 1, MPI_INT, 0, 2, mt_comm, MPI_STATUS_IGNORE));
    } else if (how == 1) {
        OK(MPI_Irecv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &r));
        OK(MPI_Waitall(1, &r, MPI_STATUSES_IGNORE));
    } else {
        OK(MPI_Probe(MPI_ANY_SOURCE, 2, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&x, 1, MPI_INT, 0, 2, mt_comm, MPI_STATUS_IGNORE));
    }
    cpu = cpu_seconds() - cpu;
    wall = MPI_Wtime() - wall;
    if (mt_rank != 0) {
        CHECK_EQ(x, mt_rank);
        CHECK_MSG(cpu * 100 < wall * IDLE_PERCENT, "rank %d used %.1f ms of processor in %.2f s",
                  mt_rank, cpu * 1e3, wall);
    }
}

static void idle_in_recv(void) { idle(0); }
static void idle_in_wait(void) { idle(1); }
static void idle_in_probe(void) { idle(2); }

static void idle_in_barrier(void)
{
    double cpu, wall;

    mt_sync();
    cpu = cpu_seconds();
    wall = MPI_Wtime();
    if (mt_rank == 0)
        mt_sleep_ms(IDLE_MS);
    OK(MPI_Barrier(mt_comm));
    cpu = cpu_seconds() - cpu;
    wall = MPI_Wtime() - wall;
    CHECK_MSG(cpu * 100 < wall * IDLE_PERCENT || mt_size == 1,
              "rank %d used %.1f ms of processor in %.2f s", mt_rank, cpu * 1e3, wall);
}

enum poll {
    TEST,
    TESTALL,
    TESTANY,
    TESTSOME,
    STATUS,
    STATUS_ALL,
    STATUS_ANY,
    STATUS_SOME,
    IPROBE,
    IMPROBE,
    NPOLLS
};

/* Nothing is found before the message is sent, and no rank sends before all have polled. */
static int poll_once(enum poll how, MPI_Request *r)
{
    int flag = 0, i;
    MPI_Message m;

    switch (how) {
    case TEST:
        OK(MPI_Test(r, &flag, MPI_STATUS_IGNORE));
        break;
    case TESTALL:
        OK(MPI_Testall(1, r, &flag, MPI_STATUSES_IGNORE));
        break;
    case TESTANY:
        OK(MPI_Testany(1, r, &i, &flag, MPI_STATUS_IGNORE));
        break;
    case TESTSOME:
        OK(MPI_Testsome(1, r, &flag, &i, MPI_STATUSES_IGNORE));
        break;
    case STATUS:
        OK(MPI_Request_get_status(*r, &flag, MPI_STATUS_IGNORE));
        break;
    case STATUS_ALL:
        OK(MPI_Request_get_status_all(1, r, &flag, MPI_STATUSES_IGNORE));
        break;
    case STATUS_ANY:
        OK(MPI_Request_get_status_any(1, r, &i, &flag, MPI_STATUS_IGNORE));
        break;
    case STATUS_SOME:
        OK(MPI_Request_get_status_some(1, r, &flag, &i, MPI_STATUSES_IGNORE));
        break;
    case IPROBE:
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 4, mt_comm, &flag, MPI_STATUS_IGNORE));
        break;
    default:
        OK(MPI_Improbe(MPI_ANY_SOURCE, 4, mt_comm, &flag, &m, MPI_STATUS_IGNORE));
        break;
    }
    return flag;
}

static void polling_gives_way(void)
{
    int how, x = 0, before, from = (mt_rank + mt_size - 1) % mt_size;
    MPI_Request r;

    if (mt_size <= sysconf(_SC_NPROCESSORS_ONLN))
        return;
    for (how = 0; how < NPOLLS; how++) {
        OK(MPI_Irecv(&x, 1, MPI_INT, from, 3, mt_comm, &r));
        before = yields;
        CHECK_EQ(poll_once((enum poll)how, &r), 0);
        CHECK_MSG(yields != before, "no yield in way %d of polling", how);
        mt_sync();
        OK(MPI_Send(&how, 1, MPI_INT, (mt_rank + 1) % mt_size, 3, mt_comm));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        CHECK_EQ(x, how);
    }
}

static void parrived_gives_way(void)
{
    int x = 0, flag = 1, before;
    MPI_Request r[2];

    if (mt_size <= sysconf(_SC_NPROCESSORS_ONLN))
        return;
    OK(MPI_Precv_init(&x, 1, 1, MPI_INT, (mt_rank + mt_size - 1) % mt_size, 5, mt_comm,
                      MPI_INFO_NULL, &r[0]));
    OK(MPI_Psend_init(&mt_rank, 1, 1, MPI_INT, (mt_rank + 1) % mt_size, 5, mt_comm, MPI_INFO_NULL,
                      &r[1]));
    OK(MPI_Startall(2, r));
    before = yields;
    OK(MPI_Parrived(r[0], 0, &flag));
    CHECK_EQ(flag, 0);
    CHECK_MSG(yields != before, "no yield in MPI_Parrived");
    mt_sync();
    OK(MPI_Pready(0, r[1]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    CHECK_EQ(x, (mt_rank + mt_size - 1) % mt_size);
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(mixed_traffic);
    MT_RUN(small_ring);
    MT_RUN(collectives);
    MT_RUN(polling_gives_way);
    MT_RUN(parrived_gives_way);
    MT_RUN(idle_in_recv);
    MT_RUN(idle_in_wait);
    MT_RUN(idle_in_probe);
    MT_RUN(idle_in_barrier);
    return mt_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds of faults with a sentence of their own: locks of windows, numbers of collectives,
 * partitions. */
#include "test/unit/explain_job.h"

static void holds(struct rt_wait_note *n, int target)
{
    n->held[n->nheld].ctx = n->comm.ctx;
    n->held[n->nheld++].world = target;
}

static void lock(void)
{
    begin(3, 1);
    struct rt_wait_note *n = coll(0, "MPI_Barrier", "barrier", 4);
    n->item.nbytes = 0;
    holds(n, 0);
    for (int r = 1; r < 3; r++)
        add(r, "MPI_Win_unlock", RT_WAIT_TARGET, "hang.c:40")->item = item(RT_WAIT_TARGET, 0, 0, 0);
    CHECK_STR(explain(),
              "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
              "for rank 0 (n0, pid 1000)\n"
              "  1-2  MPI_Win_unlock for rank 0 on MPI_COMM_WORLD (3 ranks) at "
              "hang.c:40, for 31 s\n"
              "  0    MPI_Barrier #4 on MPI_COMM_WORLD (3 ranks) at hang.c:19, for 31 s\n"
              "kind: a rank waits while it holds the lock of a window: rank 0 is in "
              "MPI_Barrier #4 on MPI_COMM_WORLD at hang.c:19; rank 1 is in "
              "MPI_Win_unlock for rank 0 on MPI_COMM_WORLD at hang.c:40\n");
}

/* The target of the lock is not its holder. */
static void lock_of_another_rank(void)
{
    begin(3, 1);
    recv_from(0, 1, 3);
    add(1, "MPI_Win_lock", RT_WAIT_TARGET, "hang.c:40")->item = item(RT_WAIT_TARGET, 0, 0, 0);
    struct rt_wait_note *n = recv_from(2, 0, 3);
    holds(n, 1);
    holds(n, RT_WAIT_ANY);
    CHECK_STR(
        explain(),
        "no progress for 30 s: 2 of 3 ranks wait, directly or through others, for rank 2 "
        "(n0, pid 1002)\n"
        "  0,2  MPI_Recv from rank r+1 of each rank r tag 3, 4 B on MPI_COMM_WORLD (3 ranks) at "
        "hang.c:15, for 31 s\n"
        "  1    MPI_Win_lock for rank 0 on MPI_COMM_WORLD (3 ranks) at hang.c:40, for 31 s\n"
        "kind: a rank waits while it holds the lock of a window: rank 2 is in MPI_Recv from "
        "rank 0 tag 3 on MPI_COMM_WORLD at hang.c:15; rank 1 is in MPI_Win_lock for rank 0 on "
        "MPI_COMM_WORLD at hang.c:40\n");
}

/* A rank outside MPI may hold the lock: it is late, and the target is not accused. */
static void lock_of_a_late_rank(void)
{
    begin(3, 1);
    recv_from(0, 1, 3);
    add(1, "MPI_Win_lock", RT_WAIT_TARGET, "hang.c:40")->item = item(RT_WAIT_TARGET, 0, 0, 0);
    computes(2);
    CHECK_STR(
        explain(),
        "no progress for 30 s: 2 of 3 ranks wait, directly or through others, for rank 2 "
        "(n0, pid 1002)\n"
        "  0  MPI_Recv from rank 1 tag 3, 4 B on MPI_COMM_WORLD (3 ranks) at hang.c:15, for 31 s\n"
        "  1  MPI_Win_lock for rank 0 on MPI_COMM_WORLD (3 ranks) at hang.c:40, for 31 s\n"
        "  rank 2 (n0, pid 1002) is computing (100 % cpu) in step_chem() at chem.f90:77; its last "
        "wait was in MPI_Waitall, 33 s ago\n"
        "kind: a late rank, no deadlock is proven: look at what rank 2 does outside MPI in "
        "step_chem() at chem.f90:77\n");
}

static void lock_that_no_rank_holds(void)
{
    begin(2, 1);
    recv_from(0, 1, 3);
    add(1, "MPI_Win_lock", RT_WAIT_TARGET, "hang.c:40")->item = item(RT_WAIT_TARGET, 0, 0, 0);
    CHECK_STR(
        explain(),
        "no progress for 30 s: 1 of 2 ranks waits, directly or through others, for rank 1 (n0, "
        "pid 1001)\n"
        "  0  MPI_Recv from rank 1 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at hang.c:15, for 31 s\n"
        "  1  MPI_Win_lock for rank 0 on MPI_COMM_WORLD (2 ranks) at hang.c:40, for 31 s\n"
        "kind: unknown: the holder of the lock is not known; rank 1 is in "
        "MPI_Win_lock for rank 0 on MPI_COMM_WORLD at hang.c:40\n");
}

/* Rank 0 has made a call that the others have not made, and left it early. */
static void different_numbers(void)
{
    begin(3, 1);
    coll(0, "MPI_Barrier", "barrier", 5)->item.nbytes = 0;
    coll(1, "MPI_Barrier", "barrier", 4)->item.nbytes = 0;
    struct rt_wait_note *n = coll(2, "MPI_Barrier", "barrier", 4);
    n->item.nbytes = 0;
    CHECK_STR(explain(),
              "no progress for 30 s: 3 of 3 ranks wait\n"
              "  1-2  MPI_Barrier #4 on MPI_COMM_WORLD (3 ranks) at hang.c:19, for 31 s\n"
              "  0    MPI_Barrier #5 on MPI_COMM_WORLD (3 ranks) at hang.c:19, for 31 s\n"
              "kind: different numbers of collective calls: ranks 1-2 are in MPI_Barrier #4 on "
              "MPI_COMM_WORLD at hang.c:19; rank 0 is in MPI_Barrier #5 on MPI_COMM_WORLD at "
              "hang.c:19; rank 0 has made 1 more call on this communicator: look for the one that "
              "rank 1 has left out\n");
    for (int r = 0; r < 3; r++) /* all are new: the next picture will be another one */
        waits[r].note.since_ns = ranks[r].now_ns - SECOND / 2;
    CHECK(!strstr(explain(), "different numbers"));
}

static void part(int r, enum rt_wait_kind kind, int peer, const char *which, int n)
{
    struct rt_wait_note *note = add(r, "MPI_Wait", (int)kind, "hang.c:60");
    note->item = item((int)kind, peer, 5, 32);
    snprintf(note->what, sizeof note->what, "%s", which);
    note->number = (uint64_t)n;
    note->root = 4;
}

/* Only a thread of rank 0 can mark its partitions. */
static void partitions_not_ready(void)
{
    begin(2, 2);
    part(0, RT_WAIT_READY, 1, "1,3", 2);
    part(1, RT_WAIT_PARTS, 0, "3", 1);
    CHECK_STR(
        explain(),
        "no progress for 30 s: 2 of 2 ranks wait, directly or through others, for rank 0 (n0, "
        "pid 1000)\n"
        "  0  MPI_Wait, partitioned send to rank 1 tag 5, 32 B, partitions 1,3 of 4 not marked "
        "ready on MPI_COMM_WORLD (2 ranks) at hang.c:60, for 31 s\n"
        "  1  MPI_Wait, partitioned receive from rank 0 tag 5, 32 B, partition 3 of 4 missing on "
        "MPI_COMM_WORLD (2 ranks) at hang.c:60, for 31 s\n"
        "kind: partitions that are not marked ready: rank 0 is in MPI_Wait, partitioned send to "
        "rank 1 tag 5, partitions 1,3 of 4 not marked ready on MPI_COMM_WORLD at hang.c:60; let "
        "rank 0 call MPI_Pready for each partition, after MPI_Start and before it waits\n");
    computes(0);
    CHECK(strstr(explain(), "kind: a late rank"));
}

/* All are marked: the data move. */
static void partitions_under_way(void)
{
    begin(2, 1);
    part(0, RT_WAIT_SEND, 1, "", 0);
    part(1, RT_WAIT_PARTS, 0, "0-3", 4);
    explain();
    CHECK_EQ(verdict.kind, EXPLAIN_UNKNOWN);
}

/* The launcher has not answered the root of a spawn. */
static void start(void)
{
    begin(2, 1);
    struct rt_wait_note *n = add(0, "MPI_Comm_spawn", RT_WAIT_START, "hang.c:50");
    n->comm = (struct rt_wait_comm){ 0 };
    n->item.world = RT_WAIT_FOREIGN;
    n->number = 1;
    recv_from(1, 0, 3);
    CHECK_STR(explain(),
              "no progress for 30 s: 1 of 2 ranks waits, directly or through others, for rank 0 "
              "(n0, pid 1000)\n"
              "  0  MPI_Comm_spawn of 1 process at hang.c:50, for 31 s\n"
              "  1  MPI_Recv from rank 0 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at hang.c:15, for "
              "31 s\n"
              "kind: a wait for another job: mpirun has not started the processes yet: it waits "
              "until their hosts have answered its remote shell, or for the slots of a job that is "
              "ending; rank 0 is in MPI_Comm_spawn of 1 process at hang.c:50\n");
}

/* Messages to a late rank that find no room. */
static void queued(void)
{
    begin(3, 1);
    for (int r = 0; r < 3; r += 2) {
        struct rt_wait_note *n = add(r, "MPI_Send", RT_WAIT_SEND, "hang.c:50");
        n->item = item(RT_WAIT_SEND, 1, 3, 1000);
        n->item.queued = r ? 0 : 3072;
    }
    computes(1);
    CHECK_STR(explain(),
              "no progress for 30 s: 2 of 3 ranks wait, directly or through others, for rank 1 "
              "(n0, pid 1001)\n"
              "  2  MPI_Send to rank 1 tag 3, 1000 B on MPI_COMM_WORLD (3 ranks) at hang.c:50, for "
              "31 s\n"
              "  0  MPI_Send to rank 1 tag 3, 1000 B (queued: 3 KiB) on MPI_COMM_WORLD (3 ranks) "
              "at hang.c:50, for 31 s\n"
              "  rank 1 (n0, pid 1001) is computing (100 % cpu) in step_chem() at chem.f90:77; its "
              "last wait was in MPI_Waitall, 33 s ago\n"
              "kind: a late rank, no deadlock is proven: look at what rank 1 does outside MPI in "
              "step_chem() at chem.f90:77; messages to it are queued, because its ring or socket "
              "is full: it reads them only in MPI calls\n");
}

int main(void)
{
    RUN(lock);
    RUN(lock_of_another_rank);
    RUN(lock_of_a_late_rank);
    RUN(lock_that_no_rank_holds);
    RUN(different_numbers);
    RUN(partitions_not_ready);
    RUN(partitions_under_way);
    RUN(start);
    RUN(queued);
    return check_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job is said to wait for: jobs as their published waits would look, for each kind of fault
 * and for programs that are only late.  The texts are compared as a whole. */
#include "test/unit/explain_job.h"

#include <time.h>

static void late_rank_is_not_accused(void)
{
    begin(2, 1);
    recv_from(1, 0, 3);
    computes(0);
    CHECK_STR(explain(), "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  1  MPI_Recv from rank 0 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  rank 0 (n0, pid 1000) is computing (100 % cpu) in step_chem() at "
                         "chem.f90:77; its last wait was in MPI_Waitall, 33 s ago\n"
                         "kind: a late rank, no deadlock is proven: look at what rank 0 does "
                         "outside MPI in step_chem() at chem.f90:77\n");
}

static void tags(void)
{
    begin(3, 1);
    finalize(0);
    unexpected(recv_from(1, 0, 6), 0, 5, 4);
    finalize(2);
    CHECK_STR(explain(),
              "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
              "for rank 0 (n0, pid 1000)\n"
              "  0,2  MPI_Finalize at hang.c:50, for 31 s\n"
              "  1    MPI_Recv from rank 0 tag 6, 4 B on MPI_COMM_WORLD (3 ranks) at "
              "hang.c:15, for 31 s\n"
              "kind: a message that matches nothing: tag 5 is here, tag 6 is asked; "
              "rank 1 is in MPI_Recv from rank 0 tag 6 on MPI_COMM_WORLD at hang.c:15\n");
}

static void recvrecv(void)
{
    static const char *const want[] = {
        "no progress for 30 s: 1 of 1 rank waits, directly or through others, "
        "for itself\n"
        "  0  MPI_Recv from rank 0 tag 0, 4 B on MPI_COMM_WORLD (1 rank) at "
        "hang.c:15, for 31 s\n"
        "kind: a rank waits for itself: rank 0 is in MPI_Recv from rank 0 tag 0 "
        "on MPI_COMM_WORLD at hang.c:15\n",
        "no progress for 30 s: 3 of 3 ranks wait, directly or through others, "
        "for each other\n"
        "  0-2  MPI_Recv from rank r-1 of each rank r tag 0, 4 B on "
        "MPI_COMM_WORLD (3 ranks) at hang.c:15, for 31 s\n"
        "kind: cycle of waits: ranks 0 -> 2 -> 1 -> 0; all receive first; let "
        "one send first, or use MPI_Sendrecv\n",
        "no progress for 30 s: 17 of 17 ranks wait, directly or through others, "
        "for each other\n"
        "  0-16  MPI_Recv from rank r-1 of each rank r tag 0, 4 B on "
        "MPI_COMM_WORLD (17 ranks) at hang.c:15, for 31 s\n"
        "kind: cycle of waits: ranks 0 -> 16 -> 15 -> 14 -> 13 -> 12 -> 11 -> 10 "
        "-> ... (17 ranks) -> 0; all receive first; let one send first, or use "
        "MPI_Sendrecv\n"
    };
    for (int i = 0; i < 3; i++) {
        int n = (int[]){ 1, 3, 17 }[i];
        begin(n, 1);
        for (int r = 0; r < n; r++)
            recv_from(r, (r + n - 1) % n, 0);
        CHECK_STR(explain(), want[i]);
    }
}

/* A long message is on its way: its sender and its receiver wait for each other, and both will
 * continue.  With another tag they would not. */
static void a_long_message_is_no_cycle(void)
{
    for (int tag = 3; tag <= 4; tag++) {
        begin(2, 1);
        add(0, "MPI_Send", RT_WAIT_SEND, "hang.c:15")->item = item(RT_WAIT_SEND, 1, 3, 1 << 30);
        add(1, "MPI_Waitall", RT_WAIT_RECV, "hang.c:16")->item = item(RT_WAIT_RECV, 0, tag,
                                                                      1 << 30);
        CHECK_EQ(explain_judge(&job, &verdict), 0);
        CHECK_EQ(verdict.kind, tag == 3 ? EXPLAIN_UNKNOWN : EXPLAIN_UNMATCHED);
        explain_verdict_fini(&verdict);
    }
}

static void sendsend(void)
{
    begin(3, 1);
    for (int r = 0; r < 3; r++)
        add(r, "MPI_Send", RT_WAIT_SEND, "hang.c:18")->item = item(RT_WAIT_SEND, (r + 1) % 3, 0,
                                                                   1 << 20);
    CHECK_STR(explain(), "no progress for 30 s: 3 of 3 ranks wait, directly or through others, "
                         "for each other\n"
                         "  0-2  MPI_Send to rank r+1 of each rank r tag 0, 1 MiB on "
                         "MPI_COMM_WORLD (3 ranks) at hang.c:18, for 31 s\n"
                         "kind: cycle of waits: ranks 0 -> 1 -> 2 -> 0; all send first; let one "
                         "receive first, or use MPI_Sendrecv\n");
}

static void missing(void)
{
    begin(3, 1);
    recv_from(0, 1, 3);
    coll(1, "MPI_Allreduce", "allreduce", 4);
    coll(2, "MPI_Allreduce", "allreduce", 4);
    CHECK_STR(explain(), "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  1-2  MPI_Allreduce #4, 4 B on MPI_COMM_WORLD (3 ranks) at hang.c:19, "
                         "for 31 s\n"
                         "  0    MPI_Recv from rank 1 tag 3, 4 B on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "kind: a rank misses a collective: rank 0 is in MPI_Recv from rank 1 tag "
                         "3 on MPI_COMM_WORLD at hang.c:15; rank 1 is in MPI_Allreduce #4, 4 B on "
                         "MPI_COMM_WORLD at hang.c:19\n");
}

static void roots(void)
{
    begin(3, 1);
    for (int r = 0; r < 3; r++)
        coll(r, "MPI_Bcast", "bcast", 7)->root = r == 1;
    CHECK_STR(explain(), "no progress for 30 s: 3 of 3 ranks wait\n"
                         "  0,2  MPI_Bcast #7 root 0, 4 B on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:19, for 31 s\n"
                         "  1    MPI_Bcast #7 root 1, 4 B on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:19, for 31 s\n"
                         "kind: different roots of one collective: ranks 0,2 are in MPI_Bcast #7 "
                         "root 0, 4 B on MPI_COMM_WORLD at hang.c:19; rank 1 is in MPI_Bcast #7 "
                         "root 1, 4 B on MPI_COMM_WORLD at hang.c:19\n");
}

static void order2(void)
{
    begin(3, 1);
    for (int r = 0; r < 3; r++)
        on_comm(coll(r, r ? "MPI_Barrier" : "MPI_Allreduce", r ? "barrier" : "allreduce", 0),
                r ? 6 : 4, r ? "b" : "a");
    CHECK_STR(explain(), "no progress for 30 s: 3 of 3 ranks wait, directly or through others, "
                         "for each other\n"
                         "  1-2  MPI_Barrier #0, 4 B on \"b\" (3 ranks) at hang.c:19, for 31 s\n"
                         "  0    MPI_Allreduce #0, 4 B on \"a\" (3 ranks) at hang.c:19, for 31 s\n"
                         "kind: collectives in different orders: rank 1 is in MPI_Barrier #0, 4 B "
                         "on \"b\" at hang.c:19; rank 0 is in MPI_Allreduce #0, 4 B on \"a\" at "
                         "hang.c:19\n");
}

static void nowait(void)
{
    begin(3, 1);
    struct rt_wait_note *n = finalize(0);
    n->reqs[n->nreqs++] = item(RT_WAIT_SEND, 1, 0, 1 << 20);
    n = finalize(1);
    n->reqs[n->nreqs++] = item(RT_WAIT_RECV, 0, 1, 1 << 20);
    unexpected(n, 0, 0, 1 << 20);
    finalize(2);
    CHECK_STR(explain(), "no progress for 30 s: 1 of 3 ranks waits, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  1  MPI_Finalize, receive from rank 0 tag 1, 1 MiB at hang.c:50, for "
                         "31 s\n"
                         "  0  MPI_Finalize, send to rank 1 tag 0, 1 MiB at hang.c:50, for 31 s\n"
                         "  2  MPI_Finalize at hang.c:50, for 31 s\n"
                         "kind: a message that matches nothing: tag 0 is here, tag 1 is asked; "
                         "rank 1 is in MPI_Finalize, receive from rank 0 tag 1 at hang.c:50\n");
}

static void early(void)
{
    begin(3, 1);
    ranks[1].state = EXPLAIN_ENDED;
    coll(0, "MPI_Barrier", "barrier", 4)->item.nbytes = 0;
    coll(2, "MPI_Barrier", "barrier", 4)->item.nbytes = 0;
    CHECK_STR(explain(),
              "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
              "for rank 1 (n0, pid 1001)\n"
              "  0,2  MPI_Barrier #4 on MPI_COMM_WORLD (3 ranks) at hang.c:19, for 31 s\n"
              "  rank 1 (n0, pid 1001) has ended with exit status 0\n"
              "kind: left too early: rank 1 has ended, and rank 0 still waits for it "
              "in MPI_Barrier #4 on MPI_COMM_WORLD at hang.c:19\n");
}

static void pscw(void)
{
    begin(3, 1);
    add(0, "MPI_Win_wait", RT_WAIT_TARGET, "hang.c:43")->item = item(RT_WAIT_TARGET, 2, 0, 0);
    add(1, "MPI_Win_complete", RT_WAIT_TARGET, "hang.c:43")->item = item(RT_WAIT_TARGET, 0, 0, 0);
    coll(2, "MPI_Win_free", "barrier", 9)->item.nbytes = 0;
    CHECK_STR(explain(), "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
                         "for rank 2 (n0, pid 1002)\n"
                         "  1  MPI_Win_complete for rank 0 on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:43, for 31 s\n"
                         "  2  MPI_Win_free #9 on MPI_COMM_WORLD (3 ranks) at hang.c:19, for 31 s\n"
                         "  0  MPI_Win_wait for rank 2 on MPI_COMM_WORLD (3 ranks) at hang.c:43, "
                         "for 31 s\n"
                         "kind: groups of MPI_Win_post and MPI_Win_start that do not meet: rank 2 "
                         "is in MPI_Win_free #9 on MPI_COMM_WORLD at hang.c:19; rank 0 is in "
                         "MPI_Win_wait for rank 2 on MPI_COMM_WORLD at hang.c:43\n");
}

static void probe(void)
{
    begin(3, 1);
    finalize(0);
    add(1, "MPI_Probe", RT_WAIT_PROBE, "hang.c:44")->item = item(RT_WAIT_PROBE, 0, 9, 0);
    finalize(2);
    CHECK_STR(explain(), "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  0,2  MPI_Finalize at hang.c:50, for 31 s\n"
                         "  1    MPI_Probe from rank 0 tag 9 on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:44, for 31 s\n"
                         "kind: left too early: rank 0 has called MPI_Finalize, and rank 1 still "
                         "waits for it in MPI_Probe from rank 0 tag 9 on MPI_COMM_WORLD at "
                         "hang.c:44\n");
}

static void file(void)
{
    begin(3, 1);
    for (int r = 0; r < 3; r++)
        on_comm(coll(r, r == 1 ? "MPI_File_close" : "MPI_File_write_at_all", "allgather", 2), 8,
                "");
    CHECK_STR(explain(), "no progress for 30 s: 3 of 3 ranks wait\n"
                         "  0,2  MPI_File_write_at_all #2, 4 B on communicator 8 (3 ranks) at "
                         "hang.c:19, for 31 s\n"
                         "  1    MPI_File_close #2, 4 B on communicator 8 (3 ranks) at hang.c:19, "
                         "for 31 s\n"
                         "kind: different calls of one collective: ranks 0,2 are in "
                         "MPI_File_write_at_all #2, 4 B on communicator 8 at hang.c:19; rank 1 is "
                         "in MPI_File_close #2, 4 B on communicator 8 at hang.c:19\n");
}

static void thread(void)
{
    begin(3, 2);
    for (int r = 0; r < 3; r++) {
        recv_from(r, (r + 1) % 3, 100);
        recv_from(r, (r + 1) % 3, 101);
        ranks[r].state = EXPLAIN_BLOCKED;
        ranks[r].detail = "futex";
    }
    CHECK_STR(explain(), "no progress for 30 s: 3 of 3 ranks wait, directly or through others, "
                         "for each other\n"
                         "  0-2  MPI_Recv from rank r+1 of each rank r tag 100, 4 B on "
                         "MPI_COMM_WORLD (3 ranks) at hang.c:15, for 31 s\n"
                         "  0-2  MPI_Recv from rank r+1 of each rank r tag 101, 4 B on "
                         "MPI_COMM_WORLD (3 ranks) at hang.c:15, for 31 s\n"
                         "kind: cycle of waits: ranks 0 -> 1 -> 2 -> 0; all receive first; let "
                         "one send first, or use MPI_Sendrecv\n");
}

static void spin(void)
{
    begin(3, 1);
    finalize(0);
    add(1, "MPI_Iprobe", RT_WAIT_PROBE, "hang.c:49")->item = item(RT_WAIT_PROBE, 0, 9, 0);
    finalize(2);
    CHECK_STR(explain(), "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  0,2  MPI_Finalize at hang.c:50, for 31 s\n"
                         "  1    MPI_Iprobe from rank 0 tag 9 on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:49, for 31 s\n"
                         "kind: left too early: rank 0 has called MPI_Finalize, and rank 1 still "
                         "waits for it in MPI_Iprobe from rank 0 tag 9 on MPI_COMM_WORLD at "
                         "hang.c:49\n");
    begin(3, 1); /* the poll is not published */
    finalize(0);
    computes(1);
    finalize(2);
    CHECK_STR(explain(), "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
                         "for rank 1 (n0, pid 1001)\n"
                         "  0,2  MPI_Finalize at hang.c:50, for 31 s\n"
                         "  rank 1 (n0, pid 1001) is computing (100 % cpu) in step_chem() at "
                         "chem.f90:77; its last wait was in MPI_Waitall, 33 s ago\n"
                         "kind: a late rank, no deadlock is proven: look at what rank 1 does "
                         "outside MPI in step_chem() at chem.f90:77\n");
}

/* 4 095 ranks in an allreduce of their row of 64, of which one computes; the other rows follow. */
static void rows_of_4096(void)
{
    begin(4096, 1);
    for (int r = 0; r < 4096; r++) {
        if (r == 17) {
            computes(r);
            continue;
        }
        if (r % 64 == 17) {
            recv_from(r, r - 64, 9);
            continue;
        }
        struct rt_wait_note *n = coll(r, "MPI_Allreduce", "allreduce", 88213);
        on_comm(n, 4, "grid rows");
        n->comm.size = n->comm.runs[0].count = 64;
        n->comm.runs[0].first = r / 64 * 64;
    }
    CHECK_STR(explain(), "no progress for 30 s: 4095 of 4096 ranks wait, directly or through "
                         "others, for rank 17 (n0, pid 1017)\n"
                         "  0-16,18-80,82-144,146-208,... (4032)  MPI_Allreduce #88213, 4 B on "
                         "\"grid rows\" (64 ranks) at hang.c:19, for 31 s\n"
                         "  81,145,209,273,337,401,... (63)       MPI_Recv from rank r-64 of each "
                         "rank r tag 9, 4 B on MPI_COMM_WORLD (4096 ranks) at hang.c:15, for 31 s\n"
                         "  rank 17 (n0, pid 1017) is computing (100 % cpu) in step_chem() at "
                         "chem.f90:77; its last wait was in MPI_Waitall, 33 s ago\n"
                         "kind: a late rank, no deadlock is proven: look at what rank 17 does "
                         "outside MPI in step_chem() at chem.f90:77\n");
}

static void ring_of_4096(void)
{
    begin(4096, 1);
    for (int r = 0; r < 4096; r++)
        recv_from(r, (r + 4095) % 4096, 0);
    CHECK_STR(explain(), "no progress for 30 s: 4096 of 4096 ranks wait, directly or through "
                         "others, for each other\n"
                         "  0-4095  MPI_Recv from rank r-1 of each rank r tag 0, 4 B on "
                         "MPI_COMM_WORLD (4096 ranks) at hang.c:15, for 31 s\n"
                         "kind: cycle of waits: ranks 0 -> 4095 -> 4094 -> 4093 -> 4092 -> 4091 "
                         "-> 4090 -> 4089 -> ... (4096 ranks) -> 0; all receive first; let one "
                         "send first, or use MPI_Sendrecv\n");
}

static void many_ranks_take_linear_time(void)
{
    enum { N = 100000 };
    begin(N, 1);
    for (int r = 0; r < N; r++)
        coll(r, "MPI_Allreduce", "allreduce", (uint64_t)(r % 1000));
    ranks[17].nwaits = 0;
    recv_from(17, 18, 3);
    clock_t began = clock();
    CHECK_STR(explain(), "no progress for 30 s: 99999 of 100000 ranks wait, directly or through "
                         "others, for rank 17 (n0, pid 1017)\n"
                         "  0,1000,2000,3000,4000,... (100)  MPI_Allreduce #0, 4 B on "
                         "MPI_COMM_WORLD (100000 ranks) at hang.c:19, for 31 s\n"
                         "  1,1001,2001,3001,4001,... (100)  MPI_Allreduce #1, 4 B on "
                         "MPI_COMM_WORLD (100000 ranks) at hang.c:19, for 31 s\n"
                         "  2,1002,2002,3002,4002,... (100)  MPI_Allreduce #2, 4 B on "
                         "MPI_COMM_WORLD (100000 ranks) at hang.c:19, for 31 s\n"
                         "  3,1003,2003,3003,4003,... (100)  MPI_Allreduce #3, 4 B on "
                         "MPI_COMM_WORLD (100000 ranks) at hang.c:19, for 31 s\n"
                         "  4,1004,2004,3004,4004,... (100)  MPI_Allreduce #4, 4 B on "
                         "MPI_COMM_WORLD (100000 ranks) at hang.c:19, for 31 s\n"
                         "  and 99500 waits of 996 other kinds\n"
                         "kind: a rank misses a collective: rank 17 is in MPI_Recv from rank 18 "
                         "tag 3 on MPI_COMM_WORLD at hang.c:15; rank 18 is in MPI_Allreduce #18, "
                         "4 B on MPI_COMM_WORLD at hang.c:19\n");
    double s = (double)(clock() - began) / CLOCKS_PER_SEC;
    printf("# %d ranks: %.3f s\n", N, s);
    /* Of processor time, 0.2 s; a sanitizer takes five times as long. */
    CHECK_MSG(s < 5, "%.3f s", s);
    begin(1, 1);
}

/* Waits that differ have a line each. */
static void text_is_short(void)
{
    begin(64, 1);
    for (int r = 0; r < 64; r++)
        recv_from(r, (r + 1) % 64, r);
    CHECK_STR(explain(), "no progress for 30 s: 64 of 64 ranks wait, directly or through others, "
                         "for each other\n"
                         "  0  MPI_Recv from rank 1 tag 0, 4 B on MPI_COMM_WORLD (64 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  1  MPI_Recv from rank 2 tag 1, 4 B on MPI_COMM_WORLD (64 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  2  MPI_Recv from rank 3 tag 2, 4 B on MPI_COMM_WORLD (64 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  3  MPI_Recv from rank 4 tag 3, 4 B on MPI_COMM_WORLD (64 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  4  MPI_Recv from rank 5 tag 4, 4 B on MPI_COMM_WORLD (64 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  and 59 waits of 59 other kinds\n"
                         "kind: cycle of waits: ranks 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> ... "
                         "(64 ranks) -> 0; all receive first; let one send first, or use "
                         "MPI_Sendrecv\n");
}

static void stopped_sleeping_blocked_unreadable(void)
{
    static const enum explain_state states[] = { EXPLAIN_STOPPED, EXPLAIN_SLEEPING, EXPLAIN_BLOCKED,
                                                 EXPLAIN_UNREADABLE };
    static const char *const want[] = {
        "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
        "for rank 0 (n0, pid 1000)\n"
        "  1  MPI_Recv from rank 0 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at "
        "hang.c:15, for 31 s\n"
        "  rank 0 (n0, pid 1000) is stopped by SIGSTOP\n"
        "kind: a stopped process: continue it with kill -CONT 1000 on n0\n",
        "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
        "for rank 0 (n0, pid 1000)\n"
        "  1  MPI_Recv from rank 0 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at "
        "hang.c:15, for 31 s\n"
        "  rank 0 (n0, pid 1000) is sleeping\n"
        "kind: a late rank, no deadlock is proven: look at what rank 0 does "
        "outside MPI\n",
        "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
        "for rank 0 (n0, pid 1000)\n"
        "  1  MPI_Recv from rank 0 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at "
        "hang.c:15, for 31 s\n"
        "  rank 0 (n0, pid 1000) is blocked in the system call read\n"
        "kind: a late rank, no deadlock is proven: look at what rank 0 does "
        "outside MPI\n",
        "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
        "for rank 0 (n0, pid 1000)\n"
        "  1  MPI_Recv from rank 0 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at "
        "hang.c:15, for 31 s\n"
        "  rank 0 (n0, pid 1000) could not be read: permission denied\n"
        "kind: unknown: too little is known of the ranks that the others wait for\n"
    };
    for (int i = 0; i < 4; i++) {
        begin(2, 1);
        recv_from(1, 0, 3);
        ranks[0].state = states[i];
        ranks[0].detail = i == 3 ? "permission denied" : "read";
        CHECK_STR(explain(), want[i]);
    }
}

/* A rank of another host, which is not in the picture. */
static void unknown_rank(void)
{
    begin(2, 1);
    recv_from(0, 1, 3);
    job.nranks = 1;
    CHECK_STR(explain(),
              "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
              "for rank 1\n"
              "  0  MPI_Recv from rank 1 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at "
              "hang.c:15, for 31 s\n"
              "kind: unknown: too little is known of the ranks that the others wait for\n");
}

static void ended_by_a_signal(void)
{
    begin(2, 1);
    ranks[0].state = EXPLAIN_ENDED;
    ranks[0].status = 9;
    recv_from(1, 0, 3);
    CHECK_STR(explain(), "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  1  MPI_Recv from rank 0 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  rank 0 (n0, pid 1000) was ended by signal 9\n"
                         "kind: left too early: rank 0 has ended, and rank 1 still waits for it "
                         "in MPI_Recv from rank 0 tag 3 on MPI_COMM_WORLD at hang.c:15\n");
}

/* Root 0 has left the broadcast, and waits for rank 3, which waits for rank 2: this one is late. */
static void left_broadcast_is_no_fault(void)
{
    begin(4, 1);
    recv_from(0, 3, 1);
    coll(1, "MPI_Bcast", "bcast", 5)->root = 0;
    computes(2);
    coll(3, "MPI_Bcast", "bcast", 5)->root = 0;
    CHECK_STR(explain(), "no progress for 30 s: 3 of 4 ranks wait, directly or through others, "
                         "for rank 2 (n0, pid 1002)\n"
                         "  1,3  MPI_Bcast #5 root 0, 4 B on MPI_COMM_WORLD (4 ranks) at "
                         "hang.c:19, for 31 s\n"
                         "  0    MPI_Recv from rank 3 tag 1, 4 B on MPI_COMM_WORLD (4 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  rank 2 (n0, pid 1002) is computing (100 % cpu) in step_chem() at "
                         "chem.f90:77; its last wait was in MPI_Waitall, 33 s ago\n"
                         "kind: a late rank, no deadlock is proven: look at what rank 2 does "
                         "outside MPI in step_chem() at chem.f90:77\n");
}

/* Leaves have left a reduce and are in MPI_Finalize: the fault is that of rank 3. */
static void left_reduce_is_no_fault(void)
{
    begin(4, 1);
    coll(0, "MPI_Reduce", "reduce", 5)->root = 0;
    finalize(1);
    finalize(2);
    recv_from(3, 0, 1);
    CHECK_STR(explain(), "no progress for 30 s: 3 of 4 ranks wait, directly or through others, "
                         "for rank 3 (n0, pid 1003)\n"
                         "  1-2  MPI_Finalize at hang.c:50, for 31 s\n"
                         "  3    MPI_Recv from rank 0 tag 1, 4 B on MPI_COMM_WORLD (4 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  0    MPI_Reduce #5 root 0, 4 B on MPI_COMM_WORLD (4 ranks) at "
                         "hang.c:19, for 31 s\n"
                         "kind: a rank misses a collective: rank 3 is in MPI_Recv from rank 0 tag "
                         "1 on MPI_COMM_WORLD at hang.c:15; rank 0 is in MPI_Reduce #5 root 0, 4 "
                         "B on MPI_COMM_WORLD at hang.c:19\n");
}

/* Ranks 0 and 1, 2 and 3 have communicators with the same context, as MPI_Comm_split() makes them.
 */
static void disjoint_communicators_are_not_compared(void)
{
    begin(5, 1);
    for (int r = 0; r < 4; r++) {
        struct rt_wait_note *n = coll(r, r < 2 ? "MPI_Barrier" : "MPI_Allreduce",
                                      r < 2 ? "barrier" : "allreduce", 5);
        on_comm(n, 4, "");
        n->comm.size = n->comm.runs[0].count = 2;
        n->comm.runs[0].first = r / 2 * 2;
    }
    CHECK_STR(explain(), "no progress for 30 s: 4 of 5 ranks wait\n"
                         "  2-3  MPI_Allreduce #5, 4 B on communicator 4 (2 ranks) at hang.c:19, "
                         "for 31 s\n"
                         "  0-1  MPI_Barrier #5, 4 B on communicator 4 (2 ranks) at hang.c:19, "
                         "for 31 s\n"
                         "kind: unknown: all ranks of the communicator are in the same "
                         "collective; rank 0 is in MPI_Barrier #5, 4 B on communicator 4 at "
                         "hang.c:19\n");
}

static void wrong_communicator_and_source(void)
{
    begin(3, 1);
    finalize(0);
    struct rt_wait_note *n = recv_from(1, 0, 6);
    unexpected(n, 0, 6, 4);
    n->unex[0].ctx = 4;
    finalize(2);
    CHECK_STR(explain(), "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  0,2  MPI_Finalize at hang.c:50, for 31 s\n"
                         "  1    MPI_Recv from rank 0 tag 6, 4 B on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "kind: a message that matches nothing: communicator 4 is here, "
                         "communicator 2 is asked; rank 1 is in MPI_Recv from rank 0 tag 6 on "
                         "MPI_COMM_WORLD at hang.c:15\n");
    n->unex[0] = item(RT_WAIT_SEND, 2, 6, 4);
    CHECK_STR(explain(), "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  0,2  MPI_Finalize at hang.c:50, for 31 s\n"
                         "  1    MPI_Recv from rank 0 tag 6, 4 B on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "kind: a message that matches nothing: source 2 is here, source 0 is "
                         "asked; rank 1 is in MPI_Recv from rank 0 tag 6 on MPI_COMM_WORLD at "
                         "hang.c:15\n");
}

static void sizes(void)
{
    begin(3, 1);
    for (int r = 0; r < 3; r++)
        coll(r, "MPI_Allreduce", "allreduce", 7)->item.nbytes = r == 2 ? 16 : 8;
    CHECK_STR(explain(), "no progress for 30 s: 3 of 3 ranks wait\n"
                         "  0-1  MPI_Allreduce #7, 8 B on MPI_COMM_WORLD (3 ranks) at hang.c:19, "
                         "for 31 s\n"
                         "  2    MPI_Allreduce #7, 16 B on MPI_COMM_WORLD (3 ranks) at hang.c:19, "
                         "for 31 s\n"
                         "kind: different sizes of one collective: ranks 0-1 are in MPI_Allreduce "
                         "#7, 8 B on MPI_COMM_WORLD at hang.c:19; rank 2 is in MPI_Allreduce #7, "
                         "16 B on MPI_COMM_WORLD at hang.c:19\n");
}

static void send_blocks_with_another_tag(void)
{
    begin(2, 1);
    add(0, "MPI_Send", RT_WAIT_SEND, "a.c:1")->item = item(RT_WAIT_SEND, 1, 8, 1 << 20);
    recv_from(1, 0, 9);
    CHECK_STR(explain(), "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  1  MPI_Recv from rank 0 tag 9, 4 B on MPI_COMM_WORLD (2 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "  0  MPI_Send to rank 1 tag 8, 1 MiB on MPI_COMM_WORLD (2 ranks) at "
                         "a.c:1, for 31 s\n"
                         "kind: a message that matches nothing: tag 8 is here, tag 9 is asked; "
                         "rank 1 is in MPI_Recv from rank 0 tag 9 on MPI_COMM_WORLD at hang.c:15; "
                         "rank 0 is in MPI_Send to rank 1 tag 8 on MPI_COMM_WORLD at a.c:1\n");
}

static void any_source_without_a_sender(void)
{
    begin(3, 1);
    for (int r = 0; r < 3; r++) {
        struct rt_wait_note *n = recv_from(r, 0, -2);
        n->item.world = RT_WAIT_ANY;
        n->item.peer = -1;
    }
    CHECK_STR(explain(), "no progress for 30 s: 3 of 3 ranks wait, directly or through others, "
                         "for each other\n"
                         "  0-2  MPI_Recv from any rank any tag, 4 B on MPI_COMM_WORLD (3 ranks) "
                         "at hang.c:15, for 31 s\n"
                         "kind: no sender is left: ranks 0-2 wait for messages of any of them, "
                         "and none sends; rank 0 is in MPI_Recv from any rank any tag on "
                         "MPI_COMM_WORLD at hang.c:15\n");
    begin(3, 1);
    finalize(0);
    recv_from(1, 0, 4)->item.world = RT_WAIT_ANY;
    finalize(2);
    CHECK_STR(explain(), "no progress for 30 s: 1 of 3 ranks waits, directly or through others, "
                         "for ranks 0,2\n"
                         "  0,2  MPI_Finalize at hang.c:50, for 31 s\n"
                         "  1    MPI_Recv from any rank tag 4, 4 B on MPI_COMM_WORLD (3 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "kind: left too early: ranks 0,2 have called MPI_Finalize, and rank 1 "
                         "still waits for them in MPI_Recv from any rank tag 4 on MPI_COMM_WORLD "
                         "at hang.c:15\n");
}

/* A Waitany ends with rank 2, which computes; a Waitall needs rank 1 as well. */
static void requests(void)
{
    static const char *const want[] = {
        "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
        "for rank 2 (n0, pid 1002)\n"
        "  1  MPI_Recv from rank 0 tag 2, 4 B on MPI_COMM_WORLD (3 ranks) at "
        "hang.c:15, for 31 s\n"
        "  0  MPI_Waitany, first request: receive from rank 1 tag 1, 8 B on "
        "MPI_COMM_WORLD (3 ranks) at w.c:5, for 31 s\n"
        "  rank 2 (n0, pid 1002) is computing (100 % cpu) in step_chem() at "
        "chem.f90:77; its last wait was in MPI_Waitall, 33 s ago\n"
        "kind: a late rank, no deadlock is proven: look at what rank 2 does "
        "outside MPI in step_chem() at chem.f90:77\n",
        "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
        "for each other\n"
        "  1  MPI_Recv from rank 0 tag 2, 4 B on MPI_COMM_WORLD (3 ranks) at "
        "hang.c:15, for 31 s\n"
        "  0  MPI_Waitall, first request: receive from rank 1 tag 1, 8 B on "
        "MPI_COMM_WORLD (3 ranks) at w.c:5, for 31 s\n"
        "kind: cycle of waits: ranks 0 -> 1 -> 0; all receive first; let one "
        "send first, or use MPI_Sendrecv\n"
    };
    for (int all = 0; all < 2; all++) {
        begin(3, 1);
        struct rt_wait_note *n = add(0, all ? "MPI_Waitall" : "MPI_Waitany", RT_WAIT_REQS, "w.c:5");
        n->reqs[n->nreqs++] = item(RT_WAIT_RECV, 1, 1, 8);
        n->reqs[n->nreqs++] = item(RT_WAIT_RECV, 2, 1, 8);
        recv_from(1, 0, 2);
        computes(2);
        CHECK_STR(explain(), want[all]);
    }
}

static void all_in_one_collective(void)
{
    begin(3, 1);
    for (int r = 0; r < 3; r++)
        coll(r, "MPI_Allreduce", "allreduce", 7);
    CHECK_STR(explain(), "no progress for 30 s: 3 of 3 ranks wait\n"
                         "  0-2  MPI_Allreduce #7, 4 B on MPI_COMM_WORLD (3 ranks) at hang.c:19, "
                         "for 31 s\n"
                         "kind: unknown: all ranks of the communicator are in the same "
                         "collective; rank 0 is in MPI_Allreduce #7, 4 B on MPI_COMM_WORLD at "
                         "hang.c:19\n");
}

static void other_waits(void)
{
    begin(2, 1);
    add(0, "MPI_Comm_accept", RT_WAIT_OTHER, "s.c:8")->comm.ctx = 0;
    recv_from(1, 0, 1);
    CHECK_STR(explain(), "no progress for 30 s: 1 of 2 ranks waits, directly or through others, "
                         "for rank 0 (n0, pid 1000)\n"
                         "  0  MPI_Comm_accept at s.c:8, for 31 s\n"
                         "  1  MPI_Recv from rank 0 tag 1, 4 B on MPI_COMM_WORLD (2 ranks) at "
                         "hang.c:15, for 31 s\n"
                         "kind: unknown, no deadlock is proven: the wait is for no rank of this "
                         "job; rank 0 is in MPI_Comm_accept at s.c:8\n");
}

static void no_rank_waits(void)
{
    begin(1, 1);
    computes(0);
    job.seconds = -1;
    CHECK_STR(explain(), "0 of 1 rank wait\n"
                         "kind: no deadlock: no rank waits for another one\n");
}

/* A thread without a note might wait for rank 2, which computes. */
static void hidden_wait_is_no_proof(void)
{
    static const char *const want[] = {
        "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
        "for each other\n"
        "  0-1  MPI_Recv from different ranks tag 1, 4 B on MPI_COMM_WORLD (3 "
        "ranks) at hang.c:15, for 31 s\n"
        "kind: cycle of waits: ranks 0 -> 1 -> 0; all receive first; let one "
        "send first, or use MPI_Sendrecv\n",
        "no progress for 30 s: 2 of 3 ranks wait, directly or through others, "
        "for rank 2 (n0, pid 1002)\n"
        "  0-1  MPI_Recv from different ranks tag 1, 4 B on MPI_COMM_WORLD (3 "
        "ranks) at hang.c:15, for 31 s\n"
        "  rank 2 (n0, pid 1002) is computing (100 % cpu) in step_chem() at "
        "chem.f90:77; its last wait was in MPI_Waitall, 33 s ago\n"
        "kind: a late rank, no deadlock is proven: look at what rank 2 does "
        "outside MPI in step_chem() at chem.f90:77\n"
    };
    for (int hidden = 0; hidden < 2; hidden++) {
        begin(3, 1);
        recv_from(0, 1, 1);
        recv_from(1, 0, 1);
        computes(2);
        ranks[0].nhidden = (uint32_t)hidden;
        CHECK_STR(explain(), want[hidden]);
    }
}

/* A thread waits for messages all the time, and the main thread computes. */
static void helper_thread_is_no_deadlock(void)
{
    begin(2, 1);
    for (int r = 0; r < 2; r++) {
        recv_from(r, !r, 1);
        computes(r);
    }
    CHECK_STR(explain(), "no progress for 30 s: 0 of 2 ranks wait\n"
                         "  0-1  MPI_Recv from rank r+1 of each rank r tag 1, 4 B on "
                         "MPI_COMM_WORLD (2 ranks) at hang.c:15, for 31 s\n"
                         "kind: a late rank, no deadlock is proven: look at what rank 0 does "
                         "outside MPI in step_chem() at chem.f90:77\n");
}

static void json_has_every_wait(void)
{
    begin(2, 1);
    finalize(0);
    unexpected(recv_from(1, 0, 6), 0, 5, 4);
    ranks[1].host = "a\"b";
    CHECK_EQ(explain_judge(&job, &verdict), 0);
    FILE *f = fmemopen(text, sizeof text, "w");
    explain_json(&job, &verdict, f);
    fclose(f);
    explain_verdict_fini(&verdict);
    CHECK_STR(text, "{\"seconds_without_progress\": 30, \"nranks\": 2, \"kind\": "
                    "\"unmatched\", \"nwaiting\": 1, \"waited_for\": [0],\n"
                    "\"ranks\": [\n"
                    "{\"rank\": 0, \"pid\": 1000, \"cpu\": -1.00, \"status\": 0, \"host\": "
                    "\"n0\", \"state\": \"in MPI\", \"detail\": \"\", \"place\": \"\", "
                    "\"function\": \"\", \"last_call\": \"\", \"last_call_seconds\": 0.000, "
                    "\"use\": 1, \"hidden_waits\": 0, \"waits\": [{\"call\": "
                    "\"MPI_Finalize\", \"place\": \"hang.c:50\", \"function\": \"main\", "
                    "\"seconds\": 31.000, \"communicator\": \"\", \"communicator_context\": "
                    "0, \"communicator_size\": 0, \"kind\": \"finalize\", \"context\": 2, "
                    "\"peer\": -9, \"rank\": -3, \"tag\": 0, \"bytes\": 0, "
                    "\"queued_bytes\": 0, \"nrequests\": 0, "
                    "\"nunexpected\": 0, \"requests\": [], \"unexpected\": []}]},\n"
                    "{\"rank\": 1, \"pid\": 1001, \"cpu\": -1.00, \"status\": 0, \"host\": "
                    "\"a\\\"b\", \"state\": \"in MPI\", \"detail\": \"\", \"place\": \"\", "
                    "\"function\": \"\", \"last_call\": \"\", \"last_call_seconds\": 0.000, "
                    "\"use\": 1, \"hidden_waits\": 0, \"waits\": [{\"call\": \"MPI_Recv\", "
                    "\"place\": \"hang.c:15\", \"function\": \"main\", \"seconds\": 31.000, "
                    "\"communicator\": \"MPI_COMM_WORLD\", \"communicator_context\": 2, "
                    "\"communicator_size\": 2, \"kind\": \"receive\", \"context\": 2, "
                    "\"peer\": 0, \"rank\": 0, \"tag\": 6, \"bytes\": 4, "
                    "\"queued_bytes\": 0, \"nrequests\": 0, "
                    "\"nunexpected\": 1, \"requests\": [], \"unexpected\": [{\"kind\": "
                    "\"send\", \"context\": 2, \"peer\": 0, \"rank\": 0, \"tag\": 5, "
                    "\"bytes\": 4, \"queued_bytes\": 0}]}]}\n"
                    "]}\n");
}

int main(void)
{
    RUN(late_rank_is_not_accused);
    RUN(tags);
    RUN(recvrecv);
    RUN(a_long_message_is_no_cycle);
    RUN(sendsend);
    RUN(missing);
    RUN(roots);
    RUN(order2);
    RUN(nowait);
    RUN(early);
    RUN(pscw);
    RUN(probe);
    RUN(file);
    RUN(thread);
    RUN(spin);
    RUN(rows_of_4096);
    RUN(ring_of_4096);
    RUN(many_ranks_take_linear_time);
    RUN(text_is_short);
    RUN(stopped_sleeping_blocked_unreadable);
    RUN(unknown_rank);
    RUN(ended_by_a_signal);
    RUN(left_broadcast_is_no_fault);
    RUN(left_reduce_is_no_fault);
    RUN(disjoint_communicators_are_not_compared);
    RUN(wrong_communicator_and_source);
    RUN(sizes);
    RUN(send_blocks_with_another_tag);
    RUN(any_source_without_a_sender);
    RUN(requests);
    RUN(all_in_one_collective);
    RUN(other_waits);
    RUN(no_rank_waits);
    RUN(hidden_wait_is_no_proof);
    RUN(helper_thread_is_no_deadlock);
    RUN(json_has_every_wait);
    return check_end();
}

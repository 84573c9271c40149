/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of small collectives over several hosts: those between the hosts' representatives, and
 * none among the ranks of a host.  Counted by the performance variable p2p_sent_eager. */
#include "test/mpi/mpitest.h"

#define CALLS 10
#define MAX_RANKS 64

static MPI_T_pvar_session session;
static MPI_T_pvar_handle sent;

static void open_counter(void)
{
    int provided, index = -1, n;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("p2p_sent_eager", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &sent, &n));
    OK(MPI_T_pvar_start(session, sent));
}

static void close_counter(void)
{
    OK(MPI_T_pvar_handle_free(session, &sent));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
}

static int count_hosts(void)
{
    MPI_Comm here;
    int rank, first, n = 0;
    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
    OK(MPI_Comm_rank(here, &rank));
    first = rank == 0;
    OK(MPI_Allreduce(&first, &n, 1, MPI_INT, MPI_SUM, mt_comm));
    OK(MPI_Comm_free(&here));
    return n;
}

static void call(int kind)
{
    static int64_t from[MAX_RANKS], to[MAX_RANKS];
    switch (kind) {
    case 0:
        OK(MPI_Barrier(mt_comm));
        return;
    case 1:
        OK(MPI_Bcast(to, 1, MPI_INT64_T, 0, mt_comm));
        return;
    case 2:
        OK(MPI_Allreduce(from, to, 1, MPI_INT64_T, MPI_SUM, mt_comm));
        return;
    case 3:
        OK(MPI_Allgather(from, 1, MPI_INT64_T, to, 1, MPI_INT64_T, mt_comm));
        return;
    case 4:
        OK(MPI_Alltoall(from, 1, MPI_INT64_T, to, 1, MPI_INT64_T, mt_comm));
        return;
    case 5:
        OK(MPI_Gather(from, 1, MPI_INT64_T, to, 1, MPI_INT64_T, 0, mt_comm));
        return;
    default:
        OK(MPI_Reduce(from, to, 1, MPI_INT64_T, MPI_SUM, 0, mt_comm));
        return;
    }
}

/* All to all among the hosts, or from or to one of them. */
static void messages(void)
{
    int nhosts = count_hosts();
    if (nhosts > 1 && nhosts == mt_size) {
        mt_skip("each rank is on a host of its own");
        return;
    }
    if (nhosts > 8 || mt_size > MAX_RANKS) {
        mt_skip("more than 8 hosts do not send to each other directly");
        return;
    }
    open_counter();
    for (int kind = 0; kind <= 6; kind++) {
        bool all = kind == 0 || (kind >= 2 && kind <= 4);
        unsigned long long before = 0, after = 0, mine, sum = 0;
        call(kind); /* finds out where the ranks are */
        OK(MPI_T_pvar_read(session, sent, &before));
        for (int i = 0; i < CALLS; i++)
            call(kind);
        OK(MPI_T_pvar_read(session, sent, &after));
        mine = after - before;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, mt_comm));
        unsigned long long want = CALLS * (unsigned long long)(all ? nhosts : 1) *
                                  (unsigned long long)(nhosts - 1);
        CHECK_MSG(sum == want,
                  "collective %d on %d hosts: %llu messages for %d calls, expected %llu", kind,
                  nhosts, sum, CALLS, want);
    }
    close_counter();
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(messages);
    return mt_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Random collectives on streams, on buffers of all kinds of memory, against results that each rank
 * computes alone (collcall.h): several calls at once, on communicators with streams of their own,
 * short ones and long ones mixed; and graphs that are launched several times.
 *     stream_random [seed=N] [calls=N] [max=BYTES] [threads]
 * threads: with MPI_THREAD_MULTIPLE, where the hosts agree on the order of calls.  The first wrong
 * byte ends the program with a message that names the call. */
#include <signal.h>
#include <unistd.h>
#include "test/gpu/collcall.h"
#include "test/mpi/mpitest.h"

enum { COMMS = 4, BATCH = 6, LAUNCHES = 3, SLOT = 1 << 20 };

static unsigned seed = 1, ncalls = 80, max_bytes = 1500000, ncall;
static struct cc_comm comms[COMMS];
static cu_stream streams[COMMS];
static struct cc_call batch[BATCH];
static int nbatch;
static char now[600];

/* ---- choosing a call ---- */

/* Lengths in bytes around those at which something changes: groups, blocks, the limit of short
 * calls. */
static int length(int unit, int ranks, bool is_short)
{
    int limit = SLOT / (ranks > 1 ? ranks - 1 : 1), n;
    if (is_short)
        return (int)cc_alike(cc_alike(2) ? 9 : 1500);
    switch (cc_alike(8)) {
    case 0:
        n = 0;
        break;
    case 1:
        n = unit;
        break;
    case 2:
    case 3:
        n = (int)cc_alike(60) * unit;
        break;
    case 4:
        n = limit + ((int)cc_alike(3) - 1) * unit;
        break;
    case 5:
        n = limit - limit % 16 + ((int)cc_alike(3) - 1) * 16;
        break;
    default:
        n = (int)cc_alike(9000) * unit;
    }
    return (n > (int)max_bytes ? (int)max_bytes : n) / unit;
}

static void kinds(struct cc_call *c, bool plain)
{
    static const enum gt_kind usual[] = { GT_CUDA, GT_VMM, GT_POOL, GT_POOL_OWN, GT_VMM_PARTS };
    c->skind = usual[cc_own(5)];
    c->rkind = usual[cc_own(5)];
    c->sdev = c->rdev = mt_rank % gt_ndevices();
    if (plain || cc_alike(3))
        return;
    c->skind = (enum gt_kind)cc_own(GT_ALL_KINDS);
    c->rkind = (enum gt_kind)cc_own(GT_ALL_KINDS);
    if (!cc_own(4))
        c->rdev = (int)cc_own((uint32_t)gt_ndevices());
}

/* Whether one kernel does it, whatever its buffers, if it is not too long. */
static bool can_be_short(const struct cc_call *c)
{
    return !cc_reduces(c->kind) || (c->rt->rep != CR_LDBL && c->op < CR_COMPOSE);
}

/* plain: a short call that may be captured and repeated.  False: this rank is not in its
 * communicator. */
static bool draw(struct cc_call *c, int comm, bool plain)
{
    *c = (struct cc_call){ .form = CC_ENQUEUED, .id = ncall++, .comm = &comms[comm] };
    do {
        c->kind = cc_alike(3) ? (enum cc_kind)cc_alike(CC_KINDS) : CC_ALLREDUCE;
        c->op = cc_alike(3) ? (enum cr_code)cc_alike(CR_CODES) : CR_SUM;
        c->rt = &cr_types[cc_alike((uint32_t)cr_ntypes)];
    } while (!cc_is_enqueued(c->kind) || !cr_allowed(c->rt, c->op) || (plain && !can_be_short(c)));
    c->key = cr_mix(seed, c->id);
    c->root = (int)cc_alike(27720);
    c->in_place = cc_alike(3) == 0;
    c->unit = (int)cc_alike(5);
    c->derived = !plain && cc_alike(4) == 0;
    c->n = length(cc_reduces(c->kind) ? c->rt->extent : 1 << c->unit, mt_size, plain);
    if (!cc_reduces(c->kind))
        c->n &= ~1;
    kinds(c, plain);
    if (!c->comm->n)
        return false;
    c->root %= c->comm->n;
    c->in_place = c->in_place && !plain && cc_may_be_in_place(c);
    if (c->in_place && cc_in_place_is_own(c))
        c->in_place = cc_own(4) > 0;
    return true;
}

/* ---- carrying calls out ---- */

static void stop(const struct cc_call *c, const char *what)
{
    cc_describe(c, now, sizeof now);
    printf("1..1\nnot ok 1 - rank %d, seed %u, %s: %s\n", mt_rank, seed, what, now);
    fflush(stdout);
    _exit(1);
}

static void post(struct cc_call *c)
{
    cc_describe(c, now, sizeof now);
    int err = cc_post(c);
    if (err) {
        printf("# error %d\n", err);
        stop(c, "the call has failed");
    }
}

static void add(int comm, bool plain)
{
    if (draw(&batch[nbatch], comm, plain))
        nbatch++;
}

static void prepare(void)
{
    for (int i = 0; i < nbatch; i++) {
        cc_make(&batch[i]);
        cc_contents(&batch[i]);
    }
}

static void finish(void)
{
    for (int i = 0; i < COMMS; i++)
        if (streams[i])
            CHECK_EQ(cu.stream_synchronize(streams[i]), 0);
    for (int i = 0; i < nbatch; i++) {
        if (!cc_right(&batch[i]))
            stop(&batch[i], "wrong data");
        cc_drop(&batch[i]);
    }
    nbatch = 0;
}

static void some_calls(void)
{
    for (uint32_t n = 1 + cc_alike(BATCH); n--;)
        add((int)cc_alike(COMMS), false);
    prepare();
    for (int i = 0; i < nbatch; i++)
        post(&batch[i]);
    finish();
}

/* Nothing in place, so that every launch has the same result. */
static void a_graph(void)
{
    cu_graph graph;
    cu_graph_exec exec;
    int comm = (int)cc_alike(2);
    for (uint32_t n = 1 + cc_alike(BATCH); n--;)
        add(comm, true);
    prepare();
    CHECK_EQ(cu.stream_begin_capture(streams[comm], CU_CAPTURE_GLOBAL), 0);
    for (int i = 0; i < nbatch; i++)
        post(&batch[i]);
    CHECK_EQ(cu.stream_end_capture(streams[comm], &graph), 0);
    CHECK_EQ(cu.graph_instantiate(&exec, graph, 0), 0);
    for (int i = 0; i < LAUNCHES; i++)
        CHECK_EQ(cu.graph_launch(exec, streams[comm]), 0);
    finish();
    CHECK_EQ(cu.graph_exec_destroy(exec), 0);
    CHECK_EQ(cu.graph_destroy(graph), 0);
}

/* ---- the program ---- */

static void make_comm(int i, const char *name, MPI_Comm from)
{
    MPIX_Stream s;
    MPI_Info info;
    MPI_Comm h;
    CHECK_EQ(cu.stream_create(&streams[i], CU_STREAM_NON_BLOCKING), 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    OK(MPIX_Info_set_hex(info, "value", &streams[i], sizeof streams[i]));
    OK(MPIX_Stream_create(info, &s));
    OK(MPI_Info_free(&info));
    OK(MPIX_Stream_comm_create(from, s, &h));
    OK(MPIX_Stream_free(&s));
    cc_comm_init(&comms[i], name, h, 0);
}

static void make_comms(void)
{
    MPI_Comm h;
    make_comm(0, "world", mt_world);
    make_comm(1, "a duplicate", mt_world);
    OK(MPI_Comm_split(mt_world, mt_rank % 2, -mt_rank, &h));
    make_comm(2, "every second, reversed", h);
    OK(MPI_Comm_free(&h));
    OK(MPI_Comm_split(mt_world, mt_rank == 1 ? MPI_UNDEFINED : 0, mt_rank, &h));
    if (h == MPI_COMM_NULL)
        return;
    make_comm(3, "without rank 1", h);
    OK(MPI_Comm_free(&h));
}

static void hung(int sig)
{
    (void)sig;
    fprintf(stderr, "# rank %d: no progress, seed %u: %s\n", mt_rank, seed, now);
    _exit(2);
}

/* The same result on all ranks. */
static bool can_capture(void)
{
    cu_graph graph;
    CHECK_EQ(cu.stream_begin_capture(streams[0], CU_CAPTURE_GLOBAL), 0);
    int rc = MPIX_Barrier_enqueue(comms[0].h);
    CHECK_EQ(cu.stream_end_capture(streams[0], &graph), 0);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    return rc == MPI_SUCCESS;
}

static void sequence(void)
{
    bool graphs = can_capture();
    while (ncall < ncalls) {
        alarm(60);
        if (graphs && cc_alike(4) == 0)
            a_graph();
        else
            some_calls();
    }
    alarm(0);
}

int main(int argc, char **argv)
{
    int got, level = MPI_THREAD_SINGLE;
    for (int i = 1; i < argc; i++) {
        sscanf(argv[i], "seed=%u", &seed);
        sscanf(argv[i], "calls=%u", &ncalls);
        sscanf(argv[i], "max=%u", &max_bytes);
        if (!strcmp(argv[i], "threads"))
            level = MPI_THREAD_MULTIPLE;
    }
    gt_need(1);
    MPI_Init_thread(&argc, &argv, level, &got);
    mt_setup();
    signal(SIGALRM, hung);
    gt_use(mt_rank % gt_ndevices());
    cc_alike_state = cr_mix(seed, (uint64_t)mt_size);
    cc_own_state = cr_mix(cc_alike_state, (uint64_t)mt_rank + 1);
    cc_world_rank = mt_rank;
    cc_world = mt_world;
    cr_init();
    cc_init();
    make_comms();
    MT_RUN(sequence);
    for (int i = 0; i < COMMS; i++) {
        if (!comms[i].n)
            continue;
        cc_comm_free(&comms[i]);
        CHECK_EQ(cu.stream_destroy(streams[i]), 0);
    }
    cc_forget_memory();
    cc_fini();
    cr_fini();
    return mt_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* osu_nccl_*: NCCL's collectives in the loop that times MPI's, coll.c: a call is the NCCL call and
 * the synchronisation of its stream, and MPI is used for the barriers and the figures only.  The
 * library is opened at run time and its few functions are declared here, so that no header is
 * needed to build and NCCL need not be there.  Multicast over NVLink stays off, on both sides of
 * the comparison. */
#define _GNU_SOURCE 1
#include "test/bench/coll.h"
#include "test/bench/device.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NCCL's binary interface, as it has been since version 2.7. */
struct nccl_id {
    char bytes[128];
};
typedef struct nccl_comm nccl_comm;

static struct {
    int (*get_version)(int *version);
    int (*get_unique_id)(struct nccl_id *id);
    int (*comm_init_rank)(nccl_comm **c, int nranks, struct nccl_id id, int rank);
    int (*comm_destroy)(nccl_comm *c);
    const char *(*get_error_string)(int err);
    int (*all_reduce)(const void *, void *, size_t, int type, int op, nccl_comm *, cu_stream);
    int (*reduce)(const void *, void *, size_t, int type, int op, int root, nccl_comm *, cu_stream);
    int (*broadcast)(const void *, void *, size_t, int type, int root, nccl_comm *, cu_stream);
    int (*all_gather)(const void *, void *, size_t, int type, nccl_comm *, cu_stream);
    int (*reduce_scatter)(const void *, void *, size_t, int type, int op, nccl_comm *, cu_stream);
    int (*send)(const void *, size_t, int type, int peer, nccl_comm *, cu_stream);
    int (*recv)(void *, size_t, int type, int peer, nccl_comm *, cu_stream);
    int (*group_start)(void);
    int (*group_end)(void);
} fn;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
    { "ncclGetVersion", &fn.get_version },
    { "ncclGetUniqueId", &fn.get_unique_id },
    { "ncclCommInitRank", &fn.comm_init_rank },
    { "ncclCommDestroy", &fn.comm_destroy },
    { "ncclGetErrorString", &fn.get_error_string },
    { "ncclAllReduce", &fn.all_reduce },
    { "ncclReduce", &fn.reduce },
    { "ncclBroadcast", &fn.broadcast },
    { "ncclAllGather", &fn.all_gather },
    { "ncclReduceScatter", &fn.reduce_scatter },
    { "ncclSend", &fn.send },
    { "ncclRecv", &fn.recv },
    { "ncclGroupStart", &fn.group_start },
    { "ncclGroupEnd", &fn.group_end },
};

static nccl_comm *comm;
static cu_stream stream;
static char note[80];

static void must(int err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "osu_nccl: %s: error %d, %s\n", what, err, fn.get_error_string(err));
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void finish(void)
{
    device_must(device_cu.stream_synchronize(stream), "cuStreamSynchronize");
}

/* In place NCCL wants the same address twice, or that of the rank's block. */
static const char *from(const struct bench *b) { return b->opt.in_place ? b->rbuf : b->sbuf; }

static void allreduce(struct bench *b, int n)
{
    must(fn.all_reduce(from(b), b->rbuf, (size_t)n, b->elem->nccl, b->opt.op->nccl, comm, stream),
         "ncclAllReduce");
    finish();
}

static void reduce(struct bench *b, int n)
{
    must(fn.reduce(b->rank ? b->sbuf : from(b), b->rbuf, (size_t)n, b->elem->nccl, b->opt.op->nccl,
                   0, comm, stream),
         "ncclReduce");
    finish();
}

static void bcast(struct bench *b, int n)
{
    must(fn.broadcast(b->rbuf, b->rbuf, (size_t)n, b->elem->nccl, 0, comm, stream),
         "ncclBroadcast");
    finish();
}

static void allgather(struct bench *b, int n)
{
    size_t own = (size_t)b->rank * (size_t)n * b->type_len;

    must(fn.all_gather(b->opt.in_place ? b->rbuf + own : b->sbuf, b->rbuf, (size_t)n, b->elem->nccl,
                       comm, stream),
         "ncclAllGather");
    finish();
}

/* All ranks have the same count in NCCL: rounded up where the elements cannot be shared out. */
static void reduce_scatter(struct bench *b, int n)
{
    size_t part = ((size_t)n + (size_t)b->nranks - 1) / (size_t)b->nranks;

    must(fn.reduce_scatter(b->sbuf, b->rbuf, part, b->elem->nccl, b->opt.op->nccl, comm, stream),
         "ncclReduceScatter");
    finish();
}

static void alltoall(struct bench *b, int n)
{
    size_t block = (size_t)n * b->type_len;

    must(fn.group_start(), "ncclGroupStart");
    for (int r = 0; r < b->nranks; r++) {
        must(fn.send(b->sbuf + (size_t)r * block, (size_t)n, b->elem->nccl, r, comm, stream),
             "ncclSend");
        must(fn.recv(b->rbuf + (size_t)r * block, (size_t)n, b->elem->nccl, r, comm, stream),
             "ncclRecv");
    }
    must(fn.group_end(), "ncclGroupEnd");
    finish();
}

/* 0, or -1 with the reason. */
static int load(char *why, size_t len)
{
    void *lib, *p;
    int version = 0;

    setenv("NCCL_NVLS_ENABLE", "0", 1);
    lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(why, len, "no NCCL: %s", dlerror());
        return -1;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        p = dlsym(lib, symbols[i].name);
        if (!p) {
            snprintf(why, len, "this NCCL is too old: it has no %s", symbols[i].name);
            return -1;
        }
        memcpy(symbols[i].slot, &p, sizeof p);
    }
    if (fn.get_version(&version)) {
        snprintf(why, len, "NCCL does not report its version");
        return -1;
    }
    snprintf(note, sizeof note, "# NCCL %d.%d.%d, call and stream synchronisation\n",
             version / 10000, version / 100 % 100, version % 100);
    return 0;
}

/* NCCL takes a device for one rank of a communicator only, and reports that in its own way. */
static bool shares(const struct bench *b)
{
    char id[32] = { 0 }, *ids = calloc((size_t)b->nranks, sizeof id);
    bool twice = false;
    cu_device d;
    MPI_Comm node;
    int n, me;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &n);
    MPI_Comm_rank(node, &me);
    if (!ids || device_cu.device_get(&d, device_ordinal()) ||
        device_cu.device_get_pci_bus_id(id, sizeof id, d))
        MPI_Abort(MPI_COMM_WORLD, BENCH_NO_DEVICE);
    MPI_Allgather(id, sizeof id, MPI_CHAR, ids, sizeof id, MPI_CHAR, node);
    for (int r = 0; r < me; r++)
        twice |= !strcmp(ids + (size_t)r * sizeof id, id);
    MPI_Comm_free(&node);
    free(ids);
    return twice;
}

static int open_nccl(struct bench *b)
{
    char unused[300], why[300] = "several ranks share a device, which NCCL refuses; start fewer";
    struct nccl_id id;
    bool twice = shares(b); /* all ranks together */
    int bad = load(twice ? unused : why, sizeof why) || twice ? b->rank : b->nranks, first;

    MPI_Allreduce(&bad, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == b->rank)
        fprintf(stderr, "%s: rank %d: %s\n", b->spec->name, b->rank, why);
    if (first < b->nranks)
        return BENCH_NO_DEVICE;
    if (b->rank == 0)
        must(fn.get_unique_id(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    must(fn.comm_init_rank(&comm, b->nranks, id, b->rank), "ncclCommInitRank");
    device_must(device_cu.stream_create_with_priority(&stream, CU_STREAM_NON_BLOCKING, 0),
                "cuStreamCreate");
    return 0;
}

static void close_nccl(void)
{
    if (comm)
        fn.comm_destroy(comm);
}

/* MPI's benchmark shares elements out evenly only where that is possible. */
static void check_parts(struct bench *b, size_t nbytes)
{
    if (bench_count(b, nbytes) % b->nranks == 0)
        coll_find("reduce_scatter")->check(b, nbytes);
}

/* What differs from coll_kinds.c. */
static const struct {
    const char *name;
    void (*call)(struct bench *b, int count);
    bool in_place;
    void (*check)(struct bench *b, size_t nbytes); /* NULL: as for MPI */
} calls[] = {
    { "allreduce", allreduce, true, NULL },
    { "reduce", reduce, true, NULL },
    { "bcast", bcast, false, NULL },
    { "allgather", allgather, true, NULL },
    { "reduce_scatter", reduce_scatter, false, check_parts },
    { "alltoall", alltoall, false, NULL },
};

int nccl_main(int argc, char **argv, const char *name)
{
    struct coll_kind kind = *coll_find(name);
    char program[40], title[80], help[140];
    struct bench_spec spec = coll_spec;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].name, name))
            continue;
        kind.call = calls[i].call;
        if (calls[i].check)
            kind.check = calls[i].check;
        if (!calls[i].in_place)
            kind.flags &= ~(unsigned)BENCH_COLL;
    }
    snprintf(program, sizeof program, "osu_nccl_%s", name);
    snprintf(title, sizeof title, "NCCL %s Latency Test", kind.title);
    snprintf(help, sizeof help, "time of NCCL's %s as osu_%s times MPI's.", name, name);
    spec.name = program;
    spec.title = title;
    spec.help = help;
    spec.note = note;
    spec.flags = kind.flags | BENCH_NCCL;
    spec.open = open_nccl;
    spec.close = close_nccl;
    spec.arg = &kind;
    return bench_main(argc, argv, &spec);
}

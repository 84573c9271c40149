/* SPDX-License-Identifier: BSD-3-Clause */
/* Every predefined datatype that has a number in the ABI, with every predefined operation, on
 * device memory: the same result as on host memory, which may be an error, and the same data.
 * coll_random checks the results themselves, for the types that it knows. */
#include "test/gpu/collref.h"
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { N = 301, ROOM = (N + 2) * 32 };
static const MPI_Op ops[] = { MPI_SUM,    MPI_MIN,    MPI_MAX,     MPI_PROD, MPI_BAND,
                              MPI_BOR,    MPI_BXOR,   MPI_LAND,    MPI_LOR,  MPI_LXOR,
                              MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP };
enum { NOPS = sizeof ops / sizeof *ops };
enum call { ALLREDUCE, SCAN, LOCAL, CALLS };
static const char *const names[CALLS] = { "allreduce", "scan", "reduce_local" };

static int dev, ndone;
static unsigned char host_s[ROOM], host_r[ROOM], seen[ROOM];
static unsigned char *s, *r;

static bool takes(MPI_Datatype t, MPI_Op op)
{
    static _Alignas(64) unsigned char a[64], b[64];
    return MPI_Reduce_local(a, b, 1, t, op) == MPI_SUCCESS;
}

/* The format of a number of `nbytes` bytes; -1: an integer of 16 bytes. */
static int form_of(MPI_Datatype t, const char *name, int nbytes)
{
    bool is_float = takes(t, MPI_SUM) && !takes(t, MPI_BXOR);
    if (strstr(name, "LONG_DOUBLE"))
        return CR_LDBL;
    if (is_float || strstr(name, "MPI_2REAL") || strstr(name, "MPI_2DOUBLE") ||
        (takes(t, MPI_MAXLOC) && (strstr(name, "FLOAT") || strstr(name, "DOUBLE"))))
        return nbytes == 2   ? (strstr(name, "BFLOAT") ? CR_BF16 : CR_F16)
               : nbytes == 4 ? CR_F32
               : nbytes == 8 ? CR_F64
                             : -1;
    return nbytes == 1 ? CR_1 : nbytes == 2 ? CR_2 : nbytes == 4 ? CR_4 : nbytes == 8 ? CR_8 : -1;
}

/* Bytes of each number in an element; C's indices are written separately. */
static int part_of(MPI_Datatype t, int size)
{
    if (takes(t, MPI_MAXLOC))
        return size == 6 ? 2 : size == 12 ? 8 : size == 20 ? 16 : size / 2;
    return takes(t, MPI_SUM) && !takes(t, MPI_MAX) ? size / 2 : size; /* complex or not */
}

/* Small numbers, whose sums and products are exact in every type; every part of an element is
 * filled. */
static void fill(MPI_Datatype t, const char *name, uint64_t key)
{
    MPI_Aint lb, extent;
    int size, part, form;
    MPI_Type_size(t, &size);
    MPI_Type_get_extent(t, &lb, &extent);
    part = part_of(t, size);
    form = form_of(t, name, part);
    bool takes_loc = takes(t, MPI_MAXLOC);
    memset(host_s, 0, ROOM);
    for (int i = 0; i < N + 2; i++) {
        unsigned char *p = host_s + i * extent;
        for (int at = 0; at < size && at + part <= extent; at += part) {
            int v = (int)(cr_mix(key, (uint64_t)(i * 4 + at)) % 5) - 2;
            if (strstr(name, "BOOL") || strstr(name, "LOGICAL"))
                v &= 1;
            if (form >= 0)
                cr_store((enum cr_rep)form, v, p + at);
            else
                memset(p + at, v, 1); /* C has no such numbers */
        }
        if (takes_loc && strstr(name, "INT")) { /* a C index */
            int index = (int)(cr_mix(key, (uint64_t)i) % 7);
            memcpy(p + (size == 6 ? 4 : size - 4), &index, sizeof index);
        }
    }
}

static int call(enum call what, const void *from, void *to, MPI_Datatype t, MPI_Op op)
{
    int rc = what == ALLREDUCE ? MPI_Allreduce(from, to, N, t, op, mt_comm)
             : what == SCAN    ? MPI_Scan(from, to, N, t, op, mt_comm)
                               : MPI_Reduce_local(from, to, N, t, op);
    int class = MPI_SUCCESS;
    if (rc)
        MPI_Error_class(rc, &class);
    return class;
}

/* Clears the bytes of a long double that do not belong to the number. */
static void clear_padding(const char *name, unsigned char *p, MPI_Aint extent)
{
    if (!strstr(name, "LONG_DOUBLE"))
        return;
    for (MPI_Aint at = 0; at < N * extent; at += 16)
        memset(p + at + (at % extent == 16 && strstr(name, "INT") ? 4 : 10), 0,
               at % extent == 16 && strstr(name, "INT") ? 12 : 6);
}

/* The memory after the N elements is compared too; holes of pairs are not. */
static void compare(enum call what, const char *name, MPI_Datatype t, int op)
{
    MPI_Aint lb, extent;
    int size, at = 0, holes;
    MPI_Type_get_extent(t, &lb, &extent);
    MPI_Type_size(t, &size);
    gt_read(seen, r, ROOM);
    clear_padding(name, seen, extent);
    clear_padding(name, host_r, extent);
    holes = (int)extent - size; /* at the end, except for MPI_SHORT_INT, whose hole is inside */
    for (int i = 0; holes && i < N; i++) {
        int hole = strstr(name, "SHORT") ? 2 : size;
        memcpy(seen + i * extent + hole, host_r + i * extent + hole, (size_t)holes);
    }
    while (at < ROOM && seen[at] == host_r[at])
        at++;
    CHECK_MSG(at == ROOM, "rank %d: %s of %s, operation %d: byte %d is %d, not %d", mt_rank,
              names[what], name, op, at, seen[at % ROOM], host_r[at % ROOM]);
}

static void one(enum call what, MPI_Datatype t, const char *name, int op)
{
    int host, device;
    fill(t, name, (uint64_t)(op * 100 + mt_rank));
    gt_write(s, host_s, ROOM);
    fill(t, name, (uint64_t)(op * 100 + 50));
    memcpy(host_r, host_s, ROOM);
    gt_write(r, host_r, ROOM);
    fill(t, name, (uint64_t)(op * 100 + mt_rank));
    host = call(what, host_s, host_r, t, ops[op]);
    device = call(what, s, r, t, ops[op]);
    CHECK_MSG(host == device, "rank %d: %s of %s, operation %d: class %d, on host memory %d",
              mt_rank, names[what], name, op, device, host);
    if (!host)
        compare(what, name, t, op);
    ndone += !host;
}

static void every_type(void)
{
    for (int n = 0x201; n < 0x300; n++) {
        MPI_Datatype t = (MPI_Datatype)(intptr_t)n;
        char name[MPI_MAX_OBJECT_NAME];
        int len, size = MPI_UNDEFINED;
        if (MPI_Type_size(t, &size) != MPI_SUCCESS || size == MPI_UNDEFINED)
            continue;
        OK(MPI_Type_get_name(t, name, &len));
        for (int op = 0; op < NOPS; op++)
            for (int what = 0; what < CALLS; what++)
                one((enum call)what, t, name, op);
    }
    CHECK_MSG(ndone > 3 * 300, "%d calls were right only", ndone);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    s = gt_alloc(GT_CUDA, dev, ROOM, 0);
    r = gt_alloc(GT_CUDA, dev, ROOM, 0);
    MT_RUN(every_type);
    if (mt_rank == 0)
        printf("# %d calls\n", ndone);
    CHECK(gt_guards_intact(s) && gt_guards_intact(r));
    gt_free(s);
    gt_free(r);
    return mt_end();
}

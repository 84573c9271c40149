/* SPDX-License-Identifier: BSD-3-Clause */
/* Random windows, epochs, operations, datatypes and sizes against a model, for host memory
 * (rma_random.c) and device memory (test/gpu/rma_device.c).  All ranks draw the same
 * random numbers, so each knows all operations of all ranks and computes what every window must
 * hold; no data of the model are communicated.
 *
 * In an epoch the memory of each rank is cut into segments.  A segment is read by any rank; or
 * written by one rank with puts; or changed by one rank with accumulates of all kinds, whose order
 * counts; or changed by all ranks with accumulates of one operation, whose order does not.
 *
 * The including program defines memory of RR_KINDS kinds, before it includes this file:
 *     static char *rr_take(int kind, size_t n), void rr_give(char *p)
 *     static void rr_write(void *p, const void *host, size_t n), void rr_read(void *host, const
 *     void *p, size_t n) */
#ifndef TEST_MPI_RMA_RANDOM_H
#define TEST_MPI_RMA_RANDOM_H

#include "test/mpi/rma_model.h"

#define OPS 40
#define SEGS 6

enum use { READ, WRITE, ORDERED, SHARED };
enum what { PUT, GET, ACC, GET_ACC, FETCH, CAS };
enum sync { FENCE, PSCW, LOCK, LOCK_ALL, NSYNCS };

struct seg {
    enum use use;
    int owner, type, op;   /* owner: the rank that may change it; op: of SHARED */
    long at, nbytes, used; /* used: bytes that puts write: they are not ordered */
};

struct op {
    int origin, target, seg, type, op;
    enum what what;
    struct rm_pat *o, *r, *t;
    long cell0; /* of the target's first cell, bytes */
    unsigned key;
    int kind[3]; /* of memory: origin's or compared value's buffer, result's */
    char *in, *out, *expect;
    char *at[3]; /* the buffers that MPI gets */
    size_t nbytes[3];
    bool with_req;
    MPI_Request req;
};

static int windows = 12;
static long sizes[64], units[64];
static char *model[64];
static MPI_Aint bases[64]; /* of dynamic windows */
static struct seg segs[64][SEGS];
static struct op ops[OPS];
static int nops, flavor;
static MPI_Win win;
static char *mem; /* of this rank */

/* ---- what will happen ---- */

static void draw_segments(int rank)
{
    long at = 0, part = sizes[rank] / SEGS / 32 * 32;
    for (int s = 0; s < SEGS; s++, at += part) {
        struct seg *g = &segs[rank][s];
        *g = (struct seg){ .use = (enum use)rm_rnd(4),
                           .owner = rm_rnd(mt_size),
                           .at = at,
                           .nbytes = part,
                           .type = rm_rnd(RM_NTYPES) };
        do
            g->op = rm_rnd(RM_NOPS);
        while (!rm_allows(g->type, g->op) || g->op == RM_REPLACE);
    }
}

static struct rm_pat *draw_type(int type, int n, bool exact)
{
    struct rm_pat *p = malloc(sizeof *p);
    rm_make(p, type, n, exact);
    return p;
}

static void draw_kind(struct op *o, const struct seg *g)
{
    if (g->use == READ)
        o->what = GET;
    else if (g->use == WRITE)
        o->what = PUT;
    else if (g->use == SHARED)
        o->what = ACC;
    else
        o->what = (enum what)(ACC + rm_rnd(4));
    if (o->what == CAS && rm_class_of(o->type) != RM_INT && rm_class_of(o->type) != RM_BYTE)
        o->what = FETCH;
    do
        o->op = g->use == SHARED ? g->op : rm_rnd(RM_NOPS);
    while (!rm_allows(o->type, o->op) || (o->op == RM_NO_OP && o->what == ACC && g->use != SHARED));
    if (o->op == RM_NO_OP && o->what == ACC)
        o->what = GET_ACC;
}

/* False: the segment has no room. */
static bool draw_op(struct op *o)
{
    *o = (struct op){ .origin = rm_rnd(mt_size), .target = rm_rnd(mt_size), .seg = rm_rnd(SEGS) };
    struct seg *g = &segs[o->target][o->seg];
    o->type = g->type;
    if (g->use == WRITE || g->use == ORDERED)
        o->origin = g->owner;
    draw_kind(o, g);
    long room = g->nbytes / rm_bytes(o->type);
    bool one = o->what == FETCH || o->what == CAS;
    long most = room / 3 < RM_CELLS / 4 ? room / 3 : RM_CELLS / 4;
    if (room < 8)
        return false;
    int n = one ? 1 : rm_rnd(3) ? 1 + rm_rnd(6) : 1 + rm_rnd((int)most);
    o->t = draw_type(o->type, n, one);
    if (one && o->t->made) {
        rm_free(o->t);
        o->t->type = rm_handle(o->type), o->t->made = false, o->t->count = 1;
        o->t->n = o->t->cells = 1, o->t->first = o->t->cell[0] = 0;
    }
    o->o = one ? NULL : draw_type(o->type, o->t->n, true);
    o->r = one ? NULL : draw_type(o->type, o->t->n, true);
    long first = g->used / rm_bytes(o->type);
    if (o->t->cells > room - first)
        return false;
    first += rm_rnd((int)(room - first - o->t->cells) / (g->use == WRITE ? 8 : 1) + 1);
    o->cell0 = g->at + first * rm_bytes(o->type);
    if (g->use == WRITE)
        g->used = (first + o->t->cells) * rm_bytes(o->type);
    o->key = (unsigned)rm_rnd(100000);
    o->with_req = rm_rnd(3) == 0 && !one;
    for (int i = 0; i < 3; i++)
        o->kind[i] = rm_rnd(RR_KINDS);
    return true;
}

static void op_free(struct op *o)
{
    struct rm_pat *p[3] = { o->o, o->r, o->t };
    for (int i = 0; i < 3; i++) {
        if (p[i])
            rm_free(p[i]);
        free(p[i]);
        if (o->at[i])
            rr_give(o->at[i]);
    }
    free(o->in);
    free(o->out);
    free(o->expect);
}

/* The displacement of the target's address; false: it is not a multiple of the displacement
 * unit. */
static bool displacement(const struct op *o, MPI_Aint *disp)
{
    long at = o->cell0 + (long)o->t->first * rm_bytes(o->type);
    *disp = flavor == MPI_WIN_FLAVOR_DYNAMIC ? MPI_Aint_add(bases[o->target], at)
                                             : at / units[o->target];
    return flavor == MPI_WIN_FLAVOR_DYNAMIC || at % units[o->target] == 0;
}

static void draw_epoch(void)
{
    MPI_Aint disp;
    for (int r = 0; r < mt_size; r++)
        draw_segments(r);
    nops = 0;
    for (int i = 0; i < OPS; i++) {
        if (draw_op(&ops[nops]) && displacement(&ops[nops], &disp))
            nops++;
        else
            op_free(&ops[nops]);
    }
}

/* ---- the model ---- */

static void fill(char *m, int rank, unsigned key)
{
    mt_fill(m, (size_t)sizes[rank], key + (unsigned)rank);
    for (int s = 0; s < SEGS; s++) {
        const struct seg *g = &segs[rank][s];
        int bytes = rm_bytes(g->type);
        for (long c = 0; c < g->nbytes / bytes; c++)
            rm_value(g->type, m + g->at + c * bytes, key + (unsigned)c);
    }
}

static void origin_value(const struct op *o, int k, void *to)
{
    rm_value(o->type, to, o->key + (unsigned)k * 3);
}

/* Compare-and-swap finds what it compares with in every second case. */
static void compare_value(const struct op *o, char *to)
{
    memset(to, 0x5a, (size_t)rm_bytes(o->type));
    if (o->key % 2)
        memcpy(to, o->expect, (size_t)rm_bytes(o->type));
}

static char *cell_of(const struct op *o, int k)
{
    return model[o->target] + o->cell0 + (long)o->t->cell[k] * rm_bytes(o->type);
}

static void apply(struct op *o)
{
    int bytes = rm_bytes(o->type);
    _Alignas(16) char v[32];
    o->expect = malloc((size_t)(o->t->n * bytes));
    for (int k = 0; k < o->t->n; k++) {
        char *cell = cell_of(o, k);
        memcpy(o->expect + k * bytes, cell, (size_t)bytes);
        origin_value(o, k, v);
        if (o->what == PUT)
            rm_apply(o->type, RM_REPLACE, v, cell);
        else if (o->what == CAS && o->key % 2)
            memcpy(cell, v, (size_t)bytes);
        else if (o->what == ACC || o->what == GET_ACC || o->what == FETCH)
            rm_apply(o->type, o->op, v, cell);
    }
}

/* ---- the real thing ---- */

enum { IN, OUT, COMPARE }; /* buffers */

static void place(struct op *o, int which, const char *contents, size_t n)
{
    o->at[which] = rr_take(o->kind[which], n);
    o->nbytes[which] = n;
    rr_write(o->at[which], contents, n);
}

static void fill_origin(struct op *o)
{
    int bytes = rm_bytes(o->type), cells = o->o ? o->o->cells : 1;
    int back = o->what == GET ? cells : o->r ? o->r->cells : 1;
    char compare[32];
    o->in = malloc((size_t)(cells * bytes));
    o->out = malloc((size_t)(back * bytes));
    memset(o->in, 0x77, (size_t)(cells * bytes));
    memset(o->out, 0x66, (size_t)(back * bytes));
    for (int k = 0; k < o->t->n; k++)
        origin_value(o, k, o->in + (o->o ? o->o->cell[k] : 0) * bytes);
    compare_value(o, compare);
    place(o, IN, o->in, (size_t)(cells * bytes));
    place(o, OUT, o->out, (size_t)(back * bytes));
    if (o->what == CAS)
        place(o, COMPARE, compare, (size_t)bytes);
}

static void call_with_request(struct op *o, MPI_Aint disp, char *in, char *out)
{
    if (o->what == PUT)
        OK(MPI_Rput(in, o->o->count, o->o->type, o->target, disp, o->t->count, o->t->type, win,
                    &o->req));
    else if (o->what == GET)
        OK(MPI_Rget(out, o->o->count, o->o->type, o->target, disp, o->t->count, o->t->type, win,
                    &o->req));
    else if (o->what == ACC)
        OK(MPI_Raccumulate(in, o->o->count, o->o->type, o->target, disp, o->t->count, o->t->type,
                           rm_op_handle(o->op), win, &o->req));
    else
        OK(MPI_Rget_accumulate(in, o->o->count, o->o->type, out, o->r->count, o->r->type, o->target,
                               disp, o->t->count, o->t->type, rm_op_handle(o->op), win, &o->req));
}

static void call_one(struct op *o, MPI_Aint disp)
{
    MPI_Datatype t = rm_handle(o->type);
    if (o->what == FETCH)
        OK(MPI_Fetch_and_op(o->at[IN], o->at[OUT], t, o->target, disp, rm_op_handle(o->op), win));
    else
        OK(MPI_Compare_and_swap(o->at[IN], o->at[COMPARE], o->at[OUT], t, o->target, disp, win));
}

static void call(struct op *o, bool passive)
{
    MPI_Aint disp;
    fill_origin(o);
    displacement(o, &disp);
    if (o->what == FETCH || o->what == CAS) {
        call_one(o, disp);
        return;
    }
    int bytes = rm_bytes(o->type);
    char *in = o->at[IN] + o->o->first * bytes;
    char *out = o->at[OUT] + (o->what == GET ? o->o->first : o->r->first) * bytes;
    if (o->with_req && passive)
        call_with_request(o, disp, in, out);
    else if (o->what == PUT)
        OK(MPI_Put(in, o->o->count, o->o->type, o->target, disp, o->t->count, o->t->type, win));
    else if (o->what == GET)
        OK(MPI_Get(out, o->o->count, o->o->type, o->target, disp, o->t->count, o->t->type, win));
    else if (o->what == ACC)
        OK(MPI_Accumulate(in, o->o->count, o->o->type, o->target, disp, o->t->count, o->t->type,
                          rm_op_handle(o->op), win));
    else
        OK(MPI_Get_accumulate(in, o->o->count, o->o->type, out, o->r->count, o->r->type, o->target,
                              disp, o->t->count, o->t->type, rm_op_handle(o->op), win));
}

/* The element of the result that belongs to element k of the target. */
static const char *result_of(const struct op *o, int k)
{
    int bytes = rm_bytes(o->type);
    const struct rm_pat *p = o->what == GET ? o->o : o->r;
    return o->out + (p ? p->cell[k] : 0) * bytes;
}

static bool same_data(int type, const char *a, const char *b)
{
    for (int i = 0; i < rm_bytes(type); i++)
        if (rm_data(type, i) && a[i] != b[i])
            return false;
    return true;
}

static void check_result(const struct op *o, const char *when)
{
    bool returns = o->what == GET || o->what == GET_ACC || o->what == FETCH || o->what == CAS;
    if (!returns || segs[o->target][o->seg].use == SHARED)
        return;
    rr_read(o->out, o->at[OUT], o->nbytes[OUT]);
    for (int k = 0; k < o->t->n; k++) {
        bool right = same_data(o->type, result_of(o, k), o->expect + k * rm_bytes(o->type));
        CHECK_MSG(right,
                  "rank %d: operation %d, kind %d, type %d, op %d on rank %d: element %d of "
                  "%d is wrong %s",
                  mt_rank, (int)(o - ops), (int)o->what, o->type, o->op, o->target, k, o->t->n,
                  when);
        if (!right)
            return;
    }
}

/* ---- epochs ---- */

static void finish_request(struct op *o)
{
    MPI_Status st;
    if (!o->with_req)
        return;
    OK(MPI_Wait(&o->req, &st));
    if (o->what == GET || o->what == GET_ACC)
        check_result(o, "after MPI_Wait");
}

static void in_fence(void)
{
    OK(MPI_Win_fence(rm_rnd(2) ? MPI_MODE_NOPRECEDE : 0, win));
    for (int i = 0; i < nops; i++)
        if (ops[i].origin == mt_rank)
            call(&ops[i], false);
    OK(MPI_Win_fence(rm_rnd(2) ? MPI_MODE_NOSUCCEED : 0, win));
}

/* The ranks that are origins of operations on `rank`, or its targets. */
static MPI_Group partners(MPI_Group all, int rank, bool origins)
{
    int list[64], n = 0;
    for (int p = 0; p < mt_size; p++)
        for (int i = 0; i < nops; i++)
            if ((origins ? ops[i].target : ops[i].origin) == rank &&
                (origins ? ops[i].origin : ops[i].target) == p) {
                list[n++] = p;
                break;
            }
    MPI_Group g;
    MPI_Group_incl(all, n, list, &g);
    return g;
}

static void in_pscw(void)
{
    MPI_Group all, from, to;
    bool test = rm_rnd(2);
    MPI_Win_get_group(win, &all);
    from = partners(all, mt_rank, true);
    to = partners(all, mt_rank, false);
    if ((unsigned)mt_rank % 3 == 1)
        mt_sleep_ms(2);
    OK(MPI_Win_start(to, 0, win));
    for (int i = 0; i < nops; i++)
        if (ops[i].origin == mt_rank)
            call(&ops[i], false);
    OK(MPI_Win_post(from, 0, win));
    OK(MPI_Win_complete(win));
    int flag = 0;
    while (test && !flag)
        OK(MPI_Win_test(win, &flag));
    if (!test)
        OK(MPI_Win_wait(win));
    MPI_Group_free(&all);
    MPI_Group_free(&from);
    MPI_Group_free(&to);
}

static void in_lock(void)
{
    int kinds = rm_rnd(1 << 16);
    for (int target = 0; target < mt_size; target++) {
        OK(MPI_Win_lock(kinds >> target & 1 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0,
                        win));
        for (int i = 0; i < nops; i++)
            if (ops[i].origin == mt_rank && ops[i].target == target)
                call(&ops[i], true);
        for (int i = 0; i < nops; i++)
            if (ops[i].origin == mt_rank && ops[i].target == target)
                finish_request(&ops[i]);
        if (kinds >> (target + 4) & 1)
            OK(MPI_Win_flush(target, win));
        OK(MPI_Win_unlock(target, win));
    }
}

static void in_lock_all(void)
{
    int how = rm_rnd(4);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < nops; i++) {
        if (ops[i].origin != mt_rank)
            continue;
        call(&ops[i], true);
        if (how == 1)
            OK(MPI_Win_flush(ops[i].target, win));
        if (how == 2 && i % 3 == 0)
            OK(MPI_Win_flush_local(ops[i].target, win));
        if (how == 1)
            check_result(&ops[i], "after a flush");
    }
    for (int i = 0; i < nops; i++)
        if (ops[i].origin == mt_rank)
            finish_request(&ops[i]);
    if (how == 3)
        OK(MPI_Win_flush_all(win));
    if (how == 2)
        OK(MPI_Win_flush_local_all(win));
    OK(MPI_Win_unlock_all(win));
}

static void check_window(int how)
{
    long i = 0;
    char *got = malloc((size_t)sizes[mt_rank] + 1);
    OK(MPI_Win_sync(win));
    if (sizes[mt_rank])
        rr_read(got, mem, (size_t)sizes[mt_rank]);
    while (i < sizes[mt_rank] && got[i] == model[mt_rank][i])
        i++;
    free(got);
    CHECK_MSG(i == sizes[mt_rank], "rank %d: byte %ld of %ld is wrong, flavor %d, sync %d", mt_rank,
              i, sizes[mt_rank], flavor, how);
}

static void epoch(void)
{
    unsigned key = (unsigned)rm_rnd(1000);
    enum sync how = (enum sync)rm_rnd(NSYNCS);
    draw_epoch();
    for (int r = 0; r < mt_size; r++)
        fill(model[r], r, key);
    if (sizes[mt_rank])
        rr_write(mem, model[mt_rank], (size_t)sizes[mt_rank]);
    for (int i = 0; i < nops; i++)
        apply(&ops[i]);
    MPI_Barrier(mt_comm);
    unsigned after = rm_state;
    (how == FENCE ? in_fence : how == PSCW ? in_pscw : how == LOCK ? in_lock : in_lock_all)();
    rm_state = after;
    MPI_Barrier(mt_comm);
    check_window((int)how);
    for (int i = 0; i < nops; i++)
        if (ops[i].origin == mt_rank)
            check_result(&ops[i], "at the end");
    for (int i = 0; i < nops; i++)
        op_free(&ops[i]);
    MPI_Allreduce(MPI_IN_PLACE, &check_failed_case, 1, MPI_INT, MPI_MAX, mt_comm);
}

/* ---- windows ---- */

static void make_dynamic(int kind)
{
    MPI_Aint at = 0;
    mem = rr_take(kind, (size_t)sizes[mt_rank] + 1);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_attach(win, mem, sizes[mt_rank]));
    MPI_Get_address(mem, &at);
    MPI_Allgather(&at, 1, MPI_AINT, bases, 1, MPI_AINT, mt_comm);
}

static void make_window(bool shared, bool alloc_mem, int kind)
{
    MPI_Aint n = sizes[mt_rank];
    int unit = (int)units[mt_rank];
    mem = NULL;
    if (flavor == MPI_WIN_FLAVOR_SHARED && !shared)
        flavor = MPI_WIN_FLAVOR_ALLOCATE;
    if (flavor == MPI_WIN_FLAVOR_ALLOCATE) {
        OK(MPI_Win_allocate(n, unit, MPI_INFO_NULL, mt_comm, &mem, &win));
    } else if (flavor == MPI_WIN_FLAVOR_SHARED) {
        OK(MPI_Win_allocate_shared(n, unit, MPI_INFO_NULL, mt_comm, &mem, &win));
    } else if (flavor == MPI_WIN_FLAVOR_DYNAMIC) {
        make_dynamic(kind);
    } else {
        if (alloc_mem)
            OK(MPI_Alloc_mem(n, MPI_INFO_NULL, &mem));
        else
            mem = rr_take(kind, (size_t)n + 1);
        OK(MPI_Win_create(mem, n, unit, MPI_INFO_NULL, mt_comm, &win));
    }
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
}

static void one_window(bool shared)
{
    const int kinds[] = { MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED,
                          MPI_WIN_FLAVOR_DYNAMIC };
    bool large = rm_rnd(4) == 0, alloc_mem = rm_rnd(2), equal = rm_rnd(3) == 0;
    int kind[64];
    flavor = kinds[rm_rnd(4)];
    for (int r = 0; r < mt_size; r++) {
        sizes[r] = rm_rnd(8) == 0 ? 0 : large ? 100000 + rm_rnd(200000) : 1500 + rm_rnd(4000);
        sizes[r] = sizes[r] / 32 * 32;
        units[r] = 1l << rm_rnd(5);
        kind[r] = rm_rnd(RR_KINDS);
        if (equal)
            sizes[r] = 3200, units[r] = 4;
        model[r] = aligned_alloc(64, (size_t)(sizes[r] + 64) / 64 * 64);
    }
    make_window(shared, alloc_mem, kind[mt_rank]);
    for (int e = 0; e < 4 && !check_failed_case; e++)
        epoch();
    if (flavor == MPI_WIN_FLAVOR_DYNAMIC && rm_rnd(2))
        OK(MPI_Win_detach(win, mem));
    bool mine = flavor == MPI_WIN_FLAVOR_DYNAMIC || (flavor == MPI_WIN_FLAVOR_CREATE && !alloc_mem);
    OK(MPI_Win_free(&win));
    if (mine)
        rr_give(mem);
    else if (flavor == MPI_WIN_FLAVOR_CREATE)
        MPI_Free_mem(mem);
    for (int r = 0; r < mt_size; r++)
        free(model[r]);
}

static void random_windows(void)
{
    bool shared = mt_one_host();
    rm_state = mt_seed;
    for (int i = 0; i < windows && !check_failed_case; i++) {
        unsigned next = rm_state + 12345;
        one_window(shared);
        rm_state = next * 1664525u + 7;
        if (check_failed_case && mt_rank == 0)
            printf("# window %d\n", i);
    }
}

/* Arguments: seed, number of windows. */
static void rr_arguments(int argc, char **argv)
{
    if (argc > 1)
        mt_seed = (unsigned)strtoul(argv[1], NULL, 0);
    if (argc > 2)
        windows = atoi(argv[2]);
}

#endif

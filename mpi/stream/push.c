/* SPDX-License-Identifier: BSD-3-Clause */
/* Short collectives on streams: one kernel a process (runtime/gpu/push_kernels.h), and no message
 * between hosts.
 *
 * Which calls are short.  All processes must decide alike without asking each other, so the
 * decision uses only what MPI requires to be equal (kind, lengths, operation, types of a reduction)
 * and facts that were exchanged when the communicator was made.  The lengths of alltoallv, gatherv
 * and scatterv are not known to all processes, so for those calls the hosts first exchange the
 * longest block (coll.c): once, also for a call that is captured and launched many times.
 *
 * What differs between processes does not change the protocol.  A buffer that the stream's device
 * cannot use as it is (host memory, gaps between elements) is lent scratch memory of the device.
 * The host packs the data into the scratch memory before the launch and unpacks the result after
 * the kernel's end, so it waits for the stream, and such a call cannot be captured.  A process that
 * cannot take part at all launches a kernel that makes all processes' kernels give up: the
 * communicator is then unusable.  In a capture this happens only if the graph is launched.
 *
 * Arguments that differ between processes are found by the kernels, which compare signatures.
 *
 * Order.  Calls of one thread are launched in the order in which they are made, so all processes
 * enqueue the calls of all communicators in the same order if they make them so.  If a process has
 * MPI_THREAD_MULTIPLE, its threads may make calls at once; then the hosts agree on an order
 * (turn.c), which costs two exchanges of messages. */
#include <stdlib.h>
#include <string.h>
#include "coll/gpu/plan.h"
#include "mpi/p2p/device.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/stream/stream.h"
#include "runtime/reduce/gpu_codes.h"

/* A block of the user's that is lent scratch memory. */
struct lent {
    struct coll_block b;
    int64_t nbytes;
    char *scratch;
    bool in, out;
};

struct pushing {
    struct wm_xstream_call *k;
    const struct coll_args *a;
    struct rt_gpu_push p;
    int64_t longest; /* bytes of the longest block between two processes */
    size_t used;     /* bytes of scratch memory */
    int nlent;
    bool by_host; /* at least one of them must be copied by the host */
    struct lent lent[2 * RT_GPU_PUSH_RANKS];
};

/* ---- which calls are short ---- */

static int64_t longest_part(const struct coll_args *a, int size)
{
    int64_t longest = 0;
    if (!a->rcounts)
        return a->rcount;
    for (int r = 0; r < size; r++)
        longest = a->rcounts[r] > longest ? a->rcounts[r] : longest;
    return longest;
}

/* Bytes of an element; of a reduction as in memory, with the hole of a pair. */
static int64_t elem_nbytes(const struct coll_args *a, const struct rt_layout *l)
{
    return coll_is(a->kind, COLL_IS_REDUCTION) ? l->extent : l->size;
}

/* Bytes of the longest block between two processes; -1: not all processes know. */
static int64_t known_longest(const struct coll_team *t, const struct coll_args *a)
{
    switch ((enum coll_measure)coll_forms[a->kind].bytes) {
    case COLL_BYTES_VECTOR:
        return a->rcount * elem_nbytes(a, a->rtype);
    case COLL_BYTES_BLOCK:
        return coll_args_bytes(t, a);
    case COLL_BYTES_SUM:
    case COLL_BYTES_MEAN:
        return longest_part(a, t->size) * elem_nbytes(a, a->rtype);
    default:
        return a->kind == COLL_BARRIER ? 0 : -1;
    }
}

bool wm_xstream_push_fits(const struct wm_xstream_comm *s, uint64_t nbytes)
{
    uint64_t others = s->comm->size > 1 ? (uint64_t)s->comm->size - 1 : 1,
             slot = rt_gpu_push_slot();
    return s->pushes && nbytes <= slot && others * rt_gpu_push_stride((size_t)nbytes) <= slot;
}

uint64_t wm_xstream_push_own_longest(const struct wm_xstream_comm *s, const struct coll_args *a)
{
    const struct coll_team *t = &s->comm->team;
    int64_t most = 0;
    if (!coll_is_apart(a->kind, COLL_SEND) && !coll_is_apart(a->kind, COLL_RECV))
        return UINT64_MAX;
    for (int r = 0; r < t->size; r++) {
        struct coll_block b[] = { coll_args_sent(t, a, r), coll_args_received(t, a, r) };
        for (int i = 0; i < 2; i++)
            if (b[i].l && b[i].n * b[i].l->size > most)
                most = b[i].n * b[i].l->size;
    }
    return (uint64_t)most;
}

static int arithmetic(const struct coll_args *a, struct rt_reduce_gpu *out)
{
    *out = (struct rt_reduce_gpu){ RT_GPU_U8, RT_GPU_FOLD_COPY };
    return coll_is(a->kind, COLL_IS_REDUCTION)
               ? rt_reduce_gpu(NULL, a->op, (enum rt_elem)a->rtype->elem, out)
               : 0;
}

/* All kernels are loaded where one is, so all processes have those that this one has. */
bool wm_xstream_pushes(const struct wm_xstream_comm *s, const struct coll_args *a)
{
    struct rt_reduce_gpu as;
    if (!s->pushes)
        return false;
    int64_t len = known_longest(&s->comm->team, a);
    return len >= 0 && wm_xstream_push_fits(s, (uint64_t)len) && arithmetic(a, &as) >= 0;
}

/* ---- this process's buffers ---- */

static int64_t nbytes_of(const struct pushing *u, const struct coll_block *b)
{
    return b->l && b->n > 0 ? b->n * elem_nbytes(u->a, b->l) : 0;
}

/* A block as the kernel sees it.  Elements of a reduction are adjacent, also those with a hole. */
static bool is_dense(const struct pushing *u, const struct coll_block *b)
{
    return b->l->contig || coll_is(u->a->kind, COLL_IS_REDUCTION);
}

static int lend(struct pushing *u, const struct coll_block *b, bool in, bool out, uint64_t *at)
{
    struct wm_xstream_comm *s = u->k->s;
    int64_t nbytes = nbytes_of(u, b);
    for (int i = 0; i < u->nlent; i++) /* allreduce and allgather send one block to all */
        if (in && u->lent[i].in && u->lent[i].b.at == b->at && u->lent[i].nbytes == nbytes) {
            *at = (uint64_t)(uintptr_t)u->lent[i].scratch;
            return 0;
        }
    size_t room = ((size_t)nbytes + 15) & ~(size_t)15;
    size_t left = COLL_GPU_SCRATCH_UNIT - u->used % COLL_GPU_SCRATCH_UNIT;
    if (room > left)
        u->used += left;
    int err = wm_xstream_take_scratch(s, u->used + room);
    if (err < 0)
        return err;
    char *p = s->scratch[u->used / COLL_GPU_SCRATCH_UNIT]->p + u->used % COLL_GPU_SCRATCH_UNIT;
    u->used += room;
    u->lent[u->nlent++] = (struct lent){ *b, nbytes, p, in, out };
    *at = (uint64_t)(uintptr_t)p;
    return 0;
}

int wm_xstream_direct(const struct wm_xstream_call *k, const void *at, int64_t nbytes)
{
    struct wm_mem mem;
    int err = wm_resolve(at, nbytes, &wm_type_get(MPI_BYTE)->layout, nbytes, &mem);
    if (err < 0)
        return err;
    return mem.kind == WM_MEMORY_DEVICE && rt_gpu_reach(k->g, &mem.at) >= 0;
}

/* The address that the kernel uses for a block. */
static int place(struct pushing *u, const struct coll_block *b, bool in, uint64_t *at)
{
    int64_t nbytes = nbytes_of(u, b);
    struct wm_mem mem;
    *at = 0;
    if (nbytes == 0)
        return 0;
    int rc = is_dense(u, b) ? wm_xstream_direct(u->k, b->at, nbytes)
                            : wm_resolve(b->at, b->n, b->l, nbytes, &mem);
    if (rc < 0)
        return rc;
    if (is_dense(u, b) && rc) {
        *at = (uint64_t)(uintptr_t)b->at;
        return 0;
    }
    u->by_host = true;
    return lend(u, b, in, !in, at);
}

/* The parts of a reduced vector may differ in length.  Then the result, which is at the beginning
 * of the vector in place, does not have the place of one part, and goes through scratch memory. */
static bool result_is_apart(const struct coll_args *a, int size)
{
    if (coll_shape(a->kind, COLL_SEND) != COLL_SIDE_CUT || !a->rcounts || coll_input(a) != a->rbuf)
        return false;
    for (int r = 1; r < size; r++)
        if (a->rcounts[r] != a->rcounts[0])
            return true;
    return false;
}

static int place_result(struct pushing *u, const struct coll_block *b, uint64_t *at)
{
    int err = place(u, b, false, at);
    bool direct = *at == (uint64_t)(uintptr_t)b->at;
    if (err >= 0 && *at && direct && result_is_apart(u->a, u->k->s->comm->size))
        err = lend(u, b, false, true, at);
    return err;
}

static int describe(struct pushing *u)
{
    struct coll_team *t = &u->k->s->comm->team;
    struct rt_gpu_push_rank *of = u->p.of;
    int me = t->rank, err = 0;
    for (int r = 0; r < t->size && err >= 0; r++) {
        struct coll_block b = coll_args_sent(t, u->a, r);
        of[r].send = (uint32_t)nbytes_of(u, &b);
        err = place(u, &b, true, &of[r].src);
    }
    for (int r = 0; r < t->size && err >= 0; r++) {
        struct coll_block b = coll_args_received(t, u->a, r);
        if (u->p.folds ? r != me : r == me && !of[me].send)
            continue;
        of[r].receive = (uint32_t)nbytes_of(u, &b);
        err = place_result(u, &b, &of[r].dst);
    }
    return err;
}

static uint32_t signature(const struct pushing *u)
{
    uint64_t h = coll_args_signature(&u->k->s->comm->team, u->a);
    if (u->p.folds)
        h = coll_args_mix(coll_args_mix(coll_args_mix(h, u->longest), u->p.type), u->p.code);
    return (uint32_t)(h ^ h >> 32);
}

/* ---- scratch memory ---- */

/* Between a lent block and its scratch memory.  The stream is idle. */
static int carry(struct pushing *u, const struct lent *l, bool in)
{
    bool dense = is_dense(u, &l->b);
    struct wm_packing pack = { dense ? &wm_type_get(MPI_BYTE)->layout : l->b.l,
                               dense ? l->nbytes : l->b.n,
                               l->b.at,
                               0,
                               malloc((size_t)l->nbytes),
                               l->nbytes,
                               in };
    int err = pack.packed ? 0 : -RT_ENOMEM;
    if (err >= 0)
        err = in ? wm_move_now(&pack)
                 : rt_gpu_copy_now(u->k->g, pack.packed, l->scratch, (size_t)l->nbytes);
    if (err >= 0)
        err = in ? rt_gpu_copy_now(u->k->g, l->scratch, pack.packed, (size_t)l->nbytes)
                 : wm_move_now(&pack);
    free(pack.packed);
    return err;
}

static int carry_all(struct pushing *u, bool in)
{
    int err = 0;
    for (int i = 0; i < u->nlent && err >= 0; i++)
        if (in ? u->lent[i].in : u->lent[i].out)
            err = carry(u, &u->lent[i], in);
    return err;
}

/* Results that the device copies to their places, after the kernel. */
static int copy_results(struct pushing *u)
{
    struct rt_gpu_meet m;
    int err = 0;
    for (int i = 0; i < u->nlent && err >= 0; i++)
        if (u->lent[i].out)
            err = rt_gpu_copy_on(u->k->g, u->k->stream, u->lent[i].b.at, u->lent[i].scratch,
                                 (size_t)u->lent[i].nbytes);
    if (err < 0) {
        wm_xstream_broken(u->k->s);
        return err;
    }
    wm_xstream_meet_init(u->k, &m, wm_xstream_own(u->k->s, meetings), 0);
    return wm_xstream_meet(u->k, &m, true); /* for its ticket */
}

/* ---- the call ---- */

static int error_of(const struct pushing *u, int err)
{
    return err == -RT_EADDR
               ? wm_dev_fault()
               : wm_err_rt(err, "enqueuing a collective among %d processes", u->k->s->comm->size);
}

static int prepare(struct pushing *u)
{
    struct rt_reduce_gpu as;
    wm_xstream_push_init(u->k, &u->p);
    u->p.stride = (uint32_t)rt_gpu_push_stride((size_t)u->longest);
    u->p.folds = coll_is(u->a->kind, COLL_IS_REDUCTION);
    arithmetic(u->a, &as);
    u->p.type = as.type;
    u->p.code = as.code;
    u->p.signature = signature(u);
    int err = describe(u);
    if (err < 0)
        return error_of(u, err);
    if (!u->by_host)
        return MPI_SUCCESS;
    err = wm_xstream_settle(u->k, "a buffer of this process is host memory, or has gaps");
    if (err)
        return err;
    err = carry_all(u, true);
    return err < 0 ? error_of(u, err) : MPI_SUCCESS;
}

static int launch(struct pushing *u)
{
    bool more = u->nlent && !u->by_host;
    int err = wm_xstream_push(u->k, &u->p, !more);
    if (err >= 0 && more)
        err = copy_results(u);
    return err < 0 ? error_of(u, err) : MPI_SUCCESS;
}

/* What the host does after the kernel's end. */
static int finish(struct pushing *u)
{
    int err = u->by_host ? wm_xstream_wait_idle(u->k) : 0;
    if (err >= 0 && u->by_host)
        err = carry_all(u, false);
    return err < 0 ? error_of(u, err) : MPI_SUCCESS;
}

static int enqueue(struct wm_xstream_call *k, const struct coll_args *a, int64_t longest)
{
    struct pushing u;
    struct wm_xstream_turn turn;
    u.k = k;
    u.a = a;
    u.longest = longest;
    u.used = 0;
    u.nlent = 0;
    u.by_host = false;
    int err = prepare(&u);
    if (k->s->in_turn) {
        err = wm_xstream_turn_take(k->s, err, &turn);
        if (err)
            return err;
        err = launch(&u);
        wm_xstream_turn_end(&turn);
    } else if (!err) {
        err = launch(&u);
    } else {
        u.p.gives_up = true;
        wm_xstream_push(k, &u.p, true);
    }
    return err ? err : finish(&u);
}

int wm_xstream_push_enqueue(struct wm_xstream_call *k, const struct coll_args *a)
{
    return enqueue(k, a, known_longest(&k->s->comm->team, a));
}

int wm_xstream_push_blocks(struct wm_xstream_call *k, const struct coll_args *a, uint64_t longest)
{
    return enqueue(k, a, (int64_t)longest);
}

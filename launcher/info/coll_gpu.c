/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --coll, device memory: makes the plans of the ranks for buffers at invented addresses,
 * which needs no device, and prints their content: the most sources of a fold and the number of
 * places to which its result is stored, copies, and barriers among the ranks.  Sizes with
 * equivalent plans share a line. */
#include "coll/gpu/plan.h"
#include "coll/select.h"
#include "launcher/info/gpus.h"
#include "launcher/info/info.h"
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MIN 8
#define BYTES_MAX (256ll << 20)
#define SHAPE_BYTES 120
/* Distance between the buffers of two ranks; half of it between the two buffers of one rank. */
#define SPACE (1ull << 36)
#define FIRST (1ull << 44)

struct question {
    struct rt_layout layout;
    struct rt_op op;
    int nranks;
    bool in_place; /* of an allreduce */
    bool direct;   /* as in struct coll_gpu_view */
    int64_t *counts, *displs, *byte_displs;
    const struct rt_layout **layouts;
    /* the view */
    char **at[COLL_GPU_RANGES];
    size_t *len[COLL_GPU_RANGES];
    uint64_t *word, *offset;  /* by rank, and by two ranks */
    const uint64_t **offsets; /* of the ranks that publish theirs */
    char *scratch[COLL_GPU_SCRATCH_MAX / COLL_GPU_SCRATCH_UNIT];
};

static char *address(int rank, int which)
{
    return (char *)(uintptr_t)(FIRST + (uint64_t)rank * SPACE + (uint64_t)which * (SPACE / 2));
}

static void fill(struct question *q, struct coll_args *a, enum coll_kind kind, int64_t bytes,
                 int rank)
{
    int64_t n = bytes / q->layout.size;
    if (coll_shape(kind, COLL_SEND) == COLL_SIDE_CUT)
        n = n > q->nranks ? n / q->nranks : 1; /* the size of these is that of the whole vector */
    for (int i = 0; i < q->nranks; i++) {
        q->counts[i] = n;
        q->displs[i] = i * n;
        q->byte_displs[i] = i * n * q->layout.size;
        q->layouts[i] = &q->layout;
    }
    bool w = coll_shape(kind, COLL_SEND) == COLL_SIDE_TYPES;
    bool v = coll_is_apart(kind, COLL_SEND) || coll_is_apart(kind, COLL_RECV);
    const int64_t *displs = w ? q->byte_displs : v ? q->displs : NULL;
    *a = (struct coll_args){ .kind = kind,
                             .sbuf = q->in_place ? COLL_IN_PLACE : address(rank, 0),
                             .rbuf = address(rank, 1),
                             .scount = n,
                             .rcount = n,
                             .stype = &q->layout,
                             .rtype = &q->layout,
                             .op = &q->op,
                             .scounts = v ? q->counts : NULL,
                             .rcounts = v || kind == COLL_REDUCE_SCATTER ? q->counts : NULL,
                             .sdispls = displs,
                             .rdispls = displs,
                             .stypes = w ? q->layouts : NULL,
                             .rtypes = w ? q->layouts : NULL,
                             .mem = RT_MEM_CUDA };
}

/* Makes the ranks' parts of a call; -RT_ENOTSUP: the call is staged through host memory. */
static int gather_parts(struct question *q, enum coll_kind kind, int64_t bytes)
{
    for (int r = 0; r < q->nranks; r++) {
        struct coll_team t = { .rank = r, .size = q->nranks, .one_node = true };
        struct coll_gpu_own own = { .scratch = 0 };
        struct coll_args a;
        fill(q, &a, kind, bytes, r);
        uint64_t *offsets = q->offset + (size_t)r * (size_t)q->nranks;
        int err = coll_gpu_own(&t, &a, &own, offsets);
        if (err)
            return err;
        for (int i = 0; i < COLL_GPU_RANGES; i++) {
            q->at[i][r] = (char *)(uintptr_t)own.at[i];
            q->len[i][r] = own.len[i];
        }
        q->word[r] = own.word;
        q->offsets[r] = own.publishes ? offsets : NULL;
    }
    return 0;
}

static int plan_of(struct question *q, enum coll_kind kind, int64_t bytes, int rank,
                   struct coll_gpu_plan *out)
{
    struct coll_args a;
    struct coll_gpu_view v = { .rank = rank,
                               .size = q->nranks,
                               .a = &a,
                               .at = { q->at[0], q->at[1] },
                               .len = { q->len[0], q->len[1] },
                               .word = q->word,
                               .offsets = q->offsets,
                               .scratch = q->scratch,
                               .kernels = true,
                               .large_pages = true,
                               .direct = q->direct };
    fill(q, &a, kind, bytes, rank);
    out->n = 0;
    return coll_gpu_make_plan(&v, out);
}

/* A summary of plans. */
struct shape {
    int sources, places; /* maxima over the folds */
    bool copies, meets;
};

static void add_plan(struct shape *h, const struct coll_gpu_plan *p)
{
    for (int i = 0; i < p->n; i++) {
        const struct coll_gpu_step *s = &p->step[i];
        bool copy = s->verb == COLL_GPU_COPY ||
                    (s->verb == COLL_GPU_FOLD &&
                     (s->fold.code == RT_GPU_FOLD_COPY || s->fold.code == RT_GPU_FOLD_EACH));
        bool fold = s->verb == COLL_GPU_FOLD && !copy;
        if (fold && s->fold.nsrc > h->sources)
            h->sources = s->fold.nsrc;
        if (fold && s->fold.ndst > h->places)
            h->places = s->fold.ndst;
        h->copies |= copy;
        h->meets |= !copy && !fold;
    }
}

static int add_all(struct question *q, enum coll_kind kind, int64_t bytes,
                   struct coll_gpu_plan *plan, struct shape *h)
{
    int err = gather_parts(q, kind, bytes);
    for (int r = 0; r < q->nranks && !err; r++) {
        err = plan_of(q, kind, bytes, r, plan);
        if (!err)
            add_plan(h, plan);
    }
    return err;
}

/* "fold 8 into 1, copies, barriers" */
static void describe(const struct shape *h, char *text, size_t len)
{
    int at = 0;
    text[0] = '\0';
    if (h->sources)
        at = snprintf(text, len, "fold %d into %d", h->sources, h->places);
    if (h->copies)
        at += snprintf(text + at, len - (size_t)at, "%scopies", at ? ", " : "");
    if (h->meets)
        at += snprintf(text + at, len - (size_t)at, "%sbarriers", at ? ", " : "");
    if (!at)
        snprintf(text, len, "nothing");
}

/* Whether WEFT_COLL selects an algorithm that sends messages. */
static bool by_messages(struct question *q, enum coll_kind kind, int64_t bytes, char *shape)
{
    struct coll_team t = { .rank = 0, .size = q->nranks };
    struct coll_args a;
    const char *why;
    fill(q, &a, kind, bytes, 0);
    a.mem = RT_MEM_HOST;
    if (!coll_forces_messages(&t, &a))
        return false;
    snprintf(shape, SHAPE_BYTES, "messages: %s", coll_choose(&t, &a, false, &why)->name);
    return true;
}

static void shape_of(struct question *q, enum coll_kind kind, int64_t bytes,
                     struct coll_gpu_plan *plan, char *shape, const char **why)
{
    char steps[SHAPE_BYTES / 2];
    if (by_messages(q, kind, bytes, shape)) {
        *why = "forced by WEFT_COLL";
        return;
    }
    struct shape all = { 0 };
    int err = add_all(q, kind, bytes, plan, &all);
    *why = "cost of links and launches";
    if (err == -RT_ENOTSUP) {
        snprintf(shape, SHAPE_BYTES, "through host memory");
        *why = "no plan for it";
        return;
    }
    if (err) {
        snprintf(shape, SHAPE_BYTES, "no plan: %s", rt_err_text(err));
        return;
    }
    describe(&all, steps, sizeof steps);
    if (kind == COLL_ALLREDUCE) {
        coll_choose_gpu(kind, q->nranks, bytes, q->direct, why);
        enum coll_gpu_way way = coll_gpu_allreduce_way(q->nranks, bytes, q->in_place, true,
                                                       q->direct);
        snprintf(shape, SHAPE_BYTES, "%s: %s", coll_gpu_algs[way - 1].name, steps);
    } else {
        snprintf(shape, SHAPE_BYTES, "%s", steps);
    }
}

static void print_range(const char *name, int64_t from, int64_t to, const char *shape,
                        const char *why)
{
    char low[32], high[32], range[72] = "any size";
    if (from > BYTES_MIN && to >= BYTES_MAX)
        snprintf(range, sizeof range, "from %s", info_bytes((size_t)from, low, sizeof low));
    else if (to < BYTES_MAX)
        snprintf(range, sizeof range, "%s to %s", info_bytes((size_t)from, low, sizeof low),
                 info_bytes((size_t)to, high, sizeof high));
    printf("  %-22s %-22s %-44s %s\n", name, range, shape, why);
}

static void show_kind(struct question *q, enum coll_kind kind, struct coll_gpu_plan *plan)
{
    char shape[SHAPE_BYTES], last[SHAPE_BYTES] = "";
    const char *why = "", *last_why = "";
    const char *name = q->in_place ? "allreduce in place" : coll_kind_names[kind];
    int64_t from = BYTES_MIN, to = BYTES_MIN;

    for (int64_t bytes = BYTES_MIN; bytes <= BYTES_MAX; bytes *= 2) {
        shape_of(q, kind, bytes, plan, shape, &why);
        if (*last && (strcmp(shape, last) || strcmp(why, last_why))) {
            print_range(name, from, to, last, last_why);
            from = bytes;
        }
        memcpy(last, shape, sizeof last);
        last_why = why;
        to = bytes;
    }
    print_range(name, from, to, last, last_why);
}

/* Returns 0, or -1: out of memory. */
static int open_question(struct question *q)
{
    size_t n = (size_t)q->nranks;
    q->op = (struct rt_op){ .code = RT_OP_SUM, .commutes = true };
    q->counts = calloc(3 * n, sizeof *q->counts);
    q->layouts = calloc(n, sizeof *q->layouts);
    q->word = calloc(n, sizeof *q->word);
    q->offsets = calloc(n, sizeof *q->offsets);
    q->offset = calloc(n * n, sizeof *q->offset);
    bool bad = !q->counts || !q->layouts || !q->word || !q->offsets || !q->offset;
    for (int i = 0; i < COLL_GPU_RANGES; i++) {
        q->at[i] = calloc(n, sizeof *q->at[i]);
        q->len[i] = calloc(n, sizeof *q->len[i]);
        bad |= !q->at[i] || !q->len[i];
    }
    if (bad || rt_layout_basic(&q->layout, sizeof(double), sizeof(double), RT_ELEM_F64) < 0)
        return -1;
    q->displs = q->counts + n;
    q->byte_displs = q->displs + n;
    for (size_t i = 0; i < sizeof q->scratch / sizeof q->scratch[0]; i++)
        q->scratch[i] = (char *)(uintptr_t)(FIRST / 2 + i * COLL_GPU_SCRATCH_UNIT);
    return 0;
}

static void close_question(struct question *q)
{
    for (int i = 0; i < COLL_GPU_RANGES; i++) {
        free(q->at[i]);
        free(q->len[i]);
    }
    free(q->offset);
    free(q->offsets);
    free(q->word);
    free(q->layouts);
    free(q->counts);
    rt_layout_fini(&q->layout);
}

/* Finds the kind of link between the devices of this host, one device for each rank; for mixed
 * kinds the plans assume a switch. */
static bool find_links(int nranks)
{
    const struct info_gpus *g = info_gpus();
    enum rt_gpu_links first = RT_GPU_LINKS_UNKNOWN;
    bool mixed = false;
    for (int i = 0; i < g->n; i++) {
        enum rt_gpu_links links = rt_gpu_links_at(&g->dev[i]);
        mixed = mixed || (i > 0 && links != first);
        first = i ? first : links;
    }
    bool direct = !mixed && nranks > 2 && rt_gpu_links_are_direct(first);
    printf("  links between devices: %s; copies to several go %s, rows CUDA and %s of the table\n",
           mixed ? "of several kinds" : rt_gpu_links_names[first],
           direct ? "at the same time" : "one after another",
           direct ? "CUDA_DIRECT" : "CUDA_SWITCH");
    return direct;
}

int info_coll_gpu(int nranks)
{
    struct question q = { .nranks = nranks };
    struct coll_gpu_plan plan = { 0 };
    int bad = 0;

    printf("\nIf all buffers are device memory that the devices of all ranks can access "
           "(otherwise through host memory, as above):\n");
    if (nranks < 2 || nranks > COLL_GPU_RANKS_MAX) {
        printf("  plans are made for 2 to %d ranks\n", COLL_GPU_RANKS_MAX);
        return 0;
    }
    q.direct = find_links(nranks);
    bad = open_question(&q);
    if (!bad) {
        printf("  %-22s %-22s %-44s %s\n", "collective", "bytes", "what devices do", "because");
        for (int kind = COLL_BCAST; kind < COLL_NEIGHBOR_ALLGATHER; kind++) {
            show_kind(&q, (enum coll_kind)kind, &plan);
            q.in_place = kind == COLL_ALLREDUCE;
            if (q.in_place)
                show_kind(&q, COLL_ALLREDUCE, &plan);
            q.in_place = false;
        }
        printf("  %-22s %-22s %-44s %s\n", "neighbor_...", "any size",
               "messages from device to device", "no rank has the keys of all buffers");
    }
    coll_gpu_free_plan(&plan);
    close_question(&q);
    return bad ? 1 : 0;
}

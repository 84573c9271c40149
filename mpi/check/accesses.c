/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/check/accesses.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16384 /* accesses of a process in an epoch */
#define TEXT 120

/* A message: this, the texts of its calls, its accesses. */
struct head {
    int32_t n, ncalls;
};

/* By MPI-5.0 section 12.7 the outcome of these is undefined.  What a process does in its own memory
 * is in the order of the program. */
static const bool conflicts[CHECK_ACCESS_KINDS][CHECK_ACCESS_KINDS] = {
    [CHECK_GET] = { [CHECK_PUT] = true, [CHECK_ACC] = true, [CHECK_STORE] = true },
    [CHECK_PUT] = { true, true, true, true, true },
    [CHECK_ACC] = { [CHECK_GET] = true,
                    [CHECK_PUT] = true,
                    [CHECK_LOAD] = true,
                    [CHECK_STORE] = true },
    [CHECK_LOAD] = { [CHECK_PUT] = true, [CHECK_ACC] = true },
    [CHECK_STORE] = { [CHECK_GET] = true, [CHECK_PUT] = true, [CHECK_ACC] = true },
};
static const char *const verbs[] = { "reads", "writes", "changes", "reads", "writes" };

/* ---- collecting ---- */

static int call_number(struct check_accesses *all)
{
    struct check_place here = check_here();
    for (int i = 0; i < all->ncalls; i++)
        if (all->call[i].pc == here.pc && all->call[i].inner == here.inner)
            return i;
    if (all->ncalls == CHECK_CALLS)
        return CHECK_CALLS - 1;
    all->call[all->ncalls] = here;
    return all->ncalls++;
}

/* A loop over a row, or over the same bytes again: one access.  Overlaps of two writes stay. */
static bool joins(struct check_access *last, const struct check_access *x)
{
    bool reads = x->kind == CHECK_GET || x->kind == CHECK_LOAD;
    if (last->target != x->target || last->kind != x->kind || last->place != x->place)
        return false;
    if (reads ? x->low > last->high || x->high < last->low : x->low != last->high)
        return false;
    last->low = x->low < last->low ? x->low : last->low;
    last->high = x->high > last->high ? x->high : last->high;
    return true;
}

void check_access_add(struct check_accesses *all, int target, enum check_access_kind kind,
                      int64_t low, int64_t high)
{
    struct check_access x = { .target = target, .kind = (uint16_t)kind, .low = low, .high = high };
    if (low >= high || all->n == MOST)
        return;
    x.place = (uint16_t)call_number(all);
    if (all->n && joins(&all->v[all->n - 1], &x))
        return;
    if (all->n == all->cap) {
        int cap = all->cap ? 2 * all->cap : 16;
        struct check_access *v = realloc(all->v, (size_t)cap * sizeof *v);
        if (!v)
            check_no_memory();
        all->v = v;
        all->cap = cap;
    }
    all->v[all->n++] = x;
}

void *check_accesses_take(struct check_accesses *all, size_t room, size_t *nbytes)
{
    if (!all->n)
        return NULL;
    struct head h = { all->n, all->ncalls };
    size_t texts = (size_t)all->ncalls * TEXT, accesses = (size_t)all->n * sizeof all->v[0];
    char *message = calloc(1, room + sizeof h + texts + accesses), *to = message + room;
    if (!message)
        check_no_memory();
    memcpy(to, &h, sizeof h);
    for (int i = 0; i < all->ncalls; i++)
        check_place_text(&all->call[i], to + sizeof h + i * TEXT, TEXT);
    memcpy(to + sizeof h + texts, all->v, accesses);
    *nbytes = sizeof h + texts + accesses;
    free(all->v);
    *all = (struct check_accesses){ 0 };
    return message;
}

/* ---- comparing ---- */

struct found {
    struct check_access x;
    int origin;
    const char *call;
};

static int by_place(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->x.target != y->x.target)
        return x->x.target < y->x.target ? -1 : 1;
    if (x->x.low != y->x.low)
        return x->x.low < y->x.low ? -1 : 1;
    return (x->origin > y->origin) - (x->origin < y->origin);
}

/* All accesses, by target and first byte; malloc'ed. */
static struct found *sorted(const void *const *message, int n, size_t *total)
{
    struct head h;
    size_t m = 0;
    for (int i = 0; i < n; i++)
        if (message[i]) {
            memcpy(&h, message[i], sizeof h);
            m += (size_t)h.n;
        }
    struct found *all = malloc((m + 1) * sizeof *all);
    if (!all)
        check_no_memory();
    *total = m;
    m = 0;
    for (int i = 0; i < n; i++) {
        if (!message[i])
            continue;
        memcpy(&h, message[i], sizeof h);
        const char *texts = (const char *)message[i] + sizeof h;
        for (int k = 0; k < h.n; k++, m++) {
            struct found *f = &all[m];
            memcpy(&f->x, texts + (size_t)h.ncalls * TEXT + (size_t)k * sizeof f->x, sizeof f->x);
            f->origin = i;
            f->call = texts + f->x.place * TEXT;
        }
    }
    qsort(all, m, sizeof *all, by_place);
    return all;
}

static void describe(const struct found *a, const struct found *b, char *text, size_t len)
{
    int64_t high = a->x.high < b->x.high ? a->x.high : b->x.high;
    snprintf(text, len,
             "conflicting accesses in the epoch that it ends, to %lld bytes from byte %lld on of "
             "the memory of rank %d: rank %d %s them in %s, rank %d %s them in %s",
             (long long)(high - b->x.low), (long long)b->x.low, a->x.target, a->origin,
             verbs[a->x.kind], a->call, b->origin, verbs[b->x.kind], b->call);
}

/* Of the accesses that begin before another one, that of each kind with the last end is enough. */
bool check_accesses_conflict(const void *const *message, int n, char *text, size_t len)
{
    const struct found *last[CHECK_ACCESS_KINDS] = { NULL }, *with = NULL;
    size_t total;
    struct found *all = sorted(message, n, &total);
    for (size_t i = 0; i < total && !with; i++) {
        const struct found *f = &all[i];
        for (int k = 0; k < CHECK_ACCESS_KINDS && !with; k++)
            if (last[k] && last[k]->x.target == f->x.target && last[k]->x.high > f->x.low &&
                conflicts[k][f->x.kind])
                with = last[k];
        if (with)
            describe(with, f, text, len);
        const struct found **l = &last[f->x.kind];
        if (!*l || (*l)->x.target != f->x.target || (*l)->x.high < f->x.high)
            *l = f;
    }
    free(all);
    return with != NULL;
}

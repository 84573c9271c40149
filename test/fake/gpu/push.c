/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: weft_push_*, as runtime/gpu/push_kernels.h describes them.  Words reach the
 * other inboxes one at a time, in random order, those of different ranks mixed, and sometimes
 * late. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "test/fake/gpu/fake.h"

#define BLOCK 4096 /* bytes reduced at a time: whole elements of every type */

struct pushing {
    const struct rt_gpu_push *k;
    enum fake_fold which;
    cu_ctx ctx;
    uint32_t number, slot, rng;
    uint32_t *epochs, *ended, *runs, *poison;
    struct rt_gpu_meet_words *words;
    char *inbox[RT_GPU_PUSH_RANKS]; /* the slot of this call */
    uint64_t *marks[RT_GPU_PUSH_RANKS];
    struct fake_phys *pins[5 + 2 * RT_GPU_PUSH_RANKS];
    int npins;
};

static uint32_t rnd(struct pushing *m, uint32_t n)
{
    m->rng = m->rng * 1664525u + 1013904223u;
    return (m->rng >> 8) % n;
}

static void *pin(struct pushing *m, uint64_t addr, size_t len)
{
    struct fake_phys *phys;
    char *p = addr & 7 && len > 4 ? NULL : fake_pin(m->ctx, addr, len, FAKE_BY_KERNEL, &phys);

    if (p)
        m->pins[m->npins++] = phys;
    return p;
}

static bool pin_all(struct pushing *m)
{
    const struct rt_gpu_push *k = m->k;
    unsigned r;

    m->epochs = pin(m, k->epochs, 4);
    m->ended = pin(m, k->ended, 4);
    m->runs = pin(m, k->runs, 4);
    m->poison = pin(m, k->of[k->rank].poison, 4);
    m->words = pin(m, k->words, sizeof *m->words);
    if (!m->epochs || !m->ended || !m->runs || !m->poison || !m->words || *m->ended)
        return false;
    m->number = *m->epochs + 1;
    m->slot = m->number & 1;
    m->rng = m->number * 77u + k->rank;
    for (r = 0; r < k->size && k->size > 1; r++) {
        m->inbox[r] = pin(m, k->of[r].inbox + (uint64_t)m->slot * k->slot, k->slot);
        m->marks[r] = pin(m, k->of[r].marks + m->slot * 8 * RT_GPU_PUSH_RANKS,
                          8 * RT_GPU_PUSH_RANKS);
        if (!m->inbox[r] || !m->marks[r])
            return false;
    }
    return true;
}

/* Conditions that the host must guarantee. */
static bool is_sound(const struct rt_gpu_push *k, enum fake_fold which)
{
    unsigned r, nregions = k->size - 1u;

    if ((!k->folds && which != FAKE_FOLD_BITS) || !k->size || k->size > RT_GPU_PUSH_RANKS ||
        k->rank >= k->size || k->slot % 32 || k->stride % RT_GPU_PUSH_ROOM ||
        (uint64_t)nregions * k->stride > k->slot)
        return false;
    for (r = 0; r < k->size; r++)
        if (k->of[r].send > k->stride / 2 || k->of[r].receive > k->stride / 2)
            return false;
    return true;
}

static uint64_t *region(const struct pushing *m, unsigned from, unsigned to)
{
    return (void *)(m->inbox[to] + (size_t)(from < to ? from : from - 1) * m->k->stride);
}

static bool given_up(const struct pushing *m)
{
    return __atomic_load_n(m->poison, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&m->words->abort, __ATOMIC_ACQUIRE);
}

/* ---- sending ---- */

static uint32_t ngroups(uint32_t nbytes)
{
    return (nbytes + RT_GPU_PUSH_GROUP - 1) / RT_GPU_PUSH_GROUP;
}

struct word {
    uint64_t *at, v;
};

static int words_for(struct pushing *m, unsigned to, struct word *out, size_t *n)
{
    const struct rt_gpu_push_rank *of = &m->k->of[to];
    uint32_t i, nwords = 4 * ngroups(of->send), data;
    char *buf = calloc(nwords ? nwords : 1, 4);
    int err = buf ? fake_carry(m->ctx, of->src, buf, of->send, false) : CU_ERROR_OUT_OF_MEMORY;

    for (i = 0; i < nwords && !err; i++) {
        uint64_t *at = region(m, m->k->rank, to) + i;
        memcpy(&data, buf + 4 * (size_t)i, 4);
        out[(*n)++] = (struct word){ at, (uint64_t)m->number << 32 | data };
    }
    free(buf);
    return err;
}

static void store_shuffled(struct pushing *m, struct word *w, size_t n)
{
    struct word other;
    uint32_t at;
    size_t i;

    for (i = n; i > 1; i--) {
        at = rnd(m, (uint32_t)i);
        other = w[at];
        w[at] = w[i - 1];
        w[i - 1] = other;
    }
    for (i = 0; i < n; i++) {
        if (rnd(m, 64) == 0)
            sched_yield();
        else if (rnd(m, 4096) == 0)
            fake_nap_us(100);
        __atomic_store_n(w[i].at, w[i].v, __ATOMIC_RELEASE);
    }
}

static int send_all(struct pushing *m)
{
    const struct rt_gpu_push *k = m->k;
    size_t room = RT_GPU_PUSH_RANKS, n = 0;
    unsigned r;
    int err = 0;
    struct word *w;

    for (r = 0; r < k->size; r++)
        room += 4 * (size_t)ngroups(k->of[r].send);
    w = malloc(room * sizeof *w);
    if (!w)
        return CU_ERROR_OUT_OF_MEMORY;
    for (r = 0; r < k->size && !err; r++) {
        if (r == k->rank)
            continue;
        w[n++] = (struct word){ m->marks[r] + k->rank, (uint64_t)m->number << 32 | k->signature };
        err = words_for(m, r, w, &n);
    }
    if (!err)
        store_shuffled(m, w, n);
    free(w);
    return err;
}

/* ---- receiving ---- */

/* 1: the word has come; 0: this rank gives up. */
static int await_word(struct pushing *m, const uint64_t *at, uint64_t *out)
{
    int polls;

    for (polls = 0;; polls++) {
        *out = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if ((uint32_t)(*out >> 32) == m->number)
            return 1;
        if (given_up(m))
            return 0;
        if (polls < 100)
            sched_yield();
        else
            fake_nap_us(50);
    }
}

static int await_marks(struct pushing *m)
{
    const struct rt_gpu_push *k = m->k;
    uint64_t v;
    unsigned r;

    for (r = 0; r < k->size; r++) {
        if (r == k->rank)
            continue;
        if (!await_word(m, m->marks[k->rank] + r, &v))
            return 0;
        if ((uint32_t)v != k->signature) {
            m->words->differs = r + 1;
            return 0;
        }
    }
    return 1;
}

/* 1; 0: gives up; or an error. */
static int take(struct pushing *m, unsigned from, char *buf, uint32_t nbytes)
{
    uint32_t i, n = 4 * ngroups(nbytes), data;
    uint64_t v;

    for (i = 0; i < n; i++) {
        if (!await_word(m, region(m, from, m->k->rank) + i, &v))
            return 0;
        data = (uint32_t)v;
        memcpy(buf + 4 * (size_t)i, &data, 4);
    }
    return 1;
}

static int fold(struct pushing *m, char *const *x, char *out, uint32_t nbytes)
{
    const struct rt_gpu_push *k = m->k;
    const char *part[RT_GPU_PUSH_RANKS];
    uint32_t at;
    unsigned r;
    int err = 0;

    for (at = 0; at < nbytes && !err; at += BLOCK) {
        for (r = 0; r < k->size; r++)
            part[r] = x[r] + at;
        err = fake_fold_rows(m->which, k, part, out + at,
                             nbytes - at < BLOCK ? nbytes - at : BLOCK);
    }
    return err;
}

/* Room for a block of every rank, rounded up to groups, and for a result. */
static char *make_rows(const struct rt_gpu_push *k, char **x)
{
    size_t each = k->stride / 2 + RT_GPU_PUSH_GROUP;
    char *room = calloc(RT_GPU_PUSH_RANKS + 1, each);
    unsigned r;

    for (r = 0; room && r <= RT_GPU_PUSH_RANKS; r++)
        x[r] = room + r * each;
    return room;
}

static int receive_all(struct pushing *m, char **x)
{
    const struct rt_gpu_push *k = m->k;
    const struct rt_gpu_push_rank *own = &k->of[k->rank];
    int rc = 1;
    unsigned r;

    for (r = 0; r < k->size && rc == 1; r++)
        if (r != k->rank && (k->folds ? own->receive : k->of[r].receive))
            rc = take(m, r, x[r], k->folds ? own->receive : k->of[r].receive);
    if (rc != 1)
        return rc;
    if (k->folds && own->receive) {
        rc = fold(m, x, x[RT_GPU_PUSH_RANKS], own->receive);
        if (!rc)
            rc = fake_carry(m->ctx, own->dst, x[RT_GPU_PUSH_RANKS], own->receive, true);
    } else {
        rc = !k->folds && own->send ? fake_carry(m->ctx, own->dst, x[k->rank], own->send, true) : 0;
        for (r = 0; r < k->size && !rc && !k->folds; r++)
            if (r != k->rank)
                rc = fake_carry(m->ctx, k->of[r].dst, x[r], k->of[r].receive, true);
    }
    return rc ? rc : 1;
}

/* ---- the whole kernel ---- */

/* The own block is read before anything is written. */
static int exchange(struct pushing *m)
{
    const struct rt_gpu_push *k = m->k;
    const struct rt_gpu_push_rank *own = &k->of[k->rank];
    char *x[RT_GPU_PUSH_RANKS + 1], *room = make_rows(k, x);
    int rc = room ? 0 : CU_ERROR_OUT_OF_MEMORY;

    if (!rc)
        rc = fake_carry(m->ctx, own->src, x[k->rank], k->folds ? own->receive : own->send, false);
    if (!rc)
        rc = send_all(m);
    if (!rc)
        rc = await_marks(m);
    if (rc == 1)
        rc = receive_all(m, x);
    free(room);
    return rc;
}

static int give_up(struct pushing *m)
{
    struct fake_phys *phys;
    unsigned r;
    char *p;

    for (r = 0; r < m->k->size; r++) {
        p = fake_pin(m->ctx, m->k->of[r].poison, 4, FAKE_BY_KERNEL, &phys);
        if (!p)
            return CU_ERROR_ILLEGAL_ADDRESS;
        __atomic_store_n((uint32_t *)(void *)p, 1u, __ATOMIC_RELEASE);
        fake_unpin(phys);
    }
    __atomic_store_n(&m->words->failed, 1u, __ATOMIC_RELEASE);
    return 0;
}

static int run(struct pushing *m)
{
    const struct rt_gpu_push *k = m->k;
    uint32_t run = *m->runs + 1;
    int rc;

    __atomic_store_n(&m->words->begun, run, __ATOMIC_RELEASE);
    rc = k->gives_up ? 0 : exchange(m);
    rc = rc == 0 ? give_up(m) : rc == 1 ? 0 : rc;
    *m->epochs = m->number;
    *m->runs = run;
    if (k->ticket)
        __atomic_store_n(&m->words->ended, k->ticket, __ATOMIC_RELEASE);
    __atomic_store_n(&m->words->over, run, __ATOMIC_RELEASE);
    return rc;
}

int fake_run_push(struct fake_op *op, enum fake_fold which)
{
    struct pushing m = { .k = (const void *)op->params, .which = which, .ctx = op->stream->ctx };
    int err = is_sound(m.k, which) && pin_all(&m) ? 0 : CU_ERROR_ILLEGAL_ADDRESS;

    if (!err)
        err = run(&m);
    while (m.npins)
        fake_unpin(m.pins[--m.npins]);
    return err;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: weft_push_* and weft_message, as runtime/gpu/push_kernels.h describes them.
 * Words reach the other inboxes one at a time, in random order, those of different ranks mixed, and
 * sometimes late. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "test/fake/gpu/fake.h"

#define BLOCK 4096 /* bytes reduced at a time: whole elements of every type */

struct pushing {
    const struct rt_gpu_push *k; /* NULL: a message */
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
        w[n++] = (struct word){ m->marks[r] + k->rank,
                                (uint64_t)m->number << 32 |
                                    RT_GPU_PUSH_SIGNATURE(k, k->of[r].send) };
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
        if ((uint32_t)v != RT_GPU_PUSH_SIGNATURE(k, k->of[r].receive)) {
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

static int poison_all(cu_ctx ctx, const uint64_t *at, unsigned n, struct rt_gpu_meet_words *words)
{
    struct fake_phys *phys;
    unsigned r;
    char *p;

    for (r = 0; r < n; r++) {
        p = fake_pin(ctx, at[r], 4, FAKE_BY_KERNEL, &phys);
        if (!p)
            return CU_ERROR_ILLEGAL_ADDRESS;
        __atomic_store_n((uint32_t *)(void *)p, 1u, __ATOMIC_RELEASE);
        fake_unpin(phys);
    }
    __atomic_store_n(&words->failed, 1u, __ATOMIC_RELEASE);
    return 0;
}

static int give_up(struct pushing *m)
{
    uint64_t at[RT_GPU_PUSH_RANKS];
    unsigned r;

    for (r = 0; r < m->k->size; r++)
        at[r] = m->k->of[r].poison;
    return poison_all(m->ctx, at, m->k->size, m->words);
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

/* ---- messages ---- */

/* An empty message is one group, too. */
static uint32_t nwords_of(const struct rt_gpu_message *k)
{
    return k->nbytes ? 4 * ngroups(k->nbytes) : 4;
}

static bool pin_message(struct pushing *m, const struct rt_gpu_message *k)
{
    m->epochs = pin(m, k->epochs, 4);
    m->ended = pin(m, k->ended, 4);
    m->runs = pin(m, k->runs, 4);
    m->poison = pin(m, k->poison, 4);
    m->words = pin(m, k->words, sizeof *m->words);
    m->inbox[0] = pin(m, k->slot, k->room);
    m->marks[0] = pin(m, k->credit, 4);
    return m->epochs && m->ended && m->runs && m->poison && m->words && m->inbox[0] &&
           m->marks[0] && !*m->ended && 8 * nwords_of(k) <= k->room && k->keep <= k->nbytes &&
           k->room % RT_GPU_PUSH_ROOM == 0;
}

/* 1; 0: gives up. */
static int await_credit(struct pushing *m)
{
    const uint32_t *credit = (const void *)m->marks[0];

    while ((int32_t)(__atomic_load_n(credit, __ATOMIC_ACQUIRE) - (m->number - 1)) < 0) {
        if (given_up(m))
            return 0;
        fake_nap_us(20);
    }
    return 1;
}

static int put_message(struct pushing *m, const struct rt_gpu_message *k)
{
    uint32_t i, n = nwords_of(k), data;
    char *buf = calloc(n, 4);
    struct word *w = malloc(n * sizeof *w);
    int rc = buf && w ? fake_carry(m->ctx, k->data, buf, k->nbytes, false) : CU_ERROR_OUT_OF_MEMORY;

    if (!rc)
        rc = await_credit(m);
    for (i = 0; i < n && rc == 1; i++) {
        memcpy(&data, buf + 4 * (size_t)i, 4);
        w[i] = (struct word){ (uint64_t *)(void *)m->inbox[0] + i,
                              (uint64_t)m->number << 32 | data };
    }
    if (rc == 1)
        store_shuffled(m, w, n);
    free(w);
    free(buf);
    return rc;
}

static int take_message(struct pushing *m, const struct rt_gpu_message *k)
{
    uint32_t i, n = nwords_of(k), data;
    char *buf = malloc(4 * (size_t)n);
    uint64_t v;
    int rc = buf ? 1 : CU_ERROR_OUT_OF_MEMORY;

    for (i = 0; i < n && rc == 1; i++) {
        rc = await_word(m, (const uint64_t *)(const void *)m->inbox[0] + i, &v);
        data = (uint32_t)v;
        memcpy(buf + 4 * (size_t)i, &data, 4);
    }
    if (rc == 1 && k->keep && fake_carry(m->ctx, k->data, buf, k->keep, true))
        rc = CU_ERROR_ILLEGAL_ADDRESS;
    if (rc == 1)
        __atomic_store_n((uint32_t *)(void *)m->marks[0], m->number, __ATOMIC_RELEASE);
    free(buf);
    return rc;
}

static int run_message(struct pushing *m, const struct rt_gpu_message *k)
{
    uint32_t run = *m->runs + 1;
    int rc;

    m->number = *m->epochs + 1;
    m->rng = m->number * 77u + (uint32_t)k->slot;
    __atomic_store_n(&m->words->begun, run, __ATOMIC_RELEASE);
    rc = k->sends ? put_message(m, k) : take_message(m, k);
    rc = rc == 0 ? poison_all(m->ctx, k->poison_of, k->nranks, m->words) : rc == 1 ? 0 : rc;
    *m->epochs = m->number;
    *m->runs = run;
    if (k->ticket)
        __atomic_store_n(&m->words->ended, k->ticket, __ATOMIC_RELEASE);
    __atomic_store_n(&m->words->over, run, __ATOMIC_RELEASE);
    return rc;
}

int fake_run_message(struct fake_op *op)
{
    const struct rt_gpu_message *k = (const void *)op->params;
    struct pushing m = { .ctx = op->stream->ctx };
    int err = pin_message(&m, k) ? 0 : CU_ERROR_ILLEGAL_ADDRESS;

    if (!err)
        err = run_message(&m, k);
    while (m.npins)
        fake_unpin(m.pins[--m.npins]);
    return err;
}

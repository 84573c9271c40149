/* SPDX-License-Identifier: BSD-3-Clause */
/* The buffers of all ranks in a call: how a rank describes its own, and finds the others'. */
#include "coll/gpu/ranges.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base/err.h"

int coll_gpu_ranges_init(struct coll_gpu_ranges *r, struct coll_team *t, size_t before,
                         size_t nbytes)
{
    enum { ARRAYS = 3 + 2 * COLL_GPU_RANGES };
    size_t n = (size_t)t->size;
    r->team = t;
    r->stride = before + nbytes;
    if (r->word)
        return 0;
    r->word = calloc(n, ARRAYS * sizeof *r->word + r->stride);
    if (!r->word)
        return -RT_ENOMEM;
    r->offsets = (const uint64_t **)(void *)(r->word + n);
    for (size_t w = 0; w < COLL_GPU_RANGES; w++) {
        r->at[w] = (char **)(void *)(r->word + (2 + w) * n);
        r->len[w] = (size_t *)(void *)(r->word + (2 + COLL_GPU_RANGES + w) * n);
    }
    r->worker = (int *)(void *)(r->word + (ARRAYS - 1) * n);
    r->posts = (char *)(r->word + ARRAYS * n) + before;
    return 0;
}

void coll_gpu_ranges_fini(struct coll_gpu_ranges *r)
{
    free(r->word);
    r->word = NULL;
}

/* ---- this rank's buffers ---- */

int coll_gpu_ranges_describe(struct coll_gpu_ranges *r, const struct coll_args *a)
{
    struct coll_gpu_post *post = coll_gpu_post_of(r, r->team->rank);
    int err = coll_gpu_own(r->team, a, &r->own, post->offsets);
    post->has = post->pages = post->direct = post->staged = 0;
    post->turns = 0;
    post->publishes = r->own.publishes;
    post->word = r->own.word;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        post->len[w] = r->own.len[w];
        post->has |= (uint32_t)(r->own.at[w] != NULL) << w;
    }
    return err;
}

int coll_gpu_range_register(struct coll_gpu_ranges *r, enum coll_gpu_range w)
{
    char *key = coll_gpu_post_of(r, r->team->rank)->key[w];
    struct coll_dev_mem *m = &r->mem[w];
    int err = r->team->ops->dev_describe(r->team, r->own.at[w], r->own.len[w], m);
    if (err < 0)
        return err;
    bool other = memcmp(key, m->key, COLL_DEV_KEY) != 0;
    memcpy(key, m->key, COLL_DEV_KEY);
    coll_gpu_post_of(r, r->team->rank)->turns = m->turns;
    return other;
}

void coll_gpu_ranges_release(struct coll_gpu_ranges *r)
{
    for (int w = 0; w < COLL_GPU_RANGES; w++)
        if (r->mem[w].reg) {
            r->team->ops->dev_release(r->team, &r->mem[w]);
            r->mem[w].reg = NULL;
        }
    r->near = NULL;
}

/* ---- all ranks' buffers ---- */

/* The first rank whose device is rank i's, if processes take turns on it. */
static int worker_of(const struct coll_gpu_ranges *r, int i)
{
    uint64_t turns = coll_gpu_post_of(r, i)->turns;
    int w = turns ? 0 : i;
    while (coll_gpu_post_of(r, w)->turns != turns)
        w++;
    return w;
}

void coll_gpu_ranges_read(struct coll_gpu_ranges *r)
{
    r->in_place = r->in_turns = false;
    r->large_pages = r->direct = true;
    for (int i = 0; i < r->team->size; i++) {
        const struct coll_gpu_post *post = coll_gpu_post_of(r, i);
        for (int w = 0; w < COLL_GPU_RANGES; w++)
            r->len[w][i] = post->len[w];
        r->word[i] = post->word;
        r->in_place |= post->word & COLL_GPU_IN_PLACE || post->staged;
        r->offsets[i] = post->publishes ? post->offsets : NULL;
        r->large_pages &= !(post->has & ~post->pages & 1u << COLL_GPU_RECV);
        r->direct &= post->direct || !post->has;
        r->worker[i] = worker_of(r, i);
        r->in_turns |= r->worker[i] != i;
    }
}

/* The address of ranges on a rank without buffers of its own, which has no device and no work: only
 * whether a range exists matters. */
#define SOMEWHERE ((char *)COLL_GPU_RANGES)

int coll_gpu_ranges_attach(struct coll_gpu_ranges *r,
                           int (*attach)(void *arg, enum coll_gpu_range w, int rank, char **at),
                           void *arg)
{
    bool moved = false;
    for (int i = 0; i < r->team->size; i++)
        for (int w = 0; w < COLL_GPU_RANGES; w++) {
            char *was = r->at[w][i];
            int err = 0;
            if (!(coll_gpu_post_of(r, i)->has & 1u << w))
                r->at[w][i] = NULL;
            else if (!r->near)
                r->at[w][i] = SOMEWHERE;
            else if (i == r->team->rank && r->mem[w].at.g == r->near->g)
                r->at[w][i] = (char *)(uintptr_t)r->own.at[w];
            else
                err = attach(arg, (enum coll_gpu_range)w, i, &r->at[w][i]);
            if (err < 0)
                return err;
            moved |= was != r->at[w][i];
        }
    return moved;
}

struct coll_gpu_view coll_gpu_ranges_view(const struct coll_gpu_ranges *r,
                                          const struct coll_args *a)
{
    return (struct coll_gpu_view){ .rank = r->team->rank,
                                   .size = r->team->size,
                                   .a = a,
                                   .at = { r->at[COLL_GPU_SEND], r->at[COLL_GPU_RECV] },
                                   .len = { r->len[COLL_GPU_SEND], r->len[COLL_GPU_RECV] },
                                   .word = r->word,
                                   .offsets = r->offsets,
                                   .large_pages = r->large_pages,
                                   .direct = r->direct,
                                   .worker = r->in_turns ? r->worker : NULL };
}

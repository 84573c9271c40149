/* SPDX-License-Identifier: BSD-3-Clause */
/* The board on which the ranks of a host agree on calls; board.h has the rules and their proof. */
#include "coll/board.h"

#include <stdlib.h>
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/kernel.h"
#include "runtime/mem/deaths.h"

static const int entries_of[COLL_BOARD_ROWS] = { COLL_BOARD_NCALLS, COLL_BOARD_NSTAYING };

size_t coll_board_nbytes(int size)
{
    return sizeof(struct coll_board_head) + (size_t)size * sizeof(struct coll_board_line);
}

static struct coll_board_line *lines_at(const void *shared)
{
    return (struct coll_board_line *)((struct coll_board_head *)(uintptr_t)shared + 1);
}

static size_t stride_of(size_t data)
{
    size_t line = RT_CACHE_LINE;
    return (sizeof(struct coll_board_entry) + data + line - 1) / line * line;
}

void coll_board_alloc(struct coll_team *t, void *shared, size_t data)
{
    struct coll_board_line *line = lines_at(shared);
    for (int r = 0; r < t->size; r++)
        for (int row = 0; row < COLL_BOARD_ROWS; row++) {
            size_t off = t->ops->shm_alloc(t, (size_t)entries_of[row] * stride_of(data));
            line[r].entries[row] = off + 1; /* SIZE_MAX: none */
        }
}

void coll_board_free(struct coll_team *t, void *shared, size_t data)
{
    struct coll_board_line *line = lines_at(shared);
    for (int r = 0; r < t->size; r++)
        for (int row = 0; row < COLL_BOARD_ROWS; row++)
            if (line[r].entries[row])
                t->ops->shm_free(t, line[r].entries[row] - 1,
                                 (size_t)entries_of[row] * stride_of(data));
}

int coll_board_init(struct coll_board *b, struct coll_team *t, size_t data)
{
    char **at = calloc(COLL_BOARD_ROWS * (size_t)t->size, sizeof *at);
    if (!at)
        return -RT_ENOMEM;
    b->team = t;
    b->data = data;
    b->stride = stride_of(data);
    for (int row = 0; row < COLL_BOARD_ROWS; row++)
        b->row[row].at = at + row * t->size;
    return 0;
}

void coll_board_attach(struct coll_board *b, void *shared)
{
    b->head = shared;
    b->line = lines_at(shared);
    b->own = &b->line[b->team->rank];
}

void coll_board_fini(struct coll_board *b)
{
    if (b->head && b->team->rank == 0)
        coll_board_free(b->team, b->head, b->data);
    free(b->row[0].at);
}

void coll_board_absent(void *shared, int rank)
{
    for (int row = 0; row < COLL_BOARD_ROWS; row++)
        rt_store_release(&lines_at(shared)[rank].voted[row], UINT64_MAX);
}

void coll_board_wake(struct coll_board *b)
{
    struct coll_team *t = b->team;
    for (int i = 0; i < t->size; i++)
        if (i != t->rank)
            t->ops->shm_wake(t, i);
}

/* ---- entries ---- */

char *coll_board_find(const struct coll_board_call *c, int rank)
{
    struct coll_board *b = c->board;
    uint64_t off = rt_load_relaxed(&b->line[rank].entries[c->row]);
    if (!off)
        return NULL;
    size_t nbytes = (size_t)entries_of[c->row] * b->stride;
    return b->row[c->row].at[rank] = b->team->ops->shm_at(b->team, rank, off - 1, nbytes);
}

static int index_of(const struct coll_board_call *c)
{
    return c->row == COLL_BOARD_CALLS ? c->slot : COLL_BOARD_NCALLS + c->slot;
}

static bool has_entries(const struct coll_board_call *c)
{
    struct coll_board *b = c->board;
    struct coll_team *t = b->team;
    if (b->own->entries[c->row] || b->row[c->row].no_memory || t->ops->one_owner)
        return b->own->entries[c->row];
    size_t off = t->ops->shm_alloc(t, (size_t)entries_of[c->row] * b->stride);
    b->row[c->row].no_memory = off == SIZE_MAX;
    if (off == SIZE_MAX) {
        log_warn(COLL, "no shared memory for collectives on device memory; they are copied through "
                       "host memory instead");
        return false;
    }
    rt_store_relaxed(&b->own->entries[c->row], off + 1); /* published with the vote */
    return true;
}

/* Whether a rank that this rank waits for has gone. */
static bool is_gone(const struct coll_board_call *c, int rank)
{
    struct coll_team *t = c->board->team;
    return rt_unlikely(rt_interrupts()) && t->ops->gone && t->ops->gone(t, rank);
}

static bool is_free(struct coll_board_call *c)
{
    struct coll_board *b = c->board;
    int i = index_of(c);
    if (b->mine[i].taken)
        return false;
    for (int r = 0; b->mine[i].left && r < b->team->size; r++) /* pairs with coll_board_publish() */
        if (rt_load_acquire(&coll_board_entry(c, r)->at) < b->mine[i].left && !is_gone(c, r))
            return false;
    b->mine[i].left = 0;
    return true;
}

/* ---- votes ---- */

void coll_board_begin(struct coll_board_call *c, struct coll_board *b, enum coll_board_row row,
                      uint64_t number)
{
    *c = (struct coll_board_call){ .board = b, .row = row, .number = number };
    c->slot = (int)(number % (uint64_t)entries_of[row]);
    c->offset = (size_t)c->slot * b->stride;
}

int coll_board_enter(struct coll_board_call *c)
{
    return !is_free(c) ? 0 : has_entries(c) ? 1 : -RT_ENOMEM;
}

void coll_board_yes(struct coll_board_call *c)
{
    struct coll_board *b = c->board;
    struct coll_board_entry *e = coll_board_entry(c, b->team->rank);
    c->yes = b->mine[index_of(c)].taken = true;
    rt_store_relaxed(&b->head->used, 1);
    rt_store_relaxed(&b->own->open, b->own->open + 1);
    rt_store_relaxed(&e->base, e->at >> 24);
    rt_store_relaxed(&e->number, c->number);
    coll_board_veto(b, c->row, c->number); /* the release store, after all stores of a yes */
}

int coll_board_all_yes(struct coll_board_call *c)
{
    for (; !c->agreed && c->counted < c->board->team->size; c->counted++) {
        const uint64_t *voted = &c->board->line[c->counted].voted[c->row];
        if (rt_load_acquire(voted) < c->number) { /* pairs with the release in coll_board_veto() */
            if (!is_gone(c, c->counted))
                return 0;
            /* Its last vote before it went counts: other ranks have read the vote and wait for this
             * rank. */
            if (rt_load_acquire(voted) < c->number)
                return -RT_EPEER;
        }
        const struct coll_board_entry *e = coll_board_entry(c, c->counted);
        if (!e || rt_load_relaxed(&e->number) != c->number)
            return -RT_ENOTSUP;
        uint64_t next = rt_load_relaxed(&e->base) + 1;
        c->round = c->round < next ? next : c->round;
    }
    c->agreed = true;
    return 1;
}

/* ---- phases ---- */

void coll_board_again(struct coll_board_call *c)
{
    c->round++;
    c->phase = 0;
    c->met = false;
    c->target = 0;
}

void coll_board_publish(struct coll_board_call *c, uint32_t phase)
{
    struct coll_board *b = c->board;
    c->phase = phase;
    rt_store_release(&coll_board_entry(c, b->team->rank)->at,
                     COLL_BOARD_AT(c->round, phase) | c->flags);
    coll_board_wake(b);
}

bool coll_board_all_at(struct coll_board_call *c, uint32_t phase)
{
    uint64_t want = COLL_BOARD_AT(c->round, phase);
    if (c->target != phase) {
        c->target = phase;
        c->counted = 0;
    }
    for (; c->counted < c->board->team->size; c->counted++) {
        const uint64_t *at_p = &coll_board_entry(c, c->counted)->at;
        uint64_t at = rt_load_acquire(at_p); /* pairs with coll_board_publish() */
        if (at < want) {
            if (!is_gone(c, c->counted))
                return false;
            at = rt_load_acquire(at_p); /* it may have reached the phase and then have left */
        }
        if (at < want) {
            c->seen |= COLL_BOARD_FAILED;
            c->err = -RT_EPEER;
        } else if (at >> 24 == c->round) {
            c->seen |= (uint32_t)at & COLL_BOARD_FLAGS;
        }
    }
    c->met = true;
    return true;
}

void coll_board_leave(struct coll_board_call *c)
{
    struct coll_board *b = c->board;
    if (!c->yes)
        return;
    c->yes = false;
    b->mine[index_of(c)].taken = false;
    if (c->agreed && c->phase && !c->met)
        b->mine[index_of(c)].left = COLL_BOARD_AT(c->round, COLL_BOARD_READY);
    rt_store_release(&b->own->open, b->own->open - 1);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared area of coll/node: layout, epochs, progress words, memory allocated later.  See node.h
 * for the rules. */
#include "coll/node/node.h"

#include <stdlib.h>
#include <string.h>
#include "coll/begin.h"
#include "coll/node/choose.h"
#include "coll/node/move.h"
#include "runtime/base/err.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/segment.h"

#define REFUSED UINT64_MAX
#define CELL_PAGES (COLL_NODE_CELLS / COLL_NODE_CELL)
const uint64_t coll_node_magic = 0x77656674636f6c6cu;

size_t coll_node_half_len(int size)
{
    size_t len = (size_t)size * COLL_NODE_HALF_PER_RANK;
    return len < COLL_NODE_HALF ? COLL_NODE_HALF : len;
}

static size_t cells_nbytes(int size) { return (size_t)size * COLL_NODE_CELLS; }

static size_t blocks_nbytes(int size) { return 2 * coll_node_half_len(size); }

static int apart_of(int size) { return size >= COLL_NODE_APART_MIN; }

static size_t nlines(int size) { return COLL_NODE_SLOTS * (size_t)size << apart_of(size); }

size_t coll_node_nbytes(int size)
{
    size_t nbytes = sizeof(struct coll_node_head) + nlines(size) * sizeof(struct coll_node_line) +
                    (size_t)size * sizeof(struct coll_node_prog);
    return nbytes;
}

/* A rank that has left MPI has stored its last progress word. */
static int lost(struct coll_team *t)
{
    const struct coll_node *n = t->node;
    for (int i = 0; i < t->size && t->ops->ended; i++) {
        enum coll_ended how = t->ops->ended(t, i);
        if (how == COLL_ENDED_DIED ||
            (how == COLL_ENDED_LEFT && !coll_node_at(n, i, n->turn + 2, 0)))
            return i;
    }
    return -1;
}

/* ---- tasks that wait for their turn ---- */

static uint64_t number_of(const struct rt_list *l)
{
    return (uint64_t)(uintptr_t)rt_container(l, struct coll_task, link)->state;
}

void coll_node_await_turn(struct coll_node *n, struct coll_task *k)
{
    struct rt_list *l = &n->waiting;
    if (!k->home || n->failed)
        return;
    while (l->prev != &n->waiting && number_of(l->prev) > number_of(&k->link))
        l = l->prev;
    rt_list_append(l, &k->link); /* before l */
}

static void advance_first(struct coll_node *n)
{
    struct rt_list *l = n->waiting.next;
    rt_list_del(l);
    rt_list_append(rt_container(l, struct coll_task, link)->home, l);
}

static void fail(struct coll_team *t)
{
    struct coll_node *n = t->node;
    n->failed = true;
    while (!rt_list_empty(&n->waiting))
        advance_first(n);
}

const struct coll_limits coll_node_limits = {
    .cell = coll_node_cell_fits, .block = coll_node_block_fits, .lost = lost, .fail = fail
};

int coll_node_create(struct coll_team *t)
{
    struct coll_node *n = calloc(1, sizeof *n);
    if (!n)
        return -RT_ENOMEM;
    n->team = t;
    n->hub = -1;
    rt_list_init(&n->waiting);
    n->half_len = coll_node_half_len(t->size);
    n->apart = apart_of(t->size);
    n->top = -1;
    while (n->rows * n->rows < t->size)
        n->rows++;
    n->direct = calloc((size_t)t->size, sizeof *n->direct);
    n->below = calloc(2 * (size_t)n->rows, sizeof *n->below);
    int readers = t->size > 1 ? t->size - 1 : 1;
    n->line_part = COLL_NODE_LINE / readers;
    n->cell_part = COLL_NODE_CELL / readers & ~(RT_CACHE_LINE - 1);
    t->node = n;
    if (n->direct && n->below)
        return 0;
    coll_node_fini(t);
    return -RT_ENOMEM;
}

static uint64_t room_of(const struct coll_team *t)
{
    if (rt_idle_oversubscribed())
        return COLL_NODE_ROOM_CROWDED;
    const int l3 = t->override.l3_ranks            ? t->override.l3_ranks
                   : t->size >= COLL_NODE_TREE_MIN ? rt_boot_l3_cpus()
                                                   : 0;
    return l3 > 0 && t->size > l3 ? COLL_NODE_ROOM_LEVELS : COLL_NODE_ROOM_ENOUGH;
}

void coll_node_attach(struct coll_team *t, char *p)
{
    struct coll_node *n = t->node;
    n->head = (struct coll_node_head *)p;
    n->lines = (struct coll_node_line *)(p + sizeof *n->head);
    n->prog = (struct coll_node_prog *)(n->lines + nlines(t->size));
    t->limits = &coll_node_limits;
    if (t->rank == 0)
        rt_store_release(&n->head->room, room_of(t));
    rt_store_release(&n->prog[t->rank].probe, (uint64_t)(uintptr_t)&coll_node_magic);
}

void coll_node_fini(struct coll_team *t)
{
    struct coll_node *n = t->node;
    if (!n)
        return;
    if (n->head)
        rt_store_release(&n->prog[t->rank].left, 1);
    if (t->rank == 0 && n->cells)
        t->ops->shm_free(t, n->head->cells - 1, cells_nbytes(t->size));
    if (t->rank == 0 && n->blocks)
        t->ops->shm_free(t, n->head->blocks - 1, blocks_nbytes(t->size));
    free(n->below);
    free(n->scratch);
    free(n->packed);
    free(n->result);
    free(n->direct);
    free(n);
    t->node = NULL;
}

uint64_t coll_node_begin(struct coll_node *n, struct coll_task *k)
{
    const bool from_root = coll_is(k->args.kind, COLL_IS_FROM_ROOT);
    n->hub = from_root && n->after_barrier && n->team->size >= COLL_NODE_HUB_MIN ? k->args.root
                                                                                 : -1;
    n->after_barrier = k->args.kind == COLL_BARRIER;
    k->state = (void *)(uintptr_t)++n->started;
    return n->started;
}

bool coll_node_finished(struct coll_node *n, uint64_t epoch)
{
    if (n->seen >= epoch)
        return true;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < n->team->size; i++) {
        uint64_t w = rt_load_acquire(
            &n->prog[i].word); /* pairs with the release in coll_node_end() */
        least = w < least ? w : least;
    }
    n->seen = least >> COLL_NODE_STEP_BITS;
    return n->seen >= epoch;
}

/* Where a cell for `len` bytes lies among the cells of its rank.  Successive calls use different
 * pages, because a processor that reads a cell also fetches lines behind the cell, but none of the
 * next page. */
static size_t cell_at(uint64_t e, int64_t len, size_t *nbytes)
{
    *nbytes = len <= COLL_NODE_CELL_MIN / 2 ? COLL_NODE_CELL_MIN : COLL_NODE_CELL;
    uint64_t page = e % CELL_PAGES, lap = e / CELL_PAGES;
    return page * COLL_NODE_CELL + lap * *nbytes % COLL_NODE_CELL;
}

char *coll_node_cell(const struct coll_node *n, uint64_t e, int rank, int64_t len)
{
    size_t nbytes, at = cell_at(e, len, &nbytes);
    return n->cells + (size_t)rank * COLL_NODE_CELLS + at;
}

bool coll_node_may_write(struct coll_node *n, uint64_t e, int64_t len)
{
    uint64_t *wrote = &n->wrote[e % COLL_NODE_SLOTS], last = *wrote;
    size_t nbytes, at = cell_at(e, len, &nbytes), parts = len ? nbytes / COLL_NODE_CELL_MIN : 0;
    uint64_t *filled = &n->filled[at / COLL_NODE_CELL_MIN];
    for (size_t i = 0; i < parts; i++)
        last = filled[i] > last ? filled[i] : last;
    if (!coll_node_finished(n, last))
        return false;
    *wrote = e;
    for (size_t i = 0; i < parts; i++)
        filled[i] = e;
    return true;
}

bool coll_node_left(const struct coll_node *n)
{
    for (int i = 0; i < n->team->size; i++)
        if (i != n->team->rank && !rt_load_acquire(&n->prog[i].left))
            return false;
    return true;
}

void coll_node_wake_some(const struct coll_node *n, int from, int to)
{
    struct coll_team *t = n->team;
    for (int i = from; i < to; i++)
        if (i != t->rank)
            t->ops->shm_wake(t, i);
}

void coll_node_wake(const struct coll_node *n) { coll_node_wake_some(n, 0, n->team->size); }

void coll_node_publish(struct coll_node *n, uint64_t epoch, int64_t steps)
{
    rt_store_release(&n->prog[n->team->rank].word,
                     (epoch - 1) << COLL_NODE_STEP_BITS | (uint64_t)steps);
    coll_node_wake(n);
}

int coll_node_end(struct coll_node *n)
{
    n->turn += n->two_numbers ? 2 : 1;
    n->two_numbers = false;
    if (rt_unlikely(!rt_list_empty(&n->waiting)) && number_of(n->waiting.next) == n->turn + 1)
        advance_first(n);
    n->step = 0;
    n->next = 0;
    /* All reads of shared memory come before this store; a rank that sees the new word may
     * overwrite the memory that was read. */
    rt_store_release(&n->prog[n->team->rank].word, n->turn << COLL_NODE_STEP_BITS);
    coll_node_wake(n);
    return 1;
}

/* Rank 0 allocates at its first call of this function; the other ranks find the offset in the
 * head. */
static int late_memory(struct coll_node *n, uint64_t *word, size_t nbytes, char **p)
{
    struct coll_team *t = n->team;
    uint64_t v = rt_load_acquire(word);
    if (v == 0 && t->rank == 0) {
        size_t off = t->ops->shm_alloc(t, nbytes);
        v = off == SIZE_MAX ? REFUSED : off + 1;
        if (v == REFUSED)
            log_warn(COLL, "no shared memory for collectives (%zu bytes); sending messages instead",
                     nbytes);
        rt_store_release(word, v);
        coll_node_wake(n);
    }
    if (v == 0)
        return 0;
    if (v == REFUSED)
        return -RT_ENOSPC;
    *p = t->ops->shm_at(t, 0, (size_t)(v - 1), nbytes);
    return 1;
}

int coll_node_cells(struct coll_node *n)
{
    return n->cells ? 1 : late_memory(n, &n->head->cells, cells_nbytes(n->team->size), &n->cells);
}

int coll_node_blocks(struct coll_node *n)
{
    if (n->blocks)
        return 1;
    if (!coll_node_crowded_known(n))
        return 0;
    return late_memory(n, &n->head->blocks, blocks_nbytes(n->team->size), &n->blocks);
}

bool coll_node_crowded_known(struct coll_node *n)
{
    if (rt_likely(n->crowded_known))
        return true;
    uint64_t room = rt_load_acquire(&n->head->room);
    n->crowded_known = room != COLL_NODE_ROOM_UNKNOWN;
    n->crowded = room == COLL_NODE_ROOM_CROWDED;
    n->levels = room == COLL_NODE_ROOM_LEVELS;
    if (n->crowded_known && n->team->rank == 0)
        coll_node_wake(n); /* when this rank stored it, others had perhaps no bell yet */
    return n->crowded_known;
}

/* Once all ranks have attached, tests whether this rank can read all their memory, and publishes
 * the result. */
static void probe_peers(struct coll_node *n)
{
    struct coll_team *t = n->team;
    uint8_t can = t->ops->peer_read ? COLL_NODE_READS_ALL : COLL_NODE_READS_NONE;
    for (int i = 0; i < t->size && can == COLL_NODE_READS_ALL; i++) {
        uint64_t at = rt_load_acquire(&n->prog[i].probe), seen = 0;
        if (at == 0)
            return;
        if (t->ops->peer_read(t, i, &seen, at, sizeof seen) < 0 || seen != coll_node_magic)
            can = COLL_NODE_READS_NONE;
    }
    rt_store_release(&n->prog[t->rank].reads_peers, can);
    coll_node_wake(n);
}

int coll_node_reads(struct coll_node *n)
{
    if (rt_likely(n->reads != COLL_NODE_READS_UNKNOWN))
        return n->reads;
    if (n->prog[n->team->rank].reads_peers == COLL_NODE_READS_UNKNOWN)
        probe_peers(n);
    n->reads = COLL_NODE_READS_ALL;
    for (int i = 0; i < n->team->size && n->reads == COLL_NODE_READS_ALL; i++)
        n->reads = rt_load_acquire(&n->prog[i].reads_peers);
    return n->reads;
}

void coll_node_leave_blocks(struct coll_node *n, int64_t pieces, bool only_last)
{
    uint64_t e = n->turn + 1;
    if (pieces < 0) {
        n->busy[0] = n->busy[1] = e;
        return;
    }
    if (pieces > 1 && !only_last)
        n->busy[n->half ^ (int)(pieces & 1)] = e;
    n->half ^= (int)(pieces & 1);
    if (pieces > 0)
        n->busy[n->half ^ 1] = e;
}

/* The pages come at once, with the second call that needs them: one by one, in the first pass
 * through the halves, they would make a call of 512 KiB twice as long, and its pace with it.  A
 * program's only call of this length does not wait for pages that it does not use. */
void coll_node_populate(struct coll_node *n, int64_t len)
{
    if (rt_likely(len <= n->populated))
        return;
    if (n->asked < len) {
        n->asked = len;
        return;
    }
    n->populated = len;
    for (int i = 0; i < 2; i++)
        rt_node_populate(coll_node_half(n, i), (size_t)len);
}

char *coll_node_scratch(struct coll_node *n)
{
    if (!n->scratch)
        n->scratch = malloc(n->half_len);
    return n->scratch;
}

void coll_piece_in(const void *buf, int64_t n, const struct rt_layout *l, struct coll_piece p,
                   void *to)
{
    if (l->contig)
        memcpy(to, (const char *)buf + p.at, (size_t)p.len);
    else
        rt_layout_pack(l, n, buf, p.at, to, p.len);
}

void coll_piece_out(void *buf, int64_t n, const struct rt_layout *l, struct coll_piece p,
                    const void *from)
{
    if (l->contig)
        memcpy((char *)buf + p.at, from, (size_t)p.len);
    else
        rt_layout_unpack(l, n, buf, p.at, from, p.len);
}

int coll_node_give_up(struct coll_node *n, struct coll_task *k)
{
    coll_node_end(n);
    k->state = NULL;
    int err = coll_start_messages(k);
    if (err == -RT_ENOMEM)
        coll_cannot_take_part();
    return err < 0 ? err : k->step(k);
}

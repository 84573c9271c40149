/* SPDX-License-Identifier: BSD-3-Clause */
/* node_tree: short broadcasts and reduces of ranks on several L3 caches with a core each, along the
 * tree of the machine.  The groups of a level are the ranks that share an L3 cache, then a package,
 * then the host.  A group of more than TREE_RADIX members is split: about sqrt(members) groups of
 * consecutive members are a level below.  A group's leader is its first rank, or the root of the
 * call if the root is in the group.  A rank's parent is the leader of the smallest group that the
 * rank does not lead.
 *
 * Reduce: a rank combines its own data and its children's lines, or cells, in its line or cell.
 * Broadcast: a rank with children copies its parent's data into its own line or cell.  node.h shows
 * why the memory can be reused: a rank waits for ranks in the same call, or, in
 * coll_node_may_write(), for ranks in an earlier call.
 *
 * Cost: for each level a + (members - 1) (line transfer in the group); node_flat lets the root read
 * all lines, or all ranks read one line.  Barrier and allreduce would gain nothing: up and down the
 * tree is more levels than the two rounds of node_grid.  Predicted, us, mean and last rank, 192
 * ranks of 2 x EPYC 9654 (node_model_test.c): barrier by the tree 2.7 and 3.2, by node_grid 1.8 and
 * 2.4; reduce of 8 B by the tree 0.2 and 1.7, by node_flat 0.3 and 13.8; broadcast of 8 B 1.2 and
 * 1.7, 1.6 and 2.7. */
#include <stdlib.h>
#include "coll/node/choose.h"
#include "coll/node/line.h"
#include "runtime/boot/boot.h"

/* A place: package, and L3 cache.  0: not published yet. */
#define UNKNOWN ((uint64_t)1 << 63)
#define PLACE(package, l3) (((uint64_t)(package) + 1) << 32 | ((uint64_t)(l3) + 1))

/* ---- the tree ---- */

/* Whether two members are in one group, by where they are; level 2: the host. */
static bool same(uint64_t a, uint64_t b, int level)
{
    return level == 2 || (level == 1 ? a >> 32 == b >> 32 : a == b);
}

/* Fills top[r], the first rank of r's group: the groups at `level` of the members below[]. */
static void join(int size, const uint64_t *place, const int *below, int level, int *top)
{
    for (int r = 0; r < size; r++) {
        int i = 0;
        while (below[i] != i || !same(place[i], place[r], level))
            i++;
        top[r] = i;
    }
}

/* Fills cut[r] if a group top[] has more members below[] than the radix; whether one has. */
static bool split(int size, const int *below, const int *top, int *cut)
{
    bool any = false;
    for (int first = 0; first < size; first++) {
        int members = 0, chunk = 1, nth = -1, at = first;
        if (top[first] != first)
            continue;
        for (int r = first; r < size; r++)
            members += top[r] == first && below[r] == r;
        while (chunk * chunk < members)
            chunk++;
        any = any || members > COLL_NODE_TREE_RADIX;
        for (int r = first; r < size; r++) {
            if (top[r] != first)
                continue;
            if (below[r] == r && ++nth % chunk == 0)
                at = r;
            cut[r] = below[r] == r ? at : cut[below[r]];
        }
    }
    return any;
}

int coll_node_tree_make(int size, const uint64_t *place, int *tops)
{
    int n = 0;
    int *below = tops + COLL_NODE_TREE_LEVELS * size;
    for (int r = 0; r < size; r++)
        below[r] = r;
    for (int level = 0; level <= 2; level++) {
        int *cut = tops + n * size, *top = cut + size;
        join(size, place, below, level, top);
        if (split(size, below, top, cut)) {
            below = cut;
            n++;
        } else {
            for (int r = 0; r < size; r++)
                cut[r] = top[r];
            top = cut;
        }
        if (memcmp(below, top, (size_t)size * sizeof *top) == 0)
            continue; /* each group has one member */
        below = top;
        n++;
    }
    return n;
}

uint64_t coll_node_tree_place(const struct coll_team *t, bool crowded)
{
    const struct coll_override *o = &t->override;
    int l3, package;
    if (o->l3_ranks) {
        l3 = o->l3_ranks > 0 ? t->rank / o->l3_ranks : t->rank % -o->l3_ranks;
        return PLACE(l3 / o->package_l3s, l3);
    }
    if (t->size < COLL_NODE_TREE_MIN || crowded || !rt_boot_place(&package, &l3))
        return UNKNOWN;
    return PLACE(package, l3);
}

/* Whether the tree is known, or that there is none. */
static bool make_tree(struct coll_node *n)
{
    const int size = n->team->size;
    bool apart = false, all = true;
    for (int r = 0; r < size; r++) {
        uint64_t p = rt_load_acquire(&n->places[r]); /* pairs with the release in attach() */
        if (p == 0)
            return false;
        all = all && p != UNKNOWN;
        apart = apart || p != n->places[0];
    }
    n->levels = COLL_NODE_LEVELS_NONE;
    n->tree.tops = all && apart
                       ? calloc((COLL_NODE_TREE_LEVELS + 4) * (size_t)size, sizeof *n->tree.tops)
                       : NULL;
    if (!n->tree.tops)
        return true;
    n->levels = COLL_NODE_LEVELS_SOME;
    n->tree.nlevels = coll_node_tree_make(size, n->places, n->tree.tops);
    n->tree.children = n->tree.tops + (COLL_NODE_TREE_LEVELS + 2) * size;
    n->tree.root = -1;
    return true;
}

int coll_node_levels(struct coll_node *n)
{
    if (rt_unlikely(n->levels == COLL_NODE_LEVELS_UNKNOWN) && !make_tree(n))
        return COLL_NODE_LEVELS_UNKNOWN;
    return n->levels;
}

static int leader(const struct coll_node *n, int level, int rank, int root)
{
    const int *top = n->tree.tops + level * n->team->size;
    return level < 0 ? rank : top[rank] == top[root] ? root : top[rank];
}

/* Finds this rank's parent and children under `root`. */
static void hang(struct coll_node *n, int root)
{
    struct coll_node_tree *t = &n->tree;
    const int rank = n->team->rank, size = n->team->size;
    if (rt_likely(t->root == root))
        return;
    t->root = root;
    t->parent = -1;
    t->nchildren = 0;
    for (int level = 0; level < t->nlevels && t->parent < 0; level++) {
        const int *top = t->tops + level * size;
        const int lead = leader(n, level, rank, root);
        if (lead != rank) {
            t->parent = lead;
            break;
        }
        for (int r = 0; r < size; r++)
            if (r != rank && top[r] == top[rank] && leader(n, level - 1, r, root) == r)
                t->children[t->nchildren++] = r;
    }
}

/* ---- steps ---- */

struct source { /* of a sum: this rank's own data, then its children's */
    const struct coll_node *n;
    uint64_t e;
    int64_t payload;
    const char *own;
};

static const void *source_of(const void *arg, int i)
{
    const struct source *s = arg;
    return i == 0 ? s->own : coll_node_data(s->n, s->e, s->n->tree.children[i - 1], s->payload);
}

/* Combines this rank's data and its children's in `to`, which may be the result. */
static void combine(const struct coll_node *n, const struct coll_task *k, uint64_t e, char *to)
{
    const struct coll_args *a = &k->args;
    const bool lands = to == a->rbuf;
    const struct source s = { n, e, k->bytes, lands ? coll_input(a) : to };
    if (!lands)
        coll_node_pack(to, coll_input(a), a->rcount, a->rtype);
    if (n->tree.nchildren)
        coll_node_fold(a, source_of, &s, 1 + n->tree.nchildren, to, k->bytes);
}

/* Once the lines of the children, or the parent's, are there: takes the result, and writes this
 * rank's line.  False: not yet. */
static bool take_and_give(struct coll_node *n, struct coll_task *k, uint64_t e, bool gives)
{
    _Alignas(RT_CACHE_LINE) char tmp[COLL_NODE_CELL];
    const struct coll_args *a = &k->args;
    const int64_t payload = k->bytes;
    const int parent = n->tree.parent;
    if (gives && !coll_node_may_write(n, e, payload <= COLL_NODE_LINE ? 0 : payload))
        return false;
    char *own = coll_node_data(n, e, n->team->rank, payload);
    if (a->kind == COLL_REDUCE) {
        char *to = parent >= 0 ? own : a->rtype->contig ? a->rbuf : tmp;
        combine(n, k, e, to);
        if (to == tmp)
            coll_node_unpack(tmp, a->rbuf, a->rcount, a->rtype);
    } else if (parent < 0) {
        coll_node_pack(own, a->rbuf, a->rcount, a->rtype);
    } else {
        const char *from = coll_node_data(n, e, parent, payload);
        if (gives)
            coll_node_pack(own, from, payload, &coll_bytes);
        coll_node_unpack(from, a->rbuf, a->rcount, a->rtype);
    }
    if (gives)
        coll_node_store_line(n, e, k->lost); /* the end of the call wakes the readers */
    return true;
}

int coll_node_tree_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    const struct coll_node_tree *t = &n->tree;
    const bool up = k->args.kind == COLL_REDUCE;
    if (!coll_node_my_turn(n, k))
        return 0;
    const uint64_t e = n->turn + 1;
    if (n->step == 0) {
        int rc = k->bytes <= COLL_NODE_LINE ? 1 : coll_node_cells(n);
        if (rc <= 0)
            return rc < 0 ? coll_node_give_up(n, k) : 0;
        hang(n, k->args.root);
        n->step = 1;
    }
    const int sources = up ? t->nchildren : t->parent >= 0;
    for (; n->next < sources; n->next++)
        if (!coll_node_line_there(n, e, up ? t->children[n->next] : t->parent, &k->lost))
            return 0;
    if (!take_and_give(n, k, e, up ? t->parent >= 0 : t->nchildren > 0))
        return 0;
    return coll_node_end(n);
}

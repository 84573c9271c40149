/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost model of device copies: cost.def as functions.  Every choice between ways uses it;
 * weft_info --paths prints it.  Any thread; no state. */
#include "runtime/gpu/model.h"
#include "runtime/base/atomic.h"

const char *const rt_gpu_way_names[RT_GPU_WAYS] = {
    [RT_GPU_WAY_LINGER] = "polling kernel",
    [RT_GPU_WAY_BATCH] = "batch kernel",
    [RT_GPU_WAY_ENGINE] = "copy engine",
};

struct cost {
    uint8_t link, way;
    uint64_t upto;
    uint32_t fixed_ns, each_ns;
    double ns_per_byte; /* MB/s are bytes per microsecond */
};
#define COST(link, way, upto, fixed, each, rate, where) \
    { RT_GPU_LINK_##link, RT_GPU_WAY_##way, (upto), (fixed), (each), 1000.0 / (rate) },
#define SIDE(link, upto, pages, where)
#define FOLD(link, way, upto, fixed, rate, where)
#define LINKS(kind, copies, text, where)
#define PUSH(upto, where)
#define TURN(upto, where)
static const struct cost costs[] = {
#include "runtime/gpu/cost.def"
};
#undef COST
#undef FOLD
#define COST(link, way, upto, fixed, each, rate, where)
#define FOLD(link, way, upto, fixed, rate, where) \
    { RT_GPU_LINK_##link, RT_GPU_WAY_##way, (upto), (fixed), 0, 1000.0 / (rate) },
static const struct cost folds[] = {
#include "runtime/gpu/cost.def"
};
#undef SIDE
#undef FOLD
#define FOLD(link, way, upto, fixed, rate, where)
#define SIDE(link, upto, pages, where) { RT_GPU_LINK_##link, (upto), PAGES_##pages },
enum pages { PAGES_ANY, PAGES_LARGE };
static const struct side {
    uint8_t link;
    uint64_t upto;
    enum pages pages;
} sides[] = {
#include "runtime/gpu/cost.def"
};
#undef COST
#undef SIDE
#undef FOLD
#undef LINKS
#define LINKS(kind, copies, text, where) [RT_GPU_LINKS_##kind] = (text),
#define COST(link, way, upto, fixed, each, rate, where)
#define SIDE(link, upto, pages, where)
#define FOLD(link, way, upto, fixed, rate, where)
const char *const rt_gpu_links_names[] = {
#include "runtime/gpu/cost.def"
};
#undef LINKS
#define LINKS(kind, copies, text, where) [RT_GPU_LINKS_##kind] = LINKS_##copies,
enum { LINKS_IN_TURN, LINKS_TOGETHER };
static const uint8_t links[] = {
#include "runtime/gpu/cost.def"
};
#undef LINKS
#undef PUSH
#define LINKS(kind, copies, text, where)
#define PUSH(upto, where) upto
enum {
    PUSH_MAX =
#include "runtime/gpu/cost.def"
};
#undef PUSH
#undef TURN
#define PUSH(upto, where)
#define TURN(upto, where) upto
enum {
    TURN_MAX =
#include "runtime/gpu/cost.def"
};
#undef COST
#undef SIDE
#undef FOLD
#undef LINKS
#undef PUSH
#undef TURN
#define NCOSTS (sizeof costs / sizeof *costs)

/* The rows of a link and way stand together; one more than the index of the first, 0 until known.
 * Every thread that searches finds the same. */
static uint8_t firsts[RT_GPU_LINKS][RT_GPU_WAYS];

static size_t find_first(enum rt_gpu_way way, enum rt_gpu_link link)
{
    size_t i = 0;

    while (i < NCOSTS && (costs[i].link != link || costs[i].way != way))
        i++;
    rt_store_relaxed(&firsts[link][way], (uint8_t)(i + 1));
    return i;
}

static const struct cost *find(enum rt_gpu_way way, enum rt_gpu_link link, size_t len)
{
    size_t first = rt_load_relaxed(&firsts[link][way]);

    for (size_t i = first ? first - 1 : find_first(way, link);
         i < NCOSTS && costs[i].link == link && costs[i].way == way; i++)
        if (len <= costs[i].upto)
            return &costs[i];
    return NULL;
}

uint64_t rt_gpu_cost_group_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len, unsigned n)
{
    const struct cost *c = find(way, link, len);

    if (!c)
        return UINT64_MAX;
    uint64_t move_ns = (uint64_t)((double)len * c->ns_per_byte);
    return c->fixed_ns + move_ns + (n - 1) * (c->each_ns + move_ns);
}

uint64_t rt_gpu_cost_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len)
{
    return rt_gpu_cost_group_ns(way, link, len, 1);
}

enum rt_gpu_way rt_gpu_choose_group(enum rt_gpu_link link, size_t len, unsigned n, bool linger,
                                    bool kernels)
{
    enum rt_gpu_way best = RT_GPU_WAY_ENGINE;
    uint64_t best_ns = rt_gpu_cost_group_ns(best, link, len, n), ns;

    if (!kernels)
        return best;
    if ((ns = rt_gpu_cost_group_ns(RT_GPU_WAY_BATCH, link, len, n)) < best_ns) {
        best = RT_GPU_WAY_BATCH;
        best_ns = ns;
    }
    if (linger && rt_gpu_cost_group_ns(RT_GPU_WAY_LINGER, link, len, n) < best_ns)
        best = RT_GPU_WAY_LINGER;
    return best;
}

enum rt_gpu_way rt_gpu_choose(enum rt_gpu_link link, size_t len, bool linger, bool kernels)
{
    return rt_gpu_choose_group(link, len, 1, linger, kernels);
}

uint64_t rt_gpu_cost_fold_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len)
{
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (folds[i].way == way && folds[i].link == link && len <= folds[i].upto)
            return folds[i].fixed_ns + (uint64_t)((double)len * folds[i].ns_per_byte);
    return UINT64_MAX;
}

enum rt_gpu_link rt_gpu_side(size_t len, bool large_pages)
{
    const struct side *s = sides;

    while (s->upto < len || (s->pages == PAGES_LARGE && !large_pages))
        s++;
    return s->link;
}

bool rt_gpu_links_are_direct(enum rt_gpu_links kind) { return links[kind] == LINKS_TOGETHER; }

size_t rt_gpu_push_max(void) { return PUSH_MAX; }
size_t rt_gpu_turn_max(void) { return TURN_MAX; }

/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipeline over host memory: parts in order and each once, moves that complete late, fewer rooms
 * than parts, parts in place, and what follows an error of a part. */
#include "mpi/p2p/domain.h"
#include "mpi/p2p/pipe.h"
#include "runtime/base/err.h"
#include "test/check.h"

enum { ELEMS = 100, STEP = 64, NONE = -1 };

static struct rt_layout gappy, dense; /* two of three ints; two ints */
static int user[3 * ELEMS];
static char wire[2 * ELEMS * sizeof(int)];

struct run {
    struct wm_pipe pipe;
    const struct rt_layout *l;
    bool pack;
    int64_t begun, len;
    int late;                /* polls until a move completes */
    int fail_move, fail_end; /* number of the part that fails, or NONE */
    int nmoves, order_errors;
    int64_t at; /* expected position of the next move */
};

static bool next(struct wm_pipe *p, struct wm_slot *t)
{
    struct run *r = rt_container(p, struct run, pipe);
    int64_t left = r->len - r->begun, len = left < STEP ? left : STEP;
    if (!len)
        return false;
    t->m = (struct wm_packing){ r->l, ELEMS, (char *)user, r->begun, NULL, len, r->pack };
    t->memory = WM_MEMORY_HOST;
    r->begun += len;
    return true;
}

static int copy(struct wm_slot *t)
{
    if (t->m.pack)
        memcpy(wire + t->m.pos, t->m.packed, (size_t)t->m.len);
    else
        memcpy(t->m.packed, wire + t->m.pos, (size_t)t->m.len);
    return 1;
}

static int move(struct wm_pipe *p, struct wm_slot *t)
{
    struct run *r = rt_container(p, struct run, pipe);
    r->order_errors += t->m.pos != r->at;
    r->at = t->m.pos + t->m.len;
    if (r->nmoves++ == r->fail_move)
        return -RT_EREMOTE;
    t->up = (void *)(intptr_t)r->late;
    return r->late ? 0 : copy(t);
}

static int moved(struct wm_pipe *p, struct wm_slot *t)
{
    struct run *r = rt_container(p, struct run, pipe);
    intptr_t left = (intptr_t)t->up - 1;
    t->up = (void *)left;
    if (left > 0)
        return 0;
    return t->m.pos / STEP == r->fail_end ? -RT_EGPU : copy(t);
}

static const struct wm_pipe_ops ops = { next, move, moved };

/* Fills both sides with different values and sets up a run over them. */
static void setup(struct run *r, struct wm_domain *d, const struct rt_layout *l, bool pack)
{
    for (int i = 0; i < 3 * ELEMS; i++)
        user[i] = 1000 + i;
    for (int i = 0; i < 2 * ELEMS; i++)
        memcpy(wire + 4 * i, &(int){ -i }, 4);
    *r = (struct run){ .pipe = { .ops = &ops, .rooms.d = d },
                       .l = l,
                       .pack = pack,
                       .len = ELEMS * l->size,
                       .fail_move = NONE,
                       .fail_end = NONE };
}

/* Returns the polls that it took. */
static int run_to_end(struct run *r)
{
    int polls = 0;
    wm_pipe_start(&r->pipe);
    while (r->pipe.running && polls < 1000) {
        wm_pipe_step(&r->pipe);
        polls++;
        CHECK(r->pipe.running <= r->pipe.rooms.n);
    }
    CHECK_EQ(r->pipe.running, 0);
    CHECK_EQ(r->order_errors, 0);
    wm_staging_give(&r->pipe.rooms);
    return polls;
}

/* Index in `user` of the i-th packed int. */
static int place(const struct rt_layout *l, int i) { return l == &gappy ? i / 2 * 3 + i % 2 : i; }

static int wrong_wire(const struct rt_layout *l, int from, int to)
{
    int n = 0, v;
    for (int i = from; i < to; i++) {
        memcpy(&v, wire + 4 * i, 4);
        n += v != 1000 + place(l, i);
    }
    return n;
}

/* Ints of the user's buffer that differ from: [0, end) received, the rest and gaps as before. */
static int wrong_user(const struct rt_layout *l, int end)
{
    int want[3 * ELEMS], n = 0;
    for (int i = 0; i < 3 * ELEMS; i++)
        want[i] = 1000 + i;
    for (int i = 0; i < end; i++)
        want[place(l, i)] = -i;
    for (int i = 0; i < 3 * ELEMS; i++)
        n += user[i] != want[i];
    return n;
}

static void both_ways(void)
{
    struct wm_domain d = { 0 };
    struct run r;
    for (int late = 0; late < 4; late++) {
        setup(&r, &d, &gappy, true);
        r.late = late;
        CHECK_EQ(wm_staging_host(&r.pipe.rooms, STEP), 0);
        run_to_end(&r);
        CHECK_EQ(r.pipe.err, 0);
        CHECK_EQ(wrong_wire(&gappy, 0, 2 * ELEMS), 0);
        setup(&r, &d, &gappy, false);
        r.late = late;
        CHECK_EQ(wm_staging_host(&r.pipe.rooms, STEP), 0);
        run_to_end(&r);
        CHECK_EQ(r.pipe.err, 0);
        CHECK_EQ(wrong_user(&gappy, 2 * ELEMS), 0);
        CHECK_EQ(r.nmoves, (2 * ELEMS * 4 + STEP - 1) / STEP);
    }
    CHECK_EQ(d.staging.nheap, 1);
    wm_host_fini(&d);
    CHECK_EQ(d.staging.nheap, 0);
}

/* Without memory, and with four parts under way. */
static void in_place(void)
{
    struct wm_domain d = { 0 };
    struct run r;
    for (int pack = 0; pack < 2; pack++) {
        setup(&r, &d, &dense, pack);
        r.late = 2;
        r.pipe.rooms.n = WM_STAGING_ROOMS;
        run_to_end(&r);
        CHECK_EQ(r.pipe.err, 0);
        CHECK_EQ(pack ? wrong_wire(&dense, 0, 2 * ELEMS) : wrong_user(&dense, 2 * ELEMS), 0);
    }
}

/* Rooms longer than pooled memory: one part at a time. */
static void one_room(void)
{
    struct wm_domain d = { 0 };
    struct run r;
    setup(&r, &d, &gappy, true);
    r.late = 1;
    CHECK_EQ(wm_staging_host(&r.pipe.rooms, WM_PIECE_MAX + 1), 0);
    CHECK_EQ(r.pipe.rooms.n, 1);
    CHECK(run_to_end(&r) >= (2 * ELEMS * 4 + STEP - 1) / STEP);
    CHECK_EQ(wrong_wire(&gappy, 0, 2 * ELEMS), 0);
    wm_host_fini(&d);
}

/* A move that cannot start ends the pipeline, after the parts under way. */
static void refused_move(void)
{
    struct wm_domain d = { 0 };
    struct run r;
    for (int pack = 0; pack < 2; pack++) {
        setup(&r, &d, &gappy, pack);
        r.late = 1;
        r.fail_move = 3;
        CHECK_EQ(wm_staging_host(&r.pipe.rooms, STEP), 0);
        run_to_end(&r);
        CHECK_EQ(r.pipe.err, -RT_EREMOTE);
        CHECK_EQ(r.nmoves, 4);
        if (pack)
            CHECK_EQ(wrong_wire(&gappy, 0, 3 * STEP / 4), 0);
    }
    wm_host_fini(&d);
}

/* A part that was lost: a sender stops; a receiver takes the rest and leaves the buffer alone. */
static void lost_part(void)
{
    struct wm_domain d = { 0 };
    struct run r;
    setup(&r, &d, &gappy, true);
    r.late = 1;
    r.fail_end = 2;
    CHECK_EQ(wm_staging_host(&r.pipe.rooms, STEP), 0);
    run_to_end(&r);
    CHECK_EQ(r.pipe.err, -RT_EGPU);
    CHECK(r.begun < r.len);
    setup(&r, &d, &gappy, false);
    r.late = 1;
    r.fail_end = 2;
    CHECK_EQ(wm_staging_host(&r.pipe.rooms, STEP), 0);
    run_to_end(&r);
    CHECK_EQ(r.pipe.err, -RT_EGPU);
    CHECK_EQ(r.begun, r.len);
    CHECK_EQ(wrong_user(&gappy, 2 * STEP / 4), 0);
    wm_host_fini(&d);
}

int main(void)
{
    rt_layout_basic(&dense, 8, 8, RT_ELEM_NONE);
    rt_layout_resized(&gappy, 0, 12, &dense);
    RUN(both_ways);
    RUN(in_place);
    RUN(one_room);
    RUN(refused_move);
    RUN(lost_part);
    rt_layout_fini(&gappy);
    rt_layout_fini(&dense);
    return check_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of move.cu on the CPU: a thread per block, a context (ucontext) per lane, switched at
 * random where lanes communicate or access memory.  Lanes of a warp synchronise in the warp's
 * calls, which must be the same in all of them.  The main thread is the host: it posts copies of
 * all lengths and alignments, launches the polling kernel again when it has left, and checks the
 * order of the numbers.  Compiled and run by gpu_move_kernel_test. */
#include <atomic>
#include <ctime>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <pthread.h>
#include <sched.h>
#include <ucontext.h>
#include <vector>
#include <unistd.h>

/* ---- what nvcc provides ---- */

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static thread_local
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct place {
    unsigned x;
};

struct warp {
    int here = 0;
    unsigned gen = 0;
    const char *call = nullptr;
    uint64_t in[32], out[32];
    void *at[32];
    bool on[32];
};
struct lane {
    ucontext_t c;
    unsigned tid;
    bool done;
    warp *w;
    char *stack;
};
static thread_local struct {
    std::vector<lane> lanes;
    std::vector<warp> warps;
    lane *now;
    ucontext_t back;
    unsigned block, threads, met, gen;
    uint32_t rng;
    const std::function<void()> *body;
} me;
static unsigned grid;
static std::atomic<int> running;

static uint32_t rnd()
{
    me.rng = me.rng * 1664525u + 1013904223u;
    return me.rng >> 8;
}
static void yield() { swapcontext(&me.now->c, &me.back); }
static void may_yield()
{
    if (rnd() % 8 == 0)
        yield();
}
static void fail(const char *what, const char *more)
{
    printf("not ok 1 - %s %s, block %u thread %u\n1..1\n", what, more, me.block, me.now->tid);
    fflush(stdout);
    _exit(1);
}

#define threadIdx (place{ me.now->tid })
#define blockIdx (place{ me.block })
#define blockDim (place{ me.threads })
#define gridDim (place{ grid })

template <class F>
static uint64_t together(const char *call, uint64_t in, const void *at, bool on, F last)
{
    warp *w = me.now->w;
    unsigned i = me.now->tid % 32, gen = w->gen;
    if (w->here == 0)
        w->call = call;
    if (strcmp(w->call, call))
        fail("lanes of a warp are in two calls:", call);
    w->in[i] = in;
    w->at[i] = (void *)at;
    w->on[i] = on;
    if (++w->here == 32) {
        for (i = 0; i < 32; i++)
            last(w, i);
        w->here = 0;
        w->gen++;
    } else {
        while (w->gen == gen)
            yield();
    }
    return w->out[me.now->tid % 32];
}
static void __syncwarp()
{
    together("syncwarp", 0, 0, 0, [](warp *, unsigned) {});
}
template <class T> static T __shfl_sync(unsigned, T v, unsigned from)
{
    return (T)together("shfl", (uint64_t)v, (void *)(uintptr_t)from, 0,
                       [](warp *w, unsigned i) { w->out[i] = w->in[(uintptr_t)w->at[i] % 32]; });
}
template <class T> static T __shfl_up_sync(unsigned, T v, unsigned d)
{
    return (T)together("shfl_up", (uint64_t)v, (void *)(uintptr_t)d, 0, [](warp *w, unsigned i) {
        unsigned up = (unsigned)(uintptr_t)w->at[i];
        w->out[i] = w->in[i < up ? i : i - up];
    });
}
static unsigned __ballot_sync(unsigned, bool p)
{
    return (unsigned)together("ballot", p, 0, 0, [](warp *w, unsigned i) {
        w->out[i] = 0;
        for (unsigned j = 0; j < 32; j++)
            w->out[i] |= (uint64_t)(w->in[j] != 0) << j;
    });
}
static bool __any_sync(unsigned m, bool p) { return __ballot_sync(m, p) != 0; }
#define __popc __builtin_popcount
static void __syncthreads()
{
    unsigned gen = me.gen;
    if (++me.met == me.threads) {
        me.met = 0;
        me.gen++;
    } else {
        while (me.gen == gen)
            yield();
    }
}

/* ---- replacement of ptx.h ---- */

#define RT_GPU_PTX_H
typedef unsigned long long u64;
#define EVERY_LANE 0xffffffffu
static std::atomic<u64> now{ 1000 };
static std::atomic<u64> tick{ 20 }, load_takes{ 0 };
static u64 now_ns() { return now += tick; }
static int nfences, nfences_device; /* approximate */
static void fence_system() { nfences++, may_yield(); }
static void fence_device() { nfences_device++, may_yield(); }
static void loads_end() {}
/* The data are there only after the wait. */
static thread_local std::vector<std::pair<uint4 *, const uint4 *>> loads[1024];
static void start_load(uint4 *to, const uint4 *from)
{
    if (((uintptr_t)to | (uintptr_t)from) % 16)
        fail("an asynchronous load", "out of alignment");
    loads[me.now->tid].push_back({ to, from });
    may_yield();
}
static void wait_loads()
{
    for (auto &l : loads[me.now->tid])
        *l.first = *l.second;
    loads[me.now->tid].clear();
}
static u64 atomicCAS(u64 *p, u64 old, u64 v)
{
    may_yield();
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return old;
}
static uint32_t atomicAdd(uint32_t *p, uint32_t v)
{
    may_yield();
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
static uint32_t load_word(const uint32_t *p)
{
    may_yield();
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
static void store_word(uint32_t *p, uint32_t v)
{
    may_yield();
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}
static u64 count_up(u64 *p)
{
    may_yield();
    return __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
}
template <class T> static T atomic_load(const T *p)
{
    may_yield();
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
template <class T> static T atomic_add(T *p, T v)
{
    T was = *p;
    *p = was + v;
    return was;
}
template <class T> static T atomic_swap(T *p, T v)
{
    may_yield();
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
template <class T> static T atomic_cas(T *p, T expected, T v)
{
    may_yield();
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static std::atomic<int> nhost; /* accesses to words of the host */
static uint64_t line[8];       /* struct rt_gpu_flag of batches */
static void host_store(uint64_t at, uint32_t v)
{
    nhost++;
    store_word((uint32_t *)at, v);
}
/* One memory access of a GPU; a lock makes it atomic here. */
static pthread_mutex_t memory = PTHREAD_MUTEX_INITIALIZER;
static uint32_t warp_load(const uint32_t *p)
{
    return (uint32_t)together("load", 0, p, 0, [](warp *w, unsigned i) {
        if (i == 0)
            pthread_mutex_lock(&memory);
        w->out[i] = __atomic_load_n((uint32_t *)w->at[i], __ATOMIC_SEQ_CST);
        if (i == 31)
            pthread_mutex_unlock(&memory);
    });
}
/* The sectors of a line are read in any order, each at once: the word that the host writes last is
 * read first.  Before the wait `to` may have any of them. */
static const unsigned last_word[] = { 0, 15, 16, 31 };
static thread_local std::map<u64 *, unsigned> lines; /* sectors still to be read */
static thread_local int nlines;                      /* started and not waited for */
static void read_sectors(u64 *arrived, void *to, const void *from, unsigned odds)
{
    unsigned &left = lines[arrived];
    for (unsigned n = 0, s = rnd(); n < 4; n++, s++) {
        if (!(left >> s % 4 & 1) || rnd() % odds)
            continue;
        unsigned first = last_word[s % 4];
        for (unsigned i = 0; i < 8; i++) {
            unsigned w = first % 8 ? first - i : first + i;
            ((uint32_t *)to)[w] = __atomic_load_n((const uint32_t *)from + w, __ATOMIC_SEQ_CST);
        }
        left &= ~(1u << s % 4);
    }
}
static void line_prepare(u64 *arrived) { *arrived = 0; }
static void line_start(u64 *arrived, void *to, const void *from)
{
    if (((uintptr_t)to | (uintptr_t)from) % 16)
        fail("a line", "out of alignment");
    lines[arrived] = 0xf;
    nlines++;
    arrived[0] = arrived[0] & 1 | (u64)(uintptr_t)from;
    read_sectors(arrived, to, from, 2);
}
static void line_wait(u64 *arrived, uint32_t turn, void *to, const void *)
{
    if ((*arrived & 1) != turn)
        fail("a wait for a line", "has the wrong number");
    together("line_wait", turn, 0, 0, [=](warp *, unsigned i) {
        if (i != 0)
            return;
        read_sectors(arrived, to, (void *)(uintptr_t)(*arrived & ~(u64)1), 1);
        *arrived = !turn;
        nlines--;
        nhost++;
    });
}
static void warp_store(uint32_t *p, uint32_t v, bool on)
{
    together("store", v, p, on, [](warp *w, unsigned i) {
        if (i == 0)
            pthread_mutex_lock(&memory);
        if (w->on[i])
            __atomic_store_n((uint32_t *)w->at[i], (uint32_t)w->in[i], __ATOMIC_SEQ_CST);
        if (i == 31)
            pthread_mutex_unlock(&memory);
    });
}
template <bool stays> struct from {
    template <class T> static T load(const T *p)
    {
        if ((uintptr_t)p % sizeof(T))
            fail("a load", "out of alignment");
        now += load_takes;
        nhost += (const void *)p >= line && (const void *)p < line + 8;
        if (rnd() % 64 == 0)
            yield();
        return *p;
    }
};
/* Not half floats, but ordered like them. */
static float float_of_f16(uint16_t h) { return h; }
static uint16_t f16_of_float(float f) { return (uint16_t)f; }
static uint16_t bf16_of_float(float f) { return (uint16_t)((uint32_t)f >> 16); }

#include "runtime/gpu/move.cu"

/* ---- blocks ---- */

static void lane_main()
{
    (*me.body)();
    me.now->done = true;
    yield();
}

struct start {
    unsigned block, threads;
    uint32_t seed;
    useconds_t late;
    const std::function<void()> *body;
};

static void *block_main(void *arg)
{
    start *s = (start *)arg;
    usleep(s->late);
    me.block = s->block;
    me.threads = s->threads;
    me.rng = s->seed;
    me.met = me.gen = 0;
    me.body = s->body;
    me.warps.assign(s->threads / 32, warp());
    me.lanes.assign(s->threads, lane());
    for (unsigned t = 0; t < s->threads; t++) {
        lane &l = me.lanes[t];
        l.tid = t;
        l.w = &me.warps[t / 32];
        l.stack = (char *)malloc(32768);
        getcontext(&l.c);
        l.c.uc_stack.ss_sp = l.stack;
        l.c.uc_stack.ss_size = 32768;
        makecontext(&l.c, lane_main, 0);
    }
    for (unsigned left = s->threads; left;) { /* random warp, random first lane */
        unsigned w = rnd() % (unsigned)me.warps.size(), first = rnd();
        for (unsigned i = 0; i < 32; i++) {
            me.now = &me.lanes[w * 32 + (i + first) % 32];
            if (me.now->done)
                continue;
            swapcontext(&me.back, &me.now->c);
            left -= me.now->done;
        }
        if (rnd() % 16 == 0)
            sched_yield();
    }
    if (nlines)
        fail("a block ends", "before its reads");
    for (lane &l : me.lanes)
        free(l.stack);
    delete s;
    running--;
    return NULL;
}

static void launch(unsigned blocks, unsigned threads, bool late, const std::function<void()> *body)
{
    grid = blocks;
    running = (int)blocks;
    for (unsigned b = 0; b < blocks; b++) {
        pthread_t t;
        useconds_t wait = late && rand() % 2 ? (useconds_t)rand() % 4000 : 0;
        start *s = new start{ b, threads, (uint32_t)rand(), wait, body };
        if (pthread_create(&t, NULL, block_main, s))
            abort();
        pthread_detach(t);
    }
}

/* ---- the host ---- */

static const size_t ROOM = 1u << 20;
alignas(128) static struct rt_gpu_desc ring[RT_GPU_RING_SLOTS];
alignas(64) static struct rt_gpu_words words;
alignas(128) static struct rt_gpu_work work_area;
alignas(8) static struct rt_gpu_recall recall;
static std::vector<uint8_t> src(ROOM), dst(ROOM), want(ROOM);
static uint32_t posted, reaped, launches;
static int nnear, ncopies, nfolds, ncopied, nfar, natomics, nlaunches;

static void bad(const char *what)
{
    printf("not ok 1 - %s; posted %u, done %u, launch %u, left %u\n1..1\n", what, posted,
           words.done, launches, words.left);
    fflush(stdout);
    _exit(1);
}

/* No float in it is infinite or NaN. */
static void refill()
{
    for (size_t i = 0; i < ROOM; i++) {
        src[i] = (uint8_t)(rand() >> 6);
        if (i % 4 == 3 && (src[i] & 0x7f) == 0x7f)
            src[i] = 0x40;
    }
    dst.assign(ROOM, 0x5a);
    want = dst;
}

static void post(size_t *at)
{
    size_t len = 1 + (size_t)rand() % (rand() % 3 ? 3000 : rand() % 3 ? 9000 : 80000);
    size_t shift = rand() % 2 ? 0 : (size_t)rand() % 16;
    bool whole = rand() % 2; /* units of 16 bytes */
    if (whole) {
        len = (len + 15) & ~(size_t)15;
        shift = 0;
        *at += -(uintptr_t)&dst[*at] & 15;
    }
    if (*at + len + 16 > ROOM)
        return;
    uint32_t s = ++posted;
    struct rt_gpu_desc *d = &ring[s % RT_GPU_RING_SLOTS];
    d->dst = (uint64_t)&dst[*at];
    d->src = (uint64_t)&src[*at + shift];
    d->len = (uint32_t)len;
    d->fold = 0;
    d->near = rand() % 2;
    nnear += whole && d->near && len > WEFT_LINGER_TINY && len <= WEFT_LINGER_NEAR;
    memcpy(&want[*at], &src[*at + shift], len);
    __atomic_store_n(&d->seq_too, s, __ATOMIC_RELEASE);
    __atomic_store_n(&d->seq, s, __ATOMIC_RELEASE);
    *at += len + (size_t)rand() % 40;
    ncopies++;
}

/* dst = the maximum, sum or exclusive or of the sources. */
template <class T>
static void reduce(uint8_t *out, const uint8_t *const *from, unsigned n, size_t len, uint32_t code)
{
    for (size_t i = 0; i < len; i += sizeof(T)) {
        T acc, v;
        memcpy(&acc, from[0] + i, sizeof acc);
        for (unsigned s = 1; s < n; s++) {
            memcpy(&v, from[s] + i, sizeof v);
            if (code == RT_GPU_FOLD_BXOR)
                acc = (T)((uint64_t)acc ^ (uint64_t)v);
            else
                acc = code == RT_GPU_FOLD_SUM ? (T)(acc + v) : acc > v ? acc : v;
        }
        memcpy(out + i, &acc, sizeof acc);
    }
}

static void post_desc(uint32_t fold, const uint64_t *place, size_t len)
{
    uint32_t s = ++posted;
    struct rt_gpu_desc *d = &ring[s % RT_GPU_RING_SLOTS];
    d->fold = fold;
    d->dst = place[0];
    d->src = place[1];
    memcpy(d->more, place + 2, sizeof d->more);
    d->len = (uint32_t)len;
    if (fold & RT_GPU_RING_FAR) {
        memcpy(d->far, place + RT_GPU_RING_NEAR, sizeof d->far);
        __atomic_store_n(&d->seq_far_too, s, __ATOMIC_RELEASE);
        __atomic_store_n(&d->seq_far, s, __ATOMIC_RELEASE);
        nfar++;
    }
    __atomic_store_n(&d->seq_too, s, __ATOMIC_RELEASE);
    __atomic_store_n(&d->seq, s, __ATOMIC_RELEASE);
    nfolds++;
}

/* One range to several, several to as many, or two that are exchanged. */
static void post_copies(size_t *at)
{
    bool each = rand() % 2, swap = each && rand() % 4 == 0;
    uint32_t most = each ? RT_GPU_RING_PLACES / 2 : RT_GPU_RING_PLACES - 1;
    uint32_t ndst = swap ? 2 : 1 + (uint32_t)rand() % most, unit = 1u << rand() % 5;
    uint32_t nsrc = each ? ndst : 1;
    size_t len = (1 + (size_t)rand() % (rand() % 2 ? 20 : rand() % 3 ? 200 : 3000)) * unit;
    size_t room = (len + 127) & ~(size_t)63;
    uint64_t place[RT_GPU_RING_PLACES] = {};
    if (unit == 16 && len <= RT_GPU_RING_SHORT)
        unit = 8;
    *at = (*at + 63) & ~(size_t)63;
    if (*at + room * ndst > ROOM)
        return;
    for (unsigned i = 0; i < ndst; i++, *at += room) {
        uint8_t *from = &src[(size_t)rand() % ((ROOM - len) / 64) * 64 + unit];
        size_t other = *at - i * room + (1 - i) * room;
        if (each || i == 0)
            place[i] = (uint64_t)from;
        else
            from = (uint8_t *)place[0];
        place[nsrc + i] = (uint64_t)&dst[*at];
        memcpy(&want[*at], from, len);
        if (swap)
            place[i] = (uint64_t)&dst[other];
    }
    if (swap) { /* each must get the other's contents */
        size_t first = *at - 2 * room, second = *at - room;
        memcpy(&dst[first], &want[second], len);
        memcpy(&dst[second], &want[first], len);
    }
    post_desc(RT_GPU_RING_FOLD(RT_GPU_RING_BITS, RT_GPU_U8,
                               each && nsrc > 1 ? RT_GPU_FOLD_EACH : RT_GPU_FOLD_COPY, nsrc, ndst,
                               unit, 0),
              place, len);
    ncopied++;
}

static void post_fold(size_t *at)
{
    static const struct {
        uint32_t kind, type, code, nbytes;
    } kinds[] = { { RT_GPU_RING_BITS, RT_GPU_U8, RT_GPU_FOLD_BXOR, 1 },
                  { RT_GPU_RING_4, RT_GPU_U32, RT_GPU_FOLD_SUM, 4 },
                  { RT_GPU_RING_4, RT_GPU_F32, RT_GPU_FOLD_SUM, 4 },
                  { RT_GPU_RING_8, RT_GPU_U64, RT_GPU_FOLD_SUM, 8 },
                  { RT_GPU_RING_8, RT_GPU_F64, RT_GPU_FOLD_SUM, 8 },
                  { RT_GPU_RING_8, RT_GPU_I64, RT_GPU_FOLD_MAX, 8 },
                  { RT_GPU_RING_F16, RT_GPU_F16, RT_GPU_FOLD_MAX, 2 } };
    auto k = kinds[rand() % 7];
    uint32_t unit = k.nbytes << rand() % 4;
    unit = unit > 8 ? 8 : unit;
    size_t len = (1 + (size_t)rand() % (rand() % 3 ? 80 : rand() % 3 ? 1000 : 4000)) * unit;
    bool same = rand() % 3 == 0;
    uint32_t most = rand() % 2 ? 4 : RT_GPU_RING_SOURCES, nsrc = 1 + (uint32_t)rand() % most;
    uint32_t ndst = same ? 1 : 1 + (uint32_t)rand() % (most > 4 ? 3 : 5 - nsrc);
    if (nsrc <= RT_GPU_RING_WIDE && len > RT_GPU_RING_SHORT + 15 && rand() % 2) {
        unit = 16;
        len &= ~(size_t)15;
    }
    uint64_t place[RT_GPU_RING_PLACES] = {};
    const uint8_t *from[RT_GPU_RING_SOURCES];
    *at = (*at + 63) & ~(size_t)63;
    if (*at + (len + 128) * 4 > ROOM)
        return;
    for (unsigned s = 0; s < nsrc; s++)
        place[s] = (uint64_t)(from[s] = &src[(size_t)rand() % ((ROOM - len) / 64) * 64 + unit]);
    if (same)
        place[0] = (uint64_t)&dst[*at];
    std::vector<uint8_t> old(&want[*at], &want[*at] + len);
    if (same)
        from[0] = old.data();
    for (unsigned d = 0; d < ndst; d++, *at += (len + 127) & ~(size_t)63) {
        if (!same)
            place[nsrc + d] = (uint64_t)&dst[*at];
        if (k.type == RT_GPU_F32)
            reduce<float>(&want[*at], from, nsrc, len, k.code);
        else if (k.type == RT_GPU_F64)
            reduce<double>(&want[*at], from, nsrc, len, k.code);
        else if (k.nbytes == 1)
            reduce<uint8_t>(&want[*at], from, nsrc, len, k.code);
        else if (k.nbytes == 2)
            reduce<uint16_t>(&want[*at], from, nsrc, len, k.code);
        else if (k.nbytes == 4)
            reduce<uint32_t>(&want[*at], from, nsrc, len, k.code);
        else
            reduce<int64_t>(&want[*at], from, nsrc, len, k.code);
    }
    post_desc(RT_GPU_RING_FOLD(k.kind, k.type, k.code, nsrc, ndst, unit, same), place, len);
}

/* Element i of `at` becomes the sum with, or is replaced by, element i of v. */
template <class T>
static void change_one(uint8_t *at, const uint8_t *v, T compare, uint32_t code, unsigned i)
{
    T was, now, with;
    memcpy(&was, at + i * sizeof was, sizeof was);
    memcpy(&with, v + i * sizeof with, sizeof with);
    now = code == RT_GPU_FOLD_SUM ? (T)(with + was) : code == RT_GPU_FOLD_COPY ? with : was;
    if (code == RT_GPU_ATOMIC_CAS && was == compare)
        now = with;
    memcpy(at + i * sizeof now, &now, sizeof now);
}

/* Up to four elements are changed, and the old ones stored behind them. */
static void post_atomic(size_t *at)
{
    static const struct {
        uint32_t type, nbytes;
    } types[] = {
        { RT_GPU_U8, 1 }, { RT_GPU_I16, 2 }, { RT_GPU_U32, 4 }, { RT_GPU_I64, 8 }, { RT_GPU_F64, 8 }
    };
    static const uint32_t codes[] = { RT_GPU_FOLD_SUM, RT_GPU_FOLD_COPY, RT_GPU_ATOMIC_READ,
                                      RT_GPU_ATOMIC_CAS };
    auto t = types[rand() % 5];
    uint32_t code = codes[rand() % 4], n = 1 + (uint32_t)rand() % 4;
    uint32_t given = (uint32_t)rand() % 4 & (n > 1 ? ~(uint32_t)RT_GPU_GIVEN_SRC : 3);
    *at = (*at + 63) & ~(size_t)63;
    if (*at + 64 > ROOM)
        return;
    const uint8_t *from = &src[*at + 32];
    uint8_t *to = &want[*at];
    uint64_t place[RT_GPU_RING_PLACES] = {}, v = 0, was = 0;
    memcpy(&v, from, t.nbytes);
    memcpy(&was, to, t.nbytes);
    place[0] = (uint64_t)&dst[*at];
    place[1] = rand() % 3 ? (uint64_t)&dst[*at + 32] : 0;
    place[2] = given & RT_GPU_GIVEN_SRC ? v : (uint64_t)from;
    static uint64_t compares[RT_GPU_RING_SLOTS];
    uint64_t *compare = &compares[(posted + 1) % RT_GPU_RING_SLOTS];
    *compare = was;
    place[3] = given & RT_GPU_GIVEN_COMPARE ? was : (uint64_t)compare;
    if (place[1])
        memcpy(to + 32, to, n * t.nbytes);
    for (unsigned i = 0; i < n; i++)
        if (t.type == RT_GPU_F64 && code == RT_GPU_FOLD_SUM)
            change_one<double>(to, from, 0, code, i);
        else if (t.nbytes == 8)
            change_one<uint64_t>(to, from, was, code, i);
        else if (t.nbytes == 4)
            change_one<uint32_t>(to, from, (uint32_t)was, code, i);
        else if (t.nbytes == 2)
            change_one<uint16_t>(to, from, (uint16_t)was, code, i);
        else
            change_one<uint8_t>(to, from, (uint8_t)was, code, i);
    *at += 64;
    post_desc(RT_GPU_RING_FOLD(RT_GPU_RING_ATOMIC, t.type, code, given, 0, 0, 0), place,
              n * t.nbytes);
    natomics++;
}

static void linger_round(unsigned blocks)
{
    static struct rt_gpu_linger p;
    static const std::function<void()> body = [] { weft_linger(p); };
    uint64_t life = rand() % 3 ? 8000 : 400000, idle = life / 4;
    size_t at = 0;
    bool up = false;
    refill();
    for (int left = 40; left > 0 || reaped != posted || running;) {
        for (; left > 0 && posted - reaped < 20 && rand() % 6; left--)
            if (rand() % 2)
                post(&at);
            else if (rand() % 4 == 0)
                post_atomic(&at);
            else if (rand() % 3)
                post_fold(&at);
            else
                post_copies(&at);
        uint32_t is_left = __atomic_load_n(&words.left, __ATOMIC_ACQUIRE);
        uint32_t done = __atomic_load_n(&words.done, __ATOMIC_ACQUIRE);
        if (done - reaped > posted - reaped)
            bad("the numbers are out of order");
        reaped = done;
        if (up && is_left == launches && !running)
            up = false;
        if (!up && reaped != posted) {
            p = { (uint64_t)ring,
                  (uint64_t)&words,
                  (uint64_t)&work_area,
                  reaped + 1,
                  ++launches,
                  idle,
                  life,
                  (uint64_t)&recall,
                  {},
                  {} };
            if (rand() % 4) /* like a host that has the first one already */
                p.first = ring[p.next % RT_GPU_RING_SLOTS];
            up = true;
            nlaunches++;
            launch(blocks, 64, rand() % 2, &body);
        }
        if (up && !running && __atomic_load_n(&words.left, __ATOMIC_ACQUIRE) != launches)
            bad("a kernel has ended without its last store");
        usleep(100);
    }
    if (dst != want)
        bad("wrong data of the polling kernel");
}

static void post_long(size_t at, size_t len)
{
    uint32_t s = ++posted;
    struct rt_gpu_desc *d = &ring[s % RT_GPU_RING_SLOTS];
    *d = {};
    d->dst = (uint64_t)&dst[at];
    d->src = (uint64_t)&src[at];
    d->len = (uint32_t)len;
    memcpy(&want[at], &src[at], len);
    __atomic_store_n(&d->seq_too, s, __ATOMIC_RELEASE);
    __atomic_store_n(&d->seq, s, __ATOMIC_RELEASE);
}

static void wait_until(const char *what, const std::function<bool()> &there)
{
    for (int i = 0; !there(); i++, usleep(100))
        if (i == 100000)
            bad(what);
}

/* A launch with long work in its parameters shares it with blocks that start later; work that takes
 * longer than the idle time does not end the kernel. */
static void long_first_round(unsigned blocks)
{
    static struct rt_gpu_linger p;
    static const std::function<void()> body = [] { weft_linger(p); };
    const size_t len = 2 * WEFT_LINGER_SOLO;
    refill();
    tick = 0; /* only loads advance the time */
    load_takes = 100;
    post_long(0, len);
    p = { (uint64_t)ring,
          (uint64_t)&words,
          (uint64_t)&work_area,
          reaped + 1,
          ++launches,
          5000,
          400000000,
          (uint64_t)&recall,
          {},
          ring[posted % RT_GPU_RING_SLOTS] };
    launch(blocks, 64, true, &body);
    wait_until("long work does not end", [] { return words.done == posted; });
    for (unsigned i = 0; i + 1 < blocks; i++)
        if (work_area.finished[i] != posted)
            bad("block 0 has not waited for the others");
    load_takes = 0;
    usleep(2000);
    post_long(len, len);
    wait_until("the kernel has left after long work", [] { return words.done == posted; });
    if (words.left == launches)
        bad("the kernel has left with work to do");
    tick = 20000;
    wait_until("the kernel does not leave", [] { return words.left == launches && !running; });
    tick = 20;
    reaped = posted;
    if (dst != want)
        bad("wrong data of long work");
}

/* Over PCIe blocks access words of the host one after another, 1 us each: only the last block does,
 * once, unless they are recalled. */
static void batch_round(bool recalled)
{
    static struct rt_gpu_batch b;
    static const std::function<void()> body = [] { weft_batch(b); };
    alignas(8) struct rt_gpu_line at_end = {};
    struct rt_gpu_flag &words = *(struct rt_gpu_flag *)line;
    uint32_t &flag = words.flag;
    unsigned blocks = 1 + (unsigned)rand() % 6;
    size_t at = 0;
    refill();
    words = {};
    at_end.recall.recalled = recalled ? 7 : 6;
    b.flag = (uint64_t)&flag;
    b.counter = (uint64_t)&at_end;
    b.value = 7;
    b.near = rand() % 2;
    int wide = nfences, narrow = nfences_device;
    nhost = 0;
    b.n = 1 + (uint32_t)rand() % 64;
    for (uint32_t i = 0; i < b.n; i++) {
        size_t len = rand() % 10 ? (size_t)rand() % (rand() % 8 ? 4000 : 60000) : 0;
        if (at + len + 64 > ROOM)
            len = 0;
        size_t from = at + (rand() % 2 ? 0 : (size_t)rand() % 16);
        b.move[i] = { (uint64_t)&dst[at], (uint64_t)&src[from], len };
        if (!recalled)
            memcpy(&want[at], &src[from], len);
        at += len;
    }
    launch(blocks, 64, false, &body);
    while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) != 7)
        usleep(100);
    if (dst != want)
        bad("a flag before its data, or wrong data, of a batch");
    while (running)
        usleep(100);
    if (!recalled && (b.near ? nfences != wide : nfences_device != narrow))
        bad("a fence of the wrong width");
    if (at_end.counter)
        bad("the counter of batches is not zero");
    if (at_end.recall.started != blocks || words.skipped != (recalled ? 7 : 0))
        bad("blocks do not say that they start, or that they skip");
    if (nhost != (recalled ? (int)blocks + 1 : 1))
        bad("blocks of a batch access words of the host");
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 6;
    printf("# seed %u\n", seed);
    srand(seed);
    alarm(480);
    for (int i = 0; i < rounds; i++) {
        linger_round(1 + (unsigned)i % 4);
        batch_round(false);
        batch_round(false);
        batch_round(true);
    }
    long_first_round(2);
    long_first_round(4);
    printf("# %d copies (%d near), %d reductions (%d are copies, %d of many places, %d atomic), "
           "%d launches\nok 1 - kernels that copy, on the CPU\n1..1\n",
           ncopies, nnear, nfolds, ncopied, nfar, natomics, nlaunches);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of push.cu on the CPU: a thread for each rank's device, which runs blocks and lanes
 * one after another, as a device with room for one block would.  Words on their way to an inbox are
 * delivered late, in any order, each alone: also the two halves of a store.  Every store is checked
 * against the proof of push_kernels.h: no word is overwritten before its reader has ended the call
 * that the word belongs to.  Compiled and run by gpu_push_kernel_test. */
#include "test/gpu/fold_case.h"
#include "runtime/gpu/push_kernels.h"
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <sched.h>
#include <string>
#include <thread>
#include <unordered_set>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct dim {
    uint32_t x;
};
static thread_local dim threadIdx, blockIdx, blockDim, gridDim;
static thread_local bool every;
static bool __syncthreads_and(bool v) { return every &= v; }
static void __syncthreads() {}
static void __nanosleep(unsigned) { sched_yield(); }
static float __fmul_rn(float x, float y) { return x * y; }
static double __dmul_rn(double x, double y) { return x * y; }
static uint32_t atomicAdd(uint32_t *p, uint32_t v) { return __atomic_fetch_add(p, v, 5); }
using std::isinf;
using std::isnan;

/* ---- ranks, and what is under way between them ---- */

struct rank {
    std::vector<uint64_t> inbox, marks;
    uint32_t poison, epochs, ended, runs;
    rt_gpu_meet_words words;
    std::vector<uint64_t> mail[2]; /* of messages: two slots of one sender, rank 0 */
    uint32_t passed[2], credit[2]; /* at either side; at the sender */
};
static std::vector<rank> ranks;
static thread_local rank *me;
static thread_local uint32_t seed;
static std::atomic<const char *> wrong{ nullptr };

static void fail(const char *what) { wrong = what; }

static uint32_t chance(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

typedef unsigned long long u64;
struct word {
    u64 *at, v;
};
static std::mutex link_lock;
static std::vector<word> under_way;
static std::unordered_set<u64 *> places; /* of the words under way */

static void deliver(unsigned n)
{
    std::lock_guard<std::mutex> l(link_lock);
    while (n-- && !under_way.empty()) {
        size_t i = chance((uint32_t)under_way.size());
        __atomic_store_n(under_way[i].at, under_way[i].v, __ATOMIC_SEQ_CST);
        places.erase(under_way[i].at);
        under_way[i] = under_way.back();
        under_way.pop_back();
    }
}

static bool is_in(const std::vector<uint64_t> &v, const u64 *p)
{
    return (uint64_t *)p >= v.data() && (uint64_t *)p < v.data() + v.size();
}

static void send(u64 *at, u64 v)
{
    if (is_in(me->inbox, at)) { /* by the reader itself, between calls */
        *at = v;
        return;
    }
    const uint32_t number = (uint32_t)(v >> 32);
    for (rank &r : ranks)
        for (int slot = 0; slot < 2; slot++)
            if (is_in(r.mail[slot], at)) {
                if (&r == me && ranks.size() > 1) { /* renewed by the reader */
                    *at = v;
                    return;
                }
                if ((int32_t)(__atomic_load_n(&r.passed[slot], __ATOMIC_SEQ_CST) - (number - 1)) <
                        0 &&
                    !(r.passed[slot] == number - 2 && ranks[0].credit[slot] == number - 1))
                    fail("a message overwrites one that has not been taken");
            }
    for (rank &r : ranks)
        if (is_in(r.inbox, at) || is_in(r.marks, at))
            if ((int32_t)(__atomic_load_n(&r.epochs, __ATOMIC_SEQ_CST) - (number - 2)) < 0)
                fail("a word is overwritten before its reader has ended the call");
    std::lock_guard<std::mutex> l(link_lock);
    if (!places.insert(at).second)
        fail("two words for one place are under way");
    under_way.push_back({ at, v });
}

/* ---- replacement of ptx.h ---- */

#define RT_GPU_PTX_H
static void fence_system() {}
static void fence_device() {}
static void loads_end() {}
static uint32_t load_word(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
static void store_word(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
static void host_store(uint64_t at, uint32_t v) { store_word((uint32_t *)at, v); }
static u64 load_word64(const u64 *p)
{
    const uint32_t n = chance(64);
    if (n < 2)
        sched_yield();
    deliver(n < 32 ? 0 : n);
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
static void store_word64(u64 *p, u64 v) { send(p, v); }
static void load_words(const u64 *p, u64 &first, u64 &second)
{
    if ((uintptr_t)p % 16)
        fail("a pair of words is out of alignment");
    second = load_word64(p + 1);
    first = load_word64(p);
}
static void store_words(u64 *p, u64 first, u64 second)
{
    if ((uintptr_t)p % 16)
        fail("a pair of words is out of alignment");
    send(p, first);
    send(p + 1, second);
}
static float float_of_f16(uint16_t h) { return up(RT_GPU_F16, h); }
static uint16_t f16_of_float(float f) { return down(RT_GPU_F16, f); }
static uint16_t bf16_of_float(float f) { return down(RT_GPU_BF16, f); }
template <bool stays> struct from {
    template <class T> static T load(const T *p)
    {
        if ((uintptr_t)p % sizeof(T))
            fail("a load is out of alignment");
        T v;
        memcpy(&v, p, sizeof v);
        return v;
    }
};

namespace device
{ /* the kernels have their own names for the same things */
#include "runtime/gpu/push.cu"
} // namespace device

typedef void kernel(struct rt_gpu_push p);
static kernel *const kernels[FOLD_KERNELS] = {
    device::weft_push_bits, device::weft_push_4,     device::weft_push_8,
    device::weft_push_f16,  device::weft_push_bf16,  device::weft_push_1,
    device::weft_push_2,    device::weft_push_wide8, device::weft_push_wide16,
};

template <class P> static void launch(void (*k)(P), const P &p, unsigned blocks, unsigned threads)
{
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        every = true;
        for (uint32_t t = threads; t-- > 0;) { /* thread 0 last: it reports the end */
            threadIdx.x = t;
            k(p);
        }
    }
}

/* ---- calls ---- */

static const uint32_t ROOM = 6000; /* most bytes from one rank to another, about */

struct part { /* of one rank in a call */
    rt_gpu_push p;
    bytes in, out, want; /* dst[] of the call point into `out`; also in place */
};
struct call {
    kernel *k;
    unsigned blocks, threads;
    std::vector<part> of;
    std::string what;
};

static void common(call &c, unsigned n, uint32_t longest)
{
    c.blocks = 1 + rnd(3);
    c.threads = 64 * (1 + rnd(2));
    c.of.resize(n);
    for (unsigned r = 0; r < n; r++) {
        rt_gpu_push &p = c.of[r].p = {};
        p.epochs = (uint64_t)&ranks[r].epochs;
        p.ended = (uint64_t)&ranks[r].ended;
        p.runs = (uint64_t)&ranks[r].runs;
        p.words = (uint64_t)&ranks[r].words;
        p.ticket = 1 + rnd(100);
        p.signature = 77;
        p.slot = (uint32_t)(ranks[r].inbox.size() * 4);
        p.stride = (longest + 15) / 16 * 32;
        p.rank = (uint8_t)r;
        p.size = (uint8_t)n;
        for (unsigned o = 0; o < n; o++) {
            p.of[o].inbox = (uint64_t)ranks[o].inbox.data();
            p.of[o].marks = (uint64_t)ranks[o].marks.data();
            p.of[o].poison = (uint64_t)&ranks[o].poison;
        }
    }
}

static uint32_t some_bytes(uint32_t unit)
{
    uint32_t most = rnd(4) == 0 ? ROOM : rnd(3) ? 40 : 600;
    return rnd(most / unit + 1) * unit;
}

/* Reductions: to all, to a root, or of a part for each rank; the parts may differ in length. */
static call fold_call(unsigned n)
{
    call c;
    fold_case f = {};
    do
        f.kind = kinds[rnd(NKINDS)];
    while (f.kind.code == RT_GPU_FOLD_COPY || f.kind.code == RT_GPU_FOLD_EACH ||
           (f.kind.code == RT_GPU_FOLD_PROD && n > 4));
    const unsigned way = rnd(3), root = rnd(n), nbytes = f.kind.nbytes;
    std::vector<uint32_t> len(n), at(n);
    uint32_t sum = 0, longest = 0, whole = some_bytes(nbytes);
    for (unsigned r = 0; r < n; r++) {
        len[r] = way == 2                ? some_bytes(nbytes) / n / nbytes * nbytes
                 : way == 1 && r != root ? 0
                                         : whole;
        at[r] = way == 2 ? sum : 0;
        sum = way == 2 ? sum + len[r] : whole;
        longest = std::max(longest, len[r]);
    }
    common(c, n, longest);
    c.k = kernels[f.kind.kernel];
    c.what = std::string(f.kind.name) + (way == 0 ? " to all" : way == 1 ? " to one" : " in parts");
    const bool in_place = way < 2 && rnd(2);
    const unsigned odd = rnd(2) ? 0 : rnd(16) / nbytes * nbytes;
    for (part &p : c.of) {
        p.in.resize(sum + 64);
        p.out.assign(sum + 64, 'x');
        for (uint32_t i = 0; i + nbytes <= sum; i += nbytes)
            make_element(f.kind, &p.in[odd + i]);
    }
    for (unsigned r = 0; r < n; r++) {
        part &p = c.of[r];
        p.p.folds = 1;
        p.p.type = f.kind.type;
        p.p.code = f.kind.code;
        p.want = in_place ? p.in : p.out;
        for (unsigned s = 0; s < n; s++) {
            f.src[s] = &c.of[s].in[odd + at[r]];
            p.p.of[s].src = (uint64_t)&p.in[odd + at[s]];
            p.p.of[s].send = len[s];
        }
        for (uint32_t i = 0; i < len[r]; i += nbytes)
            fold_element(f, i / nbytes, n, &p.want[odd + i]);
        p.p.of[r].dst = (uint64_t)(in_place ? &p.in[odd] : &p.out[odd]);
        p.p.of[r].receive = len[r];
    }
    if (in_place)
        for (part &p : c.of) {
            p.out.swap(p.in);
        }
    return c;
}

/* Blocks of any length between all ranks; in place, both directions have the same length. */
static call move_call(unsigned n)
{
    call c;
    const bool in_place = rnd(2);
    const unsigned odd = rnd(2) ? 0 : rnd(16);
    uint32_t len[16][16], longest = 0;
    for (unsigned a = 0; a < n; a++)
        for (unsigned b = 0; b < n; b++) {
            len[a][b] = in_place && b < a ? len[b][a] : some_bytes(1);
            longest = std::max(longest, len[a][b]);
        }
    common(c, n, longest);
    const size_t each = longest + 16;
    c.k = kernels[BITS];
    c.what = in_place ? "blocks in place" : "blocks";
    for (part &p : c.of) {
        p.in.resize(each * n);
        p.out.assign(each * n, 'x');
        for (char &b : p.in)
            b = (char)rnd(256);
    }
    for (unsigned r = 0; r < n; r++) {
        part &p = c.of[r];
        p.want = in_place ? p.in : p.out;
        for (unsigned o = 0; o < n; o++) {
            p.p.of[o].src = (uint64_t)&p.in[each * o + odd];
            p.p.of[o].send = len[r][o];
            p.p.of[o].dst = (uint64_t)((in_place ? p.in : p.out).data() + each * o + odd);
            p.p.of[o].receive = len[o][r];
            memcpy(&p.want[each * o + odd], &c.of[o].in[each * r + odd], len[o][r]);
        }
    }
    if (in_place)
        for (part &p : c.of)
            p.out.swap(p.in);
    return c;
}

static void make_ranks(unsigned n, uint32_t epochs)
{
    ranks.assign(n, rank());
    under_way.clear();
    places.clear();
    for (rank &r : ranks) {
        r.inbox.assign(2 * 2 * (ROOM + 16) / 8 * (n > 1 ? n - 1 : 1) / 2 * 2, 0);
        r.marks.assign(2 * RT_GPU_PUSH_RANKS, 0);
        for (size_t i = 0; epochs >> 31 && i < r.inbox.size();
             i++) /* renewed since the first call */
            r.inbox[i] = (uint64_t)(i < r.inbox.size() / 2 ? 0x7fffffff : 0x7ffffffe) << 32;
        for (unsigned i = 0; epochs >> 31 && i < 2 * RT_GPU_PUSH_RANKS; i++)
            r.marks[i] = (uint64_t)(epochs - (i < RT_GPU_PUSH_RANKS) - (epochs & 1)) << 32;
        r.poison = r.ended = 0;
        r.epochs = epochs;
        r.runs = 5;
        r.words = {};
    }
}

static void run_rank(unsigned r, std::vector<call> &calls, uint32_t s)
{
    me = &ranks[r];
    seed = s + r;
    for (call &c : calls) {
        if (chance(3) == 0)
            sched_yield();
        launch(c.k, c.of[r].p, c.blocks, c.threads);
        if (me->words.failed)
            return;
    }
    deliver(1000000); /* a device delivers its words, whether it runs kernels or not */
}

static void run_all(std::vector<call> &calls, int absent = -1)
{
    std::vector<std::thread> t;
    const uint32_t s = rnd(1000000);
    for (unsigned r = 0; r < ranks.size(); r++)
        if ((int)r != absent)
            t.emplace_back(run_rank, r, std::ref(calls), s);
    for (std::thread &one : t)
        one.join();
}

/* The first calls, those around the renewal of the numbers, and those around their overflow. */
static bool sequence_ok()
{
    static const uint32_t begins[] = { 0, 0, 0x7ffffffd, 0xfffffffc };
    static const unsigned sizes[] = { 1, 2, 2, 3, 4, 5, 16 };
    const unsigned n = sizes[rnd(7)];
    const uint32_t from = begins[rnd(4)];
    std::vector<call> calls;
    make_ranks(n, from);
    for (unsigned i = n > 5 ? 2 : 6; i-- > 0;)
        calls.push_back(rnd(2) ? fold_call(n) : move_call(n));
    run_all(calls);
    for (const call &c : calls)
        for (unsigned r = 0; r < n; r++)
            if (!wrong && c.of[r].out != c.of[r].want) {
                printf("# %s, rank %u of %u, %u blocks of %u, from call %u\n", c.what.c_str(), r, n,
                       c.blocks, c.threads, from);
                wrong = "wrong data";
            }
    for (const rank &r : ranks)
        if (r.epochs != (uint32_t)(from + calls.size()) || r.runs != 5 + calls.size() || r.ended ||
            r.words.failed || r.words.over != r.runs || r.words.begun != r.runs ||
            r.words.ended != calls.back().of[&r - ranks.data()].p.ticket || r.poison)
            fail("wrong words after the calls");
    /* The numbers that must not be found again. */
    for (const rank &r : ranks)
        for (size_t i = 0; from == 0x7ffffffd && i < r.inbox.size(); i++)
            if (calls.size() > 4 && (uint32_t)(r.inbox[i] >> 32) < from)
                fail("an old number was not renewed");
    return !wrong;
}

/* One rank sends nothing where another rank expects a block: the reader names it. */
static bool odd_block_ok()
{
    const unsigned n = 2 + rnd(3), bad = rnd(n), reader = (bad + 1) % n;
    std::vector<call> calls;
    make_ranks(n, 40);
    do {
        calls.clear();
        calls.push_back(move_call(n));
        /* as in failure_ok(): lanes with marks have no data */
    } while (calls[0].of[reader].p.of[bad].receive == 0 ||
             n * calls[0].of[0].p.stride / RT_GPU_PUSH_ROOM > 64 - RT_GPU_PUSH_RANKS);
    calls[0].of[bad].p.of[reader].send = 0;
    run_all(calls);
    for (const rank &r : ranks)
        if (!r.poison)
            fail("a rank does not know of a block of another length");
    if (ranks[reader].words.differs != bad + 1)
        fail("the reader does not name the sender of a block of another length");
    return !wrong;
}

/* One rank has other arguments, or gives up, or never comes and another rank's host ends the
 * waiting: all ranks end, and know of the failure. */
static bool failure_ok(unsigned how)
{
    const unsigned n = 2 + rnd(3), bad = rnd(n);
    std::vector<call> calls;
    make_ranks(n, 40);
    do {
        calls.clear(); /* no copy: the call has addresses of its buffers */
        calls.push_back(fold_call(n));
        /* Lanes run one after another, those with marks first if they have no data: a lane that
         * waits for data that never come must not keep a mark from being stored. */
    } while (calls[0].of[0].p.stride == 0 || calls[0].of[bad].p.of[bad].receive == 0 ||
             calls[0].of[0].p.stride / RT_GPU_PUSH_ROOM > 64 - RT_GPU_PUSH_RANKS);
    rt_gpu_push &p = calls[0].of[bad].p;
    if (how == 0) {
        p.signature = 78;
        for (rt_gpu_push_rank &r : p.of)
            r.send = 0; /* a shorter message: the others would wait for the rest */
    } else if (how == 1) {
        p.gives_up = 1;
    } else {
        ranks[(bad + 1) % n].words.abort = 1;
    }
    run_all(calls, how == 2 ? (int)bad : -1);
    bool named = false;
    for (const rank &r : ranks) {
        if (!r.poison || (!r.words.failed && !(how == 2 && &r == &ranks[bad])))
            fail("a rank does not know of a failure");
        named |= r.words.differs == bad + 1;
    }
    if (how == 0 && !named)
        fail("no rank names the rank with other arguments");
    return !wrong;
}

/* Messages of rank 0 to rank 1 through two slots, from numbers around those at which words are
 * renewed, as in one order of the sender; the receiver takes those of different slots in another
 * order.  absent: rank 1 takes only a part, and then the host ends the waiting. */
static bool messages_ok(bool absent)
{
    static const uint32_t begins[] = { 0, 0x7ffffffd, 0xfffffffd };
    const uint32_t from = begins[rnd(3)], room = 2048;
    const unsigned blocks = 1 + rnd(3), odd = rnd(2) ? 0 : rnd(16);
    struct mail {
        rt_gpu_message put, take;
        bytes in, out, want;
    };
    std::vector<mail> all(10);
    make_ranks(2, 0);
    for (rank &r : ranks)
        for (int slot = 0; slot < 2; slot++) {
            const uint32_t old = from == 0 ? 0 : from < 0x80000000 ? from : 0x7fffffff;
            r.mail[slot].assign(room / 8, (uint64_t)(from == 0xfffffffd ? old : 0) << 32);
            r.passed[slot] = r.credit[slot] = from;
        }
    for (size_t i = 0; i < all.size(); i++) {
        mail &m = all[i];
        const int slot = i % 2;
        const uint32_t n = rnd(3) ? rnd(40) : rnd(room / 2 + 1);
        m.put = {};
        m.put.ended = (uint64_t)&ranks[0].ended;
        m.put.runs = (uint64_t)&ranks[0].runs;
        m.put.words = (uint64_t)&ranks[0].words;
        m.put.poison = (uint64_t)&ranks[0].poison;
        m.put.slot = (uint64_t)ranks[1].mail[slot].data();
        m.put.credit = (uint64_t)&ranks[0].credit[slot];
        m.put.nbytes = n;
        m.put.room = room;
        m.put.ticket = 1 + (uint32_t)i;
        m.put.nranks = 2;
        for (unsigned r = 0; r < 2; r++)
            m.put.poison_of[r] = (uint64_t)&ranks[r].poison;
        m.take = m.put;
        m.take.ended = (uint64_t)&ranks[1].ended;
        m.take.runs = (uint64_t)&ranks[1].runs;
        m.take.words = (uint64_t)&ranks[1].words;
        m.take.poison = (uint64_t)&ranks[1].poison;
        m.take.epochs = (uint64_t)&ranks[1].passed[slot];
        m.put.epochs = (uint64_t)&ranks[0].passed[slot];
        m.put.sends = 1;
        m.take.keep = rnd(4) ? n : rnd(n + 1); /* a buffer that is too short */
        m.in.resize(n + 16);
        for (char &b : m.in)
            b = (char)rnd(256);
        m.out.assign(n + 32, 'x');
        m.want = m.out;
        memcpy(&m.want[odd], m.in.data(), m.take.keep);
        m.put.data = (uint64_t)m.in.data();
        m.take.data = (uint64_t)&m.out[odd];
    }
    const uint32_t s = rnd(1000000);
    std::thread sender([&] {
        me = &ranks[0];
        seed = s;
        for (mail &m : all)
            if (!me->words.failed)
                launch(device::weft_message, m.put, blocks, 64);
        deliver(1000000);
    });
    std::thread receiver([&] {
        me = &ranks[1];
        seed = s + 1;
        for (size_t i = 0; i < (absent ? 4 : all.size()); i++)
            launch(device::weft_message, all[i ^ (s & 1)].take, blocks, 64);
        if (absent) /* as this rank's host does */
            store_word(&ranks[0].words.abort, 1);
        deliver(1000000);
    });
    sender.join();
    receiver.join();
    if (absent && (!ranks[0].words.failed || !ranks[1].poison))
        fail("a sender without credit has not given up");
    for (const mail &m : all)
        if (!absent && m.out != m.want)
            fail("wrong data of a message");
    for (const rank &r : ranks)
        if (!absent && (r.runs != 15 || r.words.over != 15 || r.words.begun != 15 || r.ended ||
                        r.poison || r.passed[0] != from + 5 || r.passed[1] != from + 5))
            fail("wrong words after messages");
    return !wrong;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 2 ? atoi(argv[2]) : 60;
    bool ok = true;
    rng = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    printf("# seed %llu\n", (unsigned long long)rng);
    for (int i = 0; i < rounds && ok; i++)
        ok = sequence_ok();
    for (int i = 0; i < rounds / 3 && ok; i++)
        ok = failure_ok(i % 3);
    for (int i = 0; i < rounds / 6 && ok; i++)
        ok = odd_block_ok();
    for (int i = 0; i < rounds && ok; i++)
        ok = messages_ok(i % 4 == 3);
    if (!ok)
        printf("# %s\n", wrong.load());
    printf("%sok 1 - kernels on the CPU\n1..1\n", ok ? "" : "not ");
    return ok ? 0 : 1;
}

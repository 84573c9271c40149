/* SPDX-License-Identifier: BSD-3-Clause */
/* --limits: what the machine itself can do between the cores on which ranks 0 and 1 run, without
 * any MPI.  Latency: one cache line (or two) passed to and fro, with the message copied once;
 * bandwidth: memcpy out of the other process's memory, by one core or by both.  Of several forms
 * the best counts.  The memory is a memfd that rank 1 opens through /proc, so it has no name and
 * nothing stays behind after a crash.  Ranks 0 and 1 call all of this together. */
#define _GNU_SOURCE 1
#include "test/bench/bench.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    INLINE_MAX = 56,           /* payload that fits beside the flag in one cache line */
    TRIES = 3,                 /* measurements, of which the best is taken */
    SPINS_BEFORE_YIELD = 4000, /* some 100 us: only ranks that share a core ever get there */
    TAG_LIMIT = 77
};
/* Long compared with the disturbance by a timer tick, short compared with the run. */
static const double TRY_SECONDS = 0.003;
static const double GUESS_BYTES_S = 10e9; /* sets the number of rounds only */

struct line { /* 128: x86 prefetches lines in pairs */
    _Alignas(128) _Atomic uint32_t flag;
    char payload[INLINE_MAX];
};

struct shared {
    struct line line[2]; /* [0] written by rank 0; [1] by rank 1 in the two-line form */
    struct line gate;    /* counts arrivals at the barriers of the bandwidth forms */
    _Alignas(128) double seconds[2];
    uint64_t cookie;            /* shows that both ranks look at the same memory */
    _Alignas(4096) char data[]; /* two blocks of block_len: what each rank offers to the other */
};

struct limit_map {
    struct shared *sh;
    size_t len, block_len;
    char *dst;
    int me;
    uint32_t seq, gates; /* the same at both ranks: they run the same rounds */
};

struct form {
    bool two_lines, pause;
};

static void relax(bool pause)
{
#if defined(__x86_64__) || defined(__i386__)
    if (pause)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
    if (pause)
        __asm__ volatile("yield");
#else
    (void)pause;
#endif
}

static void wait_flag(const _Atomic uint32_t *flag, uint32_t value, bool pause)
{
    for (int spins = 0; atomic_load_explicit(flag, memory_order_acquire) != value; relax(pause)) {
        if (++spins == SPINS_BEFORE_YIELD) {
            sched_yield();
            spins = 0;
        }
    }
}

static void gate(struct limit_map *m)
{
    m->gates += 2;
    atomic_fetch_add(&m->sh->gate.flag, 1);
    for (int spins = 0; (int32_t)(atomic_load(&m->sh->gate.flag) - m->gates) < 0; relax(true)) {
        if (++spins == SPINS_BEFORE_YIELD) {
            sched_yield();
            spins = 0;
        }
    }
}

static void say(struct limit_map *m, struct line *l, uint32_t value, size_t nbytes)
{
    if (nbytes <= INLINE_MAX)
        memcpy(l->payload, m->dst, nbytes);
    atomic_store_explicit(&l->flag, value, memory_order_release);
}

static void hear(struct limit_map *m, struct line *l, uint32_t value, size_t nbytes, bool pause)
{
    wait_flag(&l->flag, value, pause);
    if (nbytes <= INLINE_MAX)
        memcpy(m->dst, l->payload, nbytes);
    else
        memcpy(m->dst, m->sh->data + (size_t)(1 - m->me) * m->block_len, nbytes);
}

static void rounds(struct limit_map *m, struct form f, size_t nbytes, int n)
{
    struct line *there = &m->sh->line[0], *back = &m->sh->line[f.two_lines];

    for (int i = 0; i < n; i++) {
        uint32_t ping = m->seq + 1, pong = m->seq + 2;
        if (m->me == 0) {
            say(m, there, ping, nbytes);
            hear(m, back, pong, nbytes, f.pause);
        } else {
            hear(m, there, ping, nbytes, f.pause);
            say(m, back, pong, nbytes);
        }
        m->seq = pong;
    }
}

static int rounds_for(double seconds_each)
{
    double n = TRY_SECONDS / seconds_each;
    return n < 10 ? 10 : n > 20000 ? 20000 : (int)n;
}

static double latency_us(struct limit_map *m, size_t nbytes)
{
    static const struct form forms[] = {
        { true, true }, { false, true }, { true, false }, { false, false }
    };
    int n = rounds_for(2 * (100e-9 + (double)nbytes / GUESS_BYTES_S));
    double best = 1e30;

    for (int i = 0; i < TRIES * 4; i++) {
        rounds(m, forms[i % 4], nbytes, n / 10);
        double start = bench_now();
        rounds(m, forms[i % 4], nbytes, n);
        double half = (bench_now() - start) / n / 2;
        best = half < best ? half : best;
    }
    return best * 1e6;
}

/* One try: this rank copies `len` bytes n times (len 0: it stands by); the slower rank's time, at
 * both. */
static double copy_seconds(struct limit_map *m, size_t len, int n)
{
    const char *src = m->sh->data + (size_t)(1 - m->me) * m->block_len;
    double start;

    gate(m);
    start = bench_now();
    for (int i = 0; i < n && len; i++) {
        memcpy(m->dst, src, len);
        __asm__ volatile("" : : "r"(m->dst) : "memory"); /* each copy has to be made */
    }
    m->sh->seconds[m->me] = bench_now() - start;
    gate(m);
    start = m->sh->seconds[0] > m->sh->seconds[1] ? m->sh->seconds[0] : m->sh->seconds[1];
    gate(m);
    return start;
}

static double bandwidth(struct limit_map *m, size_t nbytes, enum bench_limit_kind kind)
{
    bool both_ways = kind == LIMIT_BOTH_WAYS;
    int n = rounds_for(5e-9 + (double)nbytes / GUESS_BYTES_S);
    double best = 0;

    for (int i = 0; i < TRIES; i++) {
        double one = copy_seconds(m, both_ways || m->me == 1 ? nbytes : 0, n);
        double rate = (double)nbytes * n * (both_ways ? 2 : 1) / one;
        best = rate > best ? rate : best;
        if (kind == LIMIT_ONE_WAY && nbytes > BENCH_LARGE) { /* each core moves one half */
            rate = (double)(nbytes / 2 * 2) * n / copy_seconds(m, nbytes / 2, n);
            best = rate > best ? rate : best;
        }
    }
    return best / 1e6;
}

static void add(double *to, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* Rank 0 copies to the other's memory, or adds doubles to it, and orders its stores, as a put and a
 * flush have to; rank 1 stands by. */
static double alone_us(struct limit_map *m, size_t nbytes, bool adds)
{
    int n = rounds_for(20e-9 + (double)nbytes / GUESS_BYTES_S);
    char *there = m->sh->data + (size_t)(1 - m->me) * m->block_len;
    double best = 1e30;

    for (int i = 0; i < TRIES && m->me == 0; i++) {
        double start = bench_now(), each;
        for (int k = 0; k < n; k++) {
            if (adds)
                add((double *)(void *)there, (const double *)(const void *)m->dst,
                    (nbytes + 7) / 8);
            else
                memcpy(there, m->dst, nbytes);
            atomic_thread_fence(memory_order_seq_cst);
        }
        each = (bench_now() - start) / n;
        best = each < best ? each : best;
    }
    gate(m);
    return best * 1e6;
}

static int map(struct limit_map *m, int fd)
{
    void *p = mmap(NULL, m->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -1;
    m->sh = p;
    return 0;
}

static void offer(struct limit_map *m)
{
    long where[3] = { -1, -1, 0 };
    int fd = memfd_create("weft-bench", MFD_CLOEXEC), answer = 0;

    if (fd >= 0 && !ftruncate(fd, (off_t)m->len) && !map(m, fd)) {
        m->sh->cookie = (uint64_t)(bench_now() * 1e9) ^ (uint64_t)getpid() << 40;
        where[0] = getpid();
        where[1] = fd;
        where[2] = (long)m->sh->cookie;
    }
    MPI_Send(where, 3, MPI_LONG, 1, TAG_LIMIT, MPI_COMM_WORLD);
    MPI_Recv(&answer, 1, MPI_INT, 1, TAG_LIMIT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (fd >= 0)
        close(fd);
    if (!answer && m->sh) {
        munmap(m->sh, m->len);
        m->sh = NULL;
    }
}

static void take(struct limit_map *m)
{
    long where[3];
    char path[64];
    int fd, answer;

    MPI_Recv(where, 3, MPI_LONG, 0, TAG_LIMIT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", where[0], where[1]);
    fd = where[0] < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && lseek(fd, 0, SEEK_END) == (off_t)m->len && !map(m, fd) &&
        m->sh->cookie != (uint64_t)where[2]) {
        munmap(m->sh, m->len); /* another host or another PID namespace: not our file */
        m->sh = NULL;
    }
    if (fd >= 0)
        close(fd);
    answer = m->sh != NULL;
    MPI_Send(&answer, 1, MPI_INT, 0, TAG_LIMIT, MPI_COMM_WORLD);
}

int bench_limits_open(struct bench *b)
{
    struct limit_map *m;

    if (b->opt.kind[0] != 'H' || b->opt.kind[1] != 'H') {
        gpu_limits_open(b);
        return 0;
    }
    m = calloc(1, sizeof *m);
    if (!m)
        MPI_Abort(MPI_COMM_WORLD, 2);
    m->me = b->rank;
    m->block_len = (b->opt.max + 4095) / 4096 * 4096;
    m->len = sizeof *m->sh + 2 * m->block_len;
    m->dst = bench_alloc_host(m->block_len + INLINE_MAX);
    if (b->rank == 0)
        offer(m);
    else
        take(m);
    if (!m->dst || !m->sh) {
        if (b->rank == 0)
            fprintf(stderr,
                    "%s: --limits: the two ranks cannot share memory (one host, one container?); "
                    "leave --limits out\n",
                    b->spec->name);
        free(m->dst);
        free(m);
        return -1;
    }
    memset(m->sh->data + (size_t)m->me * m->block_len, 'a', m->block_len);
    b->limit_map = m;
    gate(m);
    return 0;
}

void bench_limits_close(struct bench *b)
{
    free(b->gpu_limits);
    if (!b->limit_map)
        return;
    munmap(b->limit_map->sh, b->limit_map->len);
    free(b->limit_map->dst);
    free(b->limit_map);
}

double bench_limit(struct bench *b, size_t nbytes)
{
    struct limit_map *m = b->limit_map;

    if (b->gpu_limits)
        return gpu_limit(b, nbytes);
    gate(m);
    switch (b->spec->limit) {
    case LIMIT_LATENCY:
        return latency_us(m, nbytes);
    case LIMIT_COPY:
    case LIMIT_ADD:
        return alone_us(m, nbytes, b->spec->limit == LIMIT_ADD);
    default:
        return bandwidth(m, nbytes, b->spec->limit);
    }
}

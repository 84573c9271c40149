/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective access to one file by all ranks: MPI_File_write_at_all and MPI_File_read_at_all
 * through a view, in turn with three references of the same run by as many processes.  Plain: each
 * rank writes or reads as many bytes in a row, by pwrite or pread of 4 MiB.  Blocks: each rank
 * writes or reads the same blocks as through the view, one call for each.  By hand: two phases as a
 * program would code them for this pattern, MPI_Alltoallv and one contiguous part of the file for
 * each rank.  If the blocks leave holes, the rank reads its part first.  The ranks exchange the
 * lists of blocks before, as MPI learns the view before.
 *
 * The file is written once before, so that no pass allocates; data go to the page cache.  A pass
 * by blocks reads and compares the data of MPI's write, and MPI reads and compares the data of a
 * write by blocks.  The figures are medians.  The program creates the file, and removes it at the
 * end and on SIGTERM, SIGINT and SIGHUP.  Plain MPI and POSIX, so that it builds with any MPI's
 * compiler wrapper. */
#define _GNU_SOURCE 1
#include "test/bench/bench.h"
#include "test/bench/compute.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX 101
#define CALL ((size_t)4 << 20) /* of the plain reference */
#define PAGE 4096              /* block of `strided` */
#define SMALL 64               /* block of `small` */
#define SMALL_PART 16          /* `small` moves this part of --size: it is that slow */
#define HOLES_PART 4           /* the same for `holes` */
#define SLABS 4                /* cells of a rank in `btio` */
#define POINT 40               /* bytes of a point of `btio`: 5 doubles */
#define SIZE_MIN ((size_t)64 << 10)
#define SIZE_MAX_RANK ((size_t)1 << 30)
#define PROGRESS_S 3 /* a longer silence looks like a hang */

/* What one rank accesses: n blocks of `len` bytes. */
struct pattern {
    size_t len, n, nbytes;
    size_t extent;               /* bytes of the file for each rank: nbytes, and as many of holes */
    int grid[4], mine[4], at[4]; /* 4-D: global and local extents, origin; in doubles.
                                  * BTIO: cells by y and x; extents of a cell by z, y and x */
    off_t (*offset)(const struct pattern *p, size_t i);
    MPI_Datatype filetype;
    MPI_Offset disp;
};

struct opts {
    const char *file, *dir, *pattern, *json;
    size_t nbytes;
    int samples, opens;
    bool fault, overlap, sleep;
};

static struct {
    struct opts opt;
    int rank, nranks, fd, rows;
    char path[PATH_MAX]; /* empty: there is no file to remove */
    char *buf;
    FILE *json;
    MPI_File fh;
    MPI_Datatype page;
    double said; /* time of the last line */
    int wrong;   /* passes with wrong data */
    bool one_host;
} b = { .fd = -1 };

/* ---- the file, and its end ---- */

static void remove_on_signal(int sig)
{
    if (b.path[0])
        unlink(b.path);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void catch_signals(void)
{
    static const int sigs[] = { SIGTERM, SIGINT, SIGHUP };
    struct sigaction sa = { .sa_handler = remove_on_signal };
    sigfillset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof sigs / sizeof sigs[0]; i++)
        sigaction(sigs[i], &sa, NULL);
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "weft_bench_io: rank %d: could not %s %s: %s\n", b.rank, what, b.path, why);
    if (b.path[0])
        unlink(b.path);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void must(int err, const char *what)
{
    char why[MPI_MAX_ERROR_STRING];
    int len;
    if (err == MPI_SUCCESS)
        return;
    MPI_Error_string(err, why, &len);
    fail(what, why);
}

/* On rank 0: creates the file.  0, or the exit status after a message. */
static int create_file(void)
{
    const char *tmp = getenv("TMPDIR"), *dir = b.opt.dir ? b.opt.dir : tmp && *tmp ? tmp : ".";
    char path[PATH_MAX];
    int len = b.opt.file ? snprintf(path, sizeof path, "%s", b.opt.file)
                         : snprintf(path, sizeof path, "%s/weft_bench_io.%ld", dir, (long)getpid());
    if (len >= (int)sizeof path) {
        fprintf(stderr, "weft_bench_io: the name of the file is too long\n");
        return 2;
    }
    b.fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (b.fd < 0) {
        fprintf(stderr, "weft_bench_io: could not create %s: %s\n", path, strerror(errno));
        return 2;
    }
    memcpy(b.path, path, sizeof path);
    struct statvfs fs;
    unsigned long long need = (unsigned long long)b.opt.nbytes * (unsigned)b.nranks;
    if (fstatvfs(b.fd, &fs) == 0 && (unsigned long long)fs.f_bavail * fs.f_frsize < need) {
        fprintf(stderr, "weft_bench_io: %s: %llu MiB are needed, %llu MiB are free; see --size\n",
                path, need >> 20, (unsigned long long)fs.f_bavail * fs.f_frsize >> 20);
        unlink(path);
        return 2;
    }
    return 0;
}

static bool on_one_host(void)
{
    MPI_Comm host;
    int n;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &n);
    MPI_Comm_free(&host);
    return n == b.nranks;
}

static int open_file(void)
{
    int err = b.rank ? 0 : create_file();
    MPI_Bcast(&err, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (err)
        return err;
    MPI_Bcast(b.path, sizeof b.path, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (b.rank)
        b.fd = open(b.path, O_RDWR);
    if (b.fd < 0)
        fail("open", strerror(errno));
    must(MPI_File_open(MPI_COMM_WORLD, b.path, MPI_MODE_RDWR, MPI_INFO_NULL, &b.fh), "open");
    return 0;
}

static void close_file(void)
{
    must(MPI_File_close(&b.fh), "close");
    close(b.fd);
    if (b.rank == 0 && unlink(b.path) < 0)
        fail("remove", strerror(errno));
}

/* ---- patterns ---- */

static off_t offset_in_a_row(const struct pattern *p, size_t i)
{
    return (off_t)((size_t)b.rank * p->nbytes + i * p->len);
}

static off_t offset_round_robin(const struct pattern *p, size_t i)
{
    return (off_t)((i * (size_t)b.nranks + (size_t)b.rank) * p->len * (p->extent / p->nbytes));
}

static off_t offset_4d(const struct pattern *p, size_t i)
{
    size_t n2 = (size_t)p->mine[2], n1 = (size_t)p->mine[1];
    size_t i2 = i % n2 + (size_t)p->at[2], i1 = i / n2 % n1 + (size_t)p->at[1];
    size_t i0 = i / n2 / n1 + (size_t)p->at[0];
    size_t row = (i0 * (size_t)p->grid[1] + i1) * (size_t)p->grid[2] + i2;
    return (off_t)((row * (size_t)p->grid[3] + (size_t)p->at[3]) * sizeof(double));
}

static void make_contiguous(struct pattern *p, size_t nbytes)
{
    p->nbytes = nbytes;
    p->len = nbytes < CALL ? nbytes : CALL;
    p->offset = offset_in_a_row;
    p->disp = (MPI_Offset)nbytes * b.rank;
    MPI_Type_contiguous(PAGE, MPI_BYTE, &p->filetype);
}

/* Blocks of which each begins a part of `stride` bytes. */
static void make_round_robin(struct pattern *p, size_t nbytes, size_t block, size_t stride)
{
    MPI_Datatype one;
    p->nbytes = nbytes;
    p->extent = nbytes / block * stride;
    p->len = block;
    p->offset = offset_round_robin;
    p->disp = (MPI_Offset)stride * b.rank;
    MPI_Type_contiguous((int)block, MPI_BYTE, &one);
    MPI_Type_create_resized(one, 0, (MPI_Aint)stride * b.nranks, &p->filetype);
    MPI_Type_free(&one);
}

static void make_strided(struct pattern *p, size_t nbytes)
{
    make_round_robin(p, nbytes, PAGE, PAGE);
}

static void make_small(struct pattern *p, size_t nbytes)
{
    make_round_robin(p, nbytes / SMALL_PART, SMALL, SMALL);
}

static void make_holes(struct pattern *p, size_t nbytes)
{
    make_round_robin(p, nbytes / HOLES_PART, SMALL, 2 * SMALL);
}

/* Local extents are powers of two and nearly equal.  The ranks form a grid of four dimensions, with
 * most ranks along the last, in which the file is contiguous: two ranks already interleave. */
static void make_4d(struct pattern *p, size_t nbytes)
{
    int ranks[4] = { 0, 0, 0, 0 }, rest = b.rank, bits = 0;
    while (sizeof(double) << bits < nbytes)
        bits++;
    MPI_Dims_create(b.nranks, 4, ranks);
    for (int d = 3; d >= 0; d--) {
        p->mine[d] = 1 << (bits + d) / 4;
        p->grid[d] = p->mine[d] * ranks[3 - d];
        p->at[d] = rest % ranks[3 - d] * p->mine[d];
        rest /= ranks[3 - d];
    }
    p->nbytes = nbytes;
    p->len = (size_t)p->mine[3] * sizeof(double);
    p->offset = offset_4d;
    MPI_Type_create_subarray(4, p->grid, p->mine, p->at, MPI_ORDER_C, MPI_DOUBLE, &p->filetype);
}

/* Points of the BTIO pattern: slabs of `SLABS`, each cut into a cell for each rank.  The cells
 * rotate from slab to slab, as in the diagonal multipartition of NAS BT. */
static int btio_cell(int slab) { return (b.rank + slab) % b.nranks; }

static off_t offset_btio(const struct pattern *p, size_t i)
{
    size_t ny = (size_t)p->mine[1], nz = (size_t)p->mine[0];
    size_t slab = i / ny / nz, y = i % ny, z = i / ny % nz;
    size_t cell = (size_t)btio_cell((int)slab), width = (size_t)p->grid[1];
    size_t row = ((slab * nz + z) * (size_t)p->grid[0] + cell / width) * ny + y;
    return (off_t)((row * width + cell % width) * p->len);
}

static void make_btio(struct pattern *p, size_t nbytes)
{
    MPI_Datatype point, part[SLABS];
    MPI_Aint zero[SLABS] = { 0 };
    int ranks[2] = { 0, 0 }, one[SLABS], bits = 0;
    while ((size_t)64 * SLABS << bits < nbytes)
        bits++;
    MPI_Dims_create(b.nranks, 2, ranks);
    for (int d = 0; d < 2; d++)
        p->grid[d] = ranks[1 - d];
    for (int d = 0; d < 3; d++)
        p->mine[d] = 1 << (bits + d) / 3;
    p->len = (size_t)p->mine[2] * POINT;
    p->nbytes = p->len * (size_t)p->mine[0] * (size_t)p->mine[1] * SLABS;
    p->offset = offset_btio;
    MPI_Type_contiguous(POINT, MPI_BYTE, &point);
    for (int s = 0; s < SLABS; s++) {
        int cell = btio_cell(s);
        int all[3] = { SLABS * p->mine[0], p->grid[0] * p->mine[1], p->grid[1] * p->mine[2] };
        int at[3] = { s * p->mine[0], cell / p->grid[1] * p->mine[1],
                      cell % p->grid[1] * p->mine[2] };
        MPI_Type_create_subarray(3, all, p->mine, at, MPI_ORDER_C, point, &part[s]);
        one[s] = 1;
    }
    MPI_Type_create_struct(SLABS, one, zero, part, &p->filetype);
    for (int s = 0; s < SLABS; s++)
        MPI_Type_free(&part[s]);
    MPI_Type_free(&point);
}

static const struct {
    const char *name, *text;
    void (*make)(struct pattern *p, size_t nbytes);
} patterns[] = {
    { "contiguous", "a piece of the file for each rank", make_contiguous },
    { "strided", "blocks of 4 KiB, round robin", make_strided },
    { "4d", "a 4-D array of doubles, a part for each rank", make_4d },
    { "btio", "a cell of each of 4 slabs, as NAS BT writes; 5/8 of --size", make_btio },
    { "small", "blocks of 64 bytes, round robin; 1/16 of --size", make_small },
    { "holes", "the same with holes of 64 bytes; 1/4 of --size", make_holes },
};
#define NPATTERNS ((int)(sizeof patterns / sizeof patterns[0]))

/* ---- one pass ---- */

/* A word of data: differs by rank, position and pass. */
static uint64_t word(size_t i, unsigned seed)
{
    return ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)b.rank << 48 ^ (uint64_t)seed << 32;
}

static void fill(size_t nbytes, unsigned seed)
{
    uint64_t *w = (uint64_t *)(void *)b.buf;
    for (size_t i = 0; i < nbytes / sizeof *w; i++)
        w[i] = word(i, seed);
}

static void check(const char *what, const char *way, size_t nbytes, unsigned seed)
{
    const uint64_t *w = (const uint64_t *)(const void *)b.buf;
    for (size_t i = 0; i < nbytes / sizeof *w; i++) {
        if (w[i] == word(i, seed))
            continue;
        fprintf(stderr, "weft_bench_io: rank %d: wrong data at byte %zu: %s, read %s\n", b.rank,
                i * sizeof *w, what, way);
        b.wrong++;
        return;
    }
}

static void move(char *at, size_t len, off_t off, bool write)
{
    while (len) {
        ssize_t n = write ? pwrite(b.fd, at, len, off) : pread(b.fd, at, len, off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            fail(write ? "write" : "read", n < 0 ? strerror(errno) : "the file is too short");
        at += n;
        len -= (size_t)n;
        off += n;
    }
}

static void by_mpi(const struct pattern *p, bool write)
{
    MPI_Status status;
    int n = (int)(p->nbytes / PAGE), got = -1;
    if (write)
        must(MPI_File_write_at_all(b.fh, 0, b.buf, n, b.page, &status), "write");
    else
        must(MPI_File_read_at_all(b.fh, 0, b.buf, n, b.page, &status), "read");
    MPI_Get_count(&status, b.page, &got);
    if (got != n)
        fail(write ? "write" : "read", "the status has another count");
}

static void by_calls(const struct pattern *p, bool write)
{
    off_t base = (off_t)((size_t)b.rank * p->nbytes);
    for (size_t at = 0; at < p->nbytes; at += CALL) {
        size_t left = p->nbytes - at;
        move(b.buf + at, left < CALL ? left : CALL, base + (off_t)at, write);
    }
}

static void by_blocks(const struct pattern *p, bool write)
{
    for (size_t i = 0; i < p->n; i++)
        move(b.buf + i * p->len, p->len, p->offset(p, i), write);
}

/* ---- two phases by hand ---- */

/* Rank d has the bytes of the file from d * extent, extent long: no block crosses these bounds.  A
 * rank's blocks ascend in the file, so that its buffer is already sorted by destination. */
static struct {
    int *count, *displ, *count_in, *displ_in; /* bytes to and from each rank */
    off_t *offset_in;                         /* of each block that arrives, in my part */
    char *in, *part;
} hand;

static void hand_free(void)
{
    free(hand.count);
    free(hand.offset_in);
    free(hand.in);
    free(hand.part);
    memset(&hand, 0, sizeof hand);
}

static void hand_displs(void)
{
    for (int r = 1; r < b.nranks; r++) {
        hand.displ[r] = hand.displ[r - 1] + hand.count[r - 1];
        hand.displ_in[r] = hand.displ_in[r - 1] + hand.count_in[r - 1];
    }
}

/* Exchanges the offsets of the blocks. */
static void hand_plan(const struct pattern *p)
{
    size_t n = (size_t)b.nranks, off_len = sizeof(off_t);
    off_t *mine = malloc(p->n * off_len);
    hand.count = calloc(4 * n, sizeof *hand.count);
    hand.offset_in = malloc(p->n * off_len);
    hand.in = bench_alloc_host(p->nbytes);
    hand.part = bench_alloc_host(p->extent);
    if (!mine || !hand.count || !hand.offset_in || !hand.in || !hand.part)
        fail("get memory for", "no memory");
    hand.displ = hand.count + n;
    hand.count_in = hand.displ + n;
    hand.displ_in = hand.count_in + n;
    for (size_t i = 0; i < p->n; i++) {
        off_t off = p->offset(p, i), part = (off_t)p->extent;
        mine[i] = off % part;
        hand.count[off / part]++;
    }
    MPI_Alltoall(hand.count, 1, MPI_INT, hand.count_in, 1, MPI_INT, MPI_COMM_WORLD);
    hand_displs();
    MPI_Alltoallv(mine, hand.count, hand.displ, MPI_INT64_T, hand.offset_in, hand.count_in,
                  hand.displ_in, MPI_INT64_T, MPI_COMM_WORLD);
    for (size_t r = 0; r < 2 * n; r++) { /* blocks to bytes: counts and displacements, both ways */
        hand.count[r] *= (int)p->len;
        hand.count_in[r] *= (int)p->len;
    }
    free(mine);
}

static void by_hand(const struct pattern *p, bool write)
{
    off_t base = (off_t)((size_t)b.rank * p->extent);
    if (write) {
        if (p->extent > p->nbytes)
            move(hand.part, p->extent, base, false);
        MPI_Alltoallv(b.buf, hand.count, hand.displ, MPI_BYTE, hand.in, hand.count_in,
                      hand.displ_in, MPI_BYTE, MPI_COMM_WORLD);
        for (size_t i = 0; i < p->n; i++)
            memcpy(hand.part + hand.offset_in[i], hand.in + i * p->len, p->len);
        move(hand.part, p->extent, base, true);
        return;
    }
    move(hand.part, p->extent, base, false);
    for (size_t i = 0; i < p->n; i++)
        memcpy(hand.in + i * p->len, hand.part + hand.offset_in[i], p->len);
    MPI_Alltoallv(hand.in, hand.count_in, hand.displ_in, MPI_BYTE, b.buf, hand.count, hand.displ,
                  MPI_BYTE, MPI_COMM_WORLD);
}

typedef void way_fn(const struct pattern *p, bool write);

/* Seconds from the start of the first rank to the end of the last: with more ranks than cores, some
 * ranks are done before others run.  Ranks of several hosts have no common clock: the slowest. */
static double timed(way_fn *way, const struct pattern *p, bool write)
{
    double start, t[3], most[3]; /* minus start; end; this rank's time */
    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    way(p, write);
    t[1] = bench_now();
    t[0] = -start;
    t[2] = t[1] - start;
    MPI_Allreduce(t, most, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return b.one_host ? most[0] + most[1] : most[2];
}

static double write_by(way_fn *way, const struct pattern *p, unsigned seed)
{
    fill(p->nbytes, seed);
    double t = timed(way, p, true);
    must(MPI_File_sync(b.fh), "sync"); /* what others wrote may be read, as the standard wants */
    MPI_Barrier(MPI_COMM_WORLD);
    return t;
}

static double read_by(way_fn *way, const struct pattern *p, unsigned seed, const char *what,
                      const char *name)
{
    if (b.opt.fault && b.rank == b.nranks - 1)
        move((char[]){ "x" }, 1, p->offset(p, p->n - 1), true);
    must(MPI_File_sync(b.fh), "sync");
    memset(b.buf, 0, p->nbytes);
    double t = timed(way, p, false);
    check(what, name, p->nbytes, seed);
    return t;
}

enum way { MPI_WAY, PLAIN, BLOCKS, HAND, WAYS };

/* One way writes, and one reads that. */
static const struct {
    enum way writer, reader;
    const char *name; /* of the reader */
} pairs[] = { { PLAIN, PLAIN, "in a row" },
              { MPI_WAY, HAND, "by hand" },
              { HAND, BLOCKS, "by blocks" },
              { BLOCKS, MPI_WAY, "by MPI" } };
static way_fn *const ways[WAYS] = { by_mpi, by_calls, by_blocks, by_hand };

/* Each second pass is in reverse order, because what a pair leaves in the caches changes the time
 * of the next: so the accesses by MPI and the plain ones follow the same kinds of pairs.
 * t[0]: writing, t[1]: reading. */
static void pass(const struct pattern *p, const char *name, unsigned nth, double t[2][WAYS])
{
    for (unsigned i = 0; i < WAYS; i++) {
        unsigned k = nth % 2 ? WAYS - 1 - i : i, seed = WAYS * nth + i;
        enum way w = pairs[k].writer, r = pairs[k].reader;
        t[0][w] = write_by(ways[w], p, seed);
        t[1][r] = read_by(ways[r], p, seed, name, pairs[k].name);
    }
}

/* ---- all passes, and the table ---- */

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, c = *(const double *)y;
    return (a > c) - (a < c);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void progress(const char *name, int done)
{
    double now = bench_now();
    if (b.rank || now - b.said < PROGRESS_S)
        return;
    b.said = now;
    fprintf(stderr, "# %s: %d of %d passes\n", name, done, b.opt.samples);
}

static void head(void)
{
    if (b.rank)
        return;
    printf("# Weft collective file access, %d ranks, %zu KiB each, %s\n"
           "# plain: pwrite or pread in a row by as many processes; blocks: a call for each block; "
           "hand: alltoallv and one part of the file for each rank\n"
           "# %-12s %-6s %12s %12s %12s %12s %10s %10s\n",
           b.nranks, b.opt.nbytes >> 10, b.path, "pattern", "", "MPI(MB/s)", "plain(MB/s)",
           "blocks(MB/s)", "hand(MB/s)", "MPI/plain", "MPI/hand");
    fflush(stdout);
    b.said = bench_now();
}

static void row(const char *name, const char *what, const double *v)
{
    if (b.rank)
        return;
    printf("  %-12s %-6s %12.1f %12.1f %12.1f %12.1f %10.2f %10.2f\n", name, what, v[MPI_WAY],
           v[PLAIN], v[BLOCKS], v[HAND], v[MPI_WAY] / v[PLAIN], v[MPI_WAY] / v[HAND]);
    fflush(stdout);
    b.said = bench_now();
    if (b.json)
        fprintf(b.json,
                "%s    { \"size\": \"%s-%s\", \"mb_s\": %.9g, \"plain_mb_s\": %.9g, "
                "\"blocks_mb_s\": %.9g, \"hand_mb_s\": %.9g, \"ratio\": %.9g, "
                "\"plain_times\": %.9g, \"hand_times\": %.9g }",
                b.rows++ ? ",\n" : "", name, what, v[MPI_WAY], v[PLAIN], v[BLOCKS], v[HAND],
                v[MPI_WAY] / v[PLAIN], v[PLAIN] / v[MPI_WAY], v[HAND] / v[MPI_WAY]);
}

static void set_pattern(int k, struct pattern *p)
{
    char native[] = "native";
    patterns[k].make(p, b.opt.nbytes);
    if (!p->extent)
        p->extent = p->nbytes;
    p->n = p->nbytes / p->len;
    MPI_Type_commit(&p->filetype);
    must(MPI_File_set_view(b.fh, p->disp, MPI_BYTE, p->filetype, native, MPI_INFO_NULL), "view");
}

static void run_pattern(int k)
{
    static double all[2][WAYS][SAMPLES_MAX];
    struct pattern p = { .filetype = MPI_DATATYPE_NULL };
    double t[2][WAYS], v[WAYS];
    set_pattern(k, &p);
    hand_plan(&p);
    for (int i = -1; i < b.opt.samples; i++) { /* the first is a warm-up */
        pass(&p, patterns[k].name, (unsigned)(i + 1), t);
        progress(patterns[k].name, i + 1);
        for (int w = 0; w < 2 * WAYS && i >= 0; w++)
            all[w / WAYS][w % WAYS][i] = t[w / WAYS][w % WAYS];
    }
    for (int read = 0; read < 2; read++) {
        for (int w = 0; w < WAYS; w++)
            v[w] = (double)p.nbytes * b.nranks / median(all[read][w], b.opt.samples) * 1e-6;
        row(patterns[k].name, read ? "read" : "write", v);
    }
    hand_free();
    MPI_Type_free(&p.filetype);
}

/* ---- a write beside a computation ---- */

enum { ALONE, COMPUTING, BOTH, PHASES };
static long steps;    /* of the computation of each rank */
static double rest_s; /* seconds of sleep instead */

/* What the write is beside. */
static void other_work(void)
{
    const struct timespec t = { (time_t)rest_s, (long)((rest_s - (double)(time_t)rest_s) * 1e9) };
    if (b.opt.sleep)
        nanosleep(&t, NULL);
    else
        compute(steps);
}

static void overlapped(const struct pattern *p, bool computes)
{
    MPI_Request r;
    int n = (int)(p->nbytes / PAGE);
    must(MPI_File_iwrite_at_all(b.fh, 0, b.buf, n, b.page, &r), "write");
    if (computes)
        other_work();
    must(MPI_Wait(&r, MPI_STATUS_IGNORE), "write");
}

static void write_alone(const struct pattern *p, bool unused)
{
    (void)unused;
    overlapped(p, false);
}

static void write_beside(const struct pattern *p, bool unused)
{
    (void)unused;
    overlapped(p, true);
}

static void compute_alone(const struct pattern *p, bool unused)
{
    (void)p;
    (void)unused;
    other_work();
}

static void overlap_head(void)
{
    if (b.rank)
        return;
    printf("# Weft file writing beside computation, %d ranks, %zu KiB each, %s\n"
           "# hidden: the part of the write's own time that does not lengthen the computation\n"
           "# %-12s %12s %12s %12s %10s\n",
           b.nranks, b.opt.nbytes >> 10, b.path, "pattern", "write(ms)", "compute(ms)", "both(ms)",
           "hidden(%)");
    fflush(stdout);
    b.said = bench_now();
}

static void overlap_row(const char *name, const double *t)
{
    double visible = (t[BOTH] - t[COMPUTING]) / t[ALONE] * 100;
    visible = visible < 0 ? 0 : visible > 100 ? 100 : visible;
    if (b.rank)
        return;
    printf("  %-12s %12.3f %12.3f %12.3f %10.1f\n", name, t[ALONE] * 1e3, t[COMPUTING] * 1e3,
           t[BOTH] * 1e3, 100 - visible);
    fflush(stdout);
    if (b.json)
        fprintf(b.json,
                "%s    { \"size\": \"%s-overlap\", \"write_s\": %.9g, \"compute_s\": %.9g, "
                "\"both_s\": %.9g, \"hidden_percent\": %.9g, \"visible_percent\": %.9g }",
                b.rows++ ? ",\n" : "", name, t[ALONE], t[COMPUTING], t[BOTH], 100 - visible,
                visible);
}

/* The computation takes twice the time of the write alone, and costs the same work beside it. */
static void run_overlap(int k)
{
    static double all[PHASES][SAMPLES_MAX];
    static way_fn *const phases[PHASES] = { write_alone, compute_alone, write_beside };
    struct pattern p = { .filetype = MPI_DATATYPE_NULL };
    double t[PHASES];
    set_pattern(k, &p);
    fill(p.nbytes, 1);
    timed(write_alone, &p, true);
    rest_s = 2 * timed(write_alone, &p, true);
    steps = b.opt.sleep ? 0 : compute_steps(1e6 * rest_s);
    MPI_Bcast(&steps, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Bcast(&rest_s, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int i = -1; i < b.opt.samples; i++) { /* the first is a warm-up */
        for (int w = 0; w < PHASES; w++)
            all[w][i < 0 ? 0 : i] = timed(phases[w], &p, true);
        progress(patterns[k].name, i + 1);
    }
    read_by(by_blocks, &p, 1, patterns[k].name, "by blocks");
    for (int w = 0; w < PHASES; w++)
        t[w] = median(all[w], b.opt.samples);
    overlap_row(patterns[k].name, t);
    MPI_Type_free(&p.filetype);
}

/* Seconds of the slowest rank for opening and closing the file, by MPI or by each rank itself. */
static double time_open(bool by_mpi)
{
    double mine, most;
    MPI_File f;
    MPI_Barrier(MPI_COMM_WORLD);
    mine = bench_now();
    if (by_mpi) {
        must(MPI_File_open(MPI_COMM_WORLD, b.path, MPI_MODE_RDWR, MPI_INFO_NULL, &f), "open");
        must(MPI_File_close(&f), "close");
    } else {
        int fd = open(b.path, O_RDWR);
        if (fd < 0 || close(fd) < 0)
            fail("open", strerror(errno));
    }
    mine = bench_now() - mine;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void run_opens(void)
{
    static double t[2][SAMPLES_MAX];
    double us[2];
    for (int i = -1; i < b.opt.opens; i++) /* the first is a warm-up */
        for (int plain = 0; plain < 2; plain++)
            t[plain][i < 0 ? 0 : i] = time_open(!plain);
    for (int plain = 0; plain < 2; plain++)
        us[plain] = median(t[plain], b.opt.opens) * 1e6;
    if (b.rank)
        return;
    printf("# Weft file opening and closing, %d ranks, %s\n# %12s %12s\n  %12.1f %12.1f\n",
           b.nranks, b.path, "MPI(us)", "plain(us)", us[0], us[1]);
    if (b.json)
        fprintf(b.json, "    { \"size\": \"open-close\", \"us\": %.9g, \"plain_us\": %.9g }", us[0],
                us[1]);
}

static bool wanted(const char *name)
{
    size_t len = strlen(name);
    const char *list = b.opt.pattern;
    while (list) {
        if (!strncmp(list, name, len) && (list[len] == ',' || !list[len]))
            return true;
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    return !b.opt.pattern;
}

static int run_all(void)
{
    struct pattern whole = { .nbytes = b.opt.nbytes };
    int err = open_file(), any = 0;
    if (err)
        return err;
    if (b.opt.opens) {
        run_opens();
        close_file();
        return 0;
    }
    b.one_host = on_one_host();
    b.buf = bench_alloc_host(b.opt.nbytes);
    if (!b.buf)
        fail("get memory for", "no memory");
    MPI_Type_contiguous(PAGE, MPI_BYTE, &b.page);
    MPI_Type_commit(&b.page);
    if (b.opt.overlap)
        overlap_head();
    else
        head();
    fill(b.opt.nbytes, 0);
    by_calls(&whole, true);
    for (int k = 0; k < NPATTERNS; k++) {
        if (wanted(patterns[k].name))
            (b.opt.overlap ? run_overlap : run_pattern)(k);
    }
    MPI_Type_free(&b.page);
    free(b.buf);
    close_file();
    MPI_Allreduce(&b.wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any ? 1 : 0;
}

/* ---- options ---- */

static void help(void)
{
    printf("weft_bench_io: speed of collective access to a file, beside pwrite and pread.\n\n"
           "  -s, --size N       bytes of each rank, a power of two from 64K to 1G (16M)\n"
           "  --dir DIR          where the file is created ($TMPDIR, else the current folder)\n"
           "  --file NAME        instead: its name; it must not exist\n"
           "  --pattern LIST     some of these, by commas (all):\n");
    for (int k = 0; k < NPATTERNS; k++)
        printf("                       %-12s %s\n", patterns[k].name, patterns[k].text);
    printf(
        "  -i, --iterations N passes, the median counts (5)\n"
        "  --opens N          instead: time of opening and closing the file, N times\n"
        "  --overlap          instead: MPI_File_iwrite_at_all beside a computation, and the part\n"
        "                     of the write that is hidden\n"
        "  --sleep            with --overlap: the ranks sleep, as beside a device that computes\n"
        "  --json FILE        writes the figures\n"
        "  -h, --help         print this help\n"
        "  -v, --version      print the version\n\n"
        "--overlap: hidden = 100 - (both - computation) / write alone, in percent.  A write into\n"
        "the page cache costs processor time: give each rank a second core (1 rank on 2 cores).\n"
        "Memory of a rank: 3 times --size.  Passes that take long print a line each 3 s.\n\n"
        "The file is removed at the end and on SIGTERM.  Data read are compared with those\n"
        "written.  Exit status: 0; 1: wrong data or a failed access; 2: wrong usage.\n");
}

static int wrong(const char *option, const char *value, const char *expected)
{
    if (b.rank == 0)
        fprintf(stderr, "weft_bench_io: %s %s: expected %s\n", option, value, expected);
    return 2;
}

static int read_size(const char *text)
{
    static const char units[] = "KMG";
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit && n < 1u << 30) {
        n <<= 10 * (unit - units + 1);
        end++;
    }
    if (end == text || *end || n < SIZE_MIN || n > SIZE_MAX_RANK || n & (n - 1))
        return wrong("--size", text, "a power of two from 64K to 1G");
    b.opt.nbytes = (size_t)n;
    return 0;
}

static int check_patterns(const char *text)
{
    char one[32];
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        int k = 0;
        snprintf(one, sizeof one, "%.*s", (int)(len < 31 ? len : 31), at);
        while (k < NPATTERNS && strcmp(one, patterns[k].name))
            k++;
        if (k == NPATTERNS)
            return wrong("--pattern", text, "some of contiguous,strided,4d,btio,small,holes");
        at += len;
        if (!*at)
            return 0;
    }
}

enum {
    DIR_OPT = 256,
    FILE_OPT,
    PATTERN_OPT,
    JSON_OPT,
    FAULT_OPT,
    OPENS_OPT,
    OVERLAP_OPT,
    SLEEP_OPT
};
static const struct option options[] = {
    { "size", 1, NULL, 's' },        { "dir", 1, NULL, DIR_OPT },
    { "file", 1, NULL, FILE_OPT },   { "pattern", 1, NULL, PATTERN_OPT },
    { "iterations", 1, NULL, 'i' },  { "json", 1, NULL, JSON_OPT },
    { "fault", 0, NULL, FAULT_OPT }, /* for the self-test */
    { "opens", 1, NULL, OPENS_OPT }, { "overlap", 0, NULL, OVERLAP_OPT },
    { "sleep", 0, NULL, SLEEP_OPT }, { "help", 0, NULL, 'h' },
    { "version", 0, NULL, 'v' },     { NULL, 0, NULL, 0 }
};

static int take(int c, const char *value)
{
    switch (c) {
    case 's':
        return read_size(value);
    case 'i':
        b.opt.samples = atoi(value);
        return b.opt.samples < 1 || b.opt.samples > SAMPLES_MAX ? wrong("-i", value, "1 to 101")
                                                                : 0;
    case DIR_OPT:
        b.opt.dir = value;
        return 0;
    case FILE_OPT:
        b.opt.file = value;
        return 0;
    case PATTERN_OPT:
        b.opt.pattern = value;
        return check_patterns(value);
    case JSON_OPT:
        b.opt.json = value;
        return 0;
    case OPENS_OPT:
        b.opt.opens = atoi(value);
        return b.opt.opens < 1 || b.opt.opens > SAMPLES_MAX ? wrong("--opens", value, "1 to 101")
                                                            : 0;
    case OVERLAP_OPT:
        b.opt.overlap = true;
        return 0;
    case SLEEP_OPT:
        b.opt.sleep = true;
        return 0;
    case FAULT_OPT:
        b.opt.fault = true;
        return 0;
    default:
        return wrong("option", "", "one of those that --help lists, with its value");
    }
}

/* 0; -1: help or version is printed; 2: wrong usage. */
static int parse(int argc, char **argv)
{
    int c, err = 0;
    b.opt = (struct opts){ .nbytes = 16u << 20, .samples = 5 };
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, "s:i:hv", options, NULL)) != -1) {
        if (c == 'h' && b.rank == 0)
            help();
        if (c == 'v' && b.rank == 0)
            printf("weft_bench_io, Weft benchmark %s\n", BENCH_VERSION);
        if (c == 'h' || c == 'v')
            return -1;
        err = take(c, optarg);
    }
    if (!err && optind < argc)
        err = wrong("argument", argv[optind], "options only");
    if (!err && b.opt.file && b.opt.dir)
        err = wrong("--file", b.opt.file, "no --dir beside it");
    if (!err && b.opt.sleep && !b.opt.overlap)
        err = wrong("--sleep", "", "--overlap beside it");
    if (!err && b.opt.overlap && b.opt.opens)
        err = wrong("--overlap", "", "no --opens beside it");
    return err;
}

static int open_json(void)
{
    if (b.rank || !b.opt.json)
        return 0;
    b.json = fopen(b.opt.json, "w");
    if (!b.json)
        return wrong("--json", b.opt.json, "a file that can be written");
    fprintf(b.json,
            "{\n  \"benchmark\": \"weft_bench_io\",\n  \"version\": \"%s\",\n"
            "  \"ranks\": %d,\n  \"bytes_per_rank\": %zu,\n  \"rows\": [\n",
            BENCH_VERSION, b.nranks, b.opt.nbytes);
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.nranks);
    catch_signals();
    int err = parse(argc, argv);
    if (!err)
        err = open_json();
    MPI_Bcast(&err, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!err)
        err = run_all();
    if (b.json) {
        fprintf(b.json, "\n  ]\n}\n");
        fclose(b.json);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* rank 0 prints the error before a rank exits with it */
    MPI_Finalize();
    return err < 0 ? 0 : err;
}

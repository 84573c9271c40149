/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing of derived datatypes.  With one rank: time of commit, and MPI_Pack and MPI_Unpack in GB/s
 * beside memcpy, in the same run, of the same number of bytes from one contiguous buffer to
 * another.  With two (--send): half a ping-pong of the type itself, beside MPI_Pack, MPI_PACKED and
 * MPI_Unpack by hand, and beside loops of memcpy by hand.  Half of the user's buffer is data,
 * the other half gaps as long as the blocks.  Medians.  With -d cuda all buffers are on device 0,
 * and a copy on that device takes the place of memcpy. */
#include "test/bench/bench.h"
#include "test/bench/device.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX 101

struct layout { /* what is measured: pieces of equal length, some of them twice as long */
    MPI_Datatype type;
    MPI_Aint *off;
    size_t *len;
    int count; /* items of the type */
    size_t n;  /* pieces in all items */
};

typedef void make_fn(struct layout *l, size_t block, size_t nbytes);

static void pieces(struct layout *l, size_t n)
{
    l->n = n;
    l->count = 1;
    l->off = malloc(n * sizeof *l->off);
    l->len = malloc(n * sizeof *l->len);
    if (!l->off || !l->len)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void make_vector(struct layout *l, size_t block, size_t nbytes)
{
    pieces(l, nbytes / block);
    for (size_t i = 0; i < l->n; i++) {
        l->off[i] = (MPI_Aint)(2 * block * i);
        l->len[i] = block;
    }
    int bl = (int)(block / 8);
    MPI_Type_vector((int)l->n, bl, 2 * bl, MPI_DOUBLE, &l->type);
}

/* Gaps of 1/2, 1 and 3/2 blocks in turn, in whole doubles. */
static MPI_Aint next_off(MPI_Aint at, size_t len, size_t block, size_t i)
{
    size_t half = block / 16 * 8;
    return at + (MPI_Aint)(len + block + (i % 3) * half - half);
}

static void make_indexed(struct layout *l, size_t block, size_t nbytes)
{
    MPI_Aint at = 0;
    size_t left = nbytes, n = 0;
    pieces(l, nbytes / block + 1);
    int *len = malloc(l->n * sizeof *len), *off = malloc(l->n * sizeof *off);
    for (; left; n++) { /* each fourth block is twice as long */
        l->len[n] = n % 4 == 3 && left >= 2 * block ? 2 * block : block;
        l->off[n] = at;
        len[n] = (int)(l->len[n] / 8);
        off[n] = (int)(at / 8);
        left -= l->len[n];
        at = next_off(at, l->len[n], block, n);
    }
    l->n = n;
    MPI_Type_indexed((int)n, len, off, MPI_DOUBLE, &l->type);
    free(len);
    free(off);
}

static void make_indexed_block(struct layout *l, size_t block, size_t nbytes)
{
    MPI_Aint at = 0;
    pieces(l, nbytes / block);
    int *off = malloc(l->n * sizeof *off);
    for (size_t i = 0; i < l->n; i++) {
        l->len[i] = block;
        l->off[i] = at;
        off[i] = (int)(at / 8);
        at = next_off(at, block, block, i);
    }
    MPI_Type_create_indexed_block((int)l->n, (int)(block / 8), off, MPI_DOUBLE, &l->type);
    free(off);
}

/* An array of structures with two members of `block` bytes, a gap after each. */
static void make_struct(struct layout *l, size_t block, size_t nbytes)
{
    MPI_Datatype both[] = { MPI_DOUBLE, MPI_DOUBLE }, s;
    MPI_Aint gap = next_off(0, block, block, 0), disp[] = { 0, gap };
    int bl = (int)(block / 8);
    pieces(l, nbytes / block);
    for (size_t i = 0; i < l->n; i++) {
        l->off[i] = (MPI_Aint)(i / 2) * (MPI_Aint)(4 * block) + disp[i & 1];
        l->len[i] = block;
    }
    MPI_Type_create_struct(2, (int[]){ bl, bl }, disp, both, &s);
    MPI_Type_create_resized(s, 0, (MPI_Aint)(4 * block), &l->type);
    MPI_Type_free(&s);
    l->count = (int)(l->n / 2);
}

static void make_subarray(struct layout *l, size_t block, size_t nbytes)
{
    pieces(l, nbytes / block);
    int rows = (int)l->n, bl = (int)(block / 8);
    for (size_t i = 0; i < l->n; i++) {
        l->off[i] = (MPI_Aint)(2 * block * i);
        l->len[i] = block;
    }
    MPI_Type_create_subarray(2, (int[]){ rows, 2 * bl }, (int[]){ rows, bl }, (int[]){ 0, 0 },
                             MPI_ORDER_C, MPI_DOUBLE, &l->type);
}

/* The inner part of a 3-d array with a rim of one row: planes of 16 rows out of 18. */
static void make_face(struct layout *l, size_t block, size_t nbytes)
{
    pieces(l, nbytes / block);
    int rows = l->n >= 16 ? 16 : 1, planes = (int)l->n / rows, bl = (int)(block / 8);
    for (size_t i = 0; i < l->n; i++) {
        size_t plane = i / (size_t)rows, row = i % (size_t)rows + 1;
        l->off[i] = (MPI_Aint)((plane * (size_t)(rows + 2) + row) * 2 * block);
        l->len[i] = block;
    }
    MPI_Type_create_subarray(3, (int[]){ planes, rows + 2, 2 * bl }, (int[]){ planes, rows, bl },
                             (int[]){ 0, 1, 0 }, MPI_ORDER_C, MPI_DOUBLE, &l->type);
}

static const struct {
    const char *name;
    make_fn *make;
} kinds[] = { { "vector", make_vector },
              { "indexed", make_indexed },
              { "indexed_block", make_indexed_block },
              { "struct", make_struct },
              { "subarray", make_subarray },
              { "face3d", make_face } };
#define NKINDS (sizeof kinds / sizeof kinds[0])

struct opts {
    const char *kind, *json;
    size_t block, nbytes;
    int samples;
    double sample_s;
    bool send, check, cuda;
};

static struct {
    struct opts opt;
    FILE *json;
    int rank, rows;
    char *user, *packed, *flat;
    char *host_user, *host_packed; /* where the CPU sees the two: themselves, or copies */
    size_t user_len;
} b;

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

static void pack_one(const struct layout *l, size_t nbytes)
{
    MPI_Count at = 0;
    MPI_Pack_c(b.user, l->count, l->type, b.packed, (MPI_Count)nbytes, &at, MPI_COMM_SELF);
}

static void unpack_one(const struct layout *l, size_t nbytes)
{
    MPI_Count at = 0;
    MPI_Unpack_c(b.packed, (MPI_Count)nbytes, &at, b.user, l->count, l->type, MPI_COMM_SELF);
}

static void memcpy_one(const struct layout *l, size_t nbytes)
{
    (void)l;
    if (b.opt.cuda) {
        device_copy(b.packed, b.flat, nbytes);
        return;
    }
    memcpy(b.packed, b.flat, nbytes);
    __asm__ volatile("" ::: "memory");
}

static void loop_pack(const struct layout *l)
{
    char *to = b.host_packed;
    for (size_t i = 0; i < l->n; i++) {
        memcpy(to, b.host_user + l->off[i], l->len[i]);
        to += l->len[i];
    }
}

static void loop_unpack(const struct layout *l)
{
    const char *from = b.host_packed;
    for (size_t i = 0; i < l->n; i++) {
        memcpy(b.host_user + l->off[i], from, l->len[i]);
        from += l->len[i];
    }
}

typedef void one_fn(const struct layout *l, size_t nbytes);

/* Seconds of one call, over as many as fill a sample. */
static double time_of(one_fn *fn, const struct layout *l, size_t nbytes, long n)
{
    double start = bench_now();
    for (long i = 0; i < n; i++)
        fn(l, nbytes);
    return (bench_now() - start) / (double)n;
}

/* The three are measured in turn, so that what disturbs one disturbs the others as well. */
static void measure_pack(const struct layout *l, size_t nbytes, double *v)
{
    one_fn *const fn[] = { pack_one, unpack_one, memcpy_one };
    static double t[3][SAMPLES_MAX];
    long n[3];
    for (int k = 0; k < 3; k++) {
        fn[k](l, nbytes);
        double once = time_of(fn[k], l, nbytes, 2);
        n[k] = (long)(b.opt.sample_s / once) + 1;
    }
    for (int i = 0; i < b.opt.samples; i++)
        for (int k = 0; k < 3; k++)
            t[k][i] = time_of(fn[k], l, nbytes, n[k]);
    for (int k = 0; k < 3; k++)
        v[k] = (double)nbytes / median(t[k], b.opt.samples) * 1e-9;
}

enum way { WAY_TYPE, WAY_PACKED, WAY_LOOP, WAYS };

static void send_one(enum way way, const struct layout *l, size_t nbytes, int peer)
{
    if (way == WAY_TYPE) {
        MPI_Send_c(b.user, l->count, l->type, peer, 1, MPI_COMM_WORLD);
        return;
    }
    if (way == WAY_PACKED)
        pack_one(l, nbytes);
    else
        loop_pack(l);
    MPI_Send_c(b.packed, (MPI_Count)nbytes, MPI_PACKED, peer, 1, MPI_COMM_WORLD);
}

static void recv_one(enum way way, const struct layout *l, size_t nbytes, int peer)
{
    if (way == WAY_TYPE) {
        MPI_Recv_c(b.user, l->count, l->type, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Recv_c(b.packed, (MPI_Count)nbytes, MPI_PACKED, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (way == WAY_PACKED)
        unpack_one(l, nbytes);
    else
        loop_unpack(l);
}

static double pingpong(enum way way, const struct layout *l, size_t nbytes, long n)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now();
    for (long i = 0; i < n; i++) {
        if (b.rank == 0)
            send_one(way, l, nbytes, 1);
        recv_one(way, l, nbytes, !b.rank);
        if (b.rank == 1)
            send_one(way, l, nbytes, 0);
    }
    return (bench_now() - start) / (double)n / 2;
}

static void measure_send(const struct layout *l, size_t nbytes, double *v)
{
    static double t[WAYS][SAMPLES_MAX];
    long n[WAYS];
    for (int k = 0; k < WAYS; k++) {
        double once = pingpong((enum way)k, l, nbytes, 8);
        once = pingpong((enum way)k, l, nbytes, 2);
        n[k] = (long)(b.opt.sample_s / once) + 1;
        MPI_Bcast(&n[k], 1, MPI_LONG, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; i < b.opt.samples; i++)
        for (int k = 0; k < WAYS; k++)
            t[k][i] = pingpong((enum way)k, l, nbytes, n[k]);
    for (int k = 0; k < WAYS; k++)
        v[k] = median(t[k], b.opt.samples) * 1e6;
}

static void head(void)
{
    if (b.rank)
        return;
    if (b.opt.send)
        printf(
            "# Weft derived types, half a ping-pong in us; limit: the better of the two by hand\n"
            "# %-13s %8s %10s %12s %12s %12s %8s\n",
            "type", "block", "bytes", "type(us)", "packed(us)", "loop(us)", "ratio");
    else
        printf("# Weft pack%s; memcpy is of the same bytes, contiguous to contiguous, same run\n"
               "# %-13s %8s %10s %12s %11s %13s %13s %8s %8s\n",
               b.opt.cuda ? " on a device" : "", "type", "block", "bytes", "commit(us)",
               "pack(GB/s)", "unpack(GB/s)", "memcpy(GB/s)", "pack/m", "unpack/m");
}

static void row(const char *kind, size_t block, size_t nbytes, double commit, const double *v)
{
    double hand = v[1] < v[2] ? v[1] : v[2];
    if (b.rank)
        return;
    if (b.opt.send)
        printf("  %-13s %8zu %10zu %12.2f %12.2f %12.2f %8.2f\n", kind, block, nbytes, v[0], v[1],
               v[2], hand / v[0]);
    else
        printf("  %-13s %8zu %10zu %12.2f %11.2f %13.2f %13.2f %8.2f %8.2f\n", kind, block, nbytes,
               commit * 1e6, v[0], v[1], v[2], v[0] / v[2], v[1] / v[2]);
    fflush(stdout);
    if (!b.json)
        return;
    fprintf(b.json, "%s    { \"type\": \"%s\", \"block\": %zu, \"bytes\": %zu, ",
            b.rows++ ? ",\n" : "", kind, block, nbytes);
    if (b.opt.send)
        fprintf(b.json, "\"type_us\": %.9g, \"packed_us\": %.9g, \"loop_us\": %.9g }", v[0], v[1],
                v[2]);
    else
        fprintf(b.json,
                "\"commit_us\": %.9g, \"pack_gb_s\": %.9g, \"unpack_gb_s\": %.9g, "
                "\"memcpy_gb_s\": %.9g }",
                commit * 1e6, v[0], v[1], v[2]);
}

/* 0, or 1 when packing does not give what the list of pieces says, or unpacking does not undo it.
 */
static int wrong_data(const struct layout *l, size_t nbytes)
{
    size_t at = 0;
    for (size_t i = 0; i < b.user_len; i++)
        b.host_user[i] = (char)(i * 7 + i / 251);
    if (b.opt.cuda)
        device_copy(b.user, b.host_user, b.user_len);
    pack_one(l, nbytes);
    if (b.opt.cuda)
        device_copy(b.host_packed, b.packed, nbytes);
    for (size_t i = 0; i < l->n; at += l->len[i], i++)
        if (memcmp(b.host_packed + at, b.host_user + l->off[i], l->len[i]))
            return 1;
    memset(b.host_user, 0, b.user_len);
    if (b.opt.cuda)
        device_set(b.user, 0, b.user_len);
    unpack_one(l, nbytes);
    if (b.opt.cuda)
        device_copy(b.host_user, b.user, b.user_len);
    for (size_t i = 0, from = 0; i < l->n; from += l->len[i], i++)
        if (memcmp(b.host_packed + from, b.host_user + l->off[i], l->len[i]))
            return 1;
    return 0;
}

static char *buffer(size_t len, bool cuda)
{
    char *p = cuda ? device_alloc('D', len) : bench_alloc_host(len);

    if (!p) {
        fprintf(stderr, "weft_bench_pack: no memory for %zu bytes%s%s\n", len, cuda ? ": " : "",
                cuda ? device_why() : "");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (cuda)
        device_set(p, 1, len);
    return p;
}

static void open_buffers(size_t most)
{
    bool cuda = b.opt.cuda;

    b.user_len = 4 * most + 65536;
    b.user = buffer(b.user_len, cuda);
    b.packed = buffer(most, cuda);
    b.flat = buffer(most, cuda);
    b.host_user = cuda ? buffer(b.user_len, false) : b.user;
    b.host_packed = cuda ? buffer(most, false) : b.packed;
}

static void close_buffers(void)
{
    if (!b.opt.cuda) {
        free(b.user);
        free(b.packed);
        free(b.flat);
        return;
    }
    device_free(b.user);
    device_free(b.packed);
    device_free(b.flat);
    free(b.host_user);
    free(b.host_packed);
}

static int run_one(size_t k, size_t block, size_t nbytes)
{
    struct layout l;
    double v[3], start = bench_now(), commit;
    int bad = 0;
    kinds[k].make(&l, block, nbytes);
    start = bench_now();
    MPI_Type_commit(&l.type);
    commit = bench_now() - start;
    if (b.opt.check)
        bad = wrong_data(&l, nbytes);
    if (bad)
        fprintf(stderr, "weft_bench_pack: wrong data: %s, blocks of %zu, %zu bytes\n",
                kinds[k].name, block, nbytes);
    if (b.opt.send)
        measure_send(&l, nbytes, v);
    else
        measure_pack(&l, nbytes, v);
    row(kinds[k].name, block, nbytes, commit, v);
    MPI_Type_free(&l.type);
    free(l.off);
    free(l.len);
    return bad;
}

static int run_all(void)
{
    static const size_t blocks[] = { 8, 16, 32, 64, 128, 256, 1024, 4096 },
                        totals[] = { 64u << 10, 1u << 20, 16u << 20 };
    const struct opts *o = &b.opt;
    size_t most = o->nbytes ? o->nbytes : totals[2];
    int bad = 0;
    open_buffers(most);
    head();
    for (size_t k = 0; k < NKINDS; k++)
        for (size_t t = 0; t < (o->nbytes ? 1u : 3u); t++)
            for (size_t i = 0; i < (o->block ? 1u : 8u); i++)
                if (!o->kind || !strcmp(o->kind, kinds[k].name))
                    bad |= run_one(k, o->block ? o->block : blocks[i],
                                   o->nbytes ? o->nbytes : totals[t]);
    close_buffers();
    return bad;
}

static void help(void)
{
    printf(
        "weft_bench_pack: speed of packing, unpacking and sending derived datatypes.\n"
        "Usage: mpirun -n 1 weft_bench_pack [options]\n"
        "       mpirun -n 2 weft_bench_pack --send [options]\n\n"
        "  -t, --type KIND[:BLOCK]   vector, indexed, indexed_block, struct, subarray or face3d\n"
        "                            (all), in blocks of BLOCK bytes (8 to 4096)\n"
        "  -m, --message-size BYTES  bytes of data; K, M (64K, 1M, 16M)\n"
        "  -s, --send                half a ping-pong: the type, MPI_Pack by hand, loops by hand\n"
        "  -i, --iterations N        samples, of which the median is printed (7)\n"
        "      --sample-ms MS        least time of a sample (2)\n"
        "  -d, --accelerator cuda    buffers on device 0, beside a copy on it; not with --send\n"
        "  -c, --validation          checks the data first; wrong data gives exit status 1\n"
        "      --json FILE           writes the result as JSON\n"
        "  -v, --version    -h, --help\n");
}

static int wrong(const char *opt, const char *found, const char *expected)
{
    if (!b.rank)
        fprintf(stderr, "weft_bench_pack: %s %s: expected %s; see weft_bench_pack -h\n", opt, found,
                expected);
    return 2;
}

static int parse_kind(char *s)
{
    char *colon = strchr(s, ':'), *end = NULL;
    bool known = false;
    if (colon) {
        *colon = 0;
        b.opt.block = (size_t)strtoul(colon + 1, &end, 10);
        if (*end || b.opt.block < 8 || b.opt.block % 8 || b.opt.block > 65536)
            return wrong("-t", colon + 1, "a block of 8 to 65536 bytes, a multiple of 8");
    }
    for (size_t k = 0; k < NKINDS; k++)
        known |= !strcmp(s, kinds[k].name);
    b.opt.kind = strcmp(s, "all") ? s : NULL;
    return known || !b.opt.kind ? 0 : wrong("-t", s, "all or a kind of type that -h names");
}

static int parse_size(const char *s)
{
    char *end;
    unsigned long n = strtoul(s, &end, 10);
    if (*end == 'K' || *end == 'k' || *end == 'M' || *end == 'm')
        n <<= *end == 'K' || *end == 'k' ? 10 : 20, end++;
    b.opt.nbytes = n;
    return *end || n < 65536 || n % 65536 || n > 1u << 30
               ? wrong("-m", s, "a multiple of 64K up to 1024M")
               : 0;
}

static int parse(int argc, char **argv)
{
    static const struct option longs[] = { { "type", required_argument, NULL, 't' },
                                           { "message-size", required_argument, NULL, 'm' },
                                           { "send", no_argument, NULL, 's' },
                                           { "iterations", required_argument, NULL, 'i' },
                                           { "sample-ms", required_argument, NULL, 1 },
                                           { "accelerator", required_argument, NULL, 'd' },
                                           { "validation", no_argument, NULL, 'c' },
                                           { "json", required_argument, NULL, 2 },
                                           { "version", no_argument, NULL, 'v' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int c, err = 0;
    b.opt = (struct opts){ .samples = 7, .sample_s = 2e-3 };
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, "t:m:si:d:cvh", longs, NULL)) != -1) {
        if (c == 't')
            err = parse_kind(optarg);
        else if (c == 'm')
            err = parse_size(optarg);
        else if (c == 's')
            b.opt.send = true;
        else if (c == 'i')
            b.opt.samples = atoi(optarg);
        else if (c == 1)
            b.opt.sample_s = atof(optarg) * 1e-3;
        else if (c == 'd' && strcmp(optarg, "cuda") && strcmp(optarg, "none"))
            err = wrong("-d", optarg, "cuda or none");
        else if (c == 'd')
            b.opt.cuda = !strcmp(optarg, "cuda");
        else if (c == 'c')
            b.opt.check = true;
        else if (c == 2)
            b.opt.json = optarg;
        else if (c == 'v' && !b.rank)
            printf("weft_bench_pack, Weft benchmark %s\n", BENCH_VERSION);
        else if (c == 'h' && !b.rank)
            help();
        if (c == 'v' || c == 'h')
            return 1;
        if (c == '?')
            err = wrong("option", argv[optind - 1], "an option that exists, with its value");
    }
    if (!err && (b.opt.samples < 1 || b.opt.samples > SAMPLES_MAX))
        err = wrong("-i", "", "1 to 101 samples");
    if (!err && b.opt.cuda && b.opt.send)
        err = wrong("-d", "cuda", "no --send beside it");
    if (!err && optind < argc)
        err = wrong("argument", argv[optind], "options only");
    return err;
}

int main(int argc, char **argv)
{
    int n, err;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    err = parse(argc, argv);
    if (!err && n != 1 + b.opt.send)
        err = wrong("mpirun", "", b.opt.send ? "2 ranks with --send" : "1 rank (2 with --send)");
    if (!err && b.opt.cuda && device_open(0, true)) {
        fprintf(stderr, "weft_bench_pack: -d cuda: %s\n", device_why());
        err = BENCH_NO_DEVICE;
    }
    if (!err && b.opt.json && !b.rank) {
        b.json = fopen(b.opt.json, "w");
        if (!b.json)
            err = wrong("--json", b.opt.json, "a file that can be written");
        else
            fprintf(b.json,
                    "{\n  \"benchmark\": \"weft_bench_pack\",\n  \"version\": \"%s\",\n"
                    "  \"ranks\": %d,\n  \"rows\": [\n",
                    BENCH_VERSION, n);
    }
    MPI_Bcast(&err, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!err)
        err = run_all();
    if (b.json) {
        fprintf(b.json, "\n  ]\n}\n");
        fclose(b.json);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* rank 0 prints the error before a rank exits with it */
    MPI_Finalize();
    return err == 1 && !b.opt.check ? 0 : err;
}

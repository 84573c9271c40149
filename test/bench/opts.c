/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of the benchmarks: the options that users of the OSU micro-benchmarks type, and
 * ours.  Every rank parses the same arguments and comes to the same answer; only rank 0 prints. */
#include "test/bench/bench.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_LIMITS = 256,
    OPT_JSON,
    OPT_PLOT,
    OPT_REPEAT,
    OPT_STEP,
    OPT_SIZES,
    OPT_SECONDS,
    OPT_FAULT,
    OPT_SAME,
    OPT_TOUCH
};

struct parse {
    struct bench_opts *o;
    const struct bench_spec *spec;
    bool loud;
};

static const char short_opts[] = ":m:i:x:W:M:fcd:D:hvb:p:R:t:T:O:lr:w:s:";
static const struct option long_opts[] = {
    { "message-size", required_argument, NULL, 'm' },
    { "iterations", required_argument, NULL, 'i' },
    { "warmup", required_argument, NULL, 'x' },
    { "window-size", required_argument, NULL, 'W' },
    { "mem-limit", required_argument, NULL, 'M' },
    { "full", no_argument, NULL, 'f' },
    { "validation", no_argument, NULL, 'c' },
    { "accelerator", required_argument, NULL, 'd' },
    { "ddt", required_argument, NULL, 'D' },
    { "same-gpu", no_argument, NULL, OPT_SAME },
    { "touch-gpu", no_argument, NULL, OPT_TOUCH },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'v' },
    { "buffer-num", required_argument, NULL, 'b' },
    { "pairs", required_argument, NULL, 'p' },
    { "print-rate", required_argument, NULL, 'R' },
    { "num-test-calls", required_argument, NULL, 't' },
    { "num_threads", required_argument, NULL, 't' },
    { "type", required_argument, NULL, 'T' },
    { "op", required_argument, NULL, 'O' },
    { "in-place", no_argument, NULL, 'l' },
    { "compute", required_argument, NULL, 'r' },
    { "win-option", required_argument, NULL, 'w' },
    { "sync-option", required_argument, NULL, 's' },
    { "limits", no_argument, NULL, OPT_LIMITS },
    { "json", required_argument, NULL, OPT_JSON },
    { "plot", required_argument, NULL, OPT_PLOT },
    { "repeat", required_argument, NULL, OPT_REPEAT },
    { "step", required_argument, NULL, OPT_STEP },
    { "sizes", required_argument, NULL, OPT_SIZES },
    { "seconds", required_argument, NULL, OPT_SECONDS },
    { "fault", no_argument, NULL, OPT_FAULT },
    { NULL, 0, NULL, 0 },
};

static int wrong(const struct parse *p, const char *opt, const char *found, const char *expected)
{
    if (p->loud)
        fprintf(stderr, "%s: %s %s: expected %s; see %s -h\n", p->spec->name, opt, found, expected,
                p->spec->name);
    return 2;
}

/* A count with an optional K, M or G (powers of 1024); -1 if it is none. */
static long long to_number(const char *s, char **end)
{
    long long n, unit = 1;

    errno = 0;
    n = strtoll(s, end, 10);
    if (*end == s || n < 0 || errno)
        return -1;
    if (**end && strchr("kK", **end))
        unit = 1024;
    else if (**end && strchr("mM", **end))
        unit = 1024 * 1024;
    else if (**end && strchr("gG", **end))
        unit = 1024 * 1024 * 1024;
    if (unit > 1)
        ++*end;
    return n > LLONG_MAX / unit ? -1 : n * unit;
}

static int parse_int(const struct parse *p, const char *opt, const char *s, int least, int *out)
{
    char *end, expected[60];
    long long n = to_number(s, &end);

    snprintf(expected, sizeof expected, "a whole number from %d on", least);
    if (n < least || n > INT_MAX || *end)
        return wrong(p, opt, s, expected);
    *out = (int)n;
    return 0;
}

/* [MIN:]MAX, MIN: or MIN:MAX */
static int parse_sizes(const struct parse *p, const char *s)
{
    static const char expected[] = "MAX, MIN: or MIN:MAX in bytes, MIN at most MAX";
    const char *colon = strchr(s, ':');
    char *end;
    long long n;

    if (colon) {
        n = to_number(s, &end);
        if (n < 0 || end != colon)
            return wrong(p, "-m", s, expected);
        p->o->min = (size_t)n;
        if (!colon[1])
            return p->o->min <= p->o->max ? 0 : wrong(p, "-m", s, expected);
    }
    n = to_number(colon ? colon + 1 : s, &end);
    if (n < 0 || *end || (size_t)n < p->o->min)
        return wrong(p, "-m", s, expected);
    p->o->max = (size_t)n;
    return 0;
}

/* Sizes by commas, ascending. */
static int parse_list(const struct parse *p, const char *s)
{
    struct bench_opts *o = p->o;
    const char *at = s;

    for (o->nsizes = 0; o->nsizes < BENCH_ROWS; at++) {
        char *end;
        long long n = to_number(at, &end);
        if (n < 0 || (*end && *end != ',') || (o->nsizes && (size_t)n <= o->sizes[o->nsizes - 1]))
            break;
        o->sizes[o->nsizes++] = (size_t)n;
        at = end;
        if (*end)
            continue;
        o->min = o->sizes[0];
        o->max = (size_t)n;
        return 0;
    }
    return wrong(p, "--sizes", s, "ascending sizes by commas, such as 8,32K,1M");
}

static int parse_seconds(const struct parse *p, const char *s)
{
    char *end;

    p->o->seconds = strtod(s, &end);
    if (end == s || *end || !(p->o->seconds > 0))
        return wrong(p, "--seconds", s, "a time above 0");
    return 0;
}

static int parse_memory(const struct parse *p, const char *s)
{
    char *end;
    long long n = to_number(s, &end);

    if (n < 1 || *end)
        return wrong(p, "-M", s, "bytes, or a number with K, M or G");
    p->o->mem_limit = (size_t)n;
    return 0;
}

/* -t counts threads (RECEIVERS or SENDERS:RECEIVERS) or calls of MPI_Test. */
static int parse_t(const struct parse *p, const char *s)
{
    char *end;
    long long n = to_number(s, &end), m;

    if (p->spec->flags & BENCH_OVERLAP)
        return parse_int(p, "-t", s, 0, &p->o->tests);
    if (!(p->spec->flags & BENCH_THREADS))
        return wrong(p, "-t", s,
                     "a benchmark with threads or MPI_Test calls, which this one is not");
    if (n >= 1 && n <= 256 && !*end) {
        p->o->recv_threads = (int)n;
        return 0;
    }
    m = *end == ':' ? to_number(end + 1, &end) : -1;
    if (n < 1 || n > 256 || m < 1 || m > 256 || *end)
        return wrong(p, "-t", s, "RECEIVERS or SENDERS:RECEIVERS, each from 1 to 256");
    p->o->send_threads = (int)n;
    p->o->recv_threads = (int)m;
    return 0;
}

static int parse_type(const struct parse *p, const char *s)
{
    const struct bench_type *t = bench_type_find(s);
    bool sums = p->spec->flags & BENCH_REDUCES;

    if (!t || (sums && !(t->uses & (BENCH_ADDS | BENCH_PLACES))))
        return wrong(p, "-T", s,
                     sums ? "mpi_int, mpi_float, mpi_double, mpi_int8, mpi_int64, mpi_fp16, "
                            "mpi_bf16, or for places mpi_float_int, mpi_2int"
                          : "mpi_char, mpi_int, mpi_float, mpi_double or another of the types "
                            "that reductions take");
    if (p->spec->flags & BENCH_NCCL && t->nccl < 0)
        return wrong(p, "-T", s, "a type that NCCL has, which this one is not");
    p->o->type = t;
    return 0;
}

static int parse_op(const struct parse *p, const char *s)
{
    const struct bench_op *op = bench_op_find(s);

    if (!(p->spec->flags & BENCH_REDUCES))
        return wrong(p, "-O", s, "a benchmark of a reduction, which this one is not");
    if (!op)
        return wrong(p, "-O", s, "sum, min, max, minloc or maxloc");
    if (p->spec->flags & BENCH_NCCL && op->nccl < 0)
        return wrong(p, "-O", s, "an operation that NCCL has, which this one is not");
    p->o->op = op;
    return 0;
}

/* Type and operation have to suit each other, in whichever order they came. */
static int check_op(const struct parse *p)
{
    const struct bench_opts *o = p->o;

    if (!o->type || !(p->spec->flags & BENCH_REDUCES) ||
        o->type->uses & (o->op ? o->op->uses : BENCH_ADDS))
        return 0;
    return wrong(p, "-T", o->type->name,
                 o->op && o->op->uses & BENCH_PLACES
                     ? "mpi_float_int or mpi_2int, the types of minloc and maxloc"
                     : "a type that the operation takes; this one is for -O minloc and -O maxloc");
}

static int parse_in_place(const struct parse *p)
{
    if (!(p->spec->flags & BENCH_COLL))
        return wrong(p, "-l", "", "a collective that can be in place, which this one is not");
    p->o->in_place = true;
    return 0;
}

static int parse_compute(const struct parse *p, const char *s)
{
    if (!(p->spec->flags & BENCH_COMPUTES))
        return wrong(p, "-r", s, "a benchmark of a nonblocking collective, which this one is not");
    if (strcmp(s, "cpu") && strcmp(s, "gpu"))
        return wrong(p, "-r", s, "cpu or gpu");
    p->o->gpu_compute = !strcmp(s, "gpu");
    return 0;
}

/* The place of a word in a list of n; -1: none. */
static int find_word(const char *s, const char *const *words, int n)
{
    while (n-- > 0)
        if (!strcmp(s, words[n]))
            return n;
    return -1;
}

static int parse_win(const struct parse *p, const char *s)
{
    static const char *const words[] = { "allocate", "create", "dynamic" };
    int i = find_word(s, words, 3);

    if (!(p->spec->flags & BENCH_RMA))
        return wrong(p, "-w", s, "a one-sided benchmark, which this one is not");
    if (i < 0)
        return wrong(p, "-w", s, "allocate, create or dynamic");
    p->o->win = (enum bench_win)i;
    return 0;
}

static int parse_sync(const struct parse *p, const char *s)
{
    static const char *const words[] = { "flush", "flush_local", "lock",  "lock_all",
                                         "pscw",  "fence",       "notify" };
    int i = find_word(s, words, 7);

    if (!(p->spec->flags & BENCH_RMA))
        return wrong(p, "-s", s, "a one-sided benchmark, which this one is not");
    if (p->spec->flags & BENCH_ACTIVE && i < BENCH_SYNC_PSCW)
        return wrong(p, "-s", s, "pscw or fence, in which both ranks are origins");
    if (i < 0)
        return wrong(p, "-s", s, "flush, flush_local, lock, lock_all, pscw or fence");
    if (i == BENCH_SYNC_NOTIFY && !(p->spec->flags & BENCH_NOTIFIES))
        return wrong(p, "-s", s, "another word: only osu_put_latency notifies");
    p->o->sync = (enum bench_sync)i;
    return 0;
}

/* The library allocates host memory. */
static int check_win(const struct parse *p)
{
    const struct bench_opts *o = p->o;

    if (!(p->spec->flags & BENCH_RMA) || !o->accel || o->win != BENCH_WIN_ALLOCATE)
        return 0;
    return wrong(p, "-w", "allocate",
                 "create or dynamic with buffers on devices: MPI_Win_allocate gives host memory");
}

static int parse_plot(const struct parse *p, const char *s)
{
    const char *dot = strrchr(s, '.');

    if (!dot || (strcmp(dot, ".svg") && strcmp(dot, ".png")))
        return wrong(p, "--plot", s, "a file name that ends in .svg or .png");
    if (p->spec->flags & BENCH_NOSIZE)
        return wrong(p, "--plot", s, "a benchmark with message sizes, which this one is not");
    p->o->plot = s;
    return 0;
}

static int parse_accel(const struct parse *p, const char *s)
{
    bool pairs = p->spec->flags & (BENCH_TWO | BENCH_PAIRS);

    if (p->spec->flags & BENCH_NCCL && !strcmp(s, "none"))
        return wrong(p, "-d", s, "cuda or managed: NCCL has no host buffers");
    p->o->accel = strcmp(s, "none");
    if (strcmp(s, "none") && strcmp(s, "cuda") && (pairs || strcmp(s, "managed")))
        return wrong(p, "-d", s, pairs ? "cuda or none" : "cuda, managed or none");
    if (!pairs && p->o->accel) /* between pairs the arguments say what is on the device */
        p->o->kind[0] = p->o->kind[1] = strcmp(s, "cuda") ? 'M' : 'D';
    return 0;
}

/* As users of the originals write it: "cont", or "vect:STRIDE:BLOCK" in elements. */
static int parse_ddt(const struct parse *p, const char *s)
{
    static const char expected[] =
        "cont or vect:STRIDE:BLOCK in elements, BLOCK from 1 on and less than STRIDE";
    char *end;
    long long stride, block = 0;

    if (!(p->spec->flags & BENCH_DDT))
        return wrong(p, "-D", s, "a benchmark between pairs of ranks, with one thread each");
    if (!strcmp(s, "cont"))
        return 0;
    if (strncmp(s, "vect:", 5))
        return wrong(p, "-D", s, expected);
    stride = to_number(s + 5, &end);
    if (stride > 0 && *end == ':')
        block = to_number(end + 1, &end);
    if (*end || block < 1 || block >= stride || stride > INT_MAX)
        return wrong(p, "-D", s, expected);
    p->o->ddt_block = (size_t)block;
    p->o->ddt_stride = (size_t)stride;
    return 0;
}

static int parse_touch(const struct parse *p)
{
    if (!(p->spec->flags & BENCH_DDT))
        return wrong(p, "--touch-gpu", "", "a benchmark between pairs of ranks");
    p->o->touch_gpu = true;
    return 0;
}

static int parse_limits(const struct parse *p)
{
    if (p->spec->limit == LIMIT_NONE)
        return wrong(p, "--limits", "",
                     "a point-to-point benchmark; this one has no single physical limit");
    p->o->limits = true;
    return 0;
}

/* Arguments after the options: kinds of buffers, H, D or M.  The first is for the ranks that send
 * first, the second for their partners; a single one is for both.  D and M imply -d cuda. */
static int parse_kinds(const struct parse *p, int argc, char **argv)
{
    bool pairs = p->spec->flags & (BENCH_TWO | BENCH_PAIRS);

    if (argc - optind > 2)
        return wrong(p, "argument", argv[optind + 2], "at most two buffer kinds (H, D or M)");
    for (int i = optind; i < argc; i++) {
        if (strcmp(argv[i], "H") && strcmp(argv[i], "D") && strcmp(argv[i], "M"))
            return wrong(p, "argument", argv[i], "a buffer kind: H, D or M");
        if (!pairs && argv[i][0] != 'H')
            return wrong(p, "buffer kind", argv[i],
                         "-d cuda or -d managed: the ranks of a collective have the same kind");
        if (!pairs)
            continue;
        p->o->kind[i > optind] = argv[i][0];
        if (i == optind)
            p->o->kind[1] = argv[i][0];
        p->o->accel |= argv[i][0] != 'H';
    }
    return 0;
}

static void help(const struct bench_spec *s)
{
    unsigned f = s->flags;

    printf("%s: %s\nUsage: mpirun -n N %s [options] [H|D|M [H|D|M]]\n\n", s->name, s->help,
           s->name);
    if (!(f & BENCH_NOSIZE))
        printf(
            "  -m, --message-size [MIN:]MAX  bytes, doubling from MIN to MAX; K, M, G (1:%zu)\n"
            "  -M, --mem-limit SIZE          most memory for a rank's buffer (512M)\n"
            "      --step N                  from a size to the next, instead of 2\n"
            "  -T, --type TYPE               mpi_char, mpi_int, mpi_float, mpi_double, mpi_int8,\n"
            "                                mpi_int64, mpi_fp16, mpi_bf16, ... (%s)\n"
            "      --plot FILE.svg|FILE.png  draws the result\n",
            s->max, f & BENCH_REDUCES ? "mpi_int; sums need numbers" : "mpi_char");
    if (f & BENCH_REDUCES)
        printf(
            "  -O, --op OP                   sum, min, max; minloc, maxloc with -T mpi_float_int "
            "(sum)\n");
    if (f & BENCH_COLL)
        printf("  -l, --in-place                MPI_IN_PLACE where the operation has it\n");
    printf("  -i, --iterations N            timed iterations of a size (%d, above %d bytes %d)\n"
           "  -x, --warmup N                untimed iterations before them (%d, %d)\n",
           s->iters, BENCH_LARGE, s->iters_large, s->skip, s->skip_large);
    if (f & BENCH_WINDOW)
        printf("  -W, --window-size N           messages in flight (64)\n"
               "  -b, --buffer-num KIND         single or multiple buffers in a window (single)\n");
    if (f & BENCH_PAIRS)
        printf("  -p, --pairs N                 pairs of ranks (half the ranks)\n");
    if (f & BENCH_DDT)
        printf("  -D, --ddt vect:STRIDE:BLOCK   sends blocks of BLOCK elements, one each STRIDE\n"
               "      --touch-gpu               first allocates on a GPU and sends from there\n");
    if (f & BENCH_RATE)
        printf("  -R, --print-rate 0|1          prints the message rate (1)\n");
    if (f & BENCH_THREADS)
        printf("  -t, --num_threads [S:]R       sending and receiving threads (1:2)\n");
    if (f & BENCH_OVERLAP)
        printf("  -t, --num-test-calls N        calls of MPI_Test during the computation (0)\n");
    if (f & BENCH_RMA)
        printf("  -w, --win-option KIND         allocate, create or dynamic (allocate)\n"
               "  -s, --sync-option KIND        %s\n",
               f & BENCH_ACTIVE ? "pscw or fence (pscw)"
               : f & BENCH_NOTIFIES
                   ? "flush, flush_local, lock, lock_all, pscw, fence or notify (flush)"
                   : "flush, flush_local, lock, lock_all, pscw or fence (flush)");
    if (f & BENCH_COMPUTES)
        printf("  -r, --compute cpu|gpu         where the computation beside runs (cpu)\n");
    printf(
        "  -f, --full                    prints minimum, maximum and iterations as well\n"
        "  -c, --validation              checks the data; wrong data gives Fail and exit status 1\n"
        "  -d, --accelerator cuda        uses the GPU of the local rank; %s\n"
        "      --same-gpu                all ranks use device 0\n",
        f & (BENCH_TWO | BENCH_PAIRS) ? "D and M say which side" : "or managed");
    if (s->limit != LIMIT_NONE)
        printf("      --limits                  what the machine can do, and the ratio\n");
    printf("      --seconds T               fewer iterations where a size would take longer\n"
           "      --repeat N                prints the median of N repetitions (1)\n"
           "      --json FILE               writes the result as JSON\n"
           "  -v, --version    -h, --help\n");
}

static int parse_one(const struct parse *p, int c, char **argv)
{
    struct bench_opts *o = p->o;
    char opt[3] = { '-', (char)optopt, 0 };
    int rate = 1, err;

    switch (c) {
    case 'm':
        return parse_sizes(p, optarg);
    case 'i':
        return parse_int(p, "-i", optarg, 1, &o->iters);
    case 'x':
        return parse_int(p, "-x", optarg, 0, &o->skip);
    case 'W':
        return parse_int(p, "-W", optarg, 1, &o->window);
    case 'M':
        return parse_memory(p, optarg);
    case 'f':
        o->full = true;
        return 0;
    case 'c':
        o->check = true;
        return 0;
    case 'd':
        return parse_accel(p, optarg);
    case 'D':
        return parse_ddt(p, optarg);
    case OPT_SAME:
        o->same_gpu = true;
        return 0;
    case OPT_TOUCH:
        return parse_touch(p);
    case 'p':
        return parse_int(p, "-p", optarg, 1, &o->pairs);
    case 't':
        return parse_t(p, optarg);
    case 'T':
        return parse_type(p, optarg);
    case 'O':
        return parse_op(p, optarg);
    case 'l':
        return parse_in_place(p);
    case 'r':
        return parse_compute(p, optarg);
    case 'b':
        o->many_bufs = !strcmp(optarg, "multiple");
        return o->many_bufs || !strcmp(optarg, "single")
                   ? 0
                   : wrong(p, "-b", optarg, "single or multiple");
    case 'R':
        err = parse_int(p, "-R", optarg, 0, &rate);
        o->rate = rate;
        return err;
    case 'w':
        return parse_win(p, optarg);
    case 's':
        return parse_sync(p, optarg);
    case OPT_LIMITS:
        return parse_limits(p);
    case OPT_JSON:
        o->json = optarg;
        return 0;
    case OPT_PLOT:
        return parse_plot(p, optarg);
    case OPT_REPEAT:
        return parse_int(p, "--repeat", optarg, 1, &o->repeat);
    case OPT_STEP:
        return parse_int(p, "--step", optarg, 2, &o->step);
    case OPT_SIZES:
        return parse_list(p, optarg);
    case OPT_SECONDS:
        return parse_seconds(p, optarg);
    case OPT_FAULT:
        o->fault = true;
        return 0;
    case 'h':
        if (p->loud)
            help(p->spec);
        return 1;
    case 'v':
        if (p->loud)
            printf("%s, Weft benchmark %s\n", p->spec->name, BENCH_VERSION);
        return 1;
    case ':':
        return wrong(p, optopt < 256 && optopt ? opt : argv[optind - 1], "", "a value after it");
    default:
        return wrong(p, "option", optopt < 256 && optopt ? opt : argv[optind - 1],
                     "an option that exists");
    }
}

int bench_opts_parse(struct bench_opts *o, const struct bench_spec *spec, int argc, char **argv,
                     bool loud)
{
    struct parse p = { o, spec, loud };
    int c, err = 0;

    *o = (struct bench_opts){ .min = 1,
                              .max = spec->max,
                              .mem_limit = 512u << 20,
                              .iters = -1,
                              .skip = -1,
                              .window = 64,
                              .repeat = 1,
                              .step = 2,
                              .send_threads = 1,
                              .recv_threads = 2,
                              .rate = true,
                              .sync = spec->flags & BENCH_ACTIVE ? BENCH_SYNC_PSCW
                                                                 : BENCH_SYNC_FLUSH,
                              .kind = { 'H', 'H' } };
    if (spec->flags & BENCH_NCCL) {
        o->accel = true;
        o->kind[0] = o->kind[1] = 'D';
    }
    opterr = 0;
    optind = 0; /* from the start, also when parsing for the second time */
    while (!err && (c = getopt_long(argc, argv, short_opts, long_opts, NULL)) != -1)
        err = parse_one(&p, c, argv);
    if (!err)
        err = check_op(&p);
    if (!err)
        err = parse_kinds(&p, argc, argv);
    return err ? err : check_win(&p);
}

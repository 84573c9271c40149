/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: options, and the order of the work: for each number of ranks a communicator of the
 * first ranks, for each collective and size every algorithm in turn.  Ranks outside the
 * communicator sleep.  Rank 0 prints, writes the file under another name, reads it back as the
 * library will, and gives it its name then. */
#include "test/bench/tune/tune.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "coll/gpu/plan.h"
#include "coll/names.h"
#include "coll/select.h"
#include "coll/tune.h"
#include "runtime/topo/topo.h"
#include "test/bench/device.h"

enum { FIRST_BYTES = 8, NAP_US = 500, OPT_HELP = 256 };

static struct {
    int rank, nranks;
    bool node; /* all on one host */
    struct tune_result *result;
    int nresults;
    char *buf[2];
    enum rt_gpu_links links; /* of the devices */
} w;

static int64_t to_bytes(const char *s)
{
    int64_t n;
    return coll_bytes_parse(NULL, s, &n) < 0 ? -1 : n;
}

static int wrong(const char *opt, const char *found, const char *expected)
{
    if (w.rank == 0)
        fprintf(stderr, "%s: %s %s: expected %s\n", TUNE_NAME, opt, found, expected);
    return 2;
}

/* The next word of a list by commas, ended; NULL after the last. */
static char *next_word(char **at)
{
    char *s = *at, *end = s + strcspn(s, ",");

    if (!*s)
        return NULL;
    *at = *end ? end + 1 : end;
    *end = '\0';
    return s;
}

static int parse_ranks(struct tune_opts *o, char *s)
{
    o->nnumbers = 0;
    for (char *t; (t = next_word(&s));) {
        char *end;
        long n = strtol(t, &end, 10);
        if (*end || n < 2 || n > w.nranks || o->nnumbers == TUNE_RANKS ||
            (o->nnumbers && n <= o->nranks[o->nnumbers - 1]))
            return wrong("-r", t, "ascending numbers from 2 to that of the ranks, by commas");
        o->nranks[o->nnumbers++] = (int)n;
    }
    return o->nnumbers ? 0 : wrong("-r", s, "numbers by commas");
}

static int parse_kinds(struct tune_opts *o, char *s)
{
    memset(o->kind, 0, sizeof o->kind);
    for (char *t; (t = next_word(&s));) {
        int kind = -1;
        for (int k = 0; k < COLL_KINDS; k++)
            kind = !strcmp(coll_kind_names[k], t) ? k : kind;
        if (kind < 0 || !tune_can_call((enum coll_kind)kind))
            return wrong("-k", t, "a collective whose choice depends on the size, such as bcast");
        o->kind[kind] = true;
    }
    return 0;
}

/* The help was asked for, and is no error. */
#define HELPED (-1)
static const struct option long_opts[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

static void help(void)
{
    printf(
        "usage: mpirun -n N weft-tune [options]\n"
        "Measures the algorithms of the collectives here and writes a table for WEFT_TUNE_FILE.\n\n"
        "  -o FILE        the table (weft.tune)\n"
        "  -k KIND,...    only these collectives\n"
        "  -r N,...       numbers of ranks (2, 4, 8 and so on, and all)\n"
        "  -m SIZE        largest message in host memory (4M)\n"
        "  -M SIZE        largest message in device memory (256M)\n"
        "  -s N           factor from one size to the next (4)\n"
        "  -t SECONDS     for one algorithm at one size (0.02)\n"
        "  -d host|cuda   only host or only device memory (both, where there is a GPU)\n"
        "  -q             no progress\n"
        "  -h, --help     this text\n");
}

static int parse_one(struct tune_opts *o, int c, const char *bad)
{
    char *end = NULL;

    switch (c) {
    case 'o':
        o->out = optarg;
        return 0;
    case 'k':
        return parse_kinds(o, optarg);
    case 'r':
        return parse_ranks(o, optarg);
    case 'm':
        o->max = to_bytes(optarg);
        return o->max >= FIRST_BYTES ? 0 : wrong("-m", optarg, "a size from 8 on, such as 64K");
    case 'M':
        o->gpu_max = to_bytes(optarg);
        return o->gpu_max >= FIRST_BYTES ? 0 : wrong("-M", optarg, "a size from 8 on, such as 64K");
    case 's':
        o->step = (int)strtol(optarg, &end, 10);
        return o->step >= 2 && o->step <= 1024 && !*end ? 0 : wrong("-s", optarg, "2 to 1024");
    case 't':
        o->seconds = strtod(optarg, &end);
        return o->seconds > 0 && !*end ? 0 : wrong("-t", optarg, "a time above 0");
    case 'd':
        o->host = !strcmp(optarg, "host");
        o->gpu = !strcmp(optarg, "cuda");
        return o->host || o->gpu ? 0 : wrong("-d", optarg, "host or cuda");
    case 'q':
        o->quiet = true;
        return 0;
    case 'h':
        if (w.rank == 0)
            help();
        return HELPED;
    default:
        return wrong("option", bad, "one of those that -h lists, with its value");
    }
}

static int parse(struct tune_opts *o, int argc, char **argv)
{
    int c, err = 0;

    *o = (struct tune_opts){ .out = "weft.tune",
                             .max = 4 << 20,
                             .gpu_max = 256 << 20,
                             .step = 4,
                             .seconds = 0.02,
                             .gpu = true,
                             .host = true };
    for (int k = 0; k < COLL_KINDS; k++)
        o->kind[k] = tune_can_call((enum coll_kind)k);
    for (int n = 2; n < w.nranks && o->nnumbers < TUNE_RANKS - 1; n *= 2)
        o->nranks[o->nnumbers++] = n;
    o->nranks[o->nnumbers++] = w.nranks;
    opterr = 0;
    for (int at = optind; !err; at = optind) {
        c = getopt_long(argc, argv, "o:k:r:m:M:s:t:d:qh", long_opts, NULL);
        if (c == -1)
            break;
        err = parse_one(o, c, argv[at]);
    }
    if (!err && optind < argc)
        err = wrong("argument", argv[optind], "options only");
    if (!err && w.nranks < 2)
        err = wrong("ranks", "1",
                    "two at least; start it with mpirun -n N, N the ranks of your jobs");
    return err;
}

/* ---- measuring ---- */

static void force(enum coll_kind kind, const struct coll_alg *alg)
{
    char spec[100] = "";

    if (alg)
        snprintf(spec, sizeof spec, "%s:%s", coll_kind_names[kind], alg->name);
    if (coll_configure(spec) < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void measure_size(struct tune_call *c, struct tune_result *r, int64_t bytes)
{
    int at = r->nsizes++;

    r->bytes[at] = bytes;
    force(c->kind, NULL);
    r->usual[at] = tune_choice(c, bytes);
    if (c->gpu) { /* nothing forces it: the plan's own rule */
        enum coll_gpu_way way = coll_gpu_allreduce_way(c->size, bytes, false, true, c->direct);
        r->usual[at] = &coll_gpu_algs[way - 1];
    }
    for (int a = 0; a < r->nalgs; a++) {
        force(c->kind, r->alg[a]);
        r->us[a][at] = tune_choice(c, bytes) == r->alg[a] ? tune_time(c, bytes) : 0;
    }
    force(c->kind, NULL);
}

/* Rows for devices are for the kind of links that these have; between two, all kinds are alike. */
static int memory_of(const struct tune_call *c)
{
    if (!c->gpu)
        return RT_MEM_HOST;
    return c->size == 2 || w.links == RT_GPU_LINKS_UNKNOWN ? RT_MEM_CUDA
           : c->direct                                     ? COLL_MEM_CUDA_DIRECT
                                                           : COLL_MEM_CUDA_SWITCH;
}

static void measure_kind(struct tune_call *c, const struct tune_opts *o)
{
    struct tune_result *r = &w.result[w.nresults];
    const struct coll_alg *alg;
    int64_t max = c->gpu ? o->gpu_max : o->max;

    *r = (struct tune_result){
        .kind = c->kind, .mem = memory_of(c), .gpu = c->gpu, .nranks = c->size
    };
    for (int i = 0; (alg = coll_alg_at(i)) && r->nalgs < TUNE_ALGS; i++) {
        if (alg->kind == c->kind && c->gpu == !!(alg->need & COLL_NEED_CUDA_BUFFERS))
            r->alg[r->nalgs++] = alg;
    }
    if (r->nalgs < 2)
        return; /* nothing to choose from */
    if (!tune_has_sizes(c->kind))
        measure_size(c, r, 0);
    else
        for (int64_t n = FIRST_BYTES; n <= max && r->nsizes < TUNE_SIZES; n *= o->step)
            measure_size(c, r, n);
    tune_decide(r);
    w.nresults++;
}

static void progress(const struct tune_opts *o, const struct tune_call *c)
{
    static int tty = -1;

    if (o->quiet || c->rank)
        return;
    if (tty < 0)
        tty = isatty(STDERR_FILENO);
    fprintf(stderr, "%s%s: %d ranks, %s memory: %s%s", tty ? "\r\033[K" : "", TUNE_NAME, c->size,
            c->gpu ? "device" : "host", coll_kind_names[c->kind], tty ? "" : "\n");
}

static void measure_ranks(struct tune_call *c, const struct tune_opts *o, enum coll_kind kind,
                          bool gpu)
{
    c->kind = kind;
    c->gpu = gpu;
    c->direct = gpu && c->size > 2 && rt_gpu_links_are_direct(w.links);
    c->sbuf = w.buf[0];
    c->rbuf = w.buf[1];
    c->counts = calloc((size_t)c->size, sizeof(int));
    c->displs = calloc((size_t)c->size, sizeof(int));
    if (!c->counts || !c->displs)
        MPI_Abort(MPI_COMM_WORLD, 1);
    progress(o, c);
    measure_kind(c, o);
    free(c->counts);
    free(c->displs);
}

/* The ranks that have nothing to do leave the processors to the others. */
static void wait_for_all(void)
{
    MPI_Request req;
    int done = 0;

    MPI_Ibarrier(MPI_COMM_WORLD, &req);
    while (MPI_Test(&req, &done, MPI_STATUS_IGNORE), !done)
        usleep(NAP_US);
}

static size_t room_for(const struct tune_opts *o, bool gpu)
{
    size_t most = 0;

    for (int k = 0; k < COLL_KINDS; k++) {
        size_t n = o->kind[k] ? tune_room((enum coll_kind)k, w.nranks, gpu ? o->gpu_max : o->max)
                              : 0;
        if (gpu && k != COLL_ALLREDUCE)
            continue; /* the only one with names for its plans */
        most = n > most ? n : most;
    }
    return most + sizeof(double);
}

static void drop_buffers(bool gpu)
{
    for (int i = 0; i < 2; i++) {
        if (gpu)
            device_free(w.buf[i]);
        else
            free(w.buf[i]);
        w.buf[i] = NULL;
    }
}

/* Succeeds on all ranks or on none; rank 0 prints the reason. */
static bool make_buffers(const struct tune_opts *o, bool gpu)
{
    size_t len = room_for(o, gpu);
    int bad = 0, any = 0;

    for (int i = 0; i < 2; i++) {
        w.buf[i] = gpu ? device_alloc('D', len) : calloc(1, len);
        bad |= !w.buf[i];
        if (w.buf[i] && gpu)
            device_set(w.buf[i], 0, len);
    }
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any) {
        if (w.rank == 0)
            fprintf(stderr, "%s: no %s memory for buffers of %zu bytes; lower %s\n", TUNE_NAME,
                    gpu ? "device" : "host", len, gpu ? "-M" : "-m");
        drop_buffers(gpu);
    }
    return !any;
}

/* The links between the devices if all ranks report the same kind, else RT_GPU_LINKS_UNKNOWN. */
static void find_links(void)
{
    struct rt_gpu_ptr at;
    int links[2] = { 0, 0 }, least[2];

    if (rt_gpu_is_device(w.buf[0]) && rt_gpu_query(w.buf[0], 1, &at) >= 0)
        links[0] = (int)rt_gpu_links(at.g);
    links[1] = -links[0];
    MPI_Allreduce(links, least, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    w.links = least[0] == -least[1] ? (enum rt_gpu_links)links[0] : RT_GPU_LINKS_UNKNOWN;
}

static void measure_memory(const struct tune_opts *o, bool gpu)
{
    if (gpu)
        find_links();
    for (int k = 0; k < COLL_KINDS; k++) {
        if (!o->kind[k])
            continue;
        for (int i = o->nnumbers - 1; i >= 0; i--) { /* table.c wants descending ranks */
            struct tune_call c = { .node = w.node, .seconds = o->seconds };
            bool in = w.rank < o->nranks[i];
            MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, 0, &c.comm);
            if (in) {
                MPI_Comm_rank(c.comm, &c.rank);
                MPI_Comm_size(c.comm, &c.size);
                measure_ranks(&c, o, (enum coll_kind)k, gpu);
                MPI_Comm_free(&c.comm);
            }
            wait_for_all();
        }
    }
}

/* Whether all ranks have a device. */
static bool have_devices(void)
{
    MPI_Comm node;
    int local = device_local_rank(), mine, all = 0;

    if (local < 0) {
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
        MPI_Comm_rank(node, &local);
        MPI_Comm_free(&node);
    }
    mine = !device_open(local, false);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* ---- the file ---- */

static void describe_place(char *text, size_t len)
{
    const struct rt_topo *t = rt_topo_get();
    char host[64] = "?", day[32];
    time_t now = time(NULL);
    struct tm utc;

    gethostname(host, sizeof host - 1);
    strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &utc));
    snprintf(text, len, "%s, %s, %ld cores, %s", host, t ? t->cpu_model : "?",
             sysconf(_SC_NPROCESSORS_ONLN), day);
    for (char *c = text; *c; c++) { /* replaces what would end a field, a line or a comment */
        if (*c == '"' || *c == '*' || (unsigned char)*c < ' ')
            *c = ' ';
    }
}

static char part_name[4096]; /* of the file while it is not complete */

static int cannot_write(const char *name)
{
    fprintf(stderr, "%s: could not write %s: %s\n", TUNE_NAME, name, strerror(errno));
    return 1;
}

/* Checks that the file can be written, before minutes are spent on measuring. */
static int try_file(const struct tune_opts *o)
{
    int bad = 0;

    if (w.rank == 0) {
        snprintf(part_name, sizeof part_name, "%s.part", o->out);
        FILE *f = fopen(part_name, "we");
        bad = f ? fclose(f) != 0 : cannot_write(part_name);
    }
    MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return bad;
}

static int write_file(const struct tune_opts *o)
{
    char place[320];
    FILE *f = fopen(part_name, "we");
    int bad;

    describe_place(place, sizeof place);
    if (f) {
        fprintf(f,
                "/* Written by weft-tune %s: %s, up to %d ranks.\n * In use: WEFT_TUNE_FILE=%s\n"
                " *    kind                    memory       ranks  bytes      algorithm "
                " measured on */\n",
                PACKAGE_VERSION, place, w.nranks, o->out);
        tune_write(f, w.result, w.nresults, place);
    }
    bad = !f || ferror(f);
    if (f && fclose(f))
        bad = 1;
    if (bad)
        return cannot_write(part_name);
    if (coll_tune_load(part_name) < 0) { /* has logged why */
        unlink(part_name);
        return 1;
    }
    if (rename(part_name, o->out))
        return cannot_write(o->out);
    tune_report(w.result, w.nresults);
    printf("written: %s; use it with WEFT_TUNE_FILE=%s, or the line tune_file = %s of weft.conf\n",
           o->out, o->out, o->out);
    return 0;
}

static int run(const struct tune_opts *o)
{
    bool gpu = o->gpu && have_devices();
    int bad;

    w.result = calloc(2 * COLL_KINDS * TUNE_RANKS, sizeof *w.result);
    if (!w.result || w.nranks > TUNE_RANKS_MAX)
        return wrong("ranks", "", "memory, and fewer ranks");
    if (!o->host && !gpu)
        return wrong("-d", "cuda", device_why());
    bad = try_file(o);
    if (bad)
        return bad;
    coll_tune_load(NULL);
    if (o->host && make_buffers(o, false)) {
        measure_memory(o, false);
        drop_buffers(false);
    }
    if (gpu && make_buffers(o, true)) {
        measure_memory(o, true);
        drop_buffers(true);
    }
    if (w.rank == 0 && !o->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    if (w.rank == 0)
        bad = write_file(o);
    free(w.result);
    return bad;
}

int main(int argc, char **argv)
{
    struct tune_opts o;
    MPI_Comm node;
    int err, here = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w.nranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    w.node = here == w.nranks;
    err = parse(&o, argc, argv);
    if (!err)
        err = run(&o);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return err == HELPED || (err == 1 && w.rank) ? 0 : err;
}

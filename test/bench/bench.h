/* SPDX-License-Identifier: BSD-3-Clause */
/* Common ground of the benchmarks.  A benchmark is a `struct bench_spec` and a measure function;
 * bench_main() does the rest: options, sizes, repetitions, validation, limits, the table and the
 * reports.  Plain MPI and C11 with no header of the library, so that the same sources build with
 * any MPI's compiler wrapper.  One thread calls all of this, except that bench_fill(),
 * bench_check() and bench_now() may be called by the threads of osu_latency_mt. */
#ifndef TEST_BENCH_BENCH_H
#define TEST_BENCH_BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#define BENCH_VERSION "0.1.0"
#define BENCH_ROWS 72     /* powers of two of a size_t, and 0 */
#define BENCH_COLS 10     /* most columns; size, limit and validation are not counted */
#define BENCH_ELEM_MAX 16 /* bytes of an element */
#define BENCH_LARGE 8192  /* above this the smaller iteration counts hold, as in the originals */
#define BENCH_NO_DEVICE 3 /* exit status: device memory was requested and is not available */

enum bench_flags {
    BENCH_TWO = 1,          /* exactly two ranks */
    BENCH_PAIRS = 2,        /* an even number of ranks, or -p */
    BENCH_THREADS = 4,      /* needs MPI_THREAD_MULTIPLE; -t counts threads */
    BENCH_NOSIZE = 8,       /* one row, no message sizes */
    BENCH_WINDOW = 16,      /* sends windows of messages: -W, -b */
    BENCH_REDUCES = 32,     /* adds numbers: MPI_INT by default, no MPI_CHAR */
    BENCH_OVERLAP = 64,     /* nonblocking: -t counts calls of MPI_Test */
    BENCH_SEND_ALL = 128,   /* the send buffer holds a block for every rank */
    BENCH_RECV_ALL = 256,   /* the receive buffer holds a block for every rank */
    BENCH_RATE = 512,       /* has -R, the message rate column */
    BENCH_DDT = 1024,       /* sends through pair.c: -D */
    BENCH_COLL = 2048,      /* a collective that may be in place: -l */
    BENCH_NCCL = 4096,      /* calls NCCL: buffers are on devices without being asked for */
    BENCH_COMPUTES = 8192,  /* computes on the CPU or on the device: -r */
    BENCH_RMA = 16384,      /* one-sided: -w, -s */
    BENCH_ACTIVE = 32768,   /* of these, only where both ranks synchronise: fence, pscw */
    BENCH_ONE = 65536,      /* one row, of one element */
    BENCH_NOTIFIES = 131072 /* the origin may notify the target */
};

enum bench_win { BENCH_WIN_ALLOCATE, BENCH_WIN_CREATE, BENCH_WIN_DYNAMIC };
enum bench_sync {
    BENCH_SYNC_FLUSH,
    BENCH_SYNC_FLUSH_LOCAL,
    BENCH_SYNC_LOCK,
    BENCH_SYNC_LOCK_ALL,
    BENCH_SYNC_PSCW,
    BENCH_SYNC_FENCE,
    BENCH_SYNC_NOTIFY
};

/* What a data type and an operation of the command line are good for. */
enum bench_use { BENCH_MOVES = 1, BENCH_ADDS = 2, BENCH_PLACES = 4 };
struct bench_type {
    const char *name, *title; /* "mpi_int", "MPI_INT" */
    int elem;                 /* types.c's own */
    size_t len;
    int nccl; /* NCCL's number; -1: it has none */
    unsigned uses;
    int exact; /* whole numbers above this are rounded; 0: none that occurs here */
};
struct bench_op {
    const char *name, *title;
    int code, nccl;
    unsigned uses; /* types that have one of these */
};

/* ONE_WAY: by both cores, each a half; ONE_CORE: by one core; COPY, ADD: time of a core to copy to
 * the other's memory, or to add to it. */
enum bench_limit_kind {
    LIMIT_NONE,
    LIMIT_LATENCY,
    LIMIT_COPY,
    LIMIT_ADD,
    LIMIT_ONE_WAY,
    LIMIT_ONE_CORE,
    LIMIT_BOTH_WAYS
};
static inline bool bench_limit_is_time(enum bench_limit_kind k) { return k <= LIMIT_ADD; }

struct bench_col {
    const char *head, *key; /* column title, and its name in JSON */
    int width, decimals;
    bool full; /* printed with -f only */
};

struct bench;

struct bench_spec {
    const char *name, *title, *help; /* "osu_latency", "Latency Test", one sentence */
    const char *note;                /* one more comment line under the title, or NULL */
    unsigned flags;
    enum bench_limit_kind limit;
    int iters, iters_large, skip, skip_large;
    size_t max;                        /* default largest size */
    struct bench_col cols[BENCH_COLS]; /* ends at the first without a head; the first is what is
                                          compared and plotted */
    /* Called by all ranks once, after the device is open.  Returns 0, or the exit status after rank
     * 0 has printed why.  May be NULL. */
    int (*open)(struct bench *b);
    void (*close)(void);
    /* Called by all ranks; rank 0 writes v, one value a column. */
    void (*measure)(struct bench *b, size_t nbytes, double *v);
    const void *arg; /* the benchmark's own */
};

struct bench_opts {
    size_t min, max, mem_limit;
    size_t sizes[BENCH_ROWS]; /* --sizes: these, ascending, from min to max */
    int nsizes;               /* 0: powers of `step` */
    double seconds;           /* most time for a size, by fewer iterations; 0: none */
    int iters, skip;          /* -1: the benchmark's default for the size */
    int window, pairs, repeat, step, tests, send_threads, recv_threads;
    bool full, check, limits, fault, rate, many_bufs;
    bool accel, same_gpu, touch_gpu;
    char kind[2];                 /* 'H', 'D' or 'M': buffers of the first and the second side */
    size_t ddt_block, ddt_stride; /* -D, in elements; 0: contiguous */
    bool in_place, gpu_compute;
    enum bench_win win; /* -w, -s */
    enum bench_sync sync;
    const struct bench_type *type; /* NULL: the default */
    const struct bench_op *op;
    const char *json, *plot;
};

struct bench_row {
    size_t nbytes;
    double v[BENCH_COLS], limit;
};

/* What the machine can do with buffers on devices; rank 0.  0: not measured, and `note` says why.
 */
struct gpu_limits {
    int n;
    struct {
        size_t nbytes;
        double value; /* us or MB/s of the copy engines */
    } row[BENCH_ROWS];
    double launch_us; /* an empty kernel, and waiting for its stream */
    double flag_us;   /* a kernel that stores a word to the host, which spins */
    double round_us;  /* host, resident kernel, host */
    double hop_us;    /* kernel to kernel on the other device */
    char note[160];
};

struct bench {
    const struct bench_spec *spec;
    struct bench_opts opt;
    int rank, nranks;
    int argc;
    char **argv;
    int pairs, peer; /* rank < pairs sends to rank + pairs; peer is -1 for a rank without partner */
    int iters, skip; /* of the row being measured */
    unsigned seed;   /* the data pattern of this pass */
    long bad;        /* passes in which this rank saw wrong data, of the row being measured */
    char kind;       /* of this rank's buffers: 'H', 'D' or 'M' */
    char *sbuf, *rbuf; /* page aligned, large enough for the largest size */
    MPI_Datatype type;
    size_t type_len;
    const struct bench_type *elem; /* what type is */
    MPI_Op op;
    size_t block, stride; /* -D in bytes: a message is blocks, each `stride` after the last; or 0 */
    MPI_Datatype msg_type; /* a message of the size being measured is msg_count of these */
    int msg_count;
    struct bench_row *rows; /* rank 0: what was printed, for the reports */
    int nrows;
    struct limit_map *limit_map;   /* limits.c, NULL without --limits */
    struct gpu_limits *gpu_limits; /* instead, when a buffer is on a device */
};

/* Seconds for one iteration: over all, and of the quickest and slowest tenth (the same as avg
 * without -f). */
struct bench_times {
    double avg, min, max;
};

typedef void bench_work_fn(struct bench *b, void *arg, int n);

/* driver.c */
int bench_main(int argc, char **argv, const struct bench_spec *spec);
double bench_now(void);
void bench_time(struct bench *b, bench_work_fn *work, void *arg, struct bench_times *out);
int bench_count(const struct bench *b, size_t nbytes); /* elements in nbytes */
size_t bench_next_size(const struct bench *b, size_t nbytes);

/* opts.c: 0 continue, 1 done (help, version), 2 wrong; only `loud` ranks print */
int bench_opts_parse(struct bench_opts *o, const struct bench_spec *spec, int argc, char **argv,
                     bool loud);

/* types.c */
const struct bench_type *bench_type_find(const char *name); /* NULL: no such */
const struct bench_op *bench_op_find(const char *name);
MPI_Datatype bench_type_handle(const struct bench_type *t); /* MPI_DATATYPE_NULL: not in this MPI */
MPI_Op bench_op_handle(const struct bench_op *op);
/* The number x, at the place `place` where the type has one, as an element. */
void bench_number_put(const struct bench_type *t, void *at, int x, int place);
/* `have` at `place` and x at `place2`, which comes from a higher rank, under the operation. */
int bench_op_fold(const struct bench_op *op, int have, int place, int x, int place2, int *place_p);

/* data.c: the bytes that `from` sends to `to` in this pass; without -c both return at once */
void *bench_alloc_host(size_t len);
void *bench_alloc(const struct bench *b, size_t len); /* of b->kind */
void bench_free(const struct bench *b, void *p);
size_t bench_span(const struct bench *b, size_t nbytes); /* of a message in its buffer, gaps too */
void bench_fill(struct bench *b, void *buf, size_t nbytes, int from, int to);
void bench_poison(struct bench *b, void *buf, size_t nbytes);
void bench_check(struct bench *b, const void *buf, size_t nbytes, int from, int to);
void bench_fill_numbers(struct bench *b, void *buf, size_t nbytes);
void bench_check_sum(struct bench *b, const void *buf, size_t nbytes);
void bench_check_same(struct bench *b, const void *buf, const void *want, size_t nbytes);
/* n elements, of which the first is element `first` of the result over ranks [0, nranks) */
void bench_check_part(struct bench *b, const void *buf, size_t n, size_t first, int nranks);

/* table.c: rank 0 only */
void bench_table_head(const struct bench *b);
void bench_table_row(const struct bench *b, const struct bench_row *row, bool passed);

/* limits.c: ranks 0 and 1 together; the result is valid at rank 0 (us or MB/s) */
int bench_limits_open(struct bench *b);
void bench_limits_close(struct bench *b);
double bench_limit(struct bench *b, size_t nbytes);

/* limits_gpu.c: the same for buffers on devices */
void gpu_limits_open(struct bench *b);
double gpu_limit(const struct bench *b, size_t nbytes);

/* report.c, plot.c: rank 0 only; 0 or 1 (the reason is on stderr) */
int bench_json_write(const struct bench *b, const char *path);
int bench_plot_write(const struct bench *b, const char *path);

/* pair.c: what the point-to-point benchmarks share */
void pair_message(struct bench *b, size_t nbytes); /* sets msg_type and msg_count */
void pair_message_free(struct bench *b);
void pair_touch_gpu(struct bench *b); /* --touch-gpu: one device message each way */
void pair_pingpong(struct bench *b, void *nbytes, int n); /* bench_work_fn */
void pair_window(struct bench *b, void *nbytes,
                 int n); /* bench_work_fn: one way, then a 4-byte answer */
void pair_window_both(struct bench *b, void *nbytes, int n); /* bench_work_fn: both ways at once */
void pair_fill(struct bench *b, size_t nbytes);
void pair_check(struct bench *b, size_t nbytes, bool at_sender);

#endif

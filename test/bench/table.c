/* SPDX-License-Identifier: BSD-3-Clause */
/* The printed table, column for column as users' scripts expect it: the size left-aligned in 10
 * characters, values right-aligned in the columns that follow.  Rank 0 only. */
#include "test/bench/bench.h"
#include <stdio.h>
#include <string.h>

enum { SIZE_COLUMN = 10, COLUMN = 18 };

static bool shown(const struct bench *b, int i)
{
    const struct bench_col *c = &b->spec->cols[i];

    if (c->full && !b->opt.full)
        return false;
    return !((b->spec->flags & BENCH_RATE) && i == 1 && !b->opt.rate);
}

static void head_columns(const struct bench *b)
{
    bool first = b->spec->flags & BENCH_NOSIZE;

    printf("%-*s", first ? 2 : SIZE_COLUMN, first ? "# " : "# Size");
    for (int i = 0; i < BENCH_COLS && b->spec->cols[i].head; i++) {
        if (shown(b, i))
            printf("%*s", first ? 1 : b->spec->cols[i].width, b->spec->cols[i].head);
        first = false;
    }
    if (b->opt.limits) {
        printf("%*s", COLUMN, bench_limit_is_time(b->spec->limit) ? "Limit(us)" : "Limit (MB/s)");
        printf("%*s", 10, "Ratio");
    }
    if (b->opt.check)
        printf("%*s", COLUMN, "Validation");
    printf("\n");
}

static const char *const wins[] = { "MPI_Win_allocate", "MPI_Win_create",
                                    "MPI_Win_create_dynamic" };
static const char *const syncs[] = { "MPI_Win_flush",
                                     "MPI_Win_flush_local",
                                     "MPI_Win_lock/unlock",
                                     "MPI_Win_lock_all/unlock_all",
                                     "MPI_Win_post/start/complete/wait",
                                     "MPI_Win_fence",
                                     "MPIX_Put_notify/MPIX_Notify_wait" };

static const char *kind_name(char kind)
{
    return kind == 'D' ? "DEVICE (D)" : kind == 'M' ? "MANAGED (M)" : "HOST (H)";
}

static void one_limit(const char *what, double us)
{
    if (us > 0)
        printf("#   %-44s %8.2f us\n", what, us);
}

static void gpu_limits(const struct gpu_limits *l)
{
    printf("# Limit: the copy engine between the same places, in this run, without MPI\n");
    one_limit("empty kernel, launch and synchronise", l->launch_us);
    one_limit("kernel that stores a word the host spins on", l->flag_us);
    one_limit("host to resident kernel to host", l->round_us);
    one_limit("kernel to kernel of the other rank's device", l->hop_us);
    if (l->note[0])
        printf("#   left out: %s\n", l->note);
}

/* Those of one-sided benchmarks begin with the name of the call: "# OSU MPI_Put ...". */
static const char *title(const struct bench *b)
{
    const char *t = b->spec->title;
    return b->spec->flags & BENCH_RMA ? t + strlen("MPI") : t;
}

void bench_table_head(const struct bench *b)
{
    unsigned f = b->spec->flags;

    printf("\n# OSU MPI%s%s%s v7.0-weft%s\n", b->opt.accel ? "-CUDA" : "", f & BENCH_RMA ? "" : " ",
           title(b), BENCH_VERSION);
    printf("# Weft benchmark %s, own code in the output format of the OSU micro-benchmarks\n",
           BENCH_VERSION);
    if (f & BENCH_RATE)
        printf("# [ pairs: %d ] [ window size: %d ]\n", b->pairs, b->opt.window);
    if (f & BENCH_THREADS)
        printf("# Number of Sender threads: %d\n# Number of Receiver threads: %d\n",
               b->opt.send_threads, b->opt.recv_threads);
    if (b->spec->note)
        printf("%s\n", b->spec->note);
    if (b->opt.accel && f & (BENCH_TWO | BENCH_PAIRS))
        printf("# Send Buffer on %s and Receive Buffer on %s\n", kind_name(b->opt.kind[0]),
               kind_name(b->opt.kind[1]));
    if (f & BENCH_RMA)
        printf("# Window creation: %s\n# Synchronization: %s\n", wins[b->opt.win],
               syncs[b->opt.sync]);
    if (!(f & BENCH_NOSIZE))
        printf("# Datatype: %s.\n", b->elem->title);
    if (f & BENCH_REDUCES && strcmp(b->opt.op->name, "sum"))
        printf("# Operation: %s.\n", b->opt.op->title);
    if (b->opt.in_place)
        printf("# In place\n");
    if (b->opt.gpu_compute)
        printf("# Computation on the device\n");
    if (b->block)
        printf("# Vector: blocks of %zu bytes, one each %zu bytes\n", b->block, b->stride);
    if (b->gpu_limits)
        gpu_limits(b->gpu_limits);
    head_columns(b);
    fflush(stdout);
}

void bench_table_row(const struct bench *b, const struct bench_row *row, bool passed)
{
    if (!(b->spec->flags & BENCH_NOSIZE))
        printf("%-*zu", SIZE_COLUMN, row->nbytes);
    for (int i = 0; i < BENCH_COLS && b->spec->cols[i].head; i++) {
        const struct bench_col *c = &b->spec->cols[i];
        if (shown(b, i))
            printf("%*.*f", c->width, c->decimals, row->v[i]);
    }
    if (b->opt.limits)
        printf("%*.*f%*.2f", COLUMN, bench_limit_is_time(b->spec->limit) ? 3 : 2, row->limit, 10,
               row->limit > 0 ? row->v[0] / row->limit : 0);
    if (b->opt.check)
        printf("%*s", COLUMN, passed ? "Pass" : "Fail");
    printf("\n");
    fflush(stdout);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* --json FILE: the printed rows with all digits, and the circumstances of the measurement: command,
 * host, processor, date and the MPI library.  Written by rank 0 after the last row. */
#define _GNU_SOURCE 1
#include "test/bench/bench.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void put_string(FILE *f, const char *s)
{
    putc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", f);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            putc(c, f);
    }
    putc('"', f);
}

static void put_field(FILE *f, const char *key, const char *value)
{
    fprintf(f, "  \"%s\": ", key);
    put_string(f, value);
    fputs(",\n", f);
}

static void cpu_model(char *out, size_t len)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(out, len, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && !strncmp(line, "model name", 10)) {
            colon[strcspn(colon, "\n")] = 0;
            snprintf(out, len, "%s", colon[1] ? colon + 2 : "");
            break;
        }
    }
    if (f)
        fclose(f);
}

static void put_about(FILE *f, const struct bench *b)
{
    char host[256] = "unknown", cpu[256], date[64], mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    time_t now = time(NULL);
    struct tm utc;
    int len = 0;

    gethostname(host, sizeof host - 1);
    cpu_model(cpu, sizeof cpu);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    MPI_Get_library_version(mpi, &len);
    mpi[strcspn(mpi, "\n")] = 0;
    put_field(f, "benchmark", b->spec->name);
    put_field(f, "version", BENCH_VERSION);
    fputs("  \"command\": [", f);
    for (int i = 0; i < b->argc; i++) {
        fputs(i ? ", " : "", f);
        put_string(f, b->argv[i]);
    }
    fputs("],\n", f);
    put_field(f, "host", host);
    put_field(f, "cpu", cpu);
    put_field(f, "date", date);
    put_field(f, "mpi_library", mpi);
    fprintf(f, "  \"ranks\": %d,\n", b->nranks);
}

static void put_gpu_limits(FILE *f, const struct gpu_limits *l)
{
    fprintf(f,
            "  \"gpu_limits\": { \"launch_us\": %.9g, \"flag_us\": %.9g, \"round_us\": %.9g, "
            "\"hop_us\": %.9g },\n",
            l->launch_us, l->flag_us, l->round_us, l->hop_us);
    put_field(f, "gpu_limits_note", l->note);
}

static void put_row(FILE *f, const struct bench *b, const struct bench_row *row)
{
    bool first = true;

    fputs("    { ", f);
    if (!(b->spec->flags & BENCH_NOSIZE)) {
        fprintf(f, "\"size\": %zu", row->nbytes);
        first = false;
    }
    for (int i = 0; i < BENCH_COLS && b->spec->cols[i].head; i++, first = false)
        fprintf(f, "%s\"%s\": %.9g", first ? "" : ", ", b->spec->cols[i].key, row->v[i]);
    if (b->opt.limits)
        fprintf(f, ", \"limit\": %.9g, \"ratio\": %.9g", row->limit,
                row->limit > 0 ? row->v[0] / row->limit : 0);
    fputs(" }", f);
}

int bench_json_write(const struct bench *b, const char *path)
{
    FILE *f = fopen(path, "w");
    int bad;

    if (f) {
        fputs("{\n", f);
        put_about(f, b);
        if (b->gpu_limits)
            put_gpu_limits(f, b->gpu_limits);
        fputs("  \"rows\": [\n", f);
        for (int i = 0; i < b->nrows; i++) {
            put_row(f, b, &b->rows[i]);
            fputs(i + 1 < b->nrows ? ",\n" : "\n", f);
        }
        fputs("  ]\n}\n", f);
    }
    bad = !f || ferror(f);
    if (f && fclose(f))
        bad = 1;
    if (bad)
        fprintf(stderr, "%s: --json %s: could not write: %s\n", b->spec->name, path,
                strerror(errno));
    return bad;
}

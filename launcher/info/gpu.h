/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sections of weft_info know of GPUs.  Asked once, kept for the whole run.  One thread. */
#ifndef LAUNCHER_INFO_GPU_H
#define LAUNCHER_INFO_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/gpu/gpu.h"

#define INFO_GPUS 16 /* devices that are looked at */

struct info_gpus {
    int n;           /* devices that may be used, 0 .. INFO_GPUS */
    const char *why; /* why there are none */
    struct rt_gpu_info dev[INFO_GPUS];
    bool access[INFO_GPUS][INFO_GPUS]; /* [i][j]: i may use the memory of j; [i][i] is true */
    int nvlinks[INFO_GPUS][INFO_GPUS]; /* links between them, over switches too; -1: not known */
};
const struct info_gpus *info_gpus(void);
extern const char info_unwatched[]; /* the reason when the setting alone stands in the way */

/* Fills nvlinks of all devices; nothing when the management library is not there: nvml.c. */
void info_nvlinks(struct info_gpus *gpus);

/* ---- memory that another process can use, tried: share.c ---- */

enum info_share { INFO_LEGACY, INFO_VMM, INFO_POOL, INFO_SHARES };
extern const char *const info_share_names[INFO_SHARES];

struct info_shared {
    int from, to; /* device of the memory, device of the process that uses it */
    int kind;     /* enum info_share */
    bool works;
    char why[160]; /* when not */
};
/* One for each kind, from and to: [from][to][kind].  Takes seconds; later calls nothing. */
typedef struct info_shared info_share_table[INFO_GPUS][INFO_GPUS][INFO_SHARES];
const info_share_table *info_share(void);
/* What the processes run that info_share() starts. */
int info_share_child(const char *role, const char *socket, const char *results);

/* ---- what the cost model says: model.c ---- */

enum info_path { INFO_DIRECT, INFO_BY_DEVICE, INFO_BY_HOST, INFO_TO_HOST, INFO_FROM_HOST };
extern const char *const info_path_names[];
/* Between devices over `link`; staged ways are cut as the message engine cuts. */
double info_predict_us(enum info_path path, enum rt_gpu_link link, size_t len);
/* The ways of copying, in words, with the length up to which each is used. */
const char *info_switch_points(enum rt_gpu_link link, char *text, size_t len);
/* Which process copies between devices, by length; into buffers in large pages, or others. */
const char *info_sides(bool large_pages, char *text, size_t len);
/* The way that a copy of this length takes here. */
enum rt_gpu_way info_way(enum rt_gpu_link link, size_t len);

/* Ordered pairs (i, j) of devices, as text: "0-1, 1-0"; "all" for all with i != j, "same device"
 * for all with i == j. */
typedef bool info_pair_test(int i, int j, const void *arg);
const char *info_pairs(info_pair_test *in, const void *arg, char *text, size_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sections of weft_info know about GPUs, determined once and kept.  One thread. */
#ifndef LAUNCHER_INFO_GPUS_H
#define LAUNCHER_INFO_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/gpu/gpu.h"

#define INFO_GPUS 16 /* devices that are examined */

struct info_gpus {
    int n;           /* usable devices, 0 .. INFO_GPUS */
    const char *why; /* why there are none */
    struct rt_gpu_info dev[INFO_GPUS];
    bool access[INFO_GPUS][INFO_GPUS]; /* [i][j]: device i can access the memory of device j; [i][i]
                                        * is true */
    int nvlinks[INFO_GPUS][INFO_GPUS]; /* links between two devices, also those through switches;
                                        * -1: unknown */
};
const struct info_gpus *info_gpus(void);
extern const char info_unwatched[]; /* value of `why` if only the setting excludes devices */

/* Sets nvlinks of all devices; does nothing without the management library: nvml.c. */
void info_nvlinks(struct info_gpus *gpus);

/* ---- memory that another process can use, tried: ipc_trial.c ---- */

enum info_share { INFO_LEGACY, INFO_VMM, INFO_SHARES };
extern const char *const info_share_names[INFO_SHARES];

struct info_shared {
    int from, to; /* device of the memory, device of the process that uses it */
    int kind;     /* enum info_share */
    bool works;
    char why[160]; /* reason, if it does not work */
};
/* Results for each kind, from and to: [from][to][kind].  The first call takes seconds; later calls
 * return the same table. */
typedef struct info_shared info_share_table[INFO_GPUS][INFO_GPUS][INFO_SHARES];
const info_share_table *info_share(void);
/* Runs in the processes that info_share() starts. */
int info_share_child(const char *role, const char *socket, const char *results);

/* ---- predictions of the cost model: predictions.c ---- */

enum info_path { INFO_DIRECT, INFO_BY_DEVICE, INFO_BY_HOST, INFO_TO_HOST, INFO_FROM_HOST };
extern const char *const info_path_names[];
/* Predicted time between devices over `link`; staged paths are cut into pieces as by the message
 * engine. */
double info_predict_us(enum info_path path, enum rt_gpu_link link, size_t len);
/* The longest copy within a device that ranks share that goes through pinned memory if no others
 * wait; SIZE_MAX: all. */
size_t info_by_host(void);
/* The methods of copying, as text, with the length up to which each is used. */
const char *info_switch_points(enum rt_gpu_link link, char *text, size_t len);
/* Which process copies between devices, by length, for buffers in large pages and others. */
const char *info_sides(bool large_pages, char *text, size_t len);

#endif

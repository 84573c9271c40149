/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --gpu: driver and devices, the links between devices, which of their memory other
 * processes can use, and which path messages between device buffers take.  Also the part of --paths
 * about devices.  One thread. */
#include "launcher/info/gpus.h"
#include "launcher/info/info.h"
#include "runtime/base/cfg.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/images.h"
#include "runtime/topo/topo.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

enum { GPU_AUTO, GPU_ON, GPU_OFF }; /* cfg.gpu */

const char info_unwatched[] = "the driver has devices, but there is no /dev/nvidiactl, so every "
                              "address counts as host memory; WEFT_GPU=on asks the driver";

static void ask_access(struct info_gpus *g)
{
    for (int i = 0; i < g->n; i++)
        for (int j = 0; j < g->n; j++)
            g->access[i][j] = rt_gpu_can_access(i, j);
}

const struct info_gpus *info_gpus(void)
{
    static struct info_gpus gpus;
    static bool asked;
    if (asked)
        return &gpus;
    asked = true;
    rt_gpu_init();
    int n = cfg.gpu == GPU_OFF ? 0 : rt_gpu_count();
    for (int i = 0; rt_gpu_watch && i < n && i < INFO_GPUS; i++)
        if (rt_gpu_describe(i, &gpus.dev[gpus.n]) == 0)
            gpus.n++;
    if (gpus.n == 0) {
        gpus.why = cfg.gpu == GPU_OFF ? "device buffers are switched off (setting gpu)"
                   : n > 0            ? info_unwatched
                                      : rt_gpu_why_not();
        return &gpus;
    }
    ask_access(&gpus);
    info_nvlinks(&gpus);
    return &gpus;
}

/* Ordered pairs (i, j) of devices, as text: "0-1, 1-0"; "all" for all with i != j, "same device"
 * for all with i == j. */
typedef bool pair_test(int i, int j, const void *arg);

static const char *pairs_of(pair_test *in, const void *arg, char *text, size_t len)
{
    const struct info_gpus *g = info_gpus();
    int n[2] = { 0 }; /* pairs of different devices, and of one device */
    size_t at = 0;
    for (int i = 0; i < g->n; i++)
        for (int j = 0; j < g->n; j++)
            n[i == j] += in(i, j, arg);
    bool all = n[0] == g->n * (g->n - 1), same = n[1] == g->n;
    if (all && (same || !n[1]) && n[0] + n[1]) {
        snprintf(text, len, "%s", !n[0] ? "same device" : n[1] ? "all" : "different devices");
        return text;
    }
    if (same && !n[0]) {
        snprintf(text, len, "same device");
        return text;
    }
    text[0] = '\0';
    for (int i = 0; i < g->n; i++)
        for (int j = 0; j < g->n && at + 16 < len; j++)
            if (in(i, j, arg))
                at += (size_t)snprintf(text + at, len - at, "%s%d-%d", at ? ", " : "", i, j);
    return text;
}

/* ---- devices ---- */

static const char *uuid_text(const uint8_t *u, char *text, size_t len)
{
    size_t at = (size_t)snprintf(text, len, "GPU");
    for (int i = 0; i < 16; i++) {
        bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        at += (size_t)snprintf(text + at, len - at, "%s%02x", dash ? "-" : "", u[i]);
    }
    return text;
}

/* The NUMA nodes nearest to the device, and whether this process runs there. */
static const char *near_text(const struct rt_gpu_info *d, char *text, size_t len)
{
    hwloc_topology_t hw = rt_topo_hwloc();
    hwloc_obj_t pci = hw ? hwloc_get_pcidev_by_busidstring(hw, d->pci) : NULL;
    hwloc_obj_t host = pci ? hwloc_get_non_io_ancestor_obj(hw, pci) : NULL;
    if (!host || !host->nodeset) {
        snprintf(text, len, "-");
        return text;
    }
    char nodes[64];
    hwloc_bitmap_list_snprintf(nodes, sizeof nodes, host->nodeset);
    hwloc_bitmap_t here = hwloc_bitmap_alloc();
    bool close = here && !hwloc_get_cpubind(hw, here, HWLOC_CPUBIND_PROCESS) &&
                 hwloc_bitmap_intersects(here, host->cpuset);
    hwloc_bitmap_free(here);
    snprintf(text, len, "NUMA node %s%s", nodes, close ? "" : ", far from this process");
    return text;
}

static void print_devices(const struct info_gpus *g)
{
    printf("Devices\n");
    printf("  %2s  %-24s %-7s %-40s  %-12s  %4s  %-8s  %s\n", "", "name", "sm", "UUID", "PCI",
           "SMs", "memory", "beside");
    for (int i = 0; i < g->n; i++) {
        const struct rt_gpu_info *d = &g->dev[i];
        char uuid[48], near[128], mem[32];
        size_t mib = d->mem_nbytes >> 20;
        if (mib >= 10240)
            snprintf(mem, sizeof mem, "%zu GiB", mib >> 10);
        else
            snprintf(mem, sizeof mem, "%zu MiB", mib);
        printf("  %2d  %-24s sm_%d%-3d %-40s  %-12s  %4d  %-8s  %s\n", i, d->name, d->major,
               d->minor, uuid_text(d->uuid, uuid, sizeof uuid), d->pci, d->nsm, mem,
               near_text(d, near, sizeof near));
    }
}

static void print_matrix(const struct info_gpus *g)
{
    if (g->n < 2)
        return;
    printf("\nAccess of a device to the memory of another (NV18: over 18 NVLinks)\n      ");
    for (int j = 0; j < g->n; j++)
        printf("  %4d", j);
    printf("\n");
    for (int i = 0; i < g->n; i++) {
        printf("  %4d", i);
        for (int j = 0; j < g->n; j++) {
            char cell[16] = "yes";
            if (i == j)
                snprintf(cell, sizeof cell, ".");
            else if (!g->access[i][j])
                snprintf(cell, sizeof cell, "no");
            else if (g->nvlinks[i][j] > 0)
                snprintf(cell, sizeof cell, "NV%d", g->nvlinks[i][j]);
            printf("  %4s", cell);
        }
        printf("\n");
    }
}

/* Of several processes of one user; MPS serves a whole machine. */
static void print_turns(const struct info_gpus *g)
{
    char all[32], often[32], alone[32];
    printf("\nSeveral ranks on a device: ");
    if (g->dev[0].mps) {
        printf("they use it at the same time (MPS)\n");
        return;
    }
    printf("in turns, because MPS does not run\n");
    printf(
        "  collectives   by the first rank of the device, for all; while other contexts compute, "
        "up to %s of all ranks through host memory\n",
        info_bytes(rt_gpu_turn_max(), all, sizeof all));
    printf("  messages      of 2 bytes to %s, or %s if alone, through pinned memory; others wait "
           "for a turn, %d us\n",
           info_bytes(RT_GPU_BY_HOST, often, sizeof often),
           info_bytes(RT_GPU_BY_HOST_ALONE, alone, sizeof alone), (int)(RT_GPU_TURN_NS / 1000));
}

static void print_memory(void)
{
    printf("\nDevice memory of the library, a rank: less than 1 MiB and its kernels; 8 MiB for a\n"
           "  stream communicator, at most six; 4 MiB buffers for operations, of which usually up\n"
           "  to 256 MiB stay (MPI_T: gpu_memory_bytes; MPIX_GPU_release() frees idle ones)\n");
}

static void print_kernels(const struct info_gpus *g)
{
    printf("kernels   %s", WEFT_GPU_KERNELS);
    for (int i = 0; i < g->n; i++) {
        struct rt_gpu *gpu;
        if (rt_gpu_images[0].name && rt_gpu_primary(i, &gpu) == 0 && !rt_gpu_has_kernels(gpu))
            printf("; not loaded on device %d", i);
    }
    printf("\n");
}

/* ---- sharing ---- */

struct like { /* pairs with the same result for a kind of memory */
    const info_share_table *t;
    int kind;
    const struct info_shared *s;
};

static bool is_like(int i, int j, const void *arg)
{
    const struct like *l = arg;
    const struct info_shared *s = &(*l->t)[i][j][l->kind];
    return s->works == l->s->works && (s->works || !strcmp(s->why, l->s->why));
}

/* Whether the pair is the first of its group, which prints the group. */
static bool is_first(const struct like *l, int from, int to)
{
    int n = info_gpus()->n;
    for (int k = 0; k < from * n + to; k++)
        if (is_like(k / n, k % n, l))
            return false;
    return true;
}

static void print_shared(const struct info_gpus *g)
{
    static const char *const how[] = { "legacy handle", "descriptor" };
    const info_share_table *t = info_share();
    printf("\nMemory that another process can use, tried here (from device - by device)\n");
    for (int k = 0; k < INFO_SHARES; k++) {
        for (int p = 0; p < g->n * g->n; p++) {
            struct like l = { t, k, &(*t)[p / g->n][p % g->n][k] };
            char name[48], pairs[256];
            if (!is_first(&l, p / g->n, p % g->n))
                continue;
            snprintf(name, sizeof name, "%s, by %s", info_share_names[k], how[k]);
            printf("  %-28s %-17s %s%s\n", name, pairs_of(is_like, &l, pairs, sizeof pairs),
                   l.s->works ? "works" : "refused: ", l.s->works ? "" : l.s->why);
        }
    }
    printf(
        "  VMM, up to %d mappings       all               like VMM, if all but the last have one "
        "length\n"
        "  managed, pools               all               no: messages from them are staged\n",
        RT_GPU_PARTS);
}

/* ---- paths ---- */

static const size_t sizes[] = { 8, 64 << 10, 1 << 20, 64 << 20 };
#define NSIZES (sizeof sizes / sizeof sizes[0])

static void print_row(const char *from, const char *to, const char *pairs, enum info_path path,
                      enum rt_gpu_link link)
{
    printf("  %-24s %-14s %-18s %-27s", from, to, pairs, info_path_names[path]);
    for (size_t s = 0; s < NSIZES; s++)
        printf(" %8.*f", sizes[s] > 1 << 20 ? 0 : 2, info_predict_us(path, link, sizes[s]));
    printf("\n");
}

/* What determines the path between two devices: the link, and which kinds of memory are shared. */
static unsigned key_of(int i, int j)
{
    const struct info_gpus *g = info_gpus();
    const info_share_table *t = info_share();
    unsigned key = i == j ? 1 : g->access[j][i] ? 2 : 4;
    for (int k = 0; k < INFO_SHARES && info_listed("cuda"); k++)
        key |= (*t)[i][j][k].works ? 8u << k : 0;
    return key;
}

static bool has_key(int i, int j, const void *arg)
{
    return key_of(i, j) == *(const unsigned *)arg;
}

static void print_pair(unsigned key)
{
    char pairs[256], shared[64] = "", rest[64] = "";
    enum rt_gpu_link link = key & 1 ? RT_GPU_LINK_LOCAL : RT_GPU_LINK_PEER;
    size_t at = 0, rest_at = 0;
    for (int k = 0; k < INFO_SHARES; k++) {
        const char *name = info_share_names[k];
        if (key & 8u << k)
            at += (size_t)snprintf(shared + at, sizeof shared - at, "%s%s", at ? ", " : "", name);
        else
            rest_at += (size_t)snprintf(rest + rest_at, sizeof rest - rest_at, "%s, ", name);
    }
    snprintf(rest + rest_at, sizeof rest - rest_at, "%s",
             rest_at ? "others" : "pools, managed, others");
    if (!at)
        snprintf(rest, sizeof rest, "any");
    pairs_of(has_key, &key, pairs, sizeof pairs);
    if (at)
        print_row(shared, "device", pairs, INFO_DIRECT, link);
    /* Pieces are cudaMalloc memory. */
    print_row(rest, "device", pairs, key & 8u << INFO_LEGACY ? INFO_BY_DEVICE : INFO_BY_HOST, link);
}

static void print_pairs(const struct info_gpus *g)
{
    printf("\nMessages of two processes, predicted in us\n");
    printf("  %-24s %-14s %-18s %-27s %8s %8s %8s %8s\n", "from", "to", "devices", "how", "8 B",
           "64 KiB", "1 MiB", "64 MiB");
    for (int p = 0; p < g->n * g->n; p++) {
        unsigned key = key_of(p / g->n, p % g->n);
        bool first = true;
        for (int q = 0; q < p && first; q++)
            first = key_of(q / g->n, q % g->n) != key;
        if (first)
            print_pair(key);
    }
    print_row("device", "host, pinned", "all", INFO_TO_HOST, RT_GPU_LINK_HOST);
    print_row("host, pinned", "device", "all", INFO_FROM_HOST, RT_GPU_LINK_HOST);
}

int info_gpu(bool none_is_fine)
{
    const struct info_gpus *g = info_gpus();
    int version = rt_gpu_driver_version();
    if (!g->n) {
        printf("No device can be used: %s\n", g->why);
        return none_is_fine ? 0 : 1;
    }
    printf("driver    CUDA %d.%d\n", version / 1000, version % 1000 / 10);
    print_kernels(g);
    printf("\n");
    print_devices(g);
    print_matrix(g);
    print_turns(g);
    print_memory();
    print_shared(g);
    print_pairs(g);
    return 0;
}

/* ---- for --paths ---- */

struct reach {
    bool same, access;
};

static bool is_reach(int i, int j, const void *arg)
{
    const struct reach *r = arg;
    return (i == j) == r->same && info_gpus()->access[j][i] == r->access;
}

/* Which copies go through pinned memory, as text. */
static const char *through_host(enum rt_gpu_link link, char *text, size_t len)
{
    size_t upto = link == RT_GPU_LINK_LOCAL  ? info_by_host()
                  : link == RT_GPU_LINK_HOST ? SIZE_MAX
                                             : 0;
    char often[32], alone[32];
    text[0] = '\0';
    if (upto == SIZE_MAX)
        snprintf(text, len, "through pinned memory: ");
    else if (upto)
        snprintf(text, len, "up to %s, or %s if alone, through pinned memory, then ",
                 info_bytes(RT_GPU_BY_HOST, often, sizeof often),
                 info_bytes(upto, alone, sizeof alone));
    return text;
}

void info_gpu_paths(void)
{
    static const struct {
        struct reach reach;
        enum rt_gpu_link link;
    } rows[] = { { { true, true }, RT_GPU_LINK_LOCAL },
                 { { false, true }, RT_GPU_LINK_PEER },
                 { { false, false }, RT_GPU_LINK_HOST } };
    const struct info_gpus *g = info_gpus();
    char pairs[256], points[256], text[96];
    if (!g->n) {
        printf("\nDevice buffers: none; %s\n", g->why);
        return;
    }
    printf("\nBetween ranks on    copies of device memory by\n");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        pairs_of(is_reach, &rows[r].reach, pairs, sizeof pairs);
        if (pairs[0])
            printf("  %-17s %s%s\n", pairs, through_host(rows[r].link, text, sizeof text),
                   info_switch_points(rows[r].link, points, sizeof points));
        if (pairs[0] && rows[r].reach.access) {
            printf("  %-17s done by %s\n", "", info_sides(false, points, sizeof points));
            printf("  %-17s into allocations of whole 2 MiB done by %s\n", "",
                   info_sides(true, points, sizeof points));
        }
    }
    printf("  %-17s %s\n", "host and device",
           info_switch_points(RT_GPU_LINK_HOST, points, sizeof points));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Predictions of the cost model of runtime/gpu for messages between devices: times, and the lengths
 * at which the method of copying changes.  One thread. */
#include "launcher/info/gpus.h"
#include "launcher/info/info.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/pieces.h"
#include "runtime/base/cfg.h"
#include "runtime/gpu/images.h"

#include <string.h>

/* Time to notify the receiver: a message through shared memory (btl/shm's caps), and its handling
 * on both sides. */
#define HOP_NS 300.0
/* Both sides copy host memory at the same time (btl/shm/rma.c: 14000 MB/s each). */
#define HOST_NS_PER_BYTE (1 / 28.0)
#define PIECE_MIN ((size_t)256 << 10) /* for host memory, as in mpi/p2p */
#define LEN_MAX ((size_t)1 << 30)     /* beyond this length the method does not change */

const char *const info_path_names[] = {
    [INFO_DIRECT] = "copied directly",
    [INFO_BY_DEVICE] = "in pieces of device memory",
    [INFO_BY_HOST] = "in pieces of pinned memory",
    [INFO_TO_HOST] = "in pieces of pinned memory",
    [INFO_FROM_HOST] = "in pieces of pinned memory",
};

/* The method for a copy of this length. */
static enum rt_gpu_way way_of(enum rt_gpu_link link, size_t len)
{
    /* ranks that share a device launch no kernels for copies */
    bool kernels = rt_gpu_images[0].name != NULL && !cfg.gpu_engines && link != RT_GPU_LINK_LOCAL;
    return rt_gpu_choose(link, len, kernels && cfg.gpu_linger_us > 0, kernels);
}

size_t info_by_host(void)
{
    return cfg.gpu_engines ? SIZE_MAX : info_gpus()->dev[0].mps ? 0 : RT_GPU_BY_HOST_ALONE;
}

/* On a device that ranks share: into pinned memory and out of it, or when the process's turn
 * comes. */
static double shared_ns(size_t len)
{
    if (len <= info_by_host())
        return 2.0 * (double)rt_gpu_cost_ns(RT_GPU_WAY_ENGINE, RT_GPU_LINK_HOST, len);
    return (double)rt_gpu_cost_ns(RT_GPU_WAY_ENGINE, RT_GPU_LINK_LOCAL, len) +
           (info_by_host() ? RT_GPU_TURN_NS : 0);
}

static double copy_ns(enum rt_gpu_link link, size_t len)
{
    if (link == RT_GPU_LINK_LOCAL)
        return shared_ns(len);
    return (double)rt_gpu_cost_ns(way_of(link, len), link, len);
}

/* Two pieces overlap, so a message is cut into at least two; mpi/p2p does the same. */
static size_t piece_of(enum info_path path, size_t len)
{
    size_t most = path == INFO_BY_DEVICE ? RT_GPU_STAGE_LARGE : WM_PIECE_MAX, half = len / 2;
    if (path != INFO_BY_DEVICE && half >= PIECE_MIN && half < most)
        return half;
    return len < most ? len : most;
}

/* The stages of one piece run one after the other; of many pieces, only the slowest stage
 * counts. */
double info_predict_us(enum info_path path, enum rt_gpu_link link, size_t len)
{
    if (path == INFO_DIRECT) {
        bool put = link == RT_GPU_LINK_PEER && rt_gpu_side(len, true) == RT_GPU_LINK_PUT;
        double copy = put ? HOP_NS + copy_ns(RT_GPU_LINK_PUT, len) : copy_ns(link, len);
        return (HOP_NS + copy) / 1e3;
    }
    size_t piece = piece_of(path, len);
    double host = HOP_NS + (double)piece * HOST_NS_PER_BYTE,
           over = copy_ns(RT_GPU_LINK_HOST, piece);
    double stage[3] = { over, host, path == INFO_BY_HOST ? over : 0 };
    if (path == INFO_BY_DEVICE) {
        stage[0] = copy_ns(RT_GPU_LINK_LOCAL, piece);
        stage[1] = HOP_NS + copy_ns(link, piece);
    }
    double sum = HOP_NS, most = 0;
    for (int i = 0; i < 3; i++) {
        sum += stage[i];
        most = stage[i] > most ? stage[i] : most;
    }
    return (sum + (double)((len - 1) / piece) * most) / 1e3;
}

static const char *side_name(enum rt_gpu_link side)
{
    return side == RT_GPU_LINK_PUT ? "the sender" : "the receiver";
}

/* The longest copy below `high` that uses the same method as a copy of length `low`. */
static size_t last_of(enum rt_gpu_link link, size_t low, size_t high)
{
    enum rt_gpu_way way = way_of(link, low);
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (way_of(link, mid) == way)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Rounds to three digits, enough for a prediction: "128 KiB" instead of "131071 B". */
static const char *about(size_t n, char *text, size_t len)
{
    size_t unit = 1;
    while (n / unit >= 256)
        unit *= 2;
    return info_bytes((n + unit / 2) / unit * unit, text, len);
}

const char *info_switch_points(enum rt_gpu_link link, char *text, size_t len)
{
    size_t at = 0, n = 1;
    char size[32];
    text[0] = '\0';
    for (; n < LEN_MAX; n *= 2) {
        enum rt_gpu_way way = way_of(link, n);
        if (way == way_of(link, 2 * n))
            continue;
        size_t last = last_of(link, n, 2 * n);
        at += (size_t)snprintf(text + at, len - at, "up to %s %s, ", about(last, size, sizeof size),
                               rt_gpu_way_names[way]);
    }
    snprintf(text + at, len - at, "%s%s", at ? "then " : "", rt_gpu_way_names[way_of(link, n)]);
    return text;
}

const char *info_sides(bool large_pages, char *text, size_t len)
{
    size_t at = 0, n = 1;
    char size[32];
    for (; n < LEN_MAX; n *= 2) {
        enum rt_gpu_link side = rt_gpu_side(n, large_pages);
        size_t low = n, high = 2 * n;
        if (side == rt_gpu_side(high, large_pages))
            continue;
        while (high - low > 1) {
            size_t mid = low + (high - low) / 2;
            *(rt_gpu_side(mid, large_pages) == side ? &low : &high) = mid;
        }
        at += (size_t)snprintf(text + at, len - at, "up to %s %s, ", about(low, size, sizeof size),
                               side_name(side));
    }
    snprintf(text + at, len - at, "%s%s", at ? "then " : "",
             side_name(rt_gpu_side(n, large_pages)));
    return text;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* See path.h. */
#include "mpi/rma/path.h"
#include "mpi/rma/ctl.h"
#include "mpi/rma/format.h"

const char *const wm_rma_path_names[] = { "am", "cma", "direct", "device", "rdma" };

static struct wm_rma_choice choice(enum wm_rma_path path, const char *reason)
{
    return (struct wm_rma_choice){ path, reason };
}

struct wm_rma_choice wm_rma_choose(const struct wm_rma_facts *f)
{
    bool pointers = f->force == WM_RMA_FORCE_NONE;
    if (f->force == WM_RMA_FORCE_AM)
        return choice(WM_PATH_AM, "setting rma_path");
    if (!f->same_host)
        return f->rdma ? choice(WM_PATH_RDMA, "it is on another host, with RDMA between")
                       : choice(WM_PATH_AM, "it is on another host");
    if (f->device && f->mapped && pointers)
        return choice(WM_PATH_DEVICE, "it has device memory that can be mapped");
    if (f->device)
        return choice(WM_PATH_AM, "it has device memory");
    if (f->self)
        return choice(WM_PATH_DIRECT, "it is this process");
    if (f->where == WM_RMA_IN_FILE && pointers)
        return choice(WM_PATH_DIRECT, "its memory is in the window's file");
    if (f->where == WM_RMA_IN_NODE && pointers)
        return choice(WM_PATH_DIRECT, "its memory is in the node segment");
    if (f->where == WM_RMA_NOWHERE) /* every access is out of range */
        return choice(WM_PATH_DIRECT, "it has no memory");
    if (f->force == WM_RMA_FORCE_RDMA)
        return f->rdma ? choice(WM_PATH_RDMA, "setting rma_path")
                       : choice(WM_PATH_AM, "no RDMA into its memory");
    if (!f->readable)
        return choice(WM_PATH_AM, "its memory cannot be read from here");
    return choice(WM_PATH_CMA, pointers ? "its memory is private to it" : "setting rma_path");
}

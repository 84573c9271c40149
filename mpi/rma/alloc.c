/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the calls that create windows, attach memory, and ask for shared memory (MPI-5.0
 * sections 12.2.1 to 12.2.5). */
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include "mpi/rma/checked.h"
#include "mpi/rma/create.h"
#include "mpi/rma/info.h"
#include "mpi/rma/map.h"
#include "mpi/rma/target.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/mem/segment.h"
#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

static int check(const struct wm_comm *comm, MPI_Aint size, MPI_Aint unit)
{
    if (comm->inter)
        return wm_err(MPI_ERR_COMM, "the communicator is an intercommunicator, expected an "
                                    "intracommunicator");
    if (size < 0)
        return wm_err(MPI_ERR_SIZE, "the size of the window is %lld", (long long)size);
    if (unit <= 0)
        return wm_err(MPI_ERR_DISP, "the displacement unit is %lld; give a positive number",
                      (long long)unit);
    return MPI_SUCCESS;
}

static int hint_alignment(const struct wm_info *info, MPI_Aint *align)
{
    const char *text = wm_info_find(info, "mpi_minimum_memory_alignment");
    char *end;
    *align = RT_CACHE_LINE;
    if (!text)
        return MPI_SUCCESS;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || n <= 0 || (n & (n - 1)) || n > 1ll << 40)
        return wm_err(MPI_ERR_INFO_VALUE,
                      "mpi_minimum_memory_alignment is \"%s\"; give a power of two", text);
    *align = n > RT_CACHE_LINE ? (MPI_Aint)n : RT_CACHE_LINE;
    return MPI_SUCCESS;
}

int wm_api_win_create(void *base, MPI_Aint size, MPI_Aint disp_unit, struct wm_info *info,
                      struct wm_comm *comm, struct wm_win **win)
{
    struct wm_rma_plan p = { .flavor = MPI_WIN_FLAVOR_CREATE,
                             .base = base,
                             .nbytes = size,
                             .unit = disp_unit,
                             .align = 1,
                             .info = info };
    int failed = check(comm, size, disp_unit);
    bool device = false;
    if (rt_unlikely(cfg.check) && !failed && !wm_rma_look(base, size, &device) && !device)
        wm_rma_checked_memory(NULL, base, (size_t)size);
    return wm_rma_create(comm, &p, failed, win);
}

static int allocate(struct wm_rma_plan *p, struct wm_comm *comm, int failed, void *baseptr,
                    struct wm_win **win)
{
    if (!failed)
        failed = hint_alignment(p->info, &p->align);
    p->allocates = true;
    int err = wm_rma_create(comm, p, failed, win);
    if (!err) /* `baseptr` points to a pointer whose type is unknown here */
        memcpy(baseptr, &(*win)->rma->memory.base, sizeof(void *));
    return err;
}

int wm_api_win_allocate(MPI_Aint size, MPI_Aint disp_unit, struct wm_info *info,
                        struct wm_comm *comm, void *baseptr, struct wm_win **win)
{
    const char *kind = wm_info_find(info, "weft_memory_kind");
    struct wm_rma_plan p = { .flavor = MPI_WIN_FLAVOR_ALLOCATE,
                             .device = kind && wm_rma_is_device_kind(kind),
                             .nbytes = size,
                             .unit = disp_unit,
                             .info = info };
    return allocate(&p, comm, check(comm, size, disp_unit), baseptr, win);
}

static int check_shared(const struct wm_comm *comm)
{
    for (int i = 0; i < comm->size; i++) {
        struct rt_proc p = wm_group_proc(comm->group, i);
        if (p.ns != 0 || rt_node_local(p.rank) < 0)
            return wm_err(MPI_ERR_RMA_SHARED,
                          "not all processes of the communicator are on one host; make it with "
                          "MPI_Comm_split_type and MPI_COMM_TYPE_SHARED");
    }
    return MPI_SUCCESS;
}

static bool is_true(const struct wm_info *info, const char *key)
{
    const char *v = wm_info_find(info, key);
    return v && !strcmp(v, "true");
}

int wm_api_win_allocate_shared(MPI_Aint size, MPI_Aint disp_unit, struct wm_info *info,
                               struct wm_comm *comm, void *baseptr, struct wm_win **win)
{
    struct wm_rma_plan p = { .flavor = MPI_WIN_FLAVOR_SHARED,
                             .contiguous = !is_true(info, "alloc_shared_noncontig"),
                             .nbytes = size,
                             .unit = disp_unit,
                             .info = info };
    int failed = check(comm, size, disp_unit);
    if (!failed)
        failed = check_shared(comm);
    return allocate(&p, comm, failed, baseptr, win);
}

int wm_api_win_create_dynamic(struct wm_info *info, struct wm_comm *comm, struct wm_win **win)
{
    struct wm_rma_plan p = {
        .flavor = MPI_WIN_FLAVOR_DYNAMIC, .dynamic = true, .unit = 1, .align = 1, .info = info
    };
    return wm_rma_create(comm, &p, check(comm, 0, 1), win);
}

/* ---- attached memory ---- */

static int dynamic_only(const struct wm_win *win)
{
    if (win->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_RMA_FLAVOR, "the window was not made by MPI_Win_create_dynamic");
}

/* Index of the first region that begins at `base` or later. */
static int find(const struct wm_rma *r, uint64_t base)
{
    int low = 0, high = r->memory.nregions;
    while (low < high) {
        int mid = (low + high) / 2;
        if (r->memory.region[mid].base < base)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int insert(struct wm_rma *r, uint64_t base, uint64_t nbytes)
{
    int at = find(r, base);
    const struct wm_rma_region *before = at ? &r->memory.region[at - 1] : NULL,
                               *next = at < r->memory.nregions ? &r->memory.region[at] : NULL;
    if ((before && nbytes && before->base + before->nbytes > base) ||
        (next && next->base < base + nbytes) || (next && next->base == base))
        return wm_err(MPI_ERR_RMA_ATTACH, "the memory overlaps memory that is attached already");
    if (r->memory.nregions == r->memory.cap_regions) {
        int cap = r->memory.cap_regions ? 2 * r->memory.cap_regions : 16;
        struct wm_rma_region *more = realloc(r->memory.region, (size_t)cap * sizeof *more);
        if (!more)
            return wm_err(MPI_ERR_NO_MEM, "no memory to attach more than %d regions",
                          r->memory.nregions);
        r->memory.region = more;
        r->memory.cap_regions = cap;
    }
    memmove(&r->memory.region[at + 1], &r->memory.region[at],
            (size_t)(r->memory.nregions - at) * sizeof *r->memory.region);
    r->memory.region[at] = (struct wm_rma_region){ base, nbytes };
    r->memory.nregions++;
    return MPI_SUCCESS;
}

int wm_api_win_attach(struct wm_win *win, void *base, MPI_Aint size)
{
    struct wm_rma *r = win->rma;
    int err = dynamic_only(win);
    if (!err && size < 0)
        err = wm_err(MPI_ERR_SIZE, "argument 3 (size) is %lld", (long long)size);
    if (err)
        return err;
    bool device;
    rt_lock(&r->dom->lock);
    err = wm_rma_look(base, size, &device);
    if (!err)
        err = insert(r, (uint64_t)(uintptr_t)base, (uint64_t)size);
    if (!err && device) /* before any process can know the address of this memory */
        rt_store_release(&r->shared.ctl->on_device, 1u);
    rt_unlock(&r->dom->lock);
    return err;
}

int wm_api_win_detach(struct wm_win *win, const void *base)
{
    struct wm_rma *r = win->rma;
    uint64_t at = (uint64_t)(uintptr_t)base;
    int err = dynamic_only(win);
    if (err)
        return err;
    rt_lock(&r->dom->lock);
    int i = find(r, at);
    if (i == r->memory.nregions || r->memory.region[i].base != at) {
        err = wm_err(MPI_ERR_RMA_ATTACH, "no memory that begins at %p is attached", base);
    } else {
        r->memory.nregions--;
        memmove(&r->memory.region[i], &r->memory.region[i + 1],
                (size_t)(r->memory.nregions - i) * sizeof *r->memory.region);
    }
    rt_unlock(&r->dom->lock);
    return err;
}

/* ---- shared memory ---- */

/* The memory of a rank as this process can address it; NULL: it cannot, or there is none. */
static char *address_of(struct wm_rma *r, struct wm_rma_target *t)
{
    if (!t->nbytes)
        return NULL;
    if (t->rank == r->comm->rank)
        return r->memory.base;
    if (!t->ctl)
        return NULL;
    if (rt_unlikely(rt_load_acquire(&t->ctl->on_device)))
        return wm_rma_map_address(r, t);
    return t->ctl->where == WM_RMA_IN_FILE   ? r->shared.file.base + t->ctl->off
           : t->ctl->where == WM_RMA_IN_NODE ? (char *)rt_node_at(t->ctl->off)
                                             : NULL;
}

/* The lowest rank whose memory is not empty and shared with this process; -1: there is none. */
static int lowest(struct wm_rma *r, int *err)
{
    struct wm_rma_target *t;
    for (int i = 0; i < r->comm->size && !*err; i++) {
        struct rt_proc p = wm_group_proc(r->comm->group, i);
        if (p.ns != 0 || rt_node_local(p.rank) < 0)
            continue;
        *err = wm_rma_named(r, i, &t);
        if (!*err && address_of(r, t))
            return i;
    }
    return -1;
}

int wm_api_win_shared_query(struct wm_win *win, int rank, MPI_Aint *size, MPI_Aint *disp_unit,
                            void *baseptr)
{
    struct wm_rma *r = win->rma;
    struct wm_rma_target *t = NULL;
    char *at = NULL;
    int err = MPI_SUCCESS;
    if (win->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return wm_err(MPI_ERR_RMA_FLAVOR, "the window was made by MPI_Win_create_dynamic, whose "
                                          "memory cannot be queried");
    rt_lock(&r->dom->lock);
    if (rank == MPI_PROC_NULL)
        rank = lowest(r, &err);
    if (!err && rank >= 0)
        err = wm_rma_named(r, rank, &t);
    if (!err) {
        at = t ? address_of(r, t) : NULL;
        *size = at ? (MPI_Aint)t->nbytes : 0;
        *disp_unit = at ? t->unit : t && t->unit ? t->unit : 1;
        memcpy(baseptr, &at, sizeof at);
    }
    rt_unlock(&r->dom->lock);
    return err;
}

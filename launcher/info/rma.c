/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --rma: the path of one-sided communication to each kind of window.  The paths come from
 * the function that chooses them in the library (mpi/rma/path.h).  Rank 0 finds out as the library
 * does whether it may read the memory of another process of its host. */
#include "launcher/info/info.h"
#include "launcher/info/job.h"
#include "mpi/rma/ctl.h"
#include "mpi/rma/format.h"
#include "mpi/rma/path.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/mem/peer.h"

#include <stdlib.h>
#include <string.h>

static const struct kind {
    const char *name;
    enum wm_rma_where where;
    bool one_host; /* all ranks of the window must be on one host */
    bool device;
} kinds[] = {
    { "MPI_Win_allocate", WM_RMA_IN_FILE, false, false },
    { "MPI_Win_allocate_shared", WM_RMA_IN_FILE, true, false },
    { "MPI_Win_create", WM_RMA_PRIVATE, false, false },
    { "  of MPI_Alloc_mem", WM_RMA_IN_NODE, false, false },
    { "  of device memory", WM_RMA_PRIVATE, false, true },
    { "MPI_Win_create_dynamic", WM_RMA_DYNAMIC, false, false },
    { "  with device memory", WM_RMA_DYNAMIC, false, true },
};

static void line(const char *what, const char *found, const char *why)
{
    printf("  %-24s %-7s %s\n", what, found, why);
}

static const char *setting(const char *name, char *text, int len)
{
    enum rt_cfg_source source;
    for (int i = 0; i < rt_cfg_count(); i++)
        if (!strcmp(rt_cfg_row(i)->name, name))
            rt_cfg_value(i, text, len, &source);
    return text;
}

/* `b` carries messages to the rank; NULL: not known. */
static void show_kinds(struct wm_rma_facts f, const struct btl *b)
{
    bool rdma = b && b->caps.flags & BTL_WINDOW;
    f.force = (uint8_t)cfg.rma_path;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        f.where = (uint8_t)kinds[i].where;
        f.device = kinds[i].device;
        f.rdma = rdma && f.where != WM_RMA_DYNAMIC && !f.device;
        f.mapped = kinds[i].device && kinds[i].where == WM_RMA_PRIVATE;
        struct wm_rma_choice c = wm_rma_choose(&f);
        if (kinds[i].one_host && !f.same_host)
            line(kinds[i].name, "none", "all ranks of such a window are on one host");
        else
            line(kinds[i].name, wm_rma_path_names[c.path], c.reason);
    }
}

static const struct btl *connect_to(struct btl *open[], int n, int rank)
{
    return info_connect(open, n, (struct rt_proc){ 0, (uint32_t)rank });
}

static void show_messages(const struct btl *b)
{
    line("messages", b ? b->ops->name : "none", b ? b->ops->help : "the rank is out of reach");
}

/* Why copies from the memory of a process of this host are refused; NULL: they are permitted. */
static const char *refusal(int rank, int local)
{
    char byte;
    size_t len = 0;
    const char *why = rt_peer_obstacle(&rt_node.bells[local]);
    if (why)
        return why;
    uint64_t *probe = info_published((struct rt_proc){ 0, (uint32_t)rank }, INFO_PROBE, &len);
    if (!probe || len != sizeof *probe)
        why = "not tried: the rank has published no address";
    else if (rt_peer_read(&rt_node.bells[local], &byte, *probe, 1) < 0)
        why = "the system refuses process_vm_readv; weft_info --doctor";
    free(probe);
    return why;
}

static void show_same_host(struct btl *open[], int n)
{
    int local = 1 - (rt_boot.local_rank > 0); /* of another rank */
    if (rt_boot.local_size < 2) {
        printf("\nTo a rank of the same host: there is none in this job\n");
        return;
    }
    int rank = (int)rt_boot.local_procs[local];
    const char *no = refusal(rank, local);
    bool waits = no || cfg.rma_path == WM_RMA_FORCE_AM;
    printf("\nTo a rank of the same host, such as rank %d\n", rank);
    line("copies by the system", no ? "no" : "yes",
         no ? no : "process_vm_readv of that rank works");
    const struct btl *b = connect_to(open, n, rank);
    show_kinds((struct wm_rma_facts){ .same_host = true, .readable = !no }, b);
    show_messages(b);
    line("target not calling MPI", waits ? "waits" : "served",
         waits ? "where the path is am and no helper thread runs"
               : "where the path is not am: the origin accesses memory and locks");
}

static void show_other_host(struct btl *open[], int n)
{
    const struct btl *b = NULL;
    int rank = 0;
    while (rank < rt_boot.size && rt_boot_local((uint32_t)rank) >= 0)
        rank++;
    printf("\nTo a rank of another host");
    if (rank < rt_boot.size)
        printf(", such as rank %d", rank);
    printf("\n");
    if (rank < rt_boot.size)
        b = connect_to(open, n, rank);
    show_kinds((struct wm_rma_facts){ .same_host = false }, b);
    if (rank < rt_boot.size)
        show_messages(b);
    line("target not calling MPI", cfg.rma_helper ? "served" : "waits",
         cfg.rma_helper ? "by a helper thread, unless the window has the hint no_locks"
                        : "setting rma_helper");
}

static void show(struct btl *open[], int n)
{
    char path[32] = "", large[32] = "";
    printf("One-sided communication from rank 0 on %s\n", rt_boot.host);
    show_same_host(open, n);
    show_other_host(open, n);
    printf("\nPaths\n"
           "  direct  loads and stores; also to the own rank\n"
           "  cma     copies by process_vm_readv and process_vm_writev\n"
           "  am      messages that the target executes\n"
           "  device  copies by the origin's GPU in mapped memory; all but puts and gets of\n"
           "          contiguous data, and all where the GPUs do not reach each other: as am\n"
           "  rdma    puts and gets of contiguous data by the transport, if the rank can register\n"
           "          its memory; all else as am\n"
           "Origin and result buffers may be device memory with each path.\n"
           "\nSettings\n"
           "  rma_path=%s: am forces messages, cma excludes pointers to other ranks,\n"
           "    rdma does too and has ranks of one host use the transport\n"
           "  shm_large=%s: copy excludes copies by the system\n"
           "  log=mpi:debug prints path and reason when a target is first used\n",
           setting("rma_path", path, sizeof path), setting("shm_large", large, sizeof large));
}

int info_rma(const char *self) { return info_in_job(self, "--rma", show); }

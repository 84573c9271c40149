/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds Weft's library, two folders above this one (LIBDIR/weft/ABI), and its procedures.  It is
 * loaded with its names hidden: this library defines the same names.  The first call of any thread
 * loads it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mpi/foreign/convert.h"

#define STANDARD "libmpi_abi.so.1"

static void unready(const char *call)
{
    fprintf(stderr, "Weft MPI: %s was called before MPI_Init or MPI_Session_init\n", call);
    exit(EXIT_FAILURE);
}

/* In the place of each procedure until Weft is loaded; PMPI_X is reported as MPI_X. */
#define WX_UNREADY(prefix, name) \
    static void unready_##name(void) { unready(&#prefix #name[1]); }
WX_WEFT(WX_UNREADY)
#undef WX_UNREADY

struct wx_weft wx_weft = {
#define WX_UNREADY(prefix, name) .name = (__typeof__(prefix##name) *)unready_##name,
    WX_WEFT(WX_UNREADY)
#undef WX_UNREADY
#define WX_UNREADY(name) .known_##name = (__typeof__(PMPI_##name) *)unready_##name,
        WX_KNOWN(WX_UNREADY)
#undef WX_UNREADY
};

/* Ends the process. */
static void fail(const char *what, const char *why)
{
    fprintf(stderr, "Weft MPI cannot load %s: %s\n", what, why ? why : "unknown error");
    exit(EXIT_FAILURE);
}

static void *procedure(void *lib, const char *name)
{
    void *p = dlsym(lib, name);
    if (!p)
        fail(name, dlerror());
    return p;
}

static void load(void)
{
    char path[4096];
    Dl_info me;
    const char *end;

    if (!dladdr(&wx_weft, &me) || !(end = strrchr(me.dli_fname, '/')))
        fail(STANDARD, "the folder of this library is unknown");
    int n = snprintf(path, sizeof path, "%.*s/../../" STANDARD, (int)(end - me.dli_fname),
                     me.dli_fname);
    if (n < 0 || (size_t)n >= sizeof path)
        fail(STANDARD, "the path is too long");
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        fail(path, dlerror());
#define WX_FIND(prefix, name) *(void **)&wx_weft.name = procedure(lib, #prefix #name);
    WX_WEFT(WX_FIND)
#undef WX_FIND
#define WX_FIND(name) *(void **)&wx_weft.known_##name = procedure(lib, "PMPIX_" #name "_known");
    WX_KNOWN(WX_FIND)
#undef WX_FIND
    WX(Caller_set)
    (&(MPIX_Caller){
        .request_null = (MPI_Request)wx_request_null,
        .status_nbytes = sizeof(wx_MPI_Status),
        .any_source = wx_rank_out(MPI_ANY_SOURCE),
        .proc_null = wx_rank_out(MPI_PROC_NULL),
        .any_tag = wx_tag_out(MPI_ANY_TAG),
        .code = wx_error_out,
    });
    __atomic_store_n(&wx_weft.ready, true, __ATOMIC_RELEASE);
}

void wx_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
}

void *wx_alloc(size_t nbytes)
{
    void *p = malloc(nbytes ? nbytes : 1);
    if (!p)
        fail("the arguments of a call", "out of memory");
    return p;
}

int wx_peers(wx_MPI_Comm comm)
{
    int inter = 0, n = 0;
    MPI_Comm c = wx_comm_in(comm);
    if (WX(Comm_test_inter)(c, &inter))
        return 0;
    if (inter ? WX(Comm_remote_size)(c, &n) : WX(Comm_size)(c, &n))
        return 0;
    return n;
}

/* The neighbours of a process in its topology. */
int wx_degree(wx_MPI_Comm comm, bool out)
{
    MPI_Comm c = wx_comm_in(comm);
    int kind = MPI_UNDEFINED, n = 0, rank, to, weighted;
    if (WX(Topo_test)(c, &kind))
        return 0;
    if (kind == MPI_CART && !WX(Cartdim_get)(c, &n))
        return 2 * n;
    if (kind == MPI_GRAPH && !WX(Comm_rank)(c, &rank) && !WX(Graph_neighbors_count)(c, rank, &n))
        return n;
    if (kind == MPI_DIST_GRAPH && !WX(Dist_graph_neighbors_count)(c, &n, &to, &weighted))
        return out ? to : n;
    return 0;
}

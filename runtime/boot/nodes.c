/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of each rank of the job, as the PMIx server publishes it: by numbers of hosts, otherwise
 * by their names, otherwise by the lists of ranks on each.  Launchers differ in what they offer,
 * but all processes of a job have the same server, so all get the same result.  Read when a
 * communicator over several hosts is first used.  With all known launchers the data that the server
 * has sent at the start are sufficient, so no request is sent over a network.  Called by one thread
 * at a time. */
#include "runtime/boot/boot.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/store.h"

#include <stdlib.h>
#include <string.h>
#include <pmix.h>

/* Consecutive ranks on one host. */
struct run {
    uint32_t first;
    int node;
};

static struct {
    struct run *runs; /* NULL: not read yet, or unknown */
    int n;
    bool unknown;
} map;

static bool get_local(int rank, const char *key, pmix_value_t **val)
{
    pmix_proc_t proc;
    pmix_info_t info;
    bool yes = true;

    PMIX_LOAD_PROCID(&proc, rt_boot.nspace, (pmix_rank_t)rank);
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    pmix_status_t rc = PMIx_Get(&proc, key, &info, 1, val);
    PMIX_INFO_DESTRUCT(&info);
    return rc == PMIX_SUCCESS && *val;
}

static bool by_store(int *out)
{
    for (int r = 0; rt_store() && r < rt_boot.size; r++)
        out[r] = rt_store_node((unsigned)r);
    return rt_store() != NULL;
}

static bool by_number(int *out)
{
    for (int r = 0; r < rt_boot.size; r++) {
        pmix_value_t *val = NULL;
        if (!get_local(r, PMIX_NODEID, &val))
            return false;
        bool good = val->type == PMIX_UINT32 && val->data.uint32 < INT32_MAX;
        if (good)
            out[r] = (int)val->data.uint32;
        PMIX_VALUE_RELEASE(val);
        if (!good)
            return false;
    }
    return true;
}

struct named {
    char *name;
    int rank;
};

static int by_name_then_rank(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : x->rank - y->rank;
}

static bool read_names(struct named *host)
{
    for (int r = 0; r < rt_boot.size; r++) {
        pmix_value_t *val = NULL;
        if (!get_local(r, PMIX_HOSTNAME, &val))
            return false;
        if (val->type == PMIX_STRING && val->data.string && *val->data.string)
            host[r] = (struct named){ strdup(val->data.string), r };
        PMIX_VALUE_RELEASE(val);
        if (!host[r].name)
            return false;
    }
    return true;
}

static bool by_name(int *out)
{
    struct named *host = calloc((size_t)rt_boot.size, sizeof *host);
    bool good = host && read_names(host);
    if (good) {
        qsort(host, (size_t)rt_boot.size, sizeof *host, by_name_then_rank);
        for (int i = 0, n = 0; i < rt_boot.size; i++) {
            n += i > 0 && strcmp(host[i].name, host[i - 1].name) != 0;
            out[host[i].rank] = n;
        }
    }
    for (int i = 0; host && i < rt_boot.size; i++)
        free(host[i].name);
    free(host);
    return good;
}

/* The ranks on one host; false: the server does not publish them. */
static bool list_ranks(const char *host, int number, int *out, int *listed)
{
    pmix_proc_t *procs = NULL;
    size_t n = 0;
    if (PMIx_Resolve_peers(host, rt_boot.nspace, &procs, &n) != PMIX_SUCCESS)
        return false;
    for (size_t i = 0; i < n; i++)
        if (procs[i].rank < (pmix_rank_t)rt_boot.size) {
            *listed += out[procs[i].rank] < 0;
            out[procs[i].rank] = number;
        }
    PMIX_PROC_FREE(procs, n);
    return true;
}

static bool by_list(int *out)
{
    char *list = NULL, *save = NULL;
    int listed = 0, number = 0;
    bool good = PMIx_Resolve_nodes(rt_boot.nspace, &list) == PMIX_SUCCESS && list;
    memset(out, -1, (size_t)rt_boot.size * sizeof *out);
    for (char *host = good ? strtok_r(list, ",", &save) : NULL; host && good;
         host = strtok_r(NULL, ",", &save))
        good = list_ranks(host, number++, out, &listed);
    free(list);
    return good && listed == rt_boot.size;
}

struct seen {
    int theirs, ours; /* a host's number as published, and the new number + 1; 0: empty */
};

/* Renumbers the hosts in the order of their lowest ranks. */
static int number_by_rank(int *of)
{
    unsigned size = (unsigned)rt_boot.size; /* room for all hosts */
    struct seen *table = calloc(size, sizeof *table);
    int n = 0;
    if (!table)
        return -RT_ENOMEM;
    for (int r = 0; r < rt_boot.size; r++) {
        unsigned at = (unsigned)of[r] % size;
        while (table[at].ours && table[at].theirs != of[r])
            at = at + 1 < size ? at + 1 : 0;
        if (!table[at].ours)
            table[at] = (struct seen){ of[r], ++n };
        of[r] = table[at].ours - 1;
    }
    free(table);
    return 0;
}

static int keep_runs(const int *of)
{
    int n = 1;
    for (int r = 1; r < rt_boot.size; r++)
        n += of[r] != of[r - 1];
    struct run *runs = malloc((size_t)n * sizeof *runs);
    if (!runs)
        return -RT_ENOMEM;
    n = 0;
    for (int r = 0; r < rt_boot.size; r++)
        if (r == 0 || of[r] != of[r - 1])
            runs[n++] = (struct run){ (uint32_t)r, of[r] };
    map.runs = runs;
    map.n = n;
    return 0;
}

static int find_nodes(void)
{
    int err = 0, *of = calloc((size_t)rt_boot.size, sizeof *of);
    if (!of)
        return -RT_ENOMEM;
    if (rt_boot.nnodes > 1 && !by_store(of) && !by_number(of) && !by_name(of) && !by_list(of)) {
        log_warn(BOOT,
                 "the PMIx server does not publish the hosts of the %d processes; "
                 "collectives ignore which ranks share a host",
                 rt_boot.size);
        map.unknown = true;
        err = -RT_ENOENT;
    }
    if (!err)
        err = number_by_rank(of);
    if (!err)
        err = keep_runs(of);
    free(of);
    return err;
}

int rt_boot_node_of(uint32_t rank)
{
    if (rt_unlikely(!map.runs)) {
        int err = map.unknown ? -RT_ENOENT : find_nodes();
        if (err < 0)
            return err;
    }
    int lo = 0, hi = map.n;
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        *(map.runs[mid].first <= rank ? &lo : &hi) = mid;
    }
    return map.runs[lo].node;
}

void rt_boot_nodes_fini(void)
{
    free(map.runs);
    map.runs = NULL;
    map.unknown = false;
}

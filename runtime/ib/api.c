/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens libibverbs and fills the table of its functions.  One thread at a time.  The library stays
 * open for the rest of the process: providers may have started threads of their own. */
#include "runtime/ib/api.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const struct rt_ib_api *rt_ib;

static struct {
    struct rt_ib_api table;
    char why_not[256];
} lib;

#define NAME_MUST(field, version, result, params) \
    { "ibv_" #field, "IBVERBS_" #version, offsetof(struct rt_ib_api, field), true },
#define NAME_MAY(field, version, result, params) \
    { "ibv_" #field, "IBVERBS_" #version, offsetof(struct rt_ib_api, field), false },
static const struct {
    const char *symbol, *version;
    size_t off;
    bool must;
} names[] = {
    IB_FUNCTIONS(NAME_MUST, NAME_MAY)
    { "_ibv_query_gid_table", "IBVERBS_1.11", offsetof(struct rt_ib_api, query_gid_table), false },
};

/* The first function that is missing, or NULL.  The versions matter: the oldest ones of these names
 * belong to an interface of 2006. */
static const char *fill(void *so, struct rt_ib_api *t)
{
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = dlvsym(so, names[i].symbol, names[i].version);
        memcpy((char *)t + names[i].off, &f, sizeof f);
        if (!f && names[i].must && !missing)
            missing = names[i].symbol;
    }
    return missing;
}

int rt_ib_load(void)
{
    if (rt_ib)
        return 0;
    if (lib.why_not[0])
        return -RT_ENOENT;
    void *so = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        const char *text = dlerror();
        snprintf(lib.why_not, sizeof lib.why_not, "%s", text ? text : "no libibverbs.so.1");
        return -RT_ENOENT;
    }
    const char *missing = fill(so, &lib.table);
    if (missing) {
        snprintf(lib.why_not, sizeof lib.why_not, "libibverbs.so.1 is too old: it has no %s",
                 missing);
        dlclose(so);
        return -RT_ENOENT;
    }
    /* Before the first registration.  Kernels from 5.12 on copy registered pages for the child at
     * fork() and this does nothing; with older ones it keeps registered pages out of children,
     * where the parent would else lose its own. */
    int err = lib.table.fork_init();
    if (err)
        log_debug(IB, "ibv_fork_init: %s", strerror(err));
    rt_ib = &lib.table;
    return 0;
}

const char *rt_ib_why_not(void) { return lib.why_not; }

int rt_ib_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *out)
{
    struct verbs_context *v = verbs_get_ctx_op(c, query_port);
    memset(out, 0, sizeof *out);
    if (v)
        return v->query_port(c, port, out, sizeof *out);
    return rt_ib->query_port(c, port, (struct _compat_ibv_port_attr *)out);
}

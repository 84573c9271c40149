/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens libibverbs and other libraries of runtime/ib, and fills the tables of their functions.  One
 * thread at a time.  A library stays open until the process ends, because providers may have
 * started threads. */
#include "runtime/ib/driver.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const struct rt_ib_api *rt_ib;

static struct rt_ib_api table;

#define NAME_MUST(field, version, result, params) \
    { "ibv_" #field, "IBVERBS_" #version, offsetof(struct rt_ib_api, field), true },
#define NAME_MAY(field, version, result, params) \
    { "ibv_" #field, "IBVERBS_" #version, offsetof(struct rt_ib_api, field), false },
static const struct rt_ib_symbol symbols[] = {
    IB_FUNCTIONS(NAME_MUST, NAME_MAY){ "_ibv_query_gid_table", "IBVERBS_1.11",
                                       offsetof(struct rt_ib_api, query_gid_table), false },
};

static struct rt_ib_lib lib = {
    .so = "libibverbs.so.1",
    .symbols = symbols,
    .n = sizeof symbols / sizeof *symbols,
    .table = &table,
};

int rt_ib_lib_open(struct rt_ib_lib *l)
{
    if (l->why_not[0])
        return -RT_ENOENT;
    void *so = dlopen(l->so, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        const char *text = dlerror();
        snprintf(l->why_not, sizeof l->why_not, "%s", text ? text : l->so);
        return -RT_ENOENT;
    }
    for (const struct rt_ib_symbol *s = l->symbols; s < l->symbols + l->n; s++) {
        void *f = dlvsym(so, s->name, s->version);
        memcpy((char *)l->table + s->off, &f, sizeof f);
        if (f || !s->must)
            continue;
        snprintf(l->why_not, sizeof l->why_not, "%s is too old: it has no %s", l->so, s->name);
        dlclose(so);
        return -RT_ENOENT;
    }
    return 0;
}

int rt_ib_load(void)
{
    if (rt_ib)
        return 0;
    int err = rt_ib_lib_open(&lib);
    if (err)
        return err;
    /* Before the first registration.  Kernels from 5.12 on copy registered pages for the child at
     * fork(), and this call has no effect.  With older kernels it keeps registered pages out of
     * children; otherwise the parent would lose its own. */
    err = table.fork_init();
    if (err)
        log_debug(IB, "ibv_fork_init: %s", strerror(err));
    rt_ib = &table;
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --coll: for each collective, asks the selection of coll/ which algorithm it would
 * choose for sizes from 8 B to 16 MiB, and prints ranges with the same choice. */
#include "coll/coll.h"
#include "coll/hier/hier.h"
#include "coll/hier/team.h"
#include "coll/node/choose.h"
#include "coll/select.h"
#include "coll/start/team.h"
#include "coll/tune.h"
#include "launcher/info/info.h"
#include "runtime/base/cfg.h"
#include "runtime/topo/topo.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MIN 8
#define BYTES_MAX (16 << 20)

struct question {
    struct coll_team team;
    int nhosts;
    struct coll_args args;
    struct rt_layout layout;
    struct rt_op op;
    int64_t *counts; /* for v collectives */
};

/* Distributes the ranks over the hosts as evenly as possible, in consecutive ranges. */
static int nodes(struct coll_team *t, int *out)
{
    const struct question *q = t->arg;
    for (int host = 0; host < q->nhosts; host++)
        for (int64_t r = coll_cut(t->size, q->nhosts, host);
             r < coll_cut(t->size, q->nhosts, host + 1); r++)
            out[r] = host;
    return 0;
}

static int place(struct question *q)
{
    static const struct coll_team_ops ops = { .nodes = nodes };
    static const int self[] = { 0 };
    if (q->nhosts == 1)
        return 0;
    q->team.ops = &ops;
    q->team.arg = q;
    q->team.one_node = false;
    int err = coll_team_split(&q->team, self, 1);
    return err < 0 ? err : coll_hier_map(q->team.hier);
}

/* Makes the arguments of a call that moves `bytes`, of doubles; reductions are sums. */
static void fill(struct question *q, enum coll_kind kind, int64_t bytes)
{
    int64_t n = bytes / q->layout.size;
    bool whole = coll_shape(kind, COLL_SEND) == COLL_SIDE_CUT;
    if (whole && n >= q->team.size)
        n /= q->team.size; /* the sizes of these are those of the whole vector */
    for (int i = 0; i < q->team.size; i++)
        q->counts[i] = n;
    q->args = (struct coll_args){ .kind = kind,
                                  .scount = n,
                                  .rcount = n,
                                  .stype = &q->layout,
                                  .rtype = &q->layout,
                                  .op = &q->op,
                                  .scounts = q->counts,
                                  .sdispls = q->counts,
                                  .rcounts = q->counts,
                                  .rdispls = q->counts,
                                  .mem = RT_MEM_HOST };
}

static void print_range(enum coll_kind kind, int64_t from, int64_t to, bool sized, const char *name,
                        const char *why)
{
    char low[32], high[32], range[72] = "any size";
    if (sized && to >= BYTES_MAX)
        snprintf(range, sizeof range, "from %s", info_bytes((size_t)from, low, sizeof low));
    else if (sized)
        snprintf(range, sizeof range, "%s to %s", info_bytes((size_t)from, low, sizeof low),
                 info_bytes((size_t)to, high, sizeof high));
    printf("  %-22s %-22s %-20s %s\n", coll_kind_names[kind], range, name, why);
}

/* The name of an algorithm; behind that of one in shared memory, the file of coll/node that runs
 * the call, with the reason if another one was asked for. */
static void name_of(const struct question *q, const struct coll_alg *alg, bool crowded, char *out,
                    size_t len, const char **why)
{
    const char *file = NULL;
    const struct rt_topo *topo = rt_topo_get();
    if (q->nhosts == 1)
        file = coll_node_runs(alg, &q->team, &q->args, crowded, topo && topo->nl3 > 1, why);
    if (file)
        snprintf(out, len, "%s (%s)", alg->name, file);
    else
        snprintf(out, len, "%s", alg->name);
}

/* crowded: shows only calls that then run otherwise. */
static void show_kind(struct question *q, enum coll_kind kind, bool crowded)
{
    char last[64] = "", name[64], roomy[64];
    const char *why = "", *last_why = "";
    int64_t from = BYTES_MIN, to = BYTES_MIN;
    bool shown = false;

    for (int64_t bytes = BYTES_MIN; bytes <= BYTES_MAX; bytes *= 2) {
        fill(q, kind, bytes);
        const struct coll_alg *alg = coll_choose(&q->team, &q->args, q->nhosts == 1, &why);
        name_of(q, alg, false, roomy, sizeof roomy, &why);
        name_of(q, alg, crowded, name, sizeof name, &why);
        if (*last && (strcmp(name, last) || why != last_why)) {
            if (shown)
                print_range(kind, from, to, true, last, last_why);
            from = bytes;
        }
        shown = !crowded || strcmp(name, roomy);
        snprintf(last, sizeof last, "%s", name);
        last_why = why;
        to = bytes;
    }
    if (shown)
        print_range(kind, from, to, from > BYTES_MIN, last, last_why);
}

static void show_limits(void)
{
    char bytes[32];
    printf("\nLimits of the algorithms in shared memory (coll/node/node.def):\n");
    for (const struct coll_node_limit_row *l = coll_node_limit_rows; l->name; l++) {
        snprintf(bytes, sizeof bytes, "%lld", (long long)l->value);
        printf("  %-20s %-8s  %-56s  %s\n", l->name,
               l->bytes ? info_bytes((size_t)l->value, bytes, sizeof bytes) : bytes, l->what,
               l->measured);
    }
}

int info_coll(int nranks, int nhosts)
{
    struct question q = { .team = { .size = nranks, .one_node = true, .limits = &coll_node_limits },
                          .nhosts = nhosts,
                          .op = { .code = RT_OP_SUM, .commutes = true } };

    if (coll_configure(cfg.coll) < 0 || coll_tune_load(cfg.tune_file) < 0 || place(&q) < 0)
        return 1;
    q.counts = calloc((size_t)nranks, sizeof *q.counts);
    if (!q.counts || rt_layout_basic(&q.layout, sizeof(double), sizeof(double), RT_ELEM_F64) < 0)
        return 1;
    printf("%d rank%s on ", nranks, nranks == 1 ? "" : "s");
    if (nhosts == 1)
        printf("one host");
    else if (nranks % nhosts == 0)
        printf("%d hosts, %d on each", nhosts, nranks / nhosts);
    else
        printf("%d hosts, %d or %d on each", nhosts, nranks / nhosts, nranks / nhosts + 1);
    printf("; WEFT_COLL forces another choice\ntable: ");
    if (cfg.tune_file && *cfg.tune_file)
        printf("rows of %s, then those built in\n", cfg.tune_file);
    else
        printf("built in (mpirun -n N weft-tune measures one for this machine)\n");
    printf("  %-22s %-22s %-20s %s\n", "collective", "bytes", "algorithm", "because");
    for (int kind = 0; kind < COLL_KINDS; kind++)
        show_kind(&q, (enum coll_kind)kind, false);
    if (nhosts == 1)
        printf("\nIf ranks outnumber cores:\n");
    for (int kind = 0; kind < COLL_KINDS && nhosts == 1; kind++)
        show_kind(&q, (enum coll_kind)kind, true);
    if (nhosts == 1)
        show_limits();
    int err = nhosts == 1 ? info_coll_gpu(nranks) : 0;
    printf("\nAll algorithms:\n");
    const struct coll_alg *a;
    for (int i = 0; (a = coll_alg_at(i)); i++)
        printf("  %-22s %-20s %s\n", coll_kind_names[a->kind], a->name, a->help ? a->help : "");
    coll_team_fini(&q.team);
    rt_layout_fini(&q.layout);
    free(q.counts);
    return err;
}

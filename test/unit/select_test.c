/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of choices and WEFT_COLL. */
#include "coll/coll.h"
#include "coll/select.h"
#include "coll/tune.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "test/check.h"

static const struct rt_layout byte_layout = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};
static const struct rt_op op_bor = { .code = RT_OP_BOR, .commutes = true };
static const struct rt_op op_ordered = { .code = RT_OP_USER };

static const char *chosen(enum coll_kind kind, int size, int64_t bytes, const struct rt_op *op)
{
    struct coll_team t = { .size = size };
    struct coll_args a = { .kind = kind,
                           .scount = bytes,
                           .rcount = bytes,
                           .stype = &byte_layout,
                           .rtype = &byte_layout,
                           .op = op };
    const char *why = NULL;
    const struct coll_alg *alg = coll_select(&t, &a, &why);
    CHECK(why && *why);
    return alg->name;
}

static void every_row_names_an_algorithm(void)
{
    const struct coll_tune *r;
    for (int i = 0; (r = coll_tune_at(i)); i++) {
        CHECK_MSG(coll_alg_find(r->kind, r->name), "row %d: %s has no algorithm %s", i,
                  coll_kind_names[r->kind], r->name);
        CHECK(r->measured && *r->measured);
    }
}

static void every_kind_ends_without_needs(void)
{
    const struct coll_tune *r;
    const struct coll_tune *last[COLL_KINDS] = { NULL };
    int kind = -1;
    for (int i = 0; (r = coll_tune_at(i)); i++) {
        CHECK_MSG((int)r->kind == kind || !last[r->kind], "rows of %s are not together",
                  coll_kind_names[r->kind]);
        kind = (int)r->kind;
        last[kind] = r;
    }
    for (int k = 0; k < COLL_KINDS; k++) {
        CHECK_MSG(last[k], "%s has no row", coll_kind_names[k]);
        if (!last[k])
            continue;
        CHECK_MSG(last[k]->mem == COLL_MEM_ANY && last[k]->min_ranks == 0 &&
                      last[k]->min_bytes == 0,
                  "the last row of %s has limits", coll_kind_names[k]);
        CHECK_MSG(coll_alg_find(last[k]->kind, last[k]->name)->need == 0,
                  "the last row of %s has needs", coll_kind_names[k]);
    }
}

static void algorithm_names_are_unique(void)
{
    const struct coll_alg *a, *b;
    for (int i = 0; (a = coll_alg_at(i)); i++)
        for (int j = 0; j < i && (b = coll_alg_at(j)); j++)
            CHECK_MSG(a->kind != b->kind || strcmp(a->name, b->name), "%s:%s twice",
                      coll_kind_names[a->kind], a->name);
    CHECK(!coll_alg_find(COLL_BARRIER, "ring"));
}

static void first_match_wins_and_needs_are_kept(void)
{
    CHECK_EQ(coll_configure(""), 0);
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 8, &op_bor), "recursive_doubling");
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 16384, &op_bor), "rabenseifner");
    CHECK_STR(chosen(COLL_ALLREDUCE, 2, 16384, &op_bor), "recursive_doubling");
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 8 << 20, &op_bor), "ring");
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 8 << 20, &op_ordered), "recursive_doubling");
    CHECK_STR(chosen(COLL_ALLGATHER, 8, 8, NULL), "recursive_doubling");
    CHECK_STR(chosen(COLL_ALLGATHER, 7, 8, NULL), "bruck");
}

static void users_choice_overrules(void)
{
    CHECK_EQ(coll_configure("allreduce:ring:64K-,allreduce:tree:0-64,bcast:chain"), 0);
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 64, &op_bor), "tree");
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 65, &op_bor), "recursive_doubling");
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 65536, &op_bor), "ring");
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 65536, &op_ordered), "recursive_doubling");
    CHECK_STR(chosen(COLL_BCAST, 8, 1, NULL), "chain");
    CHECK_EQ(coll_configure(NULL), 0);
    CHECK_STR(chosen(COLL_BCAST, 8, 1, NULL), "binomial");
}

/* A table in WEFT_COLL may name every algorithm, and some more than once. */
static void every_algorithm_may_be_forced_at_once(void)
{
    char spec[16384];
    const struct coll_alg *a;
    size_t len = 0;
    for (int i = 0; (a = coll_alg_at(i)) && len < sizeof spec - 64; i++)
        len += (size_t)snprintf(spec + len, sizeof spec - len, "%s:%s:1-2,",
                                coll_kind_names[a->kind], a->name);
    CHECK(!a);
    snprintf(spec + len, sizeof spec - len, "bcast:chain");
    CHECK_EQ(coll_configure(spec), 0);
    CHECK_STR(chosen(COLL_BCAST, 8, 8, NULL), "chain");
    CHECK_EQ(coll_configure(NULL), 0);
}

static void bad_choices_are_refused(void)
{
    static const char *const bad[] = { "allreduce",
                                       "allreduse:ring",
                                       "allreduce:rink",
                                       "allreduce:ring:64K",
                                       "allreduce:ring:x-",
                                       "allreduce:ring:1-2Q",
                                       ":ring",
                                       "allreduce:",
                                       "barrier:ring",
                                       "allreduce:ring:-99999999999G" };
    CHECK_EQ(rt_log_configure("coll:error"), 0);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_MSG(coll_configure(bad[i]) == -RT_EINVAL, "\"%s\" was accepted", bad[i]);
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 8, &op_bor), "recursive_doubling");
}

int main(void)
{
    RUN(every_row_names_an_algorithm);
    RUN(every_kind_ends_without_needs);
    RUN(algorithm_names_are_unique);
    RUN(first_match_wins_and_needs_are_kept);
    RUN(users_choice_overrules);
    RUN(every_algorithm_may_be_forced_at_once);
    RUN(bad_choices_are_refused);
    return check_end();
}

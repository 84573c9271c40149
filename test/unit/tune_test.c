/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of choices in files: a written table is read back and used; bad lines are reported. */
#include "coll/gpu/plan.h"
#include "coll/select.h"
#include "coll/tune.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "test/check.h"
#include "test/unit/capture.h"

#include <stdio.h>
#include <unistd.h>

static char path[64];

static void write_table(const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

static const struct rt_layout byte_layout = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};
static const struct rt_op op_bor = { .code = RT_OP_BOR, .commutes = true };

static const char *chosen(enum coll_kind kind, int size, int64_t bytes, const char **why)
{
    struct coll_team t = { .size = size };
    struct coll_args a = { .kind = kind,
                           .scount = bytes,
                           .rcount = bytes,
                           .stype = &byte_layout,
                           .rtype = &byte_layout,
                           .op = &op_bor };
    return coll_select(&t, &a, why)->name;
}

static void rows_of_the_file_come_first(void)
{
    const char *why = NULL;
    const struct coll_tune *r;
    int kind = -1, rows = 0, more = 0;

    while (coll_tune_at(rows))
        rows++;
    write_table("/* a table\n * of several lines */\n# and another comment\n\n"
                "TUNE( ALLREDUCE, ANY,  4, 1K, \"ring\", \"this machine, (fast)\" )\n"
                "  TUNE(BCAST,HOST,0,0,\"chain\",\"x\")   \n"
                "TUNE( ALLREDUCE, HOST, 0, 8, \"tree\", \"x\" )\n"
                "TUNE( ALLREDUCE, CUDA, 2, 65536, \"gpu_two_shot\", \"gpus\" )\n"
                "TUNE( ALLREDUCE, CUDA, 2, 0, \"gpu_one_shot\", \"gpus\" )");
    CHECK_EQ(coll_tune_load(path), 0);
    CHECK_STR(chosen(COLL_ALLREDUCE, 4, 1024, &why), "ring");
    CHECK_STR(why, "this machine, (fast)");
    CHECK_STR(chosen(COLL_ALLREDUCE, 4, 1023, &why), "tree");
    CHECK_STR(chosen(COLL_ALLREDUCE, 3, 1024, &why), "tree");
    CHECK_STR(chosen(COLL_ALLREDUCE, 8, 7, &why), "recursive_doubling");
    CHECK_STR(chosen(COLL_BCAST, 8, 1 << 20, &why), "chain");
    CHECK_STR(coll_choose_gpu(COLL_ALLREDUCE, 2, 65536, false, &why)->name, "gpu_two_shot");
    CHECK_STR(coll_choose_gpu(COLL_ALLREDUCE, 2, 65535, false, &why)->name, "gpu_one_shot");
    CHECK(!coll_choose_gpu(COLL_BCAST, 2, 65535, false, &why));
    for (int i = 0; (r = coll_tune_at(i)); i++, more++) {
        CHECK((int)r->kind >= kind); /* together */
        kind = (int)r->kind;
    }
    CHECK_EQ(more, rows + 5);
    CHECK_EQ(coll_tune_load(NULL), 0);
    CHECK_STR(chosen(COLL_BCAST, 8, 1, &why), "binomial");
    CHECK(!coll_choose_gpu(COLL_ALLREDUCE, 2, 65536, false, &why));
}

static void the_user_overrules_the_file(void)
{
    const char *why = NULL;

    write_table("TUNE( ALLREDUCE, ANY, 0, 0, \"ring\", \"x\" )\n"
                "TUNE( ALLREDUCE, CUDA, 0, 0, \"gpu_engine\", \"x\" )\n");
    CHECK_EQ(coll_tune_load(path), 0);
    CHECK_EQ(coll_configure("allreduce:gpu_one_shot:0-64,allreduce:tree:0-64"), 0);
    CHECK_STR(chosen(COLL_ALLREDUCE, 4, 64, &why), "tree");
    CHECK_STR(chosen(COLL_ALLREDUCE, 4, 65, &why), "ring");
    CHECK_STR(coll_choose_gpu(COLL_ALLREDUCE, 4, 64, false, &why)->name, "gpu_one_shot");
    CHECK_STR(why, "forced by WEFT_COLL");
    CHECK_STR(coll_choose_gpu(COLL_ALLREDUCE, 4, 65, false, &why)->name, "gpu_engine");
    CHECK_EQ(coll_configure(""), 0);
    CHECK_EQ(coll_tune_load(""), 0);
}

static void the_plan_asks_the_table(void)
{
    /* its own rule */
    CHECK_EQ(coll_gpu_allreduce_way(2, 1 << 20, false, true, false), COLL_GPU_TWO_SHOT);
    write_table("TUNE( ALLREDUCE, CUDA, 2, 64M, \"gpu_engine\", \"x\" )\n"
                "TUNE( ALLREDUCE, CUDA, 2, 1M, \"gpu_engine\", \"x\" )\n");
    CHECK_EQ(coll_tune_load(path), 0);
    CHECK_EQ(coll_gpu_allreduce_way(2, 64 << 20, false, true, false), COLL_GPU_ENGINE);
    CHECK_EQ(coll_gpu_allreduce_way(2, 1 << 20, false, true, false), COLL_GPU_ENGINE);
    CHECK_EQ(coll_gpu_allreduce_way(2, 1 << 19, false, true, false), COLL_GPU_TWO_SHOT);
    CHECK_EQ(coll_configure("allreduce:gpu_two_shot:0-1M"), 0);
    CHECK_EQ(coll_gpu_allreduce_way(2, 8, false, true, false), COLL_GPU_TWO_SHOT);
    CHECK_EQ(coll_configure(""), 0);
    CHECK_EQ(coll_tune_load(""), 0);
}

/* Rows that were measured at a switch do not count for devices with links of their own. */
static void rows_are_for_kinds_of_links(void)
{
    const char *why = NULL;

    write_table("TUNE( ALLREDUCE, CUDA_DIRECT, 4, 1M, \"gpu_engine\", \"a board\" )\n"
                "TUNE( ALLREDUCE, CUDA_SWITCH, 4, 1M, \"gpu_put\", \"a switch\" )\n"
                "TUNE( ALLREDUCE, CUDA, 4, 1K, \"gpu_two_shot\", \"any\" )\n");
    CHECK_EQ(coll_tune_load(path), 0);
    CHECK_STR(coll_choose_gpu(COLL_ALLREDUCE, 4, 1 << 20, true, &why)->name, "gpu_engine");
    CHECK_STR(why, "a board");
    CHECK_STR(coll_choose_gpu(COLL_ALLREDUCE, 4, 1 << 20, false, &why)->name, "gpu_put");
    for (int direct = 0; direct < 2; direct++) {
        CHECK_STR(coll_choose_gpu(COLL_ALLREDUCE, 4, 1 << 19, direct, &why)->name, "gpu_two_shot");
        CHECK_EQ(coll_gpu_allreduce_way(4, 1 << 20, false, true, direct),
                 direct ? COLL_GPU_ENGINE : COLL_GPU_PUT);
    }
    CHECK_EQ(coll_tune_load(""), 0);
}

static void bad_lines_are_named(void)
{
    static const struct {
        const char *line, *said;
    } bad[] = {
        { "TUNE( ALLREDUCE, ANY, 0, 0, \"ring\" )", "expected TUNE( COLLECTIVE" },
        { "TUNE( ALLREDUCE, ANY, 0, 0, \"ring\", \"x\"", "expected TUNE( COLLECTIVE" },
        { "TUNE( ALLREDUCE, ANY, 0, 0, \"ring, 1, 2 )", "expected TUNE( COLLECTIVE" },
        { "TUNE( ALLREDUCE, ANY, x, 0, \"ring\", \"x\" )", "expected TUNE( COLLECTIVE" },
        { "TUNE( ALLREDUCE, GPU, 0, 0, \"ring\", \"x\" )", "expected TUNE( COLLECTIVE" },
        { "TUNE( ALLREDUCE, ANY, 0, 1Q, \"ring\", \"x\" )", "has the size \"1Q\"" },
        { "TUNE( ALLREDUCE, ANY, 0, -1, \"ring\", \"x\" )", "has the size \"-1\"" },
        { "TUNE( ALREDUCE, ANY, 0, 0, \"ring\", \"x\" )", "nearest is \"allreduce\"" },
        { "TUNE( ALLREDUCE, ANY, 0, 0, \"rink\", \"x\" )", "nearest is \"ring\"" },
        { "TUNE( SUM, ANY, 0, 0, \"ring\", \"x\" )", "known are barrier, bcast, " },
        { "TUNE( ALLREDUCE, ANY, 0, 0, \"fastest\", \"x\" )", ", ring, " },
        { "TUNE( ALLREDUCE, HOST, 0, 0, \"gpu_engine\", \"x\" )", "is for CUDA memory" },
        { "TUNE( ALLREDUCE, CUDA, 0, 0, \"ring\", \"x\" )", "is for HOST memory" },
        { "TUNE( ALLREDUCE, CUDA_DIRECT, 0, 0, \"ring\", \"x\" )", "is for HOST memory" },
        { "nonsense", "expected TUNE( COLLECTIVE" },
    };
    const char *log;
    char text[300];
    const char *why = NULL;

    CHECK_EQ(rt_log_configure("coll:error"), 0);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "TUNE( BCAST, ANY, 0, 0, \"chain\", \"x\" )\n%s\n",
                 bad[i].line);
        write_table(text);
        capture_begin();
        int err = coll_tune_load(path);
        log = capture_end();
        CHECK_EQ(err, -RT_EINVAL);
        CHECK_MSG(strstr(log, bad[i].said) && strstr(log, ":2"), "line \"%s\" gave \"%s\"",
                  bad[i].line, log);
        CHECK_STR(chosen(COLL_BCAST, 8, 1, &why), "binomial");
    }
    capture_begin();
    CHECK_EQ(coll_tune_load("/nonexistent/table"), -RT_EINVAL);
    log = capture_end();
    CHECK(strstr(log, "/nonexistent/table"));
}

int main(void)
{
    snprintf(path, sizeof path, "tune_test.%d", (int)getpid());
    RUN(rows_of_the_file_come_first);
    RUN(the_user_overrules_the_file);
    RUN(the_plan_asks_the_table);
    RUN(rows_are_for_kinds_of_links);
    RUN(bad_lines_are_named);
    unlink(path);
    return check_end();
}

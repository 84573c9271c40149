/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives over more buffers, used in turn, than any table had places: each is mapped once. */
#include <dlfcn.h>
#include <stdio.h>
#include "test/gpu/collsum.h"

enum { BUFFERS = 40, ROUNDS = 3, N = 500 };

static const struct {
    enum gt_kind kind;
    const char *opens;
} kinds[] = { { GT_CUDA, "cuIpcOpenMemHandle" }, { GT_VMM, "cuMemImportFromShareableHandle" } };

static fake_cuda_fail_fn *fail_fn;
static fake_cuda_seen_fn *seen;

static void in_turn(int k)
{
    unsigned char *p[BUFFERS];
    char rule[64];

    snprintf(rule, sizeof rule, "%s:0", kinds[k].opens);
    if (fail_fn)
        fail_fn(rule); /* counts the calls */
    for (int i = 0; i < BUFFERS; i++)
        p[i] = gt_alloc(kinds[k].kind, dev, N * sizeof(int), 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < BUFFERS; i++)
            sum(p[i], p[i], N, i + round);
    if (seen)
        CHECK_MSG(seen(kinds[k].opens) <= BUFFERS * (mt_size - 1),
                  "rank %d: %ld handles were opened for %d buffers of %d ranks", mt_rank,
                  seen(kinds[k].opens), BUFFERS, mt_size - 1);
    for (int i = 0; i < BUFFERS; i++)
        gt_free(p[i]);
}

static void ipc(void) { in_turn(0); }

static void descriptors(void) { in_turn(1); }

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    fail_fn = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    MT_RUN(ipc);
    MT_RUN(descriptors);
    return mt_end();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Random one-sided communication in host memory: rma_random.h.  Arguments: seed, number of
 * windows. */
#include <stdlib.h>
#include <string.h>

#define RR_KINDS 1
static char *rr_take(int kind, size_t n)
{
    (void)kind;
    return malloc(n);
}
static void rr_give(char *p) { free(p); }
static void rr_write(void *p, const void *host, size_t n) { memcpy(p, host, n); }
static void rr_read(void *host, const void *p, size_t n) { memcpy(host, p, n); }

#include "test/mpi/rma_random.h"

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    rr_arguments(argc, argv);
    MT_RUN(random_windows);
    return mt_end();
}

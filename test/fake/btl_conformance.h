/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport contract as a test: see btl_conformance.c. */
#ifndef TEST_FAKE_BTL_CONFORMANCE_H
#define TEST_FAKE_BTL_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

struct btl_variant {
    const char *name, *btl;
    int nprocs;            /* 1: messages to the own process, 2: a pair */
    uint32_t flags;        /* expected in the caps */
    bool (*prepare)(void); /* called in each process before the transport is opened; may be NULL */
    const char *says;      /* expected in the log of open(); NULL: nothing */
};

/* Runs all cases, each in its own processes.  Returns 0, or the exit status of the first case that
 * failed: 10 and up is the number of the case, 124 a timeout, 128 and up a signal. */
int btl_conformance(const struct btl_variant *v);

#endif

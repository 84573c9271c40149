/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport between "processes" that all live in the test's process.  It keeps the contract of
 * btl.h and nothing more: it delays what may be delayed, lets pairs of ranks overtake each other,
 * refuses with -RT_EAGAIN, fails the n-th call, and loses peers, all from a seed.  A program that
 * links it has a table of transports (btl_all) with "fake" as the only row, so wm_domain_create()
 * opens it. */
#ifndef TEST_FAKE_BTL_FAKE_H
#define TEST_FAKE_BTL_FAKE_H

#include "btl/btl.h"

#define FAKE_RANKS_MAX 16

struct fake_net {
    /* Set by the test before the first open(); all zero: a transport that injects no errors. */
    int nranks;
    uint32_t seed;
    uint32_t delay_max;      /* most progress calls that an item may wait for */
    uint32_t eagain_percent; /* of send, put and get calls */
    uint32_t depth;          /* messages in flight in one direction before -RT_EAGAIN; 0 = 64 */
    uint32_t fail_call;      /* this call (1 = the first) of those that can fail does fail ... */
    int fail_err;            /* ... with this error */
    size_t eager_max;        /* 0 = 1024 */
    bool no_put, no_get;
    int me; /* rank of the instance that the next open() creates */

    /* For the test to read. */
    uint32_t calls;                    /* calls so far that can fail */
    int live_mem, live_rmem, live_ops; /* registered, attached, in progress: 0 at the end */
    int violations;                    /* violations of the contract, each with a line on stdout */

    void *state; /* private to the fake */
};
extern struct fake_net fake_net;

/* The rank dies: its peers get -RT_EPEER from new calls, an error for operations in progress and
 * one down().  Messages that it sent and that have not arrived are lost. */
void fake_net_kill(int rank);
/* Frees everything, so that the next test starts fresh; instances must be closed before. */
void fake_net_reset(void);

extern const struct btl_ops btl_fake_ops;

#endif

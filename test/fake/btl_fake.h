/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport between "processes" that all live in the test's process.  It keeps the contract of
 * btl.h and nothing more: it delays what may be delayed, lets pairs of ranks overtake each other,
 * refuses with -RT_EAGAIN, fails the n-th call, and loses peers, all from a seed.  Linking it gives
 * the program its own table of transports (btl_all) with "fake" as the only row, so
 * wm_domain_create() opens it. */
#ifndef TEST_FAKE_BTL_FAKE_H
#define TEST_FAKE_BTL_FAKE_H

#include "btl/btl.h"

#define FAKE_RANKS_MAX 16

struct fake_net {
    /* Set by the test before the first open(); zero means a transport without misbehaviour. */
    int nranks;
    uint32_t seed;
    uint32_t delay_max;      /* progress calls that anything may wait for, 0..delay_max */
    uint32_t eagain_percent; /* of send, put and get calls */
    uint32_t depth;          /* messages under way in one direction before -RT_EAGAIN; 0 = 64 */
    uint32_t fail_call;      /* this call (1 = the first) of those that can fail fails ... */
    int fail_err;            /* ... with this error */
    size_t eager_max;        /* 0 = 1024 */
    bool no_put, no_get;
    int me; /* rank that the next open() makes an instance of */

    /* To be read by the test. */
    uint32_t calls;                    /* calls so far that can fail */
    int live_mem, live_rmem, live_ops; /* registered, attached, under way: 0 at the end */
    int violations; /* uses of the contract that are wrong, each with a line on stdout */

    void *state; /* the fake's own */
};
extern struct fake_net fake_net;

/* The rank is no more: its peers see -RT_EPEER on new calls, an error on operations under way and
 * one down(); messages it sent that have not arrived are lost. */
void fake_net_kill(int rank);
/* Drops everything, so that the next test starts anew; instances must be closed before. */
void fake_net_reset(void);

extern const struct btl_ops btl_fake_ops;

#endif

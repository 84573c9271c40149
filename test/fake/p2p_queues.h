/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport made of queues between engines in one process: late deliveries, refusals
 * (-RT_EAGAIN), refused gets and lost peers, from a seed. */
#ifndef TEST_FAKE_P2P_QUEUES_H
#define TEST_FAKE_P2P_QUEUES_H

#include "btl/btl.h"

enum { N = 3, EAGER = 300 }; /* ranks; longest message */

struct knobs {
    int eagain_pct, late_pct;
    bool get, put, expect, get_refused, choose;
    size_t early;   /* caps.early_max; 0: EAGER with expect */
    int down_after; /* passes of rank 0's progress until it loses rank 1; 0: never */
};
extern struct knobs knobs;
extern unsigned long seed;

unsigned rnd(unsigned n); /* 0..n-1, from the seed */

struct endpoint;
struct fpeer {
    struct btl_peer base;
    struct endpoint *far;
};
struct item; /* a message in flight */
struct fmem;
struct pending_op {
    struct pending_op *next;
    struct btl_op *op;
    char *dst;
    const char *src;
    char *copy; /* of an awaited put in flight to mem */
    struct fmem *mem;
    size_t len;
    int err;
};
struct endpoint {
    struct btl base;
    struct btl_up up;
    int rank;
    struct item *first[N], **last[N]; /* queue from each sender */
    struct fpeer peers[N];
    bool cut[N];
    struct pending_op *ops;
};
extern struct endpoint *eps[N];
extern size_t awaited_bytes; /* bytes of awaited puts */
extern int opening;          /* rank of the instance that the next open() creates */
extern const struct btl_ops *const queues_table[];

#endif

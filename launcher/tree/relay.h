/* SPDX-License-Identifier: BSD-3-Clause */
/* Cooperation of the PMIx servers of a job's hosts: fences, whose data are gathered up the tree and
 * distributed down, and fetches of what a rank of another host has published.  Every agent has a
 * relay, and so has the head, which is the root.  Main thread only. */
#ifndef LAUNCHER_TREE_RELAY_H
#define LAUNCHER_TREE_RELAY_H

#include "launcher/job.h"
#include "launcher/tree/tree.h"

struct relay_fence; /* of which parts have arrived from below */
struct relay_call;  /* of the local server, waiting for an answer */
struct relay_query; /* of another host, about a rank of this host */
struct launch_rank;

struct relay {
    struct launch_job *job;
    struct tree *tree;
    int first, end; /* the nodes of this process and the processes below it */
    int self;       /* node of this process; -1: the head */
    /* Sends towards the head; NULL in the head. */
    void (*up)(void *arg, const struct frame_out *frame);
    void *arg;
    struct relay_fence *fences;
    struct relay_call *calls;
    struct relay_query *queries;
    uint32_t number; /* of the last call or query */
};

/* Handles LAUNCH_FENCE, LAUNCH_FETCH and LAUNCH_PUBLISHED of the local server; takes over
 * e->call. */
void relay_event(struct relay *r, const struct launch_event *e);
/* Handles FRAME_FENCE..., _FETCH and _FETCHED from either direction. */
void relay_frame(struct relay *r, struct frame *f);
/* A local rank has ended: answers requests for what it has not published. */
void relay_rank_ended(struct relay *r, int rank);
/* Repeats requests for missing keys, and gives up requests after their time limit. */
void relay_step(struct relay *r);
int relay_timeout_ms(const struct relay *r); /* -1: no limit */
/* In the head: a rank that has ended while others wait for it in a fence; NULL: none. */
struct launch_rank *relay_missing(const struct relay *r);
void relay_fini(struct relay *r);

#endif

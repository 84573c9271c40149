/* SPDX-License-Identifier: BSD-3-Clause */
/* What the PMIx servers of a job's hosts do together: fences, whose data is gathered up the tree
 * and handed down, and fetches of what a rank of another host published.  One in every agent and
 * in the head, which is the root.  Main thread only. */
#ifndef LAUNCHER_TREE_RELAY_H
#define LAUNCHER_TREE_RELAY_H

#include "launcher/job.h"
#include "launcher/tree/tree.h"

struct relay_fence; /* of which parts have come from below */
struct relay_call;  /* of a local server, to be answered */
struct relay_query; /* of another host, about a rank of this one */
struct launch_rank;

struct relay {
    struct launch_job *job;
    struct tree *tree;
    int first, end; /* the hosts of this process and below it */
    int self;       /* its own host, -1: the head */
    /* Sends towards the head; NULL in the head. */
    void (*up)(void *arg, const struct frame_out *frame);
    void *arg;
    struct relay_fence *fences;
    struct relay_call *calls;
    struct relay_query *queries;
    uint32_t number; /* of the last call or query */
};

/* LAUNCH_FENCE, LAUNCH_FETCH and LAUNCH_PUBLISHED of the local server; takes e->call. */
void relay_event(struct relay *r, const struct launch_event *e);
/* FRAME_FENCE..., _FETCH and _FETCHED, from either side. */
void relay_frame(struct relay *r, struct frame *f);
/* A local rank has gone: who asked for what it did not publish gets an answer. */
void relay_rank_ended(struct relay *r, int rank);
/* Asks again for what was not there, and gives up what took too long. */
void relay_step(struct relay *r);
int relay_timeout_ms(const struct relay *r); /* -1: nothing to do */
/* In the head: a rank that has ended while others wait for it in a fence, NULL: none. */
struct launch_rank *relay_missing(const struct relay *r);
void relay_fini(struct relay *r);

#endif

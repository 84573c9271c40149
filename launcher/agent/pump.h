/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of an agent's ranks to the head, raw and in order, and the head's stdin to them.  The head
 * grants how much output may be on its way, so that a slow reader of mpirun's stdout fills the
 * ranks' pipes and not the memory of the tree.  Main thread only. */
#ifndef LAUNCHER_AGENT_PUMP_H
#define LAUNCHER_AGENT_PUMP_H

#include "launcher/job.h"
#include "launcher/tree/frame.h"

struct pollfd;

struct pump {
    struct launch_job *job;
    int64_t credit; /* bytes of output that may still be sent */
    uint8_t *in;    /* a piece of stdin that not all ranks have */
    size_t in_len;
    bool in_busy;
    struct {
        int rank;
        bool is_err;
    } * polled; /* what each pollfd is about */
    int npolled;
    void (*up)(void *arg, const struct frame_out *frame);
    void *arg;
};

int pump_init(struct pump *p, struct launch_job *job);
int pump_fds(struct pump *p, struct pollfd *fds); /* at most 3 a rank */
void pump_step(struct pump *p, const struct pollfd *fds, int n);
/* Takes and sends what a rank has written so far, credit or not. */
void pump_drain(struct pump *p, struct launch_rank *r);
/* A piece of stdin for the ranks that read it; empty: the end. */
void pump_input(struct pump *p, const void *data, size_t len);
/* All output has ended. */
bool pump_idle(const struct pump *p);
/* Ends what has not ended: children that left the ranks' groups may hold our pipes open. */
void pump_close(struct pump *p);
void pump_fini(struct pump *p);

#endif

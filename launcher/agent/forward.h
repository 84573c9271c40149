/* SPDX-License-Identifier: BSD-3-Clause */
/* The streams of an agent's ranks: output to the head, unchanged and in order, and the head's
 * standard input to the ranks.  The head grants credit for output, so that a slow reader of
 * mpirun's output fills the pipes of the ranks instead of the memory of the tree.  Main thread
 * only. */
#ifndef LAUNCHER_AGENT_FORWARD_H
#define LAUNCHER_AGENT_FORWARD_H

#include "launcher/job.h"
#include "runtime/boot/frame.h"

struct pollfd;

struct pump {
    struct launch_job *job;
    int64_t credit; /* bytes of output that may be sent now */
    uint8_t *in;    /* piece of standard input that not all ranks have received */
    size_t in_len;
    bool in_busy;
    struct {
        int rank;
        bool is_err;
    } * polled; /* stream of each pollfd */
    int npolled;
    void (*up)(void *arg, const struct frame_out *frame);
    void *arg;
};

int pump_init(struct pump *p, struct launch_job *job); /* 0 or -RT_ENOMEM */
/* Fills at most 3 entries for each rank; returns their number. */
int pump_fds(struct pump *p, struct pollfd *fds);
void pump_step(struct pump *p, const struct pollfd *fds, int n);
/* Reads and sends what a rank has written until now, regardless of credit; at most 256 KiB of each
 * stream, because a child of the rank may write forever. */
void pump_drain(struct pump *p, struct launch_rank *r);
/* Gives a piece of standard input to the ranks that read it; empty: end of input. */
void pump_input(struct pump *p, const void *data, size_t len);
/* Whether all output has ended. */
bool pump_idle(const struct pump *p);
/* Closes streams that are still open: children that have left the process groups of the ranks may
 * keep them open. */
void pump_close(struct pump *p);

#endif

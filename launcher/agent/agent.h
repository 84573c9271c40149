/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of an agent (agent.c), and what its two files, the loop and what it does for the head
 * (agent_orders.c), need of each other. */
#ifndef LAUNCHER_AGENT_AGENT_H
#define LAUNCHER_AGENT_AGENT_H

#include "launcher/agent/pump.h"
#include "launcher/tree/describe.h"
#include "launcher/tree/relay.h"
#include "launcher/tree/tree.h"

struct pollfd;

/* In units of host_timeout_s: how long an agent waits for a silent head, which its user or a
 * debugger may have stopped (when it ends, the kernel closes the channel), and the longest time for
 * which an agent that obeys an order sends signs of life. */
#define AGENT_PATIENCE 4

/* How far this host is: agents go through it once. */
enum agent_phase {
    AGENT_WAIT_TREE,
    AGENT_WAIT_JOB,
    AGENT_WAIT_GO,
    AGENT_RUNNING,
    AGENT_FINISHING,
    AGENT_FINISHED,
    AGENT_LEAVING
};

struct agent {
    enum agent_phase phase;
    struct frame_chan up; /* to our parent */
    uint64_t heard_ns, spoke_ns, stepped_ns;
    bool head_stopped; /* by its user: it says nothing, and that is in order */
    struct tree_conf conf;
    struct tree tree;
    struct relay relay;
    struct pump pump;
    struct launch_job job;
    struct launch_opts opts;
    struct launch_list env; /* what the head's environment gives the ranks */
    uint8_t *description;   /* the frame that `opts` points into */
    char **names;
    int first, end;
    char segment[4096];
    struct launch_list said; /* by launch_say() while preparing */
    int signal_fd;
    uint64_t linger_until_ns;
    struct pollfd *fds;
    size_t nfds;
    int exit_code;
};
extern struct agent agent;

/* Frames to the head; agent_end() sends and frees. */
void agent_begin(struct frame_out *o, enum frame_type type);
void agent_end(struct frame_out *o);
void agent_send(void *arg, const struct frame_out *o);
/* Frames of agents below, which go up. */
void agent_pass_on(void *arg, struct frame *f);
void agent_lost(void *arg, const struct tree_child *c, const char *why);
void agent_said(void *arg, const char *text, size_t len);
/* Texts of launch_say() while the job was being prepared. */
void agent_put_said(struct frame_out *o);
/* alive.c: signs of life while the main thread is busy with an order, and writes nothing itself.
 * From the configuration of the tree to the start of the ranks. */
void agent_alive_start(void);
void agent_alive_busy(bool busy);
void agent_alive_stop(void);
/* Does what a frame from above orders, and passes it on to those below. */
void agent_obey(struct frame *f);

#endif

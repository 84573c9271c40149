/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of an agent, and what the files of this folder use of each other: the loop (agent.c),
 * the head's orders (orders.c), requests of ranks (asks.c), what the ranks do (look.c), heartbeats
 * (alive.c). */
#ifndef LAUNCHER_AGENT_AGENT_H
#define LAUNCHER_AGENT_AGENT_H

#include "launcher/agent/forward.h"
#include "launcher/tree/describe.h"
#include "launcher/tree/relay.h"
#include "launcher/tree/tree.h"

struct pollfd;

/* In units of host_timeout_s: how long an agent waits for a silent head, which its user or a
 * debugger may have stopped (if the head ends, the kernel closes the channel); and how long an
 * agent that executes an order sends heartbeats. */
#define AGENT_PATIENCE 4

/* Phases of an agent, each entered once. */
enum agent_phase {
    AGENT_WAIT_TREE,
    AGENT_WAIT_JOB,
    AGENT_WAIT_GO,
    AGENT_RUNNING,
    AGENT_FINISHING,
    AGENT_FINISHED,
    AGENT_LEAVING
};

/* A request of a rank that the head answers. */
struct agent_ask {
    struct agent_ask *next;
    uint32_t number;
    struct launch_call *call;
};

struct agent {
    enum agent_phase phase;
    struct frame_chan up; /* to the parent */
    /* Times of the last frame from the parent, of the last frame to it, and of the last turn of the
     * loop. */
    uint64_t heard_ns, spoke_ns, stepped_ns;
    bool head_stopped; /* stopped by its user: the head is silent, which is not a failure */
    struct tree_conf conf;
    struct tree tree;
    struct relay relay;
    struct pump pump;
    struct launch_job job;
    struct launch_opts opts;
    struct launch_list env;      /* environment that the head gives to the ranks */
    uint8_t *description;        /* frame that holds the strings of `opts` */
    char **names;                /* of the hosts first..end-1 */
    int first, end;              /* first..end-1: nodes of this host and of those below it */
    char segment[4096];          /* path of the node segment; "": none */
    struct launch_list messages; /* texts of agent_say() while the job is prepared */
    int signal_fd;
    uint64_t linger_until_ns; /* AGENT_FINISHING: until then output is awaited */
    struct agent_ask *asks;   /* requests of ranks that the head has not answered */
    uint32_t nasked;
    struct pollfd *fds;
    size_t nfds;
    int exit_code;
};
extern struct agent agent;

/* Begins a frame to the head; agent_end() sends and frees it. */
void agent_begin(struct frame_out *o, enum frame_type type);
void agent_end(struct frame_out *o);
void agent_send(void *arg, const struct frame_out *o);
/* Passes frames of agents below to the parent. */
void agent_pass_on(void *arg, struct frame *f);
void agent_lost(void *arg, const struct tree_child *c, const char *why);
void agent_child_output(void *arg, const char *text, size_t len);
/* A message of this host for the user: launch_job.say. */
void agent_say(const char *text);
/* Appends the texts of agent_say() to a frame. */
void agent_put_messages(struct frame_out *o);
/* alive.c: heartbeats while the main thread is busy with an order and writes nothing itself, from
 * the configuration of the tree until the ranks are started. */
void agent_alive_start(void);
void agent_alive_busy(bool busy);
void agent_alive_stop(void);
/* Executes an order from above and passes it on to the agents below. */
void agent_obey(struct frame *f);

/* asks.c: passes a request of a rank (ask.h) to the head; the answer, and the notice that a spawned
 * job has ended. */
void agent_ask(const struct launch_event *e);
void agent_answer(struct frame *f);
void agent_notice(struct frame *f);

/* look.c: answers a FRAME_LOOK.  The step of a turn of the loop; when the next one is due, -1: none
 * is. */
void agent_look(struct frame *f);
void agent_look_step(void);
int agent_look_timeout_ms(void);

#endif

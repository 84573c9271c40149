/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a head (head.h), shared by its files: head.c starts, runs and ends the job;
 * head_frames.c handles the frames of the agents; head_look.c asks what their ranks do. */
#ifndef LAUNCHER_MPIRUN_HEAD_STATE_H
#define LAUNCHER_MPIRUN_HEAD_STATE_H

#include "launcher/mpirun/head.h"
#include "launcher/tree/relay.h"
#include "launcher/tree/tree.h"

struct head_host {
    bool answered, failed, ready, done;
    int code;             /* exit code of its preparation */
    char *map, *bindings; /* texts to print in the order of the hosts */
    uint32_t owed;        /* bytes of output received and not yet granted again */
    char own_name[256];   /* gethostname(2) there */
    int port;             /* that was free there; 0: none */
};

/* A message of one or more hosts, with the name of the first host in it. */
struct head_note {
    char *text;
    bool *of; /* for each host: whether it has sent this message */
    int first;
};

struct head_look;

struct head {
    struct launch_job *job;
    struct tree_conf conf;
    struct tree tree;
    struct relay relay;
    struct head_host *hosts;
    struct head_note *notes;
    int nnotes;
    char **names;
    int nanswered, nfailed, nready, ndone;
    uint64_t failed_ns; /* time of the first failure */
    uint32_t window;    /* bytes of output that one host may send before it gets more credit */
    int input_pending;  /* hosts that have not taken the last piece of standard input */
    bool running, finishing;
    struct head_look *look; /* NULL: no look yet */
    int signal_fd;
    struct pollfd *fds; /* used until the main loop starts, and after it ends */
};

/* The callbacks of the tree. */
void head_take_frame(void *arg, struct frame *f);
void head_child_lost(void *arg, const struct tree_child *c, const char *why);
void head_child_output(void *arg, const char *text, size_t len);
/* Prints the messages of hosts; the same text of several hosts is printed once. */
void head_print_notes(struct head *h);
/* The ranks of these hosts count as dead: their agents end them as soon as they can.  Returns how
 * many were running. */
int head_drop_ranks(struct head *h, int first, int end);
void head_host_done(struct head *h, int node);
/* The host cannot be used, for this reason; only the first reason is reported. */
void head_fail_host(struct head *h, int node, const char *why);

/* head_look.c: FRAME_MOVED and FRAME_PICTURE. */
void head_look_frame(struct head *h, struct frame *f);
void head_look_fini(struct head *h);

#endif

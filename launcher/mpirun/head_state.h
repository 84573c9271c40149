/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a head (head.h), between its two files: head.c starts, runs and ends; head_frames.c
 * takes what the agents say. */
#ifndef LAUNCHER_MPIRUN_HEAD_STATE_H
#define LAUNCHER_MPIRUN_HEAD_STATE_H

#include "launcher/mpirun/head.h"
#include "launcher/tree/relay.h"
#include "launcher/tree/tree.h"

struct head_host {
    bool answered, failed, ready, done;
    int code;             /* of its preparation */
    char *map, *bindings; /* text to show, in the order of the hosts */
    uint32_t owed;        /* bytes of output taken and not yet granted again */
};

/* A message of one or more hosts, with the name of the first where it has one. */
struct head_note {
    char *text;
    bool *of;
    int first;
};

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
    uint64_t failed_ns; /* the first failure */
    uint32_t window;
    int input_pending; /* hosts that have not taken the last piece of stdin */
    bool running, finishing;
    int signal_fd;
    struct pollfd *fds; /* until the main loop begins, and after it */
};

/* The callbacks of the tree. */
void head_take_frame(void *arg, struct frame *f);
void head_child_lost(void *arg, const struct tree_child *c, const char *why);
void head_child_said(void *arg, const char *text, size_t len);
/* Prints the notes of hosts; the same text of several hosts once. */
void head_tell_notes(struct head *h);
/* Takes the ranks of these hosts for dead: their agents end them when they can.  How many ran. */
int head_drop_ranks(struct head *h, int first, int end);
void head_host_done(struct head *h, int node);
/* It cannot be used, for the reason that is reported; the first reason counts. */
void head_fail_host(struct head *h, int node, const char *why);

#endif

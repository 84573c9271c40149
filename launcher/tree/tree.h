/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of agents as one process of it sees it: its children, which it starts by a remote
 * shell, and their frames.  A subtree is a range of nodes, first..end-1; its root is the first,
 * which cuts the rest among children of its own.  The head (mpirun) is above all nodes.  Main
 * thread only. */
#ifndef LAUNCHER_TREE_TREE_H
#define LAUNCHER_TREE_TREE_H

#include "launcher/job.h"
#include "launcher/tree/frame.h"

struct pollfd;

enum tree_via { TREE_SSH, TREE_SRUN, TREE_COMMAND };

/* How agents are started; the same in all of them.  The strings are owned. */
struct tree_conf {
    enum tree_via via;
    int radix;     /* most children of one process */
    int timeout_s; /* for starting, and for a silent neighbour */
    char *command; /* TREE_COMMAND: used as ssh would be */
    char *agent;   /* absolute path of weftd, on every host */
    char *libpath; /* LD_LIBRARY_PATH for it, or NULL */
};

enum tree_state {
    TREE_STARTING, /* the remote shell runs, its agent has not greeted */
    TREE_UP,
    TREE_FAILING, /* after the last frame: waiting for messages of the shell */
    TREE_GONE
};

struct tree_child {
    enum tree_state state;
    int first, end;
    bool self; /* on this very host, without a remote shell */
    const char *host;
    struct frame_chan chan;
    pid_t pid;  /* of the remote shell */
    int status; /* of waitpid, when `exited` */
    bool exited;
    int err_fd;      /* its stderr */
    char said[2048]; /* what came there, or before the greeting */
    size_t nsaid;
    const char *why; /* of the failure, where we know better than what was said */
    char text[160];  /* `why`, where it has a number in it */
    bool was_up;
    uint64_t since_ns; /* start, or beginning of the failure */
    uint64_t heard_ns, spoke_ns;
    int polled_in, polled_err; /* their places in the last tree_fds(), -1: not there */
};

struct tree {
    const struct tree_conf *conf;
    struct tree_child *children;
    int n;
    int base;            /* node of names[0] */
    char **names;        /* of the hosts below; owned by the caller */
    bool stopping;       /* children may leave: it is no loss */
    uint64_t stepped_ns; /* time of the last step: a gap is no silence of children */
    void *arg;
    /* A frame of a node below. */
    void (*up)(void *arg, struct frame *f);
    /* The nodes first..end-1 cannot be started, or are lost; `why` is text for the user. */
    void (*lost)(void *arg, const struct tree_child *c, const char *why);
    /* Something for the user's stderr that came on that of a remote shell. */
    void (*said)(void *arg, const char *text, size_t len);
};

/* Starts the agents of first..end-1; `self` is the node of this host or -1.  0 or -RT_E... logged;
 * hosts that fail are reported by lost(), later. */
int tree_start(struct tree *t, int first, int end, int self);
/* Queues a frame to the subtree of `node`, or to all; -RT_ENOENT: no child leads there. */
int tree_send(struct tree *t, uint32_t node, const void *frame, size_t len);
/* The child below which `node` is, or NULL. */
struct tree_child *tree_find(struct tree *t, uint32_t node);
/* For poll(): at most 3 descriptors a child; the time until something is to be done, -1: none. */
int tree_fds(struct tree *t, struct pollfd *fds);
int tree_timeout_ms(const struct tree *t);
/* Reads, writes, calls up(), lost() and said(), sends children signs of life and notices silent
 * ones.  `fds` as tree_fds() filled it and poll() answered, or NULL: look everywhere. */
void tree_step(struct tree *t, const struct pollfd *fds);
/* True when `pid` was a remote shell. */
bool tree_exited(struct tree *t, pid_t pid, int status);
/* Some child is not yet gone. */
bool tree_alive(const struct tree *t);
/* From now on children that leave are no loss; remote shells that have brought no agent yet are
 * ended. */
void tree_stop(struct tree *t);
/* Kills the shells that have not ended, and frees. */
void tree_fini(struct tree *t);

/* The configuration and the names of first..end-1 for the agent of `first`. */
void tree_put(struct frame_out *o, const struct tree *t, int first, int end);
/* The other way: fills *conf, *first, *end and *names (all owned by the caller); -RT_EINVAL. */
int tree_get(struct frame_in *i, struct tree_conf *conf, int *first, int *end, char ***names);
void tree_conf_fini(struct tree_conf *conf);

/* rsh.c: starts the agent of a host; the child's streams are pipes, whose ends come back in
 * fds[0..2].  -RT_ESYS with *why, a string for the user. */
pid_t tree_rsh(const struct tree_conf *conf, const char *host, bool self, int fds[3], char *why,
               size_t len);
/* Text for the user why a child that never greeted did not: what was said, and what to do. */
void tree_explain(const struct tree_conf *conf, const struct tree_child *c, char *text, size_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of agents as seen by one process: its children, which it starts by a remote shell, and
 * their frames.  A subtree is a range of nodes, first..end-1.  Its root is the first node, which
 * divides the others among its own children.  The head (mpirun) is above all nodes.  Main thread
 * only. */
#ifndef LAUNCHER_TREE_TREE_H
#define LAUNCHER_TREE_TREE_H

#include "launcher/job.h"
#include "runtime/boot/frame.h"

struct pollfd;

enum tree_via { TREE_SSH, TREE_SRUN, TREE_COMMAND };

/* How agents are started; equal in all processes.  The strings are owned. */
struct tree_conf {
    enum tree_via via;
    int radix;     /* most children of one process */
    int timeout_s; /* for a start, and for a silent neighbour */
    char *command; /* TREE_COMMAND: takes the arguments of ssh */
    char *agent;   /* absolute path of weftd on every host */
    char *libpath; /* LD_LIBRARY_PATH for the agent, or NULL */
};

enum tree_state {
    TREE_STARTING, /* the remote shell runs; the agent has not sent its greeting */
    TREE_UP,
    TREE_FAILING, /* after the last frame: waiting for messages of the shell */
    TREE_GONE
};

struct tree_child {
    enum tree_state state;
    int first, end;
    bool self; /* on this host, without a remote shell */
    const char *host;
    struct frame_chan chan;
    pid_t pid;  /* of the remote shell */
    int status; /* from waitpid(), if `exited` */
    bool exited;
    int err_fd;        /* read end of its stderr */
    char output[2048]; /* its stderr, and output before the greeting */
    size_t noutput;
    const char *why; /* reason of the failure, if it is known better than from `output` */
    char text[160];  /* storage for `why`, if it contains a number */
    bool was_up;
    uint64_t since_ns;           /* time of the start, or of the failure */
    uint64_t heard_ns, spoke_ns; /* times of the last frame from the child and to it */
    int polled_in, polled_err;   /* indices in the last tree_fds(); -1: none */
};

struct tree {
    const struct tree_conf *conf;
    struct tree_child *children;
    int n;
    int base;            /* node of names[0] */
    char **names;        /* of the nodes below; owned by the caller */
    bool stopping;       /* children may end: that is not a loss */
    uint64_t stepped_ns; /* time of the last step; see unheard_ns() of tree.c */
    void *arg;
    /* Called for a frame of a node below. */
    void (*up)(void *arg, struct frame *f);
    /* Called if the nodes first..end-1 cannot be started or are lost; `why` is text for the
     * user. */
    void (*lost)(void *arg, const struct tree_child *c, const char *why);
    /* Called with output of a remote shell for the user's stderr. */
    void (*output)(void *arg, const char *text, size_t len);
};

/* Starts the agents of first..end-1; `self` is the node of this host or -1.  Returns 0 or -RT_E...
 * after logging; failed hosts are reported later by lost(). */
int tree_start(struct tree *t, int first, int end, int self);
/* Queues a frame to the subtree of `node`, or to all.  For one node returns 0; -RT_ENOENT: no child
 * is on the path; -RT_EPEER: the child does not run; -RT_ENOMEM. */
int tree_send(struct tree *t, uint32_t node, const void *frame, size_t len);
/* For poll(): at most 3 descriptors for each child, and the time until the next timer; -1: none. */
int tree_fds(struct tree *t, struct pollfd *fds);
int tree_timeout_ms(const struct tree *t);
/* Reads and writes, calls up(), lost() and output(), sends heartbeats to children and detects
 * silent ones.  `fds` are those of tree_fds() with the results of poll(); NULL: check all
 * descriptors. */
void tree_step(struct tree *t, const struct pollfd *fds);
/* True: `pid` was a remote shell. */
bool tree_exited(struct tree *t, pid_t pid, int status);
/* Whether a child exists. */
bool tree_alive(const struct tree *t);
/* From now on the end of a child is not a loss.  Ends remote shells whose agent has not started. */
void tree_stop(struct tree *t);
/* Kills the remote shells that still run, and frees memory. */
void tree_fini(struct tree *t);

/* Writes the configuration and the names of first..end-1 for the agent of `first`. */
void tree_put(struct frame_out *o, const struct tree *t, int first, int end);
/* Reads it: fills *conf, *first, *end and *names (all owned by the caller), or returns
 * -RT_EINVAL. */
int tree_get(struct frame_in *i, struct tree_conf *conf, int *first, int *end, char ***names);
void tree_conf_fini(struct tree_conf *conf);

/* rsh.c: starts the agent of a host.  The child's streams are pipes; this process's ends are
 * returned in fds[0..2].  -RT_ESYS with *why, a text for the user. */
pid_t tree_rsh(const struct tree_conf *conf, const char *host, bool self, int fds[3], char *why,
               size_t len);
/* Text for the user, why a child has sent no greeting: the messages of the remote shell, and what
 * to do. */
void tree_explain(const struct tree_conf *conf, const struct tree_child *c, char *text, size_t len);

#endif

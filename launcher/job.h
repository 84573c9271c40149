/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of mpirun and of an agent.  A job is one or more applications (parts of a command line
 * separated by ":"); each has ranks; a rank is a process with two output streams.  Everything here
 * belongs to the main thread (mpirun/loop.c, agent/agent.c); PMIx's progress thread only writes
 * struct launch_event into a pipe. */
#ifndef LAUNCHER_JOB_H
#define LAUNCHER_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <hwloc.h>

#include "launcher/list.h"

/* Exit codes of mpirun itself; those of ranks are passed on.  Documented in mpirun.1. */
enum {
    /* A failure of mpirun, or a rank that left without MPI_Finalize. */
    LAUNCH_EXIT_FAIL = 1,
    LAUNCH_EXIT_USAGE = 2,     /* command line */
    LAUNCH_EXIT_TIMEOUT = 124, /* --timeout, as timeout(1) */
    LAUNCH_EXIT_NOEXEC = 126,  /* program is not executable, as in shells */
    LAUNCH_EXIT_NOPROG = 127   /* program does not exist */
};

enum { LAUNCH_STDIN_ALL = -1, LAUNCH_STDIN_NONE = -2 };

/* Things ranks are mapped by, ranked by and bound to, coarse to fine. */
enum launch_obj {
    LAUNCH_NODE,
    LAUNCH_PACKAGE,
    LAUNCH_NUMA,
    LAUNCH_L3,
    LAUNCH_L2,
    LAUNCH_L1,
    LAUNCH_CORE,
    LAUNCH_HWTHREAD,
    LAUNCH_UNSET
};

enum launch_env { LAUNCH_ENV_ALL, LAUNCH_ENV_NONE, LAUNCH_ENV_LIST };

struct launch_envs {
    enum launch_env from;    /* which of mpirun's own variables a rank gets */
    struct launch_list keep; /* names, for LAUNCH_ENV_LIST */
    struct launch_list set;  /* NAME=VALUE */
};

/* A host that --host chose for one program. */
struct launch_pick {
    int host;              /* index in opts->hosts */
    int slots;             /* most ranks of the program there; 0 = as many as the host has */
    int max_slots, silent; /* while lists are read: hosts.c */
};

struct launch_app {
    struct launch_list argv;
    char *where;               /* --host as it was written, owned; NULL: all hosts */
    struct launch_pick *picks; /* what that chose, for mpirun itself only */
    int npicks;
    int n; /* ranks; 0 = not said */
    const char *wdir;
    struct launch_envs env;
    bool env_given; /* env.from was set for this application */
    int first;      /* rank of its first process */
    char *path;     /* the program found in PATH */
};

/* A host of a job; none is there twice. */
struct launch_host {
    char *name;       /* as the user or the allocation names it, "user@" too; owned */
    int slots;        /* most ranks by default; 0 = not said: as many as it has cores */
    bool slots_given; /* slots were given by the user: not oversubscribed unasked */
    int max_slots;    /* most ranks ever; 0 = no limit */
    bool self;        /* mpirun itself runs there: its agent needs no rsh */
    /* How many objects of each kind the job may use there (launch_count_objects() over there),
     * all 0 until its agent has reported; [LAUNCH_NODE] is 1 then. */
    int nobj[LAUNCH_UNSET];
    int nranks; /* of this job, set by launch_assign() */
    bool named; /* some --host has named it: hosts.c */
    int node;   /* index among the hosts that have ranks; -1: it has none */
    int begin;  /* its ranks' place in by_host[] */
};

/* The name of a host without ssh's "user@", as programs know it. */
static inline const char *launch_bare_name(const char *name)
{
    const char *at = strrchr(name, '@');
    return at ? at + 1 : name;
}

struct launch_opts {
    struct launch_app *apps;
    int napps;
    /* From --host, --hostfile or the allocation; none = this host alone. */
    struct launch_host *hosts;
    int nhosts;
    struct launch_list hostfiles;
    int cpus_per_rank;      /* hardware threads, by the allocation; 0 = not said, see pe */
    int default_n;          /* ranks that the allocation is for; 0 = not said */
    int spare_slots;        /* of hosts that were left out because they get no ranks */
    bool slurm;             /* the hosts are those of the Slurm allocation around us */
    const char *rsh;        /* --rsh: a command used as ssh would be; NULL = not said */
    struct launch_envs env; /* of all applications: -genv and --set */

    enum launch_obj map, order, bind;
    int ppr;                              /* ranks per `map` object; 0 = not said */
    int pe;                               /* cores (or hardware threads) per rank */
    bool hwthreads;                       /* count hardware threads, not cores */
    bool oversubscribe, no_oversubscribe; /* the user's word */
    bool bind_none, bind_if_supported;
    bool report_bindings, display_map;
    const char *topo_xml;

    bool tag, prefix_rank, timestamp, merge_stderr, output_nocopy;
    char *output_dir; /* owned */
    int stdin_rank;   /* a rank or LAUNCH_STDIN_... */
    int timeout_s;    /* 0 = none */
    bool quiet, verbose, dry_run;
    bool ping;     /* measure the hosts instead of starting a program */
    bool said_mca; /* the one warning about --mca was given */
    /* -1: go on; otherwise --help or --version printed, leave with this code. */
    int exit_now;
};

/* One output stream of a rank: the read end of a pipe and the part of a line that is not complete
 * yet. */
struct launch_stream {
    int fd;   /* -1 when closed */
    bool far; /* open on another host: its agent sends the bytes */
    int rank;
    bool is_err;
    char *buf;
    size_t len, cap;
    bool mid_line;    /* the beginning of the line in buf was already passed on */
    uint64_t last_ns; /* when the last bytes came */
    FILE *file;       /* --output-filename */
};

struct launch_rank {
    int rank, app; /* rank in the job */
    int node;      /* index of its host in hosts[] */
    pid_t pid;     /* also its process group; 0 = not started */
    bool running, connected, finalized, aborted;
    bool lost;            /* no event of its finalize will come any more */
    bool reported;        /* its death was looked at */
    bool gone;            /* nothing of its process group was left when it was reaped */
    int status;           /* of waitpid */
    hwloc_bitmap_t place; /* cores chosen for it; NULL when none was chosen */
    hwloc_bitmap_t cpus;  /* bound to these; NULL = not bound */
    struct launch_stream out, err;
    int in_fd;     /* write end of its standard input, -1 */
    size_t in_off; /* bytes of the current piece of our stdin that it has */
};

enum launch_event_kind {
    LAUNCH_CONNECTED,
    LAUNCH_FINALIZED,
    LAUNCH_ABORT,
    LAUNCH_LOST, /* its connection ended before it had finalized */
    /* In an agent: its ranks entered a fence; one asks what a rank elsewhere published; what one of
     * its own published. */
    LAUNCH_FENCE,
    LAUNCH_FETCH,
    LAUNCH_PUBLISHED
};

/* A call of PMIx that the main thread answers, with launch_server_answer(). */
struct launch_call {
    void *data; /* fence: what to gather; fetch: the key; or what was published */
    size_t len;
    uint32_t *ranks; /* fence: ranks that take part; none = all */
    size_t nranks;
    void (*answer)(void); /* PMIx's function and its argument */
    void *cbdata;
};

/* Written in one piece (it is shorter than PIPE_BUF) by PMIx's thread, before the rank in
 * question can go on. */
struct launch_event {
    enum launch_event_kind kind;
    int rank, code;
    uint32_t number;          /* LAUNCH_PUBLISHED: of the request */
    struct launch_call *call; /* owned by the reader */
    char text[240];
};

/* A job as one process of the launcher sees it.  mpirun over one host, and mpirun as the head of a
 * job over several, see all ranks: ranks[r].rank is r.  An agent sees those of its own host only,
 * n of `total`. */
struct launch_job {
    const struct launch_opts *opts;
    uint64_t began_ns; /* --timeout counts from here */
    char nspace[200], host[256];
    struct launch_host *hosts; /* opts->hosts, or this host alone */
    int nhosts;
    int node; /* index of this process's own host in hosts[]; -1 in a head */
    int n, total;
    struct launch_rank *ranks;
    /* Where several hosts are: all ranks of the job, host by host, in ascending order, and the host
     * of each; NULL for one host. */
    uint32_t *by_host, *host_of;
    int ncpus;    /* cores that the ranks may use together */
    int universe; /* slots of all hosts, those without ranks too */
    char **env;   /* mpirun's own environment as it was found */
    int event_fd; /* read end */
    int nrunning, nconnected, nfinalized;
    int nskipped; /* left with code 0 and without MPI_Init */

    /* Who failed first without a signal, its exit code and the message, while the cause may yet
     * turn out to be another rank's death by one: see end.c. */
    struct launch_rank *suspect;
    int suspect_code;
    char suspect_how[320];
    const char *suspect_advice;
    uint64_t suspect_until_ns;
    bool suspect_waits;   /* an event may yet show that it left in order */
    bool suspect_follows; /* it aborted because another rank had gone */

    bool agent;        /* this process is the agent of a host */
    struct head *head; /* this process is the head of a job over several hosts */

    int dead_first, dead_end; /* ranks[] with the dead that were not reported yet */

    bool ending; /* the remaining ranks are being ended */
    bool killed; /* and SIGKILL was sent */
    uint64_t kill_at_ns;
    int exit_code;
};

/* Defined by mpirun (end.c) and by the agent (agent.c). */
/* Why nothing was started, and warnings before the start. */
void launch_say(const struct launch_job *job, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* What --quiet hides: all that happens to a job that was started. */
void launch_report(const struct launch_job *job, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif

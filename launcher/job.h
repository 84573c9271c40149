/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of mpirun and of an agent.  A job has one or more applications, the parts of a command
 * line separated by ":".  Each application has ranks.  A rank is a process with two output streams.
 * All of this belongs to the main thread (mpirun/loop.c, agent/agent.c); PMIx's progress thread
 * only writes struct launch_event into a pipe. */
#ifndef LAUNCHER_JOB_H
#define LAUNCHER_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <hwloc.h>

#include "launcher/strings.h"

/* Exit codes of mpirun itself; the exit code of a rank is passed on.  Documented in mpirun.1. */
enum {
    /* mpirun failed, or a rank ended without MPI_Finalize. */
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
    enum launch_env from;    /* which of mpirun's own environment variables a rank gets */
    struct launch_list keep; /* names, for LAUNCH_ENV_LIST */
    struct launch_list set;  /* NAME=VALUE */
};

/* A host that --host chose for one program. */
struct launch_pick {
    int host;              /* index in resources.hosts */
    int slots;             /* most ranks of the program on it; 0: all slots of the host */
    int max_slots, silent; /* used by hosts.c while it reads lists */
};

struct launch_app {
    struct launch_list argv;
    char *where;               /* argument of --host, owned; NULL: all hosts */
    struct launch_pick *picks; /* hosts chosen by `where`; not sent to agents */
    int npicks;
    int n; /* ranks; 0: not given */
    const char *wdir;
    const char *search; /* --path: folders to search before PATH; NULL: none */
    const char *soft;   /* --soft: acceptable numbers of ranks, "a:b:c,..."; NULL: only n */
    struct launch_envs env;
    bool env_given; /* env.from was given for this application */
    int first;      /* rank of its first process */
    char *path;     /* the program as found in PATH */
    /* Variables for its libraries of another MPI, and the kind of these (host/foreign.c). */
    struct launch_list foreign_env;
    int foreign; /* enum abi_kind */
    bool warned; /* the user knows that its library is another MPI's */
};

/* A host of a job.  Each host appears once. */
struct launch_host {
    char *name;       /* as given by the user or the allocation, may contain "user@"; owned */
    int slots;        /* most ranks by default; 0: not given, as many as the host has cores */
    bool slots_given; /* slots were given by the user: more ranks need --oversubscribe */
    int max_slots;    /* most ranks with oversubscription; 0: no limit */
    bool self;        /* mpirun runs on it: its agent needs no rsh */
    /* Objects of each kind that the job may use on it (launch_count_objects() on that host).  All
     * are 0 until its agent has reported them; then [LAUNCH_NODE] is 1. */
    int nobj[LAUNCH_UNSET];
    int nranks; /* of this job; set by launch_assign() */
    bool named; /* a --host has named it: hosts.c */
    int node;   /* index among the hosts that have ranks; -1: it has no ranks */
    int begin;  /* index in by_host[] of its first rank */
};

/* The name of a host without the "user@" for ssh, as programs know the host. */
static inline const char *launch_bare_name(const char *name)
{
    const char *at = strrchr(name, '@');
    return at ? at + 1 : name;
}

/* Where the ranks may run: --host, --hostfile, the allocation of a resource manager, --rsh. */
struct launch_resources {
    struct launch_host *hosts;    /* owned; none: only this host */
    int nhosts;                   /* length of hosts[] */
    struct launch_list hostfiles; /* arguments of --hostfile */
    struct launch_list spare;     /* "HOST:SLOTS": hosts of the user that get no ranks */
    int spare_slots;              /* slots of hosts that get no ranks */
    int cpus_per_rank; /* hardware threads, from the allocation; 0: not given, see placement.pe */
    int default_n;     /* ranks that the allocation is for; 0: not given */
    bool slurm;        /* the hosts are those of the Slurm allocation in which mpirun runs */
    const char *rsh;   /* --rsh: a command with the arguments of ssh; NULL: not given */
};

/* Mapping, ranking and binding. */
struct launch_placement {
    enum launch_obj map;    /* --map-by; LAUNCH_UNSET: not given */
    enum launch_obj order;  /* --rank-by; LAUNCH_UNSET: in the order of mapping */
    enum launch_obj bind;   /* --bind-to; LAUNCH_UNSET: not given, see bind_places() */
    int ppr;                /* ranks per `map` object; 0: not given */
    int pe;                 /* cores (or hardware threads) per rank */
    bool hwthreads;         /* count hardware threads, not cores */
    bool oversubscribe;     /* more ranks than slots are allowed */
    bool no_oversubscribe;  /* more ranks than slots or cores are refused */
    bool bind_none;         /* --bind-to none */
    bool bind_if_supported; /* a host without the object to bind to binds no rank */
    const char *topo_xml;   /* --topo: a recorded machine in place of this host; NULL: this host */
};

/* Output of the ranks. */
struct launch_output {
    bool tag;          /* prefix of each line: job, rank and stream */
    bool rank;         /* prefix of each line: rank */
    bool timestamp;    /* prefix of each line: time */
    bool merge_stderr; /* stderr of the ranks goes to their stdout */
    char *dir;         /* --output-filename: folder of a file for each stream, owned; NULL: none */
    bool nocopy;       /* output goes only to these files */
    int job;           /* number of this job in tags and paths; 1: the first of one mpirun */
};

/* What mpirun itself prints. */
struct launch_display {
    bool map;      /* hosts and places of the ranks */
    bool bindings; /* cores to which the ranks are bound */
    bool quiet;    /* nothing about a started job, nor about failed ranks */
    bool verbose;  /* number of started ranks, libraries of other MPIs */
};

/* When no rank makes progress, and at the end of --timeout. */
enum launch_hang_action { LAUNCH_HANG_REPORT, LAUNCH_HANG_STACKS, LAUNCH_HANG_ABORT };
struct launch_hang_opts {
    enum launch_hang_action action; /* --hang-action */
    bool sooner;                    /* WEFT_CHECK reports a deadlock before hang_s is over */
    bool stacks;                    /* --get-stack-traces: at the end of --timeout */
    const char *json;               /* --json: file for the last picture; NULL: none */
};

/* Options that an mpirun gives to the mpirun of a job that its ranks spawn (family.h). */
struct launch_spawned {
    const char *separator; /* between the programs of the command line; ":" */
    int control_fd;        /* socket to the mpirun that has started this one; 0: none */
    bool serve;            /* the socket leads to a process without an mpirun, which spawns */
    const char *nspace;    /* name of the job; NULL: mpirun chooses it */
    int universe;          /* MPI_UNIVERSE_SIZE; 0: the slots of the hosts */
};

struct launch_opts {
    struct launch_app *apps; /* programs of the command line, owned */
    int napps;               /* length of apps[] */
    int abi;                 /* --abi, enum abi_kind */
    struct launch_envs env;  /* for all applications: -genv and --set */
    struct launch_resources resources;
    struct launch_placement placement;
    struct launch_output output;
    struct launch_display display;
    struct launch_spawned spawned;
    struct launch_hang_opts hang;
    int stdin_rank;  /* a rank or LAUNCH_STDIN_... */
    int timeout_s;   /* 0: none */
    bool ft;         /* --ft: the job continues when ranks die */
    bool dry_run;    /* places the ranks, and starts none */
    bool ping;       /* measure the hosts instead of starting a program */
    bool self_test;  /* check the transports instead */
    bool mca_warned; /* the warning about --mca has been printed */
    /* -1: continue; otherwise --help or --version has been printed: exit with this code. */
    int exit_now;
};

/* One output stream of a rank: the read end of a pipe, and the incomplete last line. */
struct launch_stream {
    int fd;   /* -1: closed */
    bool far; /* open on another host, whose agent sends the bytes */
    int rank;
    bool is_err;
    char *buf;
    size_t len, cap;
    bool mid_line;    /* the beginning of the line has been passed on already */
    uint64_t last_ns; /* when the last bytes arrived */
    int looks;        /* while the line has been incomplete */
    FILE *file;       /* --output-filename */
};

struct launch_rank {
    int rank, app; /* rank in the job */
    int node;      /* index of its host in hosts[] */
    pid_t pid;     /* also its process group; 0: not started */
    bool running, connected, finalized, aborted;
    bool lost;            /* its connection to PMIx has ended: no MPI_Finalize can follow */
    uint64_t left_ns;     /* when it was noticed that it had left (job_end.c); 0: has not left */
    bool reported;        /* its end has been handled */
    bool looked;          /* which MPI it has loaded is known (loaded.c) */
    bool other;           /* in mpirun: it has loaded another MPI's library */
    bool gone;            /* its process group was empty when the process was reaped */
    int died;             /* --ft: it was the n-th rank to die; 0: it has not died */
    uint64_t died_ns;     /* when its death was noticed */
    int status;           /* of waitpid */
    hwloc_bitmap_t place; /* cores chosen for it; NULL: none were chosen */
    hwloc_bitmap_t cpus;  /* cores to which it is bound; NULL: it is not bound */
    struct launch_stream out, err;
    int in_fd;     /* write end of its standard input, -1 */
    size_t in_off; /* bytes of the current piece of mpirun's standard input that the rank has */
};

enum launch_event_kind {
    LAUNCH_CONNECTED,
    LAUNCH_FINALIZED,
    LAUNCH_ABORT,
    LAUNCH_LOADED, /* it has loaded another MPI's library: `text`; not from PMIx (loaded.c) */
    LAUNCH_LOST,   /* its PMIx connection ended before MPI_Finalize */
    /* In an agent: its ranks have entered a fence; a rank requests what a rank on another host has
     * published; a rank has published something. */
    LAUNCH_FENCE,
    LAUNCH_FETCH,
    LAUNCH_PUBLISHED,
    LAUNCH_ASK /* a rank requests what only the first mpirun can do: ask.h */
};

/* A call of PMIx, answered by the main thread with launch_server_answer(). */
struct launch_call {
    struct launch_list words; /* of a LAUNCH_ASK: see ask.h */
    void *data;               /* fence: the data to gather; fetch: the key; publish: the data */
    size_t len;
    uint32_t *ranks; /* fence: the ranks that take part; none: all */
    size_t nranks;
    void (*answer)(void); /* PMIx's function and its argument */
    void *cbdata;
};

/* Written by PMIx's thread with one write (it is shorter than PIPE_BUF), before the rank can
 * continue. */
struct launch_event {
    enum launch_event_kind kind;
    int rank, code;
    uint32_t number;          /* LAUNCH_PUBLISHED: number of the request */
    struct launch_call *call; /* owned by the reader */
    char text[240];
};

/* A job as one process of the launcher sees it.  mpirun, on one host or as the head of a job over
 * several hosts, sees all ranks: ranks[r].rank is r.  An agent sees the n ranks of its own host,
 * out of `total`. */
struct launch_job {
    const struct launch_opts *opts;
    /* Passes a message without newline to the user: mpirun prints it, an agent sends it to mpirun.
     */
    void (*say)(const char *text);
    uint64_t began_ns; /* start of the --timeout */
    char nspace[200], host[256];
    char meet_addr[256]; /* where programs that do not know MPI meet (host/meet.h) */
    int meet_port;
    struct launch_host *hosts; /* resources.hosts of opts, or only this host */
    int nhosts;
    int node; /* index in hosts[] of this process's host; -1 in a head */
    int n, total;
    struct launch_rank *ranks;
    /* With several hosts: the ranks of the job sorted by host, then by rank; and the host of each
     * rank.  With one host: NULL. */
    uint32_t *by_host, *host_of;
    int ncpus;    /* cores that the ranks may use in total */
    char *cpus;   /* hardware threads of this host for the job, "0-3"; empty: no rank is bound */
    int universe; /* slots of all hosts, including those without ranks */
    char **env;   /* environment with which mpirun was started */
    int event_fd; /* read end */
    int nrunning, nconnected, nfinalized;
    int ndied;    /* --ft: ranks that have died */
    int nskipped; /* ranks that exited with code 0 without calling MPI_Init */

    uint64_t look_from_ns, look_at_ns; /* loaded.c; 0: the libraries of the ranks are known */
    char other[240];                   /* in mpirun: the library of the first rank with one */

    /* The rank that failed first without a signal, its exit code and message.  The cause may still
     * turn out to be the death of another rank by a signal, or the failure of a rank that left
     * earlier: see job_end.c. */
    struct launch_rank *suspect;
    int suspect_code;
    char suspect_how[320];
    const char *suspect_advice;
    uint64_t suspect_until_ns;
    bool suspect_waits;    /* an event may still show that the rank ended normally */
    bool suspect_follows;  /* the rank aborted because another rank had died */
    bool suspect_extended; /* suspect_until_ns allows for a rank that left earlier */

    bool agent;               /* this process is the agent of a host */
    struct head *head;        /* this process is the head of a job over several hosts */
    struct launch_hang *hang; /* in mpirun: mpirun/hang.c */
    struct family *family;    /* in mpirun: the jobs that ranks have spawned */

    int dead_first, dead_end; /* range of ranks[] that contains all ended ranks not yet reported */

    bool ending; /* the remaining ranks are being terminated */
    bool killed; /* SIGKILL has been sent */
    uint64_t kill_at_ns;
    int exit_code;
};

/* Reports why nothing was started, and warnings before the start; through job->say. */
void launch_say(const struct launch_job *job, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif

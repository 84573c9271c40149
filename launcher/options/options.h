/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of mpirun as a table: spelling, argument, help and the function that stores it.
 * Between options.c, which holds the table, and parse.c, which walks command lines and prints the
 * help from it. */
#ifndef LAUNCHER_OPTIONS_OPTIONS_H
#define LAUNCHER_OPTIONS_OPTIONS_H

#include "launcher/job.h"

/* An option as it was found: `name` as typed, its arguments (NULL where it takes none). */
struct launch_found {
    const char *name, *arg, *arg2;
};

/* Stores one option; 0 or an exit code after a message.  `app` is the part of the command line it
 * stands in. */
typedef int launch_option_set(struct launch_opts *o, struct launch_app *app,
                              const struct launch_found *f);

struct launch_option {
    /* Without dashes, separated by spaces, the one for the help first; NULL = a heading. */
    const char *names;
    const char *arg; /* names of the arguments for the help; NULL = takes none */
    int nargs;
    const char *help; /* NULL = an accepted spelling that the help does not show */
    launch_option_set *set;
};

extern const struct launch_option launch_options[];
extern const int launch_noptions;

/* "mpirun: -np: ..." on stderr; LAUNCH_EXIT_USAGE. */
int launch_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The name in a space-separated list, without regard to - and _. */
bool launch_name_in(const char *names, const char *name);
/* The arguments of placement and host options (policy.c); 0 or an exit code after a message. */
int launch_parse_map(struct launch_opts *o, const char *option, const char *text);
int launch_parse_rank(struct launch_opts *o, const char *option, const char *text);
int launch_parse_bind(struct launch_opts *o, const char *option, const char *text);

/* pingjob.c, for --ping: the program, when the command line has been read; then the hosts. */
int launch_ping_app(struct launch_opts *o, struct launch_app *app);
int launch_ping_check(const struct launch_opts *o);

#endif

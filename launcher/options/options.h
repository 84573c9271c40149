/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of mpirun as a table: names, argument, help, and the function that stores the option.
 * options.c holds the table; parse.c reads command lines and prints the help with it. */
#ifndef LAUNCHER_OPTIONS_OPTIONS_H
#define LAUNCHER_OPTIONS_OPTIONS_H

#include "launcher/job.h"

/* An option on the command line: `name` as typed, its arguments (NULL: takes none). */
struct launch_found {
    const char *name, *arg, *arg2;
};

/* Stores one option; returns 0 or an exit code after a message.  `app` is the program to whose part
 * of the command line the option belongs. */
typedef int launch_option_set(struct launch_opts *o, struct launch_app *app,
                              const struct launch_found *f);

struct launch_option {
    /* Without dashes, separated by spaces, first the one for the help; NULL: a heading. */
    const char *names;
    const char *arg; /* names of the arguments for the help; NULL: takes none */
    int nargs;
    const char *help; /* NULL: accepted, but not in the help */
    launch_option_set *set;
};

extern const struct launch_option launch_options[];
extern const int launch_noptions;

/* Prints "mpirun: -np: ..." on stderr and returns LAUNCH_EXIT_USAGE. */
int launch_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Whether a list separated by spaces contains the name; "-" and "_" are equal. */
bool launch_name_in(const char *names, const char *name);
/* The arguments of placement options (policy.c); return 0 or an exit code after a message. */
int launch_parse_map(struct launch_placement *p, const char *option, const char *text);
int launch_parse_rank(struct launch_placement *p, const char *option, const char *text);
int launch_parse_bind(struct launch_placement *p, const char *option, const char *text);

/* pingjob.c, for --ping: makes the program when the command line has been read; then checks the
 * hosts.  Both return 0 or an exit code after a message. */
int launch_ping_app(struct launch_opts *o, struct launch_app *app);
int launch_ping_check(const struct launch_opts *o);
/* For --self-test: becomes the script, with the other options.  Returns the exit code of a failure.
 */
int launch_self_test(int argc, char **argv);

#endif

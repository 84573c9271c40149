/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of mpirun. */
#ifndef LAUNCHER_OPTIONS_PARSE_H
#define LAUNCHER_OPTIONS_PARSE_H

#include "launcher/job.h"

/* Fills *o; 0, or an exit code after a message. */
int launch_parse(int argc, char **argv, struct launch_opts *o);
void launch_opts_fini(struct launch_opts *o);
void launch_help(FILE *f);

#endif

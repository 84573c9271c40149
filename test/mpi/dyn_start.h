/* SPDX-License-Identifier: BSD-3-Clause */
/* The path by which a program starts itself.  libtool runs it in .libs; children need the script
 * before it, which sets the path of the library. */
#ifndef TEST_MPI_DYN_START_H
#define TEST_MPI_DYN_START_H

#include <stdio.h>
#include <string.h>

static char start_program[4096];

static inline void find_program(const char *argv0)
{
    const char *libs = strstr(argv0, "/.libs/");
    snprintf(start_program, sizeof start_program, "%.*s%s", libs ? (int)(libs - argv0) : 0, argv0,
             libs ? libs + 6 : argv0);
}

#endif

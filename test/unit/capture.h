/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures what the code under test writes to stderr: capture_begin(); ...; text = capture_end().
 * One capture at a time. */
#ifndef TEST_UNIT_CAPTURE_H
#define TEST_UNIT_CAPTURE_H

#include <stdio.h>
#include <unistd.h>

static int capture_old = -1;
static FILE *capture_file;
static char capture_text[16384];

static inline void capture_begin(void)
{
    capture_file = tmpfile();
    fflush(stderr);
    capture_old = dup(2);
    dup2(fileno(capture_file), 2);
}

static inline const char *capture_end(void)
{
    fflush(stderr);
    dup2(capture_old, 2);
    close(capture_old);
    ssize_t n = pread(fileno(capture_file), capture_text, sizeof capture_text - 1, 0);
    capture_text[n < 0 ? 0 : n] = '\0';
    fclose(capture_file);
    return capture_text;
}

#endif

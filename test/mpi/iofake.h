/* SPDX-License-Identifier: BSD-3-Clause */
/* The system's calls on files, as the library makes them in this process: each can fail at a chosen
 * place, and the files of the test can appear to be on Lustre.  Files that iotest.h names are
 * concerned, no others. */
#ifndef TEST_MPI_IOFAKE_H
#define TEST_MPI_IOFAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum io_fake_call {
    FAKE_OPEN,
    FAKE_READ,
    FAKE_WRITE,
    FAKE_SYNC,
    FAKE_TRUNCATE,
    FAKE_LOCK,
    FAKE_CALLS
};

struct io_fake {
    /* Call number fail_at[call], from 0 on, fails with `error`; -1: none.  The calls after it fail
     * too unless `once`. */
    long fail_at[FAKE_CALLS];
    int error;
    bool once;
    long ncalls[FAKE_CALLS];
    long interrupt_each; /* every such read and write is interrupted (EINTR); 0: none */
    size_t most;         /* bytes that a read or write moves; 0: all */
    /* Lustre: stripes of the folder, and what a new file was asked to have. */
    bool lustre;
    unsigned stripe_nbytes, nstripes;
    unsigned asked_nbytes, asked_n;
    /* One bit for each target that a write has reached. */
    uint64_t targets;
};
extern struct io_fake io_fake;

/* No failures, no Lustre; counters are 0. */
void io_fake_reset(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* An mpirun of this process's own.  A process whose launcher does not start further jobs, or which
 * has no launcher, starts an mpirun for them when it first spawns.  That mpirun treats this process
 * as a job of its family (launcher/mpirun/family.h), and it ends when this process and all spawned
 * jobs have ended.  Any thread. */
#ifndef RT_BOOT_SERVE_H
#define RT_BOOT_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "runtime/boot/frame.h"

/* A request: launcher/host/ask.h lists the words. */
struct rt_words {
    char **v; /* owned, with the strings */
    int n;
    bool failed; /* out of memory */
};
void rt_words_add(struct rt_words *w, const char *key, const char *text); /* "KEYTEXT" */
void rt_words_fini(struct rt_words *w);

bool rt_serve_running(void);
/* Starts the mpirun unless it runs.  -RT_ENOTSUP: no mpirun was found; -RT_ESPAWN: it does not
 * work; both after a message. */
int rt_serve_start(void);
/* Sends a request and waits for the answer.  Returns the error code in the answer, and copies word
 * `which` of the answer to `result`, `len` bytes.  Own errors: -RT_ETRUNC: the word does not fit;
 * -RT_ENOMEM; -RT_EPEER; -RT_ESPAWN: the mpirun has ended, logged, or its answer is invalid. */
int rt_serve_ask(const struct rt_words *w, int which, char *result, size_t len);
/* Reads notices of spawned jobs that have ended, without blocking. */
void rt_serve_poll(void);
/* Notifies the mpirun that this process ends normally: jobs that are connected to it may
 * continue. */
void rt_serve_stop(void);

/* Starts an mpirun that serves another process, also for the launcher.  Its descriptor
 * RT_SERVE_FD is a socket, whose other end becomes `chan`; `group`: in a process group of its own.
 * 0, or an errno. */
#define RT_SERVE_FD 3
int rt_serve_launch(const char *path, char *const *argv, char *const *env, bool group, pid_t *pid,
                    struct frame_chan *chan);

/* In spawn.c: a spawned job has ended. */
void rt_boot_note_end(const char *nspace);

#endif

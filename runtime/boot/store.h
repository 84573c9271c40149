/* SPDX-License-Identifier: BSD-3-Clause */
/* A key-value store in place of a PMIx server, the program's or that of a launcher with PMI-1
 * (pmi.h): the processes of a job that any launcher has started meet by it.  The start exchanges
 * one record of each rank through rank 0, so it costs a few values a rank, whatever the number of
 * ranks, and waits for all of them.  Nothing starts jobs or keeps names here, and only a launcher's
 * store ends the other ranks.  Called by one thread at a time. */
#ifndef RT_BOOT_STORE_H
#define RT_BOOT_STORE_H

#include <stdbool.h>
#include <stddef.h>

struct rt_store {
    int rank, size;
    int timeout_s; /* longest wait for another rank in the start */
    /* Stores a copy of the value.  0, or an error code of the program. */
    int (*put)(void *arg, const char *key, const void *val, size_t len);
    /* Waits up to timeout_ms for the key.  Copies at most `max` bytes; *len is the whole length.
     * 0; -RT_ETIMEOUT; another error code of the program. */
    int (*get)(void *arg, const char *key, void *val, size_t max, size_t *len, int timeout_ms);
    /* All or none: a launcher's store, which belongs to this job alone.  A value can be got after
     * the barrier of all ranks that follows its put, get() does not wait, and no key is put
     * twice.  leave(): this process may end now; abort(): so must all. */
    int (*barrier)(void *arg);
    void (*leave)(void *arg);
    void (*abort)(void *arg, int code);
    void *arg;
};

/* Before rt_boot_init(), which then uses the store. */
void rt_store_set(const struct rt_store *s);
const struct rt_store *rt_store(void); /* NULL: none was set */

/* Called by boot.c.  Exchanges the records of all ranks and fills in rt_boot.  -RT_ETIMEOUT: a rank
 * is missing; -RT_EBOOT: the store reported an error, or the ranks do not fit together; -RT_ENOMEM;
 * all after a message. */
int rt_store_join(void);
/* Waits for all ranks; the errors of rt_store_join(). */
int rt_store_fence(void);
/* Publishes this process's card (jobs.h); in a launcher's store only before the fence. */
int rt_store_commit(void);
/* A value of a rank's card; see rt_boot_get(). */
int rt_store_get(unsigned rank, const char *key, void **val, size_t *len);
/* The number of a rank's host. */
int rt_store_node(unsigned rank);
void rt_store_leave(void);     /* called by rt_boot_leave() */
void rt_store_fini(void);      /* called by rt_boot_fini() */
bool rt_store_abort(int code); /* false: the store ends no process */

#endif

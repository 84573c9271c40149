/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of an object that was freed may be that of a later one, so an entry is replaced, and
 * entries of objects that were freed remain. */
#include "mpi/check/made.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "mpi/check/report.h"

struct made {
    struct made *next;
    const void *obj;
    struct check_place place;
};

#define BUCKETS 1024
static struct made *buckets[BUCKETS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct made **bucket_of(const void *obj)
{
    return &buckets[((uintptr_t)obj >> 4) % BUCKETS];
}

static struct made *find(const void *obj)
{
    struct made *m = *bucket_of(obj);
    while (m && m->obj != obj)
        m = m->next;
    return m;
}

void wm_check_made(const void *obj)
{
    if (!obj)
        return;
    struct check_place here = check_here();
    pthread_mutex_lock(&mutex);
    struct made *m = find(obj);
    if (!m) {
        if (!(m = malloc(sizeof *m)))
            check_no_memory();
        m->obj = obj;
        m->next = *bucket_of(obj);
        *bucket_of(obj) = m;
    }
    m->place = here;
    pthread_mutex_unlock(&mutex);
}

void wm_check_unmade(const void *obj)
{
    pthread_mutex_lock(&mutex);
    struct made **p = bucket_of(obj);
    while (*p && (*p)->obj != obj)
        p = &(*p)->next;
    struct made *m = *p;
    if (m)
        *p = m->next;
    pthread_mutex_unlock(&mutex);
    free(m);
}

bool wm_check_is_made(const void *obj)
{
    pthread_mutex_lock(&mutex);
    bool is = find(obj) != NULL;
    pthread_mutex_unlock(&mutex);
    return is;
}

const char *wm_check_made_by(const void *obj, char *buf, size_t len)
{
    char place[160];
    pthread_mutex_lock(&mutex);
    const struct made *m = find(obj);
    if (m)
        snprintf(buf, len, "; the first is from %s",
                 check_place_text(&m->place, place, sizeof place));
    else
        *buf = 0;
    pthread_mutex_unlock(&mutex);
    return buf;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions as objects, and memory allocation kinds (MPI-5.0 section 11.4.3).  Any thread. */
#include "mpi/core/session.h"
#include "mpi/core/errh.h"
#include "mpi/core/state.h"
#include "runtime/base/cfg.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void wm_session_ref(struct wm_session *s)
{
    if (s)
        rt_fetch_add(&s->obj.refs, 1);
}

void wm_session_unref(struct wm_session *s)
{
    if (!s || rt_fetch_add(&s->obj.refs, -1) != 1)
        return;
    wm_errh_unref(s->errh);
    rt_slab_free(&wm_session_slab, s);
}

int wm_session_check(const struct wm_session *a, const struct wm_session *b, const char *what)
{
    if (rt_likely(a == b))
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_SESSION,
                  "%s descend from different sessions%s; objects of one session must not be used "
                  "with those of another (MPI-5.0 section 11.3)",
                  what, a && b ? "" : ", one of them from none, the world model");
}

/* ---- memory allocation kinds ---- */

static const struct family {
    const char *name, *restrictors[4];
    bool device;
} families[] = {
    { "mpi", { "alloc_mem", "win_allocate", "win_allocate_shared" }, false },
    { "system", { NULL }, false },
    { "cuda", { "host", "device", "managed" }, true },
};

static bool word_is(const char *known, const char *word, size_t len)
{
    return known && strlen(known) == len && !strncasecmp(known, word, len);
}

static const struct family *family_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (word_is(families[i].name, name, len))
            return &families[i];
    return NULL;
}

static bool restrictor_known(const struct family *f, const char *word, size_t len)
{
    for (int i = 0; i < 4; i++)
        if (word_is(f->restrictors[i], word, len))
            return true;
    return false;
}

/* A kind is a name followed by any number of restrictions: "cuda:device:managed". */
static bool kind_supported(const char *kind, size_t len)
{
    const char *end = kind + len, *p = memchr(kind, ':', len);
    p = p ? p : end;
    const struct family *f = family_find(kind, (size_t)(p - kind));
    if (!f)
        return false;
    while (p < end) {
        const char *word = p + 1, *next = memchr(word, ':', (size_t)(end - word));
        p = next ? next : end;
        if (!restrictor_known(f, word, (size_t)(p - word)))
            return false;
    }
    return !f->device || wm_has_gpu(); /* last, because it loads the driver's library */
}

static bool kind_listed(const char *list, const char *kind, size_t len)
{
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == len && !strncmp(p, kind, len))
            return true;
    return false;
}

/* Weft treats all host memory alike, and all kinds of device memory alike, so any restriction of a
 * supported kind holds. */
void wm_memory_kinds(const char *wanted, char *text, size_t len)
{
    const char *lists[] = { wanted ? wanted : "", "mpi,system" };
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < 2; i++) {
        for (const char *p = lists[i]; *p; p += *p == ',') {
            p += strspn(p, " ");
            size_t n = strcspn(p, ", ");
            if (kind_supported(p, n) && !kind_listed(text, p, n) && at + n + 2 < len)
                at += (size_t)snprintf(text + at, len - at, "%s%.*s", at ? "," : "", (int)n, p);
            p += strcspn(p, ",");
        }
    }
}

bool wm_memory_kinds_known(const char *list)
{
    for (const char *p = list; *p; p += *p == ',') {
        p += strspn(p, " ");
        size_t n = strcspn(p, ", ");
        if (n && !kind_supported(p, n))
            return false;
        p += strcspn(p, ",");
    }
    return true;
}

static char world_kinds[256];

static void fill_world_kinds(void)
{
    wm_memory_kinds(cfg.memory_alloc_kinds, world_kinds, sizeof world_kinds);
}

const char *wm_session_kinds(const struct wm_session *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (s)
        return s->kinds;
    pthread_once(&once, fill_world_kinds);
    return world_kinds;
}

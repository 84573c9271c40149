/* SPDX-License-Identifier: BSD-3-Clause */
/* The start of a job by a key-value store; see store.h.  Each rank puts a record under its own key;
 * rank 0 gets all records, and puts one table that all ranks get.  If a rank is missing or does not
 * fit, the table carries the reason, so that all ranks report it at once.
 *
 * The store may hold keys of earlier starts, complete or not.  So each process draws a random
 * number for each start.  Rank 0's number is the name of the start: it is put under "weft/newest",
 * and is part of all other keys.  The table repeats the number of each rank, and a rank takes no
 * table without its own; until it finds one, it looks whether "weft/newest" has changed.  A process
 * that an earlier start has left behind can therefore take the place of a rank of this start, but
 * never beside that rank, which gets an error.
 *
 * A launcher's store (`barrier`) holds one job's keys, so the start is named by its number, and a
 * barrier follows each of the two steps: nothing waits or looks again.
 *
 * Processes share a host here if they have the same kernel, user and folder for shared memory:
 * containers with a private /dev/shm count as hosts of their own. */
#include "runtime/boot/store.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/boot/jobs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x32306f7473746677u /* "wftsto02"; another layout or byte order: another number */
/* Longer than rank 0 waits for the others, so that its reason reaches them. */
#define GRACE_S 5
/* For a look whether a value is there, when the time is over: a round trip to a busy server. */
#define GLANCE_MS 200
#define NAMED 8 /* missing ranks that a message lists */
/* A rank that has no table looks for a newer start after this time, which doubles up to the second:
 * short, so that an old start in the store costs little; growing, so that many ranks that wait for
 * a late one do not keep the store busy. */
#define LOOK_MS 4
#define LOOK_MAX_MS 1000

struct start { /* the record of a rank */
    uint64_t magic;
    uint64_t id; /* this process's number for this start, never 0 */
    int32_t size;
    uint32_t uid;
    uint64_t shm_dev, shm_ino; /* folder of shared memory */
    char version[32], kernel[40], host[256];
};

struct table {
    uint64_t magic;
    int32_t err; /* 0, or why the start failed */
    uint32_t nnodes;
    char nspace[256]; /* or the reason */
    struct member {
        uint64_t id;   /* from the rank's record; 0: it is missing */
        uint64_t node; /* its host, numbered by their lowest ranks */
    } rank[];
};

static struct {
    struct rt_store s;
    bool given;
    struct table *table;
    uint64_t id; /* the name of the start: rank 0's number; with a launcher's store its number */
    unsigned nfences;
    bool complete; /* the start, so a launcher's store takes no more cards */
} store;

void rt_store_set(const struct rt_store *s)
{
    store.s = *s;
    store.given = true;
}

const struct rt_store *rt_store(void) { return store.given ? &store.s : NULL; }

struct key {
    char text[64];
};

/* The key of a rank's value in this start. */
static struct key key_of(const char *what, int rank)
{
    struct key k;
    snprintf(k.text, sizeof k.text, "weft/%016llx/%.24s/%d", (unsigned long long)store.id, what,
             rank);
    return k;
}

static const char *owner(void) { return store.s.barrier ? "launcher" : "program"; }

static int put(const char *key, const void *val, size_t len)
{
    int code = store.s.put(store.s.arg, key, val, len);
    if (!code)
        return 0;
    log_error(BOOT, "rank %d: the %s's store refused %zu bytes under \"%s\" (its code %d)",
              store.s.rank, owner(), len, key, code);
    return -RT_EBOOT;
}

static int get(const char *key, void *val, size_t max, size_t *len, uint64_t until)
{
    uint64_t now = rt_now_ns();
    uint64_t ms = until > now ? (until - now) / 1000000u + 1 : GLANCE_MS;
    int code = store.s.get(store.s.arg, key, val, max, len, ms < INT32_MAX ? (int)ms : INT32_MAX);
    if (!code || code == -RT_ETIMEOUT)
        return code;
    log_error(BOOT, "rank %d: the %s's store failed to get \"%s\" (its code %d)", store.s.rank,
              owner(), key, code);
    return -RT_EBOOT;
}

/* A step of the start with a launcher's store: what all ranks have put is there for all. */
static int meet(void)
{
    int code = store.s.barrier ? store.s.barrier(store.s.arg) : 0;
    return code ? -RT_EBOOT : 0; /* the launcher's store has said why */
}

/* A value of unknown length, malloc'ed. */
static int get_all(const char *key, void **val, size_t *len, uint64_t until)
{
    size_t max = 4096;
    for (;;) {
        void *buf = malloc(max);
        if (!buf)
            return -RT_ENOMEM;
        int err = get(key, buf, max, len, until);
        if (!err && *len <= max) {
            *val = buf;
            return 0;
        }
        free(buf);
        if (err)
            return err;
        max = *len;
    }
}

static uint64_t deadline(int more_s)
{
    return rt_now_ns() + (uint64_t)(store.s.timeout_s + more_s) * 1000000000u;
}

/* ---- all ranks to rank 0, and back ---- */

static void name_missing(const bool *here, char *text, size_t len, const char *what)
{
    int n = 0;
    size_t at = (size_t)snprintf(text, len, "rank");
    for (int r = 0; r < store.s.size; r++)
        n += !here[r];
    at += (size_t)snprintf(text + at, len - at, "%s", n == 1 ? "" : "s");
    for (int r = 0, k = 0; r < store.s.size && k < NAMED; r++)
        if (!here[r])
            at += (size_t)snprintf(text + at, len - at, "%s %d", k++ ? "," : "", r);
    if (n > NAMED)
        at += (size_t)snprintf(text + at, len - at, " and others");
    snprintf(text + at, len - at, " of %d %s %s within %d s", store.s.size,
             n == 1 ? "has not" : "have not", what, store.s.timeout_s);
}

/* Gets a value of `len` bytes from each other rank into `all`.  -RT_ETIMEOUT: `why` names the ranks
 * that are missing. */
static int gather(const char *stage, void *all, size_t len, const char *what, char *why,
                  size_t why_len)
{
    uint64_t until = deadline(0);
    bool *here = calloc((size_t)store.s.size, sizeof *here);
    int err = here ? 0 : -RT_ENOMEM, missing = 0;

    for (int r = 0; r < store.s.size && !err; r++) {
        size_t got = len;
        char *into = (char *)all + (size_t)r * len;
        int one = r == store.s.rank ? 0 : get(key_of(stage, r).text, into, len, &got, until);
        here[r] = !one;
        missing += one == -RT_ETIMEOUT;
        if (one && one != -RT_ETIMEOUT)
            err = one;
        if (!one && got != len) {
            snprintf(why, why_len, "rank %d runs another version of the library", r);
            err = -RT_EBOOT;
        }
        if (missing > NAMED) /* each look costs time */
            break;
    }
    if (!err && missing) {
        name_missing(here, why, why_len, what);
        err = -RT_ETIMEOUT;
    }
    free(here);
    return err;
}

static int no_answer(int err, const char *stage)
{
    if (err == -RT_ETIMEOUT)
        log_error(BOOT,
                  "rank %d: rank 0 of %d has not %s within %d s; all ranks must call MPI_Init "
                  "(or open a session), with the same store",
                  store.s.rank, store.s.size, stage, store.s.timeout_s);
    return err;
}

/* ---- the start ---- */

static void describe_self(struct start *me)
{
    struct stat st = { 0 };
    *me = (struct start){ .magic = MAGIC, .size = store.s.size, .uid = (uint32_t)geteuid() };
    snprintf(me->version, sizeof me->version, "%s", PACKAGE_VERSION);
    snprintf(me->host, sizeof me->host, "%s", rt_boot.host);
    if (stat(cfg.shm_dir, &st) == 0) {
        me->shm_dev = (uint64_t)st.st_dev;
        me->shm_ino = (uint64_t)st.st_ino;
    }
    /* Equal in all containers of a host; without /proc, host names must do. */
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, me->kernel, 36) : 0;
    if (n < 36)
        snprintf(me->kernel, sizeof me->kernel, "%.38s", me->host);
    if (fd >= 0)
        close(fd);
}

static bool same_host(const struct start *a, const struct start *b)
{
    return a->uid == b->uid && a->shm_dev == b->shm_dev && a->shm_ino == b->shm_ino &&
           !strncmp(a->kernel, b->kernel, sizeof a->kernel);
}

/* Numbers the hosts; checks that the ranks fit together. */
static int compare(const struct start *all, struct table *t)
{
    int *first = malloc((size_t)store.s.size * sizeof *first); /* lowest rank of each host */
    if (!first)
        return -RT_ENOMEM;
    for (int r = 0; r < store.s.size; r++) {
        uint32_t n = 0;
        if (all[r].magic != MAGIC || strncmp(all[r].version, PACKAGE_VERSION, 32) ||
            all[r].size != store.s.size) {
            snprintf(t->nspace, sizeof t->nspace,
                     "rank %d has Weft %.31s and %d ranks, rank 0 has Weft %s and %d ranks", r,
                     all[r].magic == MAGIC ? all[r].version : "of another kind", all[r].size,
                     PACKAGE_VERSION, store.s.size);
            free(first);
            return -RT_EBOOT;
        }
        while (n < t->nnodes && !same_host(&all[r], &all[first[n]]))
            n++;
        if (n == t->nnodes)
            first[t->nnodes++] = r;
        t->rank[r].node = n;
    }
    free(first);
    return 0;
}

static size_t table_len(void)
{
    return sizeof(struct table) + (size_t)store.s.size * sizeof(struct member);
}

/* Rank 0, before its table: another start by the same store may have begun meanwhile, and some of
 * the ranks may be in that. */
static int still_newest(char *why, size_t len)
{
    uint64_t id = 0;
    size_t got;
    int err = get("weft/newest", &id, sizeof id, &got, deadline(0));
    if (err || (got == sizeof id && id == store.id))
        return err;
    snprintf(why, len,
             "another process has started as rank 0 with the same store; jobs at "
             "the same time need a store, or a prefix in it, each");
    return -RT_EBOOT;
}

/* Rank 0 makes the table for all.  A failure is in it, and also returned. */
static int make_table(const struct start *me, struct table *t)
{
    struct start *all = calloc((size_t)store.s.size, sizeof *all);

    int err = meet();
    if (!store.s.barrier) {
        store.id = me->id;
        err = put("weft/newest", &store.id, sizeof store.id);
    }
    if (err) {
        free(all);
        return err;
    }
    t->magic = MAGIC;
    err = all ? 0 : -RT_ENOMEM;
    if (!err) {
        all[0] = *me;
        err = gather("start", all, sizeof *all, "called MPI_Init or opened a session", t->nspace,
                     sizeof t->nspace);
    }
    for (int r = 0; r < store.s.size && all; r++)
        t->rank[r].id = all[r].id;
    if (!err)
        err = compare(all, t);
    if (!err && !store.s.barrier)
        err = still_newest(t->nspace, sizeof t->nspace);
    if (!err)
        snprintf(t->nspace, sizeof t->nspace, "store-%.200s-%ld-%016llx", rt_boot.host,
                 (long)getpid(), (unsigned long long)store.id);
    else if (!t->nspace[0])
        snprintf(t->nspace, sizeof t->nspace, "rank 0: %s", rt_err_text(err));
    free(all);
    t->err = err;
    int sent = put(key_of("table", 0).text, t, table_len());
    if (!sent)
        sent = meet();
    return err ? err : sent;
}

/* Joins the start that is the newest now, unless this rank has done so. */
static int follow_newest(const struct start *me, bool *joined, uint64_t until)
{
    uint64_t id = 0;
    size_t len = 0;
    int err = get("weft/newest", &id, sizeof id, &len, until);
    if (err)
        return no_answer(err, "answered");
    if (len != sizeof id || !id) {
        log_error(BOOT, "rank %d: \"weft/newest\" in the program's store is not Weft's",
                  store.s.rank);
        return -RT_EBOOT;
    }
    if (*joined && id == store.id)
        return 0;
    store.id = id;
    *joined = true;
    return put(key_of("start", store.s.rank).text, me, sizeof *me);
}

/* The table has this rank, perhaps among another number of ranks. */
static bool is_for_me(const struct table *t, size_t len, const struct start *me)
{
    return len >= offsetof(struct table, rank[store.s.rank + 1]) && t->magic == MAGIC &&
           t->rank[store.s.rank].id == me->id;
}

static int get_table(const struct start *me, struct table *t)
{
    uint64_t until = deadline(GRACE_S), look_ms = LOOK_MS;
    bool joined = false, old = false;

    for (;;) {
        uint64_t last = store.id;
        size_t len = 0;
        int err = follow_newest(me, &joined, until);
        if (err)
            return err;
        if (store.id != last)
            look_ms = LOOK_MS;
        uint64_t now = rt_now_ns(), look = now + look_ms * 1000000u;
        err = get(key_of("table", 0).text, t, table_len(), &len, look < until ? look : until);
        if (!err && is_for_me(t, len, me))
            return t->err;
        if (err && err != -RT_ETIMEOUT)
            return err;
        old = !err;
        if (now > until)
            break;
        if (old)
            usleep((useconds_t)(look_ms * 1000u));
        look_ms = look_ms * 2 < LOOK_MAX_MS ? look_ms * 2 : LOOK_MAX_MS;
    }
    if (!old)
        return no_answer(-RT_ETIMEOUT, "answered");
    bool failed = t->magic == MAGIC && t->err;
    log_error(BOOT,
              "rank %d: found no start with this process as rank %d of %d within %d s, only one of "
              "other processes%s%.255s; all ranks must call MPI_Init (or open a session) within "
              "that time, with a store that no other job uses",
              store.s.rank, store.s.rank, store.s.size, store.s.timeout_s,
              failed ? ", which failed: " : "", failed ? t->nspace : "");
    t->magic = 0; /* not of this start */
    return -RT_ETIMEOUT;
}

/* The same with a launcher's store, where one table is there after two barriers. */
static int get_only_table(const struct start *me, struct table *t)
{
    size_t len = 0;
    int err = put(key_of("start", store.s.rank).text, me, sizeof *me);
    if (!err)
        err = meet();
    if (!err)
        err = meet();
    if (!err)
        err = get(key_of("table", 0).text, t, table_len(), &len, 0);
    if (err || is_for_me(t, len, me))
        return err ? err : t->err;
    log_error(BOOT, "rank %d of %d: rank 0 has started with another version of Weft or size",
              store.s.rank, store.s.size);
    return -RT_EBOOT;
}

static int take_table(const struct table *t)
{
    uint64_t mine = t->rank[store.s.rank].node;
    rt_boot.local_procs = malloc((size_t)store.s.size * sizeof *rt_boot.local_procs);
    if (!rt_boot.local_procs)
        return -RT_ENOMEM;
    snprintf(rt_boot.nspace, sizeof rt_boot.nspace, "%s", t->nspace);
    rt_boot.node = (int)mine;
    rt_boot.nnodes = (int)t->nnodes;
    for (uint32_t r = 0; r < (uint32_t)store.s.size; r++) {
        if (r == (uint32_t)store.s.rank)
            rt_boot.local_rank = rt_boot.local_size;
        if (t->rank[r].node == mine)
            rt_boot.local_procs[rt_boot.local_size++] = r;
    }
    return 0;
}

int rt_store_join(void)
{
    struct table *t = calloc(1, table_len());
    struct start me;

    if (!t)
        return -RT_ENOMEM;
    rt_boot.rank = store.s.rank;
    rt_boot.size = rt_boot.universe_size = store.s.size;
    rt_boot.appnum = -1;
    describe_self(&me);
    int err = rt_random(&me.id, sizeof me.id);
    me.id |= 1; /* not 0 */
    if (store.s.barrier)
        store.id++;
    if (!err && store.s.rank)
        err = store.s.barrier ? get_only_table(&me, t) : get_table(&me, t);
    else if (!err)
        err = make_table(&me, t);
    if (!err)
        err = take_table(t);
    else if (t->magic == MAGIC && t->err)
        log_error(BOOT, "rank %d of %d cannot start: %s", store.s.rank, store.s.size, t->nspace);
    if (err) {
        free(t);
        return err;
    }
    store.table = t;
    return 0;
}

int rt_store_fence(void)
{
    char stage[32], why[256] = "";
    unsigned char *all = calloc((size_t)store.s.size, 1), mark = 1;
    size_t len;
    int err;

    if (!all)
        return -RT_ENOMEM;
    store.complete = true;
    if (store.s.barrier) {
        free(all);
        return meet();
    }
    snprintf(stage, sizeof stage, "fence%u", store.nfences++);
    if (store.s.rank) {
        err = put(key_of(stage, store.s.rank).text, &mark, 1);
        if (!err)
            err = no_answer(get(key_of(stage, 0).text, &mark, 1, &len, deadline(GRACE_S)),
                            "finished its start");
        if (!err && mark != 1) {
            log_error(BOOT, "rank %d of %d cannot start: another rank is missing", store.s.rank,
                      store.s.size);
            err = -RT_ETIMEOUT;
        }
    } else {
        err = gather(stage, all, 1, "finished the start", why, sizeof why);
        if (err && why[0])
            log_error(BOOT, "rank 0 cannot start: %s", why);
        mark = err ? 2 : 1;
        int sent = put(key_of(stage, 0).text, &mark, 1);
        err = err ? err : sent;
    }
    free(all);
    return err;
}

/* ---- values ---- */

int rt_store_commit(void)
{
    size_t len;
    void *card;
    if (store.s.barrier && store.complete)
        return 0; /* later values reach processes of other jobs, by cards on connections */
    int err = rt_boot_card(&card, &len);
    if (err)
        return err;
    err = put(key_of("card", store.s.rank).text, card, len);
    free(card);
    return err;
}

int rt_store_get(unsigned rank, const char *key, void **val, size_t *len)
{
    size_t card_len;
    void *card;
    int err = get_all(key_of("card", (int)rank).text, &card, &card_len, deadline(0));
    if (err)
        return err;
    err = rt_boot_card_value(card, card_len, key, val, len);
    free(card);
    return err;
}

int rt_store_node(unsigned rank) { return (int)store.table->rank[rank].node; }

void rt_store_leave(void)
{
    if (store.given && store.s.leave)
        store.s.leave(store.s.arg);
}

bool rt_store_abort(int code)
{
    if (!store.given || !store.s.abort)
        return false;
    store.s.abort(store.s.arg, code);
    return true;
}

void rt_store_fini(void)
{
    free(store.table);
    store.table = NULL;
    store.nfences = 0;
    store.complete = false;
}

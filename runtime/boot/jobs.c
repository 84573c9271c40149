/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of jobs that this process has met, with the cards of their processes.  Entries stay
 * until rt_boot_fini(): a job costs some hundred bytes and its cards. */
#include "runtime/boot/jobs.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/boot/dead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARD_MAGIC 0x32647263u /* "crd2"; other contents or another byte order: another number */
#define RANK_MAX (1u << 24)

struct card {               /* followed by the namespace with its zero, then the values */
    uint32_t magic, nbytes; /* of all */
    uint64_t job;
    uint32_t rank, name_len; /* with the zero */
    int32_t host;            /* rt_boot_host() */
    uint32_t zero;
};
struct value { /* followed by the key with its zero, and the bytes */
    uint32_t key_len, len;
};

struct job {
    char *nspace;
    uint64_t id;
    uint32_t ncards;     /* slots */
    struct card **cards; /* by rank; NULL: not met */
};

static struct {
    struct job *jobs; /* jobs[0] is not used: this process's own job has no cards */
    uint32_t njobs;
    char *values; /* of this process's card */
    size_t nbytes;
    uint64_t own; /* id of the own job; 0: not computed yet */
} met;

uint64_t rt_boot_job_id(const char *nspace)
{
    uint8_t mac[RT_SHA256_LEN];
    uint64_t id;
    rt_hmac("weft.job", 8, nspace, strlen(nspace), mac);
    memcpy(&id, mac, sizeof id);
    return id ? id : 1;
}

static uint64_t own_id(void)
{
    if (!met.own)
        met.own = rt_boot_job_id(rt_boot.nspace);
    return met.own;
}

const char *rt_boot_nspace(uint32_t ns)
{
    return ns == 0 ? rt_boot.nspace : ns < met.njobs ? met.jobs[ns].nspace : "?";
}

const char *rt_boot_of_job(uint32_t ns)
{
    static char text[300];
    if (ns == 0)
        return "";
    snprintf(text, sizeof text, " of job %s", rt_boot_nspace(ns));
    return text;
}

struct rt_name rt_boot_name(struct rt_proc p)
{
    return (struct rt_name){ p.ns == 0 ? own_id() : met.jobs[p.ns].id, p.rank, 0 };
}

static uint32_t find_job(uint64_t id)
{
    for (uint32_t i = 1; i < met.njobs; i++)
        if (met.jobs[i].id == id)
            return i;
    return 0;
}

int rt_boot_proc(struct rt_name n, struct rt_proc *out)
{
    *out = (struct rt_proc){ 0, n.rank };
    if (n.job == own_id())
        return n.rank < (uint32_t)rt_boot.size ? 0 : -RT_ENOENT;
    out->ns = find_job(n.job);
    const struct job *j = &met.jobs[out->ns];
    return out->ns && n.rank < j->ncards && j->cards[n.rank] ? 0 : -RT_ENOENT;
}

/* ---- this process's card ---- */

static size_t value_len(size_t key_len, size_t len)
{
    return (sizeof(struct value) + key_len + len + 7) & ~(size_t)7;
}

/* The value at p; its successor is at p + value_len(). */
static const struct value *value_at(const char *p) { return (const struct value *)(const void *)p; }

static const struct value *find_value(const char *p, const char *end, const char *key)
{
    while (p < end) {
        const struct value *v = value_at(p);
        if (!strcmp((const char *)(v + 1), key))
            return v;
        p += value_len(v->key_len, v->len);
    }
    return NULL;
}

int rt_boot_keep(const char *key, const void *val, size_t len)
{
    const struct value *old = find_value(met.values, met.values + met.nbytes, key);
    if (old && old->len == len) {
        memcpy((char *)(old + 1) + old->key_len, val, len);
        return 0;
    }
    size_t key_len = strlen(key) + 1, need = value_len(key_len, len);
    if (old) { /* another length: removes the old value */
        size_t gone = value_len(old->key_len, old->len);
        char *at = (char *)old;
        met.nbytes -= gone;
        memmove(at, at + gone, (size_t)(met.values + met.nbytes - at));
    }
    char *more = realloc(met.values, met.nbytes + need);
    if (!more)
        return -RT_ENOMEM;
    met.values = more;
    more += met.nbytes;
    memset(more, 0, need);
    *(struct value *)(void *)more = (struct value){ (uint32_t)key_len, (uint32_t)len };
    memcpy(more + sizeof(struct value), key, key_len);
    memcpy(more + sizeof(struct value) + key_len, val, len);
    met.nbytes += need;
    return 0;
}

/* Bytes before the values. */
static size_t head_len(size_t name_len)
{
    return (sizeof(struct card) + name_len + 7) & ~(size_t)7;
}

int rt_boot_card(void **card, size_t *len)
{
    size_t name_len = strlen(rt_boot.nspace) + 1, head = head_len(name_len);
    struct rt_proc self = { 0, (uint32_t)rt_boot.rank };
    char *p = calloc(1, head + met.nbytes);
    if (!p)
        return -RT_ENOMEM;
    *(struct card *)(void *)p = (struct card){ .magic = CARD_MAGIC,
                                               .nbytes = (uint32_t)(head + met.nbytes),
                                               .job = own_id(),
                                               .rank = self.rank,
                                               .name_len = (uint32_t)name_len,
                                               .host = rt_boot_host(self) };
    memcpy(p + sizeof(struct card), rt_boot.nspace, name_len);
    if (met.nbytes)
        memcpy(p + head, met.values, met.nbytes);
    *card = p;
    *len = head + met.nbytes;
    return 0;
}

/* ---- cards of others ---- */

/* Whether the values fill the card exactly. */
static bool values_fit(const char *p, const char *end)
{
    while (p < end) {
        size_t left = (size_t)(end - p);
        if (left < sizeof(struct value))
            return false;
        const struct value *v = value_at(p);
        if (v->key_len < 1 || v->key_len > left || v->len > left ||
            value_len(v->key_len, v->len) > left || p[sizeof *v + v->key_len - 1])
            return false;
        p += value_len(v->key_len, v->len);
    }
    return true;
}

int64_t rt_boot_card_len(const void *card, size_t max)
{
    struct card c;
    if (max < sizeof c)
        return -RT_EINVAL;
    memcpy(&c, card, sizeof c);
    const char *p = card;
    if (c.magic != CARD_MAGIC || c.nbytes > max || c.nbytes % 8 || c.rank >= RANK_MAX ||
        c.name_len < 2 || c.name_len > sizeof rt_boot.nspace || head_len(c.name_len) > c.nbytes ||
        p[sizeof c + c.name_len - 1] || c.job != rt_boot_job_id(p + sizeof c) ||
        !values_fit(p + head_len(c.name_len), p + c.nbytes))
        return -RT_EINVAL;
    return c.nbytes;
}

static int add_job(const struct card *c, uint32_t *ns)
{
    uint32_t n = met.njobs ? met.njobs : 1;
    struct job *more = realloc(met.jobs, (n + 1) * sizeof *more);
    char *name = strdup((const char *)(c + 1));
    if (more)
        met.jobs = more;
    if (!more || !name) {
        free(name);
        return -RT_ENOMEM;
    }
    more[0] = (struct job){ 0 };
    more[n] = (struct job){ .nspace = name, .id = c->job };
    met.njobs = n + 1;
    *ns = n;
    return 0;
}

static int slot_for(struct job *j, uint32_t rank)
{
    if (rank < j->ncards)
        return 0;
    uint32_t n = j->ncards ? j->ncards : 1;
    while (n <= rank)
        n *= 2;
    struct card **more = realloc(j->cards, n * sizeof *more);
    if (!more)
        return -RT_ENOMEM;
    memset(more + j->ncards, 0, (n - j->ncards) * sizeof *more);
    j->cards = more;
    j->ncards = n;
    return 0;
}

int rt_boot_meet(const void *card, struct rt_proc *out)
{
    const struct card *c = card;
    *out = (struct rt_proc){ 0, c->rank };
    if (c->job == own_id())
        return 0;
    out->ns = find_job(c->job);
    int err = out->ns ? 0 : add_job(c, &out->ns);
    if (!err)
        err = slot_for(&met.jobs[out->ns], c->rank);
    struct card *copy = err ? NULL : malloc(c->nbytes);
    if (!copy)
        return -RT_ENOMEM;
    memcpy(copy, c, c->nbytes);
    struct card **slot = &met.jobs[out->ns].cards[c->rank];
    free(*slot);
    *slot = copy;
    rt_dead_meet();
    return 0;
}

static const struct card *find_card(struct rt_proc p)
{
    return p.ns < met.njobs && p.rank < met.jobs[p.ns].ncards ? met.jobs[p.ns].cards[p.rank] : NULL;
}

int rt_boot_host(struct rt_proc p)
{
    const struct card *c = find_card(p);
    if (p.ns == 0)
        return rt_boot.nnodes > 1 ? rt_boot_node_of(p.rank) : 0;
    return c ? c->host : -RT_ENOENT;
}

static int copy_value(const struct card *c, const char *key, void **val, size_t *len)
{
    const struct value *v = find_value((const char *)c + head_len(c->name_len),
                                       (const char *)c + c->nbytes, key);
    if (!v)
        return -RT_ENOENT;
    *val = malloc(v->len ? v->len : 1);
    if (!*val)
        return -RT_ENOMEM;
    memcpy(*val, (const char *)(v + 1) + v->key_len, v->len);
    *len = v->len;
    return 0;
}

int rt_boot_card_get(struct rt_proc p, const char *key, void **val, size_t *len)
{
    const struct card *c = find_card(p);
    return c ? copy_value(c, key, val, len) : -RT_ENOENT;
}

int rt_boot_card_value(const void *card, size_t nbytes, const char *key, void **val, size_t *len)
{
    if (rt_boot_card_len(card, nbytes) != (int64_t)nbytes)
        return -RT_EBOOT;
    return copy_value(card, key, val, len);
}

void rt_boot_jobs_fini(void)
{
    for (uint32_t i = 1; i < met.njobs; i++) {
        for (uint32_t r = 0; r < met.jobs[i].ncards; r++)
            free(met.jobs[i].cards[r]);
        free(met.jobs[i].cards);
        free(met.jobs[i].nspace);
    }
    free(met.jobs);
    free(met.values);
    memset(&met, 0, sizeof met);
}

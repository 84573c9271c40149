/* SPDX-License-Identifier: BSD-3-Clause */
/* The hosts that a job may use.  The base is the allocation of a resource manager, or else the
 * hosts of --hostfile.  --host selects from the base, for each program of the command line
 * separately.  Without a base, --host makes the list.  Main thread, before anything is started. */
#include "launcher/options/assign.h"
#include "launcher/options/hosts.h"
#include "launcher/options/options.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- names ---- */

bool launch_is_address(const char *name, struct in6_addr *addr)
{
    char text[INET6_ADDRSTRLEN + 8];
    struct in_addr v4;

    if (inet_pton(AF_INET, name, &v4) == 1) {
        memset(addr, 0, sizeof *addr);
        memset(&addr->s6_addr[10], 0xff, 2);
        memcpy(&addr->s6_addr[12], &v4, sizeof v4);
        return true;
    }
    snprintf(text, sizeof text, "%.*s", (int)strcspn(name, "%"), name);
    return strchr(name, ':') && inet_pton(AF_INET6, text, addr) == 1;
}

/* Whether a name means the local host on every host: "localhost", 127.0.0.1 and the like. */
static bool is_loopback(const char *name)
{
    static const unsigned char v4_loopback[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };
    struct in6_addr addr;

    name = launch_bare_name(name);
    if (launch_is_address(name, &addr))
        return IN6_IS_ADDR_LOOPBACK(&addr) || !memcmp(&addr, v4_loopback, sizeof v4_loopback);
    return !strcasecmp(name, "localhost") || !strncasecmp(name, "localhost.", 10);
}

static bool is_own_address(const struct in6_addr *addr)
{
    struct ifaddrs *all, *i;
    bool found = false;

    if (getifaddrs(&all) < 0)
        return false;
    for (i = all; i && !found; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (family == AF_INET6)
            found = !memcmp(addr, &((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr,
                            sizeof *addr);
        else if (family == AF_INET && IN6_IS_ADDR_V4MAPPED(addr))
            found = !memcmp(&addr->s6_addr[12],
                            &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, 4);
    }
    freeifaddrs(all);
    return found;
}

bool launch_same_host(const char *a, const char *b)
{
    struct in6_addr addr;
    a = launch_bare_name(a), b = launch_bare_name(b);
    if (!strcasecmp(a, b))
        return true;
    size_t la = strcspn(a, "."), lb = strcspn(b, ".");
    return la == lb && (!a[la] || !b[lb]) && !strncasecmp(a, b, la) &&
           !launch_is_address(a, &addr) && !launch_is_address(b, &addr);
}

bool launch_is_self(const char *name)
{
    char self[256] = "";
    struct in6_addr addr;

    if (is_loopback(name))
        return true;
    name = launch_bare_name(name);
    if (launch_is_address(name, &addr))
        return is_own_address(&addr);
    gethostname(self, sizeof self - 1);
    return launch_same_host(name, self);
}

/* ---- lists ---- */

/* Key for the table: the same for all names that may mean one host. */
static unsigned key_of(const char *name)
{
    struct in6_addr addr;
    unsigned key = 2166136261u;
    name = launch_bare_name(name);
    size_t len = launch_is_address(name, &addr) ? strlen(name) : strcspn(name, ".");
    for (size_t i = 0; i < len; i++)
        key = (key ^ (unsigned)(name[i] | 0x20)) * 16777619u;
    return key;
}

/* Index of the host with that name; -1: none. */
static int find(const struct launch_hosts *h, const char *name)
{
    unsigned mask = 2 * (unsigned)h->cap - 1;
    for (unsigned at = key_of(name); h->table && h->table[at & mask]; at++)
        if (launch_same_host(h->v[h->table[at & mask] - 1].name, name))
            return h->table[at & mask] - 1;
    if (h->n > 0 && launch_is_self(name))
        for (int i = 0; i < h->n; i++)
            if (h->v[i].self)
                return i;
    return -1;
}

static void enter(struct launch_hosts *h, int i)
{
    unsigned mask = 2 * (unsigned)h->cap - 1, at = key_of(h->v[i].name);
    while (h->table[at & mask])
        at++;
    h->table[at & mask] = i + 1;
}

/* Doubles the capacity, a power of two; the table is at most half full. */
static bool grow(struct launch_hosts *h)
{
    int cap = h->cap ? 2 * h->cap : 16;
    int *table = calloc(2 * (size_t)cap, sizeof *table);
    struct launch_host *v = realloc(h->v, (size_t)cap * sizeof *v);
    if (v)
        h->v = v;
    if (!v || !table) {
        free(table);
        return false;
    }
    free(h->table);
    h->table = table;
    h->cap = cap;
    for (int i = 0; i < h->n; i++)
        enter(h, i);
    return true;
}

int launch_hosts_add(struct launch_hosts *h, const char *name)
{
    int i = find(h, name);
    if (i >= 0)
        return i;
    if (h->n == h->cap && !grow(h))
        return -1;
    char self[256] = "";
    /* the name is passed to ranks, also on other hosts */
    if (is_loopback(name) && gethostname(self, sizeof self - 1) == 0)
        name = self;
    char *copy = strdup(name);
    if (!copy)
        return -1;
    h->v[h->n] = (struct launch_host){ .name = copy, .self = launch_is_self(name) };
    enter(h, h->n);
    return h->n++;
}

static void hosts_fini(struct launch_hosts *h)
{
    for (int i = 0; i < h->n; i++)
        free(h->v[i].name);
    free(h->v);
    free(h->table);
    *h = (struct launch_hosts){ 0 };
}

/* ---- selecting ---- */

/* A list that is being read: where its words are looked up or added, and which hosts they have
 * chosen. */
struct choice {
    const char *where, *base; /* for messages; base NULL: words add hosts */
    struct launch_hosts *hosts;
    const bool *taken; /* hosts that an earlier part has named, for +e */
    const struct launch_word *word;
    struct launch_pick *picks;
    int npicks, cap;
    int *pick_of; /* 1 + index of a host's pick; 0: not chosen */
};

/* Makes room for one more pick, of any host. */
static bool make_room(struct choice *c)
{
    int cap = c->hosts->cap;
    if (cap <= c->cap)
        return true;
    struct launch_pick *picks = realloc(c->picks, (size_t)cap * sizeof *picks);
    int *pick_of = realloc(c->pick_of, (size_t)cap * sizeof *pick_of);
    c->picks = picks ? picks : c->picks;
    c->pick_of = pick_of ? pick_of : c->pick_of;
    if (!picks || !pick_of)
        return false;
    memset(pick_of + c->cap, 0, (size_t)(cap - c->cap) * sizeof *pick_of);
    c->cap = cap;
    return true;
}

/* Chooses a host, possibly again.  Given slots add up; a host that is named several times without
 * slots has one slot for each time. */
static int pick(struct choice *c, int host)
{
    const struct launch_word *w = c->word;
    if (!make_room(c))
        return launch_usage("out of memory");
    if (!c->pick_of[host]) {
        c->picks[c->npicks++] = (struct launch_pick){ .host = host };
        c->pick_of[host] = c->npicks;
    }
    struct launch_pick *p = &c->picks[c->pick_of[host] - 1];
    p->slots = p->slots + w->slots < LAUNCH_SLOTS_MOST ? p->slots + w->slots : LAUNCH_SLOTS_MOST;
    p->silent += !w->slots;
    p->max_slots = w->max_slots ? w->max_slots : p->max_slots;
    return 0;
}

/* A host has one user, who may be given at any mention of the host. */
static int settle_user(struct choice *c, int host, const char *name)
{
    char **now = &c->hosts->v[host].name, *both;
    size_t len = (size_t)(launch_bare_name(name) - name);
    if (!len || !strncmp(name, *now, len))
        return 0;
    if (launch_bare_name(*now) != *now)
        return launch_usage("%s: '%s' and '%s' are one host, which can be reached as one user only",
                            c->where, *now, name);
    if (asprintf(&both, "%.*s%s", (int)len, name, *now) < 0)
        return launch_usage("out of memory");
    free(*now);
    *now = both;
    return 0;
}

static int pick_name(void *arg, const char *name)
{
    struct choice *c = arg;
    int host = c->base ? find(c->hosts, name) : launch_hosts_add(c->hosts, name);
    if (host >= 0) {
        int code = settle_user(c, host, name);
        return code ? code : pick(c, host);
    }
    if (!c->base)
        return launch_usage("out of memory");
    return launch_usage("%s: host '%s' is not in %s, which has %d host%s, %s%s%s; nothing was "
                        "started",
                        c->where, name, c->base, c->hosts->n, c->hosts->n == 1 ? "" : "s",
                        c->hosts->v[0].name, c->hosts->n > 1 ? " to " : "",
                        c->hosts->n > 1 ? c->hosts->v[c->hosts->n - 1].name : "");
}

/* "+n3": host 3 of the base.  "+e2", "+e:2", "+e": that many hosts, or all hosts, that nothing
 * earlier on the command line has named. */
static int pick_relative(struct choice *c)
{
    const char *text = c->word->name;
    int n = INT_MAX, code = 0;

    if (!c->base)
        return launch_usage("%s: '%s' counts hosts of an allocation or of --hostfile, and there is "
                            "neither",
                            c->where, text);
    if (text[1] == 'n' || text[1] == 'N') {
        if (!launch_number(text + 2, 0, INT_MAX, &n) || n >= c->hosts->n)
            return launch_usage("%s: '%s' is not in +n0..+n%d, the hosts of %s", c->where, text,
                                c->hosts->n - 1, c->base);
        return pick(c, n);
    }
    const char *number = text + 2 + (text[1] && text[2] == ':');
    if ((text[1] != 'e' && text[1] != 'E') ||
        (text[2] && !launch_number(number, 1, LAUNCH_HOSTS_MOST, &n)))
        return launch_usage("%s: '%s' is no host; expected +nK, +e or +eN", c->where, text);
    int found = 0;
    for (int h = 0; h < c->hosts->n && found < n && !code; h++) {
        if ((c->taken && c->taken[h]) || (h < c->cap && c->pick_of[h]))
            continue;
        code = pick(c, h);
        found++;
    }
    if (!code && (found == 0 || (n != INT_MAX && found < n)))
        code = launch_usage("%s: '%s': %s has %d host%s that nothing before uses", c->where, text,
                            c->base, found, found == 1 ? "" : "s");
    return code;
}

static int pick_word(void *arg, const char *where, const struct launch_word *word)
{
    struct choice *c = arg;
    c->word = word;
    c->where = where;
    return word->name[0] == '+' ? pick_relative(c) : launch_ranges(where, word->name, pick_name, c);
}

/* The ranks that a choice allows on its host; 0: as many as the host has slots. */
static void settle(struct choice *c)
{
    for (int i = 0; i < c->npicks; i++) {
        struct launch_pick *p = &c->picks[i];
        if (p->slots || p->silent > 1)
            p->slots += p->silent;
        p->silent = 0;
    }
}

static int pick_text(struct choice *c, const char *where, const char *text)
{
    struct launch_word w;
    int code = 0;
    while (*text && !code) {
        size_t len = launch_word_len(text);
        code = launch_word_parse(where, text, len, &w);
        if (!code)
            code = pick_word(c, where, &w);
        text += len + (text[len] == ',');
    }
    return code;
}

/* ---- the base ---- */

/* Gives new hosts the slots of the list that added them. */
static void give_slots(struct launch_hosts *hosts, const struct choice *c)
{
    for (int i = 0; i < c->npicks; i++) {
        struct launch_host *h = &hosts->v[c->picks[i].host];
        h->slots = c->picks[i].slots;
        h->slots_given = h->slots > 0;
        h->max_slots = c->picks[i].max_slots;
    }
}

/* Keeps those hosts of an allocation that a file names, in the order of the file and with at most
 * its slots. */
static int filter(struct launch_hosts *hosts, const struct choice *c)
{
    struct launch_hosts kept = { 0 };
    while (kept.cap < c->npicks)
        if (!grow(&kept))
            return launch_usage("out of memory");
    for (int i = 0; i < c->npicks; i++) {
        const struct launch_pick *p = &c->picks[i];
        struct launch_host *h = &kept.v[kept.n];
        *h = hosts->v[p->host];
        hosts->v[p->host].name = NULL;
        enter(&kept, kept.n++);
        if (p->slots && (!h->slots_given || p->slots < h->slots))
            h->slots = p->slots;
        h->slots_given |= p->slots > 0;
        h->max_slots = p->max_slots;
    }
    hosts_fini(hosts);
    *hosts = kept;
    return 0;
}

/* Reads the hosts of all --hostfile options, within the allocation if there is one. */
static int read_files(struct launch_resources *r, struct launch_hosts *hosts, const char **base)
{
    struct choice c = { .base = *base, .hosts = hosts };
    int code = 0;

    for (int i = 0; i < r->hostfiles.n && !code; i++) {
        int before = c.npicks;
        code = launch_hostfile_read(r->hostfiles.v[i], pick_word, &c);
        if (!code && c.npicks == before && !c.npicks)
            code = launch_usage("--hostfile: '%s' names no host", r->hostfiles.v[i]);
    }
    settle(&c);
    if (!code && r->hostfiles.n && *base)
        code = filter(hosts, &c);
    else if (!code)
        give_slots(hosts, &c);
    if (r->hostfiles.n && !*base)
        *base = "the hostfile";
    free(c.picks);
    free(c.pick_of);
    return code;
}

/* ---- --host ---- */

/* Without a base, the slots of a host are the sum over all programs that name it, or the number of
 * its cores if one of them gives no number. */
static void add_slots(struct launch_hosts *hosts, const struct launch_app *app)
{
    for (int i = 0; i < app->npicks; i++) {
        struct launch_host *h = &hosts->v[app->picks[i].host];
        int slots = app->picks[i].slots;
        h->slots_given = slots > 0 && (h->slots_given || !h->named);
        h->slots = h->slots_given ? h->slots + slots : 0;
        h->named = true;
    }
}

static int choose(struct launch_opts *o, struct launch_hosts *hosts, const char *base)
{
    bool *taken = calloc((size_t)hosts->n + 1, sizeof *taken);
    int code = taken ? 0 : launch_usage("out of memory");

    for (int a = 0; a < o->napps && !code; a++) {
        struct launch_app *app = &o->apps[a];
        struct choice c = { .base = base, .hosts = hosts, .taken = taken };
        if (!app->where)
            continue;
        code = pick_text(&c, "--host", app->where);
        if (!code && !c.npicks)
            code = launch_usage("--host: '%s' names no host", app->where);
        settle(&c);
        app->picks = c.picks;
        app->npicks = c.npicks;
        free(c.pick_of);
        if (!base)
            add_slots(hosts, app);
        for (int i = 0; base && i < c.npicks; i++)
            taken[c.picks[i].host] = true;
    }
    free(taken);
    return code;
}

/* A job that the ranks spawn may use the host. */
static void drop_host(struct launch_resources *r, struct launch_host *host)
{
    if (host->slots_given)
        launch_list_addf(&r->spare, "%s:%d", host->name, host->slots);
    free(host->name);
}

void launch_hosts_keep(struct launch_opts *o, const bool *keep)
{
    struct launch_resources *r = &o->resources;
    int *now = calloc((size_t)r->nhosts + 1, sizeof *now), n = 0;
    if (!now)
        return; /* unused hosts do no harm */
    for (int h = 0; h < r->nhosts; h++) {
        now[h] = n;
        if (keep[h])
            r->hosts[n++] = r->hosts[h];
        else
            drop_host(r, &r->hosts[h]);
    }
    r->nhosts = n;
    for (int a = 0; a < o->napps; a++) {
        struct launch_app *app = &o->apps[a];
        int left = 0;
        for (int i = 0; i < app->npicks; i++)
            if (keep[app->picks[i].host]) {
                app->picks[left] = app->picks[i];
                app->picks[left++].host = now[app->picks[i].host];
            }
        app->npicks = left;
    }
    free(now);
}

/* Removes the hosts that no program uses. */
static int drop_unused(struct launch_opts *o)
{
    bool *keep = calloc((size_t)o->resources.nhosts + 1, sizeof *keep);
    if (!keep)
        return launch_usage("out of memory");
    for (int a = 0; a < o->napps; a++) {
        for (int i = 0; i < o->apps[a].npicks; i++)
            keep[o->apps[a].picks[i].host] = true;
        for (int h = 0; !o->apps[a].where && h < o->resources.nhosts; h++)
            keep[h] = true;
    }
    launch_hosts_keep(o, keep);
    free(keep);
    return launch_assign_ahead(o);
}

int launch_choose_hosts(struct launch_opts *o)
{
    struct launch_resources *r = &o->resources;
    struct launch_alloc alloc = { 0 };
    int code = launch_alloc_find(&alloc);
    const char *base = alloc.hosts.n ? alloc.name : NULL;
    bool selected = r->hostfiles.n > 0;

    if (!code)
        code = read_files(r, &alloc.hosts, &base);
    if (!code)
        code = choose(o, &alloc.hosts, base);
    r->hosts = alloc.hosts.v;
    r->nhosts = alloc.hosts.n;
    free(alloc.hosts.table);
    r->slurm = alloc.slurm;
    for (int a = 0; a < o->napps; a++)
        selected |= o->apps[a].where != NULL;
    r->cpus_per_rank = alloc.cpus_per_task;
    r->default_n = selected ? 0 : alloc.n;
    return code || !r->nhosts ? code : drop_unused(o);
}

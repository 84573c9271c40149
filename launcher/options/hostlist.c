/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of host lists: counts after names, and ranges of hosts and counts in Slurm's notation.
 * No state. */
#include "launcher/options/hosts.h"
#include "launcher/options/options.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"

size_t launch_word_len(const char *text)
{
    size_t len = 0;
    for (int depth = 0; text[len] && (depth > 0 || text[len] != ','); len++)
        depth += (text[len] == '[') - (text[len] == ']');
    return len;
}

bool launch_number(const char *text, int low, int high, int *out)
{
    if (!*text || text[strspn(text, DIGITS)] || strlen(text) > 9)
        return false;
    long v = strtol(text, NULL, 10);
    if (v < low || v > high)
        return false;
    *out = (int)v;
    return true;
}

/* Position of the colon before a count; a colon inside an address or a range does not count.  NULL:
 * there is no count. */
static const char *count_colon(const char *text)
{
    const char *close = strrchr(text, ']'), *colon = strchr(close ? close : text, ':');
    if (!close && colon && strchr(colon + 1, ':'))
        return NULL; /* two colons: an IPv6 address */
    return colon;
}

/* Characters of host names, users, addresses and ranges.  A leading '-' is excluded, because ssh
 * would take it for an option. */
static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS
                                  "-_.:@%[],";
    return *launch_bare_name(name) && *name != '-' && *name != '@' &&
           !name[strspn(name, letters)] && !strstr(name, "@-");
}

/* Changes "[fe80::1]" to fe80::1, with a user before or inside the brackets.  These are not a
 * range. */
static void strip_brackets(char *name)
{
    char *open = strchr(name, '['), *close = name + strlen(name) - 1;
    if (!open || (open > name && open[-1] != '@') || *close != ']' || !strchr(open, ':'))
        return;
    *close = '\0';
    memmove(open, open + 1, (size_t)(close - open));
}

/* Whether each colon belongs to a count or an address ("a:2:4" is invalid).  Names with ranges are
 * left to the remote shell. */
static bool is_colon_right(const char *name)
{
    struct in6_addr addr;
    return !strchr(name, ':') || strchr(name, '[') ||
           launch_is_address(launch_bare_name(name), &addr);
}

int launch_word_parse(const char *where, const char *text, size_t len, struct launch_word *out)
{
    char word[sizeof out->name + 16];

    *out = (struct launch_word){ .slots = 0 };
    if (len >= sizeof out->name)
        return launch_usage("%s: '%.20s...' is too long for the name of a host", where, text);
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    /* the colon of "+e:2" is part of the word */
    bool relative = word[0] == '+', empty = relative && (word[1] == 'e' || word[1] == 'E');
    const char *colon = empty ? NULL : count_colon(word);
    if (colon && strcmp(colon + 1, "*") &&
        !launch_number(colon + 1, 1, LAUNCH_SLOTS_MOST, &out->slots))
        return launch_usage("%s: %.*s: '%s' is not a number in 1..%d", where, (int)(colon - word),
                            word, colon + 1, LAUNCH_SLOTS_MOST);
    snprintf(out->name, sizeof out->name, "%.*s",
             colon ? (int)(colon - word) : (int)sizeof out->name - 1, word);
    if (!relative && !is_name(out->name))
        return launch_usage("%s: '%s' is not the name of a host", where, out->name);
    strip_brackets(out->name);
    if (!relative && !is_colon_right(out->name))
        return launch_usage("%s: '%s' is neither HOST:N nor an address", where, out->name);
    return 0;
}

/* ---- ranges ---- */

struct ranges {
    const char *where;
    launch_name_fn *fn;
    void *arg;
    int n; /* names made until now */
};

static int bad_range(const struct ranges *r, const char *text)
{
    return launch_usage("%s: '%.100s' is not a list of hosts; expected as node[01-04,07]", r->where,
                        text);
}

/* Expands the first range of `rest` after `done`; recursion expands the others. */
static int expand(struct ranges *r, const char *done, const char *rest)
{
    char name[256];
    size_t plain = strcspn(rest, "[]");
    const char *p = rest + plain;

    if (!*p) {
        snprintf(name, sizeof name, "%s%s", done, rest);
        if (r->n++ >= LAUNCH_HOSTS_MOST)
            return launch_usage("%s: more than %d hosts", r->where, LAUNCH_HOSTS_MOST);
        return r->fn(r->arg, name);
    }
    const char *close = strchr(p, ']');
    if (*p == ']' || !close || p[1] == ']')
        return bad_range(r, rest);
    for (p++; p <= close; p++) {
        int width = (int)strspn(p, DIGITS), width2 = width;
        unsigned long low = strtoul(p, NULL, 10), high = low;
        if (p[width] == '-') {
            high = strtoul(p + width + 1, NULL, 10);
            width2 = (int)strspn(p + width + 1, DIGITS);
            p += width + 1;
        }
        p += width2;
        if (width < 1 || width > 9 || width2 < 1 || width2 > 9 || high < low ||
            (*p != ',' && *p != ']'))
            return bad_range(r, rest);
        for (; low <= high; low++) {
            int len = snprintf(name, sizeof name, "%s%.*s%0*lu", done, (int)plain, rest, width,
                               low);
            if (len >= (int)sizeof name)
                return bad_range(r, rest);
            int code = expand(r, name, close + 1);
            if (code)
                return code;
        }
    }
    return 0;
}

int launch_ranges(const char *where, const char *text, launch_name_fn *fn, void *arg)
{
    struct ranges r = { .where = where, .fn = fn, .arg = arg };
    return expand(&r, "", text);
}

int launch_counts(const char *text, int *out, int n)
{
    int at = 0;
    while (*text) {
        char *end;
        long count = strtol(text, &end, 10), times = 1;
        if (end == text || count < 0 || count > LAUNCH_HOSTS_MOST)
            return -1;
        if (end[0] == '(' && end[1] == 'x') {
            text = end + 2;
            times = strtol(text, &end, 10);
            if (end == text || *end++ != ')' || times < 1 || times > LAUNCH_HOSTS_MOST)
                return -1;
        }
        for (; times > 0 && at < LAUNCH_HOSTS_MOST; times--, at++)
            if (at < n)
                out[at] = (int)count;
        if (*end && *end != ',')
            return -1;
        text = end + (*end == ',');
    }
    return at;
}

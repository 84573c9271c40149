/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of --map-by, --rank-by, --bind-to, --host and --hostfile.  Main thread, before
 * anything is started. */
#include "launcher/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define WORD_BYTES 64

/* Row i is enum launch_obj i; the first name is the one for messages. */
static const char *const objects[] = {
    [LAUNCH_NODE] = "node board machine", [LAUNCH_PACKAGE] = "package socket",
    [LAUNCH_NUMA] = "numa numanode",      [LAUNCH_L3] = "l3cache l3",
    [LAUNCH_L2] = "l2cache l2",           [LAUNCH_L1] = "l1cache l1",
    [LAUNCH_CORE] = "core slot cpu",      [LAUNCH_HWTHREAD] = "hwthread thread",
};

/* Takes the text up to one of `stops` into word, in lower case; returns what follows. */
static const char *take_word(const char *text, const char *stops, char word[WORD_BYTES])
{
    size_t len = strcspn(text, stops);
    snprintf(word, WORD_BYTES, "%.*s", (int)len, text);
    for (char *p = word; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    return text + len;
}

static int parse_object(const char *option, const char *word, enum launch_obj *out)
{
    for (int i = 0; i < LAUNCH_UNSET; i++)
        if (launch_name_in(objects[i], word)) {
            *out = (enum launch_obj)i;
            return 0;
        }
    return launch_usage(
        "%s: unknown object '%s'; expected core, hwthread, slot, l1cache, l2cache, l3cache, numa, "
        "package, "
        "socket or node",
        option, word);
}

static int parse_count(const char *option, const char *what, const char *text, int *out)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > 65536)
        return launch_usage("%s: %s: '%s' is not a number in 1..65536", option, what, text);
    *out = (int)n;
    return 0;
}

/* "PE=2", "oversubscribe" and so on. */
static int parse_modifier(struct launch_opts *o, const char *option, const char *word)
{
    if (!strncmp(word, "pe=", 3))
        return parse_count(option, "PE", word + 3, &o->pe);
    if (!strcmp(word, "oversubscribe"))
        o->no_oversubscribe = false;
    else if (!strcmp(word, "nooversubscribe") || !strcmp(word, "no-oversubscribe"))
        o->no_oversubscribe = true;
    else if (!strcmp(word, "hwtcpus"))
        o->hwthreads = true;
    else if (!strcmp(word, "corecpus"))
        o->hwthreads = false;
    else if (!strcmp(word, "if-supported"))
        o->bind_if_supported = true;
    else if (strcmp(word, "span") && strcmp(word, "overload-allowed") && strcmp(word, "nolocal") &&
             strcmp(word, "inherit") && strcmp(word, "noinherit"))
        return launch_usage(
            "%s: unknown modifier '%s'; expected PE=N, HWTCPUS, CORECPUS, OVERSUBSCRIBE, "
            "NOOVERSUBSCRIBE, "
            "overload-allowed or if-supported",
            option, word);
    return 0;
}

static int parse_modifiers(struct launch_opts *o, const char *option, const char *text)
{
    char word[WORD_BYTES];
    while (*text) {
        text = take_word(text, ",:", word);
        int code = parse_modifier(o, option, word);
        if (code)
            return code;
        text += *text != '\0';
    }
    return 0;
}

int launch_parse_map(struct launch_opts *o, const char *option, const char *text)
{
    char word[WORD_BYTES];
    const char *rest = take_word(text, ":", word);
    int code;

    if (!*text)
        return parse_object(option, text, &o->map);
    if (!strcmp(word, "ppr")) {               /* ppr:N:object */
        rest = take_word(*rest ? rest + 1 : rest, ":", word);
        code = parse_count(option, "ppr", word, &o->ppr);
        if (code)
            return code;
        rest = take_word(*rest ? rest + 1 : rest, ":", word);
    }
    if (*word || o->ppr) {                    /* ":PE=2" alone is allowed */
        code = parse_object(option, word, &o->map);
        if (code)
            return code;
        o->hwthreads |= o->map == LAUNCH_HWTHREAD;
    }
    return parse_modifiers(o, option, *rest ? rest + 1 : rest);
}

int launch_parse_rank(struct launch_opts *o, const char *option, const char *text)
{
    char word[WORD_BYTES];
    const char *rest = take_word(text, ":", word);
    if (!strcmp(word, "fill"))
        o->order = LAUNCH_CORE;
    else if (!strcmp(word, "span"))
        o->order = LAUNCH_UNSET;
    else {
        int code = parse_object(option, word, &o->order);
        if (code)
            return code;
    }
    return parse_modifiers(o, option, *rest ? rest + 1 : rest);
}

int launch_parse_bind(struct launch_opts *o, const char *option, const char *text)
{
    char word[WORD_BYTES];
    const char *rest = take_word(text, ":", word);
    o->bind_none = !strcmp(word, "none");
    if (!o->bind_none && (*word || !*text)) {
        int code = parse_object(option, word, &o->bind);
        if (code)
            return code;
        o->hwthreads |= o->bind == LAUNCH_HWTHREAD && o->map == LAUNCH_UNSET;
    }
    rest += *rest == ':';
    if (*rest >= '0' && *rest <= '9')         /* MPICH: core:2 */
        return parse_count(option, "objects a rank", rest, &o->pe);
    return parse_modifiers(o, option, rest);
}

/* ---- hosts ---- */

static bool is_this_host(const char *name)
{
    char self[256] = "";
    gethostname(self, sizeof self - 1);
    size_t shortlen = strcspn(self, ".");
    return !strcasecmp(name, "localhost") || !strcmp(name, "127.0.0.1") || !strcmp(name, "::1") ||
           !strcasecmp(name, self) ||
           (strlen(name) >= shortlen && !strncasecmp(name, self, shortlen) &&
            (name[shortlen] == '.' || !name[shortlen]));
}

/* The host of that name, added when it is new. */
static struct launch_host *find_host(struct launch_opts *o, const char *name)
{
    for (int i = 0; i < o->nhosts; i++)
        if (!strcasecmp(o->hosts[i].name, name))
            return &o->hosts[i];
    struct launch_host *hosts = realloc(o->hosts, (size_t)(o->nhosts + 1) * sizeof *hosts);
    char *copy = strdup(name);
    if (hosts)
        o->hosts = hosts;
    if (!hosts || !copy) {
        free(copy);
        return NULL;
    }
    hosts[o->nhosts] = (struct launch_host){ .name = copy, .self = is_this_host(name) };
    return &hosts[o->nhosts++];
}

static int add_host(struct launch_opts *o, const char *option, const char *name, const char *slots)
{
    int n = 1;
    struct launch_host *host = find_host(o, name);
    if (!host)
        return launch_usage("out of memory");
    if (*slots) {
        int code = parse_count(option, name, slots, &n);
        if (code)
            return code;
        host->slots_given = true;
    }
    host->slots += n;
    o->slots += n;
    return 0;
}

int launch_parse_host(struct launch_opts *o, const char *option, const char *text)
{
    char host[256], slots[WORD_BYTES];
    while (*text) {
        size_t len = strcspn(text, ","), name = strcspn(text, ",:");
        snprintf(host, sizeof host, "%.*s", (int)name, text);
        snprintf(slots, sizeof slots, "%.*s", name < len ? (int)(len - name - 1) : 0,
                 text + name + (name < len));
        int code = add_host(o, option, host, slots);
        if (code)
            return code;
        text += len + (text[len] == ',');
    }
    return o->slots ? 0 : launch_usage("%s: expected the name of a host", option);
}

int launch_parse_hostfile(struct launch_opts *o, const char *option, const char *path)
{
    char line[1024], host[256], slots[WORD_BYTES];
    FILE *f = fopen(path, "re");
    int code = 0;

    if (!f)
        return launch_usage("%s: could not open '%s': %s", option, path, strerror(errno));
    while (!code && fgets(line, sizeof line, f)) {
        line[strcspn(line, "#\n")] = '\0';
        char *p = line + strspn(line, " \t\r");
        size_t name = strcspn(p, " \t\r:");
        const char *eq = strstr(p + name, "slots");
        if (!name)
            continue;
        snprintf(host, sizeof host, "%.*s", (int)name, p);
        p += name;
        const char *number = eq ? eq + 5 + strspn(eq + 5, " \t=") : *p == ':' ? p + 1 : "";
        snprintf(slots, sizeof slots, "%.*s", (int)strspn(number, "0123456789"), number);
        code = add_host(o, option, host, slots);
    }
    fclose(f);
    if (!code && !o->slots)
        return launch_usage("%s: '%s' names no host", option, path);
    return code;
}

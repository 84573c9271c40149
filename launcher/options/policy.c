/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of --map-by, --rank-by and --bind-to.  Main thread, before anything is started. */
#include "launcher/options/options.h"

#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 64
#define MAP_WORDS "node or ppr:N:OBJ"

/* Row i is enum launch_obj i; messages use the first name. */
static const char *const objects[] = {
    [LAUNCH_NODE] = "node board machine", [LAUNCH_PACKAGE] = "package socket",
    [LAUNCH_NUMA] = "numa numanode",      [LAUNCH_L3] = "l3cache l3",
    [LAUNCH_L2] = "l2cache l2",           [LAUNCH_L1] = "l1cache l1",
    [LAUNCH_CORE] = "core slot cpu",      [LAUNCH_HWTHREAD] = "hwthread thread",
};

/* Copies the text up to one of `stops` into word, in lower case; returns the rest. */
static const char *take_word(const char *text, const char *stops, char word[WORD_BYTES])
{
    size_t len = strcspn(text, stops);
    snprintf(word, WORD_BYTES, "%.*s", (int)len, text);
    for (char *p = word; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    return text + len;
}

/* or_what: for the message, further words that the option takes. */
static int parse_object(const char *option, const char *word, const char *or_what,
                        enum launch_obj *out)
{
    for (int i = 0; i < LAUNCH_UNSET; i++)
        if (launch_name_in(objects[i], word)) {
            *out = (enum launch_obj)i;
            return 0;
        }
    return launch_usage(
        "%s: unknown object '%s'; expected core, hwthread, slot, l1cache, l2cache, l3cache, numa, "
        "package, socket, %s",
        option, word, or_what);
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

/* A modifier: "PE=2", "oversubscribe" and so on. */
static int parse_modifier(struct launch_placement *p, const char *option, const char *word)
{
    if (!strncmp(word, "pe=", 3))
        return parse_count(option, "PE", word + 3, &p->pe);
    if (!strcmp(word, "oversubscribe"))
        p->oversubscribe = true, p->no_oversubscribe = false;
    else if (!strcmp(word, "nooversubscribe") || !strcmp(word, "no-oversubscribe"))
        p->no_oversubscribe = true, p->oversubscribe = false;
    else if (!strcmp(word, "hwtcpus"))
        p->hwthreads = true;
    else if (!strcmp(word, "corecpus"))
        p->hwthreads = false;
    else if (!strcmp(word, "if-supported"))
        p->bind_if_supported = true;
    else if (!strcmp(word, "nolocal"))
        return launch_usage("%s: NOLOCAL: omit this host from --host or the host file instead",
                            option);
    else if (!strcmp(word, "span"))
        return launch_usage(
            "%s: SPAN: hosts are filled one after the other; 'node' distributes the "
            "ranks over them, 'ppr:N:OBJ' puts equally many on each",
            option);
    else if (strcmp(word, "overload-allowed") && strcmp(word, "inherit") &&
             strcmp(word, "noinherit"))
        return launch_usage(
            "%s: unknown modifier '%s'; expected PE=N, HWTCPUS, CORECPUS, OVERSUBSCRIBE, "
            "NOOVERSUBSCRIBE, overload-allowed or if-supported",
            option, word);
    return 0;
}

static int parse_modifiers(struct launch_placement *p, const char *option, const char *text)
{
    char word[WORD_BYTES];
    while (*text) {
        text = take_word(text, ",:", word);
        int code = parse_modifier(p, option, word);
        if (code)
            return code;
        text += *text != '\0';
    }
    return 0;
}

int launch_parse_map(struct launch_placement *p, const char *option, const char *text)
{
    char word[WORD_BYTES];
    const char *rest = take_word(text, ":", word);
    int code;

    if (!*text)
        return parse_object(option, text, MAP_WORDS, &p->map);
    if (!strcmp(word, "ppr")) { /* ppr:N:object */
        rest = take_word(*rest ? rest + 1 : rest, ":", word);
        code = parse_count(option, "ppr", word, &p->ppr);
        if (code)
            return code;
        rest = take_word(*rest ? rest + 1 : rest, ":", word);
    }
    if (*word || p->ppr) { /* ":PE=2" without an object is allowed */
        code = parse_object(option, word, MAP_WORDS, &p->map);
        if (code)
            return code;
        p->hwthreads |= p->map == LAUNCH_HWTHREAD;
    }
    return parse_modifiers(p, option, *rest ? rest + 1 : rest);
}

int launch_parse_rank(struct launch_placement *p, const char *option, const char *text)
{
    char word[WORD_BYTES];
    const char *rest = take_word(text, ":", word);
    if (!strcmp(word, "fill"))
        p->order = LAUNCH_CORE;
    else if (!strcmp(word, "span"))
        p->order = LAUNCH_UNSET;
    else {
        int code = parse_object(option, word, "node or fill", &p->order);
        if (code)
            return code;
    }
    return parse_modifiers(p, option, *rest ? rest + 1 : rest);
}

int launch_parse_bind(struct launch_placement *p, const char *option, const char *text)
{
    char word[WORD_BYTES];
    const char *rest = take_word(text, ":", word);
    p->bind_none = !strcmp(word, "none");
    if (!p->bind_none && (*word || !*text)) {
        int code = parse_object(option, word, "board or none", &p->bind);
        if (code)
            return code;
        p->hwthreads |= p->bind == LAUNCH_HWTHREAD && p->map == LAUNCH_UNSET;
    }
    rest += *rest == ':';
    if (*rest >= '0' && *rest <= '9') /* MPICH: core:2 */
        return parse_count(option, "objects for each rank", rest, &p->pe);
    return parse_modifiers(p, option, rest);
}

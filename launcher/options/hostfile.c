/* SPDX-License-Identifier: BSD-3-Clause */
/* Host files, in the formats of Open MPI ("host slots=2 max_slots=4") and MPICH ("host:2"). */
#include "launcher/options/hosts.h"
#include "launcher/options/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPACE " \t\r\n\v\f"
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* some editors write it at the start of a file in UTF-8 */

/* Comments begin with "#" or "//". */
static void cut_comment(char *line)
{
    char *slashes = strstr(line, "//");
    line[strcspn(line, "#")] = '\0';
    if (slashes)
        *slashes = '\0';
}

static int parse_key(const char *where, const char *key, const char *value, struct launch_word *w)
{
    static const char slots[] = "slots count cpus cpu", most[] = "max-slots slots-max max-cpus";
    int *to = launch_name_in(slots, key)  ? &w->slots
              : launch_name_in(most, key) ? &w->max_slots
                                          : NULL;
    if (!to)
        return launch_usage("%s: unknown word '%s'; expected one host a line, as HOST slots=N "
                            "max_slots=N or as HOST:N",
                            where, key);
    if (!value)
        return launch_usage("%s: expected a number after '%s'", where, key);
    if (!launch_number(value, 1, LAUNCH_SLOTS_MOST, to))
        return launch_usage("%s: %s: '%s' is not a number in 1..%d", where, key, value,
                            LAUNCH_SLOTS_MOST);
    return 0;
}

/* Parses a host and pairs of a name and a number, separated by "=" or a space. */
static int parse_line(const char *where, char *line, launch_word_fn *fn, void *arg)
{
    struct launch_word w;
    char *state, *key;

    cut_comment(line);
    for (char *p = line; *p; p++)
        *p = *p == '=' ? ' ' : *p;
    char *host = strtok_r(line, SPACE, &state);
    if (!host)
        return 0;
    if (host[launch_word_len(host)])
        return launch_usage("%s: '%s' has a comma; expected one host a line", where, host);
    int code = launch_word_parse(where, host, strlen(host), &w);
    while (!code && (key = strtok_r(NULL, SPACE, &state)))
        code = parse_key(where, key, strtok_r(NULL, SPACE, &state), &w);
    if (!code && w.max_slots && w.slots > w.max_slots)
        return launch_usage("%s: host '%s' has %d slots, and at most %d", where, w.name, w.slots,
                            w.max_slots);
    return code ? code : fn(arg, where, &w);
}

int launch_hostfile_read(const char *path, launch_word_fn *fn, void *arg)
{
    char where[512], *line = NULL;
    size_t cap = 0;
    int code = 0;
    FILE *f = fopen(path, "re");

    if (!f)
        return launch_usage("--hostfile: could not open '%s': %s", path, strerror(errno));
    errno = 0;
    for (int n = 1; !code && getline(&line, &cap, f) >= 0; n++) {
        size_t mark = n == 1 && !strncmp(line, BYTE_ORDER_MARK, 3) ? 3 : 0;
        snprintf(where, sizeof where, "%s line %d", path, n);
        code = parse_line(where, line + mark, fn, arg);
    }
    if (!code && ferror(f))
        code = launch_usage("--hostfile: could not read '%s': %s", path, strerror(errno));
    free(line);
    fclose(f);
    return code;
}

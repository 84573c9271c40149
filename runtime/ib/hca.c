/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the list of devices in cfg.ib_hca: "mlx5_0,mlx5_2:1", "mlx5_*", "^mlx5_bond_0".  Pure
 * functions. */
#include "runtime/ib/dev.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a word, NAME or NAME:PORT, names the port. */
static bool word_names(const char *word, size_t len, const char *dev, int port)
{
    char pattern[80];
    const char *colon = memchr(word, ':', len);
    size_t name_len = colon ? (size_t)(colon - word) : len;
    if (!name_len || name_len >= sizeof pattern)
        return false;
    if (colon && strtol(colon + 1, NULL, 10) != port)
        return false;
    snprintf(pattern, sizeof pattern, "%.*s", (int)name_len, word);
    return fnmatch(pattern, dev, 0) == 0;
}

int rt_ib_listed(const char *list, const char *dev, int port)
{
    bool negative = list[0] == '^';
    int place = 0;
    const char *p = list + negative;
    if (!*p)
        return 0;
    for (; *p; place++) {
        size_t len = strcspn(p, ",");
        if (word_names(p, len, dev, port))
            return negative ? -1 : place;
        p += len + (p[len] == ',');
    }
    return negative ? 0 : -1;
}

static bool word_is_good(const char *word, size_t len)
{
    const char *colon = memchr(word, ':', len);
    size_t name_len = colon ? (size_t)(colon - word) : len;
    if (!name_len || name_len > 64)
        return false;
    if (!colon)
        return true;
    size_t digits = strspn(colon + 1, "0123456789");
    return digits && digits <= 3 && name_len + 1 + digits == len && strtol(colon + 1, NULL, 10) > 0;
}

const char *rt_ib_list_bad(const char *list, int *len)
{
    const char *p = list + (list[0] == '^');
    while (*p) {
        size_t n = strcspn(p, ",");
        if (!word_is_good(p, n)) {
            *len = (int)n;
            return p;
        }
        p += n + (p[n] == ',');
    }
    return NULL;
}

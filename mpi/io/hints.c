/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints of a file: which keys are read.  Under the file's lock. */
#include "mpi/io/hints.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TARGETS 2000 /* of a file of Lustre */

/* False: no number in the range. */
static bool number(const struct wm_info *info, const char *key, int base, int64_t low, int64_t high,
                   int64_t *out)
{
    const char *text = wm_info_find(info, key);
    char *end;
    if (!text)
        return false;
    errno = 0;
    long long v = strtoll(text, &end, base);
    if (errno || end == text || *end || v < low || v > high)
        return false;
    *out = v;
    return true;
}

static void number_int(const struct wm_info *info, const char *key, int base, int high, int *out)
{
    int64_t v;
    if (number(info, key, base, 0, high, &v))
        *out = (int)v;
}

static void choice(const struct wm_info *info, const char *key, enum wm_choice3 *out)
{
    static const char *const names[] = { "automatic", "enable", "disable" };
    const char *text = wm_info_find(info, key);
    for (int i = 0; text && i < 3; i++)
        if (!strcmp(text, names[i]))
            *out = (enum wm_choice3)i;
}

/* The key of the standard: false switches collective buffering off, true leaves the choice. */
static void buffering(const struct wm_info *info, struct wm_hints *h)
{
    const char *text = wm_info_find(info, "collective_buffering");
    if (text && !strcmp(text, "false"))
        h->cb_read = h->cb_write = WM_DISABLE;
    else if (text && !strcmp(text, "true"))
        h->cb_read = h->cb_write = WM_AUTOMATIC;
}

static int keep(struct wm_hints *h, const struct wm_info *info)
{
    int err = h->given ? MPI_SUCCESS : wm_info_create(&h->given);
    for (int i = 0; i < info->n && !err; i++)
        err = wm_info_put(h->given, info->item[i].key, info->item[i].value);
    return err;
}

static void read_values(struct wm_hints *h, const struct wm_info *info)
{
    buffering(info, h);
    choice(info, "romio_cb_read", &h->cb_read);
    choice(info, "romio_cb_write", &h->cb_write);
    number(info, "cb_buffer_size", 10, 1, INT64_MAX / 4, &h->cb_buffer_size);
    number(info, "striping_unit", 10, 0, UINT32_MAX, &h->stripes.nbytes);
    number_int(info, "cb_nodes", 10, INT_MAX, &h->cb_nodes);
    number_int(info, "num_aggregators", 10, INT_MAX, &h->cb_nodes); /* OMPIO's name */
    number_int(info, "striping_factor", 10, MOST_TARGETS, &h->stripes.n);
    number_int(info, "file_perm", 8, 07777, &h->file_perm);
}

int wm_hints_read(struct wm_hints *h, const struct wm_info *info)
{
    if (!info)
        return MPI_SUCCESS;
    read_values(h, info);
    free(h->agg);
    h->agg = NULL;
    return keep(h, info);
}

int64_t wm_hints_check(const struct wm_hints *h, const struct wm_info *info)
{
    struct wm_hints t = *h;
    if (info)
        read_values(&t, info);
    const int64_t v[] = { t.cb_read, t.cb_write, t.cb_buffer_size, t.cb_nodes };
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
        sum = (sum ^ (uint64_t)v[i]) * 0x9e3779b97f4a7c15ull;
    return (int64_t)(sum >> 2);
}

const char *wm_hints_effect(int i, const char **effect)
{
    static const struct {
        const char *key, *effect;
    } table[] = {
        { "file_perm", "permissions of a new file, octal" },
        { "romio_cb_read", "enable: collective reads go through aggregators; disable: each rank "
                           "reads; automatic: by the length of pieces" },
        { "romio_cb_write", "enable: collective writes go through aggregators; disable: each rank "
                            "writes; automatic: by the length of pieces" },
        { "collective_buffering", "false: as romio_cb_... disable; true: automatic" },
        { "cb_buffer_size", "bytes of the file that an aggregator has in memory" },
        { "cb_nodes", "most ranks that aggregate; default: see weft_file_hints(7)" },
        { "num_aggregators", "another name of cb_nodes" },
        { "striping_unit", "bytes of a stripe of a new file (Lustre)" },
        { "striping_factor", "targets of a new file (Lustre)" },
    };
    if (i < 0 || i >= (int)(sizeof table / sizeof table[0]))
        return NULL;
    *effect = table[i].effect;
    return table[i].key;
}

struct wm_hints *wm_hints_create(void)
{
    struct wm_hints *h = calloc(1, sizeof *h);
    if (h)
        h->file_perm = -1;
    return h;
}

void wm_hints_free(struct wm_hints *h)
{
    if (!h)
        return;
    wm_info_destroy(h->given);
    free(h->agg);
    free(h);
}

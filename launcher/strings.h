/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing array of strings, NULL-terminated.  The functions that add strings copy them, and
 * return 0 or -RT_ENOMEM; after an error the list is as before. */
#ifndef LAUNCHER_STRINGS_H
#define LAUNCHER_STRINGS_H

struct launch_list {
    char **v;
    int n;
};

int launch_list_add(struct launch_list *l, const char *text);
int launch_list_addf(struct launch_list *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds NAME=VALUE, replacing an entry of the same NAME. */
int launch_list_setenv(struct launch_list *l, const char *name, const char *value);
void launch_list_fini(struct launch_list *l);

#endif

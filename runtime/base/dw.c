/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens libdw.  Any thread. */
#include "runtime/base/dw.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t off;
} functions[] = {
#define DW_ROW(name, result, params) { #name, offsetof(struct rt_dw, name) },
    DW_FUNCTIONS(DW_ROW)
#undef DW_ROW
};

bool rt_dw_open(const char *so, struct rt_dw *out, char *why, size_t len)
{
    void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(why, len,
                 "no source lines: %s is missing (Debian, Ubuntu: libdw1; Fedora, "
                 "RHEL: elfutils-libs)",
                 so);
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *f = dlsym(lib, functions[i].name);
        if (!f) {
            snprintf(why, len, "no source lines: %s is too old, it has no %s", so,
                     functions[i].name);
            return false;
        }
        memcpy((char *)out + functions[i].off, &f, sizeof f);
    }
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of the interfaces, and the environment of this process.  Any thread. */
#include "launcher/abi/abi.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word, *name;
} kinds[] = {
    [ABI_AUTO] = { "auto", "" },
    [ABI_NONE] = { "none", "no MPI" },
    [ABI_OMPI] = { "ompi", "Open MPI" },
    [ABI_MPICH] = { "mpich", "MPICH" },
    [ABI_STANDARD] = { "", "the standard ABI" },
    [ABI_OTHER] = { "", "another MPI" },
};

const char *abi_name(enum abi_kind kind) { return kinds[kind].name; }
const char *abi_word(enum abi_kind kind) { return kinds[kind].word; }

bool abi_parse(const char *word, enum abi_kind *out)
{
    for (enum abi_kind k = ABI_AUTO; k <= ABI_MPICH; k++)
        if (!strcmp(kinds[k].word, word)) {
            *out = k;
            return true;
        }
    return false;
}

const char *abi_own_env(const void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

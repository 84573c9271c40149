/* SPDX-License-Identifier: BSD-3-Clause */
/* The search of the dynamic loader for a library, as glibc does it. */
#ifndef LAUNCHER_ABI_SEARCH_H
#define LAUNCHER_ABI_SEARCH_H

#include "launcher/abi/elf.h"

/* A file that the loader has mapped, and the file that named it. */
struct abi_object {
    char *path;
    struct abi_elf elf;
    const struct abi_object *loader; /* NULL: the program */
};

/* The file that a library's name means for this object, to be freed; NULL: none was found.
 * *by_rpath: a DT_RPATH names its folder, which LD_LIBRARY_PATH cannot change. */
char *abi_search(const struct abi_object *from, const char *name, const char *library_path,
                 bool *by_rpath);

#endif

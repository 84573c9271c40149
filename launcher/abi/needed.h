/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI libraries that an ELF file needs, directly or through its libraries. */
#ifndef LAUNCHER_ABI_NEEDED_H
#define LAUNCHER_ABI_NEEDED_H

#include "launcher/abi/abi.h"

/* Adds to out->needs what the file at `path` needs, and sets out->kind and out->trouble from them.
 * False: it is no ELF file of this machine. */
bool abi_needed(const char *path, const char *library_path, struct abi_found *out);

#endif

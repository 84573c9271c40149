/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the dynamic section of ELF files.  Files are not trusted: every offset is checked.  Any
 * thread. */
#ifndef LAUNCHER_ABI_ELF_H
#define LAUNCHER_ABI_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct abi_elf {
    const char *base; /* the whole file, mapped; NULL: none */
    size_t len;
    bool valid;          /* an ELF file for this kind of process (32 or 64 bits) */
    uint16_t machine;    /* e_machine */
    bool interpreted;    /* names a dynamic loader: an executable that is not static */
    const void *dynamic; /* its dynamic section, n entries; NULL: none */
    size_t n, strings;   /* offset of the names; SIZE_MAX: none */
    const char *soname, *rpath, *runpath; /* in the mapped file; NULL: none */
};

/* Maps a regular file and reads it.  False: it cannot be read. */
bool abi_elf_open(const char *path, struct abi_elf *e);
void abi_elf_close(struct abi_elf *e);
/* The next library that the file names, from entry *at on, which is advanced; NULL: no more. */
const char *abi_elf_needed(const struct abi_elf *e, size_t *at);
/* Whether the file contains these bytes anywhere. */
bool abi_elf_contains(const struct abi_elf *e, const void *bytes, size_t len);

#endif

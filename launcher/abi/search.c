/* SPDX-License-Identifier: BSD-3-Clause */
/* The search of the dynamic loader for a library: DT_RPATH of the object and of those that loaded
 * it, LD_LIBRARY_PATH, DT_RUNPATH of the object, the loader's cache, the standard folders.
 * Subfolders for kinds of processors (glibc-hwcaps) are left out: they contain variants of a
 * library that is also in the folder itself.  Any thread. */
#include "launcher/abi/search.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CACHE "/etc/ld.so.cache"
#define CACHE_MAGIC "glibc-ld.so.cache1.1"

/* The cache of glibc 2.2 and later: a header, entries, and strings at offsets from the header. */
struct cache_header {
    char magic[sizeof CACHE_MAGIC - 1];
    uint32_t n, len_strings, unused[5];
};
struct cache_entry {
    int32_t flags;
    uint32_t name, path, version;
    uint64_t hwcap;
};

/* A library of this kind of machine, which the loader would take; otherwise it searches on. */
static bool is_library(const char *path, uint16_t machine)
{
    struct abi_elf e;
    bool good = access(path, R_OK) == 0 && abi_elf_open(path, &e);
    if (!good)
        return false;
    good = e.valid && e.machine == machine;
    abi_elf_close(&e);
    return good;
}

static char *if_library(const char *path, uint16_t machine)
{
    return is_library(path, machine) ? strdup(path) : NULL;
}

/* The first of the folders, separated by ":" or ";", that contains the library.  `owner` gives the
 * value of $ORIGIN. */
static char *find_in(const char *folders, const struct abi_object *owner, const char *name,
                     uint16_t machine)
{
    const char *slash = strrchr(owner->path, '/');
    int origin = slash ? (int)(slash - owner->path) : 0;
    char path[PATH_MAX], *found = NULL;

    for (const char *p = folders; p && *p && !found; p += strcspn(p, ":;"), p += *p != '\0') {
        int skip = !strncmp(p, "$ORIGIN", 7) ? 7 : !strncmp(p, "${ORIGIN}", 9) ? 9 : 0;
        int len = (int)strcspn(p, ":;") - skip;
        if (len + skip == 0)
            continue;
        const char *base = !skip ? "" : slash ? owner->path : ".";
        int n = snprintf(path, sizeof path, "%.*s%.*s/%s", skip && slash ? origin : 1, base, len,
                         p + skip, name);
        if (n < (int)sizeof path)
            found = if_library(path, machine);
    }
    return found;
}

static const char *cache_text(const struct abi_elf *cache, size_t off)
{
    const char *text = cache->base + off;
    return off < cache->len && memchr(text, '\0', cache->len - off) ? text : NULL;
}

static char *find_cached(const char *name, uint16_t machine)
{
    struct abi_elf cache;
    struct cache_header head;
    struct cache_entry e;
    char *found = NULL;

    if (!abi_elf_open(CACHE, &cache))
        return NULL;
    if (cache.len > sizeof head && !memcmp(cache.base, CACHE_MAGIC, sizeof head.magic)) {
        memcpy(&head, cache.base, sizeof head);
        size_t room = (cache.len - sizeof head) / sizeof e;
        for (size_t i = 0; i < head.n && i < room && !found; i++) {
            memcpy(&e, cache.base + sizeof head + i * sizeof e, sizeof e);
            const char *its = cache_text(&cache, e.name), *path = cache_text(&cache, e.path);
            if (e.hwcap == 0 && its && path && !strcmp(its, name))
                found = if_library(path, machine);
        }
    }
    abi_elf_close(&cache);
    return found;
}

static char *find_standard(const char *name, uint16_t machine)
{
    static const char *const folders[] = { "/lib64", "/usr/lib64", "/lib", "/usr/lib" };
    char path[PATH_MAX], *found = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && !found; i++)
        if (snprintf(path, sizeof path, "%s/%s", folders[i], name) < (int)sizeof path)
            found = if_library(path, machine);
    return found;
}

char *abi_search(const struct abi_object *from, const char *name, const char *library_path,
                 bool *by_rpath)
{
    uint16_t machine = from->elf.machine;
    char *found = NULL;

    *by_rpath = false;
    if (strchr(name, '/'))
        return if_library(name, machine);
    if (!from->elf.runpath)
        for (const struct abi_object *o = from; o && !found; o = o->loader)
            if (!o->elf.runpath)
                found = find_in(o->elf.rpath, o, name, machine);
    *by_rpath = found;
    if (!found)
        found = find_in(library_path, from, name, machine);
    if (!found)
        found = find_in(from->elf.runpath, from, name, machine);
    if (!found)
        found = find_cached(name, machine);
    return found ? found : find_standard(name, machine);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the dynamic section of ELF files: see elf.h. */
#include "launcher/abi/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* `n` bytes of the file at an offset; NULL: the file is shorter. */
static const void *part(const struct abi_elf *e, size_t off, size_t n)
{
    return off < e->len && n <= e->len - off ? e->base + off : NULL;
}

static const char *text_at(const struct abi_elf *e, size_t off)
{
    const char *text = part(e, off, 1);
    return text && memchr(text, '\0', e->len - off) ? text : NULL;
}

static const ElfW(Phdr) * header(const struct abi_elf *e, const ElfW(Ehdr) * elf, int i)
{
    return part(e, elf->e_phoff + (size_t)i * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
}

/* Offset in the file of an address of the loaded program; SIZE_MAX: none. */
static size_t offset_of(const struct abi_elf *e, const ElfW(Ehdr) * elf, size_t addr)
{
    for (int i = 0; i < elf->e_phnum; i++) {
        const ElfW(Phdr) *p = header(e, elf, i);
        if (p && p->p_type == PT_LOAD && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_filesz)
            return addr - p->p_vaddr + p->p_offset;
    }
    return SIZE_MAX;
}

static void find_dynamic(struct abi_elf *e, const ElfW(Ehdr) * elf)
{
    for (int i = 0; i < elf->e_phnum; i++) {
        const ElfW(Phdr) *p = header(e, elf, i);
        if (!p)
            return;
        e->interpreted |= p->p_type == PT_INTERP;
        if (p->p_type != PT_DYNAMIC || p->p_offset % sizeof(void *))
            continue;
        e->dynamic = part(e, p->p_offset, p->p_filesz);
        e->n = e->dynamic ? p->p_filesz / sizeof(ElfW(Dyn)) : 0;
    }
}

static void read_dynamic(struct abi_elf *e, const ElfW(Ehdr) * elf)
{
    const ElfW(Dyn) *dyn = e->dynamic;

    e->strings = SIZE_MAX;
    for (size_t i = 0; i < e->n; i++) {
        if (dyn[i].d_tag == DT_STRTAB)
            e->strings = offset_of(e, elf, dyn[i].d_un.d_ptr);
        if (dyn[i].d_tag == DT_NULL)
            e->n = i;
    }
    for (size_t i = 0; i < e->n && e->strings != SIZE_MAX; i++) {
        if (dyn[i].d_tag == DT_SONAME)
            e->soname = text_at(e, e->strings + dyn[i].d_un.d_val);
        else if (dyn[i].d_tag == DT_RPATH)
            e->rpath = text_at(e, e->strings + dyn[i].d_un.d_val);
        else if (dyn[i].d_tag == DT_RUNPATH)
            e->runpath = text_at(e, e->strings + dyn[i].d_un.d_val);
    }
}

bool abi_elf_open(const char *path, struct abi_elf *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    *e = (struct abi_elf){ 0 };
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) {
            e->base = p;
            e->len = (size_t)st.st_size;
        }
    }
    if (fd >= 0)
        close(fd);
    const ElfW(Ehdr) *elf = e->base ? part(e, 0, sizeof *elf) : NULL;
    e->valid = elf && !memcmp(elf->e_ident, ELFMAG, SELFMAG) &&
               elf->e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
               elf->e_phentsize == sizeof(ElfW(Phdr)) && elf->e_phoff % sizeof(void *) == 0;
    if (e->valid) {
        e->machine = elf->e_machine;
        find_dynamic(e, elf);
        read_dynamic(e, elf);
    }
    return e->base;
}

void abi_elf_close(struct abi_elf *e)
{
    if (e->base)
        munmap((void *)e->base, e->len);
    *e = (struct abi_elf){ 0 };
}

const char *abi_elf_needed(const struct abi_elf *e, size_t *at)
{
    const ElfW(Dyn) *dyn = e->dynamic;

    while (*at < e->n && e->strings != SIZE_MAX) {
        size_t i = (*at)++;
        const char *text = dyn[i].d_tag == DT_NEEDED ? text_at(e, e->strings + dyn[i].d_un.d_val)
                                                     : NULL;
        if (text)
            return text;
    }
    return NULL;
}

bool abi_elf_contains(const struct abi_elf *e, const void *bytes, size_t len)
{
    return e->base && memmem(e->base, e->len, bytes, len);
}

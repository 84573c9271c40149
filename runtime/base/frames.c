/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/base/frames.h"
#include "runtime/base/atomic.h"

#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

/* Of this library, or of the program that it is linked into; made by the linker, as is _DYNAMIC. */
extern const ElfW(Ehdr) __ehdr_start RT_HIDDEN;

#define BASE ((uintptr_t)&__ehdr_start)

struct walk {
    uint64_t *out;
    int n, max;
    uintptr_t inner; /* the last address in this library; 0: none yet */
};

static bool is_own(uintptr_t pc)
{
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)(BASE + __ehdr_start.e_phoff);
    for (int i = 0; i < __ehdr_start.e_phnum; i++)
        if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X &&
            pc - BASE - p[i].p_vaddr < p[i].p_memsz)
            return true;
    return false;
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *c, void *arg)
{
    struct walk *w = arg;
    uintptr_t pc = _Unwind_GetIP(c);
    if (!pc || w->n == w->max)
        return _URC_END_OF_STACK;
    if (is_own(pc) && !w->n)
        w->inner = pc;
    else if (w->inner)
        w->out[w->n++] = pc;
    return _URC_NO_REASON;
}

/* The loader of some systems stores addresses here, that of others offsets. */
static const void *table(ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return (const void *)(d->d_un.d_ptr < BASE ? d->d_un.d_ptr + BASE : d->d_un.d_ptr);
    return NULL;
}

/* The number of exported symbols: one more than the last index of any chain of the hash table. */
static uint32_t nexported(void)
{
    const uint32_t *h = table(DT_GNU_HASH);
    uint32_t last = 0;
    if (!h)
        return 0;
    uint32_t nbuckets = h[0], first = h[1];
    const uint32_t *buckets = (const uint32_t *)((const ElfW(Addr) *)(h + 4) + h[2]);
    const uint32_t *chains = buckets + nbuckets;
    for (uint32_t i = 0; i < nbuckets; i++)
        last = buckets[i] > last ? buckets[i] : last;
    if (last < first)
        return 0;
    while (!(chains[last - first] & 1))
        last++;
    return last + 1;
}

static const char *exported(uintptr_t pc)
{
    const ElfW(Sym) *s = table(DT_SYMTAB);
    const char *names = table(DT_STRTAB);
    for (uint32_t i = 0, n = s && names ? nexported() : 0; i < n; i++)
        if (s[i].st_shndx != SHN_UNDEF && pc - BASE - s[i].st_value < s[i].st_size)
            return names + s[i].st_name;
    return "";
}

#ifdef __x86_64__
#define FRAME_POINTER 6 /* rbp */
#else
#define FRAME_POINTER 29
#endif

/* The context of a function has the end of the frame that it has called. */
struct find {
    uintptr_t p, begin;
    struct rt_frame f;
    bool own, found; /* own: this library has been seen */
};

static _Unwind_Reason_Code find_frame(struct _Unwind_Context *c, void *arg)
{
    struct find *f = arg;
    uintptr_t at = _Unwind_GetCFA(c);
    if (is_own(_Unwind_GetIP(c)) && !f->f.low) {
        f->own = true;
        return _URC_NO_REASON;
    }
    if (!f->own)
        return _URC_NO_REASON;
    if (!f->f.low)
        f->f.low = at;
    f->f.cfa = at;
    if (f->begin && f->begin <= f->p && f->p < at) {
        f->found = true;
        return _URC_END_OF_STACK;
    }
    f->begin = at;
    f->f.pc = _Unwind_GetIP(c);
    f->f.pointer = _Unwind_GetGR(c, FRAME_POINTER);
    return _URC_NO_REASON;
}

uintptr_t rt_frame_end(const void *p, struct rt_frame *out)
{
    struct find f = { .p = (uintptr_t)p };
    _Unwind_Backtrace(find_frame, &f);
    *out = f.found ? f.f : (struct rt_frame){ .low = f.f.low };
#ifdef __x86_64__
    return f.found ? f.f.cfa - sizeof(void *) : 0; /* the return address */
#else
    return f.found ? f.f.cfa : 0;
#endif
}

const char *rt_frame_name(uint64_t inner)
{
    const char *name = inner ? exported((uintptr_t)inner) : "";
    return name + (strncmp(name, "PMPI", 4) == 0); /* MPI_X is an alias of PMPI_X */
}

void rt_frame_call(uint64_t *inner, uint64_t *caller)
{
    struct walk w = { .out = caller, .max = 1 };
    *caller = 0;
    _Unwind_Backtrace(visit, &w);
    *inner = w.inner;
}

int rt_frames(uint64_t *out, int max, char *call, size_t len)
{
    struct walk w = { .out = out, .max = max };
    _Unwind_Backtrace(visit, &w);
    snprintf(call, len, "%s", rt_frame_name(w.inner));
    return w.n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls the entry points that the GNU C library keeps for programs that replace malloc.  free()
 * stays the library's. */
#include "test/mpi/nomem_alloc.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t len);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static __thread struct {
    bool on;
    long nth, n;
} armed;

void *memalign(size_t align, size_t n);

/* The fake driver does not stand a failed allocation. */
static bool is_of_driver(const void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libcuda");
}

static bool fails(const void *caller)
{
    if (!armed.on || is_of_driver(caller) || ++armed.n != armed.nth)
        return false;
    errno = ENOMEM;
    return true;
}

/* The libraries find these functions in the program. */
#pragma GCC visibility push(default)

void *malloc(size_t n) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t len)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, len);
}
void *realloc(void *p, size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n);
}
void *memalign(size_t align, size_t n) { return aligned_alloc(align, n); }

int posix_memalign(void **p, size_t align, size_t n)
{
    void *got = aligned_alloc(align, n);
    if (got)
        *p = got;
    return got ? 0 : ENOMEM;
}

#pragma GCC visibility pop

void nomem_arm(long nth)
{
    armed.nth = nth;
    armed.n = 0;
    armed.on = true;
}

long nomem_disarm(void)
{
    armed.on = false;
    return armed.n;
}

int nomem_works(void) { return 1; }

#else

void nomem_arm(long nth) { (void)nth; }
long nomem_disarm(void) { return 0; }
int nomem_works(void) { return 0; }

#endif

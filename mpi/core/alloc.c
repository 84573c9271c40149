/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Alloc_mem and MPI_Free_mem (MPI-5.0 section 9.2).  The memory is the caller's, ordinary host
 * memory on whole cache lines: shared memory transports need no more.  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include "runtime/base/atomic.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The alignment that the info asks for, at least a cache line; 0 when the value is no power of two.
 */
static size_t wanted_alignment(const struct wm_info *info)
{
    const char *text = wm_info_find(info, "mpi_minimum_memory_alignment");
    if (!text)
        return RT_CACHE_LINE;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || *end || n == 0 || (n & (n - 1)) || n > SIZE_MAX / 2)
        return 0;
    return n > RT_CACHE_LINE ? (size_t)n : RT_CACHE_LINE;
}

int wm_api_alloc_mem(MPI_Aint size, struct wm_info *info, void *baseptr)
{
    size_t align = wanted_alignment(info);
    if (!align)
        return wm_err(
            MPI_ERR_INFO_VALUE,
            "argument 2 (info): mpi_minimum_memory_alignment is \"%s\"; give a power of two",
            wm_info_find(info, "mpi_minimum_memory_alignment"));
    void *p = NULL;
    if (posix_memalign(&p, align, size > 0 ? (size_t)size : 1) != 0)
        return wm_err(MPI_ERR_NO_MEM,
                      "argument 1 (size): no memory for %lld bytes on multiples of %zu",
                      (long long)size, align);
    memcpy(baseptr, &p, sizeof p); /* `baseptr` points to a pointer of a type that we do not know */
    return MPI_SUCCESS;
}

int wm_api_free_mem(void *base)
{
    free(base);
    return MPI_SUCCESS;
}

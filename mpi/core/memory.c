/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for messages and windows (MPI-5.0 section 9.2).  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include "runtime/base/atomic.h"
#include <stdlib.h>
#include <string.h>

/* The alignment that the info key asks for, when it is a power of two; at least a cache line, so
 * that vector copies of the library and the compiler's own loops start on one. */
static size_t alignment(const struct wm_info *info)
{
    const char *v = wm_info_find(info, "mpi_minimum_memory_alignment");
    unsigned long n = v ? strtoul(v, NULL, 10) : 0;
    return n > RT_CACHE_LINE && !(n & (n - 1)) ? n : RT_CACHE_LINE;
}

int wm_api_alloc_mem(MPI_Aint size, struct wm_info *info, void *baseptr)
{
    void *p;
    if (size < 0)
        return wm_err(MPI_ERR_ARG, "size is %lld; it must not be negative", (long long)size);
    if (posix_memalign(&p, alignment(info), size ? (size_t)size : 1))
        return wm_err(MPI_ERR_NO_MEM, "no memory for %lld bytes", (long long)size);
    memcpy(baseptr, &p, sizeof p); /* a pointer to the user's pointer, of any type */
    return MPI_SUCCESS;
}

int wm_api_free_mem(void *base)
{
    free(base);
    return MPI_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions about the ABI (MPI-5.0 chapter 20).  Usable at any time, by any thread. */
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include <stdio.h>

int wm_api_abi_get_version(int *abi_major, int *abi_minor)
{
    *abi_major = MPI_ABI_VERSION;
    *abi_minor = MPI_ABI_SUBVERSION;
    return MPI_SUCCESS;
}

static int put_size(struct wm_info *i, const char *key, size_t nbytes)
{
    char text[16];
    snprintf(text, sizeof text, "%zu", nbytes);
    return wm_info_put(i, key, text);
}

int wm_api_abi_get_info(struct wm_info **info)
{
    struct wm_info *i = NULL;
    int err = wm_info_create(&i);
    if (err)
        return err;
    err = put_size(i, "mpi_aint_size", sizeof(MPI_Aint));
    if (!err)
        err = put_size(i, "mpi_count_size", sizeof(MPI_Count));
    if (!err)
        err = put_size(i, "mpi_offset_size", sizeof(MPI_Offset));
    if (err)
        wm_info_destroy(i);
    else
        *info = i;
    return err;
}

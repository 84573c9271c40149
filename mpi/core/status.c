/* SPDX-License-Identifier: BSD-3-Clause */
/* Access functions for the fields of a status, for languages and tools that do not see the
 * structure (MPI-5.0 section 3.2.5).  The status belongs to the caller; any thread, in any phase of
 * the library. */
#include "mpi/base/status.h"
#include "mpi/api/bodies.h"

int wm_api_status_get_source(const MPI_Status *status, int *source)
{
    *source = status->MPI_SOURCE;
    return MPI_SUCCESS;
}

int wm_api_status_get_tag(const MPI_Status *status, int *tag)
{
    *tag = status->MPI_TAG;
    return MPI_SUCCESS;
}

int wm_api_status_get_error(const MPI_Status *status, int *err)
{
    *err = status->MPI_ERROR;
    return MPI_SUCCESS;
}

int wm_api_status_set_source(MPI_Status *status, int source)
{
    status->MPI_SOURCE = source;
    return MPI_SUCCESS;
}

int wm_api_status_set_tag(MPI_Status *status, int tag)
{
    status->MPI_TAG = tag;
    return MPI_SUCCESS;
}

int wm_api_status_set_error(MPI_Status *status, int err)
{
    status->MPI_ERROR = err;
    return MPI_SUCCESS;
}

int wm_api_status_set_cancelled(MPI_Status *status, int flag)
{
    wm_status_set_cancelled(status, flag != 0);
    return MPI_SUCCESS;
}

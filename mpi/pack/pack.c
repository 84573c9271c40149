/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Pack and MPI_Unpack (MPI-5.0 section 5.2), and addresses.  The packed form is the data
 * without gaps, in the machine's own representation.  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/pack_any.h"

static int check_type(const struct wm_type *t)
{
    if (t->absent)
        return wm_err(MPI_ERR_TYPE,
                      "%s is not supported by this library (MPI_Type_size gives MPI_UNDEFINED)",
                      t->name);
    if (!t->committed)
        return wm_err(MPI_ERR_TYPE, "the datatype is not committed; call MPI_Type_commit first");
    return MPI_SUCCESS;
}

/* Checks that `count` items fit between the position and the end of the packed buffer. */
static int check_room(int64_t count, const struct wm_type *t, int64_t position, int64_t room,
                      int64_t *nbytes)
{
    int err = check_type(t);
    if (err)
        return err;
    if (position < 0 || position > room)
        return wm_err(MPI_ERR_ARG, "position is %lld, the packed buffer has bytes 0..%lld",
                      (long long)position, (long long)room);
    if (__builtin_mul_overflow(count, t->layout.size, nbytes) || *nbytes > room - position)
        return wm_err(
            MPI_ERR_TRUNCATE,
            "%lld items of %lld bytes do not fit in the %lld bytes that the packed buffer has from "
            "position %lld on",
            (long long)count, (long long)t->layout.size, (long long)(room - position),
            (long long)position);
    return MPI_SUCCESS;
}

int wm_api_pack(const void *inbuf, MPI_Count incount, struct wm_type *datatype, void *outbuf,
                MPI_Count outsize, MPI_Count *position, struct wm_comm *comm)
{
    int64_t nbytes = 0;
    (void)comm; /* all processes have one representation */
    int err = check_room(incount, datatype, *position, outsize, &nbytes);
    if (err)
        return err;
    err = wm_pack_any(&datatype->layout, incount, inbuf, 0, (char *)outbuf + *position, nbytes);
    if (err < 0)
        return wm_any_error(err);
    *position += nbytes;
    return MPI_SUCCESS;
}

int wm_api_unpack(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf,
                  MPI_Count outcount, struct wm_type *datatype, struct wm_comm *comm)
{
    int64_t nbytes = 0;
    (void)comm;
    int err = check_room(outcount, datatype, *position, insize, &nbytes);
    if (err)
        return err;
    err = wm_unpack_any(&datatype->layout, outcount, outbuf, 0, (const char *)inbuf + *position,
                        nbytes);
    if (err < 0)
        return wm_any_error(err);
    *position += nbytes;
    return MPI_SUCCESS;
}

int wm_api_pack_size(MPI_Count incount, struct wm_type *datatype, struct wm_comm *comm,
                     MPI_Count *size)
{
    (void)comm;
    int err = check_type(datatype);
    if (!err && __builtin_mul_overflow(incount, datatype->layout.size, size))
        err = wm_err(MPI_ERR_COUNT,
                     "%lld items of %lld bytes are more than a packed buffer can have",
                     (long long)incount, (long long)datatype->layout.size);
    return err;
}

int wm_api_get_address(const void *location, MPI_Aint *address)
{
    *address = (MPI_Aint)location;
    return MPI_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Type_iov_len and MPIX_Type_iov: the pieces of contiguous data of a datatype, in the order in
 * which they are packed.  Any thread. */
#include "mpi/api/bind.h"
#include "mpi/datatype/type.h"

struct walk {
    MPI_Count skip, room, n; /* pieces to skip; entries of `v`; pieces counted so far */
    MPI_Count max, nbytes;   /* bytes that may be counted; -1: all; counted so far */
    MPIX_Iov *v;             /* NULL: count only */
};

static void visit(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    struct walk *w = arg;
    for (int64_t i = 0; i < nrep; i++, off += stride) {
        if (w->skip > 0) {
            w->skip--;
            continue;
        }
        if (w->v ? w->n == w->room : w->max >= 0 && w->nbytes + len > w->max)
            return;
        if (w->v)
            w->v[w->n] = (MPIX_Iov){ (void *)off, len };
        w->n++;
        w->nbytes += len;
    }
}

static int pieces(MPI_Datatype datatype, struct walk *w, const char *call)
{
    const struct wm_type *t = wm_type_get(datatype);
    if (!t)
        return wm_raise_comm(NULL, wm_bad_type("argument 1 (datatype)", datatype), call);
    rt_layout_each(&t->layout, visit, w);
    return MPI_SUCCESS;
}

static int bad_null(const char *arg, const char *call)
{
    return wm_raise_comm(NULL, wm_bad_null(arg, MPI_ERR_ARG), call);
}

static int bad_number(const char *arg, MPI_Count found, const char *call)
{
    return wm_raise_comm(NULL, wm_bad_number(arg, found, MPI_ERR_ARG), call);
}

WM_EXPORT int PMPIX_Type_iov_len(MPI_Datatype datatype, MPI_Count max_iov_bytes, MPI_Count *iov_len,
                                 MPI_Count *actual_iov_bytes)
{
    static const char call[] = "MPIX_Type_iov_len";
    if (rt_unlikely(!iov_len))
        return bad_null("argument 3 (iov_len)", call);
    if (rt_unlikely(!actual_iov_bytes))
        return bad_null("argument 4 (actual_iov_bytes)", call);
    struct walk w = { .max = max_iov_bytes };
    int err = pieces(datatype, &w, call);
    *iov_len = w.n;
    *actual_iov_bytes = w.nbytes;
    return err;
}
WM_WEAK(MPIX_Type_iov_len);

WM_EXPORT int PMPIX_Type_iov(MPI_Datatype datatype, MPI_Count iov_offset, MPIX_Iov iov[],
                             MPI_Count max_iov_len, MPI_Count *actual_iov_len)
{
    static const char call[] = "MPIX_Type_iov";
    if (rt_unlikely(iov_offset < 0))
        return bad_number("argument 2 (iov_offset)", iov_offset, call);
    if (rt_unlikely(max_iov_len < 0))
        return bad_number("argument 4 (max_iov_len)", max_iov_len, call);
    if (rt_unlikely(!iov && max_iov_len > 0))
        return bad_null("argument 3 (iov)", call);
    if (rt_unlikely(!actual_iov_len))
        return bad_null("argument 5 (actual_iov_len)", call);
    MPIX_Iov none;
    struct walk w = { .skip = iov_offset, .room = max_iov_len, .v = iov ? iov : &none };
    int err = pieces(datatype, &w, call);
    *actual_iov_len = w.n;
    return err;
}
WM_WEAK(MPIX_Type_iov);

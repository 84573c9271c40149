/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to a file in a data representation: items of memory are converted to an image of their
 * form in the file, some items at a time, and the image moves as any contiguous memory does. */
#include "mpi/io/convert.h"
#include "mpi/api/bodies.h"
#include "mpi/io/datarep.h"
#include "mpi/p2p/pack_any.h"
#include "runtime/base/log.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE (1 << 20) /* bytes of an image, if one item is not longer */

/* The library's code for the MPI error of a conversion, whose text is set already. */
static int code(int mpi_err)
{
    return mpi_err == MPI_ERR_NO_MEM ? -RT_ENOMEM : mpi_err ? -RT_ECONVERT : 0;
}

static int by_user(struct wm_iop *op, char *image, int64_t first, int64_t nelems)
{
    const struct wm_datarep *d = op->view->rep;
    MPI_Datatype t = wm_type_handle(op->type);
    int err = MPI_SUCCESS;
    if (d->fn_c[op->write])
        err = d->fn_c[op->write](op->buf, t, nelems, image, first, d->extra);
    else if (nelems <= INT_MAX)
        err = d->fn[op->write](op->buf, t, (int)nelems, image, first, d->extra);
    else
        return -RT_ECONVERT;
    return err ? -RT_ECONVERT : 0;
}

/* Whether the file's form is that of memory, apart from gaps. */
static bool is_identity(const struct wm_iop *op)
{
    const struct wm_datarep *d = op->view->rep;
    return d->extent && !d->fn[op->write] && !d->fn_c[op->write];
}

/* Whole items [first, first + n) of memory to the image, or back. */
static int convert(struct wm_iop *op, char *image, int64_t first, int64_t n)
{
    const struct rt_layout *l = op->mem;
    MPI_Count at = 0, len = n * op->item;
    char *user = (char *)((uintptr_t)op->buf + (uintptr_t)(first * l->extent));
    if (is_identity(op))
        return op->write ? wm_pack_any(l, op->count, op->buf, first * l->size, image, len)
                         : wm_unpack_any(l, op->count, op->buf, first * l->size, image, len);
    if (op->view->rep->extent)
        return by_user(op, image, first * op->type->nelems, n * op->type->nelems);
    return code(op->write
                    ? wm_api_pack_external("external32", user, n, op->type, image, len, &at)
                    : wm_api_unpack_external("external32", image, len, &at, user, n, op->type));
}

/* The file ended within item `first`: its whole elements.  external32: through a copy of the item,
 * so that the rest of the user's item stays as it is. */
static int convert_part(struct wm_iop *op, char *image, int64_t first, int64_t len)
{
    const struct rt_layout *l = op->mem;
    struct wm_datarep_prefix p = wm_datarep_prefix(op->view->rep, op->type, 1, &len);
    int err = 0;
    if (!p.nbytes)
        return 0;
    op->moved += p.nbytes;
    if (is_identity(op))
        return wm_unpack_any(l, op->count, op->buf, first * l->size, image, p.nbytes);
    if (op->view->rep->extent)
        return by_user(op, image, first * op->type->nelems, p.nelems);
    MPI_Count at = 0;
    char *copy = malloc((size_t)l->true_extent), *packed = malloc((size_t)p.nbytes);
    char *item = (char *)((uintptr_t)copy - (uintptr_t)l->true_lb);
    if (!copy || !packed)
        err = -RT_ENOMEM;
    if (!err)
        err = code(wm_api_unpack_external("external32", image, op->item, &at, item, 1, op->type));
    if (!err) {
        rt_layout_pack(l, 1, item, 0, packed, p.nbytes);
        err = wm_unpack_any(l, op->count, op->buf, first * l->size, packed, p.nbytes);
    }
    free(copy);
    free(packed);
    return err;
}

/* User functions expect memory of the host. */
static int convert_some(struct wm_iop *op, char *image, int64_t first, int64_t n, int64_t got)
{
    int64_t whole = op->write ? n : got / op->item, rest = op->write ? 0 : got % op->item;
    if (op->where.kind != WM_MEMORY_HOST && op->view->rep->extent && !is_identity(op))
        return -RT_ENOTSUP;
    int err = convert(op, image, first, whole);
    if (err >= 0 && rest) {
        char *part = image + whole * op->item;
        memset(part + rest, 0, (size_t)(op->item - rest));
        err = convert_part(op, part, first + whole, rest);
    }
    return err < 0 ? err : 0;
}

int wm_convert_run(struct wm_iop *op)
{
    int64_t most = op->item < IMAGE ? IMAGE / op->item : 1, first = 0;
    most = most < op->count ? most : op->count;
    char *image = malloc((size_t)(most * op->item));
    int err = 0;
    if (!image)
        return -RT_ENOMEM;
    if (is_identity(op) && op->item != op->mem->size)
        err = -RT_ECONVERT;
    while (first < op->count && !err) {
        int64_t n = op->count - first < most ? op->count - first : most, len = n * op->item;
        if (op->write)
            err = convert_some(op, image, first, n, len);
        int64_t got = err ? err : wm_iop_move(op, NULL, image, op->pos + first * op->item, len);
        if (got < 0)
            err = (int)got;
        else
            op->moved += got / op->item * op->mem->size;
        if (!err && !op->write)
            err = convert_some(op, image, first, n, got);
        first += n;
        if (got < len)
            break;
    }
    free(image);
    return err;
}

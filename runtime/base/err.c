/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and texts of the internal error codes, from err.def.  Constant data: any thread may
 * call. */
#include "runtime/base/err.h"

static const struct {
    const char *name, *text;
} errs[RT_ERR_COUNT] = {
    [RT_OK] = { "RT_OK", "no error" },
#define RT_ERR(name_, mpi_class, text_) [RT_##name_] = { "RT_" #name_, text_ },
#include "runtime/base/err.def"
#undef RT_ERR
};

/* Row of a code of either sign; -1: the number is no code (also INT_MIN, which is never
 * negated). */
static int row_of(int err)
{
    if (err > -RT_ERR_COUNT && err < RT_ERR_COUNT)
        return err < 0 ? -err : err;
    return -1;
}

const char *rt_err_text(int err)
{
    int i = row_of(err);
    return i < 0 ? "unknown error" : errs[i].text;
}

const char *rt_err_name(int err)
{
    int i = row_of(err);
    return i < 0 ? "RT_E?" : errs[i].name;
}

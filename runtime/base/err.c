/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of the internal error codes, from err.def.  Constant data: any thread may
 * call. */
#include "runtime/base/err.h"

static const char *const texts[RT_ERR_COUNT] = {
    [RT_OK] = "no error",
#define RT_ERR(name_, mpi_class, text_) [RT_##name_] = text_,
#include "runtime/base/err.def"
#undef RT_ERR
};

/* `err` is a code of either sign, or any other number (also INT_MIN, which is never negated). */
const char *rt_err_text(int err)
{
    if (err <= -RT_ERR_COUNT || err >= RT_ERR_COUNT)
        return "unknown error";
    return texts[err < 0 ? -err : err];
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Error codes of everything below mpi/.  A function returns >= 0 on success and -RT_E... on
 * failure.  The function that detects an error logs it once with its cause; callers only pass the
 * code up. */
#ifndef RT_BASE_ERR_H
#define RT_BASE_ERR_H

enum rt_err {
    RT_OK = 0,
#define RT_ERR(name, mpi_class, text) RT_##name,
#include "runtime/base/err.def"
#undef RT_ERR
    RT_ERR_COUNT
};

/* Text for a code of either sign; never NULL. */
const char *rt_err_text(int err);

#endif

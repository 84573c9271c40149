/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for rare reductions.  kernel.h has their contract. */
#include "runtime/gpu/fold_loop.h"
#include "runtime/gpu/fold_rare_kinds.h"

FOLD_KERNEL(weft_fold_1, integers1)
FOLD_KERNEL(weft_fold_2, integers2)
FOLD_KERNEL(weft_fold_wide8, wide8)
FOLD_KERNEL(weft_fold_wide16, wide16)

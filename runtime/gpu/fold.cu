/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that reduce what most programs reduce: floats, integers of 4 and 8 bytes, and the
 * bitwise operations and copies, which do not depend on the type.  kernel.h has their contract. */
#include "runtime/gpu/fold_loop.h"
#include "runtime/gpu/fold_kinds.h"

FOLD_KERNEL(weft_fold_bits, bits)
FOLD_KERNEL(weft_fold_4, numbers4)
FOLD_KERNEL(weft_fold_8, numbers8)
FOLD_KERNEL(weft_fold_f16, halves<f16>)
FOLD_KERNEL(weft_fold_bf16, halves<bf16>)

/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of MPICH's ABI in Fortran: C's, which are ints; mpi/fortran/fort.h includes this. */
#ifndef WX_MPICH_FORT_H
#define WX_MPICH_FORT_H

#include "mpi/foreign/fortran.h"

#define wf_h(type, x) ((type)(uintptr_t)(unsigned)(x))
#define wf_i(handle) ((wf_int)(uintptr_t)(handle))

/* Its module mpi_f08 has names of its own, passes gfortran's descriptors, and has procedures of its
 * own as predefined callbacks (f08.c). */
#define WF_SECTIONS
#undef WF_NAMES
#define WF_NAMES(lower, UPPER, mpich) \
    WF_OTHERS(lower, UPPER); \
    WF_ALIAS(lower##_, mpich)
#undef WF_NAMES_F08
#define WF_NAMES_F08(lower, UPPER, mpich) WF_ALIAS(lower##_, mpich)
#undef WF_F08TS
#define WF_F08TS(name, mpich) mpich
#undef WF_DESC
#define WF_DESC(d) \
    struct wf_desc d##_c; \
    d = wx_desc_in(&d##_c, d)
struct wf_desc;
const struct wf_desc *wx_desc_in(struct wf_desc *to, const void *from);

#define WF_CALLBACK(function, name) \
    extern __typeof__(function) wx_f08_##name __asm__("__mpi_f08_callbacks_MOD_" #name) \
        __attribute__((alias(#function), visibility("default")));

/* Predefined keys have 0x64 or 0x66 in their high bits, and are one higher than C's. */
#define wf_keyval(x) ((x) >> 26 == 0x19 ? (x)-1 : (x))

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked by mpifort into each program and shared library: reports, when that object is loaded, the
 * addresses at which its Fortran code sees the COMMON blocks of mpif.h, and what its compiler
 * stores in LOGICALs.  Compiled for 4-byte and for 8-byte INTEGER and installed as object files.
 * Programs linked without it work if GNU ld linked them and the compiler has the usual kinds. */
#include "mpi/fortran/cells.h"

/* The spellings name and NAME are weak: only some options of some compilers make them. */
#ifdef WF_INTEGER_8
#define LOWER(name) mpif8##name
#define UPPER(name) MPIF8##name
#else
#define LOWER(name) mpif4##name
#define UPPER(name) MPIF4##name
#endif
#define CELL(name, NAME, constant, type, n) \
    extern const char WF_SYMBOL(name)[]; \
    extern const char LOWER(name)[] __attribute__((weak)); \
    extern const char UPPER(NAME)[] __attribute__((weak));
#include "mpi/fortran/cells.def"
#undef CELL
extern const struct wf_kinds WF_SYMBOL(kinds) __attribute__((weak)); /* kinds.f90 */

static const struct wf_start start = {
    .version = WF_START_VERSION,
#ifdef WF_INTEGER_8
    .integer_size = 8,
#else
    .integer_size = 4,
#endif
    .cells = {
#define CELL(name, NAME, constant, type, n) [constant] = WF_SYMBOL(name),
        { {
#include "mpi/fortran/cells.def"
        } },
#undef CELL
#define CELL(name, NAME, constant, type, n) [constant] = LOWER(name),
        { {
#include "mpi/fortran/cells.def"
        } },
#undef CELL
#define CELL(name, NAME, constant, type, n) [constant] = UPPER(NAME),
        { {
#include "mpi/fortran/cells.def"
        } },
#undef CELL
    },
    .kinds = &WF_SYMBOL(kinds),
};

__attribute__((constructor)) static void loaded(void) { weft_fortran_object(&start, true); }
__attribute__((destructor)) static void unloaded(void) { weft_fortran_object(&start, false); }

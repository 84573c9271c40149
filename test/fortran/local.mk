# SPDX-License-Identifier: BSD-3-Clause
# Tests of the Fortran side.  They compile with mpifort when they run: with the build's compiler, or WEFT_FC.
EXTRA_DIST += test/fortran/fc.py test/fortran/record test/fortran/record_gen.py test/fortran/sections \
    test/fortran/sections.f90 test/fortran/text

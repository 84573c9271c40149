# SPDX-License-Identifier: BSD-3-Clause
# Tests of the Fortran side.  They compile with mpifort when they run: with the build's compiler, or WEFT_FC.
EXTRA_DIST += $(addprefix test/fortran/,fc.py record record_gen.py text refused buildsystems programs sections.f90 \
	ranks.f90 callbacks.f90 callbacks_old.f90 callbacks_c.c sentinels.F90 sentinels_main.f90 sentinels_c.c)

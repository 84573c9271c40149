# SPDX-License-Identifier: BSD-3-Clause
# Tests of the Fortran side.  They compile with mpifort when they run: with the build's compiler, or WEFT_FC.
EXTRA_DIST += $(addprefix test/fortran/,bench calls.f90 calls_c.c)
EXTRA_DIST += $(addprefix test/fortran/,fc.py record record_gen.py text refused buildsystems programs device device.f90 generated latency checks.f90 sections.f90 \
	ranks.f90 callbacks.f90 callbacks_old.f90 callbacks_c.c faults.f90 sentinels.F90 sentinels_main.f90 sentinels_c.c mpi1.f)

# Costs of calls beside C, compile time beside Open MPI, latency; on an idle machine.
bench-fortran: all
	@TEST_BUILDDIR=$(abs_top_builddir) TEST_SRCDIR=$(abs_top_srcdir) $(run_python) $(abs_top_srcdir)/test/fortran/bench
.PHONY: bench-fortran

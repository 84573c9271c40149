# SPDX-License-Identifier: BSD-3-Clause
# Rigs: whole systems on one machine.
include test/rig/hosts.mk

EXTRA_DIST += test/rig/net test/rig/net_scale.py test/rig/net_rma.py test/rig/tcp_flood

# Weft MPI under a real Slurm of four virtual nodes; as root on Debian, where it installs what it needs.
EXTRA_DIST += test/rig/slurm test/rig/slurm_rig.py test/rig/slurm.list
check-slurm: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS)
	@$(run_tests) --list=$(abs_top_srcdir)/test/rig/slurm.list $(RUNTESTS)
.PHONY: check-slurm

# Another user of this host attacks jobs; as root.
EXTRA_DIST += test/rig/attack test/rig/attack.list
check-attack: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS)
	@$(run_tests) --list=$(abs_top_srcdir)/test/rig/attack.list $(RUNTESTS)
.PHONY: check-attack

# Weft MPI over soft-RoCE in QEMU guests; as root on Debian, where it installs what it needs.
EXTRA_DIST += test/rig/rdma test/rig/rdma_vm test/rig/rdma_cases test/rig/rdma.list
check-rdma: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS) $(check_DATA)
	@$(abs_top_srcdir)/test/rig/rdma $(RUNTESTS)
.PHONY: check-rdma

# Under and with PMIx 5, which it fetches.
EXTRA_DIST += test/rig/pmix5 test/rig/pmix5.list test/rig/hosts_pmix5
check-pmix5: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS)
	@$(abs_top_srcdir)/test/rig/pmix5 $(run_beside) $(RUNTESTS)
.PHONY: check-pmix5

# A bare Debian 12 and 13 (README's commands in them, half an hour); short, a part of the tests in Debian 13, which has PMIx 5.
EXTRA_DIST += test/rig/fresh
check-fresh:
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/fresh $(FRESH) || test $$? = 77
check-fresh-short:
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/fresh --short || test $$? = 77
.PHONY: check-fresh check-fresh-short

# Ranks, agents and mpirun that are killed at random moments.  KILL='--seconds 600' runs longer, with a new seed.
EXTRA_DIST += test/rig/kill
check-kill: all $(fake_cuda)
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) test/rig/hostrank test/launch/rank test/gpu/coll_victim
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/kill $(KILL)
.PHONY: check-kill

# Programs built for MPICH: test/rig/foreign in the build tree.
EXTRA_DIST += test/rig/foreign

# MPICH's test suite: test/rig/mpich SOURCES [FOLDER ...] in the build tree.
EXTRA_DIST += test/rig/mpich test/rig/mpich.known

# Its Fortran programs; MPICH=SOURCES/test/mpi names MPICH's sources.  77: no sources or no compiler, said by the script.
EXTRA_DIST += test/rig/fortran test/rig/fortran.known
check-fortran-mpich: all
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/fortran "$(MPICH)" $(FOLDERS) || test $$? = 77
.PHONY: check-fortran-mpich

# ScaLAPACK and MUMPS, fetched and built; FORTRAN_APPS='--ranks 4 --work FOLDER scalapack' as the script's head says.  77 as above.
EXTRA_DIST += test/rig/fortran_apps
check-fortran-apps: all
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/fortran_apps $(FORTRAN_APPS) || test $$? = 77
.PHONY: check-fortran-apps

# ROMIO's, PnetCDF's, HDF5's and mpi4py's tests of files; FILES='--work FOLDER hdf5' as the script's head says.  77 as above.
EXTRA_DIST += test/rig/files
check-files: all
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/files $(FILES) || test $$? = 77
.PHONY: check-files

# MPI-CorrBench, code by code.  CORRBENCH=FOLDER has its sources, else they are cloned; CODES='pt2pt rma/Missing'.  77 as above.
EXTRA_DIST += test/rig/corrbench test/rig/corrbench.known test/rig/corrbench.deadlocks
check-corrbench: all
	@CORRBENCH="$(CORRBENCH)" TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/corrbench $(CODES) || \
		test $$? = 77
.PHONY: check-corrbench

# Public programs with threads; MPICH=SOURCES/test/mpi, HLRS=SOURCES of mpi-test-suite; THREADS='mpich/pt2pt hlrs'.  77 as above.
EXTRA_DIST += test/rig/threads test/rig/threads.known
check-threads: all
	@MPICH="$(MPICH)" HLRS="$(HLRS)" TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/threads \
		$(THREADS) || test $$? = 77
.PHONY: check-threads

# Public programs of fault tolerance; ULFM=SOURCES of ulfm-testing.  77: no sources, said by the script.
EXTRA_DIST += test/rig/ulfm test/rig/ulfm.known
check-ulfm: all
	@ULFM="$(ULFM)" TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/ulfm || test $$? = 77
.PHONY: check-ulfm

# SPDX-License-Identifier: BSD-3-Clause
# Targets that test, check and measure.  PYTHONDONTWRITEBYTECODE: the source tree may be read-only.
EXTRA_DIST += test/tool/runtests test/tool/runtests_test test/tool/patience.py test/tool/lsan.supp \
	test/tool/tsan.supp test/tool/lint.allow test/tool/check-layers \
	test/tool/check-exports test/tool/check-sizes test/tool/check-banned test/tool/check-unused \
	test/tool/check-words test/tool/check-docs
run_python = PYTHONDONTWRITEBYTECODE=1 $(PYTHON)
run_tests = TEST_TIMEOUT_SCALE=$${TEST_TIMEOUT_SCALE:-$(TEST_TIMEOUT_SCALE)} $(run_python) \
	$(abs_top_srcdir)/test/tool/runtests --srcdir=$(abs_top_srcdir) --builddir=$(abs_top_builddir)

# Rows without ranks run in parallel, one more than there are cores, because many of them sleep.
run_beside = --jobs=$$(n=`getconf _NPROCESSORS_ONLN`; test $$n -lt 8 || n=8; echo $$((n + 1)))

# make check TESTS='unit/* pt2pt' runs a part; RUNTESTS holds options of runtests.  set -f: patterns are for runtests,
# not for the shell, which would expand them to file names.
check-local:
	@set -f; $(run_tests) $(run_beside) $(RUNTESTS) $(TESTS)
check-all: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS) $(check_DATA)
	@set -f; $(run_tests) $(run_beside) --all $(RUNTESTS) $(TESTS)
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-fortran-apps
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-corrbench
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-threads
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-pmix5 RUNTESTS=--all
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-fresh
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-wheel
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-torch
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-jax
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-packages
	@test -n "$(TESTS)" || $(MAKE) $(AM_MAKEFLAGS) check-containers

check-layers:
	@cd $(srcdir) && $(run_python) test/tool/check-layers
# Of C alone: a program may have functions with the names of Fortran's procedures, MPI_COMM_RANK or mpi_comm_rank_.
foreign_c = P?MPIX?_(T_)?[A-Z][a-z]|P?MPIX_GPU_|P?MPI_T_[a-z]|MPI_(F|F08)_STATUS(ES)?_IGNORE$$|MPI_(UNWEIGHTED|WEIGHTS_EMPTY|T_PVAR_ALL_HANDLES)$$|wx_
check-exports: $(lib_LTLIBRARIES) $(mpich_DATA) $(ompi_DATA)
	@$(SHELL) $(srcdir)/test/tool/check-exports .libs/libmpi_abi.so.1
	@for l in .libs/libmpifort_abi*.so.1; do test ! -e $$l || $(SHELL) $(srcdir)/test/tool/check-exports $$l \
		'(P?MPIX?_|p?mpix?_|mpif[48]|weft_|WEFT_)' || exit; done
	@$(SHELL) $(srcdir)/test/tool/check-exports .libs/weft/mpich/libmpi.so.12 \
		'($(foreign_c)|mpi(priv[12c]|fcmb[59])_$$|MPIR_(F08_MPI_|Dup_fn$$))'
	@$(SHELL) $(srcdir)/test/tool/check-exports .libs/weft/ompi/libmpi.so.40 \
		'($(foreign_c)|(MPI_FORTRAN|mpi_fortran)_|OMPI_C_MPI_|ompi_(mpi|message|request|op)_|_ZN3MPI[0-9])'
	@for l in .libs/weft/mpich/libmpi*fort.so.12 .libs/weft/ompi/libmpi_mpifh.so.40; do test ! -e $$l || \
		$(SHELL) $(srcdir)/test/tool/check-exports $$l '(P?MPIX?_[A-Z0-9_]+$$|p?mpix?_|__mpi_(sizeofs|f08)_|pmpix?r_|ompi_f08_mpi_)' || exit; done
check-sizes:
	@cd $(srcdir) && $(run_python) test/tool/check-sizes
check-banned:
	@cd $(srcdir) && $(run_python) test/tool/check-banned
check-unused:
	@cd $(srcdir) && $(run_python) test/tool/check-unused
check-words:
	@cd $(srcdir) && $(run_python) test/tool/check-words
check-docs:
	@cd $(srcdir) && $(run_python) test/tool/check-docs
# A test that no row of tests.list names would never run; helpers are named by the scripts that start them.
check-listed:
	@cd $(srcdir)/test && for t in $(check_PROGRAMS); do name=$${t##*/}; \
		grep -q "^$${t#test/}\b" tests.list || grep -qw "$$name" launch/* mpi/*.py gpu/*.py rig/* || \
		{ echo "$$t is not in test/tests.list"; bad=1; }; done; test -z "$$bad"
lint: check-layers check-exports check-sizes check-banned check-unused check-words check-docs check-format check-listed
	@echo "lint: nothing found"

# The whole tree, in the dialect of .clang-format as version 14 reads it; other versions differ in details.
formatted = git ls-files '*.c' '*.h' '*.cu' '*.cc' | xargs -r clang-format
check-format:
	@case `clang-format --version 2>/dev/null` in *' 14.'*) ;; *) echo "check-format: needs clang-format 14, not checked"; exit;; esac; \
		cd $(srcdir) && git rev-parse --git-dir >/dev/null 2>&1 || exit 0; \
		$(formatted) --dry-run -Werror 2>&1 | grep -A2 'error:' | head -30 | grep . && echo "make format formats the tree" && exit 1; exit 0
format:
	@command -v clang-format >/dev/null || { echo "make format needs clang-format"; exit 1; }
	@cd $(srcdir) && $(formatted) -i

bench: all
	@$(run_python) $(srcdir)/test/bench/compare --weft-only --builddir=$(abs_top_builddir) $(BENCH)
bench-compare: all
	@$(run_python) $(srcdir)/test/bench/compare --builddir=$(abs_top_builddir) $(BENCH)
bench-io: all
	@$(run_python) $(srcdir)/test/bench/compare --builddir=$(abs_top_builddir) --only io $(BENCH)

.PHONY: check-all check-layers check-exports check-sizes check-banned check-unused check-words check-docs check-format check-listed lint format bench bench-compare bench-io

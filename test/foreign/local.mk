# SPDX-License-Identifier: BSD-3-Clause
# Programs in the ABI of another MPI, compiled with the generated mpi.h of that ABI and linked with its stand-in.  Those in
# test/foreign/ABI/mpi are programs of test/mpi.
foreign_cc = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) $(DEFS) -DTEST_$(foreign_abi) -Impi/foreign/$(foreign_abi)/include $(AM_CPPFLAGS) \
	$(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS)
foreign_test_link = -o $@ $(foreign_shim) -Wl,-rpath,$(abs_top_builddir)/.libs/weft/$(foreign_abi) $(AM_LDFLAGS) $(LDFLAGS) -lm -lpthread
foreign_inputs = test/mpi/mpitest.h test/mpi/ft_test.h test/mpi/mt_jobs.h test/check.h

foreign_names = p2p_wait p2p_status p2p_probe p2p_persist greq comm_attr comm_group coll_reduce \
	coll_move type_make ft_order ft_revoke topo_neighbor io_basic io_datarep rma_windows rma_epochs part_basic tool_vars tool_events session_life
foreign_handles = handles handles_fixed handles.so early late complete own_names own_names.so
mpich_programs = $(addprefix test/foreign/mpich/mpi/,$(foreign_names)) $(addprefix test/foreign/mpich/,$(foreign_handles))
ompi_names = p2p_wait p2p_status greq ft_order ft_revoke comm_attr comm_group coll_reduce topo_neighbor io_datarep rma_windows
ompi_programs = $(addprefix test/foreign/ompi/mpi/,$(ompi_names)) $(addprefix test/foreign/ompi/,$(foreign_handles)) \
	test/foreign/ompi/cxx test/foreign/ompi/cxx_fixed
foreign_programs = $(mpich_programs) $(ompi_programs)
check_DATA += $(foreign_programs)
CLEANFILES += $(foreign_programs)
EXTRA_DIST += $(addprefix test/foreign/,handles.c early.c late.c complete.c own_names.c header fortran fortran.f90 module.f90 f08.f90 section.f90 cxx.cc cxx.hh)

$(mpich_programs): foreign_abi = mpich
$(mpich_programs): foreign_shim = .libs/weft/mpich/libmpi.so.12
$(mpich_programs): .libs/weft/mpich/libmpi.so.12 mpi/foreign/mpich/include/mpi.h $(foreign_inputs)
$(ompi_programs): foreign_abi = ompi
$(ompi_programs): foreign_shim = .libs/weft/ompi/libmpi.so.40
$(ompi_programs): .libs/weft/ompi/libmpi.so.40 mpi/foreign/ompi/include/mpi.h $(foreign_inputs)

$(addprefix test/foreign/mpich/mpi/,$(foreign_names)): test/foreign/mpich/mpi/%: test/mpi/%.c
	$(foreign_cc) $(srcdir)/test/mpi/$*.c $(foreign_test_link)
$(addprefix test/foreign/ompi/mpi/,$(ompi_names)): test/foreign/ompi/mpi/%: test/mpi/%.c
	$(foreign_cc) $(srcdir)/test/mpi/$*.c $(foreign_test_link)
test/foreign/mpich/handles test/foreign/ompi/handles: test/foreign/handles.c
	$(foreign_cc) $(srcdir)/test/foreign/handles.c $(foreign_test_link)
test/foreign/mpich/early test/foreign/ompi/early: test/foreign/early.c
	$(foreign_cc) $(srcdir)/test/foreign/early.c $(foreign_test_link)
test/foreign/mpich/late test/foreign/ompi/late: test/foreign/late.c
	$(foreign_cc) $(srcdir)/test/foreign/late.c $(foreign_test_link)
test/foreign/mpich/complete test/foreign/ompi/complete: test/foreign/complete.c
	$(foreign_cc) $(srcdir)/test/foreign/complete.c $(foreign_test_link)
# The program's library comes after that of MPI.
test/foreign/mpich/own_names.so test/foreign/ompi/own_names.so: test/foreign/own_names.c
	$(foreign_cc) -fPIC -shared -fvisibility=default -DOWN_LIBRARY $(srcdir)/test/foreign/own_names.c -o $@ -Wl,-soname,$(@F) $(AM_LDFLAGS) $(LDFLAGS)
test/foreign/mpich/own_names test/foreign/ompi/own_names: %: test/foreign/own_names.c %.so
	$(foreign_cc) $(srcdir)/test/foreign/own_names.c $(foreign_test_link) $@.so -Wl,-rpath,'$$ORIGIN'
test/foreign/mpich/handles_fixed test/foreign/ompi/handles_fixed: test/foreign/handles.c
	$(foreign_cc) -fno-pie $(srcdir)/test/foreign/handles.c $(foreign_test_link) -no-pie
test/foreign/mpich/handles.so test/foreign/ompi/handles.so: test/foreign/handles.c
	$(foreign_cc) -fPIC -shared -fvisibility=default -Dmain=handles_main $(srcdir)/test/foreign/handles.c $(foreign_test_link)

# Skipped where there is no C++ compiler.
foreign_cxx = $(AM_V_GEN)$(MKDIR_P) $(@D); if ! command -v $(firstword $(CXX)) >/dev/null; then \
	printf '\043!/bin/sh\nexit 77\n' >$@; chmod +x $@; exit 0; fi; \
	$(CXX) -Impi/foreign/$(foreign_abi)/include -I$(top_srcdir) $(CXXFLAGS) $(srcdir)/test/foreign/cxx.cc
foreign_cxx_link = -Wl,--no-as-needed .libs/weft/ompi/libmpi_cxx.so.40 $(foreign_test_link)
test/foreign/ompi/cxx test/foreign/ompi/cxx_fixed: test/foreign/cxx.cc test/foreign/cxx.hh .libs/weft/ompi/libmpi_cxx.so.40
test/foreign/ompi/cxx:
	$(foreign_cxx) -fPIE $(foreign_cxx_link) -pie
test/foreign/ompi/cxx_fixed:
	$(foreign_cxx) -fno-pie $(foreign_cxx_link) -no-pie

# Weft's procedures are stubs.
check_PROGRAMS += test/foreign/arguments test/foreign/arguments_ompi
test_foreign_arguments_SOURCES = test/foreign/arguments.c test/foreign/arguments.h
test_foreign_arguments_CPPFLAGS = $(AM_CPPFLAGS) -DTEST_mpich -DWX_ABI='"mpi/foreign/mpich/abi.h"'
test_foreign_arguments_LDFLAGS = $(AM_LDFLAGS) -no-install
test_foreign_arguments_LDADD = libweft_mpich.la -ldl -lpthread
test_foreign_arguments_ompi_SOURCES = test/foreign/arguments.c test/foreign/arguments.h
test_foreign_arguments_ompi_CPPFLAGS = $(AM_CPPFLAGS) -DWX_ABI='"mpi/foreign/ompi/abi.h"'
test_foreign_arguments_ompi_LDFLAGS = $(AM_LDFLAGS) -no-install
test_foreign_arguments_ompi_LDADD = libweft_ompi.la -ldl -lpthread

# Has no MPI; it opens handles.so.
check_PROGRAMS += test/foreign/opener
test_foreign_opener_SOURCES = test/foreign/opener.c
test_foreign_opener_LDFLAGS = $(AM_LDFLAGS) -no-install
test_foreign_opener_LDADD = -ldl

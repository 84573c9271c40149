# SPDX-License-Identifier: BSD-3-Clause
# Programs in the ABI of another MPI, compiled with the generated mpi.h of that ABI and linked with its stand-in.  Those in
# test/foreign/mpi are programs of test/mpi.
foreign_shim = .libs/weft/mpich/libmpi.so.12
foreign_cc = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) $(DEFS) -Itest/foreign/mpich $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS)
foreign_link = -o $@ $(foreign_shim) -Wl,-rpath,$(abs_top_builddir)/.libs/weft/mpich $(AM_LDFLAGS) $(LDFLAGS) -lm -lpthread
foreign_inputs = $(foreign_shim) test/foreign/mpich/mpi.h test/mpi/mpitest.h test/check.h

foreign_programs = $(addprefix test/foreign/mpi/,p2p_wait p2p_status p2p_probe p2p_persist greq comm_attr comm_group coll_reduce \
	coll_move type_make topo_neighbor io_basic io_datarep rma_windows rma_epochs part_basic tool_vars session_life)
foreign_handles = test/foreign/handles test/foreign/handles_fixed test/foreign/handles.so
check_DATA += $(foreign_programs) $(foreign_handles)
CLEANFILES += $(foreign_programs) $(foreign_handles)
EXTRA_DIST += test/foreign/handles.c test/foreign/README.md

$(foreign_programs): test/foreign/mpi/%: test/mpi/%.c $(foreign_inputs)
	$(foreign_cc) $(srcdir)/test/mpi/$*.c $(foreign_link)
test/foreign/handles: test/foreign/handles.c $(foreign_inputs)
	$(foreign_cc) $(srcdir)/test/foreign/handles.c $(foreign_link)
test/foreign/handles_fixed: test/foreign/handles.c $(foreign_inputs)
	$(foreign_cc) -fno-pie $(srcdir)/test/foreign/handles.c $(foreign_link) -no-pie
test/foreign/handles.so: test/foreign/handles.c $(foreign_inputs)
	$(foreign_cc) -fPIC -shared -fvisibility=default -Dmain=handles_main $(srcdir)/test/foreign/handles.c $(foreign_link)

# Weft's procedures are stubs.
check_PROGRAMS += test/foreign/arguments
test_foreign_arguments_SOURCES = test/foreign/arguments.c test/foreign/arguments.h
test_foreign_arguments_CPPFLAGS = $(AM_CPPFLAGS) -DWX_ABI='"mpi/foreign/mpich/abi.h"'
test_foreign_arguments_LDFLAGS = $(AM_LDFLAGS) -no-install
test_foreign_arguments_LDADD = libweft_mpich.la -ldl -lpthread

# Has no MPI; it opens handles.so.
check_PROGRAMS += test/foreign/opener
test_foreign_opener_SOURCES = test/foreign/opener.c
test_foreign_opener_LDFLAGS = $(AM_LDFLAGS) -no-install
test_foreign_opener_LDADD = -ldl

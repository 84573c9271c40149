# SPDX-License-Identifier: BSD-3-Clause
# Libraries that stand in for those of other MPI implementations: the same sources for each ABI.  They lie in LIBDIR/weft/ABI,
# under each name that programs ask for, and find the C library two folders above; so does the build tree, in .libs.
foreign_sources = mpi/foreign/convert.h mpi/foreign/load.c mpi/foreign/callback.c mpi/foreign/attr.c mpi/foreign/misc.c mpi/foreign/outside.c
foreign_calls = mpi/foreign/weft.h mpi/foreign/calls_1.c mpi/foreign/calls_2.c mpi/foreign/calls_3.c mpi/foreign/calls_4.c
mpich_built = mpi/foreign/mpich/values.h mpi/foreign/mpich/handles.c
ompi_built = mpi/foreign/ompi/values.h mpi/foreign/ompi/objects.h mpi/foreign/ompi/objects.c
foreign_tests = test/foreign/mpich/mpi.h test/foreign/ompi/mpi.h test/foreign/arguments_mpich.h
foreign_built = $(foreign_calls) $(mpich_built) $(ompi_built)
EXTRA_DIST += mpi/foreign/README.md
BUILT_SOURCES += $(foreign_built) $(foreign_tests)

noinst_LTLIBRARIES += libweft_mpich.la
libweft_mpich_la_SOURCES = $(foreign_sources) \
	mpi/foreign/mpich/abi.h mpi/foreign/mpich/data.h mpi/foreign/mpich/data.c mpi/foreign/mpich/extra.c
nodist_libweft_mpich_la_SOURCES = $(foreign_calls) $(mpich_built)
libweft_mpich_la_CPPFLAGS = $(AM_CPPFLAGS) -DWX_ABI='"mpi/foreign/mpich/abi.h"'

mpichdir = $(libdir)/weft/mpich
mpich_DATA = .libs/weft/mpich/libmpi.so.12 .libs/weft/mpich/libmpich.so.12
CLEANFILES += $(mpich_DATA)
$(mpich_DATA): libweft_mpich.la
	$(AM_V_CCLD)$(MKDIR_P) .libs/weft/mpich && $(CC) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -shared -o $@ \
		-Wl,-soname,$(@F) -Wl,--whole-archive .libs/libweft_mpich.a -Wl,--no-whole-archive -lpthread -ldl

noinst_LTLIBRARIES += libweft_ompi.la
libweft_ompi_la_SOURCES = $(foreign_sources) \
	mpi/foreign/ompi/abi.h mpi/foreign/ompi/data.h mpi/foreign/ompi/data.c mpi/foreign/ompi/extra.c
nodist_libweft_ompi_la_SOURCES = $(foreign_calls) $(ompi_built)
libweft_ompi_la_CPPFLAGS = $(AM_CPPFLAGS) -DWX_ABI='"mpi/foreign/ompi/abi.h"'

ompidir = $(libdir)/weft/ompi
ompi_DATA = .libs/weft/ompi/libmpi.so.40
CLEANFILES += $(ompi_DATA)
$(ompi_DATA): libweft_ompi.la
	$(AM_V_CCLD)$(MKDIR_P) .libs/weft/ompi && $(CC) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -shared -o $@ \
		-Wl,-soname,$(@F) -Wl,--whole-archive .libs/libweft_ompi.a -Wl,--no-whole-archive -lpthread -ldl

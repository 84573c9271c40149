# SPDX-License-Identifier: BSD-3-Clause
# Libraries that stand in for those of other MPI implementations: the same sources for each ABI.  They lie in LIBDIR/weft/ABI,
# under each name that programs ask for, and find the C library two folders above; so does the build tree, in .libs.
foreign_sources = mpi/foreign/convert.h mpi/foreign/fortran.h mpi/foreign/load.c mpi/foreign/callback.c mpi/foreign/attr.c mpi/foreign/misc.c \
	mpi/foreign/outside.c
foreign_calls = mpi/foreign/weft.h mpi/foreign/calls_1.c mpi/foreign/calls_2.c mpi/foreign/calls_3.c mpi/foreign/calls_4.c
mpich_built = mpi/foreign/mpich/values.h mpi/foreign/mpich/handles.c
ompi_built = mpi/foreign/ompi/values.h mpi/foreign/ompi/tables.h mpi/foreign/ompi/objects.h mpi/foreign/ompi/objects.c
ompi_fortran_built = mpi/foreign/ompi/f08.c mpi/foreign/ompi/sizeof.c
foreign_headers = mpi/foreign/mpich/include/mpi.h mpi/foreign/ompi/include/mpi.h
foreign_tests = test/foreign/arguments_mpich.h test/foreign/arguments_ompi.h
foreign_built = $(foreign_calls) $(mpich_built) $(ompi_built) $(ompi_fortran_built) $(foreign_headers)
BUILT_SOURCES += $(foreign_built) $(foreign_tests)

# The Fortran sides: sources of mpi/fortran, compiled with the mpi.h of an ABI.
foreign_fortran_sources = mpi/fortran/convert.c mpi/fortran/misc.c mpi/fortran/callback.c mpi/fortran/attr.c mpi/fortran/predefined.c \
	mpi/fortran/removed.c

# An archive of objects becomes a library under each name.  C programs have functions with the names of Fortran's procedures, so
# those are in the Fortran library alone, which needs the library for C.  Libraries that have no archive are empty.
foreign_link = $(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -shared -o $@ -Wl,-soname,$(@F)
foreign_whole = -Wl,--whole-archive $(patsubst %.la,.libs/%.a,$(filter %.la,$^)) -Wl,--no-whole-archive -lpthread -ldl
foreign_over = -Wl,--no-as-needed,--disable-new-dtags,-rpath,'$$ORIGIN' $(filter %.so.12 %.so.40,$^)
foreign_empty = -x c /dev/null -x none

noinst_LTLIBRARIES += libweft_mpich.la
libweft_mpich_la_SOURCES = $(foreign_sources) \
	mpi/foreign/mpich/abi.h mpi/foreign/mpich/data.h mpi/foreign/mpich/data.c mpi/foreign/mpich/extra.c
nodist_libweft_mpich_la_SOURCES = $(foreign_calls) $(mpich_built)
libweft_mpich_la_CPPFLAGS = $(AM_CPPFLAGS) -DWX_ABI='"mpi/foreign/mpich/abi.h"'
libweft_mpich_la_CFLAGS = $(AM_CFLAGS) $(WEFT_GLUE_CFLAGS)

mpichdir = $(libdir)/weft/mpich
mpich_c = .libs/weft/mpich/libmpi.so.12 .libs/weft/mpich/libmpich.so.12
mpich_DATA = $(mpich_c)
mpich_languages = .libs/weft/mpich/libmpicxx.so.12 .libs/weft/mpich/libmpichcxx.so.12
.libs/weft/mpich/lib%cxx.so.12: .libs/weft/mpich/lib%.so.12
	$(foreign_link) $(foreign_empty) $(foreign_over)
if WITH_FORTRAN
noinst_LTLIBRARIES += libweft_mpich_fortran.la
libweft_mpich_fortran_la_SOURCES = $(foreign_fortran_sources) mpi/foreign/mpich/fort.h mpi/foreign/mpich/cells.c \
	mpi/foreign/mpich/sizeof.c mpi/foreign/mpich/f08.c mpi/fortran/section.h mpi/fortran/section.c
nodist_libweft_mpich_fortran_la_SOURCES = $(fortran_forms)
libweft_mpich_fortran_la_CPPFLAGS = -Impi/foreign/mpich/include $(AM_CPPFLAGS) -DWF_ABI='"mpi/foreign/mpich/fort.h"' -DWF_SECOND_CELLS
libweft_mpich_fortran_la_CFLAGS = $(AM_CFLAGS) $(WEFT_GLUE_CFLAGS)
mpich_languages += .libs/weft/mpich/libmpifort.so.12 .libs/weft/mpich/libmpichfort.so.12
.libs/weft/mpich/lib%fort.so.12: .libs/weft/mpich/lib%.so.12 libweft_mpich_fortran.la
	$(foreign_link) $(foreign_whole) $(foreign_over)
endif
mpich_DATA += $(mpich_languages)
CLEANFILES += $(mpich_DATA)
$(mpich_c): libweft_mpich.la
	$(foreign_link) $(foreign_whole)

noinst_LTLIBRARIES += libweft_ompi.la
libweft_ompi_la_SOURCES = $(foreign_sources) mpi/foreign/ompi/abi.h mpi/foreign/ompi/handles.h \
	mpi/foreign/ompi/data.h mpi/foreign/ompi/data.c mpi/foreign/ompi/extra.c mpi/foreign/ompi/cxx.c
nodist_libweft_ompi_la_SOURCES = $(foreign_calls) $(ompi_built)
libweft_ompi_la_CPPFLAGS = $(AM_CPPFLAGS) -DWX_ABI='"mpi/foreign/ompi/abi.h"'
libweft_ompi_la_CFLAGS = $(AM_CFLAGS) $(WEFT_GLUE_CFLAGS)

ompidir = $(libdir)/weft/ompi
ompi_c = .libs/weft/ompi/libmpi.so.40
ompi_DATA = $(ompi_c)
ompi_fortran = .libs/weft/ompi/libmpi_mpifh.so.40
ompi_cxx = .libs/weft/ompi/libmpi_cxx.so.40
ompi_modules = .libs/weft/ompi/libmpi_usempi_ignore_tkr.so.40 .libs/weft/ompi/libmpi_usempif08.so.40
ompi_DATA += $(ompi_cxx)
$(ompi_cxx): $(ompi_c)
	$(foreign_link) $(foreign_empty) $(foreign_over)
if WITH_FORTRAN
noinst_LTLIBRARIES += libweft_ompi_fortran.la
libweft_ompi_fortran_la_SOURCES = $(foreign_fortran_sources) mpi/foreign/ompi/fort.h mpi/foreign/ompi/cells.c
nodist_libweft_ompi_fortran_la_SOURCES = $(fortran_forms) $(ompi_fortran_built)
libweft_ompi_fortran_la_CPPFLAGS = -Impi/foreign/ompi/include $(AM_CPPFLAGS) -DWF_ABI='"mpi/foreign/ompi/fort.h"'
libweft_ompi_fortran_la_CFLAGS = $(AM_CFLAGS) $(WEFT_GLUE_CFLAGS)
ompi_DATA += $(ompi_fortran) $(ompi_modules)
$(ompi_fortran): $(ompi_c) libweft_ompi_fortran.la
	$(foreign_link) $(foreign_whole) $(foreign_over)
$(ompi_modules): $(ompi_fortran)
	$(foreign_link) $(foreign_empty) $(foreign_over)
endif
CLEANFILES += $(ompi_DATA)
$(ompi_c): libweft_ompi.la
	$(foreign_link) $(foreign_whole)

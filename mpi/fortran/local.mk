# SPDX-License-Identifier: BSD-3-Clause
# The Fortran libraries: the same sources for 4-byte and for 8-byte INTEGER.  They know the C library by
# its exported functions only.
fortran_sources = \
	mpi/fortran/fort.h mpi/fortran/cells.h mpi/fortran/cells.def mpi/fortran/cells.c mpi/fortran/convert.c \
	mpi/fortran/hand.h mpi/fortran/misc.c mpi/fortran/callback.c mpi/fortran/attr.c mpi/fortran/predefined.c \
	mpi/fortran/section.h mpi/fortran/section.c mpi/fortran/removed.c
fortran_forms = \
	mpi/fortran/f_p2p.c mpi/fortran/f_buffer.c mpi/fortran/f_coll.c mpi/fortran/f_neighbor.c mpi/fortran/f_type.c \
	mpi/fortran/f_comm.c mpi/fortran/f_object.c mpi/fortran/f_env.c mpi/fortran/f_io.c mpi/fortran/f_rma.c
fortran_built = $(fortran_forms) mpi/fortran/f_operators.c
# What programs are compiled with; weft-mod makes a compiler's modules of the sources.
fortran_texts = $(foreach w,4 8,$(addprefix mpi/fortran/modules/$(w)/,mpif.h types_ts.f90 types_tkr.f90 mpi.f90 \
	mpi_f08_ts.f90 mpi_f08_tkr.f90 kinds.f90)) mpi/fortran/modules/digest
EXTRA_DIST += mpi/fortran/start.c mpi/fortran/probe.f90

if WITH_FORTRAN
lib_LTLIBRARIES += libmpifort_abi.la libmpifort_abi_i8.la
# A program may name only the Fortran library; it finds the C library beside itself.
# libtool would link it anew in the build tree at each `make install` if it knew the C library, and break what runs meanwhile.
fortran_ldflags = $(AM_LDFLAGS) -Wl,-rpath,'$$ORIGIN' -version-info 1:0:0 -no-undefined -Wl,--as-needed,.libs/libmpi_abi.so \
	$(WEFT_LIB_LDFLAGS)
libmpifort_abi_la_SOURCES = $(fortran_sources)
nodist_libmpifort_abi_la_SOURCES = $(fortran_built)
libmpifort_abi_la_CFLAGS = $(AM_CFLAGS) $(WEFT_GLUE_CFLAGS)
libmpifort_abi_la_DEPENDENCIES = libmpi_abi.la
libmpifort_abi_la_LDFLAGS = $(fortran_ldflags)
libmpifort_abi_i8_la_SOURCES = $(fortran_sources)
nodist_libmpifort_abi_i8_la_SOURCES = $(fortran_built)
libmpifort_abi_i8_la_CPPFLAGS = $(AM_CPPFLAGS) -DWF_INTEGER_8
libmpifort_abi_i8_la_CFLAGS = $(AM_CFLAGS) $(WEFT_GLUE_CFLAGS)
libmpifort_abi_i8_la_DEPENDENCIES = libmpi_abi.la
libmpifort_abi_i8_la_LDFLAGS = $(fortran_ldflags)
BUILT_SOURCES += $(fortran_built) $(fortran_texts)

nodist_include_HEADERS += mpi/fortran/modules/4/mpif.h
modulesdir = $(datadir)/weft/fortran
modules4dir = $(modulesdir)/4
modules8dir = $(modulesdir)/8
modules_DATA = mpi/fortran/probe.f90
nodist_modules_DATA = mpi/fortran/modules/digest
nodist_modules4_DATA = $(filter mpi/fortran/modules/4/%,$(fortran_texts))
nodist_modules8_DATA = $(filter mpi/fortran/modules/8/%,$(fortran_texts))

# The objects that mpifort links into each program and shared library.
startdir = $(libdir)/weft
nodist_start_DATA = mpi/fortran/start4.o mpi/fortran/start8.o
CLEANFILES += $(nodist_start_DATA)
fortran_start = $(AM_V_CC)$(CC) $(DEFS) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -fPIC -c -o $@
start_inputs = mpi/fortran/start.c mpi/fortran/cells.h mpi/fortran/cells.def mpi/include/mpi.h
mpi/fortran/start4.o: $(start_inputs)
	$(fortran_start) $(srcdir)/mpi/fortran/start.c
mpi/fortran/start8.o: $(start_inputs)
	$(fortran_start) -DWF_INTEGER_8 $(srcdir)/mpi/fortran/start.c
endif

# The modules of the compiler that configure found; weft-mod runs a test program of it.
fortran_mod =
if WITH_FC
fortran_mod += mpi/fortran/mod/stamp
endif
all-local: $(fortran_mod)
mpi/fortran/mod/stamp: $(fortran_texts) mpi/fortran/probe.f90 weft-mod libmpi_abi.la libmpifort_abi.la
	$(AM_V_GEN)rm -rf mpi/fortran/mod && $(MKDIR_P) mpi/fortran/mod && \
		{ ./weft-mod "$(FC)" 2>mpi/fortran/mod/log || { cat mpi/fortran/mod/log; exit 1; }; }
	$(AM_V_at)touch $@

# For pkg-config: the modules of that compiler; mpif.h for others.
fortran_pc =
if WITH_FORTRAN
fortran_pc += weft-fort.pc
CLEANFILES += weft-fort.pc
weft-fort.pc: weft.pc $(fortran_mod)
	$(AM_V_GEN){ sed '/^Name/,$$d' weft.pc && echo 'Name: weft-fort' && \
		echo 'Description: Weft MPI for Fortran; modules for $(FC), mpif.h for any compiler' && \
		echo 'Version: $(PACKAGE_VERSION)' && echo 'Requires: weft' && echo 'Libs: -L$${libdir} -lmpifort_abi' && \
		mod=$(fortran_mod) && { test -z "$$mod" || mod="-I\$${libdir}/weft/mod/`basename \`./weft-mod --find '$(FC)'\`` "; } && \
		echo "Cflags: $$mod-I\$${includedir}"; } >$@.tmp && mv $@.tmp $@
endif
install-data-hook: install-fortran-modules
install-fortran-modules:
	test -z "$(fortran_mod)" || { $(MKDIR_P) "$(DESTDIR)$(libdir)/weft/mod" && \
		cp -R "`./weft-mod --find '$(FC)'`" "$(DESTDIR)$(libdir)/weft/mod/"; }
uninstall-hook: uninstall-fortran-modules
uninstall-fortran-modules:
	rm -rf "$(DESTDIR)$(libdir)/weft/mod"
clean-local: clean-fortran-modules
clean-fortran-modules:
	rm -rf mpi/fortran/mod
.PHONY: install-fortran-modules uninstall-fortran-modules clean-fortran-modules

# SPDX-License-Identifier: BSD-3-Clause
# mpi.h, bodies.h and the bindings come from the tables; the generator also reads which bodies exist in mpi/*/*.c.
api_inputs = \
	mpi/api/gen.py mpi/api/table.py mpi/api/header.py mpi/api/bodies.py \
	mpi/api/functions.tsv mpi/api/kinds.tsv mpi/api/constants.tsv mpi/api/types.tsv mpi/api/datatype-sizes.tsv \
	mpi/api/rules.tsv
api_headers = mpi/include/mpi.h mpi/api/bodies.h

EXTRA_DIST += $(api_inputs)
nodist_include_HEADERS = mpi/include/mpi.h
BUILT_SOURCES += $(api_headers)
CLEANFILES += $(api_headers) mpi/api/gen.stamp

mpi/api/gen.stamp: $(api_inputs) $(wildcard $(top_srcdir)/mpi/*/*.c)
	$(AM_V_GEN)$(MKDIR_P) mpi/api mpi/include && \
	$(PYTHON) $(top_srcdir)/mpi/api/gen.py --src $(top_srcdir) --out . && touch $@

# Unchanged files keep their time, so what includes them is not rebuilt; a file that was removed is made again.
$(api_headers): mpi/api/gen.stamp
	@test -f $@ || { rm -f mpi/api/gen.stamp; $(MAKE) $(AM_MAKEFLAGS) mpi/api/gen.stamp; }

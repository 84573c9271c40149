# SPDX-License-Identifier: BSD-3-Clause
# mpi.h, bodies.h and the bindings come from the tables; the generator also reads which bodies exist in
# mpi/*/*.c.
api_inputs = \
	mpi/api/gen.py mpi/api/table.py mpi/api/header.py mpi/api/mpi1.py mpi/api/bodies.py mpi/api/bind.py \
	mpi/api/check.py mpi/api/fortran.py mpi/api/fortran_c.py mpi/api/fortran_ts.py mpi/api/fortran_f.py mpi/api/fortran.tsv mpi/api/functions.tsv mpi/api/kinds.tsv mpi/api/constants.tsv \
	mpi/api/types.tsv mpi/api/datatype-sizes.tsv mpi/api/rules.tsv \
	mpi/api/foreign.py mpi/api/foreign_h.py mpi/api/foreign_mpich.py mpi/api/foreign_test.py mpi/foreign/mpich/constants.tsv \
	mpi/api/foreign_ompi.py mpi/foreign/ompi/constants.tsv mpi/foreign/ompi/objects.tsv
api_headers = mpi/include/mpi.h mpi/include/mpi-ext.h mpi/api/bodies.h
api_bindings = \
	mpi/api/bind_abi.c mpi/api/bind_buffer.c mpi/api/bind_coll.c mpi/api/bind_comm.c \
	mpi/api/bind_env.c mpi/api/bind_io.c mpi/api/bind_neighbor.c mpi/api/bind_object.c \
	mpi/api/bind_p2p.c mpi/api/bind_rma.c mpi/api/bind_tool.c mpi/api/bind_type.c

core_sources += mpi/api/bind.h mpi/api/bad.h mpi/api/bad.c mpi/api/api_table.h mpi/api/query_gpu.c mpi/api/ft.c mpi/api/from_store.c mpi/api/language.c mpi/api/notify.h mpi/api/notify.c mpi/api/type_iov.c
dist_man_MANS += mpi/api/MPIX_Comm_revoke.3 mpi/api/MPIX_Init_from_store.3 mpi/api/MPIX_Op_set_x.3 mpi/api/MPIX_Type_iov.3 mpi/api/MPIX_Put_notify.3 mpi/api/MPIX_Query_cuda_support.3 mpi/api/MPIX_GPU_query_support.3 mpi/api/MPIX_GPU_release.3
core_built += $(api_bindings) mpi/api/api_table.c

EXTRA_DIST += $(api_inputs)
nodist_include_HEADERS = mpi/include/mpi.h mpi/include/mpi-ext.h
BUILT_SOURCES += $(api_headers)
CLEANFILES += $(api_headers) $(api_bindings) $(fortran_built) $(fortran_texts) $(foreign_built) $(foreign_tests) mpi/api/api_table.c mpi/api/gen.stamp

# Built in the source tree, the generated sources of mpi/fortran lie among the bodies.
api_bodies = $(filter-out $(top_srcdir)/mpi/api/% $(addprefix $(top_srcdir)/,$(fortran_built) $(foreign_built)),$(wildcard $(top_srcdir)/mpi/*/*.c))
mpi/api/gen.stamp: $(api_inputs) $(api_bodies)
	$(AM_V_GEN)$(MKDIR_P) mpi/api mpi/include && \
	$(PYTHON) $(top_srcdir)/mpi/api/gen.py --src $(top_srcdir) --out . && touch $@

# Unchanged files keep their time, so what includes them is not rebuilt; a file that was removed is made
# again.
$(api_headers) $(api_bindings) mpi/api/api_table.c $(fortran_built) $(fortran_texts) $(foreign_built) $(foreign_tests): mpi/api/gen.stamp
	@test -f $@ || { rm -f mpi/api/gen.stamp; $(MAKE) $(AM_MAKEFLAGS) mpi/api/gen.stamp; }

# The manual pages of the procedures, from the tables and the sentences of man/*.txt.
man_texts = mpi/api/man/common.txt mpi/api/man/p2p.txt mpi/api/man/partitioned.txt mpi/api/man/io.txt mpi/api/man/coll.txt \
	mpi/api/man/type.txt mpi/api/man/comm.txt mpi/api/man/topo.txt mpi/api/man/rma.txt mpi/api/man/env.txt \
	mpi/api/man/info.txt mpi/api/man/process.txt mpi/api/man/external.txt mpi/api/man/deprecated.txt mpi/api/man/language.txt \
	mpi/api/man/tool.txt
man_examples = docs/examples/calls/ring.c docs/examples/calls/any_length.c docs/examples/calls/persistent.c docs/examples/calls/sums.c \
	docs/examples/calls/column.c docs/examples/calls/grid.c docs/examples/calls/hosts.c docs/examples/calls/window.c \
	docs/examples/calls/file.c docs/examples/calls/session.c
EXTRA_DIST += mpi/api/man.py mpi/api/sentences.py $(man_texts) $(man_examples)
dist_man_MANS += mpi/api/man/weft.7
# Messages with cause and remedy: weft_errors(7).  The test says which message of the sources has no entry.
EXTRA_DIST += mpi/api/messages.py mpi/api/messages.txt
nodist_man_MANS += mpi/api/man/weft_errors.7
CLEANFILES += mpi/api/man/weft_errors.7
mpi/api/man/weft_errors.7: mpi/api/messages.py mpi/api/messages.txt
	$(AM_V_GEN)$(MKDIR_P) mpi/api/man && $(PYTHON) $(top_srcdir)/mpi/api/messages.py $@
mpi/api/man3/stamp: mpi/api/man.py mpi/api/sentences.py $(man_texts) $(man_examples) $(api_inputs)
	$(AM_V_GEN)rm -rf mpi/api/man3 && $(PYTHON) $(top_srcdir)/mpi/api/man.py mpi/api/man3 && touch $@
all-local: mpi/api/man3/stamp mpi/api/catalogue.json
# For programs that read manuals: all calls and settings as JSON (llms.txt says where the rest is).
EXTRA_DIST += mpi/api/catalogue.py
nodist_doc_DATA = mpi/api/catalogue.json
CLEANFILES += mpi/api/catalogue.json
mpi/api/catalogue.json: mpi/api/catalogue.py mpi/api/man3/stamp runtime/base/conf_page.py runtime/base/cfg.def
	$(AM_V_GEN)$(PYTHON) $(top_srcdir)/mpi/api/catalogue.py $@ $(PACKAGE_VERSION)
install-data-hook: install-procedure-pages
install-procedure-pages: mpi/api/man3/stamp
	$(MKDIR_P) "$(DESTDIR)$(man3dir)" && $(INSTALL_DATA) mpi/api/man3/*.3 "$(DESTDIR)$(man3dir)"
uninstall-hook: uninstall-procedure-pages
uninstall-procedure-pages: mpi/api/man3/stamp
	pages=`cd mpi/api/man3 && echo *.3` && cd "$(DESTDIR)$(man3dir)" && rm -f $$pages
clean-local: clean-procedure-pages
clean-procedure-pages:
	rm -rf mpi/api/man3
.PHONY: install-procedure-pages uninstall-procedure-pages clean-procedure-pages

# SPDX-License-Identifier: BSD-3-Clause
# What starts jobs.  It needs the runtime only.
bin_PROGRAMS += mpirun
mpirun_SOURCES = $(both_sources) launcher/options.h launcher/hosts.h launcher/main.c launcher/options.c launcher/parse.c \
	launcher/pingjob.c launcher/policy.c launcher/assign.c launcher/hostlist.c launcher/hostfile.c launcher/hosts.c \
	launcher/alloc.c launcher/io.c launcher/end.c launcher/loop.c launcher/head.h launcher/head_state.h launcher/head.c \
	launcher/head_frames.c
mpirun_LDADD = libweft_rt.la

# The agent on each host of a job over several: it lies beside mpirun.
bin_PROGRAMS += weftd
weftd_SOURCES = $(both_sources) launcher/agent.h launcher/agent.c launcher/agent_orders.c launcher/alive.c launcher/pump.h launcher/pump.c
weftd_LDADD = libweft_rt.la

# What mpirun and its agents share.
both_sources = launcher/launch.h launcher/list.c launcher/place.c launcher/show.c launcher/accept.c launcher/server.c \
	launcher/foreign.c launcher/spawn.c launcher/guard.c launcher/wire.h launcher/wire.c launcher/tree.h launcher/tree.c launcher/rsh.c \
	launcher/describe.h launcher/describe.c launcher/relay.h launcher/relay.c


# The compiler wrapper: one script; its names are links to it.
bin_SCRIPTS += mpicc
EXTRA_DIST += launcher/mpicc.in
CLEANFILES += mpicc mpicxx
wrapper_links = mpicxx mpic++ mpiCC
mpicc: launcher/mpicc.in Makefile
	$(AM_V_GEN)sed -e 's|@prefix[@]|$(prefix)|' -e 's|@bindir[@]|$(bindir)|' -e 's|@libdir[@]|$(libdir)|' \
		-e 's|@includedir[@]|$(includedir)|' -e 's|@version[@]|$(PACKAGE_VERSION)|' \
		-e 's|@ldflags[@]|$(WEFT_LDFLAGS)|' -e 's|@CC[@]|$(CC)|' -e 's|@CXX[@]|$(CXX)|' \
		$(srcdir)/launcher/mpicc.in > $@.tmp && chmod +x $@.tmp && mv $@.tmp $@
mpicxx: mpicc
	$(AM_V_GEN)rm -f $@ && $(LN_S) mpicc $@
all-local: mpicxx

install-exec-hook: install-launcher-links
install-launcher-links: install-binPROGRAMS install-binSCRIPTS install-man
	cd $(DESTDIR)$(bindir) && rm -f mpiexec && $(LN_S) mpirun mpiexec
	cd $(DESTDIR)$(bindir) && for l in $(wrapper_links); do rm -f $$l && $(LN_S) mpicc $$l; done
	cd $(DESTDIR)$(man1dir) && rm -f mpiexec.1 && $(LN_S) mpirun.1 mpiexec.1
	cd $(DESTDIR)$(man1dir) && for l in $(wrapper_links); do rm -f $$l.1 && $(LN_S) mpicc.1 $$l.1; done
uninstall-hook: uninstall-launcher-links
uninstall-launcher-links:
	cd $(DESTDIR)$(bindir) && rm -f mpiexec $(wrapper_links)
	cd $(DESTDIR)$(man1dir) && rm -f mpiexec.1 $(wrapper_links:=.1)
.PHONY: install-launcher-links uninstall-launcher-links

# weft_info looks at every layer, so it links the archive, not the library, whose inside is hidden.
bin_PROGRAMS += weft_info
weft_info_SOURCES = launcher/info/info.h launcher/info/main.c launcher/info/paths.c launcher/info/coll.c launcher/info/coll_gpu.c \
	launcher/info/doctor.c launcher/info/tool.c launcher/info/gpu.h launcher/info/gpu.c launcher/info/model.c \
	launcher/info/nvml.c launcher/info/share.c launcher/info/doctor_gpu.c launcher/info/net.c
weft_info_LDADD = libweft_core.la libweft_rt.la

# What mpirun --ping starts.  It names the transport of each pair, so it links the archive as well.
bench_PROGRAMS += weft_ping
weft_ping_SOURCES = launcher/ping/ping.h launcher/ping/main.c launcher/ping/measure.c launcher/ping/report.c
weft_ping_LDADD = libweft_core.la libweft_rt.la

dist_man_MANS += launcher/weftd.8 launcher/mpirun.1 launcher/mpicc.1 launcher/weft_info.1

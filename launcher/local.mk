# SPDX-License-Identifier: BSD-3-Clause
# What starts jobs.  It needs the runtime only.
bin_PROGRAMS += mpirun
mpirun_SOURCES = $(both_sources) $(merge_sources) launcher/mpirun/hang.h launcher/mpirun/hang.c \
	launcher/options/options.h launcher/options/options.c launcher/options/parse.h launcher/options/parse.c \
	launcher/options/policy.c launcher/options/pingjob.c launcher/options/hosts.h launcher/options/hosts.c \
	launcher/options/hostlist.c launcher/options/hostfile.c launcher/options/allocation.c \
	launcher/options/assign.h launcher/options/assign.c launcher/mpirun/main.c launcher/mpirun/loop.h launcher/mpirun/loop.c \
	launcher/mpirun/forward.h launcher/mpirun/forward.c launcher/mpirun/job_end.h launcher/mpirun/job_end.c launcher/mpirun/deaths.h launcher/mpirun/deaths.c launcher/mpirun/head.h \
	launcher/mpirun/head_state.h launcher/mpirun/head.c launcher/mpirun/head_frames.c launcher/mpirun/head_look.c launcher/mpirun/names.h \
	launcher/mpirun/names.c launcher/mpirun/family.h launcher/mpirun/family_state.h launcher/mpirun/family.c \
	launcher/mpirun/spawns.c launcher/mpirun/member.c
mpirun_LDADD = libweft_rt.la

# The agent on each host of a job over several hosts.  It lies beside mpirun.
bin_PROGRAMS += weftd
weftd_SOURCES = $(both_sources) $(merge_sources) launcher/agent/agent.h launcher/agent/agent.c launcher/agent/await.h launcher/agent/await.c launcher/agent/orders.c launcher/agent/alive.c launcher/agent/asks.c \
	launcher/agent/look.c \
	launcher/agent/forward.h launcher/agent/forward.c
weftd_LDADD = libweft_rt.la

# Which MPI a program was built for.
abi_sources = launcher/strings.h launcher/strings.c launcher/abi/abi.h launcher/abi/elf.h launcher/abi/elf.c \
	launcher/abi/search.h launcher/abi/search.c launcher/abi/needed.h launcher/abi/needed.c launcher/abi/program.c \
	launcher/abi/folder.c launcher/abi/choose.c launcher/abi/words.c
# Compiled with the folders of the installation.
launcher/abi/folder.$(OBJEXT): launcher/abi/paths.h
launcher/abi/paths.h: Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && printf '#define ABI_%s "%s"\n' PREFIX '$(prefix)' BINDIR '$(bindir)' LIBDIR '$(libdir)' > $@
BUILT_SOURCES += launcher/abi/paths.h
CLEANFILES += launcher/abi/paths.h

# For other launchers (srun): starts a program with the libraries that mpirun would choose.
bin_PROGRAMS += weft-exec
weft_exec_SOURCES = $(abi_sources) launcher/exec/main.c
weft_exec_LDADD = libweft_rt.la

# The states of processes and their places in the sources.
stack_sources = launcher/explain/process.h launcher/explain/process.c \
	launcher/explain/source.h launcher/explain/source.c

# What mpirun and its agents share.
both_sources = $(abi_sources) launcher/job.h launcher/job.c \
	launcher/host/place.h launcher/host/place.c launcher/host/show.h launcher/host/show.c launcher/host/server.h \
	launcher/host/ask.h launcher/host/server_ask.h launcher/host/server_ask.c launcher/host/server.c launcher/host/accept.c launcher/host/foreign.h launcher/host/foreign.c launcher/host/meet.h launcher/host/meet.c launcher/host/spawn.h \
	launcher/host/spawn.c launcher/host/guard.h launcher/host/guard.c launcher/host/loaded.h launcher/host/loaded.c \
	launcher/tree/tree.h launcher/tree/tree.c launcher/tree/rsh.c \
	launcher/tree/describe.h launcher/tree/describe.c launcher/tree/relay.h launcher/tree/relay.c


# Why a job makes no progress.
explain_sources = launcher/explain/explain.h launcher/explain/wait.c launcher/explain/graph.h launcher/explain/graph.c \
	launcher/explain/edges.h launcher/explain/edges.c launcher/explain/judge.c launcher/explain/print.h launcher/explain/print.c \
	launcher/explain/phrases.c launcher/explain/kinds.c launcher/explain/json.c
collect_sources = $(explain_sources) $(stack_sources) launcher/explain/pages.h launcher/explain/pages.c \
	launcher/explain/collect.h launcher/explain/collect.c launcher/explain/python.h launcher/explain/python.c
merge_sources = $(collect_sources) launcher/explain/merge.h launcher/explain/merge.c

# The compiler wrapper: one script; its names are links to it.
bin_SCRIPTS += mpicc weft-mod
EXTRA_DIST += launcher/mpicc.in launcher/weft-mod.in
CLEANFILES += mpicc mpicxx mpifort weft-mod
wrapper_links = mpicxx mpic++ mpiCC
fortran_links = mpifort mpif90 mpif77
mpicc: launcher/mpicc.in Makefile
	$(AM_V_GEN)sed -e 's|@prefix[@]|$(prefix)|' -e 's|@bindir[@]|$(bindir)|' -e 's|@libdir[@]|$(libdir)|' \
		-e 's|@includedir[@]|$(includedir)|' -e 's|@version[@]|$(PACKAGE_VERSION)|' \
		-e 's|@ldflags[@]|$(WEFT_LDFLAGS)|' -e 's|@CC[@]|$(CC)|' -e 's|@CXX[@]|$(CXX)|' -e 's|@FC[@]|$(FC)|' \
		$(srcdir)/launcher/mpicc.in > $@.tmp && chmod +x $@.tmp && mv $@.tmp $@
mpicxx mpifort: mpicc
	$(AM_V_GEN)rm -f $@ && $(LN_S) mpicc $@
weft-mod: launcher/weft-mod.in Makefile
	$(AM_V_GEN)sed -e 's|@prefix[@]|$(prefix)|' -e 's|@bindir[@]|$(bindir)|' -e 's|@libdir[@]|$(libdir)|' \
		-e 's|@datadir[@]|$(datadir)|' -e 's|@version[@]|$(PACKAGE_VERSION)|' -e 's|@srcdir[@]|$(abs_srcdir)|' \
		-e 's|@ldflags[@]|$(WEFT_LDFLAGS)|' $(srcdir)/launcher/weft-mod.in > $@.tmp && chmod +x $@.tmp && mv $@.tmp $@
all-local: mpicxx mpifort

install-exec-hook: install-launcher-links
install-launcher-links: install-binPROGRAMS install-binSCRIPTS install-man
	cd $(DESTDIR)$(bindir) && rm -f mpiexec && $(LN_S) mpirun mpiexec
	cd $(DESTDIR)$(bindir) && for l in $(wrapper_links) $(fortran_links); do rm -f $$l && $(LN_S) mpicc $$l; done
	cd $(DESTDIR)$(man1dir) && rm -f mpiexec.1 && $(LN_S) mpirun.1 mpiexec.1
	cd $(DESTDIR)$(man1dir) && for l in $(wrapper_links); do rm -f $$l.1 && $(LN_S) mpicc.1 $$l.1; done
	cd $(DESTDIR)$(man1dir) && for l in mpif90 mpif77 weft-mod; do rm -f $$l.1 && $(LN_S) mpifort.1 $$l.1; done
# Completion of command lines, where the shells look for it.  The file for bash has the name of its command.
EXTRA_DIST += launcher/completion/mpirun launcher/completion/mpirun.fish
bashcompdir = $(datadir)/bash-completion/completions
fishcompdir = $(datadir)/fish/vendor_completions.d
install-data-hook: install-completion
install-completion:
	$(MKDIR_P) "$(DESTDIR)$(bashcompdir)" "$(DESTDIR)$(fishcompdir)"
	for c in mpirun mpiexec weft_info; do \
	    $(INSTALL_DATA) $(srcdir)/launcher/completion/mpirun "$(DESTDIR)$(bashcompdir)/$$c" && \
	    $(INSTALL_DATA) $(srcdir)/launcher/completion/mpirun.fish "$(DESTDIR)$(fishcompdir)/$$c.fish" || exit 1; \
	done
uninstall-hook: uninstall-completion
uninstall-completion:
	for c in mpirun mpiexec weft_info; do \
	    rm -f "$(DESTDIR)$(bashcompdir)/$$c" "$(DESTDIR)$(fishcompdir)/$$c.fish"; \
	done
.PHONY: install-completion uninstall-completion

uninstall-hook: uninstall-launcher-links
uninstall-launcher-links:
	cd $(DESTDIR)$(bindir) && rm -f mpiexec $(wrapper_links) $(fortran_links)
	cd $(DESTDIR)$(man1dir) && rm -f mpiexec.1 mpif90.1 mpif77.1 weft-mod.1 $(wrapper_links:=.1)
.PHONY: install-launcher-links uninstall-launcher-links

# weft_info looks at every layer, so it links the archive, not the library, whose inside is hidden.
bin_PROGRAMS += weft_info
weft_info_SOURCES = $(abi_sources) $(collect_sources) launcher/info/running.c launcher/info/started.c launcher/info/abi.c launcher/info/info.h launcher/info/job.h launcher/info/main.c launcher/info/job.c launcher/info/paths.c \
	launcher/info/coll.c launcher/info/coll_gpu.c launcher/info/doctor.c launcher/info/tool.c launcher/info/gpus.h launcher/info/gpus.c launcher/info/predictions.c \
	launcher/info/nvml.c launcher/info/ipc_trial.c launcher/info/doctor_gpu.c launcher/info/doctor_host.c launcher/info/net.c launcher/info/io.c launcher/info/rma.c
weft_info_LDADD = libweft_core.la libweft_rt.la

# What mpirun --ping starts.  It names the transport of each pair, so it links the archive as well.
bench_PROGRAMS += weft_ping
weft_ping_SOURCES = launcher/ping/ping.h launcher/ping/main.c launcher/ping/measure.c launcher/ping/report.c
weft_ping_LDADD = libweft_core.la libweft_rt.la

# What mpirun --self-test becomes.
bench_SCRIPTS += weft_selftest
EXTRA_DIST += launcher/weft_selftest.sh
CLEANFILES += weft_selftest
weft_selftest: launcher/weft_selftest.sh
	$(AM_V_GEN)cp $(srcdir)/launcher/weft_selftest.sh $@ && chmod 755 $@

dist_man_MANS += launcher/weftd.8 launcher/weft-exec.1 launcher/mpirun.1 launcher/mpicc.1 launcher/mpifort.1 launcher/weft_info.1

# SPDX-License-Identifier: BSD-3-Clause
# What starts jobs.  It needs the runtime only.
bin_PROGRAMS += mpirun
mpirun_SOURCES = launcher/launch.h launcher/options.h launcher/main.c launcher/options.c launcher/parse.c launcher/policy.c \
	launcher/list.c launcher/place.c launcher/show.c launcher/server.c launcher/spawn.c launcher/io.c launcher/end.c \
	launcher/loop.c
mpirun_LDADD = libweft_rt.la

install-exec-hook: install-launcher-links
install-launcher-links:
	cd $(DESTDIR)$(bindir) && rm -f mpiexec && $(LN_S) mpirun mpiexec
uninstall-hook: uninstall-launcher-links
uninstall-launcher-links:
	rm -f $(DESTDIR)$(bindir)/mpiexec
.PHONY: install-launcher-links uninstall-launcher-links

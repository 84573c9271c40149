# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/base/frames.h runtime/base/frames.c runtime/base/dw.h runtime/base/dw.c
rt_sources += runtime/base/atomic.h runtime/base/clock.h runtime/base/list.h runtime/base/req.h runtime/base/copy.h runtime/base/memkind.h
rt_sources += runtime/base/err.c runtime/base/err.h runtime/base/err.def
rt_sources += runtime/base/log.c runtime/base/log.h
rt_sources += runtime/base/fd.c runtime/base/fd.h
# Settings: weft.conf(5).
EXTRA_DIST += runtime/base/conf_page.py
nodist_man_MANS += runtime/base/weft.conf.5
CLEANFILES += runtime/base/weft.conf.5
runtime/base/weft.conf.5: runtime/base/conf_page.py runtime/base/cfg.def
	$(AM_V_GEN)$(MKDIR_P) runtime/base && $(PYTHON) $(srcdir)/runtime/base/conf_page.py $(srcdir)/runtime/base/cfg.def $@
rt_sources += runtime/base/quota.c runtime/base/quota.h
rt_sources += runtime/base/near.c runtime/base/near.h
rt_sources += runtime/base/cfg.c runtime/base/cfg.h runtime/base/cfg.def
rt_sources += runtime/base/slab.c runtime/base/slab.h
rt_sources += runtime/base/reserve.c runtime/base/reserve.h
rt_sources += runtime/base/lock.c runtime/base/lock.h
rt_sources += runtime/base/idle.c runtime/base/idle.h runtime/base/ticks.h runtime/base/ticks.c
rt_sources += runtime/base/hmac.c runtime/base/hmac.h
rt_sources += runtime/base/hwloc.c runtime/base/hwloc.h
rt_sources += runtime/base/stdio.c runtime/base/stdio.h
rt_sources += runtime/base/thread.c runtime/base/thread.h

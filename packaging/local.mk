# SPDX-License-Identifier: BSD-3-Clause
# Packages, each made from the release archive.  CONFIGURE='...': options of its configure.
EXTRA_DIST += packaging/pip/README.md packaging/pip/wheel.py test/rig/wheel

packages: wheel

# wheels/*.whl
wheel: dist
	rm -rf wheel wheels && mkdir -p wheel/build && tar -C wheel -xf $(distdir).tar.xz
	cd wheel/build && ../$(distdir)/configure --prefix=/usr/local $(CONFIGURE) >configure.log
	cd wheel/build && $(MAKE) -s && $(MAKE) -s install DESTDIR=`pwd`/../tree >install.log
	$(run_python) $(abs_srcdir)/packaging/pip/wheel.py wheel/tree/usr/local wheel/$(distdir) wheels $(PACKAGE_VERSION)
	rm -rf wheel

# In a fresh virtual environment with mpi4py of PyPI.
check-wheel:
	@command -v patchelf >/dev/null || { echo "wheel: skipped: patchelf is missing (apt-get install patchelf)"; exit 0; }; \
	$(MAKE) $(AM_MAKEFLAGS) wheel && { $(run_python) $(abs_srcdir)/test/rig/wheel wheels || test $$? = 77; }
.PHONY: packages wheel check-wheel

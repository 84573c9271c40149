# SPDX-License-Identifier: BSD-3-Clause
# Packages, each made from the release archive.  CONFIGURE='...': options of its configure.
EXTRA_DIST += packaging/README.md packaging/site.py packaging/pip/README.md packaging/pip/wheel.py packaging/debian packaging/container/Containerfile \
	packaging/container/mpijob.yaml packaging/rpm/weft-mpi.spec packaging/spack/package.py packaging/conda/meta.yaml \
	packaging/easybuild/weft-mpi-0.1.0-GCC-13.3.0.eb test/rig/wheel test/rig/packages test/rig/containers

packages: wheel
	@! command -v dpkg-buildpackage >/dev/null || $(MAKE) $(AM_MAKEFLAGS) deb

# debs/*.deb, with what packaging/debian/control says is needed.
deb: dist
	rm -rf deb debs && mkdir deb debs && tar -C deb -xf $(distdir).tar.xz
	cp $(distdir).tar.xz deb/weft-mpi_$(PACKAGE_VERSION).orig.tar.xz
	cp -R deb/$(distdir)/packaging/debian deb/$(distdir)/debian
	cd deb/$(distdir) && dpkg-buildpackage -us -uc >../build.log 2>&1 || { tail -n 30 ../build.log; exit 1; }
	mv deb/weft-mpi_* deb/*.deb debs/ && rm -rf deb

# wheels/*.whl
wheel: dist
	rm -rf wheel wheels && mkdir -p wheel/build && tar -C wheel -xf $(distdir).tar.xz
	cd wheel/build && ../$(distdir)/configure --prefix=/usr/local $(CONFIGURE) >configure.log
	cd wheel/build && $(MAKE) -s && $(MAKE) -s install DESTDIR=`pwd`/../tree >install.log
	$(run_python) $(abs_srcdir)/packaging/pip/wheel.py wheel/tree/usr/local wheel/$(distdir) wheels $(PACKAGE_VERSION)
	rm -rf wheel

# Built and tried in bare systems, as root.  PACKAGES='--debs debs bookworm' as the script's head says.  77 as above.
check-packages:
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_srcdir)/test/rig/packages $(PACKAGES) || test $$? = 77

# The cases of docs/CONTAINERS.md with Podman, as root.
check-containers: all
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_srcdir)/test/rig/containers || test $$? = 77

# The documents and manual pages as web pages in site/; mkdocs checks their links.
site: all
	@$(PYTHON) -c 'import mkdocs' 2>/dev/null || { echo "make site needs mkdocs: pip install mkdocs"; exit 1; }
	rm -rf site && $(run_python) $(abs_srcdir)/packaging/site.py . site

# In a fresh virtual environment with mpi4py of PyPI.
check-wheel:
	@command -v patchelf >/dev/null || { echo "wheel: skipped: patchelf is missing (apt-get install patchelf)"; exit 0; }; \
	$(MAKE) $(AM_MAKEFLAGS) wheel && { $(run_python) $(abs_srcdir)/test/rig/wheel wheels || test $$? = 77; }
.PHONY: packages wheel deb site check-wheel check-packages check-containers

